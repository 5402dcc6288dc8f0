"""Fields made of others, and fields of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from dpsdk._arrays import frozen_copy
from dpsdk._checks import shown
from dpsdk.codec.fields import (
    AMOUNT,
    CELLS,
    FINITE,
    INFINITE,
    INTEGER,
    MEASURED,
    NAME,
    NUMBER,
    POSITIVE,
    Field,
    Pattern,
    object_schema,
    refused,
)
from dpsdk.codec.text import JSON, Plain, step
from dpsdk.errors import WireError
from dpsdk.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from dpsdk.codec.kinds import Codebook

__all__ = [
    "ALL_MEASURED",
    "CODES",
    "EXACTLY",
    "NUMBERS",
    "PACKED_FLOATS",
    "PACKED_INTS",
    "Both",
    "Checked",
    "Choice",
    "Entry",
    "ListOf",
    "MapOf",
    "OrNone",
]

T = TypeVar("T")


class Choice(Generic[T]):
    """One of a few texts, each standing for itself."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._expected = " or ".join(f'"{text}"' for text in texts)

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        # A value of a class below `str` is written as the text that it equals.
        plain = str.__str__(value) if isinstance(value, str) else cast("Plain", value)
        return cast("str", self.read(plain, path, codebook))

    def read(self, plain: Plain, path: str, _: Codebook, /) -> T:
        if type(plain) is not str or plain not in self._texts:
            raise refused(path, self._expected, plain)
        return cast("T", plain)

    def schema(self, _: Codebook, /) -> JSON:
        return {"enum": list(self._texts)}


class OrNone(Generic[T]):
    """A value, or null for None."""

    def __init__(self, field: Field[T]) -> None:
        self._field = field

    def write(self, value: T | None, path: str, codebook: Codebook, /) -> Plain:
        return None if value is None else self._field.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T | None:
        return None if plain is None else self._field.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [{"type": "null"}, self._field.schema(codebook)]}


class Checked(Generic[T]):
    """A value of another field for which `sound` holds; `expected` says that in words."""

    def __init__(self, field: Field[T], sound: Callable[[T], bool], expected: str) -> None:
        self._field = field
        self._sound = sound
        self._expected = expected

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        return self._field.write(self._checked(value, path), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        return self._checked(self._field.read(plain, path, codebook), path)

    def _checked(self, value: T, path: str) -> T:
        if not self._sound(value):
            raise WireError(path, self._expected, shown(value))
        return value

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._field.schema(codebook)


class ListOf(Generic[T]):
    """A list of so many values of one type, which becomes a tuple."""

    def __init__(self, field: Field[T], *, least: int = 0, most: int = CELLS) -> None:
        self._field = field
        self._least = least
        self._most = most

    def write(self, value: Sequence[T], path: str, codebook: Codebook, /) -> Plain:
        self._check(len(value), path)
        write = self._field.write
        return [write(item, f"{path}[{place}]", codebook) for place, item in enumerate(value)]

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> tuple[T, ...]:
        if type(plain) is not list:
            raise refused(path, "a list", plain)
        self._check(len(plain), path)
        read = self._field.read
        # From a list: tuple() of a generator would keep none of the place if it is interrupted.
        return tuple([read(item, f"{path}[{place}]", codebook) for place, item in enumerate(plain)])

    def _check(self, count: int, path: str) -> None:
        if not self._least <= count <= self._most:
            expected = f"a list of {self._least:,} to {self._most:,} values"
            raise WireError(path, expected, f"{count:,} values")

    def schema(self, codebook: Codebook, /) -> JSON:
        items = self._field.schema(codebook)
        return {"type": "array", "items": items, "minItems": self._least, "maxItems": self._most}


class Entry:
    """An object of exactly these members, which stands for the tuple of their values."""

    def __init__(self, **fields: object) -> None:
        self._fields = cast("dict[str, Field[object]]", fields)
        self._expected = "an object of " + " and ".join([f'"{name}"' for name in fields])

    def write(self, value: tuple[object, ...], path: str, codebook: Codebook, /) -> Plain:
        pairs = zip(self._fields.items(), value, strict=True)
        return {name: field.write(one, f"{path}.{name}", codebook) for (name, field), one in pairs}

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> tuple[object, ...]:
        if type(plain) is not dict or plain.keys() != self._fields.keys():
            raise refused(path, self._expected, plain)
        fields = self._fields.items()
        return tuple(
            [field.read(plain[name], f"{path}.{name}", codebook) for name, field in fields]
        )

    def schema(self, codebook: Codebook, /) -> JSON:
        return object_schema({name: one.schema(codebook) for name, one in self._fields.items()})


class Both(Generic[T]):
    """A text or a value of another field whose plain forms are no texts."""

    def __init__(self, texts: Field[str], others: Field[T]) -> None:
        self._texts = texts
        self._others = others

    def write(self, value: str | T, path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, str):
            return self._texts.write(value, path, codebook)
        return self._others.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> str | T:
        if type(plain) is str:
            return self._texts.read(plain, path, codebook)
        return self._others.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [self._texts.schema(codebook), self._others.schema(codebook)]}


class MapOf(Generic[T]):
    """Values by name, in the order in which they are written."""

    def __init__(self, field: Field[T], *, least: int = 0) -> None:
        self._field = field
        self._least = least

    def write(self, value: Mapping[str, T], path: str, codebook: Codebook, /) -> Plain:
        return {
            NAME.read(name, path, codebook): self._field.write(one, path + step(name), codebook)
            for name, one in value.items()
        }

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> dict[str, T]:
        if type(plain) is not dict or len(plain) < self._least:
            raise refused(path, "an object with members" if self._least else "an object", plain)
        return {
            NAME.read(name, path, codebook): self._field.read(one, path + step(name), codebook)
            for name, one in plain.items()
        }

    def schema(self, codebook: Codebook, /) -> JSON:
        return {
            "type": "object",
            "minProperties": self._least,
            "propertyNames": NAME.schema(codebook),
            "additionalProperties": self._field.schema(codebook),
        }


class _Exactly:
    _entry = Entry(exact=AMOUNT, float=MEASURED)

    def write(self, value: Fraction, path: str, codebook: Codebook, /) -> Plain:
        near = MEASURED.write(_near(value), path, codebook)
        return {"exact": AMOUNT.write(value, path, codebook), "float": near}

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Fraction:
        exact, near = cast("tuple[Fraction, float]", self._entry.read(plain, path, codebook))
        if near != _near(exact):
            raise WireError(f"{path}.float", "the float next to the exact amount", shown(near))
        return exact

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._entry.schema(codebook)


def _near(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


EXACTLY = _Exactly()
"""An exact amount beside the float next to it: {"exact": "1/3", "float": 0.333}."""


class _Numbers:
    _entry = Entry(
        shape=ListOf(POSITIVE, least=1, most=32), numbers=ListOf(NUMBER, least=1, most=CELLS)
    )

    def write(self, value: Floats, path: str, codebook: Codebook, /) -> Plain:
        if value.size > CELLS:
            raise WireError(path, f"at most {CELLS:,} numbers", f"{value.size:,} of them")
        if not np.isfinite(value).all():
            raise WireError(path, "finite numbers", "some that are not")
        return self._entry.write((value.shape, value.reshape(-1).tolist()), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Floats:
        found = cast(
            "tuple[tuple[int, ...], tuple[float, ...]]", self._entry.read(plain, path, codebook)
        )
        shape, numbers = found
        if math.prod(shape) != len(numbers):
            raise WireError(f"{path}.shape", f"the shape of {len(numbers):,} numbers", shown(shape))
        return frozen_copy(np.array(numbers, dtype=np.float64).reshape(shape))

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._entry.schema(codebook)


NUMBERS = _Numbers()
"""An array of floats: its shape, and its numbers in C order."""


class _Codes:
    _rows = ListOf(ListOf(INTEGER, least=1, most=1000), least=1)

    def write(self, value: Ints, path: str, _: Codebook, /) -> Plain:
        if value.size > CELLS:
            raise WireError(path, f"at most {CELLS:,} integers", f"{value.size:,} of them")
        return cast("Plain", value.tolist())

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Ints:
        rows = self._rows.read(plain, path, codebook)
        if len({len(row) for row in rows}) > 1:
            raise WireError(path, "rows of one length", "rows of several")
        if max(max(map(abs, row)) for row in rows) >= 1 << 63:
            raise WireError(path, "integers below 2^63", "a larger one")
        return np.array(rows, dtype=np.int64)

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._rows.schema(codebook)


CODES = _Codes()
"""A table of integers, as rectangles have: a list of rows, all of one length."""


class _AllMeasured(ListOf[float]):
    def write(self, value: Floats | Sequence[float], path: str, codebook: Codebook, /) -> Plain:
        given = value if isinstance(value, np.ndarray) else list(value)
        floats = isinstance(given, np.ndarray) or set(map(type, given)) == {float}
        if not floats or not 8 <= len(given) <= CELLS:
            return super().write(cast("Sequence[float]", given), path, codebook)
        # All at once, and otherwise as each of them is written.
        numbers = np.asarray(given, dtype=np.float64)
        plain = numbers.astype(object)
        whole = (np.abs(numbers) < FINITE) & (np.floor(numbers) == numbers)
        plain[whole] = numbers[whole].astype(np.int64).astype(object)
        plain[np.isnan(numbers)] = None
        for text, size in INFINITE.items():
            plain[numbers == size] = text
        return cast("list[Plain]", plain.tolist())


ALL_MEASURED = _AllMeasured(MEASURED)
"""All numbers of an answer, each as `MEASURED` has it."""


class _Packed:
    """Numbers of 64 bits as the hexadecimal digits of their bytes, lowest first, many in a text."""

    _chunk = 1 << 12
    _texts = ListOf(Pattern(r"(?:[0-9a-f]{16}){1,4096}", "the digits of numbers of 64 bits"))

    def __init__(self, kind: type[np.float64 | np.int64]) -> None:
        self._kind = np.dtype(kind)
        self._bytes = self._kind.newbyteorder("<")

    def write(self, value: Array, path: str, codebook: Codebook, /) -> Plain:
        whole = np.asarray(value, dtype=self._bytes)
        starts = range(0, len(whole), self._chunk)
        texts = [whole[start : start + self._chunk].tobytes().hex() for start in starts]
        return self._texts.write(texts, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Array:
        chunks = self._texts.read(plain, path, codebook)
        return np.frombuffer(bytes.fromhex("".join(chunks)), self._bytes).astype(self._kind)

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._texts.schema(codebook)


PACKED_FLOATS = _Packed(np.float64)
"""A row of floats of any length, exact and short."""

PACKED_INTS = _Packed(np.int64)
"""A row of integers of any length."""
