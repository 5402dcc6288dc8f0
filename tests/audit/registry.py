"""What is audited: one line a mechanism. The audit enumerates each over all tiny neighbours."""

from collections.abc import Callable, Hashable
from datetime import date
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pytest
from attrs import evolve, frozen

from dpsdk import (
    Boolean,
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.accounting import BasicComposition, Guarantee, Odometer, ZCDPComposition
from dpsdk.accounting.guarantee import (
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    PureGuarantee,
)
from dpsdk.errors import ExactSamplingInfeasible
from dpsdk.forms import (
    Ball,
    ConvexForm,
    Coordinates,
    Dense,
    Facts,
    GapForm,
    Identity,
    Kronecker,
    LinearForm,
    ProximalGapForm,
    Weights,
)
from dpsdk.hypothesis import DenseHypothesis, Distribution, Pairs
from dpsdk.kernel import (
    EuclideanNoise,
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Limits,
    MeasureResiduals,
    Noise,
    Reference,
    Watching,
)
from dpsdk.learning import EntropicFit
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    Corrected,
    Gaussian,
    Laplace,
    Matrix,
    NoisyHistogram,
    NumericSparse,
    OnlinePMW,
    Oracle,
    Parts,
    PrivateMinimizer,
    Projection,
    SmallDB,
    SufficientStatistics,
    Tree,
    projection,
)
from dpsdk.mechanisms.matrix import design
from dpsdk.mechanisms.measured_once import Stack
from dpsdk.mechanisms.mwem.learners import Marginals, _Fitted
from dpsdk.noise import NoiseSource
from dpsdk.queries import (
    Above,
    Between,
    Conjunction,
    ConvexMinimization,
    Count,
    CountDistinct,
    DateQuantile,
    Linear,
    Marginal,
    MarginalTable,
    Mean,
    Not,
    NumericAbove,
    Query,
    Rectangles,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing.audit import Program, program
from dpsdk.typing import Floats
from vouched import TRUST, Distinct, DistinctLaplace

BIT = Domain(Boolean("bit"))
THREE = Domain(Integer("level", 0, 2))
MONTHS = Domain(Date("day", date(2024, 1, 1), date(2024, 3, 31), unit="month"))
PAIR = Domain(Categorical("a", ["x", "y"]), Boolean("b"))
LINED = Domain(Integer("a", 0, 1), Boolean("b"))

EPSILONS = (Fraction(1, 4), Fraction(1), Fraction(3))
LARGE = (Fraction(3), Fraction(8))

Build: TypeAlias = Callable[[Fraction], Program]


@frozen
class Case:
    """A program family, by its privacy parameter; over which universe and how many rows."""

    name: str
    build: Build
    claim: Callable[[Fraction], Guarantee]
    domain: Domain
    rows: int
    parameters: tuple[Fraction, ...] = EPSILONS
    lattice: int | None = None
    """Fewer bits than production would take, where its lattice has too many points to enumerate."""
    unit_rows: int = 1
    """How many of the rows one person may have."""
    slow: bool = False
    """Whether it takes too long for a quick run."""


def flat(table: MarginalTable) -> tuple[float, ...]:
    return tuple(table.values.ravel().tolist())


def pure(epsilon: Fraction) -> Guarantee:
    return PureGuarantee(epsilon)


def concentrated(rho: Fraction) -> Guarantee:
    """A claim of rho-zCDP in the law's own terms: one step at variance 1 / (2 rho)."""
    return DiscreteGaussianGuarantee(1 / (2 * rho), 1, 1)


def weight(record: object) -> float:
    return {0: 0.0, 1: 0.3, 2: 1.0}[record["level"]]  # type: ignore[index]


pure_program = partial(program, composition=BasicComposition())
"""What costs pure ε. A session is opened for every path, so that it had better be a plain one."""


COUNT = Conjunction({"bit": True}, normalized=False)


def laplace(*queries: Query[Any], outcome: Callable[[Any], Hashable] = repr) -> Build:
    return lambda epsilon: pure_program(Laplace(epsilon), *queries, outcome=outcome)


def gaussian(*queries: Query[Any], outcome: Callable[[Any], Hashable] = repr) -> Build:
    return lambda rho: program(
        Gaussian(rho=rho), *queries, outcome=outcome, composition=ZCDPComposition()
    )


def different(*names: str) -> Build:
    """How many records differ, by a class of another author that the session trusts."""
    return lambda epsilon: pure_program(DistinctLaplace(epsilon), Distinct(names), trust=TRUST)


def together(epsilon: Fraction) -> Program:
    """Two counts, each with noise of its own, paid for at once."""
    other = Conjunction({"bit": False}, normalized=False)
    parts = Parts([(COUNT, Laplace(epsilon / 3)), (other, Laplace(2 * epsilon / 3))])
    return pure_program(parts, Workload([other, COUNT]), outcome=tuple)


def halved(*queries: Query[Any]) -> Build:
    return lambda epsilon: pure_program(Laplace(epsilon / len(queries)), *queries)


class Product(Query[float]):
    """The sum of a product of weights, none of which lie on a lattice."""

    def lower(self, domain: Domain, /) -> LinearForm:
        factors = {"a": Weights([[0.3, 0.9]]), "b": Weights([[0.7, 0.2]])}
        return LinearForm(domain, [Kronecker.of(domain, factors)])

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        del facts
        return float(raw[0])


NOBODY = Conjunction({"bit": Not({False, True})}, normalized=False)
CELLS = Marginal("bit", normalized=False)
WEIGHTS = Linear(weight, normalized=False)
BELOW = Threshold("level", 1, normalized=False)
SPRING = Count({"day": Between(date(2024, 2, 1), date(2024, 3, 31))}, normalized=False)
MIDDLE = DateQuantile("day", "0.5")
LEVELS = Sum("level", normalized=False)
BOTH = Conjunction({"a": "x", "b": True}, normalized=False)
COUNT_B = Conjunction({"b": True}, normalized=False)
BITS = Rectangles("bit", [0, 0], [1, 0], normalized=False)
NESTED = Workload([COUNT, Count(normalized=False)])
BOXES = Rectangles(("a", "b"), [[0, 0], [1, 0], [1, 1]], [[0, 1], [1, 0], [1, 1]], normalized=False)
"""Three rectangles that no row is in two of."""
ABOVE = tuple(Above(Conjunction({"bit": b}, normalized=False), 1) for b in (True, False, True))
OPPOSED = tuple(Above(Conjunction({"bit": b}, normalized=False), 1) for b in (*[False] * 3, True))
"""The more gaps are below that rise before one is above that falls, the nearer to the bound."""
LEVEL = NumericAbove(COUNT, 1)
SIGNS = {s: Linear([s, -s], low=-1, high=1, normalized=False) for s in (1, -1)}
SIGNED_ABOVE = tuple(Above(SIGNS[s], 1) for s in (1, -1, 1))
"""A row replaced moves them by two."""
SHARE_ABOVE = tuple(Above(Linear([s, -s], low=-1, high=1), s) for s in (1, -1, 1))
"""A row that comes moves them by two: the level is as far as shares go."""


def histogram(*queries: Query[Any], outcome: Callable[[Any], Hashable] = repr) -> Build:
    return lambda epsilon: pure_program(NoisyHistogram(epsilon=epsilon), *queries, outcome=outcome)


def sparse(*queries: Query[Any, GapForm], tops: int = 1, delta: str = "0") -> Build:
    return lambda epsilon: pure_program(
        NumericSparse(epsilon, delta, tops=tops, numbers="gap"), *queries
    )


def online(*queries: Query[Any], updates: int = 1, signed: bool = False) -> Build:
    """Multiplicative weights from a uniform start, its threshold below every gap there is."""
    return lambda epsilon: pure_program(
        OnlinePMW(epsilon, updates=updates, start="uniform", threshold=0.01, signed=signed),
        *queries,
    )


class Constant(Query[Any, ConvexForm]):
    """The mean of two numbers, as a model without features: its gradients are whole numbers."""

    def lower(self, domain: Domain, /) -> ConvexForm:
        intercept = Coordinates((), [1.0])
        return ConvexForm(domain, [intercept], "bit", [-1.0, 3.0], SquaredLoss(), Ball(2))

    def lift(self, raw: Floats, facts: Facts, /) -> Hashable:
        del facts
        return raw.round(9).tobytes()


def guarded(epsilon: Fraction) -> Program:
    """A whole round of a stream of models: coordinates compared, a gradient measured, one learnt.

    What the hypothesis learnt is told as well.
    """
    mechanism = ConvexPMW(epsilon, updates=1, start="uniform", threshold=0.01)

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        session = Session(data, Budget(1000), composition=BasicComposition(), noise=noise)
        with session.open(mechanism) as channel:
            release = channel.release(Constant())
            return release.source, release.value, flat_table(channel.distribution)

    return run


def from_pairs(epsilon: Fraction) -> Program:
    """All that the first hypothesis of a stream tells, which half of its budget pays for."""
    mechanism = OnlinePMW(2 * epsilon, updates=1, start=Pairs(Fraction(1, 2)))

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        with Session(data, Budget(1000), noise=noise).open(mechanism) as channel:
            return flat_table(channel.distribution)

    return run


def flat_table(distribution: Distribution) -> Hashable:
    return distribution.table(distribution.domain.names).tobytes(), distribution.outside_mass


LINE = ConvexMinimization(SquaredLoss(), features=["a"], label="b", over=Ball(2), intercept=False)


def of_model(answer: Any) -> Hashable:
    return answer.theta.tobytes(), answer.excess


def model(oracle: Oracle) -> Build:
    """One model, of all runs that its oracle makes."""

    def build(epsilon: Fraction) -> Program:
        return pure_program(
            PrivateMinimizer(epsilon=epsilon, oracle=oracle), LINE, outcome=of_model
        )

    return build


EVEN = DenseHypothesis.uniform(LINED)


def ranged(epsilon: Fraction) -> Guarantee:
    return BoundedRangeGuarantee(epsilon)


def tree(epsilon: Fraction) -> Program:
    """Two leaves, and their parent where it is free."""
    return pure_program(Tree("bit", epsilon=epsilon, branching=2), CELLS, outcome=flat)


_COARSE = lru_cache(64)(lambda *_: list[Stack]())
"""Designs on a coarse lattice, apart from those that others ask for."""


def strategy(*of: Query[Any]) -> Build:
    """A strategy for a workload, on a lattice so coarse that it can be enumerated."""

    def build(epsilon: Fraction) -> Program:
        mechanism = Matrix(Workload(of), epsilon=epsilon)

        def run(data: PrivateData, noise: NoiseSource) -> Hashable:
            kernel = Kernel(data, Odometer(Budget(10**6), BasicComposition()), noise, "matrix")
            with patch.multiple(design, _BITS=0, _FEWEST_BITS=0, _kept_for=_COARSE):
                opened = mechanism.open(kernel)
            # All answers follow from these.
            return tuple([cells.counts.tobytes() for cells in opened.estimate])

        return run

    return build


def projected(epsilon: Fraction) -> Program:
    """The cells, from so few steps that their enumeration takes little time."""
    form = CELLS.lower(BIT)

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        kernel = Kernel(data, Odometer(Budget(10**6), BasicComposition()), noise, "projection")
        with patch.multiple(projection, _ROUNDS=1):
            return Projection(epsilon=epsilon).open(kernel).answer(form, kernel).values.tobytes()

    return run


def told(data: SyntheticData) -> Hashable:
    """All that a small database tells."""
    return data.codes.tobytes(), data.multiplicities.tobytes(), data.outside_count


def small(*queries: Query[Any], size: int = 2) -> Build:
    """A small database, all of it, and how far off it says that it is."""

    def build(epsilon: Fraction) -> Program:
        # Where the number of rows is private, work is estimated for the largest table.
        limits = Limits(seconds=10**6, bytes=2**40)
        mechanism = SmallDB(Workload(queries), epsilon=epsilon, size=size, limits=limits)

        def run(data: PrivateData, noise: NoiseSource) -> Hashable:
            session = Session(data, Budget(1000), composition=BasicComposition(), noise=noise)
            try:
                opened = session.open(mechanism)
            except ExactSamplingInfeasible as refused:
                # A refusal is the same for all tables, and so would pass.
                pytest.fail(str(refused))
            with opened as channel:
                database = channel.distribution
                assert isinstance(database, SyntheticData)
                if data.facts.neighbors is Neighbors.ADD_REMOVE:
                    return told(database)
                return told(database), channel.release(queries[0]).error(0.1)

        return run

    return build


def gaps_of(domain: Domain, *rates: float, offset: float = 0.0, absolute: bool = True) -> GapForm:
    """All one-way marginals, beside public shares of the rows and a public count."""
    form = LinearForm(
        domain, [Kronecker.of(domain, {n: Identity(domain[n].size)}) for n in domain.names]
    )
    return GapForm(form, np.array(rates), np.full(form.rows, offset), absolute=absolute)


def chosen(gaps: GapForm | list[ProximalGapForm], **given: Any) -> Build:
    """Which gap is the largest."""

    def build(epsilon: Fraction) -> Program:
        def run(data: PrivateData, noise: NoiseSource) -> int:
            odometer = Odometer(Budget(10**6), BasicComposition())
            return Kernel(data, odometer, noise, "select").select(gaps, epsilon, **given)

        return run

    return build


def proximal(theta: Floats, columns: list[list[float]]) -> ProximalGapForm:
    gradient = LinearForm(BIT, [Dense(("bit",), (2,), np.array(columns))])
    return ProximalGapForm(gradient, theta, Ball(1))


CANCELLING = proximal(np.zeros(2), [[3.0, -3.0], [-4.0, 4.0]])
"""The length of a sum of records that cancel."""
SHIFTED = evolve(CANCELLING, shift=[0.5, -1.0])
"""With a gradient besides that every row has, such as that of a ridge."""
OF_FALSE, OF_TRUE = proximal(np.ones(1), [[5.0, 0.0]]), proximal(np.ones(1), [[0.0, 5.0]])


def gained(*gaps: ProximalGapForm) -> Build:
    """Which proximal gap is the first above what one record moves it by."""

    def build(epsilon: Fraction) -> Program:
        watching = Watching(epsilon / 2, epsilon / 2)

        def run(data: PrivateData, noise: NoiseSource) -> int | None:
            odometer = Odometer(Budget(10**6), BasicComposition())
            watch = Kernel(data, odometer, noise, "watch").watch(watching)
            asked = (n for n, gap in enumerate(gaps) if watch.first_above(gap, 10.0))
            return next(asked, None)

        return run

    return build


OPPOSING = (OF_FALSE, OF_FALSE, OF_FALSE, OF_TRUE)
"""Gaps that rise and one that falls where a record is exchanged."""


def looked(noise: Callable[[Fraction], Noise], *tables: tuple[float, ...]) -> Build:
    """How far the counts of two values, and their sum, are from public ones, in steps of half."""
    references = [
        Reference(["bit"] if len(t) == 2 else [], t if len(t) == 2 else t[0]) for t in tables
    ]

    def build(parameter: Fraction) -> Program:
        def run(data: PrivateData, source: NoiseSource) -> tuple[float, ...]:
            kernel = Kernel(
                data, Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1")), source, "look"
            )
            return tuple(kernel.look(references, noise(parameter), bits=1).values.tolist())

        return run

    return build


def together_noisy(form: LinearForm) -> Build:
    """Numbers with noise by the length of what neighbours differ by."""

    def build(epsilon: Fraction) -> Program:
        def run(data: PrivateData, noise: NoiseSource) -> Hashable:
            odometer = Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1"))
            kernel = Kernel(data, odometer, noise, "euclidean")
            return tuple(kernel.measure(form, EuclideanNoise(epsilon)).values.tolist())

        return run

    return build


SLANTED = LinearForm(
    THREE, [Dense(("level",), (3,), np.array([[2.0, -1.0, 0.5], [0.0, 2.0, -1.5]]))]
)


def residuals(sets: list[tuple[str, ...]], *scales: int) -> Build:
    """Residuals of marginals, bought together."""

    def build(rho: Fraction) -> Program:
        request = MeasureResiduals(sets, scales, GaussianNoise(rho))

        def run(data: PrivateData, noise: NoiseSource) -> Hashable:
            odometer = Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1"))
            return tuple(Kernel(data, odometer, noise, "residuals").run(request).values.tolist())

        return run

    return build


GUESS, OTHER, TOTAL = (1.5, 0.0), (0.5, 1.0), (1.0,)


def of_levels(*levels: set[int]) -> list[Query[Any]]:
    return [Count({"level": chosen}, normalized=False) for chosen in levels]


APART = of_levels({0, 2}, {1})
"""Too few queries to be enumerated, none of them with a structure that is known."""
ALL = of_levels({0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2})
CELLS_OF_PAIR = [slice(0, 2), slice(2, 4)]
LINES = gaps_of(THREE, 0.5, 0.25, 0.0)
TABLES = gaps_of(PAIR, 0.25, 0.75, 1.0, 0.0)
COUNTS = gaps_of(PAIR, 0.0, 0.0, 0.0, 0.0, offset=1.0)
AROUND = GapForm.around(BOXES.lower(PAIR), np.array([0.0, 0.25, 0.0]))
OF_SIGNS = GapForm.around(
    LinearForm(THREE, [Dense(("level",), (3,), np.array([[-1, 0.5, 1], [1, -1, 0.25]]))]),
    np.array([0.5, -0.25]),
)
OPPOSED_SIGNS = GapForm(
    LinearForm(THREE, [Dense(("level",), (3,), np.outer([1, 1, -1, -1], [-1, 0.5, 1]))]),
    np.zeros(4),
    np.full(4, -9.0),
)
TWO_BY_TWO = [slice(0, 2), slice(2, 4)]
SIGNED = gaps_of(THREE, 0.5, 0.25, 0.0, absolute=False)
UNEVEN = GapForm.around(
    LinearForm.stack([WEIGHTS.lower(THREE), LINES.form]), np.array([0.4, 1.0, 0.5, 0.0])
)

ZERO = Conjunction({"bit": False}, normalized=False)


def textbook(epsilon: Fraction) -> Program:
    """The average shows what the first of two rounds did, and the kernel charges both."""
    return pure_program(MWEM.textbook(Workload([COUNT, ZERO]), epsilon, rounds=2), COUNT)


def averaged(epsilon: Fraction) -> Program:
    return pure_program(MWEM.averaged(Workload([COUNT, ZERO]), epsilon, rounds=3), COUNT, ZERO)


TWO_TABLES = Workload([Marginal("a"), Marginal("b")])


@cache
def on_one_record(outside: bool) -> EntropicFit:
    """Fitted to shares that put all on one record, so that scores are as far apart as can be."""
    fit = EntropicFit(PAIR, outside=outside, prior=0, hold=0.5)
    for name in PAIR.names:
        fit.add(Marginal(name).lower(PAIR).blocks[0], np.array([1.0, 0.0]), 1e-9)
    for _ in range(60):
        fit.run(100, close=1e-12)
    return fit


def tuned(epsilon: Fraction) -> Program:
    """One round past the start: which marginal is off the most, and the counts of that one."""
    mechanism = MWEM(TWO_TABLES, epsilon=epsilon / Fraction(9, 10), rounds=1)
    form = TWO_TABLES.lower(PAIR)
    learners: dict[Facts, Marginals] = {}

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        odometer = Odometer(Budget(epsilon), BasicComposition())
        kernel = Kernel(data, odometer, noise, "mwem")
        if data.facts not in learners:
            plan = mechanism.plan(kernel.terms)
            learners[data.facts] = Marginals(form, plan, kernel.terms, steps=1, average=False)
        learner = learners[data.facts]
        fit = on_one_record(data.facts.outside)
        learner._state = _Fitted(fit, 2.0, None, (), started=True)
        learner.round(kernel)
        # All that it has learnt follows from these.
        return learner._state.chosen, learner._state.fit._released[-1].values.tobytes()

    return run


SHARP = (Fraction(6),)
FEW, SOME, MANY = Fraction(1, 50), Fraction(1, 2), Fraction(2)
"""Values of rho."""

CASES = (
    Case("Laplace, count", laplace(COUNT), pure, BIT, 3),
    Case("Laplace, threshold", laplace(BELOW), pure, THREE, 2),
    Case("Laplace, two in turn", halved(COUNT, COUNT), pure, BIT, 1, (Fraction(6),)),
    Case("Laplace, marginal", laplace(CELLS, outcome=flat), pure, BIT, 1, LARGE),
    Case("parts, two counts", together, pure, BIT, 1, (Fraction(6),)),
    Case("Laplace, between two dates", laplace(SPRING), pure, MONTHS, 2),
    Case(
        "Laplace, a quantile of dates", laplace(MIDDLE), pure, MONTHS, 1, (Fraction(12),), slow=True
    ),
    Case("Laplace, sum", laplace(LEVELS), pure, THREE, 2),
    Case("Laplace, how many differ", laplace(CountDistinct("level")), pure, THREE, 2),
    Case(
        "Gaussian, how many differ",
        gaussian(CountDistinct("level")),
        concentrated,
        THREE,
        2,
        (SOME,),
    ),
    Case("Laplace, mean", laplace(Mean("level")), pure, THREE, 1, (Fraction(12),)),
    Case(
        "Laplace, counts of groups",
        laplace(Count(by="b", normalized=False)),
        pure,
        PAIR,
        1,
        LARGE,
    ),
    Case("Laplace, weights", laplace(WEIGHTS), pure, THREE, 1, LARGE, lattice=3),
    Case("Laplace, workload", laplace(NESTED, outcome=tuple), pure, BIT, 1, LARGE),
    Case("Laplace, conjunction", laplace(BOTH), pure, PAIR, 2),
    Case("Laplace, rectangles", laplace(BITS, outcome=tuple), pure, BIT, 1, LARGE),
    Case("Laplace, product of weights", laplace(Product()), pure, PAIR, 1, LARGE, lattice=3),
    Case("Laplace, what no row changes", laplace(NOBODY), pure, BIT, 2),
    Case("Gaussian, what no row changes", gaussian(NOBODY), concentrated, BIT, 2, (SOME,)),
    Case("sparse vector", sparse(*ABOVE), pure, BIT, 2, (Fraction(1), Fraction(5)), lattice=0),
    Case("sparse vector, two tops", sparse(*ABOVE, tops=2), pure, BIT, 1, LARGE, lattice=0),
    Case("sparse vector, signed", sparse(*SIGNED_ABOVE), pure, BIT, 2, LARGE, lattice=1),
    Case("sparse vector, signed shares", sparse(*SHARE_ABOVE), pure, BIT, 2, LARGE, lattice=1),
    Case(
        "one round of PMW, signed",
        online(SIGNS[1], signed=True),
        pure,
        BIT,
        1,
        (Fraction(20),),
        lattice=1,
    ),
    Case("sparse vector with excess", sparse(LEVEL), pure, BIT, 2, LARGE, lattice=0),
    Case("one round of PMW", online(COUNT), pure, BIT, 1, (Fraction(20),), lattice=0),
    Case("one round of PMW, models", guarded, pure, BIT, 1, (Fraction(20),), lattice=0),
    Case("public, the pairs that PMW starts from", from_pairs, pure, BIT, 1, (Fraction(24),)),
    Case("proximal gap", gained(CANCELLING), pure, BIT, 2, (Fraction(3),), lattice=2),
    Case("proximal gaps", gained(*OPPOSING), pure, BIT, 2, (Fraction(6),), lattice=2),
    Case("noisy histogram", histogram(CELLS, outcome=flat), pure, BIT, 1, LARGE),
    Case("Gaussian, count", gaussian(COUNT), concentrated, BIT, 3, (FEW, SOME, MANY)),
    Case(
        "Gaussian, marginal",
        gaussian(CELLS, outcome=flat),
        concentrated,
        BIT,
        1,
        (SOME,),
        lattice=0,
    ),
    Case("Gaussian, weights", gaussian(WEIGHTS), concentrated, THREE, 1, (MANY,), lattice=3),
    Case("Euclidean, a marginal", together_noisy(CELLS.lower(BIT)), pure, BIT, 2, (Fraction(8),)),
    Case("Euclidean, weights", together_noisy(SLANTED), pure, THREE, 1, (Fraction(12),), lattice=1),
    Case("residuals, the total", residuals([()], 1), concentrated, BIT, 2, (MANY,), lattice=0),
    Case("residuals, a line", residuals([("bit",)], 1), concentrated, BIT, 1, (MANY,), lattice=0),
    Case(
        "residuals, both", residuals([(), ("bit",)], 1, 1), concentrated, BIT, 1, SHARP, lattice=0
    ),
    Case("small database, few queries", small(*APART), ranged, THREE, 3),
    Case("small database, any queries", small(*ALL), ranged, THREE, 2),
    Case("small database, a product of queries", small(BOTH, COUNT_B), ranged, PAIR, 2, LARGE),
    Case("public, rounds of textbook MWEM", textbook, pure, BIT, 1, (Fraction(24),)),
    Case("public, rounds of averaged MWEM", averaged, pure, BIT, 2),
    Case("a round of tuned MWEM", tuned, pure, PAIR, 2, (Fraction(20),)),
    Case("tree", tree, pure, BIT, 1, (Fraction(20),)),
    Case("strategy, a count", strategy(COUNT), pure, BIT, 1, (Fraction(40),)),
    Case("projection", projected, pure, BIT, 1, (Fraction(20),)),
    Case(
        "a model by statistics",
        model(SufficientStatistics()),
        pure,
        LINED,
        1,
        (Fraction(24),),
        slow=True,
    ),
    Case(
        "a model by a gradient",
        model(Corrected(EVEN, gradients=1)),
        pure,
        LINED,
        1,
        (Fraction(24),),
        lattice=0,
        slow=True,
    ),
    Case("look, a table", looked(LaplaceNoise, GUESS), pure, BIT, 2),
    Case("look, tables", looked(LaplaceNoise, GUESS, OTHER), pure, BIT, 1, (Fraction(16),)),
    Case("look, a total", looked(LaplaceNoise, GUESS, TOTAL), pure, BIT, 1, (Fraction(16),)),
    Case("look, Gaussian", looked(GaussianNoise, GUESS, OTHER), concentrated, BIT, 1, (2 * MANY,)),
    Case("select, models", chosen([OF_FALSE, OF_TRUE]), ranged, BIT, 2),
    Case("select, a row", chosen(LINES), ranged, THREE, 2),
    Case("select, a weighted row", chosen(UNEVEN), ranged, THREE, 2),
    Case("select, with penalties", chosen(LINES, penalties=[0, 2, -1]), ranged, THREE, 2),
    Case("select, with signs", chosen(SIGNED, opposites=True), ranged, THREE, 2),
    Case("select, signed weights", chosen(OF_SIGNS), ranged, THREE, 2),
    Case(
        "select, a group of signed weights",
        chosen(OPPOSED_SIGNS, groups=TWO_BY_TWO),
        ranged,
        THREE,
        2,
    ),
    Case("select, a marginal", chosen(TABLES, groups=CELLS_OF_PAIR), ranged, PAIR, 2),
    Case("select, a marginal of counts", chosen(COUNTS, groups=CELLS_OF_PAIR), ranged, PAIR, 2),
    Case("select, rectangles", chosen(AROUND, groups=[slice(0, 1), slice(1, 3)]), ranged, PAIR, 2),
    Case("select, overlapping", chosen(TABLES, groups=[slice(0, 3), slice(1, 4)]), ranged, PAIR, 2),
    Case(
        "proximal gap with a shift",
        gained(SHIFTED),
        pure,
        BIT,
        2,
        (Fraction(3),),
        lattice=2,
        slow=True,
    ),
)

WIDE = (Fraction(12),)
"""Where two rows of a person may differ, noise is twice as wide, and trees are as much larger."""

OF_TWO_ROWS = tuple(
    evolve(case, name=f"{case.name}, two rows a person", unit_rows=2)
    for case in (
        Case("Laplace, count", laplace(COUNT), pure, BIT, 3, (Fraction(2),)),
        Case("Laplace, marginal", laplace(CELLS, outcome=flat), pure, BIT, 2, WIDE),
        Case("Laplace, sum", laplace(LEVELS), pure, THREE, 2, (Fraction(6),)),
        Case("Laplace, weights", laplace(WEIGHTS), pure, THREE, 2, WIDE, lattice=3),
        Case("Laplace, workload", laplace(NESTED, outcome=tuple), pure, BIT, 2, (Fraction(20),)),
        Case("Laplace, what no row changes", laplace(NOBODY), pure, BIT, 2, (Fraction(1),)),
        Case("Gaussian, count", gaussian(COUNT), concentrated, BIT, 2, (MANY,)),
        Case("Gaussian, weights", gaussian(WEIGHTS), concentrated, THREE, 2, (MANY,), lattice=2),
        Case(
            "Gaussian, marginal",
            gaussian(CELLS, outcome=flat),
            concentrated,
            BIT,
            2,
            (2 * MANY,),
            lattice=0,
        ),
        Case("sparse vector", sparse(*OPPOSED), pure, BIT, 2, WIDE, lattice=0),
        Case("sparse vector, two tops", sparse(*ABOVE, tops=2), pure, BIT, 2, WIDE, lattice=0),
        Case("sparse vector with excess", sparse(LEVEL), pure, BIT, 2, WIDE, lattice=0),
        Case(
            "one round of PMW", online(COUNT), pure, BIT, 2, (Fraction(80),), lattice=0, slow=True
        ),
        Case("residuals, the total", residuals([()], 1), concentrated, BIT, 2, (MANY,), lattice=0),
        Case(
            "residuals, a line",
            residuals([("bit",)], 1),
            concentrated,
            BIT,
            2,
            WIDE,
            lattice=0,
        ),
        Case("small database, few queries", small(*APART), ranged, THREE, 3, LARGE),
        Case("small database, any queries", small(*ALL), ranged, THREE, 2, LARGE),
        Case("look, a table", looked(LaplaceNoise, GUESS), pure, BIT, 2, (Fraction(3),)),
        Case("select, a row", chosen(LINES), ranged, THREE, 2),
        Case("select, a marginal", chosen(TABLES, groups=CELLS_OF_PAIR), ranged, PAIR, 2),
        Case("select, a marginal of counts", chosen(COUNTS, groups=CELLS_OF_PAIR), ranged, PAIR, 2),
        Case("select, with signs", chosen(SIGNED, opposites=True), ranged, THREE, 2),
        Case("Laplace, how many differ", laplace(CountDistinct("level")), pure, THREE, 2, WIDE),
        Case("trusted, how many differ", different("level"), pure, THREE, 2, (Fraction(6),)),
    )
)
"""The same where two rows of one person may differ."""
