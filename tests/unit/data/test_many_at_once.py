"""What is read many at once is what is read one by one."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpsdk.data.delimited as delimited_module
import dpsdk.data.encode as encode_module
import dpsdk.data.lines as lines_module
import dpsdk.data.seen as seen_module
from dpsdk import Binned, Boolean, Categorical, Integer
from dpsdk.data.columns import Column, Kind
from dpsdk.data.delimited import FileFormat, read_delimited
from dpsdk.data.digits import cells_of, read_decimals
from dpsdk.data.matching import matcher_of
from dpsdk.data.seen import LONGEST, Seen, words_of
from dpsdk.data.texts import TextFormat
from dpsdk.errors import DataError
from worlds import repeatable

pytestmark = pytest.mark.thorough

quick = settings(repeatable, max_examples=150)

PIECES = [
    b",", b",", b",", b"\n", b"\n", b"\r\n", b"\r", b'"', b'""', b"\0", b"\xff", b"\xc3", b" ",
    b"17", b"18.0", b"-3", b"+4", b".5", b"7.", b"1e1", b"0.30", b"1,000", b"nan", b"inf", b"-0",
    "é".encode(), b"\xe9", b"F", b"Male", b"True", b"9" * 19, b"1" + b"0" * 17,
    b'"F"', b'"17"', b'"Male",', b',"', b'",', b'"\n', b'"\r\n"',
    b"a label of 19 bytes", b"x" * 64, b"y" * 65, b"\xef\xbb\xbf", b"\x85", b"\xc2\x85",
]  # fmt: skip
CONTENT = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=40).map(b"".join)
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
    wanted = FileFormat(delimiter, encoding, texts.strip, None, complete=False)
    chosen = [one for one in ATTRIBUTES if one.name in names]
    matchers = [matcher_of(one, texts, clip=clip) for one in chosen]
    try:
        found = read_delimited(str(path), wanted, matchers, lambda _: None)
    except DataError as error:
        return error.reason
    return [codes.tolist() for codes in found]


@pytest.mark.parametrize("told", FORMATS, ids=str)
@pytest.mark.parametrize("titles", ["n,b,c,t", pytest.param("t", marks=pytest.mark.audit)])
def test_lines_cut_together_are_lines_cut_one_by_one(told, titles, tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    delimiter, encoding = told.get("delimiter", ","), told.get("encoding", "utf-8")
    header = titles.replace(",", delimiter).encode(encoding) + "\n".encode(encoding)

    @settings(quick, max_examples=30)
    @given(CONTENT, st.sampled_from([1, 7, 64, 2**19]), st.sampled_from([70, 2**20]))
    @example(b"", 64, 70)
    @example(b"\n17,7,F,1\n" * 3, 64, 70)
    @example(b'"17","7","F","1"\r\n"","","",""\n"17",7,"F","1', 2**19, 70)
    @example(b'"17"\n"","F"\n"1""\n"""\r\n"\r"\n"F"\r\r\n"1"', 2**19, 70)
    def holds(content, block, limit):
        path.write_bytes(header + content)
        with monkeypatch.context() as patch:
            patch.setattr(lines_module, "_BLOCK", block)
            patch.setattr(lines_module, "LINE_LIMIT", limit)
            patch.setattr(delimited_module, "_SHORT", 0)
            together = read(path, titles.split(","), **told)
            patch.setattr(delimited_module, "is_cut_by_bytes", lambda *_: False)
            assert together == read(path, titles.split(","), **told)

    holds()


def test_regular_lines_are_cut_together(tmp_path, monkeypatch):
    """All others are few here, so that what is tested above is the quick way."""
    path, texts = tmp_path / "table.csv", []
    lines = b'1,F\n"2","Male"\n"3",F\r\n4\n\n5,F,6\n"7","Ma""le"\n"8,F"\n9,"F"\r\n""",""\n'
    path.write_bytes(b"n,c\n" + lines * 50 + b'6,"7"')
    plain = delimited_module.decoded
    monkeypatch.setattr(delimited_module, "_SHORT", 0)
    monkeypatch.setattr(delimited_module, "decoded", lambda *a: texts.append(a[0]) or plain(*a))
    assert read(path, ["n", "c"]) == [
        [6, 7, 8, 9, -1, -1, 12, -1, 14, -1] * 50 + [11],
        [0, 1, 0, -1, -1, -1, 0, -1, 0, -1] * 50 + [6],
    ]
    assert set(texts) == {
        b"n,c", b"4", b"", b"5,F,6", b'"7","Ma""le"', b'"8,F"', b'""",""'
    }  # fmt: skip


def parts(strings):
    """Byte strings in one buffer, between bytes that belong to none of them."""
    buffer = b";".join([b"", *strings, b""]) + b"\xff" * LONGEST
    lengths = np.array([len(string) for string in strings], dtype=np.int64)
    starts = 1 + np.concatenate(([0], np.cumsum(lengths + 1)[:-1])).astype(np.int64)
    return np.frombuffer(buffer, np.uint8), starts, lengths


NUMBERS = [
    "0", "-0", "17", "007", "-5", "-6", "20", "21", "20.0", "20.5", "-5.5", "0.3", "0.30",
    "0.29999", "17.", ".3", "-.3", ".", "-", "--1", "1.2.3", "", "+1", "1e1", "9" * 18, "9" * 19,
    "0." + "0" * 17, "0." + "3" * 17, "0.3" + "0" * 16, "1" * 17 + ".5", "-" + "9" * 18,
    " 1", "1 ", "\xb2", "inf",
    "17.0000000001", "16.9999999999", "7" + "0" * 17,
]  # fmt: skip
EDGES = [
    [-3, 0.3, 7, 17], [0, 1e300], [-1e300, 5e-324], [0.1, 0.2, 0.30000000000000004],
    [-1e18, 1e18], [16.9999999999, 17.0000000001], [9.5e17, 9.6e17],
]  # fmt: skip


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(
    "attribute",
    [
        Integer("n", -5, 20),
        Integer("n", 10**17, 10**18 + 5),
        Integer("n", -(2**62) + 1, 2**62 - 1),
        *(Binned("b", edges) for edges in EDGES),
    ],
    ids=repr,
)
def test_decimals_are_the_numbers_that_they_spell(attribute, clip):
    matcher = matcher_of(attribute, TextFormat(), clip=clip)
    rng = np.random.default_rng(1)
    texts = [*NUMBERS, *(f"{rng.integers(-30, 30)}.{rng.integers(0, 1000)}" for _ in range(200))]
    texts += [f"{edge:f}" for edge in map(Decimal, map(str, getattr(attribute, "edges", [])))]
    found = read_decimals(*parts([text.encode("latin-1") for text in texts]))
    cells = cells_of(matcher)
    assert cells is not None
    numbers = cells(found)
    for text, plain, cell in zip(texts, found.plain, numbers.tolist(), strict=True):
        if plain:
            assert cell == matcher.text(text), text
    assert found.plain.tolist()[: len(NUMBERS)] == [
        text.lstrip("-").replace(".", "", 1).isdigit()
        and text.isascii()
        and not text.startswith("--")
        and len(text.strip("-").replace(".", "")) <= 18
        for text in NUMBERS
    ]


def test_other_numbers_are_read_one_by_one():
    for attribute, texts in (
        (Integer("n", -(2**70), 2**70), TextFormat()),
        (Integer("n", 0, 9), TextFormat(decimal=",")),
        (Categorical("c", ["1", "2"]), TextFormat()),
    ):
        assert cells_of(matcher_of(attribute, texts, clip=False)) is None


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_byte_strings_are_told_apart_however_few_slots_there_are(bits, monkeypatch):
    monkeypatch.setattr(seen_module, "_FEW", bits)
    monkeypatch.setattr(seen_module, "_MANY", max(bits, 3))
    rng, seen = np.random.default_rng(bits), Seen()
    known = [rng.integers(1, 256, n % (LONGEST + 1), dtype=np.uint8).tobytes() for n in range(90)]
    known += [b"a", b"a" * 8, b"a" * 9, b"a" * 16, b"", b"\x01"]
    for size in (1, 40, 300, 3):
        chosen = rng.integers(0, len(known), size)
        buffer, starts, lengths = parts([known[n] for n in chosen])

        def number(places, chosen=chosen):
            return chosen[places]

        found = seen.numbers(words_of(buffer, starts, lengths), number)
        # Equal byte strings may have several numbers here, and so are compared by themselves.
        assert [known[n] for n in found] == [known[n] for n in chosen]


def test_what_was_met_is_not_asked_for_again():
    seen, asked = Seen(), []
    strings = [b"Female", b"Male", b"a label of 19 bytes"] * 20

    def number(places):
        asked.extend(places.tolist())
        return np.array([len(strings[place]) for place in places])

    for _ in range(3):
        found = seen.numbers(words_of(*parts(strings)), number)
        assert found.tolist() == [len(string) for string in strings]
    assert len(asked) == 3


TEXTS = ["F", "Male", "é", "\u0100", "\u2713", "\U0001f600", "", "a\0b", "ab", "7", "7.0", "nan",
         "a label of 19 bytes", "x" * 64, "y" * 65, "x" * 63 + "\u0100", "y" * 80]  # fmt: skip


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=repr)
def test_arrays_of_texts_are_read_as_their_texts(attribute, monkeypatch):
    monkeypatch.setattr(encode_module, "_TOGETHER", 3)
    matcher = matcher_of(attribute, TextFormat(), clip=False)
    for kept in (TEXTS, [text for text in TEXTS if len(text) < 20], ["F", "7"], [""], []):
        given = np.array(kept * 3, dtype=str)
        for array in (given, given[::-2], given.astype(given.dtype.newbyteorder())):
            found = encode_module.encode(matcher, Column(Kind.TEXT, array))
            assert found.tolist() == [matcher.text(text) for text in array.tolist()]
