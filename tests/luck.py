"""Noise that every run of a test repeats, also where the test asks for that of the system.

`SystemNoise` reads a stream that the name of the running test begins, so that no run fails by bad
luck. What the streams are made of is up to DPSDK_TESTS_SEED as well, an integer: whoever tries a
few of them sees which tests rest on their luck.
"""

import os
import random
from collections.abc import Generator
from types import ModuleType

import pytest

from dpsdk.noise import source

SEED = os.environ.get("DPSDK_TESTS_SEED", "0")
_urandom = os.urandom


class Bytes(ModuleType):
    """Stands for the module `os` in that of the sources: but for these bytes it is the same."""

    def __init__(self) -> None:
        super().__init__("os")
        self._process = os.getpid()
        self.begin("what is imported")

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def begin(self, name: str) -> None:
        """Begin the stream of this name, and let no source give out what it drew before."""
        self._stream: random.Random | None = None
        self._name = name
        source._forks += 1

    def urandom(self, count: int) -> bytes:
        # A test may watch or replace the function itself, and a child must not repeat its parent.
        if os.urandom is not _urandom or os.getpid() != self._process:
            return os.urandom(count)
        if self._stream is None:
            self._stream = random.Random(f"{SEED} {self._name}")
        return self._stream.randbytes(count)


_bytes = Bytes()
source.os = _bytes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _bytes.begin(item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """What tests share is the same whichever of them asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    stream, name = _bytes._stream, _bytes._name
    _bytes.begin(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param_index', 0)}")
    try:
        return (yield)
    finally:
        _bytes.begin(name)
        _bytes._stream = stream
