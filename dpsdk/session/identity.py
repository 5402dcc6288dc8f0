"""Identities of what is asked: digests of canonical texts, the same in every process.

They name answers in ledgers. Values with a written form are told by it, classes of other authors by
their fields or by what they call themselves, and linear functions by their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import date
from functools import partial
from hashlib import sha256
from typing import TypeAlias, cast

import numpy as np

from dpsdk import forms, hypothesis, mechanisms
from dpsdk._records import fields, frozen, has
from dpsdk.codec import OWN, Codebook, Plain, canonical, digest, to_plain
from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError, WireError
from dpsdk.forms import Facts, Form, LinearForm
from dpsdk.queries.base import Query
from dpsdk.session import legacy
from dpsdk.typing import Array

__all__ = ["BEST", "Best", "Place", "Using", "question_of", "request_of"]


@frozen
class Best:
    """Whatever mechanism the planner finds best, in the place of one that was named.

    Questions to it are the same whichever that is by then.
    """


BEST = Best()

_Tell: TypeAlias = Callable[[object], Plain]


class Place:
    """A table that questions are put to, or a part of one, by name and by what is public of it.

    Parameters
    ----------
    name
        The name of the whole table.
    facts
        What is public about it, the meaning of its cells included.
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

    def before(self, using: object, form: Form) -> Callable[[], str | None]:
        """Compute, when it is called, how dpsdk 0.1 told a question here from others."""
        return partial(legacy.question_of, self._name, self._facts, self._parts, using, form)

    @property
    def digest(self) -> str:
        """The identity of the place, computed when it is first asked for."""
        if self._digest is None:
            self._digest = digest([self._name, as_plain(self._facts), list(self._parts)])
        return self._digest


class Using:
    """A mechanism as it was opened.

    Parameters
    ----------
    name
        What it calls itself.
    mechanism
        The mechanism.
    domain
        The universe over which functions of records are written out.
    digest
        Its identity, if that was settled before.
    """

    __slots__ = ("_digest", "_domain", "mechanism", "name")

    def __init__(
        self, name: str, mechanism: object, domain: Domain, digest: str | None = None
    ) -> None:
        self.name: str = name
        self.mechanism: object = mechanism
        self._domain = domain
        self._digest = digest

    @property
    def digest(self) -> str:
        """Its identity, computed when it is first asked for."""
        if self._digest is None:
            self._digest = digest([self.name, as_plain(self.mechanism, self._domain)])
        return self._digest


def question_of(place: Place, using: object, form: Form) -> str | None:
    """The identity of a question: the same for the same numbers, whatever asks for them.

    None where that cannot be told, as of mechanisms and losses of other authors, and of mechanisms
    that keep a state between answers.
    """
    try:
        if using is BEST:
            mechanism: Plain = "best"
        elif getattr(using, "reusable", False):
            mechanism = OWN.kind_of(using, "$").write(using, "$", Codebook(OWN, form.domain))
        else:
            return None
        numbers: Plain = _numbers(form, to_plain)
        crossing = form.crossing if isinstance(form, LinearForm) else None
        # Counts up to each value are the same for all shares, and a chosen value is not.
        if crossing is not None and (
            (using is BEST and crossing.fine) or isinstance(using, mechanisms.ExponentialQuantile)
        ):
            numbers = ["crossing", crossing.identity.hex()]
        return digest([place.digest, mechanism, numbers])
    except (DpsdkError, TypeError):
        return None


def request_of(
    place: Place, using: Using, query: Query[object, Form], form: Form, noise: str
) -> str:
    """The identity of a request: the question, what its numbers become, and the kind of noise."""
    try:
        numbers = _numbers(form, as_plain)
    except (DpsdkError, TypeError):
        numbers = type(form).__qualname__
    return digest([place.digest, using.digest, as_plain(query, form.domain), numbers, noise])


def _numbers(form: Form, tell: _Tell) -> Plain:
    """The numbers that a form asks for; raises `DpsdkError` or `TypeError` if it does not say."""
    if type(form) is LinearForm or isinstance(form, forms.UnwrittenForm):
        return ["linear", form.identity.hex()]
    if isinstance(form, forms.TallyForm):
        return ["tally", form.identity.hex()]
    if isinstance(form, forms.ConvexForm):
        blocks = form.coordinates
        coordinates: list[Plain] = [[list(one.names), _array(one.values)] for one in blocks]
        target: list[Plain] = [form.label, as_plain(form.targets)]
        kind = "softmax" if isinstance(form, forms.SoftmaxForm) else "convex"
        return [kind, coordinates, target, tell(form.loss), tell(form.over)]
    if isinstance(form, forms.ConvexForms):
        return ["models", [_numbers(part, tell) for part in form.parts]]
    raise TypeError(type(form).__qualname__)


def as_plain(value: object, domain: Domain | None = None) -> Plain:
    """A value as plain data that tell it from others: its written form, or else what it is made of.

    Functions are written out over the domain if one is given, and told by their names otherwise.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return cast("Plain", value)
    if isinstance(value, int | float | np.generic | date):
        return [kind.__name__, repr(cast("object", value))]
    if isinstance(value, np.ndarray):
        return _array(cast("Array", value))
    try:
        return OWN.kind_of(value, "$").write(value, "$", Codebook(OWN, domain))
    except WireError:
        return _taken_apart(value, domain)


def _taken_apart(value: object, domain: Domain | None) -> Plain:
    if isinstance(value, hypothesis.Distribution) and value.kind:
        from dpsdk.hypothesis.digests import digest_of  # noqa: PLC0415  # distributions are large

        return digest_of(value, "$")
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return [name, *[[as_plain(key, domain), as_plain(item, domain)] for key, item in pairs]]
    if isinstance(value, AbstractSet):
        # In an order that is the same in another process.
        members = [as_plain(item, domain) for item in cast("AbstractSet[object]", value)]
        return [name, *sorted(members, key=canonical)]
    if isinstance(value, Sequence):
        return [name, *[as_plain(item, domain) for item in cast("Sequence[object]", value)]]
    if has(kind):
        # A later field is told where it says something, so that earlier identities stay.
        own = [
            one.name
            for one in fields(kind)
            if one.init
            and one.eq is not False
            and not (one.metadata.get("quiet") and getattr(value, one.name) == one.default)
        ]
        return [name, *[[part, as_plain(getattr(value, part), domain)] for part in own]]
    if callable(value):
        return [name, getattr(value, "__qualname__", "")]
    text = ""
    with suppress(Exception):  # a class of another author may raise what it likes
        text = str(value)
    return [name, text]


def _array(array: Array) -> Plain:
    if array.dtype.kind not in "biuf":
        return ["objects", list(array.shape), [as_plain(item) for item in array.ravel().tolist()]]
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return ["array", plain.dtype.str, list(plain.shape), sha256(plain.tobytes()).hexdigest()]
