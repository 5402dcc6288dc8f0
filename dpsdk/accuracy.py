"""How far an answer may be off, and on what that rests: a theorem, a promise, a guess, or nothing.

An accuracy has one of three shapes. `HalfWidths` bound raw numbers, each by itself and all at once,
before a query gives them its unit. A `ScalarAccuracy` is one number for the answer as a whole, as
the excess risk of a model is. `NoAccuracy` says why nothing is known.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy, frozen_integers, same_numbers
from dpsdk._checks import shown, to_beta
from dpsdk._records import Factory, cmp_using, evolve, field, frozen
from dpsdk.accounting.numbers import as_bound, confidence
from dpsdk.codec import (
    ENDLESS,
    FLAG,
    FLOAT,
    MEASURED,
    NATURAL,
    PACKED_FLOATS,
    PACKED_INTS,
    TEXT,
    Checked,
    Choice,
    Member,
    Nested,
    OrNone,
    written,
)
from dpsdk.errors import InvalidArgument, NoBound, QueryError
from dpsdk.forms import Facts
from dpsdk.forms.assumptions import Assumptions
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, EuclideanLaplace, NoiseLaw
from dpsdk.typing import Floats, Ints

__all__ = [
    "Accuracy",
    "Bound",
    "Constrained",
    "ConstrainedAccuracy",
    "Constraint",
    "Expectations",
    "HalfWidths",
    "Lifting",
    "NoAccuracy",
    "NoiseAccuracy",
    "PromisedAccuracy",
    "ScalarAccuracy",
    "Standing",
]

A_co = TypeVar("A_co", covariant=True)

Standing: TypeAlias = Literal["proven", "promised", "assumed", "predicted", "none"]
"""On what a statement about an error stands.

"proven" is a theorem about this answer, at any confidence that is asked for. "promised" is one
about all answers of a channel together, with a probability that was fixed when it was opened.
"assumed" is either of them for a table of which more is true than is known. "predicted" is what a
model expects, and no bound. "none" is nothing.
"""

Expectations: TypeAlias = Literal["linear", "bounded", "none"]
"""How an answer follows from raw numbers that are expectations, and no sums over rows.

"linear": each number of the answer is a raw one in another unit. "bounded": the ends of an answer
hold for any distribution whose raw numbers are within the half-widths. "none": nothing is known.
"""

_BOUNDING: frozenset[Standing] = frozenset({"proven", "promised"})

_ELSEWHERE = "ask bound(beta), which never raises, or a mechanism that measures"

_WITHOUT_UNIT = (
    "its numbers are bounded in rows, and what that is in the unit of the answer is not known",
    "ask for a count with normalized=False, or derive a query of your own from LinearQuery",
)


_ONLY_IN_RANKS = (
    "its rank is bounded, and how far apart the values at such ranks lie is not known",
    "read bound(beta).ranks, in rows",
)


class _Statement(Lasting, ABC):
    """The statements that every accuracy makes of itself."""

    __slots__ = ()
    kind: str
    """The basis of the bound in words; where there is no bound, why."""
    standing: Standing
    """True if that is a theorem, a promise, a guess or nothing."""

    @property
    def entries(self) -> int | None:
        """How many numbers it is of; None for any."""
        return None

    def ranks(self, beta: float, /) -> float | None:
        """By how many rows the rank of an answer may be off, where just that is bounded."""
        del beta
        return None

    def computed(self) -> Self:
        """The same bounds, made of numbers alone: what a form would be asked for is asked now."""
        return self

    @property
    def proven(self) -> bool:
        """True if its bounds, proven or promised, hold by a theorem."""
        return self.standing in _BOUNDING

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound at this beta, and what may be done about it."""
        if self.standing == "predicted":
            return f"a prediction is no bound: {self.kind}", "read bound(beta).predicted"
        if self.standing == "none":
            return self.kind, _ELSEWHERE
        return f"none follows at beta={beta:g} from {self.kind}", "ask at a larger beta"


class HalfWidths(_Statement):
    """How far raw numbers, counts of rows, may be off, before a query gives them its unit.

    A subclass says `kind` and `standing`, and gives `radii`.
    """

    __slots__ = ()
    distances: Floats | None = None
    """How far each number was moved at the most, in rows, from what was measured; None for none."""

    @abstractmethod
    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths around the raw numbers in rows, each at confidence 1 - beta, or all at once.

        Infinite where nothing is known of a number.
        """

    def radius_of_sum(self, beta: float, part: slice) -> float:
        """Half-width of the sum of some of the numbers, in rows."""
        return float(self.radii(beta, joint=True)[part].sum())


class ScalarAccuracy(_Statement):
    """How far off an answer may be as a whole, in a unit of its own, as an excess risk.

    A subclass says `kind` and `standing`, and gives `error`.
    """

    __slots__ = ()
    span: float = math.inf
    """How far off the worst of all answers is, infinite where that is not known."""

    @abstractmethod
    def error(self, beta: float) -> float:
        """The error exceeded with probability beta at the most; infinite where nothing is known."""

    def each(self, beta: float) -> Floats | None:
        """The same of each of several answers, by itself; None where it is of one alone."""
        del beta
        return None


@written(
    "accuracy.none", {"rests_on": Member(TEXT, of="kind", key="kind"), "advice": TEXT}, public=False
)
@frozen
class NoAccuracy(_Statement):
    """Nothing is known: `kind` says why, and `advice` what may be done about it."""

    kind: str
    advice: str = _ELSEWHERE
    standing: Standing = field(init=False, default="none")

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound, and what may be done about it."""
        del beta
        return self.kind, self.advice


Accuracy: TypeAlias = HalfWidths | ScalarAccuracy | NoAccuracy
"""How far an answer may be off, in one of three shapes."""

ACCURACY = Nested[Accuracy]("an accuracy", HalfWidths, ScalarAccuracy, NoAccuracy)
LAW = Nested[NoiseLaw]("a law of noise", NoiseLaw)
SIZE = Checked(FLOAT, lambda size: size >= 0, "a number of at least 0")
SIZES = Checked(PACKED_FLOATS, lambda sizes: bool((sizes >= 0).all()), "numbers of at least 0")
"""Fields of the written forms of accuracies."""


def are_within(places: Ints, low: int, high: int) -> bool:
    """True if all numbers are at least `low` and below `high`."""
    return not len(places) or bool(low <= int(places.min()) and int(places.max()) < high)


@written(
    "accuracy.promised",
    {
        "error": MEASURED,
        "beta": FLOAT,
        "entries": NATURAL,
        "rests_on": Member(TEXT, of="kind", key="kind"),
    },
    public=False,
)
@frozen
class PromisedAccuracy(HalfWidths):
    """One error for all numbers that a channel answers, with a probability fixed at its opening.

    Parameters
    ----------
    error
        In rows: with probability 1 - `beta` no number of any answer of the channel is farther off.
    beta
        The probability, strictly between 0 and 1, that some number is. Nothing follows for less.
    entries
        How many numbers this answer has.
    """

    error: float
    beta: float = field(converter=to_beta)
    entries: int  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here
    kind: str = "an error promised for all answers of the channel together"
    standing: Standing = field(init=False, default="promised")

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows; infinite for a beta below the promise's own."""
        del joint  # all numbers are within it together
        return np.full(self.entries, self.error if beta >= self.beta else math.inf)

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound at this beta, and from which on there is one."""
        why = f"{self.kind} says nothing at beta={beta:g}"
        return why, f"ask at a beta of at least {self.beta:g}"


def _to_law(law: NoiseLaw) -> NoiseLaw:
    if type(law) not in (DiscreteLaplace, DiscreteGaussian, EuclideanLaplace):
        expected = "a DiscreteLaplace, DiscreteGaussian or EuclideanLaplace"
        raise InvalidArgument("law", expected, shown(law))
    return law


@written(
    "accuracy.noise", {"law": LAW, "entries": NATURAL, "step": SIZE, "bias": SIZE}, public=False
)
@frozen
class NoiseAccuracy(HalfWidths):
    """Independent noise of one law on every number, plus what rounding of weights may add.

    `law` is that of the noise in steps; `step` is the lattice step and `bias` the largest effect of
    rounding, both in rows. The tail of the law is exact, so no smaller multiple of the step would
    do.
    """

    law: NoiseLaw = field(converter=_to_law)
    entries: int  # pyright: ignore[reportIncompatibleMethodOverride]  # a field here
    step: float
    bias: float
    kind: str = field(init=False, default="exact tail of the discrete noise")
    standing: Standing = field(init=False, default="proven")

    def radius(self, beta: float, *, joint: bool) -> float:
        """The half-width of each number, in rows."""
        return self.law.radius(beta, self.entries if joint else 1) * self.step + self.bias

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        return np.full(self.entries, self.radius(beta, joint=joint))

    def radius_of_sum(self, beta: float, part: slice) -> float:
        """Half-width of a sum in rows, by Chebyshev's inequality where many numbers add up."""
        count = len(range(*part.indices(self.entries)))
        deviation = math.sqrt(count / beta) * self.law.standard_deviation() * self.step
        return min(super().radius_of_sum(beta, part), deviation + count * self.bias)


Constraint: TypeAlias = Literal["nonnegative", "monotone"]
"""The properties of the truth that noisy answers are moved to have."""

_IN_WORDS: dict[Constraint, str] = {"nonnegative": "made non-negative", "monotone": "made monotone"}


def _constrained_kind(accuracy: ConstrainedAccuracy) -> str:
    kind = accuracy.before.kind
    if accuracy.standing == "none":
        return kind
    return f"{kind}, {_IN_WORDS[accuracy.constraint]}"


def _constrained_standing(accuracy: ConstrainedAccuracy) -> Standing:
    before = accuracy.before
    return before.standing if isinstance(before, HalfWidths) else "none"


def _wrong_constrained(accuracy: ConstrainedAccuracy) -> str:
    count = len(accuracy.moves)
    sound = len(accuracy.chains) == count and are_within(accuracy.chains, -1, count)
    alike = accuracy.before.entries in (None, count)
    return "" if sound and alike else "a move and a chain for each number, counted from 0"


@written(
    "accuracy.constrained",
    {
        "before": ACCURACY,
        "constraint": Choice[Constraint](*get_args(Constraint)),
        "moves": PACKED_FLOATS,
        "chains": PACKED_INTS,
    },
    wrong=_wrong_constrained,
    public=False,
)
@frozen
class ConstrainedAccuracy(HalfWidths):
    """Numbers that were moved to be as the truth is known to be.

    That is proven in docs/explanation/proofs/constrained.md.
    To have nought in place of what is below it takes no number away from a truth that is not
    negative, so its half-widths are what they were. Isotonic regression takes none of a chain
    farther away than the farthest was. Of one number by itself it is known how far it was moved.

    Parameters
    ----------
    before
        The accuracy of the numbers before they were moved.
    constraint
        "nonnegative" or "monotone".
    moves
        What was added to each number, in rows.
    chains
        The number of the chain that each is in, within which the truth does not fall; -1 for none.
    """

    before: Accuracy
    constraint: Constraint
    moves: Floats = field(
        converter=frozen_copy, eq=cmp_using(eq=same_numbers), hash=False, repr=False
    )
    chains: Ints = field(
        converter=frozen_integers, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    standing: Standing = field(init=False, default=Factory(_constrained_standing, takes_self=True))
    kind: str = field(init=False, default=Factory(_constrained_kind, takes_self=True))

    @property
    def entries(self) -> int:
        """How many numbers it is of."""
        return len(self.moves)

    def computed(self) -> ConstrainedAccuracy:
        """The same, made of numbers alone."""
        return evolve(self, before=self.before.computed())

    @property
    def distances(self) -> Floats:  # type: ignore[override]  # derived here, a field elsewhere
        """How far each number was moved at the most, in rows, from what was measured."""
        moves, before = self.moves, self.before
        while isinstance(before, ConstrainedAccuracy):
            moves, before = moves + before.moves, before.before
        far: Floats = np.abs(moves)
        if isinstance(before, HalfWidths) and before.distances is not None:
            return far + before.distances
        return far

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        if not isinstance(self.before, HalfWidths):
            return np.full(len(self.moves), math.inf)
        radii = self.before.radii(beta, joint=joint)
        chained = self.chains >= 0
        if not chained.any():
            return radii
        wide: Floats = np.where(chained, radii + np.abs(self.moves), radii)
        if not joint:
            return wide
        # Both follow from one event, so the smaller of them holds.
        farthest = np.zeros(int(self.chains.max()) + 1)
        np.maximum.at(farthest, self.chains[chained], radii[chained])
        wide[chained] = np.minimum(wide[chained], farthest[self.chains[chained]])
        return wide

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound, as it was before."""
        return self.before.missing(beta)


def _to_chains(chains: Ints | None) -> Ints | None:
    return None if chains is None else frozen_integers(chains)


@frozen
class Constrained(Lasting, Generic[A_co]):
    """An answer of moved numbers.

    Parameters
    ----------
    value
        The answer.
    raw
        The numbers that it is made of, in rows.
    chains
        The number of the chain that each is in, if they were made monotone.
    """

    value: A_co
    raw: Floats = field(converter=frozen_copy, eq=cmp_using(eq=same_numbers), hash=False)
    chains: Ints | None = field(
        default=None, converter=_to_chains, eq=cmp_using(eq=np.array_equal), hash=False
    )


class Lifting(ABC, Generic[A_co]):
    """How an answer follows from raw numbers, and its errors from their half-widths."""

    __slots__ = ()

    @abstractmethod
    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        """Half-widths of raw numbers in the unit of the answer; raw is NaN where unknown."""

    @abstractmethod
    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[A_co, A_co]:
        """The answers at the lower and upper ends of all half-widths."""

    @abstractmethod
    def span(self, facts: Facts, /) -> float:
        """The largest difference between two possible answers, infinite where none is known."""

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        """How much farther the values of rows may be from each number, whose cells were counted.

        None where cells stand for no other values, or the answer is of cells. Errors of releases,
        quotes and plans are those of `spread` or `presumed` and this together; ends that `bracket`
        gives have it in them. Before there is an answer, `raw` is None, and this the most.
        """
        del raw, radii, facts
        return None

    def values_of(self) -> frozenset[str]:
        """The attributes whose values the answer is made of; none where it only counts rows."""
        return frozenset()

    def compared(self) -> frozenset[str]:
        """The attributes whose values decide which rows count, and for which number."""
        return frozenset()

    @property
    def of_expectations(self) -> Expectations:
        """What holds where the true raw numbers are expectations, in place of sums over rows.

        "none" unless a query says, with a proof, that it is more: see `Expectations`.
        """
        return "none"

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        """Which raw numbers add up to that of all rows that count, and how many a row adds."""
        del raw, facts
        return ()

    @property
    def width(self) -> int:
        """How many raw numbers one number of the answer rests on, at the most."""
        return 1

    @property
    def advice(self) -> str:
        """What to ask instead where a bound says nothing, in words; empty if nothing is known."""
        return ""

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        """Half-widths in the unit of the answer before there is one.

        They hold for all tables of which the assumptions are true, and for any raw numbers that are
        within `radii` of the true ones. Overwrite it where `spread` rests on raw numbers, which are
        unknown by default, or on what is assumed.

        Parameters
        ----------
        radii
            Half-widths of the raw numbers, all at once.
        apart
            Gives their half-widths each at confidence 95%, as `settled` of a query would see them.
        facts
            What is known of the table.
        assumptions
            What is believed beyond that.
        """
        del apart, assumptions
        return self.spread(np.full(len(radii), np.nan), radii, facts)

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        """The keys of `assume=` that a bound beforehand needs; none where it needs none."""
        del facts
        return frozenset()

    def constrained(
        self, constraint: Constraint, raw: Floats, facts: Facts, /
    ) -> Constrained[A_co]:
        """The answer of raw numbers that are moved to be as their truth is known to be.

        Raises
        ------
        QueryError
            If that is not known of their truth.
        """
        del raw, facts
        raise QueryError("", _NOT_CONSTRAINED[constraint])


_NOT_CONSTRAINED: dict[Constraint, str] = {
    "nonnegative": "only counts, shares and sums of what is never negative can be made "
    "non-negative, for of others the truth may be negative",
    "monotone": "only a workload of thresholds can be made monotone, for of other answers it is "
    "not known which is above which",
}


def _wrong(bound: Bound) -> str:
    least = bound.error if bound.predicted is None else min(bound.error, bound.predicted)
    sound = least >= 0 and 0 < bound.beta < 1 and 0 <= bound.bins <= bound.error
    return "" if sound else "errors of at least 0, and a chance strictly between 0 and 1"


@written(
    "bound",
    {
        "error": ENDLESS,
        "beta": FLOAT,
        "rests_on": Member(TEXT, of="kind", key="kind"),
        "standing": Choice[Standing](*get_args(Standing)),
        "vacuous": FLAG,
        "predicted": OrNone(FLOAT),
        "bins": Member(FLOAT, 0.0, quiet=True),
        "ranks": Member(OrNone(FLOAT), None, quiet=True),
    },
    wrong=_wrong,
)
@frozen
class Bound:
    """All that is known of an error: with probability 1 - `beta`, no entry is off by more.

    `kind` tells what it rests on, or why there is none, and `standing` whether that is a theorem
    about this answer, a promise about all answers of a channel, either of these under an
    assumption, a prediction, or nothing. Of the last two `error` is infinite: what is predicted is
    in `predicted`, and is no bound. A `vacuous` bound says no more than the range of possible
    answers does. Of the error, `bins` is there because only cells of values were counted. `ranks`
    is not in the unit of the answer: by how many rows the rank of a quantile may be off, with the
    same probability and by a theorem, where a mechanism bounds that.
    """

    error: float
    beta: float
    kind: str
    standing: Standing
    vacuous: bool
    predicted: float | None = None
    bins: float = 0.0
    ranks: float | None = None

    @property
    def parts(self) -> dict[str, float]:
        """What the error is made of: of noise and all else that spending lessens, and of bins.

        Empty where there is no error to tell. Without bins or steps it is all of "noise".
        """
        if not self.error < math.inf:
            return {}
        bins = {"bins": self.bins} if self.bins else {}
        return {"noise": self.error - self.bins, **bins}

    @property
    def proven(self) -> bool:
        """True if it holds by a theorem, about this answer or about all of a channel's."""
        return self.standing in _BOUNDING

    @property
    def words(self) -> str:
        """The same in a few words."""
        at = f"at {confidence(self.beta)}"
        if self.predicted is not None:
            return f"{self.predicted:.4g} predicted, not a bound ({self.kind})"
        if self.ranks is not None and self.standing == "none":
            return f"off by at most {as_bound(self.ranks)} rows in rank {at}"
        if not self.proven and self.standing != "assumed":
            return f"no bound {at} ({self.kind})"
        vacuous = " (vacuous)" if self.vacuous else ""
        promised = "" if self.standing == "proven" else f", {self.standing}"
        return f"{as_bound(self.error)}{vacuous} {at}{promised}"

    def under(self, words: str) -> Bound:
        """The same, as one that holds if what the words say is true."""
        return evolve(self, kind=f"{self.kind}, if {words}", standing="assumed")


BOUND = Nested[Bound]("a bound", Bound)

Spread: TypeAlias = Callable[[Floats], Floats]
Coarseness: TypeAlias = Callable[[Floats], "Floats | None"]


def of_values(errors: Floats, coarseness: Floats | None, span: float) -> Floats:
    """Errors of answers about values, from those about cells and what a cell may hide."""
    if coarseness is None:
        return errors
    return np.maximum(errors, np.minimum(errors + coarseness, span))


def bound_of(
    accuracy: Accuracy,
    spread: Spread | None,
    span: float,
    beta: float,
    coarseness: Coarseness = lambda _: None,
) -> Bound:
    """The joint bound of an answer whose half-widths `spread` translates, if anything does."""
    checked = to_beta(beta)
    error, bins, ranks = math.inf, 0.0, accuracy.ranks(checked)
    if isinstance(accuracy, HalfWidths):
        if spread is not None:
            radii = accuracy.radii(checked, joint=True)
            noise = spread(radii)
            errors = of_values(noise, coarseness(radii), span)
            error = float(errors.max())
            if error < math.inf:
                bins = error - float(noise[int(errors.argmax())])
    elif isinstance(accuracy, ScalarAccuracy):
        error, span = accuracy.error(checked), min(span, accuracy.span)
    standing, vacuous = accuracy.standing, error >= span > 0
    if ranks is not None and vacuous:
        error = math.inf
    if standing in _BOUNDING and error < math.inf:
        kind = f"{accuracy.kind}, and what bins may hide" if bins else accuracy.kind
        return Bound(error, checked, kind, standing, vacuous, bins=bins, ranks=ranks)
    if standing == "predicted" and error < math.inf:
        return Bound(math.inf, checked, accuracy.kind, standing, vacuous=True, predicted=error)
    why, _ = _missing(accuracy, checked)
    return Bound(math.inf, checked, why, "none", vacuous=True, ranks=ranks)


def half_widths(accuracy: Accuracy, answer: str, beta: float) -> HalfWidths:
    """The accuracy, if it bounds the entries of an answer one by one."""
    if isinstance(accuracy, HalfWidths) and accuracy.standing in _BOUNDING:
        return accuracy
    if isinstance(accuracy, ScalarAccuracy) and accuracy.standing in _BOUNDING:
        why = f"its bound is of the answer as a whole ({accuracy.kind})"
        raise NoBound(answer, why, "ask error(beta)")
    raise no_bound(accuracy, answer, beta)


def no_bound(accuracy: Accuracy, answer: str, beta: float) -> NoBound:
    """The refusal of a bound where there is none."""
    return NoBound(answer, *_missing(accuracy, beta))


def finite(bound: Bound, accuracy: Accuracy, answer: str) -> float:
    """The error of a bound."""
    if not bound.proven:
        raise no_bound(accuracy, answer, bound.beta)
    return bound.error


def without_unit(answer: str) -> NoBound:
    """The refusal of a bound in the unit of an answer, where there is one in rows alone."""
    return NoBound(answer, *_WITHOUT_UNIT)


def only_in_ranks(answer: str) -> NoBound:
    """The refusal of a bound in the unit of an answer, where there is one of its rank."""
    return NoBound(answer, *_ONLY_IN_RANKS)


def _missing(accuracy: Accuracy, beta: float) -> tuple[str, str]:
    if accuracy.ranks(beta) is not None:
        return _ONLY_IN_RANKS
    if isinstance(accuracy, HalfWidths) and accuracy.proven:
        radii = accuracy.radii(beta, joint=True)
        if (radii < math.inf).all():
            return _WITHOUT_UNIT
    return accuracy.missing(beta)
