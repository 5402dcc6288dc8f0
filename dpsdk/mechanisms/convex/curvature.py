"""What measured numbers tell of a symmetric matrix: a Hessian, or second moments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting, kept, kept_places
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.forms import ConvexForm, Dense, FormBlock, Kronecker, LinearForm
from dpsdk.forms.moments import distinct, repeats
from dpsdk.mechanisms.convex.tails import Tails
from dpsdk.release import Measurement
from dpsdk.typing import Floats, Ints

__all__ = ["MeasuredMatrix", "Pattern", "distinct_rows"]


def distinct_rows(form: ConvexForm, blocks: Iterable[FormBlock]) -> tuple[LinearForm, Pattern]:
    """The functions of a `hessian`, equal ones once and none that is always 0, and how to read it.

    One that stands for several is as long as these together. Nothing is left out for being
    constant: of rows outside the domain it is 0.
    """
    own = cast("list[Dense | Kronecker]", list(blocks))  # convex forms have no others
    places = repeats(own)
    counts = np.sqrt(np.bincount(places[places >= 0]).astype(np.float64))
    shares = np.where(places < 0, 0.0, 1.0 / np.append(counts, 1.0)[places])
    asked = LinearForm(form.domain, distinct(own, places, counts))
    return asked, Pattern.of(form, places, shares)


@frozen
class Pattern(Lasting):
    """How measured numbers enter a symmetric matrix: M = Σ_k value_k · A_k, of public A_k.

    Parameters
    ----------
    spread
        The largest eigenvalue of Σ A_k².
    peak
        The largest eigenvalue of any A_k, in size.
    length
        The largest Frobenius norm of any A_k. No two of them share an entry.
    cover
        The largest eigenvalue of Σ |A_k|, entry by entry.
    """

    first: Ints = field(
        converter=kept_places, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    second: Ints = field(
        converter=kept_places, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    places: Ints = field(
        converter=kept_places, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    weights: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False, repr=False)
    dimension: int
    spread: float
    peak: float
    length: float
    cover: float

    @classmethod
    def of(cls, form: ConvexForm, places: Ints, shares: Floats) -> Pattern:
        """Of functions in the order of `hessian`, each the number at its place times a share."""
        there = places >= 0
        first, second = form.pairs
        first, second, own = first[there], second[there], places[there]
        weights = shares[there] * np.where(first == second, 1.0, math.sqrt(0.5))
        squares = np.zeros((form.dimension, form.dimension))
        cover, peak = np.zeros_like(squares), 0.0
        np.add.at(cover, (first, second), np.abs(weights))
        cover = np.maximum(cover, cover.T)
        order = np.argsort(own, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(own[order])) + 1):
            if len(some) == 1:
                one, other, weight = first[some[0]], second[some[0]], weights[some[0]]
                squares[one, one] += weight**2
                squares[other, other] += weight**2 * (one != other)
                peak = max(peak, abs(float(weight)))
            elif len(some):
                touched, where = np.unique([first[some], second[some]], return_inverse=True)
                one, other = where.reshape(2, -1)
                part = np.zeros((len(touched), len(touched)))
                part[one, other] = part[other, one] = weights[some]
                squares[np.ix_(touched, touched)] += part @ part
                peak = max(peak, float(np.abs(np.linalg.eigvalsh(part)).max()))
        lengths = np.bincount(own, weights=np.square(weights) * np.where(first == second, 1.0, 2.0))
        length = math.sqrt(float(lengths.max(initial=0.0)))
        spread, whole = _largest(squares), _largest(cover)
        return cls(first, second, own, weights, form.dimension, spread, peak, length, whole)

    def matrix(self, values: Floats) -> Floats:
        """The matrix of measured numbers."""
        result = np.zeros((self.dimension, self.dimension))
        result[self.first, self.second] = result[self.second, self.first] = (
            self.weights * values[self.places]
        )
        return result


def _largest(matrix: Floats) -> float:
    return max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)


@frozen
class MeasuredMatrix(Lasting):
    """A symmetric matrix that was measured, and how far below it the true one may be.

    Parameters
    ----------
    fresh
        Whether its noise is independent of the direction that will be asked about.
    """

    pattern: Pattern
    matrix: Floats = field(converter=kept, eq=cmp_using(eq=np.array_equal), hash=False)
    tails: Tails
    fresh: bool

    @classmethod
    def of(
        cls, pattern: Pattern, measured: Measurement[NoiseAccuracy], *, fresh: bool
    ) -> MeasuredMatrix:
        """Of the numbers of a pattern."""
        matrix = pattern.matrix(measured.values)
        return cls(pattern, matrix, Tails.of(measured.accuracy), fresh)

    def excess(self, beta: float) -> float:
        """κ such that vᵀHv is at least vᵀĤv − κ‖v‖², with probability 1 - beta.

        For the true matrix H and the measured one Ĥ. Where the noise is fresh, for any one v that
        is fixed beforehand, though it need not be known; else for all v at once.
        """
        tails, pattern = self.tails, self.pattern
        slack = tails.bias * pattern.cover
        if not pattern.peak * tails.scale > 0.0:
            return slack
        if self.fresh:
            return Tails(tails.law, tails.step, 0.0).along(pattern.length, 1, beta) + slack
        share, dimension = pattern.spread / pattern.peak**2, math.log(pattern.dimension)
        return slack + tails.chernoff(
            lambda tilts: dimension + share * tails.cumulant(tilts * pattern.peak),
            pattern.peak,
            beta,
        )
