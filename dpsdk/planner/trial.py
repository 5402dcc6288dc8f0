"""Trials: one mechanism quoted for a task, and what the quote says of errors and of costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from dpsdk._checks import described
from dpsdk._records import field, frozen
from dpsdk.accounting import Budget
from dpsdk.accounting.balance import Balance
from dpsdk.accuracy import Bound, HalfWidths
from dpsdk.errors import DpsdkError, UnsupportedGuarantee
from dpsdk.forms import Form
from dpsdk.kernel.access import unbounded
from dpsdk.mechanisms import Mechanism
from dpsdk.mechanisms.linear_accuracy import LinearAccuracy
from dpsdk.planner.expected import Effort, effort, forecast
from dpsdk.planner.family import Family
from dpsdk.planner.plan import Forecast
from dpsdk.planner.reasons import reason
from dpsdk.planner.search import A_DECADE, OrderedSearch, amount
from dpsdk.planner.task import Task
from dpsdk.release import Cost, Quote
from dpsdk.release.release import Reason

if TYPE_CHECKING:
    from dpsdk.kernel import Limits

__all__ = [
    "Aims",
    "Errors",
    "Trial",
    "Trials",
    "beyond_limits",
    "error_in_rows",
    "error_of",
    "in_order",
]

F = TypeVar("F", bound=Form)

_LEAST = -9 * A_DECADE
_MOST = 4 * A_DECADE
"""The places of the smallest and the largest amount, of 10⁻⁹ and of 10⁴."""

_MIDDLE = (_LEAST + _MOST) // 2
"""The place that every search looks at first, and where it shows whether a ρ has a price."""

_SLOW_STEP = A_DECADE // 4
"""The distance of places that are tried where quotes take long."""

Errors: TypeAlias = tuple[float, ...]
"""How far off each goal would be, infinite where that says nothing."""

Aims: TypeAlias = Callable[[Mechanism[Any], Quote, bool], Errors]
"""Makes errors of a mechanism and its quote, if wanted under assumptions."""


def _least_error(promised: Bound | None, assumed: Bound | None) -> float:
    """Return the better of two bounds, infinite where none says more than the span."""
    bounds = [bound for bound in (promised, assumed) if bound is not None and not bound.vacuous]
    return min((bound.error for bound in bounds), default=math.inf)


def error_of(task: Task[Any, Any], quote: Quote, assuming: bool) -> float:  # noqa: FBT001  # as aims
    """Return the error of one question, infinite where nothing says more than the span."""
    bound = task.bound(quote)
    return _least_error(bound if bound.proven else None, task.assumed(quote) if assuming else None)


@frozen(eq=False)
class Trial(Generic[F]):
    """A mechanism, and what it would do.

    `promised` and `assumed` are bounds in the unit of the answer; `errors` says how far off each
    goal would be by the better of them. `share` is what it takes of what may be spent, None if it
    does not fit, and then nothing is said of errors. `refusal` says why it cannot be run at all,
    `unpriced` if that is because no theorem of the composition prices it.
    """

    mechanism: Mechanism[F]
    quote: Quote | None = None
    promised: Bound | None = None
    assumed: Bound | None = None
    errors: Errors = ()
    share: Fraction | None = None
    refusal: Reason | None = None
    unpriced: bool = False
    effort: Effort | None = None
    _forecast: Callable[[], Forecast | None] = field(default=lambda: None, alias="forecast")

    @cached_property
    def forecast(self) -> Forecast | None:
        """How far off it is expected to be. Worked out when it is first asked for."""
        return self._forecast()

    @property
    def cost(self) -> Cost:
        """The charge it would have."""
        return Cost() if self.quote is None else self.quote.at_most

    @property
    def bound(self) -> Bound | None:
        """The better of what is promised and what is assumed."""
        if self.assumed is None or (
            self.promised is not None and self.promised.error <= self.assumed.error
        ):
            return self.promised
        return self.assumed


def in_order(below: Trial[F], above: Trial[F]) -> bool:
    """Return whether one trial costs no more than another, and is nowhere less off."""
    if above.share is None:
        return True
    if below.share is None or below.share > above.share:
        return False
    return all(low >= high for low, high in zip(below.errors, above.errors, strict=True))


def _expected_in_order(below: Trial[F], above: Trial[F]) -> bool:
    """Return the same of what is expected."""
    if above.share is None:
        return True
    low, high = below.forecast, above.forecast
    cheaper = below.share is not None and below.share <= above.share
    return cheaper and low is not None and high is not None and low.high >= high.high


@frozen(eq=False)
class Trials(Generic[F]):
    """The trials of a family for a task, each made once.

    `balance` is what may be spent on it, and `aims` what counts as an error: that of the answer, if
    left out.
    """

    task: Task[Any, F]
    family: Family
    balance: Balance
    aims: Aims | None = None
    _known: dict[int, Trial[F] | None] = field(init=False, factory=dict[int, "Trial[Any] | None"])
    _estimates: list[LinearAccuracy] = field(init=False, factory=list[LinearAccuracy])

    @property
    def by_bound(self) -> OrderedSearch[Trial[F]]:
        """The trials that can be run, from cheap to expensive by their proven errors."""
        return self._search(self._runnable, in_order)

    @property
    def by_forecast(self) -> OrderedSearch[Trial[F]]:
        """The same by what is expected."""
        return self._search(self._forecast_at, _expected_in_order)

    def _search(
        self,
        trial: Callable[[int], Trial[F] | None],
        ordered: Callable[[Trial[F], Trial[F]], bool],
    ) -> OrderedSearch[Trial[F]]:
        step = _SLOW_STEP if self.family.slow else 1
        low, high = _LEAST // step, _MOST // step
        return OrderedSearch(lambda place: trial(place * step), ordered, low, high)

    def at(self, place: int) -> Trial[F] | None:
        """Return the trial of an amount; None where the family has no such mechanism."""
        if place not in self._known:
            make = self._paired if self._in_pairs else self.family.at
            self._known[place] = self.of(lambda: make(amount(place)))
        return self._known[place]

    @cached_property
    def _in_pairs(self) -> bool:
        """True if amounts are pairs (ε, δ), as no theorem prices a ρ: in basic composition."""
        if self.family.unit != "rho" or not self.task.balance.budget.delta:
            return False
        given = self.of(lambda: self.family.at(amount(_MIDDLE)))
        if given is not None and given.unpriced:
            paired = self.of(lambda: self._paired(amount(_MIDDLE)))
            if paired is not None and not paired.unpriced:
                return True
        self._known[_MIDDLE] = given
        return False

    def _paired(self, epsilon: Fraction) -> Mechanism[Any]:
        """Make the mechanism that takes as much of the budget's ε as of its δ."""
        budget = self.task.balance.budget
        return self.family.within(Budget(epsilon, epsilon * budget.delta / budget.epsilon))

    @property
    def some(self) -> Trial[F] | None:
        """A trial that was made, to say why none can be run."""
        return next((one for one in self._known.values() if one is not None), None)

    def _runnable(self, place: int) -> Trial[F] | None:
        trial = self.at(place)
        return None if trial is None or trial.refusal is not None else trial

    def _forecast_at(self, place: int) -> Trial[F] | None:
        trial = self._runnable(place)
        unknown = trial is None or (trial.share is not None and trial.forecast is None)
        return None if unknown else trial

    def of(self, make: Callable[[], Mechanism[Any]]) -> Trial[F] | None:
        """Return the trial of a mechanism; None where it cannot be made."""
        try:
            mechanism = make()
        except Exception:  # noqa: BLE001  # there is none, or a query of another author raised
            return None
        try:
            return self._quoted(mechanism)
        except DpsdkError as error:
            unpriced = isinstance(error, UnsupportedGuarantee)
            return Trial(mechanism, refusal=reason("refused", why=str(error)), unpriced=unpriced)
        except Exception as error:  # noqa: BLE001  # a query of another author may raise anything
            why = f"asking what it would do failed by {described(type(error).__name__)}"
            return Trial(mechanism, refusal=reason("refused", why=why))

    def _quoted(self, mechanism: Mechanism[F]) -> Trial[F]:
        task, family = self.task, self.family
        if family.barred is not None:
            return Trial(mechanism, refusal=family.barred)
        quote = family.quote(mechanism, task)
        if unbounded(task.facts, quote.at_most.runs):
            return Trial(mechanism, refusal=reason("all-of-time"))
        share = self.balance.share(quote.at_most.runs)
        if share is None:
            # How exact it would be is not asked: no two of such are told apart.
            return Trial(mechanism, quote)
        self._share_noise(quote)
        bound, assumed, needs = task.bound(quote), task.assumed(quote), effort(task, family)
        promised = bound if bound.proven and bound.error < math.inf else None
        return Trial(
            mechanism,
            quote,
            promised,
            assumed,
            self.errors(mechanism, quote, promised, assumed),
            share,
            None if task.limits is None else beyond_limits(task.limits, needs),
            effort=needs,
            forecast=partial(_forecast, task, family, quote),
        )

    def errors(
        self, mechanism: Mechanism[F], quote: Quote, promised: Bound | None, assumed: Bound | None
    ) -> Errors:
        """Return how far off each goal would be, given the bounds of all of it."""
        if self.aims is None:
            return (_least_error(promised, assumed),)
        return self.aims(mechanism, quote, assumed is not None)

    def _share_noise(self, quote: Quote) -> None:
        """Have noise added up once for all amounts: only its size differs."""
        accuracy = quote.accuracy
        if isinstance(accuracy, LinearAccuracy):
            for first in self._estimates:
                accuracy.share(first)
            self._estimates[:] = self._estimates or [accuracy]


def _forecast(task: Task[Any, Any], family: Family, quote: Quote) -> Forecast | None:
    try:
        return forecast(task, family, quote)
    except Exception:  # noqa: BLE001  # a query of another author may raise anything
        return None


def beyond_limits(limits: Limits, needs: Effort | None) -> Reason | None:
    """Return why something takes more of a machine than it may, if that is known."""
    if needs is None:
        return None
    if needs.seconds > limits.seconds:
        return reason("too-slow", seconds=f"{needs.seconds:.3g}", limit=f"{limits.seconds:.3g}")
    if needs.bytes > limits.bytes:
        return reason("too-large", bytes=f"{needs.bytes:,}", limit=f"{limits.bytes:,}")
    return None


def error_in_rows(quote: Quote) -> float:
    """Return how far off the raw numbers would be, in rows; infinite where nothing is known."""
    accuracy = quote.accuracy
    if not isinstance(accuracy, HalfWidths) or not accuracy.proven:
        return math.inf
    return float(np.max(accuracy.radii(0.05, joint=True), initial=0.0))
