"""Pictures of plans: what each would cost, and how far off it would be."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import offset_copy

from dpsdk.accounting.numbers.display import confidence
from dpsdk.accuracy import Bound
from dpsdk.forms import Form
from dpsdk.planner.curve import Curve
from dpsdk.planner.plan import Plan
from dpsdk.plots._canvas import Canvas
from dpsdk.plots.texts import above, listed, number, spelled

__all__ = ["draw_plans"]

_SHOWN = 12
_STYLES = ("-", "--", "-.", ":")


@frozen
class Placed:
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
    def drawn(self) -> bool:
        """Whether it has a place in the picture."""
        known = self.error is not None or self.assumed is not None or self.expected is not None
        return self.share is not None and known

    @property
    def height(self) -> float | None:
        """Where its number is written: at the last of its marks."""
        median = None if self.expected is None else self.expected[0]
        known = [one for one in (median, self.error, self.assumed) if one is not None]
        return known[-1] if known else None

    def below(self, other: Placed) -> bool:
        """Whether another plan is drawn close above, so that its number needs the room there."""
        if self.share is None or other.share is None or self.height is None or other.height is None:
            return False
        near = self.share <= 2 * other.share and other.share <= 2 * self.share
        return near and self.height < other.height < 2 * self.height


def _within(bound: Bound | None, beta: float) -> float | None:
    # A bound that fails less often than is asked for will do.
    known = bound is not None and bound.beta <= beta and math.isfinite(bound.error)
    return bound.error if bound is not None and known else None


def _placed(plan: Plan[Form], beta: float) -> Placed:
    forecast = plan.expected
    expected = None if forecast is None else (forecast.median, forecast.low, forecast.high)
    share = plan.share_of_remaining
    return Placed(
        str(plan.mechanism),
        None if share is None else float(share),
        _within(plan.promised, beta),
        _within(plan.assumed, beta),
        None if expected is None or not all(map(math.isfinite, expected)) else expected,
        plan.promised is not None and plan.promised.vacuous,
        plan.because[0].code if plan.because else "",
        plan.feasible,
    )


def draw_plans(
    plans: Sequence[Plan[Form]], curve: Curve, question: str, ax: Axes | None, beta: float
) -> Figure:
    """Plans at their cost and their error, numbered, and the curves of the best families."""
    placed = [_placed(plan, beta) for plan in plans[:_SHOWN]]
    canvas = Canvas(ax, 12 + 0.75 * len(placed) if ax is None else 0)
    axes, colours = canvas.axes, canvas.colours
    betas = {plan.promised.beta for plan in plans if plan.promised is not None}
    usable = not betas or max(betas) <= beta
    families: dict[str, list[tuple[float, float]]] = {}
    for point in curve.points if usable else ():
        families.setdefault(point.family, []).append((float(point.share), point.error))
    for style, (family, points) in zip(_STYLES, families.items(), strict=False):
        x, y = zip(*points, strict=True)
        drawn = axes.plot(x, y, style, color=colours.strong, linewidth=1.0, zorder=2)
        drawn[0].set_label(f"bound by {family}")
    beside: dict[float | None, int] = {}
    numbers: list[list[tuple[float, float]]] = []
    for place, one in enumerate(placed, 1):
        down = any(map(one.below, placed))
        numbers.append(_mark(canvas, place, one, beside.get(one.share, 0), down=down))
        beside[one.share] = beside.get(one.share, 0) + one.drawn
    places = [pair for points in families.values() for pair in points]
    places += [pair for pairs in numbers for pair in pairs]
    _scale(canvas, places)
    canvas.numbers("x")
    canvas.numbers("y")
    canvas.title("x", "share of what is left that it would take")
    canvas.title("y", "largest error, in the unit of the answer")
    _keys(canvas, placed)
    lines = _lines(placed, len(plans), beta, usable=usable)
    words = " ".join(_in_words(place, one) for place, one in enumerate(placed, 1))
    title = f"Plans for {question}" if question else f"A plan: {placed[0].name}"
    return canvas.finish(title, lines, words, private=True)


def _mark(
    canvas: Canvas, place: int, one: Placed, before: int, *, down: bool
) -> list[tuple[float, float]]:
    """Draw one plan, beside those before of the same cost; give the places that it takes."""
    if one.share is None:
        return []
    taken: list[tuple[float, float]] = []
    colours = canvas.colours
    data = canvas.axes.transData
    moved = offset_copy(data, canvas.figure, x=22 * before, units="points")
    if one.expected is not None:
        median, low, high = one.expected
        canvas.axes.plot(
            [one.share] * 2, [low, high], color=colours.weak, linewidth=6, zorder=1, transform=moved
        )
        middle = canvas.axes.plot([one.share], [median], "_", transform=moved, color=colours.ink)
        middle[0].set(markersize=10, markeredgewidth=2, zorder=5)
        taken += [(one.share, low), (one.share, high), (one.share, median)]
    for error, mark in ((one.error, "o"), (one.assumed, "v")):
        if error is not None:
            hollow = one.vacuous or mark == "v"
            canvas.axes.plot(
                [one.share],
                [error],
                mark,
                markersize=7,
                markerfacecolor="none" if hollow else colours.strong,
                markeredgecolor=colours.strong,
                transform=moved,
                zorder=4,
            )
            taken.append((one.share, error))
    if taken:
        note = canvas.axes.annotate(
            str(place) if canvas.own else canvas.spelled(one.name.partition("(")[0], 20),
            taken[-1],
            xytext=(22 * before + 6, -9 if down else 4),
            textcoords="offset points",
            fontsize=0.85 * canvas.size,
            **canvas.text,
        )
        note.set_zorder(5)
    return taken


def _scale(canvas: Canvas, places: Sequence[tuple[float, float]]) -> None:
    for axis, set_scale, set_limits in (
        (0, canvas.axes.set_xscale, canvas.axes.set_xlim),
        (1, canvas.axes.set_yscale, canvas.axes.set_ylim),
    ):
        numbers = [pair[axis] for pair in places]
        if not numbers:
            continue
        low, high = min(numbers), max(numbers)
        if low > 0 and high < 1e300 and low > 1e-300:
            set_scale("log")
            room = 1.6 if high > 10 * low else 3.2
            set_limits(low / room, high * room)
            line = canvas.axes.xaxis if axis == 0 else canvas.axes.yaxis
            if high < 30 * low:
                line.set_major_locator(LogLocator(subs=(1, 2, 5)))
            line.set_minor_formatter(NullFormatter())
    canvas.axes.minorticks_off()


def _keys(canvas: Canvas, placed: Sequence[Placed]) -> None:
    """The names of the numbered plans, below the picture."""
    if not canvas.own:
        return
    texts: list[str] = []
    for one in placed:
        error = "no bound" if one.error is None else f"± {above(one.error)}"
        mark = "" if one.feasible else f"not: {one.why}. "
        # The name is cut, if need be, and not what is known of the plan.
        texts.append(f"{mark}{canvas.spelled(one.name, 160)}, {error}")
    canvas.numbered(texts)
    handles, names = canvas.axes.get_legend_handles_labels()
    if handles:
        legend = canvas.axes.legend(handles, names, frameon=False, loc="best")
        for text in legend.get_texts():
            text.set(**canvas.text)


def _lines(placed: Sequence[Placed], count: int, beta: float, *, usable: bool) -> list[str]:
    sure = f"with probability {confidence(beta)} (β = {beta:g}, for all entries at once)"
    lines = [f"Filled marks are bounds that hold {sure}, proven or promised."]
    if not usable:
        lines.append("Bounds that were planned for a larger β are left out.")
    if any(one.vacuous for one in placed):
        lines.append("Hollow: vacuous, no more than the range of possible answers.")
    if any(one.assumed is not None for one in placed):
        lines.append("Triangles: if what was assumed is true.")
    if any(one.expected is not None for one in placed):
        lines.append("Broad: where nine in ten are expected, with their median; no bound.")
    out: list[int] = [place for place, one in enumerate(placed, 1) if not one.drawn]
    if out:
        lines.append(f"Without a place: {', '.join([str(place) for place in out])}.")
    if count > len(placed):
        lines.append(f"{count - len(placed):,} more plans are not shown.")
    shares = [one.share for one in placed if one.drawn]
    if len(set(shares)) < len(shares):
        lines.append("Plans of one cost are drawn side by side.")
    lines.append("Planning has cost nothing.")
    return lines


def _in_words(place: int, one: Placed) -> str:
    parts = [f"{place}: {spelled(one.name, 90)}"]
    if one.share is not None:
        parts.append(f"{100 * one.share:.4g}% of what is left")
    if one.error is not None:
        parts.append(f"bound {above(one.error)}{' (vacuous)' if one.vacuous else ''}")
    if one.assumed is not None:
        parts.append(f"bound if so {above(one.assumed)}")
    if one.expected is not None:
        parts.append("expected {} ({} to {})".format(*map(number, one.expected)))
    if not one.feasible:
        parts.append(f"not to be taken, {one.why}")
    return listed([", ".join(parts)], 1) + "."
