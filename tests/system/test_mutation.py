"""Whoever writes later into what was passed in, or handed out, changes no price and no answer."""

import numpy as np
import pandas as pd
import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.forms import (
    Ball,
    Boxes,
    Dense,
    GapForm,
    Identity,
    Kronecker,
    LinearForm,
    ProximalGapForm,
    Toeplitz,
    Weights,
)
from dpsdk.kernel import Kernel, LaplaceNoise, Look, Measure, Reference, Select, Terms
from dpsdk.mechanisms import Gaussian
from dpsdk.queries import Linear, Marginal, Workload
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("a", 0, 1), Integer("b", 0, 2))
COUNTS = [[40, 2, 11], [7, 30, 19]]


def table():
    return PrivateData.from_counts(COUNTS, DOMAIN)


def kernel():
    return Kernel(table(), Odometer(Budget(10**9), BasicComposition()), seeded(1), "x")


def linear(block):
    return LinearForm(DOMAIN, [block])


def cells():
    return linear(Kronecker(("b",), (Identity(3),)))


def proximal(theta, shift):
    return ProximalGapForm(cells(), theta, Ball(2.0), 0.5, shift)


MAKERS = {
    "weights": (lambda w: linear(Kronecker(("b",), (Weights(w),))), [np.array([[0.5, 1, 0]])]),
    "line": (lambda w: linear(Kronecker(("b",), (Toeplitz(w),))), [np.array([1.0, 0.5, 0.25])]),
    "dense": (lambda w: linear(Dense(("b",), (3,), w)), [np.array([[0.5, 1.0, 0.0]])]),
    "boxes": (
        lambda *ends: linear(Boxes(("b",), (3,), *ends)),
        [np.array([[0, 1]]), np.array([[2, 3]]), np.array([1.0, 2.0])],
    ),
    "gaps": (
        lambda *known: GapForm(cells(), *known),
        [np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0])],
    ),
    "proximal": (proximal, [np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 0.0])]),
    "reference": (lambda cells: Reference(["b"], cells), [np.array([1.0, 2.0, 3.0])]),
}


def arrays_of(value, seen=None):
    """All arrays that a value holds, and those of its parts."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays_of(part, seen)
    else:
        for field in getattr(type(value), "__attrs_attrs__", ()):
            yield from arrays_of(getattr(value, field.name), seen)


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_are_copied_when_they_are_passed_in_and_read_only_from_then_on(name):
    make, given = MAKERS[name]
    given = [array.copy() for array in given]
    value = make(*given)
    held = list(arrays_of(value))
    before = [array.copy() for array in held]
    assert held
    for array in given:
        array[...] = 77
    for array, kept in zip(held, before, strict=True):
        assert np.array_equal(array, kept)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_containers_are_copied_when_they_are_passed_in():
    groups, references, blocks = [slice(0, 2)], [Reference(["b"], [1, 2, 3])], [
        Kronecker(("b",), (Identity(3),))
    ]  # fmt: skip
    form = LinearForm(DOMAIN, blocks)
    select = Select(GapForm.around(form, np.zeros(3)), 1, groups=groups)
    look = Look(references, LaplaceNoise(1))
    queries = [Marginal("a"), Marginal("b")]
    workload = Workload(queries)
    for given in (groups, references, blocks, queries):
        given.clear()
    assert (len(select.groups), len(look.references), form.rows) == (1, 1, 3)
    assert workload.lower(DOMAIN).rows == 5


def test_a_table_is_as_it_was_loaded_whatever_becomes_of_the_frame():
    frame = pd.DataFrame({"a": [0, 1, 1], "b": [2, 2, 0]})
    columns = {"a": np.array([0, 1, 1]), "b": np.array([2, 2, 0])}
    counts = np.array(COUNTS)
    tables = [
        PrivateData.from_frame(frame, DOMAIN),
        PrivateData.from_columns(columns, DOMAIN),
        PrivateData.from_counts(counts, DOMAIN),
    ]

    def answers():
        form = Marginal("a", "b", normalized=False).lower(DOMAIN)
        for data in tables:
            odometer = Odometer(Budget(10**9), BasicComposition())
            asked = Kernel(data, odometer, seeded(1), "x")
            yield asked.measure(form, LaplaceNoise(10**6)).values.tolist()

    before = list(answers())
    frame["a"] = 0
    columns["b"][...] = 0
    counts[...] = 0
    assert list(answers()) == before


def test_what_is_handed_out_is_read_only_or_a_copy():
    session = Session(table(), Budget(10, "1e-6"), noise=seeded(3))
    release = session.release(Marginal("a", "b"), using=Gaussian(rho="0.1"))
    told = release.value.values.tolist()
    for array in (release.raw, release.value.values):
        try:
            array[...] = 0
        except ValueError:
            continue
    assert release.value.values.tolist() == told


def test_a_function_is_read_into_a_table_once():
    weights = {0: 0.25, 1: 0.5}
    query = Linear(lambda row: weights[row["a"]], ["a"])
    form = query.lower(DOMAIN)
    terms = Terms(table().facts)
    before = str(Measure(form, LaplaceNoise(1)).price(terms).guarantee)
    asked = kernel()
    first = asked.measure(form, LaplaceNoise(10**6)).values[0]
    weights[0] = 1.0
    assert asked.measure(form, LaplaceNoise(10**6)).values[0] == pytest.approx(first, abs=1e-3)
    assert str(Measure(form, LaplaceNoise(1)).price(terms).guarantee) == before
