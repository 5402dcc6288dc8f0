"""Many products of one function each on the same attributes, evaluated together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpsdk._records import frozen
from dpsdk.forms.blocks import BLOCK_BYTES, Block, Kronecker, powered
from dpsdk.typing import Floats, Ints

__all__ = ["Products"]

_CHUNK = 2**22


@frozen(eq=False)
class Products(Block):
    """Many one-row Kronecker blocks on the same attributes, evaluated together."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    matrices: tuple[Floats, ...]

    @classmethod
    def stack(cls, blocks: Sequence[Kronecker]) -> Products:
        """Gather one-row blocks that share their names."""
        matrices: list[Floats] = []
        for axis, size in enumerate(blocks[0].shape):
            factors = [block.factors[axis] for block in blocks]
            spans = [(span.start, span.stop) for f in factors if (span := f.span) is not None]
            if len(spans) == len(factors):
                starts, stops = np.array(spans).T
                cells = np.arange(size)
                inside = (cells >= starts[:, None]) & (cells < stops[:, None])
                matrices.append(inside.astype(np.float64))
            else:
                matrices.append(np.concatenate([factor.matrix() for factor in factors]))
        scales = np.array([block.scale for block in blocks])
        if matrices and not (scales == 1.0).all():
            with np.errstate(over="ignore", invalid="ignore"):  # the reach tells
                matrices[0] = matrices[0] * scales[:, None]
        return cls(blocks[0].names, blocks[0].shape, tuple(matrices))

    @property
    def nbytes(self) -> int:
        return BLOCK_BYTES + sum([matrix.nbytes for matrix in self.matrices])

    @property
    def rows(self) -> int:
        return len(self.matrices[0])

    @property
    def integral(self) -> bool:
        return all(bool((matrix == np.rint(matrix)).all()) for matrix in self.matrices)

    @property
    def reach(self) -> float:
        # As for each of the blocks; a scale is in the first matrix already.
        with np.errstate(over="ignore"):
            most = np.ones(self.rows)
            for matrix in self.matrices:
                most = most * np.maximum(np.abs(matrix).max(axis=1), 1.0)
        return float(most.max())

    def extents(self) -> tuple[Floats, Floats]:
        return self._ends

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        low = high = np.ones(self.rows)
        for matrix in self.matrices:
            ends = matrix.min(axis=1), matrix.max(axis=1)
            corners = [a * b for a in (low, high) for b in ends]
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        return low, high

    def _chunks(self) -> list[slice]:
        width = max(1, math.prod(self.shape[1:]))
        step = max(1, _CHUNK // width)
        return [slice(start, start + step) for start in range(0, self.rows, step)]

    def answer(self, table: Floats) -> Floats:
        pieces: list[Floats] = []
        for chunk in self._chunks():
            result = self.matrices[0][chunk] @ table.reshape(self.shape[0], -1)
            for matrix, size in zip(self.matrices[1:], self.shape[1:], strict=True):
                rest = result.reshape(len(result), size, -1)
                result = np.einsum("rsm,rs->rm", rest, matrix[chunk])
            pieces.append(result.reshape(-1))
        return np.concatenate(pieces)

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        answers = np.empty(self.rows)
        for row in range(self.rows):
            weight = counts
            for matrix, code in zip(self.matrices, codes, strict=True):
                weight = weight * matrix[row][code]
            answers[row] = weight.sum()
        return answers

    def columns(self, codes: Sequence[Ints]) -> Floats:
        result = self.matrices[0][:, codes[0]]
        for matrix, code in zip(self.matrices[1:], codes[1:], strict=True):
            result = result * matrix[:, code]
        return result

    def adjoint(self, numbers: Floats) -> Floats:
        total: Floats = np.zeros(self.shape).reshape(self.shape[0], -1)
        first = self.matrices[0] * numbers[:, None]
        for chunk in self._chunks():
            right: Floats = np.ones((len(first[chunk]), 1))
            for matrix in self.matrices[1:]:
                right = (right[:, :, None] * matrix[chunk][:, None, :]).reshape(len(right), -1)
            total += first[chunk].T @ right
        return total.reshape(self.shape)

    def column_norms(self, power: int) -> Floats:
        matrices = tuple([powered(matrix, power) for matrix in self.matrices])
        return Products(self.names, self.shape, matrices).adjoint(np.ones(self.rows))
