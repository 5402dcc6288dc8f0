"""To JSON and back: `to_json` and `from_json`, and as texts `dumps` and `loads`."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Literal, TypeAlias, TypeVar, cast, overload

from dpsdk._checks import shown
from dpsdk.accounting import Budget, Composition, Guarantee
from dpsdk.codec import ENVELOPE, JSON, Codebook, Plain, canonical, check, opened, parsed
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.forms import Form
from dpsdk.hypothesis import Distribution
from dpsdk.hypothesis.digests import digest_of
from dpsdk.losses import Loss
from dpsdk.mechanisms import Mechanism, OneShot
from dpsdk.planner import Goal, Plan, Plans
from dpsdk.queries import Query
from dpsdk.release import Release
from dpsdk.wire.catalogue import Catalogue
from dpsdk.wire.releases import ReleaseRecord

__all__ = ["digest", "dumps", "from_json", "loads", "schema", "to_json"]

T = TypeVar("T")

Allow: TypeAlias = Catalogue | None
Text: TypeAlias = str | bytes

_GROUPS: dict[str, type] = {
    "query": Query,
    "mechanism": Mechanism,
    "one-shot": OneShot,
    "loss": Loss,
    "domain": Domain,
    "guarantee": Guarantee,
    "composition": Composition,
    "budget": Budget,
    "release": ReleaseRecord,
    "goal": Goal,
    "plan": Plan,
    "plans": Plans,
}
"""Names of what may be asked for, beside classes and the names of single kinds."""


def _catalogue(allow: Catalogue | None) -> Catalogue:
    if allow is None:
        return Catalogue.shipped()
    if not isinstance(allow, Catalogue):
        raise InvalidArgument("allow", "a Catalogue", shown(allow))
    return allow


def to_json(value: object, *, domain: Domain | None = None, allow: Catalogue | None = None) -> JSON:
    """The written form of a public value, as plain JSON values.

    Parameters
    ----------
    value
        A domain, query, workload, mechanism, loss, guarantee, composition, budget, goal or plan, or
        what else `Catalogue.shipped().kinds` names. Of a `Release`, the `ReleaseRecord` is written.
    domain
        Over which a `Linear` of a function is written out, as its table. It is called on every
        cell, twice, as when it is asked.
    allow
        What may be written; all that the package has, if left out.

    Raises
    ------
    WireError
        If the value has no written form, or a part of it has none: if it is of a class that the
        catalogue does not have; a function without a domain; or too large.

    >>> from dpsdk import wire
    >>> from dpsdk.mechanisms import Laplace
    >>> wire.to_json(Laplace(epsilon=0.1))
    {'format': 'dpsdk.wire', 'version': 1, 'kind': 'mechanism.laplace', 'epsilon': '1/10'}
    """
    if domain is not None and not isinstance(domain, Domain):
        raise InvalidArgument("domain", "a domain", shown(domain))
    catalogue = _catalogue(allow)
    if isinstance(value, Release):
        value = ReleaseRecord.of(cast("Release[object]", value), allow=catalogue)
    codebook = Codebook(catalogue, domain)
    try:
        written = catalogue.kind_of(value, "$").write(value, "$", codebook)
    except RecursionError:
        raise WireError("$", "a value that is not so deep", "a deeper one") from None
    whole: JSON = {**ENVELOPE, **written}
    check(whole)
    return whole


def dumps(value: object, *, domain: Domain | None = None, allow: Catalogue | None = None) -> str:
    """The written form of a public value as a text in JSON. As `to_json` otherwise."""
    return json.dumps(to_json(value, domain=domain, allow=allow), ensure_ascii=False)


def digest(value: object, *, domain: Domain | None = None, allow: Catalogue | None = None) -> str:
    """The SHA-256 of the canonical text, in hexadecimal digits, which tells public values apart.

    Equal values have equal digests, and others do not. The canonical text is that of `to_json`
    with names in order, without spaces, and in ASCII. Of a distribution it is a digest of what its
    file keeps.

    Raises as `to_json` does.

    >>> from dpsdk import wire
    >>> from dpsdk.queries import Conjunction
    >>> first = Conjunction({"sex": "Female", "member": True})
    >>> second = Conjunction({"member": True, "sex": "Female"})
    >>> wire.digest(first) == wire.digest(second)
    True
    """
    if isinstance(value, Distribution):
        return digest_of(value, "$")
    return sha256(canonical(to_json(value, domain=domain, allow=allow))).hexdigest()


@overload
def from_json(
    kind: Literal["query"], data: object, *, allow: Allow = None
) -> Query[object, Form]: ...
@overload
def from_json(
    kind: Literal["mechanism"], data: object, *, allow: Allow = None
) -> Mechanism[Form]: ...
@overload
def from_json(kind: Literal["one-shot"], data: object, *, allow: Allow = None) -> OneShot[Form]: ...
@overload
def from_json(kind: Literal["loss"], data: object, *, allow: Allow = None) -> Loss: ...
@overload
def from_json(kind: Literal["domain"], data: object, *, allow: Allow = None) -> Domain: ...
@overload
def from_json(kind: Literal["guarantee"], data: object, *, allow: Allow = None) -> Guarantee: ...
@overload
def from_json(
    kind: Literal["composition"], data: object, *, allow: Allow = None
) -> Composition: ...
@overload
def from_json(kind: Literal["budget"], data: object, *, allow: Allow = None) -> Budget: ...
@overload
def from_json(kind: Literal["release"], data: object, *, allow: Allow = None) -> ReleaseRecord: ...
@overload
def from_json(
    kind: Literal["goal"], data: object, *, allow: Allow = None
) -> Goal[object, Form]: ...
@overload
def from_json(kind: Literal["plan"], data: object, *, allow: Allow = None) -> Plan[Form]: ...
@overload
def from_json(kind: Literal["plans"], data: object, *, allow: Allow = None) -> Plans[Form]: ...
@overload
def from_json(kind: type[T], data: object, *, allow: Allow = None) -> T: ...
def from_json(kind: str | type, data: object, *, allow: Catalogue | None = None) -> object:
    """The value of a written form, of the kind that is asked for.

    Parameters
    ----------
    kind
        What it must be: "query", "mechanism", "one-shot" (a mechanism for `session.answer`),
        "loss", "domain", "guarantee", "composition", "budget", "release", "goal", "plan" or
        "plans"; or a class.
    data
        What a reader of JSON made of a text; nothing in it is trusted.
    allow
        What may be read, and the distributions that may be named; all kinds of the package, if left
        out. Nothing is imported by a name in the data.

    Raises
    ------
    WireError
        If it is no such value to the letter: it names the place and what is expected there. Nothing
        was looked up or charged.
    InvalidArgument
        If `kind` is neither of these.
    """
    classes = _wanted(kind)
    catalogue = _catalogue(allow)
    check(data)
    return _read(classes, cast("Plain", data), catalogue)


def _wanted(kind: object) -> type:
    found = _GROUPS.get(kind) if type(kind) is str else kind
    if not isinstance(found, type):
        expected = f"a class, or one of {', '.join(_GROUPS)}"
        raise InvalidArgument("kind", expected, shown(kind))
    return ReleaseRecord if found is Release else found


def _read(wanted: type, data: Plain, catalogue: Catalogue) -> object:
    members = opened(data, ENVELOPE)
    kind = catalogue.kind_named(members.get("kind"), "$")
    if not issubclass(kind.made, wanted):
        raise WireError("$.kind", f"the kind of a {wanted.__name__}", shown(kind.name))
    try:
        return kind.read(members, "$", Codebook(catalogue))
    except RecursionError:
        raise WireError("$", "a value that is not so deep", "a deeper one") from None


@overload
def loads(kind: Literal["query"], text: Text, *, allow: Allow = None) -> Query[object, Form]: ...
@overload
def loads(kind: Literal["mechanism"], text: Text, *, allow: Allow = None) -> Mechanism[Form]: ...
@overload
def loads(kind: Literal["one-shot"], text: Text, *, allow: Allow = None) -> OneShot[Form]: ...
@overload
def loads(kind: Literal["loss"], text: Text, *, allow: Allow = None) -> Loss: ...
@overload
def loads(kind: Literal["domain"], text: Text, *, allow: Allow = None) -> Domain: ...
@overload
def loads(kind: Literal["guarantee"], text: Text, *, allow: Allow = None) -> Guarantee: ...
@overload
def loads(kind: Literal["composition"], text: Text, *, allow: Allow = None) -> Composition: ...
@overload
def loads(kind: Literal["budget"], text: Text, *, allow: Allow = None) -> Budget: ...
@overload
def loads(kind: Literal["release"], text: Text, *, allow: Allow = None) -> ReleaseRecord: ...
@overload
def loads(kind: Literal["goal"], text: Text, *, allow: Allow = None) -> Goal[object, Form]: ...
@overload
def loads(kind: Literal["plan"], text: Text, *, allow: Allow = None) -> Plan[Form]: ...
@overload
def loads(kind: Literal["plans"], text: Text, *, allow: Allow = None) -> Plans[Form]: ...
@overload
def loads(kind: type[T], text: Text, *, allow: Allow = None) -> T: ...
def loads(kind: str | type, text: str | bytes, *, allow: Catalogue | None = None) -> object:
    """The value of a text in JSON, of the kind that is asked for. As `from_json` otherwise.

    A text is refused if it is no JSON in UTF-8, names a member twice, has NaN or an infinity, half
    a surrogate pair, more than 2^24 characters, more than 2^21 values, a number of more than 400
    characters or a text of more than 65,536, or lists and objects more than 100 deep.

    >>> from dpsdk import wire
    >>> wire.loads("query", '''{
    ...     "format": "dpsdk.wire", "version": 1,
    ...     "kind": "query.threshold", "attribute": "age", "threshold": 40
    ... }''')
    Threshold('age', 40)
    """
    classes = _wanted(kind)
    return _read(classes, parsed(text), _catalogue(allow))


def schema(kind: str | type, *, allow: Catalogue | None = None) -> JSON:
    """The JSON Schema 2020-12 of the written forms of a kind.

    Whatever it refuses, `from_json` refuses. What goes from member to member, as that bounds are in
    order, or the range of an amount, it does not say; and to many validators 1.0 is an integer.

    Parameters
    ----------
    kind, allow
        As for `from_json`.
    """
    wanted, catalogue = _wanted(kind), _catalogue(allow)
    codebook = Codebook(catalogue)
    choices: list[Plain] = [one.schema(codebook, top=True) for one in catalogue.among(wanted)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"dpsdk.wire, version 1: {kind if isinstance(kind, str) else wanted.__name__}",
        "oneOf": choices,
        "$defs": dict(codebook.definitions),
    }
