"""The session: one private table, one budget, many typed questions."""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Lock
from types import TracebackType
from typing import NoReturn, TypeVar, final

from dpsdk._checks import shown
from dpsdk.accounting import (
    Budget,
    Composition,
    Odometer,
    Remaining,
    Spent,
    default_composition,
)
from dpsdk.channel import Channel, Entry, Lowered
from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.errors import Closed, InvalidArgument, NoMechanism, Redacted
from dpsdk.forms import Facts, Form
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import Receipt, receipt
from dpsdk.mechanisms.base import Mechanism, OneShot
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.observe import Observer, Opened
from dpsdk.queries.base import Query
from dpsdk.release import Cost, Quote, Release

__all__ = ["Session"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_KEPT_CHANNELS = 256


@final
class Session:
    """Typed questions to one private table, under one budget.

    Whatever is asked, adaptively and from however many threads, the answers together are
    (ε, δ)-differentially private for the budget's ε and δ, under the table's neighbour relation.
    A request that does not fit is refused: it costs nothing, changes nothing, and a smaller one
    may still pass.

    Parameters
    ----------
    data
        The table.
    budget
        What may be spent in all.
    composition
        How costs add up, a value of dpsdk.accounting. By default whichever of basic and
        zero-concentrated composition still has room.
    noise
        Where randomness comes from; by default the operating system. `dpsdk.testing.seeded`
        serves tests: its releases repeat, protect nobody, and say so.
    observer
        Called with the events of dpsdk.observe.

    >>> from dpsdk import Budget, Domain, Integer, PrivateData, Session
    >>> from dpsdk.mechanisms import Laplace
    >>> from dpsdk.queries import Threshold
    >>> domain = Domain(Integer("age", 17, 90))
    >>> session = Session(PrivateData.from_columns({"age": [39, 50]}, domain), Budget(epsilon=1))
    >>> share = session.answer(Threshold("age", 40), using=Laplace(epsilon=0.1))
    >>> session.spent.epsilon
    Fraction(1, 10)
    """

    __slots__ = (
        "_budget",
        "_channels",
        "_closed",
        "_data",
        "_entries",
        "_lock",
        "_lowered",
        "_noise",
        "_observer",
        "_odometer",
    )

    def __init__(
        self,
        data: PrivateData,
        budget: Budget,
        *,
        composition: Composition | None = None,
        noise: NoiseSource | None = None,
        observer: Observer | None = None,
    ) -> None:
        if not isinstance(data, PrivateData):
            raise InvalidArgument("data", "a PrivateData", type(data).__name__)
        if not isinstance(budget, Budget):
            raise InvalidArgument("budget", "a Budget", shown(budget))
        if composition is not None and not isinstance(composition, Composition):
            raise InvalidArgument("composition", "a composition", shown(composition))
        if noise is not None and not isinstance(noise, NoiseSource):
            raise InvalidArgument("noise", "a noise source", shown(noise))
        self._data = data
        self._budget = budget
        self._odometer = Odometer(budget, composition or default_composition())
        self._noise = SystemNoise() if noise is None else noise
        self._observer = observer
        self._lowered = Lowered(data.facts)
        self._channels: dict[object, object] = {}
        self._entries: list[Entry] = []
        self._lock = Lock()
        self._closed = Event()

    @property
    def domain(self) -> Domain:
        """The universe of the table's records."""
        return self._data.domain

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self._data.facts

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self._budget

    @property
    def spent(self) -> Spent:
        """What has been spent, with the guarantee that holds whatever is asked next."""
        return self._odometer.spent

    @property
    def remaining(self) -> Remaining:
        """What can still be spent."""
        return self._odometer.remaining

    @property
    def history(self) -> tuple[Entry, ...]:
        """What was released, by which mechanism and at what cost, in order."""
        with self._lock:
            return tuple(self._entries)

    def answer(self, query: Query[A, F], *, using: OneShot[F] | Channel[F] | None = None) -> A:
        """The answer to a query, of the type that the query promises.

        Parameters
        ----------
        query
            The question.
        using
            A one-shot mechanism, such as `Laplace(epsilon=0.1)`, or an open channel.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table. Nothing was charged.
        BudgetExceeded
            If its cost does not fit what is left. Nothing was charged.
        ReleaseFailed
            If something failed after the charge.
        NoMechanism
            If `using` is left out.
        """
        return self._channel(query, using).release(query).value

    def release(
        self, query: Query[A, F], *, using: OneShot[F] | Channel[F] | None = None
    ) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does."""
        return self._channel(query, using).release(query)

    def open(self, mechanism: Mechanism[F]) -> Channel[F]:
        """Open a channel to a mechanism, paying what the mechanism charges to open.

        Raises
        ------
        BudgetExceeded
            If that does not fit what is left. Nothing was charged.
        """
        if self._closed.is_set():
            raise Closed("the session")
        if not isinstance(mechanism, Mechanism):
            raise InvalidArgument("mechanism", "a mechanism", shown(mechanism))
        name = mechanism.name
        kernel = Kernel(self._data, self._odometer, self._noise, name, self._observer)
        paid = Receipt("")
        token = receipt.set(paid)
        opened = False
        try:
            strategy = mechanism.open(kernel)
            opened = True
        finally:
            receipt.reset(token)
            if paid.guarantees:
                self._log(Entry("", name, Cost(tuple(paid.guarantees)), opened))
        if self._observer is not None:
            with suppress(Exception):  # what was paid for must not be lost
                self._observer(Opened(name))
        return Channel(
            strategy,
            name,
            self._lowered,
            self._log,
            self._observer,
            self._closed,
            private=self._noise.private,
        )

    def quote(self, query: Query[A, F], *, using: Mechanism[F]) -> Quote:
        """What an answer would cost and how far off it would be. Spends nothing, reads nothing.

        Errors are in the unit of the answer.
        """
        if not isinstance(using, Mechanism):
            raise InvalidArgument("using", "a mechanism", shown(using))
        form = self._lowered.form(query)
        return using.quote(form, self.facts).for_query(query, self.facts)

    def affords(self, query: Query[A, F], *, using: Mechanism[F]) -> int | None:
        """How many more such queries fit, one after the other; None where they are free.

        For a mechanism that charges when it opens: how many more such channels with one answer.
        """
        cost = self.quote(query, using=using).at_most
        counts = [self._odometer.affords(g) for g in cost.guarantees if not g.free]
        known = [count for count in counts if count is not None]
        if not known:
            return None
        return min(known) // len(known) if len(known) > 1 else known[0]

    def close(self) -> None:
        """Answer nothing more, nor through any channel of the session."""
        self._closed.set()

    def _channel(self, query: Query[A, F], using: OneShot[F] | Channel[F] | None) -> Channel[F]:
        if self._closed.is_set():
            raise Closed("the session")
        if isinstance(using, Channel):
            if not using.belongs_to(self._lowered):
                raise InvalidArgument("using", "a channel of this session", repr(using))
            return using
        if using is None:
            raise NoMechanism(str(query))
        if not isinstance(using, OneShot):
            expected = "a one-shot mechanism or an open channel; open a mechanism that keeps state"
            raise InvalidArgument("using", expected, shown(using))
        channel = self._channels.get(using)
        if channel is None:
            if len(self._channels) >= _KEPT_CHANNELS:
                self._channels.clear()
            channel = self._channels[using] = self.open(using)
        return channel  # type: ignore[return-value]  # opened for this very mechanism

    def _log(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed.is_set() else f"{len(self._entries):,} entries"
        mark = "" if self._noise.private else "\n  NOT PRIVATE: seeded noise"
        return (
            f"Session({self._data!r}, {state})\n"
            f"  spent      {self.spent}\n"
            f"  remaining  {self.remaining}{mark}"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a session")
