"""Odometers within an odometer: a capped share of a budget, and a part of a partitioned table.

Each charge is decided and taken on all of them at once, under one lock, so that whatever an inner
odometer accepted is also within the budget. docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

from dpsdk._checks import shown, to_fraction
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.figures import figure
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.odometer import Books, Decision, Line, Odometer
from dpsdk.accounting.spent import Remaining, Spent
from dpsdk.accounting.states import holds, lessened, portion
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, TooLarge
from dpsdk.typing import Real

__all__ = ["PartOdometer", "ScopeOdometer", "kinds_of_neighbors"]

_KIND_LIMIT = 2**12


class ScopeOdometer(Odometer):
    """A cap within the budget of another odometer: a charge must fit both.

    Nothing is set aside unless `reserve`: then other charges leave to the scope what its cap still
    allows, as far as the same count of an `AnyOf` stays open.

    Parameters
    ----------
    outer
        The odometer that pays.
    name
        What refusals call the scope; public.
    cap
        A budget, begun by the outer composition; or a share, in (0, 1], of each limit of that.
    reserve
        Whether to set the cap aside until `close`.

    Raises
    ------
    InvalidArgument
        If a share is not in (0, 1].
    BudgetExceeded
        If what is left is less than what should be reserved.
    """

    def __init__(
        self, outer: Odometer, name: str, cap: Budget | Real, *, reserve: bool = False
    ) -> None:
        whole = outer.budget
        super().__init__(cap if isinstance(cap, Budget) else whole, outer.composition)
        self._outer = outer
        self._lock = outer._lock
        self._process = outer._process
        self._name = name
        self._closed = False
        if isinstance(cap, Budget):
            self._cap = str(cap)
            start = self.composition.begin(cap)
        else:
            share = _share(cap)
            self._cap = f"{figure(share * 100)}% of {whole}"
            start = portion(outer.state, share)
        self._books = Books((Line(start, epsilon=0, rho=0),), charges=0)
        if reserve:
            self._reserve()

    @property
    def outer(self) -> Odometer:
        """The odometer that pays."""
        return self._outer

    @property
    def spent(self) -> Spent:
        """What was spent through this scope, as a share of its cap."""
        return self._spent(self._worst(None), self._books.charges, self._title)

    def close(self) -> None:
        """Charge nothing more, and give back what was reserved and not spent."""
        with self._lock:
            self._closed = True
            outer = self._outer
            outer._reserves = tuple(one for one in outer._reserves if one is not self)

    def _reserve(self) -> None:
        outer = self._outer
        with self._lock:
            held = outer._held(None)
            state = holds(lessened(outer.state, held), self.state)
            if state is None:
                asked = f"a reserve of {self._cap} for {self._title}"
                raise BudgetExceeded(asked, str(outer.spent), str(outer.remaining))
            self._books = Books((Line(state, epsilon=0, rho=0),), charges=0)
            outer._reserves = (*outer._reserves, self)

    @property
    def _title(self) -> str:
        return f"scope {self._name!r} ({self._cap})"

    def _decide(
        self,
        guarantees: tuple[Guarantee, ...],
        among: frozenset[int] | None,
        holder: Odometer | None,
    ) -> Decision:
        if self._closed:
            raise Closed(self._title)
        own = super()._decide(guarantees, among, holder)
        return [*self._outer._decide(guarantees, None, self), *own]

    def _rounds(
        self,
        runs: tuple[Guarantee | tuple[Guarantee, int], ...],
        among: frozenset[int] | None,
        holder: Odometer | None,
    ) -> int | None:
        own = super()._rounds(runs, among, holder)
        outer = self._outer._rounds(runs, None, self)
        return min((count for count in (own, outer) if count is not None), default=None)

    def _remaining(self, among: frozenset[int] | None, holder: Odometer | None) -> Remaining:
        own = super()._remaining(among, holder)
        outer = self._outer._remaining(None, self)
        return Remaining(own.fraction, min(own.epsilon, outer.epsilon), min(own.rho, outer.rho))


class PartOdometer(Odometer):
    """Charges that concern some kinds of neighbours alone: those that differ in one part.

    Parameters
    ----------
    outer
        The odometer that pays, divided by `Odometer.divide`.
    name
        What reports call the part; public.
    kinds
        The numbers of the lines that a charge counts on.
    """

    def __init__(self, outer: Odometer, name: str, kinds: Iterable[int]) -> None:
        super().__init__(outer.budget, outer.composition)
        self._outer = outer
        self._lock = outer._lock
        self._process = outer._process
        self._name = name
        self._kinds = frozenset(kinds)
        self._closed = False

    @property
    def spent(self) -> Spent:
        """What was spent, this part's charges and all that concern it included."""
        line = self._outer._worst(self._kinds)
        return self._spent(line, self._books.charges)

    def close(self) -> None:
        """Charge nothing more."""
        with self._lock:
            self._closed = True

    def _decide(
        self,
        guarantees: tuple[Guarantee, ...],
        among: frozenset[int] | None,
        holder: Odometer | None,
    ) -> Decision:
        del among  # a part has its own
        if self._closed:
            raise Closed(self._name)
        outer = self._outer._decide(guarantees, self._kinds, holder)
        return [*outer, (self, self._books.lines)]

    def _rounds(
        self,
        runs: tuple[Guarantee | tuple[Guarantee, int], ...],
        among: frozenset[int] | None,
        holder: Odometer | None,
    ) -> int | None:
        del among
        return self._outer._rounds(runs, self._kinds, holder)

    def _remaining(self, among: frozenset[int] | None, holder: Odometer | None) -> Remaining:
        del among
        return self._outer._remaining(self._kinds, holder)


def _share(value: Real) -> Fraction:
    expected = "a share, above 0 and at most 1"
    share = to_fraction("share", value, expected)
    if not 0 < share <= 1:
        raise InvalidArgument("share", expected, shown(value))
    return share


def kinds_of_neighbors(parts: int, *, moves: bool) -> tuple[int, tuple[frozenset[int], ...]]:
    """How many kinds of neighbours a partition has, and which of them differ in each part.

    Parameters
    ----------
    parts
        The number of parts, at least 1.
    moves
        Whether neighbours may differ in two parts, since a row moves from one to the other. Then
        each pair of parts is a kind; else each part is one.

    Raises
    ------
    TooLarge
        If there are more kinds than an odometer should keep.
    """
    pairs = list(combinations(range(parts), 2)) if moves and 1 < parts <= 2**8 else []
    count = parts * (parts - 1) // 2 if moves and parts > 1 else parts
    if count > _KIND_LIMIT:
        advice = "divide by an attribute of fewer labels"
        raise TooLarge("the partition", count, _KIND_LIMIT, "kinds of neighbours", advice)
    if pairs:
        return count, tuple(
            frozenset(kind for kind, pair in enumerate(pairs) if part in pair)
            for part in range(parts)
        )
    return count, tuple(frozenset({part}) for part in range(parts))
