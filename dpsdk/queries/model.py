"""A model: the numbers that it reads of a record, its coefficients, and what they predict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from dpsdk._arrays import ByNumbers, Lasting
from dpsdk._checks import described, shown, to_finite
from dpsdk._frames import Column, Rows, rows_of
from dpsdk._records import field, frozen
from dpsdk.data.readers import read_codes
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import InvalidArgument, NoBound, QueryError
from dpsdk.forms import Coordinates
from dpsdk.forms.design import check_cells, longest
from dpsdk.forms.factors import to_weights
from dpsdk.hypothesis import Distribution
from dpsdk.losses import Loss
from dpsdk.queries.features import (
    Feature,
    asked,
    names_of,
    natural,
    numbers_of,
    read_feature,
    read_units,
    scaled,
)
from dpsdk.typing import Array, Bools, Floats, Ints

__all__ = ["Inputs", "Model", "Target"]


_PROBES = np.array([-3.7, -0.4, 0.0, 0.3, 1.9])
"""Margins that tell whether a loss predicts what these are."""


_LEAST = 1e-200
"""Floats beyond this, or its inverse, may have lost their digits."""

_ODDS, _RANGES = 12.0, 4.0
"""By how much the whole range of a feature may move the margin: of a class, and of a label that
goes from -1 to 1. Part of what a query without a set means, so that neither ever changes."""


@frozen
class Inputs(Lasting):
    """The features of a model over a domain, and the one number that scales them all."""

    attributes: tuple[Attribute, ...]
    """Those that the features depend on, in the order of the domain."""
    coordinates: tuple[Coordinates, ...]
    """The numbers of each feature."""
    labels: tuple[str, ...]
    """The name of each number."""
    scale: float
    """Feature vectors, one for an intercept included, are multiplied by this, so that the longest
    of the universe has length 1."""
    intercept: bool
    units: Floats = field(converter=to_weights, eq=ByNumbers)
    """The middle and the half of each number: in the units of the data it is middle + half times
    itself."""
    missing_texts: tuple[str, ...] = ()
    """The texts that the domain reads as missing values."""

    @classmethod
    def of(cls, features: Sequence[str | Feature], domain: Domain, *, intercept: bool) -> Inputs:
        """Read features over a domain."""
        found = [natural(feature, domain) for feature in features]
        for feature in found:
            check_cells(names_of(feature), domain)
        read = [read_feature(feature, domain) for feature in found]
        touched = {name for names, _, _ in read for name in names}
        labels = tuple([label for _, own, _ in read for label in own])
        coordinates = tuple([Coordinates(names, values) for names, _, values in read])
        _check_different(found, coordinates, labels)
        vector = [*coordinates, Coordinates((), np.ones(1))] if intercept else coordinates
        length = longest(vector)
        attributes = tuple([domain[name] for name in domain.names if name in touched])
        scale = 1.0 / length if length else 1.0
        pairs = zip(found, coordinates, strict=True)
        units = np.concatenate([read_units(one, domain, own.width) for one, own in pairs])
        texts = domain.missing_texts
        return cls(attributes, coordinates, labels, scale, intercept, units, texts)

    @property
    def vector(self) -> tuple[Coordinates, ...]:
        """The coordinates of the scaled feature vector, that of an intercept last."""
        scaled_ones = [one.times(self.scale) for one in self.coordinates]
        return (*scaled_ones, *[Coordinates((), np.array([self.scale]))] * self.intercept)

    @cached_property
    def fixed(self) -> Floats:
        """The value of each number that is the same in all cells; NaN for the others."""
        values = [one.values.reshape(one.width, -1) for one in self.coordinates]
        found = [np.where((one == one[:, :1]).all(axis=1), one[:, 0], np.nan) for one in values]
        return np.concatenate(found)

    def in_units(self) -> tuple[Floats, Floats]:
        """How θ enters the coefficients in the units of the data, and their intercept.

        A factor of each coefficient, and a weight of each of θ in the intercept. What never varies
        has a coefficient of 0, and counts in the intercept.
        """
        fixed = ~np.isnan(self.fixed)
        middles, halves = self.units.T
        with np.errstate(over="ignore"):
            factors = np.where(fixed, 0.0, self.scale / halves)
        weights = np.where(fixed, np.nan_to_num(self.fixed) * self.scale, -factors * middles)
        return factors, np.append(weights, [self.scale] * self.intercept)

    def radius(self, loss: Loss) -> float:
        """That of a ball of θ in which no feature is held back; in units of data."""
        swing = _ODDS if loss.signed or loss.predicts == "probability" else _RANGES
        radius = 0.5 * swing * math.sqrt(len(self.coordinates) + self.intercept) / self.scale
        return float(f"{radius:.12g}")  # as in 12 and not 12.000000000000002

    def read(self, columns: object) -> tuple[Bools, dict[str, Ints]]:
        """Which rows have all their values, and the cell numbers of these."""
        codes = read_codes(columns, self.attributes, self.missing_texts)
        known = [(codes[one.name] >= 0) & (codes[one.name] < one.known) for one in self.attributes]
        inside = np.logical_and.reduce(known)
        return inside, {name: code[inside] for name, code in codes.items()}

    def margins(self, theta: Floats, codes: Mapping[str, Ints]) -> Floats:
        """⟨θ, x⟩ of records that are given by their cell numbers, none of them outside."""
        records = len(next(iter(codes.values())))
        margins = np.full(records, theta[-1] * self.scale if self.intercept else 0.0)
        start = 0
        for one in self.coordinates:
            own = np.tensordot(theta[start : start + one.width], one.values, axes=1)
            margins += own[tuple([codes[name] for name in one.names])] * self.scale
            start += one.width
        return margins


def _check_different(
    features: Sequence[Feature], coordinates: Sequence[Coordinates], labels: Sequence[str]
) -> None:
    """Refuse two features of the same numbers, and two numbers of the same name."""
    seen: dict[object, Feature] = {}
    for feature, one in zip(features, coordinates, strict=True):
        names = tuple(sorted(one.names))
        rows = one.spread(names).reshape(one.width, -1) + 0.0  # a zero has no sign here
        key = names, frozenset(row.tobytes() for row in rows)
        if key in seen:
            reason = f"the same feature as {described(seen[key])}; give each once"
            raise QueryError(described(feature), reason)
        seen[key] = feature
    if len(set(labels)) != len(labels):
        repeated = next(label for label in labels if labels.count(label) > 1)
        raise QueryError("features", f"two of their numbers are called {shown(repeated)}")


@frozen
class Target(Lasting):
    """The label of a model: an attribute, as numbers of the kind that a loss takes."""

    attribute: Attribute
    numbers: Floats = field(converter=to_weights, eq=ByNumbers)
    """The number of each of its labels."""
    middle: float
    half: float
    """A prediction in these numbers, times `half` plus `middle`, is in the label's unit."""

    @classmethod
    def of(cls, attribute: Attribute, loss: Loss) -> Target:
        """The numbers of an attribute of at most 10^6 labels."""
        return asked(loss, lambda: cls._of(attribute, loss))

    @classmethod
    def _of(cls, attribute: Attribute, loss: Loss) -> Target:
        numbers, (low, high) = numbers_of(attribute), (0.0, 1.0)
        if numbers is not None:
            low, high = attribute.bounds
        elif attribute.known == 2:
            numbers = np.array([0.0, 1.0])
        name = f"label {attribute.name!r}"
        if loss.signed and attribute.known != 2:
            reason = f"it has {attribute.known:,} labels, and {described(loss)} takes two"
            raise QueryError(name, reason)
        if numbers is None:
            reason = f"it has {attribute.known:,} labels that are no numbers; a model predicts"
            raise QueryError(name, f"{reason} a number, or which of two labels it is")
        if loss.signed:
            return cls(attribute, np.array([-1.0, 1.0]), 0.0, 1.0)
        half = high / 2 - low / 2
        plain = scaled(numbers, low, high)
        if loss.reason_against(plain) is None:
            return cls(attribute, plain, low / 2 + high / 2, half)
        return cls(attribute, (plain + 1) / 2, low, 2 * half)

    def unscaled(self, numbers: Floats) -> Floats:
        """Predictions of the label in the unit of the attribute."""
        return self.middle + self.half * numbers


@runtime_checkable
class LinearBounds(Protocol):
    """Where θ of a table lies, as a `CoefficientSet` knows it."""

    @property
    def centre(self) -> Floats:
        """A vector of the set; NaN if there is none to tell."""
        ...

    def reach(self, functions: Floats, beta: float, /) -> Floats:
        """How far linear functions of θ, one a row, may be from what they are at the centre."""
        ...


@frozen(repr=False)
class Model(Lasting):
    """A linear model that was fitted: public, and made of what was released.

    Parameters
    ----------
    theta
        Its coefficients, in the order of the features and with that of an intercept last, for
        feature vectors that were scaled so that the longest of the universe has length 1.
    excess
        By how much its average loss may exceed the least one over the set that it was sought in,
        over the distribution that it was fitted on, with what corrected that: a certificate of the
        solver, in the unit of the loss; infinite where no solver ran, as in a descent. It says
        nothing of how far those are from a table, as `release.bound` does where something is known.
    """

    theta: Floats = field(converter=to_weights, eq=ByNumbers)
    excess: float
    _inputs: Inputs
    _target: Target
    _loss: Loss

    def __attrs_post_init__(self) -> None:
        expected = len(self._inputs.labels) + self._inputs.intercept
        if self.theta.shape != (expected,):
            raise InvalidArgument("theta", f"{expected} numbers", f"shape {self.theta.shape}")

    @property
    def coefficients(self) -> dict[str, float]:
        """How much a unit of each number of a feature adds, in the units of the data, by its name.

        With u_j the numbers as the data have them (years for an age, the middle of a bin, days from
        the first, 1 for a label, products for a `Cross`), what a model says of a record is

            intercept + Σ coefficients[name_j] · u_j.

        That is the prediction of `predict`, in the unit of the label, where the loss predicts a
        mean or quantile by itself; and the margin for others: the logarithm of the odds of the
        second label for a logistic loss, and for `GLMLoss("log")` that of the mean as a share of
        the label's range. A number that is the same for all records has coefficient 0.
        """
        factors, _ = self._inputs.in_units()
        numbers = self.theta[: len(factors)] * factors * self._unit[1]
        return dict(zip(self._inputs.labels, numbers.tolist(), strict=True))

    @property
    def intercept(self) -> float:
        """What a model says of a record all of whose numbers are 0 in the units of the data.

        Numbers count from the middle of an attribute where a model is fitted, so that it need not
        be 0 for a model that was fitted without an intercept.
        """
        middle, half = self._unit
        _, weights = self._inputs.in_units()
        return middle + half * float(weights @ self.theta)

    def intervals(self, accuracy: object, beta: float = 0.05) -> dict[str, tuple[float, float]]:
        """Intervals of the table's own coefficients, in the units of the data. Free.

        Of the least squares over all coefficients, whatever set the model was sought in; all of
        them hold at once with probability 1 - beta, and with them those of `contrast`. They say
        nothing of a population that the table may be a sample of.

        Parameters
        ----------
        accuracy
            A release of second moments, as that of a squared loss by `SufficientStatistics` or
            `Moments`; or its `accuracy`, or the `CoefficientSet` of that.

        Returns
        -------
        dict of pairs
            By name, and last that of "intercept" ("(intercept)" where a feature is called that).
            From -inf to inf for a coefficient that the features do not determine, such as each of
            a `OneHot` beside an intercept: ask for a `contrast`, or drop a label. So is each where
            the noise leaves any direction open. A number that never varies is exactly 0.

        Raises
        ------
        NoBound
            If the accuracy knows of no such set.
        """
        several = np.eye(len(self._named))
        return dict(zip(self._named, self._bounds(several, accuracy, beta), strict=True))

    def contrast(
        self, weights: Mapping[str, float], accuracy: object, beta: float = 0.05
    ) -> tuple[float, float]:
        """An interval of a weighted sum of coefficients of the table, as `intervals` has them.

        Of a difference with weights 1 and -1, as in `{"sex=M": 1, "sex=F": -1}`: finite for two
        labels of one `OneHot`, though neither is determined by itself.
        """
        if not isinstance(weights, Mapping):
            raise InvalidArgument("weights", "a mapping of names to numbers", shown(weights))
        row = np.zeros((1, len(self._named)))
        for name, weight in weights.items():
            if name not in self._named:
                raise InvalidArgument("weights", "names of coefficients", shown(name))
            row[0, self._named.index(name)] = to_finite("weights", weight)
        return self._bounds(row, accuracy, beta)[0]

    @property
    def _named(self) -> list[str]:
        labels = self._inputs.labels
        return [*labels, "(intercept)" if "intercept" in labels else "intercept"]

    def _bounds(self, rows: Floats, accuracy: object, beta: float) -> list[tuple[float, float]]:
        """Of sums of coefficients and the intercept, with weights in rows."""
        known = getattr(accuracy, "accuracy", accuracy)  # of a release
        known = getattr(known, "coefficients", known)
        if not isinstance(known, LinearBounds):
            why = "the release has no set of coefficients, which follow from second moments alone"
            advice = "take SquaredLoss and PrivateMinimizer with Corrected(Moments())"
            raise NoBound(str(self), why, advice)
        factors, weights = self._inputs.in_units()
        middle, half = self._unit
        functions = np.zeros((len(factors) + 1, len(self.theta)))
        functions[: len(factors), : len(factors)] = np.diag(factors)
        functions[-1] = weights
        with np.errstate(over="ignore", invalid="ignore"):
            moved = half * rows @ functions
            sizes = np.abs(moved)
            told = ((sizes == 0.0) | ((sizes > _LEAST) & (sizes < 1.0 / _LEAST))).all(axis=1)
        moved[~told] = 0.0  # in units in which floats have no digits nothing is told
        if known.centre.shape != self.theta.shape:
            expected = "the accuracy of this model's own release"
            raise InvalidArgument("accuracy", expected, "that of another")
        widths = np.where(told, known.reach(moved, beta), np.inf)
        centre = middle * rows[:, -1] + moved @ np.nan_to_num(known.centre)
        return list(zip((centre - widths).tolist(), (centre + widths).tolist(), strict=True))

    @property
    def _unit(self) -> tuple[float, float]:
        """What a margin is in the unit of what coefficients add up to: middle + half * margin."""
        kinds = ("mean", "quantile")
        plain = self._loss.predicts in kinds and np.array_equal(
            self._loss.predict(_PROBES), _PROBES
        )
        return (self._target.middle, self._target.half) if plain else (0.0, 1.0)

    @property
    def label(self) -> str:
        """The attribute that it predicts."""
        return self._target.attribute.name

    def predict(self, columns: Mapping[str, Array | Sequence[object]] | object) -> Floats:
        """Predict the label of each row. Free, for any rows that are yours to read.

        Parameters
        ----------
        columns
            A mapping from names of attributes to arrays or lists, or a pandas, Polars or pyarrow
            table; columns that no feature depends on are not read.

        Returns
        -------
        Floats
            For each row, by the loss: the mean or quantile of the label in its own unit, where two
            labels that are no numbers count 0 and 1; the probability of the second of two labels;
            or the margin, which is positive for the second. NaN for a row of which a value is
            missing, or no label.
        """
        inside, kept = self._inputs.read(columns)
        predicted = self._loss.predict(self._inputs.margins(self.theta, kept))
        if self._loss.predicts in ("mean", "quantile"):
            predicted = self._target.unscaled(predicted)
        result = np.full(len(inside), np.nan)
        result[inside] = predicted
        return result

    def margins(self, columns: Mapping[str, Array | Sequence[object]] | object) -> Floats:
        """The intercept and what the coefficients add, of each row; NaN as in `predict`. Free.

        What `predict` gives where the loss predicts a mean or quantile by itself.
        """
        inside, kept = self._inputs.read(columns)
        middle, half = self._unit
        result = np.full(len(inside), np.nan)
        result[inside] = middle + half * self._inputs.margins(self.theta, kept)
        return result

    def extrapolates(
        self, columns: Mapping[str, Array | Sequence[object]] | object, distribution: Distribution
    ) -> Bools:
        """True for each row that is beyond all records of a distribution, in any feature. Free.

        There a prediction rests on the line alone, or on a label that was never seen: among the
        records of some weight none has that label, or as small or as large a number. Ask
        with the distribution that the model was fitted on; or, of a model that was found in a table
        itself, with any that is public. False where there is no prediction, as a value is missing.
        """
        if not isinstance(distribution, Distribution):
            raise InvalidArgument("distribution", "a distribution", shown(distribution))
        inside, codes = self._inputs.read(columns)
        beyond = np.zeros(int(inside.sum()), dtype=np.bool_)
        for attribute in self._inputs.attributes:
            if not attribute.ordered:
                weights = distribution.table((attribute.name,))[: attribute.known]
                beyond |= ~(weights > 0.0)[codes[attribute.name]]
        for one in self._inputs.coordinates:
            shape = one.values.shape[1:]
            # With their sum, which tells a label that was dropped from all others.
            numbers = np.concatenate([one.values, one.values.sum(axis=0, keepdims=True)])
            weights = distribution.table(one.names)[tuple([slice(size) for size in shape])]
            seen = numbers[:, weights > 0.0]
            low, high = seen.min(axis=1, initial=np.inf), seen.max(axis=1, initial=-np.inf)
            cells = np.ravel_multi_index(tuple([codes[name] for name in one.names]), shape)
            own = numbers.reshape(len(numbers), -1)[:, cells]
            beyond |= ((own < low[:, None]) | (own > high[:, None])).any(axis=0)
        result = np.zeros(len(inside), dtype=np.bool_)
        result[inside] = beyond
        return result

    def __repr__(self) -> str:
        count = len(self._inputs.labels)
        constant = f", intercept={self.intercept:.4g}" if self._inputs.intercept else ""
        return (
            f"Model of {self.label!r} ({count:,} coefficient{'s' if count > 1 else ''}{constant}, "
            f"excess={self.excess:.2g})"
        )


@rows_of.register
def _rows_of_model(model: Model, /) -> Rows:
    names = [*model.coefficients, "intercept"]
    values = [*model.coefficients.values(), model.intercept]
    return Rows(values, {"coefficient": Column(names, "text")})
