"""Channels: an open mechanism that answers queries, each with its exact type."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Generic, NoReturn, TypeVar, final

from attrs import frozen

from dpsdk._checks import shown
from dpsdk._closing import Closing
from dpsdk.errors import Closed, InvalidArgument, QueryError, Redacted
from dpsdk.forms import Facts, Form
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel.access import Receipt, receipt
from dpsdk.mechanisms.base import HypothesisStrategy, Strategy
from dpsdk.observe import Answered, Observer
from dpsdk.queries.base import Query, settled
from dpsdk.queries.linear import to_names
from dpsdk.queries.marginal import MarginalTable
from dpsdk.release import Cost, Release

__all__ = ["Channel", "Ending", "Entry", "HypothesisChannel", "Lowered"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)
F_contra = TypeVar("F_contra", bound=Form, contravariant=True)


@frozen
class Entry:
    """One line of a session's history.

    `query` is what was asked, empty where a channel was opened; `cost` what was charged for it;
    `answered` is False where a charge came to nothing.
    """

    query: str
    mechanism: str
    cost: Cost
    answered: bool = True

    def __str__(self) -> str:
        asked = self.query or "opened"
        return f"{asked} by {self.mechanism}: {self.cost}{'' if self.answered else ', no answer'}"


class Ending:
    """Whether a session, or a scope or partition of it, was closed."""

    __slots__ = ("_ended", "_outer", "_what")

    def __init__(self, what: str, outer: Ending | None = None) -> None:
        self._what = what
        self._outer = outer
        self._ended = Event()

    @property
    def over(self) -> bool:
        """Whether it was closed, or what it belongs to."""
        return self._ended.is_set() or (self._outer is not None and self._outer.over)

    @property
    def ended(self) -> bool:
        """Whether it was closed itself."""
        return self._ended.is_set()

    def end(self) -> None:
        """Close it."""
        self._ended.set()

    def check(self) -> None:
        """Refuse if it was closed.

        Raises
        ------
        Closed
            Names what was closed.
        """
        if self._outer is not None:
            self._outer.check()
        if self._ended.is_set():
            raise Closed(self._what)


class Lowered:
    """The forms of the queries asked last, so that asking again does not build them again."""

    __slots__ = ("_facts", "_known")

    _KEPT = 256

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        # A query is kept with its form, so its identity stays its own.
        self._known: dict[int, tuple[object, object]] = {}

    @property
    def facts(self) -> Facts:
        """The public facts that the forms are made for."""
        return self._facts

    def form(self, query: Query[A, F]) -> F:
        """The form of a query, checked against the facts.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table.
        """
        known = self._known.get(id(query))
        if known is not None and known[0] is query:
            return known[1]  # type: ignore[return-value]  # stored below with this very query
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        form = query.lower(self._facts.domain)
        if len(self._known) >= self._KEPT:
            self._known.clear()
        self._known[id(query)] = (query, form)
        return form


class Channel(Closing, Generic[F_contra]):
    """An open mechanism. Made by `session.open(mechanism)`; close it, or use it in a `with`.

    Its answers are charged to its session. Channels of one session may be used in turns and from
    several threads.
    """

    __slots__ = (
        "_closed",
        "_log",
        "_lowered",
        "_name",
        "_observer",
        "_over",
        "_private",
        "_strategy",
    )

    def __init__(
        self,
        strategy: Strategy[F_contra],
        name: str,
        lowered: Lowered,
        log: Callable[[Entry], None],
        observer: Observer | None,
        over: Ending,
        *,
        private: bool,
    ) -> None:
        self._strategy = strategy
        self._name = name
        self._lowered = lowered
        self._log = log
        self._observer = observer
        self._over = over
        self._private = private
        self._closed = False

    def answer(self, query: Query[A, F_contra]) -> A:
        """The answer to a query, of the type that the query promises.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table. Nothing was charged.
        BudgetExceeded
            If its cost does not fit what is left. Nothing was charged.
        ReleaseFailed
            If something failed after the charge.
        Closed
            If the channel or its session is closed.
        """
        return self.release(query).value

    def release(self, query: Query[A, F_contra]) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does."""
        self._over.check()
        if self._closed:
            raise Closed(f"the channel to {self._name}")
        form = self._lowered.form(query)
        label = str(query)
        paid = Receipt(label)
        token = receipt.set(paid)
        answered = False
        try:
            measurement = settled(query, self._strategy.answer(form), self._lowered.facts)
            facts = self._lowered.facts
            value = query.lift(measurement.values, facts)
            answered = True
        except QueryError as error:
            if error.query:
                raise
            raise error.about(label) from None
        finally:
            receipt.reset(token)
            cost = Cost(tuple(paid.guarantees))
            if answered or paid.guarantees:
                self._log(Entry(label, self._name, cost, answered))
        if self._observer is not None:
            with suppress(Exception):  # what was paid for must not be lost
                self._observer(Answered(label, self._name))
        return Release(
            value,
            label,
            self._name,
            cost,
            measurement.source,
            self._private,
            measurement,
            query,
            facts,
        )

    def belongs_to(self, lowered: Lowered) -> bool:
        """Whether the channel is of the session that keeps these forms."""
        return self._lowered is lowered

    def close(self) -> None:
        """Answer nothing more. What was not charged stays with the session."""
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether the channel was closed."""
        return self._closed

    def __repr__(self) -> str:
        return f"Channel({self._name}{', closed' if self._closed else ''})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a channel")


@final
class HypothesisChannel(Channel[F_contra]):
    """A channel to a mechanism that answers from a public distribution over the universe."""

    __slots__ = ("_source",)

    def __init__(
        self,
        strategy: HypothesisStrategy[F_contra],
        name: str,
        lowered: Lowered,
        log: Callable[[Entry], None],
        observer: Observer | None,
        over: Ending,
        *,
        private: bool,
    ) -> None:
        super().__init__(strategy, name, lowered, log, observer, over, private=private)
        self._source = strategy

    @property
    def hypothesis(self) -> Hypothesis:
        """The distribution as it stands, to sample, tabulate, save or start another from.

        It was learnt from paid releases only, so it is public. Later answers do not change the
        object that this returned.
        """
        return self._source.hypothesis

    def marginal(self, *names: str) -> MarginalTable:
        """The marginal table of the hypothesis, in shares of the rows. Free.

        Raises
        ------
        UnknownAttribute, InvalidArgument
            If the names are not distinct attributes of the domain.
        """
        domain = self._lowered.facts.domain
        wanted = to_names(names)
        ordered = tuple(sorted(wanted, key=domain.position))
        table = self.hypothesis.table(ordered).transpose([ordered.index(name) for name in wanted])
        return MarginalTable(tuple(domain[name] for name in wanted), table)
