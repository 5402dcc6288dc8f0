"""The root of the errors, and errors of arguments, universes, queries, tables and texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from dpsdk._records import define, fields, has

__all__ = [
    "DataError",
    "DomainError",
    "DpsdkError",
    "InvalidArgument",
    "MissingExtra",
    "PluginError",
    "PublicSizeRequired",
    "QueryError",
    "RecordError",
    "TooLarge",
    "UnknownAttribute",
    "UnknownLabel",
    "UnknownName",
    "UnknownQuery",
    "WireError",
]


_LOOKED_AT = 1000
"""So many names are compared with a misspelled one."""

_LONGEST_NAME = 80
"""Longer names are not compared."""


class DpsdkError(Exception):
    """The root of the tree: catch it to catch everything that dpsdk raises on purpose.

    Two errors are equal if they are of one class and have equal fields, also after pickling.
    """

    def _values(self) -> tuple[object, ...]:
        kind = type(self)
        if not has(kind):
            return self.args
        return tuple(getattr(self, field.name) for field in fields(kind))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, DpsdkError):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self._values(), dict(vars(self)))


def _again(kind: type[DpsdkError], values: tuple[object, ...], notes: dict[str, object]) -> object:
    """An error as it was pickled, with its notes."""
    error = kind(*values)
    vars(error).update(notes)
    return error


@define(str=False, eq=False)
class InvalidArgument(DpsdkError, ValueError):
    """A parameter is not what was expected."""

    parameter: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.parameter} must be {self.expected}; got {self.got}"


class DomainError(DpsdkError, ValueError):
    """A name or value that the public universe does not have."""


def _choices(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 12 else shown or "none"


def near(name: object, known: Iterable[object]) -> str:
    """The name that a misspelled one comes nearest to, but for its case the same if one is."""
    from difflib import get_close_matches  # noqa: PLC0415  # where something is refused

    texts = [text for text in islice(known, _LOOKED_AT) if isinstance(text, str)]
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return ""
    folded = name.strip().casefold()
    alike = (text for text in texts if text.casefold() == folded)
    short = [text for text in texts if len(text) <= _LONGEST_NAME]
    return next(alike, "") or next(iter(get_close_matches(name, short, 1)), "")


@define(str=False, eq=False)
class UnknownAttribute(DomainError, KeyError):
    """The domain has no attribute of this name."""

    attribute: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        found = near(self.attribute, self.known)
        hint = f"; did you mean {found!r}?" if found else ""
        return (
            f"the domain has no attribute {self.attribute!r}; it has {_choices(self.known)}{hint}"
        )


@define(str=False, eq=False)
class UnknownLabel(DomainError, KeyError):
    """The attribute has no such label."""

    attribute: str
    label: str
    expected: str

    def __str__(self) -> str:
        return f"attribute {self.attribute!r} has no label {self.label}; expected {self.expected}"


@define(str=False, eq=False)
class QueryError(DpsdkError, ValueError):
    """A query that cannot be put to this universe, or not to this mechanism.

    `query` names it, `reason` says why.
    """

    query: str
    reason: str

    def about(self, query: str) -> QueryError:
        """The same error with the query named: mechanisms raise it where they know a form only."""
        return type(self)(query, self.reason)

    def __str__(self) -> str:
        return f"{self.query}: {self.reason}" if self.query else self.reason


@define(str=False, eq=False)
class UnknownQuery(QueryError, KeyError):
    """No query that was answered equals the one whose answer is looked up."""


@define(str=False, eq=False)
class PublicSizeRequired(QueryError):
    """A share of the rows was asked for where the number of rows is private."""


@define(str=False, eq=False)
class DataError(DpsdkError, ValueError):
    """A table does not fit its declaration. Never quotes a value of the table."""

    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@define(str=False, eq=False)
class TooLarge(DpsdkError, MemoryError):
    """Refused before anything was allocated: `needed` exceeds `limit`, both in `unit`."""

    what: str
    needed: int
    limit: int
    unit: str
    advice: str

    def _bytes(self, count: int) -> str:
        """The memory of so many numbers, eight bytes each; nothing for other units."""
        if self.unit not in ("cells", "numbers", "weights"):
            return ""
        size, names = 8.0 * count, iter(("bytes", "kB", "MB", "GB", "TB"))
        unit = next(names)
        while size >= 1000 and unit != "TB":
            size, unit = size / 1000, next(names)
        return f" ({size:,.3g} {unit})" if size < 1e6 else f" ({size:.2g} {unit})"

    def __str__(self) -> str:
        return (
            f"{self.what} needs {self.needed:,} {self.unit}{self._bytes(self.needed)}, more than "
            f"the limit of {self.limit:,}{self._bytes(self.limit)}; {self.advice}"
        )


@define(str=False, eq=False)
class RecordError(DpsdkError, ValueError):
    """A record that is not one of the known kinds to the letter, or a value that has none.

    `where` is the path to the field, `expected` what may stand there.
    """

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.where} must be {self.expected}; got {self.got}"


@define(str=False, eq=False)
class WireError(RecordError):
    """Data that are no written form of a public value, or a value that has no written form.

    `path` leads to the place, from `$`, which is the whole; `expected` is what may stand there.
    Raised before anything is looked up in a table, or charged.
    """

    @property
    def path(self) -> str:
        """The path to the place."""
        return self.where


@define(str=False, eq=False)
class MissingExtra(DpsdkError, ImportError):
    """An optional dependency is not installed. `extra` names what installs it, if dpsdk does.

    `command` is how a package is installed that cannot live with all extras in one environment.
    """

    package: str
    extra: str = ""
    command: str = ""

    def __str__(self) -> str:
        wanted = f"dpsdk[{self.extra}]" if self.extra else self.package
        own = f"in an environment of its own, run {self.command}"
        return f"{self.package} is not installed; {own if self.command else f'install {wanted}'}"


@define(str=False, eq=False)
class UnknownName(DpsdkError, KeyError):
    """Nothing that was asked for by name, and is built in or installed, has this name.

    `what` is what was asked for, such as a mechanism, and `near` are the names that come near.
    """

    what: str
    name: str
    near: tuple[str, ...]

    def __str__(self) -> str:
        ending = f"; near it are {_choices(self.near)}" if self.near else ""
        return f"no {self.what} is called {self.name}{ending}"


@define(str=False, eq=False)
class PluginError(DpsdkError):
    """A plugin that is refused, or that fails when it is loaded or called.

    `distribution` is the installed distribution that it is of, `name` what it is called, and
    `reason` what is wrong. What the plugin itself raised is the cause of this error.
    """

    distribution: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}, of the distribution {self.distribution}, {self.reason}"
