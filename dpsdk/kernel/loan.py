"""What a trusted run of another author is lent, and for how long: until it is over, and no longer.

The run is trusted with what it reads. What is here holds what can be held: that nothing of the
kernel's own is written into or handed out, and that no later code reads through what it kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar, final
from weakref import ReferenceType, ref

import numpy as np

from dpsdk.data.counts import Counts
from dpsdk.errors import Closed, Redacted, Reentered
from dpsdk.noise import NoiseSource
from dpsdk.typing import Floats, Ints

__all__ = ["check_not_lent", "on_loan"]

R = TypeVar("R")


class _Run:
    """Lives as long as a run goes on, also if an interrupt skips what is done at its end."""

    __slots__ = ("__weakref__",)


class _Here(threading.local):
    run: ReferenceType[_Run] | None = None


_here = _Here()
"""The run that goes on in a thread."""


def check_not_lent() -> None:
    """Refuse a charge from within a trusted run: whether it is made could depend on rows.

    Raises
    ------
    Reentered
        In the thread of a run that is not over.
    """
    run = _here.run
    if run is not None and run() is not None:
        raise Reentered("a kernel")


def on_loan(
    run: Callable[[NoiseSource, Callable[[], Counts]], R],
    noise: NoiseSource,
    opened: Callable[[], Counts],
) -> R:
    """Run what reads a table, on copies that nothing can be read through once it is over."""
    going, before = _Run(), _here.run
    loan = _Loan(opened, ref(going))
    try:
        _here.run = ref(going)
        return run(noise, loan.open)
    finally:
        loan.end()
        _here.run = before


@final
class _Loan:
    """What one run reads of. It knows nothing any more when that is over."""

    __slots__ = ("_lent", "_opened", "_run")

    def __init__(self, opened: Callable[[], Counts], run: ReferenceType[_Run]) -> None:
        self._opened: Callable[[], Counts] | None = opened
        self._run = run
        self._lent: list[Counts] = []

    def open(self) -> Counts:
        """The histogram of the table."""
        opened = self._opened
        if opened is None or self._run() is None:
            raise Closed("a table that was lent to a run")
        return self.keep(opened())

    def keep(self, counts: Counts) -> Counts:
        """Something to read them through."""
        lent = self._lent
        lent.append(counts)
        return _Lent(self, len(lent) - 1)

    def at(self, place: int) -> Counts:
        """The counts themselves, if the run is not over."""
        lent = self._lent[place : place + 1]
        if not lent or self._run() is None:
            raise Closed("a table that was lent to a run")
        return lent[0]

    def end(self) -> None:
        """Let go of all of it."""
        self._opened = None
        self._lent.clear()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")


@final
class _Lent:
    """Copies of counts, as long as they are lent."""

    __slots__ = ("_loan", "_place")

    def __init__(self, loan: _Loan, place: int) -> None:
        self._loan = loan
        self._place = place

    @property
    def process(self) -> int | None:
        return self._loan.at(self._place).process

    @property
    def rows(self) -> int:
        return self._loan.at(self._place).rows

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        codes, counts = self._loan.at(self._place).records(names)
        return [np.array(code) for code in codes], np.array(counts)

    def table(self, names: tuple[str, ...]) -> Floats:
        return np.array(self._loan.at(self._place).table(names))

    def counted(self, names: tuple[str, ...]) -> Floats:
        return np.array(self._loan.at(self._place).counted(names))

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Counts:
        return self._loan.keep(self._loan.at(self._place).only(name, cell, keep_rows=keep_rows))

    def __repr__(self) -> str:
        return "Counts(private)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
