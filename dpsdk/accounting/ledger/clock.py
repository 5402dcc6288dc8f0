"""What time it is, for people who read a ledger. Nothing is decided by it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

__all__ = ["Clock", "system_clock", "told"]

Clock: TypeAlias = Callable[[], datetime | None]
"""Says what time it is, in a time zone; None where nobody knows."""


def system_clock() -> datetime:
    """The time of the operating system, in UTC. It may jump, also backwards."""
    return datetime.now(UTC)


def told(clock: Clock) -> datetime | None:
    """What a clock says, in UTC; None where it fails, or does not say in which zone.

    A charge that could not be dated is one all the same.
    """
    try:
        now = clock()
        if now is None or now.tzinfo is UTC:
            return now
        return None if now.utcoffset() is None else now.astimezone(UTC)
    except Exception:  # noqa: BLE001  # clocks can be set to years that no date has
        return None
