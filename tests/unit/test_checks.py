import gc
import warnings
from decimal import Decimal, localcontext
from enum import Enum, IntEnum
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsdk import Domain, Integer, Neighbors, PrivateData
from dpsdk._arrays import frozen_copy
from dpsdk._checks import (
    described,
    read_decimal,
    read_whole,
    shown,
    to_amount,
    to_array,
    to_beta,
    to_count,
    to_delta,
    to_finite,
    to_fraction,
    to_integer,
    to_name,
    to_positive,
    to_probability,
)
from dpsdk.errors import InvalidArgument, TooLarge
from worlds import repeatable

READ = {
    "0": 0,
    "7": 7,
    "+7": 7,
    "-7": -7,
    "007": 7,
    "0.10": Fraction(1, 10),
    ".5": Fraction(1, 2),
    "5.": 5,
    "1e-3": Fraction(1, 1000),
    "1E3": 1000,
    "1e+3": 1000,
    "-.5e1": -5,
    "1.5e0": Fraction(3, 2),
    "-0": 0,
    "0e9999": 0,
    "1e2000": 10**2000,
    "1e-1999": Fraction(1, 10**1999),
    "0." + "1" * 4000: Fraction(int("1" * 4000), 10**4000),
}

REFUSED = [
    "", " ", "1 ", " 1", "1\n", "\t1", "1 000", "1,5", "1,000", "1_000", "1__0", "1'000", "1e",
    "e3", "1e1.5", "1.2.3", "--1", "+-1", "1-", ".", "-.", "-", "+", "1e_3", "0x10", "0b1", "1/3.0",
    "1%", "£1", "nan", "NaN", "sNaN", "inf", "-Infinity", "infinity", "True", "None", "\u0663",
    "\u0967.5", "\uff11", "1\u00b2", "\u2212" + "1", "1\u200b", "\ufeff1", "1\x00", "\ud800",
    "1e2001", "1e-2001", "1e99999", "1e-99999", "0." + "1" * 5000, "1" * 5000, "0" * 5000 + "1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ.items(), ids=lambda v: str(v)[:12])
def test_plain_decimals_are_read_exactly(text, expected):
    assert to_fraction("x", text) == expected
    assert Fraction(read_decimal(text)) == expected
    whole = Fraction(expected).denominator == 1
    assert read_whole(text) == (expected if whole else None)


@pytest.mark.parametrize("text", REFUSED, ids=lambda v: ascii(v)[:12])
def test_every_other_spelling_is_refused(text):
    assert read_decimal(text) is None
    assert read_whole(text) is None
    with pytest.raises(InvalidArgument) as caught:
        to_fraction("width", text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.thorough
@repeatable
@given(st.text(max_size=12))
def test_what_is_read_is_ascii_and_python_reads_it_alike(text):
    number = read_decimal(text)
    if number is not None:
        assert text.isascii()
        assert number == Decimal(text)


def test_the_precision_of_the_caller_changes_no_number():
    with localcontext() as context:
        context.prec = 3
        assert to_fraction("x", "1.23456789") == Fraction(123456789, 10**8)
        assert to_fraction("x", Decimal("1.23456789")) == Fraction(123456789, 10**8)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (0.1, Fraction(1, 10)),
        (Decimal("2.50"), Fraction(5, 2)),
        (-2, -2),
        (10**30, 10**30),
        (Fraction(1, 3), Fraction(1, 3)),
        (1e-7, Fraction(1, 10**7)),
        (-0.0, 0),
        (5e-324, Fraction("5e-324")),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.1), Fraction(1, 10)),
        (np.longdouble("0.1"), Fraction(1, 10)),
        (np.float32(16777216), 16777216),
        (np.float32(1e-45), Fraction("1e-45")),
        (np.float16(65504), 65500),
        (np.float32(3.4028235e38), Fraction("3.4028235e38")),
        (np.int32(7), 7),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.int8(-128), -128),
        (Decimal("1e-1999"), Fraction(1, 10**1999)),
        (Fraction(1, 10**5000), Fraction(1, 10**5000)),
    ],
)
def test_numbers_are_the_decimals_that_they_print_as(value, expected):
    number = to_fraction("x", value)
    assert number == expected
    assert (type(number), type(number.numerator), type(number.denominator)) == (Fraction, int, int)


@repeatable
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_is_read_as_its_text(value):
    assert float(to_fraction("x", value)) == value
    assert to_fraction("x", value) == to_fraction("x", repr(value))


@repeatable
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_every_narrow_float_is_the_decimal_that_numpy_prints(value):
    narrow = np.float32(value)
    assert to_fraction("x", narrow) == Fraction(str(narrow))
    assert np.float32(float(to_fraction("x", narrow))) == narrow


BAD = [
    float("nan"), float("inf"), None, True, False, np.True_, 1j, np.complex64(1), [1], b"1",
    object(), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), np.float32("nan"),
    np.longdouble("inf"), np.timedelta64(3, "D"), np.datetime64(3, "D"), np.array(1),
    np.array([1.0]), Decimal("1e9999999"), 10**10**5, Decimal("1e-9999999"),
    Fraction(10**10**5, 3), Fraction(1, 10**10**5), "x", "nan", "1/ 3", range(3),
]  # fmt: skip


@pytest.mark.parametrize("value", BAD, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("read", [to_fraction, to_positive, to_probability, to_amount])
def test_what_is_no_finite_number_is_refused(value, read):
    with pytest.raises(InvalidArgument) as caught:
        read("width", value)
    assert caught.value.parameter == "width"
    assert "width must be" in str(caught.value)
    assert len(str(caught.value)) < 250


# Classes that add nothing to the one that they extend.
Int, Float, Text, Amount, Narrow, Wide = (
    type(name, (kind,), {"__slots__": ()})
    for name, kind in {
        "Int": int, "Float": float, "Text": str, "Amount": Decimal, "Narrow": np.float32,
        "Wide": np.int64,
    }.items()
)  # fmt: skip


@pytest.mark.parametrize(
    "value", [Int(3), Float(3), Text("3"), Amount(3), Narrow(3), Wide(3)], ids=repr
)
def test_numbers_of_other_classes_are_read_as_the_built_in_that_they_extend(value):
    number = to_fraction("x", value)
    assert number == Fraction(3)
    assert (type(number), type(number.numerator), type(number.denominator)) == (Fraction, int, int)


class Whole(IntEnum):
    THREE = 3


def test_positive_numbers_and_probabilities_have_their_ranges():
    assert to_positive("x", "1e-300") > 0
    for value in (0, -1, -0.0, "0.0"):
        with pytest.raises(InvalidArgument, match="positive"):
            to_positive("x", value)
    assert to_probability("x", 0.5) == Fraction(1, 2)
    assert to_probability("x", 0, zero=True) == 0
    for value in (0, 1, -0.1, 1.5):
        with pytest.raises(InvalidArgument, match="strictly between"):
            to_probability("x", value)
    for value in (1, -0.1):
        with pytest.raises(InvalidArgument, match="in \\[0, 1\\)"):
            to_probability("x", value, zero=True)


def test_amounts_that_clients_ask_for_are_bounded():
    for value in ("1e-100", "1e100", Fraction(1, 3), 0.1, "0." + "1" * 150):
        assert to_amount("x", value) == Fraction(value if isinstance(value, str) else str(value))
    for value in ("1e-101", "1.1e100", 0, -1, "0." + "1" * 200, 10**400, Fraction(1, 3**400)):
        with pytest.raises(InvalidArgument, match="x must be a positive finite number"):
            to_amount("x", value)
    assert to_delta(0, zero=True) == 0
    assert to_delta("1e-300") == Fraction(1, 10**300)
    for value in ("1e-301", 1, Fraction(1, 3**2000)):
        with pytest.raises(InvalidArgument, match="delta"):
            to_delta(value)
    with pytest.raises(InvalidArgument, match="delta"):
        to_delta(0)


@pytest.mark.parametrize(
    "value",
    [3, np.int8(3), np.uint64(3), Int(3), Wide(3), Whole.THREE],
    ids=lambda v: type(v).__name__,
)
def test_integers_are_plain_ones_afterwards(value):
    for read in (to_integer, to_count, to_finite):
        number = read("x", value)
        assert type(number) is int
        assert number == 3


@pytest.mark.parametrize(
    "value",
    [
        3.0,
        "3",
        True,
        np.True_,
        None,
        Fraction(3),
        Decimal(3),
        np.timedelta64(3, "D"),
        np.float32(3),
    ],
)
def test_what_is_no_integer_is_refused_even_where_it_is_whole(value):
    with pytest.raises(InvalidArgument, match="an integer"):
        to_integer("x", value)
    with pytest.raises(InvalidArgument, match="an integer"):
        to_count("x", value)


@pytest.mark.thorough
def test_integers_are_bounded_and_told_by_their_size():
    assert to_integer("x", -(2**1000)) == -(2**1000)
    assert to_count("x", 2**63 - 1) == 2**63 - 1
    assert to_count("x", 10**5000, bits=None) == 10**5000
    for read, value in ((to_integer, 10**400), (to_integer, -(10**10**6)), (to_count, 2**63)):
        with pytest.raises(InvalidArgument, match="below 2\\^"):
            read("x", value)
    for value in (0, -1):
        with pytest.raises(InvalidArgument, match="at least 1"):
            to_count("x", value)


def test_numbers_to_compare_with_are_integers_or_floats():
    assert to_finite("x", 2**60 + 1) == 2**60 + 1
    for value, expected in ((np.float32(0.1), 0.1), (Fraction(1, 4), 0.25), (Float(2.5), 2.5)):
        assert type(to_finite("x", value)) is float
        assert to_finite("x", value) == expected
    huge = np.longdouble("1e400")
    for value in (10**400, -(10**400), "1", float("nan"), huge, Fraction(10**400), True):
        with pytest.raises(InvalidArgument, match="x must be a finite number"):
            to_finite("x", value)


@pytest.mark.parametrize("value", ["", "  ", None, 3, b"x", "\ud800", "a\udfffb", "x" * 1001])
def test_names_are_short_texts_with_something_in_them(value):
    assert to_name("x", "a b") == "a b"
    with pytest.raises(InvalidArgument, match=r"x must be a.* text") as caught:
        to_name("x", value)
    str(caught.value).encode()


def test_a_name_is_a_plain_text_whatever_its_class():
    name = Text("age")
    assert type(to_name("x", name)) is str
    assert to_name("x", name) == "age"


@pytest.mark.parametrize(
    "value",
    [0, 1, -0.1, 2, float("nan"), float("inf"), "0.5", True, None, 10**400, Fraction(1, 10**400)],
)
def test_beta_is_strictly_between_0_and_1(value):
    assert to_beta(np.float64(0.25)) == 0.25
    assert to_beta(Fraction(1, 2)) == 0.5
    assert to_beta(np.float32(0.05)) == 0.05
    assert type(to_beta(Float(0.25))) is float
    with pytest.raises(InvalidArgument, match="beta"):
        to_beta(value)


def test_long_arguments_are_cut_short():
    assert shown("abc") == "'abc'"
    assert len(shown("x" * 1000)) == 80
    assert shown("x" * 1000).endswith("...")


def nested(kind, depth):
    value = kind()
    for _ in range(depth):
        value = kind([value])
    return value


class Loud:
    def __init__(self, answer):
        self._answer = answer

    def __repr__(self):
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


class Endless:
    def __repr__(self):
        return f"<{self!r}>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "None"),
        (True, "True"),
        (12, "12"),
        (-(10**200), "-1" + "0" * 75 + "..."),
        (10**10**6, "<an integer of 3,321,929 bits>"),
        (np.float32(0.5), "np.float32(0.5)"),
        (np.float64(0.5), "0.5"),
        (Fraction(1, 3), "Fraction(1, 3)"),
        ([1, "a"], "[1, 'a']"),
        ((), "()"),
        ((1,), "(1,)"),
        ({}, "{}"),
        (set(), "set()"),
        (frozenset({1}), "frozenset({1})"),
        ({1: "x"}, "{1: 'x'}"),
        ([10**10**6], "[<an integer of 3,321,929 bits>]"),
        (list(range(10)), "[0, 1, 2, 3, 4, 5, ...]"),
        (nested(list, 10**5), "[[[[...]]]]"),
        (nested(tuple, 10**5), "((((...,),),),)"),
        (Fraction(1, 10**10**5), "Fraction(1, <an integer of 332,193 bits>)"),
        (range(10**5000), "a value of class range"),
        ("\ud800", "'\\ud800'"),
        (b"\xff", "b'\\xff'"),
        (Loud("\ud800 a\n   b"), "\\ud800 a b"),
        (Loud(RuntimeError()), "a value of class Loud"),
        (Loud(MemoryError()), "a value of class Loud"),
        (Endless(), "a value of class Endless"),
        (Text("x"), "'x'"),
        (Int(3), "3"),
        (Loud(Text("x")), "x"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_whatever_is_handed_in_can_be_shown(value, expected):
    if isinstance(value, np.float32) and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        expected = "0.5"
    assert shown(value) == expected
    shown(value).encode()


def test_an_interrupt_is_not_taken_for_a_value_that_cannot_be_shown():
    with pytest.raises(KeyboardInterrupt):
        shown(Loud(KeyboardInterrupt()))


def test_descriptions_are_plain_and_short():
    assert described(Loud("abc")) == "abc"
    assert len(described(Loud("x" * 10**6))) == 1000
    assert type(described(Loud(Text("x")))) is str


@pytest.mark.thorough
def test_what_is_nested_deep_can_be_thrown_away():
    value = nested(list, 10**5)
    shown(value)
    del value
    gc.collect()


@pytest.mark.parametrize(
    "handed",
    [
        [1, 2],
        (True, 2),
        np.array([1, 2], dtype=np.uint8),
        np.array([1, 2], dtype=">f4"),
        np.array([1, 2], dtype=np.longdouble),
        np.array([Fraction(1), 2.0], dtype=object),
        np.ma.array([1, 2]),
        np.array([1, 9, 2])[::2],
    ],
)
def test_arrays_of_real_numbers_are_copied_whatever_their_type(handed):
    array = to_array("values", handed, "numbers")
    assert array.dtype == np.float64
    assert array.tolist() == [1, 2]
    assert array.flags.c_contiguous
    array[0] = 7
    assert next(iter(handed)) == 1
    still = frozen_copy(array)
    assert still.tolist() == [7, 2]
    assert not still.flags.writeable


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise KeyError("values")


@pytest.mark.parametrize(
    "handed",
    [
        "1", ["1", "2"], [b"1"], [1, "2"], [[1], [2, 3]], 1j, np.array([1 + 2j]), [object()],
        [10**400], np.zeros(1, dtype=[("a", float)]), np.ma.array([1, 2], mask=[False, True]),
        np.array([1], dtype="M8[D]"), np.array([1], dtype="m8[s]"), Unreadable(),
    ],
)  # fmt: skip
def test_what_numpy_would_read_as_numbers_and_is_none_is_refused(handed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidArgument) as caught:
            to_array("values", handed, "an array of numbers")
    assert caught.value.parameter == "values"


def test_an_array_that_no_memory_holds_is_refused_unread():
    with pytest.raises(TooLarge):
        to_array("values", np.broadcast_to(0.0, (2**40, 2)), "an array of numbers")


def test_a_value_of_another_import_of_the_package_says_to_restart():
    domain = Domain(Integer("age", 0, 3))
    old = Enum("Neighbors", {"ADD_REMOVE": "add-remove"}, module=Neighbors.__module__)
    with pytest.raises(InvalidArgument, match=r"ADD_REMOVE.*another import of dpsdk: restart"):
        PrivateData.from_columns({"age": [1]}, domain, neighbors=old.ADD_REMOVE)
    assert "another import" not in shown(Neighbors.ADD_REMOVE)
