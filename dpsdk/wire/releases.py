"""Releases as records: what a reader needs to judge one, without the table or the session."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple, TypeAlias, cast

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.accounting import (
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    Spent,
    Trusted,
)
from dpsdk.accounting.filters.composition import COMPOSITION
from dpsdk.accounting.guarantee import whole_of
from dpsdk.accuracy import BOUND, Bound, NoiseAccuracy
from dpsdk.codec import (
    ALL_MEASURED,
    ENDLESS,
    ENVELOPE,
    EXACTLY,
    FLAG,
    FLOAT,
    NATURAL,
    POSITIVE,
    TEXT,
    Choice,
    Codebook,
    ListOf,
    Member,
    Nested,
    OrNone,
    canonical,
    check,
    written,
)
from dpsdk.errors import DpsdkError, InvalidArgument, NoBound, WireError
from dpsdk.forms import Facts, Form, LinearForm, sensitivity
from dpsdk.hypothesis.digests import DIGEST
from dpsdk.mechanisms import Mechanism
from dpsdk.mechanisms.base import MECHANISM
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.notes import NOTES, Note
from dpsdk.queries import Query
from dpsdk.queries.base import QUERY
from dpsdk.release import Cost, Release, Source
from dpsdk.release.cost import RUNS
from dpsdk.release.release import REASONS, Reason
from dpsdk.wire.answers import ANSWER, ReleasedAnswer
from dpsdk.wire.catalogue import Catalogue

__all__ = ["ReleaseRecord", "ReleasedNoise", "ReleasedSensitivity"]

Law: TypeAlias = Literal["discrete-laplace", "discrete-gaussian"]
_LONGEST_MECHANISM = 1 << 16
"""A client with a thousand questions to a channel need not get its workload with each answer."""

Norm: TypeAlias = Literal["l1", "l2-squared"]


@written(
    "noise",
    {
        "law": Choice[Law]("discrete-laplace", "discrete-gaussian"),
        "size": EXACTLY,
        "step": FLOAT,
        "bias": FLOAT,
    },
)
@frozen
class ReleasedNoise:
    """The noise on every raw number.

    Parameters
    ----------
    law
        "discrete-laplace", with probabilities in proportion to exp(-|z|/scale), or
        "discrete-gaussian", in proportion to exp(-z²/(2 variance)).
    size
        The scale or the variance, exact, in steps of the lattice or their squares.
    step
        A step, in rows. What was released are whole multiples of it.
    bias
        What rounding of weights may add to an error, in rows.
    """

    law: Law
    size: Fraction
    step: float
    bias: float

    @classmethod
    def of(cls, accuracy: object) -> ReleasedNoise | None:
        """The noise that an accuracy rests on, if it rests on noise of one law."""
        if not isinstance(accuracy, NoiseAccuracy):
            return None
        law = accuracy.law
        if isinstance(law, DiscreteGaussian):
            return cls("discrete-gaussian", law.variance, accuracy.step, accuracy.bias)
        if isinstance(law, DiscreteLaplace):
            return cls("discrete-laplace", law.scale, accuracy.step, accuracy.bias)
        return None


@written(
    "sensitivity",
    {"norm": Choice[Norm]("l1", "l2-squared"), "steps": NATURAL, "exact": OrNone(FLAG)},
)
@frozen
class ReleasedSensitivity:
    """How far the raw numbers of two neighbours may be apart, as it was paid for.

    Parameters
    ----------
    norm
        "l1" for the sum of the moves, "l2-squared" for the sum of their squares.
    steps
        The sensitivity, exact, in steps of the lattice or their squares.
    exact
        Whether some neighbours are as far apart as that. Otherwise it is an upper bound. None where
        nobody looked.
    """

    norm: Norm
    steps: int
    exact: bool | None = None


_SPENT = OrNone(Nested[Spent]("what was spent", Spent))


@written(
    "release",
    {
        "query": TEXT,
        "question": OrNone(QUERY),
        "query_digest": OrNone(DIGEST),
        "domain": DIGEST,
        "table": OrNone(TEXT),
        "neighbors": Choice[str]("replace-one", "add-remove"),
        "unit": TEXT,
        "unit_rows": POSITIVE,
        "person": OrNone(TEXT),
        "rows": OrNone(NATURAL),
        "outside": FLAG,
        "mechanism": TEXT,
        "by": OrNone(MECHANISM),
        "by_digest": OrNone(DIGEST),
        "answer": ANSWER,
        "source": Choice[str]("measured", "fitted", "hypothesis"),
        "private": FLAG,
        "reused": FLAG,
        "noise": OrNone(Nested[ReleasedNoise]("the noise", ReleasedNoise)),
        "sensitivity": OrNone(Nested[ReleasedSensitivity]("a sensitivity", ReleasedSensitivity)),
        "runs": RUNS,
        "epsilon": OrNone(EXACTLY),
        "rho": EXACTLY,
        "joint": BOUND,
        "each": OrNone(ALL_MEASURED),
        "composition": OrNone(COMPOSITION),
        "budget": OrNone(Nested[Budget]("a budget", Budget)),
        "before": _SPENT,
        "after": _SPENT,
        "account": OrNone(TEXT),
        "trusted": Member(ListOf(Nested[Trusted]("a trusted class", Trusted)), ()),
        "made_by": TEXT,
        "because": Member(REASONS, (), quiet=True),
        "moved": Member(ENDLESS, 0.0, quiet=True),
        "notes": Member(NOTES, (), quiet=True),
    },
    wrong=lambda record: "" if record.moved >= 0 else "moved by at least 0",
)
@frozen(kw_only=True)
class ReleaseRecord:
    """A release, written down: public, and made of public values alone.

    It is a statement of its author, and proves nothing by itself.

    Parameters
    ----------
    query
        What was asked, in words; `question` the query itself, a `Linear` of a function as its
        table, None where it has no written form; `query_digest` its digest.
    domain
        The digest of the domain.
    table
        The name of the table, or of the part of it, that was asked.
    neighbors, unit, unit_rows, person
        The relation, "replace-one" or "add-remove"; the unit of privacy, in words; how many rows
        one person has at the most; and the column that tells persons apart, if one does.
    rows, outside
        The number of rows where that is public, and whether rows may lie outside the domain.
    mechanism
        Which mechanism answered, in words; `by_digest` its digest, None where it has no written
        form; and `by` the mechanism itself, None also where it names a distribution that the
        catalogue does not know, or has a written form of more than 65,536 characters.
    answer
        The answer in plain numbers.
    source
        Whether it was measured, fitted, or read off a hypothesis.
    private
        Whether the noise was private. Otherwise it was seeded, and the release protects nobody.
    reused
        Whether it was given before to the same question, and cost nothing this time.
    noise, sensitivity
        On what the numbers rest, where that is noise of one law and one run.
    runs
        What was charged: guarantees, each with how often it was.
    epsilon, rho
        The sums of the pure ε and of the ρ of all runs, None where one of them has no pure ε.
        `cost` adds them up again.
    joint
        The bound of all entries of the answer at once; `each`, at the same β, of each entry by
        itself, None where there is none.
    composition, budget
        How costs add up in the session, and what may be spent in all.
    before, after
        What had been spent of the budget, by all on the ledger, when it was charged first and when
        it was charged last. None where nothing was charged this time: for an answer that was free,
        or is given again.
    account
        Who paid: the name of a scope, empty for a session itself.
    trusted
        The classes of other authors whose word the answer rests on, each with where it is proven.
    made_by
        Which version of dpsdk wrote it.
    because
        Why its mechanism was chosen, if it was by a plan.
    moved
        By how much the most moved entry was moved, in the unit of the answer, to be non-negative,
        monotone or possible at all; nought where none was, and in what a ledger gave again, which
        does not tell. Infinite where it is not known what the moved numbers are worth.
    notes
        What the answer is of, as `Release.notes`. None in records of versions that had none.
    """

    query: str
    question: Query[object, Form] | None
    query_digest: str | None
    domain: str
    table: str | None
    neighbors: Literal["replace-one", "add-remove"]
    unit: str
    unit_rows: int
    person: str | None
    rows: int | None
    outside: bool
    mechanism: str
    by: Mechanism[Form] | None
    by_digest: str | None
    answer: ReleasedAnswer
    source: Source
    private: bool
    reused: bool
    noise: ReleasedNoise | None
    sensitivity: ReleasedSensitivity | None
    runs: tuple[tuple[Guarantee, int], ...]
    epsilon: Fraction | None
    rho: Fraction
    joint: Bound
    each: tuple[float, ...] | None
    composition: Composition | None
    budget: Budget | None
    before: Spent | None
    after: Spent | None
    account: str | None
    trusted: tuple[Trusted, ...] = ()
    made_by: str
    because: tuple[Reason, ...] = ()
    moved: float = 0.0
    notes: tuple[Note, ...] = ()

    @property
    def cost(self) -> Cost:
        """The charges."""
        return Cost(self.runs)

    @classmethod
    def of(
        cls,
        release: Release[object],
        *,
        question: Query[object, Form] | None = None,
        beta: float = 0.05,
        allow: Catalogue | None = None,
    ) -> ReleaseRecord:
        """The record of a release: what it says, and what its session knew when it was paid.

        Parameters
        ----------
        release
            What `release` of a session, channel, scope or part gave.
        question
            What was asked, in place of a query without a written form.
        beta
            The probability at which errors are stated.
        allow
            Which kinds a question and a mechanism may be of, and which distributions are known.

        Raises
        ------
        InvalidArgument
            If an argument is not what it should be.
        """
        if not isinstance(release, Release):
            raise InvalidArgument("release", "a release", shown(release))
        facts, raw = release.facts, release.raw
        catalogue = Catalogue.shipped() if allow is None else allow
        given = release.asked if question is None else question
        query = _settled(given, Query, facts, catalogue)
        asked = cast("Query[object, Form] | None", query.value)
        paid = release.payment
        by = rules = _Settled()
        if paid is not None:
            by = _settled(paid.by, Mechanism, facts, catalogue, _LONGEST_MECHANISM)
            rules = _settled(paid.composition, Composition, facts, catalogue)
        noise = ReleasedNoise.of(release.accuracy)
        return cls(
            query=release.query,
            question=asked,
            query_digest=query.digest,
            domain=facts.domain.digest,
            table=None if paid is None else paid.table,
            neighbors=facts.neighbors.value,
            unit=facts.unit,
            unit_rows=facts.unit_rows,
            person=facts.person,
            rows=facts.rows,
            outside=facts.outside,
            mechanism=release.mechanism,
            by=cast("Mechanism[Form] | None", by.value),
            by_digest=by.digest,
            answer=ReleasedAnswer.of(release.value, raw, release.asked, facts),
            source=release.source,
            private=release.private,
            reused=release.reused,
            noise=noise,
            sensitivity=_moved(release.cost, noise, asked, facts),
            runs=release.cost.runs,
            epsilon=release.cost.epsilon,
            rho=release.cost.rho,
            joint=release.bound(beta),
            each=_each(release, beta),
            composition=cast("Composition | None", rules.value),
            budget=None if paid is None else paid.budget,
            before=None if paid is None else paid.before,
            after=None if paid is None else paid.after,
            account=None if paid is None else paid.account,
            trusted=() if paid is None else paid.trusted,
            made_by=_version(),
            because=tuple([Reason(one.code, one.text) for one in release.because]),
            moved=release.moved,
            notes=release.notes,
        )


class _Settled(NamedTuple):
    """A value as a reader of a record will have it, and its digest; None of what there is not."""

    value: object = None
    digest: str | None = None


def _settled(
    value: object, wanted: type, facts: Facts, catalogue: Catalogue, most: int | None = None
) -> _Settled:
    """A value by its written form; by its digest alone where that is longer than `most`."""
    codebook = Codebook(catalogue, facts.domain)
    try:
        kind = catalogue.kind_of(value, "$")
        if not issubclass(kind.made, wanted):
            return _Settled()
        written = kind.write(value, "$", codebook)
        check(written)
    except (WireError, RecursionError):
        return _Settled()
    text = canonical({**ENVELOPE, **written})
    digest = sha256(text).hexdigest()
    if most is not None and len(text) > most:
        return _Settled(None, digest)
    try:
        return _Settled(kind.read(written, "$", codebook), digest)
    except (WireError, RecursionError):
        return _Settled(None, digest)


def _moved(
    cost: Cost, noise: ReleasedNoise | None, query: Query[object, Form] | None, facts: Facts
) -> ReleasedSensitivity | None:
    """The sensitivity that one run was charged for."""
    if noise is None or len(cost.runs) != 1 or cost.runs[0][1] != 1:
        return None
    run = whole_of(cost.runs[0][0])
    if isinstance(run, DiscreteLaplaceGuarantee):
        return ReleasedSensitivity("l1", run.shift, _exact(run.shift, 1, noise, query, facts))
    if isinstance(run, DiscreteGaussianGuarantee):
        shift = run.shift_squared
        return ReleasedSensitivity("l2-squared", shift, _exact(shift, 2, noise, query, facts))
    return None


def _exact(
    steps: int,
    power: int,
    noise: ReleasedNoise,
    query: Query[object, Form] | None,
    facts: Facts,
) -> bool | None:
    """True if neighbours are known to be as far apart; None where the question is not known."""
    if query is None:
        return None
    try:
        form = query.lower(facts.domain)
        if not isinstance(form, LinearForm):
            return None
        found = sensitivity(form, facts, power=power)
    except DpsdkError:
        return None
    moves = found.l1 if power == 1 else found.l2_squared
    return found.exact and steps * Fraction(noise.step) ** power == moves


def _each(release: Release[object], beta: float) -> tuple[float, ...] | None:
    try:
        return tuple(release.errors(beta).tolist())
    except NoBound:
        return None


@cache
def _version() -> str:
    try:
        return f"dpsdk {version('dpsdk')}"
    except PackageNotFoundError:
        return "dpsdk of a source tree"
