"""Progress bars on standard error for what takes longer than a second.

A bar shows public facts only: the question, units of work as `Progress` counts them, and the time
that has passed. A thread of its own draws it, so that it moves even while nothing is reported.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Final, Self, TextIO, final
from weakref import ref

from dpsdk._checks import cut, to_flag
from dpsdk.errors import MissingExtra

__all__ = ["Bars", "working"]

_DELAY: Final = 1.0
"""Seconds before a bar appears."""

_INTERVAL: Final = 0.1
"""Seconds between two drawings at a terminal."""

_LOG_INTERVAL: Final = 10.0
"""Seconds between two lines where everything written is kept, as in a file."""

_PATIENCE: Final = 1.0
"""Seconds that finished work waits for a drawing thread that a full stream holds up."""

_LONGEST: Final = 48
"""Characters of a description that are shown."""

_TIME: Final = "{desc} [{elapsed}]"
_COUNT: Final = "{desc}: {n_fmt}{unit} [{elapsed}]"
_SHARE: Final = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}]"
)

_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class _Work:
    """A piece of work of one thread, with a bar once it has lasted."""

    __slots__ = ("__weakref__", "bar", "description", "drawer", "due", "owner", "position", "start")

    def __init__(self, drawer: _Drawer, owner: Bars, description: str) -> None:
        self.drawer = drawer
        self.owner = owner
        self.description = description
        self.position: tuple[int, int | None, str] | None = None
        self.start = drawer.clock()
        self.due: float | None = self.start + _DELAY
        self.bar: Any = None

    def __enter__(self) -> Self:
        self.drawer.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.drawer.remove(self)

    def draw(self, now: float, stream: TextIO) -> None:
        """Show how far the work is: a moving bar at a terminal, a plain line elsewhere."""
        terminal = stream.isatty() or type(stream).__module__.startswith("ipykernel.")
        if self.bar is None:
            self.bar = _bar_class()(
                file=stream, leave=False, delay=_LOG_INTERVAL, unit="", dynamic_ncols=True
            )
            self.bar.delay = 0
            self.bar.start_t -= now - self.start
            # A disabled bar is formatted as any other, and writes nothing by itself.
            self.bar.disable = self.bar.disable or not terminal
        bar = self.bar
        bar.desc, bar.bar_format = _printable(self.description, stream), _TIME
        if self.position is not None:
            bar.n, bar.total, unit = self.position
            bar.unit = f" {_printable(unit, stream)}"
            bar.bar_format = _COUNT if bar.total is None else _SHARE
        self.due = now + (_INTERVAL if terminal else _LOG_INTERVAL)
        if terminal:
            bar.refresh(nolock=True)
        elif hasattr(bar, "start_t"):
            stream.write(f"{bar}\n")
            stream.flush()


class _Drawer:
    """The bars of one process, and the thread that draws them."""

    def __init__(
        self,
        stream: Callable[[], TextIO | None] = lambda: sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._stream = stream
        self._works: dict[int, ref[_Work]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._current = threading.local()
        self._process = os.getpid()

    def start(self) -> None:
        """Draw from now on, in a thread that the end of the interpreter does not wait for."""
        threading.Thread(target=self._run, name="dpsdk-progress", daemon=True).start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Draw nothing more, as a thread that writes while the interpreter ends may crash it."""
        held = self._lock.acquire(timeout=_PATIENCE)
        self._process = 0
        if held:
            self._lock.release()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self.draw():
                time.sleep(_INTERVAL)

    @property
    def current(self) -> _Work | None:
        """The outermost work of this thread."""
        reference = getattr(self._current, "work", None)
        return None if reference is None else reference()

    def add(self, work: _Work) -> None:
        """Show this work once it has lasted."""
        works, key = self._works, id(work)
        reference = ref(work, lambda _: works.pop(key, None))
        self._current.work = works[key] = reference
        self._wake.set()

    def remove(self, work: _Work) -> None:
        """Take its bar away."""
        self._works.pop(id(work), None)
        self._current.work = None
        never_due = work.bar is None and self.clock() < work.start + _DELAY
        if never_due or os.getpid() != self._process:
            return
        if not self._lock.acquire(timeout=_PATIENCE):
            work.due = None  # a full stream holds up the drawing thread
            return
        try:
            if work.bar is not None and not work.bar.disable:
                with suppress(Exception):
                    work.bar.close()
                    work.bar.fp.write("\r")
        finally:
            self._lock.release()

    def draw(self) -> bool:
        """Draw what is due, and return whether any work is under way."""
        with self._lock:
            if os.getpid() != self._process:
                return False
            now = self.clock()
            for reference in tuple(self._works.values()):
                work = reference()
                if work is None or work.due is None or now < work.due:
                    continue
                try:
                    stream = self._stream()
                    if stream is not None:
                        work.draw(now, stream)
                except Exception:  # noqa: BLE001  # a stream may be closed or full: no bar, then
                    work.due = None
            return bool(self._works)


_bar_classes: list[Any] = []


def _bar_class() -> Any:  # a class of a library without types
    """Load tqdm, without its monitor thread and the lock that it shares between processes."""
    try:
        from tqdm import tqdm  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra("tqdm", "progress") from None
    if not _bar_classes:
        lock = threading.RLock()
        _bar_classes.append(type("Bar", (tqdm,), {"monitor_interval": 0, "_lock": lock}))
    return _bar_classes[0]


def _printable(text: str, stream: TextIO) -> str:
    """Return a text as one line in characters that the stream can hold."""
    plain = "".join([char if char.isprintable() else "?" for char in cut(text, _LONGEST)])
    encoding = getattr(stream, "encoding", None) or "ascii"
    return plain.encode(encoding, "backslashreplace").decode(encoding)


_drawer: _Drawer | None = None
_drawer_lock = threading.Lock()


def _process_drawer() -> _Drawer | None:
    """Return the drawer of this process; None where it can have no further thread."""
    global _drawer
    with _drawer_lock:
        if _drawer is None:
            drawer = _Drawer()
            try:
                drawer.start()
            except RuntimeError:
                return None
            _drawer = drawer
        return _drawer


def _forget_drawer() -> None:
    global _drawer, _drawer_lock
    _drawer, _drawer_lock = None, threading.Lock()
    _bar_classes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_drawer)  # the thread and its locks are the parent's


@final
class Bars:
    """The progress bars of one session, or of one loading, made by `progress=True`.

    Each thread has one bar at a time, that of the outermost work it does.
    """

    __slots__ = ("_get",)

    def __init__(self, drawer: Callable[[], _Drawer | None] = _process_drawer) -> None:
        self._get = drawer

    @classmethod
    def of(cls, progress: bool) -> Bars | None:  # noqa: FBT001  # a reader of an argument
        """Return bars if there should be any.

        Raises
        ------
        InvalidArgument
            If `progress` is neither True nor False.
        MissingExtra
            If bars are wanted and tqdm is not installed.
        """
        if not to_flag("progress", progress):
            return None
        _bar_class()
        return cls()

    def working(self, what: str) -> AbstractContextManager[object]:
        """Return a block in which a bar shows `what`, unless this thread has a bar already."""
        drawer = self._get()
        if drawer is None or drawer.current is not None:
            return _NOTHING
        return _Work(drawer, self, what)

    def told(self, done: int, total: int | None, unit: str) -> None:
        """Show how far this thread is. All of it must be public."""
        drawer = self._get()
        work = None if drawer is None else drawer.current
        if work is not None and work.owner is self:
            work.position = done, total, unit


def working(bars: Bars | None, what: str) -> AbstractContextManager[object]:
    """Return a block to do some work in, with a bar if there should be any."""
    return _NOTHING if bars is None else bars.working(what)
