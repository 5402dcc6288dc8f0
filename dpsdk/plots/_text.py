"""Texts of pictures: short, in one line, of characters that a font has, and never too certain."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Container, Sequence
from typing import TypeVar

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting.numbers import as_bound, confidence
from dpsdk.errors import NoBound
from dpsdk.release import Bound, Release
from dpsdk.typing import Bools, Floats

__all__ = [
    "Entries",
    "describe_bounds",
    "describe_entries",
    "describe_release",
    "entries_of",
    "format_bound",
    "format_count",
    "format_label",
    "format_number",
    "format_span",
    "printable",
]

A = TypeVar("A")

_LONGEST_LABEL = 28
_LONGEST_TITLE = 160
_TOLD = 12
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that are not drawn, or that change how others are."""


def printable(text: str, longest: int = _LONGEST_TITLE, font: Container[int] | None = None) -> str:
    """Return a text in one line of at most so many characters.

    Characters that cannot be seen, or whose code points the font does not have, are escaped as
    Python does it. A text that was cut ends in an ellipsis, and holds no half of an escape.
    """
    parts: list[str] = []
    for letter in text[: longest + 1]:
        plain = letter.isascii() and letter.isprintable()
        seen = unicodedata.category(letter) not in _UNSEEN and (font is None or ord(letter) in font)
        escaped = letter.encode("unicode_escape").decode("ascii")
        parts.append(letter if plain or seen else escaped)
    if len(text) <= longest and sum(map(len, parts)) <= longest:
        return "".join(parts)
    while sum(map(len, parts)) > longest - 1:
        parts.pop()
    return "".join(parts) + "…"


def format_label(parts: Sequence[str], font: Container[int] | None = None) -> str:
    """Return the labels of one cell along all attributes, in words that fit an axis."""
    longest = max(8, _LONGEST_LABEL // max(1, len(parts)))
    return " · ".join(printable(part, longest, font).strip() or "(blank)" for part in parts)


def format_number(value: float) -> str:
    """Return a number in at most four digits, as people write it."""
    return f"{value:.4g}".replace("inf", "infinity")


def format_bound(value: float) -> str:
    """Return a bound in a few digits, never as less than it is."""
    return as_bound(value).replace("inf", "infinity")


def format_span(low: float, high: float) -> str:
    """Return the ends of an interval, never as a narrower one: "0.1 to 0.2"."""
    return f"{format_number(-float(as_bound(-low)))} to {format_bound(high)}"


def format_count(count: int, one: str, many: str = "") -> str:
    """Return so many of something: "1 entry", "4,000 entries"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


@frozen(eq=False)
class Entries:
    """The numbers of a release, NaN where nothing is told, and the ends of their bars.

    Ends are NaN where there is no bound, and possibly infinite; `joint` says if all truths lie
    between them at once, None where there is no bound.
    """

    values: Floats
    low: Floats
    high: Floats
    joint: bool | None
    bound: Bound

    @property
    def barred(self) -> Bools:
        """The entries that have a bar to draw."""
        return np.isfinite(self.values) & ~np.isnan(self.low) & ~np.isnan(self.high)

    @property
    def unbounded(self) -> int:
        """How many have a bar that has no end."""
        if self.joint is None:
            return 0
        return int((np.isinf(self.low) | np.isinf(self.high)).sum())

    def ordered(self, order: Sequence[int]) -> Entries:
        """Return the same entries in another order."""
        values, low, high = (part[list(order)] for part in (self.values, self.low, self.high))
        return Entries(values, low, high, self.joint, self.bound)


def entries_of(release: Release[A], beta: float, numbers: Callable[[A], Floats]) -> Entries:
    """Return the numbers of a release, with joint bars where it has them, else one by one."""
    values = np.asarray(numbers(release.value), dtype=np.float64).reshape(-1)
    bound = release.bound(beta)
    try:
        ends = (np.asarray(numbers(end), dtype=np.float64) for end in release.interval(beta))
        low, high = (end.reshape(-1) for end in ends)
        return Entries(values, low, high, joint=True, bound=bound)
    except NoBound:
        pass
    try:
        errors = np.asarray(release.errors(beta), dtype=np.float64).reshape(-1)
        return Entries(values, values - errors, values + errors, joint=False, bound=bound)
    except NoBound:
        nothing = np.full(len(values), np.nan)
        return Entries(values, nothing, nothing, joint=None, bound=bound)


def describe_bounds(entries: Entries, beta: float, end: str = "bar") -> list[str]:
    """Say on what the bars of a picture rest, or whatever shows the ends in it."""
    bound, count = entries.bound, len(entries.values)
    if entries.joint is None:
        return [f"No {end}s: {bound.words}."]
    sure, at = f"with probability {confidence(beta)}", f"β = {beta:g}"
    if count == 1:
        lines = [f"The {end} holds {sure} ({at})."]
    elif not entries.joint:
        every = format_count(count, "entry", "entries")
        held = f"{end.capitalize()}s hold each by itself {sure} ({at}, each)"
        return [f"{held}; nothing is known of all {every} at once."]
    else:
        where = "" if bound.proven else ", where they end"
        held = f"{end.capitalize()}s hold for all {count:,} entries at once{where}"
        lines = [f"{held}, {sure} ({at}, joint)."]
    if entries.joint and bound.proven:
        lines.append(f"{bound.standing.capitalize()}: {printable(bound.kind, 120)}.")
    return lines


def describe_release(
    release: Release[A], entries: Entries, beta: float, end: str = "bar"
) -> list[str]:
    """Say all that is to be known below the title of a picture of a release."""
    lines = describe_bounds(entries, beta, end)
    if entries.unbounded:
        ends = format_count(entries.unbounded, f"{end} has", f"{end}s have")
        lines.append(f"{ends} no end: nothing is known there.")
    if entries.joint is not None and entries.bound.proven and entries.bound.vacuous:
        lines.append("Vacuous: the bound says no more than the range of possible answers does.")
    missing = int((~np.isfinite(entries.values)).sum())
    if missing:
        told = format_count(missing, "entry tells", "entries tell")
        lines.append(f"{told} nothing, and are left out.")
    if release.moved:
        far = f"by {format_number(release.moved)} at the most"
        far = far if math.isfinite(release.moved) else "nobody knows by how much"
        lines.append(f"Moved after it was measured, {far}.")
    source = {
        "measured": "measured",
        "fitted": "fitted to what was measured",
        "hypothesis": "read off a public distribution",
    }[release.source]
    again = ", reused" if release.reused else ""
    lines += [printable(f"Note: {note}.") for note in release.notes]
    cost, mechanism = printable(str(release.cost), 90), printable(release.mechanism, 90)
    lines.append(f"Cost {cost}{again}; {source} by {mechanism}.")
    return lines


def describe_entries(names: Sequence[str], entries: Entries) -> str:
    """Say numbers with their names: all of a few, and of many the least and the largest."""
    values = entries.values
    told = np.flatnonzero(np.isfinite(values)).tolist()

    def describe(place: int) -> str:
        ends = ""
        if entries.joint is not None:
            ends = f" ({format_span(entries.low[place], entries.high[place])})"
        return f"{names[place]}: {format_number(values[place])}{ends}"

    if len(told) <= _TOLD:
        return "; ".join(map(describe, told)) + "."
    least, most = min(told, key=values.__getitem__), max(told, key=values.__getitem__)
    return (
        f"{format_count(len(values), 'value')}; the smallest is {describe(least)}, "
        f"the largest {describe(most)}."
    )
