"""Models of tables in which a person has several rows."""

import math

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivacyUnit, PrivateData, Session
from dpsdk.forms.steps import written
from dpsdk.kernel import GaussianNoise, Kernel
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import (
    Corrected,
    Moments,
    NoisyDescent,
    PrivateMinimizer,
    SufficientStatistics,
)
from dpsdk.queries import Ball, ConvexMinimization
from dpsdk.testing import seeded

RNG = np.random.default_rng(0)
DOMAIN = Domain(Integer("age", 0, 4), Boolean("rich"))
COLUMNS = {
    "who": RNG.integers(0, 400, 900),
    "age": RNG.integers(0, 5, 900),
    "rich": RNG.random(900) < 0.4,
}
INSIDE = {name: COLUMNS[name] for name in DOMAIN.names}
TABLES = {
    "person": PrivateData.from_columns(COLUMNS, DOMAIN, unit=PrivacyUnit("who", max_rows=3)),
    "distinct": PrivateData.from_columns(
        COLUMNS, DOMAIN, unit=PrivacyUnit("who", max_rows=3, distinct=True)
    ),
    "replaced": PrivateData.from_columns(INSIDE, DOMAIN, unit_rows=3),
}
ORACLES = [
    Corrected(gradients=2),
    Corrected(Moments("0.4"), gradients=1, certify="0.2"),
    SufficientStatistics(),
    NoisyDescent(steps=3),
]


def longest(form, facts, order):
    """How far the rows of a person move a form at the most, by all pairs of cells."""
    columns = [*written(form).T]
    if facts.neighbors is Neighbors.REPLACE_ONE:
        columns += [np.zeros(form.rows)] if facts.outside else []
        columns = [one - other for one in columns for other in columns]
    return facts.unit_rows * max(np.linalg.norm(one, order) for one in columns)


@pytest.mark.parametrize(
    ("name", "delta"),
    [
        pytest.param(
            name, delta, marks=[] if (name, delta) == ("distinct", "0") else pytest.mark.audit
        )
        for name in TABLES
        for delta in ("0", "1e-9")
    ],
)
def test_the_noise_of_every_number_hides_all_rows_of_a_person(name, delta, monkeypatch):
    seen, measure = [], Kernel.measure

    def recorded(kernel, form, noise, **given):
        found = measure(kernel, form, noise, **given)
        seen.append((form, noise, found.accuracy))
        return found

    monkeypatch.setattr(Kernel, "measure", recorded)
    data = TABLES[name]
    assert data.facts.unit_rows == 3
    query = ConvexMinimization(SquaredLoss(), features=["age"], label="rich", over=Ball(4))
    smooth = ConvexMinimization(LogisticLoss(), features=["age"], label="rich", over=Ball(4))
    for oracle in ORACLES:
        asked = query if isinstance(oracle, SufficientStatistics) else smooth
        with Session(data, Budget(1, delta), noise=seeded(1)) as session:
            session.answer(asked, using=PrivateMinimizer(epsilon=1, delta=delta, oracle=oracle))
    assert len(seen) >= 9
    for form, noise, accuracy in seen:
        if isinstance(noise, GaussianNoise):
            scale = math.sqrt(accuracy.law.variance)
            needed = longest(form, data.facts, 2) / math.sqrt(2 * float(noise.rho))
        else:
            scale = float(accuracy.law.scale)
            needed = longest(form, data.facts, 1) / float(noise.epsilon)
        # Up to what the lattice rounds of the weights.
        assert scale * accuracy.step == pytest.approx(needed, rel=1e-3)
