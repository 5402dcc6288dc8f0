"""The benchmarks of models read the tables, and see the rows, as they say."""

from pathlib import Path

import numpy as np
import pytest

from dpsdk.losses import LogisticLoss, SquaredLoss

BENCH = Path(__file__).parents[1] / "bench"
ADULT = """age,workclass,education-num,marital-status,occupation,race,sex,hours-per-week,income>50K
23,5,12,2,8,0,1,39,0
9,0,0,0,14,3,0,34,1
10,8,15,6,4,0,0,98,1
84,1,8,1,5,4,1,40,0
"""
WINE = """7,0.27,0.36,20.7,0.045,45,170,1.001,3,0.45,8.8,6
6.3,0.05,0.34,1.6,0.049,14,132,0.987,3.3,0.49,14.5,9
8.1,0.89,0.4,4,0.05,90,97,0.9951,3.26,0.44,8,2
"""
IONOSPHERE = "".join(
    ",".join([str(value)] * 34) + f",{label}\n" for value, label in ((-1, "g"), (0, "b"), (1, "g"))
)


@pytest.fixture
def cases(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import model_cases

    return model_cases


def written(folder, text):
    path = folder / "table.csv"
    path.write_text(text, "utf-8")
    return path


def test_groups_and_bins_have_the_edges_that_are_told(cases):
    assert cases.grouped(np.array([0, 9, 10, 14, 15, 99]), [9, 14]).tolist() == [0, 0, 1, 1, 2, 2]
    numbers = np.array([-5.0, 0.0, 0.49, 0.5, 1.0, 7.0])
    assert cases.evenly(numbers, 0.0, 1.0, 2).tolist() == [0, 0, 0, 1, 1, 1]


def test_tables_are_coded_as_declared(cases, tmp_path):
    adult = written(tmp_path, ADULT)
    five = cases.adult_five(adult)
    assert five.codes.tolist() == [
        [3, 12, 0, 1, 2, 0],
        [0, 0, 1, 0, 1, 1],
        [1, 15, 0, 0, 4, 1],
        [7, 8, 0, 1, 2, 0],
    ]
    assert cases.adult_eight(adult).codes.tolist() == [
        [2, 2, 2, 2, 3, 0, 1, 1, 0],
        [0, 0, 0, 0, 4, 1, 0, 0, 1],
        [1, 3, 4, 0, 4, 0, 0, 3, 1],
        [4, 1, 0, 1, 0, 1, 1, 1, 0],
    ]
    assert five.test.all()  # the last 16,281 rows are held out
    wine = cases.wine(written(tmp_path, WINE))
    assert wine.codes.tolist() == [[0, 1, 4, 4, 2, 3], [6, 0, 0, 0, 0, 6], [0, 4, 1, 2, 4, 0]]
    readings = cases.ionosphere(written(tmp_path, IONOSPHERE))
    assert readings.codes.tolist() == [[0] * 6 + [1], [2] * 6 + [0], [3] * 6 + [1]]


def test_a_table_has_the_axes_in_the_order_of_the_names(cases):
    codes = np.array([[0, 1, 2], [1, 1, 0], [1, 0, 2], [1, 1, 0]])
    table = cases.Table.of(["a", "b", "c"], [2, 2, 3], codes)
    found = table.table(("c", "a"))
    assert found.shape == (3, 2)
    assert found.tolist() == [[0, 0.5], [0, 0], [0.25, 0.25]]
    assert table.table(()) == 1


@pytest.mark.parametrize("name", ["adult_five", "adult_eight", "wine", "ionosphere"])
def test_vectors_are_those_that_the_library_sees(name, cases, tmp_path):
    texts = {"wine": WINE, "ionosphere": IONOSPHERE}
    case = getattr(cases, name)(written(tmp_path, texts.get(name, ADULT)))
    every = [np.arange(40) % size for size in case.sizes]
    vectors = case.vectors(np.stack(every, axis=1))
    assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-12
    table = cases.Table.of(case.names, case.sizes, case.codes)
    rows, targets = case.vectors(case.codes), case.targets(case.codes)
    theta = np.random.default_rng(0).normal(size=rows.shape[1])
    for loss in (SquaredLoss(), LogisticLoss()) if case.classes else (SquaredLoss(),):
        form = case.query(loss).lower(case.domain)
        gradient, hessian = form.expand(table, theta)
        margins = rows @ theta
        own = rows.T @ loss.derivative(margins, targets) / len(rows)
        assert np.allclose(gradient, own)
        bends = loss.curvature(margins, targets)[:, None]
        assert np.allclose(hessian, rows.T @ (bends * rows) / len(rows))


def test_the_least_loss_is_the_least(cases, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCH))
    import bench_models

    case = cases.adult_five(written(tmp_path, ADULT))
    problem = bench_models.Problem.of(case, SquaredLoss(), case.codes, case.codes[:0])
    assert abs(problem.excess(problem.best)) < 1e-9
    around = np.random.default_rng(1).normal(size=(20, len(problem.best)))
    assert all(problem.excess(problem.best + step) > 0 for step in around)
    # Half of the rows are of each class, so that the best constant is 0.
    assert abs(problem.constant[-1]) < 1e-9
    assert np.isclose(problem.excess(problem.constant) + problem.least, 0.5)


def test_a_logistic_loss_of_cut_labels_keeps_what_losses_keep(cases, monkeypatch):
    del cases
    monkeypatch.syspath_prepend(str(BENCH))
    import bench_many_models

    loss = bench_many_models.CutLogistic((True, False, True))
    loss.check(-8, 8, [-1.0, 0.0, 1.0])
    margins = np.array([0.3, -2.0, 5.0])
    signs = np.array([1.0, -1.0, 1.0])
    own = LogisticLoss()
    labels = np.array([-1.0, 0.0, 1.0])
    assert np.allclose(loss.value(margins, labels), own.value(margins, signs))
    assert np.allclose(loss.derivative(margins, labels), own.derivative(margins, signs))
