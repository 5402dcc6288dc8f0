"""Where questions are put: what a session shares with its scopes and the parts of its table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, TypeVar, overload

from dpsdk._checks import shown
from dpsdk.accounting import Odometer, Remaining, Spent
from dpsdk.channel import Channel, Ending, Entry, HypothesisChannel, Lowered
from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, NoMechanism, QueryError, Redacted
from dpsdk.forms import Facts, Form
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import Receipt, receipt
from dpsdk.mechanisms.base import HypothesisMechanism, Mechanism, OneShot
from dpsdk.noise import NoiseSource
from dpsdk.observe import Observer, Opened
from dpsdk.queries.base import Query
from dpsdk.release import Cost, Quote, Release

__all__ = ["Desk"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_KEPT_CHANNELS = 256


class Desk:
    """Typed questions to one table, paid from one odometer."""

    __slots__ = (
        "_channels",
        "_data",
        "_ending",
        "_lowered",
        "_noise",
        "_observer",
        "_odometer",
        "_record",
    )

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        observer: Observer | None,
        record: Callable[[Entry], None],
        ending: Ending,
    ) -> None:
        self._data = data
        self._odometer = odometer
        self._noise = noise
        self._observer = observer
        self._record = record
        self._ending = ending
        self._lowered = Lowered(data.facts)
        self._channels: dict[object, object] = {}

    @property
    def domain(self) -> Domain:
        """The universe of the table's records."""
        return self._data.domain

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self._data.facts

    @property
    def spent(self) -> Spent:
        """What has been spent, with the guarantee that holds whatever is asked next."""
        return self._odometer.spent

    @property
    def remaining(self) -> Remaining:
        """What can still be spent."""
        return self._odometer.remaining

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

    @overload
    def open(self, mechanism: HypothesisMechanism[F]) -> HypothesisChannel[F]: ...
    @overload
    def open(self, mechanism: Mechanism[F]) -> Channel[F]: ...
    def open(self, mechanism: Mechanism[F]) -> Channel[F]:
        """Open a channel to a mechanism, paying what the mechanism charges to open.

        Raises
        ------
        BudgetExceeded
            If that does not fit what is left. Nothing was charged.
        """
        self._ending.check()
        if not isinstance(mechanism, Mechanism):
            raise InvalidArgument("mechanism", "a mechanism", shown(mechanism))
        name = mechanism.name
        kernel = Kernel(self._data, self._odometer, self._noise, name, self._observer)
        paid = Receipt("")
        token = receipt.set(paid)
        opened = False
        channel: Channel[F]
        shared = (name, self._lowered, self._record, self._observer, self._ending)
        private = self._noise.private
        try:
            if isinstance(mechanism, HypothesisMechanism):
                channel = HypothesisChannel(mechanism.open(kernel), *shared, private=private)
            else:
                channel = Channel(mechanism.open(kernel), *shared, private=private)
            opened = True
        finally:
            receipt.reset(token)
            if paid.guarantees:
                self._record(Entry("", name, Cost(tuple(paid.guarantees)), opened))
        if self._observer is not None:
            with suppress(Exception):  # what was paid for must not be lost
                self._observer(Opened(name))
        return channel

    def quote(self, query: Query[A, F], *, using: Mechanism[F]) -> Quote:
        """What an answer would cost and how far off it would be. Spends nothing, reads nothing.

        Errors are in the unit of the answer.
        """
        if not isinstance(using, Mechanism):
            raise InvalidArgument("using", "a mechanism", shown(using))
        form = self._lowered.form(query)
        try:
            quote = using.quote(form, self.facts)
        except QueryError as error:
            if error.query:
                raise
            raise error.about(str(query)) from None
        return quote.for_query(query, self.facts)

    def affords(self, query: Query[A, F], *, using: Mechanism[F]) -> int | None:
        """How many more such queries fit, one after the other; None where they are free.

        For a mechanism that charges when it opens: how many more such channels with one answer.
        """
        cost = self.quote(query, using=using).at_most
        return self._odometer.affords_all(cost.guarantees)

    def _channel(self, query: Query[A, F], using: OneShot[F] | Channel[F] | None) -> Channel[F]:
        self._ending.check()
        if isinstance(using, Channel):
            if not using.belongs_to(self._lowered):
                raise InvalidArgument(
                    "using", "a channel of this session, scope or part", repr(using)
                )
            return using
        if using is None:
            raise NoMechanism(str(query))
        if not isinstance(using, OneShot):
            expected = "a one-shot mechanism or an open channel; open a mechanism that keeps state"
            raise InvalidArgument("using", expected, shown(using))
        try:
            # By class as well: one of another author may call itself equal to any.
            channel = self._channels.get((type(using), using))
        except TypeError:  # a mechanism that cannot be looked up is opened anew each time
            return self.open(using)
        if channel is None:
            if len(self._channels) >= _KEPT_CHANNELS:
                self._channels.clear()
            channel = self._channels[type(using), using] = self.open(using)
        return channel  # type: ignore[return-value]  # opened for this very mechanism

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a session")
