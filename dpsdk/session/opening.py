"""Openings: the channel that a mechanism becomes, and those that are opened for one answer."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from dpsdk._checks import described
from dpsdk._lifetime import Lifetime
from dpsdk._records import define, frozen
from dpsdk.errors import DpsdkError
from dpsdk.forms import Form
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import Access, access_of
from dpsdk.kernel.trust import called
from dpsdk.mechanisms.base import (
    DistributionMechanism,
    HypothesisMechanism,
    Mechanism,
    ModelsMechanism,
    ModelsStrategy,
    OneShot,
    Strategy,
    TablesMechanism,
    TablesStrategy,
    Unfinished,
    WhyStopped,
    priced_by,
)
from dpsdk.mechanisms.running_sums import RunningSums
from dpsdk.release import Cost, Measurement
from dpsdk.release.quote import check_quote
from dpsdk.session.channel import (
    Channel,
    DistributionChannel,
    HypothesisChannel,
    TablesChannel,
    asked_of,
)
from dpsdk.session.context import Context
from dpsdk.session.identity import Using
from dpsdk.session.running import running_channel

__all__ = ["Opening", "Stopped", "channel_to", "noise_channel", "opening_of"]

F = TypeVar("F", bound=Form)


@define(str=False, eq=False)
class Stopped(DpsdkError):
    """An opening ended before its work was done. What was paid is not lost.

    Parameters
    ----------
    channel
        Open, and answers from what was learnt so far; close it, or use it in a `with`.
    paid
        What the opening was charged so far, which stays charged.
    why
        What ended it: "stop", "interrupt" or "budget".
    """

    channel: DistributionChannel
    paid: Cost
    why: WhyStopped

    def __str__(self) -> str:
        return f"{self.channel!r} was ended early ({self.why}) at a cost of {self.paid}"


def channel_to(
    mechanism: Mechanism[F], kernel: Kernel, using: Using, access: Access, context: Context
) -> tuple[Channel[F] | DistributionChannel, WhyStopped | None]:
    """Open a mechanism over a kernel: its channel, and what ended the opening early, if it did."""
    if isinstance(mechanism, RunningSums):
        # Its nights are kept by the ledger, which no kernel reads.
        return cast("Channel[F]", running_channel(mechanism, using, context)), None
    ended: WhyStopped | None = None
    try:
        if isinstance(mechanism, HypothesisMechanism):
            return HypothesisChannel(mechanism.open(kernel), using, access, context), None
        if isinstance(mechanism, ModelsMechanism):
            models = mechanism.open(kernel)
            return HypothesisChannel(models, using, access, context, models=True), None
        if not isinstance(mechanism, DistributionMechanism):
            return Channel(mechanism.open(kernel), using, access, context), None
        strategy = mechanism.open(kernel)
    except Unfinished as early:
        # Of what would have moved there is what was learnt so far, which does not.
        strategy, ended = early.strategy, early.why
    if isinstance(mechanism, ModelsMechanism) and isinstance(strategy, ModelsStrategy):
        return HypothesisChannel(strategy, using, access, context, models=True), ended
    if isinstance(mechanism, TablesMechanism):
        # What such a mechanism opens to, early or not.
        tables = cast("TablesStrategy", strategy)
        return TablesChannel(tables, using, access, context), ended
    return DistributionChannel(strategy, using, access, context), ended


@frozen(eq=False)
class Opening(Generic[F]):
    """A strategy that opens a mechanism for the one answer that it is asked for.

    What the opening costs is charged for that question, as what the answer costs is.

    Parameters
    ----------
    mechanism
        What is opened.
    using, access, context
        Of the channel that has this strategy.
    """

    mechanism: Mechanism[F]
    using: Using
    access: Access
    context: Context

    def channel(self) -> Channel[F]:
        """The channel for the one answer. Close it afterwards, unless it was `Stopped`."""
        return Channel(self, self.using, self.access, self.context)

    def answer(self, form: F, kernel: Kernel, /) -> Measurement:
        """Raw numbers for a form, once all that they may cost is known to fit.

        Raises
        ------
        BudgetExceeded
            If it does not. Nothing was charged.
        InvalidArgument
            If what the mechanism quotes is no quote. Nothing was charged.
        Stopped
            If the opening ended early. The channel that it carries answers from what was learnt.
        """
        mine = access_of(kernel)
        if not isinstance(self.mechanism, OneShot):
            asked: Mechanism[Any] = self.mechanism
            given: object = asked.quote(priced_by(asked, form), kernel.terms)
            mine.check_whole(check_quote(given, asked).at_most.runs)
        using, context = self.using, self.context
        channel, ended = channel_to(self.mechanism, kernel, using, self.access, context)
        if ended is not None and isinstance(channel, DistributionChannel):
            question = mine.question
            paid = Cost() if question is None else context.history.cost(question)
            raise Stopped(channel, paid, ended)
        return asked_of(channel, form, kernel)


def noise_channel(mechanism: OneShot[F], outer: Context) -> Channel[F]:
    """The channel to independent noise: its own strategy, whose opening asks and pays nothing."""
    name = called(described(mechanism.name))
    context = outer.asking(mechanism, Lifetime(f"the channel to {name}", outer.lifetime))
    using = Using(name, mechanism, outer.facts.domain)
    return Channel(cast("Strategy[F]", mechanism), using, context.access(name), context)


def opening_of(mechanism: Mechanism[F], outer: Context, digest: str | None = None) -> Opening[F]:
    """The opening of a mechanism for one answer.

    Parameters
    ----------
    mechanism
        The mechanism.
    outer
        Of whoever asks.
    digest
        Tells what was asked from all else, if that is not the mechanism.
    """
    name = called(described(mechanism.name))
    context = outer.asking(mechanism, Lifetime(f"the answer by {name}", outer.lifetime))
    using = Using(name, mechanism, outer.facts.domain, digest)
    return Opening(mechanism, using, context.access(name), context)
