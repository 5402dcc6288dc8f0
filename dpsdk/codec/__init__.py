"""The codec: how public values are written as plain JSON, read back strictly, and identified.

A class registers its written form beside itself, by `written`, with a name and a field for each
member; every table of kinds is derived from that. Whatever is read is hostile data: texts are
limited in length, depth and digits, every value is checked by its field, and kinds are looked up in
a closed table, so that nothing is imported, called or evaluated by a name in a text. A kind never
comes to mean anything else. The identity of a value is the digest of its canonical text.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Self, TypeVar, cast

from dpsdk.codec import composed, fields, kinds, legacy, text
from dpsdk.codec.composed import *  # noqa: F403  # the names of these modules are the room's own
from dpsdk.codec.fields import *  # noqa: F403
from dpsdk.codec.fields import refused
from dpsdk.codec.kinds import *  # noqa: F403
from dpsdk.codec.kinds import OWN, Codebook
from dpsdk.codec.legacy import *  # noqa: F403
from dpsdk.codec.legacy import is_record, renewed
from dpsdk.codec.text import *  # noqa: F403
from dpsdk.codec.text import JSON, Plain, canonical, check
from dpsdk.errors import WireError

__all__ = ["Recorded", "digest", "from_plain", "from_record", "to_plain", "to_record"]
__all__ += composed.__all__
__all__ += fields.__all__
__all__ += kinds.__all__
__all__ += legacy.__all__
__all__ += text.__all__

R = TypeVar("R")


def digest(data: Plain) -> str:
    """The identity of plain data: the SHA-256 of its canonical text, in hexadecimal digits."""
    return sha256(canonical(data)).hexdigest()


def to_plain(value: object, path: str = "$") -> JSON:
    """The written form of a value of the package, without an envelope.

    Raises
    ------
    WireError
        If the value, or a part of it, has no written form.
    """
    return OWN.kind_of(value, path).write(value, path, _BOOK)


def from_plain(kind: type[R], plain: object, path: str = "$") -> R:
    """The value of a class, or of one below it, that plain data stand for.

    The data must be what `parsed` gives; data that a caller made pass through `check` first.

    Raises
    ------
    WireError
        If they are no such value to the letter.
    """
    if type(plain) is not dict:
        raise refused(path, f"an object that stands for a {kind.__name__}", plain)
    data = cast("JSON", plain)
    found = OWN.kind_named(data.get("kind"), path)
    if not issubclass(found.made, kind):
        raise WireError(f"{path}.kind", f"the kind of a {kind.__name__}", found.name)
    return cast("R", found.read(data, path, _BOOK))


_BOOK = Codebook(OWN)


def to_record(value: object) -> JSON:
    """As `to_plain`, for `to_record` of public classes."""
    return to_plain(value, type(value).__name__)


def from_record(kind: type[R], record: object) -> R:
    """The value of a record, in the one spelling that `to_record` gives, or of dpsdk 0.1.

    Raises
    ------
    RecordError
        If it is no record of this class.
    """
    name = kind.__name__
    check(record)
    old = is_record(record)
    plain = renewed(record, name) if old else cast("JSON", record)
    value = from_plain(kind, plain, name)
    again = to_plain(value, name)
    # Of what 0.1 wrote, a member may be missing that was added later.
    if {member: again.get(member) for member in plain} != plain or not (old or again == plain):
        raise WireError(name, "spelled in the one way of records", "spelled otherwise")
    return value


class Recorded:
    """A value that a ledger writes as plain data, and reads again."""

    __slots__ = ()

    def to_record(self) -> JSON:
        """The value as plain data, for a ledger to write.

        Raises
        ------
        RecordError
            If its class, or that of a part of it, is none of the package, or a number is too long.
        """
        return to_record(self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The value of a record; raises `RecordError` if it is none of this class."""
        return from_record(cls, record)
