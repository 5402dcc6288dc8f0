"""What a model reads of a record in numbers: its feature vector, and its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting
from dpsdk._checks import described, shown
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import QueryError
from dpsdk.forms import Coordinates
from dpsdk.forms.design import check_cells, longest
from dpsdk.forms.factors import to_weights
from dpsdk.losses import Loss
from dpsdk.queries.features import (
    Feature,
    asked,
    names_of,
    natural,
    numbers_of,
    read_feature,
    scaled,
)
from dpsdk.typing import Floats, Ints

__all__ = ["Inputs", "Target"]


@frozen
class Inputs:
    """The features of a model over a domain, and the one number that scales them all.

    Parameters
    ----------
    attributes
        Those that the features depend on, in the order of the domain.
    coordinates
        The numbers of each feature.
    labels
        What each number is called.
    scale
        What feature vectors, one for an intercept included, are multiplied by, so that the longest
        of the universe has length 1.
    intercept
        Whether there is one.
    """

    attributes: tuple[Attribute, ...]
    coordinates: tuple[Coordinates, ...]
    labels: tuple[str, ...]
    scale: float
    intercept: bool

    @classmethod
    def of(cls, features: Sequence[str | Feature], domain: Domain, *, intercept: bool) -> Inputs:
        """What features are over a domain.

        Raises
        ------
        UnknownAttribute
            If the domain does not have an attribute of them.
        QueryError
            If two are the same, or one is not what a feature must be.
        TooLarge
            If they depend on more than 10^6 cells together, or have too many numbers.
        """
        found = [natural(feature, domain) for feature in features]
        check_cells([name for feature in found for name in names_of(feature)], domain)
        read = [read_feature(feature, domain) for feature in found]
        touched = {name for names, _, _ in read for name in names}
        labels = tuple([label for _, own, _ in read for label in own])
        coordinates = tuple([Coordinates(names, values) for names, _, values in read])
        _check_different(found, coordinates, labels)
        vector = [*coordinates, Coordinates((), np.ones(1))] if intercept else coordinates
        length = longest(vector)
        attributes = tuple([domain[name] for name in domain.names if name in touched])
        return cls(attributes, coordinates, labels, 1.0 / length if length else 1.0, intercept)

    @property
    def vector(self) -> tuple[Coordinates, ...]:
        """The coordinates of the scaled feature vector, that of an intercept last."""
        scaled_ones = [one.times(self.scale) for one in self.coordinates]
        return (*scaled_ones, *[Coordinates((), np.array([self.scale]))] * self.intercept)

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
    """The label of a model: an attribute, as numbers of the kind that a loss takes.

    Parameters
    ----------
    attribute
        The attribute.
    numbers
        The number of each of its labels.
    middle, half
        What is predicted in these numbers, times `half` and `middle` added, is in the unit of the
        attribute.
    """

    attribute: Attribute
    numbers: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)
    middle: float
    half: float

    @classmethod
    def of(cls, attribute: Attribute, loss: Loss) -> Target:
        """The numbers of an attribute of at most 10^6 labels.

        Raises
        ------
        QueryError
            If the attribute is no such label, or none for this loss.
        """
        return asked(loss, lambda: cls._of(attribute, loss))

    @classmethod
    def _of(cls, attribute: Attribute, loss: Loss) -> Target:
        numbers, (low, high) = numbers_of(attribute), (0.0, 1.0)
        if numbers is not None:
            low, high = attribute.bounds
        elif attribute.size == 2:
            numbers = np.array([0.0, 1.0])
        name = f"label {attribute.name!r}"
        if loss.signed and attribute.size != 2:
            reason = f"it has {attribute.size:,} labels, and {described(loss)} takes two"
            raise QueryError(name, reason)
        if numbers is None:
            reason = f"it has {attribute.size:,} labels that are no numbers; a model predicts"
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
