"""Pictures of marginal tables: one bar a cell, or the colours of a map."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dpsdk.plots._canvas import Canvas, luminance
from dpsdk.plots.bounds import Entries, entries_of, said
from dpsdk.plots.texts import above, label, listed, number, several, span
from dpsdk.queries.marginal import MarginalTable
from dpsdk.release import Release
from dpsdk.typing import Floats

__all__ = ["draw_heatmap", "draw_marginal"]

_LISTED = 40
"""So many cells have a line each; more are put side by side."""
_ALONE = 150
"""More than so many bars lie close together, and let the values be seen."""
_TICKS = 14
_TOLD = 12
_WRITTEN = 60
_WRITTEN_ACROSS = 8


def _numbers(table: MarginalTable) -> Floats:
    return table.values


def _cells(table: MarginalTable) -> list[tuple[str, ...]]:
    texts = [[one.text(index) for index in range(one.size)] for one in table.attributes]
    return list(itertools.product(*texts))


def _unit(release: Release[MarginalTable]) -> str:
    shares = getattr(release.asked, "normalized", None)
    return "value" if shares is None else "share of rows" if shares else "rows"


def in_words(names: Sequence[str], entries: Entries) -> str:
    """Numbers with their names: all of a few, and of many the least and the largest."""
    told = np.flatnonzero(np.isfinite(entries.values))
    values = entries.values

    def one(place: int) -> str:
        ends = ""
        if entries.joint is not None:
            ends = f" ({span(entries.low[place], entries.high[place])})"
        return f"{names[place]}: {number(values[place])}{ends}"

    if len(told) <= _TOLD:
        return listed([one(int(place)) for place in told], _TOLD) + "."
    least, most = told[values[told].argmin()], told[values[told].argmax()]
    return (
        f"{several(len(values), 'value')}; the smallest is {one(int(least))}, "
        f"the largest {one(int(most))}."
    )


def draw_marginal(release: Release[MarginalTable], ax: Axes | None, beta: float) -> Figure:
    """One bar for each cell, from its lower to its upper end, and a mark at what was released."""
    table = release.value
    entries = entries_of(release, beta, _numbers)
    cells = _cells(table)
    count = len(cells)
    lines = count <= _LISTED
    canvas = Canvas(ax, max(3.0, count) if lines else 13)
    axes, colours = canvas.axes, canvas.colours
    places = np.arange(count, dtype=np.float64)
    told = np.isfinite(entries.values)
    at, values = places[told], entries.values[told]
    many = count > _ALONE
    width = _width(count, lines=lines)
    canvas.bars(places, entries, upright=not lines, width=width, pale=many)
    if lines:
        axes.barh(at, values, 0.62, color=colours.weak, zorder=1)
        marks = axes.plot(values, at, "o", markersize=5, color=colours.strong, zorder=4)
        axes.axvline(0, color=colours.ink, linewidth=0.8, zorder=2)
        axes.set_ylim(count - 0.4, -0.6)
        canvas.ticks("y", places.tolist(), [label(one, canvas.font) for one in cells])
        canvas.numbers("x")
        canvas.title("x", _unit(release))
        canvas.title("y", " · ".join(table.names))
    else:
        if not many:
            axes.bar(at, values, 1.0, color=colours.weak, zorder=1, linewidth=0)
        small = max(1.0, min(4.0, 400 / count))
        marks = axes.plot(at, values, "o", markersize=small, color=colours.strong, zorder=4)
        marks[0].set_markeredgewidth(0)
        axes.axhline(0, color=colours.ink, linewidth=0.8, zorder=2)
        axes.set_xlim(-0.8, count - 0.2)
        thin = thinned(count)
        canvas.ticks("x", thin, [label(cells[place], canvas.font) for place in thin])
        _turn(canvas, [cells[place] for place in thin])
        canvas.numbers("y")
        canvas.title("y", _unit(release))
        canvas.title("x", " · ".join(table.names))
    marks[0].set_label("value")
    words = in_words([label(one) for one in cells], entries)
    heading = said(release, entries, beta)
    return canvas.finish(release.query, heading, words, private=release.private)


def _width(count: int, *, lines: bool) -> float:
    return 2.2 if lines else max(0.5, min(2.2, 90 / count))


def thinned(count: int) -> list[int]:
    """Some of so many places, evenly apart, from the first on."""
    return list(range(0, count, -(-count // _TICKS)))


def _turn(canvas: Canvas, cells: Sequence[tuple[str, ...]]) -> None:
    if any(len(label(one)) > 5 for one in cells):
        for text in canvas.axes.get_xticklabels():
            text.set_rotation(40)
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


def draw_heatmap(release: Release[MarginalTable], ax: Axes | None, beta: float) -> Figure:
    """A map of two attributes: the darker against its ground, the more."""
    table = release.value
    entries = entries_of(release, beta, _numbers)
    across, down = table.attributes[1].size, table.attributes[0].size
    canvas = Canvas(ax, min(22.0, max(6.0, 1.4 * down)))
    axes, colours = canvas.axes, canvas.colours
    ends = ["#101b26", "#cfe6ff"] if colours.dark else ["#f3f8fd", "#08325c"]
    shades = LinearSegmentedColormap.from_list("dpsdk", ends)
    values = entries.values.reshape(down, across)
    shown = np.ma.masked_invalid(values)
    low, high = (float(shown.min()), float(shown.max())) if shown.count() else (0.0, 1.0)
    low, high = min(low, 0.0), high if high > min(low, 0.0) else min(low, 0.0) + 1.0
    image = axes.imshow(
        shown, cmap=shades, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
    )
    image.set_label("value")
    nothing = _hatch(canvas, entries, across)
    rows = thinned(down) if down > 2 * _TICKS else list(range(down))
    columns = thinned(across)
    names = [[one.text(place) for place in range(one.size)] for one in table.attributes]
    canvas.ticks("y", rows, [label([names[0][place]], canvas.font) for place in rows])
    canvas.ticks("x", columns, [label([names[1][place]], canvas.font) for place in columns])
    _turn(canvas, [(names[1][place],) for place in columns])
    canvas.title("y", table.names[0])
    canvas.title("x", table.names[1])
    if down * across <= _WRITTEN and across <= _WRITTEN_ACROSS:
        _write(canvas, entries, across, shades, (low, high))
    bar = canvas.figure.colorbar(image, ax=axes)
    canvas.beside.append(bar.ax)
    bar.ax.tick_params(colors=colours.ink)
    bar.outline.set_edgecolor(colours.ink)
    bar.set_label(_unit(release), **canvas.text)
    bar.ax.yaxis.set_major_formatter(canvas.plain)
    lines = said(release, entries, beta, "bound")
    if entries.joint is not None and entries.bound.proven:
        lines.insert(1, f"Largest half-width {above(entries.bound.error)}.")
    if nothing:
        cells = several(nothing, "hatched cell", "hatched cells")
        whose = "whose bounds include 0" if entries.joint is not None else "that are not above 0"
        lines.insert(1, f"{cells}, {whose}.")
    words = in_words([label(one) for one in _cells(table)], entries)
    return canvas.finish(release.query, lines, words, private=release.private)


def _hatch(canvas: Canvas, entries: Entries, across: int) -> int:
    """Hatch the cells that are not told from empty ones; give their number."""
    if entries.joint is None:
        empty = entries.values <= 0
    else:
        empty = (entries.low <= 0) & (entries.high >= 0)
    cells = np.flatnonzero(empty)
    squares = [Rectangle((place % across - 0.5, place // across - 0.5), 1, 1) for place in cells]
    if squares:
        hatched = PatchCollection(
            squares, facecolor="none", edgecolor=canvas.colours.ink, hatch="////", linewidth=0
        )
        hatched.set_alpha(0.35)
        hatched.set_label("includes 0")
        canvas.axes.add_collection(hatched, autolim=False)
    return len(cells)


def _write(
    canvas: Canvas,
    entries: Entries,
    across: int,
    shades: LinearSegmentedColormap,
    ends: tuple[float, float],
) -> None:
    for place, value in enumerate(entries.values.tolist()):
        if not np.isfinite(value):
            continue
        text = number(value)
        if entries.joint is not None:
            text += f"\n{span(entries.low[place], entries.high[place])}"
        shade = shades((value - ends[0]) / (ends[1] - ends[0]))
        ground = to_hex(shade)  # pyright: ignore[reportUnknownArgumentType]  # of matplotlib
        dark = luminance(ground) < 0.18
        canvas.write(
            place % across,
            place // across,
            text,
            ha="center",
            va="center",
            fontsize=0.75 * canvas.size,
            color="white" if dark else "black",
        )
