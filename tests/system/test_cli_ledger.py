"""The ledger on the command line."""

import os
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.__main__ import main
from dpsdk.accounting import FileAnchor, Odometer, RenyiComposition, SQLiteLedger
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 9), Integer("size", 0, 3))


@pytest.fixture
def folder(quick_disk):
    lines = ["age,size", *(f"{i % 10},{i % 4}" for i in range(50))]
    (quick_disk / "table.csv").write_text("\n".join(lines) + "\n")
    DOMAIN.save(quick_disk / "domain.json")
    (quick_disk / "key").write_bytes(bytes(range(32)))
    return quick_disk


def release(folder, out, *words):
    return main(
        ["release", str(folder / "table.csv"), "--domain", str(folder / "domain.json"),
         "--out", str(folder / out), *words]
    )  # fmt: skip


def test_a_release_spends_what_earlier_runs_left(folder, capsys):
    ledger = ("--ledger", str(folder / "spent.db"), "--key", str(folder / "key"))
    ledger = (*ledger, "--anchor", str(folder / "anchor"), "--epsilon", "1", "--name", "people")
    data = PrivateData.from_csv(folder / "table.csv", DOMAIN, name="people")
    kept = SQLiteLedger(
        folder / "spent.db", key=bytes(range(32)), anchor=FileAnchor(folder / "anchor")
    )
    session = Session(data, Budget(1), ledger=kept)
    session.answer(Count(), using=Laplace("0.25"), request_id="a7")
    assert release(folder, "one", *ledger) == 0
    assert "remembers that" in capsys.readouterr().out
    assert session.spent.epsilon == 1
    assert [charge.session for charge in kept.dataset("people").charges()] == [1, 2]
    assert kept.dataset("people").charges()[1].guarantee.epsilon <= Fraction(3, 4)
    assert release(folder, "two", *ledger) == 2
    assert "spent" in capsys.readouterr().err
    assert not (folder / "two").exists()
    # Another budget is no way around.
    assert release(folder, "two", *ledger, "--epsilon", "2") == 2
    assert "bound to the budget" in capsys.readouterr().err


def test_a_ledger_takes_a_named_table_and_private_noise(folder, capsys):
    words = ["--ledger", str(folder / "spent.db"), "--epsilon", "1"]
    assert release(folder, "one", *words) == 2
    assert "--name" in capsys.readouterr().err
    assert not (folder / "spent.db").exists()
    table = ["release", str(folder / "table.csv"), "--domain", str(folder / "domain.json")]
    arguments = [*table, "--out", str(folder / "one"), *words, "--name", "people"]
    assert main(arguments, noise=seeded(1)) == 2
    assert "private" in capsys.readouterr().err


def test_a_ledger_is_shown_and_verified(folder, capsys):
    path = folder / "spent.db"
    assert main(["ledger", "show", str(path)]) == 2
    assert "FILE" in capsys.readouterr().err
    assert not path.exists()
    data = PrivateData.from_csv(folder / "table.csv", DOMAIN, name="people")
    session = Session(data, Budget(1), ledger=SQLiteLedger(path))
    assert main(["ledger", "show", str(path)]) == 0
    capsys.readouterr()
    with session.scope("weekly", "0.5", reserve=True) as scope:
        scope.answer(Count(), using=Laplace("0.25"), request_id="a7")
        assert main(["ledger", "show", str(path)]) == 0
    said = capsys.readouterr().out
    for words in (
        "people (replace-one",
        "25%",
        "'weekly': 1 charges, reserved",
        "request 'a7'",
        "scope 'weekly': Count",
    ):
        assert words in said
    before = path.read_bytes()
    assert main(["ledger", "verify", str(path)]) == 0
    said = capsys.readouterr().out
    assert "entries of 1 table," in said
    assert "without a key" in said
    assert "without an anchor" in said
    assert path.read_bytes() == before
    assert main(["ledger", "verify", str(path), "--key", str(folder / "key")]) == 2
    assert "not as it was written" in capsys.readouterr().err
    os.truncate(path, 4096)
    assert main(["ledger", "verify", str(path)]) == 2
    assert "not as it was written" in capsys.readouterr().err


def test_a_release_may_spend_a_part_of_the_budget_in_the_ledger(folder, capsys):
    words = ("--ledger", str(folder / "spent.db"), "--name", "people")
    words = (*words, "--cap", "1", "--marginals", "1")
    assert release(folder, "one", *words, "--epsilon", "0.4") == 0
    assert "40% of 1-DP is spent, by all runs" in capsys.readouterr().out
    assert release(folder, "two", *words, "--epsilon", "0.4") == 0
    assert "80% of 1-DP" in capsys.readouterr().out
    # What does not fit is refused, and not made smaller.
    assert release(folder, "three", *words, "--epsilon", "0.4") == 2
    assert "20% of 1-DP is left" in capsys.readouterr().err
    assert not (folder / "three").exists()
    assert release(folder, "three", *words, "--epsilon", "0.2") == 0
    ledger = SQLiteLedger(folder / "spent.db").dataset("people")
    assert ledger.read().binding.budget == Budget(1)
    charged = [charge.guarantee.epsilon for charge in ledger.charges()]
    assert charged == [Fraction(2, 5), Fraction(2, 5), Fraction(1, 5)]


@pytest.mark.parametrize("method", ["independent", "local"])
def test_a_part_with_a_delta_costs_what_it_would_cost_alone(folder, capsys, method):
    words = ("--name", "people", "--marginals", "1", "--method", method, "--epsilon", "0.5")
    words = (*words, "--delta", "1e-7")
    kept = ("--ledger", str(folder / "spent.db"), "--cap", "2", "--cap-delta", "1e-6")
    for out in ("one", "two"):
        assert release(folder, out, *words, *kept) == 0
    capsys.readouterr()
    ledger = SQLiteLedger(folder / "spent.db").dataset("people")
    for session in (1, 2):
        runs = [one.guarantee for one in ledger.charges() if one.session == session]
        assert runs
        assert Odometer(Budget("0.5", "1e-7")).affords_all(runs) == 1
    assert ledger.read().binding.budget == Budget(2, "1e-6")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--epsilon", "0.5", "--cap", "1"), "--cap"),
        (("--epsilon", "0.5", "--cap-delta", "0.1"), "--cap-delta"),
        (("--epsilon", "2", "--cap", "1", "--ledger", "LEDGER"), "--epsilon"),
        (("--epsilon", "1", "--delta", "0.1", "--cap", "1", "--cap-delta", "0.01", "--ledger",
          "LEDGER"), "--delta"),
        (("--epsilon", "1", "--cap", "much", "--ledger", "LEDGER"), "--cap"),
        (("--epsilon", "1", "--cap", "1", "--cap-delta", "2", "--ledger", "LEDGER"), "--cap-delta"),
        (("--epsilon", "1", "--schema", "x", "--ledger", "LEDGER"), "--schema"),
    ],
)  # fmt: skip
def test_caps_that_make_no_sense_are_refused_by_name(folder, capsys, words, option):
    words = [str(folder / "spent.db") if word == "LEDGER" else word for word in words]
    assert release(folder, "one", *words, "--name", "people") == 2
    assert f"{option} " in capsys.readouterr().err
    assert not (folder / "one").exists()
    assert not (folder / "spent.db").exists()


def test_a_composition_is_shown_in_words(folder, capsys):
    data = PrivateData.from_csv(folder / "table.csv", DOMAIN, name="people")
    ledger = SQLiteLedger(folder / "spent.db")
    Session(data, Budget(1, "1e-6"), ledger=ledger)
    Session(
        PrivateData.from_csv(folder / "table.csv", DOMAIN, name="others"),
        Budget(1, "1e-6"),
        composition=RenyiComposition(30),
        ledger=ledger,
    )
    assert main(["ledger", "show", str(folder / "spent.db")]) == 0
    said = capsys.readouterr().out
    assert "whichever fits of basic composition, " in said
    assert "mixed composition (0.3% of delta), 0.2% of delta kept for leaks" in said
    assert "Rényi composition of order 30" in said
    for raw in ("AnyOf", "Fraction", "members="):
        assert raw not in said


def held(folder):
    """All files, and when each was written last."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def foreign(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


NOTHING = "FILE must be a ledger that is there; got {place}: nothing in it"


@pytest.mark.parametrize("action", ["show", "verify"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent.db", "FILE must be a ledger that is there; got {place}: none"),
        ("nowhere/absent.db", "FILE must be a ledger that is there; got {place}: none"),
        ("empty.db", NOTHING),
        ("blank.db", NOTHING),
        ("place", "the ledger {place} cannot be used: it is no file"),
        ("words.db", "{place} is not as it was written: SQLite says: file is not a database"),
        ("short.db", "{place} is not as it was written: SQLite says: "),
        ("theirs.db", "{place} is not as it was written: it is no ledger of dpsdk"),
        ("log.db", "{place} is not as it was written: it is no ledger of dpsdk"),
    ],
)
def test_who_looks_at_a_ledger_writes_none(folder, capsys, action, name, words):
    (folder / "place").mkdir()
    (folder / "empty.db").touch()
    (folder / "words.db").write_text("what is no database\n" * 500)
    foreign(folder / "blank.db", "VACUUM")
    foreign(folder / "theirs.db", "CREATE TABLE a (b)")
    foreign(folder / "log.db", "PRAGMA journal_mode = wal", "CREATE TABLE a (b)")
    SQLiteLedger(folder / "whole.db")
    (folder / "short.db").write_bytes((folder / "whole.db").read_bytes()[:5000])
    before = held(folder)
    assert main(["ledger", action, str(folder / name)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words.replace("{place}", str(folder / name)) in printed.err
    assert held(folder) == before


def test_a_dry_run_makes_no_ledger_of_an_empty_file(folder, capsys):
    path = folder / "empty.db"
    path.touch()
    before = held(folder)
    words = ["--ledger", str(path), "--name", "people", "--epsilon", "1"]
    assert release(folder, "one", *words, "--dry-run", "--rows", "50") == 0
    assert "empty.db would be made, with 1-DP for the table" in capsys.readouterr().out
    assert held(folder) == before
    # So it is.
    assert release(folder, "one", *words) == 0
    assert SQLiteLedger(path).datasets == ("people",)
