"""Objects with an end: closed by hand, by leaving their `with`, or with their owner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from dpsdk.errors import Closed

__all__ = ["Closable", "Lifetime"]


class Lifetime:
    """True if something was closed: a session, scope, partition or channel, or a question.

    It takes no lock, so that finalisers and forked processes may look and close.

    Parameters
    ----------
    what
        What is closed; read as a text when it refuses.
    outer
        What it belongs to.
    """

    __slots__ = ("__weakref__", "_ended", "_outer", "_what")

    def __init__(self, what: object, outer: Lifetime | None = None) -> None:
        self._what = what
        self._outer = outer
        self._ended = False

    @property
    def over(self) -> bool:
        """True if it was closed, or what it belongs to."""
        outer = self._outer
        return self._ended or (outer is not None and outer.over)

    @property
    def ended(self) -> bool:
        """True if it was closed itself."""
        return self._ended

    def end(self) -> None:
        """Close it. It then keeps nothing alive that it belonged to."""
        self._ended = True
        self._outer = None

    def check(self) -> None:
        """Refuse if it was closed.

        Raises
        ------
        Closed
            Names what was closed, the outermost first.
        """
        ended: Lifetime | None = None
        one: Lifetime | None = self
        while one is not None:
            if one._ended:
                ended = one
            one = one._outer
        if ended is not None:
            raise Closed(str(ended._what))


class Closable(ABC):
    """Something to close, for use in a `with`."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Answer nothing more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
