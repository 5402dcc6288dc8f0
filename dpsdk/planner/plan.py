"""Plans: a mechanism, what it would cost, how far off it would be, and why it is proposed."""

from __future__ import annotations

from fractions import Fraction
from typing import Generic, Literal, TypeAlias, TypeVar

from dpsdk._html import page, pairs, table
from dpsdk._records import field, frozen
from dpsdk.accuracy import BOUND, Bound
from dpsdk.codec import (
    AMOUNT,
    FLAG,
    FLOAT,
    GROUPS,
    NATURAL,
    TEXT,
    Choice,
    ListOf,
    Nested,
    OrNone,
    written,
)
from dpsdk.forms import Form
from dpsdk.mechanisms.base import MECHANISM, Mechanism
from dpsdk.release import Cost
from dpsdk.release.release import REASONS, Reason

__all__ = ["Basis", "Forecast", "Plan"]

F_contra = TypeVar("F_contra", bound=Form, contravariant=True)


Basis: TypeAlias = Literal["noise", "calibrated", "extrapolated"]
"""On what a forecast rests.

"noise" is the exact law of the noise; "calibrated" is the table of measured errors;
"extrapolated" is the same outside of what was measured.
"""


def _wrong_forecast(forecast: Forecast) -> str:
    sound = 0 <= forecast.low <= forecast.median <= forecast.high
    return "" if sound else "a median between a low and a high end that are at least 0"


@written(
    "forecast",
    {
        "median": FLOAT,
        "low": FLOAT,
        "high": FLOAT,
        "basis": Choice[Basis]("noise", "calibrated", "extrapolated"),
    },
    wrong=_wrong_forecast,
)
@frozen
class Forecast:
    """How far off the worst entry of an answer is expected to be: no bound.

    Half of such answers are expected to be closer than `median`, and nine in ten between `low` and
    `high`; `basis` says on what that rests.
    """

    median: float
    low: float
    high: float
    basis: Basis


def _wrong_plan(plan: Plan[Form]) -> str:
    share = plan.share_of_remaining
    if share is not None and share > 1:
        return "a share of what is left of at most 1"
    sound = all(one is None or one >= 0 for one in (plan.seconds, plan.attainable))
    return "" if sound else "seconds and an error of at least 0"


PLAN = Nested["Plan[Form]"]("a plan", "plan")
_MAYBE_BOUND = OrNone(BOUND)


@written(
    "plan",
    {
        "mechanism": MECHANISM,
        "cost": Nested[Cost]("a cost", Cost),
        "share_of_remaining": OrNone(AMOUNT),
        "promised": _MAYBE_BOUND,
        "assumed": _MAYBE_BOUND,
        "expected": OrNone(Nested[Forecast]("a forecast", Forecast)),
        "seconds": OrNone(FLOAT),
        "bytes": OrNone(NATURAL),
        "feasible": FLAG,
        "because": REASONS,
        "assumes": ListOf(TEXT),
        "free_afterwards": TEXT,
        "attainable": OrNone(FLOAT),
        "parts": ListOf(PLAN),
    },
    wrong=_wrong_plan,
)
@frozen(repr=False)
class Plan(Generic[F_contra]):
    """One way to answer, judged from public facts alone.

    What is proven, what is forecast and what is assumed stand in three fields.

    Parameters
    ----------
    mechanism
        What would answer; `using=plan` means it.
    cost
        What would be charged in all.
    share_of_remaining
        The share of what is left that it would take; None if it does not fit.
    promised
        The bound that would hold, None where none is proven or promised.
    assumed
        The bound that would hold if what `assumes` says is true; None where that adds nothing.
    expected
        How far off the worst entry is expected to be; None where nothing is known.
    seconds, bytes
        What it would take of a machine; None where nothing is known.
    feasible
        Whether it does what was asked for, and may be run.
    because
        Why it is proposed, or why not.
    assumes
        What was believed and not known, in words.
    free_afterwards
        What is answered for nothing once it was paid, in words; empty where nothing is.
    attainable
        The error that can be had from it for all that may be spent; None where nothing is known,
        and where an error was asked for that it promises.
    parts
        Of a plan for several goals, where each has its own: the plan of each, in the order of the
        parts of its mechanism, which does not depend on that of the goals.
    """

    mechanism: Mechanism[F_contra]
    cost: Cost
    share_of_remaining: Fraction | None
    promised: Bound | None
    assumed: Bound | None
    expected: Forecast | None
    seconds: float | None
    bytes: int | None
    feasible: bool
    because: tuple[Reason, ...]
    assumes: tuple[str, ...] = ()
    free_afterwards: str = ""
    attainable: float | None = None
    parts: tuple[Plan[Form], ...] = field(default=())

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        told: list[tuple[str, object]] = [("cost", self.cost)]
        if self.share_of_remaining is not None:
            told.append(("of what is left", f"{float(self.share_of_remaining):.3%}"))
        promised = self.promised
        told.append(("promised", "no bound" if promised is None else f"± {promised.words}"))
        if self.assumed is not None:
            told.append((f"if {' and '.join(self.assumes)}", f"± {self.assumed.words}"))
        expected = self.expected
        if expected is not None:
            between = f"nine in ten between {expected.low:.4g} and {expected.high:.4g}"
            told.append(("expected", f"{expected.median:.4g}, {between} ({expected.basis})"))
        if self.seconds is not None:
            told.append(("seconds", f"{self.seconds:.2g}"))
        if self.bytes is not None:
            told.append(("bytes", f"{self.bytes:,}"))
        if self.free_afterwards:
            told.append(("free afterwards", self.free_afterwards))
        told += [(one.code, one.text) for one in self.because]
        mark = "" if self.feasible else ", which may not be run"
        rows = ((one.mechanism, one.cost) for one in self.parts)
        parts = table(["part", "cost"], rows, len(self.parts)) if self.parts else ""
        return page(f"Plan of {self.mechanism}{mark}", pairs(told), parts)

    def __repr__(self) -> str:
        error = "no bound" if self.promised is None else f"± {self.promised.words}"
        return f"Plan({self.mechanism}, {self.cost}, {error})"


GROUPS["plan"] = Plan
