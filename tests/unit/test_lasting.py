"""Frozen values stay as they are: nobody can write into their arrays, nor into those of a copy."""

import copy
import importlib
import pickle
import pkgutil
from functools import cache

import attrs
import numpy as np
import pytest

import dpsdk
from dpsdk import (
    MISSING,
    Boolean,
    Budget,
    Categorical,
    Discovery,
    Domain,
    Integer,
    PrivateData,
    Session,
    SyntheticData,
    Undeclared,
)
from dpsdk._arrays import Lasting
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.accuracy import Constrained, HalfWidths, NoiseAccuracy, ScalarAccuracy
from dpsdk.forms import (
    Ball,
    Boxes,
    Cuts,
    Dense,
    Design,
    GapForm,
    Identity,
    Kronecker,
    LinearForm,
    Members,
    ProximalGapForm,
    Ranges,
    Toeplitz,
    Weights,
    minimise,
)
from dpsdk.forms.slope_table import SlopeTable
from dpsdk.hypothesis import Mixture
from dpsdk.kernel import (
    Discovered,
    Kernel,
    LaplaceNoise,
    Look,
    Measure,
    Reference,
    Select,
    SmallDatabase,
)
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import (
    Certificate,
    CoefficientSet,
    ConvexPMW,
    Laplace,
    LocalMarginals,
    NoisyHistogram,
    OnlinePMW,
    PerturbedObjective,
    PrivateMinimizer,
    ResidualPlanner,
    SmallDB,
    SufficientStatistics,
)
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import (
    ConvexMinimization,
    Count,
    GroupTable,
    Linear,
    Marginal,
    MarginalTable,
    OneVsRest,
    Rectangles,
    Softmax,
    Threshold,
    UnmatchedTable,
    Workload,
    marginals,
)
from dpsdk.release import Measurement
from dpsdk.release.population import _Sampled
from dpsdk.testing import seeded
from dpsdk.wire import ReleasedAnswer
from worlds import PEOPLE, people, table

pytestmark = pytest.mark.thorough

ARRAYS = ("Floats", "Ints", "Bools", "Array", "ndarray")
"""What the type of a field that holds arrays is called by."""


@cache
def modules():
    found = [info.name for info in pkgutil.walk_packages(dpsdk.__path__, "dpsdk.")]
    return [importlib.import_module(name) for name in found if not name.endswith("__main__")]


@cache
def public():
    """All classes of frozen values with arrays that a module hands to the world, or a release."""
    packages = [dpsdk, *[one for one in modules() if "._" not in one.__name__]]
    shown = {
        id(getattr(one, name))
        for one in packages
        if hasattr(one, "__path__") or one.__name__.count(".") == 1
        for name in getattr(one, "__all__", ())
    }
    classes = {kind for one in modules() for kind in vars(one).values() if isinstance(kind, type)}
    return {
        kind
        for kind in classes
        if attrs.has(kind)
        and kind.__module__.startswith("dpsdk")
        and any(word in str(one.type) for one in attrs.fields(kind) for word in ARRAYS)
        and (id(kind) in shown or issubclass(kind, HalfWidths | ScalarAccuracy))
    }


BITS = Domain(Boolean("bit"), Integer("n", 0, 3))
FLOATS = np.array([0.25, 0.5, 1.0])


def kernel():
    data = PrivateData.from_columns({"bit": [True] * 600 + [False] * 400, "n": [1] * 1000}, BITS)
    return Kernel(data, Odometer(Budget(9), BasicComposition()), seeded(1), "a test")


def of_forms():
    form = LinearForm(BITS, [Dense(("n",), (4,), np.eye(4))])
    boxes = Boxes(("n",), (4,), np.array([[0, 1]]), np.array([[2, 4]]), np.ones(2), (np.eye(4)[1],))
    model = ConvexMinimization(LogisticLoss(), features=["n"], label="bit", over=Ball(1))
    convex, theta = model.lower(BITS), np.zeros(2)
    yield from (
        form.blocks[0],
        form,
        Members.of(form),
        boxes,
        Toeplitz(FLOATS),
        Weights(FLOATS.reshape(1, 3)),
        Ranges(4, [0, 1], [2, 4]),
        convex,
    )
    yield from (GapForm(form, np.full(4, 0.5), np.zeros(4)), convex.coordinates[0])
    yield SlopeTable.of(BITS, ["n", "bit"], np.ones((4, 1)), (-2, 2), lambda z: np.stack([z, z]))
    yield ProximalGapForm(convex.gradient(theta), theta, Ball(1), shift=np.ones(2))
    design = Design([np.eye(2)])
    yield from (design, minimise(design, LogisticLoss(), [-1.0, 1.0], np.ones((2, 2)), Ball(1)))


def of_kernel():
    asked = kernel()
    guess = Reference(["n"], [0.0, 1000.0, 0.0, 0.0])
    looked = asked.look([guess], LaplaceNoise(1))
    yield from (guess, looked, Certificate.of([guess], looked))
    terms = asked.terms
    yield Look([guess], LaplaceNoise(1)).price(terms)
    cells = LinearForm(BITS, [Kronecker(("n",), (Identity(4),))])
    yield Measure(LinearForm(BITS, [Kronecker((), ())]), LaplaceNoise(1)).price(terms)
    gaps = GapForm.around(cells, np.zeros(4))
    yield Select(gaps, 1, penalties=[1, 2, 3, 4]).price(terms)
    least = ConvexMinimization(SquaredLoss(), features=["n"], label="bit", over=Ball(1)).lower(BITS)
    measured = asked.measure(least.distinct_moments()[0], LaplaceNoise(1))
    yield CoefficientSet.of(least, measured)
    with Session(table(people(60, 4)), Budget(10**6), noise=seeded(2)) as session:
        channel = session.open(SmallDB(Workload([Count(), Threshold("age", 20)]), epsilon=5))
        yield channel.release(Count()).accuracy
        # Another that has no bound.
        yield channel.release(Workload([Count(), Marginal("sex")])).accuracy


def of_releases():
    with Session(table(people(60, 4)), Budget(10**9, "0.1"), noise=seeded(3)) as session:
        pairs = marginals(PEOPLE, 2)
        for query, mechanism in (
            (pairs, NoisyHistogram(epsilon="0.1", consistent=True)),
            (pairs, ResidualPlanner(pairs, rho="0.001", nonnegative=True)),
            (pairs, LocalMarginals(pairs, epsilon=8, delta="1e-7", certify="0.05")),
            (Workload([Count(), Threshold("age", 20)]), OnlinePMW(epsilon=1, updates=3)),
        ):
            yield session.open(mechanism).release(query)
        yield session.release(Marginal("sex"), using=Laplace(1)).nonnegative()
        yield session.release(
            Workload(Threshold("age", t) for t in range(17, 24)), using=Laplace("0.1")
        ).monotone()
        yield session.release(Rectangles("age", lower=[0, 1], upper=[2, 4]), using=Laplace(1))
        model = ConvexMinimization(SquaredLoss(), features=["age"], label="sex", over=Ball(1))
        yield session.release(
            model,
            using=PrivateMinimizer(
                epsilon=5, delta="1e-7", oracle=SufficientStatistics(certify="0.3")
            ),
        )
        yield session.release(model, using=PrivateMinimizer(epsilon=5, oracle=PerturbedObjective()))
        yield session.open(ConvexPMW(100, updates=1, start="uniform", threshold=0.5)).release(model)
        several = ConvexMinimization(LogisticLoss(), features=["sex"], label="age", over=Ball(1))
        yield session.open(NoisyHistogram(epsilon="0.1")).release(OneVsRest(several))
        form = Softmax(several).lower(session.domain)
        yield from (form, form.slopes(np.zeros(form.dimension))[0])


def of_discoveries():
    visits = {"who": list(range(600)) * 2, "key": ["a"] * 1200}
    raw = Undeclared.from_columns(visits, unit="who")
    with Discovery(raw, Budget(9, "1e-6"), noise=seeded(1)) as discovery:
        yield discovery.keys("key", rho="0.02")
        yield discovery.rows_per_person(epsilon=1)
    yield Discovered(FLOATS.copy(), ("a",), np.ones(1))


def of_others():
    yield from (Linear([0.0, 0.5], ["sex"]), Rectangles("age", lower=[1], upper=[2]))
    table = MarginalTable((Boolean("bit"),), np.array([1.0, -2.0])).nonnegative()
    yield table
    yield GroupTable(table.attributes, np.array([0.5, np.nan]), counts=table)
    gaps = Categorical("gap", ["bit (missing)"])
    yield UnmatchedTable((gaps,), np.ones(1), cells=(("bit", MISSING),))
    yield Cuts(3, [0, 2])
    noise = NoiseAccuracy(DiscreteLaplace(3), 2, 1.0, 0.0)
    yield _Sampled(noise, np.ones(2), 9, 2, 0.0, "proven")
    yield Measurement(FLOATS.copy(), NoiseAccuracy(DiscreteLaplace(3), 3, 1.0, 0.0))
    yield Constrained(1.0, np.ones(2), np.zeros(2, dtype=np.int64))
    yield ReleasedAnswer("numbers", (3,), FLOATS)
    yield SyntheticData(BITS, [[0, 1], [1, 2]])
    yield Mixture(BITS, [1.0], {"bit": [[0.5, 0.5]], "n": [[0.25] * 4]})
    yield SmallDatabase(np.zeros((2, 2), dtype=np.int64), None)


@cache
def values():
    return [*of_forms(), *of_kernel(), *of_releases(), *of_discoveries(), *of_others()]


def inside(value):
    """Frozen values of the package in a value, by their fields, and it itself."""
    if isinstance(value, tuple | list):
        yield from (one for part in value for one in inside(part))
    elif isinstance(value, dict):
        yield from inside(list(value.values()))
    elif attrs.has(type(value)) and type(value).__module__.startswith("dpsdk"):
        yield value
        yield from inside([getattr(value, one.name) for one in attrs.fields(type(value))])


def held(value):
    """The arrays in the fields of frozen values that are public, or found in such."""
    for one in inside(value):
        for part in attrs.fields(type(one)):
            content = getattr(one, part.name)
            for array in content if isinstance(content, tuple) else (content,):
                if isinstance(array, np.ndarray):
                    yield f"{type(one).__name__}.{part.name}", array


def unsealed(array):
    return array.flags.writeable or (isinstance(array.base, np.ndarray) and unsealed(array.base))


def test_each_class_with_arrays_has_a_value_here():
    seen = {type(one) for value in values() for one in inside(value)}
    assert {kind.__name__ for kind in public() - seen} == set()
    assert len(public()) > 30
    # Of such as are read back as if they were made anew, nothing is to be made unwritable.
    assert {kind.__name__ for kind in public() if not issubclass(kind, Lasting)} == {
        "Mixture",
        "SyntheticData",
    }


COPIES = {
    "itself": lambda value: value,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "a copy of a copy": lambda value: copy.deepcopy(pickle.loads(pickle.dumps(value))),  # noqa: S301
    **{
        f"pickle {number}": lambda value, n=number: pickle.loads(pickle.dumps(value, n))  # noqa: S301
        for number in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("way", COPIES)
def test_nobody_can_write_into_a_value_or_a_copy_of_it(way):
    for value in values():
        made = COPIES[way](value)
        found = list(held(made))
        assert [name for name, array in found if unsealed(array)] == []
        for (name, array), (_, before) in zip(found, held(value), strict=True):
            np.testing.assert_array_equal(array, before, err_msg=name)
        if type(value).__eq__ is not object.__eq__:
            assert made == value


@pytest.mark.parametrize("way", [name for name in COPIES if name != "itself"])
def test_a_copy_does_what_its_original_does(way):
    for value in values():
        made = COPIES[way](value)
        if isinstance(value, dpsdk.Release) and value.bound().proven:
            assert made.bound() == value.bound()
            assert made.moved == value.moved
        assert type(made) is type(value)
        assert repr(made) == repr(value)


@attrs.frozen
class Stranger(HalfWidths):
    """An accuracy of another author, with a way of its own to be copied."""

    numbers: object
    kind: str = "a test"
    standing: str = "proven"

    def radii(self, beta, *, joint):
        return self.numbers

    def __reduce__(self):
        return Stranger, (self.numbers, "read back")


class Plain(HalfWidths):
    """One that is no class of attrs."""

    kind, standing = "a test", "proven"

    def __init__(self):
        self.numbers = np.ones(2)

    def radii(self, beta, *, joint):
        return self.numbers


@pytest.mark.parametrize("way", [name for name in COPIES if name != "itself"])
def test_classes_of_other_authors_are_copied_as_they_say(way):
    assert COPIES[way](Stranger(1)).kind == "read back"
    if way not in ("pickle 0", "pickle 1"):  # which know no slots
        assert COPIES[way](Plain()).radii(0.05, joint=True).tolist() == [1.0, 1.0]


def test_numbers_without_shape_and_without_entries_stay_too():
    for numbers in (np.zeros(0), np.float64(3.0) + np.zeros(()), np.zeros((0, 3))):
        made = copy.deepcopy(Measurement(numbers, NoiseAccuracy(DiscreteLaplace(3), 1, 1.0, 0.0)))
        assert made.values.shape == numbers.shape
        assert not unsealed(made.values)


def test_what_a_stranger_gives_as_numbers_is_left_to_be_refused():
    assert Measurement([1.0], NoiseAccuracy(DiscreteLaplace(3), 1, 1.0, 0.0)).values == [1.0]
