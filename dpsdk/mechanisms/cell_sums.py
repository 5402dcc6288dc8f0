"""Sums of independently noisy cells: the weights of the noise, without any cell written out."""

from __future__ import annotations

import math

import numpy as np

from dpsdk.forms import (
    Boxes,
    Dense,
    FormBlock,
    Groups,
    Identity,
    Prefix,
    Range,
    Residual,
    Toeplitz,
)
from dpsdk.forms.factors import Factor
from dpsdk.mechanisms.combined import Combination
from dpsdk.typing import Floats

__all__ = ["of_block", "of_factor"]


def of_block(block: FormBlock, sizes: dict[str, int]) -> Combination:
    """The weights of a block on the noise of cells of attributes of these sizes."""
    repeated = math.prod(size for name, size in sizes.items() if name not in block.names)
    if isinstance(block, Dense):
        one = Combination.of(block.weights)
        squares, peaks, counts = one.squares, one.peaks, one.counts
    elif isinstance(block, Boxes):
        scales = np.abs(block.scales)
        counts = np.where(scales > 0, block.cells, 0.0)
        squares, peaks = counts * scales**2, np.where(counts > 0, scales, 0.0)
    else:
        squares = peaks = counts = np.ones(1)
        for factor in block.factors:
            own = of_factor(factor)
            squares = np.outer(squares, own.squares).ravel()
            peaks = np.outer(peaks, own.peaks).ravel()
            counts = np.outer(counts, own.counts).ravel()
        scale = abs(block.scale)
        squares, peaks = squares * scale**2, peaks * scale
        counts = counts if scale else np.zeros_like(counts)
    return Combination(squares * repeated, peaks, counts * repeated)


def of_factor(factor: Factor) -> Combination:
    """The same for weights along one attribute; ones are counted, and not written out."""
    match factor:
        case Identity(size):
            lengths = np.ones(size)
        case Prefix(size):
            lengths = np.arange(1.0, size + 1)
        case Range(_, start, stop):
            lengths = np.array([float(stop - start)])
        case Groups(size, width):
            lengths = np.full(factor.rows, float(width))
            lengths[-1] = size - width * (factor.rows - 1)
        case Toeplitz(line):
            peaks: Floats = np.maximum.accumulate(np.abs(line))
            return Combination(np.cumsum(line**2), peaks, np.cumsum(line != 0).astype(np.float64))
        case Residual(size):
            # One cell weighs size - 1, and the others -1.
            others, ones = np.full(size, size - 1.0), np.ones(size)
            return Combination(others * size, others, ones * size * (size > 1))
        case _:
            return Combination.of(factor.matrix())
    return Combination(lengths, (lengths > 0).astype(np.float64), lengths)
