"""Refusals in the caller's words: what was asked, which limit it would pass, and what would fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dpsdk.accounting.filters.additive import AdditiveComposition
from dpsdk.accounting.filters.any_of import AnyOf, leakless
from dpsdk.accounting.filters.composition import Composition, Runs, State, is_open
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.filters.mixed import MixedComposition
from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee, Guarantee
from dpsdk.accounting.numbers.display import as_text, texts_apart
from dpsdk.accounting.numbers.steps import LEAK_STEPS, from_steps
from dpsdk.accounting.prices.run import prices_of
from dpsdk.accounting.spent import Remaining, Spent
from dpsdk.errors import BudgetExceeded, Shortage, UnsupportedGuarantee

__all__ = ["refusal", "worded"]

_Pairs: TypeAlias = Sequence[tuple[Guarantee, int]]

_LEAKS = "the share for leaks"
_RESERVED = "it would not leave what scopes have reserved"


def worded(runs: Runs) -> str:
    """Some runs in words. A Gaussian that was asked for by a pair (ε, δ) is called by that pair."""
    pairs = _pairs(runs)
    first, total = pairs[0][0], sum(times for _, times in pairs)
    if total == 1:
        return _named(first)
    if all(run == first for run, _ in pairs):
        return f"{total:,} runs of {_named(first)}"
    return f"{total:,} runs together, the first of {_named(first)}"


def _pairs(runs: Runs) -> _Pairs:
    """Runs, also free ones, each with how many times it is asked for."""
    return [run if isinstance(run, tuple) else (run, 1) for run in runs]


def _named(guarantee: Guarantee) -> str:
    if isinstance(guarantee, DiscreteGaussianGuarantee) and guarantee.claim:
        epsilon, delta = guarantee.claim
        return f"({as_text(epsilon)}, {as_text(delta)})-DP by discrete Gaussian noise"
    return str(guarantee)


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
    """The refusal of runs that do not fit one of these states."""
    shortages: list[Shortage] = []
    for state in states:
        found = _shortages(composition, state, _pairs(runs), within)
        if found:
            shortages = found
            break
    why = _why(shortages)
    if reserved:
        why = f"{why}, besides what scopes have reserved" if why else _RESERVED
    return BudgetExceeded(
        worded(runs),
        str(spent),
        str(remaining),
        why,
        tuple(shortages),
        remaining.epsilon,
        remaining.rho,
    )


def _why(shortages: Sequence[Shortage]) -> str:
    told: list[str] = []
    for short in shortages:
        left, cap, *asked = texts_apart(
            short.left, short.cap, *([] if short.asked is None else [short.asked])
        )
        amount = " ".join([short.limit, *asked])
        has = "has" if short.left == short.cap else f"has left of {cap}"
        more = "than" if told else "is more than"
        told.append(f"its {amount} {more} the {left} that {short.within} {has}")
    *first, last = told or [""]
    return f"{', '.join(first)}, and {last}" if first else last


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
        composition, state = composition.in_use(state)
        title = f"{title} at order {as_text(composition.order)}"
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
