"""Numbers below nought on the command line, however they are written."""

import pytest

from dpsdk import Binned, Domain, Integer
from dpsdk.__main__ import main

pytestmark = pytest.mark.thorough

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


@pytest.fixture
def folder(ages, monkeypatch):
    monkeypatch.chdir(ages)
    return ages


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
