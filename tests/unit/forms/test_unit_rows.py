"""A person of several rows moves answers as many times as far, and no farther."""

import itertools
import math
from fractions import Fraction

import attrs
import numpy as np
import pytest
from random_forms import random_form

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.data.vault import public_facts
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Dense, Facts, Identity, Kronecker, LinearForm, Prefix, Weights, sensitivity
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms, Watching
from dpsdk.mechanisms import Gaussian, Laplace, NumericSparse, OnlinePMW
from dpsdk.mechanisms.pmw.schedule import best_promise
from dpsdk.queries import Above, Count, Marginal, Sum
from dpsdk.testing import seeded
from worlds import facts, weights

pytestmark = pytest.mark.thorough

RELATIONS = list(itertools.product(Neighbors, [True, False]))
LINE = Domain(Integer("a", 0, 3))
COUNT = Kronecker.of(LINE, {"a": Weights([[1, 1, 0, 0]])})


def changes(cells, of):
    """All changes of counts between neighbours, one a column; rows outside are the last cell."""
    most = of.unit_rows
    if of.neighbors is Neighbors.REPLACE_ONE:
        every = itertools.product(range(-most, most + 1), repeat=cells + of.outside)
        found = [c for c in every if not sum(c) and sum(map(abs, c)) <= 2 * most]
    else:
        every = itertools.product(range(most + 1), repeat=cells + of.outside)
        found = [c for c in every if sum(c) <= most]
    return np.array(found).T[:cells]


def form_of(seed):
    while True:
        form = random_form(np.random.default_rng(seed))
        if form.domain.size <= 4:
            return form
        seed += 1000


@pytest.mark.parametrize("unit_rows", [2, 3])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_the_rows_of_a_person_move_answers_exactly_so_far(neighbors, outside, unit_rows):
    for seed in range(25):
        form = form_of(seed)
        of = facts(form.domain, neighbors, outside=outside, unit_rows=unit_rows)
        moved = np.abs(weights(form) @ changes(form.domain.size, of))
        found = sensitivity(form, of)
        assert found.exact
        assert found.l1 == Fraction(moved.sum(axis=0).max())
        assert found.l2_squared == Fraction((moved**2).sum(axis=0).max())
        assert found.maximum == Fraction(moved.max())


@pytest.mark.parametrize("neighbors", Neighbors)
def test_nothing_is_called_exact_that_no_table_is_large_enough_for(neighbors):
    form = LinearForm(LINE, [COUNT])
    within = facts(LINE, neighbors, rows=5, unit_rows=5)
    beyond = facts(LINE, neighbors, rows=5, unit_rows=6)
    assert (sensitivity(form, within).l1, sensitivity(form, within).exact) == (5, True)
    assert (sensitivity(form, beyond).l1, sensitivity(form, beyond).exact) == (6, False)


FORMS = {
    "one count": [COUNT],
    "one count, dense": [Dense(("a",), (4,), np.array([[1.0, 1.0, 0.0, 0.0]]))],
    "one sum": [Kronecker.of(LINE, {"a": Weights([[3, -1, 0, 2]])})],
    "cells": [Kronecker.of(LINE, {"a": Identity(4)})],
    "two blocks": [Kronecker.of(LINE, {"a": Identity(4)}), Kronecker.of(LINE, {"a": Prefix(4)})],
    "fractions": [Kronecker.of(LINE, {"a": Weights([[0.3, 0.1, 0.7, 0.2]])})],
}


@pytest.mark.parametrize("unit_rows", [2, 7, 10**6])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("name", FORMS)
def test_the_noise_grows_with_the_rows_and_the_charge_does_not(name, neighbors, outside, unit_rows):
    form = LinearForm(LINE, FORMS[name])
    one = facts(LINE, neighbors, rows=10**6, outside=outside)
    many = attrs.evolve(one, unit_rows=unit_rows)
    for noise in (LaplaceNoise("0.5"), GaussianNoise("0.01")):
        before, after = (
            Measure(form, noise).price(Terms(one)),
            Measure(form, noise).price(Terms(many)),
        )
        step = Fraction(2) ** (before.bits - after.bits)
        if isinstance(noise, LaplaceNoise):
            assert after.guarantee.shift / after.guarantee.scale == Fraction(1, 2)
            scale = after.law.scale * step / before.law.scale
        else:
            ratio = after.guarantee.shift_squared / (2 * after.guarantee.variance)
            assert ratio == Fraction(1, 100)
            scale = math.sqrt(after.law.variance * step**2 / before.law.variance)
        # Weights that are rounded move by up to a step more or less.
        rounded = 4 * 2.0**-after.bits if name == "fractions" else 1e-12
        assert float(scale) == pytest.approx(unit_rows, rel=rounded)
        # A coarser lattice is enough for wider noise, and fine enough.
        assert after.bits <= before.bits
        spread = after.law.standard_deviation() * 2.0**-after.bits
        assert after.accuracy.bias <= spread / 1000


@pytest.mark.parametrize("unit_rows", [1, 10])
def test_weights_that_are_all_alike_are_on_no_finer_lattice_than_their_noise_asks(unit_rows):
    # Under add-remove such a form moves, so that there is noise on it, and rounding matters little.
    domain = Domain(Integer("a", 0, 0))
    form = LinearForm(domain, [Kronecker.of(domain, {"a": Weights([[700.3]])})])
    of = facts(domain, Neighbors.ADD_REMOVE, rows=10, outside=False, unit_rows=unit_rows)
    pricing = Measure(form, LaplaceNoise("0.001")).price(Terms(of))
    assert pricing.bits == 1
    assert pricing.law.scale == 1401 * unit_rows * 1000


@pytest.mark.parametrize("unit_rows", [1, 3, 1000, 10**9])
def test_a_watch_has_noise_for_all_rows_of_a_person(unit_rows):
    of = facts(LINE, rows=10**9, unit_rows=unit_rows)
    watching = Watching(Fraction(1, 3), Fraction(1, 2))
    steps = 1 << watching.lattice_bits(of)
    assert watching.threshold_noise(of, steps).scale == 3 * unit_rows * steps
    assert watching.query_noise(of, steps).scale == 4 * unit_rows * steps
    assert watching.mean_noise(of) == pytest.approx(unit_rows)
    one = facts(LINE, rows=10**5)
    many = attrs.evolve(one, unit_rows=min(unit_rows, 10**5))
    for given in (one, many):
        # What rounding can move stays far below the noise of a gap.
        assert watching.rounding(given) <= 4 * given.unit_rows / 1000
    for radius in (watching.below, lambda beta, of: watching.above(beta, of, 3)):
        assert radius(0.05, many) / radius(0.05, one) == pytest.approx(many.unit_rows, rel=0.01)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None, 2**63])
def test_facts_refuse_a_number_of_rows_that_is_none(wrong):
    with pytest.raises(InvalidArgument) as caught:
        Facts(LINE, Neighbors.REPLACE_ONE, 9, False, 9, wrong)
    assert caught.value.parameter == "unit_rows"


def test_facts_that_differ_in_it_are_not_equal():
    assert facts(LINE) == facts(LINE, unit_rows=1)
    assert facts(LINE) != facts(LINE, unit_rows=2)
    assert "unit_rows=2" in repr(facts(LINE, unit_rows=2))


class Number(int):
    pass


def test_facts_and_tables_keep_a_plain_number():
    for number in (Number(3), np.int64(3)):
        data = PrivateData.from_counts([5, 5, 5, 5], LINE, unit_rows=number)
        assert type(data.facts.unit_rows) is int
        assert data.facts.unit_rows == public_facts(data).unit_rows == 3
        assert type(Facts(LINE, Neighbors.REPLACE_ONE, 9, False, 9, number).unit_rows) is int


def session(unit_rows, *, noise=None, neighbors=Neighbors.REPLACE_ONE):
    data = PrivateData.from_counts(
        [500, 300, 150, 50], LINE, unit_rows=unit_rows, neighbors=neighbors
    )
    return Session(data, Budget(100, "0.1"), noise=noise)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_releases_are_as_far_off_as_they_say(neighbors):
    asked = session(5, noise=seeded(3), neighbors=neighbors)
    query, off = Marginal("a", normalized=False), []
    for _ in range(200):
        release = asked.release(query, using=Laplace("0.4"))
        worst = np.abs(release.value.values - np.array([500, 300, 150, 50])).max()
        off.append(worst > release.error(0.2))
    # Binomial(200, 0.2) exceeds 65 with a probability of 1e-5, and falls below 17 as rarely.
    assert 17 <= sum(off) <= 65


@pytest.mark.parametrize("unit_rows", [1, 6])
def test_a_sparse_vector_keeps_its_bound(unit_rows):
    wrong, trials = 0, 150
    source = seeded(7)
    for _ in range(trials):
        asked = session(unit_rows, noise=source)
        with asked.open(NumericSparse(1, tops=1)) as channel:
            release = channel.release(Above(Count({"a": 3}, normalized=False), 60))
        bound = release.error(0.1)
        # 50 rows are 10 below the level: saying "above" is wrong by as much.
        wrong += release.value and bound < 10
    assert wrong <= 0.1 * trials
    assert bound == pytest.approx(_bound_of_one_row() * unit_rows, rel=0.02)


def _bound_of_one_row():
    with session(1, noise=seeded(1)).open(NumericSparse(1, tops=1)) as channel:
        return channel.release(Above(Count({"a": 3}, normalized=False), 60)).error(0.1)


@pytest.mark.parametrize("delta", [0, Fraction(1, 10**6)])
def test_streams_count_on_the_noise_of_all_rows_of_a_person(delta):
    one = facts(LINE, rows=10**7)
    five = attrs.evolve(one, unit_rows=5)
    schedules = [
        best_promise(Fraction(1), Fraction(delta), 0.05, 1000, of, math.log(5), prepaid=False)
        for of in (one, five)
    ]
    # Five times the noise is worth a fifth of the rows.
    fewer = best_promise(
        Fraction(1), Fraction(delta), 0.05, 1000, facts(LINE, rows=2 * 10**6), math.log(5),
        prepaid=False,
    )  # fmt: skip
    assert schedules[1].promise.alpha > schedules[0].promise.alpha
    assert schedules[1].promise.alpha == pytest.approx(fewer.promise.alpha, rel=0.01)
    for schedule, of in zip(schedules, (one, five), strict=True):
        # The radius of a number covers the noise that the kernel gives it.
        law = Measure(LinearForm(LINE, [COUNT]), schedule.noise).price(Terms(of)).law
        missed = law.tail(math.floor(schedule.radius * of.rows))
        assert 1 - (1 - missed) ** schedule.updates <= 0.05 / 3 * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0, Fraction(1, 10**6)])
@pytest.mark.parametrize("kind", ["practical", "textbook"])
def test_thresholds_of_streams_grow_with_the_noise(kind, delta):
    one = facts(LINE, rows=10**5)
    three = attrs.evolve(one, unit_rows=3)
    if kind == "practical":
        mechanism = OnlinePMW(1, delta, updates=5, start="uniform")
    else:
        mechanism = OnlinePMW.textbook(1, delta, alpha=0.2, beta=0.05, queries=100)
    schedules = [mechanism.schedule(of) for of in (one, three)]
    assert schedules[0].watching == schedules[1].watching
    assert schedules[1].threshold == pytest.approx(3 * schedules[0].threshold)
    # Where noise is wider the parameters of the noise stay: it is the kernel that widens it.
    assert schedules[0].noise == schedules[1].noise


@pytest.mark.parametrize("neighbors", Neighbors)
def test_so_many_rows_that_their_noise_fits_no_integer_are_refused_unpaid(neighbors):
    most = 2**50
    data = PrivateData.from_counts([most, 1, 1, 1], LINE, max_rows=2**51, unit_rows=most,
                                   neighbors=neighbors)  # fmt: skip
    asked = Session(data, Budget(10))
    for ask in (
        lambda: asked.answer(Count(normalized=False), using=Laplace("0.000001")),
        lambda: asked.answer(Sum("a", normalized=False), using=Gaussian(rho="1e-12")),
        lambda: asked.open(NumericSparse("0.000001", tops=1)),
    ):
        with pytest.raises(InvalidArgument, match="larger, since noise"):
            ask()
    assert not asked.history
    release = asked.release(Count({"a": 1}, normalized=False), using=Laplace(1))
    assert release.error(0.05) >= most
