"""Workloads: many queries asked at once, with one noise draw by their joint sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

import numpy as np

from dpsdk import forms
from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import described, shown
from dpsdk._frames import (
    Column,
    ColumnKind,
    FrameLibrary,
    Rows,
    columns_of,
    framed,
    rows_of,
    to_frame,
)
from dpsdk._html import brief_of, html_of, page, table
from dpsdk._records import field, frozen
from dpsdk.accuracy import Constrained, Constraint, Expectations
from dpsdk.codec import ListOf, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError, TooLarge, UnknownQuery
from dpsdk.forms import Facts, Form, FormBlock, LinearForm
from dpsdk.forms.assumptions import Assumptions
from dpsdk.queries.base import QUERY, F_co, LinearQuery, OfRawNumbers, Query, settles
from dpsdk.queries.monotone import ranked, risen
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.forms import ConvexForm, ConvexForms

__all__ = ["Answers", "Workload"]

A_co = TypeVar("A_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")

WEIGHT_LIMIT = 2**27
"""The weights of a workload's queries fill a gigabyte at the most."""


def _joined(pairs: Sequence[tuple[LinearQuery[object, Form], Floats]], facts: Facts) -> Floats:
    """The numbers of all answers in one array."""
    return np.concatenate([query.numbers(part, facts) for query, part in pairs])


def _end(
    triples: Sequence[tuple[LinearQuery[object, Form], Floats, Floats]], facts: Facts, side: int
) -> Floats:
    """The numbers of all lower or all upper ends in one array."""
    return np.concatenate([query.ends(part, wide, facts)[side] for query, part, wide in triples])


def _part_of(parts: Callable[[], list[Floats]], place: int) -> Floats:
    return parts()[place].copy()  # to write into as a query likes


@frozen(repr=False)
class Answers(Lasting, Sequence[A_co], Generic[A_co]):
    """The answers to a workload, in the order of its queries.

    `answers[0]` is the first one, `answers[Threshold("age", 40)]` that of a query: of the first of
    the workload's that equals it. `values` has all their numbers in one flat array: of scalar
    queries one each, of tables all entries in order. `queries` are those that were asked, None
    where the maker of the answers did not say.

    Answers are equal if they say the same; what was asked is not compared.
    """

    items: tuple[A_co, ...]
    _numbers: Callable[[], Floats] = field(eq=False, repr=False)
    queries: tuple[Query[A_co, Form], ...] | None = field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.queries is not None and len(self.queries) != len(self.items):
            expected = f"one for each of {len(self.items):,} answers"
            raise InvalidArgument("queries", expected, f"{len(self.queries):,}")

    @cached_property
    def values(self) -> Floats:
        """All numbers of all answers in one flat array, which stays as it is."""
        return frozen_copy(np.asarray(self._numbers(), dtype=np.float64))

    @overload
    def __getitem__(self, index: int) -> A_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[A_co, ...]: ...
    @overload
    def __getitem__(self, index: Query[B, Form]) -> B: ...
    def __getitem__(self, index: int | slice | Query[B, Form]) -> A_co | B | tuple[A_co, ...]:
        if not isinstance(index, Query):
            return self.items[index]
        # Equal queries have answers of one type.
        return cast("B", self.items[self._place_of(index)])

    @cached_property
    def _places(self) -> dict[object, int]:
        places: dict[object, int] = {}
        for place, query in enumerate(self.queries or ()):
            with suppress(TypeError):  # one of another author may have no hash
                places.setdefault(query, place)
        return places

    def _place_of(self, query: Query[object, Form]) -> int:
        queries = self.queries or ()
        try:
            place = self._places.get(query)
        except TypeError:
            equal = [number for number, one in enumerate(queries) if one is query or one == query]
            place = equal[0] if equal else None
        if place is None:
            reason = f"it is none of the {len(queries):,} queries that these are the answers to"
            if self.queries is None:
                reason = "whoever made these answers did not say to which queries; ask by place"
            raise UnknownQuery(described(query), reason)
        return place

    def __len__(self) -> int:
        return len(self.items)

    def to_frame(self, backend: FrameLibrary = "polars", *, prefix: str = "") -> object:
        """All numbers as a data frame of a library of your choice, one a row, through narwhals.

        Columns are `query`, in words; one for each attribute of a table among the answers, which
        is empty in the rows of other answers; and `value`. A release's have bounds beside them.

        Parameters
        ----------
        prefix
            What the names of all columns but those of attributes begin with, for attributes that
            are called `query` or `value`.

        Raises
        ------
        InvalidArgument
            If a column would have the name of an attribute, or an answer is no number, array or
            table.
        MissingExtra
            If narwhals, which the extra `frames` installs, or that library itself is missing.
        """
        rows = rows_of(self)
        (value,) = columns_of(rows.values)
        return to_frame(framed(rows, {"value": value}, prefix), backend)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return page(f"Answers, {len(self.items):,} in all", html_of(self))

    def __repr__(self) -> str:
        first = [repr(item) for item in self.items[:4]]
        more = len(self.items) - len(first)
        if not any("\n" in text for text in first):
            return f"Answers({', '.join(first)}{f', ... {more:,} more' if more else ''})"
        # Tables take lines of their own.
        lines = [f"Answers, {len(self.items):,} in all:"]
        for number, text in enumerate(first):
            lines += [f"[{number}]", text] if "\n" in text else [f"[{number}] {text}"]
        return "\n".join(lines + ([f"... {more:,} more"] if more else []))


@html_of.register(Answers)
def _html_of_answers(answers: Answers[object], /) -> str:
    named = range(len(answers.items)) if answers.queries is None else answers.queries
    rows = (
        (described(query), brief_of(item)) for query, item in zip(named, answers.items, strict=True)
    )
    return table(["query", "value"], rows, len(answers.items), numbers=1)


@brief_of.register(Answers)
def _brief_of_answers(answers: Answers[object], /) -> str:
    return f"{len(answers.items):,} answer{'' if len(answers.items) == 1 else 's'}"


@rows_of.register(Answers)
def _rows_of_answers(answers: Answers[object], /) -> Rows:
    values: list[object] = []
    queries: list[object] = []
    own: dict[str, tuple[list[object], ColumnKind]] = {}
    labels: dict[str, tuple[list[object], ColumnKind]] = {}
    named = range(len(answers.items)) if answers.queries is None else answers.queries
    for item, query in zip(answers.items, named, strict=True):
        rows, start = rows_of(item), len(values)
        values.extend(rows.values)
        inner = dict(rows.own)
        asked = inner.pop("query", None)
        queries.extend([described(query)] * len(rows.values) if asked is None else asked.values)
        for known, given in ((own, inner), (labels, rows.labels)):
            for name, column in given.items():
                entries, _ = known.setdefault(name, ([], column.kind))
                entries.extend([None] * (start - len(entries)))
                entries.extend(column.values)
    for entries, _ in (*own.values(), *labels.values()):
        entries.extend([None] * (len(values) - len(entries)))
    told = {name: Column(entries, kind) for name, (entries, kind) in own.items()}
    return Rows(
        values,
        {"query": Column(queries, "text"), **told},
        {name: Column(entries, kind) for name, (entries, kind) in labels.items()},
    )


def _models(form: Form) -> tuple[ConvexForm, ...]:
    """The forms of one or several models; none of any other."""
    if isinstance(form, forms.ConvexForms):
        return form.parts
    return (form,) if isinstance(form, forms.ConvexForm) else ()


_DEEPEST = 32
"""Workloads of workloads go no deeper than this."""


@written("query.workload", {"queries": ListOf(QUERY, least=1)})
@frozen(init=False, repr=False)
class Workload(LinearQuery[Answers[A_co], F_co]):
    """Many queries asked at once: a sequence of their answers, for one charge.

    The noise follows the joint sensitivity of all of them, so disjoint or overlapping questions
    cost less together than one by one. Queries may differ in kind and unit, but are either linear
    all of them, or models all of them, which whatever answers one model answers together.

    >>> from dpsdk.queries import Threshold, Workload
    >>> Workload(Threshold("age", t) for t in range(17, 91))
    Workload of 74 queries
    """

    queries: tuple[Query[A_co, F_co], ...]
    _parts: dict[Domain, tuple[int, ...]] = field(eq=False)
    _depth: int = field(eq=False)
    _lifted: tuple[LinearQuery[A_co, Form], ...] = field(eq=False)
    """The queries, each able to say what its raw numbers are worth."""

    @overload
    def __init__(
        self: Workload[A, LinearForm], queries: Iterable[Query[A, LinearForm]]
    ) -> None: ...
    @overload
    def __init__(
        self: Workload[A, ConvexForm | ConvexForms],
        queries: Iterable[Query[A, ConvexForm | ConvexForms]],
    ) -> None: ...
    def __init__(self, queries: Iterable[Query[object, Form]]) -> None:
        if not isinstance(queries, Iterable):
            raise InvalidArgument("queries", "a sequence of queries", shown(queries))
        kept = cast("tuple[Query[A_co, F_co], ...]", tuple(queries))
        if not kept:
            raise InvalidArgument("queries", "at least one query", "none")
        depth, lifted = 1, list[LinearQuery[A_co, Form]]()
        for query in kept:
            if not isinstance(query, Query):
                raise InvalidArgument("queries", "queries", shown(query))
            lifted.append(query if isinstance(query, LinearQuery) else OfRawNumbers(query))
            if isinstance(query, Workload):
                depth = max(depth, 1 + cast("Workload[object]", query)._depth)
        if depth > _DEEPEST:
            expected = f"workloads at most {_DEEPEST} deep in one another"
            raise InvalidArgument("queries", expected, f"{depth} deep")
        object.__setattr__(self, "queries", kept)
        object.__setattr__(self, "_parts", {})
        object.__setattr__(self, "_depth", depth)
        object.__setattr__(self, "_lifted", tuple(lifted))

    @property
    def advice(self) -> str:
        """Of means of groups: that one query asks for all of them."""
        from dpsdk.queries.totals import Mean  # noqa: PLC0415  # which most workloads do without

        groups: set[tuple[str, str]] = set()
        for query in cast("tuple[object, ...]", self.queries):
            mean = cast("Mean[object]", query) if isinstance(query, Mean) else None
            where = None if mean is None else mean.where
            if mean is None or where is None or len(where.conditions) != 1:
                return ""
            groups.add((mean.attribute, where.conditions[0][0]))
        if len(self.queries) < 2 or len(groups) > 1:
            return ""
        attribute, name = groups.pop()
        return (
            "a mean of few rows may be anything, and errors(beta) of a release bounds each by "
            f"itself; Mean({attribute!r}, by={name!r}) is one query for all groups, of which plan "
            "and quote take assume={'smallest_group': ...}"
        )

    @property
    def of_expectations(self) -> Expectations:
        told = {query.of_expectations for query in self._lifted}
        return "none" if "none" in told else "bounded" if "bounded" in told else "linear"

    def check(self, facts: Facts, /) -> None:
        for query in self.queries:
            query.check(facts)

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        # Most workloads have no query that looks at its half-widths, and are not cut up for it.
        if not any(settles(type(query)) for query in self.queries):
            return raw
        triples = self._triples(raw, radii(), facts)
        return np.concatenate(
            [query.settled(part, partial(np.copy, own), facts) for query, part, own in triples]
        )

    def footprint(self, domain: Domain, /) -> int:
        return sum(query.footprint(domain) for query in self._lifted)

    def lower(self, domain: Domain, /) -> F_co:
        weights = self.footprint(domain)
        if weights > WEIGHT_LIMIT:
            advice = "ask structured queries, such as conjunctions, or fewer at once"
            raise TooLarge(str(self), weights, WEIGHT_LIMIT, "weights", advice)
        blocks: list[FormBlock] = []
        models: list[ConvexForm] = []
        rows: list[int] = []
        for query in self.queries:
            form: Form = query.lower(domain)
            if isinstance(form, LinearForm):
                blocks.extend(form.blocks)
                rows.append(form.rows)
            else:
                parts = _models(form)
                models.extend(parts)
                rows.append(sum([part.dimension + 1 for part in parts]))
            if not rows[-1] or (blocks and models):
                raise QueryError(str(query), "a workload takes linear queries only, or models only")
        self._parts[domain] = tuple(rows)
        # Which of both it is follows from the queries, as the types of the constructor say.
        if models:
            return cast("F_co", forms.ConvexForms(domain, models))
        return cast("F_co", LinearForm(domain, blocks))

    def forms(self, domain: Domain, /) -> Iterator[F_co]:
        """The forms of its queries one by one, which together may have too many numbers for one."""
        for query in self.queries:
            if isinstance(query, Workload):
                yield from cast("Workload[object, F_co]", query).forms(domain)
            else:
                yield query.lower(domain)

    def lift(self, raw: Floats, facts: Facts, /) -> Answers[A_co]:
        # The numbers as a whole are worked out when they are first asked for.
        pairs = self.parts(raw.copy(), facts)
        items = tuple([query.lift(part, facts) for query, part in pairs])
        return Answers(items, partial(_joined, pairs, facts), self.queries)

    def parts(self, raw: Floats, facts: Facts, /) -> list[tuple[LinearQuery[A_co, Form], Floats]]:
        """The queries, each with its own raw numbers, and able to say what they are worth."""
        return list(zip(self._lifted, self._split(raw, facts), strict=True))

    def span(self, facts: Facts, /) -> float:
        return max(query.span(facts) for query in self._lifted)

    @property
    def width(self) -> int:
        return max(query.width for query in self._lifted)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return self.lift(raw, facts).values

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        triples = self._triples(raw, radii, facts)
        return np.concatenate([query.spread(part, wide, facts) for query, part, wide in triples])

    def coarseness(self, raw: Floats | None, radii: Floats, facts: Facts, /) -> Floats | None:
        if not self.values_of():
            return None
        parts = self._split(radii, facts)
        known = [None] * len(parts) if raw is None else self._split(raw, facts)
        hidden = [
            query.coarseness(numbers, wide, facts)
            for query, numbers, wide in zip(self._lifted, known, parts, strict=True)
        ]
        if all(one is None for one in hidden):
            return None
        sizes = [
            len(query.spread(np.full(len(wide), np.nan), wide, facts))
            for query, wide in zip(self._lifted, parts, strict=True)
        ]
        filled = [
            np.zeros(size) if one is None else one for one, size in zip(hidden, sizes, strict=True)
        ]
        return np.concatenate(filled)

    def values_of(self) -> frozenset[str]:
        return frozenset[str]().union(*[query.values_of() for query in self._lifted])

    def compared(self) -> frozenset[str]:
        return frozenset[str]().union(*[query.compared() for query in self._lifted])

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        found: list[tuple[slice, float]] = []
        start = 0
        for query, numbers in zip(self._lifted, self._split(raw, facts), strict=True):
            for part, unit in query.totals(numbers, facts):
                inside = range(start, start + len(numbers))[part]
                found.append((slice(inside.start, inside.stop), unit))
            start += len(numbers)
        return found

    def presumed(
        self, radii: Floats, apart: Callable[[], Floats], facts: Facts, assumptions: Assumptions, /
    ) -> Floats:
        alone = cache(lambda: self._split(apart(), facts))
        parts = enumerate(zip(self._lifted, self._split(radii, facts), strict=True))
        return np.concatenate(
            [
                query.presumed(part, partial(_part_of, alone, place), facts, assumptions)
                for place, (query, part) in parts
            ]
        )

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        return frozenset[str]().union(*[query.presumes(facts) for query in self._lifted])

    def bracket(
        self, raw: Floats, radii: Floats, facts: Facts, /
    ) -> tuple[Answers[A_co], Answers[A_co]]:
        triples = self._triples(raw, radii, facts)
        pairs = [query.bracket(part, wide, facts) for query, part, wide in triples]
        lows, highs = zip(*pairs, strict=True)
        return (
            Answers(lows, partial(_end, triples, facts, 0), self.queries),
            Answers(highs, partial(_end, triples, facts, 1), self.queries),
        )

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        triples = self._triples(raw, radii, facts)
        return _end(triples, facts, 0), _end(triples, facts, 1)

    def constrained(
        self, constraint: Constraint, raw: Floats, facts: Facts, /
    ) -> Constrained[Answers[A_co]]:
        if constraint == "monotone":
            chains = ranked(self.queries, facts.domain)
            if chains is None:
                return super().constrained(constraint, raw, facts)
            numbers = risen(raw, *chains)
            return Constrained(self.lift(numbers, facts), numbers, chains[0])
        pairs = self.parts(raw, facts)
        found = [query.constrained(constraint, part.copy(), facts) for query, part in pairs]
        numbers = np.concatenate([one.raw for one in found])
        items, whole = tuple([one.value for one in found]), self.lift(numbers, facts)
        return Constrained(Answers(items, lambda: whole.values, self.queries), numbers)

    def _triples(
        self, raw: Floats, radii: Floats, facts: Facts
    ) -> list[tuple[LinearQuery[A_co, Form], Floats, Floats]]:
        """The queries, each with its numbers and their half-widths."""
        parts, wide = self._split(raw, facts), self._split(radii, facts)
        return list(zip(self._lifted, parts, wide, strict=True))

    def _split(self, numbers: Floats, facts: Facts) -> list[Floats]:
        if facts.domain not in self._parts:
            self.lower(facts.domain)
        rows = self._parts[facts.domain]
        if len(rows) == len(numbers):
            return list(numbers.reshape(-1, 1))
        return np.split(numbers, np.cumsum(rows)[:-1])

    def __repr__(self) -> str:
        return f"Workload of {len(self.queries):,} quer{'y' if len(self.queries) == 1 else 'ies'}"
