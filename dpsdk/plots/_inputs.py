"""Readers that several pictures share, and the canvas for each, for which matplotlib is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from dpsdk._checks import shown
from dpsdk.data.private_data import display_name
from dpsdk.errors import InvalidArgument, MissingExtra
from dpsdk.session import Session

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpsdk.plots._canvas import Canvas

__all__ = ["alternative", "canvas_for", "session_facts", "to_items"]

_MOST = 100_000


def _require_matplotlib() -> None:
    try:
        import matplotlib.figure as figures  # noqa: PLC0415  # an extra, and slow to import
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    del figures


def canvas_for(ax: Axes | None, lines: float = 14) -> Canvas:
    """Return axes to draw into: a caller's, or those of a new figure for so many lines."""
    _require_matplotlib()
    from dpsdk.plots._canvas import Canvas  # noqa: PLC0415  # imports matplotlib

    return Canvas(ax, lines)


def alternative(figure: Figure) -> str:
    """The pictures of a figure in words, with their numbers, for readers who do not see them.

    As an `alt` text of a page, or within a file:
    ``figure.savefig("ages.svg", metadata={"Description": plots.alternative(figure)})``. Empty where
    nothing in the figure was drawn by this package.
    """
    _require_matplotlib()
    from matplotlib.figure import Figure as AnyFigure  # noqa: PLC0415  # an extra

    from dpsdk.plots._canvas import alternative_of  # noqa: PLC0415  # imports matplotlib

    if not isinstance(figure, AnyFigure):
        raise InvalidArgument("figure", "a figure of matplotlib", shown(figure))
    return alternative_of(figure)


def to_items(x: object, expected: str) -> list[object]:
    """Read the items of a sequence that is not empty."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise InvalidArgument("x", expected, shown(x))  # pyright: ignore[reportUnknownArgumentType]  # whatever it is
    items = list(cast("Iterable[object]", x))
    if not items:
        raise InvalidArgument("x", expected, "nothing")
    if len(items) > _MOST:
        raise InvalidArgument("x", f"at most {_MOST:,} of them", f"{len(items):,}")
    return items


def session_facts(session: Session) -> tuple[str, bool]:
    """Return the name of the table of a session, and whether its noise is private."""
    context = session._context  # pyright: ignore[reportPrivateUsage]  # of the package
    return display_name(context.data), context.noise.private
