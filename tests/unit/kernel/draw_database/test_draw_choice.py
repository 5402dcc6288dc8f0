"""Which sampler draws, and what is refused: by public facts, before anything is charged."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Domain, Integer, Neighbors
from dpsdk.data.vault import open_histogram
from dpsdk.errors import ExactSamplingInfeasible, InvalidArgument
from dpsdk.forms import Dense, Facts, Identity, Kronecker, LinearForm, Prefix, Range, Weights
from dpsdk.kernel.draw_database import choose as choose_module
from dpsdk.kernel.draw_database.atoms import Counting
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.bounds import (
    CellCoverage,
    IntervalCoverage,
    MarginalCoverage,
    ThresholdCoverage,
)
from dpsdk.kernel.draw_database.choose import Limits, choose, feasible_size, general, recognised
from dpsdk.kernel.draw_database.enumeration import Enumeration
from dpsdk.kernel.draw_database.structured import attempt, segmented
from dpsdk.testing.audit import enumerate_law, tables
from worlds import crossed

DOMAIN = Domain(Integer("a", 0, 29), Integer("b", 0, 9))


def terms_for(domain, size, rows=1000, relation=Neighbors.REPLACE_ONE):
    public = rows if relation is Neighbors.REPLACE_ONE else None
    return DrawTerms(size, Fraction(1), Facts(domain, relation, public, True, rows))


def random_form(functions, seed=3):
    weights = np.random.default_rng(seed).integers(0, 2, (functions, 30)).astype(float)
    return LinearForm(DOMAIN, [Dense(("a",), (30,), weights)])


def test_what_can_be_counted_is_counted_and_the_rest_is_looked_at():
    total = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"a": Weights([range(30)])})])
    assert type(choose(total, terms_for(DOMAIN, 20))) is Counting
    assert type(choose(random_form(20), terms_for(DOMAIN, 5))) is Enumeration


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
    pair = {"a": Weights(np.arange(2.0**15 + 1)[None]), "b": Weights(np.arange(2.0**15 + 1)[None])}
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
    assert one.bound.error(0.05) == other.bound.error(0.05)
    with pytest.raises(ExactSamplingInfeasible):
        choose(random_form(20), terms_for(DOMAIN, 3, 2**40, Neighbors.ADD_REMOVE))


def test_the_bound_is_in_rows_of_the_widest_function_and_counts_rounding():
    single = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Weights([[0, 1] * 5])})])
    tenfold = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Weights([[0, 10] * 5])})])
    real = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Weights([[0, 1 / 3] * 5])})])
    terms = terms_for(DOMAIN, 10)
    error = choose(single, terms).bound.error(0.05)
    assert choose(tenfold, terms).bound.error(0.05) == 10 * error
    assert float(choose(real, terms).bound.error(0.05)) == pytest.approx(float(error) / 3, abs=2e-2)
    assert choose(real, terms).bias > 0


def test_weights_that_cannot_be_summed_are_refused():
    form = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"a": Weights([[2.0**41] + [0] * 29])})])
    with pytest.raises(InvalidArgument, match="weights"):
        choose(form, terms_for(DOMAIN, 3))


LARGE = Domain(Integer("x", 0, 2**60), Integer("y", 0, 99), Integer("z", 0, 2**40))


def form_over(domain, *factors):
    return LinearForm(domain, [Kronecker.of(domain, factor) for factor in factors])


CELLS = 2**60 + 1
THRESHOLDS = tuple({"x": Range(CELLS, 0, 2**power)} for power in (3, 40, 59))
HUNDRED = {"y": Identity(100)}
CROSSING = tuple({"y": Range(100, low, low + 30)} for low in (1, 7))


@pytest.mark.parametrize(
    ("form", "kind", "coverage"),
    [
        (form_over(LARGE, *THRESHOLDS), "thresholds", ThresholdCoverage()),
        (form_over(LARGE, *CROSSING), "intervals", IntervalCoverage()),
        (form_over(LARGE, HUNDRED), "cells", CellCoverage(101)),
        (
            form_over(LARGE, {}, HUNDRED),
            "cells",
            MarginalCoverage((CellCoverage(100),), outside=True),
        ),
        (
            form_over(LARGE, HUNDRED, *THRESHOLDS),
            "marginals",
            MarginalCoverage((CellCoverage(100), ThresholdCoverage()), outside=True),
        ),
    ],
    ids=["thresholds", "intervals", "cells", "cells and all", "marginals"],
)
def test_structures_are_told_and_covered_as_proven(form, kind, coverage):
    chosen = recognised(form, terms_for(LARGE, 5))
    assert (chosen.kind, chosen.coverage) == (kind, coverage)


def test_a_structure_is_drawn_from_however_large_its_attribute_is():
    chosen = choose(form_over(LARGE, *THRESHOLDS), terms_for(LARGE, 5))
    assert chosen.kind == "thresholds"
    # Without one, there are as many kinds of records as the attribute has cells, for all we know.
    mixed = form_over(LARGE, {"x": Range(CELLS, 0, 9), "y": Range(100, 0, 9)}, *THRESHOLDS)
    with pytest.raises(ExactSamplingInfeasible) as caught:
        choose(mixed, terms_for(LARGE, 5))
    assert caught.value.atoms == CELLS


def test_a_large_structure_is_not_written_out(monkeypatch):
    def written_out(form, setting):
        raise AssertionError("so many thresholds take a minute to be told apart one by one")

    domain = Domain(Integer("a", 0, 2**12 - 1))
    form = form_over(domain, {"a": Prefix(2**12)})
    choose(form_over(SMALL, {"a": Prefix(3)}), terms_for(SMALL, 5))
    monkeypatch.setattr(choose_module.Atoms, "of", written_out)
    assert choose(form, terms_for(domain, 5)).kind == "thresholds"
    assert choose_module.best_size(form, terms_for(domain, 5), 0.05) > 5
    with pytest.raises(AssertionError):
        choose(form_over(SMALL, {"a": Prefix(3)}), terms_for(SMALL, 5))


SMALL = Domain(Integer("a", 0, 2))
PAIR = Domain(Integer("a", 0, 1), Integer("b", 0, 1))
FORMS = {
    "thresholds": form_over(SMALL, {"a": Prefix(3)}),
    "some thresholds": form_over(SMALL, {"a": Range(3, 0, 2)}),
    "intervals": form_over(
        SMALL, {"a": Range(3, 0, 2)}, {"a": Range(3, 1, 3)}, {"a": Range(3, 1, 2)}
    ),
    "cells": form_over(SMALL, {"a": Identity(3)}),
    "cells and all": form_over(SMALL, {"a": Identity(3)}, {}),
    "marginals": form_over(PAIR, {"a": Identity(2)}, {"b": Prefix(2)}),
    "any": form_over(SMALL, {"a": Weights([[0, 2, 1], [1, 0, 1]])}),
}


def weights_of(form):
    codes = np.unravel_index(np.arange(form.domain.size), form.domain.shape)
    named = dict(zip(form.domain.names, codes, strict=True))
    blocks = [block.columns([named[name] for name in block.names]) for block in form.blocks]
    whole = [np.broadcast_to(block, (len(block), form.domain.size)) for block in blocks]
    return np.concatenate([np.concatenate(whole), np.zeros((form.rows, 1))], axis=1)


def largest_error(form, counts, records, rows):
    """In rows, of the answers of a database scaled to a table."""
    flat = [
        form.domain.size
        if min(record) < 0
        else int(np.ravel_multi_index(record, form.domain.shape))
        for record in records
    ]
    weights = weights_of(form)
    database = np.bincount(flat, minlength=form.domain.size + 1)
    gaps = weights @ counts - rows * (weights @ database) / len(records)
    return float(np.abs(gaps).max())


ENUMERABLE = ("some thresholds", "cells")
"""Those whose structured samplers have few enough paths to be followed."""


class RefusedError(Exception):
    """What was proposed was not kept."""


def one_try(levels, rate, noise):
    candidate = attempt(levels, segmented(levels, float(rate)), rate, noise)
    if candidate is None:
        raise RefusedError
    return candidate


def law_of(sampler, histogram):
    """The law of what is drawn, given that the first proposal is kept: that of any later one."""

    def run(data, noise):
        del data
        return tuple(map(tuple, sampler.draw(histogram, noise).tolist()))

    masses = enumerate_law(run, None).masses
    kept = {y: mass for y, mass in masses.items() if y[0] != "RefusedError"}
    total = sum(kept.values())
    return {y: mass / total for y, mass in kept.items()}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "relation"), crossed(FORMS, Neighbors, 2))
def test_every_sampler_errs_within_its_bound(name, relation, monkeypatch):
    monkeypatch.setattr("dpsdk.kernel.draw_database.structured.draw", one_try)
    form, rows, beta = FORMS[name], 2, 0.2
    public = rows if relation is Neighbors.REPLACE_ONE else None
    setting = Facts(form.domain, relation, public, True, rows)
    terms = DrawTerms(2, Fraction(6), setting)
    every = general(form, terms)
    if name in ENUMERABLE:
        every.append(recognised(form, terms))
    for data in list(tables(form.domain, rows, relation))[::3]:
        histogram = open_histogram(data)
        inside = histogram.table(form.domain.names).reshape(-1)
        counts = np.append(inside, rows - inside.sum())
        for chosen in every:
            law = law_of(chosen, histogram)
            bound = float(chosen.bound.error(beta))
            beyond = sum(
                mass
                for records, mass in law.items()
                if largest_error(form, counts, records, rows) > bound + 1e-9
            )
            assert beyond <= beta
