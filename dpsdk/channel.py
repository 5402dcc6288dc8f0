"""Channels: an open mechanism that answers queries, each with its exact type."""

from __future__ import annotations

from operator import is_
from typing import Generic, NoReturn, TypeAlias, TypeVar, cast, final

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
        self._known: dict[int, tuple[object, _Anatomy, object]] = {}

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
        if known is not None and known[0] is query and _unchanged(query, known[1]):
            return known[2]  # type: ignore[return-value]  # stored below with this very query
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        form = query.lower(self._facts.domain)
        if len(self._known) >= self._KEPT:
            self._known.clear()
        self._known[id(query)] = (query, _anatomy(query), form)
        return form


_Anatomy: TypeAlias = list[tuple[object, tuple[str, ...] | None, tuple[object, ...]]]


def _anatomy(query: object) -> _Anatomy:
    """All values in a query that could be initialised again, and what they hold.

    The query itself is in there as None.
    """
    found: _Anatomy = []
    waiting = [query]
    while waiting:
        one = waiting.pop()
        kind: type[object] = type(one)
        if isinstance(one, tuple):
            waiting.extend(cast("tuple[object, ...]", one))
        elif has(kind):
            names = tuple(field.name for field in fields(kind))
            held = _held(one, names)
            found.append((None if one is query else one, names, held))
            waiting.extend(held)
        elif isinstance(one, Query):
            part: object = cast("object", one)
            found.append((None if one is query else part, None, _held(part, None)))
    return found


def _held(value: object, names: tuple[str, ...] | None) -> tuple[object, ...]:
    if names is None:
        own: dict[str, object] = getattr(value, "__dict__", {})
        return tuple(own.values())
    return tuple([getattr(value, name, None) for name in names])


def _unchanged(query: object, anatomy: _Anatomy) -> bool:
    """Whether a query and the values in it hold the very objects that they held."""
    for value, names, held in anatomy:
        now = _held(query if value is None else value, names)
        if len(now) != len(held) or not all(map(is_, now, held)):
            return False
    return True


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
