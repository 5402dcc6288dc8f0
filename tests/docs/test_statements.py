"""The page on statements of the literature: all of them are there, and so is what it names."""

import ast
import re
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

import dpsdk

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/statements.md").read_text("utf-8")
NUMBERED = {
    "Wang": "Lemma 12.1-2 Theorem 12.3-4 Corollary 12.5-5 Theorem 12.6-6 Algorithm 1-6",
    "Machanavajjhala": "Claim 1-3",
    "Ullman": """Definition 2.1-4 Theorem 3.1-1 Claim 3.2-3 Lemma 3.4-4 Claim 3.5-7 Theorem 3.8-10
        Theorem 4.1-6 Figure 1-4""",
    "Dwork and Roth": """Example 4.1-1 Algorithm 4-6 Proposition 4.1-1 Theorem 4.2-2 Lemma 4.3-3
        Proposition 4.4-4 Theorem 4.5-6 Definition 4.1-2 Lemma 4.7-7 Theorem 4.8-10
        Proposition 4.11-11 Lemma 4.12-12 Theorem 4.13-15""",
}
"""What each document numbers, by the first words of its section."""


def expected(ranges):
    """The statements of some ranges, such as `Lemma 12.1-2`."""
    for kind, prefix, first, last in re.findall(r"(\w+) (\d+\.)?(\d+)-(\d+)", ranges):
        yield from (f"{kind} {prefix}{number}" for number in range(int(first), int(last) + 1))


def sections():
    return {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}


def rows():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for line in lines:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[0] not in ("Statement", "---"):
            yield cells


ROWS = list(rows())


@cache
def defined_in(path):
    found = ast.parse((ROOT / path).read_text("utf-8")).body
    return {node.name for node in found if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("document", NUMBERED)
def test_every_numbered_statement_has_a_row(document):
    (section,) = [text for title, text in sections().items() if title.startswith(document)]
    heads = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
    told = [name for head in heads for name in re.findall(r"[A-Z]\w+ [\d.]*\d", head)]
    wanted = list(expected(NUMBERED[document]))
    assert len(wanted) >= 3
    numbered = {name for name in told if name.split()[0] in NUMBERED[document]}
    assert sorted(numbered) == sorted(wanted)


def test_there_is_a_section_for_each_document():
    assert len(sections()) == len(NUMBERED) + 1  # that on MW-EM numbers nothing


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_names_is_there(row):
    assert len(row) == 5, row
    _, _, call, tests, _ = row
    for name in re.findall(r"`([\w.]+)`", call):
        assert attrgetter(name)(dpsdk) is not None
    assert "`" in call or call.startswith("not in the library: ")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
    assert len(named) == tests.count("`") / 2
    assert named or ("`" not in call and tests == "none")
    assert [f"{path}::{name}" for path, name in named if name not in defined_in(path)] == []
    assert all(name.startswith("test_") for _, name in named)


def test_calls_are_public():
    names = {name for row in ROWS for name in re.findall(r"`([\w.]+)`", row[2])}
    split = [name.split(".") for name in names if "." in name]
    assert len(split) > 40
    assert [one for one in split if one[1] not in getattr(dpsdk, one[0]).__all__] == []
