"""How a batch is learnt: how many rounds, what each may cost, and what error may be promised."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias

from attrs import evolve, frozen

from dpsdk.accounting import BoundedRangeGuarantee, Budget
from dpsdk.accounting.declared.calibration import fits_all
from dpsdk.accounting.numbers.search import largest
from dpsdk.accounting.prices.conversion import zcdp_start
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise, Terms
from dpsdk.mechanisms.numeric_sparse import equal_share
from dpsdk.release import Cost

__all__ = ["Plan", "Rule", "Total", "planned", "share_of"]

Rule: TypeAlias = Literal["tuned", "textbook", "averaged"]

_MOST_ROUNDS = 10_000
"""Each round is charged by itself, and each charge is remembered."""

_ROUNDS = 16
"""Where the number of rows is private, which would tell how many suit it."""

_START_SHARE = Fraction(1, 10)
"""What part of the total the one-way marginals take that the tuned rule begins with."""

_CHOICE_SHARE = Fraction(1, 10)
"""What part of a round's ρ its choice takes."""

_PURE_CHOICE_SHARE = Fraction(1, 4)
"""What part of a round's ε its choice takes."""

_DIGITS = 10**15


@frozen
class Total:
    """What all rounds may cost together: a pure ε, an (ε, δ), or a ρ of zCDP."""

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None

    @property
    def concentrated(self) -> float:
        """The ρ of zCDP that it is worth, roughly; 0 where it is pure."""
        if self.rho is not None:
            return float(self.rho)
        if not self.delta or self.epsilon is None:
            return 0.0
        return float(zcdp_start(self.epsilon, self.delta))


@frozen
class Plan:
    """What an opening will do, all of it public.

    `rounds` choices at `choice` of bounded range each, and as many measurements with `noise`, none
    where that is None; before them the one-way marginals with `start`, if that is not None. With
    probability 1 - `beta` no number of the workload is off by more than `error` rows, where these
    are not None.
    """

    rule: Rule
    rounds: int
    choice: Fraction
    noise: Noise | None
    start: Noise | None = None
    error: float | None = None
    beta: float | None = None

    def promising(self, error: float, beta: float) -> Plan:
        """The same with a promise."""
        return evolve(self, error=error, beta=beta)

    @property
    def cost(self) -> Cost:
        """What it comes to at the most, run by run."""
        start = () if self.start is None else (self.start.cover,)
        choice = BoundedRangeGuarantee(self.choice)
        if self.noise is None:
            return Cost((*start, (choice, self.rounds)))
        # In their order, since a composition may charge a run by what came before it.
        return Cost((*start, *(choice, self.noise.cover) * self.rounds))


def planned(
    rule: Rule, total: Total, rounds: int | None, form: LinearForm, beta: float, terms: Terms
) -> Plan:
    """The plan of a workload; the promise of its error is worked out elsewhere.

    Raises
    ------
    InvalidArgument
        If nothing can be answered for so little.
    """
    count = rounds or _rounds(rule, total, form, beta, terms.facts)
    split = _SPLITS[rule]
    pure = total.rho is None and not total.delta
    if pure and total.epsilon is not None:
        return split(total.epsilon, count, True)
    if total.rho is not None:
        return split(total.rho, count, False)

    budget = Budget(total.epsilon or 0, total.delta)
    composition = terms.composition
    begun = composition.begin(budget)

    def fits(scale: Fraction) -> bool:
        plan = split(scale, count, False)
        if plan.noise is not None:
            return fits_all(composition, begun, plan.cost.guarantees)
        alike = composition.capacity(begun, BoundedRangeGuarantee(plan.choice))
        return alike is None or alike >= count

    scale = largest(fits, Fraction(total.concentrated) or Fraction(1))
    if not scale:
        expected = "large enough that the rounds fit by the composition of the session"
        raise InvalidArgument("epsilon and delta", expected, str(budget))
    return split(scale, count, False)


def share_of(total: Fraction, parts: int = 1) -> Fraction:
    """One of so many equal parts, rounded down.

    Raises
    ------
    InvalidArgument
        If nothing is left of it.
    """
    share = equal_share(total, parts)
    if not share:
        raise InvalidArgument("scale", "finite", "shares of next to nothing")
    return share


def _tuned(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # the kind of amount
    each = share_of(amount * (1 - _START_SHARE), rounds)
    if pure:
        chosen = share_of(each * _PURE_CHOICE_SHARE)
        start = LaplaceNoise(share_of(amount * _START_SHARE))
        return Plan("tuned", rounds, chosen, LaplaceNoise(each - chosen), start)
    choice = _choice(each * _CHOICE_SHARE)
    noise = GaussianNoise(_short(each * (1 - _CHOICE_SHARE)))
    return Plan("tuned", rounds, choice, noise, GaussianNoise(_short(amount * _START_SHARE)))


def _textbook(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as above
    if not pure:
        raise InvalidArgument("delta", "0, as the algorithm is printed", "another")
    each = share_of(amount, 2 * rounds)
    return Plan("textbook", rounds, each, LaplaceNoise(each))


def _averaged(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as above
    each = share_of(amount, rounds)
    return Plan("averaged", rounds, each if pure else _choice(each), None)


_SPLITS: dict[Rule, Callable[[Fraction, int, bool], Plan]] = {
    "tuned": _tuned,
    "textbook": _textbook,
    "averaged": _averaged,
}


def _short(amount: Fraction) -> Fraction:
    """An amount of few digits, rounded down, so that what follows from it is quick."""
    scale = _DIGITS * max(1, math.ceil(1 / amount))
    return Fraction(math.floor(amount * scale), scale)


def _choice(rho: Fraction) -> Fraction:
    """The ε of bounded range, rounded down, that costs no more than ρ: ε² / 8."""
    scale = _DIGITS * max(1, math.ceil(1 / rho))
    return Fraction(math.isqrt(math.floor(8 * rho * scale**2)), scale)


def _rounds(rule: Rule, total: Total, form: LinearForm, beta: float, facts: Facts) -> int:
    """How many rounds suit a total, from public facts."""
    rows = float(max(facts.rows or facts.row_limit, 1)) / facts.unit_rows
    if rule == "tuned":
        # Measured on Adult by tests/bench/bench_mwem.py: 20 rounds at 48,842 rows and (1, 1e-9), 8
        # at (0.1, 1e-9).
        strength = rows * (math.sqrt(total.concentrated) or float(total.epsilon or 0) / 30)
        wanted = _ROUNDS if facts.rows is None else round(0.64 * math.pow(strength, 0.4))
        return max(1, min(_MOST_ROUNDS, 4 * len(form.blocks), wanted))
    potential = math.log(facts.domain.size + facts.outside)
    candidates = sorted({min(_MOST_ROUNDS, round(1.05**power)) for power in range(190)})
    return min(
        candidates,
        key=lambda count: _bound(rule, total, count, form.rows, potential, rows, beta),
    )


def _bound(
    rule: Rule, total: Total, rounds: int, options: int, potential: float, rows: float, beta: float
) -> float:
    """The error, as a share, that may be promised for so many rounds, up to rounding."""
    if rule == "textbook":
        scale = 2 * rounds / float(total.epsilon or 1)
        choice = 2 * scale * math.log(2 * options * rounds / beta) / rows
        number = scale * math.log(2 * rounds / beta) / rows
        return choice + math.sqrt(4 * potential / rounds + number**2)
    rho = total.concentrated
    epsilon = math.sqrt(8 * rho / rounds) if rho else float(total.epsilon or 1) / rounds
    choice = 2 * math.log(2 * options * rounds / beta) / (epsilon * rows)
    return choice + math.sqrt(potential / (2 * rounds))
