"""The square root of the matrix of all thresholds, as a strategy for one ordered attribute."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import frozen

from dpsdk.domain import Domain
from dpsdk.errors import TooLarge
from dpsdk.forms import Dense, Facts, LinearForm
from dpsdk.kernel import Noise
from dpsdk.mechanisms.combined import Combination
from dpsdk.mechanisms.estimates import combined_by
from dpsdk.mechanisms.one_attribute import OneAttribute
from dpsdk.typing import Floats

__all__ = ["Root", "SquareRoot"]

SIZE_LIMIT = 2**11
"""The strategy is written out for the kernel, with no more weights than the square of this."""

_FINEST = 20
_LARGEST = 2**52


@lru_cache(8)
def _coefficients(size: int, bits: int) -> tuple[Floats, Floats]:
    """Those of the root in steps of 2^-bits, and of the inverse of what that is."""
    places = np.arange(1.0, size)
    exact = np.concatenate([[1.0], np.cumprod((2 * places - 1) / (2 * places))])
    steps: Floats = np.floor(exact * 2.0**bits + 0.5)
    inverse = np.zeros(size)
    inverse[0] = 1 / steps[0]
    for place in range(1, size):
        inverse[place] = -float(steps[1 : place + 1] @ inverse[place - 1 :: -1]) / steps[0]
    steps.setflags(write=False)
    inverse.setflags(write=False)
    return steps, inverse


@frozen
class Root:
    """Weighted sums of the cells up to each one: a lower triangular matrix of equal diagonals.

    Its square is the matrix of all thresholds, but for the rounding of its coefficients to steps of
    2^-bits. It is the rounded matrix that is measured and inverted, so rounding adds no bias.
    """

    domain: Domain
    attribute: str
    bits: int

    @classmethod
    def over(cls, facts: Facts, attribute: str) -> Root:
        """The root for an attribute of a table.

        Raises
        ------
        UnknownAttribute
            If the domain does not have it.
        TooLarge
            If it has more than 2^11 cells.
        """
        size = facts.domain[attribute].size
        if size > SIZE_LIMIT:
            advice = "open a Tree"
            raise TooLarge(f"SquareRoot({attribute!r})", size, SIZE_LIMIT, "cells", advice)
        room = math.floor(math.log2(_LARGEST / max(1, facts.row_limit)))
        return cls(facts.domain, attribute, max(0, min(_FINEST, room)))

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    @property
    def _size(self) -> int:
        return self.domain[self.attribute].size

    @property
    def strategy(self) -> LinearForm:
        """The rows of the root, in steps."""
        steps, _ = _coefficients(self._size, self.bits)
        weights = _toeplitz(steps)
        return LinearForm(self.domain, (Dense((self.attribute,), (self._size,), weights),))

    @property
    def _inverse(self) -> Floats:
        return _inverted(self._size, self.bits)

    def cells(self, values: Floats) -> Floats:
        """The estimates of the cells."""
        result: Floats = self._inverse @ values
        return result

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the measured sums in the answers to a form."""
        return combined_by(self.adjoint, form, self._size)

    def adjoint(self, weights: Floats) -> Floats:
        """Weights of the measured sums, from those of the cells."""
        result: Floats = weights @ self._inverse
        return result


@lru_cache(2)
def _inverted(size: int, bits: int) -> Floats:
    # Kept for all who ask, and so nobody's to change.
    result = _toeplitz(_coefficients(size, bits)[1])
    result.setflags(write=False)
    return result


def _toeplitz(line: Floats) -> Floats:
    """The lower triangular matrix with a line of numbers as its first column."""
    size = len(line)
    places = np.arange(size)[:, None] - np.arange(size)[None, :]
    result: Floats = np.where(places >= 0, line[np.maximum(places, 0)], 0.0)
    return result


@frozen(repr=False, cache_hash=True)
class SquareRoot(OneAttribute):
    """Thresholds and intervals of one attribute, by the square root of the matrix of thresholds.

    For Gaussian noise: then thresholds have the least largest error that is known of a matrix in
    closed form, within a few percent of the optimum (Fichtenberger, Henzinger and Upadhyay 2023),
    and less than those of `Tree`. The root is the lower triangular matrix with c[0] = 1 and
    c[i] = c[i - 1] (2i - 1) / (2i) on its diagonals. Its rows are measured when it is opened, on
    a lattice and with discrete noise; every linear query on the attribute alone is then answered
    free, as the sum of estimates of its cells, with its exact variance and a proven bound.

    Parameters
    ----------
    attribute
        In the order of its cells: up to 2^11.
    epsilon, delta, rho
        The total, as for `NoisyHistogram`; with Laplace noise, where delta is 0, `Tree` is better.

    Raises
    ------
    InvalidArgument
        If an argument is not as described.
    UnknownAttribute, TooLarge
        When opened or quoted, before anything is paid: if the domain does not have the attribute,
        or it has more cells.
    QueryError
        When asked about another attribute.

    >>> from dpsdk.mechanisms import SquareRoot
    >>> SquareRoot("age", rho="0.01")
    SquareRoot('age', rho=0.01)
    """

    def _over(self, facts: Facts, noise: Noise) -> Root:
        del noise  # the same root for all
        return Root.over(facts, self.attribute)
