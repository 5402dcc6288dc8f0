"""The (ε, δ) of one discrete Gaussian run: how much ρ a pair allows, and whether a claim holds."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee
from dpsdk.accounting.numbers import truncated
from dpsdk.accounting.prices.conversion import zcdp_epsilon, zcdp_start
from dpsdk.accounting.prices.envelope import gaussian_envelope, widest_share
from dpsdk.accounting.prices.gdp import gdp_start
from dpsdk.errors import UnsupportedGuarantee

__all__ = ["claim_holds", "claim_rho"]

_KEPT = Fraction(99, 100)
"""Of δ: so that one run may ask for the whole (ε, δ) of a session by default."""


def claim_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ that is certified to be (ε, δ)-DP, for noise of 8 lattice steps or more.

    The larger of what the conversion of Canonne, Kamath and Steinke (2020) allows, and nearly the
    analytic Gaussian's (Balle and Wang 2018), by the envelope of discrete Gaussians; proven in
    docs/explanation/proofs/composition-envelope.md.
    """
    square = gdp_start(epsilon, delta * _KEPT)
    return max(zcdp_start(epsilon, delta), truncated(widest_share(square) * square / 2))


@lru_cache(4096)
def claim_holds(guarantee: DiscreteGaussianGuarantee) -> bool:
    """True if the run is proven to have the (ε, δ) that it claims; False where it claims none."""
    if guarantee.claim is None:
        return False
    epsilon, delta = guarantee.claim
    if not delta:
        return guarantee.free
    if zcdp_epsilon(guarantee.rho, delta) <= epsilon or guarantee.rho <= zcdp_start(epsilon, delta):
        return True
    try:
        return gaussian_envelope([(guarantee, 1)]) <= gdp_start(epsilon, delta)
    except UnsupportedGuarantee:
        return False
