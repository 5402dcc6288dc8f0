"""What comes out of a session: an answer, what it cost, and how far off it may be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from attrs import cmp_using, evolve, field, frozen
from typing_extensions import TypeVar as DefaultTypeVar

from dpsdk._checks import to_beta, to_flag
from dpsdk._frames import Column, FrameLibrary, Rows, column_of, framed, rows_of, to_frame
from dpsdk._html import page, pairs, part_of, warning
from dpsdk.accounting import Guarantee
from dpsdk.accounting.filters.composition import Runs
from dpsdk.accounting.payment import Payment
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.accuracy import (
    Accuracy,
    Bound,
    Constrained,
    ConstrainedAccuracy,
    Constraint,
    HalfWidths,
    Lifting,
    NoAccuracy,
    NoiseAccuracy,
    PromisedAccuracy,
    ScalarAccuracy,
    Standing,
    bound_of,
    half_widths,
    no_bound,
    without_unit,
)
from dpsdk.errors import NoBound, QueryError, TooLarge
from dpsdk.forms import Facts
from dpsdk.forms.assumptions import NOTHING, Assumptions
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.publication import Metadata

__all__ = [
    "Accuracy",
    "Bound",
    "Constrained",
    "ConstrainedAccuracy",
    "Constraint",
    "Cost",
    "HalfWidths",
    "Lifting",
    "Measurement",
    "NoAccuracy",
    "NoiseAccuracy",
    "PromisedAccuracy",
    "Quote",
    "Release",
    "ScalarAccuracy",
    "Source",
    "Standing",
]

A_co = TypeVar("A_co", covariant=True)
Acc_co = DefaultTypeVar("Acc_co", bound=Accuracy, covariant=True, default=Accuracy)

Source: TypeAlias = Literal["measured", "fitted", "hypothesis"]
"""Where an answer comes from.

"measured" on the data; "fitted" to what was measured, once, for this and other questions; or read
off a "hypothesis", a public distribution that moves, or that a model was fitted on.
"""

_LISTED = 2**20


def _to_runs(runs: Runs) -> tuple[tuple[Guarantee, int], ...]:
    merged: list[tuple[Guarantee, int]] = []
    for run in runs:
        guarantee, count = run if isinstance(run, tuple) else (run, 1)
        if merged and merged[-1][0] == guarantee:
            merged[-1] = (guarantee, merged[-1][1] + count)
        elif count:
            merged.append((guarantee, count))
    return tuple(merged)


@frozen(repr=False)
class Cost:
    """What was or would be paid: the guarantee of each run, none where nothing is paid.

    Parameters
    ----------
    runs
        Guarantees, in their order, or pairs of a guarantee and how many such runs follow each
        other. Kept as such pairs.
    """

    runs: tuple[tuple[Guarantee, int], ...] = field(default=(), converter=_to_runs)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantee of each run, in their order.

        Raises
        ------
        TooLarge
            If there are more than a million runs; `runs` counts equal ones.
        """
        count = sum(count for _, count in self.runs)
        if count > _LISTED:
            raise TooLarge("a list of all runs", count, _LISTED, "entries", "read runs")
        return tuple(run for run, count in self.runs for _ in range(count))

    @property
    def nothing(self) -> bool:
        """Whether there is no run at all."""
        return not self.guarantees

    @property
    def free(self) -> bool:
        """Whether nothing is paid."""
        return all(run.free for run, _ in self.runs)

    @property
    def epsilon(self) -> Fraction | None:
        """The sum of the pure ε of the runs, None if one of them has none."""
        total = Fraction(0)
        for run, count in self.runs:
            epsilon = pure_epsilon(run)
            if epsilon is None:
                return None
            total += epsilon * count
        return total

    @property
    def rho(self) -> Fraction:
        """The sum of the ρ of zero-concentrated privacy of the runs, leaks aside."""
        return sum((zcdp_rho(run) * count for run, count in self.runs), Fraction(0))

    def __repr__(self) -> str:
        return f"Cost({self})"

    def __str__(self) -> str:
        paid: Counter[str] = Counter()
        for run, count in self.runs:
            if not run.free:
                paid[str(run)] += count
        runs = (text if count == 1 else f"{count:,} x {text}" for text, count in paid.items())
        return " + ".join(runs) or "nothing"


def _same(one: Floats, other: Floats) -> bool:
    return np.array_equal(one, other, equal_nan=True)


def _own(said: Measurement | Quote) -> None:
    """Have it hold a copy of what is said of many answers: whoever gets it may write into it."""
    if type(said.accuracy) is NoAccuracy:
        object.__setattr__(said, "accuracy", evolve(said.accuracy))


@frozen
class Measurement(Generic[Acc_co]):
    """Raw numbers that a strategy got for a form, with their accuracy.

    For a linear form they are counts of rows.
    """

    values: Floats = field(eq=cmp_using(eq=_same), hash=False)
    accuracy: Acc_co
    source: Source = "measured"

    def __attrs_post_init__(self) -> None:
        _own(self)


@frozen
class Reason:
    """Why a mechanism was proposed, chosen or turned down.

    Parameters
    ----------
    code
        A short name, which stays: "cheapest".
    text
        A sentence for people, in public terms.
    """

    code: str
    text: str


@frozen(repr=False)
class Release(Generic[A_co]):
    """One answer with its price and its accuracy.

    `value` is the answer; `query` and `mechanism` say in words what was asked of what; `cost` is
    what was paid for it; `source` tells a measured answer from one read off a hypothesis. A
    release with `private=False` was made with seeded noise and protects nobody. One that is
    `reused` was given before to whoever asked the same first, and cost nothing this time. One by a
    plan says in `because` why that was chosen; given again, it need not say so any more.
    `dpsdk.wire` writes a release down, with the public facts that a reader needs to judge it.

    Releases are equal if they say the same of the same numbers.
    """

    # The answer follows from the numbers and the query, and might compare as an array does.
    value: A_co = field(eq=False)
    query: str
    mechanism: str
    cost: Cost
    source: Source
    private: bool
    _measurement: Measurement
    _lifting: Lifting[A_co] | None = field(eq=False)
    _facts: Facts
    _asked: object = field(default=None, eq=False)
    _payment: Payment | None = field(default=None, eq=False)
    reused: bool = field(default=False, kw_only=True)
    because: tuple[Reason, ...] = field(default=(), kw_only=True)

    @property
    def asked(self) -> object:
        """The query itself, None if whoever made the release did not say."""
        return self._asked

    @property
    def payment(self) -> Payment | None:
        """Who paid, by which rules, and what that left; None if whoever made it did not say."""
        return self._payment

    @property
    def facts(self) -> Facts:
        """What is public about the table."""
        return self._facts

    @property
    def raw(self) -> Floats:
        """A copy of the numbers that the answer was made of, for a linear form counts of rows."""
        return self._measurement.values.copy()

    @property
    def accuracy(self) -> Accuracy:
        """What is known of the errors of the raw numbers, in rows; of some kinds also variances."""
        return self._measurement.accuracy

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no entry of the answer is off by more than this.

        In the answer's own unit, for all its entries at once.

        Raises
        ------
        NoBound
            If nothing is proven or promised of some entry. `bound` says so without raising.
        """
        return _finite(self.bound(beta), self._measurement.accuracy, self.query)

    def errors(self, beta: float = 0.05) -> Floats:
        """For each entry of the answer: with probability 1 - beta, it is off by no more.

        Infinite for an entry of which nothing is known.

        Raises
        ------
        NoBound
            If nothing is proven or promised of any entry, or of the answer as a whole only.
        """
        checked, lifting = to_beta(beta), self._lifting
        accuracy = half_widths(self._measurement.accuracy, self.query, checked)
        if lifting is None:
            raise without_unit(self.query)
        # No number rests on more than there are.
        width = min(lifting.width, len(self._measurement.values))
        if width == 1:
            radii = accuracy.radii(checked, joint=False)
        elif accuracy.standing == "promised":  # one event, for all numbers
            radii = accuracy.radii(checked, joint=True)
        else:  # a number that rests on several raw ones shares its failures between them
            radii = accuracy.radii(checked / width, joint=False)
        errors = lifting.spread(self._measurement.values, radii, self._facts)
        if not errors.min() < math.inf:
            raise no_bound(accuracy, self.query, checked)
        return errors

    def interval(self, beta: float = 0.05) -> tuple[A_co, A_co]:
        """Two answers between which the truth lies with probability 1 - beta, in every entry.

        Infinitely far apart in an entry of which nothing is known.

        Raises
        ------
        NoBound
            If nothing is proven or promised of any entry, or of the answer as a whole only.
        """
        checked, lifting = to_beta(beta), self._lifting
        accuracy = half_widths(self._measurement.accuracy, self.query, checked)
        if lifting is None:
            raise without_unit(self.query)
        radii = accuracy.radii(checked, joint=True)
        if not radii.min() < math.inf:
            raise no_bound(accuracy, self.query, checked)
        return lifting.bracket(self._measurement.values, radii, self._facts)

    def bound(self, beta: float = 0.05) -> Bound:
        """All that is known of the error of `error`, on what it rests, and if it says anything.

        Where there is no bound it says so, and raises nothing.
        """
        raw, lifting, facts = self._measurement.values, self._lifting, self._facts
        if lifting is None:
            return bound_of(self._measurement.accuracy, None, math.inf, beta)
        return bound_of(
            self._measurement.accuracy,
            lambda radii: lifting.spread(raw, radii, facts),
            lifting.span(facts),
            beta,
        )

    def metadata(self, beta: float = 0.05) -> Metadata:
        """What it says of itself, in the formats that others read. Free.

        Made of the release alone: of what its written form has, nothing else.

        Parameters
        ----------
        beta
            The probability at which errors are stated.

        Raises
        ------
        InvalidArgument
            If `beta` is not strictly between 0 and 1.
        """
        from dpsdk.publication import Metadata  # noqa: PLC0415  # above, and few ask for it

        return Metadata.of(self, beta=beta)

    @property
    def moved(self) -> float:
        """By how much the most moved entry was moved, at the most, from what was measured.

        In the answer's own unit. Numbers are moved where that is asked for: by `nonnegative`,
        `monotone`, or a mechanism such as `NoisyHistogram(consistent=True)`. Nought where nothing
        was, and where it is not known, as of an answer that another session's ledger gives again;
        infinite where the query does not say what its numbers are worth.
        """
        accuracy, lifting = self._measurement.accuracy, self._lifting
        distances = accuracy.distances if isinstance(accuracy, HalfWidths) else None
        if distances is None or not distances.size or not np.nanmax(distances) > 0:
            return 0.0
        if lifting is None:
            return math.inf
        return float(np.nanmax(lifting.spread(self._measurement.values, distances, self._facts)))

    def nonnegative(self) -> Release[A_co]:
        """The same with nought in place of each number that is below it. Free.

        No number is farther from the truth than it was, so all bounds stay as they are. The result
        says how far it was `moved`. Sums of it are too large, as only what was too small was moved.

        Raises
        ------
        QueryError
            If the truth may be negative: of a mean, or of weights below nought.
        """
        return self._constrained("nonnegative")

    def monotone(self) -> Release[A_co]:
        """The same with shares that do not fall from one threshold to the next. Free.

        By isotonic regression, of each attribute and condition by itself. The bound of all at once
        stays as it is, where all had the same; that of each by itself grows by how far it was
        moved. The result says how far the most `moved` one was.

        Raises
        ------
        QueryError
            If the query is no workload of thresholds.
        """
        return self._constrained("monotone")

    def _constrained(self, constraint: Constraint) -> Release[A_co]:
        before, lifting = self._measurement, self._lifting
        if lifting is None:
            raise QueryError(self.query, "it does not say what its numbers are worth")
        try:
            found = lifting.constrained(constraint, before.values.copy(), self._facts)
        except QueryError as error:
            raise error.about(self.query) from None
        chains = np.full(len(found.raw), -1) if found.chains is None else found.chains
        moves = np.nan_to_num(found.raw - before.values)
        accuracy = ConstrainedAccuracy(before.accuracy, constraint, moves, chains)
        measurement = Measurement(found.raw, accuracy, before.source)
        return evolve(self, value=found.value, measurement=measurement)

    def to_frame(
        self,
        backend: FrameLibrary = "polars",
        *,
        beta: float = 0.05,
        joint: bool = True,
        prefix: str = "",
    ) -> object:
        """The answer as a data frame of a library of your choice, a number a row, through narwhals.

        Columns are those of its labels, or `query` where it is a number or several answers;
        `value`; where there is a bound, `low` and `high`, between which the truth lies with
        probability 1 - beta, `beta`, and `joint`, whether that is of all rows at once; and `moved`,
        where numbers were moved.

        Parameters
        ----------
        backend
            The library.
        beta
            The probability that a statement may fail with.
        joint
            Whether `low` and `high` are of all rows at once, as `interval` gives them, or of each
            row by itself, as `errors`.
        prefix
            What the names of all columns but those of attributes begin with, for attributes that
            are called as one of them.

        Raises
        ------
        InvalidArgument
            If an argument is not as described, a column would have the name of an attribute, or the
            answer is no number, array or table, nor several of them.
        MissingExtra
            If narwhals, which the extra `frames` installs, or that library itself is missing.
        """
        checked, together = to_beta(beta), to_flag("joint", joint)
        rows = rows_of(self.value)
        if not rows.own and not rows.labels:
            rows = Rows(rows.values, {"query": Column((self.query,), "text")})
        many = len(rows.values)
        value = column_of(rows.values)
        numbers = {"value": value}
        ends = self._ends(checked, value, together=together)
        if ends is not None:
            low, high, of_all = ends
            numbers["low"], numbers["high"] = column_of(low), column_of(high)
            numbers["beta"] = Column((checked,) * many, "number")
            numbers["joint"] = Column((of_all,) * many, "truth")
        if self.moved:
            numbers["moved"] = Column((self.moved,) * many, "number")
        return to_frame(framed(rows, numbers, prefix), backend)

    def _ends(
        self, beta: float, value: Column, *, together: bool
    ) -> tuple[Sequence[object], Sequence[object], bool] | None:
        """Lower and upper ends of all rows, and if they are of all at once; None of no bound."""
        try:
            if not together and value.kind == "number":
                numbers = np.array(value.values, dtype=np.float64)
                errors = self.errors(beta)
                return (numbers - errors).tolist(), (numbers + errors).tolist(), False
            low, high = self.interval(beta)
        except NoBound:
            return None
        return rows_of(low).values, rows_of(high).values, True

    def _repr_html_(self) -> str:
        """What a notebook shows. Reads nothing, and costs nothing."""
        bound = self.bound(0.05)
        error = f"± {bound.words}" if bound.proven else bound.words
        if bound.proven and not isinstance(self.value, float):
            error = f"{error}, of all numbers at once"
        told: list[tuple[str, object]] = [("error", error)]
        if bound.proven:
            told.append(("rests on", bound.kind))
        if self.moved:
            told.append(("moved by up to", f"{self.moved:.4g}"))
        told += [("source", f"{self.source} by {self.mechanism}"), ("cost", self.cost)]
        if self.reused:
            told.append(("reused", "given before, and free this time"))
        told += [("chosen", reason.text) for reason in self.because[:1]]
        return page(
            f"Release of {self.query}",
            warning(private=self.private),
            part_of(self.value),
            pairs(told),
        )

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE: seeded noise"
        bound = self.bound(0.05)
        again = ", reused" if self.reused else ""
        why = f", chosen: {self.because[0].text}" if self.because else ""
        source = f"{self.source} by {self.mechanism}, cost {self.cost}{again}{why}{mark}"
        answer = repr(self.value)
        error = f"± {bound.words}" if bound.proven else bound.words
        moved = self.moved
        if moved:
            error = f"{error}, moved by up to {moved:.4g}"
        if "\n" in answer:  # a table, whose lines are its own
            return f"Release of {self.query}\n{answer}\n{error}, {source}"
        between = " " if bound.proven else ", "
        return f"Release({answer}{between}{error}, {self.query}, {source})"


def _finite(bound: Bound, accuracy: Accuracy, answer: str) -> float:
    if not bound.proven:
        raise no_bound(accuracy, answer, bound.beta)
    return bound.error


@frozen(repr=False)
class Quote:
    """What a mechanism would charge for a form and how far off it would be. Spends nothing.

    `at_open` is paid when a channel opens; `at_most` bounds what is paid in all, for the channel
    and this one answer. Errors are in raw counts of rows unless a session gave them a unit.
    """

    at_open: Cost
    at_most: Cost
    accuracy: Accuracy
    _lifting: Lifting[object] | None = None
    _facts: Facts | None = None
    _assumptions: Assumptions = NOTHING

    def __attrs_post_init__(self) -> None:
        _own(self)

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no entry of the answer will be off by more than this.

        Raises
        ------
        NoBound
            If nothing is proven or promised beforehand. `bound` says so without raising.
        """
        return _finite(self.bound(beta), self.accuracy, "this quote")

    def bound(self, beta: float = 0.05) -> Bound:
        """All that is known of it, on what it rests, and if it says anything. Raises nothing."""
        return self._presumed(beta, NOTHING)

    def assumed(self, beta: float = 0.05) -> Bound | None:
        """The bound that holds if what the quote was told to assume is true.

        With probability 1 - beta, no answer for a table of which it is true will be off by more,
        nor will the release of a mean state more. A release is told of no assumption: of an
        `Above` of a share of privately many rows it states no bound at all. None where nothing was
        assumed, or where that adds nothing to `bound`.
        """
        facts, assumptions = self._facts, self._assumptions
        if facts is None or assumptions.nothing:
            return None
        bound, known = self._presumed(beta, assumptions), self.bound(beta)
        if not bound.proven or (known.proven and known.error <= bound.error):
            return None
        return bound.under(" and ".join(assumptions.words(facts)))

    def _presumed(self, beta: float, assumptions: Assumptions) -> Bound:
        accuracy, lifting, facts = self.accuracy, self._lifting, self._facts
        if facts is None:
            return bound_of(accuracy, lambda radii: radii, math.inf, beta)
        if lifting is None:
            return bound_of(accuracy, None, math.inf, beta)
        return bound_of(
            accuracy,
            lambda radii: lifting.presumed(radii, partial(_apart, accuracy), facts, assumptions),
            lifting.span(facts),
            beta,
        )

    def for_query(
        self,
        lifting: Lifting[object] | None,
        facts: Facts,
        assumptions: Assumptions = NOTHING,
    ) -> Quote:
        """The quote in the unit of a query's answer, if the query says what that is."""
        return Quote(self.at_open, self.at_most, self.accuracy, lifting, facts, assumptions)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        bound, assumed = self.bound(0.05), self.assumed(0.05)
        told: list[tuple[str, object]] = [
            ("at open", self.at_open),
            ("at most", self.at_most),
            ("error", f"± {bound.words}" if bound.proven else bound.words),
        ]
        if assumed is not None:
            told.append((assumed.kind, f"± {assumed.words}"))
        return page("Quote", pairs(told))

    def __repr__(self) -> str:
        bound, assumed = self.bound(0.05), self.assumed(0.05)
        error = f"error {bound.words}" if bound.proven else bound.words
        if assumed is not None and self._facts is not None:
            believed = " and ".join(self._assumptions.words(self._facts))
            error = f"{error}; {assumed.words}: {believed}"
        return f"Quote(at open {self.at_open}, at most {self.at_most}, {error})"


def _apart(accuracy: Accuracy) -> Floats:
    """Half-widths each by itself, as queries are shown them to settle what their numbers tell."""
    if not isinstance(accuracy, HalfWidths):
        raise TypeError(type(accuracy).__name__)
    return accuracy.radii(0.05, joint=False)
