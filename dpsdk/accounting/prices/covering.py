"""Runs that a paid one may stand for."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    GuaranteeByPeriod,
    PureGuarantee,
    check_guarantee,
    whole_of,
)
from dpsdk.accounting.prices.envelope import least_price, set_aside_for, widest_share
from dpsdk.accounting.prices.run import leak, pure_epsilon

__all__ = ["cover_of", "cover_rho", "covers"]


def covers(paid: Guarantee, run: Guarantee) -> bool:
    """True if a run of one guarantee may be made later, once one of another was charged.

    Which run it will be may be chosen by answers that come in between. So a discrete Gaussian does
    not cover itself: it takes one of a little more ρ. A free run needs no cover.

    docs/explanation/proofs/allowance.md has the proof, case by case.
    """
    check_guarantee(paid)
    check_guarantee(run)
    if run.free:
        return True
    if isinstance(run, GuaranteeByPeriod):
        if isinstance(paid, GuaranteeByPeriod):
            return all(_covers_range(paid, *part) for part in run.parts)
        # What was paid plainly was paid by every period that a run can touch.
        return all(covers(paid, one) for one in {run.whole, *(part for *_, part in run.parts)})
    match paid, run:
        case ((PureGuarantee() | ApproximateGuarantee()), _):
            epsilon, most = pure_epsilon(run), pure_epsilon(paid)
            return epsilon is not None and epsilon <= (most or 0) and leak(run) <= leak(paid)
        case DiscreteLaplaceGuarantee(), DiscreteLaplaceGuarantee():
            return run.scale >= paid.scale and run.shift <= paid.shift
        case DiscreteGaussianGuarantee(), DiscreteGaussianGuarantee():
            if run.rho > paid.rho or not _claims(run.claim, paid.claim):
                return False
            needed = set_aside_for(run)
            return needed is not None and needed <= least_price(paid)
        case _:
            return False


def _covers_range(paid: GuaranteeByPeriod, first: int, last: int, run: Guarantee) -> bool:
    """True if the periods of a range have paid for a run, all of them."""
    for low, high, part in paid.parts:
        if low <= first <= high:
            if not covers(part, run):
                return False
            first = high + 1
        if first > last:
            return True
    return False


def _claims(
    claim: tuple[Fraction, Fraction] | None, paid: tuple[Fraction, Fraction] | None
) -> bool:
    """True if a claim is at least as strong as one that was paid by, if any was."""
    if paid is None:
        return True
    return claim is not None and claim[0] <= paid[0] and claim[1] <= paid[1]


def cover_rho(rho: Fraction) -> Fraction:
    """The ρ to pay for a discrete Gaussian of this ρ and of 8 lattice steps or more."""
    return rho / widest_share(2 * rho)


def cover_of(run: Guarantee) -> Guarantee:
    """The guarantee to pay beforehand for a run of this one, or itself where nothing covers it.

    Discrete Gaussians of less than 8 lattice steps, and of more than some thousand entries, may not
    be covered by it. For a run told by period, every period pays as if it were the dearest.
    """
    run = whole_of(check_guarantee(run))
    if isinstance(run, BoundedRangeGuarantee):
        return PureGuarantee(run.eta)
    if isinstance(run, DiscreteGaussianGuarantee) and not run.free:
        share = run.rho / cover_rho(run.rho)
        return DiscreteGaussianGuarantee(
            run.variance * share, run.shift_squared, run.shift_max, run.claim
        )
    return run
