"""Softmax models of several classes: their gradients as integers of each record, and their minima.

Probabilities follow from a public table of exponentials and from whole numbers, so that those of a
record do not depend on the records beside it. docs/explanation/proofs/slopes.md has what one row
can move, which is less than for one class against the rest from three classes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from dpsdk._checks import shown
from dpsdk._records import evolve, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.convex import ConvexForm, Tables
from dpsdk.forms.design import Design
from dpsdk.forms.factors import half_up
from dpsdk.forms.facts import Facts
from dpsdk.forms.linear import LinearForm
from dpsdk.forms.move import Move
from dpsdk.forms.slopes import FEATURE_BITS, SLOPE_BITS, THETA_BITS, Gradient
from dpsdk.losses import Constants, LogisticLoss
from dpsdk.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from dpsdk.forms.boxes import FormBlock

__all__ = ["SoftmaxForm", "SoftmaxGradient"]

_BEHIND_BITS = 12
"""How far a margin is behind the largest is told in steps of 2 to the minus so many, below 16."""

_WEIGHT_BITS = 20
"""Exponentials are whole numbers of steps of 2 to the minus so many."""

_ROUNDED = 3
"""No slope is off by more of its steps, which the proof note says."""

_PAIRED = 2**22
"""So many differences of margins are worked out for the cells of an axis."""

_DOUBT = 1e-12
"""What rounding adds to a gap, for each unit of weight and of margins."""

_ROUNDS = 1000
"""How many gradients a search works out at the most, first in all θ and then in the set."""


@lru_cache(1)
def _exponentials() -> Ints:
    """exp(-d) at the middle of each step that a margin can be behind; 0 from the last one on."""
    steps = np.arange(2**16 + 1)
    weights = np.exp(-(steps + 0.5) * 2.0**-_BEHIND_BITS) * 2.0**_WEIGHT_BITS
    weights[-1] = 0.0
    table: Ints = half_up(weights).astype(np.int64)
    table.flags.writeable = False
    return table


def _to_classes(values: Array) -> Ints:
    kept: Ints = np.asarray(values).astype(np.int64)
    kept.flags.writeable = False
    return kept


@frozen(eq=False)
class SoftmaxGradient(Gradient):
    """The gradient of a softmax: a record has p_k - [k is its class] for its slope of model k.

    Here `theta` is an array (classes, features).

    Parameters
    ----------
    kinds
        For each label its class. Cells of the label beyond these have no weight.
    clip
        No slope is larger, in steps of 2^-12 of `unit`.
    unit
        How many times as large all slopes are.
    """

    kinds: Ints = field(converter=_to_classes, repr=False)
    clip: int = 2**SLOPE_BITS
    unit: int = 1

    def __attrs_post_init__(self) -> None:
        features = sum([axis.features.shape[1] for axis in self.axes])
        ordered = sorted(self.order.tolist()) == [*range(features)]
        if self.theta.ndim != 2 or self.theta.shape[1] != features or not ordered:
            expected = f"an array (classes, {features}) of integers"
            raise InvalidArgument("theta", expected, f"shape {self.theta.shape}")
        if not np.isin(self.kinds, np.arange(self.models)).all() or self.kinds.size > self.labels:
            raise InvalidArgument("kinds", "a class for each label", shown(self.kinds))
        if not 0 < self.clip <= 2**SLOPE_BITS:
            raise InvalidArgument("clip", f"from 1 to {2**SLOPE_BITS}", shown(self.clip))
        for one in self.theta:
            self.check_margins(one)

    @property
    def models(self) -> int:
        return len(self.theta)

    @property
    def ends(self) -> tuple[float, float]:
        own, other, _ = self._bounds
        return -own, other

    def move(self, facts: Facts) -> Move:
        """How far one row moves the answers: theorem 3 of docs/explanation/proofs/slopes.md."""
        sizes = [axis.sizes for axis in self.axes]
        square, length, least = [sum([one[place] for one in sizes]) for place in range(3)]
        own, other, total = self._bounds
        largest = max(own, other) * max([one[3] for one in sizes])
        squared = own**2 + other * total
        if not facts.replaced:
            return Move((own + total) * length, squared * square, largest, exact=False)
        across = 2.0 * squared * square + 4.0 * own * other * square
        along = 2.0 * squared * (square + max(0.0, -least))
        return Move(2.0 * (own + total) * length, max(across, along), 2.0 * largest, exact=False)

    @cached_property
    def _bounds(self) -> tuple[float, float, float]:
        """Of any record: its own slope, any other, and the sum of all others at the most."""
        ahead = sum([_ahead(*tables) for tables in zip(*self._margins, strict=True)])
        ahead = np.exp(np.minimum(ahead * 2.0 ** -(FEATURE_BITS + THETA_BITS), 700.0))
        # Of each class, its least probability, and its largest: the sums have its own 1.
        least = 1.0 / ahead.sum(axis=0)
        most = 1.0 / (1.0 / ahead).sum(axis=1)
        whole = float(2**SLOPE_BITS)
        total = min(math.ceil(whole * (1.0 - float(least.min()))) + _ROUNDED, whole)
        other = min(math.ceil(whole * float(most.max())) + _ROUNDED, whole)
        own, other = min(total, self.clip), min(total, other, self.clip)
        return own * self.unit, other * self.unit, total * self.unit

    @cached_property
    def _margins(self) -> list[list[Ints]]:
        """By model, the margin of each cell of each axis."""
        return [self.margins_of(one) for one in self.theta]

    def weighed(self, codes: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
        labels = codes[-1]
        inside, cells = self.cells_of(codes, len(self.kinds))
        margins = np.zeros((self.models, len(labels)), dtype=np.int64)
        for model, tables in enumerate(self._margins):
            for cell, table in zip(cells, tables, strict=True):
                margins[model] += table.take(cell)
        behind = (margins.max(axis=0) - margins) >> (FEATURE_BITS + THETA_BITS - _BEHIND_BITS)
        weights: Ints = _exponentials()[np.minimum(behind, 2**16)]
        whole: Ints = np.add.reduce(weights, axis=0)
        slopes: Ints = np.floor_divide(weights << SLOPE_BITS, whole)
        kinds = self.kinds[np.where(inside, labels, 0)]
        slopes[kinds, np.arange(len(labels))] -= 2**SLOPE_BITS
        np.clip(slopes, -self.clip, self.clip, out=slopes)
        return np.where(inside, slopes * self.unit, 0), cells

    def rounded(self, bits: int) -> tuple[FormBlock, float]:
        return cast("FormBlock", evolve(self, unit=self.unit << bits)), 0.0

    def texts(self, axes: Sequence[int]) -> Iterator[bytes]:
        ends = self.label, self.labels, self.theta.shape, self.clip, self.unit
        digest = self.digest(b"dpsdk softmax 1", axes, ends, [self.kinds])
        for model in range(self.models):
            for feature in self.order.tolist():
                yield b"softmax 1;%b;%x;%x" % (digest, model, feature)


@frozen(eq=False)
class SoftmaxForm(ConvexForm):
    """The average of log Σ_k exp⟨θ_k, x⟩ - ⟨θ_y, x⟩ over records of class y, for several classes.

    As a `ConvexForm` of several classes, whose loss is the logistic one and says no more than how
    labels are told: each is 1 in its own class and -1 in all others.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.targets.ndim != 2 or not ((self.targets == 1.0).sum(axis=0) == 1).all():
            raise InvalidArgument("targets", "1 in one class for each label", shown(self.targets))
        if self.loss != LogisticLoss():
            raise InvalidArgument("loss", "LogisticLoss()", shown(self.loss))

    @cached_property
    def by_class(self) -> tuple[ConvexForm, ...]:
        """Itself alone, since its classes have one loss."""
        return (self,)

    @property
    def spread(self) -> float:
        return math.sqrt(2.0)

    @cached_property
    def constants(self) -> Constants:
        alone = self.loss.constants(*self._reach, self._labels)
        return evolve(alone, lipschitz=1.0, smoothness=0.5)

    def slopes(
        self, theta: Array | Sequence[float], *, clip: float = math.inf
    ) -> tuple[LinearForm, float]:
        parts = self._stacked(self._vector("theta", theta))
        steps = half_up(parts * 2.0**THETA_BITS).astype(np.int64)
        most = max(math.floor(min(clip, 1.0) * 2.0**SLOPE_BITS), 1)
        label, order = self.domain[self.label], np.argsort(self._places)
        block = SoftmaxGradient(
            self._integer_axes, steps, label.name, label.size, order, self._kinds, most
        )
        return LinearForm(self.domain, [block]), 2.0 ** -(SLOPE_BITS + FEATURE_BITS)

    @property
    def _kinds(self) -> Ints:
        return np.asarray(self.targets.argmax(axis=0), dtype=np.int64)

    def value(self, tables: Tables, theta: Array | Sequence[float]) -> float:
        found = self._vector("theta", theta)
        return self._expanded(*self._weighed(tables), self._stacked(found))[0]

    def minimise(
        self,
        tables: Tables,
        *,
        linear: Array | Sequence[float] | None = None,
        ridge: float = 0.0,
        tolerance: float = 1e-6,
    ) -> tuple[Floats, float]:
        design, weights = self._weighed(tables)
        added = np.zeros(self.dimension) if linear is None else self._vector("linear", linear)

        def at(theta: Floats) -> tuple[float, Floats]:
            value, gradient = self._expanded(design, weights, self._stacked(theta))
            value += float(added @ theta) + 0.5 * ridge * float(theta @ theta)
            return value, self._unstacked(gradient) + added + ridge * theta

        free = minimize(
            at, self.centre(), jac=True, method="L-BFGS-B",
            options={"maxiter": _ROUNDS, "ftol": 0.0, "gtol": 1e-3 * tolerance},
        )  # fmt: skip
        theta = self.project(np.asarray(free.x, dtype=np.float64))
        return self._descended(at, theta, weights, tolerance)

    def _descended(
        self,
        at: Callable[[Floats], tuple[float, Floats]],
        theta: Floats,
        weights: Floats,
        tolerance: float,
    ) -> tuple[Floats, float]:
        """Accelerated projected gradients from a θ on, with the gap of Frank and Wolfe (1956)."""
        far = self.over.diameter(self.width) * self._norm * self.classes
        doubt = _DOUBT * float(weights.sum()) * max(far, 1.0)

        def gap_of(point: Floats, gradient: Floats) -> float:
            parts = zip(
                np.split(point, self.classes), np.split(gradient, self.classes), strict=True
            )
            return sum([self.over.gap(part, slope) for part, slope in parts]) + doubt

        value, gradient = at(theta)
        best, gap = theta, gap_of(theta, gradient)
        ahead, weight, length = theta, 1.0, 1.0
        for _ in range(_ROUNDS):
            if gap <= tolerance:
                break
            after = self.project(ahead - length * gradient)
            way = after - ahead
            found, slope = at(after)
            if found > value + float(gradient @ way) + float(way @ way) / (2.0 * length) + doubt:
                length *= 0.5
                continue
            if (now := gap_of(after, slope)) < gap:
                best, gap = after, now
            if float(gradient @ (after - theta)) > 0.0:
                weight, ahead = 1.0, after
            else:
                grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * weight**2))
                ahead = after + (weight - 1.0) / grown * (after - theta)
                weight = grown
            theta = after
            value, gradient = at(ahead)
        return best, gap

    def _expanded(self, design: Design, weights: Floats, stacked: Floats) -> tuple[float, Floats]:
        """The loss over weights by label and cell of the design, and its gradient by class."""
        mass = weights.sum(axis=0)
        margins = np.stack([design.margins(one) for one in stacked])
        own = np.zeros_like(margins)
        np.add.at(own, self._kinds, weights)
        whole = logsumexp(margins, axis=0)
        value = float(mass @ whole) - float((own * margins).sum())
        slopes = np.exp(margins - whole) * mass - own
        return value, np.stack([design.gradient(one) for one in slopes])

    def _stacked(self, theta: Floats) -> Floats:
        """The θ of each class, in the order of the design."""
        return theta.reshape(self.classes, -1)[:, self._places]

    def _unstacked(self, stacked: Floats) -> Floats:
        return stacked[:, np.argsort(self._places)].reshape(-1)


def _ahead(*margins: Ints) -> Floats:
    """By two classes, how far the first one's margin is above the second one's at the most."""
    table = np.stack(margins)
    if len(table) * table.size <= _PAIRED:
        return np.asarray((table[:, None] - table[None]).max(axis=2), dtype=np.float64)
    most, least = table.max(axis=1), table.min(axis=1)
    return np.where(np.eye(len(table), dtype=bool), 0.0, most[:, None] - least[None])
