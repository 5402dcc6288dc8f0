"""The discovery: paid searches of a table that nobody has described, for a domain to declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypedDict, Unpack, final

import numpy as np

from dpsdk._checks import shown, to_delta, to_name, to_positive, to_within
from dpsdk._html import html_of, page, pairs, warning
from dpsdk._lifetime import Closable, Lifetime
from dpsdk._records import frozen, shows_half_made
from dpsdk.accounting import (
    Anytime,
    BasicComposition,
    Budget,
    Composition,
    Guarantee,
    Ledger,
    Odometer,
    Readings,
    Remaining,
    Spent,
)
from dpsdk.accounting.spent import without_runs
from dpsdk.data.cells import ROW_TOPS, Cells, ListedCells, NumberCells
from dpsdk.data.undeclared import Undeclared, UndeclaredFacts
from dpsdk.errors import DpsdkError, InvalidArgument, NoBounds
from dpsdk.kernel.access import UndeclaredAccess, dataset_of
from dpsdk.kernel.discover import Discover, Discovered, DiscoverPricing, Search
from dpsdk.kernel.measure import GaussianNoise, LaplaceNoise, Noise
from dpsdk.kernel.question import event_context
from dpsdk.mechanisms.arguments import gaussian_for
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.observe import Answered, Event, Observer
from dpsdk.release import Cost
from dpsdk.release.description import Description
from dpsdk.release.discoveries import Bounds, Keys, RowsPerPerson, to_share
from dpsdk.session.describing import described, first_look, to_steps
from dpsdk.session.history import History, Receipts
from dpsdk.session.session import check_terms
from dpsdk.typing import Real

__all__ = ["Discovery", "Estimate", "NoiseCost"]

_MOST_ROUNDS = 8
_ROUNDS = 3
_GROWTH = 3
"""Each round has so many times the ρ of the one before."""

_WORTH_ROUNDS = Fraction(1, 160)
"""The ρ, roughly of ε = 1/2, from which on rounds find more keys than one search."""

_STRAY = 1e-4
"""The probability with which some empty cell of bounds passes; it would only make them wider."""

_UNSEEN = 1e-3
"""The probability with which some empty cell of numbers of rows counts for persons."""

_NOTABLE = 10
"""Bounds that were not found are found for one number in so many by the factor that is told."""


@frozen
class Estimate:
    """What a search would cost, and what it would take to be found. Spends nothing.

    Parameters
    ----------
    cost
        What would be charged.
    passing
        A key, or a cell of bounds, with as many rows or persons is found half of the time; 0 where
        all counts are shown.
    error
        With probability 95%, no noise on a closed cell is more; 0 where there is none.
    """

    cost: Cost
    passing: float
    error: float

    def __str__(self) -> str:
        if not self.passing:
            return f"{self.cost}; all counts, off by at most {self.error:,.0f} at 95%"
        return f"{self.cost}; found from about {self.passing:,.0f} rows or persons on"


class NoiseCost(TypedDict, total=False):
    """What the noise of a search costs; `Discovery.keys` explains the ways to say so."""

    rho: Real | None
    epsilon: Real | None
    delta: Real | None


class _Plan(NamedTuple):
    """Searches that are paid together, and made one after the other."""

    label: str
    rounds: tuple[DiscoverPricing, ...]

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return tuple([one for pricing in self.rounds for one in pricing.guarantees])


@shows_half_made
@final
class Discovery(Closable):
    """A session over a table that nobody has described: what it finds is public, and paid for.

    It spends the same budget, on the same ledger, as the sessions that follow on the described
    table: give these the same name, budget, relation and column of persons. Each answer is a
    declaration: of labels, of bounds, of how many rows of a person to keep.

    Use it in a `with`. Answers can be asked from several threads.

    Parameters
    ----------
    undeclared
        The table.
    budget
        What may be spent in all, by the sessions that follow as well.
    composition, noise, observer, anytime, ledger
        As for a `Session`.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be, or may not be used with a durable ledger.
    LedgerConflict
        If the ledger is bound to something else.

    >>> from dpsdk import Budget, Discovery, Undeclared
    >>> flights = {"dest": ["ORD"] * 600 + ["ATL"] * 400 + ["XNA"]}
    >>> raw = Undeclared.from_columns(flights, unit=None, name="flights")
    >>> with Discovery(raw, Budget(epsilon=1, delta="1e-6")) as discovery:
    ...     found = discovery.keys("dest", rho="0.02")
    >>> found.labels
    ('ATL', 'ORD')
    """

    __slots__ = ("_access", "_data", "_history", "_lifetime", "_payer")

    def __init__(
        self,
        undeclared: Undeclared,
        budget: Budget,
        *,
        composition: Composition | None = None,
        noise: NoiseSource | None = None,
        observer: Observer | None = None,
        anytime: Anytime | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        if not isinstance(undeclared, Undeclared):
            raise InvalidArgument("undeclared", "an Undeclared", type(undeclared).__name__)
        check_terms(undeclared.name, budget, composition, noise, anytime, ledger)
        dataset = dataset_of(undeclared)
        source = SystemNoise() if noise is None else noise
        self._payer = Odometer(budget, composition, anytime, ledger=ledger, dataset=dataset)
        self._history = History(self._payer, observer)
        self._lifetime = Lifetime("the discovery")
        self._access = UndeclaredAccess(undeclared, self._payer, source, observer)
        self._data = undeclared

    @property
    def facts(self) -> UndeclaredFacts:
        """All that is public about the table."""
        return self._access.facts

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._payer.budget

    @property
    def spent(self) -> Spent:
        """The spent budget, by all sessions on the ledger."""
        return self._payer.spent

    @property
    def remaining(self) -> Remaining:
        """The budget that is left, while nobody else is charged."""
        found = self._payer.remaining
        return without_runs(found) if self._lifetime.over else found

    @property
    def history(self) -> Receipts:
        """The searches and their cost, with the charges of all sessions on the ledger."""
        return self._history.receipts

    def readings(self, delta: Real) -> Readings:
        """The cost so far, read in several ways; as of a `Session`."""
        return self._payer.readings(delta)

    def keys(
        self,
        column: str,
        *,
        leak: Real | None = None,
        width: int = 1,
        rounds: int | None = None,
        among: Sequence[str] | None = None,
        known: Iterable[str] = (),
        **price: Unpack[NoiseCost],
    ) -> Keys:
        """Find the labels of a column: the keys that enough rows, or persons, have.

        A key is shown if its noisy count reaches a threshold that a key of one person alone
        reaches with probability `leak` at most. So what is rare is never shown, and some of what
        is near the threshold is not.

        Parameters
        ----------
        column
            The name of the column.
        rho, epsilon, delta
            What the noise costs: `rho` alone, as for `Gaussian`; `epsilon` and `delta`, the same by
            a pair; or `epsilon` alone, as for `Laplace`.
        leak
            The probability with which a key of one person may show. It is charged beside the noise;
            half of what is left of the δ that the composition keeps for leaks, unless given.
        width
            Of each person so many different keys count, each with a smaller weight: noise stays
            the same, the threshold rises a little. 1 without a column of persons.
        rounds
            The searches that the cost is split into, each of which looks for what the ones before
            did not find. Unless given, three from a ρ of about ε = 1/2 on where persons may have
            several keys, else one.
        among
            A public list of keys: all of them are counted, none is found, and nothing leaks.
        known
            Public keys that need not be found, as those of an earlier answer.

        Raises
        ------
        InvalidArgument
            If an argument is out of range, or nothing is left for leaks. Nothing was charged.
        BudgetExceeded, UnsupportedGuarantee
            If the cost does not fit, or has no price in the composition. Nothing was charged.
        ReleaseFailed
            If something failed after the charge.
        """
        noise = _noise(**price)
        plan = self._keys_plan(column, noise, leak, width, rounds, among, known)
        found, cost = self._run(plan)
        facts = self.facts
        pairs_found = [pair for part in found for pair in zip(part.keys, part.counts, strict=True)]
        if among is not None:
            pairs_found = list(zip(ListedCells(among).labels, found[0].cells, strict=True))
        labels = tuple(sorted(key for key, _ in pairs_found))
        counts = np.array([count for _, count in sorted(pairs_found)], dtype=np.float64)
        covered = None
        if facts.rows is not None:
            covered = min(max(float(counts.sum()) / facts.rows, 0.0), 1.0)
        last = plan.rounds[-1]
        passing = last.passing if among is None else 0.0
        accuracy = None if among is None else last.accuracy
        return Keys(column, labels, counts, passing, covered, cost, accuracy)

    def quote_keys(
        self,
        column: str,
        *,
        leak: Real | None = None,
        width: int = 1,
        rounds: int | None = None,
        among: Sequence[str] | None = None,
        **price: Unpack[NoiseCost],
    ) -> Estimate:
        """Price `keys` with the same arguments. Spends nothing, reads nothing."""
        noise = _noise(**price)
        plan = self._keys_plan(column, noise, leak, width, rounds, among, ())
        passing = plan.rounds[-1].passing if among is None else 0.0
        return _estimate(plan, passing)

    def bounds(
        self, column: str, *, smallest: Real = "0.001", **price: Unpack[NoiseCost]
    ) -> Bounds:
        """Find bounds of the numbers of a column, from one noisy count of cells of a public scale.

        Of each person one row counts. Nothing leaks.

        Parameters
        ----------
        column
            The name of the column.
        rho, epsilon, delta
            What the noise costs, as for `keys`.
        smallest
            A power of ten: numbers nearer to zero are in one cell with it.

        Raises
        ------
        NoBounds
            If no cell passes. It was charged.
        InvalidArgument, BudgetExceeded, UnsupportedGuarantee, ReleaseFailed
            As for `keys`.
        """
        plan, cells = self._bounds_plan(column, _noise(**price), smallest)
        found, cost = self._run(plan)
        pricing, counts = plan.rounds[0], found[0].cells
        mark = pricing.pass_mark(_STRAY, cells.size)
        edges = [cells.bounds(place) for place in range(cells.size)]
        passed = [edges[place] for place in range(cells.size) if counts[place] >= mark]
        known = self.facts.rows
        if not passed:
            rows = float(counts.sum()) if known is None else float(known)
            raise NoBounds(column, mark, mark * _NOTABLE / rows if rows > 0 else 0.0)
        low, high = min(start for start, _ in passed), max(end for _, end in passed)
        if low == high:
            high = cells.smallest
        every = [(*pair, count) for pair, count in zip(edges, counts.tolist(), strict=True)]
        inside = tuple(sorted(one for one in every if low <= one[0] and one[1] <= high))
        whole = float(counts.sum())
        covered = min(max(sum(one[2] for one in inside) / whole, 0.0), 1.0) if whole > 0 else 0.0
        return Bounds(column, low, high, covered, inside, mark, cost, pricing.accuracy)

    def quote_bounds(
        self, column: str, *, smallest: Real = "0.001", **price: Unpack[NoiseCost]
    ) -> Estimate:
        """Price `bounds` with the same arguments. Spends nothing, reads nothing."""
        plan, cells = self._bounds_plan(column, _noise(**price), smallest)
        return _estimate(plan, plan.rounds[0].pass_mark(_STRAY, cells.size))

    def rows_per_person(self, *, whole: Real = "0.95", **price: Unpack[NoiseCost]) -> RowsPerPerson:
        """Find how many rows of a person to keep so that a share of the persons keep all.

        One person is in one cell of one noisy count, however many rows that person has. Cells that
        do not stand out of the noise count for none.

        Parameters
        ----------
        rho, epsilon, delta
            What the noise costs, as for `keys`.
        whole
            The share of the persons who should keep all of their rows.

        Raises
        ------
        NoBounds
            If no cell stands out of the noise. It was charged.
        InvalidArgument, BudgetExceeded, UnsupportedGuarantee, ReleaseFailed
            As for `keys`; also if no column tells persons apart.
        """
        share = to_share("whole", whole)
        plan = self._closed_plan("the rows of each person", None, _noise(**price), None)
        found, cost = self._run(plan)
        column, pricing, counts = self.facts.person or "", plan.rounds[0], found[0].cells
        # The noise of the many cells that hold nobody would add up.
        mark = pricing.pass_mark(_UNSEEN, len(counts))
        seen = np.where(counts >= mark, counts, 0.0)
        if not seen.any():
            raise NoBounds(column, mark)
        place = int(np.argmax(np.cumsum(seen) >= share * seen.sum()))
        accuracy = pricing.accuracy
        return RowsPerPerson(column, ROW_TOPS[place], share, ROW_TOPS, counts, cost, accuracy)

    def quote_rows_per_person(self, **price: Unpack[NoiseCost]) -> Estimate:
        """Price `rows_per_person` with the same arguments. Spends nothing, reads nothing."""
        plan = self._closed_plan("the rows of each person", None, _noise(**price), None)
        return _estimate(plan, 0.0)

    def describe(
        self,
        *,
        leak: Real | None = None,
        columns: Sequence[str] | None = None,
        steps: Mapping[str, Real] | None = None,
        **price: Unpack[NoiseCost],
    ) -> Description:
        """Find what all columns hold: numbers and their bounds, dates, labels, missing values.

        One search, in which each row, or one row of each person, counts once a column. A column is
        of numbers or dates where most of what stands out is, unless hardly any other value than 32
        frequent ones is there; of labels where frequent values are; else it is unknown. Column
        types of a frame or a file play no part, since they follow from its rows.

        Parameters
        ----------
        rho, epsilon, delta, leak
            What it costs, as for `keys`.
        columns
            The columns to look at; all of them unless given. Fewer show more at the same price.
        steps
            Columns that are of numbers, with how fine they are kept; else 1, or 0.001 where numbers
            are no whole ones.

        Raises
        ------
        InvalidArgument, BudgetExceeded, UnsupportedGuarantee, ReleaseFailed
            As for `keys`.
        """
        read = to_steps(steps, self.facts)
        plan = self._describe_plan(_noise(**price), leak, columns)
        results, cost = self._run_all(plan)
        return described(plan.rounds[0], results[0], self.facts, read, cost)

    def quote_describe(
        self,
        *,
        leak: Real | None = None,
        columns: Sequence[str] | None = None,
        **price: Unpack[NoiseCost],
    ) -> Estimate:
        """Price `describe` with the same arguments. Spends nothing, reads nothing."""
        plan = self._describe_plan(_noise(**price), leak, columns)
        return _estimate(plan, plan.rounds[0].passing)

    def _describe_plan(
        self, noise: Noise, leak: Real | None, columns: Sequence[str] | None
    ) -> _Plan:
        whole = self.default_leak() if leak is None else to_positive("leak", leak)
        request = first_look(columns, self.facts, noise, whole)
        return _Plan("a first look", (request.price(self.facts),))

    def default_leak(self) -> Fraction:
        """Half of what is left of the δ that the composition keeps for leaks.

        Raises
        ------
        InvalidArgument
            If that is nothing, as with a budget of δ = 0.
        """
        left = self._payer.balance.leak / 2
        if not left:
            expected = (
                "possible: keys of one person show with a small probability, and of the budget's "
                "delta nothing is kept for that (leak_share= of the composition); list keys by "
                "among= instead"
            )
            raise InvalidArgument("leak", expected, "a budget without room for one")
        return left

    def close(self) -> None:
        """Search nothing more."""
        self._lifetime.end()

    def _keys_plan(
        self,
        column: str,
        noise: Noise,
        leak: Real | None,
        width: int,
        rounds: int | None,
        among: Sequence[str] | None,
        known: Iterable[str],
    ) -> _Plan:
        name = to_name("column", column)
        if among is not None:
            unused = {"leak": leak, "rounds": rounds, "known": known or None}
            for parameter, value in unused.items():
                if value is not None:
                    expected = "left out with among=, where all are shown"
                    raise InvalidArgument(parameter, expected, shown(value))
            return self._closed_plan(
                f"the listed keys of {name!r}", name, noise, ListedCells(among), width
            )
        count = self._rounds(noise, rounds)
        whole = self.default_leak() if leak is None else to_positive("leak", leak)
        parts = [_GROWTH**place for place in range(count)]
        shares = [Fraction(part, sum(parts)) for part in parts]
        search = Search(name, keys=True, known=known)
        pricings = [
            Discover([search], _part(noise, share), whole * share, width).price(self.facts)
            for share in shares
        ]
        return _Plan(f"the keys of {name!r}", tuple(pricings))

    def _rounds(self, noise: Noise, rounds: int | None) -> int:
        if rounds is not None:
            expected = f"an integer from 1 to {_MOST_ROUNDS}, or None"
            return to_within("rounds", rounds, 1, _MOST_ROUNDS, expected)
        if self.facts.person is None:
            return 1  # a row whose key was found has no other
        if isinstance(noise, LaplaceNoise):
            return _ROUNDS if noise.epsilon >= Fraction(1, 2) else 1
        # A part of Gaussian noise has no (ε, δ) of its own, by which basic composition goes.
        parted = not isinstance(self._payer.composition, BasicComposition)
        return _ROUNDS if parted and noise.rho >= _WORTH_ROUNDS else 1

    def _bounds_plan(self, column: str, noise: Noise, smallest: Real) -> tuple[_Plan, NumberCells]:
        name, cells = to_name("column", column), NumberCells(smallest)
        return self._closed_plan(
            f"the bounds of {name!r}", name, noise, cells, distinct=False
        ), cells

    def _closed_plan(
        self,
        label: str,
        column: str | None,
        noise: Noise,
        cells: Cells | None,
        width: int = 1,
        *,
        distinct: bool = True,
    ) -> _Plan:
        request = Discover([Search(column, cells)], noise, None, width, distinct)
        return _Plan(label, (request.price(self.facts),))

    def _run(self, plan: _Plan) -> tuple[list[Discovered], Cost]:
        """Make searches of one column each."""
        results, cost = self._run_all(plan)
        return [one for (one,) in results], cost

    def _run_all(self, plan: _Plan) -> tuple[list[tuple[Discovered, ...]], Cost]:
        """Pay for all searches of a plan, and make them one after the other."""
        self._lifetime.check()
        history = self._history
        question = history.ask(plan.label, "discover", self._lifetime)
        done: Event | None = None
        try:
            access = self._access.on(question)
            charges = access.charge_all(plan.guarantees)
            results: list[tuple[Discovered, ...]] = []
            found: set[str] = set()
            for pricing in plan.rounds:
                run = pricing.knowing(found) if found else pricing
                results.append(access.read(charges[-1], run.run))
                found.update(key for one in results[-1] for key in one.keys)
            question.answered = True
            scope, request, now = event_context(question.asked)
            done = Answered(plan.label, "discover", scope=scope, request_id=request, at=now)
        except BaseException as error:
            history.note(question, error)
            raise
        finally:
            history.over(question, done)
        return results, Cost(plan.guarantees)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Charges nothing, and reads only the ledger."""
        lines: list[tuple[str, object]] = [("table", repr(self._data))]
        below = ""
        try:
            lines += [("budget", self.budget), ("spent", self.spent), ("left", self.remaining)]
            below = html_of(self.history)
        except DpsdkError as error:
            lines.append(("ledger", error))
        ended = ", closed" if self._lifetime.over else ""
        private = self._access.noise.private
        return page(f"Discovery{ended}", warning(private=private), pairs(lines), below)

    def __repr__(self) -> str:
        count = self._payer.count
        charges = f"{count:,} charge{'' if count == 1 else 's'}"
        state = "closed" if self._lifetime.over else charges
        mark = "" if self._access.noise.private else "\n  NOT PRIVATE: seeded noise"
        return (
            f"Discovery({self._data!r}, {state})\n"
            f"  spent      {self.spent}\n"
            f"  remaining  {self.remaining}{mark}"
        )


def _noise(
    *, rho: Real | None = None, epsilon: Real | None = None, delta: Real | None = None
) -> Noise:
    """The noise that costs so much."""
    if rho is not None and epsilon is None and delta is None:
        return GaussianNoise(rho)
    if rho is None and epsilon is not None:
        if delta is None:
            return LaplaceNoise(epsilon)
        return gaussian_for(to_positive("epsilon", epsilon), to_delta(delta))
    named = {"rho": rho, "epsilon": epsilon, "delta": delta}
    given = ", ".join(name for name, value in named.items() if value is not None)
    expected = "given as rho alone, as epsilon alone, or as epsilon and delta together"
    raise InvalidArgument("rho", expected, given or "nothing")


def _part(noise: Noise, share: Fraction) -> Noise:
    """The noise that costs a share; of the whole, as it is."""
    if share == 1:
        return noise
    if isinstance(noise, LaplaceNoise):
        return LaplaceNoise(noise.epsilon * share)
    return GaussianNoise(noise.rho * share)


def _estimate(plan: _Plan, passing: float) -> Estimate:
    closed = any(search.size for one in plan.rounds for search in one.request.searches)
    error = plan.rounds[-1].accuracy.radius(0.05, joint=True) if closed else 0.0
    return Estimate(Cost(plan.guarantees), passing, error)
