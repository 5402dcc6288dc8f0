"""How many persons there are, and how many different combinations of labels."""

import itertools

import numpy as np
import polars as pl
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivacyUnit,
    PrivateData,
    Session,
    wire,
)
from dpsdk.accounting import DiscreteGaussianGuarantee, DiscreteLaplaceGuarantee
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument, QueryError, UnknownAttribute
from dpsdk.forms import Facts, TallyForm
from dpsdk.kernel import LaplaceNoise, Tally, Terms
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    NoisyHistogram,
    NumericSparse,
    Projection,
    Tree,
)
from dpsdk.queries import Count, CountDistinct, CountPersons, Marginal, Workload
from dpsdk.testing import check_query, seeded

DOMAIN = Domain(Integer("x", 0, 4), Categorical("g", ["a", "b"]))
UNIT = PrivacyUnit("who", max_rows=3)
EXACT = Laplace(epsilon=1000)


def visits(**given):
    # Persons 0 to 199, some of whom have many rows, some none but outside, and rows of nobody.
    who = [*range(200), *[7] * 50, *range(100), None, None]
    x = [place % 7 for place in range(len(who))]
    g = ["ab"[place % 2] for place in range(len(who))]
    return {"who": who, "x": x, "g": g}


def session_of(data, budget=10**6, **given):
    return Session(data, Budget(budget, "1e-6"), noise=seeded(2), **given)


@pytest.mark.parametrize("collect", ["histogram", "marginals"])
@pytest.mark.parametrize("most", [1, 3])
def test_persons_are_counted_whatever_their_rows(collect, most):
    unit = PrivacyUnit("who", max_rows=most)
    data = PrivateData.from_frame(pl.DataFrame(visits()), DOMAIN, unit=unit, collect=collect)
    release = session_of(data).release(CountPersons(), using=EXACT)
    assert release.value == 200
    assert release.error() < 1
    assert release.cost.runs[0][0] == DiscreteLaplaceGuarantee("1/1000", 1)
    assert release.interval() == (200 - release.error(), 200 + release.error())


def test_the_noise_of_persons_does_not_grow_with_their_rows():
    data = PrivateData.from_columns(visits(), DOMAIN, unit=UNIT)
    session, using = session_of(data), Gaussian(rho="0.01")
    persons = session.quote(CountPersons(), using=using)
    rows = session.quote(Count(normalized=False), using=using)
    assert rows.error() > 2.9 * persons.error()
    assert session.quote(CountDistinct("x"), using=using).error() == pytest.approx(
        rows.error(), rel=0.1
    )


def test_what_tells_nobody_apart_has_no_persons():
    columns = {name: values for name, values in visits().items() if name != "who"}
    given = [
        PrivateData.from_columns(columns, DOMAIN),
        PrivateData.from_columns(columns, DOMAIN, neighbors=Neighbors.ADD_REMOVE, unit_rows=2),
        PrivateData.from_counts(np.ones(10), DOMAIN),
    ]
    for data in given:
        session = session_of(data)
        with pytest.raises(QueryError, match=r"unit=PrivacyUnit\(...\), or ask Count"):
            session.answer(CountPersons(), using=EXACT)
        with pytest.raises(InvalidArgument, match="persons are told apart"):
            Tally(TallyForm(DOMAIN, None), LaplaceNoise(1)).price(Terms(data.facts))
        assert session.spent.charges == 0


def combinations(rows, names):
    return len({tuple(row[name] for name in names) for row in rows})


@pytest.mark.parametrize("names", [("x",), ("g", "x"), ("h", "x", "g")])
def test_combinations_are_those_of_known_labels(names):
    domain = Domain(
        Integer("x", 0, 3, missing=True),
        Categorical("g", ["a", "b"], other=True, missing=True),
        Categorical("h", ["u", "v", "w"]),
    )
    rng = np.random.default_rng(4)
    rows = [
        {name: domain[name].label(int(rng.integers(domain[name].size))) for name in domain.names}
        for _ in range(9)
    ]
    counts = np.zeros(domain.shape, dtype=int)
    for row in rows:
        counts[tuple(domain[name].index(row[name]) for name in domain.names)] += 1
    data = PrivateData.from_counts(counts, domain, outside_rows=3)
    known = [row for row in rows if not {MISSING, OTHER} & {row[name] for name in names}]
    assert session_of(data).answer(CountDistinct(*names), using=EXACT) == combinations(known, names)


def test_wide_combinations_are_counted_from_records(monkeypatch):
    domain = Domain(*(Integer(f"x{place}", 0, 30) for place in range(6)))
    rng = np.random.default_rng(3)
    columns = {name: rng.integers(-1, 31, 500).tolist() for name in domain.names}
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    inside = [row for row in rows if min(row.values()) >= 0]
    data = PrivateData.from_columns(columns, domain)
    assert session_of(data).answer(CountDistinct(domain.names), using=EXACT) == combinations(
        inside, domain.names
    )


def test_cells_that_are_no_labels_make_no_table_too_large():
    # 2^20 combinations of labels, and 2^40 with those of other and of missing values.
    domain = Domain(*(Categorical(f"x{place}", ["a", "b"]) for place in range(20)))
    columns = {name: ["a", "b", None, "c"] for name in domain.names}
    data = PrivateData.from_columns(columns, domain, outside="apart")
    assert session_of(data).answer(CountDistinct(domain.names), using=EXACT) == 2


@pytest.mark.parametrize("neighbors", list(Neighbors))
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_no_person_moves_combinations_farther_than_is_paid_for(neighbors, unit_rows):
    domain, most = Domain(Integer("x", 0, 2)), 3
    form = TallyForm(domain, ("x",))

    def number(table):
        # The last cell is outside.
        return sum(count > 0 for count in table[:3])

    tables = [table for table in itertools.product(range(most + 1), repeat=4) if sum(table) <= most]
    moves = set()
    for one, other in itertools.product(tables, tables):
        gone = sum(max(a - b, 0) for a, b in zip(one, other, strict=True))
        come = sum(max(b - a, 0) for a, b in zip(one, other, strict=True))
        same = neighbors is Neighbors.REPLACE_ONE
        if (gone == come <= unit_rows) if same else (gone == 0 and come <= unit_rows):
            moves.add(abs(number(one) - number(other)))
    facts = Facts(domain, neighbors, most, True, most, unit_rows)
    assert max(moves) == form.move(facts)
    # A twin that pays for one row of several would be caught here.
    assert (max(moves) > 1) == (unit_rows > 1)


def test_gaussian_noise_has_steps_where_little_is_added():
    data = PrivateData.from_columns(visits(), DOMAIN, unit=UNIT)
    session = session_of(data)
    release = session.release(CountPersons(), using=Gaussian(rho=50))
    assert abs(release.value - 200) < 1
    run = release.cost.runs[0][0]
    assert isinstance(run, DiscreteGaussianGuarantee)
    assert run.variance >= 64
    assert release.value != round(release.value) or run.shift_squared > 1


def test_the_other_mechanisms_say_who_answers():
    session = session_of(PrivateData.from_columns(visits(), DOMAIN, unit=UNIT))
    for mechanism in (
        Tree("x", epsilon=1),
        NoisyHistogram(epsilon=1),
        MWEM(Marginal("x", normalized=False), epsilon=1),
        Projection(epsilon=1),
        NumericSparse(epsilon=1, tops=1),
    ):
        with pytest.raises(QueryError, match=r"Laplace and Gaussian|Above and NumericAbove"):
            session.quote(CountPersons(), using=mechanism)
    with pytest.raises(QueryError, match="linear queries only"):
        session.quote(Workload([CountPersons(), CountPersons()]), using=EXACT)
    with pytest.raises(UnknownAttribute):
        session.quote(CountDistinct("nothing"), using=EXACT)
    assert session.spent.charges == 0


def test_they_are_planned_reused_written_and_constrained():
    session = session_of(
        PrivateData.from_columns(visits(), DOMAIN, unit=UNIT), budget=20, reuse=True
    )
    plan = session.plan(CountPersons(), error=5).best
    assert plan.promised.error <= 5
    first = session.release(CountPersons(), using=plan)
    assert abs(first.value - 200) <= 20
    one = session.release(CountDistinct("x", "g"), using=Laplace(epsilon=1))
    again = session.release(CountDistinct(["g", "x"]), using=Laplace(epsilon=1))
    assert again.reused
    assert again.value == one.value
    assert not session.release(CountDistinct("x"), using=Laplace(epsilon=1)).reused
    assert session.answer(CountPersons()) >= 100
    for query in (CountPersons(), CountDistinct("x", "g")):
        assert wire.loads("query", wire.dumps(query)) == query
    record = wire.loads("release", wire.dumps(one))
    assert record.answer.stands_for == "number"
    low = session.release(CountDistinct("x"), using=Laplace(epsilon="0.001")).nonnegative()
    assert low.value >= 0


@pytest.mark.parametrize(
    "make",
    [lambda: CountDistinct(), lambda: CountDistinct("x", "x"), lambda: CountDistinct(1)],
)
def test_other_attributes_are_refused(make):
    with pytest.raises(InvalidArgument, match="attributes must be distinct attribute names"):
        make()


def test_a_form_of_another_domain_is_refused():
    data = PrivateData.from_columns(visits(), DOMAIN, unit=UNIT)
    other = TallyForm(Domain(Integer("x", 0, 4)), ("x",))
    with pytest.raises(InvalidArgument, match="over the domain of the table"):
        Tally(other, LaplaceNoise(1)).price(Terms(data.facts))
    assert open_histogram(data).persons == 200


def test_the_kit_finds_no_fault():
    assert check_query(CountDistinct("level")).conforms
