"""Find linear functions among those of a workload, however they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, repeat
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import Lasting, frozen_integers
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.forms.blocks import Kronecker
from dpsdk.forms.boxes import Boxes, FormBlock
from dpsdk.forms.canonical import of_functions
from dpsdk.forms.factors import MATRIX_LIMIT, Factor
from dpsdk.forms.linear import LinearForm
from dpsdk.typing import Array, Ints

__all__ = ["Members"]

_LISTED = 2**18
"""Blocks of more functions than this are known by their factors, and not function by function."""

_ASKED = 2**20
"""Of a block of more functions that are asked, only the block as a whole is looked for."""

_Ends: TypeAlias = tuple[int, int]
_Box: TypeAlias = dict[str, _Ends]
"""The cells where a function is one: ends along each attribute, of those that it depends on."""

_Key: TypeAlias = frozenset[tuple[str, Factor]]


@frozen(eq=False)
class Members(Lasting):
    """The functions of a form, as a set that functions of other forms are looked up in.

    Functions are told by what they weigh, and never by the objects that they are made of. Of blocks
    of very many functions only those are known that are all the cells, all the prefixes, or all
    groups of so many cells, of some attributes, or ranges of them; others count as no members,
    which costs a bound and breaks none.
    """

    domain: Domain
    # Digests, in an order that no two copies of a set share.
    _listed: frozenset[bytes] = field(repr=False)
    _whole: frozenset[_Key] = field(repr=False)
    _wide: tuple[dict[str, tuple[int, Ints, Ints]], ...] = field(repr=False)
    """The cells, starts and stops of the ranges along each attribute, sorted, of large blocks."""

    @classmethod
    def of(cls, form: LinearForm) -> Members:
        """The functions of a form."""
        few = [block for block in form.blocks if block.rows <= _LISTED]
        keys = frozenset(key for key in map(_key, form.blocks) if key is not None)
        many = [block for block in form.blocks if block.rows > _LISTED]
        wide = [ends for block in many if (ends := _wide_ends(block)) is not None]
        return cls(form.domain, frozenset(of_functions(form.domain, few)), keys, tuple(wide))

    def covers(self, form: LinearForm) -> Array:
        """For each function of a form over the same domain, whether it is one of these."""
        if form.domain is not self.domain and form.domain != self.domain:
            return np.zeros(form.rows, dtype=np.bool_)
        found = [self._of_block(block) for block in form.blocks]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def _of_block(self, block: FormBlock) -> Array:
        key = _key(block)
        if key is not None and key in self._whole:
            return np.ones(block.rows, dtype=np.bool_)
        if block.rows > _ASKED:
            return np.zeros(block.rows, dtype=np.bool_)
        known = np.array([one in self._listed for one in of_functions(self.domain, [block])])
        if self._wide:
            for place, box in enumerate(_boxes(block)):
                known[place] = known[place] or (box is not None and self._in_wide(box))
        return known

    def _in_wide(self, box: _Box) -> bool:
        return all(start < stop for start, stop in box.values()) and any(
            box.keys() <= wide.keys()
            and all(_has(box.get(name, (0, size)), *ends) for name, (size, *ends) in wide.items())
            for wide in self._wide
        )


def _wide_ends(block: FormBlock) -> dict[str, tuple[int, Ints, Ints]] | None:
    """The ranges of a block along each attribute, by start and stop; None if it has others."""
    if not isinstance(block, Kronecker) or block.scale != 1.0:
        return None
    result: dict[str, tuple[int, Ints, Ints]] = {}
    for name, factor in _offered(block).items():
        if (ends := factor.ranges) is None:
            return None
        order = np.lexsort(ends[::-1])
        result[name] = (
            factor.size,
            frozen_integers(ends[0][order]),
            frozen_integers(ends[1][order]),
        )
    return result


def _has(wanted: _Ends, starts: Ints, stops: Ints) -> bool:
    own = stops[slice(*np.searchsorted(starts, [wanted[0], wanted[0] + 1]))]
    place = int(np.searchsorted(own, wanted[1]))
    return place < len(own) and int(own[place]) == wanted[1]


def _key(block: FormBlock) -> _Key | None:
    """A key that tells products of large factors apart; None for other and for scaled blocks."""
    if not isinstance(block, Kronecker) or block.scale != 1.0:
        return None
    # In the order of the attributes of a block its functions come in, which plays no part here.
    return frozenset(_offered(block).items())


def _offered(block: Kronecker) -> dict[str, Factor]:
    """The factors of a block, without those that weigh every cell alike."""
    factors = zip(block.names, [factor.simplified() for factor in block.factors], strict=True)
    return {name: own for name, own in factors if own.span != slice(0, own.size)}


def _boxes(block: FormBlock) -> Iterator[_Box | None]:
    """For each function of a block the cells where it is one; None where it is no such product."""
    if isinstance(block, Boxes):
        for row in map(block.row, range(block.rows)):
            yield from _boxes(row)
        return
    if not isinstance(block, Kronecker) or block.scale != 1.0:
        yield from repeat(None, block.rows)
        return
    sides = [_ends(factor) for factor in block.factors]
    for chosen in product(*sides):
        if any(ends is None for ends in chosen):
            yield None
            continue
        yield {
            name: ends
            for name, factor, ends in zip(block.names, block.factors, chosen, strict=True)
            if ends is not None and ends != (0, factor.size)
        }


def _ends(factor: Factor) -> Sequence[_Ends | None]:
    if (ranges := factor.ranges) is not None:
        return list(zip(*[ends.tolist() for ends in ranges], strict=True))
    if factor.rows * factor.size > MATRIX_LIMIT:
        return [None] * factor.rows
    return [_of_weights(weights) for weights in factor.matrix()]


def _of_weights(weights: Array) -> _Ends | None:
    ones = np.flatnonzero(weights)
    if not len(ones) or not (weights[ones] == 1).all():
        return None
    start, stop = int(ones[0]), int(ones[-1]) + 1
    return (start, stop) if stop - start == len(ones) else None
