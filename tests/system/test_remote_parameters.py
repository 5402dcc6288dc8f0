"""What a client far away may ask with: each ends at once, in an answer or a typed error."""

from contextlib import contextmanager, nullcontext, suppress
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from attrs import evolve

from dpsdk import Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import DpsdkError, TooLarge
from dpsdk.hypothesis import Mixture, Pairs
from dpsdk.kernel import Kernel, LaplaceNoise, Limits, Look, Reference
from dpsdk.learning import fit_mixture
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import (
    BUILT_IN,
    ConvexPMW,
    Corrected,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    Moments,
    NoisyDescent,
    NoisyHistogram,
    NumericSparse,
    OfflineConvexPMW,
    OfflinePMW,
    OnlinePMW,
    Parts,
    PrivateMinimizer,
    Problem,
    Projection,
    ResidualPlanner,
    Sketch,
    SmallDB,
    SquareRoot,
    SufficientStatistics,
    TextbookConvexPMW,
    Tree,
)
from dpsdk.planner import Goal
from dpsdk.queries import (
    Above,
    Ball,
    Between,
    Box,
    Conjunction,
    ConvexMinimization,
    Count,
    Cross,
    DateQuantile,
    Interval,
    Marginal,
    Mean,
    Not,
    NumericAbove,
    OneHot,
    Rectangles,
    Scaled,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.testing import seeded
from samples import sample
from worlds import crossed

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 9), Categorical("sex", ["F", "M"]))
DATA = PrivateData.from_columns({"age": [1, 2, 3] * 100, "sex": ["F", "M", "F"] * 100}, DOMAIN)

AGES = Workload(Threshold("age", t) for t in range(9))
MODEL = ConvexMinimization(LogisticLoss(), features=["age"], label="sex", over=Ball(2))
PAIRS = Workload(Count(where={"age": {i, i + 4}, "sex": "F"}) for i in range(6))


def figure_3(**given):
    """Figure 3, whose plan refuses at the few rows of the table."""
    problem = Problem(dimension=2, lipschitz=1, smoothness=1, radius=1)
    wanted = {"epsilon": 1, "delta": "1e-9", "alpha": 1, "beta": 0.1, "queries": 9}
    return TextbookConvexPMW(**(wanted | given), problem=problem)


MECHANISMS = {
    "laplace": lambda e: Laplace(e),
    "rho": lambda e: Gaussian(rho=e),
    "gaussian": lambda e: Gaussian(epsilon=e, delta="1e-9"),
    "delta": lambda e: Gaussian(epsilon=1, delta=e),
    "histogram": lambda e: NoisyHistogram(epsilon=e),
    "histogram rho": lambda e: NoisyHistogram(rho=e),
    "histogram delta": lambda e: NoisyHistogram(epsilon=1, delta=e),
    "local": lambda e: LocalMarginals(AGES, rho=e),
    "local epsilon": lambda e: LocalMarginals(AGES, epsilon=e, delta="1e-9"),
    "local delta": lambda e: LocalMarginals(AGES, epsilon=1, delta=e),
    "local first": lambda e: LocalMarginals(AGES, rho=1, first=e),
    "local look": lambda e: LocalMarginals(AGES, rho=1, look=e),
    "local certify": lambda e: LocalMarginals(AGES, rho=1, certify=e),
    "local beta": lambda e: LocalMarginals(AGES, rho=1, beta=e),
    "local components": lambda c: LocalMarginals(AGES, rho=1, components=c),
    "local workload": lambda w: LocalMarginals(w, rho=1),
    "planner": lambda e: ResidualPlanner(AGES, rho=e),
    "planner epsilon": lambda e: ResidualPlanner(AGES, epsilon=e, delta="1e-9"),
    "planner delta": lambda e: ResidualPlanner(AGES, epsilon=1, delta=e),
    "planner weights": lambda w: ResidualPlanner(Count(), rho=1, weights=[w]),
    "planner workload": lambda w: ResidualPlanner(w, rho=1),
    "planner objective": lambda w: ResidualPlanner(Count(), rho=1, objective=w),
    "tree": lambda e: Tree("age", epsilon=e),
    "tree rho": lambda e: Tree("age", rho=e),
    "branching": lambda c: Tree("age", epsilon=1, branching=c),
    "square root": lambda e: SquareRoot("age", rho=e),
    "offline": lambda e: OfflinePMW(AGES, epsilon=e),
    "offline rho": lambda e: OfflinePMW(AGES, rho=e),
    "offline delta": lambda e: OfflinePMW(AGES, epsilon=1, delta=e),
    "matrix": lambda e: Matrix(AGES, epsilon=e),
    "matrix rho": lambda e: Matrix(PAIRS, rho=e),
    "matrix delta": lambda e: Matrix(AGES, epsilon=1, delta=e),
    "matrix workload": lambda w: Matrix(w, epsilon=1),
    "projection": lambda e: Projection(epsilon=e),
    "projection rho": lambda e: Projection(rho=e),
    "projection delta": lambda e: Projection(epsilon=1, delta=e),
    "pmw": lambda e: OnlinePMW(e, updates=3),
    "pmw delta": lambda e: OnlinePMW(e, "1e-9", updates=3),
    "pmw pairs": lambda e: OnlinePMW(e, "1e-9", updates=3, start="pairs"),
    "width": lambda c: OnlinePMW(1, "1e-9", updates=3, start=Pairs(width=c)),
    "sparse": lambda e: NumericSparse(e, tops=3),
    "sparse delta": lambda e: NumericSparse(e, "1e-9", tops=3),
    "textbook": lambda e: OnlinePMW.textbook(e, "1e-9", alpha=0.1, beta=0.1, queries=10),
    "updates": lambda c: OnlinePMW(1, "1e-9", updates=c),
    "updates pure": lambda c: OnlinePMW(1, updates=c),
    "prepaid": lambda c: OnlinePMW(1, updates=c, prepaid=True),
    "queries": lambda c: OnlinePMW(1, "1e-9", updates=3, queries=c),
    "threshold": lambda t: OnlinePMW(1, "1e-9", updates=3, threshold=t),
    "alpha": lambda a: OnlinePMW.textbook(1, "1e-9", alpha=a, beta=0.1, queries=10),
    "beta": lambda b: OnlinePMW.textbook(1, "1e-9", alpha=0.1, beta=b, queries=10),
    "models": lambda e: ConvexPMW(e, updates=3),
    "models delta": lambda e: ConvexPMW(1, e, updates=3),
    "models updates": lambda c: ConvexPMW(1, "1e-9", updates=c, prepaid=True),
    "models queries": lambda c: ConvexPMW(1, "1e-9", updates=3, queries=c),
    "models, textbook": lambda e: figure_3(epsilon=e),
    "models, delta": lambda e: figure_3(delta=e),
    "models, alpha": lambda a: figure_3(alpha=a),
    "models, beta": lambda b: figure_3(beta=b),
    "models, asked": lambda c: figure_3(queries=c),
    "models threshold": lambda t: ConvexPMW(1, "1e-9", updates=3, threshold=t),
    "known models": lambda e: OfflineConvexPMW(KNOWN, epsilon=e),
    "known models rho": lambda e: OfflineConvexPMW(KNOWN, rho=e),
    "known models delta": lambda e: OfflineConvexPMW(KNOWN, epsilon=1, delta=e),
    "known models, rounds": lambda c: OfflineConvexPMW(KNOWN, epsilon=1, rounds=c),
    "known models, alpha": lambda a: OfflineConvexPMW.textbook(KNOWN, 1, "1e-6", alpha=a),
    "known models, beta": lambda b: OfflineConvexPMW.textbook(KNOWN, rho=1, alpha=1, beta=b),
    "tops": lambda c: NumericSparse(1, tops=c),
    "tops delta": lambda c: NumericSparse(1, "1e-9", tops=c),
    "small database": lambda e: SmallDB(AGES, epsilon=e),
    "its size": lambda m: SmallDB(AGES, epsilon=1, size=m),
    "its alpha": lambda a: SmallDB(AGES, epsilon=1, alpha=a),
    "its beta": lambda b: SmallDB(AGES, epsilon=1, beta=b),
    "its workload": lambda w: SmallDB(w, epsilon=1, size=5),
    "its time": lambda t: SmallDB(AGES, epsilon=1, limits=Limits(seconds=t)),
    "its memory": lambda b: SmallDB(AGES, epsilon=1, limits=Limits(bytes=b)),
    "any queries": lambda e: SmallDB(PAIRS, epsilon=e, size=4),
    "any queries, size": lambda m: SmallDB(PAIRS, epsilon=1, size=m),
    "any queries, alpha": lambda a: SmallDB(PAIRS, epsilon=1, alpha=a),
    "model": lambda e: _model(NoisyDescent(steps=2), e),
    "model, promised": lambda e: _model(NoisyDescent.textbook(steps=2), e),
    "model delta": lambda e: PrivateMinimizer(epsilon=1, delta=e, oracle=NoisyDescent(steps=2)),
    "steps": lambda c: _model(NoisyDescent(steps=c)),
    "ridge": lambda v: _model(NoisyDescent.textbook(steps=2, ridge=v)),
    "descent beta": lambda b: _model(NoisyDescent.textbook(steps=2, beta=b)),
    "sketch size": lambda c: _model(Sketch(size=c, descent=NoisyDescent(steps=2))),
    "budget": lambda e: Session(DATA, Budget(e, "1e-6")) and Laplace(1),
    "budget delta": lambda e: Session(DATA, Budget(1, e)) and Laplace(1),
}
for kind in sorted(BUILT_IN, key=lambda kind: kind.__name__):
    if kind is not Parts:  # which has no amount of its own
        MECHANISMS[kind.family] = partial(sample, kind, AGES, "age")


def _model(oracle, epsilon=1):
    return PrivateMinimizer(epsilon=epsilon, delta="1e-9", oracle=oracle)  # type: ignore[arg-type]


NUMBERS = [
    *("1e2000", "1e400", "1e-2000", "1e-400", "0." + "1" * 10**6, "1" * 10**6, "\ud800", "1_0"),
    *(10**10**6, -(10**10**6), Fraction(1, 10**10**5), Fraction(10**400, 3), 10**400, 10**18),
    *(10**9, 10**5, 1e300, 1e-300, 5e-324, float("nan"), np.longdouble("1e4000")),
    *(b"1" * 10**6, [[[1]]] * 10**5),
]


@contextmanager
def refused_briefly(limit):
    """What is refused within is told in a text of a bounded length."""
    try:
        yield
    except DpsdkError as refusal:
        text = str(refusal)
        assert len(text) < limit
        text.encode()


@pytest.mark.parametrize(("name", "place"), crossed(MECHANISMS, range(len(NUMBERS)), 5))
def test_no_parameter_of_a_mechanism_hangs_or_fails_untyped(name, place):
    session = Session(DATA, Budget(1, "1e-6"), noise=seeded(1))
    query = Above(Count(), 0.5) if name.startswith(("sparse", "tops")) else Count()
    if name.startswith(("model", "steps", "ridge", "descent", "sketch")):
        query = MODEL
    with refused_briefly(500):
        mechanism = MECHANISMS[name](NUMBERS[place])
        repr(mechanism)
        str(session.quote(query, using=mechanism).at_most)
        session.affords(query, using=mechanism)
        with session.open(mechanism) as channel:
            channel.answer(query)


QUERIES = {
    "threshold": lambda v: Threshold("age", v),
    "interval": lambda v: Interval("age", v, v),
    "between": lambda v: Count(where={"age": Between(v, v)}),
    "share of dates": lambda v: DateQuantile("age", v),
    "level": lambda v: Above(Count(), v),
    "level of rows": lambda v: NumericAbove(Count(normalized=False), v),
    "label": lambda v: Count(where={"age": v}),
    "text label": lambda v: Count(where={"sex": v}),
    "labels": lambda v: Count(where={"age": {v}}),
    "not": lambda v: Count(where={"sex": Not(v)}),
    "attribute": lambda v: Marginal(v),
    "of a threshold": lambda v: Threshold(v, 1),
    "of a sum": lambda v: Sum(v),
    "of a mean": lambda v: Mean(v),
    "key": lambda v: Conjunction({v: 1}),
    "query": lambda v: Workload([v]),
    "lower code": lambda v: Rectangles("age", [v], [3]),
    "upper code": lambda v: Rectangles("age", [0], [v]),
    "codes": lambda v: Rectangles("age", v, v),
    "attributes": lambda v: Rectangles(v, [[0]], [[1]]),
    "ways": lambda v: marginals(DOMAIN, v),
}


@pytest.mark.parametrize(("name", "place"), crossed(QUERIES, range(len(NUMBERS)), 3))
def test_no_parameter_of_a_query_hangs_or_fails_untyped(name, place):
    value = NUMBERS[place]
    if isinstance(value, list) and name in {"labels", "key"}:
        return  # Python itself refuses these
    session = Session(DATA, Budget(1, "1e-6"), noise=seeded(1))
    with refused_briefly(1500):
        query = QUERIES[name](value)
        using = NumericSparse("0.1", tops=3) if name.startswith("level") else Laplace("0.1")
        with session.open(using) as channel:
            channel.answer(query)


@pytest.mark.parametrize("updates", [10**5, 10**9, 10**12])
def test_very_many_updates_are_planned_without_being_listed(updates):
    session = Session(DATA, Budget(1, "1e-6"), noise=seeded(1))
    mechanism = OnlinePMW("0.5", "1e-7", updates=updates)
    cost = session.quote(Count(), using=mechanism).at_most
    assert sum(count for _, count in cost.runs) >= 2 * updates
    assert session.affords(Count(), using=mechanism) >= 1
    assert f"{updates:,} x" in str(cost)
    assert 0 < cost.rho < 1
    with pytest.raises(TooLarge, match="read runs") if updates > 10**6 else nullcontext():
        assert len(cost.guarantees) == sum(count for _, count in cost.runs)


def test_what_is_prepaid_is_charged_run_by_run_and_so_bounded():
    session = Session(DATA, Budget(1, "1e-6"), noise=seeded(1))
    with pytest.raises(TooLarge, match="prepaid rounds"):
        session.open(OnlinePMW("0.5", "1e-7", updates=10**9, prepaid=True))
    assert session.spent.charges == 0
    session.open(OnlinePMW("0.5", "1e-7", updates=100, prepaid=True))
    assert session.spent.charges == 201


def nested(depth):
    value = "F"
    for _ in range(depth):
        value = Not(value)
    return value


def test_conditions_are_nested_as_deep_as_one_likes():
    session = Session(DATA, Budget(10, "1e-6"), noise=seeded(1))
    for depth in (*range(8), 10**5):
        answer = session.answer(Count(where={"sex": nested(depth)}), using=Laplace(1))
        assert answer == pytest.approx(2 / 3 if depth % 2 == 0 else 1 / 3, abs=0.1)


def test_a_condition_on_very_many_labels_is_described_in_few_words():
    labels = [f"label {number}" for number in range(5000)]
    domain = Domain(Categorical("name", labels))
    data = PrivateData.from_columns({"name": labels}, domain)
    session = Session(data, Budget(10), noise=seeded(1))
    for chosen, words in (
        (labels[:4000], "... 3,992 more}"),
        (labels[:20], "'label 15', ... 12 more}"),
        (labels[:3], "{'label 0', 'label 1', 'label 2'}"),
    ):
        query = Count(where={"name": set(chosen)})
        assert words in str(query)
        session.answer(query, using=Laplace(1))
        session.answer(Count(where={"name": Not(set(chosen))}), using=Laplace(1))
        assert words in session.history[-1].query
    assert max(len(entry.query) for entry in session.history) < 400


def test_a_query_of_another_author_is_on_record_with_a_short_description():
    class Long(Count):
        def __repr__(self):
            return "x" * 10**6

    session = Session(DATA, Budget(10), noise=seeded(1))
    session.answer(Long(), using=Laplace(1))
    assert len(session.history[0].query) == 1000


LINE = {"features": ["age"], "label": "sex", "over": Ball(1)}
KNOWN = ConvexMinimization(LogisticLoss(), **LINE | {"over": Ball(1)})

MODELS = {
    "radius": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"over": Ball(v)}),
    "low": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"over": Box(v, 1)}),
    "sides": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"over": Box([0, 0], [1, v])}),
    "set": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"over": v}),
    "features": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"features": v}),
    "a feature": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"features": [v]}),
    "one-hot": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"features": [OneHot(v)]}),
    "scaled": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"features": [Scaled(v)]}),
    "cross": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"features": [Cross("age", v)]}),
    "label": lambda v: ConvexMinimization(LogisticLoss(), **LINE | {"label": v}),
    "intercept": lambda v: ConvexMinimization(LogisticLoss(), **LINE, intercept=v),
    "loss": lambda v: ConvexMinimization(v, **LINE),
    "smoothing": lambda v: ConvexMinimization(SVMLoss(smoothing=v), **LINE),
    "width": lambda v: ConvexMinimization(HuberLoss(v), **LINE),
    "share": lambda v: ConvexMinimization(QuantileLoss(v), **LINE),
    "link": lambda v: ConvexMinimization(GLMLoss(v), **LINE),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_parameter_of_a_model_hangs_or_fails_untyped(name):
    session = Session(DATA, Budget(1), noise=seeded(1))
    with session.open(NoisyHistogram(epsilon=1)) as channel:
        for value in NUMBERS:
            with refused_briefly(1500):
                release = channel.release(MODELS[name](value))
                repr(release)
                release.value.predict({"age": [3, value], "sex": ["F", "M"]})


MINIMIZERS = {
    "epsilon": lambda v: PrivateMinimizer(epsilon=v),
    "delta": lambda v: PrivateMinimizer(epsilon=1, delta=v),
    "oracle": lambda v: PrivateMinimizer(epsilon=1, oracle=v),
    "start": lambda v: PrivateMinimizer(epsilon=1, oracle=Corrected(v)),
    "share": lambda v: PrivateMinimizer(epsilon=1, oracle=Corrected(Moments(v), gradients=1)),
    "width": lambda v: PrivateMinimizer(epsilon=1, oracle=Corrected(Pairs("0.3", v))),
    "gradients": lambda v: PrivateMinimizer(epsilon=1, oracle=Corrected(gradients=v)),
    "certify": lambda v: PrivateMinimizer(epsilon=1, oracle=Corrected(certify=v)),
    "statistics": lambda v: PrivateMinimizer(epsilon=1, oracle=SufficientStatistics(certify=v)),
}


@pytest.mark.parametrize("name", MINIMIZERS)
def test_no_parameter_of_a_minimiser_hangs_or_fails_untyped(name):
    query = ConvexMinimization(SquaredLoss(), **LINE)
    for value in NUMBERS:
        session = Session(DATA, Budget(1, "1e-6"), noise=seeded(1))
        with refused_briefly(500):
            mechanism = MINIMIZERS[name](value)
            repr(mechanism)
            str(session.quote(query, using=mechanism).at_most)
            repr(session.release(query, using=mechanism))


PLANS = {
    "alpha": lambda s, v: s.plan(Count(), error=v),
    "alpha of a goal": lambda s, v: s.plan([Goal(Count(), v)]),
    "query of a goal": lambda s, v: s.plan([Goal(v, 0.1), Goal(Count(), 0.1)]),
    "goals": lambda s, v: s.plan(v),
    "beta": lambda s, v: s.plan(Count(), error=0.1, beta=v),
    "beta of goals": lambda s, v: s.plan([Goal(Count(), 0.1)] * 2, beta=v),
    "budget": lambda s, v: s.plan(Count(), budget=v),
    "epsilon": lambda s, v: s.plan(Count(), budget=Budget(v)),
    "delta": lambda s, v: s.plan(Count(), budget=Budget(1, v)),
    "assume": lambda s, v: s.plan(Count(), error=0.1, assume=v),
    "inside": lambda s, v: s.plan(Mean("age"), error=1, assume={"inside": v}),
    "rows": lambda s, v: s.quote(Mean("age"), using=Laplace(1), assume={"rows": v}),
    "seconds": lambda s, v: s.plan(Count(), error=0.1, limits=Limits(seconds=v)),
    "limits": lambda s, v: s.plan(Count(), error=0.1, limits=v),
    "plan": lambda s, v: s.answer(
        Count(), using=evolve(s.plan(Count(), error=9).best, mechanism=v)
    ),
}


@pytest.mark.parametrize(("name", "place"), crossed(PLANS, range(len(NUMBERS)), 5))
def test_no_parameter_of_a_plan_hangs_or_fails_untyped(name, place):
    session = Session(DATA, Budget(1, "1e-6"), noise=seeded(1))
    with refused_briefly(1500):
        repr(PLANS[name](session, NUMBERS[place]))
    assert session.spent.charges == 0


LOOKS = {
    "bits": lambda v: Look([Reference(["sex"], [1, 2])], LaplaceNoise("0.1"), v),
    "a cell": lambda v: Look([Reference(["sex"], [v, 2])], LaplaceNoise("0.1")),
    "a table": lambda v: Look([Reference(["sex"], v)], LaplaceNoise("0.1")),
    "a name": lambda v: Look([Reference([v], [1, 2])], LaplaceNoise("0.1")),
    "names": lambda v: Look([Reference(v, [1, 2])], LaplaceNoise("0.1")),
    "noise": lambda v: Look([Reference(["sex"], [1, 2])], LaplaceNoise(v)),
    "references": lambda v: Look(v, LaplaceNoise("0.1")),
}


@pytest.mark.parametrize("name", LOOKS)
def test_no_parameter_of_a_look_hangs_or_fails_untyped(name):
    for value in NUMBERS:
        kernel = Kernel(DATA, Odometer(Budget(1), BasicComposition()), seeded(1), "look")
        with refused_briefly(500):
            kernel.run(LOOKS[name](value))


MIXTURES = {
    "weights": lambda v: Mixture(DOMAIN, [v, 1], SHARES),
    "shares": lambda v: Mixture(DOMAIN, [1, 1], SHARES | {"sex": [[v, 1], [1, 1]]}),
    "mass": lambda v: Mixture(DOMAIN, [1, 1], SHARES, outside_mass=v),
    "rows": lambda v: Mixture(DOMAIN, [1, 1], SHARES, rows=v).synthesize(3),
    "size": lambda v: Mixture(DOMAIN, [1, 1], SHARES).synthesize(v if v != 10**5 else 9),
    "components": lambda v: fit_mixture(DOMAIN, {}, components=v, iterations=1),
    "iterations": lambda v: fit_mixture(DOMAIN, {}, iterations=v if v != 10**5 else 9),
    "fitted": lambda v: fit_mixture(DOMAIN, {("sex",): [v, 1]}, iterations=2),
    "fitted names": lambda v: fit_mixture(DOMAIN, {(v,) if isinstance(v, list) else v: [1]}),
}
SHARES = {"age": np.ones((2, 10)), "sex": [[1, 2], [3, 4]]}


@pytest.mark.parametrize("name", MIXTURES)
def test_no_parameter_of_a_mixture_hangs_or_fails_untyped(name):
    for value in NUMBERS:
        if name == "fitted names" and isinstance(value, list):
            continue  # Python itself refuses these
        with suppress(DpsdkError):
            MIXTURES[name](value)
