"""The rules of a first look: from noisy counts and found keys of columns to declarations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown, to_name, to_positive
from dpsdk.accounting import Budget, Odometer
from dpsdk.accounting.numbers import largest
from dpsdk.data.cells import YEARS, KindCells, NumberCells
from dpsdk.data.undeclared import UndeclaredFacts
from dpsdk.domain import Attribute, Date, Number
from dpsdk.domain.attributes import require_different
from dpsdk.errors import InvalidArgument
from dpsdk.kernel.discover import Discover, Discovered, DiscoverPricing, Search
from dpsdk.kernel.measure import GaussianNoise, Noise
from dpsdk.release import Cost
from dpsdk.release.description import ColumnDescription, ColumnKind, Description
from dpsdk.release.discoveries import Keys, may_be_label
from dpsdk.typing import Floats, Real

__all__ = ["KINDS", "described", "first_look", "price_within", "to_steps"]

KINDS = KindCells()

_LONGEST = 64
"""Longer texts are no labels of a column that nobody described."""

_STRAY = 1e-3
"""The probability with which a cell without a row passes, in all columns."""

_FEW = 32
"""Columns of so many frequent numbers, and hardly any other, are of labels."""

_BETA = 0.05
_SHARE = 0.01


def to_steps(value: Mapping[str, Real] | None, facts: UndeclaredFacts) -> dict[str, Fraction]:
    """Read the steps of columns of numbers."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument("steps", "a step for each name of a column", shown(value))
    steps = {to_name("steps", name): to_positive("steps", step) for name, step in value.items()}
    for name in steps:
        if name not in facts.columns:
            raise InvalidArgument("steps", "steps of columns of the table", shown(name))
    return steps


def first_look(
    columns: Sequence[str] | None, facts: UndeclaredFacts, noise: Noise, leak: Fraction
) -> Discover:
    """The search of all columns for their kinds and labels."""
    if columns is not None and (isinstance(columns, str) or not isinstance(columns, Sequence)):
        raise InvalidArgument("columns", "names of columns, or None for all", shown(columns))
    names = facts.columns if columns is None else [to_name("columns", name) for name in columns]
    if not names or len(set(names)) < len(names):
        raise InvalidArgument("columns", "different names of columns", shown(columns))
    # Or no domain could hold what was paid for.
    require_different("columns", names)
    searches = [Search(name, KINDS, keys=True, longest=_LONGEST) for name in names]
    return Discover(searches, noise, leak, 1, distinct=False)


def price_within(
    columns: Sequence[str] | None, facts: UndeclaredFacts, budget: Budget
) -> tuple[Fraction, DiscoverPricing]:
    """The ρ and the search of all columns that a budget by itself pays for, at the most.

    Raises `InvalidArgument` if there is none, as with a δ of 0.
    """
    odometer = Odometer(budget)
    leak = odometer.balance.leak / 2
    start = odometer.composition.begin(budget)

    def priced(rho: Fraction) -> DiscoverPricing:
        return first_look(columns, facts, GaussianNoise(rho), leak).price(facts)

    def fits(rho: Fraction) -> bool:
        runs = [(one, 1) for one in priced(rho).guarantees]
        times = odometer.composition.rounds(start, runs)
        return times is None or times >= 1

    rho = largest(fits, budget.epsilon**2 / 16) if leak else Fraction(0)
    if not rho:
        raise InvalidArgument("budget", "an epsilon and a delta above 0", shown(budget))
    return rho, priced(rho)


def described(
    pricing: DiscoverPricing,
    found: Sequence[Discovered],
    facts: UndeclaredFacts,
    steps: Mapping[str, Fraction],
    cost: Cost,
) -> Description:
    """Declare each column by what was found in it. A function of public numbers alone."""
    columns = len(found)
    totals = [float(one.cells.sum()) for one in found]
    # Each row, or person, is in one cell of each column.
    rows = float(facts.rows) if facts.rows is not None else max(sum(totals) / columns, 1.0)
    own = pricing.law.radius(_BETA / 2, columns) * pricing.step
    whole = 0.0
    if facts.rows is None:
        # Sums of independent draws of a law that is subgaussian at its variance.
        spread = pricing.law.standard_deviation() * pricing.step
        whole = spread * math.sqrt(2.0 * KINDS.size / columns * math.log(4.0 / _BETA))
    mark = pricing.pass_mark(_STRAY, KINDS.size * columns)
    look = _Look(rows, mark, pricing.passing, own, whole, cost)
    pairs = zip(pricing.request.searches, found, strict=True)
    told = [look.column(search.column or "", one, steps) for search, one in pairs]
    return Description(told, facts.missing_texts, rows, cost, facts.person)


class _Look:
    """The public numbers by which columns are judged."""

    def __init__(
        self, rows: float, mark: float, passing: float, radius: float, whole: float, cost: Cost
    ) -> None:
        self.rows, self.mark, self.passing, self.cost = rows, mark, passing, cost
        self.radius, self.whole = radius, whole

    def column(
        self, name: str, found: Discovered, steps: Mapping[str, Fraction]
    ) -> ColumnDescription:
        cells, keys = found.cells, dict(zip(found.keys, found.counts.tolist(), strict=True))
        seen: Floats = np.where(cells >= self.mark, cells, 0.0)
        whole, parts, years = (seen[span] for span in KINDS.spans)
        numbers, days = float(whole.sum() + parts.sum()), float(years.sum())
        kind, attribute, covered = self._kind(name, seen, keys, steps, numbers, days)
        missing = min(max(float(cells[KINDS.missing]) / self.rows, 0.0), 1.0)
        # The ratio of two counts, each within its own radius.
        fewest = self.rows - self.whole
        off = (self.radius + missing * self.whole) / fewest if fewest > 0 else 1.0
        more = 1.0
        if attribute is None:
            more = max(self.passing / max(_SHARE * self.rows, 1.0), 1.0)
        return ColumnDescription(
            name, kind, attribute, missing, self._share(covered, cells), min(off, 1.0), more
        )

    def _share(self, covered: float, cells: Floats) -> float:
        """The share of the values that are there."""
        there = self.rows - max(float(cells[KINDS.missing]), 0.0)
        return min(max(covered / there, 0.0), 1.0) if there > 0 else 0.0

    def _kind(
        self,
        name: str,
        seen: Floats,
        keys: Mapping[str, float],
        steps: Mapping[str, Fraction],
        numbers: float,
        days: float,
    ) -> tuple[ColumnKind, Attribute | None, float]:
        texts = float(seen[KINDS.text])
        keys = {key: count for key, count in keys.items() if may_be_label(key)}
        listed = sum(keys.values())
        labels = len(keys) <= _FEW and numbers + days - listed < 2 * self.mark
        if name in steps or (numbers > max(texts, days) and not (keys and labels)):
            number = self._number(name, seen, steps)
            if number is not None:
                return "number", number, numbers
        elif days > texts and not (keys and labels):
            passed = np.flatnonzero(seen[KINDS.spans[2]])
            low, high = date(YEARS[int(passed[0])], 1, 1), date(YEARS[int(passed[-1])], 12, 31)
            return "date", Date(name, low, high, missing=True, other=True), days
        if not keys:
            return "unknown", None, 0.0
        names, counts = list(keys), np.array(list(keys.values()))
        shown_keys = Keys(name, tuple(names), counts, self.passing, None, self.cost)
        return "labels", shown_keys.categorical(), listed

    def _number(self, name: str, seen: Floats, steps: Mapping[str, Fraction]) -> Number | None:
        whole, parts, _ = KINDS.spans
        ends = [
            *_edges(KINDS.whole, seen[whole]),
            *_edges(KINDS.parts, seen[parts]),
        ]
        if not ends:
            return None
        low, high = min(one for one, _ in ends), max(one for _, one in ends)
        # Down to 0 where that widens them by a quarter at the most: the cells there are narrow, and
        # too few rows may be in each to pass.
        low = Fraction(0) if 0 < 5 * low <= high else low
        high = Fraction(0) if low <= 5 * high < 0 else high
        exact = name not in steps and not seen[parts].any()
        step = steps.get(name, Fraction(1) if exact else Fraction(1, 1000))
        first, last = math.floor(low / step), math.ceil(high / step)
        last = max(last, first + 1)
        bounds = first * step, last * step
        return Number(name, *bounds, step=step, missing=True, other=True, exact=exact)


def _edges(cells: NumberCells, seen: Floats) -> list[tuple[Fraction, Fraction]]:
    return [cells.bounds(int(place)) for place in np.flatnonzero(seen)]
