"""The cost of runs that are all fixed beforehand: sharper than a filter, and no filter.

Stopping early is fine; choosing a later run, or its parameters, by earlier answers is not, and a
`Declared` is therefore no `Composition`. docs/explanation/proofs/composition-declared.md has the
theorems.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import numpy as np

from dpsdk._checks import shown, to_integer, to_positive, to_probability
from dpsdk._records import field, frozen
from dpsdk.accounting.guarantee import Guarantee, check_guarantee, whole_of
from dpsdk.accounting.numbers import (
    LEAK_STEPS,
    UP,
    float_up,
    fraction_down,
    fraction_up,
    from_steps,
    ln_down,
    ln_up,
    to_nonnegative,
)
from dpsdk.accounting.prices.conversion import zcdp_epsilon
from dpsdk.accounting.prices.run import prices_of, pure_epsilon
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Floats, Real

__all__ = ["Declared", "advanced_epsilon", "declare", "heterogeneous_epsilon", "optimal_epsilon"]

Form = Literal["loose", "middle", "tight"]

_LOOSE_LIMIT = Fraction("1.2564")
"""e^x - 1 ≤ 2x holds up to x = 1.25643..."""

_SLACK = 1.0 + 1e-12
"""Covers the rounding of the few float operations of a closed form."""

_LOG_SLACK = 4e-15
"""Covers, times the number of runs, the rounding of a logarithm of δ: 36 units a run."""

_TINY = 1e-290
"""Below this, products of floats lose digits."""

_HUGE = 1e300

_E_UP = Decimal("2.7182818284590452354")
"""Above Euler's number."""

_OPTIMAL_LIMIT = 10**7

_EXACT_BITS = 2**16
"""A power of up to so many bits is worked out exactly."""


def _count(value: int) -> int:
    count = to_integer("count", value, "a positive integer")
    if count < 1:
        raise InvalidArgument("count", "a positive integer", shown(value))
    return count


def advanced_epsilon(epsilon: Real, count: int, delta: Real, form: Form = "tight") -> float:
    """The ε of `count` runs of pure ε by advanced composition.

    √(2 T ln(1/δ)) ε plus 2 T ε² (loose), T ε (e^ε - 1) (middle) or T ε tanh(ε/2) (tight).

    ε is positive, and at most 1.2564 in the loose form, which is false beyond; the number of runs
    T is fixed beforehand; δ is strictly between 0 and 1, and leaks of the runs come on top.
    `InvalidArgument` names the parameter that is out of range.

    Notes
    -----
    Dwork, Rothblum and Vadhan (2010); the tight form by Kairouz, Oh and Viswanath (2015).
    """
    size, runs = to_positive("epsilon", epsilon), float_up(Decimal(_count(count)))
    log = _log_inverse(_open(delta))
    each = float_up(fraction_up(size))
    if form == "loose":
        if size > _LOOSE_LIMIT:
            raise InvalidArgument("epsilon", "at most 1.2564 in the loose form", shown(epsilon))
        mean = 2.0 * each
    elif form == "middle":
        mean = math.expm1(each) if each < 700.0 else math.inf
    elif form == "tight":
        mean = math.tanh(each / 2.0)
    else:
        raise InvalidArgument("form", "loose, middle or tight", shown(form))
    return _above(math.sqrt(2.0 * runs * log) * each + runs * each * mean)


def _open(delta: Real) -> Fraction:
    return to_probability("delta", delta)


def _log_inverse(delta: Fraction) -> float:
    """ln(1/δ), rounded up: also where the float of δ would be 0 or 1."""
    return float_up(ln_up(fraction_up(1 / delta)))


def _above(value: float) -> float:
    return math.nextafter(value * _SLACK, math.inf)


def heterogeneous_epsilon(epsilons: Iterable[Real], delta: Real) -> float:
    """The ε of runs of different pure ε by the heterogeneous theorem.

    With S the sum of ε tanh(ε/2) and W the sum of ε², the least of the sum of ε,
    S + √(2 W ln(e + √W/δ)) and S + √(2 W ln(1/δ)).

    The runs are all fixed beforehand, none negative; δ is strictly between 0 and 1, and leaks
    of the runs come on top. `InvalidArgument` names the parameter that is out of range.

    Notes
    -----
    Kairouz, Oh and Viswanath (2015), Theorem 3.5.
    """
    allowed = _open(delta)
    expected = "finite numbers, at least 0"
    sizes = [(to_nonnegative("epsilons", value, expected), 1) for value in epsilons]
    return _heterogeneous(sizes, allowed)


def _heterogeneous(runs: Iterable[tuple[Fraction, int]], allowed: Fraction) -> float:
    sizes = [(float_up(fraction_up(size)), float_up(Decimal(count))) for size, count in runs]
    if sum(size * count for size, count in sizes) >= _HUGE:
        return math.inf  # where sums and squares overflow
    total = math.fsum(size * count for size, count in sizes) * _SLACK
    if not 0.0 < total < math.inf:
        return total
    mean = math.fsum(size * count * math.tanh(size / 2.0) for size, count in sizes)
    # The root of W, which does not underflow where the squares would.
    root = math.hypot(*(size * math.sqrt(count) for size, count in sizes))
    ratio = UP.divide(Decimal(root), fraction_down(allowed))
    mixed = mean + root * math.sqrt(2.0 * float_up(ln_up(UP.add(_E_UP, ratio))))
    tail = mean + root * math.sqrt(2.0 * _log_inverse(allowed))
    return min(total, _above(mixed), _above(tail))


def _losses(each: float, count: int) -> tuple[Floats, Floats]:
    """The positive losses of `count` randomised responses, falling, and their log-probabilities."""
    flips = np.arange((count + 1) // 2, dtype=np.float64)
    ratios = np.log((count - flips[:-1]) / flips[1:])
    sums = np.cumsum(ratios)
    # What each addition rounded off, exactly, so that errors do not add up with the sums.
    before = np.concatenate(([0.0], sums))[:-1]
    added = sums - before
    sums += np.cumsum((before - (sums - added)) + (ratios - added))
    choices = np.concatenate(([0.0], sums))
    return (count - 2.0 * flips) * each, choices - flips * each - count * math.log1p(
        math.exp(-each)
    )


def _log_delta(epsilon: float, losses: Floats, masses: Floats) -> float:
    """The logarithm of the δ at ε, exact but for float rounding."""
    above = int(np.count_nonzero(losses > epsilon))
    if not above:
        return -math.inf
    weights = -np.expm1(epsilon - losses[:above])
    top = float(masses[:above].max())
    return top + math.log(float(np.sum(np.exp(masses[:above] - top) * weights)))


def _left_by_leaks(delta: Fraction, leaks: Fraction, count: int) -> Fraction:
    """A lower bound of 1 - (1 - δ) / (1 - leaks)^count, the δ that the leaks leave."""
    bits = leaks.denominator.bit_length()
    if bits * count <= _EXACT_BITS:
        return 1 - (1 - delta) / (1 - leaks) ** count
    # Powers in integers that are rounded down, fine enough to tell δ and 1 - δ from 0.
    places = 256 + bits + delta.denominator.bit_length()
    kept, square = 1 << places, ((1 - leaks).numerator << places) // leaks.denominator
    while count:
        if count & 1:
            kept = kept * square >> places
        square = square * square >> places
        count >>= 1
    return 1 - (1 - delta) * Fraction(1 << places, kept) if kept else Fraction(-1)


def optimal_epsilon(epsilon: Real, count: int, delta: Real, *, leak_each: Real = 0) -> float:
    """The smallest ε of `count` runs of the same (ε, leak): no theorem can give less.

    ε is positive, `count` fixed beforehand, and δ, which includes the leaks, strictly between 0 and
    1; each run may leak with the probability `leak_each`. The answer has nine digits, eight beyond
    a million runs, and is rounded up; it is 0 or the plain sum where that is below 1e-290, and
    infinite where the leaks alone exceed δ. `InvalidArgument` names what is out of range.

    Notes
    -----
    Kairouz, Oh and Viswanath (2015), Theorem 3.3; takes time in proportion to the count.
    docs/explanation/proofs/composition-declared.md bounds the rounding.
    """
    size, runs = to_positive("epsilon", epsilon), _count(count)
    goal = _left_by_leaks(_open(delta), to_probability("leak_each", leak_each, zero=True), runs)
    if goal < 0:
        return math.inf
    total = float_up(fraction_up(size * runs))
    if not goal or total == math.inf:
        return total
    if total < _TINY:  # δ is at most the sum of ε
        return 0.0 if Fraction(total) <= goal else total
    log_goal = float(ln_down(fraction_down(goal)))
    log_goal -= _LOG_SLACK * (100.0 + runs - log_goal)
    losses, masses = _losses(float_up(fraction_up(size)), runs)
    if _log_delta(0.0, losses, masses) <= log_goal:
        return 0.0
    low, high = 0.0, total
    while high > _TINY and high - low > 1e-10 * high:
        middle = low + (high - low) / 2.0
        if _log_delta(middle, losses, masses) <= log_goal:
            high = middle
        else:
            low = middle
    # Losses near ε were rounded by a unit of their last place.
    return min(total, high * _SLACK)


def _runs(value: Mapping[Guarantee, int]) -> tuple[tuple[Guarantee, int], ...]:
    expected = "integers, at least 0"
    runs: list[tuple[Guarantee, int]] = []
    for run, count in value.items():
        times = to_integer("runs", count, expected)
        if times < 0:
            raise InvalidArgument("runs", expected, shown(count))
        runs.append((whole_of(check_guarantee(run)), times))
    return tuple(runs)


@frozen
class Declared:
    """Runs that were all declared before the first of them, with how often each occurs.

    Not a `Composition`: what it says holds only if no run was chosen by earlier answers.
    """

    runs: tuple[tuple[Guarantee, int], ...] = field(converter=_runs)

    def bounds(self, delta: Real) -> dict[str, float]:
        """Every theorem's ε at this δ, by its name; those that do not apply are left out.

        So is the optimum of more than ten million runs, which takes time in proportion. δ includes
        leaks, and is strictly between 0 and 1. Raises `UnsupportedGuarantee` if no theorem prices
        one of the runs.
        """
        priced = [(prices_of(run), count) for run, count in self.runs]
        leaks = sum(one.leak_steps * count for one, count in priced)
        left = _open(delta) - from_steps(leaks, LEAK_STEPS)
        pure = [(pure_epsilon(run), count) for run, count in self.runs]
        sizes = [(size, count) for size, count in pure if size is not None]
        found: dict[str, float] = {}
        if left < 0:
            return found
        if len(sizes) == len(pure):
            total = sum((one.epsilon_steps or 0) * count for one, count in priced)
            found["basic"] = float_up(fraction_up(from_steps(total)))
        if left == 0:
            return found
        rho = sum(one.rho_steps * count for one, count in priced)
        found["zCDP"] = zcdp_epsilon(from_steps(rho), left)
        if len(sizes) == len(pure):
            found["heterogeneous"] = _heterogeneous(sizes, left)
            kinds = {size for size, count in sizes if count}
            runs = sum(count for _, count in sizes)
            if len(kinds) == 1 and runs <= _OPTIMAL_LIMIT and (size := kinds.pop()):
                found["optimal"] = optimal_epsilon(size, runs, left)
        return found

    def epsilon(self, delta: Real) -> float:
        """The least of `bounds`, or infinity where the leaks alone exceed δ."""
        return min(self.bounds(delta).values(), default=math.inf)


def declare(runs: Iterable[Guarantee]) -> Declared:
    """Declare runs before the first of them, by what is proven of each, in whichever order."""
    counts: dict[Guarantee, int] = {}
    for run in map(check_guarantee, runs):
        counts[run] = counts.get(run, 0) + 1
    return Declared(counts)
