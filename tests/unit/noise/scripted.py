"""Bit sources that say what they are told to."""

from __future__ import annotations

from collections.abc import Iterable


class Scripted:
    """Answers each request with the next item of a script, whose length must fit; then fails."""

    def __init__(self, script: Iterable[bytes]) -> None:
        self._script = list(script)[::-1]

    def __call__(self, count: int) -> bytes:
        part = self._script.pop()
        assert len(part) == count
        return part

    @property
    def done(self) -> bool:
        return not self._script


def no_bits(count: int) -> bytes:
    raise AssertionError(f"{count} bytes asked for")


def word64(value: int) -> bytes:
    return value.to_bytes(8, "little")
