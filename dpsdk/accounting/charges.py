"""What one run costs, in rationals: as pure ε, as ρ of zCDP, and as a leak.

docs/explanation/proofs/composition-zcdp.md holds the proofs.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpsdk.accounting.directed import DOWN, UP, exp_up, fraction_up, ln_down
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
)
from dpsdk.accounting.remembered import remembered
from dpsdk.errors import UnsupportedGuarantee

__all__ = ["bounded_range_rho", "leak", "pure_epsilon", "pure_rho", "zcdp_rho"]

_DEPTH = 12
_NARROW = Fraction(1, 10**15)
_PROVEN = Fraction("4.7")


@remembered
def pure_epsilon(guarantee: Guarantee) -> Fraction | None:
    """The pure ε of a run once its leak is set aside; None where it has none, as a Gaussian."""
    match guarantee:
        case PureGuarantee() | DiscreteLaplaceGuarantee() | ApproximateGuarantee():
            return guarantee.epsilon
        case BoundedRangeGuarantee():
            return guarantee.eta
        case _:
            return Fraction(0) if guarantee.free else None


@remembered
def leak(guarantee: Guarantee) -> Fraction:
    """The probability with which a run may tell everything: 0 but for (ε, δ) guarantees."""
    return guarantee.delta if isinstance(guarantee, ApproximateGuarantee) else Fraction(0)


@remembered
def zcdp_rho(guarantee: Guarantee) -> Fraction:
    """An upper bound of the ρ of zCDP of a run, once its leak is set aside.

    Raises
    ------
    UnsupportedGuarantee
        If no theorem gives one.
    """
    match guarantee:
        case DiscreteGaussianGuarantee():
            return guarantee.rho
        case BoundedRangeGuarantee():
            return bounded_range_rho(guarantee.eta)
        case _:
            epsilon = pure_epsilon(guarantee)
            if epsilon is None:
                reason = "no theorem gives its rho"
                raise UnsupportedGuarantee(str(guarantee), "zCDP composition", reason)
            return pure_rho(epsilon)


def pure_rho(epsilon: Fraction) -> Fraction:
    """An upper bound of ε tanh(ε/2), the smallest ρ of every ε-DP run.

    Notes
    -----
    Let A_n(x) be the sum over j of x^(2j) / ((2j)!! (2n+2j-1)!!). Then A_0 = cosh x and
    x A_1 = sinh x, and comparing powers gives A_n = (2n+1) A_(n+1) + x² A_(n+2). So the ratios
    q_n = A_n / A_(n+1) are positive for x > 0, with tanh x = x / q_0 and
    q_n = 2n+1 + x² / q_(n+1), which is Lambert's continued fraction. Putting the lower bound 2n+1
    for q_n makes q_(n-1) an upper bound, q_(n-2) a lower one, and so on; from an even n, q_0 comes
    out too small and tanh x too large. Beyond its reach tanh < 1 is the better bound.
    """
    square = epsilon * epsilon / 4
    q = Fraction(4 * _DEPTH + 1)
    for n in range(2 * _DEPTH - 1, -1, -1):
        q = 2 * n + 1 + square / q
    return min(2 * square / q, epsilon)


def bounded_range_rho(eta: Fraction) -> Fraction:
    """An upper bound of the ρ of η-bounded range, the smallest for η up to 4.7.

    Notes
    -----
    x - 1 - ln x at x = η / (e^η - 1) is the divergence at the order 1 (Dong, Durfee and Rogers
    2020); that it is the worst of all orders is proven up to η = 4.7, in
    docs/explanation/proofs/composition-zcdp.md. It falls as x grows to 1, so a lower bound of x
    gives an upper bound of it. Larger and very small η take η²/8 (Cesar and Rogers 2021) or the
    pure bound.
    """
    cap = min(eta * eta / 8, pure_rho(eta))
    if not _NARROW < eta <= _PROVEN:
        return cap
    x = DOWN.divide(fraction_up(eta), UP.subtract(exp_up(fraction_up(eta)), 1))
    return min(cap, Fraction(UP.subtract(UP.subtract(x, Decimal(1)), ln_down(x))))
