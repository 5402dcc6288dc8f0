"""Every public name that the file of types uses is there; what it says is up to type checkers."""

import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent


def test_the_file_of_types_can_be_imported(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(HERE), str(HERE.parent / "plugin")])
    assert import_module("api")
