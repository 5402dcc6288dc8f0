"""Trials: one mechanism quoted for a task, and what the quote says of errors and of costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from attrs import evolve, field, frozen

from dpsdk._checks import described
from dpsdk.accounting import Budget
from dpsdk.accounting.balance import Balance
from dpsdk.accounting.copies import checked_copy
from dpsdk.accuracy import Bound, HalfWidths
from dpsdk.errors import DpsdkError, UnsupportedGuarantee
from dpsdk.forms import Form
from dpsdk.kernel import Limits
from dpsdk.mechanisms import Mechanism
from dpsdk.mechanisms.linear_accuracy import LinearAccuracy
from dpsdk.planner.families import Family
from dpsdk.planner.forecasting import effort, forecast
from dpsdk.planner.grid import A_DECADE, amount
from dpsdk.planner.ladder import Ladder
from dpsdk.planner.plan import Effort, Forecast
from dpsdk.planner.reasons import reason
from dpsdk.planner.task import Task
from dpsdk.release import Cost, Quote
from dpsdk.release.release import Reason

__all__ = ["Aims", "Errors", "Trial", "Trials", "beyond_limits", "in_order", "in_rows"]

F = TypeVar("F", bound=Form)
R = TypeVar("R")

_LEAST = -9 * A_DECADE
_MOST = 4 * A_DECADE
"""The places of the smallest and the largest amount, of 10⁻⁹ and of 10⁴."""

_MIDDLE = (_LEAST + _MOST) // 2
"""The place that every search looks at first; there it is found out whether a ρ has a price."""

_SLOW_STEP = A_DECADE // 4
"""Of a family whose quotes take long, so many places apart."""

Errors: TypeAlias = tuple[float, ...]
"""How far off each goal would be, infinite where that says nothing."""

Aims: TypeAlias = Callable[[Mechanism[Any], Quote, Bound | None, Bound | None], Errors]
"""What is made of a mechanism, its quote, its bound, and its bound under assumptions."""


def _nothing() -> None:
    return None


@frozen(eq=False)
class Trial(Generic[F]):
    """A mechanism, and what it would do.

    Parameters
    ----------
    mechanism
        What was quoted.
    quote
        What it said.
    promised, assumed
        The bounds in the unit of the answer: one that holds, and one that holds under assumptions.
    errors
        How far off each goal would be by the better of them, infinite where that says nothing.
    share
        The share that it takes of what may be spent; None if it does not fit, and then nothing is
        said of errors.
    refusal
        Why it cannot be run at all; None if it can.
    unpriced
        Whether that is because no theorem of the composition prices it.
    """

    mechanism: Mechanism[F]
    quote: Quote | None = None
    promised: Bound | None = None
    assumed: Bound | None = None
    errors: Errors = ()
    share: Fraction | None = None
    refusal: Reason | None = None
    _forecast: Callable[[], Forecast | None] = _nothing
    _effort: Callable[[], Effort | None] = _nothing
    unpriced: bool = False

    @cached_property
    def forecast(self) -> Forecast | None:
        """How far off it is expected to be. Worked out when it is first asked for."""
        return self._forecast()

    @cached_property
    def effort(self) -> Effort | None:
        """What it is expected to take of a machine."""
        return self._effort()

    @property
    def cost(self) -> Cost:
        """What it would be charged, as a value of its own."""
        if self.quote is None:
            return Cost()
        return Cost(tuple((checked_copy(run), count) for run, count in self.quote.at_most.runs))

    @property
    def bound(self) -> Bound | None:
        """The better of what is promised and what is assumed."""
        if self.assumed is None or (
            self.promised is not None and self.promised.error <= self.assumed.error
        ):
            return self.promised
        return self.assumed


def in_order(below: Trial[F], above: Trial[F]) -> bool:
    """Whether one costs no more than another, and is nowhere less off."""
    return _cheaper(below, above, _no_less_off)


def _expected_in_order(below: Trial[F], above: Trial[F]) -> bool:
    """The same of what is expected."""
    return _cheaper(below, above, _expected_no_less_off)


def _cheaper(below: Trial[F], above: Trial[F], off: Callable[[Trial[F], Trial[F]], bool]) -> bool:
    """Whether one costs no more than another; if that fits, it must be as far `off`."""
    if above.share is None:
        return True
    return below.share is not None and below.share <= above.share and off(below, above)


def _no_less_off(below: Trial[F], above: Trial[F]) -> bool:
    return all(low >= high for low, high in zip(below.errors, above.errors, strict=True))


def _expected_no_less_off(below: Trial[F], above: Trial[F]) -> bool:
    low, high = below.forecast, above.forecast
    return low is not None and high is not None and low.high >= high.high


@frozen(eq=False)
class Trials(Generic[F]):
    """The trials of a family for a task, each made once.

    Parameters
    ----------
    task, family
        What is to be answered, and how.
    balance
        What may be spent on it.
    aims
        What counts as an error.
    """

    task: Task[Any, F]
    family: Family
    balance: Balance
    aims: Aims
    _known: dict[int, Trial[F] | None] = field(init=False, factory=dict[int, "Trial[Any] | None"])
    _estimates: list[LinearAccuracy] = field(init=False, factory=list[LinearAccuracy])

    @property
    def ladder(self) -> Ladder[Trial[F]]:
        """Those that can be run, from cheap and vague to dear and exact."""
        step = _SLOW_STEP if self.family.slow else 1
        return Ladder(
            lambda place: self._runnable(place * step), in_order, _LEAST // step, _MOST // step
        )

    @property
    def hopeful(self) -> Ladder[Trial[F]]:
        """The same, by what is expected instead of what is proven."""
        step = _SLOW_STEP if self.family.slow else 1
        return Ladder(
            lambda place: self._hopeful(place * step), _expected_in_order, _LEAST // step,
            _MOST // step,
        )  # fmt: skip

    def at(self, place: int) -> Trial[F] | None:
        """The trial of an amount; None where the family has no such mechanism."""
        if place not in self._known:
            make = self._paired if self._in_pairs else self.family.at
            self._known[place] = self._made(lambda: make(amount(place)))
        return self._known[place]

    @cached_property
    def _in_pairs(self) -> bool:
        """Whether amounts are pairs (ε, δ), as no theorem prices a ρ: in basic composition."""
        if self.family.unit != "rho" or not self.task.balance.budget.delta:
            return False
        given = self._made(lambda: self.family.at(amount(_MIDDLE)))
        if given is not None and given.unpriced:
            paired = self._made(lambda: self._paired(amount(_MIDDLE)))
            if paired is not None and not paired.unpriced:
                return True
        self._known[_MIDDLE] = given
        return False

    def _paired(self, epsilon: Fraction) -> Mechanism[Any]:
        """The mechanism that takes as much of the budget's ε as of its δ."""
        budget = self.task.balance.budget
        return self.family.within(Budget(epsilon, epsilon * budget.delta / budget.epsilon))

    def of(self, make: Callable[[], Mechanism[Any]]) -> Trial[F] | None:
        """The trial of a mechanism; None where it cannot be made."""
        return self._made(make)

    @property
    def some(self) -> Trial[F] | None:
        """One that was tried, to say why none can be run."""
        return next((one for one in self._known.values() if one is not None), None)

    def _runnable(self, place: int) -> Trial[F] | None:
        trial = self.at(place)
        return None if trial is None or trial.refusal is not None else trial

    def _hopeful(self, place: int) -> Trial[F] | None:
        trial = self._runnable(place)
        unknown = trial is None or (trial.share is not None and trial.forecast is None)
        return None if unknown else trial

    def _made(self, make: Callable[[], Mechanism[Any]]) -> Trial[F] | None:
        try:
            mechanism = make()
        except Exception:  # noqa: BLE001  # there is none, or a query of another author raised
            return None
        try:
            return self._quoted(mechanism)
        except UnsupportedGuarantee as error:
            return Trial(mechanism, refusal=reason("refused", why=str(error)), unpriced=True)
        except DpsdkError as error:
            return Trial(mechanism, refusal=reason("refused", why=str(error)))
        except Exception as error:  # noqa: BLE001  # a query of another author may raise anything
            why = f"asking what it would do failed by {described(type(error).__name__)}"
            return Trial(mechanism, refusal=reason("refused", why=why))

    def _quoted(self, mechanism: Mechanism[F]) -> Trial[F]:
        task = self.task
        if self.family.barred is not None:
            return Trial(mechanism, refusal=evolve(self.family.barred))
        quote = self.family.quote(mechanism, task)
        share = self.balance.share(quote.at_most.runs)
        if share is None:
            # How exact it would be is not asked: no two of such are told apart.
            return Trial(mechanism, quote)
        self._share(quote)
        promised, assumed = _holding(task.bound(quote)), task.assumed(quote)
        errors = self.aims(mechanism, quote, promised, assumed)
        trial = Trial(
            mechanism,
            quote,
            promised,
            assumed,
            errors,
            share,
            None,
            partial(_guarded, forecast, task, self.family, quote),
            partial(_guarded, effort, task, self.family, quote),
        )
        beyond = None if task.limits is None else beyond_limits(task.limits, trial.effort)
        return trial if beyond is None else evolve(trial, refusal=beyond)

    def _share(self, quote: Quote) -> None:
        """Have noise added up once for all amounts: only its size differs."""
        accuracy = quote.accuracy
        if isinstance(accuracy, LinearAccuracy):
            for first in self._estimates:
                accuracy.share(first)
            self._estimates[:] = self._estimates or [accuracy]


def _guarded(
    asked: Callable[[Task[Any, Any], Family, Quote], R | None],
    task: Task[Any, Any],
    family: Family,
    quote: Quote,
) -> R | None:
    """What is expected, if the query lets itself be asked."""
    try:
        return asked(task, family, quote)
    except Exception:  # noqa: BLE001  # a query of another author may raise anything
        return None


def _holding(bound: Bound) -> Bound | None:
    return bound if bound.proven and bound.error < math.inf else None


def beyond_limits(limits: Limits, needs: Effort | None) -> Reason | None:
    """Why something takes more of a machine than it may, if that is known."""
    if needs is None:
        return None
    if needs.seconds > limits.seconds:
        return reason("too-slow", seconds=f"{needs.seconds:.3g}", limit=f"{limits.seconds:.3g}")
    if needs.bytes > limits.bytes:
        return reason("too-large", bytes=f"{needs.bytes:,}", limit=f"{limits.bytes:,}")
    return None


def in_rows(quote: Quote) -> float:
    """How far off the raw numbers would be, in rows; infinite where nothing is known."""
    accuracy = quote.accuracy
    if not isinstance(accuracy, HalfWidths) or not accuracy.proven:
        return math.inf
    return float(np.max(accuracy.radii(0.05, joint=True), initial=0.0))
