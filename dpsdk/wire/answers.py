"""Answers as plain numbers: what of a released answer is written down."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date
from typing import Literal, TypeAlias, cast

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy, same_numbers
from dpsdk._checks import shown
from dpsdk._records import cmp_using, field, frozen
from dpsdk.codec import ALL_MEASURED, GROUPS, NATURAL, TEXT, Choice, ListOf, Nested, written
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.queries import Answers, LinearQuery, Model, Workload
from dpsdk.queries.tables import LabelledTable
from dpsdk.typing import Array, Floats

__all__ = ["ANSWER", "AnswerShape", "Part", "ReleasedAnswer", "in_own_unit", "parts_of"]

AnswerShape: TypeAlias = Literal[
    "number", "truth", "nothing", "day", "numbers", "table", "model", "equation", "several", "other"
]
"""The meaning of numbers; `ReleasedAnswer` explains each."""

Part: TypeAlias = tuple[object, Floats]
"""A query of a workload, and its own of the raw numbers."""

_SHAPES: tuple[AnswerShape, ...] = (
    *("number", "truth", "nothing", "day", "numbers"),
    *("table", "model", "equation", "several", "other"),
)


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2})?")


def _to_numbers(values: object) -> Floats:
    return frozen_copy(np.array(values, dtype=np.float64).reshape(-1))


def in_own_unit(query: object, raw: Floats, facts: Facts | None) -> Floats:
    """Raw numbers in the unit of the answer, where a query says what they are worth."""
    if not isinstance(query, LinearQuery) or facts is None:
        return raw
    return np.asarray(query.numbers(raw, facts), dtype=np.float64).reshape(-1)


def parts_of(query: object, raw: Floats, facts: Facts | None, count: int) -> list[Part]:
    """The queries of so many answers, each with its own raw numbers; all of them if none says."""
    if isinstance(query, Workload) and facts is not None:
        return list(cast("Workload[object]", query).parts(raw, facts))
    return [(None, raw)] * count


def _to_shape(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


def _to_parts(values: Iterable[ReleasedAnswer]) -> tuple[ReleasedAnswer, ...]:
    return tuple(values)


def _to_names(values: object) -> tuple[str, ...]:
    return tuple(cast("tuple[str, ...]", values))


@written(
    "answer",
    {
        "stands_for": Choice[AnswerShape](*_SHAPES),
        "shape": ListOf(NATURAL, most=32),
        "numbers": ALL_MEASURED,
        "names": ListOf(TEXT, most=1 << 16),
        "parts": ListOf(Nested[object]("an answer", "answer")),
    },
)
@frozen
class ReleasedAnswer(Lasting):
    """A released answer in plain numbers.

    Parameters
    ----------
    stands_for
        "number", a number; "truth", 1 for True and 0 for False; "nothing", for None; "day", a day
        or a time, which `names` spells; "numbers", an array; "table", a `MarginalTable` or a
        `GroupTable`, whose attributes are `names`; "equation", the coefficients of a `Model` in
        the units of the data, whose names are `names`, and after them the intercept and the excess;
        "model", the same as 0.1.0 wrote it, by the margin and the numbers of features; "several",
        the answers of a workload, which are `parts`; "other", those of a class of another author,
        in the unit of the answer, as errors are: `LinearQuery.numbers`, or the raw ones where the
        query does not say.
    shape
        The length of each axis.
    numbers
        All of them in C order. NaN where an answer has none.
    """

    stands_for: AnswerShape
    shape: tuple[int, ...] = field(default=(), converter=_to_shape)
    numbers: Floats = field(
        factory=lambda: np.zeros(0),
        converter=_to_numbers,
        eq=cmp_using(eq=same_numbers),
        hash=False,
    )
    names: tuple[str, ...] = field(default=(), converter=_to_names)
    parts: tuple[ReleasedAnswer, ...] = field(default=(), converter=_to_parts)

    def __attrs_post_init__(self) -> None:
        if self.stands_for not in _SHAPES:
            raise InvalidArgument("stands_for", f"one of {', '.join(_SHAPES)}", self.stands_for)
        several = self.stands_for == "several"
        plain = self.stands_for in ("number", "truth", "nothing", "day")
        if plain and self.shape:
            raise InvalidArgument("shape", f"empty for a {self.stands_for}", shown(self.shape))
        none = several or self.stands_for in ("nothing", "day")
        for name, count, expected in (
            ("numbers", len(self.numbers), 0 if none else math.prod(self.shape)),
            ("parts", len(self.parts), math.prod(self.shape) if several else 0),
            ("names", len(self.names), self._named()),
        ):
            if count != expected or min(self.shape, default=0) < 0:
                raise InvalidArgument(name, f"{expected:,}, as the shape says", f"{count:,}")
        if self.stands_for == "truth" and self.numbers[0] not in (0.0, 1.0):
            raise InvalidArgument("numbers", "0 or 1 for a truth", shown(self.numbers[0]))
        if self.stands_for == "day" and not _DAY.fullmatch(self.names[0]):
            raise InvalidArgument("names", "a day or time as ISO 8601 has it", shown(self.names[0]))

    def _named(self) -> int:
        """How many names there are of what the numbers stand for."""
        match self.stands_for:
            case "day":
                return 1
            case "table":
                return len(self.shape)
            case "model" | "equation":
                return max(math.prod(self.shape) - 2, 0)
            case _:
                return 0

    @classmethod
    def of(
        cls, value: object, raw: Floats, query: object = None, facts: Facts | None = None
    ) -> ReleasedAnswer:
        """The plain numbers of an answer to a query; `raw` are those that it was made of."""
        if value is None:
            return cls("nothing")
        if isinstance(value, date):
            return cls("day", names=(value.isoformat(),))
        if isinstance(value, bool | np.bool_):
            return cls("truth", (), [float(bool(cast("object", value)))])
        if isinstance(value, int | float | np.integer | np.floating):
            return cls("number", (), [float(cast("float", value))])
        if isinstance(value, np.ndarray) and cast("Array", value).dtype.kind in "biuf":
            array = cast("Array", value)
            return cls("numbers", array.shape, array)
        if isinstance(value, LabelledTable):
            return cls("table", value.values.shape, value.values, value.names)
        if isinstance(value, Model):
            coefficients = value.coefficients
            numbers = [*coefficients.values(), value.intercept, value.excess]
            return cls("equation", (len(numbers),), numbers, tuple(coefficients))
        if isinstance(value, Answers):
            items = cast("Answers[object]", value).items
            both = zip(items, parts_of(query, raw, facts, len(items)), strict=True)
            parts = [cls.of(one, numbers, asked, facts) for one, (asked, numbers) in both]
            return cls("several", (len(items),), parts=tuple(parts))
        own = in_own_unit(query, raw, facts)
        return cls("other", own.shape, own)


ANSWER = Nested[ReleasedAnswer]("an answer", ReleasedAnswer)
GROUPS["answer"] = ReleasedAnswer
