"""Names of plugins: what they may look like, and which are names of the package in disguise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from unicodedata import normalize

from dpsdk.wire import Catalogue

__all__ = ["LONGEST", "fault", "line", "near", "normalised", "ours", "skeleton", "well_made"]

LONGEST = 100
"""Names of distributions and of what they offer are no longer, as in written forms."""

OWN = "dpsdk"

_DISTRIBUTION = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LOOK_ALIKE = str.maketrans({"l": "1", "i": "1", "o": "0"})
_MOST_SHOWN = 240


def normalised(distribution: str) -> str:
    """Return the one spelling of a distribution's name, as package indices have it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def well_made(distribution: str) -> bool:
    """Return whether this is the normalised name of a distribution."""
    return len(distribution) <= LONGEST and _DISTRIBUTION.fullmatch(distribution) is not None


def skeleton(name: str) -> str:
    """Return what is left of a name where case, marks, dashes and like characters are one.

    As the Python Package Index tells names apart: "l", "i" and "1" are one, and "o" and "0".
    """
    folded = normalize("NFKD", normalize("NFKD", name).casefold())
    return "".join(filter(str.isalnum, folded)).translate(_LOOK_ALIKE)


def ours(distribution: str) -> bool:
    """Return whether a distribution is called as this package is, in whatever spelling."""
    return skeleton(distribution) == skeleton(OWN)


@cache
def _built_in() -> frozenset[str]:
    """Return the skeletons of all built-in names, with and without what is before the dot."""
    kinds = [name.partition(".") for name in Catalogue.shipped().kinds]
    named = [(what, name) for what, _, name in kinds if what in ("mechanism", "query")]
    return frozenset(skeleton(text) for what, name in named for text in (name, f"{what}.{name}"))


def fault(name: str) -> str:
    """Tell what is wrong with the name of an entry point; an empty text is nothing."""
    if skeleton(name) in _built_in():
        return "has the name of a built-in mechanism or query"
    if ":" in name:
        return "names a distribution, and may have no name but its own, without a colon"
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        return (
            f"has a name that is not of at most {LONGEST} small letters and digits, with single "
            "dashes between them"
        )
    return ""


def near(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known names that one comes near: other spellings of it first."""
    short, names = name[: 2 * LONGEST], sorted(known)
    alike = [one for one in names if _ending(one) == _ending(short)]
    close = get_close_matches(short.casefold(), names, n=5, cutoff=0.6)
    return tuple(dict.fromkeys([*alike, *close]))


def _ending(name: str) -> str:
    return skeleton(name.rpartition(":")[2])


def line(text: object) -> str:
    """Return a text of a stranger's metadata as one line that can be shown, and not too long."""
    kept = str(text)[:_MOST_SHOWN]
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in kept
    )
