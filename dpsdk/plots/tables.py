"""Pictures of marginal tables: one bar a cell, or the colours of a map."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpsdk._checks import shown, to_beta
from dpsdk.errors import InvalidArgument
from dpsdk.plots._inputs import canvas_for
from dpsdk.plots._text import (
    Entries,
    describe_entries,
    describe_release,
    entries_of,
    format_bound,
    format_count,
    format_label,
    format_number,
    format_span,
)
from dpsdk.queries.tables import LabelledTable
from dpsdk.release import Release
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    from dpsdk.plots._canvas import Canvas

__all__ = ["heatmap", "marginal", "thinned"]

_LISTED = 40
"""So many cells have a line each; more are put side by side."""

_ALONE = 150
"""More than so many bars lie close together, and let the values be seen."""

_TICKS = 14
_WRITTEN = 60
_WRITTEN_ACROSS = 8


def _to_table(x: object, attributes: int | None = None) -> Release[LabelledTable]:
    """Read a release of a marginal table."""
    expected = "a release of a table, as session.release(Marginal(...)) gives"
    if not isinstance(x, Release):
        raise InvalidArgument("x", expected, shown(x))
    value: object = cast("Release[object]", x).value
    if not isinstance(value, LabelledTable):
        raise InvalidArgument("x", expected, f"a release of {shown(value)}")
    if attributes is not None and len(value.attributes) != attributes:
        two = f"a release of a marginal table of {attributes} attributes"
        raise InvalidArgument("x", two, f"one of {len(value.attributes)}")
    return cast("Release[LabelledTable]", x)


def _numbers(table: LabelledTable) -> Floats:
    return table.values


def _cells(table: LabelledTable) -> list[tuple[str, ...]]:
    texts = [[one.text(index) for index in range(one.size)] for one in table.attributes]
    return list(itertools.product(*texts))


def _unit(release: Release[LabelledTable]) -> str:
    asked = release.asked
    # A sum of some attribute is no share either.
    shares = None if hasattr(asked, "attribute") else getattr(asked, "normalized", None)
    return "value" if shares is None else "share of rows" if shares else "rows"


def thinned(count: int) -> list[int]:
    """Return some of so many places, evenly apart, from the first on."""
    return list(range(0, count, -(-count // _TICKS)))


def marginal(x: Release[LabelledTable], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """A marginal table, one bar a cell: the values as released, and the ends of `interval`.

    Parameters
    ----------
    x
        A release of a marginal table, of any number of attributes.
    ax
        Axes to draw into; by default those of a new figure.
    beta
        All bars hold at once with probability 1 - `beta`; where that is known of each cell alone,
        each by itself; where nothing is known there are none. The heading says which.
    """
    release, fails = _to_table(x), to_beta(beta)
    table = release.value
    entries = entries_of(release, fails, _numbers)
    cells = _cells(table)
    count = len(cells)
    listed = count <= _LISTED
    canvas = canvas_for(ax, max(3.0, count) if listed else 13)
    axes, colours = canvas.axes, canvas.colours
    places = np.arange(count, dtype=np.float64)
    told = np.isfinite(entries.values)
    at, values = places[told], entries.values[told]
    many = count > _ALONE
    width = 2.2 if listed else max(0.5, min(2.2, 90 / count))
    canvas.bars(places, entries, upright=not listed, width=width, pale=many)
    strong: dict[str, Any] = {"color": colours.strong, "zorder": 4, "label": "value"}
    if listed:
        axes.barh(at, values, 0.62, color=colours.weak, zorder=1)
        axes.plot(values, at, "o", markersize=5, **strong)
        axes.axvline(0, color=colours.ink, linewidth=0.8, zorder=2)
        axes.set_ylim(count - 0.4, -0.6)
        canvas.ticks("y", places.tolist(), [format_label(one, canvas.font) for one in cells])
    else:
        if not many:
            axes.bar(at, values, 1.0, color=colours.weak, zorder=1, linewidth=0)
        small = max(1.0, min(4.0, 400 / count))
        axes.plot(at, values, "o", markersize=small, markeredgewidth=0, **strong)
        axes.axhline(0, color=colours.ink, linewidth=0.8, zorder=2)
        axes.set_xlim(-0.8, count - 0.2)
        thin = thinned(count)
        canvas.ticks("x", thin, [format_label(cells[place], canvas.font) for place in thin])
        _turn_labels(canvas, [cells[place] for place in thin])
    along, across = ("x", "y") if listed else ("y", "x")
    canvas.numbers(along)
    canvas.name_axis(along, _unit(release))
    canvas.name_axis(across, " · ".join(table.names))
    words = describe_entries([format_label(one) for one in cells], entries)
    lines = describe_release(release, entries, fails)
    return canvas.finish(release.query, lines, words, private=release.private)


def _turn_labels(canvas: Canvas, cells: Sequence[tuple[str, ...]]) -> None:
    if any(len(format_label(one)) > 5 for one in cells):
        for text in canvas.axes.get_xticklabels():
            text.set(rotation=40, horizontalalignment="right", rotation_mode="anchor")


def heatmap(x: Release[LabelledTable], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """A marginal table of two attributes as a map: the darker against its ground, the more.

    Cells that noise hides are hatched: where their bounds include 0, or, without bounds, where they
    are not above 0. Small tables have their numbers and bounds in the cells.

    Parameters
    ----------
    x
        A release of a marginal table of two attributes: the first goes down, the second across.
    ax, beta
        As for `marginal`.
    """
    release, fails = _to_table(x, 2), to_beta(beta)
    table = release.value
    entries = entries_of(release, fails, _numbers)
    down, across = (attribute.size for attribute in table.attributes)
    canvas = canvas_for(ax, min(22.0, max(6.0, 1.4 * down)))
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415  # an extra

    axes, colours = canvas.axes, canvas.colours
    ends = ["#101b26", "#cfe6ff"] if colours.dark else ["#f3f8fd", "#08325c"]
    shades = LinearSegmentedColormap.from_list("dpsdk", ends)
    values = np.ma.masked_invalid(entries.values.reshape(down, across))
    low, high = (float(values.min()), float(values.max())) if values.count() else (0.0, 1.0)
    low = min(low, 0.0)
    high = high if high > low else low + 1.0
    image = axes.imshow(
        values, cmap=shades, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
    )
    image.set_label("value")
    hatched = _hatch(canvas, entries, across)
    rows = thinned(down) if down > 2 * _TICKS else list(range(down))
    columns = thinned(across)
    first, second = ([one.text(place) for place in range(one.size)] for one in table.attributes)
    canvas.ticks("y", rows, [format_label([first[place]], canvas.font) for place in rows])
    canvas.ticks("x", columns, [format_label([second[place]], canvas.font) for place in columns])
    _turn_labels(canvas, [(second[place],) for place in columns])
    canvas.name_axis("y", table.names[0])
    canvas.name_axis("x", table.names[1])
    if down * across <= _WRITTEN and across <= _WRITTEN_ACROSS:
        _write(canvas, entries, across, shades, (low, high))
    bar = canvas.figure.colorbar(image, ax=axes)
    bar.ax.tick_params(colors=colours.ink)
    bar.outline.set_edgecolor(colours.ink)
    bar.set_label(_unit(release), **canvas.text)
    bar.ax.yaxis.set_major_formatter(canvas.plain)
    lines = describe_release(release, entries, fails, "bound")
    if entries.joint is not None and entries.bound.proven:
        lines.insert(1, f"Largest half-width {format_bound(entries.bound.error)}.")
    if hatched:
        cells = format_count(hatched, "hatched cell")
        whose = "whose bounds include 0" if entries.joint is not None else "that are not above 0"
        lines.insert(1, f"{cells}, {whose}.")
    words = describe_entries([format_label(one) for one in _cells(table)], entries)
    return canvas.finish(release.query, lines, words, private=release.private)


def _hatch(canvas: Canvas, entries: Entries, across: int) -> int:
    """Hatch the cells that are not told from empty ones, and return their number."""
    from matplotlib.collections import PatchCollection  # noqa: PLC0415  # an extra
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    if entries.joint is None:
        empty = entries.values <= 0
    else:
        empty = (entries.low <= 0) & (entries.high >= 0)
    cells = np.flatnonzero(empty).tolist()
    squares = [Rectangle((place % across - 0.5, place // across - 0.5), 1, 1) for place in cells]
    if squares:
        hatched = PatchCollection(
            squares, facecolor="none", edgecolor=canvas.colours.ink, hatch="////", linewidth=0
        )
        hatched.set(alpha=0.35, label="includes 0")
        canvas.axes.add_collection(hatched, autolim=False)
    return len(cells)


def _write(
    canvas: Canvas,
    entries: Entries,
    across: int,
    shades: LinearSegmentedColormap,
    ends: tuple[float, float],
) -> None:
    """Write numbers and bounds into the cells of a small map."""
    from matplotlib.colors import to_hex  # noqa: PLC0415  # an extra

    from dpsdk.plots._canvas import luminance  # noqa: PLC0415  # imports matplotlib

    for place, value in enumerate(entries.values.tolist()):
        if not np.isfinite(value):
            continue
        text = format_number(value)
        if entries.joint is not None:
            text += f"\n{format_span(entries.low[place], entries.high[place])}"
        ground = to_hex(shades((value - ends[0]) / (ends[1] - ends[0])))  # pyright: ignore[reportUnknownArgumentType]  # of matplotlib
        style: dict[str, Any] = {
            **canvas.text,
            "color": "white" if luminance(ground) < 0.18 else "black",
            "fontsize": 0.75 * canvas.size,
        }
        canvas.axes.text(place % across, place // across, text, ha="center", va="center", **style)
