"""What answers rest on, as a ledger keeps it beside them: records, as `dpsdk._records` has it.

An accuracy that follows from plain numbers is kept as it is. One that would be worked out of a form
is worked out first, so that its bounds are kept and the form is not. What rests on the state of a
channel or on a model is not kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Generic, TypeVar, cast, get_args

import numpy as np
from attrs import evolve

from dpsdk._checks import shown
from dpsdk._records import FLAG, FRACTION, NATURAL, TEXT, Field, Kinds, Listed, Optional
from dpsdk.accuracy import (
    Accuracy,
    ConstrainedAccuracy,
    Constraint,
    NoAccuracy,
    NoiseAccuracy,
    PromisedAccuracy,
)
from dpsdk.errors import RecordError
from dpsdk.mechanisms.convex.pmw.textbook import PromisedExcess
from dpsdk.mechanisms.linear_accuracy import Combination, LinearAccuracy
from dpsdk.mechanisms.local_marginals.strategy import CertifiedAccuracy
from dpsdk.mechanisms.noisy_histogram import ConsistentAccuracy, ProjectedAccuracy
from dpsdk.mechanisms.parts import JointAccuracy
from dpsdk.mechanisms.projection.accuracy import ProjectionAccuracy
from dpsdk.mechanisms.residual_planner.residuals import MovedAccuracy
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.typing import Floats, Ints

__all__ = ["ACCURACIES", "NUMBERS", "fits", "worked_out"]

T = TypeVar("T", bound=Accuracy)
V = TypeVar("V")
N = TypeVar("N", np.float64, np.int64)

_CHUNK = 1 << 12
_MOST_CHUNKS = 1 << 14
_MOST_PARTS = 1 << 10

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


class _Sound(Generic[V]):
    """What another field holds, where it is sound: it is neither written nor read otherwise."""

    def __init__(self, inner: Field[V], sound: Callable[[V], bool], expected: str) -> None:
        self._inner = inner
        self._sound = sound
        self._expected = expected

    def write(self, value: V, where: str) -> object:
        return self._inner.write(self._checked(value, where), where)

    def read(self, plain: object, where: str) -> V:
        return self._checked(self._inner.read(plain, where), where)

    def _checked(self, value: V, where: str) -> V:
        if not self._sound(value):
            raise RecordError(where, self._expected, shown(value))
        return value


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


class _Row(Generic[N]):
    """Numbers of 64 bits as the hexadecimal digits of their bytes, lowest first, many in a text."""

    _chunks = Listed(TEXT, _MOST_CHUNKS)

    def __init__(self, kind: type[N]) -> None:
        self._kind: type[N] = kind
        self._bytes: np.dtype[N] = np.dtype(kind).newbyteorder("<")

    def write(self, value: np.ndarray[tuple[int, ...], np.dtype[N]], where: str) -> list[object]:
        whole = np.asarray(value, dtype=self._bytes)
        starts = range(0, len(whole), _CHUNK)
        texts = tuple([whole[start : start + _CHUNK].tobytes().hex() for start in starts])
        return self._chunks.write(texts, where)

    def read(self, plain: object, where: str) -> np.ndarray[tuple[int, ...], np.dtype[N]]:
        chunks = self._chunks.read(plain, where)
        if not all(map(_BYTES.fullmatch, chunks)):
            raise RecordError(where, "the digits of numbers of 64 bits", "others")
        return np.frombuffer(bytes.fromhex("".join(chunks)), dtype=self._bytes).astype(self._kind)


NUMBERS = _Row(np.float64)
"""How a row of floats is written."""

_PLACES = _Row(np.int64)
_NUMBER = _Number()
_SIZE = _Sound(_NUMBER, lambda number: 0 <= number < math.inf, "a finite float of at least 0")
_SIZES = _Sound(NUMBERS, lambda numbers: bool((numbers >= 0).all()), "floats of at least 0")
_LAW = _Law()

_CONSTRAINTS: tuple[Constraint, ...] = get_args(Constraint)


class _Constraint:
    def write(self, value: Constraint, where: str) -> object:
        return TEXT.write(value, where)

    def read(self, plain: object, where: str) -> Constraint:
        for known in _CONSTRAINTS:
            if plain == known:
                return known
        raise RecordError(where, f"one of {', '.join(_CONSTRAINTS)}", shown(plain))


class _Combined:
    """How noises add up in each number: each way once, and which it is for each of the numbers."""

    def write(self, value: Combination, where: str) -> object:
        columns = (value.squares, value.peaks, value.counts)
        order = np.lexsort(columns[::-1])
        ranked = np.stack(columns)[:, order]
        # One number is of another way than the one before it if any of the three differs.
        new = np.append(True, (ranked[:, 1:] != ranked[:, :-1]).any(axis=0))[: len(order)]
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.cumsum(new) - 1
        ways = [NUMBERS.write(column, where) for column in ranked[:, new]]
        return [*ways, _PLACES.write(places, where)]

    def read(self, plain: object, where: str) -> Combination:
        expected = "squares, peaks and counts of each way, and its places"
        items = _items(plain, where, expected, 4, 4)
        columns = [_SIZES.read(one, f"{where}[{place}]") for place, one in enumerate(items[:3])]
        places = _PLACES.read(items[3], f"{where}[3]")
        many = len(columns[0])
        if any(len(one) != many for one in columns) or not _within(places, 0, many):
            raise RecordError(where, expected, "others")
        value = Combination(*[one[places] for one in columns])
        if self.write(value, where) != plain:
            raise RecordError(where, expected, "others")
        return value


def _items(plain: object, where: str, expected: str, least: int, most: int) -> list[object]:
    items = cast("list[object]", plain) if type(plain) is list else []
    if not least <= len(items) <= most:
        raise RecordError(where, expected, "others")
    return items


def _within(places: Ints, low: int, high: int) -> bool:
    return not len(places) or bool(low <= int(places.min()) and int(places.max()) < high)


ACCURACIES: Kinds[Accuracy] = Kinds("an accuracy")
"""How an accuracy is written."""


class _Own(Generic[T]):
    """An accuracy of one class."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def write(self, value: T, where: str) -> object:
        if type(value) is not self._kind:
            raise RecordError(where, f"a {self._kind.__name__}", type(value).__name__)
        return ACCURACIES.write(value, where)

    def read(self, plain: object, where: str) -> T:
        value = ACCURACIES.read(plain, where)
        if not isinstance(value, self._kind):
            raise RecordError(where, f"a {self._kind.__name__}", type(value).__name__)
        return value


class _Parts:
    """Accuracies, each with how many numbers it is of."""

    def write(self, value: tuple[tuple[Accuracy, int], ...], where: str) -> object:
        if len(value) > _MOST_PARTS:
            raise RecordError(where, f"at most {_MOST_PARTS:,} parts", f"{len(value):,}")
        return [
            [ACCURACIES.write(one, f"{where}.{place}"), NATURAL.write(rows, where)]
            for place, (one, rows) in enumerate(value)
        ]

    def read(self, plain: object, where: str) -> tuple[tuple[Accuracy, int], ...]:
        expected = f"a list of at most {_MOST_PARTS:,} pairs, and one at least"
        found: list[tuple[Accuracy, int]] = []
        for place, pair in enumerate(_items(plain, where, expected, 1, _MOST_PARTS)):
            one, rows = _items(pair, where, expected, 2, 2)
            found.append((ACCURACIES.read(one, f"{where}.{place}"), NATURAL.read(rows, where)))
        return tuple(found)


def fits(accuracy: Accuracy, count: int) -> bool:
    """Whether an accuracy may be that of so many numbers."""
    numbers = _numbers(accuracy)
    return numbers is None or numbers == count


def _numbers(accuracy: Accuracy) -> int | None:
    """How many numbers it is of; None if it may be of any."""
    if isinstance(accuracy, (NoiseAccuracy, PromisedAccuracy, ProjectionAccuracy)):
        return accuracy.entries
    if isinstance(accuracy, (LinearAccuracy, ConsistentAccuracy)):
        return len(accuracy.combination.squares)
    if isinstance(accuracy, (ProjectedAccuracy, MovedAccuracy)):
        return len(accuracy.distances)
    if isinstance(accuracy, ConstrainedAccuracy):
        return len(accuracy.moves)
    if isinstance(accuracy, CertifiedAccuracy):
        return len(accuracy.errors)
    if isinstance(accuracy, JointAccuracy):
        return sum([rows for _, rows in accuracy.parts])
    return None


def _alike(accuracy: T, *within: Accuracy) -> T:
    """The first, if those that it is made of are of as many numbers."""
    numbers = _numbers(accuracy)
    if numbers is not None and not all(fits(one, numbers) for one in within):
        raise ValueError("accuracies of as many numbers")
    return accuracy


def _constrained(
    before: Accuracy, constraint: Constraint, moves: Floats, chains: Ints
) -> ConstrainedAccuracy:
    if len(chains) != len(moves) or not _within(chains, -1, len(moves)):
        raise ValueError("a chain for each number, counted from 0")
    return _alike(ConstrainedAccuracy(before, constraint, moves, chains), before)


def _joint(parts: tuple[tuple[Accuracy, int], ...]) -> JointAccuracy:
    if not all(fits(one, rows) for one, rows in parts):
        raise ValueError("as many numbers as each part is of")
    return JointAccuracy(parts)


def _consistent(
    law: NoiseLaw,
    step: float,
    cells: int,
    exactly: bool,  # noqa: FBT001  # a field of a record
    combination: Combination,
    signed: Floats,
) -> ConsistentAccuracy:
    if cells < 1 or len(signed) != len(combination.squares):
        raise ValueError("a cell at least, and a sign for each number")
    return ConsistentAccuracy(law, step, cells, exactly, combination, signed)


def _projected(
    projection: ConsistentAccuracy, before: LinearAccuracy, distances: Floats
) -> ProjectedAccuracy:
    return _alike(ProjectedAccuracy(projection, before, distances), projection, before)


def _moved(unbiased: LinearAccuracy, distances: Floats) -> MovedAccuracy:
    return _alike(MovedAccuracy(unbiased, distances), unbiased)


def _projection(
    noise: NoiseAccuracy,
    reach: float,
    cells: int,
    gap: float,
    distances: Floats | None,
    counted: bool,  # noqa: FBT001  # a field of a record
    entries: int,
) -> ProjectionAccuracy:
    if not (1 <= entries <= noise.entries and cells >= 1):
        raise ValueError("numbers that were measured, and cells")
    if distances is not None and len(distances) != entries:
        raise ValueError("a distance for each number")
    moved = None if distances is None else tuple(distances.tolist())
    return ProjectionAccuracy(noise, reach, cells, gap, moved, counted, entries)


ACCURACIES.add(
    NoiseAccuracy,
    "accuracy.noise.1",
    {"law": _LAW, "entries": NATURAL, "step": _SIZE, "bias": _SIZE},
)
ACCURACIES.add(
    PromisedAccuracy,
    "accuracy.promised.1",
    {"error": _NUMBER, "beta": _NUMBER, "entries": NATURAL, "kind": TEXT},
)
ACCURACIES.add(NoAccuracy, "accuracy.none.1", {"kind": TEXT, "advice": TEXT})
ACCURACIES.add(
    ConstrainedAccuracy,
    "accuracy.constrained.1",
    {"before": ACCURACIES, "constraint": _Constraint(), "moves": NUMBERS, "chains": _PLACES},
    lambda read: _constrained(**read),  # type: ignore[arg-type]  # what its fields read
)
ACCURACIES.add(
    JointAccuracy,
    "accuracy.joint.1",
    {"parts": _Parts()},
    lambda read: _joint(**read),  # type: ignore[arg-type]  # what its fields read
)
ACCURACIES.add(
    LinearAccuracy,
    "accuracy.combined.1",
    {"law": _LAW, "step": _SIZE, "combination": _Combined()},
)
ACCURACIES.add(
    ConsistentAccuracy,
    "accuracy.consistent.1",
    {
        "law": _LAW, "step": _SIZE, "cells": NATURAL, "exactly": FLAG,
        "combination": _Combined(), "signed": NUMBERS,
    },
    lambda read: _consistent(**read),  # type: ignore[arg-type]  # what its fields read
)  # fmt: skip
ACCURACIES.add(
    ProjectedAccuracy,
    "accuracy.projected.1",
    {
        "projection": _Own(ConsistentAccuracy),
        "before": _Own(LinearAccuracy),
        "distances": _SIZES,
    },
    lambda read: _projected(**read),  # type: ignore[arg-type]  # what its fields read
)
ACCURACIES.add(
    MovedAccuracy,
    "accuracy.moved.1",
    {"unbiased": _Own(LinearAccuracy), "distances": _SIZES},
    lambda read: _moved(**read),  # type: ignore[arg-type]  # what its fields read
)
ACCURACIES.add(
    ProjectionAccuracy,
    "accuracy.projection.1",
    {
        "noise": _Own(NoiseAccuracy), "reach": _SIZE, "cells": NATURAL, "gap": _SIZE,
        "distances": Optional(_SIZES), "counted": FLAG, "entries": NATURAL,
    },
    lambda read: _projection(**read),  # type: ignore[arg-type]  # what its fields read
)  # fmt: skip
ACCURACIES.add(
    CertifiedAccuracy,
    "accuracy.certified.1",
    {"errors": _SIZES, "beta": _NUMBER, "variation": _NUMBER},
)
ACCURACIES.add(
    PromisedExcess,
    "accuracy.promised-excess.1",
    {"alpha": _NUMBER, "beta": _NUMBER, "span": _NUMBER},
)


def worked_out(accuracy: Accuracy) -> Accuracy:
    """The same bounds, made of numbers alone: those that a form would be asked for, asked now."""
    if type(accuracy) is LinearAccuracy:
        return accuracy.computed()
    if type(accuracy) is ProjectedAccuracy:
        return evolve(accuracy, before=accuracy.before.computed())
    if type(accuracy) is MovedAccuracy:
        return evolve(accuracy, unbiased=accuracy.unbiased.computed())
    if type(accuracy) is ConstrainedAccuracy:
        return evolve(accuracy, before=worked_out(accuracy.before))
    if type(accuracy) is JointAccuracy:
        return JointAccuracy(tuple([(worked_out(one), rows) for one, rows in accuracy.parts]))
    return accuracy
