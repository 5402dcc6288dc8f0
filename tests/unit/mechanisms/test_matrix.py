"""Strategies for workloads: unbiased, with exact variances, better than what is not optimised."""

import math

import numpy as np
import pytest
from runs import check_runs

from dpsdk import Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Dense, Identity, Kronecker, LinearForm, Prefix, Range
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import (
    Gaussian,
    Laplace,
    Matrix,
    NoisyHistogram,
    ResidualPlanner,
    SquareRoot,
    Tree,
)  # fmt: skip
from dpsdk.mechanisms.matrix import design
from dpsdk.mechanisms.matrix.design import designed
from dpsdk.mechanisms.matrix.optimal import best_for_gaussian, best_for_laplace
from dpsdk.queries import (
    Count,
    Interval,
    Linear,
    Marginal,
    Rectangles,
    Sum,
    Threshold,
    Workload,
    marginals,
)  # fmt: skip
from dpsdk.testing import seeded
from worlds import crossed, facts, weights

pytestmark = pytest.mark.thorough

RELATIONS = [(n, o) for n in Neighbors for o in (False, True)]
DOMAIN = Domain(Integer("age", 0, 9), Categorical("sex", ["F", "M"]), Integer("hours", 0, 3))
AGES = [Threshold("age", t) for t in range(10)]
HOURS = [Interval("hours", a, b) for a in range(4) for b in range(a, 4)]


class Stack:
    """Anything that lowers is a workload."""

    def __init__(self, *blocks):
        self.blocks = blocks

    def lower(self, domain):
        return LinearForm(domain, self.blocks)


PRODUCT = Stack(
    Kronecker(("age", "sex"), (Prefix(10), Identity(2)), 2.0), Kronecker(("age",), (Identity(10),))
)
WORKLOADS = {
    "thresholds": Workload(AGES),
    "intervals": Workload(HOURS),
    "two attributes": Workload([*AGES, *HOURS]),
    "a product": PRODUCT,
    "sums and conjunctions": Workload(
        [
            Sum("age", where={"sex": "F"}),
            *(Count({"age": range(t), "hours": 1}) for t in range(1, 9)),
        ]
    ),
    "tables": Workload([Marginal("age", "sex"), Marginal("age", "hours")]),
    "any weights": Stack(
        Dense(("sex", "hours"), (2, 4), np.arange(24.0).reshape(3, 8) % 5 - 1),
        Kronecker(("age",), (Prefix(10),)),
    ),
    "a total": Count(),
}
NOISES = (GaussianNoise("0.01"), LaplaceNoise("0.5"))


def asked_of(stack):
    """Forms of every kind that a strategy answers."""
    forms = [Count().lower(DOMAIN)]
    for part in stack.parts:
        names = part.measured.names
        sizes = {name: DOMAIN[name].size for name in names}
        forms.append(LinearForm(DOMAIN, [Kronecker(names, tuple(map(Identity, sizes.values())))]))
        rows = np.arange(2.0 * math.prod(sizes.values())).reshape(2, -1) % 3 - 0.5
        forms.append(LinearForm(DOMAIN, [Dense(names, tuple(sizes.values()), rows)]))
        forms += [query.lower(DOMAIN) for query in (*AGES, *HOURS[3:5]) if query.attribute in names]
    return forms


@pytest.mark.parametrize(
    ("name", "setting"),
    crossed(
        WORKLOADS,
        [(*RELATIONS[0], 256), (*RELATIONS[1], 256), (*RELATIONS[2], 256), (*RELATIONS[3], 6)],
        4,
    ),
)
def test_answers_have_no_bias_and_the_variances_they_say(name, setting, monkeypatch):
    neighbors, outside, limit = setting
    monkeypatch.setattr(design, "DESIGN_LIMIT", limit)  # beyond it, products of strategies
    monkeypatch.setattr(design, "_JOINED_LIMIT", limit)
    of = facts(DOMAIN, neighbors, rows=1000, outside=outside)
    form = WORKLOADS[name].lower(DOMAIN)
    rng = np.random.default_rng(3)
    counts = rng.multinomial(1000, rng.dirichlet(np.ones(DOMAIN.size))).astype(float)
    for noise in NOISES:
        stack = design._Designer(form, of, isinstance(noise, GaussianNoise)).stack(
            design._attribute_sets(form)
        )
        strategy = weights(stack.strategy)
        truth = strategy @ counts
        tables = [stack.estimate(row) for row in (truth, *(truth + np.eye(len(truth))))]
        for asked in (form, *asked_of(stack)):
            assert stack.answerable(asked, "Matrix", of) is asked
            found = np.array([stack.answers(asked, one) for one in tables])
            np.testing.assert_allclose(found[0], weights(asked) @ counts, rtol=1e-7, atol=1e-6)
            of_noise = (found[1:] - found[0]).T
            combination = stack.combine(asked)
            scale = 1e-9 * max(1.0, np.abs(found).max())
            np.testing.assert_allclose(
                combination.squares, (of_noise**2).sum(axis=1), rtol=1e-5, atol=scale**2
            )
            assert (combination.peaks * (1 + 1e-5) + scale >= np.abs(of_noise).max(axis=1)).all()


def farthest(strategy, of):
    """The largest L1 and squared L2 distance of two columns, or length of one."""
    columns = strategy.T
    if of.outside or of.neighbors is Neighbors.ADD_REMOVE:
        columns = np.concatenate([columns, np.zeros((1, len(strategy)))])
    if of.neighbors is Neighbors.ADD_REMOVE:
        return np.abs(columns).sum(axis=1).max(), (columns**2).sum(axis=1).max()
    apart = [np.abs(columns - one) for one in columns]
    return max(d.sum(axis=1).max() for d in apart), max((d**2).sum(axis=1).max() for d in apart)


@pytest.mark.parametrize(("name", "relation"), crossed(WORKLOADS, RELATIONS[:3], 3))
def test_what_is_charged_covers_what_any_two_neighbours_differ_by(name, relation):
    # Column by column of what is measured, and not by what the kernel says of it.
    neighbors, outside = relation
    of = facts(DOMAIN, neighbors, rows=1000, outside=outside)
    form = WORKLOADS[name].lower(DOMAIN)
    for noise in NOISES:
        stack = designed(form, of, noise)
        l1, l2 = farthest(weights(stack.strategy), of)
        price = Measure(stack.strategy, noise).price(Terms(of))
        unit = 4.0**price.bits
        if isinstance(noise, GaussianNoise):
            assert float(price.law.variance) >= l2 * unit / (2 * float(noise.rho)) * (1 - 1e-12)
            assert float(price.law.variance) <= 2.2 * l2 * unit / (2 * float(noise.rho)) + 64
        else:
            assert float(price.law.scale) >= l1 / float(noise.epsilon) * (1 - 1e-12)


def deviations(mechanism, form, of):
    return mechanism.quote(form, Terms(of)).accuracy.variances


@pytest.mark.parametrize(
    ("relation", "total"), crossed(RELATIONS, [{"rho": "0.001"}, {"epsilon": "0.05"}], 2), ids=str
)
def test_it_is_never_worse_than_what_it_may_choose_and_mostly_better(relation, total):
    neighbors, outside = relation
    domain = Domain(Integer("age", 0, 47))
    of = facts(domain, neighbors, rows=10**4, outside=outside)
    for queries in (
        [Threshold("age", t) for t in range(48)],
        [Interval("age", a, b) for a in range(48) for b in range(a, 48)],
    ):
        form = Workload(queries).lower(domain)
        own = deviations(Matrix(Workload(queries), **total), form, of).mean()
        others = [Tree("age", **total), SquareRoot("age", **total), NoisyHistogram(**total)]
        best = min(deviations(other, form, of).mean() for other in others)
        plain = (Gaussian if "rho" in total else Laplace)(**total)
        one = plain.quote(form, Terms(of)).accuracy
        assert own < 0.95 * best
        assert own < 0.5 * (one.law.standard_deviation() * one.step) ** 2


def test_blocks_on_different_attributes_share_the_total_as_is_best(monkeypatch):
    # For Gaussian noise the least error of two parts is the square of the sum of their roots.
    of = facts(DOMAIN, Neighbors.ADD_REMOVE, rows=10**4)
    alone = [Workload(AGES).lower(DOMAIN), Workload(HOURS).lower(DOMAIN)]
    both = LinearForm.stack(alone)
    total = {"rho": "0.001"}

    def error(form):
        return deviations(Matrix(Stack(*form.blocks), **total), form, of).sum()

    shared = sum(math.sqrt(error(one)) for one in alone) ** 2
    # Here one strategy on both attributes is better still.
    assert error(both) < 0.9 * shared
    monkeypatch.setattr(design, "_JOINED_LIMIT", 0)
    design._kept_for.cache_clear()
    assert error(both) == pytest.approx(shared, rel=0.01)
    design._kept_for.cache_clear()


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_plain_marginals_are_measured_by_their_residuals(neighbors, outside):
    of = facts(DOMAIN, neighbors, rows=10**4, outside=outside)
    workload = marginals(DOMAIN, 2)
    form = workload.lower(DOMAIN)
    found = Matrix(workload, rho="0.001").quote(form, Terms(of))
    weighed = [block.rows for block in form.blocks]
    planner = ResidualPlanner(workload, rho="0.001", weights=weighed)
    assert found.accuracy == planner.quote(form, Terms(of)).accuracy
    own = found.accuracy.variances.sum()
    # Better than the tables themselves, and than strategies that do not know how they overlap.
    one = Gaussian(rho="0.001").quote(form, Terms(of)).accuracy
    assert own < 0.9 * form.rows * (one.law.standard_deviation() * one.step) ** 2
    stack = design._Designer(form, of, gaussian=True).stack(design._attribute_sets(form))
    price = Measure(stack.strategy, GaussianNoise("0.001")).price(Terms(of))
    law = price.law.standard_deviation() * price.accuracy.step
    assert own < stack.combine(form).squares.sum() * law**2
    # Laplace noise has no such basis, and the same call has another strategy.
    assert Matrix(workload, epsilon=1).quote(form, Terms(of)).accuracy.variances.min() > 0


def test_the_optimum_for_gaussian_noise_is_met():
    size = 32
    cells = np.arange(size)
    gram = size - np.maximum.outer(cells, cells).astype(float)
    strategy = best_for_gaussian(gram)
    assert (strategy**2).sum(axis=0).max() <= 1 + 1e-9
    error = np.trace(np.linalg.solve(strategy.T @ strategy, gram))
    # Weak duality, for multipliers of one's own: no strategy is better than that.
    lower = 0.0
    for multipliers in (np.ones(size), np.linspace(1.3, 0.7, size), 1 / np.diag(gram) ** -0.25):
        root = np.sqrt(multipliers)
        values = np.linalg.eigvalsh(gram * np.outer(root, root))
        lower = max(lower, np.sqrt(np.maximum(values, 0)).sum() ** 2 / multipliers.sum())
    assert lower <= error <= 1.1 * lower
    # Of all cells alike the cells are the best there is.
    assert np.abs(best_for_gaussian(np.eye(7)) - np.eye(7)).max() < 1e-6
    assert (best_for_gaussian(np.zeros((3, 3))) == np.eye(3)).all()


def test_strategies_for_laplace_noise_have_columns_of_one():
    cells = np.arange(48)
    gram = 48 - np.maximum.outer(cells, cells).astype(float)
    strategy = best_for_laplace(gram)
    assert strategy.min() >= 0
    np.testing.assert_allclose(strategy.sum(axis=0), 1)
    error = np.trace(np.linalg.solve(strategy.T @ strategy, gram))
    assert error < 0.6 * np.trace(gram)
    assert (best_for_laplace(np.eye(5)) == np.eye(5)).all()
    assert (best_for_laplace(np.zeros((3, 3))) == np.eye(3)).all()


MECHANISMS = {"gaussian": ({"rho": "0.02"}, 31), "laplace": ({"epsilon": 1}, 32)}


@pytest.mark.parametrize(
    ("name", "neighbors", "outside"),
    [("gaussian", *RELATIONS[1]), ("laplace", *RELATIONS[0]), ("laplace", *RELATIONS[3])],
)
def test_bounds_hold_and_variances_are_attained(name, neighbors, outside):
    total, seed = MECHANISMS[name]
    rng = np.random.default_rng(5)
    columns = {
        "age": [*rng.integers(0, 10, 300), *[99] * (3 * outside)],
        "sex": ["F"] * (300 + 3 * outside),
        "hours": rng.integers(0, 4, 300 + 3 * outside),
    }
    data = PrivateData.from_columns(
        columns, DOMAIN, neighbors=neighbors, outside="cell" if outside else "raise"
    )
    asked = Session(data, Budget(10**6, "0.1"), noise=seeded(seed))
    ages = np.bincount(columns["age"][:300], minlength=10).cumsum()
    counts = Workload(Threshold("age", t, normalized=False) for t in range(10))
    mechanism = Matrix(Workload([*AGES, *HOURS]), **total)
    one = Interval("hours", 1, 2, normalized=False)
    truth = np.isin(columns["hours"][:300], [1, 2]).sum()
    check_runs(asked, mechanism, counts, ages, one, truth, runs=150)


def opened(mechanism, **given):
    data = PrivateData.from_columns(
        {"age": [1, 2, 3], "sex": ["F", "M", "F"], "hours": [0, 1, 3]}, DOMAIN, **given
    )
    return Session(data, Budget(9, "1e-3"), noise=seeded(1)), mechanism


def test_it_is_paid_once_and_answers_what_its_blocks_depend_on():
    asked, mechanism = opened(Matrix(Workload([*AGES, *HOURS]), rho="0.5"))
    with asked.open(mechanism) as channel:
        channel.answer(Linear(lambda record: record["hours"] / 3, ["hours"]))
        channel.answer(Count())
        assert asked.spent.charges == 1
        for query in (Count({"age": 1, "sex": "F"}), Marginal("sex", "hours")):
            with pytest.raises(QueryError, match="together"):
                channel.answer(query)
            with pytest.raises(QueryError, match="together"):
                asked.quote(query, using=mechanism)
        # Functions of the same attributes add up.
        cells = channel.answer(Marginal("hours")).values
        assert channel.answer(Interval("hours", 1, 2)) == pytest.approx(cells[1] + cells[2])
    assert asked.spent.charges == 1


@pytest.mark.parametrize("workload", ["age", 3, Workload], ids=repr)
def test_a_workload_is_something_that_lowers(workload):
    with pytest.raises(InvalidArgument):
        Matrix(workload, rho=1)


def test_a_strategy_is_worked_out_once_for_equal_workloads(monkeypatch):
    calls = []

    def counted(gram):
        calls.append(len(gram))
        return best_for_gaussian(gram)

    monkeypatch.setattr(design, "best_for_gaussian", counted)
    domain = Domain(Integer("score", 0, 12))
    of = facts(domain, rows=77)

    def form():
        return Workload(Threshold("score", t) for t in range(13)).lower(domain)

    first = designed(form(), of, GaussianNoise("0.5"))
    worked = len(calls)
    assert designed(form(), of, GaussianNoise("0.25")) is first
    assert len(calls) == worked > 0
    # Other public facts may make another strategy best.
    assert designed(form(), facts(domain, rows=78), GaussianNoise("0.5")) is not first
    # It follows from public arguments: the same whatever came before.
    design._kept_for.cache_clear()
    again = designed(form(), of, GaussianNoise("0.5"))
    assert (weights(again.strategy) == weights(first.strategy)).all()


def test_a_strategy_is_the_same_whatever_was_worked_out_before():
    # The same functions may be written on more attributes than they depend on: then these are
    # answered together, too.
    of = facts(DOMAIN, rows=50)
    sums = np.tril(np.ones((10, 10)))
    written = [
        LinearForm(DOMAIN, [Kronecker(("age",), (Prefix(10),))]),
        LinearForm(DOMAIN, [Dense(("age", "sex"), (10, 2), np.repeat(sums, 2, axis=1))]),
        LinearForm(DOMAIN, [Kronecker(("age", "sex"), (Prefix(10), Range(2, 0, 2)))]),
    ]
    assert len({form.identity for form in written}) == 1
    for order in (written, written[::-1]):
        design._kept_for.cache_clear()
        known = {
            id(form): designed(form, of, LaplaceNoise(1)).parts[0].measured.names for form in order
        }
        assert [known[id(form)] for form in written] == [("age",), ("age", "sex"), ("age", "sex")]


SINGLE = Domain(Integer("a", 0, 4), Categorical("c", ["only"]), Integer("d", 0, 2))
ON_BOTH = [Rectangles(("c", "a"), [[0, 0], [0, 2]], [[0, 3], [0, 2]]), Marginal("a", "c")]


@pytest.mark.parametrize(
    "mechanism",
    [Matrix(ON_BOTH[0], rho=1), Matrix(ON_BOTH[0], epsilon=1), Matrix(Marginal("a"), rho=1),
     Matrix(Marginal("c", "a"), rho=1), Matrix(Marginal("c"), epsilon=1), Tree("a", rho=1),
     Tree("c", rho=1), SquareRoot("a", rho=1), NoisyHistogram(rho=1),
     ResidualPlanner(Marginal("a"), rho=1)],
    ids=repr,
)  # fmt: skip
def test_attributes_of_one_cell_do_not_matter_to_what_is_answered(mechanism):
    data = PrivateData.from_columns({"a": [1, 2, 3], "c": ["only"] * 3, "d": [0, 1, 2]}, SINGLE)
    asked = Session(data, Budget(99, "1e-3"), noise=seeded(1))
    pairs = [(Marginal("c"), Count()), (Count({"c": "only"}), Count())]
    if "'c'" not in repr(mechanism) or "'a'" in repr(mechanism):
        pairs += [
            (Count({"c": "only", "a": {1, 3}}), Count({"a": {1, 3}})),
            (ON_BOTH[0], Rectangles("a", [0, 2], [3, 2])),
            (ON_BOTH[1], Marginal("a")),
            (Rectangles("c", [0], [0]), Count()),
        ]
    with asked.open(mechanism) as channel:
        for wide, narrow in pairs:
            released, other = channel.release(wide), channel.release(narrow)
            assert released._measurement.values == pytest.approx(other._measurement.values)
            assert released.error(0.1) == other.error(0.1)
            assert asked.quote(wide, using=mechanism).error(0.1) == other.error(0.1)


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("total", [{"rho": "0.001"}, {"epsilon": "0.05"}], ids=str)
@pytest.mark.parametrize(
    "queries", [[Count({"sex": "F"})], [Count({"age": 3}), Threshold("age", 6)]], ids=["one", "two"]
)
def test_a_few_functions_are_answered_no_worse_than_by_themselves(
    queries, total, neighbors, outside
):
    of = facts(DOMAIN, neighbors, rows=10**4, outside=outside)
    form = Workload(queries).lower(DOMAIN)
    own = deviations(Matrix(Workload(queries), **total), form, of).mean()
    one = (Gaussian if "rho" in total else Laplace)(**total).quote(form, Terms(of)).accuracy
    assert own < 1.1 * (one.law.standard_deviation() * one.step) ** 2


@pytest.mark.parametrize(
    ("names", "limit"),
    crossed([("sex", "age", "hours"), ("age", "hours"), ("age",)], [6, 256], 2),
    ids=str,
)
def test_rectangles_are_planned_and_answered_as_the_same_conjunctions(names, limit, monkeypatch):
    monkeypatch.setattr(design, "DESIGN_LIMIT", limit)
    rng = np.random.default_rng(7)
    sizes = [DOMAIN[name].size for name in names]
    ends = np.sort(rng.integers(0, sizes, (2, 12, len(sizes))), axis=0)
    boxes = Rectangles(names, *ends)
    conjunctions = Workload(
        Count(
            {
                name: {DOMAIN[name].labels[code] for code in range(low, high + 1)}
                for name, low, high in zip(names, *row, strict=True)
            }
        )
        for row in zip(*ends.tolist(), strict=True)
    )
    of = facts(DOMAIN, Neighbors.ADD_REMOVE, rows=1000)
    forms = [boxes.lower(DOMAIN), conjunctions.lower(DOMAIN)]
    assert forms[0].identity == forms[1].identity
    for noise in NOISES:
        found = []
        for form in forms:
            stack = design._Designer(form, of, isinstance(noise, GaussianNoise)).stack(
                design._attribute_sets(form)
            )
            strategy = weights(stack.strategy)
            tables = stack.estimate(strategy @ np.arange(1.0, 81.0))
            for asked in forms:
                combined = stack.combine(asked)
                found.append([stack.answers(asked, tables), combined.squares, combined.peaks])
        for other in found[1:]:
            np.testing.assert_allclose(other, found[0], rtol=1e-6, atol=1e-9)


def test_tables_of_huge_numbers_of_rows_are_measured_cell_by_cell():
    # Where exact sums leave no room for a lattice.
    of = facts(DOMAIN, Neighbors.ADD_REMOVE, rows=2**49)
    stack = designed(Workload(AGES).lower(DOMAIN), of, LaplaceNoise(1))
    assert stack.strategy.integral
    Measure(stack.strategy, LaplaceNoise(1)).price(Terms(of))


@pytest.mark.parametrize("size", [2**20, 2**22])
def test_is_no_worse_than_a_tree_on_an_attribute_of_very_many_cells(size):
    # Few of the functions are looked at, and the first and last of them tell too little.
    domain = Domain(Integer("income", 0, size - 1))
    query = Workload(Threshold("income", t, normalized=False) for t in range(0, size, size // 500))
    terms = Terms(facts(domain, rows=10**4))
    form = query.lower(domain)
    tree = Tree("income", epsilon=1).quote(form, terms).error(0.05)
    assert Matrix(query, epsilon=1).quote(form, terms).error(0.05) <= tree
