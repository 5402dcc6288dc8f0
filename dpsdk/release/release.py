"""An answer, what it cost, and how far off it may be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, overload

import numpy as np

from dpsdk._arrays import Lasting
from dpsdk._checks import to_beta, to_flag
from dpsdk._frames import Column, FrameLibrary, Rows, columns_of, framed, kind_of, rows_of, to_frame
from dpsdk._html import html_of, number_text, page, pairs, text_within, warning
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting.spent import Payment
from dpsdk.accuracy import (
    Accuracy,
    Bound,
    ConstrainedAccuracy,
    Constraint,
    HalfWidths,
    Lifting,
    ScalarAccuracy,
    bound_of,
    finite,
    half_widths,
    no_bound,
    of_values,
    without_unit,
)
from dpsdk.codec import TEXT, ListOf, Nested, written
from dpsdk.domain import Number
from dpsdk.errors import NoBound, QueryError
from dpsdk.forms import Facts
from dpsdk.notes import AddsUp, ByPeriod, KnownRowsOnly, Note, value_notes
from dpsdk.release.cost import Cost
from dpsdk.release.measurement import Measurement, Source
from dpsdk.release.population import (
    Chosen,
    PopulationExpectation,
    PopulationInterval,
    Transcript,
    population_of,
)
from dpsdk.release.ranking import Labelled, Ranking, rank
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.publication import Metadata

__all__ = ["Reason", "Release"]

A_co = TypeVar("A_co", covariant=True)

_NEARLY_ALL = 0.9
"""If less than this share of all rows counts, it is said."""

_NEGLIGIBLE = 1 / 100
"""What is a smaller share of the error is not worth a note."""


@written("reason", {"code": TEXT, "text": TEXT})
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

    @property
    def label(self) -> str:
        """The word before it: a choice was made, or something is to be noted."""
        return "note" if self.code == "pays-again" else "chosen"


REASONS = ListOf(Nested[Reason]("a reason", Reason))


@frozen(repr=False)
class Release(Lasting, Generic[A_co]):
    """One answer with its price and its accuracy.

    `value` is the answer; `query` and `mechanism` say in words what was asked of what; `cost` is
    what was paid for it; `source` tells a measured answer from one read off a hypothesis. A
    release with `private=False` was made with seeded noise and protects nobody. One that is
    `reused` was given before to the same question, and cost nothing this time. One by a
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
    _remarks: tuple[Note, ...] = field(default=(), kw_only=True, alias="remarks")

    @property
    def asked(self) -> object:
        """The query itself, None if the maker of the release did not say."""
        return self._asked

    @property
    def payment(self) -> Payment | None:
        """The payer, the rules and the rest of the budget; None if the maker did not say."""
        return self._payment

    @property
    def facts(self) -> Facts:
        """The public facts about the table."""
        return self._facts

    @property
    def raw(self) -> Floats:
        """A copy of the numbers that the answer was made of, for a linear form counts of rows."""
        return self._measurement.values.copy()

    @property
    def accuracy(self) -> Accuracy:
        """The errors of the raw numbers, in rows; of some kinds also variances."""
        return self._measurement.accuracy

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no entry of the answer is off by more than this.

        In the answer's own unit, for all its entries at once.

        Raises
        ------
        NoBound
            If nothing is proven or promised of some entry. `bound` says so without raising.
        """
        return finite(self.bound(beta), self._measurement.accuracy, self.query)

    def errors(self, beta: float = 0.05) -> Floats:
        """For each entry of the answer: with probability 1 - beta, it is off by no more.

        Of several models it is the excess of each. Infinite for an entry of which nothing is known.

        Raises
        ------
        NoBound
            If nothing is proven or promised of any entry, or of the answer as a whole only.
        """
        checked, whole = to_beta(beta), self._measurement.accuracy
        if isinstance(whole, ScalarAccuracy):
            each = whole.each(checked)
            if each is not None and each.min() < math.inf:
                return each
        accuracy, lifting = self._half_widths(checked)
        # No number rests on more than there are.
        width = min(lifting.width, len(self._measurement.values))
        if width == 1:
            radii = accuracy.radii(checked, joint=False)
        elif accuracy.standing == "promised":  # one event, for all numbers
            radii = accuracy.radii(checked, joint=True)
        else:  # a number that rests on several raw ones shares its failures between them
            radii = accuracy.radii(checked / width, joint=False)
        raw, facts = self._measurement.values, self._facts
        errors = lifting.spread(raw, radii, facts)
        coarseness = lifting.coarseness(raw, radii, facts)
        if coarseness is not None:
            errors = of_values(errors, coarseness, lifting.span(facts))
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
        checked = to_beta(beta)
        accuracy, lifting = self._half_widths(checked)
        radii = accuracy.radii(checked, joint=True)
        if not radii.min() < math.inf:
            raise no_bound(accuracy, self.query, checked)
        return lifting.bracket(self._measurement.values, radii, self._facts)

    @overload
    def population(
        self, beta: float = 0.05, *, chosen: Literal["beforehand"] | Transcript
    ) -> PopulationInterval[A_co]: ...
    @overload
    def population(self, *, chosen: Literal["adaptively"]) -> PopulationExpectation[A_co]: ...
    def population(
        self, beta: float | None = None, *, chosen: Chosen
    ) -> PopulationInterval[A_co] | PopulationExpectation[A_co]:
        """How far the answer may be from that of the population that the rows are a sample of.

        Free. It rests on what you declare and nobody can check: that rows are independent draws of
        one law, their number fixed, and how the question was chosen. What was declared stands in
        `assumptions` of the result. docs/explanation/proofs/population.md has the theorems.

        Parameters
        ----------
        beta
            The probability that an interval may fail with, 0.05 if left out. An expectation has
            none.
        chosen
            How the question was chosen. "beforehand": without sight of this table, or of anything
            that was released of it. "adaptively": from what this session's ledger paid for, and
            nothing else of the table; then all that is known is an expectation. A `Transcript`: as
            one of a channel's stream, from answers of that channel alone.

        Raises
        ------
        NoBound
            If no theorem says it, with the reason: for a private number of rows, for persons with
            several rows, for a part of a table, for answers that do not follow from sums, or where
            caps were not fixed beforehand.
        InvalidArgument
            If an argument is not what it should be, or `beta` is given for an expectation.
        """
        return population_of(self, self._half_widths, beta, chosen)

    def top(self, k: int, beta: float = 0.05) -> Ranking:
        """The first k entries of a table, the largest first, with the ranks they may have. Free.

        Made of `interval(beta)`, so that with probability 1 - beta all of it is true at once: which
        ranks each entry may have among the true numbers, which entries are certainly among the
        first k, and which others may be.

        Raises
        ------
        InvalidArgument
            If k is not an integer from 1 to the number of entries.
        NoBound
            As `interval`.
        QueryError
            If the answer is no table.
        """
        checked = to_beta(beta)
        low, high = self.interval(checked)
        value: object = self.value
        if not (
            isinstance(value, Labelled) and isinstance(low, Labelled) and isinstance(high, Labelled)
        ):
            reason = "only a table has first entries, such as that of Marginal or Mean(by=...)"
            raise QueryError(self.query, reason)
        return rank(value.attributes, value.to_dict(), low.to_dict(), high.to_dict(), k, checked)

    def _half_widths(self, beta: float) -> tuple[HalfWidths, Lifting[A_co]]:
        accuracy = half_widths(self._measurement.accuracy, self.query, beta)
        if self._lifting is None:
            raise without_unit(self.query)
        return accuracy, self._lifting

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
            lambda radii: lifting.coarseness(raw, radii, facts),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the answer is of, where a reader might take it for more. Free.

        Made of the question, of public facts about the table and of the answer itself: that rows
        only count whose values are all declared; that what counts adds up to fewer rows than there
        are; that values are known by bins, to a step, or within bounds alone; and what the
        mechanism has to say of its answers. None where none of that is so.
        """
        facts, lifting = self._facts, self._lifting
        notes: list[Note] = []
        if lifting is not None:
            notes += self._shortfall(lifting)
            names = lifting.values_of()
            if names:
                bound = self.bound(0.05)
                fine = bound.bins <= bound.error * _NEGLIGIBLE < math.inf
                fineness = bound.error * _NEGLIGIBLE if fine else 0.0
                for name in sorted(names, key=facts.domain.position):
                    notes += value_notes(facts.domain[name], facts, fineness)
            # Cells are asked for as such, but a Number is asked for by its values.
            for name in sorted(lifting.compared() - names, key=facts.domain.position):
                if isinstance(facts.domain[name], Number):
                    notes += value_notes(facts.domain[name], facts, 0.0)
        known = KnownRowsOnly.of(facts)
        if known is not None:
            notes.append(known)
        payment = self._payment
        if facts.periods is not None and payment is not None:
            notes.append(ByPeriod(facts.periods.attribute, payment.budget))
        return (*notes, *self._remarks)

    def _shortfall(self, lifting: Lifting[A_co]) -> list[Note]:
        """The note on the fewest rows that any part of the answer counts of all, if it is due."""
        raw, accuracy, facts = self._measurement.values, self._measurement.accuracy, self._facts
        if not isinstance(accuracy, HalfWidths) or not accuracy.proven:
            return []
        if not facts.rows or not facts.outside or facts.part_of is not None:
            return []
        found: list[AddsUp] = []
        for part, unit in lifting.totals(raw, facts):
            total = float(raw[part].sum()) / unit / facts.rows
            radius = accuracy.radius_of_sum(0.05, part) / abs(unit) / facts.rows
            if total + radius < _NEARLY_ALL:
                found.append(AddsUp(total, radius))
        return [min(found, key=lambda one: one.total + one.radius)] if found else []

    def metadata(self, beta: float = 0.05) -> Metadata:
        """Describe the release in the formats that others read. Free.

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
        was, and where a ledger gives an answer again and keeps nothing of its accuracy, which
        `bound` tells; infinite where the query does not say what its numbers are worth.
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
        Where nothing is below nought, it is this very release: done again, it changes nothing.

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
        moved. The result says how far the most `moved` one was. Where nothing falls, it is this
        very release: done again, it changes nothing.

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
        moves = np.nan_to_num(found.raw - before.values)
        if not moves.any():
            return self
        chains = np.full(len(found.raw), -1) if found.chains is None else found.chains
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
        ends = self._ends(checked, rows.values, together=together)
        if ends is None:
            numbers = dict(zip(["value"], columns_of(rows.values), strict=True))
        else:
            low, high, of_all = ends
            columns = columns_of(rows.values, low, high)
            numbers = dict(zip(["value", "low", "high"], columns, strict=True))
            numbers["beta"] = Column((checked,) * many, "number")
            numbers["joint"] = Column((of_all,) * many, "truth")
        moved = self.moved
        if moved:
            numbers["moved"] = Column((moved,) * many, "number")
        return to_frame(framed(rows, numbers, prefix), backend)

    def _ends(
        self, beta: float, values: Sequence[object], *, together: bool
    ) -> tuple[Sequence[object], Sequence[object], bool] | None:
        """Lower and upper ends of all rows, and if they are of all at once; None of no bound."""
        try:
            if not together and None not in values and kind_of(values) == "number":
                numbers = np.array(values, dtype=np.float64)
                errors = self.errors(beta)
                return (numbers - errors).tolist(), (numbers + errors).tolist(), False
            low, high = (rows_of(end).values for end in self.interval(beta))
        except NoBound:
            return None
        # Of an answer that there is none of, they may say nothing either.
        known = any(end is not None for end in itertools.chain(low, high))
        return (low, high, True) if known else None

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Reads nothing, and costs nothing."""
        bound = self.bound(0.05)
        error = f"± {bound.words}" if bound.proven else bound.words
        if bound.proven and not isinstance(self.value, float):
            error = f"{error}, of all numbers at once"
        told: list[tuple[str, object]] = [("error", error)]
        if bound.proven:
            told.append(("rests on", bound.kind))
        moved = self.moved
        if moved:
            told.append(("moved by up to", f"{moved:.4g}"))
        told += [("source", f"{self.source} by {self.mechanism}"), ("cost", self.cost)]
        if self.reused:
            told.append(("reused", "given before, and free this time"))
        told += [(reason.label, reason.text) for reason in self.because[:1]]
        if bound.vacuous and self._lifting is not None and self._lifting.advice:
            told.append(("note", self._lifting.advice))
        told += [("note", str(note)) for note in self.notes]
        return page(
            f"Release of {self.query}",
            warning(private=self.private),
            html_of(self.value),
            pairs(told),
        )

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE: seeded noise"
        bound = self.bound(0.05)
        again = ", reused" if self.reused else ""
        why = f", {self.because[0].label}: {self.because[0].text}" if self.because else ""
        if bound.vacuous and self._lifting is not None and self._lifting.advice:
            why = f"{why}, note: {self._lifting.advice}"
        notes = [f"note: {note}" for note in self.notes]
        source = f"{self.source} by {self.mechanism}, cost {self.cost}{again}{why}{mark}"
        # Of a whole number, such as a count of rows, no more digits than it has.
        value: object = self.value
        answer = repr(value)
        if isinstance(value, float) and value.is_integer():
            answer = number_text(value)
        error = f"± {bound.words}" if bound.proven else bound.words
        moved = self.moved
        if moved:
            error = f"{error}, moved by up to {moved:.4g}"
        if "\n" in answer:  # a table, whose lines are its own
            if text_within.dispatch(type(value)) is not text_within.dispatch(object):
                with suppress(NoBound):
                    answer = text_within(value, *self.interval(0.05))
            lines = [f"Release of {self.query}", answer, f"{error}, {source}", *notes]
            return "\n".join(lines)
        between = " " if bound.proven else ", "
        told = ", ".join([f"{error}, {self.query}, {source}", *notes])
        return f"Release({answer}{between}{told})"
