"""Channels: an open mechanism that answers queries, each with its exact type."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar, cast, final

from attrs import fields, has

from dpsdk._checks import shown
from dpsdk._closing import Closing, Ending
from dpsdk.errors import InvalidArgument, Redacted
from dpsdk.forms import Facts, Form
from dpsdk.history import History
from dpsdk.hypothesis import Hypothesis
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import Access
from dpsdk.mechanisms.base import HypothesisStrategy, Strategy
from dpsdk.observe import Answered, Event
from dpsdk.queries.base import Query
from dpsdk.queries.linear import to_names
from dpsdk.queries.marginal import MarginalTable
from dpsdk.release import Release

__all__ = ["Channel", "HypothesisChannel", "Lowered"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)
F_contra = TypeVar("F_contra", bound=Form, contravariant=True)


class Lowered:
    """The forms of the queries asked last, so that asking again does not build them again."""

    __slots__ = ("_facts", "_known")

    _KEPT = 256

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        # A query is kept with its form, so its identity stays its own.
        self._known: dict[int, tuple[object, tuple[object, ...], object]] = {}

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
        if known is not None and known[0] is query and _same(known[1], _anatomy(query)):
            return known[2]  # type: ignore[return-value]  # stored below with this very query
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        form = query.lower(self._facts.domain)
        if len(self._known) >= self._KEPT:
            self._known.clear()
        self._known[id(query)] = (query, _anatomy(query), form)
        return form


_FIELDS: dict[int, tuple[type[object], tuple[str, ...]]] = {}
"""The fields of classes of this package, by the identity of the class, which is kept with them."""


def _anatomy(value: object) -> tuple[object, ...]:
    """The very objects that a query is made of: others, once it was initialised again."""
    found: list[object] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind: type[object] = type(one)
        known = _FIELDS.get(id(kind))
        if known is not None:
            waiting += [getattr(one, name, None) for name in known[1]]
        elif kind is str or kind is int or one is None:
            found.append(one)
        elif isinstance(one, tuple):
            waiting.extend(cast("tuple[object, ...]", one))
        elif has(kind):
            names = tuple(field.name for field in fields(kind))
            waiting += [getattr(one, name, None) for name in names]
            if kind.__module__.startswith("dpsdk."):
                _FIELDS[id(kind)] = kind, names
        elif isinstance(one, Query):
            own: dict[str, object] = getattr(cast("object", one), "__dict__", {})
            found.extend(own.values())
        else:
            found.append(one)
    return tuple(found)


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


class Channel(Closing, Generic[F_contra]):
    """An open mechanism. Made by `session.open(mechanism)`; close it, or use it in a `with`.

    Its answers are charged to its session. Channels of one session may be used in turns and from
    several threads.
    """

    __slots__ = ("_access", "_ending", "_history", "_lowered", "_name", "_private", "_strategy")

    def __init__(
        self,
        strategy: Strategy[F_contra],
        name: str,
        access: Access,
        lowered: Lowered,
        history: History,
        ending: Ending,
        *,
        private: bool,
    ) -> None:
        self._strategy = strategy
        self._name = name
        self._access = access
        self._lowered = lowered
        self._history = history
        self._ending = ending
        self._private = private

    def answer(self, query: Query[A, F_contra]) -> A:
        """The answer to a query, of the type that the query promises.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table. Nothing was charged.
        BudgetExceeded
            If its cost does not fit what is left. Nothing was charged, unless the mechanism pays in
            several steps: then `charges` of the error names what was, and stays charged.
        ReleaseFailed
            If something failed after the charge.
        Closed
            If the channel or its session is closed.
        """
        return self.release(query).value

    def release(self, query: Query[A, F_contra]) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does."""
        self._ending.check()
        form = self._lowered.form(query)
        facts = self._lowered.facts
        label = str.__add__("", str(query))
        question = self._history.ask(label, self._name, self._ending)
        done: Event | None = None
        try:
            kernel = Kernel.over(self._access.on(question))
            measurement = self._strategy.answer(form, kernel)
            value = query.lift(measurement.values, facts)
            cost = self._history.cost(question)
            question.answered = True
            done = Answered(label, self._name)
        except BaseException as error:
            self._history.note(question, error)
            raise
        finally:
            self._history.over(question, done)
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
        self._ending.end()

    @property
    def closed(self) -> bool:
        """Whether the channel was closed."""
        return self._ending.ended

    def __repr__(self) -> str:
        return f"Channel({self._name}{', closed' if self.closed else ''})"

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
        access: Access,
        lowered: Lowered,
        history: History,
        ending: Ending,
        *,
        private: bool,
    ) -> None:
        super().__init__(strategy, name, access, lowered, history, ending, private=private)
        self._source = strategy

    @property
    def hypothesis(self) -> Hypothesis:
        """The distribution as it stands: sample it, tabulate it, save it, start another from it.

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
