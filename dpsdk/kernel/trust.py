"""Trust in classes of other authors that somebody vouches for, by name or by class."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from inspect import getattr_static, isabstract
from typing import cast, final

from dpsdk._checks import described, shown
from dpsdk._records import field, frozen
from dpsdk.accounting import Trusted
from dpsdk.errors import InvalidArgument, Untrusted

__all__ = ["NOBODY", "Trust", "called", "named", "naming", "to_trust"]

_EXPECTED = "the dotted names of classes, each with its proof, as in {'acme.Peek': 'acme.org/peek'}"
_AND = ", trusting "
_ITSELF = "; trusting "


def to_trust(given: Mapping[str, str] | Iterable[Trusted]) -> tuple[Trusted, ...]:
    """Names of classes with their proofs, in the order of names."""
    found: list[Trusted]
    if isinstance(given, Mapping):
        pairs = cast("Mapping[object, object]", given).items()
        found = [Trusted(_name_of(key), cast("str", proof)) for key, proof in pairs]
    elif isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgument("trust", _EXPECTED, shown(given))
    else:
        found = list(given)
    for one in found:
        if not isinstance(cast("object", one), Trusted):
            raise InvalidArgument("trust", _EXPECTED, shown(one))
        if not one.proof:
            raise InvalidArgument("trust", _EXPECTED, f"no proof of {one.name}")
    if len({one.name for one in found}) < len(found):
        raise InvalidArgument("trust", "each name once", "one of them twice")
    return tuple(sorted(found, key=lambda one: one.name))


def _name_of(key: object) -> str:
    return f"{key.__module__}.{key.__qualname__}" if isinstance(key, type) else cast("str", key)


def naming(mechanism: str, names: Iterable[str]) -> str:
    """The name on record of a mechanism that rests on the word of trusted classes."""
    known = sorted(set(names))
    return f"{mechanism}{_AND}{', '.join(known)}" if known else mechanism


def named(mechanism: str) -> tuple[str, tuple[str, ...]]:
    """A mechanism on record, and the classes that were trusted for it."""
    before, _, text = mechanism.rpartition(_AND)
    names = tuple(text.split(", ")) if before else ()
    # Else the mechanism calls itself so.
    return (before, names) if names and all(map(_is_dotted, names)) else (mechanism, ())


def called(name: str) -> str:
    """The name of a mechanism on record: its own, where that names no trust.

    On a ledger nothing but the name tells whose word was taken, so that it has to be the
    package's to say.
    """
    return name.replace(_AND, _ITSELF) if named(name)[1] else name


def _is_dotted(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and all(map(str.isidentifier, parts))


def _loaded(name: str) -> object:
    """The object that a name stands for in the loaded modules. Nothing is imported or run."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found: object = sys.modules.get(".".join(parts[:cut]))
        if found is not None:
            for part in parts[cut:]:
                found = getattr_static(found, part, None)
            return found
    return None


@final
@frozen(eq=False)
class Trust:
    """The classes that a session, or a kernel, lets run though they are not of this package."""

    names: tuple[Trusted, ...] = ()
    _classes: Mapping[type, Trusted] = field(factory=dict[type, Trusted], repr=False)

    @classmethod
    def of(cls, given: Mapping[str, str] | Iterable[Trusted], root: type) -> Trust:
        """Find the classes of these names, all of them below the root."""
        names = to_trust(given)
        keys = list(cast("Mapping[object, str]", given)) if isinstance(given, Mapping) else []
        known = {_name_of(key): key for key in keys if isinstance(key, type)}
        classes: dict[type, Trusted] = {}
        for one in names:
            kind: object = known.get(one.name) or _loaded(one.name)
            if not isinstance(kind, type) or not issubclass(kind, root):
                expected = "names of classes of requests, in modules that were imported before"
                raise InvalidArgument("trust", expected, one.name)
            if isabstract(kind):
                raise InvalidArgument("trust", "names of classes that price", one.name)
            if kind in classes:
                raise InvalidArgument("trust", "one name a class", "two names of one class")
            classes[kind] = one
        return cls(names, classes)

    def find(self, kind: type) -> Trusted:
        """Find on whose word a class runs."""
        known = self._classes.get(kind)
        if known is not None:
            return known
        name = described(f"{kind.__module__}.{kind.__qualname__}")
        if any(one.name == name for one in self.names):
            raise Untrusted(name, "it is not the class that had this name when trust= was given")
        raise Untrusted(name)


NOBODY = Trust()
