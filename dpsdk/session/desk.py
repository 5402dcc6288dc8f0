"""Where questions are put: what a session shares with its scopes and the parts of its table."""

from __future__ import annotations

from fractions import Fraction
from typing import NoReturn, TypeVar, overload

from dpsdk._checks import described, shown
from dpsdk._lifetime import Lifetime
from dpsdk.accounting import Odometer, Remaining, Spent
from dpsdk.accounting.copies import checked_copy
from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, NoMechanism, QueryError, Redacted
from dpsdk.forms import Facts, Form
from dpsdk.kernel import Kernel, Terms
from dpsdk.kernel.access import Access
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.mechanisms.base import HypothesisMechanism, Mechanism, OneShot
from dpsdk.noise import NoiseSource
from dpsdk.observe import Event, Opened
from dpsdk.queries.base import Query
from dpsdk.release import Cost, Quote, Release
from dpsdk.session.channel import Channel, HypothesisChannel
from dpsdk.session.history import History
from dpsdk.session.memo import Lowered

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
        "_history",
        "_lowered",
        "_noise",
        "_odometer",
    )

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        history: History,
        ending: Lifetime,
    ) -> None:
        self._data = data
        self._odometer = odometer
        self._noise = noise
        self._history = history
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
            If its cost does not fit what is left. Nothing was charged, unless the mechanism pays in
            several steps: then `charges` of the error names what was, and stays charged.
        ReleaseFailed
            If something failed after the charge.
        NoMechanism
            If `using` is left out.
        """
        return self._channel(query, using).answer(query)

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
        name = described(mechanism.name)
        ending = Lifetime(f"the channel to {name}", self._ending)
        question = self._history.ask("", name, ending)
        done: Event | None = None
        channel: Channel[F]
        access = Access(self._data, self._odometer, self._noise, name, None)
        shared = (name, access, self._lowered, self._history, ending)
        private = self._noise.private
        try:
            kernel = Kernel.over(access.on(question))
            if isinstance(mechanism, HypothesisMechanism):
                channel = HypothesisChannel(mechanism.open(kernel), *shared, private=private)
            else:
                channel = Channel(mechanism.open(kernel), *shared, private=private)
            # An opening that cost nothing is no entry of the history.
            question.answered = not self._history.cost(question).nothing
            done = Opened(name)
        except BaseException as error:
            self._history.note(question, error)
            raise
        finally:
            self._history.over(question, done)
        return channel

    def quote(self, query: Query[A, F], *, using: Mechanism[F]) -> Quote:
        """What an answer would cost and how far off it would be. Spends nothing, reads nothing.

        Errors are in the unit of the answer.
        """
        if not isinstance(using, Mechanism):
            raise InvalidArgument("using", "a mechanism", shown(using))
        form = self._lowered.form(query)
        try:
            quote = using.quote(form, Terms(self.facts, self._odometer.composition))
        except QueryError as error:
            raise error if error.query else error.about(described(query)) from None
        at_open, at_most = _rebuilt(quote.at_open), _rebuilt(quote.at_most)
        return Quote(at_open, at_most, quote.accuracy).for_query(query, self.facts)

    def affords(self, query: Query[A, F], *, using: Mechanism[F]) -> int | None:
        """How many more such queries fit, one after the other; None where they are free.

        For a mechanism that charges when it opens: how many more such channels with one answer.
        """
        cost = self.quote(query, using=using).at_most
        return self._odometer.affords_all(cost.runs)

    def _channel(self, query: Query[A, F], using: OneShot[F] | Channel[F] | None) -> Channel[F]:
        self._ending.check()
        key = _key(using)
        known = None if key is None else self._channels.get(key)
        if known is not None:
            return known  # type: ignore[return-value]  # opened for the same parameters
        if isinstance(using, Channel):
            if not using.belongs_to(self._lowered):
                raise InvalidArgument(
                    "using", "a channel of this session, scope or part", repr(using)
                )
            return using
        if using is None:
            raise NoMechanism(described(query))
        if not isinstance(using, OneShot):
            expected = "a one-shot mechanism or an open channel; open a mechanism that keeps state"
            raise InvalidArgument("using", expected, shown(using))
        channel = self.open(using)
        if key is not None:
            if len(self._channels) >= _KEPT_CHANNELS:
                self._channels.clear()
            self._channels[key] = channel
        return channel

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a session")


def _key(using: object) -> tuple[object, ...] | None:
    """The parameters of a built-in mechanism in plain integers; None for other mechanisms.

    A mechanism of another author may call itself equal to any, and a frozen value may be
    initialised again; what these answer is looked at anew each time, and of others nothing is kept.
    """
    if type(using) is Laplace:
        given: tuple[object, ...] = (using.epsilon,)
    elif type(using) is Gaussian:
        given = (using.rho, using.epsilon, using.delta)
    else:
        return None
    key: list[object] = [type(using)]
    for number in given:
        if type(number) is Fraction:
            key += [int(number.numerator), int(number.denominator)]
        elif number is None:
            key.append(None)
        else:
            return None
    return tuple(key)


def _rebuilt(cost: Cost) -> Cost:
    return Cost(tuple((checked_copy(run), count) for run, count in cost.runs))
