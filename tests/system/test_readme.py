import csv
import gzip
import re
import shlex
from pathlib import Path

import pytest

from dpsdk import Domain
from dpsdk.__main__ import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTENTS = (ROOT / "docs" / "contents.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.thorough
def test_the_first_program_runs_as_printed(monkeypatch, capsys):
    programs = blocks("python")
    assert len(programs) == 1
    monkeypatch.chdir(ROOT)
    names = {}
    exec(compile(programs[0], "README.md", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    assert isinstance(names["share"], float)
    assert "asked for epsilon 5" in printed
    assert "in 3 charges" in printed


def test_two_lines_set_up_a_fresh_machine():
    lines = blocks("sh")[0].splitlines()
    assert len(lines) == 2
    for line, package, last in zip(
        lines, [".", ".[test]"], ["-m dpsdk demo", "-m pytest -n 2"], strict=True
    ):
        create, install, run = [shlex.split(part) for part in line.split("&&")]
        assert create[:3] == ["python3", "-m", "venv"]
        place = create[3]
        assert install[0] == f"{place}/bin/pip"
        assert install[-1] == package
        assert run == [f"{place}/bin/python", *last.split()]


def test_the_command_that_releases_tables_works(monkeypatch, tmp_path, capsys):
    (line,) = [line for line in README.splitlines() if line.startswith("python -m dpsdk release")]
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(line)[3:]
    arguments[arguments.index("--out") + 1] = str(tmp_path / "tables")
    assert main(arguments) == 0
    assert "28 tables" in capsys.readouterr().out
    assert len(list((tmp_path / "tables").glob("*.csv"))) == 28


@pytest.mark.parametrize("page", ["README.md", "docs/examples/README.md"])
def test_links_lead_to_files_that_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links or page != "README.md"
    for link in links:
        assert ((ROOT / page).parent / link).exists(), link


def test_it_is_short():
    assert len(README.split()) < 900


def test_files_that_commands_name_exist():
    for named in re.findall(r"(?:tests|docs)/[\w/.-]+\.\w+|\.ci/run", README):
        assert (ROOT / named).is_file(), named


def test_names_in_the_readme_are_public():
    import dpsdk
    from dpsdk import accounting, mechanisms, planner, queries, sklearn, testing

    public = {
        name
        for module in (accounting, mechanisms, planner, queries, sklearn, dpsdk)
        for name in module.__all__
    }
    for kind in (dpsdk.PrivateData, dpsdk.Release):
        public |= {name for name in dir(kind) if not name.startswith("_")}
    public |= {*testing.__all__, "MarginalTable", "wire", "logging"}
    table = CONTENTS[CONTENTS.index("| Queries |") : CONTENTS.index("| Typing |")]
    short = README[README.index("| Queries |") : README.index("| Answers |")]
    for name in re.findall(r"`(?:\w+\.)*(\w+)(?:\([^`]*\))?`", table + short):
        assert name in public, name


def test_every_row_of_the_example_lies_in_its_domain():
    domain = Domain.load(ROOT / "docs/examples/adult-domain.json")
    with gzip.open(ROOT / "docs/examples/adult.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == domain.names
    assert len(rows) == 48_842
    for place, name in enumerate(header):
        texts = {domain[name].text(index) for index in range(domain[name].size)}
        assert (
            {row[place] for row in rows} == texts
            if domain[name].kind == "categorical"
            else ({row[place] for row in rows} <= texts)
        )


def test_the_example_is_packed_reproducibly():
    packed = (ROOT / "docs/examples/adult.csv.gz").read_bytes()
    assert packed[3] & 0x08 == 0  # no file name
    assert packed[4:8] == bytes(4)  # no time
