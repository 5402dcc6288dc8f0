"""Forms of groups, lines and residuals do what they do with all their weights written out."""

import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import Odometer, default_composition
from dpsdk.errors import DpsdkError
from dpsdk.forms import (
    GapForm,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Members,
    Range,
    Residual,
    Toeplitz,
    Weights,
    sensitivity,
)
from dpsdk.forms import members as members_module
from dpsdk.hypothesis import DenseHypothesis, PiecewiseHypothesis
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Watching
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.choose import recognised
from dpsdk.kernel.lattice import prepare_form
from dpsdk.learning import EntropicFit
from dpsdk.mechanisms import NoisyHistogram
from dpsdk.testing.noise import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

PLANE = Domain(Integer("a", 0, 6), Integer("b", 0, 3))
CUBE = Domain(Integer("a", 0, 4), Integer("b", 0, 1), Integer("one", 0, 0), Integer("d", 0, 2))
HUGE = Domain(Integer("a", 0, 2**40 - 1))
WIDTHS = (1, 2, 3, 6, 7)
LINES = {
    "root": [1, 0.5, 0.375, 0.3125, 0.25, 0.25, 0.2],
    "steps": [9, 5, 4, 3, 3, 2, 2],
    "ones": [1, 0, 1, 1, 0, 0, 1],
    "signs": [2, -1, 0, 3, 0, -4, 1],
}


def on(domain, *blocks):
    return LinearForm(domain, [Kronecker(tuple(f), tuple(f.values()), s) for f, s in blocks])


def plane_forms():
    found = {}
    for width in WIDTHS:
        groups = Groups(7, width)
        found[f"{width}"] = on(PLANE, ({"a": groups}, 1.0))
        found[f"{width} scaled"] = on(PLANE, ({"a": groups}, -2.5))
        found[f"{width} and cells"] = on(PLANE, ({"a": groups, "b": Identity(4)}, 1.0))
        found[f"{width} and groups"] = on(PLANE, ({"b": Groups(4, 3), "a": groups}, 1.0))
        found[f"{width} where"] = on(PLANE, ({"a": groups, "b": Range(4, 1, 3)}, 3.0))
        found[f"{width} stacked"] = on(
            PLANE, ({"a": groups}, 1.0), ({"a": Groups(7, 7)}, 1.0), ({"b": Groups(4, 2)}, 1.0)
        )
        weights = Weights([[0.3, 1.0, -0.2, 0.0]])
        found[f"{width} weighed"] = on(PLANE, ({"a": groups, "b": weights}, 1.0))
    for name, line in LINES.items():
        found[name] = on(PLANE, ({"a": Toeplitz(line)}, 1.0))
        found[f"{name} scaled"] = on(PLANE, ({"a": Toeplitz(line)}, -2.5))
        found[f"{name} where"] = on(PLANE, ({"b": Range(4, 1, 3), "a": Toeplitz(line)}, 0.5))
    found["two lines"] = on(PLANE, ({"a": Toeplitz(LINES["root"]), "b": Toeplitz([0.3] * 4)}, 1.0))
    found["lines and groups"] = on(
        PLANE, ({"a": Toeplitz(LINES["ones"])}, 1.0), ({"a": Groups(7, 3)}, 2.0)
    )
    return found


def res(*names):
    return {name: Residual(CUBE[name].size) for name in names}


CUBE_FORMS = {
    "line": on(CUBE, (res("a"), 1.0)),
    "two cells": on(CUBE, (res("b"), 1.0)),
    "one cell": on(CUBE, (res("one"), 1.0)),
    "nothing of one cell": on(CUBE, (res("a", "one"), 1.0)),
    "pair": on(CUBE, (res("a", "b"), 1.0)),
    "another order": on(CUBE, (res("d", "a"), 1.0)),
    "triple, scaled": on(CUBE, (res("a", "b", "d"), -3.0)),
    "uneven scale": on(CUBE, (res("a", "d"), 0.3)),
    "cells": on(CUBE, (res("a") | {"d": Identity(3)}, 1.0)),
    "where": on(CUBE, (res("a") | {"d": Range(3, 1, 3)}, 2.0)),
    "weighed": on(CUBE, (res("a") | {"d": Weights([[0.3, -0.2, 1.0]])}, 1.0)),
    "closure": on(CUBE, ({}, 7.0), (res("a"), 5.0), (res("b"), 2.0), (res("a", "b"), 1.0)),
    "with one cell": on(CUBE, ({}, 1.0), (res("a"), 3.0), (res("one"), 2.0), (res("b", "d"), 1.0)),
    "twice": on(CUBE, (res("a"), 1.0), (res("a"), 2.0)),
}
FAMILIES = (plane_forms(), CUBE_FORMS)
FORMS = {name: form for family in FAMILIES for name, form in family.items()}
every_form = pytest.mark.parametrize("name", FORMS)


def written(form):
    """The same with every factor written out."""
    blocks = []
    for block in form.blocks:
        factors = tuple(
            Weights(f.matrix()) if isinstance(f, Groups | Toeplitz | Residual) else f
            for f in block.factors
        )
        blocks.append(Kronecker(block.names, factors, block.scale))
    return LinearForm(form.domain, blocks)


def table(domain=PLANE):
    rng = np.random.default_rng(3)
    sizes = zip(domain.names, domain.shape, strict=True)
    rows = {name: rng.integers(0, size, 60).tolist() for name, size in sizes}
    return PrivateData.from_columns(rows, domain, max_rows=80)


def kernel_on(domain):
    odometer = Odometer(Budget(10**9, "0.1"), default_composition())
    return Kernel(table(domain), odometer, seeded(5), "asked")


@pytest.mark.parametrize(
    ("family", "listed"),
    [
        pytest.param(FAMILIES[0], members_module._LISTED, marks=pytest.mark.audit),
        (FAMILIES[0], 0),
        (FAMILIES[1], members_module._LISTED),
        (FAMILIES[1], 0),
    ],
    ids=["plane, listed", "plane", "cube, listed", "cube"],
)
def test_members(family, listed, monkeypatch):
    monkeypatch.setattr(members_module, "_LISTED", listed)
    for workload in family.values():
        for asked in family.values():
            known = set(written(workload).row_identities())
            right = np.array([one in known for one in written(asked).row_identities()])
            covered = Members.of(workload).covers(asked)
            assert not (covered & ~right).any()
            if listed:
                assert covered.tolist() == right.tolist()
            elif workload is asked and all(b.scale == 1 for b in asked.blocks) and asked.integral:
                assert covered.all()


def test_functions_are_looked_up_in_many_cells_of_a_huge_attribute(monkeypatch):
    monkeypatch.setattr(members_module, "_LISTED", 2**4)
    wide = on(HUGE, ({"a": Groups(2**40, 2**30)}, 1.0))
    asked = on(
        HUGE,
        ({"a": Groups(2**40, 2**35)}, 1.0),
        ({"a": Groups(2**40, 2**30)}, 1.0),
        ({"a": Range(2**40, 2**30, 2**31)}, 1.0),
        ({"a": Range(2**40, 2**30, 2**31 + 1)}, 1.0),
    )
    right = [False] * 32 + [True] * 1024 + [True, False]
    assert Members.of(wide).covers(asked).tolist() == right


@every_form
def test_kernel(name):
    form, plain = FORMS[name], written(FORMS[name])
    answers = []
    for asked in (form, plain):
        kernel = kernel_on(form.domain)
        got = [kernel.measure(asked, noise).values for noise in (LaplaceNoise(1), GaussianNoise(1))]
        if asked.limits[0] >= 0 and asked.limits[1] <= 1:
            gaps = GapForm.around(asked, np.full(asked.rows, 0.25))
            got.append(kernel.select(gaps, 1))
            watch = kernel.watch(Watching(10**4, 10**4))
            top = watch.first_above(gaps, 10.0)
            got.append([-1 if top is None else top.place])
            drawn = kernel.draw_database(asked, 3, 1)
            assert drawn.records.shape == (3, len(form.domain.names))
        answers.append(np.concatenate([np.ravel(one) for one in got]))
    assert answers[0] == pytest.approx(answers[1], abs=1e-9)


@every_form
def test_small_databases(name):
    form, plain = FORMS[name], written(FORMS[name])
    setting = table(form.domain).facts
    atoms, wanted = Atoms.of(form, setting), Atoms.of(plain, setting)
    assert atoms.number == wanted.number
    assert atoms.functions == wanted.functions
    assert sorted(atoms.weights.T.tolist()) == sorted(wanted.weights.T.tolist())
    terms = DrawTerms(3, Fraction(1), setting)
    one, other = recognised(form, terms), recognised(plain, terms)
    if other is not None or form.domain is CUBE:
        assert type(one) is type(other)
    if other is not None:
        assert (one.atoms, one.candidates) == (other.atoms, other.candidates)


@every_form
def test_dense_hypotheses(name):
    form, plain = FORMS[name], written(FORMS[name])
    weights = np.random.default_rng(1).random(form.domain.shape)
    one, other = (DenseHypothesis.from_weights(form.domain, weights, 0.1) for _ in range(2))
    for row in range(min(form.rows, 4)):
        assert one.answers(form) == pytest.approx(other.answers(plain), abs=1e-12)
        step = one.shift(form.row(row), 0.3), other.shift(plain.row(row), 0.3)
        assert step[0] == pytest.approx(step[1])
    if form.rows == 1:
        for hypothesis in (one, other):
            hypothesis.check(form)
        assert one.shift(form, 0.2) == pytest.approx(other.shift(plain, 0.2))
        target = float(one.answers(form)[0]) * 0.9
        assert one.move_to(form, target) == pytest.approx(other.move_to(plain, target))
    assert one.table(form.domain.names) == pytest.approx(other.table(form.domain.names))


@pytest.mark.parametrize("name", CUBE_FORMS)
def test_what_was_measured_answers(name):
    kernel = kernel_on(CUBE)
    strategy = NoisyHistogram(epsilon=1).open(kernel)
    asked = FORMS[name], written(FORMS[name])
    one, other = (strategy.answer(form, kernel) for form in asked)
    assert one.values == pytest.approx(other.values)
    radii = [found.accuracy.radii(0.1, joint=True) for found in (one, other)]
    assert radii[0] == pytest.approx(radii[1])


@pytest.mark.parametrize("outside", [None, 0.2])
@pytest.mark.parametrize("size", [1, 7])
def test_piecewise_hypotheses(size, outside):
    domain = Domain(Integer("a", 0, size - 1))
    for width in sorted({min(width, size) for width in WIDTHS}):
        form = on(domain, ({"a": Groups(size, width)}, 2.0), ({"a": Identity(size)}, 1.0))
        starts = [0, 2, 5] if size > 5 else [0]
        masses = np.arange(1.0, len(starts) + 1)
        one = PiecewiseHypothesis.from_pieces(domain, starts, masses, outside)
        one.check(form)
        assert one.answers(form) == pytest.approx(one.answers(written(form)), abs=1e-12)
        residual = on(domain, ({"a": Residual(size)}, 1.0))
        assert one.answers(residual) == pytest.approx(one.answers(written(residual)), abs=1e-12)
        alone = on(domain, ({"a": Groups(size, width)}, 1.0))
        assert one.answers(alone) == pytest.approx(one.answers(written(alone)), abs=1e-12)
        if alone.rows == 1:
            other, whole = one.copy(), on(domain, ({"a": Range(size, 0, size)}, 1.0))
            assert one.shift(alone, 0.5) == other.shift(whole, 0.5)
            assert one.move_to(alone, 0.7) == other.move_to(whole, 0.7)


@pytest.mark.parametrize("width", WIDTHS)
def test_fits_to_released_answers(width):
    weights = np.random.default_rng(1).random(PLANE.shape)
    weights /= weights.sum()
    asked = on(PLANE, ({"a": Groups(7, width), "b": Identity(4)}, 1.0))
    tables = []
    for form in (asked, written(asked)):
        fit = EntropicFit(PLANE)
        fit.add(form.blocks[0], form.blocks[0].answer(weights), 1e-3)
        fit.run(300)
        tables.append(fit.weights())
    assert tables[0] == pytest.approx(tables[1], abs=1e-6)


def test_a_huge_attribute_is_never_written_out():
    form = on(HUGE, ({"a": Groups(2**40, 2**32)}, 1.0))
    given = table(HUGE).facts
    cells = np.random.default_rng(3).integers(0, 2**40, 60)
    right = np.bincount(cells // 2**32, minlength=256)
    tracemalloc.start()
    try:
        kernel = kernel_on(HUGE)
        measured = kernel.measure(form, LaplaceNoise(10**6)).values
        np.testing.assert_allclose(measured, right, atol=1e-3)
        gaps = GapForm.around(form, np.zeros(256))
        assert right[kernel.select(gaps, 10**6)] == right.max()
        found = PiecewiseHypothesis.uniform(HUGE)
        found.check(form)
        assert found.answers(form) == pytest.approx(np.full(256, 1 / 256))
        assert recognised(form, DrawTerms(3, Fraction(1), given)) is not None
        assert sensitivity(form, given).l1 == 2
        with pytest.raises(DpsdkError):
            Atoms.of(form, given)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_groups_under_a_condition_are_exact_without_a_search(monkeypatch):
    sensitivity_module = sys.modules[sensitivity.__module__]
    monkeypatch.setattr(sensitivity_module, "SPAN_LIMIT", 0)
    given = table().facts
    for width in WIDTHS:
        form = on(PLANE, ({"a": Groups(7, width), "b": Range(4, 1, 3)}, 3.0))
        found = sensitivity(form, given)
        with monkeypatch.context() as patch:
            patch.setattr(sensitivity_module, "SPAN_LIMIT", 2**20)
            wanted = sensitivity(written(form), given)
        assert found == wanted


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_matrix_of_residuals(size):
    factor = Residual(size)
    whole = size * np.eye(size) - 1
    assert factor.matrix().tolist() == whole.tolist()


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
