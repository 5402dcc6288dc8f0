"""Broken twins of private programs: each must be caught, and the correct twin of each must pass.

A canary claims a guarantee that its correct twin has. `layer` says what is to catch it: "E" exact
enumeration, "G" record and replay, "S" sampling.
"""

import logging
import math
import sys
from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from attrs import evolve, frozen

from dpsdk import Boolean, Budget, Domain, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Guarantee, Odometer, default_composition
from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee, PureGuarantee
from dpsdk.data.vault import open_histogram
from dpsdk.errors import BudgetExceeded
from dpsdk.forms import Identity, Kronecker, TallyForm
from dpsdk.hypothesis import Hypothesis, Pairs
from dpsdk.kernel import Kernel, LaplaceNoise, Tally, Terms
from dpsdk.learning import EntropicFit
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseSource
from dpsdk.testing.audit import Program, audit, neighbours, program, replay
from vouched import TRUST, CountDistinct, Distinct, ForOneRow, Halved, ShortOfNoise

BIT = Domain(Boolean("bit"))
ONE = PureGuarantee(1)
THREE = PureGuarantee(3)
HALF = DiscreteGaussianGuarantee(9, 1, 1)
"""One step at a variance of 9: a rho of 1/18."""


def cells(data: PrivateData) -> tuple[int, int]:
    """The private counts of False and True."""
    table = open_histogram(data).table(("bit",))
    return int(table[0]), int(table[1])


def count(data: PrivateData) -> int:
    return cells(data)[1]


def laplace(noise: NoiseSource, scale: Fraction | int) -> int:
    return int(noise.draw(DiscreteLaplace(scale), 1)[0])


def gaussian(noise: NoiseSource, variance: Fraction | int) -> int:
    return int(noise.draw(DiscreteGaussian(variance), 1)[0])


@frozen
class Twin:
    """A correct program, what it claims, and the broken ones that claim the same."""

    name: str
    program: Program
    claim: Guarantee
    canaries: dict[str, Program]
    layer: Literal["E", "G"] = "E"
    rows: int = 2
    relation: Neighbors = Neighbors.REPLACE_ONE
    unit_rows: int = 1

    exact: object = None
    """The worst case about, where it meets the claim."""

    def pairs(self) -> Iterator[tuple[PrivateData, PrivateData]]:
        return neighbours(BIT, self.rows, self.relation, unit_rows=self.unit_rows)

    def check_correct(self) -> None:
        """Fail unless the correct program passes, and meets its claim where that is exact."""
        if self.layer == "G":
            assert all(replay(self.program, one, other)[0] is None for one, other in self.pairs())
            return
        report = audit(self.program, self.pairs(), self.claim)
        assert report.passed, report
        if self.exact is not None:
            assert report.figure == self.exact

    def check_caught(self, broken: Program) -> None:
        """Fail unless a broken program is caught."""
        if self.layer == "G":
            assert any(replay(broken, one, other)[0] for one, other in self.pairs())
            return
        report = audit(broken, self.pairs(), self.claim)
        assert not report.passed, report


def by_name(twins: tuple[Twin, ...]) -> list[Any]:
    return [pytest.param(twin, id=twin.name) for twin in twins]


def canaries(twins: tuple[Twin, ...], slow: tuple[str, ...] = ()) -> list[Any]:
    """Give all canaries, of which every run looks at the first of each kind."""
    return [
        pytest.param(
            twin,
            broken,
            id=f"{twin.name}: {name}",
            marks=pytest.mark.thorough if turn or twin.name in slow else (),
        )
        for twin in twins
        for turn, (name, broken) in enumerate(twin.canaries.items())
    ]


def opened_pairs(epsilon: Fraction | int | None) -> Program:
    """What is fitted to noisy marginals; to true ones that nobody paid for, if None."""

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        if epsilon is None:
            fit = EntropicFit(BIT, outside=True)
            marginal = Kronecker.of(BIT, {"bit": Identity(2)})
            fit.add(marginal, np.array(cells(data)) / (data.facts.rows or 1), 0.5)
            fit.run(100)
            hypothesis: Hypothesis = fit.hypothesis()
        else:
            kernel = Kernel(data, Odometer(Budget(100), default_composition()), noise, "pairs")
            hypothesis = Pairs().open(kernel, LaplaceNoise(epsilon))
        return hypothesis.table(("bit",)).tobytes(), hypothesis.outside_mass

    return run


def vouched(request: type[CountDistinct]) -> Program:
    """How many records differ, at an ε of 1, by a request that the session trusts."""
    given = {"composition": BasicComposition(), "trust": TRUST}
    return program(ShortOfNoise(1, request), Distinct(("bit",)), **given)


# One count with Laplace noise, 1-DP.


def differing(factor: Fraction | int) -> Program:
    """How many records differ, at an ε of 1, with so much of its noise."""

    def run(data: PrivateData, noise: NoiseSource) -> int:
        pricing = Tally(TallyForm(BIT, ("bit",)), LaplaceNoise(1)).price(Terms(data.facts))
        law = DiscreteLaplace(pricing.law.scale * factor)
        return int(evolve(pricing, law=law).run(noise, lambda: open_histogram(data)).values[0])

    return run


def scaled_count(factor: Fraction | int) -> Program:
    return lambda data, noise: count(data) + laplace(noise, factor)


def one_sided(data: PrivateData, noise: NoiseSource) -> int:
    return count(data) + int(noise.draw(Geometric(1), 1)[0])


def zero_counted_twice(data: PrivateData, noise: NoiseSource) -> int:
    magnitude = int(noise.draw(Geometric(1), 1)[0])
    return count(data) + (magnitude if noise.uniform_below(2) else -magnitude)


def modulo(data: PrivateData, noise: NoiseSource) -> int:
    return count(data) + laplace(noise, 1) % 8


def tail_cut(data: PrivateData, noise: NoiseSource) -> int:
    return count(data) + min(max(laplace(noise, 1), -12), 12)


def keyed_by_query(data: PrivateData, noise: NoiseSource) -> int:
    del noise
    return count(data) + sum(b"count of True") % 7 - 3


def leaking(rarity: int) -> Program:
    """The raw answer, with a probability of exp(-rarity)."""

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        if noise.bernoulli_exp(Fraction(rarity)):
            return "debug", count(data)
        return count(data) + laplace(noise, 1)

    return run


def data_dependent_scale(data: PrivateData, noise: NoiseSource) -> int:
    return count(data) + laplace(noise, 1 if count(data) else Fraction(1, 2))


def fails_on_an_empty_cell(data: PrivateData, noise: NoiseSource) -> int:
    if not count(data):
        message = "empty"
        raise ValueError(message)
    return count(data) + laplace(noise, 1)


def half_even(data: PrivateData, noise: NoiseSource) -> int:
    return int(np.rint(count(data) + 0.5)) + laplace(noise, 1)


def half_up(data: PrivateData, noise: NoiseSource) -> int:
    return math.floor(count(data) + 0.5 + 0.5) + laplace(noise, 1)


def sum_in_bounds(most: int) -> Program:
    """Each True adds 2, which the declared bound of 1 should clip."""
    return lambda data, noise: count(data) * min(2, most) + laplace(noise, 1)


def cached_truth(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
    return count(data) + laplace(noise, 1), count(data)


def cached_release(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
    answer = count(data) + laplace(noise, 1)
    return answer, answer


# Several numbers, 3-DP together.


def both_cells(scale: Fraction) -> Program:
    def run(data: PrivateData, noise: NoiseSource) -> tuple[int, ...]:
        drawn = noise.draw(DiscreteLaplace(scale), 2)
        return tuple(cell + int(z) for cell, z in zip(cells(data), drawn, strict=True))

    return run


def strategy(scale: Fraction, *, looked: bool = False) -> Program:
    """Two blocks of a strategy, of norms one and three, measured with one law."""

    def run(data: PrivateData, noise: NoiseSource) -> tuple[int, ...]:
        weights = (3, 1) if looked and cells(data)[0] < cells(data)[1] else (1, 3)
        return tuple(weight * count(data) + laplace(noise, scale) for weight in weights)

    return run


def reused_noise(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
    shared = laplace(noise, Fraction(2, 3))
    return cells(data)[0] + shared, cells(data)[1] + shared


def split(first: Fraction, second: Fraction) -> Program:
    def run(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
        return count(data) + laplace(noise, 1 / first), count(data) + laplace(noise, 1 / second)

    return run


def select_then_measure(*, paid: bool) -> Program:
    """Report which cell is larger, then measure it; the choice needs noise of its own."""

    def run(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
        lead = cells(data)[0] - cells(data)[1]
        # The lead moves by two, so noise of scale 1 makes the choice 2-DP.
        chosen = int(noise.reaches(DiscreteLaplace(1), np.array([lead]))[0] if paid else lead <= 0)
        return chosen, cells(data)[chosen] + laplace(noise, 1)

    return run


def outside_dropped(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
    """The row count after dropping rows outside the domain is not public."""
    return sum(cells(data)), count(data) + laplace(noise, Fraction(1, 3))


def outside_kept(data: PrivateData, noise: NoiseSource) -> tuple[int, int]:
    return data.facts.rows or 0, count(data) + laplace(noise, Fraction(1, 3))


# Gaussian noise, in its own terms.


def scaled_gaussian(variance: Fraction | int) -> Program:
    return lambda data, noise: count(data) + gaussian(noise, variance)


def both_cells_gaussian(variance: Fraction | int) -> Program:
    def run(data: PrivateData, noise: NoiseSource) -> tuple[int, ...]:
        drawn = noise.draw(DiscreteGaussian(variance), 2)
        return tuple(cell + int(z) for cell, z in zip(cells(data), drawn, strict=True))

    return run


# The sparse vector: three queries in turn against a threshold of 1, 3-DP.


def sparse_vector(
    *,
    threshold_scale: Fraction = Fraction(1),
    query_scale: Fraction = Fraction(1),
    cutoff: int = 1,
    redraw: bool = True,
    queries: int = 3,
    answers: Literal["none", "same noise"] = "none",
) -> Program:
    """Above-threshold with one-sided noise. Correct: 1/e1 = threshold_scale, 2/e2 = query_scale."""

    def run(data: PrivateData, noise: NoiseSource) -> tuple[Hashable, ...]:
        said: list[Hashable] = []
        tops = 0
        level = 1 + int(noise.draw(Geometric(threshold_scale), 1)[0])
        for number in range(queries):
            # Neighbours move queries in both directions, which is the worst case.
            truth = cells(data)[number % 2]
            if answers == "same noise":
                noisy = truth + int(noise.draw(Geometric(query_scale), 1)[0])
                above: bool = noisy >= level
                said.append(noisy if above else "below")
            else:
                levels = np.array([level - truth])
                above = (
                    bool(noise.reaches(Geometric(query_scale), levels)[0])
                    if query_scale
                    else truth >= level
                )
                said.append(above)
            if above:
                tops += 1
                if tops == cutoff:
                    break
                if redraw:
                    level = 1 + int(noise.draw(Geometric(threshold_scale), 1)[0])
        return tuple(said)

    return run


# Programs with an odometer, 3-DP.


def budgeted(*, refund: bool = False) -> Program:
    """Charge, measure, and report what was spent; an empty cell must not be cheaper."""

    def run(data: PrivateData, noise: NoiseSource) -> tuple[Hashable, ...]:
        odometer = Odometer(Budget(3), default_composition())
        odometer.charge(PureGuarantee(3), "count")
        answer: Hashable = count(data) + laplace(noise, Fraction(1, 3))
        if refund and not count(data):
            odometer, answer = Odometer(Budget(3), default_composition()), "failed"
        return odometer.spent.charges, answer

    return run


def refused(*, check_first: bool) -> Program:
    """A request that does not fit must not be answered."""

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        odometer = Odometer(Budget(1), default_composition())
        truth = None if check_first else count(data)
        try:
            odometer.charge(PureGuarantee(3), "count")
        except BudgetExceeded:
            return "refused" if truth is None else ("refused", str(odometer.spent), truth)
        return count(data) + laplace(noise, Fraction(1, 3))

    return run


def weighed(first: float, *, bounded: bool) -> Program:
    """A sum of products whose last factor is nought: of sensitivity nought, without noise."""

    def run(data: PrivateData, noise: NoiseSource) -> str:
        del noise
        with np.errstate(all="ignore"):
            # Refused from public numbers, or multiplied out in whatever floats make of it.
            largest = np.float64(first) * 2
            if bounded and not largest < 2.0**53:
                return "refused"
            return repr(np.float64(first) * count(data) * 0.0 + 0.0)

    return run


# What only a trace shows: the outcome keeps its claim, the rest of the run does not.


def logged(data: PrivateData, noise: NoiseSource) -> int:
    logging.getLogger("canary").debug("counting %d rows", count(data))
    return count(data) + laplace(noise, 1)


def quietly_logged(data: PrivateData, noise: NoiseSource) -> int:
    logging.getLogger("canary").debug("counting rows")
    return count(data) + laplace(noise, 1)


def more_draws_for_more_rows(data: PrivateData, noise: NoiseSource) -> int:
    drawn = noise.draw(DiscreteLaplace(1), 1 + count(data))
    return count(data) + int(drawn[0])


def another_scale_for_zero(data: PrivateData, noise: NoiseSource) -> int:
    noise.draw(DiscreteLaplace(2 if count(data) else 1), 1)
    return count(data) + laplace(noise, 1)


def another_error(data: PrivateData, noise: NoiseSource) -> int:
    laplace(noise, 1)
    message = f"could not write the release of {count(data)} rows"
    raise OSError(message)


def constant_error(data: PrivateData, noise: NoiseSource) -> int:
    del data
    laplace(noise, 1)
    message = "could not write the release"
    raise OSError(message)


THIRD = Fraction(1, 3)

TWINS = (
    Twin(
        "count with Laplace noise",
        scaled_count(1),
        ONE,
        {
            "scale halved": scaled_count(Fraction(1, 2)),
            "scale times 2/3": scaled_count(Fraction(2, 3)),
            "scale times 10/11": scaled_count(Fraction(10, 11)),
            "scale times 100/101": scaled_count(Fraction(100, 101)),
            "scale times 1000/1001": scaled_count(Fraction(1000, 1001)),
            "one-sided noise": one_sided,
            "zero counted twice": zero_counted_twice,
            "noise taken modulo 8": modulo,
            "tail cut off": tail_cut,
            "noise keyed by the query": keyed_by_query,
            "raw answer leaks once in a thousand": leaking(7),
            "raw answer leaks once in five hundred million": leaking(20),
            "scale depends on data": data_dependent_scale,
            "fails on an empty cell": fails_on_an_empty_cell,
        },
    ),
    Twin("rounding before noise", half_up, ONE, {"half to even": half_even}),
    Twin("sum within bounds", sum_in_bounds(1), ONE, {"not clipped": sum_in_bounds(2)}),
    Twin("answers kept for replay", cached_release, ONE, {"true answer kept": cached_truth}),
    Twin(
        "histogram with Laplace noise",
        both_cells(Fraction(2, 3)),
        THREE,
        {
            "add-remove sensitivity under replace-one": both_cells(THIRD),
            "L2 in place of L1 sensitivity": both_cells(Fraction(471, 1000)),
            "one draw for both cells": reused_noise,
        },
        rows=1,
    ),
    Twin(
        "pairs to start from",
        opened_pairs(24),
        PureGuarantee(24),
        {
            "pairs measured but unpaid": opened_pairs(None),
            "noise of the whole budget for a share": opened_pairs(32),
        },
        rows=1,
    ),
    Twin(
        "a count of another author, who is trusted",
        vouched(CountDistinct),
        ONE,
        {"half the noise": vouched(Halved), "noise for one row of two": vouched(ForOneRow)},
        unit_rows=2,
    ),
    Twin(
        "how many records differ",
        differing(1),
        ONE,
        {
            "noise for one row of two": differing(Fraction(1, 2)),
            "noise times 0.9": differing(Fraction(9, 10)),
        },
        unit_rows=2,
    ),
    Twin(
        "two blocks of a strategy",
        strategy(Fraction(4, 3)),
        THREE,
        {
            "column norm of one block forgotten": strategy(Fraction(1)),
            "strategy optimised for the data": strategy(Fraction(4, 3), looked=True),
        },
        rows=2,
    ),
    Twin(
        "two answers, budget split",
        split(Fraction(1), Fraction(2)),
        THREE,
        {
            "sensitivity not scaled with the number of answers": split(Fraction(3), Fraction(3)),
            "parts sum to more": split(Fraction(2), Fraction(2)),
        },
        rows=1,
    ),
    Twin(
        "select, then measure",
        select_then_measure(paid=True),
        THREE,
        {
            "selection not paid": select_then_measure(paid=False),
        },
        rows=1,
    ),
    Twin("rows outside the domain", outside_kept, THREE, {"dropped and told": outside_dropped}),
    Twin(
        "count with Gaussian noise",
        scaled_gaussian(9),
        HALF,
        {
            "deviation times 0.9": scaled_gaussian(Fraction(729, 100)),
            "deviation times 0.95": scaled_gaussian(Fraction(8123, 1000)),
            "deviation times 0.99": scaled_gaussian(Fraction(8821, 1000)),
            "variance and deviation swapped": scaled_gaussian(3),
            "Laplace noise of the same deviation": scaled_count(Fraction(2121, 1000)),
        },
    ),
    Twin(
        "histogram with Gaussian noise",
        both_cells_gaussian(2),
        DiscreteGaussianGuarantee(2, 2, 1),
        {
            "largest in place of L2 sensitivity": both_cells_gaussian(1),
        },
        rows=1,
    ),
    Twin(
        "sparse vector",
        sparse_vector(),
        THREE,
        {
            "query noise not doubled": sparse_vector(query_scale=Fraction(1, 2)),
            "no query noise": sparse_vector(query_scale=Fraction(0)),
            "no threshold noise": sparse_vector(threshold_scale=Fraction(0)),
            "tops not counted, no cutoff": sparse_vector(cutoff=9, redraw=False, queries=6),
            "threshold redrawn, tops not paid": sparse_vector(cutoff=2),
            "value from the noise of its comparison": sparse_vector(
                answers="same noise", queries=1
            ),
        },
    ),
    # With c = 2 tops under one threshold: 1/e1 + c * 2/q = 1 + 2 = 3.
    Twin(
        "sparse vector of two tops",
        sparse_vector(cutoff=2, query_scale=Fraction(2), redraw=False),
        THREE,
        {
            "query noise not scaled by the tops": sparse_vector(
                cutoff=2, query_scale=Fraction(1), redraw=False, queries=5
            ),
        },
    ),
    Twin(
        "count of people with two rows",
        scaled_count(2),
        ONE,
        {"sensitivity of one row": scaled_count(1)},
        unit_rows=2,
    ),
    Twin(
        "Gaussian count of people with two rows",
        scaled_gaussian(36),
        DiscreteGaussianGuarantee(36, 4, 2),
        {
            "rows of a person not squared": scaled_gaussian(18),
            "sensitivity of one row": scaled_gaussian(9),
        },
        relation=Neighbors.ADD_REMOVE,
        unit_rows=2,
    ),
    Twin(
        "sparse vector over people with two rows",
        sparse_vector(threshold_scale=Fraction(2), query_scale=Fraction(2)),
        THREE,
        {
            "noise for one row": sparse_vector(),
            "threshold for one row": sparse_vector(query_scale=Fraction(2)),
            "gaps for one row": sparse_vector(threshold_scale=Fraction(2)),
        },
        unit_rows=2,
    ),
    Twin(
        "product that leaves the floats",
        weighed(sys.float_info.max / 1.5, bounded=True),
        ONE,
        {"product not bounded on the way": weighed(sys.float_info.max / 1.5, bounded=False)},
    ),
    Twin("charge kept after a failure", budgeted(), THREE, {"refunded": budgeted(refund=True)}),
    Twin(
        "refusal before reading",
        refused(check_first=True),
        THREE,
        {
            "read before the charge": refused(check_first=False),
        },
    ),
    Twin("log lines", quietly_logged, ONE, {"rows counted in the log": logged}, "G"),
    Twin(
        "draws",
        scaled_count(1),
        ONE,
        {
            "as many draws as rows": more_draws_for_more_rows,
            "an unused draw that depends on data": another_scale_for_zero,
        },
        "G",
    ),
    Twin("errors", constant_error, ONE, {"rows counted in the error": another_error}, "G"),
)
