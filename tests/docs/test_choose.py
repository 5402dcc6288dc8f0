"""The tables of which mechanism for which question are what the planner says."""

import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpsdk import Neighbors

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parents[2] / "docs" / "how-to" / "choose.py"
QUICK = ("one count", "one sum", "one table of 32 cells", "whether a count is above a level")


@pytest.fixture(scope="module")
def choose():
    spec = importlib.util.spec_from_file_location("choose", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["choose"] = module  # where attrs looks for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["choose"]


def test_the_page_says_of_some_questions_what_the_planner_does(choose):
    page = choose.PAGE.read_text(encoding="utf-8")
    for mode in choose.MODES:
        _, table, _ = choose.marked(page, mode)
        lines = table.strip().splitlines()
        assert lines[:2] == list(choose.lines(mode, ()))
        assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == list(
            choose.QUESTIONS
        )
        for name in QUICK:
            assert choose.row(name, mode) in lines, "run docs/how-to/choose.py --write"


@pytest.mark.audit
def test_the_page_says_of_all_questions_what_the_planner_does(choose):
    page = choose.PAGE.read_text(encoding="utf-8")
    assert choose.written(page) == page, "run docs/how-to/choose.py --write"


def test_a_stale_table_is_found_out(choose):
    text = "before\n<!-- promised -->\nold\n<!-- end of promised -->\nafter"
    before, table, after = choose.marked(text, "promised")
    assert (table, before + table + after) == ("old\n", text)
    with pytest.raises(ValueError, match="expected"):
        choose.marked(text, "expected")


@pytest.mark.parametrize(
    ("name", "delta", "relation", "epsilon", "best"),
    [
        # As measured in docs/how-to/choose-a-mechanism.md, in largest errors.
        ("one count", 0, Neighbors.REPLACE_ONE, "0.1", "`Laplace`"),
        ("all thresholds of 74 cells", 0, Neighbors.ADD_REMOVE, "1", "`Tree`"),
        ("all pairs and triples of 6", "1e-9", Neighbors.REPLACE_ONE, "1", "`ResidualPlanner`"),
        pytest.param(
            *("100 rectangles", "1e-9", Neighbors.REPLACE_ONE, "0.1", "`Gaussian`"),
            marks=pytest.mark.audit,
        ),
    ],
)
def test_promises_the_least_where_that_was_measured(choose, name, delta, relation, epsilon, best):
    found = choose.choices(name, Fraction(epsilon), Fraction(delta), relation)
    assert found["promised"].words == best
