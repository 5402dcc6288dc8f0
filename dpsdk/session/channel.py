"""Channels: an open mechanism that answers queries, each with its exact type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, NoReturn, TypeVar, cast, final

from typing_extensions import override

from dpsdk._checks import shown, to_name
from dpsdk._lifetime import Closable
from dpsdk._records import shows_half_made
from dpsdk.accounting import Trusted
from dpsdk.accounting.spent import Around
from dpsdk.data.private_data import display_name
from dpsdk.errors import AlreadyCharged, AnswerLost, QueryError, Redacted
from dpsdk.forms import Form, LinearForm
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import Access
from dpsdk.kernel.question import Question, event_context
from dpsdk.kernel.trust import named, naming
from dpsdk.mechanisms.base import (
    Answerable,
    DistributionStrategy,
    FittedTable,
    HypothesisStrategy,
    Strategy,
    TablesStrategy,
    notes_of,
)
from dpsdk.observe import Answered, Event
from dpsdk.queries.base import Query, lifting, settled
from dpsdk.release import Cost, Measurement, Release
from dpsdk.release.release import Reason
from dpsdk.session.context import Context
from dpsdk.session.gate import fitting
from dpsdk.session.identity import Using, question_of, request_of
from dpsdk.session.notebook import session_page
from dpsdk.session.stored import Request
from dpsdk.typing import Floats, Label

if TYPE_CHECKING:
    from dpsdk.hypothesis import Distribution, Hypothesis, Mixture
    from dpsdk.hypothesis.streams import Seed
    from dpsdk.queries.marginal import MarginalTable

__all__ = ["Channel", "DistributionChannel", "HypothesisChannel", "TablesChannel"]

A = TypeVar("A")
F_contra = TypeVar("F_contra", bound=Form, contravariant=True)


class Paid(NamedTuple):
    """The charge of an answer, the scope that paid, the mechanism and those trusted for it."""

    cost: Cost
    scope: str
    mechanism: str
    trusted: tuple[str, ...] = ()


class Given(NamedTuple, Generic[A]):
    """An answer, of what it was made, what its query calls itself, and how to find who paid."""

    value: A
    measurement: Measurement
    label: str
    paid: Callable[[], Paid]
    reused: bool = False
    around: Around | None = None


@shows_half_made
class Channel(Closable, Generic[F_contra]):
    """An open mechanism. Made by `session.open(mechanism)`; close it, or use it in a `with`.

    Its answers are charged to its session. Channels of one session may be used in turns and from
    several threads.
    """

    __slots__ = ("_access", "_context", "_name", "_strategy", "_using")

    def __init__(
        self, strategy: Strategy[F_contra], using: Using, access: Access, context: Context
    ) -> None:
        self._strategy = strategy
        self._using = using
        self._name = using.name
        self._access = access
        self._context = context

    def answer(self, query: Query[A, F_contra], *, request_id: str | None = None) -> A:
        """The answer to a query, of the type that the query promises.

        Parameters
        ----------
        query
            The question.
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
        ReleaseFailed, MeasurementRefused
            If something failed after the charge, or a mechanism gave what does not fit.
        AnswerLost
            If the request was charged before, and no answer was stored for it.
        Closed
            If the channel or its session is closed.
        """
        return self._asked(query, request_id, None).value

    def release(self, query: Query[A, F_contra], *, request_id: str | None = None) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does.

        One that is given again has the cost of the first, and its bounds and how far it was moved
        too, but where these rest on a model, a small database, what a channel remembers, or a
        class of another author: then it has no bounds, and says so.
        """
        return self._released(query, self._asked(query, request_id, None))

    def _released(
        self, query: Query[A, F_contra], given: Given[A], because: tuple[Reason, ...] = ()
    ) -> Release[A]:
        context, measurement, paid = self._context, given.measurement, given.paid()
        trusted = self._trusted(paid.trusted)
        table, by = display_name(context.data), context.by
        measured = measurement.source == "measured"
        return Release(
            given.value,
            given.label,
            naming(paid.mechanism, [one.name for one in trusted]) if trusted else paid.mechanism,
            paid.cost,
            measurement.source,
            context.noise.private,
            measurement,
            lifting(query),
            context.facts,
            query,
            context.history.payment(
                table, paid.scope, by, given.around, trusted, context.payer.desk
            ),
            reused=given.reused,
            because=because,
            remarks=() if measured else notes_of(self._using.mechanism, context.facts),
        )

    def _trusted(self, named: tuple[str, ...]) -> tuple[Trusted, ...]:
        """The classes that an answer trusts, beside those of the package."""
        relied = self._access.relied
        if not named:
            return relied
        known = {one.name: one for one in (*self._context.trust.names, *relied)}
        names = {*named, *[one.name for one in relied]}
        return tuple([known.get(name) or Trusted(name) for name in sorted(names)])

    def _asked(self, query: Query[A, F_contra], request_id: str | None, using: object) -> Given[A]:
        """An answer, which may have been given before if it is one of a one-shot mechanism."""
        context = self._context
        context.lifetime.check()
        with context.history.working("asking"):
            form, label = context.forms.described(query)
        request: Request | None = None
        if request_id is not None:
            name = to_name("request_id", request_id)
            # A seeded answer is never given for a private one.
            noise = "private" if context.noise.private else "seeded"
            asked = request_of(context.place, self._using, query, form, noise)
            request = Request(name, asked, context.payer, f"{label} by {self._name}")
            known = request.stored()
            if known is not None:
                return self._again(query, known, label, request)
        reuse = None if using is None else context.reuse
        same = None if reuse is None else question_of(context.place, using, form)
        ended: list[Question] = []
        try:
            if reuse is None or same is None:
                return self._put(query, form, label, request, (), ended)
            before = context.place.before(using, form)

            def look() -> Given[A] | None:
                known = reuse.find(same, context.payer, before)
                if known is None:
                    return None
                return self._reused(query, known, label, request, ended)

            ask = partial(self._put, query, form, label, request, (same,), ended)
            return reuse.settle(same, look, ask)
        finally:
            # When nobody waits any more for the answer.
            for question in ended:
                if question.events:
                    context.history.tell(question)

    def _put(
        self,
        query: Query[A, F_contra],
        form: F_contra,
        label: str,
        request: Request | None,
        same: tuple[str, ...],
        ended: list[Question],
    ) -> Given[A]:
        """Ask, as a question of its own, and keep the answer for those who ask the `same`."""
        context = self._context
        history, facts = context.history, context.forms.facts
        question = self._question(label, request)
        done: Event | None = None
        try:
            kernel = Kernel.over(self._access.on(question))
            with history.working(label):
                given = self._ask(form, kernel)
            raw = fitting(given, form, self._name)
            around = question.around
            measurement = settled(query, raw, facts)
            if context.reuse is not None:
                for known in same:
                    context.reuse.keep(known, context.payer, raw)
            if request is not None:
                measurement = request.kept(measurement)
            value = query.lift(measurement.values.copy(), facts)
            question.answered = True
            done = self._answered(question) if question.observed else None
        except QueryError as error:
            # A mechanism knows forms alone, so it leaves the query to be named here.
            told = error if error.query else error.about(label)
            history.note(question, told)
            raise told from None
        except AlreadyCharged as error:
            if request is None or error.request_id != request.name:
                raise
            # Another may have been first, and may have stored its answer since.
            stored = request.stored()
            if stored is None:
                raise AnswerLost(request.name, error.charges) from None
            return self._again(query, stored, label, request)
        except BaseException as error:
            history.note(question, error)
            raise
        finally:
            history.ended(question, done)
            ended.append(question)
        return Given(value, measurement, label, partial(self._paid, question), around=around)

    def _again(
        self, query: Query[A, F_contra], known: Measurement, label: str, request: Request
    ) -> Given[A]:
        """The stored answer to a request."""
        value = query.lift(known.values.copy(), self._context.forms.facts)

        def paid() -> Paid:
            charges = request.charges()
            if not charges:
                return self._paid()
            # Who paid, which need not be who asks again.
            cost, scope = Cost([one.guarantee for one in charges]), charges[0].scope
            trusted = tuple([name for one in charges for name in named(one.mechanism)[1]])
            return Paid(cost, scope, self._called(named(charges[0].mechanism)[0]), trusted)

        return Given(value, known, label, paid)

    def _paid(self, question: Question | None = None) -> Paid:
        """The charge of a question to the channel; empty without a charge."""
        context = self._context
        cost = Cost() if question is None else context.history.cost(question)
        return Paid(cost, context.payer.scope, self._name)

    def _called(self, charged: str) -> str:
        """The mechanism of an answer that is given again."""
        del charged
        return self._name

    def _reused(
        self,
        query: Query[A, F_contra],
        known: Measurement,
        label: str,
        request: Request | None,
        ended: list[Question],
    ) -> Given[A]:
        """An answer that was given before to the same question: one of its own, that is free."""
        context = self._context
        history, facts = context.history, context.forms.facts
        question = self._question(label, request)
        done: Event | None = None
        try:
            measurement = settled(query, known, facts)
            if request is not None:
                measurement = request.kept(measurement)
            value = query.lift(measurement.values.copy(), facts)
            question.answered = True
            if question.observed:
                done = self._answered(question, reused=True)
        finally:
            history.ended(question, done)
            ended.append(question)
        return Given(value, measurement, label, self._paid, reused=True)

    def _question(self, label: str, request: Request | None) -> Question:
        """A new question of the payer, which names the request that it is for."""
        context, named = self._context, None if request is None else request.name
        scope = context.payer.scope
        return context.history.ask(label, self._name, context.lifetime, scope=scope, request=named)

    def _answered(self, question: Question, *, reused: bool = False) -> Answered:
        scope, request, now = event_context(question.asked)
        label = question.asked.query
        return Answered(label, self._name, reused, scope=scope, request_id=request, at=now)

    def _ask(self, form: F_contra, kernel: Kernel) -> Measurement:
        """Raw numbers for a form, by the strategy that answers such forms."""
        return self._strategy.answer(form, kernel)

    def belongs_to(self, context: Context) -> bool:
        """True if the channel was opened by the session, scope or part of this context."""
        return self._context.payer is context.payer

    def close(self) -> None:
        """Answer nothing more. What was not charged stays with the session."""
        self._context.lifetime.end()

    @property
    def closed(self) -> bool:
        """True if the channel was closed."""
        return self._context.lifetime.ended

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Asks nothing, and charges nothing."""
        payer = self._context.payer
        return session_page(
            type(self).__name__,
            self._context,
            lambda: (
                ("spent", self._context.history.spent_on(self._access.paid)),
                ("paid by", f"scope {shown(payer.scope)}" if payer.scope else "the session"),
                ("which has left", self._context.remaining),
            ),
            told=[("mechanism", self._name)],
        )

    def __repr__(self) -> str:
        return f"Channel({self._name}{', closed' if self.closed else ''})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a channel")


def answered(
    channel: Channel[F_contra], query: Query[A, F_contra], request_id: str | None, using: object
) -> A:
    """The answer of a channel to a one-shot mechanism; one that was given before, if it may."""
    return channel._asked(query, request_id, using).value  # pyright: ignore[reportPrivateUsage]  # of this module


def released(
    channel: Channel[F_contra],
    query: Query[A, F_contra],
    request_id: str | None,
    using: object,
    because: tuple[Reason, ...] = (),
) -> Release[A]:
    """The same as a release, and why the mechanism was chosen."""
    given = channel._asked(query, request_id, using)  # pyright: ignore[reportPrivateUsage]  # of this module
    return channel._released(query, given, because)  # pyright: ignore[reportPrivateUsage]  # of this module


def asked_of(
    channel: Channel[F_contra] | DistributionChannel, form: F_contra, kernel: Kernel
) -> Measurement:
    """The form that another channel's question asks of a channel."""
    wide = cast("Channel[F_contra]", channel)
    return wide._ask(form, kernel)  # pyright: ignore[reportPrivateUsage]  # of this module


class DistributionChannel(Channel[Answerable]):
    """A channel to a mechanism with a public distribution over the universe.

    It answers linear queries, as its mechanism does, and convex minimisations, by minimising them
    on the distribution. That was made of paid releases only, so it is public, and reading it is
    free, models included.
    """

    __slots__ = ("_source",)

    def __init__(
        self, strategy: DistributionStrategy, using: Using, access: Access, context: Context
    ) -> None:
        # Convex forms do not reach it.
        wide = cast("Strategy[Answerable]", strategy)
        super().__init__(wide, using, access, context)
        self._source = strategy

    @override
    def _ask(self, form: Answerable, kernel: Kernel) -> Measurement:
        if not isinstance(form, LinearForm):
            from dpsdk.forms import ConvexForm, ConvexForms  # noqa: PLC0415  # loads the solvers
            from dpsdk.mechanisms.fitted import modelled  # noqa: PLC0415  # the same

            if isinstance(form, ConvexForm | ConvexForms):
                return modelled(form, self._source.distribution)
        return self._strategy.answer(form, kernel)

    @property
    def distribution(self) -> Distribution:
        """The distribution as it stands, to sample, tabulate, save or start another from.

        Later answers do not change the object that this returned.
        """
        return self._source.distribution

    def marginal(self, *names: str) -> MarginalTable:
        """The marginal table of the distribution, in shares of the rows. Free.

        A channel with tables of its own gives its own table, where it has one.

        Raises
        ------
        UnknownAttribute, InvalidArgument
            If the names are not distinct attributes of the domain.
        """
        from dpsdk.queries.linear import to_names  # noqa: PLC0415  # few ask for tables
        from dpsdk.queries.marginal import MarginalTable  # noqa: PLC0415  # the same

        domain = self._context.facts.domain
        wanted = to_names(names)
        ordered = tuple(sorted(wanted, key=domain.position))
        table = self._shares(ordered)
        table = table.transpose([ordered.index(name) for name in wanted])
        return MarginalTable(tuple(domain[name] for name in wanted), table)

    def _shares(self, names: tuple[str, ...]) -> Floats:
        """The table of attributes in the order of the domain."""
        return self.distribution.table(names)

    def sample(self, size: int, seed: Seed | None = None) -> dict[str, list[Label]]:
        """Independent random records of the distribution, inside the domain. Free.

        Parameters
        ----------
        size, seed
            As for `Distribution.sample`.

        Raises
        ------
        InvalidArgument, TooLarge
            As there.
        """
        return self.distribution.sample(size, seed)


@final
class TablesChannel(DistributionChannel):
    """A channel to a mechanism that has tables of its own beside its public distribution.

    It answers from the tables where it has them. The distribution may differ from them by a few per
    cent: it is one object for the whole universe, and each table was fitted by itself.
    """

    __slots__ = ("_tables",)

    def __init__(
        self, strategy: TablesStrategy, using: Using, access: Access, context: Context
    ) -> None:
        super().__init__(strategy, using, access, context)
        self._tables = strategy

    @property
    def distribution(self) -> Mixture:
        """A mixture of products near to the tables, to sample, synthesize, tabulate and save."""
        return self._tables.distribution

    @property
    def tables(self) -> tuple[FittedTable, ...]:
        """The measured, fitted and certified parts of each table of the workload, and below it."""
        return self._tables.listing

    def _shares(self, names: tuple[str, ...]) -> Floats:
        return self._tables.shares(names)


@final
class HypothesisChannel(DistributionChannel):
    """A channel to a mechanism whose public distribution moves as it learns.

    Convex minimisations are answered from the distribution, unless the mechanism watches over them.
    """

    __slots__ = ("_learner", "_models")

    def __init__(
        self,
        strategy: HypothesisStrategy,
        using: Using,
        access: Access,
        context: Context,
        *,
        models: bool = False,
    ) -> None:
        super().__init__(strategy, using, access, context)
        self._learner = strategy
        self._models = models

    @override
    def _ask(self, form: Answerable, kernel: Kernel) -> Measurement:
        if self._models:
            return self._strategy.answer(form, kernel)
        return super()._ask(form, kernel)

    @property
    def hypothesis(self) -> Hypothesis:
        """The distribution as it stands. Later answers do not change what this returned."""
        return self._learner.hypothesis
