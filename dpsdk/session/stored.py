"""Answers as a ledger keeps them for requests that are tried again: released numbers, and no more.

A record, as `dpsdk._records` has it, in JSON. What an answer rests on is kept where it is noise, a
promise or nothing; other accuracies are not, and a repeated answer says so.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import FRACTION, NATURAL, TEXT, Kinds, Listed, Single, as_record, from_record
from dpsdk.accounting import Charge, Odometer
from dpsdk.accuracy import Accuracy, NoAccuracy, NoiseAccuracy, PromisedAccuracy
from dpsdk.errors import InvalidArgument, LedgerDamaged, RecordError
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.release import Measurement, Source
from dpsdk.typing import Floats

__all__ = ["Request"]

_CHUNK = 1 << 12
_MOST_CHUNKS = 1 << 14

_SOURCES: tuple[Source, ...] = ("measured", "fitted", "hypothesis")
_BYTES = re.compile(r"(?:[0-9a-f]{16})*")


class _Number:
    """A float in hexadecimal, as `float.hex` spells it."""

    def write(self, value: float, where: str) -> object:  # noqa: ARG002  # as of every field
        return float(value).hex()

    def read(self, plain: object, where: str) -> float:
        text = TEXT.read(plain, where)
        try:
            number = float.fromhex(text)
        except (ValueError, OverflowError):
            number = None
        if number is None or number.hex() != text:
            raise RecordError(where, "a float in hexadecimal", shown(text))
        return number


class _Law:
    """A law of noise: its name, and its scale or variance."""

    def write(self, value: NoiseLaw, where: str) -> object:
        if type(value) is DiscreteGaussian:
            return f"gaussian {FRACTION.write(value.variance, where)}"
        if type(value) is DiscreteLaplace:
            return f"laplace {FRACTION.write(value.scale, where)}"
        raise RecordError(where, "a law of the package", type(value).__name__)

    def read(self, plain: object, where: str) -> NoiseLaw:
        name, _, size = TEXT.read(plain, where).partition(" ")
        parameter: Fraction = FRACTION.read(size, where)
        if name not in {"gaussian", "laplace"} or parameter <= 0:
            raise RecordError(where, "a law and its size", shown(plain))
        return DiscreteGaussian(parameter) if name == "gaussian" else DiscreteLaplace(parameter)


class _Numbers:
    """Floats as the hexadecimal digits of their bytes, lowest byte first, so many in a text."""

    _chunks = Listed(TEXT, _MOST_CHUNKS)

    def write(self, value: Floats, where: str) -> object:
        whole = np.asarray(value, dtype="<f8")
        starts = range(0, len(whole), _CHUNK)
        texts = tuple([whole[start : start + _CHUNK].tobytes().hex() for start in starts])
        return self._chunks.write(texts, where)

    def read(self, plain: object, where: str) -> Floats:
        chunks = self._chunks.read(plain, where)
        if not all(map(_BYTES.fullmatch, chunks)):
            raise RecordError(where, "the digits of floats", "others")
        return np.frombuffer(bytes.fromhex("".join(chunks)), dtype="<f8").astype(np.float64)


_NUMBER = _Number()

_ACCURACIES: Kinds[Accuracy] = Kinds("an accuracy")
_ACCURACIES.add(
    NoiseAccuracy,
    "accuracy.noise.1",
    {"law": _Law(), "entries": NATURAL, "step": _NUMBER, "bias": _NUMBER},
)
_ACCURACIES.add(
    PromisedAccuracy,
    "accuracy.promised.1",
    {"error": _NUMBER, "beta": _NUMBER, "entries": NATURAL, "kind": TEXT},
)
_ACCURACIES.add(NoAccuracy, "accuracy.none.1", {"kind": TEXT, "advice": TEXT})

_NOT_KEPT = NoAccuracy(
    "the answer is a stored one, and what it rests on was not stored with it",
    "keep the bound of the first release",
)


class _Answer(NamedTuple):
    """What is stored for a request."""

    question: str
    numbers: Floats
    source: Source
    accuracy: Accuracy


_ANSWERS: Single[_Answer] = Single(
    _Answer,
    "answer.1",
    {"question": TEXT, "numbers": _Numbers(), "source": TEXT, "accuracy": _ACCURACIES},
)


class Request(NamedTuple):
    """A question under a name, to be charged and answered once.

    Parameters
    ----------
    name
        Names it, for all sessions on a ledger.
    question
        Tells the question from others: by table, kind of noise, mechanism, query and the numbers
        of its form.
    payer
        Whose ledger keeps the answer.
    """

    name: str
    question: str
    payer: Odometer

    def stored(self) -> Measurement | None:
        """The stored answer; None if there is none.

        Raises
        ------
        InvalidArgument
            If it is the answer to another question.
        LedgerDamaged
            If it is no answer.
        """
        found = self.payer.stored(self.name)
        if found is None:
            return None
        try:
            answer = from_record(_ANSWERS, _Answer, json.loads(found))
            if answer.source not in _SOURCES:
                raise RecordError("Answer.source", "where answers come from", shown(answer.source))
        except (ValueError, RecursionError) as error:
            why = f"what is stored for request {self.name!r} is no answer"
            raise LedgerDamaged("of the session", why) from error
        if answer.question != self.question:
            expected = "the name of no other question, mechanism, table or kind of noise"
            raise InvalidArgument("request_id", expected, shown(self.name))
        return Measurement(answer.numbers, answer.accuracy, answer.source)

    def kept(self, measurement: Measurement) -> Measurement:
        """Store an answer before anybody sees it; the one that was stored before, if one was.

        Raises as `stored` does, and if the ledger cannot keep it.
        """
        values, accuracy, source = measurement.values, measurement.accuracy, measurement.source
        try:
            record = as_record(_ANSWERS, _Answer(self.question, values, source, accuracy))
        except RecordError:
            record = as_record(_ANSWERS, _Answer(self.question, values, source, _NOT_KEPT))
        text = json.dumps(record, separators=(",", ":")).encode("ascii")
        try:
            self.payer.store(self.name, text)
        except InvalidArgument:
            # Free answers are charged to nobody, and so another may have been first.
            known = self.stored()
            if known is None:
                raise
            return known
        return measurement

    def charges(self) -> tuple[Charge, ...]:
        """All that was charged for the question to which the stored answer belongs."""
        charges = self.payer.ledger_charges()
        first = next((one for one in charges if one.request_id == self.name), None)
        if first is None:
            return ()
        asked = first.session, first.question
        return tuple([one for one in charges if (one.session, one.question) == asked])
