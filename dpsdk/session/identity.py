"""What tells one question from another: the table, the mechanism and the query, to the last digit.

It is written into ledgers as a digest, so that what one process stored another finds again: no
address, no order of a set and no rounding is in it. Functions are told by the tables that they
give, not by their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from typing import TypeAlias, cast

import numpy as np
from attrs import fields, has

from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import ConvexForm, Facts, Form, LinearForm
from dpsdk.hypothesis import Distribution
from dpsdk.mechanisms import Gaussian, Laplace, PrivateMinimizer, Projection
from dpsdk.queries import Linear
from dpsdk.queries.base import Query
from dpsdk.typing import Array

__all__ = ["ONE_SHOT", "Place", "Words", "Using", "question_of", "request_of"]

ONE_SHOT: frozenset[type] = frozenset({Laplace, Gaussian, Projection, PrivateMinimizer})
"""The mechanisms of the package that keep no state between answers."""

Words: TypeAlias = "str | list[Words]"

_Strange: TypeAlias = Callable[[object], Words]
"""What is told of a value that this module does not know."""

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

    __slots__ = ("_facts", "_name", "_parts", "_words")

    def __init__(self, name: str, facts: Facts, parts: tuple[str, ...] = ()) -> None:
        self._name = name
        self._facts = facts
        self._parts = parts
        self._words: Words | None = None

    def part(self, attribute: str, cell: int) -> Place:
        """A part of the table."""
        return Place(self._name, self._facts, (*self._parts, attribute, str(cell)))

    @property
    def words(self) -> Words:
        """Tell it from others. Worked out when it is first asked for."""
        known = self._words
        if known is None:
            facts = _told(self._facts, self._facts.domain)
            known = self._words = [self._name, facts, list(self._parts)]
        return known


class Using:
    """A mechanism as it was opened.

    Parameters
    ----------
    name
        What it calls itself.
    mechanism
        The mechanism. Those that answer at once are cheap to open, and told at once; others when it
        is first asked for.
    domain
        The universe that functions of records are tabulated over.
    """

    __slots__ = ("_domain", "_mechanism", "_words", "name")

    def __init__(self, name: str, mechanism: object, domain: Domain) -> None:
        self.name = name
        self._mechanism = mechanism
        self._domain = domain
        self._words = _told(mechanism, domain) if type(mechanism) in ONE_SHOT else None

    @property
    def words(self) -> Words:
        """Tell it from others."""
        known = self._words
        if known is None:
            known = self._words = [self.name, _told(self._mechanism, self._domain)]
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
    if type(using) not in ONE_SHOT:
        return None
    try:
        words = [place.words, _exactly(using), _numbers(form, _exactly)]
    except Exception:  # noqa: BLE001  # parts of other authors may raise what they like
        return None
    return sha256(json.dumps(words).encode("ascii")).hexdigest()


def request_of(place: Place, using: Using, query: Query[object, Form], form: Form) -> Words:
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
    """
    domain = form.domain

    def words_of(value: object) -> Words:
        return _told(value, domain, lowered=True)

    return [place.words, using.words, words_of(query), _numbers(form, words_of)]


def _numbers(form: Form, words_of: Callable[[object], Words]) -> Words:
    """The numbers that a form asks for; empty, or what `words_of` raises, if it does not say."""
    if isinstance(form, ConvexForm):
        blocks: list[Words] = [[list(one.names), _array(one.values)] for one in form.coordinates]
        label: Words = [form.label, _array(form.targets)]
        return ["convex", *blocks, label, words_of(form.loss), words_of(form.over)]
    try:
        found: object = form.identity
    except InvalidArgument:  # made of other authors' parts
        found = None
    if isinstance(found, bytes) and (words_of is not _exactly or type(form) is LinearForm):
        return [type(form).__qualname__, found.hex()]
    return words_of(form) if words_of is _exactly else ""


def _exactly(value: object) -> Words:
    """A value of the package in words, down to its last digit.

    Raises
    ------
    TypeError
        If it holds what may be anything.
    """
    return _words(value, _unknown, foreign=False)


def _told(value: object, domain: Domain, *, lowered: bool = False) -> Words:
    """Any value in words: down to its last digit where its class shows what it is made of.

    That do classes of the package, and of attrs. Any other is told by what it calls itself.

    Parameters
    ----------
    value
        A mechanism, a query or what is public of a table.
    domain
        The universe that functions of records are tabulated over.
    lowered
        Whether weights are told elsewhere, by the numbers of a form.
    """

    def strange(one: object) -> Words:
        if lowered and callable(one):
            return "function"
        return [type(one).__qualname__, str.__str__(str(one))]

    def known(one: object) -> Words:
        if type(one) is Linear:
            if lowered:
                parts = [[name, words(getattr(one, name))] for name in ("attributes", "where")]
                return ["Linear", words(one.normalized), *parts]
            one = one.tabulated(domain)
        return _words(one, strange, foreign=True, within=words)

    def words(one: object) -> Words:
        try:
            return known(one)
        except Exception:  # noqa: BLE001  # parts of other authors may raise what they like
            return strange(one)

    return words(value)


def _unknown(value: object) -> Words:
    raise TypeError(type(value).__qualname__)


def _words(
    value: object,
    strange: _Strange,
    *,
    foreign: bool,
    within: Callable[[object], Words] | None = None,
) -> Words:
    """A value in words; what is inside of it by `within`, by default in the same way."""
    inner = within or (lambda one: _words(one, strange, foreign=foreign))
    kind: type[object] = type(value)
    if kind is float:
        return f"float {cast('float', value).hex()}"
    if kind in _PLAIN:
        return f"{kind.__name__} {value}"
    if kind is tuple or kind is list:
        return [kind.__name__, *map(inner, cast("Sequence[object]", value))]
    if kind is frozenset or kind is set:
        # In no order of their own, which would be another in another process.
        return [kind.__name__, *sorted(map(inner, cast("frozenset[object]", value)), key=str)]
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        if foreign and not _plain(array):
            return ["objects", str(array.shape), *map(inner, array.ravel().tolist())]
        return _array(array)
    if foreign and isinstance(value, np.generic):
        return f"{kind.__name__} {value!r}"
    if kind is Domain:
        return _domain(cast("Domain", value))
    packaged = kind.__module__.partition(".")[0] == "dpsdk"
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Enum) and (packaged or foreign):
        return [name, value.name]
    if foreign and isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return [name, *[[inner(key), inner(one)] for key, one in pairs]]
    if foreign and isinstance(value, Distribution) and value.kind:
        flags, arrays = value.parts()
        numbers: list[Words] = [[own, _array(array)] for own, array in sorted(arrays.items())]
        return [name, value.kind, _domain(value.domain), inner(dict(flags)), *numbers]
    if not has(kind) or not (packaged or foreign):
        return strange(value)
    own = [one.name for one in fields(kind) if one.init and one.eq is not False]
    return [name, *[[one, inner(getattr(value, one))] for one in own]]


def _plain(array: Array) -> bool:
    """Whether the bytes of an array tell its numbers: long doubles have some that tell nothing."""
    return array.dtype.kind in "biuf" and array.itemsize <= 8


def _array(array: Array) -> Words:
    if not _plain(array):
        raise TypeError(array.dtype)
    plain = array.astype(array.dtype.newbyteorder("<"))
    return ["array", plain.dtype.str, str(plain.shape), sha256(plain.tobytes()).hexdigest()]


def _domain(domain: Domain) -> Words:
    text = domain.to_json().encode("utf-8", "surrogatepass")
    return ["domain", sha256(text).hexdigest()]
