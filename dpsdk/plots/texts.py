"""Texts for pictures: in one line, short, and of characters that a font has."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Container, Sequence

from dpsdk.accounting.numbers.display import as_bound

__all__ = ["above", "filled", "label", "listed", "number", "several", "span", "spelled"]

_LONGEST_LABEL = 28
_LONGEST_TITLE = 160
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that are not drawn, or that change how others are."""


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def spelled(text: str, longest: int = _LONGEST_TITLE, font: Container[int] | None = None) -> str:
    """A text in one line of at most so many characters.

    Characters that cannot be seen, or that the font does not have, are spelled as Python spells
    them. A text that was cut ends in an ellipsis.

    Parameters
    ----------
    text, longest
        What to spell, and how long it may be.
    font
        The code points that can be drawn; None for all.
    """
    kept: list[str] = []
    size = 0
    for letter in text[: longest + 1]:
        plain = letter.isascii() and letter.isprintable()
        if plain or (
            unicodedata.category(letter) not in _UNSEEN and (font is None or ord(letter) in font)
        ):
            part = letter
        else:
            part = _escaped(letter)
        size += len(part)
        kept.append(part)
    if size <= longest and len(text) <= longest:
        return "".join(kept)
    cut = "".join(kept)
    # No half of an escape is left behind.
    while len(cut) > longest - 1:
        cut = cut[: -len(kept.pop())]
    return f"{cut}…"


def label(parts: Sequence[str], font: Container[int] | None = None) -> str:
    """The labels of one cell along all attributes, in words that fit an axis."""
    longest = max(8, _LONGEST_LABEL // max(1, len(parts)))
    return " · ".join(spelled(part, longest, font).strip() or "(blank)" for part in parts)


def number(value: float) -> str:
    """A number in at most four digits, as people write it."""
    return f"{value:.4g}".replace("inf", "infinity")


def above(value: float) -> str:
    """The same of a bound, which is never written as less than it is."""
    return as_bound(value).replace("inf", "infinity")


def span(low: float, high: float) -> str:
    """The ends of an interval, never written as a narrower one: "0.1 to 0.2"."""
    return f"{number(-float(as_bound(-low)))} to {above(high)}"


def several(count: int, one: str, many: str = "") -> str:
    """So many of something: "1 entry", "4,000 entries"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(items: Sequence[str], most: int) -> str:
    """Some items in a row, and how many more there are."""
    more = len(items) - most
    return "; ".join(items[:most]) + (f"; and {more:,} more" if more > 0 else "")


def filled(lines: Sequence[str], room: float, wide: Callable[[str], float]) -> list[str]:
    """Lines, each in as many as have room, where `wide` says how wide a text is."""
    space = wide("n n") - wide("nn")
    found: list[str] = []
    for line in lines:
        words, taken = list[str](), 0.0
        for word in line.split():
            rest = word
            while True:
                own = wide(rest)
                if taken + own + space * bool(words) <= room:
                    break
                if words:
                    found.append(" ".join(words))
                    words, taken = [], 0.0
                    continue
                fits = min(max(1, int(len(rest) * room / own)), len(rest) - 1)
                if not fits:
                    break
                while fits > 1 and wide(rest[:fits]) > room:
                    fits -= 1
                found.append(rest[:fits])
                rest = rest[fits:]
            taken += own + space * bool(words)
            words.append(rest)
        found.append(" ".join(words))
    return found
