"""Very many rectangles as two arrays of codes: one query, and one array for an answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import ByNumbers, frozen_copy, frozen_integers
from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.codec import CODES, NAME, ListOf, Member, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Boxes, Facts, LinearForm
from dpsdk.forms.linear import ROW_LIMIT
from dpsdk.queries.conditions import listed
from dpsdk.queries.conjunction import COUNTED, ConditionedCounting
from dpsdk.queries.linear import to_names
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Rectangles"]

Codes: TypeAlias = Array | Sequence[int] | Sequence[Sequence[int]]
"""Integers, one a rectangle and attribute; for a single attribute one a rectangle."""

_EXPECTED = "integer codes, an array of shape (rectangles, attributes)"


def _to_lower(codes: Codes) -> Ints:
    return _to_codes("lower", codes)


def _to_upper(codes: Codes) -> Ints:
    return _to_codes("upper", codes)


def _to_codes(parameter: str, codes: Codes) -> Ints:
    """A copy of codes that stays as it is."""
    masked = sys.modules.get("numpy.ma")  # which nobody needs to load for this
    if masked is not None and isinstance(codes, masked.MaskedArray):
        raise InvalidArgument(parameter, f"{_EXPECTED}, none of them masked", "a masked array")
    given = _of_lists(parameter, codes) if isinstance(codes, list | tuple) else _array(codes)
    if given is None or given.dtype.kind not in "iu":
        got = shown(codes) if given is None else f"an array of {given.dtype}"
        raise InvalidArgument(parameter, _EXPECTED, got)
    if given.ndim == 1:
        given = given.reshape(-1, 1)
    if given.ndim != 2 or not given.size:
        raise InvalidArgument(parameter, f"{_EXPECTED}, not empty", f"shape {given.shape}")
    if len(given) > ROW_LIMIT:
        raise TooLarge("the batch", len(given), ROW_LIMIT, "rectangles", "ask for fewer at once")
    if int(given.min()) < 0 or int(given.max()) >= 2**63:
        row, place = (int(at) for at in np.argwhere((given < 0) | (given > 2**63 - 1))[0])
        got = f"{int(given[row, place])} in row {row}"
        raise InvalidArgument(parameter, "codes, which count from 0", got)
    plain = np.ascontiguousarray(given, dtype=np.int64)
    return frozen_integers(plain)


def _array(codes: object) -> Array | None:
    try:
        return np.array(codes, subok=False)
    except Exception:  # noqa: BLE001  # a class of another author may raise what it likes
        return None


def _of_lists(parameter: str, codes: object) -> Array | None:
    """Lists of integers; numpy would take a truth value among them for a number."""
    try:
        given = np.array(codes, dtype=object)
    except ValueError:
        return None
    for kind in set(map(type, given.reshape(-1).tolist())):
        if not issubclass(kind, int | np.integer) or issubclass(kind, bool | np.timedelta64):
            raise InvalidArgument(parameter, _EXPECTED, f"a {kind.__name__} among them")
    return _array(codes)


@written(
    "query.rectangles",
    {
        "attributes": ListOf(NAME, least=1),
        "lower": Member(CODES, of="low"),
        "upper": Member(CODES, of="high"),
        **COUNTED,
    },
)
@frozen(repr=False)
class Rectangles(ConditionedCounting[Floats]):
    """The share of rows in each of many rectangles; an array of floats, in their order.

    Rectangle i holds the rows whose code along each attribute j is from `lower[i, j]` to
    `upper[i, j]`, both included. It is the conjunction of these ranges, and the answer that of a
    `Workload` of such conjunctions; but there are two arrays, and no object for each, so that very
    many are built and answered quickly. All are measured together, by their joint sensitivity.

    A code is the place of a label among the labels of its attribute, counted from 0, as
    `attribute.index(label)` gives it: `value - attribute.low` along an `Integer`, and the number of
    the bin along a `Binned` one. Where an attribute is to play no part, a rectangle goes from 0 to
    its last code. Cells for other and for missing values have the codes behind those of the labels.

    Parameters
    ----------
    lower, upper
        Codes, of any integer type, shape (rectangles, attributes), or (rectangles,) for a single
        attribute. They are copied, and kept as `low` and `high`: arrays that nobody can write into.

    Raises
    ------
    InvalidArgument, TooLarge
        If these are no integers of that shape, or some lower code is above its upper one; for more
        than 2^24 rectangles.
    QueryError
        When the query is lowered, before anything is paid: if an attribute has no such code.

    >>> from dpsdk.queries import Rectangles
    >>> Rectangles(["age", "hours"], lower=[[0, 40], [13, 0]], upper=[[12, 98], [47, 98]])
    Rectangles(('age', 'hours'), arrays of shape (2, 2))
    """

    attributes: tuple[str, ...] = field(converter=to_names)
    low: Ints = field(converter=_to_lower, alias="lower", eq=ByNumbers)
    high: Ints = field(converter=_to_upper, alias="upper", eq=ByNumbers)

    def __attrs_post_init__(self) -> None:
        wide = len(self.attributes)
        for parameter, codes in (("lower", self.low), ("upper", self.high)):
            if codes.shape[1] != wide:
                expected = f"of shape (rectangles, {wide}), a column an attribute"
                raise InvalidArgument(parameter, expected, f"shape {codes.shape}")
        if len(self.low) != len(self.high):
            expected = f"{len(self.low):,} rows, as many as lower has"
            raise InvalidArgument("upper", expected, f"{len(self.high):,}")
        crossed = self.low > self.high
        if crossed.any():
            row, place = (int(at) for at in np.argwhere(crossed)[0])
            name, low = self.attributes[place], int(self.low[row, place])
            expected = f"at least lower, which is {low} for {name!r} in row {row}"
            raise InvalidArgument("upper", expected, str(int(self.high[row, place])))

    def footprint(self, domain: Domain, /) -> int:
        del domain
        conditions = 0 if self.where is None else len(self.where.conditions)
        return len(self.low) * (2 * (len(self.attributes) + conditions) + 1)

    def lower(self, domain: Domain, /) -> LinearForm:
        masks = {} if self.where is None else self.where.factors(domain)
        names = tuple(sorted({*self.attributes, *masks}, key=domain.position))
        starts = np.empty((len(names), len(self.low)), dtype=np.int64)
        stops = np.empty_like(starts)
        lines: list[Floats | None] = []
        for axis, name in enumerate(names):
            start, stop, line = starts[axis], stops[axis], None
            if name in self.attributes:
                place = self.attributes.index(name)
                self._check(domain, name, place)
                start[:] = self.low[:, place]
                np.add(self.high[:, place], 1, out=stop)
            else:
                start[:], stop[:] = 0, domain[name].size
            mask = masks.get(name)
            if mask is not None and (span := mask.span) is not None:
                np.clip(start, span.start, span.stop, out=start)
                np.clip(stop, start, np.maximum(start, span.stop), out=stop)
            elif mask is not None:
                line = mask.matrix()[0]
            lines.append(line)
        shape = tuple([domain[name].size for name in names])
        kept = [
            axis
            for axis, (size, line) in enumerate(zip(shape, lines, strict=True))
            if line is not None or starts[axis].any() or (stops[axis] < size).any()
        ] or [0]
        block = Boxes(
            tuple([names[axis] for axis in kept]),
            tuple([shape[axis] for axis in kept]),
            starts[kept],
            stops[kept],
            np.ones(len(self.low)),
            tuple([lines[axis] for axis in kept]),
        )
        return LinearForm(domain, (block,))

    def _check(self, domain: Domain, name: str, place: int) -> None:
        size, highest = domain[name].size, self.high[:, place]
        if int(highest.max()) >= size:
            row = int(highest.argmax())
            reason = f"row {row} goes up to code {int(highest[row])} of {name!r}"
            raise QueryError(str(self), f"{reason}, whose codes are 0 to {size - 1}")

    def lift(self, raw: Floats, facts: Facts, /) -> Floats:
        answers: Floats = raw * self.scale(facts)
        return frozen_copy(answers)

    def __repr__(self) -> str:
        comma = "," if len(self.attributes) == 1 else ""
        names = f"({listed(self.attributes, len(self.attributes))}{comma})"
        return f"Rectangles({names}, arrays of shape {self.low.shape}{self._given})"
