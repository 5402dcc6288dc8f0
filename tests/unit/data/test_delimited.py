"""Text files: one line is one row, and what a line holds decides about that row only."""

import csv
import gzip
import io
import random
import sys
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tables_loaded import cells, from_bytes

import dpsdk.data.delimited as delimited_module
import dpsdk.data.lines as lines_module
from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.data.columns import Column, Kind
from dpsdk.data.delimited import FileFormat, read_delimited
from dpsdk.data.matching import make_matcher
from dpsdk.data.texts import TextFormat
from dpsdk.errors import DataError, InvalidArgument
from worlds import repeatable

AGE = Domain(Integer("age", 17, 20))
TWO = Domain(Integer("age", 17, 20), Categorical("sex", ["F", "M"]))
BAD_LINES = {
    "an open quote": b'"18,x,M',
    "an open quote in a column that nobody asked for": b'18,"x,M',
    "an open quote at the end": b'18,x,"M',
    "a text after a quote": b'18,"x"y,M',
    "a blank line": b"",
    "spaces": b"   ",
    "too few fields": b"18,x",
    "too many fields": b"18,x,M,1",
    "a bad byte in the value": b"18,x,M\xff",
    "a bad byte as the value": b"\xff,x,M",
    "NUL": b"18\0,x,M",
    "a very long value": b"1" * 200_000 + b",x,M",
    "a carriage return": b"18,x,\rM",
    "an integer of 5000 digits": b"9" * 5_000 + b",x,M",
    "half a UTF-8 sequence": b"18,x,M\xc3",
    "an end of file of DOS": b"\x1a",
    "other digits": "１８,x,M".encode(),
    "underscores": b"1_8,x,M",
}
GOOD_LINES = {
    "a bad byte in a column that nobody asked for": b"18,\xff\xfe,M",
    "NUL in a column that nobody asked for": b"18,\0,M",
    "a very long field that nobody asked for": b"18," + b"x" * 200_000 + b",M",
    "a quoted delimiter": b'18,"x,""y"",",M',
    "a quote inside": b'18,x"y,M',
    "a quoted value": b'"18",x,"M"',
}


@pytest.mark.thorough(quick=50)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", [*BAD_LINES, *GOOD_LINES])
def test_what_a_line_holds_decides_about_its_own_row_only(name, place, ending, tmp_path):
    line = {**BAD_LINES, **GOOD_LINES}[name]
    others = [b"17,x,F", b"20,,M"]
    content = ending.join([b"age,note,sex", *others[:place], line, *others[place:], b""])
    data = from_bytes(tmp_path, content, TWO)
    inside, outside = cells(data)
    expected = [1, 0, 0, 1 if name in GOOD_LINES else 0, 0, 0, 0, 1]
    assert (inside, outside) == (expected, 1 if name in BAD_LINES else 0)
    assert data.facts.rows == 3
    hidden = from_bytes(tmp_path, content, TWO, neighbors=Neighbors.ADD_REMOVE, max_rows=9)
    assert cells(hidden) == (inside, outside)


@pytest.mark.thorough
def test_a_gigantic_line_is_one_row_and_is_not_kept_in_memory(tmp_path):
    line = b"18," + b"x" * 2**24
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"age,note\n17,\n" + line + b"\n" + line + b"\n20,\n" + line, 1))
    tracemalloc.start()
    data = PrivateData.from_csv(path, AGE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cells(data) == ([1, 0, 0, 1], 3)
    assert peak < 2**23


@pytest.mark.parametrize("limit", [1, 4, 5, 6, 11])
@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 64])
def test_where_blocks_end_changes_nothing(block, limit, monkeypatch, tmp_path):
    content = b"n\n1\n\n12345\n\n22\r\n3"
    monkeypatch.setattr(lines_module, "_BLOCK", 1000)
    monkeypatch.setattr(lines_module, "LINE_LIMIT", limit)
    expected = cells(from_bytes(tmp_path, content, Domain(Integer("n", 0, 12345))))
    assert expected[1] == 2 + (limit < 5) + (limit < 3)
    monkeypatch.setattr(lines_module, "_BLOCK", block)
    assert cells(from_bytes(tmp_path, content, Domain(Integer("n", 0, 12345)))) == expected


LINES = st.lists(
    st.sampled_from([b"17,F", b'"18","M"', b"19", b"", b'"', b",", b'""', b"\xff", b"\r", b"F\x00"])
    | st.text('17,"\r Fé\t', max_size=6).map(str.encode)
    | st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")),
    min_size=1,
    max_size=6,
)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("given_format", [
    {}, {"strip": True}, {"encoding": "latin-1"}, {"encoding": "shift_jis"},
    {"encoding": "iso2022_jp"}, {"encoding": "utf-7"}, {"encoding": "gb18030"},
    {"delimiter": "F"}, {"delimiter": " ", "strip": True}, {"delimiter": "]"},
], ids=str)  # fmt: skip
def test_a_file_is_the_sum_of_its_lines(given_format, tmp_path):
    domain = Domain(Integer("age", 17, 20), Categorical("sex", ["F", "M", "other"], other="other"))
    header = given_format.get("delimiter", ",").join(["age", "sex"]).encode() + b"\n"

    @settings(repeatable, max_examples=30)
    @given(LINES)
    def holds(lines):
        content = header + b"".join(line + b"\n" for line in lines)
        data = from_bytes(tmp_path, content, domain, **given_format)
        total, rows = np.zeros(domain.size, dtype=int), 0
        for line in lines:
            inside, outside = cells(
                from_bytes(tmp_path, header + line + b"\n", domain, **given_format)
            )
            assert sum(inside) + outside == 1
            total += inside
            rows += outside
        assert cells(data) == (total.tolist(), rows)
        assert data.facts.rows == len(lines)

    holds()


def test_one_line_of_utf_16_moves_one_row(tmp_path):
    # Half a surrogate pair at the end of a line, and at the start of the next.
    broken = "age,sex\n17,F\n18,\ud800\n\udc00,M\n20,M\n".encode("utf-16-le", "surrogatepass")
    data = from_bytes(tmp_path, b"\xff\xfe" + broken, TWO, encoding="utf-16")
    assert cells(data) == ([1, 0, 0, 0, 0, 0, 0, 1], 2)
    odd = from_bytes(tmp_path, broken + b"7", TWO, encoding="utf-16-le")
    assert cells(odd) == cells(data)


def test_a_blank_line_of_a_one_column_file_is_a_row_as_in_the_column(tmp_path):
    values = ["17", None, "20", None, None]
    content = "age\n" + "".join(f"{value or ''}\n" for value in values)
    data = from_bytes(tmp_path, content.encode(), AGE)
    assert data.facts.rows == 5
    assert cells(data) == cells(PrivateData.from_columns({"age": values}, AGE)) == ([1, 0, 0, 1], 3)
    assert cells(PrivateData.from_frame(pl.DataFrame({"age": values}), AGE)) == cells(data)


def test_the_last_line_may_lack_its_end(tmp_path):
    for ending in (b"", b"\n", b"\r\n"):
        assert cells(from_bytes(tmp_path, b"age\n17\n20" + ending, AGE)) == ([1, 0, 0, 1], 0)
    assert cells(from_bytes(tmp_path, b"age\n17\n20\n\n", AGE)) == ([1, 0, 0, 1], 1)


def test_a_line_break_in_quotes_makes_two_rows_outside_and_frames_keep_it(tmp_path):
    domain = Domain(Integer("age", 17, 20))
    content = b'age,note\n17,a\n18,"one\ntwo"\n20,b\n'
    assert cells(from_bytes(tmp_path, content, domain)) == ([1, 0, 0, 1], 2)
    frame = pl.read_csv(io.BytesIO(content))
    assert cells(PrivateData.from_frame(frame, domain)) == ([1, 1, 0, 1], 0)


def test_spaces_are_kept_unless_told_otherwise(tmp_path):
    content = b' age , sex ,x\n17, F,\n18 ,M,\n 20 , "M" ,\n"19 ", F ,\n'
    with pytest.raises(DataError, match=r"no column 'age'.*the option strip"):
        from_bytes(tmp_path, content, TWO)
    data = from_bytes(tmp_path, content, TWO, strip=True)
    assert cells(data) == ([1, 0, 0, 1, 1, 0, 0, 1], 0)
    content = content.replace(b" age , sex ", b"age,sex")
    assert cells(from_bytes(tmp_path, content, TWO)) == ([0] * 8, 4)


@pytest.mark.parametrize(
    ("told", "texts", "expected"),
    [
        ({}, ["1000", "1,000", "1.000", "1000.0", "1e3", "1 000", "1_000"], [3, 4]),
        ({"thousands": ","}, ["1000", "1,000", "1,0", "10,00", ",100", "1,000.0"], [3, 3]),
        ({"decimal": ","}, ["1000", "1000,0", "1000.0", "1,000", "1e3", "0,1e4"], [4, 2]),
        ({"decimal": ",", "thousands": "."}, ["1.000", "1.000,0", "1000", "1.00"], [3, 1]),
        ({"thousands": "'"}, ["1'000", "1000", "1,000", "'1000"], [2, 2]),
        ({"thousands": "\u202f"}, ["1\u202f000", "1 000"], [1, 1]),
        ({"thousands": " ", "strip": True}, ["1 000", " 1000 ", "1  000"], [2, 1]),
    ],
    ids=str,
)  # fmt: skip
def test_separators_and_decimal_commas_are_told_and_never_guessed(told, texts, expected, tmp_path):
    expected = (expected[:1], expected[1])
    for domain in (
        Domain(Integer("n", 1000, 1000)),
        Domain(Binned("n", [1000, 1000.5])),
        Domain(Categorical("n", [1000])),
        Domain(Categorical("n", ["1000"])),
    ):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([["n"], *([text] for text in texts)])
        assert cells(from_bytes(tmp_path, out.getvalue().encode(), domain, **told)) == expected
        assert cells(PrivateData.from_columns({"n": texts}, domain, **told)) == expected
        frame = pl.DataFrame({"n": texts})
        assert cells(PrivateData.from_frame(frame, domain, **told)) == expected


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"strip": 1}, "strip"), ({"strip": None}, "strip"), ({"decimal": ";"}, "decimal"),
        ({"decimal": ""}, "decimal"), ({"decimal": None}, "decimal"),
        ({"thousands": "."}, "thousands"), ({"decimal": ",", "thousands": ","}, "thousands"),
        ({"thousands": "x"}, "thousands"), ({"thousands": ""}, "thousands"),
        ({"thousands": "0"}, "thousands"), ({"thousands": 3}, "thousands"),
    ],
)  # fmt: skip
def test_bad_options_are_named_by_every_door(given, parameter, tmp_path):
    for door in (
        lambda: from_bytes(tmp_path, b"age\n17\n", AGE, **given),
        lambda: PrivateData.from_columns({"age": [17]}, AGE, **given),
        lambda: PrivateData.from_frame(pl.DataFrame({"age": [17]}), AGE, **given),
    ):
        with pytest.raises(InvalidArgument) as caught:
            door()
        assert caught.value.parameter == parameter


WORDS = Domain(Categorical("größe", ["ä", "ß", "日本"]))


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "utf-8"), ("UTF8", "utf-8-sig"), ("utf-8-sig", "utf-8"), ("utf-8", "utf-8-sig"),
        ("utf-16", "utf-16"), ("utf-16", "utf-16-le"), ("utf-16-be", "utf-16-be"),
        ("utf_16_le", "utf-16-le"), ("gb18030", "gb18030"),
    ],
)  # fmt: skip
def test_encodings_and_byte_order_marks(encoding, written, tmp_path):
    text = "größe,x\nä,1\nß,2\n日本,3\r\n日本,4"
    data = from_bytes(tmp_path, text.encode(written), WORDS, encoding=encoding)
    assert cells(data) == ([1, 1, 2], 0)
    marked = "\ufeff" + text
    if not written.endswith(("-sig", "16")) and encoding != "gb18030":
        assert cells(from_bytes(tmp_path, marked.encode(written), WORDS, encoding=encoding)) == (
            [1, 1, 2],
            0,
        )


def test_delimiters_encodings_and_compression_are_declared(tmp_path):
    text = 'größe;x\nä;1\n"ß";2\n日本;3\n'
    data = from_bytes(tmp_path, text.encode(), WORDS, delimiter=";")
    assert cells(data) == ([1, 1, 1], 0)
    latin = text.replace("日本", "?").encode("latin-1")
    assert cells(from_bytes(tmp_path, latin, WORDS, delimiter=";", encoding="latin-1")) == (
        [1, 1, 0],
        1,
    )
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.replace(";", "\t").encode()))
    data = PrivateData.from_csv(str(tmp_path / "t.csv.gz"), WORDS, delimiter="\t")
    assert cells(data) == ([1, 1, 1], 0)


@pytest.mark.parametrize(
    "encoding",
    ["no-such", "rot13", "base64", "cp037", "utf-32", "idna", "punycode", "unicode_escape",
     "undefined", "", "\0", None, 3, "utf-8\0"],
)  # fmt: skip
def test_an_encoding_whose_lines_cannot_be_found_is_refused(encoding, tmp_path):
    with pytest.raises(InvalidArgument) as caught:
        from_bytes(tmp_path, b"age\n17\n", AGE, encoding=encoding)
    assert caught.value.parameter == "encoding"


@pytest.mark.parametrize("delimiter", [";;", "", "\n", "\r", '"', None, 3])
def test_a_delimiter_is_one_character(delimiter, tmp_path):
    with pytest.raises(InvalidArgument) as caught:
        from_bytes(tmp_path, b"age\n17\n", AGE, delimiter=delimiter)
    assert caught.value.parameter == "delimiter"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no column 'age' in the first line"),
        (b"17\n18\n", "no column 'age' in the first line"),
        (b"\nage\n17\n", "no column 'age' in the first line"),
        (b"age\r17\r18", "no column 'age' in the first line"),
        (b"age\n", "no rows"),
        (b"age", "no rows"),
        (b"age,x,age\n17,1,18\n", "has 2 columns 'age' in the first line"),
        (b'age,"x\n17,1\n', "a quote that does not close"),
        (b"age," + b"x" * 2**21 + b"\n17,\n", "first line is longer"),
    ],
)
def test_a_first_line_that_names_no_columns_is_refused(content, reason, tmp_path):
    with pytest.raises(DataError, match=reason):
        from_bytes(tmp_path, content, AGE)


def test_a_name_that_repeats_among_other_columns_is_no_trouble(tmp_path):
    assert cells(from_bytes(tmp_path, b"x,age,x,\n1,17,2,\n", AGE)) == ([1, 0, 0, 0], 0)


def test_files_that_cannot_be_opened_are_refused(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"age\n17\n" * 1000)[:-12])
    (tmp_path / "u.csv.gz").write_bytes(b"age\n17\n")
    for path in (tmp_path / "none.csv", tmp_path, tmp_path / "t.csv.gz", tmp_path / "u.csv.gz"):
        with pytest.raises(DataError):
            PrivateData.from_csv(path, AGE)
    with pytest.raises(DataError, match="cannot be opened"):
        PrivateData.from_csv("nul\0.csv", AGE, name="t")
    for path in (b"t.csv", 3, None):
        with pytest.raises(InvalidArgument, match="path"):
            PrivateData.from_csv(path, AGE)


@pytest.mark.parametrize("line", [*BAD_LINES.values(), b"99,x,M", b"17,x,?"])
def test_raising_refuses_any_line_outside(line, tmp_path):
    content = b"age,note,sex\n17,x,F\n" + line + b"\n"
    with pytest.raises(DataError, match="is outside the domain"):
        from_bytes(tmp_path, content, TWO, outside="raise")
    assert not from_bytes(tmp_path, content[:20], TWO, outside="raise").facts.outside


def test_reading_stops_at_the_declared_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "_BLOCK", 16)
    content = b"age\n" + b"17\n" * 1000
    for neighbors in Neighbors:
        assert from_bytes(tmp_path, content, AGE, neighbors=neighbors, max_rows=1000)
        with pytest.raises(DataError, match="more than max_rows=999 rows"):
            from_bytes(tmp_path, content, AGE, neighbors=neighbors, max_rows=999)


def test_a_field_that_is_lacking_is_outside_and_an_empty_one_is_missing(tmp_path):
    other = Domain(Integer("age", 17, 17), Categorical("sex", ["F", "rest"], other="rest"))
    assert cells(from_bytes(tmp_path, b'age,sex\n17\n17,\n17,""\n17,x\n', other)) == ([0, 1], 3)
    empty = Domain(Integer("age", 17, 17), Categorical("sex", ["F", ""]))
    assert cells(from_bytes(tmp_path, b'age,sex\n17\n17,\n17,""\n17,F\n', empty)) == ([1, 2], 1)


def test_texts_that_writers_of_tables_quote_come_back(tmp_path):
    # Everything but line breaks, by the csv module's own writer.
    generator = random.Random(5)
    alphabet = 'a",;\t\r é日"" '
    labels = sorted({"".join(generator.choices(alphabet, k=5)).strip() for _ in range(60)})
    domain = Domain(
        Categorical("c", [f"{i}{label}" for i, label in enumerate(labels)]), Boolean("b")
    )
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC):
        for delimiter in ",;\t| ":
            out = io.StringIO()
            writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\r\n")
            writer.writerows([["c", "b"], *([label, True] for label in domain["c"].labels)])
            data = from_bytes(tmp_path, out.getvalue().encode(), domain, delimiter=delimiter)
            assert cells(data) == ([0, 1] * len(labels), 0)


def test_what_cannot_be_decoded_is_no_text_to_any_label(tmp_path):
    labels = Categorical("c", ["\ufffd", "x\ufffd", "rest"], other="rest")
    content = b"c\n\xff\nx\xff\nx\n\xef\xbf\xbd\n"
    assert cells(from_bytes(tmp_path, content, Domain(labels))) == ([1, 0, 1], 2)
    lone = ["\ud800", "x\udcff", "x", None]
    assert cells(PrivateData.from_columns({"c": lone}, Domain(labels))) == ([0, 0, 1], 3)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("names", [["age", "", "sex"], ("age", "sex", "sex ")])
def test_a_file_without_a_header_is_read_by_names_that_are_told(mark, names, tmp_path):
    place = names.index("sex")
    rows = [["17", "", ""], ["20", "", ""], ["20"], ["20", "", "", "M"]]
    rows[0][place], rows[1][place] = "F", "M"
    content = "\n".join(map(",".join, rows)).encode()
    data = from_bytes(tmp_path, mark + content, TWO, header=names)
    assert cells(data) == ([1, 0, 0, 0, 0, 0, 0, 1], 2)
    gigantic = mark + b"1" * 2**21 + b",,\n" + content
    assert cells(from_bytes(tmp_path, gigantic, TWO, header=names))[1] == 3


@pytest.mark.parametrize("header", [["age"], ["age", "sex", "sex"], [], "age,sex", [1, 2], 3])
def test_a_header_that_names_no_columns_is_refused(header, tmp_path):
    with pytest.raises((DataError, InvalidArgument), match="header"):
        from_bytes(tmp_path, b"17,F\n", TWO, header=header)


quick = settings(repeatable, max_examples=30)
PIECES = [
    b",", b",", b",", b"\n", b"\n", b"\r\n", b"\r", b'"', b'""', b"\0", b"\xff", b"\xc3", b" ",
    b"17", b"18.0", b"-3", b"+4", b".5", b"7.", b"1e1", b"0.30", b"1,000", b"nan", b"inf", b"-0",
    "é".encode(), b"\xe9", b"F", b"Male", b"True", b"9" * 19, b"1" + b"0" * 17,
    b'"F"', b'"17"', b'"Male",', b"F,1\n", b"17,7,F,1\n", b"NULL", b"\\", b"'",
    b"a label of 19 bytes", b"x" * 64, b"y" * 65, b"\xef\xbb\xbf", b"\x85", b"\xc2\x85",
]  # fmt: skip
CONTENT = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=40).map(b"".join)
ROWS = st.lists(
    st.lists(st.sampled_from([one for one in PIECES if not {*b',\n\r"'} & {*one}]),
             min_size=4, max_size=4).map(b",".join),
    max_size=9,
).map(b"\n".join)  # fmt: skip
ATTRIBUTES = [
    Integer("n", -5, 20),
    Binned("b", [-3, 0.3, 7, 17]),
    Categorical("c", ["F", "Male", "é", "a label of 19 bytes", "x" * 64, "y" * 65, "7"], other="F"),
    Boolean("t", true=["True", "1"], false=["F"]),
]
FORMATS = [
    {}, {"strip": True}, {"encoding": "latin-1"}, {"encoding": "cp1252"}, {"decimal": ","},
    {"delimiter": " ", "strip": True}, {"thousands": ","}, {"delimiter": "7"},
    {"encoding": "ascii"}, {"delimiter": ".", "clip": True}, {"encoding": "utf-16-le"},
    {"encoding": "shift_jis"},
]  # fmt: skip


def read(path, names, delimiter=",", encoding="utf-8", clip=False, **given):
    texts = TextFormat(**given)
    wanted = FileFormat(delimiter, encoding, strip=texts.strip)
    chosen = [one for one in ATTRIBUTES if one.name in names]
    matchers = [make_matcher(one, texts, clip=clip) for one in chosen]
    try:
        found = read_delimited(str(path), wanted, matchers)
    except DataError as error:
        return error.reason
    return [codes.tolist() for codes in found]


@pytest.mark.parametrize("told", FORMATS, ids=str)
@pytest.mark.parametrize("titles", ["n,b,c,t", pytest.param("t", marks=pytest.mark.thorough)])
def test_blocks_are_read_as_their_lines(told, titles, tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    delimiter, encoding = told.get("delimiter", ","), told.get("encoding", "utf-8")
    header = titles.replace(",", delimiter).encode(encoding) + "\n".encode(encoding)

    @quick
    @given(CONTENT | ROWS, st.sampled_from([1, 7, 64, 2**19]), st.sampled_from([70, 2**20]))
    @example(b"", 64, 70)
    @example(b"\n17,7,F,1\n" * 3, 64, 70)
    @example(b"1,2,F," + b"y" * 66, 2**19, 70)
    @example(b"17,7,F,1\n" * 3, 2**19, 70)
    @example(b'"17","7","F","1"\r\n"","","",""\n"17",7,"F","1', 2**19, 70)
    @example(b'"17"\n"","F"\n"1""\n"""\r\n"\r"\n"F"\r\r\n"1"', 2**19, 70)
    def holds(content, block, limit):
        path.write_bytes(header + content)
        with monkeypatch.context() as patch:
            patch.setattr(lines_module, "_BLOCK", block)
            patch.setattr(lines_module, "LINE_LIMIT", limit)
            patch.setattr(delimited_module, "_LONG", 0)
            together = read(path, titles.split(","), **told)
            patch.setattr(delimited_module, "_LONG", 2**62)
            assert together == read(path, titles.split(","), **told)

    holds()


def test_plain_lines_are_read_by_pyarrow_and_without_it_the_same(tmp_path, monkeypatch):
    path, decoded = tmp_path / "table.csv", []
    path.write_bytes(b"n,x,c\r\n" + b"1,,F\r\n2,?,Male\r\n3,\xc3\xa9,\r\n" * 9)
    plain = delimited_module.decoded_lines
    monkeypatch.setattr(
        delimited_module, "decoded_lines", lambda *given: decoded.append(given[0]) or plain(*given)
    )
    expected = [[6, 7, 8] * 9, [0, 1, -1] * 9]
    monkeypatch.setattr(delimited_module, "_LONG", 0)
    assert read(path, ["n", "c"]) == expected
    assert decoded == [b"n,x,c\r"]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read(path, ["n", "c"]) == expected
    assert len(decoded) == 3


TEXTS = ["F", "Male", "é", "\u0100", "\u2713", "\U0001f600", "", "a\0b", "ab", "7", "7.0", "nan",
         "a label of 19 bytes", "x" * 64, "y" * 65, "x" * 63 + "\u0100", "y" * 80]  # fmt: skip


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=repr)
def test_arrays_of_texts_are_read_as_their_texts(attribute):
    matcher = make_matcher(attribute, TextFormat(), clip=False)
    for kept in (TEXTS, [text for text in TEXTS if len(text) < 20], ["F", "7"], [""], []):
        given = np.array(kept * 3, dtype=str)
        for array in (given, given[::-2], given.astype(given.dtype.newbyteorder())):
            found = matcher.encode(Column(Kind.TEXT, array))
            assert found.tolist() == [matcher.text(text) for text in array.tolist()]
