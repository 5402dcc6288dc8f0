"""ResidualPlanner, as a mechanism."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_finite, to_flag
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import NUMBER, Choice, ListOf, Member, OrNone
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, Lowers
from dpsdk.forms.linear import narrowed
from dpsdk.kernel import GaussianNoise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import NO, QUERY, TOTAL, forms_of, to_workload
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.linear_accuracy import MovedAccuracy
from dpsdk.mechanisms.measured_once import Estimates, LeastSquares
from dpsdk.mechanisms.residual_planner.plan import Objective, check_weights, planned, wanted_sets
from dpsdk.mechanisms.residual_planner.residuals import (
    ResidualPlan,
    Residuals,
    check_fits,
    possible,
)
from dpsdk.release import Measurement, NoAccuracy, Quote

__all__ = ["ResidualPlanner", "ResidualStrategy"]

Asked: TypeAlias = Lowers[LinearForm] | Iterable[Lowers[LinearForm]]

_LATER = (
    "the possible tables are near the measured ones; how near is told with each answer",
    "ask when it is open, or quote without it",
)


def _to_workloads(value: Asked) -> tuple[Lowers[LinearForm], ...]:
    if callable(getattr(value, "lower", None)) or isinstance(
        value, str | bytes | bytearray | Mapping | type
    ):
        return (to_workload(value),)  # type: ignore[arg-type]  # which refuses all else
    if not isinstance(value, Iterable):
        return (to_workload(value),)
    several = tuple([to_workload(one) for one in value])
    if not several:
        raise InvalidArgument("workload", "at least one query", "none")
    return several


def _to_objective(value: Objective) -> Objective:
    if not isinstance(value, str) or value not in ("sum", "max"):
        raise InvalidArgument("objective", '"sum" or "max"', shown(value))
    return value


def _to_weights(value: Iterable[float] | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    expected = "positive numbers, one for each table of the workload"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("weights", expected, shown(value))
    weights = tuple([float(to_finite("weights", one)) for one in value])
    if not all(1e-100 <= weight <= 1e100 for weight in weights):
        raise InvalidArgument("weights", f"{expected}, from 1e-100 to 1e100", shown(value))
    return weights


def _to_nonnegative(value: bool) -> bool:  # noqa: FBT001 - a reader of an argument
    return to_flag("nonnegative", value)


@frozen(eq=False)
class ResidualStrategy(Estimates):
    """Answers read off residuals that were measured once. They cost nothing."""

    @property
    def plan(self) -> ResidualPlan:
        """The plan that was measured."""
        return cast("ResidualPlan", self.measured)

    @cached_property
    def _possible(self) -> Residuals:
        facts = self.facts
        most = float(facts.row_limit if facts.rows is None else facts.rows)
        return possible(self.estimate, exact_total=not self.noise.steps[0], most=most)

    def measurement(self, form: LinearForm) -> Measurement:
        found = self._unbiased(form)
        if not self.mechanism.nonnegative:
            return found
        moved = self._possible.answers(narrowed(form))
        accuracy = MovedAccuracy(found.accuracy, np.abs(moved - found.values))
        return Measurement(moved, accuracy, "fitted")


@built_in(
    "residual-planner",
    {
        "workload": ListOf(QUERY, least=1),
        **TOTAL,
        "objective": Member(Choice[str]("sum", "max"), "sum"),
        "weights": Member(OrNone(ListOf(NUMBER)), None),
        "nonnegative": NO,
    },
)
@frozen(repr=False)
class ResidualPlanner(LeastSquares[ResidualStrategy]):
    """Unbiased tables of any domain, from the best plan that does not look at data.

    A table is a sum of residuals: of what the marginals on the subsets of its attributes say beyond
    their own margins. Each residual is measured once when the channel opens, with noise of its own
    scale, chosen so that the variances of the tables that were asked for are least in sum, or that
    the largest is (Xiao, He and Kifer 2023). Everything is charged as one run. Then every linear
    query is free that depends on attributes which some table of the workload has together: its
    answer is unbiased, its variance is known exactly, and its bounds, for each number and for all
    at once, are proven. No structure over the universe is made, so it may have any size.

    It needs Gaussian noise: for pure ε open `NoisyHistogram`, or ask the tables of `Laplace`.

    Parameters
    ----------
    workload
        A query or a `Workload`, such as `marginals(domain, 2)`; or several of them. Together they
        may have more numbers than one request. Of every query the table is planned on the
        attributes that it depends on.
    epsilon, delta
        The total: discrete Gaussian noise by the largest ρ that is certified for (ε, δ); δ > 0.
    rho
        Instead: discrete Gaussian noise that is ρ-zCDP.
    objective
        What is least: "sum", of weight times the variance of a cell over all tables, or "max", the
        largest of these. The first has a closed form; the second is met within a thousandth.
    weights
        One positive number for each table, in the order of the workload; all 1 if left out.
    nonnegative
        Whether answers are read off tables without negative cells, which agree wherever they
        overlap, near to the unbiased ones. Most errors are lower then; answers are no longer
        unbiased and have no variance, and a bound is that of the unbiased answer plus its distance.
        The first answer takes some hundred passes over all tables, of 2^22 cells at the most.

    Raises
    ------
    InvalidArgument
        If an argument is not as described, or δ is 0.
    TooLarge
        When opened or quoted, before anything is paid: if residuals have more than 2^25 numbers,
        or tables without negative cells more than 2^22 cells.
    QueryError
        When asked about attributes that no table has together.

    >>> from dpsdk.mechanisms import ResidualPlanner
    >>> from dpsdk.queries import Marginal
    >>> ResidualPlanner(Marginal("sex", "income"), rho="0.01")
    ResidualPlanner(Marginal('sex', 'income'), rho=0.01)
    """

    page = "explanation/proofs/residuals.md"
    _strategy = ResidualStrategy

    workload: tuple[Lowers[LinearForm], ...] = field(converter=_to_workloads)
    objective: Objective = field(default="sum", converter=_to_objective, kw_only=True)
    weights: tuple[float, ...] | None = field(default=None, converter=_to_weights, kw_only=True)
    nonnegative: bool = field(default=False, converter=_to_nonnegative, kw_only=True)

    def plan(self, terms: Terms) -> ResidualPlan:
        """The plan of a channel on such terms. Public, spends nothing.

        Raises
        ------
        QueryError, DomainError
            If the workload cannot be put to such a table.
        TooLarge
            If its residuals have more than 2^25 numbers.
        """
        facts = facts_of(terms)
        sets, places = wanted_sets(self._forms(facts.domain))
        given = check_weights(self.weights, len(places))
        weights = np.zeros(len(sets))
        # A table that is asked for twice counts twice, or by its larger weight.
        (np.add if self.objective == "sum" else np.maximum).at(weights, places, given)
        plan = planned(sets, weights, self.objective, facts, float(self._noise().rho))
        if self.nonnegative:
            check_fits(plan)
        return plan

    def _forms(self, domain: Domain) -> Iterator[LinearForm]:
        """The queries one by one, each let go before the next."""
        for one in self.workload:
            for form in forms_of(one, domain):
                if form.domain is not domain and form.domain != domain:
                    expected = "over the domain of the table"
                    raise InvalidArgument("workload", expected, "another domain")
                yield form

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        quote = super().quote(form, terms)
        if not self.nonnegative:
            return quote
        return evolve(quote, accuracy=NoAccuracy(*_LATER))

    def _measured(self, terms: Terms, /) -> ResidualPlan:
        return self.plan(terms)

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            with super()._in_words():
                yield
        except InvalidArgument as error:
            if error.parameter not in ("sets", "scales"):
                raise
            raise InvalidArgument("workload", error.expected, error.got) from None

    def _noise(self) -> GaussianNoise:
        noise = super()._noise()
        if not isinstance(noise, GaussianNoise):
            expected = "more than 0, since the noise of ResidualPlanner is Gaussian"
            raise InvalidArgument("delta", expected, "0")
        return noise

    def __repr__(self) -> str:
        asked = self.workload[0] if len(self.workload) == 1 else list(self.workload)
        given = [shown(asked), self._total]
        if self.objective != "sum":
            given.append(f"objective={self.objective!r}")
        if self.weights is not None:
            given.append(f"weights={shown(self.weights)}")
        if self.nonnegative:
            given.append("nonnegative=True")
        return f"ResidualPlanner({', '.join(given)})"
