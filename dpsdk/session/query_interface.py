"""The questions that can be put to a session, its scopes and the parts of its table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, overload

from typing_extensions import deprecated

from dpsdk._checks import described, shown, to_name
from dpsdk._lifetime import Lifetime
from dpsdk.accounting import Budget, Remaining, Spent
from dpsdk.domain import Domain
from dpsdk.errors import (
    AlreadyCharged,
    AnswerLost,
    InvalidArgument,
    QueryError,
    Redacted,
)
from dpsdk.forms import Facts, Form
from dpsdk.forms.assumptions import Assumptions
from dpsdk.kernel import Kernel
from dpsdk.kernel.question import event_context
from dpsdk.kernel.trust import called
from dpsdk.mechanisms.base import (
    DistributionMechanism,
    HypothesisMechanism,
    MeasuresOnce,
    Mechanism,
    ModelsMechanism,
    OneShot,
    TablesMechanism,
    notes_of,
)
from dpsdk.mechanisms.independent_noise import Gaussian, Laplace
from dpsdk.mechanisms.running_sums import RunningSums
from dpsdk.observe import Event, Opened, Progress
from dpsdk.planner.plan import Plan
from dpsdk.queries.base import Query, lifting
from dpsdk.release import Cost, Quote, Release
from dpsdk.release.quote import check_quote
from dpsdk.release.release import Reason
from dpsdk.session.channel import (
    Channel,
    DistributionChannel,
    HypothesisChannel,
    TablesChannel,
    answered,
    released,
)
from dpsdk.session.context import Context
from dpsdk.session.identity import Using, question_of
from dpsdk.session.opening import Stopped, channel_to, noise_channel
from dpsdk.session.planned import mechanism_of, release_by_best, release_by_plan, said_of
from dpsdk.session.running import RunningChannel

if TYPE_CHECKING:
    from dpsdk.kernel import Limits
    from dpsdk.planner import Goal, Plans

__all__ = ["QueryInterface"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

Stop: TypeAlias = Callable[[Progress], object]
"""Asked between two rounds of an opening whether to stop there."""

_KEPT_CHANNELS = 256

_PLAIN = frozenset({Laplace, Gaussian})
"""Mechanisms whose channels are kept: values that are equal where they do the same."""

_PAYS_AGAIN = (Reason("pays-again", "opened for this answer alone; a second call pays again"),)


class QueryInterface:
    """Typed questions to one table, paid from one odometer."""

    __slots__ = ("_channels", "_context", "_requests", "_room")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._channels: dict[object, Channel[Any]] = {}
        self._requests: dict[str, tuple[Using, Channel[Any]]] = {}
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
        """The spent budget, with the guarantee that holds whatever is asked next.

        It may be read after closing, and in a forked process: there a ledger in memory is as it was
        when that was forked.
        """
        return self._context.payer.spent

    @property
    def remaining(self) -> Remaining:
        """The budget that is left here, while nobody else is charged.

        After closing, and in a forked process, no run fits; `fraction` tells what is left for
        others that spend the budget.
        """
        return self._context.remaining

    def answer(
        self,
        query: Query[A, F],
        *,
        using: OneShot[F] | MeasuresOnce[F] | Channel[F] | Plan[F] | None = None,
        request_id: str | None = None,
    ) -> A:
        """The answer to a query, of the type that the query promises.

        Parameters
        ----------
        query
            The question.
        using
            A one-shot mechanism, such as `Laplace(epsilon=0.1)`, an open channel, a `Plan`, or a
            mechanism that measures once, such as `Tree("age", epsilon=0.1)`. That is opened for
            this answer alone: a second call pays again. A plan means its mechanism, from wherever
            it comes and whatever was left when it was made; one that has to be opened is opened for
            this answer, and what that costs is charged with it. Left out, it is the best plan that
            takes a tenth of what is left at the most: the cheapest that promises, at 95%, an error
            of a hundredth of the largest difference of two answers; where none does, the first of
            `plan(query, budget=...)` for such a tenth.
        request_id
            Names the request, to charge and answer it once however often it is tried: by any
            session on the ledger, the stored answer is given again for free. A request without
            `using` is the same request whatever the best plan is by then.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table. Nothing was charged.
        BudgetExceeded
            If its cost does not fit what is left. Nothing was charged, unless the mechanism pays in
            several steps: then `charges` of the error names what was, and stays charged. Of a plan
            that is opened, all must fit before anything is charged.
        ReleaseFailed
            If something failed after the charge.
        AnswerLost
            If the request was charged before, and no answer was stored for it.
        Stopped
            If the opening of a plan ended early, as `open` has it.
        NoMechanism
            If `using` is left out, and no mechanism can be taken: it says why of each.
        """
        if using is None or isinstance(using, Plan | MeasuresOnce):
            return self.release(query, using=using, request_id=request_id).value
        channel = self._channel(using)
        if self._context.reuse is None or using is channel:
            return channel.answer(query, request_id=request_id)
        return answered(channel, query, request_id, using)

    def release(
        self,
        query: Query[A, F],
        *,
        using: OneShot[F] | MeasuresOnce[F] | Channel[F] | Plan[F] | None = None,
        request_id: str | None = None,
    ) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does.

        By a plan, `because` says why it was chosen; by a mechanism that was opened for this answer,
        that a second call pays again.
        """
        if using is None or isinstance(using, Plan):
            return self._planned(query, using, request_id)
        if isinstance(using, MeasuresOnce):
            self._context.lifetime.check()
            return release_by_plan(query, using, _PAYS_AGAIN, self._context, request_id)
        channel = self._channel(using)
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
    def open(  # type: ignore[overload-overlap]  # the same
        self, mechanism: RunningSums, *, stop: Stop | None = None, request_id: str | None = None
    ) -> RunningChannel: ...
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
        name = called(described(mechanism.name))
        opened = Using(name, mechanism, self.domain)
        request = None if request_id is None else to_name("request_id", request_id)
        if request is not None:
            before = self._requests.get(request)
            if before is not None and not before[1].closed:
                return _same(request, before, opened)
        lifetime = Lifetime(f"the channel to {name}", outer.lifetime)
        context = outer.asking(mechanism, lifetime)
        scope = context.payer.scope
        question = context.history.ask("", name, context.lifetime, scope=scope, request=request)
        question.stop, question.thread = stop, get_ident()
        done: Event | None = None
        access = context.access(name)
        try:
            kernel = Kernel.over(access.on(question))
            with context.history.working(f"opening {name}"):
                channel, ended = channel_to(mechanism, kernel, opened, access, context)
            # An opening that cost nothing is no entry of the history.
            question.answered = not context.history.cost(question).nothing
            scope, named, now = event_context(question.asked)
            done = Opened(name, scope=scope, request_id=named, at=now)
            if request is not None:
                self._opened(request, opened, channel)
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

    def _opened(self, request: str, opened: Using, channel: Channel[Any]) -> None:
        """Keep the channel of a request while it is open; those that were closed are let go of."""
        kept = self._requests
        if len(kept) >= self._room:
            for name, (_, one) in list(kept.items()):
                if one.closed:
                    kept.pop(name, None)
            self._room = max(_KEPT_CHANNELS, 2 * len(kept))
        kept[request] = opened, channel

    def quote(
        self,
        query: Query[A, F],
        *,
        using: Mechanism[F] | Plan[F],
        assume: Mapping[str, object] | Assumptions | None = None,
    ) -> Quote:
        """Price an answer and bound its error. Spends nothing, reads nothing.

        Errors are in the unit of the answer. An answer that would be reused costs nothing.

        Parameters
        ----------
        query, using
            The question, and the mechanism that would be asked, or a plan of it.
        assume
            What is believed of the table, to bound answers whose error depends on it, such as
            means: `{"rows": ..., "inside": ..., "density": ..., "smallest_group": ...}`, see
            `Assumptions`. It changes no noise and no charge: `assumed` of the quote is the bound
            that rests on it.

        Raises
        ------
        Closed
            After closing, and in a forked process, as `answer` does.
        """
        mechanism, context = mechanism_of(using), self._context
        self._check()
        with context.history.working("quoting"):
            form = context.forms.form(query)
        believed = Assumptions.of(assume)
        believed.check(context.facts)
        if context.reuse is not None:
            same = question_of(context.place, mechanism, form)
            before = context.place.before(mechanism, form)
            known = None if same is None else context.reuse.find(same, context.payer, before)
            if known is not None:
                free = Quote(Cost(), Cost(), known.accuracy)
                return free.for_query(lifting(query), self.facts, believed)
        try:
            with context.history.working("quoting"):
                given: object = mechanism.quote(form, context.terms)
        except QueryError as error:
            raise error if error.query else error.about(described(query)) from None
        quote = check_quote(given, mechanism)
        notes = notes_of(mechanism, context.facts)
        return quote.for_query(lifting(query), self.facts, believed, notes)

    @overload
    def plan(
        self,
        query: Query[A, F],
        *,
        error: float,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    @overload
    def plan(
        self,
        query: Query[A, F],
        *,
        budget: Budget | Cost,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    @overload
    def plan(
        self,
        query: Iterable[Goal[A, F]],
        *,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    @overload
    @deprecated("write error= for alpha=")
    def plan(
        self,
        query: Query[A, F],
        *,
        alpha: float,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    def plan(
        self,
        query: Query[A, F] | Iterable[Goal[A, F]],
        *,
        error: float | None = None,
        budget: Budget | Cost | None = None,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
        alpha: float | None = None,
    ) -> Plans[F]:
        """Return ways to answer a query, the best first, judged from public facts and what is left.

        Spends nothing and reads nothing: over any table with the same facts and the same account,
        plans are the same. `using=plan` of `answer` and `release` does what a plan says.

        Parameters
        ----------
        query
            The question: a query or a workload; or goals, each a query with an error of its own,
            whose plans answer the workload of all their queries.
        error
            How far off any entry of the answer may be, in its own unit: what would cost least?
        budget
            Instead: what may be spent on it, or what something else costs: what would be off least?
        beta
            How likely bounds may fail, strictly between 0 and 1; of several goals, any of them.
        assume
            What is believed of the table, as for `quote`. It changes no noise and no charge, and
            bounds that rest on it are in `assumed`.
        limits
            What a plan may take of a machine; what takes more is not feasible. Planning itself may
            take some two seconds and 256 MB, by counted work, or these limits where they are more.
        alpha
            The former name of `error`, which goes with the next minor version.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table.
        TooLarge
            If planning it would take more, by counted work.
        InvalidArgument
            If another argument is not what it should be: a query needs one of `error` and `budget`,
            and goals neither.
        Closed
            After closing, and in a forked process, as `answer` does.
        """
        self._check()
        if alpha is not None:
            warnings.warn("write error= for alpha=", DeprecationWarning, stacklevel=2)
            if error is not None:
                raise InvalidArgument("alpha", "left out, as error names the same", "both")
            error = alpha
        from dpsdk.planner.planner import plans_for  # noqa: PLC0415  # loads all mechanisms

        context = self._context
        with context.history.working("planning"):
            return plans_for(
                query, context.forms.form, context.terms, context.payer.balance,
                error=error, budget=budget, beta=beta, assume=assume, limits=limits,
            )  # fmt: skip

    def affords(self, query: Query[A, F], *, using: Mechanism[F] | Plan[F]) -> int | None:
        """How many more such queries fit, one after the other; None where they are free.

        So often in a row the question is accepted here as long as nobody else asks, reserves or
        closes anything. For a mechanism that charges when it opens: how many more such channels
        with one answer. Where the mechanism may pay less than it quotes, more may fit; and while a
        scope has a reserve, more may fit in a composition of another author.

        Raises
        ------
        Closed
            After closing, and in a forked process, as `answer` does.
        """
        cost = self.quote(query, using=using).at_most
        return self._context.payer.affords_all(cost.runs)

    def _check(self) -> None:
        """Refuse where `answer` would: after closing, and in a forked process."""
        self._context.lifetime.check()
        self._context.payer.check_open()

    def _planned(
        self, query: Query[A, F], plan: Plan[F] | None, request_id: str | None
    ) -> Release[A]:
        self._context.lifetime.check()
        if plan is None:
            return release_by_best(query, self._context, request_id)
        mechanism, because = said_of(plan)
        if not isinstance(mechanism, OneShot):
            return release_by_plan(query, mechanism, because, self._context, request_id)
        return released(self._channel(mechanism), query, request_id, mechanism, because)

    def _channel(self, using: OneShot[F] | Channel[F]) -> Channel[F]:
        plain = type(using) in _PLAIN
        known = self._channels.get(using) if plain else None
        if known is not None:
            return known
        self._context.lifetime.check()
        if isinstance(using, Channel):
            if not using.belongs_to(self._context):
                raise InvalidArgument(
                    "using", "a channel of this session, scope or part", repr(using)
                )
            return using
        if not isinstance(using, OneShot):
            expected = (
                "a mechanism that answers at once or measures once, or an open channel or a plan"
            )
            raise InvalidArgument("using", expected, shown(using))
        if not plain:
            return self.open(using)
        # An observer is told that it was opened.
        observed = self._context.history.observed
        channel = self.open(using) if observed else noise_channel(using, self._context)
        if len(self._channels) >= _KEPT_CHANNELS:
            self._channels.clear()
        self._channels[using] = channel
        return channel

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a session")


def _same(request: str, before: tuple[Using, Channel[Any]], asked: Using) -> Channel[Any]:
    """The channel of a request that was opened, if for the same mechanism."""
    known, channel = before
    if known.digest != asked.digest:
        expected = "the name of no other opening"
        kept = f"{shown(request)}, which opened {shown(known.mechanism)}"
        raise InvalidArgument("request_id", expected, f"{kept}; this is {shown(asked.mechanism)}")
    return channel
