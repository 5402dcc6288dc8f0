"""Channels to running sums: nights that are measured once, and sums of what the ledger keeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple, final

from typing_extensions import override

from dpsdk._checks import shown
from dpsdk._records import shows_half_made
from dpsdk.accounting import Guarantee, Odometer
from dpsdk.accounting.filters.composition import share_of
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.codec import Plain, digest
from dpsdk.data.part import between
from dpsdk.errors import AlreadyCharged, AnswerLost, InvalidArgument, UnknownLabel
from dpsdk.forms import LinearForm
from dpsdk.forms.facts import times_of
from dpsdk.kernel import Kernel
from dpsdk.mechanisms.running_sums import RunningSums
from dpsdk.mechanisms.running_sums.mechanism import Sums
from dpsdk.mechanisms.running_sums.series import UNIT
from dpsdk.release import Measurement
from dpsdk.session.channel import Channel
from dpsdk.session.context import Context
from dpsdk.session.identity import Using, as_plain
from dpsdk.session.stored import Request
from dpsdk.typing import Label

__all__ = ["RunningChannel", "running_channel"]

_SHARES = 10**4


class _Series(NamedTuple):
    """Where the nights of a series are kept, and who pays for them."""

    payer: ScopeOdometer
    identity: str


@shows_half_made
@final
class RunningChannel(Channel[LinearForm]):
    """An open `RunningSums`. Made by `session.open`; every night `advance` measures what is due.

    Its answers are free. They follow from the nights that the ledger keeps, whoever measured them:
    another process goes on where this one ended. What the nights will cost is set aside in every
    period of the series, until `end`; closing the channel gives nothing back.
    """

    __slots__ = ("_series", "_sums")

    def __init__(self, sums: Sums, series: _Series, using: Using, context: Context) -> None:
        super().__init__(sums, using, context.access(using.name), context)
        self._sums = sums
        self._series = series

    @property
    def known(self) -> tuple[Label, Label] | None:
        """The first value of the first and of the last period that was measured; None for none."""
        self._read()
        periods, time = times_of(self._context.facts)
        if not self._sums.nights:
            return None
        return periods.start(time, self._sums.first), periods.start(time, self._sums.last)

    def advance(self, last: Label) -> tuple[Label, ...]:
        """Measure every night that is due, each once for all processes; the first values of each.

        Parameters
        ----------
        last
            The last value of the time whose rows are complete, such as the `date` of yesterday.
            Periods that end by then are due. No clock is read.

        Raises
        ------
        UnknownLabel
            If the domain has no such value.
        BudgetExceeded
            If a period cannot pay: more nights were lost than were to `spare`.
        AnswerLost
            If a night was paid for as often as it may be, and no answer was stored.
        InvalidArgument
            If the table begins after a period that a night weighs.
        Closed
            If the channel or its session is closed.
        """
        self._context.lifetime.check()
        periods, time = times_of(self._context.facts)
        cell = time.index(last)
        begun = periods.number(time, cell)
        due = begun if not (periods.offset(time) + cell + 1) % periods.units else begun - 1
        self._read()
        done: list[Label] = []
        while (night := self._sums.last + 1) <= due:
            self._measure(night)
            self._read()
            done.append(periods.start(time, night))
        return tuple(done)

    def end(self) -> None:
        """End the series: its reserve is given back, and no night is measured any more."""
        self._series.payer.close()

    @override
    def _ask(self, form: LinearForm, kernel: Kernel) -> Measurement:
        self._read()
        return self._sums.answer(form, kernel)

    def _read(self) -> None:
        """Read the nights that others have stored since."""
        nights = self._sums.nights
        while True:
            night = self._sums.first + len(nights)
            found = self._stored(night)
            if found is None:
                return
            nights.append(found.values / UNIT)

    def _stored(self, night: int) -> Measurement | None:
        for attempt in range(self._sums.mechanism.spare + 1):
            known = self._request(night, attempt).stored()
            if known is not None:
                return known
        return None

    def _request(self, night: int, attempt: int) -> Request:
        periods, time = times_of(self._context.facts)
        payer, identity = self._series
        label = f"night of {periods.text(time, night)}"
        again = f", again {attempt}" if attempt else ""
        name = f"running sums {identity[:32]}, {label}{again}"
        return Request(name, digest([identity, night]), payer, f"{label} by {self._name}")

    def _measure(self, night: int) -> None:
        """Pay for a night and store it, again if it was paid and its answer was lost."""
        attempts = self._sums.mechanism.spare + 1
        for attempt in range(attempts):
            try:
                return self._pay(night, self._request(night, attempt))
            except AlreadyCharged as error:
                # Another process may have stored it since.
                if self._stored(night) is not None:
                    return None
                if attempt == attempts - 1:
                    raise AnswerLost(error.request_id, error.charges) from None
        return None

    def _pay(self, night: int, request: Request) -> None:
        context = self._nightly(night)
        history, label = context.history, request.told.partition(" by ")[0]
        asked = {"scope": context.payer.scope, "request": request.name}
        question = history.ask(label, self._name, context.lifetime, **asked)
        try:
            kernel = Kernel.over(context.access(self._name).on(question))
            with history.working(label):
                found = kernel.run(self._sums.mechanism.request(context.facts, night))
            request.kept(found)
            question.answered = True
        except BaseException as error:
            history.note(question, error)
            raise
        finally:
            history.over(question, None)

    def _nightly(self, night: int) -> Context:
        """The rows that a night weighs, and the account that pays for it."""
        context = self._context
        periods, time = times_of(context.facts)
        first = max(self._sums.first, night - self._sums.mechanism.nights + 1)
        low, high = periods.cells(time, first, night)
        if periods.offset(time) > first * periods.units:
            expected = f"one of a table from {periods.text(time, first)} on, which is weighed"
            raise InvalidArgument("session", expected, f"one from {time.text(0)} on")
        data, payer = between(context.data, low, high), self._series.payer.between(first, night)
        return Context(
            data, payer, context.noise, context.history, context.lifetime, trust=context.trust
        )


def running_channel(mechanism: RunningSums, using: Using, context: Context) -> RunningChannel:
    """Open a series, or go on with it: what its nights will cost is set aside from now on."""
    facts, payer = context.facts, context.payer
    periods, time = times_of(facts)
    if facts.part_of is not None:
        raise InvalidArgument("session", "one of the whole table", "some time of it")
    mechanism.block(facts.domain, periods)
    identity = _identity(mechanism, context)
    name = f"running sums {identity[:16]}"
    known = ScopeOdometer.begun(payer, name)
    # The first that the domain does not cut.
    first = -(-periods.offset(time) // periods.units) if known is None else known
    if mechanism.since is not None:
        with suppress(*([UnknownLabel] if known is not None else [])):
            first = periods.number(time, time.index(mechanism.since))
    cap = _cap(payer, mechanism.runs(facts), mechanism)
    scope = ScopeOdometer(payer, name, cap, reserve=True, since=first)
    law = mechanism.law(facts)
    series = _Series(scope, digest([identity, first]))
    return RunningChannel(Sums(mechanism, facts, first, [], law), series, using, context)


def _identity(mechanism: RunningSums, context: Context) -> str:
    """Tells a series from others: by all that a night's numbers mean, but for how far time goes."""
    facts, noise = context.facts, "private" if context.noise.private else "seeded"
    periods, time = times_of(facts)
    others = [as_plain(one) for one in facts.domain.attributes if one is not time]
    names: list[Plain] = list(mechanism.block(facts.domain, periods).names)
    table: list[Plain] = [context.data.name, periods.rule(time), others]
    table.append(list(facts.domain.missing_texts))
    whose: list[Plain] = [facts.neighbors.value, facts.unit_rows, facts.person or ""]
    whose.append(facts.distinct)
    law: list[Plain] = [list(mechanism.weights), str(mechanism.rho)]
    return digest([table, whose, names, law, noise])


def _cap(payer: Odometer, runs: Sequence[Guarantee], mechanism: RunningSums) -> Fraction:
    """The least share of a period's budget, in ten thousandths, that pays for all nights."""
    composition, begun = payer.composition, payer.composition.begin(payer.budget)
    listed = [run for run in runs if not run.free]

    def pays(share: int) -> bool:
        own = share_of(begun, Fraction(share, _SHARES))
        return composition.charge_all(own, listed) is not None

    low, high = 0, _SHARES
    if not pays(high):
        expected = f"less: the budget of a period does not pay for {mechanism.nights} nights"
        raise InvalidArgument("rho", expected, shown(mechanism.rho))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return Fraction(high, _SHARES)
