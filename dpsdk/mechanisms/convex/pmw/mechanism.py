"""`ConvexPMW`, as a mechanism."""

from __future__ import annotations

from fractions import Fraction

from typing_extensions import override

from dpsdk._checks import to_count
from dpsdk._records import field, frozen
from dpsdk.accuracy import NoAccuracy
from dpsdk.codec import AMOUNT, INTEGER
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import ConvexForm, ConvexForms, Facts
from dpsdk.forms.convex_forms import parts_of
from dpsdk.hypothesis import DenseHypothesis, Pairs, Start, Uniform
from dpsdk.hypothesis.fit import FIT_LIMIT
from dpsdk.hypothesis.start import START, StartLike, kind_for, share_of
from dpsdk.kernel import Kernel, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    COUNT,
    NO,
    SHARE,
    WHEN_SPENT,
    ZERO,
    WhenSpent,
    check_linear,
    check_when_spent,
    in_words,
    threshold_if_given,
    to_epsilon,
    to_prepaid,
    to_queries,
    to_zero_delta,
)
from dpsdk.mechanisms.base import Answerable, ModelsMechanism, built_in
from dpsdk.mechanisms.convex.descent import NoisyDescent
from dpsdk.mechanisms.convex.descent_bounds import Problem
from dpsdk.mechanisms.convex.pmw.strategy import GuardedStrategy, check_cells
from dpsdk.mechanisms.convex.pmw.textbook import TextbookConvexPMW
from dpsdk.mechanisms.convex.sketch import SketchedProblem
from dpsdk.mechanisms.pmw.schedule import Rounds, Schedule, practical
from dpsdk.mechanisms.sampled import check_records, notes_from, start_beyond, to_start
from dpsdk.release import Cost, Note, Quote
from dpsdk.typing import Real

__all__ = ["ConvexPMW", "first_start"]

_GRADIENT_SHARE = Fraction(1, 2)

_EITHER = NoAccuracy(
    "whether the hypothesis answers or a measured gradient is not known beforehand",
    "read the bound of the release",
)
_EITHER_LINEAR = NoAccuracy("the hypothesis that will answer is not known beforehand")

_COORDINATES = 16
"""So many gaps a model are counted on where the number of models sets the threshold."""


def _updates(value: int) -> int:
    return to_count("updates", value)


@built_in(
    "convex-pmw",
    {
        "epsilon": AMOUNT,
        "delta": ZERO,
        "updates": INTEGER,
        "queries": COUNT,
        "threshold": SHARE,
        "start": START,
        "prepaid": NO,
        "when_spent": WHEN_SPENT,
    },
)
@frozen(repr=False)
class ConvexPMW(ModelsMechanism):
    """Answer a stream of very many convex minimisations from one hypothesis, under a guard.

    A public hypothesis, a distribution over the universe, answers each with the model that is best
    for it. A sparse vector watches the coordinates of the table's gradient there; where one is off,
    the gradient is measured and corrects the model, and the hypothesis learns what was wrong. The
    whole stream is (ε, δ)-DP however long it is, and what an easy stream does not need stays in the
    session. Linear queries are answered from the hypothesis, free. The number of rows must be
    public. After Ullman (2015, Figure 3), which watches the excess risk itself.

    Models whose attributes have more than 10^6 cells together are not guarded: `TooLarge`, with
    nothing spent. `query.fit(channel.distribution)` finds them where that is of records.

    A guard sees a coordinate only where that is off by more than the noise of a sparse vector,
    and it takes its part of the budget from the start. For most tables a hypothesis that is fitted
    once, such as that of `OnlinePMW` with `Pairs()`, answers better without one; see
    docs/explanation/many-models.md.

    Parameters
    ----------
    epsilon, delta
        What the whole stream may cost. With δ > 0 rounds are composed by zCDP.
    updates
        How many models may be measured. Of those that come later nothing is checked.
    queries
        A rough guess of how many models will come, which sets the threshold; 1,000 if left out.
    threshold
        The gap of a coordinate, as a share of the rows and of the coordinate's range, above which
        to measure.
    start
        The first hypothesis, a value of dpsdk.hypothesis: by default `Pairs()`, a fit of all noisy
        pairs for three quarters of the budget; `Product()`; `Uniform()`, by default where the
        universe has one attribute of many values; `Sampled()`, weighted records for a universe of
        any size, by default where it has more than 2^24 cells; or any public distribution, such as
        one that an earlier channel ended with. "pairs", "product", "uniform" and "marginals" stand
        for the first ones.
    prepaid
        Pay all rounds when the channel opens, so that nobody else takes the budget meanwhile. With
        δ > 0 Gaussian noise has a fiftieth less of ρ then, which is what covers it.
    when_spent
        What happens when the session has no budget for another round: answer on from the
        hypothesis, unchecked, or raise.

    >>> from dpsdk.mechanisms import ConvexPMW
    >>> ConvexPMW(epsilon=1, delta=1e-9, updates=10)
    ConvexPMW(epsilon=1, delta=1e-09, updates=10)
    """

    page = "explanation/proofs/convex-pmw.md"

    epsilon: Fraction = field(converter=to_epsilon)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta)
    updates: int = field(converter=_updates, kw_only=True)
    queries: int | None = field(default=None, converter=to_queries, kw_only=True)
    threshold: float | None = field(default=None, converter=threshold_if_given, kw_only=True)
    start: Start | None = field(default=None, converter=to_start, kw_only=True)
    prepaid: bool = field(default=False, converter=to_prepaid, kw_only=True)
    when_spent: WhenSpent = field(default="hypothesis", kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_records(self.start, pure=not self.delta, prepaid=self.prepaid)
        check_when_spent(self.when_spent)

    @classmethod
    def textbook(
        cls,
        epsilon: Real,
        delta: Real,
        *,
        alpha: float,
        beta: float,
        queries: int,
        problem: Problem | SketchedProblem,
        oracle: NoisyDescent | None = None,
        start: StartLike = "uniform",
        when_spent: WhenSpent = "hypothesis",
    ) -> TextbookConvexPMW:
        """Figure 3 of Ullman (2015), with a promise and with its constants, corrected.

        With probability 1 - beta, each of so many adaptively chosen models has an excess of at most
        alpha; or opening is refused with the least alpha that can be promised. What is watched is a
        bound of the excess that takes no minimum over the rows (docs/explanation/proofs/
        convex-pmw.md, "The textbook"). It takes very many rows, which `rows_for` tells; `alpha_for`
        tells for which alpha those of a table are enough.

        Parameters
        ----------
        epsilon, delta
            What the whole stream may cost; δ > 0, as Theorem 3.8 has it.
        alpha, beta, queries
            The promise, alpha in the unit of the average loss.
        problem
            Constants that no model exceeds, such as `Problem.of(query.lower(domain))` of the
            largest. Losses with kinks are refused, since their subgradients may say nothing of the
            table. With a ridge λ, ½λ‖θ‖² is added to the average loss of every model, and the
            excess is of that sum (Theorem 4.6). A `SketchedProblem` has each model asked about on a
            sketch of its own, for very many features (Theorem 4.4): half of beta and a part of
            alpha are for sketches, and a θ may lie outside its ball.
        oracle
            A′, which answers where the hypothesis does not: a `NoisyDescent.textbook()` with the
            ridge of `problem`. Its steps are planned for that, once for all models.
        start, when_spent
            As for the class; a start that measures nothing.
        """
        ridge = problem.ridge if isinstance(problem, Problem) else 0.0
        return TextbookConvexPMW(
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            beta=beta,
            queries=queries,
            problem=problem,
            oracle=NoisyDescent.textbook(ridge=ridge) if oracle is None else oracle,
            start=start,
            when_spent=when_spent,
        )

    def schedule(self, facts: Facts) -> Schedule:
        """How a channel over such a table would spend and decide. Public.

        Raises `PublicSizeRequired` if the number of rows is private, and `InvalidArgument` if no
        noise is worth so little.
        """
        if facts.rows is None:
            raise PublicSizeRequired(repr(self), "it needs a public number of rows")
        try:
            return practical(
                self.epsilon,
                self.delta,
                self.updates,
                _COORDINATES * (self.queries or 1000),
                facts,
                threshold=self.threshold,
                share=share_of(self._begins(facts)),
                prepaid=self.prepaid,
                numbers=_GRADIENT_SHARE,
            )
        except InvalidArgument as error:
            raise in_words(error, epsilon=self.epsilon, delta=self.delta) from None

    @override
    def notes(self, facts: Facts, /) -> tuple[Note, ...]:
        return notes_from(self._begins(facts))

    def quote(self, form: Answerable, terms: Terms, /) -> Quote:
        rounds = self._rounds(terms)
        opening = rounds.opening(terms)
        opened = rounds.prepaid(terms) if self.prepaid else Cost(opening)
        if not isinstance(form, ConvexForm | ConvexForms):
            check_linear(form, "ConvexPMW")
            return Quote(opened, opened, _EITHER_LINEAR)
        parts = parts_of(form)
        for part in parts:
            check_cells(part)
        # For each model a watch, and what covers the gradient of any.
        round_ = rounds.schedule.watching.guarantee, rounds.schedule.noise.cover
        at_most = opened if self.prepaid else Cost((*opening, *round_ * len(parts)))
        return Quote(opened, at_most, _EITHER)

    def open(self, kernel: Kernel, /) -> GuardedStrategy:
        rounds = self._rounds(kernel.terms)
        hypothesis, allowance = rounds.begin(kernel, prepaid=self.prepaid, name=repr(self))
        raises = self.when_spent == "raise"
        return GuardedStrategy(
            kernel, rounds.schedule, hypothesis, raises=raises, allowance=allowance
        )

    def _rounds(self, terms: Terms) -> Rounds:
        facts = facts_of(terms)
        rounds = Rounds(self.schedule(facts), self._begins(facts))
        rounds.check(terms, self.epsilon, self.delta)
        return rounds

    def _begins(self, facts: Facts) -> Start:
        """The start, which is chosen by public facts where none was given."""
        return first_start(self.start, facts, pure=not self.delta, prepaid=self.prepaid)

    def __repr__(self) -> str:
        amounts = f"epsilon={float(self.epsilon):g}, delta={float(self.delta):g}"
        given = {name: getattr(self, name) for name in ("updates", "queries", "threshold")}
        others = [f", {name}={value}" for name, value in given.items() if value is not None]
        return f"ConvexPMW({amounts}{''.join(others)})"


def first_start(
    given: Start | None,
    facts: Facts,
    *,
    pure: bool,
    prepaid: bool = False,
    pairs: Pairs | None = None,
) -> Start:
    """The start that was given, or one that suits such a table: `pairs` where these are fitted."""
    if given is not None:
        return given
    wide = start_beyond(facts, FIT_LIMIT, pure=pure, prepaid=prepaid)
    if wide is not None:
        return wide
    dense = kind_for(facts.domain) is DenseHypothesis
    return (pairs or Pairs()) if dense else Uniform()
