"""From a table to the population that it is a sample of: what is known, and what is declared.

docs/explanation/proofs/population.md proves the three statements, each with what it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np

from dpsdk._arrays import ByNumbers, Lasting, frozen_copy
from dpsdk._checks import shown, to_beta, to_count
from dpsdk._records import cmp_using, evolve, field, frozen
from dpsdk.accounting.numbers import as_bound, as_text, confidence
from dpsdk.accuracy import HalfWidths, Lifting, NoiseAccuracy, Standing
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, NoBound
from dpsdk.forms import LinearForm
from dpsdk.release.measurement import Measurement
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.release.release import Release

__all__ = [
    "Chosen",
    "PopulationExpectation",
    "PopulationInterval",
    "Transcript",
    "population_of",
]

A_co = TypeVar("A_co", covariant=True)

_ROUNDED = 1 + 2.0**-40
_MOST_UPDATES = 10**5
_INDEPENDENT = "the rows are independent draws of one law, and their number was fixed beforehand"
_UNCAPPED = object()


def _alike(one: object, other: object) -> bool:
    return bool(np.all(one == other))  # of arrays, too


_ALIKE = cmp_using(eq=_alike)


def _questions(value: int) -> int:
    return to_count("questions", value, bits=40)


def _updates(value: int) -> int:
    return to_count("updates", value, bits=40)


def _answers(value: int) -> int:
    return to_count("answers", value, bits=None)


@frozen
class Transcript:
    """The caps of a stream of questions, fixed before the first of them, that is seen alone.

    A question may then depend on all answers that the channel gave before. Whatever these are, they
    tell no more than which of the questions were updates, and the true answers to these: all
    others are read off a hypothesis, which is made of them. So this needs no privacy at all, but
    every number counts that was seen of the table: a channel that starts from something measured,
    or another one beside it, breaks it.

    Parameters
    ----------
    questions
        How many numbers are asked for at the most.
    updates
        How many of these are measured, or found to be above a threshold, at the most: the channel's
        `updates`.
    answers
        How many values the true answer to one of them can have: one more than there are rows, where
        all questions count rows.
    """

    questions: int = field(converter=_questions)
    updates: int = field(converter=_updates)
    answers: int = field(converter=_answers)

    def __attrs_post_init__(self) -> None:
        if self.updates > min(self.questions, _MOST_UPDATES):
            expected = f"at most {min(self.questions, _MOST_UPDATES):,}"
            raise InvalidArgument("updates", expected, shown(self.updates))

    @property
    def length(self) -> float:
        """The logarithm, in nats, of how many transcripts there may be."""
        term, terms = 0.0, [0.0]
        for update in range(self.updates):
            term += math.log((self.questions - update) / (update + 1)) + math.log(self.answers)
            terms.append(term)
        largest = max(terms)
        return (largest + math.log(math.fsum(math.exp(one - largest) for one in terms))) * _ROUNDED


Chosen: TypeAlias = Literal["beforehand", "adaptively"] | Transcript
"""How a question was chosen, as its author declares."""


@frozen
class PopulationInterval(Lasting, Generic[A_co]):
    """An interval for the answer of the population that the rows of a table were drawn from.

    Parameters
    ----------
    value
        The answer that was released.
    low, high
        Between these the population's lies, in every entry, with probability 1 - `beta` over the
        draw of the table and the noise. Of a count, what is expected of as many rows.
    error
        No entry of `value` is farther off, with the same probability.
    beta
        The probability that this fails.
    vacuous
        True if it says no more than the range of possible answers does.
    assumptions
        What was declared, and is checked by nobody.
    """

    value: A_co = field(eq=_ALIKE, hash=False)
    low: A_co = field(eq=_ALIKE, hash=False)
    high: A_co = field(eq=_ALIKE, hash=False)
    error: float
    beta: float
    vacuous: bool
    assumptions: tuple[str, ...]

    @property
    def standing(self) -> str:
        """The basis of the interval: proven, given what was declared."""
        return f"proven given that {'; '.join(self.assumptions)}"

    def __str__(self) -> str:
        vacuous = " (vacuous)" if self.vacuous else ""
        error = f"± {as_bound(self.error)}{vacuous} at {confidence(self.beta)}"
        return f"{self.value} {error} for the population, {self.standing}"


@frozen
class PopulationExpectation(Lasting, Generic[A_co]):
    """How far an answer is expected to be from that of the population, which is no interval.

    Parameters
    ----------
    value
        The answer that was released.
    error
        The expectation, over the draw of the table and all noise, of how far any one entry is off
        is at most this. It may be farther off in this case. Cases in which one of the
        assumptions fails count as no error.
    vacuous
        True if it says no more than the range of possible answers does.
    assumptions
        What was declared, and is checked by nobody.
    """

    value: A_co = field(eq=_ALIKE, hash=False)
    error: float
    vacuous: bool
    assumptions: tuple[str, ...]

    @property
    def standing(self) -> str:
        """The basis of the expectation: proven, given what was declared."""
        return f"proven given that {'; '.join(self.assumptions)}"

    def __str__(self) -> str:
        vacuous = " (vacuous)" if self.vacuous else ""
        error = (
            f"off by at most {as_bound(self.error)}{vacuous} in expectation, which is no interval"
        )
        return f"{self.value}, {error}, for the population, {self.standing}"


@frozen
class _Sampled(HalfWidths):
    """Half-widths about a table, widened to those about what it is a sample of.

    Half of beta is that of the noise. Each of `numbers` averages over `rows` independent draws is
    off by no more than Hoeffding's inequality has, whichever question of e to the `length` it is.
    """

    before: HalfWidths
    widths: Floats = field(converter=frozen_copy, eq=ByNumbers)
    rows: int
    numbers: int
    length: float
    standing: Standing
    kind: str = "the bound of the release, and Hoeffding's inequality"

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows, always of all numbers."""
        del joint
        logarithm = math.log(4 * self.numbers / beta) + self.length
        moved = math.sqrt(self.rows * logarithm / 2) * _ROUNDED
        return self.before.radii(beta / 2, joint=True) + self.widths * moved

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound of the release at half of this beta."""
        return self.before.missing(beta / 2)


@runtime_checkable
class _Lowers(Protocol):
    """A query, as far as it matters here."""

    def lower(self, domain: Domain, /) -> object: ...


def _widths(release: Release[A_co], lifting: Lifting[A_co]) -> tuple[Floats, int]:
    """How far one row may move each raw number, over the public range, and how many rows there are.

    Refuses all that none of the statements is about.
    """
    facts, name = release.facts, release.query
    if facts.unit_rows > 1 or facts.person is not None:
        why = "rows of one person are not independent of each other"
        raise NoBound(name, why, "read error(beta), which is about the table")
    if not facts.replaced or not facts.rows:
        why = "the number of rows is private, or there are none"
        raise NoBound(name, why, "load a table whose number of rows is public")
    if facts.part_of is not None:
        why = "the rows of a part are no sample of the population, and their number is private"
        raise NoBound(name, why, "ask the whole table, with where=")
    asked = release.asked
    form = asked.lower(facts.domain) if isinstance(asked, _Lowers) else None
    if lifting.of_expectations == "none" or not isinstance(form, LinearForm):
        why = "it follows from no sums over rows whose expectations would bound it"
        raise NoBound(name, why, "ask for shares, counts, sums, means or variances")
    lows, highs = form.extents()
    if facts.outside:
        lows, highs = np.minimum(lows, 0.0), np.maximum(highs, 0.0)
    return (highs - lows) * _ROUNDED, facts.rows


def population_of(
    release: Release[A_co],
    known: Callable[[float], tuple[HalfWidths, Lifting[A_co]]],
    beta: float | None,
    chosen: Chosen,
) -> PopulationInterval[A_co] | PopulationExpectation[A_co]:
    """What a release says of the population; `known` gives its half-widths, or says why not."""
    if chosen == "adaptively":
        if beta is not None:
            raise InvalidArgument("beta", "left out: an expectation has none", shown(beta))
        return _expectation(release, *known(0.05))
    if chosen != "beforehand" and not isinstance(chosen, Transcript):
        expected = "'beforehand', 'adaptively' or a Transcript"
        raise InvalidArgument("chosen", expected, shown(chosen))
    checked = to_beta(0.05 if beta is None else beta)
    accuracy, given = _sampled(release, *known(checked), chosen)
    wide = evolve(release, measurement=Measurement(release.raw, accuracy, release.source))
    (low, high), bound = wide.interval(checked), wide.bound(checked)
    return PopulationInterval(release.value, low, high, bound.error, checked, bound.vacuous, given)


def _sampled(
    release: Release[A_co],
    accuracy: HalfWidths,
    lifting: Lifting[A_co],
    chosen: Literal["beforehand"] | Transcript,
) -> tuple[HalfWidths, tuple[str, ...]]:
    """The half-widths of a release about the population, and what has to be true for them."""
    widths, rows = _widths(release, lifting)
    if not isinstance(chosen, Transcript):
        wide = _Sampled(accuracy, widths, rows, len(widths), 0.0, accuracy.standing)
        told = "the question was fixed without sight of this table or of any release about it"
        return wide, (_INDEPENDENT, told)
    _check_capped(release, chosen, len(widths))
    caps = (
        f"the channel was asked for at most {chosen.questions:,} numbers and learnt from at most "
        f"{chosen.updates:,}, each true answer one of {chosen.answers:,} values, all fixed "
        "beforehand"
    )
    alone = "it began with nothing that was measured, and nothing else of this table was seen"
    wide = _Sampled(accuracy, widths, rows, chosen.questions, chosen.length, accuracy.standing)
    return wide, (_INDEPENDENT, caps, alone)


def _check_capped(release: Release[A_co], chosen: Transcript, numbers: int) -> None:
    """Refuse a transcript that the channel of a release need not keep within."""
    by: object = None if release.payment is None else release.payment.by
    most: object = getattr(by, "updates", _UNCAPPED)
    if most is _UNCAPPED:
        why = f"no cap on updates was fixed before {release.mechanism} answered"
        raise NoBound(release.query, why, "open a channel with updates=, such as OnlinePMW")
    if isinstance(most, int) and most > chosen.updates:
        why = f"its channel may learn {most:,} times, and {chosen.updates:,} were declared"
        raise NoBound(release.query, why, f"declare updates={most}")
    start: object = getattr(by, "start", None)
    # Where none was given, channels without a promise begin with a measurement.
    measured = most is not None if start is None else getattr(start, "share", 0)
    if measured:
        why = "its channel may have begun with something that was measured"
        raise NoBound(release.query, why, "open it with start='uniform'")
    if numbers > chosen.questions:
        why = f"it has {numbers:,} numbers, and {chosen.questions:,} were declared"
        raise NoBound(release.query, why, f"declare questions={numbers} at least")


def _expectation(
    release: Release[A_co], accuracy: HalfWidths, lifting: Lifting[A_co]
) -> PopulationExpectation[A_co]:
    """The expected distance of a release from the population, whatever was asked before."""
    widths, rows = _widths(release, lifting)
    raw, facts, name = release.raw, release.facts, release.query
    if lifting.of_expectations != "linear" or lifting.coarseness(raw, raw, facts) is not None:
        why = "an expectation is of sums and shares of what is counted, and not of ratios or bins"
        raise NoBound(name, why, "ask for counts, shares, or sums of an exact column")
    if not isinstance(accuracy, NoiseAccuracy):
        why = f"the expectation of its error is not known ({accuracy.kind})"
        raise NoBound(name, why, "measure it, by Laplace or Gaussian noise")
    payment = release.payment
    cap = None if payment is None else payment.divergence
    if payment is None or cap is None:
        why = (
            "no filter that was fixed beforehand bounds what the session tells, a run may have "
            "leaked, or nothing was charged this time"
        )
        raise NoBound(name, why, "ask a session of ZCDPComposition() for something new")
    share = math.sqrt(float(cap) / 2 + math.log(2) / (2 * rows))
    noise = accuracy.law.standard_deviation() * accuracy.step + accuracy.bias
    radii = (widths * (share * rows) + noise) * _ROUNDED
    error, span = float(lifting.spread(raw, radii, facts).max()), lifting.span(facts)
    limited = (
        f"a limit of rho {as_text(cap, up=True)} for all that {payment.payer} releases was "
        "fixed before the first release, and nothing with a leak was charged"
    )
    alone = (
        "the question was chosen from these releases and from nothing else of this table, its "
        "range and its noise beforehand"
    )
    given = (_INDEPENDENT, limited, alone)
    return PopulationExpectation(release.value, error, error >= span > 0, given)
