"""Kinds: a class, the name of its written form and its members, registered beside the class."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from dpsdk._checks import cut, shown
from dpsdk._records import field, frozen
from dpsdk.codec.fields import Field, object_schema, refused
from dpsdk.codec.text import JSON, Plain, step
from dpsdk.errors import DpsdkError, InvalidArgument, WireError

__all__ = [
    "ENVELOPE",
    "GROUPS",
    "OWN",
    "PUBLIC",
    "REQUIRED",
    "Codebook",
    "Kind",
    "Kinds",
    "Member",
    "Nested",
    "opened",
    "written",
]

T = TypeVar("T")
C = TypeVar("C", bound=type)

ENVELOPE: Mapping[str, str | int] = MappingProxyType({"format": "dpsdk.wire", "version": 1})
"""The members at the top of every written form, beside its kind."""

_KIND = "kind"
_RESERVED = (*ENVELOPE, _KIND)
_OWN_NAME = re.compile(r"[a-z]+(?:\.[a-z]+(?:-[a-z]+)*)?")
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}:[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def opened(data: Plain, envelope: Mapping[str, Plain]) -> JSON:
    """The members of an object beside its envelope; raises `WireError` if that is another."""
    if type(data) is not dict:
        raise refused("$", f"an object of {', '.join(envelope)} and more", data)
    for name, value in envelope.items():
        if name not in data or type(data[name]) is not type(value) or data[name] != value:
            raise refused(f"$.{name}", f"{value!r}", data.get(name))
    return {name: value for name, value in data.items() if name not in envelope}


REQUIRED: object = object()
"""The default of a member that may not be left out."""


@frozen(eq=False)
class Member(Generic[T]):
    """One member of the object that stands for a value.

    Parameters
    ----------
    field
        How it is written and read.
    default
        What is meant where it is left out. It is part of the meaning of the kind, and so it never
        changes, whatever the class takes by default one day. It is always written, unless `quiet`.
    of
        The attribute of a value that it is written from, if that has another name.
    key
        The argument that it is read for, if that has another name.
    quiet
        Whether it is left out where it equals the default, or a rule that says so of a value: for a
        member that a kind was given later, so that what could be written before is written as it
        was, and has the same digest.
    """

    field: Field[T]
    default: object = REQUIRED
    of: str = ""
    key: str = ""
    quiet: bool | Callable[..., bool] = False
    path: str = ""
    """The step of a path that leads to it; set by the kind."""


def _to_members(given: Mapping[str, object]) -> Mapping[str, Member[object]]:
    if not isinstance(given, Mapping):
        raise InvalidArgument("members", "a mapping of names to fields", shown(given))
    members: dict[str, Member[object]] = {}
    for name, item in given.items():
        if not isinstance(name, str) or name in _RESERVED:
            expected = f"without {', '.join(_RESERVED)}, which every written form has"
            raise InvalidArgument("members", expected, shown(name))
        member = cast("Member[object]", item if isinstance(item, Member) else Member(_field(item)))
        of, key = member.of or name, member.key or name
        members[name] = Member(member.field, member.default, of, key, member.quiet, step(name))
    return MappingProxyType(members)


def _field(given: object) -> Field[object]:
    if not all(callable(getattr(given, name, None)) for name in ("write", "read", "schema")):
        raise InvalidArgument("members", "fields, or members of them", shown(given))
    return cast("Field[object]", given)


@frozen(eq=False)
class Kind(Generic[T]):
    """A class of values, what its written form is called, and how each member is written.

    Parameters
    ----------
    made
        The class; those below it are not written under this name.
    name
        What the written form calls it. Kinds of other packages begin with the name of their
        distribution and a colon, as "acme:median". It never comes to mean anything else.
    members
        For each member of the object a `Field`, or a `Member` of one.
    take
        What makes a value of what was read, by keyword; the class itself if left out.
    settle
        What a value becomes before it is written, if not itself: given the value, the path and the
        codebook of the writing.
    wrong
        What is expected of values of this kind where one is wrong, and an empty text otherwise.
        Wrong values are neither written nor read.

    Raises
    ------
    InvalidArgument
        If the name or a member is not as described.

    >>> from attrs import frozen
    >>> from dpsdk import wire
    >>> @frozen
    ... class Mark:
    ...     text: str
    >>> catalogue = wire.Catalogue.shipped().plus(wire.Kind(Mark, "acme:mark", {"text": wire.NAME}))
    >>> wire.loads(Mark, wire.dumps(Mark("a"), allow=catalogue), allow=catalogue)
    Mark(text='a')
    """

    made: type[T]
    name: str
    members: Mapping[str, Member[object]] = field(converter=_to_members)
    take: Callable[..., T] | None = None
    settle: Callable[[T, str, Codebook], T] | None = None
    wrong: Callable[[T], str] | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.made, type):
            raise InvalidArgument("made", "a class", shown(self.made))
        own = self.made.__module__.partition(".")[0] == "dpsdk"
        spellings = (_OWN_NAME, _PLUGIN_NAME) if own else (_PLUGIN_NAME,)
        named = isinstance(self.name, str)
        if not named or not any(spelling.fullmatch(self.name) for spelling in spellings):
            expected = 'the name of a distribution and of a kind, as in "acme:median"'
            raise InvalidArgument("name", expected, shown(self.name))
        for name in ("take", "settle", "wrong"):
            rule: object = getattr(self, name)
            if rule is not None and not callable(rule):
                raise InvalidArgument(name, "something to call", shown(rule))

    def write(self, value: T, path: str, codebook: Codebook) -> JSON:
        """The object that stands for a value, with its kind and without an envelope."""
        if self.settle is not None:
            value = self.settle(value, path, codebook)
        written: JSON = {_KIND: self.name}
        for name, member in self.members.items():
            try:
                found: object = getattr(value, member.of)
            except AttributeError:
                expected = f"a value with an attribute {member.of!r}"
                raise WireError(path, expected, type(value).__name__) from None
            quiet = member.quiet
            if not quiet or not (quiet(value) if callable(quiet) else found == member.default):
                written[name] = member.field.write(found, path + member.path, codebook)
        if self.wrong is not None and (expected := self.wrong(value)):
            raise WireError(path, expected, "others")
        return written

    def read(self, plain: JSON, path: str, codebook: Codebook) -> T:
        """The value of such an object, whose kind is known to be this one."""
        for name in plain:
            if name not in self.members and name != _KIND:
                raise WireError(path, f"the members of {self.name} alone", f"also {shown(name)}")
        read: dict[str, object] = {}
        for name, member in self.members.items():
            if name in plain:
                place = path + member.path
                try:
                    read[member.key] = member.field.read(plain[name], place, codebook)
                except (WireError, RecursionError):
                    raise
                except Exception as error:  # a field of another author may raise what it likes
                    got = f"a {type(error).__name__}"
                    raise WireError(place, "what its field takes", got) from error
            elif member.default is REQUIRED:
                raise WireError(path, f"all members of {self.name}", f"none called {name!r}")
            else:
                read[member.key] = member.default
        expected = f"what makes a value of kind {self.name}"
        try:
            value = self.made(**read) if self.take is None else self.take(**read)
        except WireError:
            raise
        except DpsdkError as error:
            raise WireError(path, expected, cut(str(error), 300)) from error
        except Exception as error:  # a class of another author may raise what it likes
            raise WireError(path, expected, f"a {type(error).__name__}") from error
        if self.wrong is not None and (wrong := self.wrong(value)):
            raise WireError(path, expected, f"members that must be {wrong}") from ValueError(wrong)
        return value

    def schema(self, codebook: Codebook, *, top: bool = False) -> JSON:
        """The JSON Schema of such an object."""
        properties: JSON = {}
        if top:
            kinds = {str: "string", int: "integer"}
            properties = {
                name: {"type": kinds[type(value)], "const": value}
                for name, value in ENVELOPE.items()
            }
        properties[_KIND] = {"const": self.name}
        required = list(properties)
        for name, member in self.members.items():
            properties[name] = member.field.schema(codebook)
            if member.default is REQUIRED:
                required.append(name)
        return object_schema(properties, required)


class Kinds:
    """A table of kinds, by class and by name. Nothing is imported by a name in a text."""

    __slots__ = ("_by_class", "_by_name")

    def __init__(self, kinds: Iterable[Kind[object]] = ()) -> None:
        self._by_name: dict[str, Kind[object]] = {}
        self._by_class: dict[type, Kind[object]] = {}
        for kind in kinds:
            self._add(kind)

    def _add(self, kind: Kind[object]) -> None:
        if not isinstance(kind, Kind):
            raise InvalidArgument("kinds", "kinds of written values", shown(kind))
        if kind.name in self._by_name or kind.made in self._by_class:
            expected = "kinds of which no two have one name or one class"
            raise InvalidArgument("kinds", expected, shown(kind.name))
        self._by_name[kind.name] = self._by_class[kind.made] = kind

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of all kinds."""
        return tuple(self._by_name)

    def kind_of(self, value: object, path: str) -> Kind[object]:
        """The kind of a value; raises `WireError` if its class is none of the catalogue."""
        kind = self._by_class.get(type(value))
        if kind is None:
            raise WireError(path, "a value of a kind of the catalogue", _class_of(value))
        return kind

    def kind_named(self, name: object, path: str) -> Kind[object]:
        """The kind of a name; raises `WireError` if the catalogue has none."""
        kind = self._by_name.get(name) if type(name) is str else None
        if kind is None:
            few = f", one of {', '.join(self._by_name)}" if len(self._by_name) < 9 else ""
            raise refused(f"{path}.{_KIND}", f"the name of a kind of the catalogue{few}", name)
        return kind

    def nearest(self, made: type, path: str) -> Kind[object]:
        """The kind of a class, or of the first above it that has one."""
        for base in made.__mro__:
            if base in self._by_class:
                return self._by_class[base]
        raise WireError(path, "a value of a kind of the catalogue", f"one of class {made.__name__}")

    def among(self, *classes: type) -> tuple[Kind[object], ...]:
        """The kinds of classes that are, or stand below, one of these."""
        return tuple([kind for kind in self._by_class.values() if issubclass(kind.made, classes)])

    def named(self, digest: str, path: str) -> object:
        """The value that a digest stands for; raises `WireError` if nothing was handed in."""
        expected = "the digest of a distribution that the reader knows, as by knowing()"
        raise WireError(path, expected, shown(digest))


OWN = Kinds()
"""All kinds of the package that are registered so far, also those that only ledgers hold."""

PUBLIC: list[Kind[object]] = []
"""The kinds that `dpsdk.wire` shows."""

GROUPS: dict[str, type] = {}
"""Classes by the names under which fields of lower rooms mean them, as "query"."""


def written(
    name: str,
    members: Mapping[str, object],
    *,
    take: Callable[..., object] | None = None,
    settle: Callable[..., Any] | None = None,
    wrong: Callable[[Any], str] | None = None,
    public: bool = True,
    kinds: Kinds = OWN,
) -> Callable[[C], C]:
    """Register the class below as a kind of the package; the arguments are those of `Kind`.

    Kinds that are not public are held by ledgers alone; those of a table of their own, by `kinds`,
    stand only in fields that say so.
    """

    def register(made: C) -> C:
        kind = Kind(made, name, members, take, settle, wrong)
        kinds._add(kind)  # pyright: ignore[reportPrivateUsage]  # of this module
        if public and kinds is OWN:
            PUBLIC.append(kind)
        return made

    return register


def _class_of(value: object) -> str:
    return f"one of class {type(value).__qualname__[:80]}"


@frozen(eq=False)
class Codebook:
    """The context of writing and reading: a catalogue, and perhaps a domain."""

    catalogue: Kinds = OWN
    domain: object = None
    """The domain over which functions are written out, if one was given."""
    definitions: JSON = field(factory=dict[str, Plain])
    """The definitions of a schema in the making, by name."""


class Nested(Generic[T]):
    """A value of a kind of its own inside another.

    Parameters
    ----------
    what
        What such values are called together.
    classes
        What they must be: classes, or names of groups of them.
    kinds
        The table in which they are looked up; that of the codebook, if left out.
    """

    def __init__(self, what: str, *classes: type | str, kinds: Kinds | None = None) -> None:
        self._what = what
        self._name = what.replace(" ", "-")
        self._classes = classes
        self._kinds = kinds

    @property
    def _wanted(self) -> tuple[type, ...]:
        return tuple([GROUPS[one] if isinstance(one, str) else one for one in self._classes])

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        if not isinstance(value, self._wanted):
            raise WireError(path, self._what, _class_of(value))
        kinds = self._kinds or codebook.catalogue
        return kinds.kind_of(value, path).write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        if type(plain) is not dict:
            raise refused(path, f"an object that stands for {self._what}", plain)
        kind = (self._kinds or codebook.catalogue).kind_named(plain.get(_KIND), path)
        if not issubclass(kind.made, self._wanted):
            raise WireError(f"{path}.{_KIND}", f"the kind of {self._what}", shown(kind.name))
        return cast("T", kind.read(plain, path, codebook))

    def schema(self, codebook: Codebook, /) -> JSON:
        definitions = codebook.definitions
        if self._name not in definitions:
            refs: list[Plain] = []
            definitions[self._name] = {"oneOf": refs}
            for kind in (self._kinds or codebook.catalogue).among(*self._wanted):
                if kind.name not in definitions:
                    definitions[kind.name] = {}
                    definitions[kind.name] = kind.schema(codebook)
                refs.append({"$ref": f"#/$defs/{kind.name}"})
            if not refs:
                definitions[self._name] = False
        return {"$ref": f"#/$defs/{self._name}"}
