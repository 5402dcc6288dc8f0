"""Where pictures are drawn: axes of a figure without pyplot, with a heading that says it all."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import base64
import html
import io
from collections.abc import Container, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.plots._headings import (
    LEADING,
    Fitted,
    Heading,
    Lowered,
    Part,
    ceiling,
    fitting,
    shortened,
    wide,
)
from dpsdk.plots.bounds import Entries
from dpsdk.plots.texts import filled, spelled
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from matplotlib.typing import ColorType

__all__ = ["Canvas", "Picture", "alternative_of", "luminance"]

SEEDED = "NOT PRIVATE: made with seeded noise, protects nobody"

_WIDTH = 7.2
_STEPS = {False: [1, 2, 2.5, 5, 10], True: [1, 2, 5, 10]}
_FURTHEST = 1e307
"""Numbers beyond it have no place on an axis."""


class Picture(Figure):
    """A figure that notebooks show, with its alternative text."""

    def _repr_html_(self) -> str:
        written = io.BytesIO()
        self.savefig(written, format="png")
        encoded = base64.b64encode(written.getvalue()).decode("ascii")
        text = html.escape(alternative_of(self), quote=True)
        return f'<img alt="{text}" src="data:image/png;base64,{encoded}">'


def alternative_of(figure: Figure) -> str:
    """The alternative texts of all pictures in a figure, in order."""
    found = [one for one in figure.findobj(Heading) if isinstance(one, Heading)]
    return "\n\n".join(one.alternative for one in found if one.alternative)


def luminance(colour: ColorType) -> float:
    """The relative luminance of a colour, from 0 for black to 1 for white."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@frozen
class Colours:
    """Colours that differ in lightness, so that they do in grey as well."""

    ink: str
    strong: str
    weak: str
    dark: bool


def _colours(axes: Axes) -> Colours:
    # What is seen behind the axes: their own ground, that of the figure, or what the style is for.
    for face in (axes.get_facecolor(), axes.figure.get_facecolor()):
        if to_rgba(face)[3] > 0.5:
            behind = luminance(face)
            break
    else:
        behind = 0.0 if luminance(rcParams["text.color"]) > 0.4 else 1.0
    dark = behind < 0.18
    ink = rcParams["text.color"]
    if _contrast(luminance(ink), behind) < 4.5:
        ink = "white" if dark else "black"
    strong, weak = ("#a8d1ff", "#2b5680") if dark else ("#0a3d70", "#a3c4e6")
    return Colours(str(ink), strong, weak, dark)


def _plain(value: float, place: object = None) -> str:
    del place
    return f"{value:.10g}".replace("-", "\N{MINUS SIGN}", 1) if value < 0 else f"{value:.10g}"


class Canvas:
    """Axes to draw into.

    Parameters
    ----------
    ax
        Somebody's axes; None for those of a new figure.
    lines
        How many lines of things a new figure has room for, below each other.
    """

    def __init__(self, ax: Axes | None, lines: float = 14) -> None:
        self.own = ax is None
        # Other axes that share the room of these.
        self.beside: list[Axes] = []
        self.captions: list[tuple[float, str, Sequence[str]]] = []
        self.body = lines * 0.26 + 0.7
        if ax is None:
            figure = Picture(figsize=(_WIDTH, self.body), layout="constrained")
            FigureCanvasAgg(figure)
            self.axes = figure.add_subplot()
            self.figure: Figure = figure
        else:
            self.axes, self.figure = _checked(ax)
        self.colours = _colours(self.axes)
        self.text: dict[str, Any] = {
            "parse_math": False,
            "usetex": False,
            "color": self.colours.ink,
        }
        self.size = float(rcParams["font.size"])
        # The code points that the font in use can draw.
        self.font: Container[int] = _Glyphs()
        axes = self.axes
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(self.colours.ink)
        axes.tick_params(colors=self.colours.ink, which="both")
        axes.minorticks_off()

    @property
    def plain(self) -> FuncFormatter:
        """Numbers as they are, in plain texts."""
        return FuncFormatter(_plain)

    def spelled(self, text: str, longest: int = 60) -> str:
        """A text as the font can draw it."""
        return spelled(text, longest, self.font)

    def numbers(self, axis: str, *, whole: bool = False) -> None:
        """Have an axis show numbers as they are, in plain texts; of what is counted, whole ones."""
        one = self.axes.xaxis if axis == "x" else self.axes.yaxis
        one.set_major_formatter(self.plain)
        if one.get_scale() == "linear":
            one.set_major_locator(MaxNLocator(nbins=7, steps=_STEPS[whole], integer=whole))

    def ticks(self, axis: str, places: Sequence[float], labels: Sequence[str]) -> None:
        """Put labels at places of an axis."""
        put = self.axes.set_xticks if axis == "x" else self.axes.set_yticks
        put(list(places), labels=list(labels), **self.text)

    def title(self, axis: str, text: str) -> None:
        """Say what an axis shows."""
        put = self.axes.set_xlabel if axis == "x" else self.axes.set_ylabel
        size = FontProperties(size=rcParams["axes.labelsize"]).get_size_in_points()
        if self.own:
            room = self.room - 60 if axis == "x" else 72 * self.body - 50
        else:
            box = self.axes.bbox
            room = 1.15 * 72 * (box.width if axis == "x" else box.height) / self.figure.dpi
        put(fitting(self.spelled(text), room, partial(wide, size, "normal")), **self.text)

    def write(self, x: float, y: float, text: str, **how: Any) -> Text:
        """A text at a place of the axes."""
        return self.axes.text(x, y, text, **{**self.text, **how})

    @property
    def room(self) -> float:
        """How wide a text above the axes may be, in points."""
        if self.own:
            return self.figure.get_figwidth() * 72 - 18
        return 72 * self.axes.bbox.width / self.figure.dpi

    def caption(self, place: float, text: str, names: Sequence[str]) -> None:
        """A text above the bar at a place, of axes whose bars have these names."""
        self.captions.append((place, text, names))

    def _caption(self, place: float, text: str, names: Sequence[str]) -> None:
        size = 0.8 * self.size
        tick = float(FontProperties(size=rcParams["ytick.labelsize"]).get_size_in_points())
        taken = [wide(tick, "normal", line) for one in names for line in one.split("\n")]
        room = self.room - (max(taken, default=0.0) + 12 if self.own else 0.0)
        words = fitting(self.spelled(text, 160), room, partial(wide, size, "normal"))
        caption = Fitted(
            words,
            (0, place),
            xytext=(0, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=size,
            annotation_clip=False,
            **self.text,
        )
        caption.widest = room
        caption.set_in_layout(False)
        self.axes.add_artist(caption)
        caption.set_clip_on(False)

    def numbered(self, items: Sequence[str]) -> None:
        """Numbered texts below the axes, and room for them in a figure of this module."""
        size = 0.85 * self.size
        long = partial(wide, size, "normal")
        room = self.room - long("1,000,000.00")
        lines = [
            f"{'      ' if place else f'{number}  '}{line}"
            for number, item in enumerate(items, 1)
            for place, line in enumerate(filled([item], room - long("      "), long))
        ]
        listed = Fitted(
            "\n".join(lines),
            (0, 0),
            xycoords="axes fraction",
            xytext=(0, -3.6 * self.size),
            textcoords="offset points",
            va="top",
            fontsize=size,
            annotation_clip=False,
            **self.text,
        )
        listed.widest = room
        self.axes.add_artist(listed)
        listed.set_clip_on(False)
        self.body += 1.25 * size / 72 * (len(lines) - len(items))

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
        """One bar for each entry from its lower to its upper end, and `beside` in sight."""
        lowest, highest = span_of(entries, beside)
        colour = self.colours.weak if pale else self.colours.ink
        which = entries.barred
        low = np.where(np.isinf(entries.low), lowest, entries.low)[which]
        high = np.where(np.isinf(entries.high), highest, entries.high)[which]
        at = places[which]
        pairs = (np.stack([at, low], 1), np.stack([at, high], 1))
        segments = np.stack(pairs, axis=1)
        if not upright:
            segments = segments[:, :, ::-1]
        if len(segments):
            lines = LineCollection(list(segments), linewidths=width, colors=colour)
            lines.set_label("interval")
            lines.set_zorder(3)
            self.axes.add_collection(lines, autolim=False)
        for end, where, marks in ((entries.low, lowest, "v<"), (entries.high, highest, "^>")):
            endless = which & np.isinf(end)
            here, there = places[endless], np.full(int(endless.sum()), where)
            x, y = (here, there) if upright else (there, here)
            mark = marks[0 if upright else 1]
            self.axes.plot(
                x, y, mark, color=self.colours.ink, markersize=5, zorder=4, clip_on=False
            )
        if upright:
            self.axes.set_ylim(lowest, highest)
        else:
            self.axes.set_xlim(lowest, highest)

    def finish(
        self, title: str, lines: Sequence[str], alternative: str, *, private: bool
    ) -> Figure:
        """Write the heading, and give the figure.

        Parameters
        ----------
        title, lines
            What is shown, and what is to be known of it.
        alternative
            The same picture in words.
        private
            Whether it was made with private noise; else all of it says that it was not.
        """
        engine = self.figure.get_layout_engine()
        if not self.own and engine is not None:
            # Only then it is known how wide the axes are beside their labels.
            engine.execute(self.figure)
        for one in self.captions:
            self._caption(*one)
        marks = [] if private else [SEEDED]
        told = [f"{mark}." for mark in marks]
        words = " ".join([*told, f"{spelled(title)}.", alternative, *lines])
        given = (
            ([self.spelled(title, 160)], 1.1 * self.size, "bold"),
            (marks, self.size, "bold"),
            ([self.spelled(line, 400) for line in lines], 0.85 * self.size, "normal"),
        )
        parts: list[Part] = [
            (filled(texts, self.room, partial(wide, size, weight)), size, weight)
            for texts, size, weight in given
        ]
        if not self.own:
            height = 72 * self.axes.bbox.height / self.figure.dpi
            free = max(height / 2, ceiling(self.axes) + height / 8)
            parts = shortened(parts, self.room, free)
        heights = [len(texts) * LEADING * points for texts, points, _ in parts]
        total = sum(heights) + 6
        if self.own:
            self._make_room(total)
        elif engine is None:
            for ax in (self.axes, *self.beside):
                ax.set_axes_locator(Lowered(total, self.axes, ax.get_axes_locator()))
        down = 0.0
        for (texts, points, weight), height in zip(parts, heights, strict=True):
            if texts:
                heading = self._heading("\n".join(texts), total - down, points, weight)
                if not down:
                    heading.alternative = words
            down += height
        return self.figure

    def _make_room(self, points: float) -> None:
        inches = points / 72 + 0.08
        height = self.body + inches
        self.figure.set_figheight(height)
        engine = self.figure.get_layout_engine()
        if engine is not None:
            engine.set(rect=(0, 0, 1, self.body / height))  # type: ignore[call-arg]  # of this kind

    def _heading(self, text: str, up: float, points: float, weight: str) -> Heading:
        """A part of the heading whose top is so many points above the axes or their room."""
        within = "figure fraction" if self.own else "axes fraction"
        height = self.figure.get_figheight()
        at = (0.0, self.body / height) if self.own else (0.0, 1.0)
        heading = Heading(
            text,
            xy=at,
            xycoords=within,
            xytext=(9 if self.own else 0, up),
            textcoords="offset points",
            va="top",
            ha="left",
            fontsize=points,
            fontweight=weight,
            linespacing=1.25,
            annotation_clip=False,
            **self.text,
        )
        heading.widest = self.room
        heading.set_in_layout(not self.own)
        if self.own:
            self.figure.add_artist(heading)
        else:
            self.axes.add_artist(heading)
            heading.set_clip_on(False)
        return heading


class _Glyphs:
    """The code points that the fonts of the style in use can draw, looked up when needed."""

    def __init__(self) -> None:
        self._known: set[int] | None = None

    def __contains__(self, point: object) -> bool:
        if self._known is None:
            wanted = FontProperties()
            self._known = set()
            for family in wanted.get_family():
                one = copy(wanted)
                one.set_family(family)
                self._known.update(get_font(findfont(one)).get_charmap())
        return point in self._known


def span_of(entries: Entries, beside: float = 0.0) -> tuple[float, float]:
    """The part of an axis that shows all finite numbers, nought and another, and some room."""
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
