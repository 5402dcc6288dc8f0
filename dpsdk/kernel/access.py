"""Access to one private table: charge first, then read behind a wall that nothing leaks through."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from threading import Lock
from typing import NoReturn, TypeVar, final

import numpy as np
from attrs import define, field

from dpsdk.accounting import Composition, Guarantee, Odometer, PureGuarantee
from dpsdk.accounting.charges import leak, pure_epsilon
from dpsdk.accounting.remembered import admitted
from dpsdk.data import PrivateData
from dpsdk.data.histogram import Histogram
from dpsdk.data.vault import open_histogram, setting_of
from dpsdk.errors import BudgetExceeded, Closed, Redacted, ReleaseFailed
from dpsdk.forms import Facts
from dpsdk.forms.facts import Setting
from dpsdk.noise import NoiseSource
from dpsdk.observe import Charged, Observer, Refused

__all__ = ["Access", "Receipt", "receipt"]

R = TypeVar("R")


@define
class Receipt:
    """What the primitives charged on behalf of one question."""

    query: str
    guarantees: list[Guarantee] = field(factory=list[Guarantee])


receipt: ContextVar[Receipt | None] = ContextVar("receipt", default=None)
"""The question that the running thread or task is answering."""


_HEADROOM = 64
"""No primitive calls deeper than this."""


def _nested() -> tuple[object, ...]:
    nest: tuple[object, ...] = ()
    for _ in range(_HEADROOM):
        nest = (nest,)
    return nest


_NEST, _OTHER = _nested(), _nested()


def _make_room() -> None:
    """Fail if fewer calls than that could be nested here.

    Some interpreters count calls of C together with frames, others frames alone. Comparing nested
    tuples takes as many of the former, in a fraction of the time that as many frames would take.
    """
    if _NEST != _OTHER:  # equal, unless comparing them went too deep
        raise RecursionError
    depth = sys.getrecursionlimit() - _HEADROOM
    try:
        sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]  # documented
    except ValueError:  # the stack is not that deep
        return
    message = "a release needs room for more calls than are left"
    raise RecursionError(message)


def _pure(guarantee: Guarantee) -> Guarantee | None:
    """The guarantee of any mechanism with the same pure ε, which costs no less."""
    epsilon = None if leak(guarantee) else pure_epsilon(guarantee)
    return None if epsilon is None else PureGuarantee(epsilon)


@final
class Access:
    """What the primitives of one kernel share: a table, an odometer and a source of noise.

    It belongs to the kernel package: strategies hold a kernel, which does not hand it out.
    """

    __slots__ = (
        "_data",
        "_lock",
        "_mechanism",
        "_noise",
        "_observer",
        "_odometer",
        "_prepaid",
        "_process",
        "_setting",
    )

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None,
    ) -> None:
        self._data = data
        self._setting = setting_of(data)
        self._odometer = odometer
        self._noise = noise
        self._mechanism = mechanism
        self._observer = observer
        self._prepaid: Counter[Guarantee] = Counter()
        self._lock = Lock()
        self._process = os.getpid()

    @property
    def data(self) -> PrivateData:
        """The table, which shows nothing."""
        return self._data

    @property
    def facts(self) -> Facts:
        """The public facts of the table, as they are handed out."""
        return self._data.facts

    @property
    def setting(self) -> Setting:
        """The same as they were when the table was made: what prices and readings rest on."""
        return self._setting

    @property
    def composition(self) -> Composition:
        """The filter that decides what fits."""
        return self._odometer.composition

    def prepay(self, guarantees: Iterable[Guarantee]) -> None:
        """Charge runs now, all or none, that later charges of the same guarantees then use up."""
        runs = tuple(admitted(guarantee) for guarantee in guarantees)
        if not runs:
            return
        self._ready()
        self._take(runs)
        with self._lock:
            self._prepaid.update(runs)

    def charge(self, guarantee: Guarantee) -> int:
        """Pay for one run, from what was paid before if it is in there; the charge's number.

        Raises
        ------
        BudgetExceeded
            If the odometer refuses. Nothing has changed.
        """
        self._ready()
        if self._prepaid:
            with self._lock:
                for paid in (guarantee, _pure(guarantee)):
                    if paid is not None and self._prepaid[paid] > 0:
                        self._prepaid[paid] -= 1
                        return 0
        return self._take((guarantee,))

    def _ready(self) -> None:
        """Refuse, in public, what could only fail after the charge.

        A process that was forked would spend what was paid once a second time. And near the limit
        of recursion a draw would fail or not by what it draws, so there must be room for any.
        """
        if os.getpid() != self._process:
            raise Closed("a kernel in a forked process")
        _make_room()

    def _take(self, guarantees: tuple[Guarantee, ...]) -> int:
        asked = receipt.get()
        query = "" if asked is None else asked.query
        try:
            if len(guarantees) == 1:
                numbers: tuple[int, ...] = (self._odometer.charge(guarantees[0], query),)
            else:
                numbers = self._odometer.charge_all(guarantees, query)
        except BudgetExceeded:
            if self._observer is not None:
                self._observer(Refused(query, self._mechanism, guarantees[0]))
            raise
        if asked is not None:
            asked.guarantees.extend(guarantees)
        if self._observer is not None:
            for number, guarantee in zip(numbers, guarantees, strict=True):
                with suppress(Exception):  # what was paid for must not be lost
                    self._observer(Charged(number, query, self._mechanism, guarantee))
        return numbers[-1]

    def read(self, charge: int, work: Callable[[NoiseSource, Callable[[], Histogram]], R]) -> R:
        """Do what was paid for. `work` should draw its noise before it opens the histogram.

        Raises
        ------
        ReleaseFailed
            Whatever went wrong: its text, type and place might depend on data. An interrupt
            passes, without what it met.
        """
        if os.getpid() != self._process:
            raise Closed("a kernel in a forked process")
        result, stop = self._attempt(work)
        if stop is not None:
            raise stop
        if result is None:
            raise ReleaseFailed(charge)
        return result[0]

    def _attempt(
        self, work: Callable[[NoiseSource, Callable[[], Histogram]], R]
    ) -> tuple[tuple[R] | None, BaseException | None]:
        """Private values stay in the frames below this one, and no error leaves it."""
        try:
            # Whatever numpy was told to do about errors: that one occurred might depend on data.
            with np.errstate(all="ignore"):
                return (work(self._noise, lambda: open_histogram(self._data)),), None
        except KeyboardInterrupt:
            return None, KeyboardInterrupt()
        except SystemExit:
            return None, SystemExit()
        except BaseException:  # noqa: BLE001  # see above
            return None, None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
