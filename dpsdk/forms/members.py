"""Which linear functions are among those of a workload, however they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
from attrs import frozen

from dpsdk.domain import Domain
from dpsdk.forms.blocks import Dense, Kronecker
from dpsdk.forms.factors import Factor, Groups, Identity, Prefix, Range, Residual, simplest
from dpsdk.forms.identity import of_functions
from dpsdk.forms.linear import LinearForm
from dpsdk.typing import Array

__all__ = ["Members"]

_LISTED = 2**18
"""Blocks of more functions than this are known by their factors, and not function by function."""

_ASKED = 2**20
"""Of a block of more functions that are asked, only the block as a whole is looked for."""

_Ends: TypeAlias = tuple[int, int]
_Box: TypeAlias = dict[str, _Ends]
"""The cells where a function is one: ends along each attribute, of those that it depends on."""

_Key: TypeAlias = tuple[object, ...]


@frozen(eq=False)
class Members:
    """The functions of a form, as a set that functions of other forms are looked up in.

    Functions are told by what they weigh, and never by the objects that they are made of. Of blocks
    of very many functions only those are known that are all the cells, all the prefixes, or all
    groups of so many cells, of some attributes, or ranges of them; others count as no members,
    which costs a bound and breaks none.
    """

    domain: Domain
    _listed: frozenset[bytes]
    _whole: frozenset[_Key]
    _wide: tuple[dict[str, Factor], ...]

    @classmethod
    def of(cls, form: LinearForm) -> Members:
        """The functions of a form.

        Raises
        ------
        InvalidArgument
            If the form is made of foreign classes.
        """
        few = [block for block in form.blocks if block.rows <= _LISTED]
        listed = frozenset(of_functions(form.domain, few))
        keys = frozenset(key for key in map(_key, form.blocks) if key is not None)
        wide = tuple(
            _offered(block)
            for block in form.blocks
            if block.rows > _LISTED and isinstance(block, Kronecker) and _key(block) is not None
        )
        return cls(form.domain, listed, keys, wide)

    def covers(self, form: LinearForm) -> Array:
        """For each function of a form over the same domain, whether it is one of these.

        Returns
        -------
        Array
            Shape (form.rows,), of truth values.
        """
        if form.domain is not self.domain and form.domain != self.domain:
            return np.zeros(form.rows, dtype=np.bool_)
        found = [self._of_block(block) for block in form.blocks]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.bool_)

    def _of_block(self, block: Kronecker | Dense) -> Array:
        key = _key(block)
        if key is not None and key in self._whole:
            return np.ones(block.rows, dtype=np.bool_)
        if block.rows > _ASKED:
            return np.zeros(block.rows, dtype=np.bool_)
        known = np.array([one in self._listed for one in of_functions(self.domain, [block])])
        if self._wide and isinstance(block, Kronecker) and block.scale == 1.0:
            for place, box in enumerate(_boxes(block)):
                known[place] = known[place] or (box is not None and self._in_wide(box))
        return known

    def _in_wide(self, box: _Box) -> bool:
        return any(
            box.keys() <= offered.keys()
            and all(
                _offers(factor, box.get(name, (0, factor.size))) for name, factor in offered.items()
            )
            for offered in self._wide
        )


def _key(block: Kronecker | Dense) -> _Key | None:
    """What tells blocks of structured factors apart; None for others, and for scaled ones."""
    if type(block) is not Kronecker or block.scale != 1.0:
        return None
    parts: list[_Key] = []
    for name, factor in sorted(_offered(block).items()):
        if type(factor) is Range:
            parts.append((name, "range", factor.size, factor.start, factor.stop))
        elif type(factor) is Identity or type(factor) is Prefix:
            parts.append((name, type(factor).__name__, factor.size))
        elif type(factor) is Groups:
            parts.append((name, "groups", factor.size, factor.width))
        else:
            return None
    # In the order of the attributes of a block its functions come in, which plays no part here.
    return tuple(parts)


def _offered(block: Kronecker) -> dict[str, Factor]:
    """The factors of a block, without those that weigh every cell alike."""
    return {
        name: factor
        for name, factor in zip(block.names, map(simplest, block.factors), strict=True)
        if not (type(factor) is Range and (factor.start, factor.stop) == (0, factor.size))
    }


def _offers(factor: Factor, ends: _Ends) -> bool:
    """Whether some function of a factor is one on these cells alone."""
    start, stop = ends
    if start >= stop:
        return False
    if type(factor) is Prefix:
        return start == 0
    if type(factor) is Identity:
        return stop - start == 1
    if type(factor) is Groups:
        return start % factor.width == 0 and stop == min(start + factor.width, factor.size)
    return type(factor) is Range and (factor.start, factor.stop) == ends


def _boxes(block: Kronecker) -> Iterator[_Box | None]:
    """For each function of a block the cells where it is one; None where it is no such product."""
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
    if type(factor) is Range:
        return [(factor.start, factor.stop)]
    if type(factor) is Identity:
        return [(cell, cell + 1) for cell in range(factor.size)]
    if type(factor) is Prefix:
        return [(0, cell + 1) for cell in range(factor.size)]
    if type(factor) is Groups:
        starts = range(0, factor.size, factor.width)
        return [(start, min(start + factor.width, factor.size)) for start in starts]
    if type(factor) is Residual:  # none of its functions is one on some cells, and zero elsewhere
        return [None] * factor.size
    return [_of_weights(weights) for weights in np.asarray(factor.matrix())]


def _of_weights(weights: Array) -> _Ends | None:
    ones = np.flatnonzero(weights)
    if not len(ones) or not (weights[ones] == 1).all():
        return None
    start, stop = int(ones[0]), int(ones[-1]) + 1
    return (start, stop) if stop - start == len(ones) else None
