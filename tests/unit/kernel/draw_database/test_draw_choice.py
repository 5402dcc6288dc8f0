"""Which sampler draws, and what is refused: by public facts, before anything is charged."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Domain, Integer, Neighbors
from dpsdk.errors import ExactSamplingInfeasible, InvalidArgument
from dpsdk.forms import Dense, Facts, Kronecker, LinearForm, Matrix, Prefix
from dpsdk.forms.facts import Setting
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.choose import Limits, choose, feasible_size
from dpsdk.kernel.draw_database.counting import Counting
from dpsdk.kernel.draw_database.enumeration import Enumeration

DOMAIN = Domain(Integer("a", 0, 29), Integer("b", 0, 9))


def terms_for(domain, size, rows=1000, relation=Neighbors.REPLACE_ONE):
    public = rows if relation is Neighbors.REPLACE_ONE else None
    return DrawTerms(size, Fraction(1), Setting.of(Facts(domain, relation, public, True, rows)))


def random_form(functions, seed=3):
    weights = np.random.default_rng(seed).integers(0, 2, (functions, 30)).astype(float)
    return LinearForm(DOMAIN, [Dense(("a",), (30,), weights)])


def test_what_can_be_counted_is_counted_and_the_rest_is_looked_at():
    total = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"a": Matrix([range(30)])})])
    assert type(choose(total, terms_for(DOMAIN, 20)).sampler) is Counting
    assert type(choose(random_form(20), terms_for(DOMAIN, 5)).sampler) is Enumeration


def test_what_takes_too_long_is_refused_with_what_could_be_asked_instead():
    form, terms = random_form(20), terms_for(DOMAIN, 40)
    with pytest.raises(ExactSamplingInfeasible) as caught:
        choose(form, terms)
    error = caught.value
    assert (error.atoms, error.size) == (31, 40)
    assert error.log2_candidates == pytest.approx(math.log2(math.comb(70, 40)), rel=1e-9)
    assert error.seconds > 60
    largest = feasible_size(form, terms)
    assert error.alternatives[0] == f"size={largest}, the largest within the limits"
    choose(form, terms_for(DOMAIN, largest))
    with pytest.raises(ExactSamplingInfeasible):
        choose(form, terms_for(DOMAIN, largest + 1))


def test_limits_are_the_callers():
    form, terms = random_form(20), terms_for(DOMAIN, 6)
    choose(form, terms)
    for limits in (Limits(seconds=1e-6), Limits(bytes=10)):
        with pytest.raises(ExactSamplingInfeasible):
            choose(form, terms, limits)
    assert feasible_size(form, terms, Limits(bytes=10)) == 0


def test_cells_that_are_too_many_to_be_merged_are_refused_by_their_number():
    domain = Domain(Integer("a", 0, 2**15), Integer("b", 0, 2**15))
    pair = {"a": Matrix(np.arange(2.0**15 + 1)[None]), "b": Matrix(np.arange(2.0**15 + 1)[None])}
    form = LinearForm(domain, [Kronecker.of(domain, pair)])
    with pytest.raises(ExactSamplingInfeasible) as caught:
        choose(form, terms_for(domain, 3))
    assert caught.value.atoms == (2**15 + 1) ** 2
    assert caught.value.seconds == math.inf


@pytest.mark.parametrize("size", [10**6, 2**20])
def test_huge_sizes_are_refused_without_long_numbers(size):
    with pytest.raises(ExactSamplingInfeasible):
        choose(random_form(20), terms_for(DOMAIN, size))


def test_rows_play_a_part_only_where_they_are_public():
    form = random_form(3)
    limits = [terms_for(DOMAIN, 3, rows, Neighbors.ADD_REMOVE) for rows in (10**5, 10**5)]
    one, other = (choose(form, terms) for terms in limits)
    assert one.error(0.05) == other.error(0.05)
    with pytest.raises(ExactSamplingInfeasible):
        choose(random_form(20), terms_for(DOMAIN, 3, 2**40, Neighbors.ADD_REMOVE))


def test_the_bound_is_in_rows_of_the_widest_function_and_counts_rounding():
    single = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Matrix([[0, 1] * 5])})])
    tenfold = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Matrix([[0, 10] * 5])})])
    real = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Matrix([[0, 1 / 3] * 5])})])
    terms = terms_for(DOMAIN, 10)
    error = choose(single, terms).error(0.05)
    assert choose(tenfold, terms).error(0.05) == 10 * error
    assert float(choose(real, terms).error(0.05)) == pytest.approx(float(error) / 3, abs=2e-2)
    assert choose(real, terms).bias > 0


def test_weights_that_cannot_be_summed_are_refused():
    form = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"a": Matrix([[2.0**41] + [0] * 29])})])
    with pytest.raises(InvalidArgument, match="weights"):
        choose(form, terms_for(DOMAIN, 3))


def test_prefixes_of_small_attributes_need_no_structure():
    form = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Prefix(10)})])
    assert choose(form, terms_for(DOMAIN, 4)).family.atoms == 11
