"""The distribution of most entropy that fits noisy answers: a batch learnt at once.

A pass minimises half the sum of squared residuals, each over its variance, plus twice the
divergence from the uniform distribution, plus a multiple of that from where it began, so that noise
is fitted last (proximal minimisation, Censor and Zenios 1992). A minimum has weights exp(sum of λ
f) for one multiplier λ a function, found by maximising the dual (Dudík, Phillips and Schapire 2007)
by quasi-Newton steps of limited memory (Liu and Nocedal 1989); its gradient bounds how far the
minimum is. It is public post-processing, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from dpsdk._checks import require, shown, to_finite
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import FormBlock, LinearForm
from dpsdk.hypothesis.dense import DenseHypothesis
from dpsdk.hypothesis.marginals import Axes, Chain
from dpsdk.typing import Floats

__all__ = ["FEWER_CELLS", "FIT_LIMIT", "EntropicFit"]

FIT_LIMIT = 2**24
"""No universe with more cells is fitted, since each step makes several arrays of its size."""

FEWER_CELLS = (
    'declare fewer attributes, or coarser ones; start="marginals" takes any number of cells, where '
    "there is a delta and the number of rows is public"
)
"""What to do about a universe of too many."""

_WRITTEN_LIMIT = 2**24
"""The most weights that a block of other than plain marginals is written out in."""

_ENTROPY = 20.0
"""How many deviations from its answer hold back a function whose multiplier a pass moves by 1.

Measured on Adult (tests/bench/bench_mwem.py, 20 rounds at ε = 1): one pass a round at 20 has
no more error than a thousand steps of mirror descent; at 0.5 the mean is a tenth larger, and takes
thrice as long, since what was measured first is fitted to its noise in every round anew."""

_PRIOR = 2.0
"""The weight of a unit of divergence from the uniform distribution beside half the squared
residuals.

Measured on tables of 70 to 1,841 rows at ε = 0.1 (tests/bench/bench_hlm.py): without it noise is
fitted, and the largest error is up to 1.8 times that of the uniform distribution. 1 is not enough
there, and 8 makes the largest error up to a third larger where there are some 3,000 rows."""

_CLOSE = 0.01
"""A pass ends where its minimum is no lower than by this part of half the squared residuals."""

_MOST_OUTSIDE = 1 - 2.0**-53
"""The largest probability of the cell outside that floats tell from one."""

_REMEMBERED = 12
_REMEMBERED_NUMBERS = 2**24
_TRIES = 25
_ENOUGH = 1e-4


@frozen(eq=False)
class _Released:
    """Answers to a block, in deviations of their noise, which is in shares."""

    axes: Axes
    matrix: Floats | None = field(repr=False)
    values: Floats = field(repr=False)
    deviation: float

    def residuals(self, table: Floats) -> Floats:
        """By how many deviations the answers of a table exceed these."""
        now = table.reshape(-1) if self.matrix is None else self.matrix @ table.reshape(-1)
        return now / self.deviation - self.values

    def slope(self, multipliers: Floats, shape: Sequence[int]) -> Floats:
        """The weighted sum of the functions on the cells of the axes."""
        back = multipliers if self.matrix is None else multipliers @ self.matrix
        return (back / self.deviation).reshape(shape)


@frozen(eq=False)
class _Point:
    """Multipliers, and what follows from them."""

    multipliers: Floats
    weights: Floats
    residuals: Floats
    """The gradient of `free`."""
    free: float
    """The logarithm of the sum of all weights, less what the answers would have it be."""


class EntropicFit:
    """A distribution on a dense universe that is fitted to released answers, in place.

    It starts from the uniform distribution, and goes on from where it was whenever answers were
    added. Not safe for use by several threads at once. Raises `InvalidArgument` if `prior` or
    `hold` is not finite, or too small, and `TooLarge` if the universe has more cells.

    Parameters
    ----------
    domain, outside
        The universe, of at most 2^24 cells, and whether it has the cell outside.
    prior
        What a unit of divergence from the uniform distribution counts beside half the sum of
        squared residuals, at least 0. Without it passes come as near to the answers as any
        distribution, whatever part of them is noise.
    hold
        How many deviations from its answer hold back a function whose multiplier a pass moves by 1,
        above 0: the smaller, the fewer passes get near to the end, and the more noise is fitted.
    """

    __slots__ = (
        "_begun", "_chain", "_domain", "_hold", "_point", "_prior", "_released", "_ways", "outside",
    )  # fmt: skip

    def __init__(
        self,
        domain: Domain,
        *,
        outside: bool = False,
        prior: float = _PRIOR,
        hold: float = _ENTROPY,
    ) -> None:
        if domain.size > FIT_LIMIT:
            raise TooLarge("a fit", domain.size, FIT_LIMIT, "cells", FEWER_CELLS)
        self._prior = float(to_finite("prior", prior))
        if self._prior < 0:
            raise InvalidArgument("prior", "at least 0", shown(prior))
        self._hold = float(to_finite("hold", hold))
        if self._hold <= 0:
            raise InvalidArgument("hold", "above 0", shown(hold))
        self._domain = domain
        self.outside: bool = outside
        self._released: tuple[_Released, ...] = ()
        self._chain = Chain(domain.shape, ())
        self._point: _Point | None = None
        self._begun: Floats = np.zeros(0)
        """The multipliers that the last pass was held back to."""
        self._ways: tuple[tuple[Floats, Floats], ...] = ()
        """The last steps, and by how much each turned the gradient."""

    @property
    def loss(self) -> float:
        """Half the sum of squared residuals, each over its variance, where it stands."""
        residuals = self._here().residuals
        return 0.5 * float(residuals @ residuals)

    @property
    def excess(self) -> float:
        """By how much `loss` and the divergences' parts exceed their least sum, at the most.

        The divergences are those from the uniform distribution and from where the last pass began.
        """
        return self._excess(self._here(), self._pull())

    def copy(self) -> EntropicFit:
        """A fit of its own that stands where this one does."""
        return copy(self)

    def add(self, block: FormBlock, shares: Floats, deviation: float) -> None:
        """Take note of released answers.

        `shares`, of shape (rows,), are noisy answers to the functions of a block over attributes of
        the domain, as shares of the rows; `deviation` is the standard deviation of each, above 0.
        Raises `TooLarge` if the block is no plain marginal, and has more than 2^24 weights.
        """
        values = np.array(shares, dtype=np.float64)
        if values.shape != (block.rows,) or not np.isfinite(values).all():
            raise InvalidArgument("shares", f"{block.rows} finite numbers", shown(shares))
        require(0 < deviation < math.inf, "deviation", "a finite number above 0", deviation)
        self.check(block)
        places = [self._domain.position(name) for name in block.names]
        axes = tuple(sorted(places))
        matrix: Floats | None = None
        if block.table:
            sizes = [self._domain.shape[place] for place in places]
            order = [places.index(axis) for axis in axes]
            values = values.reshape(sizes).transpose(order).reshape(-1)
        else:
            matrix = self._written(block, axes, places)
        multipliers = np.concatenate([self._here().multipliers, np.zeros(block.rows)])
        self._begun = np.concatenate([self._begun, np.zeros(block.rows)])
        self._ways = ()
        self._released += (_Released(axes, matrix, values / deviation, deviation),)
        self._chain = Chain(self._domain.shape, [one.axes for one in self._released])
        self._point = self._at(multipliers)

    def add_all(self, form: LinearForm, shares: Floats, deviation: float) -> None:
        """Take note of the answers to all functions of a form, as `add` does."""
        start = 0
        for block in form.blocks:
            self.add(block, shares[start : start + block.rows], deviation)
            start += block.rows

    @staticmethod
    def check(block: FormBlock) -> None:
        """Refuse a block that `add` would refuse, whatever its answers.

        Raises `TooLarge` if it is no plain marginal, and has more than 2^24 weights.
        """
        if block.table:
            return
        size = block.rows * math.prod(block.shape)
        if size > _WRITTEN_LIMIT:
            advice = "ask for plain marginals, or for functions of fewer attributes"
            raise TooLarge("a block", size, _WRITTEN_LIMIT, "weights", advice)

    def _written(self, block: FormBlock, axes: Axes, places: Sequence[int]) -> Floats:
        codes = dict(zip(axes, np.indices([self._domain.shape[a] for a in axes]), strict=True))
        columns = block.columns([codes[place].reshape(-1) for place in places])
        cells = math.prod(self._domain.shape[axis] for axis in axes)
        return np.ascontiguousarray(np.broadcast_to(columns, (block.rows, cells)))

    def run(self, steps: int, *, close: float = _CLOSE) -> int:
        """One pass: move the distribution towards the released answers, by at most so many steps.

        A step is one evaluation and sometimes a few more. The pass ends where `excess` is no more
        than the part `close` of `loss`. Returns how many steps were made; fewer where it has got to
        its minimum.
        """
        if not self._released:
            return 0
        point, pull = self._here(), self._pull()
        # Two divergences are one, from the weighted geometric mean of what they are from.
        self._begun = point.multipliers * (1 - self._prior / pull)
        most = max(2, min(_REMEMBERED, _REMEMBERED_NUMBERS // (2 * len(point.multipliers))))
        for made in range(steps):
            half = 0.5 * float(point.residuals @ point.residuals)
            if self._excess(point, pull) <= close * half:
                return made
            later = self._step(point, pull)
            if later is None:
                return made  # floats do not show any way down
            moved = later.multipliers - point.multipliers
            turned = later.residuals - point.residuals + pull * moved
            self._ways = (*self._ways, (moved, turned))[-most:]
            # One field, so that an interrupt finds a whole point.
            self._point = point = later
        return steps

    def gap(self) -> float:
        """How far `loss` may be above the least that any distribution has, at the most.

        The loss is convex, so that its slope bounds it from below (Frank and Wolfe 1956): a
        distribution on one cell is nowhere better than along the slope. Costs a step.
        """
        if not self._released:
            return 0.0
        point = self._here()
        slope = self._spread(point.residuals)
        least = float(slope.min())
        least = min(least, 0.0) if self.outside else least
        return max(0.0, float(np.vdot(slope, point.weights)) - least)

    def weights(self) -> Floats:
        """The probabilities of the cells inside the domain, shaped like it."""
        return np.array(self._here().weights)

    def hypothesis(self) -> DenseHypothesis:
        """The distribution as it stands, as a hypothesis of its own.

        Where answers leave nothing inside the domain that floats could tell from nothing, it has as
        little there as they can.
        """
        weights = self._here().weights
        if not self.outside:
            return DenseHypothesis.from_weights(self._domain, weights)
        # Noise may leave nothing inside; the hypothesis must, or it could learn nothing.
        mass = min(max(0.0, 1.0 - float(weights.sum())), _MOST_OUTSIDE)
        inside = weights if weights.any() else np.ones(self._domain.shape)
        return DenseHypothesis.from_weights(self._domain, inside, mass)

    def _step(self, point: _Point, pull: float) -> _Point | None:
        """A point where the dual is clearly lower, along a quasi-Newton direction."""
        gradient = self._gradient(point, pull)
        direction = _towards(gradient, self._ways)
        height, slope = self._dual(point, pull), float(gradient @ direction)
        length = 1.0
        for _ in range(_TRIES):
            later = self._at(point.multipliers - length * direction)
            if self._dual(later, pull) < height - _ENOUGH * length * slope:
                return later
            length *= 0.4
        return None

    def _dual(self, point: _Point, pull: float) -> float:
        moved = point.multipliers - self._begun
        return point.free + 0.5 * pull * float(moved @ moved)

    def _pull(self) -> float:
        """The weight of a unit of both divergences together beside half the squared residuals."""
        if not self._released:
            return 0.0
        deviations = np.repeat(
            [one.deviation for one in self._released], [len(one.values) for one in self._released]
        )
        return self._prior + self._hold / float(np.median(deviations))

    def _excess(self, point: _Point, pull: float) -> float:
        # The gap between primal and dual, at any multipliers whatever.
        gradient = self._gradient(point, pull)
        return 0.5 * float(gradient @ gradient)

    def _gradient(self, point: _Point, pull: float) -> Floats:
        return point.residuals + pull * (point.multipliers - self._begun)

    def _here(self) -> _Point:
        if self._point is None:
            self._point = self._at(np.zeros(0))
        return self._point

    def _spread(self, multipliers: Floats) -> Floats:
        slopes: dict[Axes, Floats] = {}
        for one, mine in self._apart(multipliers):
            slope = one.slope(mine, [self._domain.shape[axis] for axis in one.axes])
            there = slopes.get(one.axes)
            slopes[one.axes] = slope if there is None else there + slope
        return self._chain.spread(slopes)

    def _apart(self, multipliers: Floats) -> Iterator[tuple[_Released, Floats]]:
        start = 0
        for one in self._released:
            yield one, multipliers[start : start + len(one.values)]
            start += len(one.values)

    def _at(self, multipliers: Floats) -> _Point:
        free = 0.0
        for one, mine in self._apart(multipliers):
            free -= float(mine @ one.values)
        weights = self._spread(multipliers)
        top = float(weights.max())
        top = max(top, 0.0) if self.outside else top
        weights -= top
        np.exp(weights, out=weights)
        total = float(weights.sum()) + (math.exp(-top) if self.outside else 0.0)
        weights /= total
        weights.flags.writeable = False
        tables = self._chain.tables(weights)
        residuals = [one.residuals(tables[one.axes]) for one in self._released]
        together = np.concatenate([np.zeros(0), *residuals])
        return _Point(multipliers, weights, together, free + top + math.log(total))


def _towards(gradient: Floats, ways: Sequence[tuple[Floats, Floats]]) -> Floats:
    """The inverse of the curvature that past steps have shown, times the gradient."""
    if not ways:
        return gradient / max(1.0, float(np.linalg.norm(gradient)))
    direction = gradient.copy()
    shares: list[float] = []
    for moved, turned in reversed(ways):
        share = float(moved @ direction) / float(moved @ turned)
        direction -= share * turned
        shares.append(share)
    moved, turned = ways[-1]
    direction *= float(moved @ turned) / float(turned @ turned)
    for (moved, turned), share in zip(ways, reversed(shares), strict=True):
        direction += (share - float(turned @ direction) / float(moved @ turned)) * moved
    return direction
