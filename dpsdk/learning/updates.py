"""How far a hypothesis is moved by answers, and what such moves are proven to gain.

Everything speaks of functions with weights in [0, 1], or in a wider range where their forms have
one, of answers that are shares of the records, and of the potential KL(h‖p): the relative entropy
of the true distribution h from the hypothesis p.
"""

from __future__ import annotations

import math

import numpy as np

from dpsdk._checks import require, shown, to_integer
from dpsdk._records import define, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.forms.gap import weight_range
from dpsdk.hypothesis import Hypothesis
from dpsdk.typing import Floats

__all__ = [
    "PotentialMeter",
    "QueryMultiplicativeWeights",
    "Replay",
    "hoeffding_drop",
    "hoeffding_step",
    "kl_bernoulli",
    "near_side_target",
    "step_towards",
    "textbook_step",
]

_ROUNDING = 2.0**-40
"""Closer answers count as equal: the next sweep would only undo rounding."""


def textbook_step(alpha: float) -> float:
    """The step alpha / 2 of Dwork and Roth (2014, Algorithm 5).

    While every update meets an error above alpha, each lowers the potential by alpha² / 4 at
    least, so that there are at most 4 ln|X| / alpha² (their Theorem 4.10).
    """
    return _to_gap("alpha", alpha) / 2


def hoeffding_step(gap: float, width: float = 1.0) -> float:
    """The step 4·gap / width², the best where no more is known of a function than `gap`.

    By Hoeffding's lemma a step s towards the truth lowers the potential by s·gap - s²·width² / 8
    at least; this step makes the most of it, 2·gap² / width². Pinsker's inequality says that no
    step can be proven to gain more.

    `gap` is a lower bound of |f(h) - f(p)|, and `width` the distance of the largest from the
    smallest weight of the function.
    """
    return 4 * _to_gap("gap", gap) / _to_width(width) ** 2


def hoeffding_drop(gap: float, width: float = 1.0) -> float:
    """The drop of the potential that `hoeffding_step` is proven to bring: 2·gap² / width²."""
    return 2 * (_to_gap("gap", gap) / _to_width(width)) ** 2


def kl_bernoulli(a: float, b: float) -> float:
    """The relative entropy, in nats, of a coin of probability `a` from one of probability `b`."""
    for parameter, value in (("a", a), ("b", b)):
        require(0 <= value <= 1, parameter, "a number in [0, 1]", value)
    return _entropy_part(a, b) + _entropy_part(1 - a, 1 - b)


def _entropy_part(a: float, b: float) -> float:
    if a == 0:
        return 0.0
    return a * math.log(a / b) if b > 0 else math.inf


def near_side_target(answer: float, value: float, radius: float) -> float:
    """The point within `radius` of a value that is nearest to an answer, which may be itself.

    If the truth is within `radius` of `value`, it lies at this point or beyond it as seen from the
    answer. Moving the answer there by one exact step therefore lowers the potential, by at least
    the relative entropy of two coins with these two probabilities (by the Pythagorean inequality
    and data processing).
    """
    distance = abs(value - answer) - _to_gap("radius", radius)
    return answer + math.copysign(distance, value - answer) if distance > 0 else answer


class PotentialMeter:
    """A public lower bound of how far the potential KL(h‖p) has fallen since the prior.

    The potential starts at `cap` at most and never falls below 0. So once `left` is less than what
    a legitimate update must lower it by, a mechanism may stop and keep the rest of its budget. All
    of this holds in the good event, in which every released value is within its radius of the
    truth; whether to stop is decided by public values alone.

    Parameters
    ----------
    cap
        The prior's `kl_cap()`, above 0: ln|X| for the uniform one, infinite if some cell has no
        probability.
    """

    __slots__ = ("_cap", "_used")

    def __init__(self, cap: float) -> None:
        require(cap > 0, "cap", "a number above 0", cap)
        self._cap = float(cap)
        self._used = 0.0

    @property
    def cap(self) -> float:
        """The largest value that the potential can have at the start."""
        return self._cap

    @property
    def used(self) -> float:
        """How far the potential has fallen, at least."""
        return self._used

    @property
    def left(self) -> float:
        """How much of the potential is left, at most."""
        return max(self._cap - self._used, 0.0)

    def stepped(self, gap: float, width: float = 1.0) -> None:
        """Count a `hoeffding_step` for a gap of at least `gap`: 2·gap² / width²."""
        self._used += 2 * (gap / width) ** 2

    def moved(self, start: float, target: float) -> None:
        """Count an exact move of an answer, a share, from `start` to the near side of the truth."""
        self._used += kl_bernoulli(target, start)

    def exhausted(self, gap: float, width: float = 1.0) -> bool:
        """True if no function can be off by `gap` any more (by Pinsker's inequality)."""
        return self.left < 2 * (gap / width) ** 2


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
    """Shift a hypothesis, in place, towards a released value by the step of `hoeffding_step`.

    The distance of the truth from the answer is known to be at least max(gap, |value - answer| -
    radius): the first by the test that called for the update, the second by the value itself. In
    that event the potential falls by twice the square of it. It does so too where |value - answer|
    is at most `radius`, provided the value lies on the side of the truth, as it does where
    radius <= gap.

    Parameters
    ----------
    form
        A form of one function. Where its weights leave [0, 1], the step and what it gains are those
        of their `width`.
    value, radius
        A released answer, brought into the range of the weights first, and how far it may be from
        the truth in the good event.
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
    low, high = weight_range(form)
    wanted, width = min(max(value, low), high), high - low
    known = max(_to_gap("gap", gap), abs(wanted - now) - _to_gap("radius", radius))
    if wanted == now or known <= 0:
        return 0.0
    step = math.copysign(hoeffding_step(known, width), wanted - now)
    hypothesis.shift(form, step, now)
    if meter is not None:
        meter.stepped(known, width)
    return step


def _to_alpha(alpha: float) -> float:
    require(0 < alpha <= 1, "alpha", "a number in (0, 1]", alpha)
    return float(alpha)


@frozen
class QueryMultiplicativeWeights:
    """Multiplicative weights for queries (Hardt and Rothblum 2010; Gupta, Roth and Ullman 2012).

    The state is a hypothesis, which each update changes in place. A query is a form of one
    function with weights in [0, 1]; every update must meet an answer that is off by more than
    `alpha`. With the step 4·alpha each lowers KL(h‖p) by 2·alpha², so that there are at most
    ⌊cap / (2 alpha²)⌋, where cap is ln|X| for the uniform start. With `textbook=True` the step is
    alpha / 2, which lowers it by alpha² / 4: ⌊4 cap / alpha²⌋ (Dwork and Roth 2014, Theorem 4.10).

    Parameters
    ----------
    alpha
        The error above which a query is a mistake, in (0, 1].
    textbook
        Whether to take the step of Dwork and Roth (2014, Algorithm 5).
    """

    alpha: float = field(converter=_to_alpha)
    textbook: bool = field(default=False, kw_only=True)

    @property
    def step(self) -> float:
        """The step of every update."""
        return textbook_step(self.alpha) if self.textbook else hoeffding_step(self.alpha)

    def update(
        self, hypothesis: Hypothesis, form: LinearForm, value: float, answer: float | None = None
    ) -> bool:
        """Move a hypothesis by one step towards a value, unless it answers just that.

        The value need only lie on the same side of the hypothesis' answer as the truth, as any
        within `alpha` of the truth does at a mistake. `answer` is that answer, where known. Returns
        whether the hypothesis was moved.
        """
        now = hypothesis.answer(form) if answer is None else answer
        if value == now:
            return False
        hypothesis.shift(form, math.copysign(self.step, value - now), now)
        return True

    def fit(self, hypothesis: Hypothesis, form: LinearForm, truths: Floats) -> int:
        """Update on the worst answered query until none is off by more than `alpha`.

        The hypothesis is changed in place. `form` has all queries, with weights in [0, 1], and
        `truths` their true answers, those of one distribution. Returns the number of updates.
        Raises `InvalidArgument` if there is not one truth a query, or if no distribution that the
        hypothesis can reach has such answers: the number of updates exceeded its bound.
        """
        wanted = np.asarray(truths, dtype=np.float64)
        if wanted.shape != (form.rows,):
            raise InvalidArgument("truths", f"{form.rows} numbers", f"shape {wanted.shape}")
        bound = self.update_bound(hypothesis.kl_cap())
        updates = 0
        while True:
            answers = hypothesis.answers(form)
            worst = int(np.abs(answers - wanted).argmax())
            answer, value = float(answers[worst]), float(wanted[worst])
            if abs(answer - value) <= self.alpha:
                return updates
            if updates >= bound:
                raise InvalidArgument("truths", "answers of one distribution", "contradictions")
            self.update(hypothesis, form.row(worst), value, answer)
            updates += 1

    def update_bound(self, cap: float) -> float:
        """No sequence of mistakes is longer, from a hypothesis with this `kl_cap()` on."""
        bound = (4 * cap if self.textbook else cap / 2) / self.alpha**2
        return math.floor(bound) if math.isfinite(bound) else math.inf

    def regret_bound(self, cap: float, rounds: int) -> float:
        """How far the errors of this many rounds can add up, whatever the queries.

        Each round lowers the potential by step·error - step² / 8 at least.
        """
        return cap / self.step + self.step * rounds / 8


def _to_sweeps(sweeps: int) -> int:
    expected = "an integer of at least 0"
    number = to_integer("sweeps", sweeps, expected)
    if number < 0:
        raise InvalidArgument("sweeps", expected, shown(sweeps))
    return number


@define(eq=False)
class Replay:
    """Released answers, and the moves of a hypothesis that they still call for. Costs no budget.

    An update forgets: a later one may move the answer of an earlier function away again. `run`
    goes through all released answers and, where the hypothesis is further from one than its
    radius, moves it exactly to the near side, until none is or `sweeps` rounds are done.

    In the good event, in which each value is within its radius of the truth, no such move can
    raise the potential KL(h‖p). The limit is some distribution that fits all values; it depends
    on their order, and is not in general the one of least relative entropy.

    Parameters
    ----------
    sweeps
        How many rounds one run may take.
    """

    sweeps: int = field(default=8, converter=_to_sweeps)
    _released: list[tuple[LinearForm, float, float]] = field(
        factory=list[tuple[LinearForm, float, float]], init=False
    )
    _stacked: LinearForm | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._released)

    def remember(self, form: LinearForm, value: float, radius: float) -> None:
        """Keep a released answer.

        The form has one function. `value` is the released average of the records, brought into
        [0, 1], or into the limits of the function where these are wider; `radius` how far it may be
        from the truth in the good event.
        """
        if form.rows != 1:
            raise InvalidArgument("form", "a form of one function", f"{form.rows} functions")
        if math.isnan(value):
            raise InvalidArgument("value", "a number", shown(value))
        low, high = weight_range(form)
        inside = min(max(value, low), high)
        self._released.append((form, inside, _to_gap("radius", radius)))
        self._stacked = None

    def run(self, hypothesis: Hypothesis, meter: PotentialMeter | None = None) -> int:
        """Move a hypothesis, in place, to the near side of what it still contradicts.

        It must be over the domain of all forms kept; a meter is told what each move gains. Returns
        the number of moves.
        """
        moves = 0
        for _ in range(self.sweeps if self._released else 0):
            before = moves
            if self._stacked is None:
                self._stacked = LinearForm.stack([form for form, _, _ in self._released])
            answers = hypothesis.answers(self._stacked).tolist()
            for (form, value, radius), old in zip(self._released, answers, strict=True):
                if abs(value - old) > radius or moves > before:
                    moves += _move(hypothesis, form, value, radius, meter)
            if moves == before:
                break
        return moves


def _move(
    hypothesis: Hypothesis,
    form: LinearForm,
    value: float,
    radius: float,
    meter: PotentialMeter | None,
) -> bool:
    answer = hypothesis.answer(form)
    target = near_side_target(answer, value, radius)
    if abs(target - answer) <= _ROUNDING or hypothesis.move_to(form, target, answer) == 0.0:
        return False
    if meter is not None:
        # As coins, whose chances are between the ends of the weights. The target may have been
        # brought inside of what can be reached.
        low, high = weight_range(form)
        chances = [(share - low) / (high - low) for share in (answer, hypothesis.answer(form))]
        meter.moved(*[min(max(chance, 0.0), 1.0) for chance in chances])
    return True


def _to_gap(parameter: str, value: float) -> float:
    require(0 <= value < math.inf, parameter, "a finite number of at least 0", value)
    return float(value)


def _to_width(width: float) -> float:
    require(0 < width < math.inf, "width", "a finite number above 0", width)
    return float(width)
