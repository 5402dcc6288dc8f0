"""The codec: one text for each value, strict reading, and records of 0.1 read for good."""

import json
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import codec
from dpsdk.accounting import (
    Anytime,
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    RenyiComposition,
    State,
    default_composition,
)
from dpsdk.accounting.filters.composition import NEVER_OPEN
from dpsdk.errors import RecordError, WireError

RECORDS = [
    (Budget("0.1", "1e-9"), {"tag": "budget.1", "epsilon": "1/10", "delta": "1/1000000000"}),
    (Anytime("1e-6", "0.02"), {"tag": "anytime.1", "delta": "1/1000000", "around": "1/50"}),
    (
        DiscreteGaussianGuarantee("4.5", 4, 2, claim=(1, "1e-6")),
        {
            "tag": "guarantee.discrete-gaussian.1",
            "variance": "9/2",
            "shift_squared": "4",
            "shift_max": "2",
            "claim": [["1", "1/1000000"]],
        },
    ),
    (
        default_composition(),
        {
            "tag": "composition.any-of.1",
            "members": [
                {"tag": "composition.basic.1"},
                {"tag": "composition.envelope.1", "leak_share": "0"},
                {"tag": "composition.mixed.1", "leak_share": "0"},
            ],
            "weights": [["0", "997", "3"]],
            "leak_share": "1/500",
        },
    ),
    (RenyiComposition(30), {"tag": "composition.renyi.1", "order": "30", "leak_share": "0"}),
    (
        DiscreteLaplaceGuarantee(10, 1),
        {"tag": "guarantee.discrete-laplace.1", "scale": "10", "shift": "1"},
    ),
    (
        ApproximateGuarantee("0.1", 0),
        {"tag": "guarantee.approximate.1", "epsilon": "1/10", "delta": "0"},
    ),
    (BoundedRangeGuarantee(1), {"tag": "guarantee.bounded-range.1", "eta": "1"}),
    (
        State((0,), (5,), (None, NEVER_OPEN), 3),
        {
            "tag": "state.1",
            "spent": ["0"],
            "limit": ["5"],
            "parts": ["closed", "never"],
            "reach": "3",
        },
    ),
]
"""Values, and what 0.1 wrote of them. Never edit these."""


@pytest.mark.parametrize(("value", "record"), RECORDS, ids=lambda one: type(one).__name__)
def test_records_of_an_earlier_version_are_read(value, record):
    assert codec.from_record(type(value), json.loads(json.dumps(record))) == value
    today = codec.to_record(value)
    assert codec.from_record(type(value), json.loads(codec.canonical(today))) == value
    for name in record:
        for wrong in (None, 1, True, {}, ["1", "2", "3"], "007", "-1", "2/4", "nan", b"1"):
            with pytest.raises(RecordError):
                codec.from_record(type(value), record | {name: wrong})
        with pytest.raises(RecordError):
            codec.from_record(type(value), {key: record[key] for key in record if key != name})
    with pytest.raises(RecordError):
        codec.from_record(type(value), record | {"more": "1"})


@pytest.mark.parametrize("number", [0, 7, -7, 2**4095, 2**4096, -(2**60_000)], ids=int.bit_length)
def test_integers_of_any_size_have_one_spelling(number):
    book = codec.Codebook()
    text = codec.WHOLE.write(number, "$", book)
    assert codec.WHOLE.read(text, "$", book) == number
    for wrong in (f"+{text}", f" {text}", f"0{text}", text.upper() + "\n", number, f"{text}.0"):
        with pytest.raises(WireError):
            codec.WHOLE.read(wrong, "$", book)


def test_the_largest_amounts_that_are_written_are_read():
    book = codec.Codebook()
    for bits in (4095, 4096, 4097, 60_000):
        amount = Fraction(2**bits - 1, 2 ** (bits - 1))
        assert codec.AMOUNT.read(codec.AMOUNT.write(amount, "$", book), "$", book) == amount
    with pytest.raises(WireError, match="fewer digits"):
        codec.AMOUNT.write(Fraction(2**120_000, 3**60_000), "$", book)


def test_rows_of_numbers_are_packed_exactly():
    book = codec.Codebook()
    for count in (0, 1, 4096, 4097, 9000):
        floats = np.linspace(-1, 1, count)
        plain = codec.PACKED_FLOATS.write(floats, "$", book)
        assert np.array_equal(codec.PACKED_FLOATS.read(plain, "$", book), floats)
    plain = codec.PACKED_INTS.write(np.array([-1, 2**62]), "$", book)
    assert codec.PACKED_INTS.read(plain, "$", book).tolist() == [-1, 2**62]
    for wrong in ("00", ["0"], ["0" * 15], ["G" * 16], [""], [1], None):
        with pytest.raises(WireError):
            codec.PACKED_FLOATS.read(wrong, "$", book)
