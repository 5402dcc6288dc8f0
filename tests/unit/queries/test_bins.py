"""Tables of bins that are made when they are asked for: those of a column that was binned."""

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    Number,
    PrivateData,
    Session,
    wire,
)
from dpsdk.data.histogram import Histogram
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import sensitivity
from dpsdk.mechanisms import Laplace, NoisyHistogram
from dpsdk.queries import Between, Marginal, Workload
from dpsdk.testing import seeded
from dpsdk.wire import ReleaseRecord
from worlds import QUIET, facts, quiet

EDGES = [0, 10_000.005, 50_000, 250_000]
PAY = Number("pay", 0, 200_000, "0.01", missing=True, other=True)
DOMAIN = Domain(Categorical("sex", ["F", "M"]), PAY, Integer("age", 17, 90, missing=True))
ROWS = 3000


def table_of(query, codes, domain=DOMAIN, of=None):
    of = facts(domain, Neighbors.REPLACE_ONE, rows=ROWS) if of is None else of
    raw = query.lower(domain).evaluate(Histogram(domain, codes, np.ones(ROWS), 0))
    return query.lift(raw, of)


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(1)
    pay = rng.integers(0, PAY.size, ROWS)
    pay[:50], pay[50:90] = PAY.size - 1, PAY.size - 2
    return {"sex": rng.integers(0, 2, ROWS), "pay": pay, "age": rng.integers(0, 75, ROWS)}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("where", [None, {"sex": "F"}, {"pay": Between(5_000, 60_000)}])
def test_they_are_those_of_a_binned_column(codes, known, where):
    query = Marginal(
        "age", "pay", "sex", bins={"pay": EDGES, "age": [17, 30, 65, 90]}, where=where, known=known
    )
    table = table_of(query, codes)
    points = np.array([float(PAY.point(c)) if c < PAY.known else np.nan for c in codes["pay"]])
    kept = np.full(ROWS, True)
    if where and "sex" in where:
        kept = codes["sex"] == 0
    elif where:
        kept = (points >= 5_000) & (points <= 60_000)
    shape = {"age": 3, "pay": 3, "sex": 2}
    for name, attribute in zip(("age", "pay", "sex"), table.attributes, strict=True):
        assert attribute.name == name
        assert attribute.known == shape[name]
        assert attribute.extras == (() if known else DOMAIN[name].extras)
    assert isinstance(table.attributes[1], Binned)
    ages = codes["age"] + 17
    for label in [(0, 10_000.005), (10_000.005, 50_000), (50_000, 250_000)]:
        wanted = (points >= label[0]) & (points < label[1]) & (ages >= 30) & (ages < 65) & kept
        wanted &= codes["sex"] == 1
        assert table[(30, 65), label, "M"] * ROWS == pytest.approx(wanted.sum())
    old = (ages >= 65) & (ages <= 90) & (points < 10_000.005) & kept & (codes["sex"] == 0)
    assert table[(65, 90), (0, 10_000.005), "F"] * ROWS == pytest.approx(old.sum())
    if not known:
        gone = (codes["pay"] == PAY.index(MISSING)) & (codes["age"] == 74) & kept
        assert table[MISSING, MISSING, "F"] * ROWS == pytest.approx(
            (gone & (codes["sex"] == 0)).sum()
        )
        assert table.total() * ROWS == pytest.approx(kept.sum())
        others = (codes["pay"] == PAY.index(OTHER)) & kept
        assert table.values[:, 3].sum() * ROWS == pytest.approx(others.sum())


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_bins_cost_what_labels_cost(neighbors, known):
    of = facts(DOMAIN, neighbors, outside=False)
    query = Marginal("pay", "sex", bins={"pay": EDGES}, known=known)
    found = sensitivity(query.lower(DOMAIN), of)
    moved = 2 if neighbors is Neighbors.REPLACE_ONE else 1
    assert (found.l1, found.l2_squared, found.exact) == (moved, moved, True)
    cut = Marginal("pay", bins={"pay": EDGES}, where={"pay": Between(0, 20_000)}, known=known)
    assert sensitivity(cut.lower(DOMAIN), of).l1 == moved


SMALL = Domain(Integer("age", 17, 30), Categorical("sex", ["F", "M"]))


def test_every_way_to_an_answer_takes_them():
    counts = np.random.default_rng(3).integers(0, 40, (14, 2))
    data = PrivateData.from_counts(counts, SMALL)
    query = Marginal("sex", "age", bins={"age": [10, 20, 25, 40]}, normalized=False)
    wanted = np.add.reduceat(counts, [0, 3, 8], axis=0).T
    released = quiet(data).release(query, using=QUIET)
    assert released.value.values.tolist() == wanted.tolist()
    assert released.value["M", (10, 20)] == wanted[1, 0]
    assert query == Marginal("sex", "age", bins={"age": (10, 20.0, 25, 40)}, normalized=False)
    assert query != Marginal("sex", "age", bins={"age": (10, 20.0, 25, 41)}, normalized=False)
    assert wire.loads("query", wire.dumps(query)) == query
    assert eval(repr(query)) == query  # noqa: S307
    session = Session(data, Budget(epsilon=10**9), noise=seeded(1))
    with session.open(NoisyHistogram(epsilon=10**7)) as channel:
        assert channel.answer(query).values == pytest.approx(wanted)
        both = channel.answer(Workload([query, Marginal("age", bins={"age": [17, 30]})]))
        assert both[0].values == pytest.approx(wanted)
    record = ReleaseRecord.of(released)
    assert wire.loads("release", wire.dumps(released)) == record
    assert "[10, 20)" in released._repr_html_()
    frame = released.value.to_columns()
    assert frame["age"][:3] == ["[10, 20)", "[20, 25)", "[25, 40]"]
    plan = session.plan(query, error=5, beta=0.05)
    assert plan[0].cost.epsilon < 2


@pytest.mark.parametrize(
    "bins",
    [
        {"sex": [0, 1]}, {"age": [20, 30]}, {"age": [17, 29]}, {"age": [17, 17.5, 17.7, 30]},
        {"age": [0, 17, 30]}, {"age": [0, 5, 30]}, {"age": [17, 30, 31, 99]},
    ],
)  # fmt: skip
def test_bins_that_leave_values_out_are_refused(bins):
    with pytest.raises(QueryError):
        Marginal("sex", "age", bins=bins).lower(SMALL)


@pytest.mark.parametrize(
    "bins",
    [
        {"hours": [0, 1]}, {"age": [1]}, {"age": [2, 1]}, {"age": "01"}, {"age": 3}, [1, 2], (1, 2),
        "age", 3, {"age": [0, float("nan")]}, {"age": None},
    ],
)  # fmt: skip
def test_what_is_no_mapping_to_edges_is_refused(bins):
    with pytest.raises(InvalidArgument, match="bins"):
        Marginal("sex", "age", bins=bins)


def test_no_bins_are_none():
    assert Marginal("age", bins={}) == Marginal("age") == Marginal("age", bins=None)
    laplace = Laplace(epsilon=1)
    data = PrivateData.from_counts(np.full((14, 2), 3), SMALL)
    first = Session(data, Budget(epsilon=9), noise=seeded(4)).answer(Marginal("age"), using=laplace)
    again = Session(data, Budget(epsilon=9), noise=seeded(4)).answer(
        Marginal("age", bins={"age": [17, *range(18, 31)]}), using=laplace
    )
    assert first.values[:-2].tolist() == again.values[:-1].tolist()
