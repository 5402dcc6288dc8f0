"""What pyarrow reads of a block of lines is what is read line by line."""

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpsdk.data.delimited as delimited_module
import dpsdk.data.lines as lines_module
from dpsdk import Binned, Boolean, Categorical, Integer
from dpsdk.data.columns import Column, Kind
from dpsdk.data.delimited import FileFormat, read_delimited
from dpsdk.data.matching import make_matcher
from dpsdk.data.texts import TextFormat
from dpsdk.errors import DataError
from worlds import repeatable

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
