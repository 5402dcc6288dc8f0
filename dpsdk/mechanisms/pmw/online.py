"""Online private multiplicative weights, as a mechanism."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_flag
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import AMOUNT, FLAG, Member
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.hypothesis import DenseHypothesis, Product, Start, Uniform
from dpsdk.hypothesis.dense import CELL_LIMIT
from dpsdk.hypothesis.start import START, kind_for, share_of
from dpsdk.kernel import Kernel, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    COUNT,
    NO,
    SHARE,
    WHEN_SPENT,
    ZERO,
    WhenSpent,
    check_shares,
    check_when_spent,
    count_if_given,
    in_words_of,
    share_if_given,
    threshold_if_given,
    to_epsilon,
    to_prepaid,
    to_queries,
    to_zero_delta,
)
from dpsdk.mechanisms.base import HypothesisMechanism, built_in
from dpsdk.mechanisms.numeric_sparse import drift_of, midway, price_any
from dpsdk.mechanisms.pmw.schedule import (
    Promise,
    Rounds,
    Schedule,
    best_promise,
    practical,
    promised,
    promised_counts,
    textbook,
)
from dpsdk.mechanisms.pmw.strategy import OnlineStrategy, Origin, StreamAccuracy
from dpsdk.mechanisms.sampled import check_records, notes_from, start_beyond, to_start
from dpsdk.mechanisms.theorems import fewest_rows, least_share, to_target
from dpsdk.release import Cost, Note, Quote
from dpsdk.typing import Real

__all__ = ["OnlinePMW"]


def _alpha(value: float | None) -> float | None:
    return share_if_given("alpha", value)


def _beta(value: float | None) -> float | None:
    return share_if_given("beta", value)


def _updates(value: int | None) -> int | None:
    return count_if_given("updates", value)


def _replay(value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    return to_flag("replay", value)


def _signed(value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    return to_flag("signed", value)


@built_in(
    "online-pmw",
    {
        "epsilon": AMOUNT,
        "delta": ZERO,
        "updates": COUNT,
        "alpha": SHARE,
        "beta": SHARE,
        "queries": COUNT,
        "threshold": SHARE,
        "start": START,
        "replay": Member(FLAG, True),
        "prepaid": NO,
        "signed": Member(FLAG, False, quiet=True),
        "when_spent": WHEN_SPENT,
        "textbook": Member(FLAG, False, of="_textbook", key="_textbook"),
    },
)
@frozen(repr=False)
class OnlinePMW(HypothesisMechanism):
    """Answer a stream of very many linear queries, and pay only for the few that teach something.

    A public hypothesis, a distribution over the universe, answers every query that it answers
    well; a sparse vector finds out which. The others are measured, and the hypothesis learns
    them. The whole stream is (ε, δ)-DP however long it is, and what an easy stream does not need
    stays in the session. Hardt and Rothblum (2010), in the form of Dwork and Roth (2014,
    Algorithm 6), with sharper constants.

    Where the number of rows is private, a fiftieth of the budget counts them when the channel
    opens. Queries are counts then (`normalized=False`), no row may lie outside the domain
    (`outside="apart"`), the start measures nothing, and an `alpha`, a share of the count, is
    promised if the count turns out to be large enough: `release.bound()` says so.

    With `updates=c`, a practical setting: at most so many queries are learnt, and nothing is
    promised of those that nobody checks afterwards. With `alpha=, beta=, queries=`, a promise:
    with probability 1 - beta each of so many answers is off by at most alpha, or opening is
    refused with the least alpha that can be promised. `OnlinePMW.textbook` has the constants of
    Dwork and Roth.

    Parameters
    ----------
    epsilon, delta
        What the whole stream may cost. With δ > 0 rounds are composed by zCDP.
    updates, alpha, beta, queries
        One of the two settings. In the practical one `queries` is a rough guess of how many
        queries will come, which sets the threshold; 1,000 if left out.
    threshold
        In the practical setting: the gap, as a share of the rows, above which to learn.
    start
        The first hypothesis: `Product()` of noisy one-way marginals for a tenth of the budget, by
        default in the practical setting; `Pairs()`, a fit of all noisy pairs for three quarters of
        it, after which few updates are needed; `Uniform()`, by default where a promise is made; the
        names of these in small letters; `Sampled()` or "marginals", weighted records for a universe
        of any size, by default where it has more than 2^28 cells and several attributes; or any
        public distribution.
    replay
        Whether the hypothesis is held to all numbers measured before, again and again. Free.
    prepaid
        Pay all rounds when the channel opens, so that nobody else takes the budget meanwhile. With
        δ > 0 Gaussian noise has a fiftieth less of ρ then, and the numbers of very few rounds may
        have Laplace noise.
    signed
        Whether queries may weigh rows from -1 to 1, such as `Linear(weights, low=-1, high=1)`, and
        not only from 0 to 1. A row moves them twice as far, and the same alpha takes four times as
        many updates.
    when_spent
        What happens when the session has no budget for another round: answer on from the
        hypothesis, unchecked, or raise.

    >>> from dpsdk.mechanisms import OnlinePMW
    >>> OnlinePMW(epsilon=0.5, delta=1e-7, updates=50)
    OnlinePMW(epsilon=0.5, delta=1e-07, updates=50)
    """

    page = "explanation/proofs/pmw.md"

    epsilon: Fraction = field(converter=to_epsilon)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta)
    updates: int | None = field(default=None, converter=_updates, kw_only=True)
    alpha: float | None = field(default=None, converter=_alpha, kw_only=True)
    beta: float | None = field(default=None, converter=_beta, kw_only=True)
    queries: int | None = field(default=None, converter=to_queries, kw_only=True)
    threshold: float | None = field(default=None, converter=threshold_if_given, kw_only=True)
    start: Start | None = field(default=None, converter=to_start, kw_only=True)
    replay: bool = field(default=True, converter=_replay, kw_only=True)
    prepaid: bool = field(default=False, converter=to_prepaid, kw_only=True)
    signed: bool = field(default=False, converter=_signed, kw_only=True)
    when_spent: WhenSpent = field(default="hypothesis", kw_only=True)
    _textbook: bool = field(default=False, kw_only=True, alias="_textbook")

    def __attrs_post_init__(self) -> None:
        promised = (self.alpha, self.beta, self.queries)
        if self.updates is None and None in promised:
            expected = "given by updates=, or by alpha=, beta= and queries= together"
            raise InvalidArgument("OnlinePMW", expected, repr(self))
        if self.updates is not None and (self.alpha is not None or self.beta is not None):
            expected = "left out where updates= is given, since that promises nothing"
            raise InvalidArgument("alpha and beta", expected, repr(self))
        if self.threshold is not None and self.updates is None:
            expected = "left out where a promise sets it"
            raise InvalidArgument("threshold", expected, shown(self.threshold))
        if self.start is not None and share_of(self.start) and self.updates is None:
            expected = '"uniform" or a public distribution where a promise is made'
            raise InvalidArgument("start", expected, shown(self.start))
        check_records(self.start, pure=not self.delta, prepaid=self.prepaid)
        check_when_spent(self.when_spent)

    @classmethod
    def textbook(
        cls,
        epsilon: Real,
        delta: Real = 0,
        *,
        alpha: float,
        beta: float,
        queries: int,
        signed: bool = False,
    ) -> OnlinePMW:
        """Algorithm 6 of Dwork and Roth (2014) with its constants, corrected where they are wrong.

        Its promise, an error of 3 alpha for so many queries with probability 1 - beta, holds only
        where alpha satisfies their Theorem 4.14 or 4.15 and the exact tails of all its noise stay
        within it, which takes millions of rows; elsewhere it runs, and promises nothing. The number
        of rows must be public: noise may use up all of the 3 alpha, so that these constants leave
        no room for a count that is off.
        """
        return cls(
            epsilon, delta, alpha=alpha, beta=beta, queries=queries, signed=signed, _textbook=True
        )

    def schedule(self, facts: Facts) -> Schedule:
        """How a channel over such a table would spend and decide. Public.

        Raises
        ------
        PublicSizeRequired
            If the number of rows is private, and rows may lie outside the domain, or the constants
            are those of the textbook.
        InvalidArgument
            If the promise cannot be kept; the message says what can be promised.
        """
        if not facts.replaced and self._textbook:
            raise PublicSizeRequired(repr(self), "its constants need a public number of rows")
        if not facts.replaced and facts.outside:
            reason = (
                "its distribution is one of the rows within the domain, which are counted where "
                "the number of rows is private, so that none may lie outside: load the table with "
                'outside="apart"'
            )
            raise PublicSizeRequired(repr(self), reason)
        with in_words_of(epsilon=self.epsilon, delta=self.delta):
            schedule = self._scheduled(facts)
        return schedule.of_signed() if self.signed else schedule

    def _scheduled(self, facts: Facts) -> Schedule:
        epsilon, delta, start = self.epsilon, self.delta, self._begins(facts)
        unit = 1.0 + self.signed
        if self.updates is not None:
            return practical(
                epsilon, delta, self.updates, self.queries or 1000, facts,
                threshold=self.threshold and self.threshold / unit, share=share_of(start),
                prepaid=self.prepaid,
            )  # fmt: skip
        if self.alpha is None or self.beta is None or self.queries is None:
            raise InvalidArgument("OnlinePMW", "given alpha, beta and queries", repr(self))
        promise = Promise(self.alpha / unit, self.beta, self.queries)
        potential = start.kl_cap(facts)
        if self._textbook:
            return textbook(epsilon, delta, promise, facts, potential)
        if not facts.replaced:
            return promised_counts(
                epsilon, delta, promise, facts, potential, prepaid=self.prepaid, unit=unit
            )
        return promised(epsilon, delta, promise, facts, potential, prepaid=self.prepaid, unit=unit)

    @override
    def alpha_for(
        self,
        terms: Terms,
        query: Lowers[LinearForm] | None = None,
        *,
        beta: float | None = None,
    ) -> float | None:
        """As of `Mechanism`, for as many queries as `queries` says; None in the practical setting.

        The numbers of `query`, if it is given, must be no more than these. Of the textbook it is
        three times the least of its alphas that are kept.
        """
        facts, asked = facts_of(terms), self._asked(terms, query, beta)
        if facts.rows is None:
            raise PublicSizeRequired(repr(self), "what rows buy depends on their number")
        if asked is None:
            return None
        if asked._textbook:
            return least_share(lambda alpha: asked._keeps(alpha, terms))
        least = best_promise(
            asked.epsilon, asked.delta, asked.beta or 0.05, asked.queries or 1, facts,
            asked._begins(facts).kl_cap(facts), prepaid=asked.prepaid,
        )  # fmt: skip
        if least is None or least.promise is None:
            return None
        return least.promise.alpha * (1.0 + self.signed)

    @override
    def rows_for(
        self,
        terms: Terms,
        query: Lowers[LinearForm] | None = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> int | None:
        """As of `Mechanism`; the least count, where the number of rows is private."""
        facts, asked = facts_of(terms), self._asked(terms, query, beta)
        if asked is None or asked.alpha is None:
            return None
        wanted = asked.alpha * (3 if asked._textbook else 1) if alpha is None else to_target(alpha)
        if not wanted < 1.0 + self.signed:
            return 1
        if not facts.replaced and not asked._textbook:
            with suppress(InvalidArgument):  # it may be more than the table can have
                return evolve(asked, alpha=wanted).schedule(evolve(facts, rows=None)).least
            return None
        if asked._textbook:
            return fewest_rows(lambda over: asked._keeps(wanted, over), terms)
        return fewest_rows(lambda over: (asked.alpha_for(over) or math.inf) <= wanted, terms)

    def _asked(
        self, terms: Terms, query: Lowers[LinearForm] | None, beta: float | None
    ) -> OnlinePMW | None:
        """The same at another beta; None where nothing is promised of such a query."""
        numbers = 0 if query is None else query.lower(terms.facts.domain).rows
        if self.queries is None or self.alpha is None or numbers > self.queries:
            return None
        return self if beta is None else evolve(self, beta=beta)

    def _keeps(self, error: float, terms: Terms) -> bool:
        """Whether the textbook promises so much: three times its alpha."""
        with suppress(InvalidArgument):
            return evolve(self, alpha=error / 3).schedule(terms.facts).promise is not None
        return False

    @override
    def notes(self, facts: Facts, /) -> tuple[Note, ...]:
        return notes_from(self._begins(facts))

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_shares(form, "OnlinePMW", signed=self.signed)
        schedule, facts = self._fitting(terms), terms.facts
        if facts.rows is None:
            facts = evolve(facts, rows=facts.row_limit)  # the widest of all bounds
        pricing = price_any(form, schedule.noise, terms)
        promise, most = schedule.promise, min(form.rows, schedule.updates)
        promised = promise is not None and form.rows <= promise.queries
        # Numbers are compared while there are updates, and, where a promise is made, while there is
        # something to learn, which nobody knows after the first.
        compared = schedule.updates
        if promise is not None:
            gap = schedule.gap / schedule.unit
            compared = int(self._begins(facts).kl_cap(facts) >= 2 * gap**2)
        origin = Origin.BELOW if form.rows <= compared else Origin.UNCHECKED
        origins = np.full(form.rows, int(origin), dtype=np.int64)
        drift = drift_of(schedule.watching, midway(form), facts)
        number = pricing.accuracies
        accuracy = StreamAccuracy(schedule, facts, drift, origins, most, {}, promised, number)
        rounds = self._rounds(schedule, facts)
        if self.prepaid:
            whole = rounds.prepaid(terms)
            return Quote(whole, whole, accuracy)
        opening = rounds.opening(terms)
        return Quote(Cost(opening), rounds.whole(opening, pricing.guarantee), accuracy)

    def open(self, kernel: Kernel, /) -> OnlineStrategy:
        schedule = self._fitting(kernel.terms)
        rounds = self._rounds(schedule, kernel.facts)
        hypothesis, allowance = rounds.begin(kernel, prepaid=self.prepaid, name=repr(self))
        raises, facts = self.when_spent == "raise", rounds.counted(kernel, allowance)
        if facts is not kernel.facts:
            schedule = self.schedule(facts)
        return OnlineStrategy(
            kernel, schedule, hypothesis, replay=self.replay, raises=raises, facts=facts,
            allowance=allowance,
        )  # fmt: skip

    def _fitting(self, terms: Terms) -> Schedule:
        """The schedule, if all of its noise fits the lattices of the kernel."""
        facts = facts_of(terms)
        schedule = self.schedule(facts)
        if not facts.replaced:
            self._begins(facts).check(facts)
        self._rounds(schedule, facts).check(terms, self.epsilon, self.delta)
        return schedule

    def _rounds(self, schedule: Schedule, facts: Facts) -> Rounds:
        return Rounds(schedule, self._begins(facts))

    def _begins(self, facts: Facts) -> Start:
        """The start, which is chosen by public facts where none was given."""
        if self.start is not None:
            return self.start
        if self.updates is None or not facts.replaced:
            return Uniform()
        wide = start_beyond(facts, CELL_LIMIT, pure=not self.delta, prepaid=self.prepaid)
        return wide or (Product() if kind_for(facts.domain) is DenseHypothesis else Uniform())

    def __repr__(self) -> str:
        given = [f"epsilon={float(self.epsilon):g}", f"delta={float(self.delta):g}"]
        for name in ("updates", "alpha", "beta", "queries", "threshold"):
            value = getattr(self, name)
            if value is not None:
                given.append(f"{name}={value}")
        if self.signed:
            given.append("signed=True")
        return f"OnlinePMW{'.textbook' if self._textbook else ''}({', '.join(given)})"
