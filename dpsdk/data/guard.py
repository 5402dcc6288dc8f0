"""Loading that fails takes no value along: not in a message, a traceback or a chain of errors."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from dpsdk.errors import DataError, DpsdkError

__all__ = ["attempt", "hidden", "outcome"]

P = ParamSpec("P")
T = TypeVar("T")


def attempt(
    source: str, load: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T | BaseException:
    """Return what a call returns, or the error to raise once the caller has let go of the values.

    The frames of a traceback keep their local variables alive, columns among them, and so do the
    errors that an error came from. So the error that is returned has neither. Errors of
    other authors are replaced, since their text may quote a value.
    """
    try:
        return load(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # interrupts too; it is raised by `outcome`
        return _bare(source, error)


def outcome(result: T | BaseException) -> T:
    """Return the result of an attempt, or raise its error."""
    if isinstance(result, BaseException):
        raise result
    return result


@contextmanager
def hidden(source: str, reason: str) -> Generator[None]:
    """Replace errors of other authors while rows are read: their text may quote a value."""
    try:
        yield
    except DpsdkError:
        raise
    except Exception:  # noqa: BLE001  # see above
        raise DataError(source, reason) from None


def _bare(source: str, error: BaseException) -> BaseException:
    if isinstance(error, MemoryError) and not isinstance(error, DpsdkError):
        return DataError(source, "there is not enough memory to load it")
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    if isinstance(error, Exception) and not isinstance(error, DpsdkError):
        return DataError(source, "cannot be read")
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
