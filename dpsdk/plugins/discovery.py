"""Find what installed distributions offer, from their metadata: nothing is imported."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from os.path import realpath
from typing import TYPE_CHECKING

from dpsdk._records import evolve, field, frozen
from dpsdk.plugins.names import fault, line, normalised, ours, skeleton, well_made

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["GROUPS", "KINDS", "MECHANISMS", "QUERIES", "Plugin", "known", "listed", "offered"]

MECHANISMS = "dpsdk.mechanisms"
QUERIES = "dpsdk.queries"
KINDS = "dpsdk.kinds"
GROUPS = (MECHANISMS, QUERIES, KINDS)

_WORD = r"[^\W\d]\w*"
_PLACE = re.compile(rf"({_WORD}(?:\.{_WORD})*)\s*:\s*({_WORD})", re.ASCII)
_LONGEST_PLACE = 200


@frozen
class Plugin:
    """An offer of an installed distribution. None of its code was run for that.

    Parameters
    ----------
    distribution
        Its name, as package indices normalise it.
    version
        The version that is installed.
    group
        The group of the entry point: "dpsdk.mechanisms", "dpsdk.queries" or "dpsdk.kinds".
    name
        What `mechanism` and `query` call it, as "acme-dp:repeated", and written forms as well.
    where
        The dotted place of the class, or of its kind, as "acme_dp.repeated.Repeated".
    refused
        Why it cannot be used; empty if nothing is wrong that can be seen from here.
    """

    distribution: str = field(converter=line)
    version: str = field(converter=line)
    group: str = field(converter=line)
    name: str = field(converter=line)
    where: str = field(converter=line)
    refused: str = ""


def listed() -> tuple[Plugin, ...]:
    """All plugins of the installed distributions, those that are refused included.

    Nothing of them is imported: it is read off the metadata that installers keep beside packages.

    >>> from dpsdk import plugins
    >>> [one.name for one in plugins.listed() if one.distribution == "dpsdk"]
    []
    """
    from importlib.metadata import distributions  # noqa: PLC0415  # which few programs need

    found: list[Plugin] = []
    seen: set[str] = set()
    places: set[tuple[str, ...]] = set()
    for distribution in distributions():
        offers = offered(distribution)
        place = (_text(partial(_folder, distribution)), *map(str, offers))
        if not offers or place in places:  # as where a folder is on the path twice
            continue
        places.add(place)
        name = offers[0].distribution
        if name in seen or not _found_by(name, distribution):
            reason = "is of a distribution that is not the first of its name, or has two names"
            offers = [evolve(one, refused=one.refused or reason) for one in offers]
        seen.add(name)
        found.extend(offers)
    return tuple(sorted(found, key=lambda one: (one.distribution, one.group, one.name)))


def known(group: str) -> list[Plugin]:
    """Return the plugins of a group; none where a finder of another author raises."""
    with suppress(Exception):
        return [one for one in listed() if one.group == group]
    return []


def _folder(distribution: Distribution) -> str:
    return realpath(str(distribution.locate_file("")))


def _found_by(name: str, distribution: Distribution) -> bool:
    """Return whether a distribution is the one that its name leads to."""
    first = installed(name)
    with suppress(Exception):  # of damaged files, which are nobody's
        return first is not None and all(
            first.read_text(file) == distribution.read_text(file)
            for file in ("METADATA", "entry_points.txt")
        )
    return False


def _text(read: Callable[[], object]) -> str:
    """Return a text of a distribution's metadata; an empty one where they are damaged."""
    with suppress(Exception):
        return str(read() or "")
    return ""


def installed(name: str) -> Distribution | None:
    """Return the installed distribution of a normalised name, if there is one."""
    from importlib.metadata import distribution  # noqa: PLC0415  # which few programs need

    if not well_made(name):
        return None
    # Damaged metadata raise what they like, and then nothing is installed that could be used.
    with suppress(Exception):
        return distribution(name)
    return None


def offered(distribution: Distribution) -> list[Plugin]:
    """Return what one distribution offers, judged by what can be seen without running it."""
    entries = _entries(distribution)
    called = _text(lambda: distribution.metadata["Name"]) if entries else ""
    name, version = normalised(called), _text(lambda: distribution.version)
    reason = _fault_of(called)
    # One name is one thing in a distribution: a mechanism, a query or nothing else. Kinds belong
    # to what has the same name, so they are counted by themselves.
    sound = [(group == KINDS, skeleton(own)) for group, own, _ in entries if not fault(own)]
    times = Counter(sound)
    found: list[Plugin] = []
    for group, own, value in entries:
        wrong = reason or _fault_in(group, own, value)
        if not wrong and times[group == KINDS, skeleton(own)] > 1:
            wrong = "has a name that its distribution gives twice"
        place = _PLACE.fullmatch(value)
        where = value if place is None else f"{place[1]}.{place[2]}"
        found.append(Plugin(name, version, group, f"{name}:{own}", where, wrong))
    return found


def _entries(distribution: Distribution) -> list[tuple[str, str, str]]:
    """Return the group, the name and the value of each entry point meant for this package."""
    try:
        return [
            (entry.group, entry.name, entry.value)
            for entry in distribution.entry_points
            if entry.group.partition(".")[0] == "dpsdk"
        ]
    except Exception:  # noqa: BLE001  # of a damaged file, which is told if it may concern us
        text = _text(lambda: distribution.read_text("entry_points.txt"))
        return [(group, "", "") for group in GROUPS if f"[{group}]" in text]


def _fault_of(called: str) -> str:
    if ours(called):
        return "is of a distribution that is called like dpsdk itself"
    if not (called.isascii() and well_made(normalised(called))):
        return "is of a distribution whose name is no valid one"
    return ""


def _fault_in(group: str, name: str, value: str) -> str:
    if group not in GROUPS:
        return f"is in a group that is none of {', '.join(GROUPS)}"
    if not name and not value:
        return "is in a file of entry points that cannot be read"
    wrong = fault(name)
    if wrong:
        return wrong
    place = _PLACE.fullmatch(value)
    if place is None or len(value) > _LONGEST_PLACE:
        return 'has a place that is not written as "module:Class"'
    if place[1].partition(".")[0] == "dpsdk":
        return "is of dpsdk itself"
    return ""
