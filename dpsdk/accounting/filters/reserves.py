"""Reserves: how often runs fit, and how large one may be, beside what scopes have set aside.

A run is accepted if, on every line of the books, some count accepts it and can serve all reserves
afterwards; docs/explanation/proofs/scopes.md has the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeAlias

from dpsdk.accounting.filters.additive import root_down
from dpsdk.accounting.filters.composition import (
    Composition,
    MembersComposition,
    Pairs,
    State,
    counted,
    is_open,
    lessened,
    serves,
    serving,
)
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee, Guarantee, PureGuarantee
from dpsdk.accounting.numbers import from_steps, largest, truncated
from dpsdk.accounting.prices.envelope import price_of, pure_cost, steady_price
from dpsdk.errors import UnsupportedGuarantee

__all__ = ["Reserves", "Room", "gaussian_of"]

_Spans: TypeAlias = list[tuple[int, int | None]]
"""From which round on some count serves, and up to which; None where that never ends."""

_Leaves: TypeAlias = Sequence[tuple[Composition, State, "Reserves"]]
"""Counts that are open in a state and in all that is set aside, each with its part of these."""

_NEARLY = tuple(1 - Fraction(1, 10**power) for power in (12, 9, 6, 4))
"""Shares of a squared shift that a wide discrete Gaussian may take where some of it is kept."""

_STEPS = 8
"""So many steps of the lattice is a discrete Gaussian wide at the least."""


class Reserves(NamedTuple):
    """The reserves that runs must leave: `others` as they are, and `own`, which pays with them."""

    others: tuple[State, ...]
    own: State | None = None

    @property
    def held(self) -> tuple[State, ...]:
        return self.others if self.own is None else (*self.others, self.own)

    def member(self, place: int) -> Reserves | None:
        """The reserves as one member has them; None if it is closed in one of them."""
        others = [part for one in self.others if is_open(part := one.parts[place])]
        own = None if self.own is None else self.own.parts[place]
        if len(others) < len(self.others) or (self.own is not None and not is_open(own)):
            return None
        return Reserves(tuple(others), own)

    def after(self, composition: Composition, run: Guarantee) -> tuple[State, ...] | None:
        """All reserves after a run; None if it does not fit the own one."""
        if self.own is None:
            return self.others
        own = composition.charge(self.own, run)
        return None if own is None else (*self.others, own)

    def left(self, state: State, axis: int) -> int:
        return state.left(axis) - _kept(self.held, axis)


def _kept(reserves: Sequence[State], axis: int) -> int:
    return sum(one.left(axis) for one in reserves)


def _rounds(composition: Composition, state: State, runs: Pairs, reserves: Reserves) -> int | None:
    """How many times all of these runs are accepted on a line; None without end.

    Exact for the compositions of the package. Of another author's, at least so many: as many as fit
    limits that are lowered by what is set aside.
    """
    fits = composition.rounds(state, runs)
    if not fits or not reserves.held:
        return fits
    reached = 0
    spans = _spans(composition, state, counted(runs), reserves)
    for first, last in sorted(spans, key=lambda span: span[0]):
        if first > reached + 1:
            break
        if last is None:
            return None
        reached = max(reached, last)
    return reached


def _spans(composition: Composition, state: State, runs: Pairs, reserves: Reserves) -> _Spans:
    """In which rounds some count accepts the runs and serves all that is set aside after them."""
    try:
        if isinstance(composition, MembersComposition):
            return _of_members(composition, state, runs, reserves)
        if type(composition) is EnvelopeComposition:
            return _of_envelope(composition, state, runs, reserves)
        if not serves(state, reserves.held):
            return []
        mine = (
            lessened(state, reserves.others)
            if reserves.own is None
            else serving(reserves.own, [state], reserves.held)
        )
        return [(1, composition.rounds(mine, runs))]
    except UnsupportedGuarantee:
        return []


def _of_members(
    composition: MembersComposition, state: State, runs: Pairs, reserves: Reserves
) -> _Spans:
    if state.limit and reserves.left(state, 0) < 0:
        return []
    runs, leaks = composition.priced(runs)
    own = reserves.own
    most = (reserves.left(state, 0) if own is None else own.left(0)) // leaks if leaks else None
    return [
        (first, last if most is None else most if last is None else min(last, most))
        for member, part, within in _open_members(composition, state, reserves)
        for first, last in _spans(member, part, runs, within)
    ]


def _open_members(
    composition: MembersComposition, state: State, reserves: Reserves
) -> Iterator[tuple[Composition, State, Reserves]]:
    """The members that are open in a state and in all that is set aside."""
    for place, (member, part) in enumerate(zip(composition.members, state.parts, strict=True)):
        within = reserves.member(place)
        if is_open(part) and within is not None:
            yield member, part, within


def _of_envelope(
    composition: EnvelopeComposition, state: State, runs: Pairs, reserves: Reserves
) -> _Spans:
    own, apart, leak = reserves.own, reserves.left(state, 0), reserves.left(state, 1)
    # A run that costs leaks alone would fit, and what is left of the shift only falls.
    if leak < 0 or (own is None and apart < 0):
        return []
    kept, kept_leak = (_kept(reserves.others, axis) for axis in (0, 1))
    if own is None:
        return [(1, composition.rounds_keeping(state, runs, kept, kept_leak))]
    last = composition.rounds(own, runs)
    first = 1 if apart >= 0 else _first_apart(state, own, runs, kept)
    return [] if first is None or (last is not None and last < first) else [(first, last)]


def _first_apart(state: State, own: State, runs: Pairs, apart: int) -> int | None:
    """After how many rounds so much more is left in a state than in a cap that pays with it."""
    v, mine = state.left(0), own.left(0)
    count = 0
    while v >= mine:
        price, dearer = steady_price(runs, v), steady_price(runs, mine)
        if price is None or dearer is None or not price[0]:
            return None
        gained = dearer[0] - price[0]
        rounds = min((v - price[1]) // price[0], (mine - dearer[1]) // dearer[0]) + 1
        if gained > 0:
            needed = -(-(apart - v + mine) // gained)
            if needed <= rounds:
                return count + needed
        count += rounds
        v -= rounds * price[0]
        mine -= rounds * dearer[0]
    return None


def _largest_epsilons(leaves: _Leaves) -> list[Fraction]:
    """The largest ε of a pure run that each count accepts, if it is accepted at all.

    Of all that are accepted on several lines, the largest is one of theirs. An envelope may accept
    a larger one, which `_larger_epsilons` looks for.
    """
    return [
        leaf.largest_epsilon(lessened(part, within.others) if within.own is None else within.own)
        for leaf, part, within in leaves
    ]


def _larger_epsilons(leaves: _Leaves, above: Fraction) -> list[Fraction]:
    """The largest ε of a pure run that each envelope accepts, where it may be above another."""
    return [
        _epsilon_keeping(part.left(0), within.left(part, 0))
        for leaf, part, within in leaves
        if type(leaf) is EnvelopeComposition
        and within.own is None
        and leaf.largest_epsilon(part) > above
    ]


def _largest_rhos(leaves: _Leaves) -> list[Fraction]:
    """The largest ρ of a discrete Gaussian run that each count accepts, as `_largest_epsilons`."""
    found: list[Fraction] = []
    for leaf, part, within in leaves:
        if within.own is not None:
            found.append(leaf.largest_rho(within.own))
            continue
        found.append(leaf.largest_rho(lessened(part, within.others)))
        if type(leaf) is EnvelopeComposition:
            room = from_steps(within.left(part, 0)) / 2
            found += [truncated(room * share) for share in _NEARLY]
    return found


def gaussian_of(rho: Fraction) -> DiscreteGaussianGuarantee:
    """The dearest of all runs of ρ by discrete Gaussian noise of 8 lattice steps or more.

    That is the narrowest, since its excess falls faster with the variance than it grows with the
    entries.
    """
    square = math.ceil(2 * _STEPS * _STEPS * rho)
    return DiscreteGaussianGuarantee(square / (2 * rho), square, math.isqrt(square))


def _leaves(
    composition: Composition, state: State, reserves: Reserves
) -> Iterator[tuple[Composition, State, Reserves]]:
    """The counts that are open in a state and in all that is set aside."""
    if isinstance(composition, MembersComposition):
        for inner in _open_members(composition, state, reserves):
            yield from _leaves(*inner)
    elif reserves.own is not None or serves(state, reserves.held):
        yield composition, state, reserves


@lru_cache(4096)
def _epsilon_keeping(v: int, room: int) -> Fraction:
    """The largest ε of a pure run that takes no more than a part of the v of an envelope."""

    def exactly(epsilon: Fraction) -> bool:
        cost = pure_cost(*epsilon.as_integer_ratio(), v)
        return cost is not None and cost <= room

    def charged(epsilon: Fraction) -> bool:
        price = price_of(PureGuarantee(epsilon), v)
        return price is not None and price[0] <= room

    # A charge is worked out for v itself only where no rounder v has room for it.
    low = truncated(root_down(from_steps(room) / 2))
    most = largest(exactly, low)
    return most if not most or charged(most) else largest(charged, low, most)


class Room(NamedTuple):
    """How often runs fit, and how large one may be, on all lines that they count on.

    Parameters
    ----------
    composition
        The filter.
    caps
        How far the caps of scopes are spent that the runs must fit.
    lines
        How far each line is spent, whatever is set aside.
    reserves
        What is set aside.
    """

    composition: Composition
    caps: Sequence[State]
    lines: Sequence[State]
    reserves: Reserves

    def rounds(self, runs: Pairs) -> int | None:
        """How many times all of these runs are accepted, one after the other; None without end."""
        composition = self.composition
        caps = (composition.rounds(state, runs) for state in self.caps)
        lines = (_rounds(composition, state, runs, self.reserves) for state in self.lines)
        fewest: int | None = None
        for count in chain(caps, lines):  # in the order in which a charge would be refused
            if count is not None:
                fewest = count if fewest is None else min(count, fewest)
            if fewest == 0:
                break
        return fewest

    def largest(self) -> tuple[Fraction, Fraction]:
        """The largest ε of one pure run that fits, and the largest ρ of a discrete Gaussian."""
        epsilons, rhos = self.composition.largest_epsilon, self.composition.largest_rho
        if not self.reserves.held:
            states = (*self.caps, *self.lines)
            return min(map(epsilons, states)), min(map(rhos, states))
        tightest = sorted(self.lines, key=epsilons)
        leaves = [list(_leaves(self.composition, state, self.reserves)) for state in tightest]
        sizes = {*map(epsilons, self.caps)}.union(*map(_largest_epsilons, leaves))
        epsilon = self._first(tightest, sizes, PureGuarantee)
        if not self.caps or epsilon < min(map(epsilons, self.caps)):
            sizes = sizes.union(*(_larger_epsilons(one, epsilon) for one in leaves))
            larger = {size for size in sizes if size >= epsilon}
            epsilon = self._first(tightest, larger, PureGuarantee)
        widths = {*map(rhos, self.caps)}.union(*map(_largest_rhos, leaves))
        return epsilon, self._first(sorted(self.lines, key=rhos), widths, gaussian_of)

    def _first(
        self,
        lines: list[State],
        sizes: Iterable[Fraction],
        run: Callable[[Fraction], Guarantee],
    ) -> Fraction:
        """The largest of some sizes for which a run fits; 0 if there is none."""
        charge = self.composition.charge
        for size in sorted(sizes, reverse=True):
            if size <= 0:
                break
            asked = run(size)
            with suppress(UnsupportedGuarantee):
                held = self.reserves.after(self.composition, asked)
                if held is None or any(charge(cap, asked) is None for cap in self.caps):
                    continue
                for place, line in enumerate(lines):
                    after = charge(line, asked)
                    if after is None or not serves(after, held):
                        # The next size most likely fails here too: one look is enough then.
                        lines.insert(0, lines.pop(place))
                        break
                else:
                    return size
        return Fraction(0)
