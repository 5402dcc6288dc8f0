"""How far a hypothesis is moved by an answer, and what such a move is proven to gain.

Everything speaks of functions with weights in [0, 1], of answers that are shares of the records,
and of the potential KL(h‖p): the relative entropy of the true distribution h from the hypothesis p.
"""

from __future__ import annotations

import math

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.learning.potential import PotentialMeter

__all__ = [
    "hoeffding_drop",
    "hoeffding_step",
    "near_side_target",
    "step_towards",
    "textbook_step",
]


def textbook_step(alpha: float) -> float:
    """The step alpha / 2 of Dwork and Roth (2014, Algorithm 5).

    While every update meets an error above alpha, each lowers the potential by alpha² / 4 at
    least, so that there are at most 4 ln|X| / alpha² (their Theorem 4.10).
    """
    return to_gap("alpha", alpha) / 2


def hoeffding_step(gap: float, width: float = 1.0) -> float:
    """The step 4·gap / width², the best where no more is known of a function than `gap`.

    By Hoeffding's lemma a step s towards the truth lowers the potential by s·gap - s²·width² / 8
    at least; this step makes the most of it, 2·gap² / width². Pinsker's inequality says that no
    step can be proven to gain more.

    Parameters
    ----------
    gap
        A lower bound of |f(h) - f(p)|, at least 0.
    width
        The distance of the largest from the smallest weight of the function, above 0.
    """
    return 4 * to_gap("gap", gap) / to_width(width) ** 2


def hoeffding_drop(gap: float, width: float = 1.0) -> float:
    """The drop of the potential that `hoeffding_step` is proven to bring: 2·gap² / width²."""
    return 2 * (to_gap("gap", gap) / to_width(width)) ** 2


def near_side_target(answer: float, value: float, radius: float) -> float:
    """The point within `radius` of a value that is nearest to an answer, which may be itself.

    If the truth is within `radius` of `value`, it lies at this point or beyond it as seen from the
    answer. Moving the answer there by one exact step therefore lowers the potential, by at least
    the relative entropy of two coins with these two probabilities (by the Pythagorean inequality
    and data processing).
    """
    distance = abs(value - answer) - to_gap("radius", radius)
    return answer + math.copysign(distance, value - answer) if distance > 0 else answer


def step_towards(
    hypothesis: Hypothesis,
    form: LinearForm,
    value: float,
    radius: float,
    gap: float = 0.0,
    *,
    answer: float | None = None,
    meter: PotentialMeter | None = None,
) -> float:
    """Shift a hypothesis towards a released value by the step of `hoeffding_step`.

    The distance of the truth from the answer is known to be at least max(gap, |value - answer| -
    radius), where the value is within `radius` of the truth: the first by the test that called for
    the update, the second by the value itself. In that event the potential falls by twice the
    square of it. It does so too where |value - answer| is at most `radius`, provided the value
    lies on the side of the truth, as it does where radius <= gap.

    Parameters
    ----------
    hypothesis
        Changed in place.
    form
        A form of one function with weights in [0, 1].
    value
        A released answer; brought into [0, 1] first.
    radius
        How far the value may be from the truth in the good event, at least 0.
    gap
        A lower bound of |truth - answer| from elsewhere, at least 0.
    answer
        What the hypothesis answers now, where known.
    meter
        Told what the step gains.

    Returns
    -------
    float
        The step; 0 where the value equals the answer, which says nothing of a direction, or where
        no gap is known.
    """
    now = hypothesis.answer(form) if answer is None else answer
    wanted = min(max(value, 0.0), 1.0)
    known = max(to_gap("gap", gap), abs(wanted - now) - to_gap("radius", radius))
    if wanted == now or known <= 0:
        return 0.0
    step = math.copysign(hoeffding_step(known), wanted - now)
    hypothesis.shift(form, step, now)
    if meter is not None:
        meter.stepped(known)
    return step


def to_gap(parameter: str, value: float) -> float:
    """A finite number of at least 0."""
    if not 0 <= value < math.inf:
        raise InvalidArgument(parameter, "a finite number of at least 0", shown(value))
    return float(value)


def to_width(width: float) -> float:
    """A finite number above 0."""
    if not 0 < width < math.inf:
        raise InvalidArgument("width", "a finite number above 0", shown(width))
    return float(width)
