"""The example table is the packaged file, declared as the caller says; others are made up."""

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

import dpsdk
from dpsdk import (
    Binned,
    Boolean,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    Number,
    examples,
)
from dpsdk.data import PrivateData
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError, InvalidArgument

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_the_example_is_the_table_of_the_documentation():
    data = examples.adult()
    assert type(data) is PrivateData
    assert data.domain == Domain.load(EXAMPLES / "adult-domain.json")
    assert (data.name, data.facts.rows, data.neighbors) == ("adult", 48_842, Neighbors.REPLACE_ONE)


def test_the_example_is_declared_as_one_likes():
    data = examples.adult(
        name="census", neighbors=Neighbors.ADD_REMOVE, outside="clip", max_rows=50_000, unit_rows=2
    )
    facts = data.facts
    assert (data.name, facts.rows, facts.row_limit, facts.unit_rows) == ("census", None, 50_000, 2)
    with pytest.raises(DataError, match="max_rows=10"):
        examples.adult(max_rows=10)
    with pytest.raises(InvalidArgument, match="unit_rows"):
        examples.adult(unit_rows=0)


@pytest.mark.audit
def test_the_example_is_found_by_the_name_of_the_package_and_loaded_only_then():
    assert dpsdk.examples is examples
    program = (
        "import sys, dpsdk\n"
        "assert 'dpsdk.examples' not in sys.modules\n"
        "assert dpsdk.examples.adult.__name__ == 'adult'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


EVERYTHING = Domain(
    Integer("age", 17, 18),
    Binned("bin", [0, 1, 2.5]),
    Categorical("code", ["a", 3]),
    Boolean("truth"),
    Date("day", date(2024, 1, 1), date(2024, 1, 2)),
    Number("paid", 0, 1, step="0.5"),
    Number("far", 2**61, 2**61 + 1, outside="other"),
)


def test_a_made_up_table_is_of_its_domain_and_of_its_seed():
    table = examples.random(EVERYTHING.open(), 400, seed=1)
    assert table == examples.random(EVERYTHING.open(), 400, seed=1)
    assert table != examples.random(EVERYTHING.open(), 400, seed=2)
    for attribute in EVERYTHING:
        values = table[attribute.name]
        labels = {attribute.label(cell) for cell in range(attribute.known)}
        if attribute.kind == "binned":
            labels = {value for value in values if value is not None and value <= 2.5}
        assert labels < set(values)
        others = [value for value in values if value not in labels]
        assert {values.count(None), len(others) - values.count(None)} <= set(range(5, 50))


def test_extra_values_of_a_made_up_table_fall_into_their_cells():
    domain = EVERYTHING.open()
    table = examples.random(domain, 400, seed=1)
    histogram = open_histogram(PrivateData.from_columns(table, domain))
    for name, values in table.items():
        other, missing = (
            histogram.table((name,)).ravel()[domain[name].known :][:2].astype(int).tolist()
        )
        assert missing == values.count(None)
        assert other in range(5, 50)


def test_a_made_up_table_of_a_closed_domain_has_a_cell_for_every_row():
    table = examples.random(EVERYTHING, 50)
    data = PrivateData.from_columns(table, EVERYTHING, outside="raise")
    assert data.facts.rows == 50
    with pytest.raises(InvalidArgument, match="rows"):
        examples.random(EVERYTHING, 0)
