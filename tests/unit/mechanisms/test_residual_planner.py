"""ResidualPlanner: the optimum, the exact answers of a dense solve, bounds that hold, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import DiscreteGaussianGuarantee, Odometer, ZCDPComposition
from dpsdk.errors import InvalidArgument, NoBound, QueryError, TooLarge
from dpsdk.forms import Facts, Kronecker, LinearForm, Prefix, Residual, Toeplitz, Weights
from dpsdk.forms.residuals import closure
from dpsdk.kernel import GaussianNoise, Kernel, Terms
from dpsdk.mechanisms import ResidualPlanner
from dpsdk.mechanisms.residual_planner import mechanism as planner_module
from dpsdk.mechanisms.residual_planner import residuals as possible_module
from dpsdk.mechanisms.residual_planner.mechanism import GAP, Problem, least_largest, least_sum
from dpsdk.mechanisms.residual_planner.residuals import Residuals, _Combining
from dpsdk.queries import (
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

CUBE = Domain(Integer("a", 0, 4), Integer("b", 0, 1), Integer("one", 0, 0), Integer("d", 0, 2))
SIZES = dict(zip(CUBE.names, CUBE.shape, strict=True))
RELATIONS = list(itertools.product(Neighbors, ("cell", "raise")))
every_relation = pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)

TABLES = Workload(
    [
        Marginal("a", "b", normalized=False),
        Marginal("d", "b", normalized=False),
        Marginal("a", "one", normalized=False),
    ]
)
ASKED = Workload(
    [
        Count(normalized=False),
        Marginal("b", "a", normalized=False),
        Marginal("one", normalized=False),
        Threshold("a", 2, normalized=False),
        Interval("d", 1, 2, normalized=False),
        Conjunction({"a": {0, 3}, "b": 1}, normalized=False),
        Linear(lambda r: r["a"] / 4 * r["b"], ("a", "b"), normalized=False),
        Sum("a", normalized=False),
        Workload([Threshold("a", t, normalized=False) for t in range(5)]),
    ]
)


def table(neighbors=Neighbors.ADD_REMOVE, outside="cell", rows=400, unit_rows=1):
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(0, size, rows) for name, size in SIZES.items()}
    columns["b"] = (columns["a"] > 2).astype(int)
    return PrivateData.from_columns(
        {name: column.tolist() for name, column in columns.items()},
        CUBE,
        neighbors=neighbors,
        outside=outside,
        unit_rows=unit_rows,
        max_rows=1000,
    )


def opened(mechanism, data=None, seed=7):
    odometer = Odometer(Budget(10**20, "0.1"), ZCDPComposition("0.1"))
    kernel = Kernel(data or table(), odometer, seeded(seed), "asked")
    return mechanism.open(kernel), kernel, odometer


def session(data=None, seed=7):
    return Session(
        data or table(),
        Budget(10**20, "0.1"),
        composition=ZCDPComposition("0.1"),
        noise=seeded(seed),
    )


# What is measured, and the same by a dense least-squares solve.


@every_relation
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_answers_and_variances_are_those_of_a_dense_solve(neighbors, outside, objective):
    data = table(neighbors, outside)
    strategy, kernel, _ = opened(ResidualPlanner(TABLES, rho=1, objective=objective), data)
    plan, noise = strategy.plan, strategy.noise
    variance = float(noise.law.standard_deviation() ** 2)
    cells = math.prod(CUBE.shape)
    grid = list(np.indices(CUBE.shape).reshape(len(SIZES), -1))
    codes = dict(zip(CUBE.names, grid, strict=True))

    def weights(form):
        rows = [
            np.broadcast_to(b.columns([codes[n] for n in b.names]), (b.rows, cells))
            for b in form.blocks
        ]
        return np.concatenate(rows)

    # What the kernel gave, before it was centred, with the same noise.
    found = kernel_values(plan, data)
    queries, spread = [], []
    for names, step, size in zip(plan.sets, noise.steps, plan.cells, strict=True):
        form = LinearForm(CUBE, [Kronecker(names, tuple(Residual(SIZES[n]) for n in names))])
        queries.append(weights(form) / size)
        spread.append(np.full(size, step**2 * variance))
    queries, spread = np.concatenate(queries), np.concatenate(spread)
    form = ASKED.lower(CUBE)
    asked = weights(form)
    certain = spread == 0
    # Weighted least squares, with what is known exactly as a constraint.
    whitened = queries[~certain] / np.sqrt(spread[~certain])[:, None]
    inner, right = (
        whitened.T @ whitened,
        whitened.T @ (found / np.sqrt(np.where(certain, 1, spread)))[~certain],
    )
    fixed = queries[certain]
    side = np.block([[inner, fixed.T], [fixed, np.zeros((len(fixed), len(fixed)))]])
    solved = np.linalg.pinv(side, rcond=1e-11) @ np.concatenate([right, found[certain]])
    got = strategy.answer(form, kernel)
    assert got.values == pytest.approx(asked @ solved[:cells], rel=1e-12, abs=1e-10)
    inverse = np.linalg.pinv(side, rcond=1e-11)[:cells, :cells]
    dense = np.einsum("rc,cd,rd->r", asked, inverse, asked)
    assert got.accuracy.variances == pytest.approx(dense, rel=1e-12, abs=1e-10)
    assert got.source == "fitted"


def kernel_values(plan, data):
    odometer = Odometer(Budget(10**20, "0.1"), ZCDPComposition("0.1"))
    return Kernel(data, odometer, seeded(7), "x").run(plan.request(GaussianNoise(1))).values


def test_variances_to_twelve_digits():
    """By hand, in exact fractions: the sum of σ² p / n² over the subsets of a table."""
    strategy, kernel, _ = opened(ResidualPlanner(TABLES, rho=1))
    plan, law = strategy.plan, strategy.noise.law
    variance = law.standard_deviation() ** 2
    for names in plan.tables:
        exact = Fraction(0)
        for part, scale, cells in zip(plan.sets, plan.scales, plan.cells, strict=True):
            if set(part) <= set(names):
                share = math.prod(1 - Fraction(1, SIZES[n]) for n in part)
                left = math.prod(SIZES[n] for n in names if n not in part)
                exact += share / Fraction(scale * cells * left) ** 2
        got = strategy.answer(Marginal(*names, normalized=False).lower(CUBE), kernel)
        assert got.accuracy.variances == pytest.approx(float(exact) * variance, rel=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 40])
def test_lines_and_residuals_have_the_variances_of_their_weights(size):
    """Neither is written out."""
    rng = np.random.default_rng(size)
    sizes = {"a": size, "b": 3}
    combining = _Combining(dict.fromkeys(closure([("a", "b")]), 0.7), sizes)
    lines = [rng.normal(size=size), np.ones(size), np.zeros(size), -1 / np.arange(1.0, size + 1)]
    for factor in (*map(Toeplitz, lines), Residual(size)):
        for names, factors in ((("a",), (factor,)), (("a", "b"), (factor, Prefix(3)))):
            found = combining._of(Kronecker(names, factors, -2.0))
            written = (Weights(factor.matrix()), *factors[1:])
            other = combining._of(Kronecker(names, written, -2.0))
            assert found.squares == pytest.approx(other.squares, rel=1e-10, abs=1e-10)
            assert found.peaks == pytest.approx(other.peaks, rel=1e-12, abs=1e-14)
            assert (found.counts >= other.counts).all()


def test_lines_may_be_of_any_length():
    size = 2**13
    domain = Domain(Integer("x", 0, size - 1))
    data = PrivateData.from_columns({"x": [0, 5, 9]}, domain)
    table = Marginal("x", normalized=False)
    strategy, kernel, _ = opened(ResidualPlanner(table, rho=1), data)
    for factor in (Toeplitz(np.ones(size)), Residual(size)):
        form = LinearForm(domain, [Kronecker(("x",), (factor,))])
        radii = strategy.answer(form, kernel).accuracy.radii(0.1, joint=False)
        assert radii.shape == (size,)
        assert (radii > 0).all()


# The optimum.


def problem(neighbors=Neighbors.ADD_REMOVE, outside=True):
    wanted = [("a", "b"), ("b", "d"), ("a",), ("a", "d"), ()]
    measured = closure(wanted)
    replace = neighbors is Neighbors.REPLACE_ONE
    return Problem.of(wanted, measured, SIZES, replace=replace, outside=outside), measured


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_no_division_of_the_budget_has_a_smaller_sum(neighbors, outside):
    given, measured = problem(neighbors, outside)
    costs = np.array([1.0, 2, 0.5, 1, 3])
    squares = least_sum(given, costs)
    paid = squares > 0
    free = neighbors is Neighbors.REPLACE_ONE and not outside
    assert (~paid).tolist() == [free and not names for names in measured]
    spent = (given.prices[paid] / squares[paid]).sum() / 2
    assert spent == pytest.approx(1, rel=1e-12)
    value = costs @ given.variances(squares)
    pressed = given.pressures(costs)
    closed = np.sqrt(given.prices * given.weights * pressed).sum() ** 2 / 2
    assert value == pytest.approx(closed, rel=1e-12)
    rng = np.random.default_rng(2)
    for size in (0.01, 0.1, 1.0):
        for _ in range(200):
            other = squares * np.exp(rng.normal(0, size, len(squares)))
            other[paid] *= (given.prices[paid] / other[paid]).sum() / 2
            assert costs @ given.variances(other) >= value * (1 - 1e-12)


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_largest_variance_is_within_its_gap_of_the_least(neighbors, outside):
    given, _ = problem(neighbors, outside)
    weights = np.array([1.0, 3, 0.2, 1, 0.5])
    squares, gap = least_largest(given, weights)
    assert 0 <= gap <= GAP
    largest = (weights * given.variances(squares)).max()
    paid = squares > 0
    assert (given.prices[paid] / squares[paid]).sum() / 2 == pytest.approx(1, rel=1e-12)
    rng = np.random.default_rng(2)
    best = math.inf
    for size in (0.01, 0.1, 0.5):
        for _ in range(300):
            other = squares * np.exp(rng.normal(0, size, len(squares)))
            other[paid] *= (given.prices[paid] / other[paid]).sum() / 2
            best = min(best, (weights * given.variances(other)).max())
    assert best >= largest * (1 - gap - 1e-12)
    even = least_sum(given, weights)
    assert largest < (weights * given.variances(even)).max() * 0.99


def test_the_dual_never_falls():
    given, _ = problem()
    weights, costs, last = np.ones(5), np.full(5, 0.2), 0.0
    for _ in range(50):
        values = given.variances(least_sum(given, costs * weights)) * weights
        assert costs @ values >= last * (1 - 1e-12)
        last = costs @ values
        costs = costs * values**2
        costs /= costs.sum()


@every_relation
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_all_of_the_budget_is_spent_and_no_more(neighbors, outside, unit_rows):
    data = table(neighbors, outside, unit_rows=unit_rows)
    mechanism = ResidualPlanner(marginals(CUBE, 2, normalized=False), rho="0.3")
    strategy, _, odometer = opened(mechanism, data)
    assert odometer.spent.rho == Fraction(3, 10)
    assert odometer.spent.charges == 1
    quote = mechanism.quote(Marginal("a").lower(CUBE), Terms(data.facts))
    (guarantee,) = quote.at_open.guarantees
    assert isinstance(guarantee, DiscreteGaussianGuarantee)
    assert guarantee.rho == Fraction(3, 10)
    # What it comes to, set by set: no less than the exact joint law, no more than the sum.
    noise = strategy.noise
    squares = np.array(noise.deviations) ** 2 / unit_rows**2
    replace = neighbors is Neighbors.REPLACE_ONE
    given = Problem.of(
        strategy.plan.tables, strategy.plan.sets, SIZES, replace=replace, outside=outside == "cell"
    )
    paid = squares > 0
    total = (given.prices[paid] / squares[paid]).sum() / 2
    if replace:
        assert 0.3 < total < 0.5
    else:
        assert total == pytest.approx(0.3, rel=1e-12)


def test_scales_are_fine_enough_for_the_optimum():
    sizes = (74, 9, 100, 16, 2, 7, 15, 6, 5, 2, 99, 42)
    domain = Domain(*(Integer(f"x{i}", 0, size - 1) for i, size in enumerate(sizes)))
    asked = marginals(domain, 2, normalized=False)
    for rows in (1000, 2**31):
        terms = Terms(facts(domain, Neighbors.ADD_REMOVE, rows=rows))
        plan = ResidualPlanner(asked, rho="0.01").plan(terms)
        wide = dict(zip(domain.names, sizes, strict=True))
        given = Problem.of(plan.tables, plan.sets, wide, replace=False, outside=True)
        costs = np.ones(len(plan.tables))
        actual = 1 / (np.array(plan.scales, dtype=float) * np.array(plan.cells)) ** 2
        actual *= (given.weights / actual).sum() / 2
        best = costs @ given.variances(least_sum(given, costs))
        assert costs @ given.variances(actual) <= best * (1 + 1e-6)


# Answers and bounds.


@every_relation
def test_answers_are_unbiased_and_bounds_hold(neighbors, outside):
    data = table(neighbors, outside)
    form = ASKED.lower(CUBE)
    truth = opened(ResidualPlanner(TABLES, rho=10**8), data)
    exact = np.rint(truth[0].answer(form, truth[1]).values * 64) / 64
    strategy, kernel, _ = opened(ResidualPlanner(TABLES, rho="0.5"), data)
    accuracy = strategy.answer(form, kernel).accuracy
    together, alone = (accuracy.radii(0.1, joint=joint) + 1e-6 for joint in (True, False))
    errors, jointly, each = [], 0, 0.0
    runs, request = 150, strategy.plan.request(GaussianNoise("0.5"))
    for _ in range(runs):
        drawn = Residuals.centred(strategy.plan, kernel.run(request).values)
        errors.append(drawn.answers(form) - exact)
        jointly += bool((np.abs(errors[-1]) > together).any())
        each += (np.abs(errors[-1]) > alone).mean()
    # Five deviations of what may be missed, by chance.
    assert jointly <= 0.1 * runs + 5 * math.sqrt(0.09 * runs)
    assert each <= 0.1 * runs + 5 * math.sqrt(0.09 * runs)
    variances = accuracy.variances
    mean, square = np.mean(errors, axis=0), np.mean(np.square(errors), axis=0)
    assert (np.abs(mean) <= 5 * np.sqrt(variances / runs) + 1e-6).all()
    assert (np.abs(square - variances) <= 6 * variances * math.sqrt(2 / runs) + 1e-6).all()


def test_with_public_rows_and_none_outside_every_table_sums_to_their_number():
    with session(table(Neighbors.REPLACE_ONE, "raise")).open(
        ResidualPlanner(TABLES, rho="0.01")
    ) as channel:
        assert channel.answer(Count(normalized=False)) == 400
        assert channel.release(Count(normalized=False)).error() == 0
        assert channel.answer(Marginal("a", "b", normalized=False)).total() == pytest.approx(400)


def test_tables_agree_where_they_overlap():
    with session().open(ResidualPlanner(TABLES, rho="0.01")) as channel:
        whole = channel.answer(Marginal("a", "b", normalized=False))
        other = channel.answer(Marginal("b", "d", normalized=False))
        alone = channel.answer(Marginal("b", normalized=False))
        assert whole.project("b").values == pytest.approx(alone.values)
        assert other.project("b").values == pytest.approx(alone.values)
        swapped = channel.answer(Marginal("b", "a", normalized=False))
        assert swapped.values == pytest.approx(whole.values.T)


@every_relation
def test_possible_tables_have_no_negative_cell_and_agree(neighbors, outside):
    data = table(neighbors, outside)
    for rho in ("0.0001", "0.01", "1"):
        mechanism = ResidualPlanner(TABLES, rho=rho, nonnegative=True)
        with session(data).open(mechanism) as channel:
            whole = channel.answer(Marginal("a", "b", normalized=False))
            other = channel.answer(Marginal("b", "d", normalized=False))
            alone = channel.answer(Marginal("b", normalized=False))
            for one in (whole, other, alone):
                assert one.values.min() >= -1e-9
            assert whole.project("b").values == pytest.approx(alone.values, abs=1e-6)
            assert other.project("b").values == pytest.approx(alone.values, abs=1e-6)
            if neighbors is Neighbors.REPLACE_ONE and outside == "raise":
                assert whole.total() == pytest.approx(400)
            elif neighbors is Neighbors.REPLACE_ONE:
                assert whole.total() <= 400 + 1e-6
            else:
                assert whole.total() <= 1000 + 1e-6


def test_possible_tables_are_nearer_and_keep_a_bound_of_another_kind():
    form = TABLES.lower(CUBE)
    truth = opened(ResidualPlanner(TABLES, rho=10**8))
    exact = np.rint(truth[0].answer(form, truth[1]).values)
    far = near = missed = 0.0
    for seed in range(15):
        one, kernel, _ = opened(ResidualPlanner(TABLES, rho="0.002"), seed=seed)
        other, _, _ = opened(ResidualPlanner(TABLES, rho="0.002", nonnegative=True), seed=seed)
        plain, moved = one.answer(form, kernel), other.answer(form, kernel)
        far += np.abs(plain.values - exact).sum()
        near += np.abs(moved.values - exact).sum()
        radii = moved.accuracy.radii(0.1, joint=True)
        assert moved.accuracy.kind != plain.accuracy.kind
        assert not hasattr(moved.accuracy, "variances")
        assert (radii >= plain.accuracy.radii(0.1, joint=True)).all()
        missed += bool((np.abs(moved.values - exact) > radii).any())
    assert near < 0.97 * far
    assert missed <= 1.5 + 5 * math.sqrt(15 * 0.09)


def test_a_quote_of_possible_tables_has_no_bound_beforehand():
    asked = session()
    quote = asked.quote(
        Marginal("a", normalized=False), using=ResidualPlanner(TABLES, rho=1, nonnegative=True)
    )
    with pytest.raises(NoBound):
        quote.error()
    plain = asked.quote(Marginal("a", normalized=False), using=ResidualPlanner(TABLES, rho=1))
    with asked.open(ResidualPlanner(TABLES, rho=1)) as channel:
        assert channel.release(Marginal("a", normalized=False)).error() == plain.error()


def test_a_domain_that_nobody_could_write_down():
    rng = np.random.default_rng(1)
    domain = Domain(
        *(Integer(f"x{i}", 0, int(n) - 1) for i, n in enumerate(rng.integers(2, 5, 40)))
    )
    columns = {n: rng.integers(0, domain[n].size, 50).tolist() for n in domain.names}
    data = PrivateData.from_columns(columns, domain, neighbors=Neighbors.ADD_REMOVE, max_rows=100)
    with session(data).open(
        ResidualPlanner(marginals(domain, 2, normalized=False), rho=1)
    ) as channel:
        assert channel.answer(Marginal("x3", "x37", normalized=False)).values.size
        release = channel.release(Marginal("x3", normalized=False))
        assert release.error() > 0


def test_workloads_may_have_more_numbers_than_one_form(monkeypatch):
    from dpsdk.forms import linear

    monkeypatch.setattr(linear, "ROW_LIMIT", 16)
    queries = [Marginal("a", "b", normalized=False), Marginal("a", "d", normalized=False)]
    whole = Workload(queries)
    with pytest.raises(TooLarge):
        whole.lower(table().facts.domain)
    expected = ResidualPlanner(queries, rho=1).plan(Terms(table().facts))
    for asked in (queries, whole, Workload([Workload(queries[:1]), Workload(queries[1:])])):
        assert ResidualPlanner(asked, rho=1).plan(Terms(table().facts)).scales == expected.scales
        with session().open(ResidualPlanner(asked, rho=1)) as channel:
            assert channel.answer(Marginal("a", "d", normalized=False)).values.shape == (5, 3)


def test_weights_say_what_matters():
    terms = Terms(table().facts)
    plain = ResidualPlanner(TABLES, rho=1).plan(terms)
    heavy = ResidualPlanner(TABLES, rho=1, weights=[100, 1, 1]).plan(terms)
    shares = [dict(zip(plan.sets, plan.scales, strict=True)) for plan in (plain, heavy)]
    ratio = [share["a", "b"] / share["b", "d"] for share in shares]
    assert ratio[1] > 2 * ratio[0]
    twice = ResidualPlanner([TABLES, TABLES], rho=1).plan(terms)
    assert (twice.sets, twice.scales) == (plain.sets, plain.scales)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"epsilon": 1}, "delta"),
        ({"epsilon": 1, "delta": 0}, "delta"),
        ({"rho": 1, "objective": "mean"}, "objective"),
        ({"rho": 1, "weights": [1, -1, 1]}, "weights"),
        ({"rho": 1, "weights": [1, float("nan"), 1]}, "weights"),
        ({"rho": 1, "weights": 3}, "weights"),
        ({"rho": 1, "weights": "abc"}, "weights"),
        ({"rho": 1, "nonnegative": 1}, "nonnegative"),
        ({"rho": 1, "workload": []}, "workload"),
        ({"rho": 1, "workload": "abc"}, "workload"),
        ({"rho": 1, "workload": b"abc"}, "workload"),
        ({"rho": 1, "workload": [b"abc"]}, "workload"),
        ({"rho": 1, "workload": [3]}, "workload"),
        ({"rho": 1, "workload": 3}, "workload"),
        ({"rho": 1, "workload": {"a": TABLES}}, "workload"),
    ],
)
def test_malformed_arguments_are_refused_by_name(given, parameter):
    workload = given.pop("workload", TABLES)
    with pytest.raises(InvalidArgument) as caught:
        ResidualPlanner(workload, **given)
    assert caught.value.parameter == parameter


def test_tables_that_are_too_large_to_be_fitted_are_refused(monkeypatch):
    monkeypatch.setattr(possible_module, "CELL_LIMIT", 20)
    asked = session()
    with pytest.raises(TooLarge):
        asked.open(ResidualPlanner(TABLES, rho=1, nonnegative=True))
    asked.open(ResidualPlanner(Marginal("a", "b"), rho=1, nonnegative=True)).close()
    asked.open(ResidualPlanner(TABLES, rho=1)).close()
    assert asked.spent.charges == 2


def test_what_no_table_has_together_is_not_answered():
    with session().open(ResidualPlanner(TABLES, rho=1)) as channel:
        for query in (
            Marginal("a", "d", normalized=False),
            Marginal("a", "b", "d", normalized=False),
        ):
            with pytest.raises(QueryError, match="together"):
                channel.answer(query)
        assert channel.answer(Count(normalized=False)) != 0


def test_a_plan_of_one_table_has_all_its_residuals():
    terms = Terms(Facts(CUBE, Neighbors.ADD_REMOVE, None, True, 100))
    plan = ResidualPlanner(Marginal("b", "a"), rho=1).plan(terms)
    assert plan.sets == ((), ("b",), ("a",), ("a", "b"))
    assert plan.cells == (1, 2, 5, 10)
    assert plan.gap == 0


def test_what_no_amount_changes_is_planned_once(monkeypatch):
    planned = []
    least = planner_module.least_sum
    monkeypatch.setattr(planner_module, "least_sum", lambda *of: planned.append(of) or least(*of))
    domain = Domain(Integer("once", 0, 4), Integer("twice", 0, 6))
    terms = Terms(facts(domain, rows=1000))
    plans = [ResidualPlanner(marginals(domain, 2), rho=rho).plan(terms) for rho in (1, 4)]
    assert len(planned) == 1
    assert plans[0].sets == plans[1].sets
