"""A picture of a model: one bar a coefficient."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from dpsdk._checks import shown, to_beta
from dpsdk.accuracy import Bound
from dpsdk.errors import InvalidArgument, NoBound
from dpsdk.plots._inputs import canvas_for
from dpsdk.plots._text import Entries, describe_entries, describe_release, format_label
from dpsdk.queries import Model
from dpsdk.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["coefficients"]

_KIND = "confidence set of the table's least squares"


def _entries(release: Release[Model], beta: float) -> Entries:
    """The coefficients, and their intervals where second moments were measured."""
    values = np.array(list(release.value.coefficients.values()))
    try:
        bounds = release.value.intervals(release, beta)
    except NoBound:
        nothing = np.full(len(values), np.nan)
        return Entries(values, nothing, nothing, joint=None, bound=release.bound(beta))
    low, high = np.array(list(bounds.values()))[:-1].T
    widest = float((high - low).max()) / 2
    bound = Bound(widest, beta, _KIND, "proven", vacuous=not widest < np.inf)
    return Entries(values, low, high, joint=True, bound=bound)


def coefficients(x: Release[Model], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """The coefficients of a model in the units of the data, and their intervals.

    Each is by its own unit, such as a year or having a label, so that long bars need not matter
    most. The intercept is told below the title.

    Parameters
    ----------
    x
        A release of a model.
    ax
        Axes to draw into; by default those of a new figure.
    beta
        All bars hold at once with probability 1 - `beta`, and are about the table's own
        coefficients of least squares, as `Model.intervals`; for other losses there are none.
    """
    if not isinstance(x, Release) or not isinstance(cast("Release[object]", x).value, Model):
        raise InvalidArgument("x", "a release of a model", shown(x))
    fails, model = to_beta(beta), x.value
    entries = _entries(x, fails)
    names = [(name,) for name in model.coefficients]
    canvas = canvas_for(ax, max(3.0, len(names)))
    axes, colours = canvas.axes, canvas.colours
    places = np.arange(len(names), dtype=np.float64)
    canvas.bars(places, entries, upright=False, width=2.2)
    axes.barh(places, entries.values, 0.62, color=colours.weak, zorder=1)
    axes.plot(
        entries.values, places, "o", markersize=5, color=colours.strong, zorder=4, label="value"
    )
    axes.axvline(0, color=colours.ink, linewidth=0.8, zorder=2)
    axes.set_ylim(len(names) - 0.4, -0.6)
    canvas.ticks("y", places.tolist(), [format_label(one, canvas.font) for one in names])
    canvas.numbers("x")
    canvas.name_axis("x", f"effect on {model.label} of one unit")
    words = describe_entries([format_label(one) for one in names], entries)
    lines = [f"Intercept {model.intercept:.4g}.", *describe_release(x, entries, fails)]
    return canvas.finish(x.query, lines, words, private=x.private)
