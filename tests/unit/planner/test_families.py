"""Families: which mechanisms are listed for a question, and that each does what it quotes."""

import itertools
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition, default_composition
from dpsdk.accounting.balance import Balance
from dpsdk.errors import DpsdkError
from dpsdk.forms import Boxes, Facts, Form, Kronecker, LinearForm, Prefix, Range
from dpsdk.kernel import Limits, Terms
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import LocalMarginals, NumericSparse, OneShot
from dpsdk.planner.families import families, shared
from dpsdk.planner.task import Task
from dpsdk.queries import (
    Above,
    Ball,
    Conjunction,
    ConvexMinimization,
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Median,
    NumericAbove,
    Query,
    Rectangles,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.release import Cost, Quote
from dpsdk.testing import seeded
from dpsdk.typing import Floats
from worlds import crossed

pytestmark = pytest.mark.thorough

DOMAIN = Domain(
    Integer("age", 0, 19), Categorical("sex", ["f", "m", "x"]), Boolean("rich"), Boolean("old")
)
ROWS = 400
MINUTE = Fraction(1, 10**9)


def tabled(neighbors, unit_rows=1):
    rng = np.random.default_rng(7)
    columns = {
        "age": rng.integers(0, 20, ROWS).tolist(),
        "sex": rng.choice(["f", "m", "x"], ROWS).tolist(),
        "rich": (rng.random(ROWS) < 0.4).tolist(),
        "old": (rng.random(ROWS) < 0.2).tolist(),
    }
    return PrivateData.from_columns(
        columns, DOMAIN, neighbors=neighbors, unit_rows=unit_rows, max_rows=10**4
    )


def parity(number):
    return lambda record: (record["age"] * (number + 1) + record["rich"]) % 7 / 7


COUNTED = {"normalized": False}
QUERIES = {
    "count": lambda: Count({"sex": "f"}, **COUNTED),
    "sum": lambda: Sum("age", **COUNTED),
    "mean": lambda: Mean("age"),
    "thresholds": lambda: Workload(Threshold("age", t, **COUNTED) for t in range(20)),
    "intervals": lambda: Workload(
        Interval("age", a, b, **COUNTED) for a in range(12) for b in range(a + 1, 20)
    ),
    "median": lambda: Median("age"),
    "table": lambda: Marginal("age", "sex", **COUNTED),
    "pairs": lambda: marginals(DOMAIN, 2, **COUNTED),
    "rectangles": lambda: Rectangles(
        ["age", "sex"],
        lower=[[k % 15, k % 2] for k in range(300)],
        upper=[[k % 15 + 4, 2] for k in range(300)],
        **COUNTED,
    ),
    "functions": lambda: Workload(
        Linear(parity(k), attributes=["age", "rich"], **COUNTED) for k in range(40)
    ),
    "logistic": lambda: ConvexMinimization(
        LogisticLoss(), features=["age", "sex"], label="rich", over=Ball(4)
    ),
    "squares": lambda: ConvexMinimization(
        SquaredLoss(), features=["age"], label="rich", over=Ball(4)
    ),
    "above": lambda: Above(Count({"sex": "f"}, **COUNTED), 50),
    "number above": lambda: NumericAbove(Count({"sex": "f"}, **COUNTED), 50),
}

SETTINGS = [(delta, neighbors) for delta in (Fraction(0), MINUTE) for neighbors in Neighbors]


def task_of(query, facts, budget, composition=None, limits=None):
    adding = composition or (default_composition() if budget.delta else BasicComposition())
    balance = Balance(adding, budget, [adding.begin(budget)])
    terms = Terms(facts, adding)
    return Task(query, query.lower(facts.domain), terms, balance, 0.05, limits=limits)


def public(domain, neighbors=Neighbors.REPLACE_ONE, rows=ROWS, *, outside=False, unit_rows=1):
    known = rows if neighbors is Neighbors.REPLACE_ONE else None
    return Facts(domain, neighbors, known, outside, max(rows, 1), unit_rows)


def codes(task):
    return [family.code for family in families(task)]


def open_to(task):
    return (family for family in families(task) if family.barred is None)


def amount(family):
    return Fraction(1, 100) if family.unit == "rho" else Fraction(1)


@pytest.mark.parametrize(("name", "terms"), crossed(QUERIES, SETTINGS, 4))
def test_answers_and_charges_no_more_than_it_quotes(name, terms):
    delta, neighbors = terms
    query, data = QUERIES[name](), tabled(neighbors)
    budget = Budget(3, delta)
    task = task_of(query, data.facts, budget)
    tried = 0
    for family in open_to(task):
        mechanism = family.at(amount(family))
        try:
            quote = family.quote(mechanism, task)
        except DpsdkError:
            assert family.code in {"small-db", "private-minimizer+descent"}
            continue
        session = Session(data, budget, noise=seeded(3), composition=task.balance.composition)
        ask(session, query, mechanism)
        charged = Cost([run for receipt in session.history for run in receipt.cost.runs])
        taken, most = task.balance.share(charged.runs), task.balance.share(quote.at_most.runs)
        assert taken is not None
        assert most is not None
        assert taken <= most, family.code
        tried += 1
    assert tried


def ask(session, query, mechanism):
    if isinstance(mechanism, OneShot):
        return session.release(query, using=mechanism)
    return session.open(mechanism).release(query)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("count", {"laplace", "gaussian"}),
        ("sum", {"laplace", "gaussian"}),
        ("thresholds", {"tree", "tree+gaussian", "square-root", "noisy-histogram"}),
        ("median", {"tree", "square-root", "laplace"}),
        ("intervals", {"tree", "square-root", "small-db", "projection"}),
        ("table", {"residual-planner", "residual-planner+nonnegative", "local-marginals"}),
        ("pairs", {"residual-planner", "local-marginals", "mwem", "online-pmw"}),
        ("rectangles", {"local-marginals", "mwem", "online-pmw", "gaussian"}),
        ("functions", {"noisy-histogram", "projection"}),
        ("logistic", {"private-minimizer", "local-marginals", "mwem", "online-pmw"}),
        ("logistic", {"private-minimizer+perturbed"}),
        ("above", {"numeric-sparse"}),
    ],
)
def test_lists_what_suits_the_question(name, listed):
    found = codes(task_of(QUERIES[name](), public(DOMAIN), Budget(1, MINUTE)))
    assert listed <= set(found)
    assert len(found) == len(set(found))


def test_lists_no_tree_for_a_table_or_a_single_count():
    for query in (Marginal("age", normalized=False), Threshold("age", 3, normalized=False)):
        found = codes(task_of(query, public(DOMAIN), Budget(1, MINUTE)))
        assert not {"tree", "square-root", "small-db"} & set(found)


def test_says_what_is_missing():
    pure = task_of(QUERIES["pairs"](), public(DOMAIN), Budget(1))
    barred = {one.code: one.barred.code for one in families(pure) if one.barred is not None}
    assert barred == {"residual-planner": "needs-delta", "local-marginals": "needs-delta"}
    facts = public(DOMAIN, Neighbors.ADD_REMOVE)
    private = task_of(QUERIES["pairs"](), facts, Budget(1, MINUTE))
    barred = {one.code: one.barred.code for one in families(private) if one.barred is not None}
    assert barred == {"online-pmw": "needs-public-rows"}


def test_barred_ones_refuse_by_themselves():
    facts = public(DOMAIN, Neighbors.ADD_REMOVE)
    task = task_of(QUERIES["pairs"](), facts, Budget(1, MINUTE))
    barred = [one for one in families(task) if one.barred is not None]
    assert barred
    for family in barred:
        with pytest.raises(DpsdkError):
            family.quote(family.at(amount(family)), task)


def test_designs_strategies_for_workloads_on_few_cells():
    few = {"sex": "f", "rich": True}, {"sex": {"f", "m"}}, {"rich": False}
    workload = Workload(Conjunction(one, normalized=False) for one in few)
    assert "matrix" in codes(task_of(workload, public(DOMAIN), Budget(1)))
    one = Conjunction(few[0], normalized=False)
    assert "matrix" not in codes(task_of(one, public(DOMAIN), Budget(1)))


def test_designs_strategies_for_many_cells_where_there_is_time():
    domain = Domain(Integer("age", 0, 99))
    query = Workload(Threshold("age", t, normalized=False) for t in range(100))
    quick = task_of(query, public(domain), Budget(1))
    patient = task_of(query, public(domain), Budget(1), limits=Limits(seconds=60))
    assert "matrix" not in codes(quick)
    assert "matrix" in codes(patient)


def test_measures_what_a_thousand_models_rest_on_once():
    budget, facts = Budget(1, MINUTE), public(DOMAIN, rows=10**7)
    queries = [
        ConvexMinimization(LogisticLoss(), features=["age", name], label="rich", over=Ball(4))
        for name in ("sex", "old")
    ]
    tasks = [task_of(query, facts, budget) for query in queries]
    found = {one.code: one for one in shared(tasks)}
    assert set(found) == {"local-marginals", "mwem", "online-pmw", "convex-pmw"}
    local = found["local-marginals"].at(Fraction(1, 100))
    assert isinstance(local, LocalMarginals)
    sets = {block.names for block in local.workload.lower(DOMAIN).blocks}
    expected = {("age", "sex"), ("age", "rich"), ("sex", "rich"), ("age", "old"), ("rich", "old")}
    assert sets == expected
    for family in found.values():
        first, second = [family.quote(family.at(amount(family)), task) for task in tasks]
        assert first.at_most == second.at_most == first.at_open
    fewer = [task_of(query, public(DOMAIN), budget) for query in queries]
    assert "convex-pmw" not in {one.code for one in shared(fewer)}


def test_shares_levels():
    budget = Budget(1, MINUTE)
    tasks = [task_of(QUERIES[n](), public(DOMAIN), budget) for n in ("above", "number above")]
    for family in shared(tasks):
        mechanism = family.at(Fraction(1))
        assert isinstance(mechanism, NumericSparse)
        assert mechanism.tops == 2
    assert not shared([])
    assert not shared([tasks[0], task_of(QUERIES["count"](), public(DOMAIN), budget)])


@frozen
class Strange(Query[Floats, LinearForm]):
    """A query of another author, of forms like ours."""

    block: Any

    def lower(self, domain, /):
        return LinearForm(domain, [self.block])

    def lift(self, raw, facts, /):
        del facts
        return raw


def test_tells_queries_by_their_forms_and_not_by_their_class():
    for query, block in (
        (Median("age"), Kronecker(("age",), (Prefix(20),))),
        (
            Conjunction({"age": range(10), "sex": "f"}, normalized=False),
            Kronecker(("age", "sex"), (Range(20, 0, 10), Range(3, 0, 1))),
        ),
    ):
        ours = task_of(query, public(DOMAIN), Budget(1, MINUTE))
        theirs = task_of(Strange(block), public(DOMAIN), Budget(1, MINUTE))
        # A share to reach is no part of counts, from which a choice among values would know it.
        assert [one for one in codes(ours) if one != "exponential-quantile"] == codes(theirs)
        for family in open_to(theirs):
            mechanism = family.at(amount(family))
            assert isinstance(family.quote(mechanism, theirs), Quote)


class Odd(Form):
    """A form of another author's."""

    domain = DOMAIN


def test_knows_nothing_of_forms_of_other_kinds():
    task = task_of(QUERIES["count"](), public(DOMAIN), Budget(1))
    task.form = Odd()
    assert not families(task)
    assert not shared([task])


TINY = Domain(Categorical("one", ["only"]))
HUGE = Domain(
    Integer("a", 0, 2**62 - 1), Integer("b", 0, 10**6), *[Boolean(f"c{n}") for n in range(60)]
)
WIDE = Domain(Integer("a", 0, 2**24), Boolean("b"))


def sizes():
    yield "tiny count", TINY, Count(normalized=False)
    yield "tiny table", TINY, Marginal("one", normalized=False)
    yield "tiny pair", TINY, Workload([Marginal("one", normalized=False)] * 2)
    yield "huge count", HUGE, Threshold("a", 2**61, normalized=False)
    thresholds = [Threshold("a", 2**55 * k, normalized=False) for k in range(1, 100)]
    yield "huge thresholds", HUGE, Workload(thresholds)
    yield "huge table", HUGE, Marginal("b", "c0", normalized=False)
    bits = [f"c{n}" for n in range(60)]
    tables = [Marginal(*pair, normalized=False) for pair in itertools.pairwise(bits)]
    yield "huge tables", HUGE, Workload(tables)
    yield "huge wide", HUGE, Conjunction(dict.fromkeys(bits, True), normalized=False)
    yield "huge sum", HUGE, Sum("b", normalized=False)
    yield (
        "wide thresholds",
        WIDE,
        Workload([Threshold("a", 2**16 * k, normalized=False) for k in range(1, 200)]),
    )
    ends = np.array([[5], [2]]) * np.ones(300, dtype=np.int64)
    boxes = Boxes(("a", "b"), (2**24 + 1, 2), 0 * ends, ends, np.ones(300))
    yield "wide boxes", WIDE, Strange(boxes)
    yield (
        "model",
        HUGE,
        ConvexMinimization(SquaredLoss(), features=["c0", "c1"], label="c2", over=Ball(1)),
    )


CASES = {name: (domain, query) for name, domain, query in sizes()}


@pytest.mark.parametrize(("name", "limits"), crossed(CASES, [None, Limits(seconds=60)], 2))
def test_refuses_by_typed_errors_alone(name, limits):
    domain, query = CASES[name]
    quoted = 0
    for facts in (
        public(domain, rows=1, outside=True),
        public(domain, rows=10**9, unit_rows=5),
        public(domain, Neighbors.ADD_REMOVE, rows=2**47),
    ):
        for budget in (Budget(Fraction(1, 10**6)), Budget(1, MINUTE)):
            task = task_of(query, facts, budget, limits=limits)
            for family in open_to(task):
                for size in (Fraction(1, 10**9), Fraction(10**4)):
                    with suppress(DpsdkError):
                        family.quote(family.at(size), task)
                        quoted += 1
                with suppress(DpsdkError):
                    family.quote(family.within(budget), task)
    assert quoted
