"""Budgets that renew, on the command line."""

import json
from datetime import date, timedelta

import pytest

from dpsdk import Budget, Categorical, Date, Domain, Periods, PrivateData, Session
from dpsdk.__main__ import main
from dpsdk.accounting import SQLiteLedger
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count

MAY = date(2026, 5, 1)
DOMAIN = Domain(Date("visited", MAY, date(2026, 5, 30)), Categorical("ward", ["A", "B"]))
KEPT = ("--name", "visits", "--cap", "1", "--epsilon", "0.6")


@pytest.fixture
def folder(quick_disk):
    lines = [f"{MAY + timedelta(days=number // 9)},{'AB'[number % 2]}" for number in range(270)]
    (quick_disk / "table.csv").write_text("\n".join(["visited,ward", *lines]) + "\n")
    DOMAIN.save(quick_disk / "domain.json")
    return quick_disk


def release(folder, out, *words):
    return main(
        ["release", str(folder / "table.csv"), "--domain", str(folder / "domain.json"),
         "--out", str(folder / out), "--counts", *words]
    )  # fmt: skip


def test_a_week_is_released_and_pays_and_what_is_left_is_shown(folder, capsys):
    kept = ("--periods", "visited", "--ledger", str(folder / "spent.db"), *KEPT)
    week = (*kept, "--between", "2026-05-01..2026-05-07")
    assert release(folder, "dry", *week, "--dry-run") == 0
    dry = capsys.readouterr().out
    assert "1 table with 14 entries" in dry
    assert release(folder, "week", *week) == 0
    said = capsys.readouterr().out
    for told in (dry, said):
        assert "1-DP is for the rows of one period of 'visited'" in told
        assert "in each of 7 periods" in told
    assert "60% of 1-DP is spent, by all runs on the ledger, of the most spent period" in said
    summary = json.loads((folder / "week" / "release.json").read_text())
    assert summary["data"]["between"] == "2026-05-01..2026-05-07"
    registry = json.loads((folder / "week" / "metadata.json").read_text())
    loss = registry["deployment"]["privacy_loss"]
    assert "who has rows in j of them" in loss["privacy_parameters_details"]
    assert "of one period of 'visited'" in loss["privacy_unit_details"]
    # Days refuse by themselves, in a dry run as well.
    for more in ((), ("--dry-run",)):
        assert release(folder, "more", *kept, "--between", "..2026-05-09", *more) == 2
        error = capsys.readouterr().err
        assert "7 periods of 'visited', the first 2026-05-01" in error
        assert "2026-05-08 to 2026-05-09" in error
    assert release(folder, "more", *kept, "--between", "2026-05-08..") == 0
    # The library and the command line share the periods.
    data = PrivateData.from_csv(
        folder / "table.csv", DOMAIN, name="visits", periods=Periods("visited", days=1)
    )
    session = Session(data, Budget(1), ledger=SQLiteLedger(folder / "spent.db"))
    session.between(MAY, MAY).answer(Count(normalized=False), using=Laplace("0.25"))
    capsys.readouterr()
    assert main(["ledger", "show", str(folder / "spent.db")]) == 0
    shown = capsys.readouterr().out
    for words in (
        "until 2026-04-30: 0% spent, 100% left",
        "    2026-05-01: 85% spent, 15% left",
        "2026-05-02 to 2026-05-30: 60% spent, 40% left",
        "from 2026-05-31 on: 0% spent",
        "of 2026-05-08 to 2026-05-30",
    ):
        assert words in shown
    assert release(folder, "weekly", *kept[2:], "--periods", "visited=7", "--between", "..") == 2
    assert "bound to the periods" in capsys.readouterr().err
    assert release(folder, "plain", *kept[2:], "--neighbors", "add-remove") == 2
    assert "periods" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--periods", "visited"), "--between must be given with --periods"),
        (("--between", ".."), "--between must be given with --periods; got"),
        (("--periods", "visited", "--between", "x..y"), "dates as 2026-05-01"),
        (("--periods", "visited", "--between", "2026-05-01"), "a first and a last time"),
        (("--periods", "visited", "--between", "2026-06-01.."), "2026-05-01 to 2026-05-30"),
        (("--periods", "visited", "--between", "2026-05-09..2026-05-08"), "at or after first"),
        (("--periods", "visited=0", "--between", ".."), "--periods must be"),
        (("--periods", "visited=x", "--between", ".."), "--periods must be a whole number"),
        (("--periods", "ward", "--between", ".."), "--periods must be by a Date"),
        (("--periods", "when", "--between", ".."), "'when'"),
        (("--periods", "visited", "--between", "..", "--neighbors", "replace-one"), "add-remove"),
        (("--periods", "visited", "--between", "..", "--rows", "9", "--dry-run"), "--rows"),
    ],
)
def test_what_is_no_time_is_refused_in_words(folder, capsys, words, told):
    assert release(folder, "out", "--epsilon", "1", *words) == 2
    assert told in capsys.readouterr().err.replace("Neighbors.ADD_REMOVE", "add-remove")
    assert not (folder / "out").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["independent", "local"])
def test_an_error_for_some_weeks_is_priced_alone(folder, capsys, method):
    price = ("--error", "30") if method == "independent" else ("--epsilon", "1")
    words = ("--periods", "visited=7", "--delta", "1e-6", "--method", method, *price)
    words = (*words, "--between", "2026-05-04..2026-05-20", "--outside", "apart")
    assert release(folder, "out", *words) == 0
    assert "periods on" in capsys.readouterr().out
