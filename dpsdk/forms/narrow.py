"""Linear forms without attributes of one cell, which tell no two rows apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import evolve

from dpsdk.forms.blocks import Dense, Kronecker
from dpsdk.forms.boxes import Boxes, FormBlock
from dpsdk.forms.linear import LinearForm

__all__ = ["narrowed"]


def narrowed(form: LinearForm) -> LinearForm:
    """The same functions in the same order, said without attributes of one cell."""
    if 1 not in form.domain.shape or not any(1 in block.shape for block in form.blocks):
        return form
    return LinearForm(form.domain, [kept for block in form.blocks for kept in _narrowed(block)])


def _narrowed(block: FormBlock) -> Iterator[FormBlock]:
    if 1 not in block.shape:
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
