"""What runs at the same time find in a directory; and numbers below nought, as they are written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from dpsdk import Binned, Domain, Integer, PrivateData
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


NEGATIVE = ["-1000", "-1e3", "-1E-3", "-.5", "-1/3", "-inf", "-NaN"]
BESIDE = {
    "--epsilon": [],
    "--error": [],
    "--delta": ["--epsilon", "1"],
    "--beta": ["--epsilon", "1"],
    "--marginals": ["--epsilon", "1"],
    "--max-rows": ["--epsilon", "1"],
    "--unit-rows": ["--epsilon", "1"],
    "--rows": ["--epsilon", "1", "--dry-run"],
    "--max-rows-per-person": ["--epsilon", "1", "--counts", "--unit", "age"],
    "--cap": ["--epsilon", "1", "--ledger", "l.db", "--name", "n"],
    "--cap-delta": ["--epsilon", "1", "--ledger", "l.db", "--name", "n", "--cap", "1"],
}
"""Every option of `release` that takes a number, and what it has to come with."""


@pytest.mark.parametrize(
    ("option", "number"),
    [*((option, "-1e3") for option in BESIDE), *(("--epsilon", number) for number in NEGATIVE)],
)
def test_a_number_below_nought_is_refused_as_what_it_is(folder, capsys, option, number):
    given = ["release", "table.csv", "--domain", "domain.json", "--out", "out"]
    before = sorted(folder.iterdir())
    assert main([*given, *BESIDE[option], option, number]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith(f"dpsdk: {option} must be ")
    assert "; got " in printed.err
    assert sorted(folder.iterdir()) == before


def test_a_domain_may_begin_below_nought(folder, capsys):
    given = ["--integer", "age", "-1e3", "-1", "--binned", "debt", "-1e3", "-.5", "-1E-3", "1e3"]
    assert main(["domain", *given]) == 0
    declared = Domain.from_json(capsys.readouterr().out)
    assert declared == Domain(
        Integer("age", -1000, -1), Binned("debt", [-1000, -0.5, -0.001, 1000])
    )


@pytest.mark.parametrize("number", ["-1/3", "-inf", "-nan"])
def test_what_is_no_number_of_a_domain_is_told_of_it(folder, capsys, number):
    assert main(["domain", "--integer", "age", number, "9"]) == 2
    assert f"bounds of 'age' must be whole numbers; got '{number}'" in capsys.readouterr().err
    assert main(["domain", "--binned", "debt", number, "9"]) == 2
    assert f"edges of 'debt' must be numbers; got '{number}'" in capsys.readouterr().err


def test_an_option_that_nobody_knows_is_still_one(folder, capsys):
    given = ["release", "table.csv", "--domain", "domain.json", "--out", "out", "--error"]
    for unknown in ("-epsilon", "-x", "-i"):
        with pytest.raises(SystemExit):
            main([*given, unknown])
        assert "--error: expected one argument" in capsys.readouterr().err
