"""What tells one question from another: the table, the mechanism and the query, to the last digit.

It is written into ledgers as digests, so that what one process stored another finds again: no
address, no order of a set and no rounding is in it. Functions are told by the tables that they
give, not by their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from attrs import fields, frozen, has
from typing_extensions import override

from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import ConvexForm, Facts, Form, LinearForm
from dpsdk.hypothesis import Distribution
from dpsdk.mechanisms import BUILT_IN
from dpsdk.queries import Linear
from dpsdk.queries.base import Query
from dpsdk.typing import Array

__all__ = ["BEST", "Best", "Place", "Using", "question_of", "request_of"]

_REUSABLE: frozenset[type] = frozenset([one for one in BUILT_IN if one.reusable])
"""The mechanisms of the package whose answers may be given again."""


@frozen
class Best:
    """Whatever mechanism the planner finds best, in the place of one that was named.

    Questions to it are the same whichever that is by then.
    """


BEST = Best()

_Words: TypeAlias = "str | list[_Words]"

_PLAIN: frozenset[type] = frozenset({
    str, int, bool, type(None), Fraction, bytes, complex, Decimal, date, datetime, time, timedelta,
    range,
})  # fmt: skip
"""Classes of values whose texts tell them apart."""


class Place:
    """A table that questions are put to, or a part of one, by name and by what is public of it.

    What its cells mean, which no form tells, and what its numbers stand for are among that: a table
    that was read in another way is another.

    Parameters
    ----------
    name
        The name of the whole table.
    facts
        What is public about it.
    parts
        Which part of it: attribute and cell, or nothing.
    """

    __slots__ = ("_digest", "_facts", "_name", "_parts")

    def __init__(self, name: str, facts: Facts, parts: tuple[str, ...] = ()) -> None:
        self._name = name
        self._facts = facts
        self._parts = parts
        self._digest: str | None = None

    def part(self, attribute: str, cell: int) -> Place:
        """A part of the table."""
        return Place(self._name, self._facts, (*self._parts, attribute, str(cell)))

    @property
    def digest(self) -> str:
        """Tells it from others. Worked out when it is first asked for."""
        known = self._digest
        if known is None:
            facts = _Told(self._facts.domain).words(self._facts)
            known = self._digest = _digest([self._name, facts, list(self._parts)])
        return known


class Using:
    """A mechanism as it was opened.

    Parameters
    ----------
    name
        What it calls itself.
    mechanism
        The mechanism. Those that answer at once hold little, and are told when they are opened;
        others when it is first asked for.
    domain
        The universe that functions of records are tabulated over.
    digest
        Tells it from others, if that was settled before.
    """

    __slots__ = ("_digest", "_domain", "_mechanism", "name")

    def __init__(
        self, name: str, mechanism: object, domain: Domain, digest: str | None = None
    ) -> None:
        self.name: str = name
        self._mechanism = mechanism
        self._domain = domain
        self._digest = digest
        if digest is None and type(mechanism) in _REUSABLE:
            self._digest = self._told()

    def _told(self) -> str:
        return _digest([self.name, _Told(self._domain).words(self._mechanism)])

    @property
    def digest(self) -> str:
        """Tells it from others."""
        known = self._digest
        if known is None:
            known = self._digest = self._told()
        return known


def question_of(place: Place, using: object, form: Form) -> str | None:
    """What tells a question from all others: the same for the same numbers, whatever asks for them.

    Parameters
    ----------
    place
        The table, or the part of it.
    using
        The mechanism that is asked.
    form
        What it is asked for.

    Returns
    -------
    str or None
        None where that cannot be told, as of mechanisms and losses of other authors.
    """
    if type(using) not in _REUSABLE and using is not BEST:
        return None
    exact = _Exact()
    try:
        return _digest([place.digest, exact.words(using), exact.numbers(form)])
    except Exception:  # noqa: BLE001  # parts of other authors may raise what they like
        return None


def request_of(
    place: Place, using: Using, query: Query[object, Form], form: Form, noise: str
) -> str:
    """What tells what is asked from all else: also by what is made of the numbers.

    Parameters
    ----------
    place
        The table, or the part of it.
    using
        The mechanism that is asked.
    query
        The question.
    form
        Its form.
    noise
        The kind of noise.
    """
    told = _Told(form.domain, lowered=True)
    return _digest([place.digest, using.digest, told.words(query), told.numbers(form), noise])


def _digest(words: _Words) -> str:
    return sha256(json.dumps(words).encode("ascii")).hexdigest()


class _Kind(NamedTuple):
    """What there is to know of a class."""

    name: str
    packaged: bool
    """Whether it is of the package."""
    parts: tuple[str, ...] | None
    """What its values are made of, by name; None where it does not say."""


_KINDS: dict[int, tuple[type, _Kind]] = {}
"""What is known of the classes that were met, by their identity: a class may say it is another."""

_MOST_KINDS = 1024


def _kind(kind: type) -> _Kind:
    known = _KINDS.get(id(kind))
    if known is not None and known[0] is kind:
        return known[1]
    found = _looked_at(kind)
    if len(_KINDS) >= _MOST_KINDS:
        _KINDS.clear()
    _KINDS[id(kind)] = kind, found
    return found


def _looked_at(kind: type) -> _Kind:
    package = kind.__module__.partition(".")[0]
    packaged = package == "dpsdk"
    # Within the package, classes may move from one module to another.
    name = f"{package if packaged else kind.__module__}.{kind.__qualname__}"
    if not has(kind):
        return _Kind(name, packaged, None)
    own = [one.name for one in fields(kind) if one.init and one.eq is not False]
    return _Kind(name, packaged, tuple(own))


class _Exact:
    """Puts values of the package into words, down to their last digit; any other is refused."""

    def words(self, value: object) -> _Words:
        """A value in words.

        Raises
        ------
        TypeError
            If it holds what may be anything.
        """
        kind: type[object] = type(value)
        if kind is float:
            return f"float {cast('float', value).hex()}"
        if kind in _PLAIN:
            return f"{kind.__name__} {value}"
        if kind is tuple or kind is list:
            return [kind.__name__, *map(self.words, cast("Sequence[object]", value))]
        if kind is frozenset or kind is set:
            # In no order of their own, which would be another in another process.
            words = map(self.words, cast("frozenset[object]", value))
            return [kind.__name__, *sorted(words, key=str)]
        if kind is np.ndarray:
            return self._array(cast("Array", value))
        if kind is Domain:
            text = cast("Domain", value).to_json().encode("utf-8", "surrogatepass")
            return ["domain", sha256(text).hexdigest()]
        return self._made(value, _kind(kind))

    def _made(self, value: object, kind: _Kind) -> _Words:
        """A value that is made of others."""
        if not kind.packaged:
            return self._strange(value)
        if isinstance(value, Enum):
            return [kind.name, value.name]
        if kind.parts is None:
            return self._strange(value)
        return [kind.name, *[[name, self.words(getattr(value, name))] for name in kind.parts]]

    def _array(self, array: Array) -> _Words:
        # Long doubles have bytes that tell nothing.
        if array.dtype.kind not in "biuf" or array.itemsize > _WIDEST:
            return self._strange(array)
        plain = array.astype(array.dtype.newbyteorder("<"))
        return ["array", plain.dtype.str, str(plain.shape), sha256(plain.tobytes()).hexdigest()]

    def _strange(self, value: object) -> _Words:
        """A value of a class that is not known here."""
        raise TypeError(type(value).__qualname__)

    def numbers(self, form: Form) -> _Words:
        """The numbers that a form asks for.

        Raises
        ------
        TypeError
            If it does not say.
        """
        if isinstance(form, ConvexForm):
            blocks: list[_Words] = [
                [list(one.names), self.words(one.values)] for one in form.coordinates
            ]
            label: _Words = [form.label, self.words(form.targets)]
            return ["convex", *blocks, label, self.words(form.loss), self.words(form.over)]
        if type(form) is not LinearForm:
            return self._strange(form)
        return ["linear", form.identity.hex()]


_WIDEST = 8
"""Numbers of more bytes are not told by them."""

_NUMBERS: frozenset[type] = frozenset(np.sctypeDict.values())


class _Told(_Exact):
    """Puts any value into words: as exactly as its class shows what it is made of.

    That do classes of the package and of attrs. Any other is told by what it calls itself.

    Parameters
    ----------
    domain
        The universe that functions of records are tabulated over.
    lowered
        Whether the weights of queries are told elsewhere, by the numbers of a form.
    """

    def __init__(self, domain: Domain, *, lowered: bool = False) -> None:
        self._domain = domain
        self._lowered = lowered

    @override
    def words(self, value: object) -> _Words:
        try:
            if type(value) is Linear:
                return self._weights(value)
            return super().words(value)
        except Exception:  # noqa: BLE001  # parts of other authors may raise what they like
            return self._strange(value)

    def _weights(self, query: Linear) -> _Words:
        if not self._lowered:
            return super().words(query.tabulated(self._domain))
        known = query.normalized, query.attributes, query.where
        return ["Linear", *map(self.words, known)]

    @override
    def _made(self, value: object, kind: _Kind) -> _Words:
        if isinstance(value, Distribution) and value.kind:
            flags, arrays = value.parts()
            own = [value.domain, dict(flags), dict(sorted(arrays.items()))]
            return [kind.name, *map(self.words, own)]
        return super()._made(value, kind._replace(packaged=True))

    @override
    def _array(self, array: Array) -> _Words:
        if array.dtype.kind in "biuf" and array.itemsize <= _WIDEST:
            return super()._array(array)
        return ["objects", str(array.shape), *map(self.words, array.ravel().tolist())]

    @override
    def _strange(self, value: object) -> _Words:
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value).items()
            return ["mapping", *[[self.words(key), self.words(one)] for key, one in pairs]]
        if self._lowered and callable(value):
            return "function"
        kind, text = type(value), ""
        with suppress(Exception):  # a class of another author may raise what it likes
            # Numbers of numpy have texts that may be shorter than they are.
            text = str.__str__(repr(value) if kind in _NUMBERS else str(value))
        return [_kind(kind).name, text]

    @override
    def numbers(self, form: Form) -> _Words:
        if isinstance(form, ConvexForm):
            return super().numbers(form)
        try:
            found: object = form.identity
        except InvalidArgument:  # made of other authors' parts
            found = None
        return [type(form).__qualname__, found.hex() if isinstance(found, bytes) else ""]
