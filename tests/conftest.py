"""Puts the helpers beside this file, such as `worlds`, within reach of every test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from worlds import QUICK


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """A directory where waiting for the disk takes no time."""
    folder = Path(tempfile.mkdtemp(dir=QUICK))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
