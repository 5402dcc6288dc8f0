"""Loading that fails takes no value along: not in a message, a traceback or a chain of errors."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn, ParamSpec, TypeVar

from dpsdk._checks import cut
from dpsdk.errors import DataError, DpsdkError, MissingExtra, Redacted

__all__ = ["Hidden", "attempt", "explained", "hidden", "outcome"]

UNREADABLE = "cannot be read; collect and check it before it is handed over"
"""The reason for a table whose library raised, since its text may quote values."""

P = ParamSpec("P")
T = TypeVar("T")


class Hidden:
    """What stands for a private table, and shows nothing of it."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")

    def __iter__(self) -> Iterator[NoReturn]:
        raise Redacted("iteration")

    def __len__(self) -> int:
        raise Redacted("len()")

    def __getitem__(self, key: object) -> NoReturn:
        raise Redacted("indexing")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise Redacted("conversion to an array")

    def __bool__(self) -> bool:
        return True


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
def _replaced(source: str, why: Callable[[Exception], str]) -> Generator[None]:
    try:
        yield
    except DpsdkError:
        raise
    except ImportError as error:
        raise _missing(source, error) from None
    except Exception as error:  # noqa: BLE001  # whatever another author raises
        raise DataError(source, why(error)) from None


def hidden(source: str) -> AbstractContextManager[None]:
    """Replace errors of other authors while rows are read: their text may quote a value."""
    return _replaced(source, lambda _: UNREADABLE)


def explained(source: str) -> AbstractContextManager[None]:
    """Give the reason of what fails before a row is read: names, types and queries are public.

    Errors of classes that are not known to be of that kind are hidden.
    """
    return _replaced(source, _reason)


_PUBLIC = {
    "builtins": {"FileNotFoundError", "PermissionError", "IsADirectoryError"},
    "duckdb": {"BinderException", "CatalogException", "IOException", "ParserException"},
    "_duckdb": {"BinderException", "CatalogException", "IOException", "ParserException"},
    "ibis": {"IbisInputError", "IbisTypeError", "OperationNotDefinedError", "TableNotFound"},
    "narwhals": {"ColumnNotFoundError", "DuplicateError"},
    "polars": {"ColumnNotFoundError", "DuplicateError", "SchemaError", "SQLSyntaxError"},
    "pyarrow": {"ArrowInvalid", "ArrowNotImplementedError"},
    "pyspark": {"AnalysisException", "ParseException"},
    "sqlglot": {"ParseError", "TokenError"},
    "sqlite3": {"DatabaseError", "OperationalError", "ProgrammingError"},
}
"""Classes of errors that speak of names, types, files and the text of a query only."""

_PUBLIC_STATES = ("08", "0A", "25", "28", "3D", "3F", "42")
"""The same for PostgreSQL: classes of SQLSTATE."""

_LONGEST = 300
_PANICS = "pyo3_runtime"


def _reason(error: Exception) -> str:
    library = type(error).__module__.partition(".")[0]
    state = str(getattr(error, "sqlstate", None) or "")
    public = {one.__name__ for one in type(error).__mro__} & _PUBLIC.get(library, set())
    if public or (library == "psycopg" and state.startswith(_PUBLIC_STATES)):
        return f"cannot be read: {cut(' '.join(str(error).split()), _LONGEST)}"
    return UNREADABLE


def _missing(source: str, error: ImportError) -> DpsdkError:
    return MissingExtra(error.name) if error.name else DataError(source, UNREADABLE)


def _bare(source: str, error: BaseException) -> BaseException:
    if isinstance(error, MemoryError) and not isinstance(error, DpsdkError):
        return DataError(source, "there is not enough memory to load it")
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    # A panic of a library in Rust is no Exception, and may quote values as well.
    foreign = isinstance(error, Exception) or type(error).__module__ == _PANICS
    if foreign and not isinstance(error, DpsdkError):
        return DataError(source, "cannot be read")
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
