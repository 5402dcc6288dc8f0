"""The figures of an independent calculation in floats, to the digits that it gives."""

import csv
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from dpsdk.accounting import (
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    PureGuarantee,
    bun_steinke_epsilon,
    zcdp_epsilon,
    zcdp_rho,
)

Row = dict[str, str]


@cache
def rows() -> tuple[Row, ...]:
    with (Path(__file__).parent / "reference.csv").open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def chosen(method: str, mechanism: str = "") -> list[Row]:
    found = [r for r in rows() if r["method"] == method and r["mechanism"].startswith(mechanism)]
    assert found
    return found


def base_epsilon(row: Row) -> Fraction:
    """The epsilon (or eta) of one run."""
    return Fraction(row["parameters"].split("=")[1].split()[0])


def runs(row: Row) -> int:
    return int(row["k"])


def check(row: Row, epsilon: float, tolerance: float = 1e-7) -> None:
    assert epsilon == pytest.approx(float(row["epsilon"]), rel=tolerance), row


def test_basic_composition():
    for row in chosen("basic composition"):
        guarantee, k = PureGuarantee(base_epsilon(row)), runs(row)
        composition = BasicComposition()
        total = Fraction(row["epsilon"])
        assert composition.capacity(composition.begin(Budget(total)), guarantee) == k, row


@pytest.mark.parametrize(
    ("name", "convert"), [("Bun-Steinke", bun_steinke_epsilon), ("CKS", zcdp_epsilon)]
)
def test_concentrated_composition(name: str, convert):
    suffix = f" + {name} conversion"
    for row in chosen("zCDP rho=e0 tanh(e0/2)" + suffix):
        rho = zcdp_rho(PureGuarantee(base_epsilon(row))) * runs(row)
        check(row, convert(rho, row["delta"]))
    for row in chosen("zCDP rho=e0^2/2" + suffix):
        check(row, convert(base_epsilon(row) ** 2 / 2 * runs(row), row["delta"]))
    for row in chosen("zCDP rho=1/(2 sigma^2)" + suffix):
        check(row, convert(runs(row) / (2 * base_epsilon(row) ** 2), row["delta"]))
    for row in chosen("zCDP BR rho=x-1-ln x" + suffix):
        rho = zcdp_rho(BoundedRangeGuarantee(base_epsilon(row))) * runs(row)
        check(row, convert(rho, row["delta"]))
    for row in chosen("zCDP BR rho=eta^2/8" + suffix):
        check(row, convert(base_epsilon(row) ** 2 / 8 * runs(row), row["delta"]))


def test_advanced_composition_under_full_adaptivity():
    for row in chosen("WRRW23 filter (fully adaptive)"):
        check(row, bun_steinke_epsilon(base_epsilon(row) ** 2 / 2 * runs(row), row["delta"]))


def test_leaks_beside_concentrated_composition():
    for row in chosen("approx-zCDP + CKS at delta-k delta0"):
        rho = zcdp_rho(PureGuarantee(base_epsilon(row))) * runs(row)
        left = Fraction(row["delta"]) - runs(row) * Fraction("1e-10")
        check(row, zcdp_epsilon(rho, left))
