"""Every registered mechanism releases the same whether counts are in memory or in an engine."""

from collections.abc import Hashable

import numpy as np
import polars as pl
import pytest
from registry import CASES, OF_TWO_ROWS, Case

from dpsdk import Neighbors, PrivacyUnit, PrivateData
from dpsdk.data.engine.pushed import EngineCounts
from dpsdk.data.vault import open_histogram
from dpsdk.errors import Closed, PublicSizeRequired
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

RUNS = [
    pytest.param(case, neighbors, id=f"{case.name}, {neighbors.value}", marks=marks)
    for cases, neighbors, marks in (
        (CASES, Neighbors.REPLACE_ONE, ()),
        (CASES, Neighbors.ADD_REMOVE, pytest.mark.audit),
        (OF_TWO_ROWS, Neighbors.ADD_REMOVE, pytest.mark.audit),
    )
    for case in cases
    if not case.slow
]
ROWS = 12


def columns_of(case: Case) -> dict[str, list[object]]:
    """Rows of which one is outside."""
    generator = np.random.default_rng(11)
    drawn = {
        one.name: [one.label(int(place)) for place in generator.integers(0, one.size, ROWS - 1)]
        for one in case.domain.attributes
    }
    return {name: [*labels, None] for name, labels in drawn.items()}


def outcome(case: Case, data: PrivateData) -> Hashable:
    """What is released, or why nothing is where the number of rows decides about that."""
    try:
        return case.build(case.parameters[-1])(data, seeded(5))
    except (Closed, PublicSizeRequired) as refused:
        return type(refused), str(refused)


@pytest.mark.parametrize(("case", "neighbors"), RUNS)
def test_a_release_is_the_same_by_either_mode(case, neighbors):
    given = {"neighbors": neighbors, "unit_rows": case.unit_rows, "max_rows": ROWS}
    frame = pl.DataFrame(columns_of(case))
    memory = PrivateData.from_frame(frame, case.domain, **given)
    engine = PrivateData.from_frame(frame, case.domain, collect="marginals", **given)
    assert type(open_histogram(engine)) is EngineCounts
    assert outcome(case, memory) == outcome(case, engine)


PEOPLE = [None, "a", "b", "b", "b", "c", "a", "b", "d", "d", "e", "b"]


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.audit if place else ())
        for place, case in enumerate(case for case in OF_TWO_ROWS if not case.slow)
    ],
)
def test_a_release_about_people_is_the_same_by_either_mode(case, distinct):
    unit = PrivacyUnit("whose", max_rows=case.unit_rows, distinct=distinct)
    frame = pl.DataFrame({**columns_of(case), "whose": PEOPLE})
    memory, engine = (
        PrivateData.from_frame(one, case.domain, collect=collect, unit=unit, max_rows=ROWS)
        for one, collect in ((frame.to_arrow(), "histogram"), (frame.lazy(), "marginals"))
    )
    assert type(open_histogram(engine)) is EngineCounts
    assert outcome(case, memory) == outcome(case, engine)
