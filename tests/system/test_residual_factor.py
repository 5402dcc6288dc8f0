"""Forms of residuals do what the same forms do with all their weights written out."""

from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, SyntheticData
from dpsdk.accounting import Odometer, default_composition
from dpsdk.errors import DpsdkError
from dpsdk.forms import (
    Identity,
    Kronecker,
    LinearForm,
    Members,
    Range,
    Residual,
    Weights,
    sensitivity,
)
from dpsdk.forms import linear as linear_module
from dpsdk.forms import members as members_module
from dpsdk.hypothesis import DenseHypothesis, PiecewiseHypothesis
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.recognition import recognised
from dpsdk.kernel.lattice import prepare_form
from dpsdk.mechanisms import NoisyHistogram
from dpsdk.testing.noise import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

CUBE = Domain(Integer("a", 0, 4), Integer("b", 0, 1), Integer("one", 0, 0), Integer("d", 0, 2))
SIZES = dict(zip(CUBE.names, CUBE.shape, strict=True))


def on(*blocks):
    return LinearForm(CUBE, [Kronecker(tuple(f), tuple(f.values()), s) for f, s in blocks])


def res(*names):
    return {name: Residual(SIZES[name]) for name in names}


FORMS = {
    "line": on((res("a"), 1.0)),
    "two cells": on((res("b"), 1.0)),
    "one cell": on((res("one"), 1.0)),
    "nothing of one cell": on((res("a", "one"), 1.0)),
    "pair": on((res("a", "b"), 1.0)),
    "another order": on((res("d", "a"), 1.0)),
    "triple, scaled": on((res("a", "b", "d"), -3.0)),
    "uneven scale": on((res("a", "d"), 0.3)),
    "cells": on((res("a") | {"d": Identity(3)}, 1.0)),
    "where": on((res("a") | {"d": Range(3, 1, 3)}, 2.0)),
    "weighed": on((res("a") | {"d": Weights([[0.3, -0.2, 1.0]])}, 1.0)),
    "closure": on(({}, 7.0), (res("a"), 5.0), (res("b"), 2.0), (res("a", "b"), 1.0)),
    "with one cell": on(({}, 1.0), (res("a"), 3.0), (res("one"), 2.0), (res("b", "d"), 1.0)),
    "twice": on((res("a"), 1.0), (res("a"), 2.0)),
}
every_form = pytest.mark.parametrize("name", FORMS)


def written(form):
    blocks = []
    for block in form.blocks:
        factors = tuple(
            Weights(f.matrix()) if isinstance(f, Residual) else f for f in block.factors
        )
        blocks.append(Kronecker(block.names, factors, block.scale))
    return LinearForm(form.domain, blocks)


def table(neighbors=Neighbors.REPLACE_ONE):
    rng = np.random.default_rng(3)
    rows = {name: rng.integers(0, size, 60).tolist() for name, size in SIZES.items()}
    return PrivateData.from_columns(rows, CUBE, neighbors=neighbors, max_rows=80)


def synthetic():
    rng = np.random.default_rng(4)
    return SyntheticData(CUBE, np.array([rng.integers(0, size, 50) for size in CUBE.shape]).T)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_matrix(size):
    factor = Residual(size)
    whole = size * np.eye(size) - 1
    assert factor.matrix().tolist() == whole.tolist()
    assert [factor.row(i).matrix()[0].tolist() for i in range(size)] == whole.tolist()
    low, high = factor.extents()
    assert (low.tolist(), high.tolist()) == (whole.min(axis=1).tolist(), whole.max(axis=1).tolist())
    assert factor.limits() == (whole.min(), whole.max())
    for power in (1, 2):
        norms = (np.abs(whole) ** power).sum(axis=0)
        assert factor.column_norms(power).tolist() == norms.tolist()
    counts = np.arange(2.0 * size * 3).reshape(2, size, 3)
    assert factor.apply(counts, 1).tolist() == np.einsum("rs,asb->arb", whole, counts).tolist()
    assert factor.integral
    assert factor == Residual(size)
    assert hash(factor) == hash(Residual(size))


@every_form
@pytest.mark.parametrize("limit", [linear_module.TABLE_LIMIT, 0])
def test_answers_and_identities(name, limit, monkeypatch):
    form, plain = FORMS[name], written(FORMS[name])
    monkeypatch.setattr(linear_module, "TABLE_LIMIT", limit)
    data = synthetic()
    assert form.evaluate(data) == pytest.approx(plain.evaluate(data), abs=1e-12)
    assert form.identity == plain.identity
    assert list(form.row_identities()) == list(plain.row_identities())
    rows = [form.row(i).identity for i in range(form.rows)]
    assert rows == [plain.row(i).identity for i in range(form.rows)]
    found, wanted = form.rounded(4), plain.rounded(4)
    assert found[0].identity == wanted[0].identity
    assert found[1] == pytest.approx(wanted[1], abs=1e-12)
    assert form.reach >= plain.reach


@every_form
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_sensitivities(name, neighbors, outside, unit_rows):
    form, plain = FORMS[name], written(FORMS[name])
    setting = facts(CUBE, neighbors, outside=outside, unit_rows=unit_rows)
    found, wanted = sensitivity(form, setting), sensitivity(plain, setting)
    assert wanted.exact == found.exact
    for one, other in ((found.l1, wanted.l1), (found.l2_squared, wanted.l2_squared)):
        assert float(one) == pytest.approx(float(other), rel=1e-12)
    assert float(found.maximum) == pytest.approx(float(wanted.maximum), rel=1e-12)


@pytest.mark.parametrize("listed", [members_module._LISTED, 0])
def test_members(listed, monkeypatch):
    monkeypatch.setattr(members_module, "_LISTED", listed)
    for workload in FORMS.values():
        for asked in FORMS.values():
            known = set(written(workload).row_identities())
            right = np.array([one in known for one in written(asked).row_identities()])
            covered = Members.of(workload).covers(asked)
            assert not (covered & ~right).any()
            if listed:
                assert covered.tolist() == right.tolist()


@every_form
def test_kernel(name):
    answers = []
    for asked in (FORMS[name], written(FORMS[name])):
        odometer = Odometer(Budget(10**6, "0.1"), default_composition())
        kernel = Kernel(table(), odometer, seeded(5), "asked")
        got = [kernel.measure(asked, noise).values for noise in (LaplaceNoise(1), GaussianNoise(1))]
        answers.append(np.concatenate(got))
    assert answers[0] == pytest.approx(answers[1], abs=1e-9)


@every_form
def test_small_databases(name):
    form, plain = FORMS[name], written(FORMS[name])
    setting = table().facts
    atoms, wanted = Atoms.of(form, setting), Atoms.of(plain, setting)
    assert atoms.functions == wanted.functions
    assert sorted(atoms.weights.T.tolist()) == sorted(wanted.weights.T.tolist())
    terms = DrawTerms(3, Fraction(1), setting)
    assert type(recognised(form, terms)) is type(recognised(plain, terms))


@every_form
def test_what_answers_free_of_charge(name):
    form, plain = FORMS[name], written(FORMS[name])
    weights = np.random.default_rng(1).random(CUBE.shape)
    dense = DenseHypothesis.from_weights(CUBE, weights, 0.1)
    assert dense.answers(form) == pytest.approx(dense.answers(plain), abs=1e-12)
    odometer = Odometer(Budget(10**6, "0.1"), default_composition())
    kernel = Kernel(table(), odometer, seeded(5), "asked")
    strategy = NoisyHistogram(epsilon=1).open(kernel)
    one, other = (strategy.answer(asked, kernel) for asked in (form, plain))
    assert one.values == pytest.approx(other.values)
    assert one.accuracy.radii(0.1, joint=True) == pytest.approx(
        other.accuracy.radii(0.1, joint=True)
    )


@pytest.mark.parametrize("size", [1, 7])
def test_piecewise_hypotheses(size):
    domain = Domain(Integer("a", 0, size - 1))
    form = LinearForm(domain, [Kronecker(("a",), (Residual(size),))])
    starts = [0, 2, 5] if size > 5 else [0]
    masses = np.arange(1.0, len(starts) + 1)
    found = PiecewiseHypothesis.from_pieces(domain, starts, masses, 0.2)
    assert found.answers(form) == pytest.approx(found.answers(written(form)), abs=1e-12)


def test_counts_that_would_leave_the_exact_integers_on_the_way_are_refused():
    # The weights go up to 2^22 - 1, but counts are multiplied by 2^22 before a sum is taken off.
    domain = Domain(Integer("a", 0, 2**22 - 1))
    form = LinearForm(domain, [Kronecker(("a",), (Residual(2**22),))])
    for rows, fits in ((2**31 - 1, True), (2**31, False)):
        of = facts(domain, Neighbors.ADD_REMOVE, rows=rows)
        if fits:
            assert prepare_form(form, of).form.rows == 2**22
        else:
            with pytest.raises(DpsdkError, match="within 2"):
                prepare_form(form, of)
