"""Puts the helpers beside this file, such as `worlds`, within reach of every test."""

import gc
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from worlds import QUICK


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made once and stay, so that looking for garbage among them is waste.

    Otherwise each `gc.collect()` of a test would take as long as ten tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """A directory where waiting for the disk takes no time."""
    folder = Path(tempfile.mkdtemp(dir=QUICK))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
