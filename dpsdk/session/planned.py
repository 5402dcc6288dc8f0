"""Plans of a question, the answer by one of them, and by whichever is best."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final, TypeVar, cast, final

from typing_extensions import override

from dpsdk._checks import shown
from dpsdk._lifetime import Lifetime
from dpsdk.errors import AnswerLost, InvalidArgument, NoMechanism
from dpsdk.forms import Form
from dpsdk.kernel.question import Question
from dpsdk.mechanisms.base import Mechanism
from dpsdk.planner.plan import Plan
from dpsdk.queries.base import Query
from dpsdk.release import Release
from dpsdk.release.release import Reason
from dpsdk.session.channel import Channel, Given, released
from dpsdk.session.context import Context
from dpsdk.session.identity import BEST, Using, question_of
from dpsdk.session.opening import Stopped, opening_of
from dpsdk.session.stored import Request

__all__ = ["mechanism_of", "release_by_best", "release_by_plan", "said_of"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)

_NAME: Final = "the best plan"
_DIGEST: Final = sha256(b"whatever mechanism is best").hexdigest()
"""Tells requests to whatever is best from requests to a mechanism."""


def said_of(plan: Plan[F]) -> tuple[Mechanism[F], tuple[Reason, ...]]:
    """The mechanism of a plan, and the reasons that it was given.

    Raises
    ------
    InvalidArgument
        If it has no mechanism, or something else for reasons. Anybody can make a plan.
    """
    mechanism, because = plan.mechanism, cast("object", plan.because)
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("using", "a plan of a mechanism", shown(mechanism))
    for one in cast("tuple[object, ...]", because) if isinstance(because, tuple) else (because,):
        code, text = (one.code, one.text) if isinstance(one, Reason) else (None, None)
        if not isinstance(code, str) or not isinstance(text, str):
            raise InvalidArgument("using", "a plan with reasons, each of two texts", shown(one))
    return mechanism, plan.because


def mechanism_of(using: Mechanism[F] | Plan[F]) -> Mechanism[F]:
    """A mechanism, or that of a plan.

    Raises
    ------
    InvalidArgument
        If it is neither.
    """
    mechanism = said_of(using)[0] if isinstance(using, Plan) else using
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("using", "a mechanism or a plan", shown(using))
    return mechanism


def release_by_plan(
    query: Query[A, F],
    mechanism: Mechanism[F],
    because: tuple[Reason, ...],
    context: Context,
    request_id: str | None,
) -> Release[A]:
    """The answer by a plan whose mechanism has to be opened, for this one answer."""
    channel = opening_of(mechanism, context).channel()
    with _closing(channel):
        return released(channel, query, request_id, None, because)


def release_by_best(query: Query[A, F], context: Context, request_id: str | None) -> Release[A]:
    """The answer by whatever is best."""
    channel = _Best[F](context)
    with _closing(channel):
        return channel.asked(query, request_id)


@contextmanager
def _closing(channel: Channel[F]) -> Generator[None]:
    """Close a channel after its one answer; not if another goes on with what it has learnt."""
    try:
        yield
    except Stopped:
        raise
    except BaseException:
        channel.close()
        raise
    channel.close()


@final
class _Best(Channel[F]):
    """A channel for one answer by whatever is best, which is settled when it has to be asked."""

    __slots__ = ("_outer", "plan")

    def __init__(self, context: Context) -> None:
        self._outer = context
        self._context = context.until(Lifetime(_NAME, context.lifetime))
        self._name, self._access = _NAME, self._context.access(_NAME)
        self._using = Using(_NAME, BEST, context.facts.domain, _DIGEST)
        self.plan: Plan[F] | None = None

    def asked(self, query: Query[A, F], request_id: str | None) -> Release[A]:
        """The answer."""
        given = self._asked(query, request_id, BEST)
        plan = self.plan
        return self._released(query, given, () if plan is None else plan.because)

    @override
    def _put(
        self,
        query: Query[A, F],
        form: F,
        label: str,
        request: Request | None,
        same: tuple[str, ...],
        ended: list[Question],
    ) -> Given[A]:
        from dpsdk.planner.best import best_plan  # noqa: PLC0415  # loads all mechanisms

        outer = self._outer
        try:
            with outer.history.working("planning"):
                plan = best_plan(query, form, outer.terms, outer.payer.balance)
        except NoMechanism:
            if request is not None and (charges := request.charges()):
                numbers = tuple(charge.number for charge in charges)
                raise AnswerLost(request.name, numbers) from None
            raise
        self.plan = plan
        opening = opening_of(plan.mechanism, outer, _DIGEST)
        # From here on this is the channel to that mechanism.
        self._strategy, self._access, self._context = opening, opening.access, opening.context
        self._name = opening.using.name
        own = None if not same else question_of(outer.place, plan.mechanism, form)
        if own is None or outer.reuse is None:
            return super()._put(query, form, label, request, same, ended)
        known = outer.reuse.find(own, outer.payer, outer.place.before(plan.mechanism, form))
        if known is None:
            return super()._put(query, form, label, request, (*same, own), ended)
        for one in same:
            outer.reuse.keep(one, outer.payer, known)
        return self._reused(query, known, label, request, ended)

    @override
    def _called(self, charged: str) -> str:
        return charged
