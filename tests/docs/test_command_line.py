"""The commands of the guide to the command line run as they are printed."""

import re
import shlex
from pathlib import Path

import pytest

from dpsdk import Domain
from dpsdk.__main__ import main
from dpsdk.accounting import SQLiteLedger
from dpsdk.cli.about import about_of

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "command-line.md").read_text("utf-8")
SHOWN = dict(re.findall(r"^```sh\n(.*)\n```\n\n```text\n([^`]*)```$", PAGE, re.MULTILINE))
COMMANDS = re.findall(r"^dpsdk (.*)$", PAGE, re.MULTILINE)


def test_the_guide_shows_each_command():
    assert len(SHOWN) == 2
    assert [command.split()[0] for command in COMMANDS] == [
        "domain", "domain", "domain", "describe", "release", "release", "release",
        "release", "release", "ledger", "ledger", "release", "plugins",
    ]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_runs(command, tmp_path, monkeypatch, capsys):
    arguments = shlex.split(command)
    monkeypatch.chdir(ROOT)
    out = tmp_path / "out"
    if "--out" in arguments:
        arguments[arguments.index("--out") + 1] = str(out)
    if "spent.db" in arguments:
        arguments[arguments.index("spent.db")] = str(tmp_path / "spent.db")
        SQLiteLedger(tmp_path / "spent.db")
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out
    if (shown := SHOWN.get(f"dpsdk {command}")) is not None:
        assert printed.out.replace(str(out), "tables") == shown
    if out.is_file():
        assert Domain.load(out).names == ("age", "sex", "hours")
    elif "--dry-run" in arguments:
        assert not out.exists()
    elif "--out" in arguments:
        assert (out / "release.json").is_file()


def test_the_options_that_the_guide_names_exist(capsys):
    with pytest.raises(SystemExit):
        main(["domain", "--help"])
    with pytest.raises(SystemExit):
        main(["describe", "--help"])
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    with pytest.raises(SystemExit):
        main(["ledger", "--help"])
    helped = capsys.readouterr().out
    for option in set(re.findall(r"(--[a-z][a-z-]*)", PAGE)) - {"--help"}:
        assert option in helped, option


def test_the_file_that_is_shown_is_one(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "about.toml").write_text(text, encoding="utf-8")
    about = about_of(tmp_path / "about.toml", None)
    assert about.curators == ("Bureau of Examples",)
    assert about.details == {"deployment_model.release_type": "One release"}
