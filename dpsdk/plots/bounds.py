"""What a picture says of a release: its numbers, the ends of its bars, and on what these rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from attrs import frozen

from dpsdk.accounting.numbers.display import confidence
from dpsdk.errors import NoBound
from dpsdk.plots.texts import number, several, spelled
from dpsdk.release import Bound, Release
from dpsdk.typing import Bools, Floats

__all__ = ["Entries", "entries_of", "paid", "resting", "said"]

A = TypeVar("A")


@frozen(eq=False)
class Entries:
    """The numbers of a release, and the ends of their bars.

    Parameters
    ----------
    values
        As released, in one row; NaN where nothing is told.
    low, high
        Between which the truths lie; NaN where there is no bound at all, and possibly infinite.
    joint
        Whether all of them lie there at once; None where there is no bound.
    bound
        What is known of all of them at once.
    """

    values: Floats
    low: Floats
    high: Floats
    joint: bool | None
    bound: Bound

    @property
    def barred(self) -> Bools:
        """Which of them have a bar to draw."""
        return np.isfinite(self.values) & ~np.isnan(self.low) & ~np.isnan(self.high)

    @property
    def unbounded(self) -> int:
        """How many have a bar that has no end."""
        if self.joint is None:
            return 0
        return int((np.isinf(self.low) | np.isinf(self.high)).sum())


def entries_of(release: Release[A], beta: float, numbers: Callable[[A], Floats]) -> Entries:
    """The numbers of a release: simultaneous bars where it has them, else one by one, else none."""
    values = _row(numbers(release.value))
    bound = release.bound(beta)
    try:
        low, high = (_row(numbers(end)) for end in release.interval(beta))
        return Entries(values, low, high, joint=True, bound=bound)
    except NoBound:
        pass
    try:
        errors = _row(release.errors(beta))
        return Entries(values, values - errors, values + errors, joint=False, bound=bound)
    except NoBound:
        nothing = np.full(len(values), np.nan)
        return Entries(values, nothing, nothing, joint=None, bound=bound)


def _row(numbers: Floats) -> Floats:
    return np.asarray(numbers, dtype=np.float64).reshape(-1)


def resting(entries: Entries, beta: float, end: str = "bar") -> list[str]:
    """On what the bars of a picture rest, or what shows the ends in it."""
    bound, count = entries.bound, len(entries.values)
    if entries.joint is None:
        return [f"No {end}s: {bound.words}."]
    sure, at, all_of = confidence(beta), f"β = {beta:g}", several(count, "entry", "entries")
    if not entries.joint:
        every = "each by itself" if count > 1 else "it"
        rest = "" if count == 1 else f"; nothing is known of all {all_of} at once"
        return [f"{end.capitalize()}s hold {every} with probability {sure} ({at}, each){rest}."]
    if count == 1:
        lines = [f"The {end} holds with probability {sure} ({at})."]
    else:
        where = "" if bound.proven else ", where they end"
        held = f"{end.capitalize()}s hold for all {all_of} at once{where}"
        lines = [f"{held}, with probability {sure} ({at}, joint)."]
    if bound.proven:
        lines.append(f"{bound.standing.capitalize()}: {spelled(bound.kind, 120)}.")
    return lines


def paid(release: Release[A]) -> str:
    """What a release cost, where its answer is from, and of which mechanism."""
    again = ", reused" if release.reused else ""
    source = {
        "measured": "measured",
        "fitted": "fitted to what was measured",
        "hypothesis": "read off a public distribution",
    }[release.source]
    mechanism = spelled(release.mechanism, 90)
    return f"Cost {spelled(str(release.cost), 90)}{again}; {source} by {mechanism}."


def said(release: Release[A], entries: Entries, beta: float, end: str = "bar") -> list[str]:
    """All that a picture of a release says below its title."""
    lines = resting(entries, beta, end)
    if entries.unbounded:
        ends = several(entries.unbounded, f"{end} has", f"{end}s have")
        lines.append(f"{ends} no end: nothing is known there.")
    if entries.joint is not None and entries.bound.proven and entries.bound.vacuous:
        lines.append("Vacuous: the bound says no more than the range of possible answers does.")
    untold = int((~np.isfinite(entries.values)).sum())
    if untold:
        lines.append(f"{several(untold, 'entry tells', 'entries tell')} nothing, and are left out.")
    if release.moved:
        far = f"by {number(release.moved)} at the most"
        far = far if math.isfinite(release.moved) else "nobody knows by how much"
        lines.append(f"Moved after it was measured, {far}.")
    lines.append(paid(release))
    return lines
