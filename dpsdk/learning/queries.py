"""Learning a distribution from answers to linear queries, without noise: the core of PMW."""

from __future__ import annotations

import math

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.learning.updates import hoeffding_step, textbook_step
from dpsdk.typing import Floats

__all__ = ["QueryMultiplicativeWeights"]


def _to_alpha(alpha: float) -> float:
    if not 0 < alpha <= 1:
        raise InvalidArgument("alpha", "a number in (0, 1]", shown(alpha))
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
        """Move a hypothesis by one step towards a value.

        The value need only lie on the same side of the hypothesis' answer as the truth, as any
        within `alpha` of the truth does at a mistake.

        Parameters
        ----------
        hypothesis
            Changed in place.
        form
            The query.
        value
            An approximate answer.
        answer
            What the hypothesis answers now, where known.

        Returns
        -------
        bool
            Whether it was moved: not if the value equals the answer, which gives no direction.
        """
        now = hypothesis.answer(form) if answer is None else answer
        if value == now:
            return False
        hypothesis.shift(form, math.copysign(self.step, value - now), now)
        return True

    def fit(self, hypothesis: Hypothesis, form: LinearForm, truths: Floats) -> int:
        """Update on the worst answered query until none is off by more than `alpha`.

        Parameters
        ----------
        hypothesis
            Changed in place.
        form
            All queries, with weights in [0, 1].
        truths
            Their true answers, an array of length `form.rows`: those of one distribution.

        Returns
        -------
        int
            The number of updates.

        Raises
        ------
        InvalidArgument
            If there is not one truth a query, or if no distribution that the hypothesis can reach
            has such answers: the number of updates exceeded its bound.
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
        """No sequence of mistakes is longer.

        Parameters
        ----------
        cap
            The `kl_cap()` of the hypothesis at the start; ln|X| for the uniform one.
        """
        bound = (4 * cap if self.textbook else cap / 2) / self.alpha**2
        return math.floor(bound) if math.isfinite(bound) else math.inf

    def regret_bound(self, cap: float, rounds: int) -> float:
        """How far the errors of this many rounds can add up, whatever the queries.

        Each round lowers the potential by step·error - step² / 8 at least.
        """
        return cap / self.step + self.step * rounds / 8
