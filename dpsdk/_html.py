"""Static HTML of values for notebooks, in the colours of the page, every text escaped."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import islice

__all__ = [
    "LISTED",
    "brief_of",
    "lined_up",
    "number_text",
    "page",
    "pairs",
    "html_of",
    "said",
    "table",
    "text_within",
    "warning",
]

LISTED = 24
"""So many rows of a table are shown."""

_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Notebooks take what is between two dollars for a formula, but not within these classes."""

_LONGEST = 400
_WIDEST = 160
_MOST_COLUMNS = 8


def said(text: object, most: int = _LONGEST) -> str:
    """Return a text as HTML, of at most so many characters; what steers a page is made visible."""
    # Of a class below str, such as an enumeration, the text that it holds.
    given = str.__str__(text if isinstance(text, str) else str(text))
    kept = given if len(given) <= most else f"{given[: most - 3]}..."
    return html.escape("".join(map(_visible, kept)))


def _visible(character: str) -> str:
    # Also what turns the direction of all that follows, and halves of characters.
    if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs"):
        return character
    return f"\\u{ord(character):04x}"


def table(
    header: Sequence[object], rows: Iterable[Sequence[object]], count: int, *, numbers: int = 0
) -> str:
    """Return a table of the first rows of `count`; the last `numbers` columns are of numbers."""
    width = len(header)
    places = list(range(width))
    if width > _MOST_COLUMNS:
        places = [*places[: _MOST_COLUMNS - 1 - numbers], -1, *places[width - numbers :]]
    sides = ["left" if place < width - numbers else "right" for place in range(width)]

    def line(start: str, row: Sequence[object], end: str) -> str:
        cells = [
            f"<{start}>...</{end}>"
            if place < 0
            else f'<{start} style="text-align: {sides[place]}">{said(row[place], _WIDEST)}</{end}>'
            for place in places
        ]
        return f"<tr>{''.join(cells)}</tr>"

    titles = line('th scope="col"', header, "th")
    lines = [line("td", row, "td") for row in islice(rows, LISTED)]
    more = count - len(lines)
    rest = f"<p>... {more:,} more</p>" if more > 0 else ""
    return f"<table><thead>{titles}</thead><tbody>{''.join(lines)}</tbody></table>{rest}"


def pairs(told: Iterable[tuple[str, object]]) -> str:
    """The parts to show, each with a name."""
    lines = [
        f'<tr><th scope="row" style="text-align: left">{said(name)}</th>'
        f'<td style="text-align: left">{said(value)}</td></tr>'
        for name, value in told
    ]
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def warning(*, private: bool) -> str:
    """Return a warning that what was made with seeded noise protects nobody; else nothing."""
    return "" if private else "<p><strong>NOT PRIVATE: seeded noise</strong></p>"


def page(title: object, *parts: str) -> str:
    """Return parts, which are HTML, below a title, which is not."""
    heading = f"<p><strong>{said(title)}</strong></p>"
    return f'<div class="{_NO_FORMULAS}">{heading}{"".join(parts)}</div>'


@singledispatch
def html_of(value: object, /) -> str:
    """Return the HTML of a value within another's. Classes that have a table register theirs."""
    if isinstance(value, float):
        return f"<p>{said(number_text(value))}</p>"
    return f"<p>{said(repr(value))}</p>"


@singledispatch
def brief_of(value: object, /) -> str:
    """Return a value as the text of a cell. Classes of many numbers register theirs."""
    return number_text(value) if isinstance(value, float) else " ".join(repr(value).split())


@singledispatch
def text_within(value: object, low: object, high: object, /) -> str:
    """Return an answer as text, with the interval of each entry where its class has room for it."""
    del low, high
    return repr(value)


def lined_up(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table, its header the first, as lines of text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def number_text(value: float) -> str:
    """Return a number of an answer; whole rows, and what is as large, without an exponent."""
    whole = value.is_integer() or abs(value) >= 1e6
    return f"{value:.0f}" if whole and abs(value) < 2**53 else f"{value:.6g}"
