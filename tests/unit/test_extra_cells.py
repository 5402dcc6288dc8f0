"""Cells of their own for missing and for other values, and numbers on a grid."""

from datetime import date
from fractions import Fraction

import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Boolean,
    Categorical,
    Date,
    Domain,
    Integer,
    Number,
    wire,
)
from dpsdk.errors import DomainError, InvalidArgument, UnknownLabel

ATTRIBUTES = [
    Integer("a", 1, 3),
    Binned("a", [0, 1, 2]),
    Boolean("a"),
    Date("a", date(2024, 1, 1), date(2024, 1, 3)),
    Categorical("a", ["x", "y"]),
    Number("a", -1, 1, "0.5"),
]


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda one: one.kind)
def test_an_open_attribute_has_two_more_cells_behind_its_labels(attribute):
    opened = attribute.open()
    known = attribute.size
    assert attribute.extras == ()
    assert opened.extras == (OTHER, MISSING)
    assert (opened.known, opened.size) == (known, known + 2)
    assert [opened.label(cell) for cell in range(known)] == list(attribute.labels)
    assert opened.labels[known:] == (OTHER, MISSING)
    assert [opened.index(label) for label in opened.labels] == list(range(known + 2))
    assert [opened.text(cell) for cell in (known, known + 1)] == ["(other)", "(missing)"]
    assert opened != attribute
    assert opened.open() == opened
    assert "missing=True" in repr(opened)
    assert "missing" not in repr(attribute)
    with pytest.raises(UnknownLabel, match="missing=True"):
        attribute.index(MISSING)


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda one: one.kind)
def test_domains_with_extra_cells_are_files_of_version_2(attribute):
    plain, opened = Domain(attribute), Domain(attribute, missing_texts=["?"]).open()
    assert Domain.from_json(opened.to_json()) == opened
    assert wire.loads("domain", wire.dumps(opened)) == opened
    assert opened.digest != plain.digest
    assert '"version": 2' in opened.to_json()
    assert ('"version": 1' in plain.to_json()) == (attribute.kind != "number")
    with pytest.raises(DomainError):
        Domain.from_json(opened.to_json().replace('"version": 2', '"version": 1'))


def test_a_label_that_takes_in_the_others_is_no_cell_of_its_own():
    named = Categorical("a", [0, 1], other=1)
    apart = Categorical("a", [0, 1], other=True)
    assert named != apart
    assert (named.extras, apart.extras) == ((), (OTHER,))
    assert named.open().extras == (MISSING,)
    assert named.open().other == 1
    with pytest.raises(InvalidArgument, match="look different"):
        Categorical("a", ["x", "(missing)"], missing=True)


@pytest.mark.parametrize("texts", [["2"], ["y"], [""], ["?", "? "], "?", [1], ["\ud800"]])
def test_texts_for_missing_are_no_values(texts):
    with pytest.raises(InvalidArgument, match="missing_texts"):
        Domain(Integer("a", 1, 3), Categorical("b", ["x", "y"]), missing_texts=texts)


def test_a_number_is_exact_on_its_grid():
    amount = Number("amount", -1, 10, "0.01")
    assert amount.known == 1101
    assert amount.point(1) == Fraction(-99, 100)
    assert (amount.text(1), amount.label(1), amount.index(0.07)) == ("-0.99", -0.99, 107)
    assert [amount.below(0.07), amount.below(0.07, closed=False)] == [108, 107]
    assert [amount.below(-5), amount.below(99), amount.below("0.075")] == [0, 1101, 108]
    # Halves upwards, and what is beyond the bounds to the nearest of them.
    values = [Fraction(1, 200), Fraction(-1, 200), Fraction(99), Fraction(-99)]
    assert [amount.text(amount.cell(one)) for one in values] == ["0.01", "0", "10", "-1"]
    assert amount.bounds == (-1.0, 10.0)
    assert Number("n", 0, 2**62 - 1).known == 2**62
    assert Number("n", 0, 3).labels == (0, 1, 2, 3)
    assert eval(repr(amount)) == amount  # noqa: S307  # what it prints can be given again


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ((1, 0), "high"),
        ((0.5, 2), "low"),
        ((0, 1, 0), "step"),
        ((0, 2**62), "step"),
        ((0, "inf"), "low and high"),
        (("x", 1), "low and high"),
    ],
)
def test_a_bad_number_names_its_parameter(arguments, parameter):
    with pytest.raises(InvalidArgument) as caught:
        Number("a", *arguments)
    assert caught.value.parameter == parameter


def test_an_exact_number_says_so_in_its_file_alone():
    amount = Number("amount", -1, 10, "0.01")
    exact = Number("amount", -1, 10, "0.01", exact=True)
    assert exact != amount
    assert exact.to_json() == {**amount.to_json(), "exact": True}
    assert eval(repr(exact)) == exact  # noqa: S307
    assert Domain.from_json(Domain(exact).to_json())["amount"] == exact
    assert exact.open().closed() == exact
    with pytest.raises(InvalidArgument, match="exact"):
        Number("amount", 0, 1, exact=1)


@pytest.mark.parametrize("label", [0.005, "1", True, 11, float("nan")])
def test_a_number_has_no_label_beside_its_grid(label):
    with pytest.raises(UnknownLabel):
        Number("amount", -1, 10, "0.01").index(label)
