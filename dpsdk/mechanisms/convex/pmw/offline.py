"""`OfflineConvexPMW`: private multiplicative weights for models that are all known beforehand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from typing_extensions import override

from dpsdk._checks import require, shown, to_beta, to_count
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting.prices.conversion import zcdp_start
from dpsdk.accuracy import Accuracy, NoAccuracy
from dpsdk.codec import NUMBER, Member
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError, TooLarge
from dpsdk.forms import ConvexForm, ConvexForms, Facts, Form, LinearForm, Lowers
from dpsdk.forms.convex_forms import parts_of
from dpsdk.hypothesis import Pairs, Start, Uniform
from dpsdk.hypothesis.start import START, share_of
from dpsdk.kernel import GaussianNoise, Kernel, Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import COUNT, QUERY, SHARE, TOTAL, HasTotal
from dpsdk.mechanisms.base import Answerable, MeasuresOnce, ModelsMechanism, built_in
from dpsdk.mechanisms.convex.descent_bounds import Problem, Runs
from dpsdk.mechanisms.convex.noise import LaplaceConcentration, Tails
from dpsdk.mechanisms.convex.pmw.learner import (
    KnownModels,
    KnownModelsStrategy,
    Promised,
    key_of,
)
from dpsdk.mechanisms.convex.pmw.mechanism import first_start
from dpsdk.mechanisms.convex.pmw.textbook import PromisedExcess, check_smooth, to_alpha
from dpsdk.mechanisms.fitted import learn
from dpsdk.mechanisms.mwem.plan import Parts, Plan, choice_part, spent, split_rounds
from dpsdk.mechanisms.sampled import check_records, notes_from, to_start
from dpsdk.mechanisms.theorems import fewest_rows, least_share, not_promised, to_target
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.release import Note, Quote
from dpsdk.typing import Real

__all__ = ["OfflineConvexPMW"]

Models: TypeAlias = ConvexForm | ConvexForms

_MOST_ROUNDS = 1_000
_MOST_PROMISED = 10_000

_MOST_WEIGHTS = 2**27
"""The gradients of all models are compared at once, and fill a gigabyte at the most."""

_START, _ROUNDS, _CHOICE = Fraction(1, 2), 10, Fraction(1, 10)
"""The part of pairs, the rounds, and the part of each for its choice, where nothing is promised.

Measured by tests/bench/bench_convex_pmw.py at 50,000 rows, ε of 1 and 8: of 1/2, 3/4 and 9/10, of
3, 10 and 30 rounds, and of 1/10 and 1/2, these have the least excess for models beyond pairs, or
nearly.
"""

_SOLVER = 0.01
"""This part of alpha is for the solver."""

_PARTS = 3
"""Failures are shared equally by choices, by noise along fixed ways, and by its lengths."""

_LATER = NoAccuracy(
    "the bound follows from what the rounds will measure", "read the bound of the release"
)
_LINEAR = NoAccuracy("read off a distribution that models were learnt with")
_BESIDE = NoAccuracy("the bound is about the models of the workload alone")


def _rounds(value: int | None) -> int | None:
    return None if value is None else to_count("rounds", value, most=_MOST_ROUNDS)


def _to_models(value: Lowers[Models]) -> Lowers[Models]:
    if isinstance(value, type | str) or not callable(getattr(value, "lower", None)):
        expected = "a model, or a Workload of models, as of ConvexMinimization"
        raise InvalidArgument("workload", expected, shown(value))
    return value


def _alpha(value: float | None) -> float | None:
    return None if value is None else to_alpha(value)


@built_in(
    "offline-convex-pmw",
    {
        "workload": QUERY,
        **TOTAL,
        "rounds": COUNT,
        "start": START,
        "alpha": evolve(SHARE, quiet=True, of="_alpha", key="_alpha"),
        "beta": Member(NUMBER, 0.05, quiet=True, of="_beta", key="_beta"),
    },
)
@frozen(repr=False)
class OfflineConvexPMW(ModelsMechanism, MeasuresOnce[Answerable], HasTotal):
    """Learn models that are all known beforehand, from the one that is worst in each round.

    A public hypothesis, a distribution over the universe, has a model that is best for it for each
    question. Each round chooses, by the exponential mechanism, the one whose loss the table may
    improve the most, by its gradient there; measures that gradient, and the hypothesis learns it.
    All of it is paid while the channel opens. Then the models are answered as they stood in the
    round that proves the most, and each has a bound of its excess: the gap that was measured there,
    with what choice and noise may hide. Other models and linear queries are read off the
    hypothesis, without one. After Ullman (2015, §1.2), where all queries are known.

    The number of rows must be public, and each model be of few enough attributes to be written
    out. It is ahead of a fit of pairs and of `ConvexPMW` where much of the models is beyond pairs
    of attributes; else a fit alone has the smaller excess, and no bound. See
    docs/explanation/many-models.md.

    Parameters
    ----------
    workload
        A model, or a `Workload` of models.
    epsilon, delta
        What the opening may cost, by the composition of the session. With δ = 0 it is pure: noise
        is Laplace, and costs add up.
    rho
        Instead: what it may cost in zCDP.
    rounds
        How many models are chosen, each round anew; 10 if left out, or as many as there are models
        where these are fewer.
    start
        The first hypothesis, as for `ConvexPMW`, but `Pairs` have half of the budget by default.

    >>> from dpsdk.losses import LogisticLoss
    >>> from dpsdk.mechanisms import OfflineConvexPMW
    >>> from dpsdk.queries import Ball, ConvexMinimization, Workload
    >>> models = Workload(
    ...     ConvexMinimization(LogisticLoss(), features=[name], label="income", over=Ball(4))
    ...     for name in ("age", "sex")
    ... )
    >>> OfflineConvexPMW(models, epsilon=1, delta=1e-9)
    OfflineConvexPMW(Workload of 2 queries, epsilon=1, delta=1e-09)
    """

    page = "explanation/proofs/convex-pmw.md"

    workload: Lowers[Models] = field(converter=_to_models)
    rounds: int | None = field(default=None, converter=_rounds, kw_only=True)
    start: Start | None = field(default=None, converter=to_start, kw_only=True)
    _alpha: float | None = field(default=None, converter=_alpha, kw_only=True, alias="_alpha")
    _beta: float = field(default=0.05, converter=to_beta, kw_only=True, alias="_beta")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_records(self.start, pure=self._pure)
        if self._alpha is not None and self.start is not None:
            expected = '"uniform" or a public distribution where a promise is made'
            require(not share_of(self.start), "start", expected, self.start)
        if self._alpha is not None and self.rounds is not None:
            expected = "left out where alpha says how many there are"
            raise InvalidArgument("rounds", expected, shown(self.rounds))

    @classmethod
    def textbook(
        cls,
        workload: Lowers[Models],
        epsilon: Real | None = None,
        delta: Real = 0,
        *,
        alpha: float,
        beta: float = 0.05,
        rho: Real | None = None,
        start: Start | None = None,
    ) -> OfflineConvexPMW:
        """The algorithm with a promise: no model of the workload has an excess above alpha.

        It holds with probability 1 - `beta`, for 64 S² ln|X| / alpha² rounds at most, which end as
        soon as the bound is seen to be kept; or opening is refused with the least alpha that can be
        promised. Losses with kinks are refused, since their subgradients may say nothing of the
        table. `rows_for` tells how many rows it takes, and `alpha_for` for which alpha those of a
        table are enough (docs/explanation/proofs/convex-pmw.md, "Models known beforehand").

        Parameters
        ----------
        workload, epsilon, delta, rho
            As for the class; an (ε, δ) is spent by zCDP.
        alpha, beta
            The promise, alpha in the unit of the average loss.
        start
            Uniform if left out; or a start that measures nothing, such as a public distribution.
        """
        return cls(
            workload, epsilon=epsilon, delta=delta, rho=rho, start=start, _alpha=alpha, _beta=beta
        )

    def _begins(self, facts: Facts) -> Start:
        if self._alpha is not None and self.start is None:
            return Uniform()
        return first_start(self.start, facts, pure=self._pure, pairs=Pairs(_START))

    @override
    def notes(self, facts: Facts, /) -> tuple[Note, ...]:
        return notes_from(self._begins(facts))

    @override
    def alpha_for(
        self, terms: Terms, query: Lowers[Answerable] | None = None, *, beta: float | None = None
    ) -> float | None:
        """The least alpha that `textbook` keeps over such a table; None if none is, or promised."""
        forms = self._forms(terms)
        if self._alpha is None or not (query is None or _knows(forms, query, terms)):
            return None
        asked = self if beta is None else evolve(self, _beta=beta)
        scale = _scale(forms)
        least = least_share(lambda share: asked._kept(share * scale, forms, terms) is not None)
        return None if least is None else least * scale

    @override
    def rows_for(
        self,
        terms: Terms,
        query: Lowers[Answerable] | None = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> int | None:
        """The least number of public rows at which `alpha` is kept; None below 2^50."""
        forms = self._forms(terms)
        if self._alpha is None or not (query is None or _knows(forms, query, terms)):
            return None
        asked = self if beta is None else evolve(self, _beta=beta)
        wanted = self._alpha if alpha is None else to_target(alpha)
        return fewest_rows(lambda over: asked._kept(wanted, forms, over) is not None, terms)

    def plan(self, terms: Terms) -> Plan:
        """How a channel on such terms would spend. Public, spends nothing.

        Raises
        ------
        QueryError, DomainError, TooLarge
            If the models cannot be put to such a table, or not all at once.
        PublicSizeRequired
            If the number of rows is private.
        InvalidArgument
            If nothing can be answered for so little, or not with that alpha.
        """
        return self._planned(self._forms(terms), terms)

    def _planned(self, forms: tuple[ConvexForm, ...], terms: Terms) -> Plan:
        with self._in_words():
            if self._alpha is None:
                return self._split(self.rounds or min(len(forms), _ROUNDS), _CHOICE, terms)
            plan = self._kept(self._alpha, forms, terms)
        if plan is None:
            raise not_promised(self._alpha, self.alpha_for(terms))
        return plan

    def _split(self, rounds: int, chosen: Fraction, terms: Terms) -> Plan:
        """What rounds cost, where choices have so much of each."""
        before = share_of(self._begins(terms.facts))

        def split(amount: Fraction, rounds: int, pure: bool) -> Plan:  # noqa: FBT001  # as others
            plan = split_rounds(amount, rounds, pure, before, chosen)
            if isinstance(plan.noise, GaussianNoise):
                # Gradients differ, so that what covers the noise is what fits.
                return evolve(plan, noise=GaussianNoise.covered(plan.noise.rho))
            return plan

        total: HasTotal = self
        if self._alpha is not None and self.delta and self.epsilon is not None:
            total = HasTotal(rho=zcdp_start(self.epsilon, self.delta))
        return spent(split, total, rounds, self._parts(terms))

    def _parts(self, terms: Terms) -> Parts:
        start = self._begins(terms.facts)
        return Parts(start if share_of(start) else None, (), terms)

    def _kept(self, alpha: float, forms: tuple[ConvexForm, ...], terms: Terms) -> Plan | None:
        """The plan that keeps an alpha; None if some noise may be too large for it."""
        facts, problems = facts_of(terms), [Problem.of(form) for form in forms]
        rows, scale = float(max(facts.rows or 1, 1)), _scale(forms)
        wanted = 64 * (scale / alpha) ** 2 * self._begins(facts).kl_cap(facts)
        if not (scale > 0.0 and wanted <= _MOST_PROMISED):
            return None
        rounds = max(1, math.ceil(wanted))
        part = self._beta / (_PARTS * rounds)
        options = math.log(len(forms) / part)
        wide = max([problem.dimension for problem in problems])
        numbers = 2.0 * math.sqrt(wide) + 3.0 * math.sqrt(2.0 * math.log(1.0 / part))
        try:
            plan = self._split(rounds, choice_part(options, numbers), terms)
            if plan.noise is None:
                return None
            noise = max([_of_noise(one, plan.noise, facts, rows, part) for one in problems])
        except (InvalidArgument, ArithmeticError):
            return None
        choice = 4 * scale * facts.unit_rows * options / (float(plan.choice) * rows)
        return plan if choice + noise <= (0.75 - 2 * _SOLVER) * alpha else None

    def _forms(self, terms: Terms) -> tuple[ConvexForm, ...]:
        """The models, of which each can be asked."""
        facts = facts_of(terms)
        if facts.rows is None:
            raise PublicSizeRequired(repr(self), "it needs a public number of rows")
        form: Form = self.workload.lower(facts.domain)
        if not isinstance(form, ConvexForm | ConvexForms):
            expected = "a model, or a Workload of models, as of ConvexMinimization"
            raise InvalidArgument("workload", expected, shown(self.workload))
        forms = parts_of(form)
        for part in forms:
            if part.wide:
                reason = "has several classes, or too many attributes to be written out together"
                raise QueryError("", f"{reason}; ask PrivateMinimizer for it")
            if self._alpha is not None:
                check_smooth(part)
        weights = sum([part.dimension * part.cells for part in forms])
        if weights > _MOST_WEIGHTS:
            advice = "ask fewer of them, or models of fewer features"
            raise TooLarge("models at once", weights, _MOST_WEIGHTS, "weights of gradients", advice)
        return forms

    def quote(self, form: Answerable, terms: Terms, /) -> Quote:
        forms = self._forms(terms)
        cost = self._parts(terms).cost(self._planned(forms, terms))
        if isinstance(form, LinearForm):
            return Quote(cost, cost, _LINEAR)
        accuracy: Accuracy = _LATER
        known = [key_of(one) for one in forms]
        if any(key_of(one) not in known for one in parts_of(form)):
            accuracy = _BESIDE
        elif self._alpha is not None:
            span = max([one.constants.range for one in parts_of(form)])
            accuracy = PromisedExcess(self._alpha, self._beta, span)
        return Quote(cost, cost, accuracy)

    def open(self, kernel: Kernel, /) -> KnownModelsStrategy:
        terms = kernel.terms
        forms, start = self._forms(terms), self._begins(kernel.facts)
        plan = self._planned(forms, terms)
        promised: Promised | None = None
        if self._alpha is not None:
            step = math.sqrt(start.kl_cap(kernel.facts) / plan.rounds) / _scale(forms)
            seen = self._beta * (1 - 1 / _PARTS)
            promised = Promised(self._alpha, seen, step, _SOLVER * self._alpha)
        learner = KnownModels(forms, plan, kernel.facts, start, promised)
        with self._in_words():
            # All that can be refused comes first, so that a refusal costs nothing.
            start.check(kernel.facts)
            learner.check(kernel)
        return learn(kernel, plan.rounds, learner)

    def __repr__(self) -> str:
        given = [shown(self.workload), self._total]
        if self._alpha is not None:
            given.append(f"alpha={self._alpha:g}")
        if self.rounds is not None:
            given.append(f"rounds={self.rounds}")
        if self.start is not None:
            given.append(f"start={self.start!r}")
        name = "OfflineConvexPMW" if self._alpha is None else "OfflineConvexPMW.textbook"
        return f"{name}({', '.join(given)})"


def _knows(forms: tuple[ConvexForm, ...], query: Lowers[Answerable], terms: Terms) -> bool:
    """True if all that is asked are of these models."""
    known = [key_of(form) for form in forms]
    form = query.lower(facts_of(terms).domain)
    return not isinstance(form, LinearForm) and all(
        key_of(part) in known for part in parts_of(form)
    )


def _scale(forms: tuple[ConvexForm, ...]) -> float:
    """S, which |⟨θ - θ', ∇ℓ_x(θ)⟩| does not exceed for any record and any two θ of any model."""
    return max([one.lipschitz * one.diameter for one in map(Problem.of, forms)])


def _of_noise(problem: Problem, noise: Noise, facts: Facts, rows: float, part: float) -> float:
    """What the noise of a gradient may take of alpha: its length twice, and once along a way."""
    if not problem.lipschitz * problem.diameter > 0.0:
        return 0.0
    runs, entries = Runs(noise, 1), problem.dimension
    concentration, bias = runs.concentration(problem, facts, rows)
    step = runs.step(problem, facts) / rows
    scale = Fraction(concentration.scale / step)
    pure = isinstance(concentration, LaplaceConcentration)
    law = DiscreteLaplace(scale) if pure else DiscreteGaussian(scale * scale)
    tails = Tails(law, step, bias / math.sqrt(entries))
    far = problem.diameter
    # Weights of scores are rounded no more coarsely, and their differences twice as much.
    return 2.0 * far * (tails.length(entries, part) + bias) + tails.along(far, entries, part)
