"""A map from objects, by identity, that does not keep them alive."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import Lock
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["IdentityMap"]

V = TypeVar("V")


class IdentityMap(Generic[V]):
    """Values for objects, each found by the very object that it was kept for.

    A value goes when its object does and, in a bounded map, when room is needed: the oldest first.
    Nothing here waits, so that finalisers and forked processes may use it; the values of a bounded
    map may be lost at any time.

    Parameters
    ----------
    most
        How many values are kept; any number if left out.
    most_bytes
        How many bytes the values of a bounded map may take together; a larger one is not kept.
    """

    __slots__ = ("__weakref__", "_bytes", "_entries", "_lock", "_most", "_most_bytes")

    def __init__(self, most: int | None = None, most_bytes: int = 0) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._lock = Lock()
        self._entries: dict[int, tuple[ref[object], V, int]] = {}

    def keep(self, owner: object, value: V, size: int = 0) -> None:
        """Keep a value of so many bytes for an object, in place of what was kept before.

        A bounded map keeps nothing for objects without weak references, nor while another call of
        its own goes on, in another thread or below a finaliser: it never waits.
        """
        place = id(owner)
        if self._most is None:
            self._entries[place] = ref(owner, partial(_drop, ref(self), place)), value, 0
            return
        if size > self._most_bytes or not self._lock.acquire(blocking=False):
            return
        try:
            watched = ref(owner, partial(_drop, ref(self), place))
            if len(self._entries) >= self._most or self._bytes + size > self._most_bytes:
                self._clear_some(self._most * 3 // 4, size)
            # Counted first: an interrupt in between may count too much, never too little.
            self._bytes += size
            self._entries[place] = watched, value, size
        except TypeError:
            return
        finally:
            self._lock.release()

    def _clear_some(self, most: int, size: int) -> None:
        """Drop the oldest, and more than is needed just now, so that it is seldom done."""
        room = min(self._most_bytes * 3 // 4, self._most_bytes - size)
        self._bytes = self.size
        for place in list(self._entries):
            if len(self._entries) <= most and self._bytes <= room:
                return
            known = self._entries.pop(place, None)
            if known is not None:
                self._bytes -= known[2]

    def get(self, owner: object) -> V | None:
        """The value for an object, None if there is none."""
        known = self._entries.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else None

    def __getitem__(self, owner: object) -> V:
        found = self.get(owner)
        if found is None:
            raise KeyError(type(owner).__name__)
        return found

    def __contains__(self, owner: object) -> bool:
        return self.get(owner) is not None

    def __iter__(self) -> Iterator[object]:
        alive = [known[0]() for known in tuple(self._entries.values())]
        return iter([owner for owner in alive if owner is not None])

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """How many bytes the values take."""
        return sum([known[2] for known in tuple(self._entries.values())])


def _drop(whole: ref[IdentityMap[V]], place: int, watched: object) -> None:
    """Forget the value of an object that is gone; another may be in its place by now."""
    own = whole()
    if own is not None:
        entries = own._entries  # pyright: ignore[reportPrivateUsage]  # of this module
        known = entries.get(place)
        if known is not None and known[0] is watched:
            entries.pop(place, None)
