"""What the command line reads whole: files and pipes of a size that fits, and no devices."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.__main__ import main
from dpsdk.accounting import FileAnchor, SQLiteLedger

DEVICE = Path("/dev/zero")

pytestmark = pytest.mark.skipif(
    not (DEVICE.exists() and hasattr(os, "openpty")), reason="needs devices and terminals"
)


@pytest.fixture
def folder(ages, monkeypatch):
    (ages / "key").write_bytes(bytes(range(32)))
    monkeypatch.chdir(ages)
    return ages


@pytest.fixture(params=["device", "terminal", "huge"])
def endless(request, folder):
    """Whatever has no end or is too long; and what it is."""
    kind = request.param
    if kind == "device":
        yield kind, DEVICE
    elif kind == "terminal":
        mine, its = os.openpty()
        yield kind, Path(os.ttyname(its))
        os.close(mine)
        os.close(its)
    else:
        # It has no blocks, and would be read as noughts.
        (folder / "huge").touch()
        os.truncate(folder / "huge", 2**40)
        yield kind, folder / "huge"


def refused(capsys, folder, words):
    before = sorted(folder.iterdir())
    assert main(words) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert sorted(folder.iterdir()) == before
    return printed.err


def told(option, kind, path):
    if kind == "huge":
        return f"dpsdk: {option} must be a file of at most "
    other = "a file on a disk" if option == "--anchor" else "a file or a pipe"
    return f"dpsdk: {option} must be {other}, and no device; got {path}\n"


@pytest.mark.thorough(quick=4)
@pytest.mark.parametrize("dry", [[], ["--dry-run", "--rows", "180"]], ids=["", "dry"])
def test_a_release_waits_for_no_end_of_its_files(folder, capsys, endless, dry):
    kind, path = endless
    given = ["release", "table.csv", "--out", "out", "--epsilon", "1", *dry]
    assert told("--domain", kind, path) in refused(capsys, folder, [*given, "--domain", str(path)])
    given += ["--domain", "domain.json", "--about", str(path)]
    assert told("--about", kind, path) in refused(capsys, folder, given)


def test_nor_does_who_checks_a_domain(folder, capsys, endless):
    kind, path = endless
    words = ["domain", "--check", str(path)]
    assert told("--check", kind, path) in refused(capsys, folder, words)


def test_nor_does_a_ledger(folder, capsys, endless):
    kind, path = endless
    Session(
        PrivateData.from_csv("table.csv", Domain.load("domain.json"), name="people"),
        Budget(1),
        ledger=SQLiteLedger("l.db", key=bytes(range(32)), anchor=FileAnchor("anchor")),
    )
    words = ["ledger", "show", "l.db", "--key", "key", "--anchor", str(path)]
    anchor = "it is no file of an anchor" if kind == "huge" else told("--anchor", kind, path)
    assert anchor in refused(capsys, folder, words)
    words = ["ledger", "show", "l.db", "--key", str(path)]
    assert told("--key", kind, path) in refused(capsys, folder, words)


def test_a_table_whose_first_line_has_no_end_is_refused(folder, capsys):
    given = ["--domain", "domain.json", "--out", "out", "--epsilon", "1"]
    words = "/dev/zero: the first line is longer than 1,048,576 bytes"
    assert words in refused(capsys, folder, ["release", str(DEVICE), *given])


@contextmanager
def piped(file):
    given, taken = os.pipe()
    os.write(taken, file.read_bytes())
    os.close(taken)
    yield f"/dev/fd/{given}"
    os.close(given)


def test_what_a_shell_pipes_is_read(folder, capsys):
    SQLiteLedger("l.db", key=bytes(range(32)))
    with piped(folder / "key") as path:
        assert main(["ledger", "show", "l.db", "--key", path]) == 0
    assert capsys.readouterr().out == "The ledger is empty.\n"
    with piped(folder / "domain.json") as path:
        assert main(["domain", "--check", path]) == 0
