"""`PerturbedObjective`: which models it is for, and that it finds them."""

from fractions import Fraction

import attrs
import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import InvalidArgument, NoBound, TooLarge
from dpsdk.forms import SlopeTable
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import Kernel, Perturb, Terms
from dpsdk.losses import HuberLoss, LogisticLoss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import Corrected, PerturbedObjective, PrivateMinimizer
from dpsdk.mechanisms.convex.correction import smooth
from dpsdk.mechanisms.convex.perturbed import PerturbedExcess
from dpsdk.queries import Ball, Box, ConvexMinimization, OneHot
from dpsdk.testing import seeded
from worlds import facts

DOMAIN = Domain(
    Integer("age", 0, 9),
    Integer("hours", 0, 4),
    Integer("rooms", 0, 3),
    Integer("sons", 0, 2),
    Boolean("rich"),
)
RNG = np.random.default_rng(8)
ROWS = 4000
AGE, HOURS = RNG.integers(0, 10, ROWS), RNG.integers(0, 5, ROWS)
ROOMS, SONS = np.clip(AGE // 3 + RNG.integers(-1, 2, ROWS), 0, 3), RNG.integers(0, 3, ROWS)
RICH = RNG.random(ROWS) < 1 / (1 + np.exp(-0.7 * (AGE - 4.5) - 0.5 * (HOURS - 2) + 0.4 * ROOMS))
COLUMNS = {"age": AGE, "hours": HOURS, "rooms": ROOMS, "sons": SONS, "rich": RICH}
TRUTH = DenseHypothesis.from_weights(
    DOMAIN,
    np.histogramdd(np.stack(list(COLUMNS.values()), 1), [range(n + 1) for n in DOMAIN.shape])[0],
)


def query(loss=None, over=None, label="rich"):
    features = [name for name in ("age", "hours", "rooms", "sons") if name != label]
    return ConvexMinimization(
        loss or LogisticLoss(), features=features, label=label, over=over or Ball(12)
    )


def excess(model, asked):
    form = asked.lower(DOMAIN)
    best, _ = form.minimise(TRUTH)
    return form.value(TRUTH, model.theta) - form.value(TRUTH, best)


def session(neighbors=Neighbors.REPLACE_ONE, seed=1, budget=None):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, neighbors=neighbors)
    return Session(data, budget or Budget(4), noise=seeded(seed))


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(
    ("loss", "over", "label"),
    [
        (LogisticLoss(), Ball(12), "rich"),
        (SVMLoss(0.5), Box(-9, 9), "rich"),
        (QuantileLoss("0.6"), Box(-9, 9), "age"),
        (HuberLoss("0.5"), Ball(4), "age"),
        (QuantileLoss("0.3"), Ball(4), "age"),
    ],
)
def test_models_of_every_loss_are_found(neighbors, loss, over, label):
    asked, own = query(loss, over, label), session(neighbors)
    using = PrivateMinimizer(epsilon=4, oracle=PerturbedObjective())
    quoted = own.quote(asked, using=using)
    release = own.release(asked, using=using)
    assert release.cost == quoted.at_most
    assert release.cost.epsilon == own.spent.epsilon == 4
    assert asked.lower(DOMAIN).over.contains(release.value.theta)
    assert excess(release.value, asked) < 6e-3
    assert release.source == "measured"
    if neighbors is Neighbors.REPLACE_ONE:
        assert release.bound(0.05).proven
        assert excess(release.value, asked) <= release.error(0.05) <= quoted.error(0.05)
        assert release.error(0.5) < release.error(0.05) <= release.error(1e-9) <= 30
        return
    with pytest.raises(NoBound, match="number is private"):
        release.error(0.05)
    assert not quoted.bound(0.05).proven


def test_it_is_found_by_default_and_better_than_a_start_and_a_gradient():
    def median(oracle):
        using = PrivateMinimizer(epsilon="0.3", oracle=oracle)
        found = [session(seed=seed).answer(query(), using=using) for seed in range(7)]
        return np.median([excess(model, query()) for model in found])

    assert median(Corrected()) == median(PerturbedObjective())
    assert median(PerturbedObjective()) < median(Corrected(gradients=1))


@pytest.mark.parametrize(
    ("loss", "rows", "epsilon", "delta", "chosen"),
    [
        (LogisticLoss(), 1_000, 1, 0, True),
        (LogisticLoss(), 100, 1, 0, False),
        (LogisticLoss(), 50_000, 1, 0, False),
        (LogisticLoss(), 1_000, 1, "1e-9", False),
        (SquaredLoss(), 1_000, 1, 0, False),
        (SVMLoss(0.5), 1_000, 1, 0, True),
    ],
)
def test_it_is_chosen_by_public_facts(loss, rows, epsilon, delta, chosen):
    using = PrivateMinimizer(epsilon=epsilon, delta=delta)
    form = query(loss).lower(DOMAIN)
    found = using.oracle_for(form, Terms(facts(DOMAIN, rows=rows)))
    assert isinstance(found, PerturbedObjective) is chosen
    people = using.oracle_for(form, Terms(facts(DOMAIN, rows=4 * rows, unit_rows=4)))
    assert type(people) is type(found)
    assert using.oracle_for(form) == Corrected()
    private = using.oracle_for(form, Terms(facts(DOMAIN, Neighbors.ADD_REMOVE)))
    assert isinstance(private, PerturbedObjective) is (not delta and loss != SquaredLoss())
    planned = PrivateMinimizer(epsilon=epsilon, delta=delta, oracle=Corrected(gradients=1))
    assert planned.oracle_for(form, Terms(facts(DOMAIN, rows=rows))) == Corrected(gradients=1)


def test_one_hot_features_of_few_attributes_are_left_to_sums():
    terms, using = Terms(facts(DOMAIN, rows=1_000)), PrivateMinimizer(epsilon=1)
    for features, chosen in (
        (["age"], True),
        (["age", "hours"], True),
        ([OneHot("age")], False),
        ([OneHot("age"), OneHot("hours")], False),
        ([OneHot("age"), "hours", "rooms", "sons"], False),
        ([OneHot("rooms"), "age", "hours", "sons"], True),
    ):
        asked = ConvexMinimization(
            LogisticLoss(), features=features, label="rich", over=Ball(12)
        ).lower(DOMAIN)
        assert (using.oracle_for(asked, terms) == PerturbedObjective()) is chosen


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(
    ("loss", "over"),
    [(LogisticLoss(), Ball(12)), (SVMLoss(), Ball(12)), (SVMLoss(0.5), Ball(0.5))],
)
def test_more_budget_is_better_however_large_it_is_and_however_bent_the_loss(loss, over):
    def median(epsilon):
        using = PrivateMinimizer(epsilon=epsilon, oracle=PerturbedObjective())
        budget, asked = Budget(10_000), query(loss, over)
        found = [session(seed=seed, budget=budget).answer(asked, using=using) for seed in range(5)]
        return float(np.median([excess(model, asked) for model in found]))

    medians = [median(epsilon) for epsilon in (1, 30, 1000)]
    assert medians[1] < 0.3 * medians[0]
    assert medians[2] < 1e-4


@pytest.mark.parametrize("total", [{"delta": "1e-9"}, {"delta": 0}])
def test_a_delta_pays_for_one_run_of_pure_privacy(total):
    own = session(budget=Budget(1, "1e-9"))
    using = PrivateMinimizer(epsilon=1, **total, oracle=PerturbedObjective())
    assert excess(own.answer(query(), using=using), query()) < 0.05
    assert own.spent.epsilon <= 1


def test_too_many_features_are_refused_before_anything_is_paid():
    domain = Domain(*[Boolean(f"b{place}") for place in range(5)], Integer("many", 0, 29))
    data = PrivateData.from_columns(
        {"many": [1, 2], **{f"b{place}": [True, False] for place in range(5)}}, domain
    )
    own = Session(data, Budget(1), noise=seeded(1))
    asked = ConvexMinimization(LogisticLoss(), features=[OneHot("many")], label="b0", over=Ball(8))
    with pytest.raises(TooLarge, match="perturbed"):
        own.release(asked, using=PrivateMinimizer(epsilon=1, oracle=PerturbedObjective()))
    assert own.spent.epsilon == 0


@pytest.mark.parametrize("epsilon", ["0.001", 50, 1000])
def test_any_budget_ends_in_a_model(epsilon):
    own = session(budget=Budget(10_000))
    using = PrivateMinimizer(epsilon=epsilon, oracle=PerturbedObjective())
    assert np.isfinite(own.answer(query(), using=using).theta).all()


def test_noise_that_fits_no_integers_is_refused():
    using = PrivateMinimizer(epsilon="1e-6", oracle=PerturbedObjective())
    with pytest.raises(InvalidArgument, match="epsilon must be larger"):
        session().answer(query(), using=using)


SMALL = Domain(Integer("a", 0, 2), Integer("b", 0, 1), Boolean("rich"))
COUNTS = np.array([[[9, 1], [5, 5]], [[1, 4], [2, 6]], [[1, 9], [7, 1]]])
SURE = np.zeros((3, 2, 2), dtype=int)
SURE[0, 0] = 40_000, 60_000


def of_small(loss, over, features=("a", "b")):
    return ConvexMinimization(loss, features=list(features), label="rich", over=over).lower(SMALL)


class Case:
    """A form with counts, and a request of a ridge and an epsilon of its own."""

    def __init__(self, form, counts, ridge, epsilon):
        self.form, self.counts = form, counts
        self.table, self.places = smooth(form).slope_table()
        self.request = Perturb(self.table, Fraction(ridge), epsilon)
        self.data = PrivateData.from_counts(counts, SMALL)
        self.truth = DenseHypothesis.from_weights(SMALL, counts)
        self.least = form.value(self.truth, form.minimise(self.truth, tolerance=1e-9)[0])

    def missed(self, broken, runs=30, beta=0.2, request=None):
        """How many excesses are above the bounds: before, and of what was released."""
        pricing = self.request.price(Terms(facts(SMALL, rows=int(self.counts.sum()))))
        rows = int(self.counts.sum())
        before = broken(PerturbedExcess.of(self.form, pricing, rows))
        over = []
        for seed in range(runs):
            own = Kernel(self.data, Odometer(Budget(99), BasicComposition()), seeded(seed), "it")
            found = own.run(request or self.request)[np.argsort(self.places)]
            theta = self.form.over.project(found)
            after = attrs.evolve(before, theta=theta)
            assert after.error(beta) <= before.error(beta)
            excess = self.form.value(self.truth, theta) - self.least
            over.append([excess > before.error(beta), excess > after.error(beta)])
        return np.sum(over, axis=0).tolist()


EXCESSES = {
    "the ridge": (
        Case(of_small(LogisticLoss(), Ball(9)), 1_000 * COUNTS, 10**6, 40),
        lambda own: attrs.evolve(own, ridge=own.ridge / 10**6),
    ),
    "the noise": (
        Case(of_small(LogisticLoss(), Box(-4, 9)), COUNTS // 3, "0.02", "3.2"),
        lambda own: attrs.evolve(own, tilt=attrs.evolve(own.tilt, scale=own.tilt.scale / 10**6)),
    ),
    "rounded kinks": (
        Case(of_small(SVMLoss(), Ball(2), ["b"]), SURE, 9, 40),
        lambda own: attrs.evolve(own, apart=0.0),
    ),
}


@pytest.mark.parametrize("name", EXCESSES)
def test_excesses_are_within_their_bounds_by_every_part_of_them(name):
    case, broken = EXCESSES[name]
    assert case.missed(lambda accuracy: accuracy) == [0, 0]
    assert min(case.missed(broken)) > 10


def test_without_a_wall_a_minimum_outside_of_the_set_is_not_covered():
    case = Case(of_small(LogisticLoss(), Box((-9, 4, -9), (9, 5, 9))), 10_000 * COUNTS, 9, 40)
    assert case.missed(lambda accuracy: accuracy) == [0, 0]
    free = attrs.evolve(case.request, table=attrs.evolve(case.table, over=None))
    assert min(case.missed(lambda accuracy: accuracy, request=free)) > 10


def test_what_a_table_misses_of_a_loss_is_what_a_fine_grid_tells():
    for loss, over in ((LogisticLoss(), Ball(9)), (SVMLoss(), Box(-7, 3))):
        form = of_small(loss, over)
        table, _ = smooth(form).slope_table()
        missed, moved = form.apart(table)
        fine = np.linspace(*form._reach, 400_001)
        steps = table.low + np.arange(table.slopes.shape[1]) * 2.0**-table.level_bits
        for slopes, y in zip(table.slopes * 2.0**-20, form.targets, strict=True):
            slope = np.interp(fine, steps, slopes) - loss.derivative(fine, y)
            seen = np.ptp(np.cumsum(slope) * (fine[1] - fine[0]))
            assert 0.3 * seen <= missed
            assert seen <= 1.001 * missed
        assert 0 <= moved < 2.0**-15 * np.sqrt(3)
    assert isinstance(table, SlopeTable)
