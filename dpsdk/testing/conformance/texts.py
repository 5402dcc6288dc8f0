"""Texts of plugins about themselves, printed safely."""

from __future__ import annotations

from dpsdk._checks import described

__all__ = ["called", "plain"]

_LONGEST = 4_000


def plain(text: str) -> str:
    """A text as one line of characters that print, and no longer than anybody reads."""
    kept = str.__str__(text)
    if len(kept) > _LONGEST:
        kept = f"{kept[: _LONGEST - 3]}..."
    if kept.isprintable():
        return kept
    # Letters of an escape are printable, and so is every escape.
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in kept
    )


def called(value: object) -> str:
    """The name of a part of a plugin by itself; its class, where that raises instead."""
    try:
        return plain(described(value))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  # a plugin may raise what it likes
        kind = str(type.__getattribute__(type(value), "__name__"))
        return plain(f"a value of class {kind[:80]}")
