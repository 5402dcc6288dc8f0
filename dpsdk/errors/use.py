"""Errors of how things are used: after their end, twice, from within, or to look inside."""

from __future__ import annotations

from attrs import define

from dpsdk.errors.root import DpsdkError

__all__ = ["Closed", "NotCopyable", "Redacted", "Reentered"]


@define(str=False, eq=False)
class Closed(DpsdkError):
    """The session or channel was closed."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is closed"


@define(str=False, eq=False)
class Redacted(DpsdkError, TypeError):
    """Private data was asked to show, copy, count or iterate itself."""

    operation: str

    def __str__(self) -> str:
        return f"private data does not support {self.operation}; ask a session instead"


@define(str=False, eq=False)
class NotCopyable(DpsdkError, TypeError):
    """An attempt to copy or pickle what must exist once, as a budget being spent."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} cannot be copied or pickled; share the one that exists"


@define(str=False, eq=False)
class Reentered(DpsdkError, RuntimeError):
    """A finaliser, signal handler or callback asked for what its own thread is busy with.

    To wait would have been to wait for ever. Nothing was charged.
    """

    what: str

    def __str__(self) -> str:
        return f"{self.what} was asked for from within its own work"
