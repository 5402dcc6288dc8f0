"""What was worked out for objects, kept while they live and while there is room."""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVar
from weakref import ref

from dpsdk._turns import Turns
from dpsdk.errors import Closed, Reentered

__all__ = ["Memo"]

V = TypeVar("V")


class Memo(Generic[V]):
    """Values for objects, each found by the very object that it was kept for.

    A dictionary asks its keys whether they are equal, and any class may say so; this asks nobody.
    A value goes when its object does, or when room is needed, the oldest first. Looking takes no
    lock; keeping takes turns, and whoever would wait for itself, as a finaliser might, keeps
    nothing. So values are lost at times, and must be such as can be worked out again.

    Parameters
    ----------
    most
        How many values are kept.
    most_bytes
        How many bytes they may take together; a larger one is not kept.
    """

    __slots__ = ("__weakref__", "_bytes", "_kept", "_most", "_most_bytes", "_turns")

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[int, tuple[ref[object], V, int]] = {}
        # At least what all values take: what was dropped since is taken off where room is needed.
        self._bytes = 0
        self._turns = Turns("a memo")

    def get(self, owner: object) -> V | None:
        """What is kept for an object, None if nothing is."""
        known = self._kept.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else None

    def keep(self, owner: object, value: V, size: int) -> None:
        """Keep a value of so many bytes for an object, in place of what was kept before.

        Nothing is kept for objects that cannot be watched for their end.
        """
        if size > self._most_bytes:
            return
        place = id(owner)
        try:
            watched = ref(owner, partial(self._drop, ref(self), place))
        except TypeError:
            return
        work = partial(self._keep, place, (watched, value, size))
        try:
            self._turns.take(work)
        except Reentered:
            return
        except Closed:
            # In a forked process, which may lack the thread that had the turn.
            self._turns = Turns("a memo")
            self._turns.take(work)

    def _keep(self, place: int, entry: tuple[ref[object], V, int]) -> None:
        size = entry[2]
        if len(self._kept) >= self._most or self._bytes + size > self._most_bytes:
            self._make_room(size)
        # Counted first: an interrupt in between may count too much, never too little.
        self._bytes += size
        self._kept[place] = entry

    def _make_room(self, size: int) -> None:
        # More than is needed just now, so that it is not looked for again with the next value.
        count, room = self._most * 3 // 4, min(self._most_bytes * 3 // 4, self._most_bytes - size)
        self._bytes = self.size
        for place in list(self._kept):
            if len(self._kept) <= count and self._bytes <= room:
                return
            known = self._kept.pop(place, None)
            if known is not None:
                self._bytes -= known[2]

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """How many bytes the values that are kept take."""
        return sum([size for _, _, size in list(self._kept.values())])

    @staticmethod
    def _drop(memo: ref[Memo[V]], place: int, watched: object) -> None:
        """Forget what was kept for an object that is gone. Takes no lock: it may come any time."""
        own = memo()
        known = None if own is None else own._kept.get(place)
        if own is None or known is None or known[0] is not watched:
            return  # another object is in this place by now
        known = own._kept.pop(place, None)
        if known is not None and known[0] is not watched:
            own._kept.setdefault(place, known)
