"""`PerturbedObjective`: which models it is for, and that it finds them."""

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import InvalidArgument, NoBound, TooLarge
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import Terms
from dpsdk.losses import HuberLoss, LogisticLoss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import Corrected, PerturbedObjective, PrivateMinimizer
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
    with pytest.raises(NoBound, match="perturbed objective"):
        release.error(0.05)


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
