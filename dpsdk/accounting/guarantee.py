"""Guarantees of one run: the law of its noise, from which each composition takes its charge.

A guarantee is public. It is computed from a mechanism's parameters and the sensitivities of the
questions, never from data, and carries no neighbour relation: the shifts already are those of the
session's relation. The set of guarantees is closed, since each needs a theorem in every
composition that prices it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeAlias, TypeVar, cast

from dpsdk._checks import shown, to_integer, to_probability, whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.numbers import as_text, to_nonnegative
from dpsdk.codec import (
    AMOUNT,
    INTEGER,
    JSON,
    Codebook,
    Entry,
    ListOf,
    Member,
    Nested,
    OrNone,
    Plain,
    Recorded,
    from_plain,
    to_plain,
    written,
)
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee, WireError
from dpsdk.typing import Real

__all__ = [
    "GUARANTEE",
    "ApproximateGuarantee",
    "BoundedRangeGuarantee",
    "DiscreteGaussianGuarantee",
    "DiscreteLaplaceGuarantee",
    "Guarantee",
    "GuaranteeByPeriod",
    "PureGuarantee",
    "check_guarantee",
    "whole_of",
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


Parts: TypeAlias = tuple[tuple[int, int, Guarantee], ...]
"""Ranges of numbers of periods, both ends included, each with what is proven in its periods."""


def _parts(value: Iterable[tuple[int, int, Guarantee]]) -> Parts:
    """The parts in which something is told; neighbours that are told alike are one."""
    parts: list[tuple[int, int, Guarantee]] = []
    expected = "disjoint ranges of numbers in ascending order, each with a guarantee of one run"
    end: int | None = None
    for first, last, guarantee in value:
        low, high = to_integer("parts", first, expected), to_integer("parts", last, expected)
        if low > high or (end is not None and low <= end):
            raise InvalidArgument("parts", expected, f"{shown(low)} to {shown(high)}")
        end = high
        known = check_guarantee(_of_one_run("parts", guarantee))
        if known.free:
            continue
        if parts and parts[-1][1] == low - 1 and parts[-1][2] == known:
            low = parts.pop()[0]
        parts.append((low, high, known))
    return tuple(parts)


def _of_one_run(parameter: str, value: Guarantee) -> Guarantee:
    if not isinstance(value, Guarantee) or isinstance(value, GuaranteeByPeriod):
        raise InvalidArgument(parameter, "a guarantee for all periods alike", shown(value))
    return value


def _whole(value: Guarantee) -> Guarantee:
    return check_guarantee(_of_one_run("whole", value))


class _Changes:
    """The members of a part's written form that are not those of the whole, as an object."""

    def write(self, value: JSON, _: str, __: Codebook, /) -> Plain:
        return value

    def read(self, plain: Plain, path: str, _: Codebook, /) -> JSON:
        if type(plain) is not dict:
            raise WireError(path, "an object", shown(plain))
        return plain

    def schema(self, _: Codebook, /) -> JSON:
        return {"type": "object"}


def _by_period(whole: Guarantee, changes: tuple[tuple[int, int, JSON], ...]) -> GuaranteeByPeriod:
    """The guarantee of a written form, whose parts tell only what differs from the whole."""
    form = to_plain(whole)
    parts: list[tuple[int, int, Guarantee]] = []
    for first, last, changed in changes:
        full = changed if "kind" in changed else {**form, **changed}
        part = from_plain(Guarantee, full, "$.parts")  # type: ignore[type-abstract]  # of any class
        parts.append((first, last, part))
    guarantee = GuaranteeByPeriod(whole, tuple(parts))
    if guarantee.changes != changes:
        raise WireError("$.parts", "in the shortest form", "written otherwise")
    return guarantee


@written(
    "guarantee.by-period",
    {
        "whole": GUARANTEE,
        "parts": Member(
            ListOf(Entry(first=INTEGER, last=INTEGER, changes=_Changes())),
            of="changes",
            key="changes",
        ),
    },
    take=_by_period,
)
@frozen(cache_hash=True)
class GuaranteeByPeriod(Guarantee):
    """The guarantee of one run for tables that differ in one period of time, period by period.

    Parameters
    ----------
    whole
        What is proven for neighbours that differ in any one period. It bounds every part, and
        whatever has one price for a run takes this one.
    parts
        Disjoint ranges of numbers of periods, in ascending order and with both ends, each with what
        is proven for neighbours that differ in one of these periods. Neighbours that differ in a
        period of no part are told apart by nothing.

    Notes
    -----
    docs/explanation/proofs/periods.md has the theorem that lets each period pay for itself.
    """

    whole: Guarantee = field(converter=_whole)
    parts: Parts = field(converter=_parts)

    def __attrs_post_init__(self) -> None:
        if self.parts and self.whole.free:
            raise InvalidArgument("whole", "a bound of every part", "one that is free")

    @cached_property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # asked often
        """True if no period is touched."""
        return not self.parts

    @property
    def changes(self) -> tuple[tuple[int, int, JSON], ...]:
        """The parts, each by the members of its written form that are not those of the whole."""
        form = to_plain(self.whole)
        found: list[tuple[int, int, JSON]] = []
        for first, last, part in self.parts:
            full = to_plain(part)
            if full["kind"] == form["kind"]:
                full = {name: one for name, one in full.items() if form[name] != one}
            found.append((first, last, full))
        return tuple(found)

    def __str__(self) -> str:
        if not self.parts:
            return "nothing in any period"
        count = sum(last - first + 1 for first, last, _ in self.parts)
        periods = "1 period" if count == 1 else f"each of {count:,} periods"
        return f"{self.whole} in {periods}"


def whole_of(guarantee: Guarantee) -> Guarantee:
    """What is proven of a run for any neighbours, where it may be told period by period."""
    return guarantee.whole if isinstance(guarantee, GuaranteeByPeriod) else guarantee


_KNOWN = frozenset(
    {
        ApproximateGuarantee,
        BoundedRangeGuarantee,
        DiscreteGaussianGuarantee,
        DiscreteLaplaceGuarantee,
        GuaranteeByPeriod,
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
