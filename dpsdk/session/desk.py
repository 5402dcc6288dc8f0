"""Where questions are put: what a session shares with its scopes and the parts of its table."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from fractions import Fraction
from threading import get_ident
from typing import Any, NoReturn, TypeAlias, TypeVar, cast, overload

from attrs import fields, has

from dpsdk._checks import described, shown, to_name
from dpsdk._lifetime import Lifetime
from dpsdk.accounting import Remaining, Spent
from dpsdk.accounting.copies import checked_copy
from dpsdk.domain import Domain
from dpsdk.errors import (
    AlreadyCharged,
    AnswerLost,
    InvalidArgument,
    NoMechanism,
    QueryError,
    Redacted,
)
from dpsdk.forms import Facts, Form
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import whose
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.mechanisms.base import (
    DistributionMechanism,
    HypothesisMechanism,
    Mechanism,
    ModelsMechanism,
    OneShot,
    TablesMechanism,
    TablesStrategy,
    Unfinished,
    WhyStopped,
)
from dpsdk.observe import Event, Opened, Progress
from dpsdk.queries.base import Query, lifting
from dpsdk.release import Cost, Quote, Release
from dpsdk.session.channel import (
    Channel,
    DistributionChannel,
    HypothesisChannel,
    Stopped,
    TablesChannel,
    answered,
    released,
)
from dpsdk.session.context import Context
from dpsdk.session.identity import Using, question_of

__all__ = ["Desk"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

Stop: TypeAlias = Callable[[Progress], object]
"""Asked between two rounds of an opening whether to stop there."""

_KEPT_CHANNELS = 256


class Desk:
    """Typed questions to one table, paid from one odometer."""

    __slots__ = ("_channels", "_context", "_requests", "_room")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._channels: dict[object, object] = {}
        self._requests: dict[str, tuple[object, Channel[Any]]] = {}
        self._room = _KEPT_CHANNELS

    @property
    def domain(self) -> Domain:
        """The universe of the table's records."""
        return self._context.data.domain

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self._context.facts

    @property
    def spent(self) -> Spent:
        """What has been spent, with the guarantee that holds whatever is asked next."""
        return self._context.payer.spent

    @property
    def remaining(self) -> Remaining:
        """What can still be spent."""
        return self._context.payer.remaining

    def answer(
        self,
        query: Query[A, F],
        *,
        using: OneShot[F] | Channel[F] | None = None,
        request_id: str | None = None,
    ) -> A:
        """The answer to a query, of the type that the query promises.

        Parameters
        ----------
        query
            The question.
        using
            A one-shot mechanism, such as `Laplace(epsilon=0.1)`, or an open channel.
        request_id
            Names the request, to charge and answer it once however often it is tried: by any
            session on the ledger, the stored answer is given again for free.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table. Nothing was charged.
        BudgetExceeded
            If its cost does not fit what is left. Nothing was charged, unless the mechanism pays in
            several steps: then `charges` of the error names what was, and stays charged.
        ReleaseFailed
            If something failed after the charge.
        AnswerLost
            If the request was charged before, and no answer was stored for it.
        NoMechanism
            If `using` is left out.
        """
        channel = self._channel(query, using)
        if self._context.reuse is None or using is channel:
            return channel.answer(query, request_id=request_id)
        return answered(channel, query, request_id, using)

    def release(
        self,
        query: Query[A, F],
        *,
        using: OneShot[F] | Channel[F] | None = None,
        request_id: str | None = None,
    ) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does."""
        channel = self._channel(query, using)
        if self._context.reuse is None or using is channel:
            return channel.release(query, request_id=request_id)
        return released(channel, query, request_id, using)

    @overload
    def open(  # type: ignore[overload-overlap]  # F is LinearForm then
        self,
        mechanism: HypothesisMechanism | ModelsMechanism,
        *,
        stop: Stop | None = None,
        request_id: str | None = None,
    ) -> HypothesisChannel: ...
    @overload
    def open(  # type: ignore[overload-overlap]  # the same
        self, mechanism: TablesMechanism, *, stop: Stop | None = None, request_id: str | None = None
    ) -> TablesChannel: ...
    @overload
    def open(  # type: ignore[overload-overlap]  # the same
        self,
        mechanism: DistributionMechanism,
        *,
        stop: Stop | None = None,
        request_id: str | None = None,
    ) -> DistributionChannel: ...
    @overload
    def open(
        self, mechanism: Mechanism[F], *, stop: Stop | None = None, request_id: str | None = None
    ) -> Channel[F]: ...
    def open(
        self, mechanism: Mechanism[F], *, stop: Stop | None = None, request_id: str | None = None
    ) -> Channel[F] | DistributionChannel:
        """Open a channel to a mechanism, paying what the mechanism charges to open.

        Parameters
        ----------
        mechanism
            What to open.
        stop
            Called with the progress of an opening that takes rounds, between two of them, in this
            thread: a public `Progress`. Once it returns something true, no further round is paid,
            and `Stopped` is raised. Mechanisms that open at once never call it.
        request_id
            Names the request, to pay for it once however often it is tried. This session gives the
            channel again while it is open; to any other it is lost, since no channel is stored.

        Raises
        ------
        BudgetExceeded
            If that does not fit what is left. Nothing was charged.
        AnswerLost
            If the request was paid before, and its channel is not open in this session.
        Stopped
            If the opening ended before its work was done, by `stop`, by an interrupt from the
            keyboard, or by a budget without room for its next run: its `channel` answers from
            what was learnt so far.
        """
        outer = self._context
        outer.lifetime.check()
        if not isinstance(mechanism, Mechanism):
            raise InvalidArgument("mechanism", "a mechanism", shown(mechanism))
        if stop is not None and not callable(stop):
            raise InvalidArgument("stop", "something to call with a Progress", shown(stop))
        name = described(mechanism.name)
        request = None if request_id is None else to_name("request_id", request_id)
        if request is not None:
            before = self._requests.get(request)
            if before is not None and not before[1].closed:
                return self._same(request, before, mechanism)
        lifetime = Lifetime(f"the channel to {name}", outer.lifetime)
        context = outer.asking(_kept(mechanism), lifetime)
        scope = context.payer.scope
        question = context.history.ask("", name, context.lifetime, scope=scope, request=request)
        question.stop, question.thread = stop, get_ident()
        done: Event | None = None
        ended: WhyStopped | None = None
        channel: Channel[F] | DistributionChannel
        access, opened = context.access(name), Using(name, mechanism, self.domain)
        try:
            kernel = Kernel.over(access.on(question))
            if isinstance(mechanism, HypothesisMechanism):
                channel = HypothesisChannel(mechanism.open(kernel), opened, access, context)
            elif isinstance(mechanism, ModelsMechanism):
                models = mechanism.open(kernel)
                channel = HypothesisChannel(models, opened, access, context, models=True)
            elif isinstance(mechanism, DistributionMechanism):
                try:
                    strategy = mechanism.open(kernel)
                except Unfinished as early:
                    strategy, ended = early.strategy, early.why
                if isinstance(mechanism, TablesMechanism):
                    # What such a mechanism opens to, early or not.
                    tables = cast("TablesStrategy", strategy)
                    channel = TablesChannel(tables, opened, access, context)
                else:
                    channel = DistributionChannel(strategy, opened, access, context)
            else:
                channel = Channel(mechanism.open(kernel), opened, access, context)
            # An opening that cost nothing is no entry of the history.
            question.answered = not context.history.cost(question).nothing
            scope, named, now = whose(question.asked)
            done = Opened(name, scope=scope, request_id=named, at=now)
            if request is not None:
                self._opened(request, mechanism, channel)
        except AlreadyCharged as error:
            if request is None or error.request_id != request:
                raise
            raise AnswerLost(request, error.charges) from None
        except BaseException as error:
            context.history.note(question, error)
            raise
        finally:
            question.stop = None  # so that questions keep nothing of it alive
            context.history.over(question, done)
        if ended is not None and isinstance(channel, DistributionChannel):
            raise Stopped(channel, context.history.cost(question), ended)
        return channel

    def _opened(self, request: str, mechanism: object, channel: Channel[Any]) -> None:
        """Keep the channel of a request while it is open; those that were closed are let go of."""
        kept = self._requests
        if len(kept) >= self._room:
            for name, (_, one) in list(kept.items()):
                if one.closed:
                    kept.pop(name, None)
            self._room = max(_KEPT_CHANNELS, 2 * len(kept))
        kept[request] = mechanism, channel

    def _same(
        self, request: str, before: tuple[object, Channel[Any]], mechanism: Mechanism[F]
    ) -> Channel[F]:
        """The channel of a request that was opened, if for the same mechanism."""
        known, channel = before
        if not _alike(known, mechanism):
            expected = "the name of no other opening"
            raise InvalidArgument("request_id", expected, shown(request))
        return channel

    def quote(self, query: Query[A, F], *, using: Mechanism[F]) -> Quote:
        """What an answer would cost and how far off it would be. Spends nothing, reads nothing.

        Errors are in the unit of the answer. An answer that would be reused costs nothing.
        """
        if not isinstance(using, Mechanism):
            raise InvalidArgument("using", "a mechanism", shown(using))
        context = self._context
        form = context.forms.form(query)
        if context.reuse is not None:
            same = question_of(context.place, using, form)
            known = None if same is None else context.reuse.find(same, context.payer)
            if known is not None:
                return Quote(Cost(), Cost(), known.accuracy).for_query(lifting(query), self.facts)
        try:
            quote = using.quote(context.forms.lent(form, using), context.terms)
        except QueryError as error:
            raise error if error.query else error.about(described(query)) from None
        at_open, at_most = _rebuilt(quote.at_open), _rebuilt(quote.at_most)
        return Quote(at_open, at_most, quote.accuracy).for_query(lifting(query), self.facts)

    def affords(self, query: Query[A, F], *, using: Mechanism[F]) -> int | None:
        """How many more such queries fit, one after the other; None where they are free.

        For a mechanism that charges when it opens: how many more such channels with one answer.
        """
        cost = self.quote(query, using=using).at_most
        return self._context.payer.affords_all(cost.runs)

    def _channel(self, query: Query[A, F], using: OneShot[F] | Channel[F] | None) -> Channel[F]:
        self._context.lifetime.check()
        key = _key(using)
        known = None if key is None else self._channels.get(key)
        if known is not None:
            return known  # type: ignore[return-value]  # opened for the same parameters
        if isinstance(using, Channel):
            if not using.belongs_to(self._context):
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


def _kept(mechanism: Mechanism[F]) -> Mechanism[F]:
    """What releases say was asked: a copy, since a frozen value may be initialised again.

    One of another author is kept as it is.
    """
    return copy(mechanism) if type(mechanism).__module__.startswith("dpsdk.") else mechanism


def _key(using: object) -> tuple[object, ...] | None:
    """The parameters of a built-in mechanism in plain integers; None for other mechanisms.

    A mechanism of another author may call itself equal to any, and a frozen value may be
    initialised again; what these answer is looked at anew each time, and of others nothing is kept.
    """
    if type(using) is Laplace:
        amount: object = using.epsilon
        if type(amount) is Fraction:
            return Laplace, int(amount.numerator), int(amount.denominator)
    elif type(using) is Gaussian:
        rho, epsilon, delta = _plain(using.rho), _plain(using.epsilon), _plain(using.delta)
        if rho is not None and epsilon is not None and delta is not None:
            return Gaussian, rho, epsilon, delta
    return None


def _plain(number: object) -> tuple[int, ...] | None:
    """The integers of a fraction, none of a parameter that was left out; None for all else."""
    if number is None:
        return ()
    if type(number) is Fraction:
        return int(number.numerator), int(number.denominator)
    return None


def _alike(one: object, other: object) -> bool:
    """Whether two mechanisms were made of the same: descriptions need not tell, as of workloads."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other) or str(one) != str(other):
        return False
    try:
        if not has(kind):
            return bool(one == other)
        given = [part.name for part in fields(kind) if part.init]
        return all(bool(getattr(one, name) == getattr(other, name)) for name in given)
    except Exception:  # noqa: BLE001  # a class of another author may raise what it likes
        return False


def _rebuilt(cost: Cost) -> Cost:
    return Cost(tuple((checked_copy(run), count) for run, count in cost.runs))
