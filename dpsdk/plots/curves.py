"""Pictures along a line: the shares below thresholds, and what was answered over time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpsdk._checks import shown, to_beta
from dpsdk.accounting.numbers import as_text, confidence
from dpsdk.errors import InvalidArgument
from dpsdk.plots._inputs import canvas_for, session_facts, to_items
from dpsdk.plots._text import (
    Entries,
    describe_bounds,
    describe_entries,
    describe_release,
    entries_of,
    format_count,
    printable,
)
from dpsdk.plots.tables import thinned
from dpsdk.queries.monotone import ranked
from dpsdk.queries.threshold import Threshold
from dpsdk.queries.workload import Answers, Workload
from dpsdk.release import Cost, Release
from dpsdk.session import Session
from dpsdk.session.history import Receipt
from dpsdk.typing import Bools, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpsdk.plots._canvas import Canvas

__all__ = ["cdf", "stream"]

_STREAMS = (
    "a session, its history, or releases of one number or truth value each, in the order of asking"
)


def _to_thresholds(x: object) -> tuple[Release[Answers[float]], tuple[Threshold, ...], list[int]]:
    """Read a release of thresholds of one attribute: it, them, and the cells below each."""
    expected = "a release of a workload of thresholds of one attribute, in one unit"
    if not isinstance(x, Release):
        raise InvalidArgument("x", expected, shown(x))
    release = cast("Release[object]", x)
    asked = release.asked
    if not isinstance(asked, Workload) or not isinstance(release.value, Answers):
        raise InvalidArgument("x", expected, f"a release of {shown(release.value)}")
    queries = cast("Workload[object]", asked).queries
    # Shares of other classes, also of their subclasses, may fall.
    thresholds = tuple([query for query in queries if type(query) is Threshold])
    if len(thresholds) < len(queries):
        other = next(query for query in queries if type(query) is not Threshold)
        raise InvalidArgument("x", expected, f"one with {shown(other)}")
    for query in thresholds:
        if query.known:
            raise InvalidArgument("x", f"{expected}, of all rows", shown(query))
    known = ranked(thresholds, release.facts.domain)
    if known is None:
        raise InvalidArgument("x", expected, "conditions of another class")
    chains, ranks = known
    for chain, query in zip(chains, thresholds, strict=True):
        if chain != chains[0] or query.normalized != thresholds[0].normalized:
            raise InvalidArgument("x", expected, f"{shown(thresholds[0])} and {shown(query)}")
    return cast("Release[Answers[float]]", x), thresholds, ranks.tolist()


def _numbers(answers: Answers[float]) -> Floats:
    return answers.values


def _single(value: float) -> Floats:
    return np.array([float(value)])


def _position(threshold: float | date, *, hours: bool) -> float:
    if isinstance(threshold, datetime):
        midnight = datetime.combine(threshold.date(), datetime.min.time())
        return threshold.date().toordinal() + (threshold - midnight).seconds / 86_400
    if isinstance(threshold, date):
        # Among hours, a day lies below its last one.
        return float(threshold.toordinal() + hours)
    return float(threshold)


def cdf(x: Release[Answers[float]], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """How many rows lie at or below each of some thresholds.

    Where all bars hold at once, what follows between two thresholds is shaded: the truth is there
    no lower than at the one before, and no higher than at the next.

    Parameters
    ----------
    x
        A release of a workload of `Threshold` queries of one attribute, in any order.
    ax, beta
        As for `marginal`.
    """
    (release, thresholds, ranks), fails = _to_thresholds(x), to_beta(beta)
    ends = [query.threshold for query in thresholds]
    hours = any(isinstance(end, datetime) for end in ends)
    positions = [_position(end, hours=hours) for end in ends]
    # What lies between two thresholds follows from which of them has more cells below it.
    order = sorted(range(len(ends)), key=lambda place: (ranks[place], positions[place]))
    entries = entries_of(release, fails, _numbers).ordered(order)
    places = np.array([positions[place] for place in order])
    canvas = canvas_for(ax)
    axes, colours = canvas.axes, canvas.colours
    few, shares = len(places) <= 60, thresholds[0].normalized
    width = 1.8 if few else max(0.4, 60 / len(places))
    canvas.bars(places, entries, upright=True, width=width, beside=1.0 if shares else 0.0)
    lines = describe_release(release, entries, fails)
    if entries.joint and len(places) > 1:
        _shade_between(canvas, places, entries)
        lines.insert(1, "Shaded: between thresholds, since no share falls as its threshold rises.")
    told = np.isfinite(entries.values)
    axes.plot(
        places[told],
        entries.values[told],
        "o-" if few else "-",
        markersize=4,
        linewidth=1.0 if few else 1.4,
        color=colours.strong,
        zorder=4,
        label="value",
    )
    if shares:
        axes.axhline(1, color=colours.ink, linewidth=0.7, linestyle=":", zorder=2)
    axes.axhline(0, color=colours.ink, linewidth=0.7, zorder=2)
    canvas.numbers("y")
    canvas.name_axis("x", thresholds[0].attribute)
    canvas.name_axis("y", "share of rows at or below" if shares else "rows at or below")
    names = [printable(str(ends[place]), 28) for place in order]
    if any(isinstance(end, date) for end in ends):
        some = thinned(len(places))[::2]
        canvas.ticks("x", [places[place] for place in some], [names[place] for place in some])
    else:
        canvas.numbers("x")
    where = "" if thresholds[0].where is None else f", where {thresholds[0].where!r}"
    count = format_count(len(places), "threshold")
    title = f"{release.query}: {thresholds[0].attribute} at or below {count}{where}"
    words = describe_entries([f"at or below {name}" for name in names], entries)
    return canvas.finish(title, lines, words, private=release.private)


def _shade_between(canvas: Canvas, places: Floats, entries: Entries) -> None:
    """Shade where the truth lies between two thresholds, since it does not fall."""
    low, high = canvas.axes.get_ylim()
    lower = np.where(np.isinf(entries.low), low, entries.low)
    upper = np.where(np.isinf(entries.high), high, entries.high)
    canvas.axes.fill_between(
        np.repeat(places, 2)[1:-1],
        np.repeat(lower[:-1], 2),
        np.repeat(upper[1:], 2),
        color=canvas.colours.weak,
        linewidth=0,
        alpha=0.6,
        zorder=1,
        label="between thresholds",
    )


def _to_receipts(x: object) -> list[Receipt] | None:
    """Read the receipts of a history; None if it is none."""
    if isinstance(x, Session):
        history = list(x.history)
        if not history:
            raise InvalidArgument("x", _STREAMS, "a session that was asked nothing")
        return history
    items = to_items(x, _STREAMS)
    receipts = [item for item in items if isinstance(item, Receipt)]
    if receipts and len(receipts) < len(items):
        raise InvalidArgument("x", _STREAMS, "receipts among other things")
    return receipts or None


def _to_releases(x: object) -> list[Release[float]]:
    """Read releases of one number each."""
    items = to_items(x, _STREAMS)
    for item in items:
        if not isinstance(item, Release):
            raise InvalidArgument("x", _STREAMS, f"some with {shown(item)}")
        value: object = cast("Release[object]", item).value
        if not isinstance(value, int | float):
            raise InvalidArgument("x", _STREAMS, f"a release of {shown(value)}")
    return cast("list[Release[float]]", items)


def stream(
    x: Session | Sequence[Receipt] | Sequence[Release[float]],
    ax: Axes | None = None,
    beta: float = 0.05,
) -> Figure:
    """Draw the answers over time and their cost so far, in the order of asking.

    Of an online mechanism, what was paid for are its updates: all else is free. Costs are summed in
    ε where every run has a pure one, else in ρ.

    Parameters
    ----------
    x
        Releases of one number or truth value each, as a channel gave them; or a session, or its
        history, of which costs are known and answers are not.
    ax
        As for `marginal`.
    beta
        How likely a bar may fail, each by itself unless the channel promises them together. A
        history has no bars.
    """
    receipts, fails = _to_receipts(x), to_beta(beta)
    if receipts is None:
        return _draw_releases(_to_releases(x), ax, fails)
    private = session_facts(x)[1] if isinstance(x, Session) else True
    return _draw_receipts(receipts, ax, private=private)


def _sums(costs: Sequence[Cost]) -> tuple[list[Fraction], str]:
    """Return what was paid after each, in ε where each run has a pure one, else in ρ."""
    pure = [cost.epsilon for cost in costs if cost.epsilon is not None]
    steps, unit = (pure, "ε") if len(pure) == len(costs) else ([cost.rho for cost in costs], "ρ")
    total, sums = Fraction(0), list[Fraction]()
    for step in steps:
        total += step
        sums.append(total)
    return sums, unit


def _draw_costs(axes: Axes, canvas: Canvas, sums: Sequence[Fraction]) -> None:
    heights = [0.0, *map(float, sums)]
    edges = [0.5, *[place + 0.5 for place in range(1, len(heights))]]
    style: dict[str, Any] = {"color": canvas.colours.ink, "linewidth": 1.3, "linestyle": "--"}
    axes.step(edges, heights, where="pre", label="cost so far", **style)
    axes.set_ylim(0, 1.08 * heights[-1] or 1.0)


def _draw_marks(
    canvas: Canvas, heights: Floats, which: Bools, mark: str, face: str, name: str
) -> None:
    """Mark some answers, in the order of asking, if there are any."""
    if which.any():
        canvas.axes.plot(
            np.flatnonzero(which) + 1.0,
            heights[which],
            linestyle="none",
            marker=mark,
            markersize=max(2.0, min(6.5, 400 / len(heights))),
            markerfacecolor=face,
            markeredgecolor=canvas.colours.strong,
            zorder=4,
            label=name,
        )


def _draw_releases(releases: Sequence[Release[float]], ax: Axes | None, beta: float) -> Figure:
    """Draw answers in the order of asking, with their bars, and what they cost so far."""
    each = [entries_of(release, beta, _single) for release in releases]
    values, low, high = (
        np.concatenate([getattr(one, name) for one in each]) for name in ("values", "low", "high")
    )
    joint = True if any(one.joint is not None for one in each) else None
    entries = Entries(values, low, high, joint, each[0].bound)
    canvas = canvas_for(ax)
    axes, colours = canvas.axes, canvas.colours
    count = len(releases)
    places = np.arange(1, count + 1, dtype=np.float64)
    canvas.bars(places, entries, upright=True, width=max(0.5, min(2.0, 160 / count)))
    charged = np.array([not release.cost.free for release in releases])
    told = np.isfinite(values)
    _draw_marks(canvas, values, told & charged, "D", colours.strong, "paid for")
    _draw_marks(canvas, values, told & ~charged, "o", colours.weak, "free")
    axes.set_xlim(0.4, count + 0.6)
    sums, unit = _sums([release.cost for release in releases])
    beside = axes.twinx()
    _draw_costs(beside, canvas, sums)
    beside.set_ylabel(f"sum of {unit} so far (dashed)", **canvas.text)
    beside.tick_params(colors=colours.ink)
    beside.yaxis.set_major_formatter(canvas.plain)
    for side in ("top", "left", "bottom"):
        beside.spines[side].set_visible(False)
    beside.spines["right"].set_color(colours.ink)
    beside.patch.set_visible(False)
    canvas.name_axis("x", "answers, in the order of asking")
    canvas.name_axis("y", "answer")
    canvas.numbers("x", whole=True)
    canvas.numbers("y")
    # Above the axes, where a second line is drawn in them.
    canvas.legend(loc="lower right", ncols=2, bbox_to_anchor=(1.0, 1.0))
    paying = int(charged.sum())
    were = format_count(paying, "answer was", "answers were")
    leaks = "" if all(one.cost.epsilon is not None for one in releases) else ", leaks aside"
    lines = [
        _describe_bars(releases, each, beta),
        f"{were} paid for, {count - paying:,} free; together {unit} {as_text(sums[-1])}{leaks}.",
    ]
    if len({release.mechanism for release in releases}) == 1:
        lines.append(f"All by {printable(releases[0].mechanism, 90)}.")
    words = describe_entries([printable(release.query, 40) for release in releases], entries)
    private = all(release.private for release in releases)
    return canvas.finish(
        f"{format_count(count, 'answer')} over time", lines, words, private=private
    )


def _describe_bars(releases: Sequence[Release[float]], each: Sequence[Entries], beta: float) -> str:
    if len(releases) == 1:
        return " ".join(describe_bounds(each[0], beta))
    barred = sum(one.joint is not None for one in each)
    if not barred:
        return f"No bars: {each[0].bound.words}."
    sure = f"with probability {confidence(beta)} (β = {beta:g}"
    missing = "" if barred == len(each) else f"; {len(each) - barred:,} without a bound have none"
    standings = {one.bound.standing: None for one in each}
    if set(standings) == {"promised"} and len({one.mechanism for one in releases}) == 1:
        why = printable(each[0].bound.kind, 90)
        return f"Bars hold {sure}, for all of one channel at once), promised: {why}{missing}."
    kinds = ", ".join(kind for kind in standings if kind != "none")
    return f"Each bar holds by itself {sure}, each), {kinds}{missing}."


def _kind(receipt: Receipt) -> str:
    if receipt.answered is None:
        return "by another session"
    if not receipt.answered:
        return "charged, no answer"
    return "free" if receipt.cost.free else "paid for"


def _draw_receipts(receipts: Sequence[Receipt], ax: Axes | None, *, private: bool) -> Figure:
    """Draw what a session was charged so far, question by question."""
    canvas = canvas_for(ax)
    axes, colours = canvas.axes, canvas.colours
    sums, unit = _sums([receipt.cost for receipt in receipts])
    _draw_costs(axes, canvas, sums)
    heights = np.array([float(one) for one in sums])
    kinds = np.array([_kind(receipt) for receipt in receipts])
    told: list[str] = []
    for name, mark, face in (
        ("paid for", "D", colours.strong),
        ("by another session", "s", colours.weak),
        ("free", "o", colours.weak),
        ("charged, no answer", "X", colours.ink),
    ):
        which = kinds == name
        _draw_marks(canvas, heights, which, mark, face, name)
        if which.any():
            told.append(f"{int(which.sum()):,} {name}")
    axes.set_xlim(0.4, len(receipts) + 0.6)
    canvas.numbers("x", whole=True)
    canvas.numbers("y")
    canvas.name_axis("x", "questions and openings, in order")
    canvas.name_axis("y", f"sum of {unit} so far")
    canvas.legend(loc="upper left")
    leaks = "" if unit == "ε" else ", leaks aside"
    lines = [f"{', '.join(told)}; together {unit} {as_text(sums[-1])}{leaks}."]
    scopes = sorted({receipt.scope for receipt in receipts} - {""})
    if scopes:
        lines.append(f"In scopes: {', '.join(repr(printable(one, 24)) for one in scopes[:6])}.")
    most = max(receipts, key=lambda receipt: receipt.cost.rho)
    words = f"The most expensive is {printable(str(most), 160)}."
    title = f"Spent over {format_count(len(receipts), 'receipt')}"
    return canvas.finish(title, lines, words, private=private)
