"""The root of the errors."""

from __future__ import annotations

from attrs import fields, has

__all__ = ["DpsdkError"]


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
