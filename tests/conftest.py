"""Puts the helpers beside this file, such as `worlds`, within reach of every test, and keeps tiers.

See README.md beside this file for what the tiers are and how each is run.
"""

import gc
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import given
from hypothesis.strategies import just

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each process has a core, where further threads of BLAS wait for each other most of the time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import luck
from worlds import QUICK

OUTSIDE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(thorough|audit)\b", re.MULTILINE)
"""The line at the head of a file none of whose tests are in the default tier."""

PLATFORMS = Path(__file__).parent / "platforms"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(luck)


def named(config: pytest.Config) -> dict[Path, bool]:
    """Return the files that the command line names, and for each whether it names single tests."""
    found: dict[Path, bool] = {}
    for argument in config.args:
        file, _, test = argument.partition("::")
        path = (config.invocation_params.dir / file).resolve()
        found[path] = found.get(path, False) or bool(test)
    return found


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files that have no test of the tier that is wanted, without importing them."""
    wanted = config.option.markexpr
    if not collection_path.name.startswith("test_") or collection_path in named(config):
        return None
    text = collection_path.read_text("utf-8")
    if wanted in ("thorough", "audit"):
        return None if re.search(rf"mark\.{wanted}|(thinned|crossed)\(", text) else True
    if not wanted and PLATFORMS in collection_path.parents:
        return None if os.environ.get("DPSDK_PLATFORMS") == "1" else True
    return True if not wanted and OUTSIDE.search(text) else None


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say what the run took of the machine, which each tier has a limit of."""
    used = sum(os.times()[:4])  # of this process and of its children, which have ended
    terminalreporter.write_line(f"{used:.0f} CPU seconds, user and system, of all processes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the default tier, unless a tier, a file or a test was asked for."""
    keep_few(items)
    expression = config.option.markexpr
    files = named(config)
    out = {
        item
        for item in items
        if not files.get(item.path)
        and (
            "audit" not in expression
            if has(item, "audit")
            else not expression and item.path not in files and has(item, "thorough")
        )
    }
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def keep_few(items: list[pytest.Item]) -> None:
    """Take the mark of `thorough(quick=...)` off so many cases of the test, far from each other."""
    families: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("thorough")
        if mark and "quick" in mark.kwargs and not has(item, "audit"):
            families[item.nodeid.partition("[")[0]].append(item)
    for cases in families.values():
        mark = cases[0].get_closest_marker("thorough")
        few = min(mark.kwargs["quick"], len(cases))
        for place in range(few):
            cases[place * len(cases) // few].own_markers.remove(mark)


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
