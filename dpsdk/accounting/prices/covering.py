"""Which runs a paid one may stand for."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.accounting.copies import checked_copy
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
)
from dpsdk.accounting.prices.run import leak, pure_epsilon

__all__ = ["covers"]


def covers(paid: Guarantee, run: Guarantee) -> bool:
    """Whether every run of one guarantee may be charged as one of another.

    Then it has whatever any composition of the package concludes from the paid guarantee, so that
    charging the paid one was enough in every state. A free run needs no cover.

    Parameters
    ----------
    paid
        What was charged.
    run
        What is proven of the run.

    Raises
    ------
    UnsupportedGuarantee
        If one is of a class that no theorem speaks of.

    Notes
    -----
    docs/explanation/proofs/allowance.md has the proof, case by case.
    """
    paid, run = checked_copy(paid), checked_copy(run)
    if paid == run or run.free:
        return True
    match paid, run:
        case ((PureGuarantee() | ApproximateGuarantee()), _):
            epsilon, most = pure_epsilon(run), pure_epsilon(paid)
            return epsilon is not None and epsilon <= (most or 0) and leak(run) <= leak(paid)
        case DiscreteLaplaceGuarantee(), DiscreteLaplaceGuarantee():
            return run.scale >= paid.scale and run.shift <= paid.shift
        case BoundedRangeGuarantee(), BoundedRangeGuarantee():
            return run.eta <= paid.eta
        case DiscreteGaussianGuarantee(), DiscreteGaussianGuarantee():
            narrower = run.rho <= paid.rho and run.variance >= paid.variance
            return narrower and _claims(run.claim, paid.claim)
        case _:
            return False


def _claims(
    claim: tuple[Fraction, Fraction] | None, paid: tuple[Fraction, Fraction] | None
) -> bool:
    """Whether a claim is at least as strong as one that was paid by, if any was."""
    if paid is None:
        return True
    return claim is not None and claim[0] <= paid[0] and claim[1] <= paid[1]
