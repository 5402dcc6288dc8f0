"""Guarantees of one run: the law of its noise, from which each composition takes its charge.

A guarantee is public. It is computed from a mechanism's parameters and the sensitivities of the
questions, never from data, and carries no neighbour relation: the shifts already are those of the
session's relation. The set of guarantees is closed, since each needs a theorem in every
composition that prices it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeVar, cast

from dpsdk._checks import shown, to_integer, to_probability, whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.numbers import as_text, to_nonnegative
from dpsdk.codec import (
    AMOUNT,
    INTEGER,
    ListOf,
    Nested,
    OrNone,
    Recorded,
    written,
)
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = [
    "GUARANTEE",
    "ApproximateGuarantee",
    "BoundedRangeGuarantee",
    "DiscreteGaussianGuarantee",
    "DiscreteLaplaceGuarantee",
    "Guarantee",
    "PureGuarantee",
    "check_guarantee",
]


G = TypeVar("G", bound="Guarantee")


def _count(parameter: str, value: int) -> int:
    number = to_integer(parameter, value, "an integer, at least 0")
    if number < 0:
        raise InvalidArgument(parameter, "an integer, at least 0", shown(value))
    return number


def _epsilon(value: Real) -> Fraction:
    return to_nonnegative("epsilon", value)


def _delta(value: Real) -> Fraction:
    return to_probability("delta", value, zero=True)


def _eta(value: Real) -> Fraction:
    return to_nonnegative("eta", value)


def _scale(value: Real) -> Fraction:
    return to_nonnegative("scale", value)


def _variance(value: Real) -> Fraction:
    return to_nonnegative("variance", value)


def _shift(value: int) -> int:
    return _count("shift", value)


def _shift_squared(value: int) -> int:
    return _count("shift_squared", value)


def _shift_max(value: int) -> int:
    return _count("shift_max", value)


def _claim(value: tuple[Real, Real] | None) -> tuple[Fraction, Fraction] | None:
    if value is None:
        return None
    epsilon, delta = value
    return to_nonnegative("claim", epsilon), to_probability("claim", delta, zero=True)


class Guarantee(Recorded, ABC):
    """The guarantee of one run, for every pair of neighbours and whatever came before it."""

    __slots__ = ()

    @property
    @abstractmethod
    def free(self) -> bool:
        """True if the run tells nothing about the data, so that it costs nothing."""


GUARANTEE = Nested[Guarantee]("a guarantee", Guarantee)
"""A guarantee of any kind, as a member of written forms."""


@written("guarantee.pure", {"epsilon": AMOUNT})
@frozen(cache_hash=True)
class PureGuarantee(Guarantee):
    """Pure ε-differential privacy, whatever the mechanism.

    Parameters
    ----------
    epsilon
        At least 0: no event is more than exp(epsilon) times as likely on a neighbour.
    """

    epsilon: Fraction = field(converter=_epsilon, repr=whole_repr)

    @cached_property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asked often
        """True if epsilon is 0."""
        return not self.epsilon

    def __str__(self) -> str:
        return f"{as_text(self.epsilon, up=True)}-DP"


@written("guarantee.discrete-laplace", {"scale": AMOUNT, "shift": INTEGER})
@frozen(cache_hash=True)
class DiscreteLaplaceGuarantee(Guarantee):
    """Independent discrete Laplace noise on every entry of an integer vector.

    The noise takes the value z with probability proportional to exp(-abs(z) / scale).

    Parameters
    ----------
    scale
        In lattice steps; 0 (no noise) only where the shift is 0.
    shift
        The largest L1 distance between the vectors of two neighbours, in lattice steps.

    Notes
    -----
    Pure differential privacy with ε = shift / scale, by the triangle inequality in the exponent.
    """

    scale: Fraction = field(converter=_scale, repr=whole_repr)
    shift: int = field(converter=_shift)

    def __attrs_post_init__(self) -> None:
        if self.shift and not self.scale:
            raise InvalidArgument("scale", "positive where the shift is not 0", "0")

    @property
    def epsilon(self) -> Fraction:
        """The pure ε, shift / scale."""
        return self.shift / self.scale if self.shift else Fraction(0)

    @cached_property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asked often
        """True if neighbours have the same vector."""
        return not self.shift

    def __str__(self) -> str:
        return f"{as_text(self.epsilon, up=True)}-DP, discrete Laplace"


@written(
    "guarantee.discrete-gaussian",
    {
        "variance": AMOUNT,
        "shift_squared": INTEGER,
        "shift_max": INTEGER,
        "claim": OrNone(ListOf(AMOUNT, least=2, most=2)),
    },
)
@frozen(cache_hash=True)
class DiscreteGaussianGuarantee(Guarantee):
    """Independent discrete Gaussian noise on every entry of an integer vector.

    The noise takes the value z with probability proportional to exp(-z² / (2 variance)).

    Parameters
    ----------
    variance
        The parameter of the law, in squared lattice steps; 0 only where the shift is 0.
    shift_squared
        The largest squared L2 distance between the vectors of two neighbours.
    shift_max
        The largest distance between them in one entry.
    claim
        A pair (ε, δ) that is proven for this run, for compositions that add up such pairs. Not
        checked here: `GaussianNoise` checks the claims of mechanisms, and `gaussian_claim` makes
        true ones.

    Notes
    -----
    ρ-zCDP with ρ = shift_squared / (2 variance) (Canonne, Kamath and Steinke 2020, Theorem 14).
    """

    variance: Fraction = field(converter=_variance, repr=whole_repr)
    shift_squared: int = field(converter=_shift_squared)
    shift_max: int = field(converter=_shift_max)
    claim: tuple[Fraction, Fraction] | None = field(default=None, converter=_claim, repr=whole_repr)

    def __attrs_post_init__(self) -> None:
        if self.shift_squared and not self.variance:
            raise InvalidArgument("variance", "positive where the shift is not 0", "0")
        if not self.shift_max**2 <= self.shift_squared or (
            self.shift_squared and not self.shift_max
        ):
            expected = f"positive and at most the root of shift_squared = {self.shift_squared}"
            raise InvalidArgument("shift_max", expected, shown(self.shift_max))

    @property
    def rho(self) -> Fraction:
        """The ρ of zero-concentrated differential privacy, shift_squared / (2 variance)."""
        return self.shift_squared / (2 * self.variance) if self.shift_squared else Fraction(0)

    @cached_property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asked often
        """True if neighbours have the same vector."""
        return not self.shift_squared

    def __str__(self) -> str:
        return f"{as_text(self.rho, up=True)}-zCDP, discrete Gaussian"


@written("guarantee.bounded-range", {"eta": AMOUNT})
@frozen(cache_hash=True)
class BoundedRangeGuarantee(Guarantee):
    """Privacy losses of any two outcomes differ by at most `eta`: the exponential mechanism.

    Parameters
    ----------
    eta
        At least 0. An exponential mechanism that weighs by exp(eta · score / (2 sensitivity)) has
        it, and hence pure ε = eta (Dong, Durfee and Rogers 2020).

    Notes
    -----
    For each pair of neighbours there is one t with all losses in [t - eta, t], as for every run
    that answers once. An interactive run has this guarantee only if one t serves all that it may be
    asked; compositions rely on that where runs interleave.
    """

    eta: Fraction = field(converter=_eta, repr=whole_repr)

    @cached_property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asked often
        """True if eta is 0."""
        return not self.eta

    def __str__(self) -> str:
        return f"{as_text(self.eta, up=True)}-DP, bounded range"


@written("guarantee.approximate", {"epsilon": AMOUNT, "delta": AMOUNT})
@frozen(cache_hash=True)
class ApproximateGuarantee(Guarantee):
    """(ε, δ)-differential privacy, whatever the mechanism.

    Parameters
    ----------
    epsilon
        At least 0.
    delta
        In [0, 1).

    Notes
    -----
    Such a run behaves as randomised response at ε that, with probability δ, tells everything
    (Kairouz, Oh and Viswanath 2015); so compositions charge ε as for a pure run, and δ as a leak.
    """

    epsilon: Fraction = field(converter=_epsilon, repr=whole_repr)
    delta: Fraction = field(converter=_delta, repr=whole_repr)

    @cached_property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asked often
        """True if epsilon and delta are 0."""
        return not self.epsilon and not self.delta

    def __str__(self) -> str:
        return f"({as_text(self.epsilon, up=True)}, {as_text(self.delta, up=True)})-DP"


_KNOWN = frozenset(
    {
        ApproximateGuarantee,
        BoundedRangeGuarantee,
        DiscreteGaussianGuarantee,
        DiscreteLaplaceGuarantee,
        PureGuarantee,
    }
)


@lru_cache(4096)
def _first_equal(guarantee: Guarantee) -> Guarantee:
    return guarantee


def check_guarantee(guarantee: G) -> G:
    """Give a guarantee back, or the equal one that came first, whose prices are found sooner.

    Raises `UnsupportedGuarantee` for any class that no theorem speaks of, also one below a known
    one.
    """
    if type(guarantee) not in _KNOWN:
        name = type(guarantee).__name__
        raise UnsupportedGuarantee(name, "accounting", "no theorem speaks of this class")
    return cast("G", _first_equal(guarantee))
