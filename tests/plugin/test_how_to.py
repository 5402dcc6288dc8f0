"""The plugin of the how-to guide is found and works as the guide says it does."""

import importlib
import io
import re
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dpsdk.cli import main
from installing import PLUGIN, written

PAGE = PLUGIN.parents[1] / "docs" / "how-to" / "plugins.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "acme_clamp", raising=False)
    [source] = blocks("python")
    [project] = [tomllib.loads(text)["project"] for text in blocks("toml")]
    written(
        tmp_path, project["name"], project["entry-points"],
        version=project["version"], acme_clamp=source,
    )  # fmt: skip
    importlib.invalidate_caches()
    return tmp_path


def test_it_is_listed_as_printed(site, capsys):
    assert main(["plugins"]) == 0
    assert [capsys.readouterr().out] == blocks("console")


def test_it_is_used_as_printed(site):
    names: dict[str, object] = {}
    printed = []
    for program in blocks("py"):
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(program, str(PAGE), "exec"), names)  # noqa: S102
        printed.append(out.getvalue())
    assert printed == blocks("text")
    sys.modules.pop("acme_clamp")


def test_it_is_as_short_as_promised():
    lines = "".join(blocks("python") + blocks("toml")).splitlines()
    assert len([one for one in lines if one.strip()]) < 60
