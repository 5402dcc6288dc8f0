"""What a command does where nobody listens, or where what it says cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpsdk.__main__ import main

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="needs a shell"),
]


@pytest.fixture
def folder(ages: Path) -> Path:
    return ages


def shell(folder: Path, command: str, streams: str) -> tuple[int, str, str]:
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


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-"])
def test_a_command_without_streams_does_what_it_should(folder, streams):
    assert shell(folder, RELEASE, streams) == (0, "", "")
    assert (folder / "out" / "release.json").exists()
    assert (folder / "out" / "report.txt").read_text().startswith("1 table with 10 entries")
    assert shell(folder, "demo" if "2" in streams else "plugins", streams) == (0, "", "")


@pytest.mark.parametrize(
    ("streams", "option"), [("2>&-", "--epsilon x"), ("2>/dev/full", "--nothing")]
)
def test_a_refusal_that_nobody_hears_is_one(folder, streams, option):
    if "full" in streams and not Path("/dev/full").exists():
        pytest.skip("needs a device that is full")
    assert shell(folder, f"{RELEASE} {option}", streams) == (2, "", "")
    assert not (folder / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_report_that_cannot_be_written_was_paid_for_and_is_there(folder):
    code, out, err = shell(folder, RELEASE, ">/dev/full")
    assert (code, out) == (2, "")
    assert err == "dpsdk: No space left on device; but all files are in out\n"
    assert (folder / "out" / "release.json").exists()
    _, _, err = shell(folder, f"{RELEASE} --force --dry-run", ">/dev/full")
    assert err == "dpsdk: No space left on device\n"


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
