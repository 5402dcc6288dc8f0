"""Every example of the documentation runs, and prints what the page says it prints.

The Python blocks of one page share one namespace, in order. A `text` block right after a Python
block is the output of that block, to the letter.
"""

import doctest
import inspect
import io
import pkgutil
import re
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest

import dpsdk

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page):
    """The fenced blocks of a page: language, text, line, and whether the one before ends there."""
    text = page.read_text(encoding="utf-8")
    found, end = [], 0
    for match in FENCE.finditer(text):
        adjacent = not text[end : match.start()].strip()
        line = text.count("\n", 0, match.start("body"))
        found.append((match["info"].strip(), match["body"], line, adjacent))
        end = match.end()
    return found


OF_ENGINES = {"how-to/spark.md"}
"""Pages that need an engine, which tests/platforms/test_pages_of_engines.py runs."""

ELSEWHERE = OF_ENGINES | {"how-to/from-csv-to-report.md"}
"""These, and what goes on between commands, which test_from_csv.py runs."""


def pages_with_examples():
    pages = [p for p in sorted(DOCS.rglob("*.md")) if str(p.relative_to(DOCS)) not in ELSEWHERE]
    return [page for page in pages if any(kind == "python" for kind, *_ in blocks(page))]


NEEDS = {"how-to/opendp.md": "opendp.prelude"}
"""What else must be installed for the examples of a page."""


def modules():
    walked = pkgutil.walk_packages(dpsdk.__path__, "dpsdk.")
    return ["dpsdk", *sorted(m.name for m in walked if not m.name.endswith("__main__"))]


def run(page):
    """Execute a page; return pairs of what was printed and what the page says was printed."""
    namespace = {"__name__": "page"}
    pairs, printed, previous = [], "", ""
    for kind, body, line, adjacent in blocks(page):
        if kind == "python":
            # Empty lines in front make the line numbers of errors those of the page.
            code = compile("\n" * line + body, str(page), "exec")
            with redirect_stdout(io.StringIO()) as out:
                exec(code, namespace)  # noqa: S102
            printed = out.getvalue()
        elif kind == "text" and previous == "python" and adjacent:
            pairs.append((printed, body))
        previous = kind
    return pairs


def tiers(pages):
    """Give all pages, of which every run reads the tutorial."""
    return [
        pytest.param(
            page,
            id=str(page.relative_to(DOCS)),
            marks=() if page.parent.name == "tutorial" else pytest.mark.thorough,
        )
        for page in pages
    ]


@pytest.mark.parametrize("page", tiers(pages_with_examples()))
def test_a_page_runs_and_prints_what_it_says(page, monkeypatch):
    if needed := NEEDS.get(str(page.relative_to(DOCS))):
        pytest.importorskip(needed)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])  # which a page may add to
    for printed, said in run(page):
        assert printed.rstrip() == said.rstrip()


def test_a_page_whose_output_differs_is_found_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert run(page) == [("2\n", "3\n")]


@pytest.mark.thorough
def test_the_examples_of_docstrings_hold():
    told = [name for name in modules() if ">>>" in inspect.getsource(import_module(name))]
    found = {name: doctest.testmod(import_module(name)) for name in told}
    assert not [name for name, (failed, _) in found.items() if failed]
    assert sum(attempted for _, attempted in found.values()) > 20
    assert len(pages_with_examples()) > 10


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("own-mechanism", marks=pytest.mark.audit),
        pytest.param("typed-clients", marks=pytest.mark.thorough),
    ],
)
def test_mypy_prints_what_a_page_on_types_shows(tmp_path, name):
    pytest.importorskip("mypy")
    page = DOCS / "how-to" / f"{name}.md"
    found = blocks(page)
    program = tmp_path / "program.py"
    program.write_text("\n".join(body for kind, body, *_ in found if kind == "python"))
    arguments = ["--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(program)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert said == [
        line for kind, body, *_ in found if kind == "console" for line in body.splitlines()
    ]
