"""Pictures along a line: the shares below thresholds, and what was answered over time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpsdk.accounting.numbers.display import as_text, confidence
from dpsdk.plots._canvas import Canvas
from dpsdk.plots.bounds import Entries, entries_of, resting, said
from dpsdk.plots.tables import in_words, thinned
from dpsdk.plots.texts import several, spelled
from dpsdk.queries.threshold import Threshold
from dpsdk.queries.workload import Answers
from dpsdk.release import Cost, Release
from dpsdk.session.history import Receipt
from dpsdk.typing import Floats

__all__ = ["draw_cdf", "draw_receipts", "draw_releases"]


def _numbers(answers: Answers[float]) -> Floats:
    return answers.values


def _place(where: float | date, *, hours: bool) -> float:
    if isinstance(where, datetime):
        day = where.date().toordinal()
        return day + (where - datetime.combine(where.date(), datetime.min.time())).seconds / 86_400
    # Among hours, a day lies below its last one.
    return float(where.toordinal() + hours) if isinstance(where, date) else float(where)


def _ordered(entries: Entries, order: list[int]) -> Entries:
    return Entries(
        entries.values[order], entries.low[order], entries.high[order], entries.joint, entries.bound
    )


def draw_cdf(
    release: Release[Answers[float]],
    asked: Sequence[Threshold],
    ranks: Sequence[int],
    ax: Axes | None,
    beta: float,
) -> Figure:
    """What was released at each threshold, with its bar, and what follows between them."""
    ends = [one.threshold for one in asked]
    hours = any(isinstance(end, datetime) for end in ends)
    along = [_place(end, hours=hours) for end in ends]
    # What lies between two thresholds follows from which of them has more cells below it.
    order = sorted(range(len(ends)), key=lambda place: (ranks[place], along[place]))
    entries = _ordered(entries_of(release, beta, _numbers), order)
    places = np.array([along[place] for place in order])
    canvas = Canvas(ax)
    axes, colours = canvas.axes, canvas.colours
    few, shares = len(places) <= 60, asked[0].normalized
    width = 1.8 if few else max(0.4, 60 / len(places))
    canvas.bars(places, entries, upright=True, width=width, beside=1.0 if shares else 0.0)
    told = np.isfinite(entries.values)
    lines = said(release, entries, beta)
    if entries.joint and len(places) > 1:
        _between(canvas, places, entries)
        lines.insert(1, "Shaded: between thresholds, since no share falls as its threshold rises.")
    marks = axes.plot(
        places[told],
        entries.values[told],
        "o-" if few else "-",
        markersize=4,
        linewidth=1.0 if few else 1.4,
        color=colours.strong,
        zorder=4,
    )
    marks[0].set_label("value")
    if shares:
        axes.axhline(1, color=colours.ink, linewidth=0.7, linestyle=":", zorder=2)
    axes.axhline(0, color=colours.ink, linewidth=0.7, zorder=2)
    canvas.numbers("y")
    canvas.title("x", asked[0].attribute)
    canvas.title("y", "share of rows at or below" if shares else "rows at or below")
    names = [spelled(str(ends[place]), 28) for place in order]
    if any(isinstance(end, date) for end in ends):
        some = thinned(len(places))[::2]
        canvas.ticks("x", [places[one] for one in some], [names[one] for one in some])
    else:
        canvas.numbers("x")
    where = "" if asked[0].where is None else f", where {asked[0].where!r}"
    title = f"{release.query}: {asked[0].attribute} at or below {several(len(places), 'threshold')}"
    words = in_words([f"at or below {name}" for name in names], entries)
    return canvas.finish(title + where, lines, words, private=release.private)


def _between(canvas: Canvas, places: Floats, entries: Entries) -> None:
    """Shade where the truth lies between two thresholds, since it does not fall."""
    low, high = canvas.axes.get_ylim()
    lower = np.where(np.isinf(entries.low), low, entries.low)
    upper = np.where(np.isinf(entries.high), high, entries.high)
    edges = np.repeat(places, 2)[1:-1]
    shade = canvas.axes.fill_between(
        edges,
        np.repeat(lower[:-1], 2),
        np.repeat(upper[1:], 2),
        color=canvas.colours.weak,
        linewidth=0,
        alpha=0.6,
        zorder=1,
    )
    shade.set_label("between thresholds")


def _total(costs: Sequence[Cost]) -> tuple[list[Fraction], str]:
    """What was paid after each, in ε where each run has a pure one, else in ρ."""
    epsilons = [cost.epsilon for cost in costs]
    pure = [one for one in epsilons if one is not None]
    steps = pure if len(pure) == len(costs) else [cost.rho for cost in costs]
    unit = "ε" if len(pure) == len(costs) else "ρ"
    total, sums = Fraction(0), list[Fraction]()
    for step in steps:
        total += step
        sums.append(total)
    return sums, unit


def _cost_line(axes: Axes, canvas: Canvas, sums: Sequence[Fraction]) -> None:
    count = len(sums)
    heights = [0.0, *map(float, sums)]
    edges = [0.5, *[place + 0.5 for place in range(1, count + 1)]]
    drawn = axes.step(
        edges, heights, where="pre", color=canvas.colours.ink, linewidth=1.3, linestyle="--"
    )
    drawn[0].set_label("cost so far")
    axes.set_ylim(0, 1.08 * heights[-1] or 1.0)


def draw_releases(releases: Sequence[Release[float]], ax: Axes | None, beta: float) -> Figure:
    """Answers in the order of asking, with their bars, and what they cost so far."""
    each = [entries_of(one, beta, _single) for one in releases]
    entries = Entries(
        np.concatenate([one.values for one in each]),
        np.concatenate([one.low for one in each]),
        np.concatenate([one.high for one in each]),
        joint=True if any(one.joint is not None for one in each) else None,
        bound=each[0].bound,
    )
    canvas = Canvas(ax)
    axes, colours = canvas.axes, canvas.colours
    count = len(releases)
    places = np.arange(1, count + 1, dtype=np.float64)
    canvas.bars(places, entries, upright=True, width=max(0.5, min(2.0, 160 / count)))
    charged = np.array([not one.cost.free for one in releases])
    told = np.isfinite(entries.values)
    size = max(2.0, min(6.0, 400 / count))
    for which, mark, face, name in (
        (told & charged, "D", colours.strong, "paid for"),
        (told & ~charged, "o", colours.weak, "free"),
    ):
        if which.any():
            drawn = axes.plot(
                places[which],
                entries.values[which],
                linestyle="none",
                marker=mark,
                markersize=size,
                markerfacecolor=face,
                markeredgecolor=colours.strong,
                zorder=4,
            )
            drawn[0].set_label(name)
    axes.set_xlim(0.4, count + 0.6)
    sums, unit = _total([one.cost for one in releases])
    beside = axes.twinx()
    _cost_line(beside, canvas, sums)
    _dress(canvas, beside, f"sum of {unit} so far (dashed)")
    canvas.title("x", "answers, in the order of asking")
    canvas.title("y", "answer")
    canvas.numbers("x", whole=True)
    canvas.numbers("y")
    _legend(canvas, "lower right")
    paying = int(charged.sum())
    were = f"{several(paying, 'answer was', 'answers were')} paid for, {count - paying:,} free"
    lines = [
        _standing(releases, each, beta),
        f"{were}; together {unit} {as_text(sums[-1])}{_leaks(releases)}.",
    ]
    if len({one.mechanism for one in releases}) == 1:
        lines.append(f"All by {spelled(releases[0].mechanism, 90)}.")
    names = [spelled(one.query, 40) for one in releases]
    words = in_words(names, entries)
    title = f"{several(count, 'answer')} over time"
    return canvas.finish(title, lines, words, private=all(one.private for one in releases))


def _leaks(releases: Sequence[Release[float]]) -> str:
    return "" if all(one.cost.epsilon is not None for one in releases) else ", leaks aside"


def _single(value: float) -> Floats:
    return np.array([float(value)])


def _standing(releases: Sequence[Release[float]], each: Sequence[Entries], beta: float) -> str:
    if len(releases) == 1:
        return " ".join(resting(each[0], beta))
    sure = f"with probability {confidence(beta)} (β = {beta:g}"
    stands = [one.bound.standing for one in each]
    barred = sum(one.joint is not None for one in each)
    if not barred:
        return f"No bars: {each[0].bound.words}."
    missing = "" if barred == len(each) else f"; {len(each) - barred:,} without a bound have none"
    kinds = ", ".join(dict.fromkeys(one for one in stands if one != "none"))
    if set(stands) == {"promised"} and len({one.mechanism for one in releases}) == 1:
        why = spelled(each[0].bound.kind, 90)
        return f"Bars hold {sure}, for all of one channel at once), promised: {why}{missing}."
    return f"Each bar holds by itself {sure}, each), {kinds}{missing}."


def _dress(canvas: Canvas, beside: Axes, text: str) -> None:
    """Axes at the right side, in the same clothes."""
    beside.set_ylabel(text, **canvas.text)
    beside.tick_params(colors=canvas.colours.ink)
    beside.yaxis.set_major_formatter(canvas.plain)
    for side in ("top", "left", "bottom"):
        beside.spines[side].set_visible(False)
    beside.spines["right"].set_color(canvas.colours.ink)
    beside.patch.set_visible(False)


def _legend(canvas: Canvas, where: Literal["lower right", "upper left"]) -> None:
    handles, names = canvas.axes.get_legend_handles_labels()
    wanted = [(one, name) for one, name in zip(handles, names, strict=True) if name != "interval"]
    if len(wanted) > 1:
        artists, words = [one for one, _ in wanted], [name for _, name in wanted]
        # Above the axes, where a second line is drawn in them.
        columns, at = (len(words), (1.0, 1.0)) if where == "lower right" else (1, None)
        legend = canvas.axes.legend(
            artists, words, loc=where, frameon=False, ncols=columns, bbox_to_anchor=at
        )
        for text in legend.get_texts():
            text.set(**canvas.text)


def _kind(receipt: Receipt) -> str:
    if receipt.answered is None:
        return "by another session"
    if not receipt.answered:
        return "charged, no answer"
    return "free" if receipt.cost.free else "paid for"


def draw_receipts(receipts: Sequence[Receipt], ax: Axes | None, *, private: bool) -> Figure:
    """What a session was charged so far, question by question."""
    canvas = Canvas(ax)
    axes, colours = canvas.axes, canvas.colours
    sums, unit = _total([one.cost for one in receipts])
    _cost_line(axes, canvas, sums)
    heights = np.array([float(one) for one in sums])
    kinds = (
        ("paid for", "D", colours.strong),
        ("by another session", "s", colours.weak),
        ("free", "o", colours.weak),
        ("charged, no answer", "X", colours.ink),
    )
    found = [_kind(one) for one in receipts]
    told: list[str] = []
    size = max(2.0, min(7.0, 400 / len(receipts)))
    for name, mark, face in kinds:
        which = np.array([kind == name for kind in found])
        if which.any():
            told.append(f"{int(which.sum()):,} {name}")
            drawn = axes.plot(
                np.flatnonzero(which) + 1,
                heights[which],
                linestyle="none",
                marker=mark,
                markersize=size,
                markerfacecolor=face,
                markeredgecolor=colours.strong,
                zorder=4,
            )
            drawn[0].set_label(name)
    axes.set_xlim(0.4, len(receipts) + 0.6)
    canvas.numbers("x", whole=True)
    canvas.numbers("y")
    canvas.title("x", "questions and openings, in order")
    canvas.title("y", f"sum of {unit} so far")
    _legend(canvas, "upper left")
    count = several(len(receipts), "receipt")
    leaks = "" if unit == "ε" else ", leaks aside"
    lines = [f"{', '.join(told)}; together {unit} {as_text(sums[-1])}{leaks}."]
    scopes = sorted({one.scope for one in receipts} - {""})
    if scopes:
        lines.append(f"In scopes: {', '.join(repr(spelled(one, 24)) for one in scopes[:6])}.")
    dearest = max(receipts, key=lambda one: one.cost.rho)
    words = f"The dearest is {spelled(str(dearest), 160)}."
    return canvas.finish(f"Spent over {count}", lines, words, private=private)
