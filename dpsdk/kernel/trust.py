"""Who is trusted: classes of other authors that somebody vouches for, as they were when named.

A name is looked up by whoever opens a session or makes a kernel. What it stands for then is what
was vouched for: not what the name is bound to later, and not the class once it was changed, or once
its module was loaded again, whose functions it would share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from inspect import getattr_static, isabstract
from operator import is_
from types import FunctionType, MappingProxyType
from typing import Final, TypeAlias, cast, final

from attrs import frozen

from dpsdk._checks import described, shown
from dpsdk.accounting import Trusted
from dpsdk.errors import InvalidArgument, Untrusted
from dpsdk.forms import Facts
from dpsdk.forms.facts import Neighbors, Setting

__all__ = [
    "NOBODY",
    "Trust",
    "Vetted",
    "Vouching",
    "bound",
    "called",
    "mro",
    "named",
    "naming",
    "to_trust",
]

_EXPECTED = "the dotted names of classes, each with its proof, as in {'acme.Peek': 'acme.org/peek'}"
_AND = ", trusting "
_ITSELF = "; trusting "

_Part: TypeAlias = tuple[object, ...]
"""What a name in a class stands for and, where that is a method, of what that is made."""

_INSIDE: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        staticmethod: ("__func__",),
        classmethod: ("__func__",),
        property: ("fget", "fset", "fdel"),
        cached_property: ("func",),
    }
)
"""Where what stands around a function keeps it."""

_Parts: TypeAlias = Mapping[tuple[int, str], _Part]
"""By the place of the class in the order of resolution, and the name."""

mro: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
_dict: Final[Callable[[type], Mapping[str, object]]] = type.__dict__["__dict__"].__get__
"""As Python keeps them: a metaclass could answer for its classes as it likes."""

_UNSETTLED = frozenset({"__annotations__", "__doc__", "__slotnames__"})
"""Python itself may write these into a class when somebody looks at it, or copies its objects."""


def to_trust(given: Mapping[str, str] | Iterable[Trusted]) -> tuple[Trusted, ...]:
    """Names of classes with their proofs, in the order of names.

    Raises
    ------
    InvalidArgument
        If they are no names with proofs, or a name comes twice.
    """
    if isinstance(given, Mapping):
        pairs = cast("Mapping[object, object]", given).items()
        found = [Trusted(cast("str", name), cast("str", proof)) for name, proof in pairs]
    elif isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgument("trust", _EXPECTED, shown(given))
    else:
        found = [_again(one) for one in given]
    for one in found:
        if not one.proof:
            raise InvalidArgument("trust", _EXPECTED, f"no proof of {one.name}")
    names = {one.name for one in found}
    if len(names) < len(found):
        raise InvalidArgument("trust", "each name once", "one of them twice")
    return tuple(sorted(found, key=lambda one: one.name))


def _again(one: object) -> Trusted:
    if type(one) is not Trusted:
        raise InvalidArgument("trust", _EXPECTED, shown(one))
    return Trusted(one.name, one.proof)


def naming(mechanism: str, names: Iterable[str]) -> str:
    """What a mechanism is called on record if its word is that of trusted classes."""
    known = sorted(set(names))
    return f"{mechanism}{_AND}{', '.join(known)}" if known else mechanism


def named(mechanism: str) -> tuple[str, tuple[str, ...]]:
    """A mechanism on record, and the classes that were trusted for it."""
    before, _, text = mechanism.rpartition(_AND)
    names = tuple(text.split(", ")) if before else ()
    # Else the mechanism calls itself so.
    return (before, names) if names and all(map(_is_dotted, names)) else (mechanism, ())


def called(name: str) -> str:
    """What a mechanism is called on record: what it calls itself, where that names no trust.

    On a ledger nothing but the name tells whose word was taken, so that it has to be the
    package's to say.
    """
    return name.replace(_AND, _ITSELF) if named(name)[1] else name


def _is_dotted(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and all(map(str.isidentifier, parts))


@frozen(eq=False)
class Vetted:
    """A trusted class as it was when it was named."""

    trusted: Trusted
    kind: type
    _order: tuple[type, ...]
    _own: tuple[type, ...]
    _parts: _Parts

    @classmethod
    def of(cls, trusted: Trusted, root: type) -> Vetted:
        """What a name stands for now.

        Raises
        ------
        InvalidArgument
            If that is no class that can be asked for, below the root.
        """
        found = _loaded(trusted.name)
        if not issubclass(type(found), type) or root not in mro(cast("type", found)):
            expected = "names of classes of requests, in modules that were imported before"
            raise InvalidArgument("trust", expected, trusted.name)
        kind = cast("type", found)
        if isabstract(kind):
            raise InvalidArgument("trust", "names of classes that price", trusted.name)
        common = {id(above) for above in mro(root)}
        own = tuple([one for one in mro(kind) if id(one) not in common])
        return cls(trusted, kind, mro(kind), own, _parts_of(own))

    @property
    def unchanged(self) -> bool:
        """Whether the name still stands for the class, and that is made of the very same."""
        parts, known = _parts_of(self._own), self._parts
        return (
            _loaded(self.trusted.name) is self.kind
            and _same(mro(self.kind), self._order)
            and parts.keys() == known.keys()
            and all(_same(part, known[place]) for place, part in parts.items())
        )


def _same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _parts_of(classes: Iterable[type]) -> _Parts:
    return {
        (place, name): tuple(_made_of(value, []))
        for place, one in enumerate(classes)
        for name, value in _dict(one).items()
        if name not in _UNSETTLED
    }


def _made_of(value: object, seen: list[object]) -> Iterator[object]:
    """A method and all that can be exchanged in it: code, defaults, and what it closes over.

    Functions that it closes over are those that it decorates, and are looked into as well.
    """
    yield value
    if type(value) is FunctionType:
        if any(value is one for one in seen):
            return
        seen.append(value)
        yield value.__code__
        yield value.__defaults__
        for name, default in (value.__kwdefaults__ or {}).items():
            yield from (name, default)
        for cell in value.__closure__ or ():
            try:
                held: object = cell.cell_contents
            except ValueError:  # which is empty so far
                held = None
            yield from _made_of(held, seen)
    for name in _INSIDE.get(type(value), ()):
        yield from _made_of(getattr(value, name), seen)


def bound(kind: type, name: str, value: object) -> object:
    """A method of a class for one of its objects, whatever the class's own class says of it."""
    for one in mro(kind):
        if name in _dict(one):
            found = _dict(one)[name]
            binding = getattr_static(type(found), "__get__", None)
            return found if binding is None else binding(found, value, kind)
    return None


def _loaded(name: str) -> object:
    """What a name stands for in the modules that are loaded. Nothing is imported or run."""
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

    vetted: tuple[Vetted, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, str] | Iterable[Trusted], root: type) -> Trust:
        """The classes of these names, all of them below the root.

        Raises
        ------
        InvalidArgument
            If a name stands for none, or two stand for the same.
        """
        found = [Vetted.of(one, root) for one in to_trust(given)]
        if len({id(one.kind) for one in found}) < len(found):
            raise InvalidArgument("trust", "one name a class", "two names of one class")
        return cls(tuple(found))

    @property
    def names(self) -> tuple[Trusted, ...]:
        """Who is trusted, to hand out."""
        return tuple([Trusted(one.trusted.name, one.trusted.proof) for one in self.vetted])

    def find(self, kind: type) -> Trusted:
        """On whose word a class runs.

        A class is looked up by what it is, and is not asked for its name, which it could choose.

        Raises
        ------
        Untrusted
            If nobody named that class, or it was changed since.
        """
        for one in self.vetted:
            if one.kind is kind:
                if one.unchanged:
                    return one.trusted
                why = "it, or what its name stands for, was changed since it was named in trust="
                raise Untrusted(one.trusted.name, why)
        name = _called(kind)
        if any(one.trusted.name == name for one in self.vetted):
            raise Untrusted(name, "it is not the class that had this name when trust= was given")
        raise Untrusted(name)


NOBODY = Trust()


def _called(kind: type) -> str:
    """What a class calls itself, whatever its own class does about it."""
    try:
        return described(f"{kind.__module__}.{kind.__qualname__}")
    except Exception:  # noqa: BLE001  # see above
        return "a class of another author"


@final
class Vouching:
    """What trusting comes to in one channel: who is trusted, and whose word it rests on so far."""

    __slots__ = ("_facts", "_relied", "trust")

    def __init__(self, trust: Trust) -> None:
        self.trust: Trust = trust
        self._relied: set[str] = set()
        self._facts: Facts | None = None

    def rely(self, names: Iterable[str]) -> None:
        """Keep in mind whose runs were paid for."""
        self._relied.update(names)

    @property
    def relied(self) -> tuple[Trusted, ...]:
        """Whose runs were paid for in this channel, and may be what its answers rest on."""
        relied = self._relied
        return tuple([one for one in self.trust.names if one.name in relied]) if relied else ()

    def facts(self, given: Facts, setting: Setting) -> Facts:
        """What is public of a table, as it was when it was made, in objects that nobody else has.

        Facts are in the hands of clients, and a class of another author prices by what it is given.

        Raises
        ------
        InvalidArgument
            If the names or sizes of attributes are no longer those of the table.
        """
        known = self._facts
        if known is None or Setting.of(known) != setting:
            relation = Neighbors.REPLACE_ONE if setting.replaced else Neighbors.ADD_REMOVE
            known = Facts(
                deepcopy(given.domain), relation, setting.rows, setting.outside, setting.row_limit,
                setting.unit_rows, setting.person, setting.distinct,
            )  # fmt: skip
            if Setting.of(known) != setting:
                expected = "with the attributes that the table was made with"
                raise InvalidArgument("domain", expected, "others")
            self._facts = known
        return known
