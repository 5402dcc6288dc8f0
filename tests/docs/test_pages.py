"""Pages that say something of each of many things say it of all of them."""

import re
from pathlib import Path

from dpsdk import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def test_the_page_on_refusals_tells_of_every_error():
    told = text_of("how-to/read-a-refusal.md")
    assert not [name for name in errors.__all__ if f"`{name}`" not in told]


def test_the_page_on_benchmarks_tells_of_every_program():
    told = text_of("explanation/benchmarks.md")
    programs = {path.name for path in (ROOT / "tests/bench").glob("bench_*.py")}
    assert programs == set(re.findall(r"`(bench_\w+\.py)", told))


def test_one_command_runs_every_benchmark():
    told = (ROOT / "tests/bench/__main__.py").read_text(encoding="utf-8")
    programs = {path.stem for path in (ROOT / "tests/bench").glob("bench_*.py")}
    assert programs == {f"bench_{name}" for name in re.findall(r'\bBenchmark\(\s*"(\w+)"', told)}


def test_every_guide_is_listed_by_what_it_is_for():
    index = text_of("how-to/index.md")
    listed = set(re.findall(r"^- \[[^\]]+\]\((\S+)\.md\): ", index, re.MULTILINE))
    # Those of each library to come from are listed by a page of their own.
    guides = {path.stem for path in (DOCS / "how-to").glob("*.md") if "migrate-" not in path.name}
    assert listed == guides - {"index"}


def test_pictures_of_the_tutorial_are_there_for_light_and_dark():
    told = text_of("tutorial/report.md")
    drawn = told.count("\nfigure = plots.")
    names = {style: re.findall(rf"image}} (\w+)-{style}\.svg", told) for style in ("light", "dark")}
    assert drawn == len(names["light"]) > 0
    assert names["light"] == names["dark"]
    files = {path.name for path in (DOCS / "tutorial").glob("*.svg")}
    assert files == {f"{name}-{style}.svg" for style in names for name in names[style]}


def test_modules_and_tests_that_pages_name_are_there():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "tests" / "README.md"]
    for page in pages:
        for path in re.findall(r"(?<![\w/])(?:tests|dpsdk)/[\w/]+\.py", page.read_text("utf-8")):
            assert (ROOT / path).exists(), (page.name, path)
