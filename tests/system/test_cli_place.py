"""One directory is written by one run: what two runs at a time find there."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from dpsdk import PrivateData
from dpsdk.__main__ import main
from dpsdk.accounting import SQLiteLedger
from dpsdk.cli import release as release_module

pytestmark = pytest.mark.thorough

TAKEN = "--out must be a directory that no other run writes to, or come with --force; got "


@pytest.fixture
def folder(ages, monkeypatch):
    monkeypatch.chdir(ages)
    return ages


def release(*options, out="out"):
    given = ["--domain", "domain.json", "--out", out, "--ledger", "l.db", "--name", "n"]
    return main(["release", "table.csv", *given, "--cap", "9", "--epsilon", "1", *options])


def charges():
    return len(SQLiteLedger("l.db").dataset("n").charges())


def files(folder):
    return {path.name for path in folder.rglob("*") if "l.db" not in path.name}


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_of_runs_at_the_same_time_one_pays(folder, capsys, monkeypatch, there):
    if there:
        (folder / "out").mkdir()
    checked, load = Barrier(4), PrivateData.from_csv

    def together(*given, **named):
        checked.wait(30)  # when all have looked at the place
        return load(*given, **named)

    monkeypatch.setattr(PrivateData, "from_csv", together)
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: release(), range(4)))
    assert sorted(codes) == [0, 2, 2, 2]
    assert charges() == 1
    assert capsys.readouterr().err.count(TAKEN) == 3
    assert (folder / "out" / "release.json").exists()
    assert not [name for name in files(folder) if "part" in name]


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
@pytest.mark.parametrize("dry", [[], ["--dry-run", "--rows", "180"]], ids=["", "dry"])
def test_who_comes_while_another_writes_is_told_so(folder, capsys, monkeypatch, there, dry):
    if there:
        (folder / "out").mkdir()
    choose = release_module.mechanism_for
    codes = []

    def meanwhile(*given):
        monkeypatch.undo()
        monkeypatch.chdir(folder)
        codes.append(release(*dry))
        return choose(*given)

    monkeypatch.setattr(release_module, "mechanism_for", meanwhile)
    assert release() == 0
    assert codes == [2]
    part = ".dpsdk.part" if there else ".dpsdk-out.part"
    printed = capsys.readouterr().err
    assert TAKEN in printed
    assert f"{part} is there" in printed
    assert charges() == 1


def test_what_was_written_just_before_is_seen(folder, capsys, monkeypatch):
    """After a run looked whether the place is there, and before it has it."""
    mkdir = Path.mkdir

    def late(place, *given, **named):
        if place.name == ".dpsdk-out.part":
            mkdir(folder / "out")
        mkdir(place, *given, **named)

    monkeypatch.setattr(Path, "mkdir", late)
    assert release() == 2
    assert "out, but it was written meanwhile" in capsys.readouterr().err
    assert charges() == 0
    assert files(folder) == {"table.csv", "domain.json", "out"}


def test_a_run_that_was_killed_is_told_of_and_can_be_passed_by(folder, capsys):
    (folder / ".dpsdk-out.part").mkdir()
    assert release() == 2
    assert ".dpsdk-out.part is there" in capsys.readouterr().err
    assert not (folder / "l.db").exists()
    assert release("--force") == 0
    assert charges() == 1


def test_a_place_above_a_new_one_is_refused_before_anything_is_paid(folder, capsys):
    before = files(folder)
    for force in ([], ["--force"]):
        assert release(*force, out="new/..") == 2
        assert "--out must be a directory, or the name of a new one" in capsys.readouterr().err
    assert not (folder / "l.db").exists()
    assert files(folder) == before


def test_places_of_long_names_do_not_get_in_each_others_way(folder):
    for last in "ab":
        assert release(out="x" * 240 + last) == 0
    assert charges() == 2
