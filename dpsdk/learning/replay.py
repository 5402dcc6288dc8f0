"""Learning again from values that were released before."""

from __future__ import annotations

import math

from dpsdk._checks import shown, to_integer
from dpsdk._records import define, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.learning.potential import PotentialMeter
from dpsdk.learning.updates import near_side_target, to_gap

__all__ = ["Replay"]


@frozen(eq=False)
class _Released:
    form: LinearForm
    value: float
    radius: float


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
    _released: list[_Released] = field(factory=list[_Released], init=False)
    _stacked: LinearForm | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._released)

    def remember(self, form: LinearForm, value: float, radius: float) -> None:
        """Keep a released answer.

        Parameters
        ----------
        form
            A form of one function, with weights in [0, 1] where a meter is to be told.
        value
            The released average of the records; brought into [0, 1], or into the limits of the
            function where these are wider.
        radius
            How far it may be from the truth in the good event, at least 0.

        Raises
        ------
        InvalidArgument
            For several functions, a value that is no number, or a negative radius.
        """
        if form.rows != 1:
            raise InvalidArgument("form", "a form of one function", f"{form.rows} functions")
        if math.isnan(value):
            raise InvalidArgument("value", "a number", shown(value))
        low, high = form.limits
        inside = min(max(value, min(low, 0.0)), max(high, 1.0))
        kept = _Released(form, inside, to_gap("radius", radius))
        self._released.append(kept)
        self._stacked = None

    def run(self, hypothesis: Hypothesis, meter: PotentialMeter | None = None) -> int:
        """Move a hypothesis, in place, to the near side of what it still contradicts.

        Parameters
        ----------
        hypothesis
            Over the domain of all forms kept.
        meter
            Told what each move gains.

        Returns
        -------
        int
            How many moves were made.
        """
        moves = 0
        for _ in range(self.sweeps if self._released else 0):
            before = moves
            answers = hypothesis.answers(self._all())
            for kept, old in zip(self._released, answers.tolist(), strict=True):
                if abs(kept.value - old) <= kept.radius and moves == before:
                    continue
                moves += self._move(hypothesis, kept, meter)
            if moves == before:
                break
        return moves

    def _move(self, hypothesis: Hypothesis, kept: _Released, meter: PotentialMeter | None) -> bool:
        answer = hypothesis.answer(kept.form)
        target = near_side_target(answer, kept.value, kept.radius)
        if abs(target - answer) <= _ROUNDING:
            return False
        if hypothesis.move_to(kept.form, target, answer) == 0.0:
            return False
        if meter is not None:
            # The target may have been brought inside of what can be reached.
            meter.moved(_share(answer), _share(hypothesis.answer(kept.form)))
        return True

    def _all(self) -> LinearForm:
        if self._stacked is None:
            self._stacked = LinearForm.stack([kept.form for kept in self._released])
        return self._stacked


_ROUNDING = 2.0**-40
"""Closer answers count as equal: the next sweep would only undo rounding."""


def _share(answer: float) -> float:
    return min(max(answer, 0.0), 1.0)
