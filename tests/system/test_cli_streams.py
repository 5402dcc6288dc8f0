"""What a command does where nobody listens, or where what it says cannot be written."""

import errno
import os
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from dpsdk.__main__ import main

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="needs a shell"),
]


@pytest.fixture
def folder(ages):
    return ages


def shell(folder, command, streams):
    """Run a command with its streams as a shell has them."""
    run = f'exec "$0" -m dpsdk {command} {streams}'
    done = subprocess.run(
        ["sh", "-c", run, sys.executable],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


RELEASE = "release table.csv --domain domain.json --out out --epsilon 1"


def test_a_command_without_streams_does_what_it_should(folder):
    assert shell(folder, RELEASE, "<&- >&- 2>&-") == (0, "", "")
    assert (folder / "out" / "release.json").exists()
    assert (folder / "out" / "report.txt").read_text().startswith("1 table with 10 entries")


def test_a_command_whose_output_is_closed_goes_on(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdout", None)
    for command in (RELEASE, "plugins", "demo"):
        assert main(command.split()) == 0
    monkeypatch.setattr(sys, "stderr", None)
    assert main([*RELEASE.split(), "--epsilon", "x"]) == 2


class Full(StringIO):
    """A stream to a disk that is full."""

    def write(self, text, /):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_refusal_that_nobody_hears_is_one(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stderr", Full())
    assert main([*RELEASE.split(), "--epsilon", "x"]) == 2
    with pytest.raises(SystemExit) as refused:
        main([*RELEASE.split(), "--nothing"])
    assert refused.value.code == 2
    assert not (folder / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_report_that_cannot_be_written_was_paid_for_and_is_there(folder, monkeypatch, capsys):
    code, out, err = shell(folder, RELEASE, ">/dev/full")
    assert (code, out) == (2, "")
    assert err == "dpsdk: No space left on device; but all files are in out\n"
    assert (folder / "out" / "release.json").exists()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdout", Full())
    assert main([*RELEASE.split(), "--force", "--dry-run"]) == 2
    assert capsys.readouterr().err == "dpsdk: No space left on device\n"


def test_a_terminal_of_few_characters_and_a_reader_that_left_do_no_harm(folder, monkeypatch):
    monkeypatch.chdir(folder)
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "ascii", write_through=True))
    assert main(["demo"]) == 0
    assert b"\\xb1" in written.getvalue()
    theirs, mine = os.pipe()
    os.close(theirs)
    with os.fdopen(mine, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(RELEASE.split()) == 0
        monkeypatch.undo()
    assert (folder / "out" / "release.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: COMMAND; "),
        (["release"], "the following arguments are required: TABLE, --domain, --out; "),
        (["release", "t", "--domain", "d", "--out", ""], "argument --out: must be a path; got ''"),
        (["release", "", "--domain", "d", "--out", "o"], "argument TABLE: must be a path; got ''"),
        (["release", "t", "--domain", "d", "--out", "o", "--no\n\nthing"], "--no thing"),
        (["release", "t", "--domain", "d", "--out", "o", "\udcff"], "\\udcff"),
        (["domain", "--integer", "a"], "argument --integer: expected 3 arguments"),
        (["nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_options_that_are_none_are_refused_in_one_line(capsys, arguments, words):
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err
    assert printed.err.endswith(" --help tells more\n")
