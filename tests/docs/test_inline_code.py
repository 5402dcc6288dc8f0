"""Calls written within sentences and tables: their names and arguments exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PACKAGES = (
    "dpsdk", "dpsdk.accounting", "dpsdk.data", "dpsdk.hypothesis", "dpsdk.losses",
    "dpsdk.mechanisms", "dpsdk.planner", "dpsdk.plots", "dpsdk.queries", "dpsdk.sklearn",
    "dpsdk.wire",
)  # fmt: skip
FOREIGN = "migrate-"
"""Of pages on other libraries only the last cell of a row is ours."""


def _callables() -> dict[str, Callable[..., object]]:
    found: dict[str, Callable[..., object]] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("dpsdk"):
                found.setdefault(name, value)
    return found


OURS = _callables()


def _ours(page: Path, text: str) -> str:
    if not page.name.startswith(FOREIGN):
        return text
    rows = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    return "\n".join(row.replace(r"\|", "").rpartition("|")[2] for row in rows)


def _calls(page: Path) -> Iterator[ast.Call]:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`\n]+)`", _ours(page, text)):
        try:
            tree = ast.parse(span, mode="eval")
        except SyntaxError:  # words, a command, a part of an expression
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node


def _wrong(call: ast.Call) -> str | None:
    """What is wrong with a call of ours, if anything is. Positions may be left out by `...`."""
    assert isinstance(call.func, ast.Name)
    known = OURS.get(call.func.id)
    if known is None:
        return None
    parameters = inspect.signature(known).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    names = {one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY}
    given = {one.arg for one in call.keywords if one.arg is not None}
    return f"{ast.unparse(call)}: no {given - names}" if given - names else None


def test_the_calls_that_are_looked_at_are_many() -> None:
    calls = [call for page in PAGES for call in _calls(page)]
    assert sum(isinstance(call.func, ast.Name) and call.func.id in OURS for call in calls) > 120
    assert _wrong(ast.parse('PrivacyUnit("id", rows=2)', mode="eval").body)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_calls_in_sentences_have_arguments_that_exist(page: Path) -> None:
    assert [told for call in _calls(page) if (told := _wrong(call))] == []
