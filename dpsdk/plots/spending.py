"""Pictures of budgets: what a session and its scopes have spent, and what is left to them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpsdk.plots._canvas import Canvas
from dpsdk.plots.accounts import Account

__all__ = ["draw_accounts"]

_SHOWN = 24


def draw_accounts(
    accounts: Sequence[Account], what: str, advice: str, ax: Axes | None, *, private: bool
) -> Figure:
    """One bar for each account: what was spent, then what is left, hatched where it is kept."""
    shown = accounts[:_SHOWN]
    canvas = Canvas(ax, max(3.0, 2.1 * len(shown)))
    axes, colours = canvas.axes, canvas.colours
    names = [f"{canvas.spelled(one.name, 24)}\n{canvas.spelled(one.cap, 30)}" for one in shown]
    for place, one in enumerate(shown):
        gone = one.spent.fraction
        hatch = "////" if one.reserve and not one.closed else None
        left = axes.barh(
            place,
            1 - gone,
            0.42,
            left=gone,
            facecolor="none" if one.closed else colours.weak,
            edgecolor=colours.strong,
            hatch=hatch,
            linewidth=0.8,
        )
        left.set_label("_left")
        bar = axes.barh(place, gone, 0.42, color=colours.strong, edgecolor=colours.strong)
        bar.set_label("_spent")
        canvas.caption(place - 0.3, one.words, names)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown) - 0.5, -0.75)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], labels=["0%", "25%", "50%", "75%", "100%"])
    canvas.title("x", "share of its own cap")
    canvas.ticks("y", list(range(len(shown))), names)
    lines = ["In each bar, from the left: what is spent, then what remains."]
    if any(one.reserve and not one.closed for one in shown):
        lines[0] += " Hatched: set aside for its scope."
    if len(accounts) > len(shown):
        lines.append(f"{len(accounts) - len(shown):,} more scopes are not shown.")
    guarantee = accounts[0].spent.guarantee
    lines.append(f"Whatever is asked next, the session keeps {guarantee}.")
    if advice:
        lines.append(advice)
    words = " ".join(f"{one.called} ({one.cap}): {one.words}." for one in shown)
    return canvas.finish(f"Budget of {what}", lines, words, private=private)
