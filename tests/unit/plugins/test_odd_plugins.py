"""Plugins that answer otherwise where they are looked at harm nobody, and are told by name."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsdk
from dpsdk import plugins
from dpsdk.errors import DpsdkError, InvalidArgument, PluginError
from installing import written

HEAD = """
from inspect import Signature
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Laplace, OneShot

class Mine(OneShot):
    "Mine."
    def quote(self, form, terms, /): ...
    def open(self, kernel, /): ...
"""

ODD = {
    "a signature that raises": """
class Own(Signature):
    @property
    def parameters(self):
        raise SystemExit(3)
Mine.__signature__ = Own()
""",
    "a signature of something else": """
class Own(Signature):
    @property
    def parameters(self):
        return {"epsilon": None}
Mine.__signature__ = Own()
""",
    "a signature without end": """
class Endless(dict):
    def values(self):
        raise RecursionError
class Own(Signature):
    parameters = Endless()
Mine.__signature__ = Own()
""",
    "an error that clears the screen": """
Loud = type("\\x1b[2J\\nall is well", (Exception,), {})
def loud(self): raise Loud
Mine.__init__ = loud
""",
    "another mechanism": """
Mine.__new__ = lambda cls: object()
""",
    "a name of the package": """
Mine.__module__ = "dpsdk.mechanisms"
""",
    "no class": "Mine = Mine()",
    "the end of the program": "raise SystemExit(3)",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "acme_odd", raising=False)
    yield tmp_path
    sys.modules.pop("acme_odd", None)


def offered(site: Path, source: str) -> None:
    entries = {"dpsdk.mechanisms": {"mine": "acme_odd:Mine"}}
    written(site, "acme-odd", entries, acme_odd=HEAD + source)


def test_what_is_spoilt_below_is_sound(site):
    offered(site, "")
    assert type(dpsdk.mechanism("acme-odd:mine")).__name__ == "Mine"


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_it_is_a_plugin_error_in_one_line_that_prints(site, source):
    offered(site, source)
    with pytest.raises(PluginError) as caught:
        dpsdk.mechanism("acme-odd:mine")
    assert str(caught.value).isprintable()
    assert caught.value.distribution == "acme-odd"
    assert type(dpsdk.mechanism("laplace", epsilon=1)).__name__ == "Laplace"


def test_what_a_plugin_says_of_an_argument_passes(site):
    offered(site, 'def no(self): raise InvalidArgument("n", "none", "one")\nMine.__init__ = no\n')
    with pytest.raises(InvalidArgument, match="n must be none"):
        dpsdk.mechanism("acme-odd:mine")


def test_several_threads_make_one_at_once(site):
    offered(site, "import time\ntime.sleep(0.05)\n")
    found: list[object] = []

    def work() -> None:
        try:
            found.append(type(dpsdk.mechanism("acme-odd:mine")))
        except DpsdkError as error:
            found.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(found)) == 1
    assert [one.name for one in plugins.listed() if one.distribution == "acme-odd"]
