"""Axes to draw into: without pyplot, in colours that differ in grey, with a heading in words."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import base64
import html
import io
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.errors import InvalidArgument
from dpsdk.plots._text import Entries, printable
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from matplotlib.typing import ColorType

__all__ = ["Canvas", "alternative_of", "luminance"]

SEEDED = "NOT PRIVATE: made with seeded noise, protects nobody"

_WIDTH = 7.2
_FURTHEST = 1e307
"""Numbers beyond it have no place on an axis."""

_WORDS = "_dpsdk_words"


class Picture(Figure):
    """A figure that notebooks show, with its alternative text."""

    def _repr_html_(self) -> str:
        written = io.BytesIO()
        self.savefig(written, format="png")
        encoded = base64.b64encode(written.getvalue()).decode("ascii")
        text = html.escape(alternative_of(self), quote=True)
        return f'<img alt="{text}" src="data:image/png;base64,{encoded}">'


def alternative_of(figure: Figure) -> str:
    """Return the alternative texts of all pictures in a figure, in order."""
    return "\n\n".join(getattr(axes, _WORDS) for axes in figure.axes if hasattr(axes, _WORDS))


def luminance(colour: ColorType) -> float:
    """Return the relative luminance of a colour, from 0 for black to 1 for white."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@frozen
class Colours:
    """Colours that differ in lightness, so that they do in grey as well."""

    ink: str
    strong: str
    weak: str
    dark: bool


def _colours(axes: Axes) -> Colours:
    # The ground is that of the axes, or of the figure, or what the style is made for.
    ink = str(rcParams["text.color"])
    faces = (axes.get_facecolor(), axes.figure.get_facecolor())
    opaque = [luminance(face) for face in faces if to_rgba(face)[3] > 0.5]
    ground = opaque[0] if opaque else 0.0 if luminance(ink) > 0.4 else 1.0
    dark = ground < 0.18
    light = luminance(ink)
    if (max(light, ground) + 0.05) / (min(light, ground) + 0.05) < 4.5:
        ink = "white" if dark else "black"
    strong, weak = ("#a8d1ff", "#2b5680") if dark else ("#0a3d70", "#a3c4e6")
    return Colours(ink, strong, weak, dark)


def _plain(value: float, place: object = None) -> str:
    del place
    return f"{value:.10g}".replace("-", "\N{MINUS SIGN}", 1) if value < 0 else f"{value:.10g}"


def wrapped(text: str, room: float, size: float, weight: str = "normal") -> list[str]:
    """Return a text in lines that are no wider than so many points."""
    lines = [text]
    font = FontProperties(size=size, weight=weight)
    characters = max(len(text), 1)
    while characters > 8:
        measure = text_to_path.get_text_width_height_descent
        widest = max(measure(line, font, False)[0] for line in lines)
        # Renderers put letters at whole dots, which makes lines a little wider.
        if 1.09 * widest <= room:
            break
        characters = min(int(characters * room / (1.09 * widest)) + 1, characters - 1)
        lines = textwrap.wrap(text, characters) or [""]
    return lines


class Canvas:
    """Axes to draw into: a caller's, or those of a new figure with room for so many lines."""

    def __init__(self, ax: Axes | None, lines: float = 14) -> None:
        self.own = ax is None
        self.height = lines * 0.26 + 0.7
        if ax is None:
            figure = Picture(figsize=(_WIDTH, self.height), layout="constrained")
            FigureCanvasAgg(figure)
            self.axes = figure.add_subplot()
            self.figure: Figure = figure
        else:
            self.axes, self.figure = _checked(ax)
        self.colours = _colours(self.axes)
        self.text: dict[str, Any] = {"parse_math": False, "usetex": False}
        self.text["color"] = self.colours.ink
        self.size = float(rcParams["font.size"])
        self.font = set(get_font(findfont(FontProperties())).get_charmap())
        for side in ("top", "right"):
            self.axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            self.axes.spines[side].set_color(self.colours.ink)
        self.axes.tick_params(colors=self.colours.ink, which="both")
        self.axes.minorticks_off()

    @property
    def plain(self) -> FuncFormatter:
        """A formatter of numbers as they are, in plain texts."""
        return FuncFormatter(_plain)

    @property
    def room(self) -> float:
        """How wide a text above the axes may be, in points."""
        if self.own:
            return self.figure.get_figwidth() * 72 - 18
        return 72 * float(self.axes.bbox.width) / self.figure.dpi

    def printable(self, text: str, longest: int = 60) -> str:
        """Return a text as the font can draw it."""
        return printable(text, longest, self.font)

    def numbers(self, axis: str, *, whole: bool = False) -> None:
        """Have an axis show numbers as they are, in plain texts; of what is counted, whole ones."""
        line = self.axes.xaxis if axis == "x" else self.axes.yaxis
        line.set_major_formatter(self.plain)
        if line.get_scale() == "linear":
            steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
            line.set_major_locator(MaxNLocator(nbins=7, steps=steps, integer=whole))

    def ticks(self, axis: str, places: Sequence[float], labels: Sequence[str]) -> None:
        """Put labels at places of an axis."""
        put = self.axes.set_xticks if axis == "x" else self.axes.set_yticks
        put(list(places), labels=list(labels), **self.text)

    def name_axis(self, axis: str, text: str) -> None:
        """Say what an axis shows, in no more than its length."""
        put = self.axes.set_xlabel if axis == "x" else self.axes.set_ylabel
        length = 0.8 * 72 * (_WIDTH if axis == "x" else self.height)
        if not self.own:
            box = self.axes.bbox
            length = 72 * float(box.width if axis == "x" else box.height) / self.figure.dpi
        first, *rest = wrapped(self.printable(text), length, 1.05 * self.size)
        put(f"{first[:-1]}…" if rest else first, **self.text)

    def legend(self, **where: Any) -> None:
        """Explain what has a public label, where there is more than one."""
        handles, names = self.axes.get_legend_handles_labels()
        wanted = {name: one for one, name in zip(handles, names, strict=True) if name != "interval"}
        if len(wanted) > 1:
            texts = self.axes.legend(wanted.values(), wanted, frameon=False, **where).get_texts()
            for text in texts:
                text.set(**self.text)

    def caption(self, place: float, text: str) -> None:
        """Put a text above the bar at a place."""
        first, *rest = wrapped(self.printable(text, 160), 0.62 * self.room, 0.8 * self.size)
        words = f"{first}…" if rest else first
        self.axes.text(0, place, words, va="bottom", fontsize=0.8 * self.size, **self.text)

    def bars(
        self,
        places: Floats,
        entries: Entries,
        *,
        upright: bool,
        width: float,
        pale: bool = False,
        beside: float = 0.0,
    ) -> None:
        """Draw a bar for each entry from its lower to its upper end, with `beside` in sight."""
        lowest, highest = _span_of(entries, beside)
        which = entries.barred
        low = np.where(np.isinf(entries.low), lowest, entries.low)[which]
        high = np.where(np.isinf(entries.high), highest, entries.high)[which]
        at = places[which]
        segments = np.stack([np.stack([at, low], 1), np.stack([at, high], 1)], axis=1)
        if not upright:
            segments = segments[:, :, ::-1]
        if len(segments):
            colour = self.colours.weak if pale else self.colours.ink
            lines = LineCollection(list(segments), linewidths=width, colors=colour)
            lines.set_label("interval")
            lines.set_zorder(3)
            self.axes.add_collection(lines, autolim=False)
        for ends, edge, marks in ((entries.low, lowest, "v<"), (entries.high, highest, "^>")):
            endless = places[which & np.isinf(ends)]
            edges = np.full(len(endless), edge)
            x, y = (endless, edges) if upright else (edges, endless)
            mark = marks[0 if upright else 1]
            ink = self.colours.ink
            self.axes.plot(x, y, mark, color=ink, markersize=5, zorder=4, clip_on=False)
        (self.axes.set_ylim if upright else self.axes.set_xlim)(lowest, highest)

    def finish(
        self,
        title: str,
        lines: Sequence[str],
        alternative: str,
        *,
        private: bool,
        items: Sequence[str] = (),
    ) -> Figure:
        """Write title, lines and the picture in words, and return the figure.

        Without private noise all of it says that it was not private. Below a figure of this module
        is a numbered list of `items`.
        """
        marks = [] if private else [SEEDED]
        words = [f"{mark}." for mark in marks] + [f"{printable(title)}.", alternative, *lines]
        setattr(self.axes, _WORDS, " ".join(words))
        bold, small = 1.1 * self.size, 0.85 * self.size
        head = [
            part
            for text in (*marks, self.printable(title, 160))
            for part in wrapped(text, self.room, bold if self.own else small, "bold")
        ]
        body = [
            part for line in lines for part in wrapped(self.printable(line, 400), self.room, small)
        ]
        if not self.own:
            self._head_axes(head, body, small)
            return self.figure
        texts = [
            part
            for number, item in enumerate(items, 1)
            for place, line in enumerate(wrapped(f"{number}  {item}", self.room - 12, small))
            for part in ([line] if place == 0 else [f"      {line}"])
        ]
        above = 1.32 * (bold * len(head) + small * len(body)) / 72 + 0.12
        below = 1.32 * small * len(texts) / 72 + (0.1 if texts else 0.0)
        height = self.height + above + below
        self.figure.set_figheight(height)
        engine = self.figure.get_layout_engine()
        if engine is not None:
            engine.set(rect=(0, below / height, 1, self.height / height))  # type: ignore[call-arg]  # of this kind
        left, top = 0.09 / _WIDTH, 1 - 0.06 / height
        under = top - 1.32 * bold * len(head) / 72 / height
        style: dict[str, Any] = {"va": "top", "linespacing": 1.25, **self.text}
        write = self.figure.text
        write(left, top, "\n".join(head), fontsize=bold, fontweight="bold", **style)
        write(left, under, "\n".join(body), fontsize=small, **style)
        write(left, below / height, "\n".join(texts), fontsize=small, **style)
        return self.figure

    def _head_axes(self, head: Sequence[str], body: Sequence[str], size: float) -> None:
        """Write as much above a caller's axes as there is room for, the marks first."""
        if self.figure.get_layout_engine() is None:
            points = float(self.figure.bbox.y1 - self.axes.bbox.y1)
        else:
            points = float(self.axes.bbox.height) / 2
        room = max(1, int(72 * points / self.figure.dpi / (1.32 * size)))
        lines = [*head, *body]
        if len(lines) > room:
            lines = [*lines[: room - 1], f"{lines[room - 1]} …"]
        note = self.axes.set_title("\n".join(lines), loc="left", fontsize=size, **self.text)
        note.set_linespacing(1.25)


def _span_of(entries: Entries, beside: float = 0.0) -> tuple[float, float]:
    """Return the part of an axis that shows all finite numbers, 0 and `beside`, and some room."""
    numbers = np.concatenate([entries.values, entries.low, entries.high, [0.0, beside]])
    seen = numbers[np.isfinite(numbers) & (np.abs(numbers) < _FURTHEST)]
    low, high = float(seen.min()), float(seen.max())
    room = 0.06 * (high - low) or 1.0
    return low - room if low < 0 or entries.unbounded else low, high + room


def _checked(ax: object) -> tuple[Axes, Figure]:
    if not isinstance(ax, Axes) or ax.name != "rectilinear":
        raise InvalidArgument("ax", "matplotlib axes with straight sides, or None", shown(ax))
    figure: object = ax.figure
    if isinstance(figure, SubFigure):
        figure = figure.figure
    if not isinstance(figure, Figure):
        raise InvalidArgument("ax", "axes that are in a figure", shown(ax))
    return ax, figure
