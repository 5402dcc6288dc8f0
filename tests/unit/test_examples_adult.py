"""The example table is the packaged file, declared as the caller says."""

import subprocess
import sys
from pathlib import Path

import pytest

import dpsdk
from dpsdk import Domain, Neighbors, examples
from dpsdk.data import PrivateData
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
