"""Records: one spelling for each value, and nothing else is read."""

import json
import re
from copy import deepcopy
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsdk import codec
from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    Anytime,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    Charge,
    Composition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    Guarantee,
    GuaranteeByPeriod,
    MixedComposition,
    Payer,
    PureGuarantee,
    RenyiComposition,
    State,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.filters.composition import NEVER_OPEN
from dpsdk.codec import OWN, TEXT, Codebook, kinds, legacy
from dpsdk.errors import InvalidArgument, RecordError, WireError

GUARANTEE_VALUES = [
    PureGuarantee("0.1"),
    PureGuarantee(0),
    DiscreteLaplaceGuarantee("10.5", 3),
    DiscreteGaussianGuarantee(9, 4, 2),
    DiscreteGaussianGuarantee(Fraction(9, 7), 2**900, 1, claim=(1, "1e-9")),
    BoundedRangeGuarantee("0.3"),
    ApproximateGuarantee("0.1", "1e-12"),
    PureGuarantee(Fraction(2**40_000 + 1, 3**900)),
    GuaranteeByPeriod(
        DiscreteGaussianGuarantee(9, 4, 2),
        ((-3, 0, DiscreteGaussianGuarantee(9, 1, 1)), (2, 2, PureGuarantee(1))),
    ),
]
COMPOSITION_VALUES = [
    BasicComposition(),
    AdvancedComposition(),
    ZCDPComposition("0.1"),
    EnvelopeComposition(),
    RenyiComposition("30.5", "0.01"),
    MixedComposition(),
    default_composition(),
    AnyOf((AnyOf((BasicComposition(), ZCDPComposition())), MixedComposition())),
]
VALUES = [
    *[(one, Guarantee) for one in GUARANTEE_VALUES],
    *[(one, Composition) for one in COMPOSITION_VALUES],
    *[(one.begin(Budget(1, 1e-6)), State) for one in COMPOSITION_VALUES],
    (Budget("0.1", "1e-9"), Budget),
    (Anytime("1e-6", "0.02"), Anytime),
    (Charge(7, "a ü ", PureGuarantee(1), "m", 3, 2, Payer((5, 6), 8, 0), "id", "s"), Charge),
    (Charge(7, "a", PureGuarantee(1), payer=Payer(periods=(-7, 2**40))), Charge),
    (Charge(8, "", PureGuarantee(1), at=datetime(2026, 1, 31, 9, 30, tzinfo=UTC)), Charge),
]


@pytest.mark.parametrize(("value", "kind"), VALUES, ids=lambda x: type(x).__name__)
def test_a_value_is_read_back_as_it_was_through_json(value, kind):
    record = json.loads(json.dumps(value.to_record()))
    back = kind.from_record(record)
    assert back == value
    assert type(back) is type(value)
    assert back.to_record() == record == value.to_record()


def test_every_class_of_guarantee_and_composition_has_a_tag():
    for group, values in ((Guarantee, GUARANTEE_VALUES), (Composition, COMPOSITION_VALUES)):
        assert {type(one) for one in values} == {kind.made for kind in OWN.among(group)}


MISSPELLED = (
    *("007", "1/0", "2/4", "+1", "1e3", " 1", "٣", "-0", "nan", "0x1", "_1", "", "5/1"),
    *("1/-2", "-1"),
)


def damaged(record):
    """The record with one thing wrong in it, everywhere and in every way."""
    for name in list(record):
        yield {key: one for key, one in record.items() if key != name}
        for wrong in (None, 1, 1.0, True, {}, ["1", "2", "3"], b"1", *MISSPELLED):
            if wrong != record[name]:
                yield {**record, name: wrong}
    yield {**record, "more": "1"}
    yield {**record, 1: "1"}


@pytest.mark.parametrize(("value", "kind"), VALUES, ids=lambda x: type(x).__name__)
def test_a_record_with_anything_wrong_in_it_is_refused_by_a_typed_error(value, kind):
    record, refused = value.to_record(), 0
    for wrong in damaged(record):
        try:
            back = kind.from_record(wrong)
        except RecordError:
            refused += 1
        else:
            # It is another value, well written.
            assert back.to_record() == wrong
            assert wrong.keys() == record.keys()
    assert refused > 5
    for other in (None, [], "text", 3, record["kind"], [record]):
        with pytest.raises(RecordError):
            kind.from_record(other)


def test_a_record_of_another_kind_is_refused_where_one_class_is_asked_for():
    record = PureGuarantee(1).to_record()
    assert PureGuarantee.from_record(record) == PureGuarantee(1)
    with pytest.raises(RecordError, match="DiscreteLaplaceGuarantee"):
        DiscreteLaplaceGuarantee.from_record(record)
    with pytest.raises(RecordError):
        Budget.from_record(record)


def test_what_a_constructor_refuses_is_no_record():
    for wrong in (
        {"tag": "guarantee.discrete-laplace.1", "scale": "0", "shift": "1"},
        {"tag": "guarantee.pure.1", "epsilon": "-1"},
        {"tag": "guarantee.approximate.1", "epsilon": "1", "delta": "1"},
        {
            "tag": "guarantee.discrete-gaussian.1", "variance": "1", "shift_squared": "1",
            "shift_max": "1", "claim": [["1"]],
        },
    ):  # fmt: skip
        with pytest.raises(RecordError):
            Guarantee.from_record(wrong)
    with pytest.raises(RecordError, match="as many axes"):
        State.from_record(
            {"tag": "state.1", "spent": [], "limit": ["1"], "parts": [], "reach": "0"}
        )


def test_a_class_of_another_author_has_no_record():
    class Mine(BasicComposition):
        pass

    class Free(PureGuarantee):
        __slots__ = ()

    for value in (Mine(), AnyOf((Mine(),)), Free(1)):
        with pytest.raises(RecordError, match="of the catalogue"):
            value.to_record()


def test_nothing_is_called_by_the_name_that_a_record_holds():
    for name in ("os.system", "dpsdk.accounting.Budget", "__class__", "PureGuarantee", ""):
        with pytest.raises(RecordError, match="the tag of a record"):
            Guarantee.from_record({"tag": name, "epsilon": "1"})
        with pytest.raises(RecordError, match="the name of a kind"):
            Guarantee.from_record({"kind": name, "epsilon": "1"})


def test_what_only_looks_like_plain_data_is_refused():
    class Mapping(dict):
        pass

    class Items(list):
        pass

    with pytest.raises(RecordError):
        Guarantee.from_record(Mapping(PureGuarantee(1).to_record()))
    with pytest.raises(RecordError):
        State.from_record({**State((), ()).to_record(), "spent": Items()})


def test_large_and_deep_records_are_refused_before_they_take_long():
    for wrong in ("9" * 10**6, "1" * 4300, "0x" + "f" * 10**6, "1/" + "9" * 10**6):
        with pytest.raises(RecordError):
            Guarantee.from_record({"tag": "guarantee.pure.1", "epsilon": wrong})
    deep = BasicComposition().to_record()
    for _ in range(3000):
        deep = {
            "tag": "composition.any-of.1", "members": [deep], "weights": [], "leak_share": "0",
        }  # fmt: skip
    with pytest.raises(RecordError, match="deep"):
        Composition.from_record(deep)
    many = ("1",) * 17
    with pytest.raises(RecordError, match="a list of 0 to 16 values"):
        State.from_record({**State((), ()).to_record(), "spent": list(many)})
    with pytest.raises(RecordError, match="a list of 0 to 16 values"):
        State((1,) * 17, (1,) * 17).to_record()
    with pytest.raises(RecordError):
        State((1 << (1 << 18),), (1,)).to_record()
    for text, reason in (("a" * 10**6, "characters"), ("\ud800", "UTF-8")):
        with pytest.raises(RecordError, match=reason):
            TEXT.write(text, "x", Codebook())
        with pytest.raises(RecordError, match=reason):
            Charge(1, text, PureGuarantee(1)).to_record()


@pytest.mark.thorough
@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["tag", "epsilon", "members", "x"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_nothing_but_a_record_is_read_and_all_else_is_a_typed_error(plain):
    before = deepcopy(plain)
    for kind in (Guarantee, Composition, State, Budget, Charge):
        with pytest.raises(RecordError):
            kind.from_record(plain)
    assert repr(plain) == repr(before)


def test_a_name_is_given_once():
    for made, name in ((Budget, "thing"), (type("Thing", (), {}), "budget")):
        with pytest.raises(InvalidArgument):
            kinds.written(name, {})(made)


def test_the_page_lists_every_tag_with_its_fields():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "records.md").read_text("utf-8")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    listed = {
        tag: tuple(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", fields)))
        for tags, fields in rows
        for tag in re.findall(r"`([\w.-]+)`", tags)
    }
    told = {
        tag: tuple(re.findall(r"(\w+)(?:>\w+)?:", fields)) for tag, fields in legacy._TAGS.items()
    }
    assert listed == told


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
