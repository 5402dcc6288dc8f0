"""Projected answers: possible ones, nearer to the truth, and within what is proven of them."""

import math

import numpy as np
import pytest
from attrs import evolve

from dpsdk import Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import NoBound, QueryError, TooLarge
from dpsdk.forms import Kronecker, LinearForm
from dpsdk.mechanisms import Gaussian, Laplace, Projection
from dpsdk.mechanisms import projection as module
from dpsdk.queries import Above, Count, Interval, Marginal, Sum, Threshold, Workload
from dpsdk.testing import seeded
from worlds import crossed, facts, thinned, weights

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 7), Categorical("sex", ["F", "M"]), Integer("hours", 0, 5))
PAIRS = [("age", "hours"), ("sex", "hours"), ("age", "sex")]
TABLES = Workload([Marginal(*pair, normalized=False) for pair in PAIRS])
MIXED = Workload(
    [
        *(Interval("age", a, b) for a in range(8) for b in range(a, 8)),
        Sum("hours", where={"sex": "F"}),
        Count({"sex": "M", "age": {1, 4}}),
    ]
)
RELATIONS = [(n, o) for n in Neighbors for o in (False, True)]


def columns_of(form, of):
    beside = of.outside or of.rows is None
    columns = weights(form)
    return np.concatenate([columns, np.zeros((len(columns), 1))], axis=1) if beside else columns


@pytest.mark.parametrize(
    "workload", [TABLES, MIXED, Count(), Workload([Count(), Count({"age": 1})])]
)
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_what_is_found_is_a_projection_but_for_the_gap(workload, neighbors, outside):
    of = facts(DOMAIN, neighbors, rows=40, outside=outside)
    form = workload.lower(DOMAIN)
    possible = module._Set.of(form, of)
    rng = np.random.default_rng(1)
    columns = columns_of(form, of) * 40
    values = (
        columns @ rng.dirichlet(np.ones(columns.shape[1]) * 0.1) + rng.normal(size=form.rows) * 9
    )
    found, gap = possible.nearest(values, 9.0, 40.0, 0.5)
    # A ninth of a variance of one answer; mostly far less, but floats of some libraries show no way
    # down a little earlier than those of others.
    assert gap <= 9.0
    # No distribution is nearer to the noisy answers by more than the gap, along any cell.
    slopes = (found - values) @ (found[:, None] - columns)
    assert slopes.max() <= gap + 1e-6
    # And it is one: the answers of counts that are not negative, and add up.
    low, high = columns.min(axis=1), columns.max(axis=1)
    assert (found >= low - 1e-6).all()
    assert (found <= high + 1e-6).all()


def test_one_answer_that_is_possible_is_as_it_was_measured():
    wide = Domain(Integer("age", 0, 99))
    data = PrivateData.from_counts(np.arange(100) * 10, wide)
    query = Threshold("age", 90, normalized=False)
    for epsilon in ("0.01", "1"):
        found = [
            Session(data, Budget(1), noise=seeded(5)).answer(query, using=kind(epsilon=epsilon))
            for kind in (Laplace, Projection)
        ]
        assert found[1] == pytest.approx(found[0], abs=0.2 / float(epsilon))


def session_of(counts, neighbors, outside, seed, budget=10**6):
    rows = [place for place, count in enumerate(counts) for _ in range(count)]
    records = [DOMAIN.record(place) for place in rows] + [{"age": 99, "sex": "F", "hours": 0}] * (
        2 * outside
    )
    columns = {name: [record[name] for record in records] for name in DOMAIN.names}
    given = {} if neighbors is Neighbors.REPLACE_ONE else {"max_rows": 500}
    data = PrivateData.from_columns(
        columns, DOMAIN, neighbors=neighbors, outside="cell" if outside else "raise", **given
    )
    return Session(data, Budget(budget, "0.1"), noise=seeded(seed))


@pytest.mark.parametrize(
    ("total", "neighbors", "outside"),
    [({"rho": "0.002"}, *RELATIONS[0]), ({"rho": "0.05"}, *RELATIONS[2]),
     ({"epsilon": "0.5"}, *RELATIONS[1])],
    ids=["gaussian", "private rows", "laplace"],
)  # fmt: skip
def test_bounds_hold_and_errors_are_smaller_than_the_noise(total, neighbors, outside):
    counts = np.random.default_rng(2).multinomial(120, np.ones(96) / 96)
    asked = session_of(counts, neighbors, outside, 3)
    form = TABLES.lower(DOMAIN)
    truth = weights(form) @ counts
    plain = Gaussian(**total) if "rho" in total else Laplace(**total)
    mechanism, runs = Projection(**total), 40
    apart, beyond, far, raw = [], 0, 0, []
    for _ in range(runs):
        release = asked.release(TABLES, using=mechanism)
        rows = asked.release(TABLES, using=plain)
        values = np.concatenate([np.ravel(one.values) for one in release.value])
        noisy = np.concatenate([np.ravel(one.values) for one in rows.value])
        error = values - truth
        apart.append(np.square(error).mean())
        raw.append(np.square(noisy - truth).mean())
        accuracy = release.accuracy
        beyond += (error**2).sum() > accuracy.distance(0.2) ** 2
        far += (np.abs(error) > accuracy.radii(0.2, joint=True)).any()
    assert np.mean(apart) < 0.6 * np.mean(raw)
    # Five deviations above a fifth of the runs.
    assert max(beyond, far) <= runs / 5 + 5 * math.sqrt(runs * 0.16)


def test_many_answers_about_few_rows_are_proven_to_be_nearer_than_the_noise():
    asked = session_of([1] * 96, Neighbors.REPLACE_ONE, outside=False, seed=4)
    accuracy = asked.release(TABLES, using=Projection(rho="0.0002")).accuracy
    noise = accuracy.noise
    assert accuracy.mean_square(0.05) < 0.2 * (noise.law.standard_deviation() * noise.step) ** 2
    # The parts of the bound, by the formulas of the proof note.
    silent = evolve(accuracy, gap=0.0)
    assert silent.distance(0.05) <= accuracy.distance(0.05)
    wider = evolve(accuracy, reach=math.inf)
    assert wider.distance(0.05) > accuracy.distance(0.05)


@pytest.mark.parametrize("rows", thinned([10**3, 10**5, 10**7, 10**9], 2))
@pytest.mark.parametrize(("spread", "rho"), crossed([0.03, 0.3], ["0.01", "1"], 2))
def test_errors_are_hardly_larger_than_the_noise_however_many_rows_there_are(rows, spread, rho):
    rng = np.random.default_rng(1)
    counts = rng.multinomial(rows, rng.dirichlet(np.full(DOMAIN.size, spread)))
    data = PrivateData.from_counts(counts.reshape(DOMAIN.shape), DOMAIN)
    asked = Session(data, Budget(9, "1e-3"), noise=seeded(3))
    form = TABLES.lower(DOMAIN)
    accuracy = (release := asked.release(TABLES, using=Projection(rho=rho))).accuracy
    values = np.concatenate([np.ravel(one.values) for one in release.value])
    error = np.square(values - weights(form) @ counts).mean()
    noise = accuracy.noise.law.variance * accuracy.noise.step**2
    assert error < 1.6 * noise
    assert error <= accuracy.mean_square(0.01)
    # Proven of all answers together: no more than twice the length of the noise.
    assert accuracy.mean_square(0.05) < 10 * noise
    if (rows, rho) == (10**3, "0.01"):
        assert 0 < error < 0.7 * noise


def test_a_quote_predicts_and_a_release_proves():
    asked = session_of([1] * 96, Neighbors.REPLACE_ONE, outside=False, seed=5, budget=9)
    mechanism = Projection(rho="0.01")
    quote = asked.quote(TABLES, using=mechanism)
    with pytest.raises(NoBound):
        quote.error(0.1)
    assert quote.bound(0.1).predicted > 0
    release = asked.release(TABLES, using=mechanism)
    assert release.source == "fitted"
    assert release.error(0.1) > 0
    assert release.cost.guarantees == quote.at_most.guarantees
    assert asked.spent.charges == 1
    with pytest.raises(QueryError):
        asked.answer(Above(Count(), 0.5), using=mechanism)


def test_the_number_of_rows_is_measured_where_it_is_private():
    asked = session_of([2] * 96, Neighbors.ADD_REMOVE, outside=False, seed=6)
    query = Workload([Threshold("age", t, normalized=False) for t in range(8)])
    release = asked.release(query, using=Projection(rho=10))
    assert release.accuracy.counted
    assert release.value.values == pytest.approx([24.0 * (t + 1) for t in range(8)], abs=3)
    # Of a probability as small as that of more rows than were told nothing is proven together.
    assert release.accuracy.distance(1e-10) == math.inf
    assert np.isfinite(release.accuracy.radii(1e-10, joint=True)).all()


def test_what_is_known_for_certain_is_answered_so():
    asked = session_of([1] * 96, Neighbors.REPLACE_ONE, outside=False, seed=7)
    assert asked.answer(Count(normalized=False), using=Projection(rho="0.01")) == 96


def test_what_is_too_large_is_refused_beforehand():
    domain = Domain(Integer("age", 0, 2**12), Integer("days", 0, 2**12))
    data = PrivateData.from_columns({"age": [1], "days": [1]}, domain)
    asked = Session(data, Budget(1, "1e-6"), noise=seeded(1))
    for query in (
        Count({"age": 1, "days": 2}),
        Workload([Threshold("age", t) for t in range(2**12 + 1)]),
    ):
        for attempt in (asked.quote, asked.answer):
            with pytest.raises(TooLarge):
                attempt(query, using=Projection(rho="0.01"))
    assert asked.spent.charges == 0


def test_a_form_without_attributes_has_one_column():
    of = facts(DOMAIN, rows=12, outside=False)
    form = LinearForm(DOMAIN, [Kronecker((), (), 2.5), Kronecker((), ())])
    found, gap = module._Set.of(form, of).nearest(np.array([10.0, 3.0]), 1.0, 12.0, 0.1)
    assert found == pytest.approx([30, 12])
    assert gap == pytest.approx(0, abs=1e-6)
