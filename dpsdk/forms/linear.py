"""Linear forms: stacks of blocks, each a batch of linear functions of a record summed over rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from dpsdk._records import evolve, field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.base import Form
from dpsdk.forms.blocks import Block, Dense, Kronecker, owned_block
from dpsdk.forms.boxes import Boxes, FormBlock, Products, worth_boxing
from dpsdk.forms.canonical import FORM, of_functions
from dpsdk.forms.factors import is_own
from dpsdk.forms.scattered import Group, Scattered
from dpsdk.forms.slopes import Gradient, InPieces
from dpsdk.typing import Floats, Ints

if TYPE_CHECKING:
    from dpsdk.forms.crossing import Crossing

__all__ = ["Counts", "LinearForm", "narrowed"]

ROW_LIMIT = 2**24
"""No form asks for more numbers at once."""

EXACT = 2.0**53
"""Integers up to this are exact in float64, in whatever order they are added."""

TABLE_LIMIT = 2**22
"""Up to so many cells, touched attributes are answered from a table; above, from records."""

_GROUP_LIMIT = 2**12

_WRITTEN_LIMIT = 2**22
"""The most weights that are multiplied out to be rounded together."""

_FORM_BYTES = 512
"""The bytes of a form beside its blocks, roughly."""


_ROWS = attrgetter("rows")
_INTEGRAL = attrgetter("integral")


class Counts(Protocol):
    """Counts of records: a private histogram, or a public distribution in its place."""

    def table(self, names: tuple[str, ...]) -> Floats:
        """Counts on the cells of the named attributes, one axis a name; the caller only reads."""
        ...

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Cell numbers along each named attribute, and the count of each such record."""
        ...


def _to_blocks(blocks: Iterable[Block]) -> tuple[FormBlock, ...]:
    own = tuple(blocks)
    if not all(map(is_own, map(type, own))):
        own = tuple([block if is_own(type(block)) else owned_block(block) for block in own])
    if not own:
        raise InvalidArgument("blocks", "at least one block", "none")
    return cast("tuple[FormBlock, ...]", own)


@frozen(eq=False)
class LinearForm(Form):
    """Linear functions of a record, each summed over all rows of a table.

    A stack of blocks: Kronecker products, boxes and dense ones. The universe is never written out
    but for dense blocks.
    Weights are finite reals. A form counts rows; a query turns counts into shares.

    >>> from dpsdk import Domain, Integer
    >>> from dpsdk.forms import Kronecker, LinearForm, Prefix
    >>> domain = Domain(Integer("age", 17, 90), Integer("hours", 1, 99))
    >>> form = LinearForm(domain, [Kronecker.of(domain, {"age": Prefix(74)})])
    >>> form.rows
    74
    """

    domain: Domain
    blocks: tuple[FormBlock, ...] = field(converter=_to_blocks)
    crossing: Crossing | None = field(default=None, repr=False, kw_only=True)
    """The choice of a value that answers the same question, where all counts are for a quantile."""

    def __attrs_post_init__(self) -> None:
        fitting: tuple[tuple[str, ...], tuple[int, ...]] | None = None
        for block in self.blocks:
            names, shape = block.names, block.shape
            if (names, shape) == fitting:
                continue
            sizes = tuple(map(self.domain.sizes.get, names))
            if shape != sizes or len(set(names)) != len(names):
                sizes = tuple([self.domain[name].size for name in names])
                expected = f"of shape {sizes}, one axis a name"
                raise InvalidArgument("blocks", expected, f"shape {shape}")
            fitting = names, shape
        if self.rows > ROW_LIMIT:
            advice = "ask for fewer at once, of fewer attributes, or of coarser ones (Binned)"
            raise TooLarge("the workload", self.rows, ROW_LIMIT, "numbers", advice)

    @cached_property
    def rows(self) -> int:
        """The number of functions."""
        return sum(map(_ROWS, self.blocks))

    def fits(self, count: int) -> bool:
        """True if so many raw numbers answer it, or its crossing."""
        return (self.crossing is not None and count == self.crossing.width) or count == self.rows

    @cached_property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes, with the arrays that it is made of."""
        return _FORM_BYTES + sum([block.nbytes for block in self.blocks])

    @property
    def lattice_nbytes(self) -> int:
        """Roughly how many bytes it takes on a lattice, with products that are multiplied out."""
        if self.integral:
            return self.nbytes
        pairs = zip(self._joined, self.blocks, strict=True)
        return self.nbytes + sum([own.nbytes for (own, _), block in pairs if own is not block])

    @classmethod
    def stack(cls, forms: Sequence[LinearForm]) -> LinearForm:
        """All functions of several forms over one domain, in order."""
        domain = forms[0].domain
        if any(form.domain is not domain and form.domain != domain for form in forms):
            raise InvalidArgument("forms", "forms over one domain", "several domains")
        return cls(domain, (block for form in forms for block in form.blocks))

    @cached_property
    def integral(self) -> bool:
        """True if all weights are integers."""
        return all(map(_INTEGRAL, self.blocks))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that some function depends on, in the order of the domain."""
        touched = {name for block in self.blocks for name in block.names}
        return tuple(name for name in self.domain.names if name in touched)

    def extents(self) -> tuple[Floats, Floats]:
        """The smallest and largest weight of each function over the cells of the domain."""
        lows, highs = zip(*[block.extents() for block in self.blocks], strict=True)
        return np.concatenate(lows), np.concatenate(highs)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest weight of all."""
        lows, highs = zip(*[block.limits() for block in self.blocks], strict=True)
        return min(lows), max(highs)

    @property
    def largest(self) -> float:
        """The largest absolute weight."""
        return max(map(abs, self.limits))

    @cached_property
    def reach(self) -> float:
        """No product of weights of one record exceeds this on the way to an answer.

        Infinite or NaN where floats do not hold it.
        """
        # Asked of what is evaluated: a stack of boxes adds and subtracts more than each of them.
        if len(self.blocks) == 1:
            return self.blocks[0].reach
        # Python's max would lose a NaN.
        return float(np.max([block.reach for block, _ in self.groups]))

    def rounded(self, bits: int) -> tuple[LinearForm, float]:
        """The form in integer units of 2**-bits, and the largest change of a weight.

        Weights are rounded half-up, before anything is summed. Products of several factors that
        are no integers are multiplied out first where that takes at most 2**22 weights in all, and
        then change by half a unit at the most; otherwise these factors share the bits. The change
        is in the unit of this form.
        """
        rounded = [(block.rounded(bits), slack) for block, slack in self._joined]
        form = LinearForm(self.domain, [block for (block, _), _ in rounded])
        return form, max(change + slack for (_, change), slack in rounded)

    @cached_property
    def uneven(self) -> int:
        """Among how many factors of a block the bits of a lattice are shared, at the most."""
        return max(block.uneven for block, _ in self._joined)

    @cached_property
    def _joined(self) -> tuple[tuple[FormBlock, float], ...]:
        """The blocks, with products of uneven factors multiplied out as far as that is allowed.

        And the errors of floats in the weights that were multiplied out.
        """
        room, joined = _WRITTEN_LIMIT, list[tuple[FormBlock, float]]()
        for block in self.blocks:
            needed = block.rows * math.prod(block.shape)
            if block.uneven > 1 and needed <= room:
                room -= needed
                joined.append((block.written(), block.slack))
            else:
                joined.append((block, 0.0))
        return tuple(joined)

    def pieces(self, rows: int) -> Iterator[LinearForm]:
        """The form in consecutive parts, each of at least so many functions.

        Blocks stay whole, but for boxes, which are cut into as many.
        """
        taken: list[FormBlock] = []
        count = 0
        for block in self.blocks:
            for part in block.cut(rows) if isinstance(block, Boxes) else [block]:
                taken.append(part)
                count += part.rows
                if count >= rows:
                    yield LinearForm(self.domain, taken)
                    taken, count = [], 0
        if taken:
            yield LinearForm(self.domain, taken)

    def apart(self) -> LinearForm:
        """The same functions with a block of its own for each box: many objects, where many are."""
        if not any(isinstance(block, Boxes) for block in self.blocks):
            return self
        blocks: list[FormBlock] = []
        for block in self.blocks:
            boxes = isinstance(block, Boxes)
            blocks += map(block.row, range(block.rows)) if boxes else [block]
        return LinearForm(self.domain, blocks)

    def row(self, number: int) -> LinearForm:
        """The form of one function of this one."""
        place = number
        for block in self.blocks:
            if 0 <= place < block.rows:
                return LinearForm(self.domain, (block.row(place),))
            place -= block.rows
        raise InvalidArgument("number", f"from 0 to {self.rows - 1}", str(number))

    @property
    def identity(self) -> bytes:
        """The same for the same functions of the universe in the same order, and for no others.

        It does not matter how they were built: 32 bytes, the same in every process and on every
        platform. Weights count as the exact numbers that floats are; see dpsdk.forms.canonical.
        """
        return self._identity

    @cached_property
    def _identity(self) -> bytes:
        digest = sha256(FORM)
        for one in of_functions(self.domain, self.blocks):
            digest.update(one)
        return digest.digest()

    def row_identities(self) -> Iterator[bytes]:
        """The identity of each function by itself, in order.

        Whether a query is in a workload is told by these:

        >>> from dpsdk import Domain, Integer
        >>> from dpsdk.queries import Count, Marginal, Threshold
        >>> domain = Domain(Integer("age", 17, 90), Integer("hours", 1, 99))
        >>> workload = frozenset(Marginal("age").lower(domain).row_identities())
        >>> workload.issuperset(Count({"age": 40}).lower(domain).row_identities())
        True
        >>> workload.issuperset(Threshold("age", 40).lower(domain).row_identities())
        False
        """
        return of_functions(self.domain, self.blocks)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The blocks to evaluate, each with the places of its functions in the answer.

        One-row blocks on the same attributes are gathered into one.
        """
        return tuple(_grouped(self.blocks))

    def evaluate(self, counts: Counts) -> Floats:
        """The functions summed over counted records: an array of length `rows`.

        Exact while weights are integers and sums of their absolute values stay within 2**53:
        then every intermediate result is an integer that float64 holds.
        """
        if len(self.blocks) == 1:
            only = self.blocks[0]
            if math.prod(only.shape) <= TABLE_LIMIT:  # as below, a call less
                return only.answer(counts.table(only.names))
            return _answer(only, counts)
        answers, groups = np.empty(self.rows), self.groups
        if isinstance(counts, InPieces):
            scattered, groups = self._scattered
            if scattered is not None:
                answers[scattered.places] = scattered.evaluate(counts)
        for block, places in groups:
            answers[places] = _answer(block, counts)
        return answers

    @cached_property
    def _scattered(self) -> tuple[Scattered | None, tuple[Group, ...]]:
        return Scattered.of(self.groups)


def _answer(block: Block, counts: Counts) -> Floats:
    if math.prod(block.shape) <= TABLE_LIMIT:
        return block.answer(counts.table(block.names))
    if isinstance(block, Gradient) and isinstance(counts, InPieces):
        return block.evaluate(counts)
    codes, weights = counts.records(block.names)
    return block.answer_records(codes, weights)


def _grouped(blocks: Sequence[FormBlock]) -> Iterable[Group]:
    alike: dict[tuple[bool, tuple[str, ...]], list[tuple[Kronecker, int]]] = {}
    start = 0
    for block in blocks:
        stop = start + block.rows
        if isinstance(block, Kronecker) and stop == start + 1 and block.names:
            boxed = worth_boxing(block)
            if boxed or sum(block.shape) <= _GROUP_LIMIT:
                alike.setdefault((boxed, block.names), []).append((block, start))
                start = stop
                continue
        yield block, slice(start, stop)
        start = stop
    for (boxed, _), members in alike.items():
        if len(members) == 1:
            only, place = members[0]
            yield only, slice(place, place + 1)
        else:
            places = np.array([place for _, place in members], dtype=np.int64)
            stacked = [block for block, _ in members]
            yield Boxes.stack(stacked) if boxed else Products.stack(stacked), places


def narrowed(form: LinearForm) -> LinearForm:
    """The same functions in the same order, said without attributes of one cell."""
    if 1 not in form.domain.shape or not any(1 in block.shape for block in form.blocks):
        return form
    return LinearForm(form.domain, [kept for block in form.blocks for kept in _narrowed(block)])


def _narrowed(block: FormBlock) -> Iterator[FormBlock]:
    if 1 not in block.shape or isinstance(block, Gradient):
        yield block
        return
    axes = [axis for axis, size in enumerate(block.shape) if size > 1]
    names = tuple([block.names[axis] for axis in axes])
    shape = tuple([block.shape[axis] for axis in axes])
    if isinstance(block, Kronecker):
        single = [factor for factor in block.factors if factor.size == 1]
        if any(factor.rows > 1 for factor in single):
            # Several weights on one cell: as many functions, in the order of all factors.
            for number in range(block.rows):
                yield from _narrowed(block.row(number))
            return
        scale = block.scale
        for factor in single:
            scale *= float(factor.matrix()[0, 0])
        yield Kronecker(names, tuple([block.factors[axis] for axis in axes]), scale)
    elif isinstance(block, Boxes):
        inside = (block.counted[[axis not in axes for axis in range(len(block.shape))]] > 0).all(0)
        scales = np.where(inside, block.scales, 0.0)
        if not axes:
            yield from [Kronecker((), (), scale) for scale in scales.tolist()]
            return
        yield evolve(
            block,
            names=names,
            shape=shape,
            starts=block.starts[axes],
            stops=block.stops[axes],
            scales=scales,
            lines=tuple([block.lines[axis] for axis in axes]),
        )
    elif axes:
        yield Dense(names, shape, block.weights)
    else:
        yield from [Kronecker((), (), scale) for scale in block.weights[:, 0].tolist()]
