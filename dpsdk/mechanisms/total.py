"""The noise of mechanisms that measure once for a total: an ε, an (ε, δ), or a ρ."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._checks import to_amount, to_delta
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise
from dpsdk.typing import Real

__all__ = ["check_total", "noise_for", "to_epsilon", "to_rho", "to_zero_delta", "total_in_words"]


def to_epsilon(value: Real | None) -> Fraction | None:
    """Read an `epsilon=` that may be left out."""
    return None if value is None else to_amount("epsilon", value)


def to_rho(value: Real | None) -> Fraction | None:
    """Read a `rho=` that may be left out."""
    return None if value is None else to_amount("rho", value)


def to_zero_delta(value: Real) -> Fraction:
    """Read a `delta=` that may be zero."""
    return to_delta(value, zero=True)


def check_total(
    mechanism: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> None:
    """Refuse a total that is not given as ε, as ε and δ, or as ρ alone.

    Raises
    ------
    InvalidArgument
        If it is not; it names the mechanism.
    """
    if (epsilon is None) == (rho is None) or (rho is not None and delta):
        given = {"epsilon": epsilon, "delta": delta or None, "rho": rho}
        names = [name for name, value in given.items() if value is not None]
        expected = "given as epsilon, as epsilon and delta, or as rho alone"
        raise InvalidArgument(mechanism, expected, ", ".join(names) or "nothing")


def noise_for(
    mechanism: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> Noise:
    """Laplace noise for a pure ε, Gaussian noise for an (ε, δ) or a ρ.

    Raises
    ------
    InvalidArgument
        If the total is not given in one of these ways, or no ρ implies the (ε, δ).
    """
    check_total(mechanism, epsilon, delta, rho)
    if rho is not None:
        return GaussianNoise(rho)
    whole = epsilon or Fraction(0)
    if not delta:
        return LaplaceNoise(whole)
    certified = claim_rho(whole, delta)
    if not certified:
        expected = "large enough that some rho implies this guarantee"
        got = f"epsilon={float(whole):g}, delta={float(delta):g}"
        raise InvalidArgument("epsilon and delta", expected, got)
    return GaussianNoise(certified, (whole, delta))


def total_in_words(epsilon: Fraction | None, delta: Fraction, rho: Fraction | None) -> str:
    """The arguments of a total, as they are written."""
    if rho is not None:
        return f"rho={float(rho):g}"
    shown = f"epsilon={float(epsilon or 0):g}"
    return f"{shown}, delta={float(delta):g}" if delta else shown
