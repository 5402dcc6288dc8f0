"""A small database in place of the table, drawn exactly for a workload of linear queries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_beta, to_fraction
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import AMOUNT, Member, Nested, OrNone
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError, TooLarge
from dpsdk.forms import LinearForm, Lowers, Members
from dpsdk.hypothesis import SyntheticData
from dpsdk.kernel import (
    DatabaseAccuracy,
    Dimension,
    DrawBound,
    DrawDatabase,
    Kernel,
    Limits,
    SmallDatabase,
    Terms,
)
from dpsdk.kernel.draw_database.bounds import theorem_alpha, theorem_rows, to_size
from dpsdk.kernel.draw_database.dimension import dimension_if_given
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    BETA,
    COUNT,
    MAYBE,
    QUERY,
    check_linear,
    to_epsilon,
    to_workload,
)
from dpsdk.mechanisms.base import DistributionMechanism, MeasuresOnce, built_in
from dpsdk.mechanisms.fitted import Fitted
from dpsdk.release import Accuracy, Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Array, Real

__all__ = ["SmallDB", "SmallDBStrategy"]

_CODES = 2**28
"""How many codes of all records synthetic data may have."""

_PRIVATE_ROWS = NoAccuracy(
    "a small database knows shares alone, and the number of rows is private",
    "read shares off channel.distribution, or make the number of rows public",
)
_OUTSIDE = NoAccuracy(
    "not in the workload of the small database",
    "put the query into the workload before it is opened, or ask a mechanism that measures",
)


def _alpha(value: Real | None) -> Fraction | None:
    if value is None:
        return None
    expected = "a share of the rows, from 1e-7 to 1"
    share = to_fraction("alpha", value, expected)
    if not Fraction(1, 10**7) <= share <= 1:
        raise InvalidArgument("alpha", expected, shown(value))
    return share


def _size(value: int | None) -> int | None:
    return None if value is None else to_size(value)


def _limits(value: Limits | None) -> Limits:
    if value is None:
        return Limits()
    if not isinstance(value, Limits):
        raise InvalidArgument("limits", "Limits, as in Limits(seconds=60)", shown(value))
    return value


@built_in(
    "small-db",
    {
        "workload": QUERY,
        "epsilon": AMOUNT,
        "alpha": MAYBE,
        "size": COUNT,
        "beta": BETA,
        "limits": Nested[Limits]("limits of a draw", Limits),
        "dimension": Member(
            OrNone(Nested[Dimension]("what is known of a workload", Dimension)), None, quiet=True
        ),
    },
)
@frozen(repr=False)
class SmallDB(DistributionMechanism, MeasuresOnce[LinearForm]):
    """Draw a small database that answers a workload about as the table does, and publish it.

    Opening draws one database of `size` records, of all that there are, by the exponential
    mechanism of Blum, Ligett and Roth (2008; Dwork and Roth 2014, Section 4.1), exactly: no Markov
    chain, no float decides a probability. It costs `epsilon`, once. From then on every linear query
    is answered off that database, free: those of the workload within `release.error(beta)`, which
    is proven for every table and tells nothing of this one, and any other without a bound. Whether
    a query is in the workload is told by what it weighs, not by the object.

    The database is public `SyntheticData`: `channel.distribution`. Where the number of rows is
    private it knows shares alone, so that channels refuse queries and the distribution answers.

    How long a draw takes depends on the table: who may watch a clock must not see it.

    Parameters
    ----------
    workload
        Linear queries, such as a `Workload`, a `Marginal`, or anything else that lowers to a form.
        Thresholds, intervals, disjoint cells and one-way marginals are drawn for at any size of
        the universe; other queries while there are few databases, or few queries.
    epsilon
        What opening costs: pure ε, with bounded range.
    alpha
        How far off the best of the small databases may be, as a share of the rows; the size is the
        fewest records for which that is proven. How far the one that is drawn is from the best
        comes on top.
    size
        Instead of alpha: how many records. With neither it is the one whose error at confidence
        1 - beta is least, which takes a public number of rows.
    beta
        See `size`. Bounds can be asked for at any other confidence.
    limits
        What the draw may take, in time and memory, as estimated from public facts.
    dimension
        The dimension of Vapnik and Chervonenkis of the workload, if you know it, and why. Where it
        proves less error than the number of queries does, the bound rests on it, and says so. Of
        thresholds, intervals, boxes and conjunctions it is known already.

    >>> from dpsdk import Budget, Domain, Integer, PrivateData, Session
    >>> from dpsdk.mechanisms import SmallDB
    >>> from dpsdk.queries import Threshold, Workload
    >>> SmallDB(Workload(Threshold("age", t) for t in range(17, 91)), epsilon=1, size=20)
    SmallDB(Workload of 74 queries, epsilon=1, size=20)
    """

    page = "explanation/proofs/small-database.md"

    workload: Lowers[LinearForm] = field(converter=to_workload)
    epsilon: Fraction = field(converter=to_epsilon, kw_only=True)
    alpha: Fraction | None = field(default=None, converter=_alpha, kw_only=True)
    size: int | None = field(default=None, converter=_size, kw_only=True)
    beta: float = field(default=0.05, converter=to_beta, kw_only=True)
    limits: Limits = field(default=None, converter=_limits, kw_only=True)
    dimension: Dimension | None = field(default=None, converter=dimension_if_given, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.alpha is not None and self.size is not None:
            raise InvalidArgument("size", "left out where alpha is given", str(self.size))

    @staticmethod
    def theorem_rows(
        alpha: Real,
        beta: float,
        epsilon: Real,
        *,
        universe: int,
        functions: int | None = None,
        dimension: int | None = None,
    ) -> Fraction:
        """How many rows are enough for an error: Theorems 4.5 and 4.9 of Dwork and Roth (2014).

        See `dpsdk.kernel.draw_database.bounds.theorem_rows`. `quote` is sharper for most workloads.
        """
        return theorem_rows(
            alpha, beta, epsilon, universe=universe, functions=functions, dimension=dimension
        )

    @staticmethod
    def theorem_alpha(
        rows: int,
        beta: float,
        epsilon: Real,
        *,
        universe: int,
        functions: int | None = None,
        dimension: int | None = None,
    ) -> Fraction:
        """The error that a number of rows allows: `theorem_rows` solved for alpha."""
        return theorem_alpha(
            rows, beta, epsilon, universe=universe, functions=functions, dimension=dimension
        )

    @override
    def _stated(
        self, query: Lowers[LinearForm] | None, beta: float | None
    ) -> tuple[Lowers[LinearForm], float]:
        return query or self.workload, self.beta if beta is None else beta

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        """Price the opening, and bound the errors of answers to a form.

        Raises
        ------
        ExactSamplingInfeasible
            If no sampler can draw the small database exactly within the limits.
        InvalidArgument
            If the workload does not fit the table.
        PublicSizeRequired
            If neither alpha nor size is given, and the number of rows is private.
        """
        check_linear(form, "SmallDB")
        workload = self._form(terms)
        price = self._request(workload, terms).price(terms)
        cost = Cost((price.guarantee,))
        if facts_of(terms).rows is None:
            return Quote(cost, cost, _PRIVATE_ROWS)
        covered = Members.of(workload).covers(form)
        return Quote(cost, cost, _accuracy(price.bound, covered))

    def open(self, kernel: Kernel, /) -> SmallDBStrategy:
        """Draw the small database. Raises as `quote` does, before anything is charged."""
        terms = kernel.terms
        workload = self._form(terms)
        request = self._request(workload, terms)
        members = Members.of(workload)
        kernel.progress(0, 1, "draws")
        drawn = kernel.run(request)
        kernel.progress(1, 1, "draws")
        return SmallDBStrategy(_published(drawn, terms), drawn.bound, members)

    def _form(self, terms: Terms) -> LinearForm:
        """The form of the workload."""
        domain = facts_of(terms).domain
        form: object = self.workload.lower(domain)
        if type(form) is not LinearForm:
            raise QueryError("", "SmallDB takes a workload of linear queries only")
        return form

    def _request(self, form: LinearForm, terms: Terms) -> DrawDatabase:
        facts = terms.facts
        if self.size is None and self.alpha is None and facts.rows is None:
            reason = "the best size depends on the number of rows, which is private here"
            raise PublicSizeRequired("", f"{reason}; give size= or alpha=")
        if self.size is not None:
            request = DrawDatabase(form, self.size, self.epsilon, self.limits, self.dimension)
        else:
            request = DrawDatabase.sized(
                form,
                self.epsilon,
                terms,
                alpha=self.alpha,
                beta=self.beta,
                limits=self.limits,
                dimension=self.dimension,
            )
        codes = request.size * len(facts.domain.attributes)
        if codes > _CODES:
            raise TooLarge("synthetic data", codes, _CODES, "codes", "ask for fewer records")
        return request

    def __repr__(self) -> str:
        given = [str(self.workload), f"epsilon={float(self.epsilon):g}"]
        if self.alpha is not None:
            given.append(f"alpha={float(self.alpha):g}")
        if self.size is not None:
            given.append(f"size={self.size}")
        if self.dimension is not None:
            given.append(f"dimension={self.dimension.value}")
        return f"SmallDB({', '.join(given)})"


@frozen
class SmallDBStrategy:
    """Answers read off one small database, with a bound for those of its workload."""

    distribution: SyntheticData
    """The records of the small database, public."""
    bound: DrawBound
    """How far off they may be in the functions of the workload."""
    _members: Members = field(repr=False)

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, read off the small database. Costs nothing."""
        check_linear(form, "SmallDB")
        read = Fitted(self.distribution).answer(form, kernel)
        return evolve(read, accuracy=_accuracy(self.bound, self._members.covers(form)))


def _accuracy(bound: DrawBound, covered: Array) -> Accuracy:
    if not covered.any():
        return _OUTSIDE
    return DatabaseAccuracy(bound, len(covered), None if covered.all() else covered)


def _published(drawn: SmallDatabase, terms: Terms) -> SyntheticData:
    facts, records = terms.facts, drawn.records
    beyond = records[:, 0] < 0 if records.shape[1] else np.zeros(len(records), dtype=np.bool_)
    count = int(beyond.sum()) if facts.outside else None
    return SyntheticData(facts.domain, records[~beyond], outside_count=count)
