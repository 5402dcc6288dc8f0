"""The step that brings the answer of a function to a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from dpsdk.forms import LinearForm

__all__ = ["MARGIN", "Moving", "inside", "move_share", "seek"]

MARGIN = 2.0**-40
"""A target closer than this to what a function cannot reach is taken to be this far from it."""

_TRIES = 64
_HALF_ULP = 2.0**-53
_CLOSE = 2.0**-47
_LEAST = 1e-300
_STILL = 1e-13
_FARTHEST = 2.0**13
_TURNS = 200


class Moving(Protocol):
    """As much of a hypothesis as the search for a step needs."""

    def answer(self, form: LinearForm) -> float:
        """The expected weight of a random record."""
        ...

    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        """Multiply each probability by exp(step · weight), and normalise."""
        ...


def inside(target: float, answer: float, low: float, high: float) -> float:
    """A target brought strictly between what is reached in the limit, on its side of an answer."""
    margin = MARGIN * (high - low)
    if target >= answer:
        return max(answer, min(target, high - margin))
    return min(answer, max(target, low + margin))


def seek(
    trial: Moving, form: LinearForm, target: float, answer: float, low: float, high: float
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
    hypothesis: Moving,
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
