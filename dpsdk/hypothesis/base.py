"""The public distribution that stands for a private table, and how it may move."""

# defaults of methods that hypotheses override

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

from dpsdk._checks import require
from dpsdk.forms import LinearForm
from dpsdk.hypothesis.distribution import Distribution
from dpsdk.hypothesis.seeking import inside, seek

__all__ = ["Hypothesis", "to_finite_float", "to_weight"]


class Hypothesis(Distribution):
    """A public distribution that also moves: updates change it in place.

    Not safe for use by several threads at once. A subclass has what a distribution has, `shift`,
    `blend`, `kl_cap` and `copy`, and `check` where it cannot learn all that it answers; it may have
    a quicker `move_to` of its own.
    """

    __slots__ = ()

    @abstractmethod
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        """Multiply the probability p of every cell by exp(step · weight), and normalise.

        This is the multiplicative weights update, in place (Hardt and Rothblum 2010; Dwork and
        Roth 2014, Algorithm 5).

        Raises `InvalidArgument` for several functions, another domain, or a step that is not
        finite, and `QueryError` if this kind of hypothesis cannot be moved along such a function.

        Parameters
        ----------
        form
            A form of one function f, over the domain.
        step
            Positive to raise the answer of the function, negative to lower it; in units of
            1 / weight.
        answer
            What `answer(form)` is now, if the caller has just asked, which saves a pass over the
            cells. Any other number here makes a wrong distribution.

        Returns
        -------
        float
            The logarithm of the normaliser, ln Σ p·exp(step·f). The relative entropy KL(h‖p) of any
            distribution h from p fell by step·f(h) minus this number.
        """

    def move_to(self, form: LinearForm, target: float, answer: float | None = None) -> float:
        """Shift along a function by the one step after which its answer is `target`.

        In closed form, where a kind of hypothesis knows one; otherwise by trying steps on a copy.
        Raises `InvalidArgument` or `QueryError` as `shift` does.

        Parameters
        ----------
        form, answer
            As for `shift`.
        target
            The wanted answer. One that the function cannot reach, or only in the limit of an
            infinite step, is brought inside by 2^-40 of the function's range; the answer never
            moves away from the target for it.

        Returns
        -------
        float
            The step, as `shift` would take it; 0 where the function has one value only over the
            cells of positive probability, which no step can move.
        """
        self._check_one(form)
        wanted = to_finite_float("target", target)
        low, high = form.limits
        if self.outside:
            low, high = min(low, 0.0), max(high, 0.0)
        if not low < high:
            return 0.0
        now = self.answer(form) if answer is None else answer
        step = seek(self.copy(), form, inside(wanted, now, low, high), now, low, high)
        if step != 0.0:
            self.shift(form, step, answer)
        return step

    def check(self, form: LinearForm) -> None:
        """Refuse a form of which some function could be answered, but not learnt.

        Mechanisms ask before they pay for what `shift` and `move_to` are to learn.

        Raises `QueryError` or `TooLarge` if this kind of hypothesis cannot be moved along some
        function of the form.
        """

    @abstractmethod
    def kl_cap(self) -> float:
        """The largest ln(1 / probability) of a cell; infinite where a cell has none.

        No distribution has a larger relative entropy from this one, so it bounds the potential
        that updates can use up (the prior's cap is ln |X| for the uniform one).
        """

    @abstractmethod
    def blend(self, weight: float) -> None:
        """Mix with the uniform distribution: (1 - weight) of this one, `weight` of the uniform.

        Afterwards `kl_cap()` is at most ln(cells / weight).

        Raises `InvalidArgument` if the weight is not in [0, 1].
        """

    @abstractmethod
    def copy(self) -> Self:
        """An independent hypothesis with the same distribution."""


def to_finite_float(parameter: str, value: float) -> float:
    """A finite number, such as a target or a step."""
    require(math.isfinite(value), parameter, "a finite number", value)
    return float(value)


def to_weight(weight: float) -> float:
    """A number in [0, 1]."""
    require(0.0 <= weight <= 1.0, "weight", "a number in [0, 1]", weight)
    return float(weight)
