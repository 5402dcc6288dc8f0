"""The worst case over neighbours, held against a guarantee."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from dpsdk._records import field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accounting.guarantee import BoundedRangeGuarantee, whole_of
from dpsdk.accounting.prices.run import leak, pure_epsilon, zcdp_rho
from dpsdk.data import PrivateData
from dpsdk.testing.audit.enumeration import PATH_LIMIT, TAIL, Law, enumerate_law
from dpsdk.testing.audit.programs import Program

__all__ = ["Pair", "WorstCase", "audit", "delta_at", "renyi", "worst_epsilon"]

Pair: TypeAlias = tuple[PrivateData, PrivateData]

_ORDERS = (1.0001, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)

_ROUNDING = 1e-9
"""Relative slack for float probabilities; a real violation is larger by orders of magnitude."""


def worst_epsilon(first: Law, second: Law) -> tuple[float, Hashable]:
    """The largest log ratio of an outcome's probabilities that is certain, and that outcome.

    What the enumeration lost is given to the denominator, so tails cannot raise a false alarm;
    an outcome whose probability is far above the lost mass is seen exactly.
    """
    worst: tuple[float, Hashable] = (0.0, None)
    for outcome, mass in first.masses.items():
        other = second.masses.get(outcome, 0.0) + second.lost
        ratio = math.inf if other <= 0 and mass > 0 else _log(mass) - _log(other)
        if ratio > worst[0]:
            worst = ratio, outcome
    return worst


def delta_at(first: Law, second: Law, epsilon: float) -> tuple[float, float]:
    """A lower and an upper bound of the δ at which the pair is (ε, δ)-indistinguishable."""
    factor = math.exp(epsilon)
    low = math.fsum(
        max(0.0, mass - factor * (second.masses.get(outcome, 0.0) + second.lost))
        for outcome, mass in first.masses.items()
    )
    high = math.fsum(
        max(0.0, mass - factor * second.masses.get(outcome, 0.0))
        for outcome, mass in first.masses.items()
    )
    return low, high + first.lost


def renyi(first: Law, second: Law, order: float) -> float:
    """A lower bound of the Rényi divergence of some order above 1."""
    exponents: list[float] = []
    for outcome, mass in first.masses.items():
        other = second.masses.get(outcome, 0.0) + second.lost
        if mass > 0:
            exponents.append(order * math.log(mass) - (order - 1) * _log(other))
    # The sum is taken relative to its largest term, which may be too large for a float.
    largest = max(exponents, default=-math.inf)
    if math.isinf(largest):
        return max(largest, 0.0)
    total = largest + math.log(math.fsum(math.exp(term - largest) for term in exponents))
    return max(total / (order - 1), 0.0)


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else -math.inf


@frozen
class WorstCase:
    """The result of an enumeration.

    `claimed` is the guarantee; `figure` the worst value of the quantity in which it is stated
    (`quantity`: ε, ρ, η or δ), `allowed` the largest that it admits. `passed` says that nothing
    exceeds it. `outcome` is where the worst case was met, `epsilon` the worst log ratio of a pure
    guarantee's kind, whatever the claim.
    """

    claimed: str
    quantity: str
    figure: float
    allowed: float
    epsilon: float
    outcome: str
    pairs: int
    paths: int
    seconds: float = field(eq=False)

    @property
    def passed(self) -> bool:
        """True if no neighbours exceed the claim."""
        return self.figure <= self.allowed * (1 + _ROUNDING) + 1e-12


def audit(
    program: Program,
    pairs: Iterable[Pair],
    guarantee: Guarantee,
    *,
    tail: float = TAIL,
    limit: int = PATH_LIMIT,
) -> WorstCase:
    """Enumerate a program on pairs of neighbours and hold the worst case against a guarantee.

    Pure guarantees are held against the worst log ratio, bounded range against the worst spread
    of log ratios, zero-concentrated ones against Rényi divergences of many orders, and those with
    a leak against the δ at their ε.

    `tail` is the mass that the enumeration of one draw may leave out. With more of it there are
    fewer paths, but outcomes that are hardly likelier than it cannot be told apart. With more than
    `limit` paths for one table, `TooManyPaths` is raised.
    """
    start = time.perf_counter()
    laws: dict[int, tuple[PrivateData, Law]] = {}

    def law(data: PrivateData) -> Law:
        if id(data) not in laws:
            laws[id(data)] = data, enumerate_law(program, data, tail=tail, limit=limit)
        return laws[id(data)][1]

    quantity, allowed = _claim(guarantee)
    worst, worst_ratio, place, count = 0.0, 0.0, "", 0
    for one, other in pairs:
        first, second = law(one), law(other)
        count += 1
        ratio, outcome = worst_epsilon(first, second)
        found = _measure(guarantee, quantity, first, second, ratio)
        worst_ratio = max(worst_ratio, ratio)
        if found > worst:
            worst, place = found, repr(outcome)
    return WorstCase(
        str(guarantee),
        quantity,
        worst,
        allowed,
        worst_ratio,
        place,
        count,
        sum(known.paths for _, known in laws.values()),
        time.perf_counter() - start,
    )


def _claim(guarantee: Guarantee) -> tuple[str, float]:
    guarantee = whole_of(guarantee)
    epsilon = pure_epsilon(guarantee)
    if leak(guarantee):
        return "δ", float(leak(guarantee))
    if isinstance(guarantee, BoundedRangeGuarantee):
        return "η", float(guarantee.eta)
    if epsilon is not None:
        return "ε", float(epsilon)
    return "ρ", float(zcdp_rho(guarantee))


def _measure(guarantee: Guarantee, quantity: str, first: Law, second: Law, ratio: float) -> float:
    if quantity == "ε":
        return ratio
    if quantity == "η":
        return ratio + worst_epsilon(second, first)[0]
    if quantity == "δ":
        epsilon = pure_epsilon(guarantee)
        return delta_at(first, second, 0.0 if epsilon is None else float(epsilon))[0]
    return max(renyi(first, second, order) / order for order in _ORDERS)
