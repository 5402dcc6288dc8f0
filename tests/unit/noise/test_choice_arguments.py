"""What a weighted choice takes, what it refuses, and what nobody can make it believe."""

from fractions import Fraction

import numpy as np
import pytest
from exact_choice import OnBits

from dpsdk.errors import InvalidArgument
from dpsdk.noise.choice import Options
from dpsdk.testing import seeded

HALF = Fraction(1, 2)


@pytest.mark.parametrize("rate", [HALF, 0.5, "0.5", np.float64(0.5), Fraction(5, 10)])
def test_rates_are_read_as_everywhere(rate):
    levels = list(range(30))
    assert [seeded(k).pick(levels, rate) for k in range(20)] == [
        seeded(k).pick(levels, HALF) for k in range(20)
    ]


def test_all_kinds_of_levels_are_one():
    plain = [3, 0, 4, 1, 100, 5]
    kinds = [
        tuple(plain),
        bytes(plain),
        np.array(plain, dtype=np.int8),
        np.array(plain, dtype=np.uint64),
        np.array(plain, dtype=">i4"),
        np.array(plain, dtype=object),
        np.array([x for x in plain for _ in range(2)])[::2],
        [np.int16(x) for x in plain],
        [x + 10**40 for x in plain],
        np.array(plain, dtype=np.uint64) + np.uint64(2**64 - 101),
        np.array(plain) + np.iinfo(np.int64).min,
    ]
    for kind in kinds:
        assert Options.of(kind, 1, None).steps.tolist() == plain
        assert Options.of(kind, 1, None).steps.dtype == np.int64
    assert Options.of(range(2, 9, 3), 1, None).steps.tolist() == [0, 3, 6]
    low, high = np.int8(-128), np.int8(127)
    assert Options.of(np.array([low, high]), 1, None).steps.tolist() == [0, 255]
    assert Options.of([0, 2**62], 1, None).steps.tolist() == [0, 2**62]


# Arguments that are refused.

NOT_INTEGERS = [
    "12", "", None, 5, 1.5, {1: 2}, {1, 2}, iter([1]), [1, 2.0], [1, True], [True], [1, "2"],
    [None], [[1]], [Fraction(2)], np.array([1.0]), np.array([True]), np.array([[1]]), np.array(3),
    np.array(["1"]), np.array([1.5], dtype=object), np.array([1], dtype="m8[s]"), [np.bool_(1)],
]  # fmt: skip


@pytest.mark.parametrize("value", NOT_INTEGERS, ids=lambda value: repr(value).split(" at ")[0])
@pytest.mark.parametrize("parameter", ["levels", "multiplicities"])
def test_what_are_no_integers_is_refused(parameter, value):
    if parameter == "multiplicities" and value is None:
        return
    arguments = {"levels": [1], "multiplicities": None, parameter: value}
    with pytest.raises(InvalidArgument) as caught:
        seeded(1).pick(rate=HALF, **arguments)
    assert caught.value.parameter == parameter


OUT_OF_RANGE = {
    "levels": [
        [], np.array([], dtype=np.int64), [0, 2**62 + 1], np.array([-(2**62), 2**62]),
        np.array([0, 2**63], dtype=np.uint64), range(2**26 + 1), range(10**30),
        np.broadcast_to(np.int64(0), (10**12,)),
    ],
    "rate": [
        Fraction(-1, 3), -1, "x", float("nan"), float("inf"), True, None, Fraction(1, 2**1024),
        Fraction(-1, 10**5000), 2**1024,
    ],
    "multiplicities": [[], [1, 1, 1], [1], [0, 0], [1, -1], [1, 1 << (1 << 24)]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("parameter", "value"), [(name, one) for name, all_of in OUT_OF_RANGE.items() for one in all_of]
)
def test_arguments_out_of_range_are_refused(parameter, value):
    arguments = {"levels": [0, 1], "rate": HALF, "multiplicities": None, parameter: value}
    with pytest.raises(InvalidArgument) as caught:
        seeded(1).pick(**arguments)
    assert caught.value.parameter == parameter


def test_no_bit_is_taken_for_a_refused_choice():
    def none(count):
        raise AssertionError

    with pytest.raises(InvalidArgument):
        OnBits(none).pick([1, 2], HALF, [0, 0])


@pytest.mark.parametrize(
    "arguments",
    [
        ([123456, 123456 + 2**63], HALF, None),
        ([123456, 1.23456], HALF, None),
        ([123456, 2], HALF, [-123456, 1]),
        ([123456, 2], HALF, [123456]),
        (np.array([123456.0]), HALF, None),
    ],
)
def test_errors_show_no_level_and_no_multiplicity(arguments):
    with pytest.raises(InvalidArgument) as caught:
        seeded(1).pick(*arguments)
    assert "123456" not in str(caught.value).replace("2^62", "")
