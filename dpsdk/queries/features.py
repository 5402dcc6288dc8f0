"""Features: the numbers that a model makes of the public attributes of a record."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar, cast

import numpy as np

from dpsdk._checks import described, shown, to_array, to_name
from dpsdk._records import field, frozen
from dpsdk.codec import NAME, Both, ListOf, Member, Nested, written
from dpsdk.domain import Attribute, Binned, Date, Domain, Integer, Number
from dpsdk.errors import DpsdkError, InvalidArgument, QueryError, TooLarge, UnknownLabel
from dpsdk.queries.base import to_attribute
from dpsdk.queries.conditions import index_of, to_label
from dpsdk.queries.linear import to_names
from dpsdk.queries.order import middles_of
from dpsdk.queries.written import LABEL
from dpsdk.typing import Array, Floats, Label

__all__ = [
    "Cross",
    "Feature",
    "OneHot",
    "Scaled",
    "asked",
    "names_of",
    "natural",
    "numbers_of",
    "read_feature",
    "read_units",
    "scaled",
    "show_feature",
    "to_feature",
]

T = TypeVar("T")

_NUMBERS_LIMIT = 2**22
"""No feature has more numbers in all, over the cells of its attributes: 32 MiB."""

_CROSSED = 20
"""So many attributes of two labels have as many cells as a model may touch."""

_LARGEST = 2.0**100
"""Squares of smaller numbers can be added up."""


class Feature(ABC):
    """A few numbers that are a public function of some attributes of a record.

    A subclass is a frozen value with `names`, `labels` and `values`. It sees the domain alone, and
    what it says is checked before a table is asked anything.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The attributes that it depends on, distinct."""

    @abstractmethod
    def labels(self, domain: Domain, /) -> Sequence[str]:
        """The names of its numbers, as coefficients of a model have them."""

    @abstractmethod
    def values(self, domain: Domain, /) -> Array:
        """Its numbers on the labels of its attributes, finite.

        One axis for its numbers, as many as there are of `labels`, and one for each of `names`, as
        long as the attribute's `known`: a row without a label of any of these plays no part.
        """

    def units(self, domain: Domain, /) -> Array:
        """What its numbers are in the units of the data: value = middle + half * number.

        For each of `labels` two numbers, its middle and its positive half. By default 0 and 1: then
        a coefficient is per one of its numbers.
        """
        return np.tile([0.0, 1.0], (len(self.labels(domain)), 1))


FEATURE = Both(NAME, Nested[Feature]("a feature", Feature))
"""A feature, or the name of an attribute, as a member of written forms."""


@frozen(repr=False)
class _OfOne(Feature):
    attribute: str = field(converter=to_attribute)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.attribute,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.attribute)})"


def _to_drop(value: Label | None) -> Label | None:
    return None if value is None else to_label("drop", value)


def _key(label: Label | None) -> object:
    return type(label), label  # 1 and True are labels of their own


@written("feature.one-hot", {"attribute": NAME, "drop": Member(LABEL, None, quiet=True)})
@frozen(repr=False)
class OneHot(_OfOne):
    """For each label of an attribute, 1 where a record has it and 0 where it has not.

    The natural feature of a `Categorical` or `Boolean` attribute. Bins and integers may be taken
    for labels too.

    Parameters
    ----------
    drop
        A label that has no number, or "first" for the first one where no label is called that.
        Coefficients of the others then say how they differ from this one. Without it, and beside an
        intercept, only their differences have a meaning.

    >>> from dpsdk.queries import OneHot
    >>> OneHot("sex"), OneHot("sex", drop="first")
    (OneHot('sex'), OneHot('sex', drop='first'))
    """

    drop: Label | None = field(default=None, converter=_to_drop, eq=_key, kw_only=True)

    def labels(self, domain: Domain, /) -> list[str]:
        attribute = domain[self.attribute]
        _check_numbers(self, attribute.known**2)
        kept = self._kept(attribute)
        texts = [attribute.text(code) for code in kept]
        if len(set(texts)) < len(texts):  # edges of bins that differ in late digits
            texts = [repr(attribute.label(code)) for code in kept]
        return [f"{attribute.name}={text}" for text in texts]

    def values(self, domain: Domain, /) -> Floats:
        attribute = domain[self.attribute]
        _check_numbers(self, attribute.known**2)
        return np.eye(attribute.known)[self._kept(attribute)]

    def _kept(self, attribute: Attribute) -> list[int]:
        """The labels that have a number."""
        left = None if self.drop is None else self._reference(attribute)
        kept = [code for code in range(attribute.known) if code != left]
        if not kept or (left is not None and left >= attribute.known):
            reason = f"attribute {attribute.name!r} must have the label to drop, and another one"
            raise QueryError(str(self), reason)
        return kept

    def _reference(self, attribute: Attribute) -> int:
        try:
            return index_of(attribute, cast("Label", self.drop))
        except UnknownLabel:
            if self.drop != "first":
                raise
            return 0

    def __repr__(self) -> str:
        drop = "" if self.drop is None else f", drop={shown(self.drop)}"
        return f"OneHot({shown(self.attribute)}{drop})"


@written("feature.scaled", {"attribute": NAME})
@frozen(repr=False)
class Scaled(_OfOne):
    """An ordered attribute as one number, from -1 at its lower bound to 1 at its upper bound.

    The natural feature of an `Integer`, `Binned`, `Number` or `Date` attribute. A bin stands for
    the middle between its edges; days, weeks, months and hours are counted, each as much as any
    other. An attribute of one value only is 0. Coefficients of models are in its own unit: per year
    of age, or per day since the first, which counts 0.

    >>> from dpsdk.queries import Scaled
    >>> Scaled("age")
    Scaled('age')
    """

    def labels(self, domain: Domain, /) -> list[str]:
        return [domain[self.attribute].name]

    def values(self, domain: Domain, /) -> Floats:
        attribute = domain[self.attribute]
        _check_numbers(self, attribute.known)
        if isinstance(attribute, Date):
            units = np.arange(attribute.known, dtype=np.float64)
            return scaled(units, 0.0, attribute.known - 1.0)[None, :]
        numbers = numbers_of(attribute)
        if numbers is None:
            reason = f"attribute {attribute.name!r} is not numeric, so it cannot be scaled"
            raise QueryError(str(self), f"{reason}; take OneHot")
        low, high = attribute.bounds
        return scaled(numbers, low, high)[None, :]

    def units(self, domain: Domain, /) -> Floats:
        attribute = domain[self.attribute]
        dates = isinstance(attribute, Date)
        low, high = (0.0, attribute.known - 1.0) if dates else attribute.bounds
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        return np.array([[middle, half if half > 0 else 1.0]])


def scaled(numbers: Floats, low: float, high: float) -> Floats:
    """Numbers from low to high as numbers from -1 to 1; zeros where there is no way between."""
    # Halves first: the difference of two floats may be infinite.
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    if not half > 0:
        return np.zeros(len(numbers))
    return np.asarray(np.clip((numbers - middle) / half, -1.0, 1.0))


def _parts(values: tuple[str | Feature, ...]) -> tuple[str | Feature, ...]:
    parts = tuple(to_feature("parts", value) for value in values)
    names = [name for part in parts for name in names_of(part)]
    if len(parts) < 2 or len(set(names)) != len(names) or len(names) > _CROSSED:
        expected = f"two or more features of different attributes, {_CROSSED} at the most"
        raise InvalidArgument("parts", expected, shown(values))
    return parts


def _crossed(parts: Sequence[str | Feature]) -> Cross:
    return Cross(*parts)


@written(
    "feature.cross",
    {"parts": ListOf(FEATURE, least=2, most=20)},
    take=_crossed,
)
@frozen(init=False, repr=False)
class Cross(Feature):
    """The products of the numbers of several features: what they mean together.

    Of one-hot features these are one-hot for the combinations of their labels; of a one-hot and a
    scaled feature, a slope for each label. In the units of the data they are products, too, of
    parts that are counted from their middles: of sex=F and (age - 50) where ages go up to 100.

    Parameters
    ----------
    parts
        Two or more features of different attributes; the name of an attribute stands for its
        natural feature, `Scaled` or `OneHot`.

    >>> from dpsdk.queries import Cross, Scaled
    >>> Cross("sex", Scaled("age"))
    Cross('sex', Scaled('age'))
    """

    parts: tuple[str | Feature, ...]

    def __init__(self, *parts: str | Feature) -> None:
        # The parts arrive as positional arguments, so the frozen field is set by hand.
        object.__setattr__(self, "parts", _parts(parts))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in names_of(part))

    def labels(self, domain: Domain, /) -> list[str]:
        found = [natural(part, domain).labels(domain) for part in self.parts]
        _check_numbers(self, math.prod(map(len, found)))
        return [" * ".join(texts) for texts in product(*found)]

    def values(self, domain: Domain, /) -> Floats:
        result = np.ones((1,))
        needed = 1
        for part in self.parts:
            one = read_feature(natural(part, domain), domain)[2]
            needed *= one.size
            _check_numbers(self, needed)
            # Widths come first, then the axes of the cells so far, then those of this part.
            joint = np.multiply.outer(result, one)
            joint = np.moveaxis(joint, result.ndim, 1)
            result = joint.reshape(len(result) * len(one), *result.shape[1:], *one.shape[1:])
        return result

    def units(self, domain: Domain, /) -> Floats:
        halves = np.ones(1)
        for part in self.parts:
            own = natural(part, domain)
            units = read_units(own, domain, len(own.labels(domain)))
            halves = np.multiply.outer(halves, units[:, 1]).reshape(-1)
        return np.stack([np.zeros(len(halves)), halves], axis=1)

    def __repr__(self) -> str:
        return f"Cross({', '.join(map(show_feature, self.parts))})"


def show_feature(part: str | Feature) -> str:
    """A feature as it is written in a call."""
    return shown(part) if isinstance(part, str) else described(part)


def asked(owner: object, read: Callable[[], T]) -> T:
    """Read something public off a value of another author's class."""
    try:
        return read()
    except DpsdkError:
        raise
    except Exception as error:
        raise QueryError(shown(owner), f"its class raised {type(error).__name__}") from error


def names_of(part: str | Feature) -> tuple[str, ...]:
    """The attributes that a feature depends on."""
    return (part,) if isinstance(part, str) else asked(part, lambda: to_names(part.names))


def to_feature(parameter: str, value: str | Feature) -> str | Feature:
    """Read a feature, or the name of the attribute whose natural feature is meant."""
    if isinstance(value, Feature):
        return value
    if isinstance(value, str):
        return to_name(parameter, value)
    expected = "a feature, such as OneHot('sex') or Scaled('age'), or the name of an attribute"
    raise InvalidArgument(parameter, expected, shown(value))


def natural(part: str | Feature, domain: Domain) -> Feature:
    """The feature that a name stands for over a domain; any other as it is."""
    if isinstance(part, Feature):
        return part
    ordered = isinstance(domain[part], Integer | Binned | Number | Date)
    return Scaled(part) if ordered else OneHot(part)


def numbers_of(attribute: Attribute) -> Floats | None:
    """The number that each label of a numeric attribute stands for; None for other attributes."""
    if isinstance(attribute, Integer):
        return np.array(range(attribute.low, attribute.high + 1), dtype=np.float64)
    if isinstance(attribute, Binned):
        return middles_of(attribute)
    if isinstance(attribute, Number):
        steps = np.arange(attribute.known) + float(attribute.start)
        return steps * attribute.step.numerator / attribute.step.denominator
    return None


def read_feature(
    feature: Feature, domain: Domain
) -> tuple[tuple[str, ...], tuple[str, ...], Floats]:
    """The names, labels and values of a feature over a domain, checked."""
    return asked(feature, lambda: _read(feature, domain))


def _read(feature: Feature, domain: Domain) -> tuple[tuple[str, ...], tuple[str, ...], Floats]:
    names = names_of(feature)
    shape = tuple([domain[name].known for name in names])
    _check_numbers(feature, math.prod(shape))
    labels = tuple([str.__str__(label) for label in feature.labels(domain)])
    expected = f"finite numbers of shape {(len(labels), *shape)}"
    values = to_array(described(feature), feature.values(domain), expected)
    if not labels or values.shape != (len(labels), *shape):
        reason = f"a feature must have {expected}, and this one has shape {values.shape}"
        raise QueryError(described(feature), reason)
    if not np.abs(values).max() < _LARGEST:  # nor NaN
        raise QueryError(described(feature), "a feature must have finite numbers below 2^100")
    return names, labels, values


def read_units(feature: Feature, domain: Domain, count: int) -> Floats:
    """The middle and the half of each number of a feature, checked."""
    expected = f"a middle and a positive half for each of its {count:,} numbers, all finite"

    def read() -> Floats:
        units = to_array(described(feature), feature.units(domain), expected)
        if units.shape != (count, 2) or not np.isfinite(units).all() or not (units[:, 1] > 0).all():
            raise QueryError(described(feature), f"its units must be {expected}")
        return units

    return asked(feature, read)


def _check_numbers(feature: Feature, needed: int) -> None:
    if needed > _NUMBERS_LIMIT:
        advice = "take Scaled in its place, or declare coarser labels"
        raise TooLarge(described(feature), needed, _NUMBERS_LIMIT, "numbers", advice)
