"""Looks from public tables: their law is enumerated, and broken twins are caught."""

from collections.abc import Hashable
from fractions import Fraction
from typing import Literal

import pytest
from canaries import BIT, Twin, by_name, canaries, cells, laplace

from dpsdk import Budget, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Kernel, LaplaceNoise, Reference
from dpsdk.noise import NoiseSource
from dpsdk.testing import seeded
from dpsdk.testing.audit import Program, enumerate_law, tables

pytestmark = pytest.mark.thorough

SIX = PureGuarantee(6)
STEPS = 2
TABLES = ((3, 0), (1, 2))
"""In steps of half a row."""


def shortened(counts: tuple[int, ...], table: tuple[int, ...]) -> int:
    """The same distance from the occupied cells alone, where no cell of the table is negative."""
    occupied = [(STEPS * c, m) for c, m in zip(counts, table, strict=True) if c]
    return sum(table) + sum(abs(c - m) - m for c, m in occupied)


def looked(
    scale: Fraction,
    *references: tuple[int, ...] | Literal["private"],
) -> Program:
    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        counts = cells(data)
        # Whoever guesses that all rows are in one cell may not ask the table how many there are.
        guess = (STEPS * sum(counts), 0)
        return tuple(
            shortened(counts, guess if table == "private" else table) + laplace(noise, scale)
            for table in references
        )

    return run


RIGHT = Fraction(2 * STEPS, 6)
TWINS = (
    Twin(
        "two looks",
        looked(RIGHT, *TABLES),
        SIX,
        {
            "one table forgotten": looked(RIGHT / 2, *TABLES),
            "in rows and not in steps": looked(RIGHT / STEPS, *TABLES),
            "a private table to look from": looked(RIGHT, TABLES[0], "private"),
            "a negative table and occupied cells": looked(RIGHT, TABLES[0], (-3, 5)),
        },
        relation=Neighbors.ADD_REMOVE,
        exact=pytest.approx(6),
    ),
    Twin(
        "a look at exchanged rows",
        looked(RIGHT, TABLES[0]),
        SIX,
        {"a distance that moves once": looked(RIGHT / 2, TABLES[0])},
        exact=pytest.approx(6),
    ),
)


@pytest.mark.parametrize("twin", by_name(TWINS))
def test_the_correct_twin_passes(twin):
    twin.check_correct()


@pytest.mark.parametrize(("twin", "broken"), canaries(TWINS))
def test_the_canary_is_caught(twin, broken):
    twin.check_caught(broken)


def asked(data: PrivateData, noise: NoiseSource) -> tuple[int, ...]:
    """The same of the kernel."""
    kernel = Kernel(data, Odometer(Budget(100), BasicComposition()), noise, "look")
    reference = Reference(["bit"], [m / STEPS for m in TABLES[0]])
    values = kernel.look([reference], LaplaceNoise(3), bits=1).values
    return tuple(int(value * STEPS) for value in values)


def test_the_law_of_the_kernel_is_that_of_the_twin():
    for data in tables(BIT, 1, Neighbors.ADD_REMOVE):
        one, other = enumerate_law(asked, data), enumerate_law(looked(RIGHT, TABLES[0]), data)
        assert one.masses.keys() == other.masses.keys()
        for outcome, mass in one.masses.items():
            assert mass == pytest.approx(other.masses[outcome], rel=1e-9)


def test_the_kernel_refuses_what_the_canary_took():
    data = next(iter(tables(BIT, 1)))
    kernel = Kernel(data, Odometer(Budget(100), BasicComposition()), seeded(1), "look")
    with pytest.raises(InvalidArgument, match="table"):
        kernel.look([Reference(["bit"], [-1.5, 2.5])], LaplaceNoise(3))
