"""ResidualPlanner, and its plan of a workload of marginals for the least variance.

The variance of a cell of the marginal on S is the sum over the subsets T of S of
σ_T² p_T / n_(S-T)², with n_(S-T) the number of cells of the attributes that T leaves out; and T
costs a_T / (2 σ_T²), where a_T is p_T under add-remove. docs/explanation/proofs/residuals.md has
the proofs. All of it is public.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_finite, to_flag
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import NUMBER, Choice, ListOf, Member, OrNone
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.forms.linear import narrowed
from dpsdk.forms.residuals import Names, closure, subsets
from dpsdk.kernel import GaussianNoise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import NO, QUERY, TOTAL, forms_of, to_workload
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.linear_accuracy import MovedAccuracy
from dpsdk.mechanisms.measured_once import Estimates, LeastSquares
from dpsdk.mechanisms.residual_planner.residuals import (
    ResidualPlan,
    Residuals,
    check_fits,
    possible,
)
from dpsdk.release import Measurement, NoAccuracy, Quote
from dpsdk.typing import Floats, Ints

__all__ = [
    "GAP",
    "NUMBER_LIMIT",
    "Objective",
    "Problem",
    "ResidualPlanner",
    "ResidualStrategy",
    "least_largest",
    "least_sum",
    "planned",
    "wanted_sets",
]

Objective: TypeAlias = Literal["sum", "max"]

NUMBER_LIMIT = 2**25
"""No plan measures more numbers, 256 MiB, or twice that while they are measured."""

_SUBSET_LIMIT = 2**18

_FINE = 2**12
"""The noisiest residual is multiplied by this at the least, so that scales can be told apart."""

_LONGEST = 2.0**60
_WIDEST = 2.0**50


def wanted_sets(forms: Iterable[LinearForm]) -> tuple[list[Names], list[int]]:
    """The attributes of each table of a workload, each set once, and the set of each block."""
    found: dict[Names, int] = {}
    places: list[int] = []
    for form in forms:
        for block in form.blocks:
            names = tuple(sorted(block.names, key=form.domain.position))
            places.append(found.setdefault(names, len(found)))
    return list(found), places


_ADVICE = "ask for fewer tables, or for tables of fewer attributes"


@frozen(eq=False)
class _Layout:
    """The part of a plan that no amount changes."""

    sets: tuple[Names, ...]
    """Residuals of one shape lie side by side, so that they can be worked on at once."""
    cells: Floats
    squares: Floats
    """σ² of each residual at a ρ of 1."""
    gap: float
    sizes: tuple[tuple[str, int], ...]


@lru_cache(8)
def _layout(
    tables: tuple[Names, ...], weights: tuple[float, ...], objective: Objective, facts: Facts
) -> _Layout:
    """The layout for tables of such attributes. Their many residuals are planned once."""
    sizes = {name: facts.domain[name].size for names in tables for name in names}
    for names in tables:
        # The residuals of all subsets of one table.
        _check("numbers", math.prod([1 + sizes[name] for name in names]), NUMBER_LIMIT)
    _check("parts of tables", sum([2 ** len(names) for names in tables]), _SUBSET_LIMIT)
    sets = sorted(closure(tables), key=lambda names: (len(names), [sizes[n] for n in names]))
    cells = [math.prod([sizes[name] for name in names]) for names in sets]
    _check("numbers", sum(cells), NUMBER_LIMIT)
    problem = Problem.of(tables, sets, sizes, replace=facts.replaced, outside=bool(facts.outside))
    costs, gap = np.array(weights), 0.0
    if objective == "sum":
        squares = least_sum(problem, costs)
    else:
        squares, gap = least_largest(problem, costs)
    ordered = tuple([(name, sizes[name]) for name in facts.domain.names if name in sizes])
    return _Layout(tuple(sets), np.array(cells, dtype=np.float64), squares, gap, ordered)


def _check(what: str, count: int, most: int) -> None:
    if count > most:
        raise TooLarge("ResidualPlanner", count, most, what, _ADVICE)


def planned(
    tables: Sequence[Names], weights: Floats, objective: Objective, facts: Facts, rho: float
) -> ResidualPlan:
    """The plan for tables of such attributes."""
    layout = _layout(tuple(tables), tuple(weights.tolist()), objective, facts)
    deviations = np.sqrt(layout.squares / rho) * facts.unit_rows
    scales = _scales(deviations, layout.cells, facts)
    return ResidualPlan(layout.sets, scales, tuple(tables), layout.gap, layout.sizes)


def _scales(deviations: Floats, cells: Floats, facts: Facts) -> tuple[int, ...]:
    """Integers about inverse to the noise that each residual is to have, times its cells.

    All noise has one width, in units of 1 / scale: as fine as leaves integers within 64 bits.
    """
    paid = deviations > 0
    if not paid.any():
        return tuple([1] * len(deviations))
    widths = deviations[paid] * cells[paid]
    finest = float(deviations[paid].min())
    width = min(_FINE * float(widths.max()), _LONGEST / max(facts.row_limit, 1) * finest, _WIDEST)
    wanted = np.ones(len(deviations))
    wanted[paid] = np.maximum(np.rint(width / widths), 1.0)
    return tuple([int(scale) for scale in wanted])


def check_weights(weights: tuple[float, ...] | None, blocks: int) -> Floats:
    """One weight for each table, all the same if none are given."""
    if weights is None:
        return np.ones(blocks)
    if len(weights) != blocks:
        expected = f"one number for each of the {blocks:,} tables of the workload"
        raise InvalidArgument("weights", expected, f"{len(weights):,} numbers")
    return np.array(weights)


GAP = 1e-3
"""The largest variance is at most so much above what is proven to be the least there is."""

_STEPS = 2000


@frozen(eq=False)
class Problem:
    """The wanted marginals, the residuals they are made of, and the price of these."""

    prices: Floats
    """a_T of each residual; 0 where it is free, and known exactly."""
    weights: Floats
    """p_T of each residual; 0 where an attribute has one cell."""
    marginals: Ints
    residuals: Ints
    shares: Floats
    """Triples: a marginal has a residual in it, spread over cells, of square share 1 / n_(S-T)²."""
    count: int
    """How many marginals there are."""

    @classmethod
    def of(
        cls,
        wanted: Sequence[Names],
        measured: Sequence[Names],
        sizes: Mapping[str, int],
        *,
        replace: bool,
        outside: bool,
    ) -> Problem:
        """That of sets of attributes; `measured` has all subsets of the wanted ones."""
        places = {names: place for place, names in enumerate(measured)}
        shares = [[1 - 1 / sizes[name] for name in names] for names in measured]
        weights = np.array([math.prod(each) for each in shares])
        prices = weights.copy()
        if replace:
            for place, names in enumerate(measured):
                # Two rows that differ in one attribute only, that of the fewest cells.
                least = min([sizes[name] for name in names], default=0)
                prices[place] *= 2 / (1 - 1 / least) if least > 1 else float(outside and not names)
        cells = {names: math.prod([sizes[name] for name in names]) for names in measured}
        triples = [
            (row, places[part], (cells[part] / cells[names]) ** 2)
            for row, names in enumerate(wanted)
            for part in subsets(names)
        ]
        rows, columns, parts = map(np.array, zip(*triples, strict=True))
        return cls(prices, weights, rows, columns, parts, len(wanted))

    def variances(self, squares: Floats) -> Floats:
        """The variance of a cell of each marginal, from σ² of each residual."""
        terms = (squares * self.weights)[self.residuals] * self.shares
        return np.bincount(self.marginals, terms, self.count).astype(np.float64, copy=False)

    def pressures(self, costs: Floats) -> Floats:
        """For each residual the sum of the costs of marginals that it is in, by square share."""
        terms = costs[self.marginals] * self.shares
        found = np.bincount(self.residuals, terms, len(self.prices))
        return found.astype(np.float64, copy=False)


def least_sum(problem: Problem, costs: Floats) -> Floats:
    """σ² for which the sum of costs times variances is least, at a ρ of 1 by the sum of prices.

    By Cauchy's inequality σ_T² is as √(a_T / (p_T C_T)), with C_T the pressure of T. Zero where a
    residual is free.
    """
    pressed = problem.pressures(costs)
    paid = (problem.prices > 0) & (pressed > 0)
    squares = np.zeros(len(pressed))
    squares[paid] = np.sqrt(problem.prices[paid] / (problem.weights[paid] * pressed[paid]))
    spent = float((problem.prices[paid] / squares[paid]).sum()) / 2
    return squares * spent


def least_largest(problem: Problem, weights: Floats) -> tuple[Floats, float]:
    """σ² for which the largest weight times variance is least, and the gap that is proven of it.

    The least sum is concave in the costs, and at costs that add up to one no larger than the least
    largest value. Its slope is the variances, so costs are multiplied by their squares: such a step
    never lowers it. Stops where the largest value is within `GAP` of it.
    """
    costs = np.full(problem.count, 1 / problem.count)
    best, gap, floor = least_sum(problem, costs * weights), math.inf, 0.0
    top = math.inf
    for _ in range(_STEPS):
        squares = least_sum(problem, costs * weights)
        values = problem.variances(squares) * weights
        floor = max(floor, float(costs @ values))
        largest = float(values.max())
        if largest < top:
            best, top = squares, largest
        gap = top / floor - 1 if floor else 0.0
        if gap <= GAP:
            break
        costs = np.maximum(costs * (values / largest) ** 2, 1e-30)
        costs /= costs.sum()
    return best, gap


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
