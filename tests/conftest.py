"""Puts the helpers beside this file, such as `worlds`, within reach of every test."""

import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import just

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each process has a core, where further threads of BLAS wait for each other most of the time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import luck
from worlds import QUICK


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(luck)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made once and stay, so that looking for garbage among them is waste.

    Otherwise each `gc.collect()` of a test would take as long as ten tests. Nor is it looked for
    after every few hundred new values, as most tests make many that last no longer than themselves.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        # Hypothesis looks once for who holds its generators, and would find nobody afterwards.
        given(just(0))(lambda _: None)()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """A directory where waiting for the disk takes no time."""
    folder = Path(tempfile.mkdtemp(dir=QUICK))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
