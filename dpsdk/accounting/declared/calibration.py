"""Finding the largest parameters with which given runs fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from dpsdk._checks import shown, to_fraction, to_integer
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.composition import Composition, State
from dpsdk.accounting.guarantee import Guarantee, PureGuarantee, whole_of
from dpsdk.accounting.numbers import largest, truncated
from dpsdk.accounting.prices.run import leak, zcdp_rho
from dpsdk.errors import InvalidArgument

_DIGITS = 12

__all__ = ["calibrate", "calibrate_within", "fits_all", "max_epsilon_for"]


def fits_all(composition: Composition, state: State, runs: Iterable[Guarantee]) -> bool:
    """True if all of the runs fit, one after the other."""
    for guarantee in runs:
        after = composition.charge(state, whole_of(guarantee))
        if after is None:
            return False
        state = after
    return True


def calibrate(
    composition: Composition, state: State, runs: Callable[[Fraction], Iterable[Guarantee]]
) -> Fraction:
    """The largest scale at which a whole list of runs fits, to nine digits and rounded down.

    `runs` gives the runs at a positive scale, in order; each must cost more at a larger scale,
    as with ``lambda x: [PureGuarantee(0.9 * x), PureGuarantee(0.1 * x)]`` in Fractions. They were
    seen to fit at what is found; that is 0 where none was. Raises `UnsupportedGuarantee` if no
    theorem prices one of them.
    """
    return largest(lambda scale: fits_all(composition, state, runs(scale)), Fraction(1))


def calibrate_within(
    composition: Composition,
    total: Budget | Fraction,
    runs: Callable[[Fraction], Iterable[Guarantee]],
) -> Fraction:
    """The largest scale at which a whole list of runs costs no more than a total of its own."""
    if isinstance(total, Budget):
        start = composition.begin(total)
        return largest(lambda scale: fits_all(composition, start, runs(scale)), total.epsilon)

    allowed = to_fraction("total", total)

    def fits(scale: Fraction) -> bool:
        made = list(runs(scale))
        return not any(map(leak, made)) and sum(map(zcdp_rho, made), Fraction(0)) <= allowed

    return largest(fits, allowed)


def max_epsilon_for(composition: Composition, state: State, count: int) -> Fraction:
    """The largest ε such that `count` runs of pure ε fit, to nine digits and rounded down.

    Raises `InvalidArgument` if the count is not a positive integer.
    """
    runs = to_integer("count", count, "a positive integer")
    if runs < 1:
        raise InvalidArgument("count", "a positive integer", shown(count))

    single = composition.largest_epsilon(state)
    if not single or runs == 1:
        return single

    def capacity(epsilon: Fraction) -> int:
        count = composition.capacity(state, PureGuarantee(epsilon))
        return runs if count is None else count

    def fits(epsilon: Fraction) -> bool:
        return capacity(epsilon) >= runs

    exact = single / runs
    if fits(exact) and not fits(exact * (1 + Fraction(1, 10**9))):
        return exact
    # So many small runs of pure ε fit as are nearly in proportion to 1/ε², so that a few steps
    # come close, and the search has little left to do.
    near = truncated(exact, _DIGITS)
    for _ in range(8):
        count = capacity(near)
        if abs(count - runs) <= 1 or not count:
            break
        near = truncated(near * Fraction(math.sqrt(Fraction(count, runs))), _DIGITS)
    step = near * max(Fraction(1, 10**9), Fraction(1, runs))
    low = near - step
    for _ in range(4):
        if low <= 0 or fits(low):
            break
        step *= 8
        low = near - step
    return largest(fits, low if low > 0 else exact, near + step)
