"""Pictures of plans: what each would cost, and how far off it would be."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from dpsdk._checks import shown, to_beta
from dpsdk._records import frozen
from dpsdk.accounting.numbers import confidence
from dpsdk.accuracy import Bound
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.planner import Curve, Plan, Plans
from dpsdk.plots._inputs import canvas_for
from dpsdk.plots._text import format_bound, format_number, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpsdk.plots._canvas import Canvas

__all__ = ["plan"]

_PLANS = "the plans of session.plan(...), or one of them"

_SHOWN = 12
_STYLES = ("-", "--", "-.", ":")


@frozen
class _Mark:
    """One plan as it is drawn."""

    name: str
    share: float | None
    error: float | None
    assumed: float | None
    expected: tuple[float, float, float] | None
    vacuous: bool
    why: str
    feasible: bool

    @property
    def heights(self) -> list[float]:
        """The heights of its marks; its number stands at the last of them."""
        if self.share is None:
            return []
        median = [] if self.expected is None else [self.expected[0]]
        return median + [one for one in (self.error, self.assumed) if one is not None]

    def below(self, other: _Mark) -> bool:
        """Return whether another plan is drawn close above, where its number needs the room."""
        if not self.heights or not other.heights or not self.share or not other.share:
            return False
        near = self.share <= 2 * other.share and other.share <= 2 * self.share
        return near and self.heights[-1] < other.heights[-1] < 2 * self.heights[-1]


def _to_plans(x: object) -> tuple[Sequence[Plan[Form]], Curve, str]:
    """Read plans, their curve, and what they are for."""
    if isinstance(x, Plans):
        plans = cast("Plans[Form]", x)
        if not len(plans):
            raise InvalidArgument("x", _PLANS, "no plans")
        return plans.plans, plans.curve(), plans.question
    if isinstance(x, Plan):
        return (cast("Plan[Form]", x),), Curve(()), ""
    raise InvalidArgument("x", _PLANS, shown(x))


def _error(bound: Bound | None, beta: float) -> float | None:
    # A bound that fails less often than is asked for will do.
    if bound is None or bound.beta > beta or not math.isfinite(bound.error):
        return None
    return bound.error


def _mark(plan: Plan[Form], beta: float) -> _Mark:
    forecast, share = plan.expected, plan.share_of_remaining
    expected = None if forecast is None else (forecast.median, forecast.low, forecast.high)
    return _Mark(
        str(plan.mechanism),
        None if share is None else float(share),
        _error(plan.promised, beta),
        _error(plan.assumed, beta),
        expected if expected is not None and all(map(math.isfinite, expected)) else None,
        plan.promised is not None and plan.promised.vacuous,
        plan.because[0].code if plan.because else "",
        plan.feasible,
    )


def plan(x: Plans[Any] | Plan[Any], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """Plans at what they would cost and how far off they would be, and the curves of `curve()`.

    Parameters
    ----------
    x
        What `session.plan(...)` gave, or one of these plans.
    ax
        As for `marginal`; in these, plans have their names beside them, and no list below.
    beta
        Bounds that were planned for a larger one are left out, and the picture says so.
    """
    (plans, curve, question), beta = _to_plans(x), to_beta(beta)
    marks = [_mark(one, beta) for one in plans[:_SHOWN]]
    canvas = canvas_for(ax, 12)
    axes, colours = canvas.axes, canvas.colours
    betas = [one.promised.beta for one in plans if one.promised is not None]
    usable = max(betas, default=0.0) <= beta
    families: dict[str, list[tuple[float, float]]] = {}
    for point in curve.points if usable else ():
        families.setdefault(point.family, []).append((float(point.share), point.error))
    for style, (family, points) in zip(_STYLES, families.items(), strict=False):
        shares, errors = zip(*points, strict=True)
        axes.plot(
            shares,
            errors,
            style,
            color=colours.strong,
            linewidth=1.0,
            zorder=2,
            label=f"bound by {family}",
        )
    beside: dict[float | None, int] = {}
    places = [pair for points in families.values() for pair in points]
    for number, mark in enumerate(marks, 1):
        down = any(map(mark.below, marks))
        places += _draw_mark(canvas, number, mark, beside.get(mark.share, 0), down=down)
        beside[mark.share] = beside.get(mark.share, 0) + bool(mark.heights)
    _scale(canvas, places)
    canvas.numbers("x")
    canvas.numbers("y")
    canvas.name_axis("x", "share of what is left that it would take")
    canvas.name_axis("y", "largest error, in the unit of the answer")
    if canvas.own:
        canvas.legend(loc="best")
    lines = _describe(marks, len(plans), beta, usable=usable)
    words = " ".join(_in_words(number, mark) for number, mark in enumerate(marks, 1))
    title = f"Plans for {question}" if question else f"A plan: {marks[0].name}"
    items: list[str] = []
    for mark in marks:
        error = "no bound" if mark.error is None else f"± {format_bound(mark.error)}"
        why = "" if mark.feasible else f"not: {mark.why}. "
        items.append(f"{why}{canvas.printable(mark.name, 160)}, {error}")
    return canvas.finish(title, lines, words, private=True, items=items)


def _draw_mark(
    canvas: Canvas, number: int, mark: _Mark, before: int, *, down: bool
) -> list[tuple[float, float]]:
    """Draw one plan, beside those before of the same cost, and return the places it takes."""
    if mark.share is None:
        return []
    from matplotlib.transforms import offset_copy  # noqa: PLC0415  # an extra

    colours, share = canvas.colours, mark.share
    moved = offset_copy(canvas.axes.transData, canvas.figure, x=22 * before, units="points")
    heights = mark.heights
    if mark.expected is not None:
        median, low, high = mark.expected
        heights = [low, high, *heights]
        canvas.axes.plot(
            [share] * 2, [low, high], color=colours.weak, linewidth=6, zorder=1, transform=moved
        )
        line = canvas.axes.plot([share], [median], "_", transform=moved, color=colours.ink)
        line[0].set(markersize=10, markeredgewidth=2, zorder=5)
    for error, shape in ((mark.error, "o"), (mark.assumed, "v")):
        if error is not None:
            hollow = mark.vacuous or shape == "v"
            canvas.axes.plot(
                [share],
                [error],
                shape,
                markersize=7,
                markerfacecolor="none" if hollow else colours.strong,
                markeredgecolor=colours.strong,
                transform=moved,
                zorder=4,
            )
    if heights:
        name = str(number) if canvas.own else canvas.printable(mark.name.partition("(")[0], 20)
        canvas.axes.annotate(
            name,
            (share, heights[-1]),
            xytext=(22 * before + 6, -9 if down else 4),
            textcoords="offset points",
            fontsize=0.85 * canvas.size,
            zorder=5,
            **canvas.text,
        )
    return [(share, height) for height in heights]


def _scale(canvas: Canvas, places: Sequence[tuple[float, float]]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415  # an extra

    for axis, name in enumerate("xy"):
        numbers = [pair[axis] for pair in places]
        low, high = min(numbers, default=0.0), max(numbers, default=0.0)
        if low > 1e-300 and high < 1e300:
            room = 1.6 if high > 10 * low else 3.2
            canvas.axes.set(**{f"{name}scale": "log", f"{name}lim": (low / room, high * room)})
            line = canvas.axes.xaxis if name == "x" else canvas.axes.yaxis
            if high < 30 * low:
                line.set_major_locator(LogLocator(subs=(1, 2, 5)))
            line.set_minor_formatter(NullFormatter())
    canvas.axes.minorticks_off()


def _describe(marks: Sequence[_Mark], count: int, beta: float, *, usable: bool) -> list[str]:
    sure = f"with probability {confidence(beta)} (β = {beta:g}, for all entries at once)"
    lines = [f"Filled marks are bounds that hold {sure}, proven or promised."]
    if not usable:
        lines.append("Bounds that were planned for a larger β are left out.")
    if any(mark.vacuous for mark in marks):
        lines.append("Hollow: vacuous, no more than the range of possible answers.")
    if any(mark.assumed is not None for mark in marks):
        lines.append("Triangles: if what was assumed is true.")
    if any(mark.expected is not None for mark in marks):
        lines.append("Broad: where nine in ten are expected, with their median; no bound.")
    out = [str(number) for number, mark in enumerate(marks, 1) if not mark.heights]
    if out:
        lines.append(f"Without a place: {', '.join(out)}.")
    if count > len(marks):
        lines.append(f"{count - len(marks):,} more plans are not shown.")
    shares = [mark.share for mark in marks if mark.heights]
    if len(set(shares)) < len(shares):
        lines.append("Plans of one cost are drawn side by side.")
    return [*lines, "Planning has cost nothing."]


def _in_words(number: int, mark: _Mark) -> str:
    parts = [f"{number}: {printable(mark.name, 90)}"]
    if mark.share is not None:
        parts.append(f"{100 * mark.share:.4g}% of what is left")
    if mark.error is not None:
        parts.append(f"bound {format_bound(mark.error)}{' (vacuous)' if mark.vacuous else ''}")
    if mark.assumed is not None:
        parts.append(f"bound if so {format_bound(mark.assumed)}")
    if mark.expected is not None:
        parts.append("expected {} ({} to {})".format(*map(format_number, mark.expected)))
    if not mark.feasible:
        parts.append(f"not to be taken, {mark.why}")
    return ", ".join(parts) + "."
