"""Headings of pictures, which fit into the room that there is, at any number of dots an inch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from attrs import frozen
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.font_manager import FontProperties
from matplotlib.text import Annotation
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Bbox

__all__ = [
    "LEADING",
    "Fitted",
    "Heading",
    "Lowered",
    "Part",
    "ceiling",
    "fitting",
    "shortened",
    "wide",
]

LEADING = 1.32
"""How far lines of a heading are apart, for letters of one point."""
_SMALLER = 16
"""So often a text is made smaller, until it fits."""

Part: TypeAlias = tuple[list[str], float, str]
"""Lines of a heading, with the size and the weight of their letters."""


class Fitted(Annotation):
    """A text that is drawn no wider than so many points, and within its figure.

    Renderers put letters at whole dots, so that few dots an inch make a text wider than it was
    measured; it is drawn smaller there.
    """

    widest: float = math.inf

    @contextmanager
    def _narrowed(self, renderer: RendererBase | None) -> Generator[None]:
        # A change of the properties themselves asks for no other drawing, as one of the text would.
        properties = self.get_fontproperties()
        size = properties.get_size_in_points()
        figure = self.figure
        room = math.inf if figure is None else self.widest * figure.dpi / 72
        edge = math.inf if figure is None else figure.figure.bbox.x1
        try:
            for _ in range(_SMALLER):
                extent = super().get_window_extent(renderer)
                if extent.width <= room and extent.x1 <= edge:
                    break
                properties.set_size(0.97 * properties.get_size_in_points())
            yield
        finally:
            properties.set_size(size)

    def draw(self, renderer: RendererBase) -> None:
        """Draw it."""
        with self._narrowed(renderer):
            super().draw(renderer)

    def get_window_extent(
        self, renderer: RendererBase | None = None, dpi: float | None = None
    ) -> Bbox:
        """The room that it takes."""
        del dpi  # annotations take that of their figure
        with self._narrowed(renderer):
            return super().get_window_extent(renderer)

    def get_tightbbox(self, renderer: RendererBase | None = None) -> Bbox:
        """The same, since nothing of it is clipped."""
        return self.get_window_extent(renderer)


class Heading(Fitted):
    """What a picture says of itself; `alternative` says all of it, with its numbers, in words."""

    alternative: str = ""


@frozen
class Lowered:
    """Where axes are that leave room for a heading of so many points above them.

    So far as there is none between their place in the figure and what is above that. It is asked
    whenever they are drawn, so that what the figure does with its axes later holds as well.
    """

    points: float
    of: Axes
    before: Callable[[Any, RendererBase], Bbox] | None

    def __call__(self, ax: Any, renderer: RendererBase) -> Bbox:
        """The place of these axes, in shares of their figure."""
        box = ax.get_position(original=True) if self.before is None else self.before(ax, renderer)
        lower = max(0.0, self.points - ceiling(self.of)) / 72 * _dots(self.of) / _high(self.of)
        return Bbox.from_extents(box.x0, box.y0, box.x1, max(box.y1 - lower, box.y0 + 1e-3))


def _dots(axes: Axes) -> float:
    return float(axes.figure.dpi)


def _high(axes: Axes) -> float:
    return float(axes.figure.bbox.height)


def ceiling(axes: Axes) -> float:
    """How many points are free above the place that axes have in their figure."""
    place = axes.get_position(original=True)
    others = [one.get_position(original=True) for one in axes.figure.axes if one is not axes]
    above = [
        other.y0
        for other in others
        if other.y0 >= place.y1 and other.x0 < place.x1 and place.x0 < other.x1
    ]
    free = min(above, default=1.0) - float(place.y1)
    return float(free) * 72 * _high(axes) / _dots(axes)


def shortened(parts: Sequence[Part], room: float, high: float) -> list[Part]:
    """A title, marks and lines in a room of so many points; the marks are always kept."""
    kept: list[Part] = []
    marks = len(parts[1][0]) * LEADING * parts[1][1]
    for place, (texts, size, weight) in enumerate(parts):
        if place == 1:
            kept.append((texts, size, weight))
            continue
        # The title has a half of what there is, at the most.
        share = (high - marks) / (2 if place == 0 else 1)
        most = max(int(share / (LEADING * size) + 1e-9), 1 if place == 0 else 0)
        told = texts[:most]
        if len(told) < len(texts) and told:
            told[-1] = fitting(f"{told[-1]} …", room, partial(wide, size, weight))
        high -= len(told) * LEADING * size
        kept.append((told, size, weight))
    return kept


def fitting(text: str, room: float, long: Callable[[str], float]) -> str:
    """As much of a text as has room, where `long` says how long it is."""
    while long(text) > room and len(text) > 1:
        # In proportion first, and then letter by letter.
        fits = int(len(text) * room / long(text))
        text = f"{text[: min(max(fits, 1), len(text) - 1) - 1].rstrip('… ')}…"
    return text


def wide(size: float, weight: str, text: str) -> float:
    """How wide a text is, in points."""
    font = FontProperties(size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])
