"""Convex forms: average losses of linear models, whose gradients and Hessians are linear forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from dpsdk._checks import described, require, shown, to_array, to_name, to_shaped
from dpsdk._records import evolve, field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms.base import Form
from dpsdk.forms.blocks import Dense, Kronecker
from dpsdk.forms.design import (
    CELL_LIMIT,
    Axis,
    Coordinates,
    Design,
    axes_of,
    block_of,
    check_cells,
    largest_norm,
)
from dpsdk.forms.factors import half_up, to_weights
from dpsdk.forms.linear import LinearForm
from dpsdk.forms.moments import CoordinatePairs, distinct, moments_of, repeats
from dpsdk.forms.objective import LARGEST, NOT_FINITE, Objective, Point, ask_loss
from dpsdk.forms.of_records import design_of
from dpsdk.forms.sets import Ball, Box, ConvexSet, Simplex
from dpsdk.forms.slope_table import SlopeTable
from dpsdk.forms.slopes import (
    AXIS_LIMIT,
    FARTHEST,
    FEATURE_BITS,
    LEVEL_BITS,
    SLOPE_BITS,
    THETA_BITS,
    FeatureAxis,
    Slopes,
)
from dpsdk.forms.solver import minimise
from dpsdk.losses import Constants, Loss
from dpsdk.typing import Array, Floats, Ints

__all__ = ["ConvexForm", "Tables"]

COORDINATE_LIMIT = 2**10
"""No model has more coordinates: its Hessian then has a million numbers."""

WEIGHT_LIMIT = 2**24
"""No gradient or Hessian is written out with more weights than this: 128 MiB."""

CLASS_LIMIT = 2**6
"""No form has more models."""

_FORM_BYTES = 2048
"""The bytes of a form beside its arrays, roughly."""


class Tables(Protocol):
    """Public weights of records, tabulated: every distribution is such, in shares of the rows.

    For wide models it has `records`, too, as distributions have.
    """

    def table(self, names: tuple[str, ...]) -> Floats:
        """Weights on the cells of the named attributes, one axis a name; the caller only reads."""
        ...


def _to_coordinates(values: Iterable[Coordinates]) -> tuple[Coordinates, ...]:
    kept = tuple(values)
    if not kept or not all(isinstance(one, Coordinates) for one in kept):
        raise InvalidArgument("coordinates", "Coordinates, at least one", shown(kept))
    return kept


def _to_label(value: str) -> str:
    return to_name("label", value)


@frozen(eq=False)
class ConvexForm(Form):
    """The average loss of linear models, for all coefficients θ of a bounded convex set.

    A record x has a feature vector, which stacks some coordinates, and a number y for its label; it
    costs φ(⟨θ, x⟩, y). A record outside the domain costs nothing, nor does one in an extra cell of
    any of these attributes, as where a value is missing. Everything here is public:
    what a form asks of a table goes through `gradient`, `hessian` and `moments`, which are linear
    forms that any mechanism may answer. The kernel knows no convex forms. Raises `UnknownAttribute`
    if the domain does not have an attribute that is named. Raises `InvalidArgument` if an argument
    is not as described. Raises `QueryError` if the loss is not convex, not what it declares to be,
    or not for such labels. Raises `TooLarge` if there are too many coordinates, or a single one
    depends on too many cells. Where all attributes have more than 10^6 cells together the form is
    `wide`: only `slopes` are asked of it.

    Parameters
    ----------
    coordinates
        Of the feature vector, in the order of θ. An intercept is one that depends on nothing.
    label, targets
        The attribute to predict, on which no coordinate depends, and the number y of each label;
        its extra cells have none. With an array (classes, labels) it is a form of several models,
        one for each class with numbers of its own: θ stacks theirs, each of them in the set, and
        the losses add up. Such a form is `wide`, too.
    loss
        φ, a value of dpsdk.losses; checked on the margins and labels of the universe.
    over
        The set of θ: a `Ball`, `Box` or `Simplex`.
    """

    domain: Domain
    coordinates: tuple[Coordinates, ...] = field(converter=_to_coordinates)
    label: str = field(converter=_to_label)
    targets: Floats = field(converter=to_weights)
    loss: Loss
    over: ConvexSet

    def __attrs_post_init__(self) -> None:
        require(isinstance(self.domain, Domain), "domain", "a domain", self.domain)
        require(isinstance(self.loss, Loss), "loss", "a loss of dpsdk.losses", self.loss)
        if not isinstance(self.over, Ball | Box | Simplex):
            expected = "a bounded set, such as Ball(8)"
            raise InvalidArgument("over", expected, shown(self.over))
        size, sizes = self.domain[self.label].known, dict[str, int]()
        for one in self.coordinates:
            shape = tuple([self.domain[name].known for name in one.names])
            if one.values.shape[1:] != shape:
                expected = f"of shape {(one.width, *shape)} on {one.names}"
                raise InvalidArgument("coordinates", expected, f"shape {one.values.shape}")
            sizes |= dict(zip(one.names, shape, strict=True))
        if self.label in sizes:
            expected = "an attribute that no feature depends on"
            raise InvalidArgument("label", expected, shown(self.label))
        if self.targets.shape[-1:] != (size,) or not 0 < self.targets.ndim < 3 or not self.classes:
            raise InvalidArgument("targets", f"{size} numbers", f"shape {self.targets.shape}")
        if self.classes > CLASS_LIMIT:
            advice = "put labels into groups"
            raise TooLarge("a model", self.classes, CLASS_LIMIT, "classes", advice)
        check_cells([self.label], self.domain)
        if self.width > COORDINATE_LIMIT:
            advice = "use fewer features, or coarser ones"
            raise TooLarge("a model", self.width, COORDINATE_LIMIT, "coordinates", advice)
        self.over.require(self.width)
        if self.wide:
            self._check_wide()
        else:
            Design.require(self._shapes, labels=size)
        self.loss.check(*self._reach, self._labels)

    @property
    def classes(self) -> int:
        """The number of models: one, but for a form of several classes."""
        return len(self.targets) if self.targets.ndim == 2 else 1

    @cached_property
    def by_class(self) -> tuple[ConvexForm, ...]:
        """The forms that are minimised each by itself."""
        if self.targets.ndim == 1:
            return (self,)
        return tuple([evolve(self, targets=one) for one in self.targets])

    @property
    def wide(self) -> bool:
        """True if its attributes have more than 10^6 cells together, so that none is written out.

        Then gradients are all that is asked of a table, and it is minimised over public records:
        `tables` have `records`, such as those of a `Records` or a `SyntheticData`. So it is with
        several classes, of which `fit` minimises each by itself.
        """
        return self.targets.ndim == 2 or self.cells > CELL_LIMIT

    @property
    def width(self) -> int:
        """The number of coordinates of each model."""
        return sum([one.width for one in self.coordinates])

    @property
    def dimension(self) -> int:
        """The number of coordinates of θ."""
        return self.width * self.classes

    @property
    def spread(self) -> float:
        """How long the slopes of a record may be, of all models and in the slope of one."""
        return math.sqrt(self.classes)

    def centre(self) -> Floats:
        """A θ in the middle of the set."""
        return np.tile(self.over.centre(self.width), self.classes)

    def project(self, theta: Floats) -> Floats:
        """The nearest θ whose models are in the set."""
        parts = np.split(theta, self.classes)
        return np.concatenate([self.over.project(part) for part in parts])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes that the loss depends on, label included, in the order of the domain."""
        touched = {name for one in self.coordinates for name in one.names} | {self.label}
        return tuple([name for name in self.domain.names if name in touched])

    @property
    def cells(self) -> int:
        """The number of cells of these attributes."""
        return math.prod([self.domain[name].size for name in self.names])

    @cached_property
    def partial(self) -> bool:
        """True if these attributes have extra cells, in which records cost nothing."""
        return any(self.domain[name].extras for name in self.names)

    @cached_property
    def constants(self) -> Constants:
        """Bounds of the loss of any record and any θ of the set."""
        return self.loss.constants(*self._reach, self._labels)

    @cached_property
    def longest(self) -> float:
        """At least the length of every gradient ∇φ(⟨θ, x⟩, y) of one record, for θ of the set."""
        lipschitz = self.loss.lipschitz(*self._reach, self._labels) * self._norm
        return lipschitz * math.sqrt(self.classes)

    def minimise(
        self,
        tables: Tables,
        *,
        linear: Array | Sequence[float] | None = None,
        ridge: float = 0.0,
        tolerance: float = 1e-6,
    ) -> tuple[Floats, float]:
        """The θ of the set with the least Σ w(x) φ(⟨θ, x⟩, y) + ⟨linear, θ⟩ + ½ ridge ‖θ‖².

        Public, and free: tables are public weights w of at least 0, such as a distribution.

        Parameters
        ----------
        linear
            A linear term, of `dimension` numbers; none by default.
        ridge
            At least 0.
        tolerance
            How large a gap is good enough.

        Returns
        -------
        theta, gap
            The function at θ exceeds its least value over the set by no more than `gap`: a
            certificate, which may be larger than the tolerance where that was not reached.
        """
        self._check_single()
        places, (design, weights) = self._places, self._weighed(tables)
        least = minimise(
            design,
            self.loss,
            self.targets,
            weights,
            self._set,
            linear=None if linear is None else self._vector("linear", linear)[places],
            ridge=ridge,
            tolerance=tolerance,
        )
        return least.theta[np.argsort(places)], least.gap

    def fit(self, tables: Tables) -> tuple[Floats, float]:
        """Minimise over public tables, where what never varies has coefficient 0. Free.

        Many θ are equally good where a coordinate is the same in all records of some weight. Then
        its part goes to a coordinate that depends on nothing, an intercept, if the set has such a
        θ. Returns θ and a gap as `minimise` does.
        """
        if len(self.by_class) > 1:
            thetas, gaps = zip(*[one.fit(tables) for one in self.by_class], strict=True)
            return np.concatenate(thetas), sum(gaps)
        theta, gap = self.minimise(tables)
        design, weights = self._weighed(tables)
        if self.cells <= CELL_LIMIT and (weights.sum(axis=0) > 0.0).all():
            return theta, gap
        low, high = self._spans(design, weights)
        parts = np.split(theta, self.classes)
        moved = np.concatenate([self._moved(one, low, high) for one in parts])
        if np.array_equal(moved, theta):
            return theta, gap
        return moved, gap + max(self.value(tables, moved) - self.value(tables, theta), 0.0)

    def _moved(self, theta: Floats, low: Floats, high: Floats) -> Floats:
        """The θ of one model whose coordinates that never vary are 0, if the set has it."""
        still = ~(low < high)
        values = np.where(still & np.isfinite(low), low, 0.0)
        starts = np.cumsum([0, *[one.width for one in self.coordinates]])
        constants = [starts[place] for place, one in enumerate(self.coordinates) if not one.names]
        moved = np.where(still, 0.0, theta)
        if constants and values[constants[-1]]:
            at = constants[-1]
            moved[at] = float((theta * values).sum()) / values[at]
        else:
            moved = np.where(values == 0.0, moved, theta)
        return moved if self.over.contains(moved, tolerance=0.0) else theta

    def _spans(self, design: Design, weights: Floats) -> tuple[Floats, Floats]:
        """The least and the largest of each coordinate over the cells of some weight."""
        low, high = np.empty(self.width), np.empty(self.width)
        place = 0
        for block, seen in zip(design.blocks, design.seen(weights), strict=True):
            rows = block[seen]
            own = self._places[place : place + block.shape[1]]
            low[own], high[own] = (
                rows.min(axis=0, initial=np.inf),
                rows.max(axis=0, initial=-np.inf),
            )
            place += block.shape[1]
        return low, high

    def expand(self, tables: Tables, theta: Array | Sequence[float]) -> tuple[Floats, Floats]:
        """Gradient and Hessian of Σ w(x) φ(⟨θ, x⟩, y) at θ, for the weights w of public tables.

        Public, and free. Neither is written out cell by cell, so that models of any admitted size
        have both. Raises `QueryError` if the loss has derivatives there that are NaN, infinite or
        above 1e100.
        """
        objective, point = self._point(tables, theta)
        if not point.finite:
            raise QueryError(described(self.loss), NOT_FINITE)
        back = np.argsort(self._places)
        return point.gradient[back], objective.hessian(point)[np.ix_(back, back)]

    def value(self, tables: Tables, theta: Array | Sequence[float]) -> float:
        """Σ w(x) φ(⟨θ, x⟩, y) at θ, for the weights w of public tables. Public, and free."""
        objective, point = self._point(tables, theta)
        return objective.value(point)

    def gradient(self, theta: Array | Sequence[float]) -> LinearForm:
        """The gradient of the summed loss at θ: one function a coordinate, φ′(⟨θ, x⟩, y)·x_j.

        Raises `QueryError` if the loss has a derivative there that is NaN, infinite or above 1e100,
        and `TooLarge` if it would have more than 2^24 weights.
        """
        self._check_weights("a gradient", self.dimension)
        slopes = self._evaluated("derivative", self.loss.derivative, theta)
        return LinearForm(self.domain, [self._dense(one * slopes for one in self._spread)])

    def slopes(
        self, theta: Array | Sequence[float], *, clip: float = math.inf
    ) -> tuple[LinearForm, float]:
        """The gradient of the summed loss at θ of any number of attributes, and its unit.

        Its weights are integers: features, coefficients and slopes are rounded half-up to steps of
        2⁻¹⁴, 2⁻¹⁶ and 2⁻¹², margins to 2¹⁶ levels. Slopes beyond `clip` count as that, on either
        side. Raises `QueryError` as `gradient` does.
        """
        parts = np.split(self._vector("theta", theta), self.classes)
        pairs = zip(parts, np.atleast_2d(self.targets), strict=True)
        blocks = [self._slopes(part, targets, clip) for part, targets in pairs]
        return LinearForm(self.domain, blocks), 2.0 ** -(SLOPE_BITS + FEATURE_BITS)

    def slope_table(self) -> tuple[SlopeTable, Ints]:
        """Features and slopes as whole numbers, and for each feature its place in θ.

        Slopes are constant beyond the margins of the set. Raises `QueryError` as `gradient` does,
        and `TooLarge` if all feature vectors would have more than 2^25 numbers.
        """
        rule, names = self.loss.derivative, [name for axis in self._grouped for name in axis.names]

        def slope(margins: Floats) -> Floats:
            (numbers,) = ask_loss(
                self.loss,
                "derivative",
                lambda z, y: (rule(z, y),),
                margins[None, :],
                self.targets[:, None],
            )
            if not np.abs(numbers).max() < FARTHEST:  # nor NaN
                reason = f"derivative() is NaN, or above {FARTHEST:,.0f}"
                raise QueryError(described(self.loss), reason)
            return numbers

        rows = self._design.rows()
        names = [*names, self.label]
        table = SlopeTable.of(self.domain, names, rows, self._reach, slope, self._set)
        return table, self._places

    def apart(self, table: SlopeTable) -> tuple[float, float]:
        """How far the loss of a record may be from that of a `slope_table`, but for a constant.

        The difference of both varies by the first number at the most over the margins of the set,
        for each label; and feature vectors are off by the second in length. The table may be that
        of the form with a smoother loss (docs/explanation/proofs/perturb.md).
        """

        def rule(z: Floats, y: Floats) -> tuple[Floats, Floats]:
            return self.loss.value(z, y), self.loss.derivative(z, y)

        missed = [
            table.missed(label, self._reach, partial(ask_loss, self.loss, "value", rule, y=y))
            for label, y in enumerate(self.targets)
        ]
        moved = self._design.rows() - table.features * 2.0**-FEATURE_BITS
        return max(missed), math.sqrt(float(np.square(moved).sum(axis=1).max()))

    @property
    def rounding(self) -> tuple[float, float]:
        """What rounding does to the gradient of a record in `slopes`, without a clip.

        Its length is at most the first number, and it is off by no more than the second, anywhere
        in the set and for each model; that is infinite for a loss with a kink.
        docs/explanation/proofs/slopes.md.
        """
        constants, (low, high) = self.constants, self._reach
        pairs = zip(self._integer_axes, self._blocks, strict=True)
        moved = [axis.numbers * 2.0**-FEATURE_BITS - block for axis, block in pairs]
        apart = largest_norm(moved)
        total = sum([float(np.abs(one).sum(axis=1).max()) for one in self._blocks])
        far = self.over.farthest(np.zeros(self.width)) * apart
        # Half a level of the margins, half a step of each coefficient, and the features.
        level = (high - low + 2.0 * far) * 2.0**-LEVEL_BITS + 2.0 ** -(FEATURE_BITS + THETA_BITS)
        margin = level + far + 2.0 ** -(THETA_BITS + 1) * (total + self.width * apart)
        slope = 2.0 ** -(SLOPE_BITS + 1)
        length = (constants.lipschitz + slope) * (self._norm + apart)
        bent = constants.smoothness * margin if constants.smoothness else 0.0
        off = (slope + bent) * (self._norm + apart) + constants.lipschitz * apart
        return length, off * (1 + 2.0**-30)

    def hessian(self, theta: Array | Sequence[float]) -> LinearForm:
        """The Hessian of the summed loss at θ: φ″(⟨θ, x⟩, y)·x_i·x_j, for i ≤ j.

        Functions are in the order of `pairs`, those with i < j times √2, so that the length of the
        numbers of a record is the Frobenius norm of its matrix. `matrix` reads them.
        """
        first, second = self.pairs
        self._check_weights("a Hessian", len(first))
        bends = self._evaluated("curvature", self.loss.curvature, theta)
        stacked = np.concatenate([np.broadcast_to(o, (len(o), *self._shape)) for o in self._spread])
        weights = stacked[first] * stacked[second] * bends
        weights *= self._pairs.scales.reshape(-1, *[1] * len(self._shape))
        return LinearForm(self.domain, [self._dense([weights])])

    def moments(self) -> LinearForm:
        """The second moments: x_i·x_j for i ≤ j, as in `hessian`, and then y·x_j for each j.

        They are all that the squared loss depends on, but for a constant. Each depends on the
        attributes of two coordinates alone. Raises `TooLarge` if they would have more than 2^24
        weights.
        """
        blocks = moments_of(self.domain, *self._parts, self._pairs.lengths)
        return LinearForm(self.domain, self._on_all_cells(blocks))

    def distinct_moments(self) -> tuple[LinearForm, Ints]:
        """The second moments without those that are always 0, and those that are always equal once.

        Of one-hot features many are: x² = x = x·1, and products of two labels of one attribute are
        0. Nothing is left out for being constant, since a record outside the domain has moments 0.
        A function that stands for several of `moments` is as long as these are together, so that
        the numbers of a record have the same length as there, and noise on them hurts no more than
        it does on the best average of all. `moments_from` reads them.

        Returns
        -------
        form, places
            For each function of `moments` the place of its own in the form, −1 for one that is 0. A
            form of nothing but 0 has one function.
        """
        pairs = self._pairs
        blocks = moments_of(self.domain, *self._parts, np.ones(len(pairs.lengths)))
        places = repeats(blocks)
        own = distinct(blocks, places, pairs.joint(places))
        return LinearForm(self.domain, self._on_all_cells(own)), places

    def moments_from(self, values: Array | Sequence[float], places: Ints) -> Floats:
        """The numbers of `moments`, read off those of `distinct_moments`; a linear map.

        `values` are one for each function that is distinct, and `places` as they came with it.
        """
        return self._pairs.moments(values, places)

    @property
    def nbytes(self) -> int:
        """Roughly how many bytes it takes, with the arrays that it is made of."""
        arrays = [self.targets, *[one.values for one in self.coordinates]]
        wide = sum([block.size for block in self._blocks]) if self.wide else 0
        kept = wide or Design.require(self._shapes)
        return _FORM_BYTES + sum([array.nbytes for array in arrays]) + 8 * kept

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """The coordinates i ≤ j that each function of `hessian` belongs to, two arrays.

        Those of two stacks of coordinates stand together.
        """
        return self._pairs.ends

    def matrix(self, values: Array | Sequence[float]) -> Floats:
        """The symmetric matrix that the numbers of `hessian`, or the first of `moments`, stand for.

        There are as many as `pairs`.
        """
        return self._pairs.matrix(values)

    @property
    def _pairs(self) -> CoordinatePairs:
        return CoordinatePairs(tuple([one.width for one in self.coordinates]))

    @property
    def _parts(self) -> tuple[tuple[Coordinates, ...], Coordinates]:
        self._check_single()
        return self.coordinates, Coordinates((self.label,), self.targets[None, :])

    def _point(self, tables: Tables, theta: Array | Sequence[float]) -> tuple[Objective, Point]:
        """The weighted loss over public tables, and what it is at θ."""
        self._check_single()
        start, (design, joint) = self._vector("theta", theta)[self._places], self._weighed(tables)
        if not (joint >= 0.0).all():  # NaN is not either
            raise InvalidArgument("tables", "weights of at least 0", "others among them")
        objective = Objective(
            design, self.loss, self.targets, joint, self._set, np.zeros_like(start), 0.0
        )
        return objective, objective.at(start)

    def _weighed(self, tables: Tables) -> tuple[Design, Floats]:
        """The design, and public weights by label and by its cells, or by records if wide."""
        if self.cells <= CELL_LIMIT:
            return self._design, self._by_label(tables)
        names = [name for axis in self._grouped for name in axis.names]
        known = [self.domain[name].known for name in (*names, self.label)]
        return design_of(tables, self._grouped, self.label, known, self._blocks)

    def _by_label(self, tables: Tables) -> Floats:
        """Public weights by label, and by the cells of the design."""
        shape = tuple([self.domain[name].size for name in self.names])
        expected = f"weights of shape {shape} on {self.names}"
        require(
            callable(getattr(tables, "table", None)),
            "tables",
            f"a value with a table() of {expected}",
            tables,
        )
        weights = to_array("tables", tables.table(self.names), expected)
        if weights.shape != shape:
            raise InvalidArgument("tables", expected, f"shape {weights.shape}")
        weights = weights[tuple(map(slice, self._shape))]
        return weights.transpose(self._order).reshape(self.targets.shape[-1], -1)

    @property
    def _labels(self) -> list[float]:
        """The numbers that labels are."""
        targets = self.targets if self.targets.ndim == 1 else np.unique(self.targets)
        labels: list[float] = targets.tolist()
        return labels

    def _check_single(self) -> None:
        if self.targets.ndim == 2:
            reason = "models of several classes are found by PrivateMinimizer with HeavyBall, and"
            raise QueryError("", f"{reason} by channels with a distribution")

    def _check_weights(self, what: str, rows: int) -> None:
        self._check_single()
        if rows * self.cells > WEIGHT_LIMIT:
            advice = "use fewer features, or coarser attributes"
            raise TooLarge(f"{what} of a model", rows * self.cells, WEIGHT_LIMIT, "weights", advice)

    def _dense(self, parts: Iterable[Floats]) -> Dense:
        wide = [np.broadcast_to(part, (len(part), *self._shape)) for part in parts]
        weights = np.concatenate(wide)
        block = Dense(self.names, self._shape, weights.reshape(len(weights), -1))
        return self._padded(block) if self.partial else block

    def _on_all_cells(self, blocks: Iterable[Dense | Kronecker]) -> list[Dense | Kronecker]:
        """Functions on the labels as functions of all records: zero where a label is missing."""
        own = list(blocks)
        if not self.partial:
            return own
        needed = sum([block.rows * math.prod(self._sizes(block.names).values()) for block in own])
        if needed > WEIGHT_LIMIT:
            advice = "use fewer attributes that have cells for missing and other values"
            raise TooLarge("the moments of a model", needed, WEIGHT_LIMIT, "weights", advice)
        return [self._padded(block.written()) for block in own]

    def _sizes(self, names: tuple[str, ...]) -> dict[str, int]:
        """The numbers of cells of some attributes, and of all that have extra ones."""
        taken = [name for name in self.names if name in names or self.domain[name].extras]
        return {name: self.domain[name].size for name in taken}

    def _padded(self, block: Dense) -> Dense:
        sizes = self._sizes(block.names)
        labels = {name: self.domain[name].known for name in sizes}
        spread = [labels[name] if name in block.names else 1 for name in sizes]
        weights = np.zeros((block.rows, *sizes.values()))
        inside = (slice(None), *map(slice, labels.values()))
        weights[inside] = block.weights.reshape(block.rows, *spread)
        return Dense(tuple(sizes), tuple(sizes.values()), weights.reshape(block.rows, -1))

    def _evaluated(
        self, what: str, rule: Callable[[Floats, Floats], Floats], theta: Array | Sequence[float]
    ) -> Floats:
        """Evaluate the loss in every cell, at coefficients."""
        (numbers,) = ask_loss(self.loss, what, lambda z, y: (rule(z, y),), *self._margins(theta))
        if not np.abs(numbers).max() < LARGEST:  # nor NaN
            reason = f"{what}() is NaN, or above 1e100, at {shown(theta)}"
            raise QueryError(described(self.loss), reason)
        return np.broadcast_to(numbers, self._shape)

    def _margins(self, theta: Array | Sequence[float]) -> tuple[Floats, Floats]:
        """⟨θ, x⟩ and y, each with an axis a name, of length 1 where nothing changes along it."""
        vector, start = self._vector("theta", theta), 0
        margins = np.zeros([1] * len(self._shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._spread:
                margins = margins + np.tensordot(vector[start : start + len(part)], part, axes=1)
                start += len(part)
        require(np.isfinite(margins).all(), "theta", "coefficients of finite margins", theta)
        sizes = [len(self.targets) if name == self.label else 1 for name in self.names]
        return margins, self.targets.reshape(sizes)

    def _vector(self, parameter: str, values: Array | Sequence[float]) -> Floats:
        return to_shaped(parameter, values, (self.dimension,))

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        """How many labels each attribute has."""
        return tuple([self.domain[name].known for name in self.names])

    @cached_property
    def _spread(self) -> tuple[Floats, ...]:
        return tuple([one.spread(self.names) for one in self.coordinates])

    @cached_property
    def _grouped(self) -> tuple[Axis, ...]:
        return tuple(axes_of(self.coordinates))

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        """The shapes of the blocks of its design, known before one is written out."""
        return [
            (
                math.prod([self.domain[name].known for name in axis.names]),
                sum([self.coordinates[place].width for place in axis.members]),
            )
            for axis in self._grouped
        ]

    @cached_property
    def _blocks(self) -> tuple[Floats, ...]:
        """The feature vectors along each axis of the design."""
        return tuple([block_of(axis, self.coordinates) for axis in self._grouped])

    @cached_property
    def _design(self) -> Design:
        return Design(self._blocks, labels=self.targets.shape[-1])

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """The smallest and the largest margin of any record and any θ of the set."""
        return self._set.reach(self._blocks)

    @property
    def _norm(self) -> float:
        """The largest length of a feature vector."""
        return largest_norm(self._blocks)

    def _check_wide(self) -> None:
        for cells, width in self._shapes:
            if cells > AXIS_LIMIT or cells * width > WEIGHT_LIMIT:
                advice = "take coarser labels, or fewer attributes in one feature"
                raise TooLarge("the attributes of a feature", cells, AXIS_LIMIT, "cells", advice)
        farthest = self.over.farthest(np.zeros(self.width))
        if not farthest * max(self._norm, 1.0) <= FARTHEST:
            expected = f"a set whose margins are at most {FARTHEST:,.0f}, for so many attributes"
            raise InvalidArgument("over", expected, shown(self.over))

    @cached_property
    def _integer_axes(self) -> tuple[FeatureAxis, ...]:
        return tuple(
            [
                FeatureAxis(
                    axis.names,
                    [self.domain[name].size for name in axis.names],
                    [self.domain[name].known for name in axis.names],
                    half_up(block * 2.0**FEATURE_BITS).astype(np.int64),
                )
                for axis, block in zip(self._grouped, self._blocks, strict=True)
            ]
        )

    def _slopes(self, theta: Floats, targets: Floats, clip: float) -> Slopes:
        """The gradient at θ by integers, in units of 2 to the minus (slope and feature bits)."""
        kinds: Ints | None = None
        if self.targets.ndim == 2:
            targets, kinds = np.unique(targets, return_inverse=True)

        def slope(steps: Floats) -> Ints:
            margins = steps[None, :] * 2.0 ** -(FEATURE_BITS + THETA_BITS)
            rule = self.loss.derivative
            (numbers,) = ask_loss(
                self.loss, "derivative", lambda z, y: (rule(z, y),), margins, targets[:, None]
            )
            if not np.abs(numbers).max() < FARTHEST:  # nor NaN
                reason = f"derivative() is NaN, or above {FARTHEST:,.0f}, at {shown(theta)}"
                raise QueryError(described(self.loss), reason)
            return half_up(np.clip(numbers, -clip, clip) * 2.0**SLOPE_BITS).astype(np.int64)

        steps = half_up(theta[self._places] * 2.0**THETA_BITS).astype(np.int64)
        label, order = self.domain[self.label], np.argsort(self._places)
        return Slopes.of(self._integer_axes, steps, label.name, label.size, slope, order, kinds)

    @cached_property
    def _order(self) -> list[int]:
        """The axes of a table of `names`: the label first, then as in the design."""
        wanted = [self.label, *(name for axis in self._grouped for name in axis.names)]
        return [self.names.index(name) for name in wanted]

    @cached_property
    def _places(self) -> Ints:
        """For each coordinate of the design its place in θ."""
        starts = np.cumsum([0, *[one.width for one in self.coordinates]])
        members = [place for axis in self._grouped for place in axis.members]
        runs: list[Ints] = [np.arange(starts[place], starts[place + 1]) for place in members]
        return np.concatenate(runs)

    @cached_property
    def _set(self) -> ConvexSet:
        if not isinstance(self.over, Box):
            return self.over
        low, high = self.over.low, self.over.high
        return evolve(self.over, low=_placed(low, self._places), high=_placed(high, self._places))


def _placed(side: float | tuple[float, ...], places: Ints) -> float | tuple[float, ...]:
    if not isinstance(side, tuple):
        return side
    order: list[int] = places.tolist()
    return tuple([side[place] for place in order])
