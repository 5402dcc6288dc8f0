"""What is kept beside objects and not inside, for as long as they live."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["Beside"]

V = TypeVar("V")


class Beside(Generic[V]):
    """Values for objects, each found by the very object that it was kept for.

    A dictionary asks its keys whether they are equal, and any class may say so; this asks nobody.
    It takes no lock, so that finalisers may come between.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[int, tuple[ref[object], V]] = {}

    def keep(self, owner: object, value: V) -> None:
        """Keep a value for an object, in place of what was kept before."""
        place = id(owner)
        self._kept[place] = ref(owner, partial(self._drop, place)), value

    def get(self, owner: object) -> V | None:
        """What is kept for an object, None if nothing is."""
        watched, value = self._kept.get(id(owner), (None, None))
        return value if watched is not None and watched() is owner else None

    def __getitem__(self, owner: object) -> V:
        found = self.get(owner)
        if found is None:
            raise KeyError(type(owner).__name__)
        return found

    def __contains__(self, owner: object) -> bool:
        return self.get(owner) is not None

    def __iter__(self) -> Iterator[object]:
        alive = [watched() for watched, _ in tuple(self._kept.values())]
        return iter([owner for owner in alive if owner is not None])

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, place: int, watched: object) -> None:
        # Another object may be in this place by now.
        known = self._kept.get(place)
        if known is not None and known[0] is watched:
            del self._kept[place]
