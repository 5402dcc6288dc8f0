"""Refusals in the caller's units: what was asked, what is left, and what would fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from dpsdk._records import evolve
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.additive import AdditiveComposition
from dpsdk.accounting.filters.any_of import AnyOf, leakless
from dpsdk.accounting.filters.composition import Composition, Runs, State, is_open
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.filters.renyi import MixedComposition
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
)
from dpsdk.accounting.numbers import LEAK_STEPS, as_room, as_text, from_steps, percentage
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.accounting.prices.run import prices_of
from dpsdk.accounting.spent import Remaining, Spent
from dpsdk.errors import BudgetExceeded, Shortage, UnsupportedGuarantee

__all__ = ["of_periods", "refusal", "unpriced", "worded"]

_Pairs: TypeAlias = Sequence[tuple[Guarantee, int]]

_LEAKS = "the share for leaks"

_GET_DELTA = "open the session with a budget that has one, as Budget(1, 1e-6), or use Laplace noise"

_NEARLY = Fraction(999, 1000)


def worded(runs: Runs) -> str:
    """Say what was asked for, in the parameters of a mechanism."""
    pairs = _pairs(runs)
    first, total = pairs[0][0], sum(times for _, times in pairs)
    if total == 1:
        return _named(first)
    if all(run == first for run, _ in pairs):
        return f"{total:,} runs of {_named(first)}"
    summed = _summed(pairs)
    of_all = f" of {summed} in all" if summed else ""
    return f"{total:,} runs together{of_all}, the first of {_named(first)}"


def _summed(pairs: _Pairs) -> str:
    """The sum of runs of one kind, in their parameters; nothing of runs that do not add up."""
    sums: dict[str, Fraction] = {}
    for run, times in pairs:
        for name, size in _sizes(run).items():
            sums[name] = sums.get(name, Fraction(0)) + size * times
    if any(_sizes(run).keys() != sums.keys() for run, _ in pairs):
        return ""
    return " and ".join(f"{name} {as_text(size, up=True)}" for name, size in sums.items())


def _sizes(run: Guarantee) -> dict[str, Fraction]:
    if isinstance(run, DiscreteGaussianGuarantee):
        if run.claim is None:
            return {"rho": run.rho}
        return dict(zip(("epsilon", "delta"), run.claim, strict=True))
    if isinstance(run, ApproximateGuarantee):
        return {"epsilon": run.epsilon, "delta": run.delta}
    if isinstance(run, DiscreteLaplaceGuarantee | PureGuarantee):
        return {"epsilon": run.epsilon}
    return {}


def _pairs(runs: Runs) -> _Pairs:
    return [run if isinstance(run, tuple) else (run, 1) for run in runs]


def _named(run: Guarantee) -> str:
    if isinstance(run, DiscreteGaussianGuarantee):
        if run.claim is None:
            return f"rho {as_text(run.rho, up=True)} by Gaussian noise"
        epsilon, delta = run.claim
        return f"epsilon {as_text(epsilon)} and delta {as_text(delta)} by Gaussian noise"
    if isinstance(run, ApproximateGuarantee):
        return f"epsilon {as_text(run.epsilon, up=True)} and delta {as_text(run.delta, up=True)}"
    if isinstance(run, DiscreteLaplaceGuarantee):
        return f"epsilon {as_text(run.epsilon, up=True)} by Laplace noise"
    if isinstance(run, PureGuarantee):
        return f"epsilon {as_text(run.epsilon, up=True)}"
    return str(run)


def refusal(
    composition: Composition,
    states: Sequence[State],
    runs: Runs,
    spent: Spent,
    remaining: Remaining,
    *,
    within: str = "",
    reserved: bool = False,
) -> BudgetExceeded:
    """Make the refusal of runs that do not fit one of these states."""
    pairs = _pairs(runs)
    found = (_shortages(composition, state, pairs, within) for state in states)
    shortages = next(filter(None, found), list[Shortage]())
    left = f"{percentage(remaining.fraction)} of {spent.of or spent.guarantee} is left"
    if reserved:
        left += ", a part of it reserved by scopes"
    fits = [_repeated(composition, states, pairs, shortages), _room(pairs, shortages, remaining)]
    known = ", or ".join(filter(None, fits))
    why = f"{left}, enough for {known}" if known else f"{left}, and no run fits"
    if not spent.guarantee.delta and any(
        short.limit == "delta" and not short.cap for short in shortages
    ):
        why = f"{left}, which has no delta: {_GET_DELTA}"
    return BudgetExceeded(
        worded(runs),
        str(spent),
        str(remaining),
        why,
        tuple(shortages),
        remaining.epsilon,
        remaining.rho,
    )


def of_periods(
    error: BudgetExceeded, refusing: Sequence[tuple[int, int]], desk: tuple[int, int]
) -> BudgetExceeded:
    """The refusal by some ranges of periods, in order, with the most that would pass."""
    if not refusing:
        return error
    first, count = refusing[0][0], sum(high - low + 1 for low, high in refusing)
    ends = [desk[0] - 1, *(high for _, high in refusing)]
    gaps = zip(ends, [*(low for low, _ in refusing), desk[1] + 1], strict=True)
    passing = [(end + 1, start - 1) for end, start in gaps if end + 1 < start]
    widest = max(passing, key=lambda one: (one[1] - one[0], one[1]), default=None)
    places = f"; {'a period' if count == 1 else f'{count:,} periods'} refused, first {first}"
    if widest is not None:
        places += f", and {widest[0]} to {widest[1]} would not"
    return evolve(error, period=first, refusing=count, passing=widest, places=places)


def unpriced(error: UnsupportedGuarantee, budget: Budget, runs: Runs) -> UnsupportedGuarantee:
    """The error for runs without a price, which says so if Gaussian noise lacks a delta."""
    gaussian = any(isinstance(run, DiscreteGaussianGuarantee) for run, _ in _pairs(runs))
    if budget.delta or not gaussian:
        return error
    reason = f"Gaussian noise needs a delta, and {budget} has none: {_GET_DELTA}"
    return UnsupportedGuarantee(error.guarantee, error.composition, reason)


def _repeated(
    composition: Composition, states: Sequence[State], runs: _Pairs, shortages: Sequence[Shortage]
) -> str:
    """Say how many of several equal runs fit; nothing where that is none, or a reserve counts."""
    run, total = runs[0][0], sum(times for _, times in runs)
    if total == 1 or not shortages or any(other != run for other, _ in runs):
        return ""
    try:
        rounds = [composition.rounds(state, (run,)) for state in states]
    except UnsupportedGuarantee:
        return ""
    count = min((one for one in rounds if one is not None), default=0)
    return f"{count:,} of them" if 0 < count < total else ""


def _room(runs: _Pairs, shortages: Sequence[Shortage], remaining: Remaining) -> str:
    run = runs[0][0]
    epsilon, rho = _size("epsilon", remaining.epsilon), _size("rho", remaining.rho)
    leaks = [short.left for short in shortages if short.limit == "delta"]
    sizes = [epsilon, rho]
    if isinstance(run, DiscreteGaussianGuarantee):
        sizes = [rho, epsilon]
        if run.claim and rho:
            claimed = _size("epsilon", _claimed(remaining.rho, *run.claim))
            sizes = [
                _with_delta(claimed, (), run.claim[1]),
                epsilon and f"{epsilon} by Laplace noise",
            ]
        elif run.claim:
            sizes = [_with_delta(epsilon, leaks, run.claim[1])]
    elif isinstance(run, ApproximateGuarantee):
        sizes = [_with_delta(epsilon, leaks, run.delta), rho]
    known = " or of ".join(filter(None, sizes))
    return f"one run of {known}" if known else ""


def _size(name: str, size: Fraction) -> str:
    return f"{name} up to {as_room(size)}" if size > 0 else ""


def _with_delta(size: str, leaks: Sequence[Fraction], delta: Fraction) -> str:
    if not size or not leaks:
        return size and f"{size} and delta {as_text(delta)}"
    return f"{size} and {_size('delta', max(leaks)) or 'delta 0'}"


def _claimed(rho: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """An ε below this one whose Gaussian has at most `rho`, nearly the largest, in a few steps."""
    fits, power, goal = Fraction(0), 2.0, math.log(rho)
    point, reached = math.log(epsilon), math.log(claim_rho(epsilon, delta))
    for _ in range(7):
        after = point + (goal - reached) / power - 1e-4
        size = Fraction(math.exp(after))
        known = claim_rho(size, delta)
        if known <= rho:
            fits = max(fits, size)
            if known >= rho * _NEARLY:
                break
        growth = math.log(known) - reached
        power = growth / (after - point) if growth else power
        point, reached = after, reached + growth
    return fits


def _shortages(composition: Composition, state: State, runs: _Pairs, within: str) -> list[Shortage]:
    """The limits that the runs would pass; none where they fit, or where nothing is known."""
    if isinstance(composition, AnyOf):
        leaks: list[Shortage] = []
        if composition.leak_share:
            leaks = _leaks(state.spent[0], state.limit[0], runs, _placed(_LEAKS, within))
            runs = [(leakless(run), times) for run, times in runs]
        found: list[Shortage] = []
        for member, part in zip(composition.members, state.parts, strict=True):
            if not is_open(part):
                continue
            short = _shortages(member, part, runs, within)
            if not short and _fits(member, part, runs):
                return leaks
            found += short
        return leaks + found
    title = getattr(type(composition), "title", type(composition).__name__)
    if isinstance(composition, MixedComposition):
        title = composition.order_title(state)
        pairs = composition.open_members(state)
        if not pairs:
            return []
        composition, state = pairs[0]
    place = _placed(title, within)
    try:
        if isinstance(composition, AdditiveComposition):
            return _sums(composition, state, runs, place)
        if isinstance(composition, EnvelopeComposition):
            return _shift(composition, state, runs, place)
    except UnsupportedGuarantee:
        pass
    return []


def _placed(title: str, within: str) -> str:
    return f"{title} in {within}" if within else title


def _leaks(spent: int, limit: int, runs: _Pairs, place: str) -> list[Shortage]:
    """The limit of leaks, in steps of their grid, where the runs would pass it."""
    try:
        steps = sum(prices_of(run).leak_steps * times for run, times in runs)
    except UnsupportedGuarantee:
        return []
    asked, left = from_steps(steps, LEAK_STEPS), from_steps(limit - spent, LEAK_STEPS)
    cap = from_steps(limit, LEAK_STEPS)
    return [Shortage("delta", place, asked, left, cap)] if asked > left else []


def _fits(composition: Composition, state: State, runs: _Pairs) -> bool:
    try:
        return composition.rounds(state, runs) != 0
    except UnsupportedGuarantee:
        return False


def _sums(
    composition: AdditiveComposition, state: State, runs: _Pairs, place: str
) -> list[Shortage]:
    costs = [(composition.cost(run), times) for run, times in runs if not run.free]
    found: list[Shortage] = []
    for axis, (limit, steps) in enumerate(((composition.axis, None), ("delta", LEAK_STEPS))):
        asked = sum(cost[axis] * times for cost, times in costs)
        spent, cap = state.spent[axis], state.limit[axis]
        if asked > cap - spent:
            amounts = (asked, cap - spent, cap)
            one, left, whole = (
                from_steps(amount) if steps is None else from_steps(amount, steps)
                for amount in amounts
            )
            found.append(Shortage(limit, place, one, left, whole))
    return found


def _shift(
    composition: EnvelopeComposition, state: State, runs: _Pairs, place: str
) -> list[Shortage]:
    short = _leaks(state.spent[1], state.limit[1], runs, place)
    if short or _fits(composition, state, runs):
        return short
    left, cap = from_steps(state.limit[0] - state.spent[0]), from_steps(state.limit[0])
    return [Shortage("squared shift", place, None, left, cap)]
