"""Catalogues: which kinds of values may be written and read, in closed tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from attrs import field, frozen

from dpsdk._checks import cut, shown
from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError, InvalidArgument, WireError
from dpsdk.hypothesis import Distribution, Hypothesis
from dpsdk.wire.distributions import digest_of
from dpsdk.wire.fields import Field, refused
from dpsdk.wire.text import JSON, Plain, step

__all__ = ["ENVELOPE", "REQUIRED", "Catalogue", "Codebook", "Kind", "Member", "Nested"]

T = TypeVar("T")

FORMAT = "dpsdk.wire"
VERSION = 1
ENVELOPE: Mapping[str, str | int] = MappingProxyType({"format": FORMAT, "version": VERSION})
"""What stands at the top of every written form, beside its kind."""

_KIND = "kind"
_RESERVED = (*ENVELOPE, _KIND)
_OWN_NAME = re.compile(r"[a-z]+(?:\.[a-z]+(?:-[a-z]+)*)?")
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}:[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

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
        Whether it is left out where it equals the default: for a member that a kind was given
        later, so that what could be written before is written as it was, and has the same digest.
    """

    field: Field[T]
    default: object = REQUIRED
    of: str = ""
    key: str = ""
    quiet: bool = False


def _to_members(given: Mapping[str, object]) -> Mapping[str, Member[object]]:
    members: dict[str, Member[object]] = {}
    if not isinstance(given, Mapping):
        raise InvalidArgument("members", "a mapping of names to fields", shown(given))
    for name, one in given.items():
        if not isinstance(name, str) or name in _RESERVED:
            expected = f"without {', '.join(_RESERVED)}, which every written form has"
            raise InvalidArgument("members", expected, shown(name))
        member = cast("Member[object]", one if isinstance(one, Member) else Member(_field(one)))
        of, key = member.of or name, member.key or name
        members[name] = Member(member.field, member.default, of, key, member.quiet)
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

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.made, type):
            raise InvalidArgument("made", "a class", shown(self.made))
        own = self.made.__module__.partition(".")[0] == "dpsdk"
        spellings = (_OWN_NAME, _PLUGIN_NAME) if own else (_PLUGIN_NAME,)
        named = isinstance(self.name, str)
        if not named or not any(spelling.fullmatch(self.name) for spelling in spellings):
            expected = 'the name of a distribution and of a kind, as in "acme:median"'
            raise InvalidArgument("name", expected, shown(self.name))
        for name, rule in (("take", self.take), ("settle", self.settle)):
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
            if member.quiet and found == member.default:
                continue
            written[name] = member.field.write(found, path + step(name), codebook)
        return written

    def read(self, plain: JSON, path: str, codebook: Codebook, *, top: bool = False) -> T:
        """The value of such an object, whose kind is known to be this one."""
        for name in plain:
            if name not in self.members and name != _KIND and not (top and name in ENVELOPE):
                raise WireError(path, f"the members of {self.name} alone", f"also {shown(name)}")
        read: dict[str, object] = {}
        for name, member in self.members.items():
            if name in plain:
                read[member.key] = _read(member.field, plain[name], path + step(name), codebook)
            elif member.default is REQUIRED:
                raise WireError(path, f"all members of {self.name}", f"none called {name!r}")
            else:
                read[member.key] = member.default
        try:
            return self.made(**read) if self.take is None else self.take(**read)
        except WireError:
            raise
        except DpsdkError as error:
            expected = f"what makes a value of kind {self.name}"
            raise WireError(path, expected, _short(error)) from error
        except Exception as error:  # a class of another author may raise what it likes
            expected = f"what makes a value of kind {self.name}"
            raise WireError(path, expected, f"a {type(error).__name__}") from error

    def schema(self, codebook: Codebook, *, top: bool = False) -> JSON:
        """What JSON Schema says of such an object."""
        properties: JSON = {}
        if top:
            kinds = {str: "string", int: "integer"}
            properties |= {
                name: {"type": kinds[type(value)], "const": value}
                for name, value in ENVELOPE.items()
            }
        properties[_KIND] = {"const": self.name}
        required = list[Plain](properties)
        for name, member in self.members.items():
            properties[name] = member.field.schema(codebook)
            if member.default is REQUIRED:
                required.append(name)
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _read(field: Field[T], plain: Plain, path: str, codebook: Codebook) -> T:
    try:
        return field.read(plain, path, codebook)
    except (WireError, RecursionError):
        raise
    except Exception as error:  # a field of another author may raise what it likes
        raise WireError(path, "what its field takes", f"a {type(error).__name__}") from error


def _short(error: DpsdkError) -> str:
    return cut(str(error), 300)


class Catalogue:
    """The kinds of values that may be written and read, and the distributions that they may name.

    Nothing is imported by a name in a text: a kind is looked up here, or refused. Catalogues are
    built by the program that reads, and do not change.

    >>> from dpsdk import wire
    >>> catalogue = wire.Catalogue.shipped().only("query.threshold", "query.marginal", "mechanism")
    >>> "query.count" in catalogue.kinds, "mechanism.laplace" in catalogue.kinds
    (False, True)
    """

    __slots__ = ("_by_class", "_by_name", "_distributions")

    def __init__(self, kinds: Iterable[Kind[object]] = ()) -> None:
        by_name: dict[str, Kind[object]] = {}
        by_class: dict[type, Kind[object]] = {}
        for kind in kinds:
            if not isinstance(kind, Kind):
                raise InvalidArgument("kinds", "kinds of written values", shown(kind))
            if kind.name in by_name or kind.made in by_class:
                expected = "kinds of which no two have one name or one class"
                raise InvalidArgument("kinds", expected, shown(kind.name))
            by_name[kind.name] = by_class[kind.made] = kind
        self._by_name = MappingProxyType(by_name)
        self._by_class = MappingProxyType(by_class)
        self._distributions: Mapping[str, Distribution] = MappingProxyType({})

    def _with(self, kinds: Iterable[Kind[object]], known: Mapping[str, Distribution]) -> Catalogue:
        result = Catalogue(kinds)
        result._distributions = MappingProxyType(dict(known))
        return result

    @staticmethod
    def shipped() -> Catalogue:
        """All kinds of the package, and none of any other."""
        from dpsdk.wire.shipped import catalogue  # noqa: PLC0415  # which is made of this class

        return catalogue()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of all kinds."""
        return tuple(self._by_name)

    def only(self, *wanted: str | type) -> Catalogue:
        """Some of the kinds: by their names, by what stands before the dot, or by classes.

        Raises
        ------
        InvalidArgument
            If one of these names no kind of the catalogue.
        """
        chosen: set[str] = set()
        for one in wanted:
            names = [name for name in self._by_name if self._is(name, one)]
            if not names:
                expected = "names of kinds, what stands before their dots, or classes"
                raise InvalidArgument("wanted", expected, shown(one))
            chosen.update(names)
        kinds = [kind for name, kind in self._by_name.items() if name in chosen]
        return self._with(kinds, self._distributions)

    def _is(self, name: str, wanted: str | type) -> bool:
        if isinstance(wanted, str):
            return wanted in (name, name.partition(".")[0])
        return isinstance(wanted, type) and issubclass(self._by_name[name].made, wanted)

    def plus(self, *kinds: Kind[T]) -> Catalogue:
        """The same and further kinds, such as those of another package.

        Raises
        ------
        InvalidArgument
            If a name or a class is in the catalogue already.
        """
        more = cast("tuple[Kind[object], ...]", kinds)
        return self._with([*self._by_name.values(), *more], self._distributions)

    def knowing(self, *distributions: Distribution) -> Catalogue:
        """The same, and distributions that written forms may name by their digests.

        Raises
        ------
        InvalidArgument
            If one is no distribution.
        WireError
            If one is of a class that is not kept in files.
        """
        known = dict(self._distributions)
        for distribution in distributions:
            if not isinstance(distribution, Distribution):
                raise InvalidArgument("distributions", "distributions", shown(distribution))
            # What moves is copied, so that a digest stays that of what it names.
            kept = distribution.copy() if isinstance(distribution, Hypothesis) else distribution
            known[digest_of(kept, "$")] = kept
        return self._with(self._by_name.values(), known)

    def kind_of(self, value: object, path: str) -> Kind[object]:
        """The kind of a value.

        Raises
        ------
        WireError
            If its class is none of the catalogue.
        """
        kind = self._by_class.get(type(value))
        if kind is None:
            raise WireError(path, "a value of a kind of the catalogue", _class_of(value))
        return kind

    def kind_named(self, name: object, path: str) -> Kind[object]:
        """The kind of a name.

        Raises
        ------
        WireError
            If the catalogue has none.
        """
        kind = self._by_name.get(name) if type(name) is str else None
        if kind is None:
            raise refused(f"{path}.{_KIND}", "the name of a kind of the catalogue", name)
        return kind

    def among(self, *classes: type) -> tuple[Kind[object], ...]:
        """The kinds of classes that are, or stand below, one of these."""
        return tuple([kind for kind in self._by_class.values() if issubclass(kind.made, classes)])

    def distribution(self, digest: str, path: str) -> Distribution:
        """The distribution of a digest.

        Raises
        ------
        WireError
            If none was handed in.
        """
        found = self._distributions.get(digest)
        if found is None:
            expected = "the digest of a distribution that the reader knows, as by knowing()"
            raise WireError(path, expected, shown(digest))
        return found

    def __repr__(self) -> str:
        return f"Catalogue of {len(self._by_name)} kinds"


def _class_of(value: object) -> str:
    return f"one of class {type(value).__qualname__[:80]}"


@frozen(eq=False)
class Codebook:
    """What writing and reading rest on besides the value: a catalogue, and perhaps a domain."""

    catalogue: Catalogue
    domain: Domain | None = None
    definitions: JSON = field(factory=dict[str, Plain])
    """What a schema in the making defines, by name."""


class Nested(Generic[T]):
    """A value of a kind of its own inside another.

    Parameters
    ----------
    what
        What such values are called together.
    classes
        What they must be.
    """

    def __init__(self, what: str, *classes: type) -> None:
        self._what = what
        self._name = what.replace(" ", "-")
        self._classes = classes

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        if not isinstance(value, self._classes):
            raise WireError(path, self._what, _class_of(value))
        return codebook.catalogue.kind_of(value, path).write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        if type(plain) is not dict:
            raise refused(path, f"an object that stands for {self._what}", plain)
        kind = codebook.catalogue.kind_named(plain.get(_KIND), path)
        if not issubclass(kind.made, self._classes):
            raise WireError(f"{path}.{_KIND}", f"the kind of {self._what}", shown(kind.name))
        return cast("T", kind.read(plain, path, codebook))

    def schema(self, codebook: Codebook, /) -> JSON:
        if self._name not in codebook.definitions:
            refs: list[Plain] = []
            codebook.definitions[self._name] = {"oneOf": refs}
            for kind in codebook.catalogue.among(*self._classes):
                if kind.name not in codebook.definitions:
                    codebook.definitions[kind.name] = {}
                    codebook.definitions[kind.name] = kind.schema(codebook)
                refs.append({"$ref": f"#/$defs/{kind.name}"})
            if not refs:
                codebook.definitions[self._name] = False
        return {"$ref": f"#/$defs/{self._name}"}
