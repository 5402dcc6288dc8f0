"""The steps that bring the answers of functions to targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpsdk._records import frozen
from dpsdk.forms import LinearForm
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.hypothesis.distribution import Hypothesis

__all__ = ["Tilted", "inside", "move_share", "seek"]

MARGIN = 2.0**-40
"""A target closer than this to what a function cannot reach is taken to be this far from it."""

_TRIES = 64
_HALF_ULP = 2.0**-53
_CLOSE = 2.0**-47
_LEAST = 1e-300
_STILL = 1e-13
_FARTHEST = 2.0**13
_TURNS = 200

_CLOSER = 2.0**-48
_FAINT = 1e-200
_LARGEST_EXPONENT = 709.0
_COARSE = 2.0**40


def inside(target: float, answer: float, low: float, high: float) -> float:
    """A target brought strictly between what is reached in the limit, on its side of an answer."""
    margin = MARGIN * (high - low)
    if target >= answer:
        return max(answer, min(target, high - margin))
    return min(answer, max(target, low + margin))


def seek(
    trial: Hypothesis, form: LinearForm, target: float, answer: float, low: float, high: float
) -> float:
    """The step after which the answer of any function is `target`, found by trying."""
    width = high - low
    if abs(answer - target) <= _CLOSE * width:
        return 0.0

    def odds(value: float) -> float:
        share = (value - low) / width
        return math.log(max(share, _LEAST)) - math.log(max(1.0 - share, _HALF_ULP))

    def gap(value: float) -> float:
        return odds(value) - odds(target)

    # What is known to fall short of the target, and what to exceed it: steps, each with its gap.
    ends = {answer < target: (0.0, gap(answer))}
    at, before, side = 0.0, answer, answer < target
    step = -gap(answer) / width
    for _ in range(_TURNS):
        trial.shift(form, step - at)
        at, now = step, trial.answer(form)
        short = now < target
        if abs(now - target) <= _CLOSE * width:
            break
        if not math.isfinite(now):
            return 0.0
        if len(ends) == 1 and short == side and abs(odds(now) - odds(before)) <= _STILL:
            # As far as it goes, which may be nowhere at all; or floats do not show how far it is.
            faint = min(now - low, high - now) <= _HALF_ULP * width
            if not faint or abs(at) * width > _FARTHEST:
                return at if abs(now - answer) > _CLOSE * width else 0.0
        if len(ends) == 2 and short == side:
            # An end that stays counts for less, or secants might creep (Dowell and Jarratt 1971).
            place, rest = ends[not short]
            ends[not short] = place, rest / 2
        ends[short], before, side = (at, gap(now)), now, short
        step = _between(*ends[True], *ends[False]) if len(ends) == 2 else 2.0 * at
        if step == at:
            break
    return at


def _between(left: float, below: float, right: float, above: float) -> float:
    """The zero of the line through two ends; their middle, if that is not between them."""
    middle = (left + right) / 2
    if not above > below:
        return middle
    step = left - below * (right - left) / (above - below)
    return step if min(left, right) < step < max(left, right) else middle


def move_share(
    hypothesis: Hypothesis,
    form: LinearForm,
    height: float,
    target: float,
    log_share: Callable[[], float],
    answer: float | None,
) -> float:
    """Move a hypothesis until the answer of a function of the values 0 and `height` is a target."""
    given = answer is not None and 0.0 < answer / height < 1.0
    share_log = math.log(answer / height) if given and answer else log_share()
    moved, wanted = 0.0, inside(target / height, math.exp(share_log), 0.0, 1.0)
    for _ in range(_TRIES):
        share = math.exp(share_log)
        if share_log == -math.inf or abs(share - wanted) <= _HALF_ULP:
            return moved / height
        # Of a rest too small for floats only a bound is known; so the step is made in parts.
        odds = share_log - math.log(max(-math.expm1(share_log), _HALF_ULP))
        step = math.log(wanted) - math.log1p(-wanted) - odds
        hypothesis.shift(form, step / height, share * height)
        moved += step
        if abs(odds) < 7.0:
            return moved / height
        share_log = log_share()
    return 0.0 if share_log >= -_HALF_ULP else moved / height


@frozen(eq=False)
class Tilted:
    """Weighted values, and what becomes of their mean under weights q·exp(step·v).

    `parts` are pairs of arrays of one shape: values v, and weights q or, where `logs`, their
    logarithms. `rest` is the logarithm of the weight that value zero has beside them.
    """

    parts: Sequence[tuple[Floats, Floats]]
    logs: bool
    rest: float

    def reach(self) -> tuple[float, float]:
        """The smallest and the largest value that has weight."""
        low, high = (0.0, 0.0) if self.rest > -math.inf else (math.inf, -math.inf)
        for values, weights in self.parts:
            some = weights > (-math.inf if self.logs else 0.0)
            low = min(low, float(values.min(initial=math.inf, where=some)))
            high = max(high, float(values.max(initial=-math.inf, where=some)))
        return low, high

    def solve(self, target: float, width: float) -> float:
        """The step at which the mean is `target`, to about 2^-48 of `width`."""
        low, high, step = -math.inf, math.inf, 0.0
        for _ in range(_TURNS):
            mean, variance = self._moments(step)
            if abs(mean - target) <= _CLOSER * width:
                break
            # The mean rises with the step, so that each turn tightens one end.
            if mean < target:
                low = step
            else:
                high = step
            stride = 2.0 * abs(step) + 4.0 / width
            wanted = (target - mean) / variance if variance > 0.0 else math.inf
            guess = step + math.copysign(min(abs(wanted), stride), target - mean)
            if not low < guess < high:
                guess = (low + high) / 2
            if guess == step:
                break
            step = guess
        return step

    def _moments(self, step: float) -> tuple[float, float]:
        """The mean and variance of the values under tilted weights."""
        # The largest exponent is brought to zero, so that nothing overflows.
        mass, first, second = self._sums(step, self._top(step, weigh=self.logs))
        if not mass > _FAINT:
            # The weight lies elsewhere than the largest exponents do.
            mass, first, second = self._sums(step, self._top(step, weigh=True))
        mean = first / mass
        return mean, second / mass - mean * mean

    def _top(self, step: float, *, weigh: bool) -> float:
        top = self.rest if weigh else 0.0 if self.rest > -math.inf else -math.inf
        for values, weights in self.parts:
            exponents = step * values
            if weigh and self.logs:
                exponents += weights
            elif weigh:
                nothing = np.full(weights.shape, -math.inf)
                exponents += np.log(weights, where=weights > 0.0, out=nothing)
            top = max(top, float(exponents.max()))
        return top

    def _sums(self, step: float, top: float) -> tuple[float, float, float]:
        """The sums of tilted weights, of their products with the values and with the squares."""
        mass = math.exp(min(self.rest - top, _LARGEST_EXPONENT))
        first = second = 0.0
        for values, weights in self.parts:
            exponents = step * values
            if self.logs:
                # Far from nought in the order of `_top`, whose roundings are large then: none is
                # above zero.
                for added in (weights, -top) if abs(top) > _COARSE else (-top, weights):
                    exponents += added
                tilted = np.exp(exponents, out=exponents)
            else:
                exponents -= top
                # Where an exponent is larger, the weight is zero.
                tilted = weights * np.exp(np.minimum(exponents, _LARGEST_EXPONENT, out=exponents))
            mass += float(tilted.sum())
            tilted *= values
            first += float(tilted.sum())
            second += float(np.vdot(tilted, values))
        return mass, first, second
