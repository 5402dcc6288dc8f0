"""Answers of one-shot mechanisms, to be given again for free to whoever asks the same."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from copy import deepcopy
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from threading import Event, local
from typing import TypeAlias, cast

import numpy as np
from attrs import fields, has

from dpsdk._turns import Turns
from dpsdk.accounting import Odometer
from dpsdk.domain import Domain
from dpsdk.errors import Closed, DpsdkError, InvalidArgument, Reentered
from dpsdk.forms import ConvexForm, Form, LinearForm
from dpsdk.mechanisms import Gaussian, Laplace, PrivateMinimizer, Projection
from dpsdk.release import Measurement
from dpsdk.session.stored import Request
from dpsdk.typing import Array

__all__ = ["Reuse", "place_of", "question_of"]

_MOST = 2**12
_MOST_BYTES = 2**26
_MOST_STORED = 2**16
"""Answers of more numbers are not written into a ledger for others."""

_ANSWER = 512
"""What an answer takes beside its numbers, roughly, in bytes."""

_ONE_SHOT: frozenset[type] = frozenset({Laplace, Gaussian, Projection, PrivateMinimizer})

_Words: TypeAlias = "str | list[_Words]"


def place_of(name: str, domain: Domain) -> tuple[str, ...]:
    """Names a table for `question_of`: also by what its cells mean, which no form tells."""
    return name, sha256(domain.to_json().encode("utf-8", "surrogatepass")).hexdigest()


def question_of(table: tuple[str, ...], using: object, form: Form) -> str | None:
    """What tells a question from all others: the same for the same numbers, whatever asks for them.

    Parameters
    ----------
    table
        Names the table, as `place_of` does, or the part of it.
    using
        The mechanism that is asked.
    form
        What it is asked for.

    Returns
    -------
    str or None
        None where that cannot be told, as of mechanisms and losses of other authors.
    """
    if type(using) not in _ONE_SHOT:
        return None
    try:
        words = [list(table), _exact(using), _numbers(form)]
    except Exception:  # noqa: BLE001  # parts of other authors may raise what they like
        return None
    return sha256(json.dumps(words).encode("ascii")).hexdigest()


def _numbers(form: Form) -> _Words:
    if isinstance(form, ConvexForm):
        blocks: list[_Words] = [[list(one.names), _exact(one.values)] for one in form.coordinates]
        label = [form.label, _exact(form.targets)]
        return ["convex", *blocks, label, _exact(form.loss), _exact(form.over)]
    found: object = form.identity
    if not isinstance(found, bytes) or type(form) is not LinearForm:
        raise TypeError
    return ["linear", found.hex()]


def _exact(value: object) -> _Words:
    """A value of the package in words, down to its last digit.

    Raises
    ------
    TypeError
        If it holds what may be anything.
    """
    kind: type[object] = type(value)
    if kind is str or kind is int or kind is bool or value is None or kind is Fraction:
        return f"{kind.__name__} {value}"
    if kind is float:
        return f"float {cast('float', value).hex()}"
    if kind is tuple:
        return ["tuple", *map(_exact, cast("tuple[object, ...]", value))]
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        plain = array.astype(array.dtype.newbyteorder("<"))
        return ["array", plain.dtype.str, str(plain.shape), sha256(plain.tobytes()).hexdigest()]
    if not kind.__module__.startswith("dpsdk."):
        raise TypeError
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Enum):
        return [name, value.name]
    if not has(kind):
        raise TypeError
    return [
        name,
        *[[one.name, _exact(getattr(value, one.name))] for one in fields(kind) if one.init],
    ]


class _Flight:
    """A question that is at work."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over: Event = Event()


class Reuse:
    """The answers that a session has given, by their questions, and those that its ledger has.

    At most 4,096 answers of 64 MiB together are kept in memory, the newest; a durable ledger keeps
    those of at most 65,536 numbers for good, and for all sessions on it. What is forgotten is
    asked, and paid, anew. Nothing is locked while a question is at work; who asks the same
    meanwhile waits for it, but for those who ask from within a question, who might wait for each
    other.
    """

    __slots__ = ("_bytes", "_flights", "_inside", "_known", "_process", "_turns")

    def __init__(self) -> None:
        self._known: dict[str, Measurement] = {}
        self._bytes = 0
        self._turns = Turns("stored answers")
        self._flights: dict[str, _Flight] = {}
        self._inside = local()
        self._process = os.getpid()

    def find(self, question: str, payer: Odometer) -> Measurement | None:
        """The answer to a question, to write into as one likes; None if there is none.

        Raises
        ------
        LedgerDamaged, LedgerUnavailable
            If the ledger cannot be read.
        """
        known = self._known.get(question)
        if known is not None:
            return deepcopy(known)
        if not payer.durable:
            return None
        # Somebody may have used this name for another request, and so is none of these answers.
        with suppress(InvalidArgument):
            return _request(question, payer).stored()
        return None

    def keep(self, question: str, payer: Odometer, measurement: Measurement) -> None:
        """Keep the answer to a question, if there is room; the first that is kept stays.

        That it could not be written must not lose an answer that was paid for, and raises nothing.
        """
        if payer.durable and len(measurement.values) <= _MOST_STORED:
            with suppress(DpsdkError):
                _request(question, payer).kept(measurement)
        size = int(measurement.values.nbytes) + _ANSWER
        if size > _MOST_BYTES:
            return
        with suppress(Exception):  # an accuracy of another author may not be copied
            own = deepcopy(measurement)
            with suppress(Reentered, Closed):
                self._turns.take(lambda: self._put(question, own, size))

    def _put(self, question: str, measurement: Measurement, size: int) -> None:
        known = self._known
        while known and (len(known) >= _MOST or self._bytes + size > _MOST_BYTES):
            oldest = known.pop(next(iter(known)))
            self._bytes -= int(oldest.values.nbytes) + _ANSWER
        if question not in known:
            # Counted first: an interrupt in between may count too much, never too little.
            self._bytes += size
            known[question] = measurement

    @contextmanager
    def asking(self, question: str) -> Generator[bool]:
        """Whether to ask; if not, another thread did, and it is over by now: look again."""
        inside: int = getattr(self._inside, "depth", 0)
        if inside or os.getpid() != self._process:
            yield True
            return
        mine = _Flight()
        try:
            first = self._flights.setdefault(question, mine)
            if first is mine:
                self._inside.depth = 1
                yield True
            else:
                first.over.wait()
                yield False
        finally:
            if self._flights.get(question) is mine:
                self._inside.depth = 0
                del self._flights[question]
            mine.over.set()


def _request(question: str, payer: Odometer) -> Request:
    return Request(f"reuse {question}", f"reuse {question}", payer)
