"""Progress bars on standard error for what takes longer than a second.

A bar shows public facts only: the question, units of work as `Progress` counts them, and the time
that has passed. A thread of its own draws it, so that it moves even while nothing is reported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Event, RLock, Thread, local, main_thread
from time import monotonic
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
"""Seconds that finished work waits for a drawing that a full stream holds up."""

_LONGEST: Final = 48
"""Characters of a description that are shown."""

_TIME: Final = "{desc} [{elapsed}]"
_COUNT: Final = "{desc}: {n_fmt}{unit} [{elapsed}]"
_SHARE: Final = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}]"
)

_NOTHING: Final[AbstractContextManager[None]] = nullcontext()

_current = local()


class _Work:
    """A piece of work of one thread, which another thread shows once it has lasted."""

    __slots__ = ("__weakref__", "description", "over", "owner", "position", "process", "thread")

    def __init__(self, owner: Bars, description: str) -> None:
        self.owner = owner
        self.description = description
        self.position: tuple[int, int | None, str] | None = None
        self.process = os.getpid()
        self.over = Event()
        # It does not keep the work alive, so that work whose end was interrupted is shown no more.
        given = ref(self), self.over
        self.thread = Thread(target=_show, args=given, name="dpsdk-progress", daemon=True)

    def __enter__(self) -> Self:
        _current.work = ref(self)
        with suppress(RuntimeError):  # where there can be no further thread
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        _current.work = None
        if self.thread.is_alive():
            self.thread.join(_PATIENCE)


def _current_work() -> _Work | None:
    """Return the outermost work of this thread, in this process."""
    reference = getattr(_current, "work", None)
    work: _Work | None = None if reference is None else reference()
    return work if work is not None and work.process == os.getpid() else None


def _show(reference: ref[_Work], over: Event) -> None:
    drawings = _drawings(reference)
    for seconds in drawings:
        # A thread that writes while the interpreter ends may crash it.
        if over.wait(seconds) or not main_thread().is_alive():
            break
    drawings.close()


def _drawings(reference: ref[_Work]) -> Generator[float]:
    """Draw at each step, after the first, and yield the seconds until the next; at last wipe."""
    start, bar = monotonic(), None
    yield _DELAY
    try:
        while (work := reference()) is not None:
            stream = sys.stderr
            terminal = _is_terminal(stream)
            if stream is not None:
                bar = _new_bar(stream, start) if bar is None else bar
                _draw(bar, work, stream, terminal=terminal)
            del work
            yield _INTERVAL if stream is None or terminal else _LOG_INTERVAL
    except Exception:  # noqa: BLE001  # a stream may be closed or full: no bar, then
        return
    finally:
        if bar is not None and not bar.disable:
            with suppress(Exception):
                bar.close()
                bar.fp.write("\r")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and (
        stream.isatty() or type(stream).__module__.startswith("ipykernel.")
    )


def _new_bar(stream: TextIO, start: float) -> Any:  # of a library without types
    bar = _bar_class()(file=stream, leave=False, delay=_LOG_INTERVAL, unit="", dynamic_ncols=True)
    bar.delay = 0
    bar.start_t -= monotonic() - start
    # A disabled bar is formatted as any other, and writes nothing by itself.
    bar.disable = bar.disable or not _is_terminal(stream)
    return bar


def _draw(bar: Any, work: _Work, stream: TextIO, *, terminal: bool) -> None:
    """Show how far the work is: a moving bar at a terminal, a plain line elsewhere."""
    bar.desc, bar.bar_format = _printable(work.description, stream), _TIME
    if work.position is not None:
        bar.n, bar.total, unit = work.position
        bar.unit = f" {_printable(unit, stream)}"
        bar.bar_format = _COUNT if bar.total is None else _SHARE
    if terminal:
        with bar.get_lock():  # which it would keep itself where a stream raises
            bar.refresh(nolock=True)
    elif hasattr(bar, "start_t"):
        stream.write(f"{bar}\n")
        stream.flush()


_bar_classes: list[Any] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_bar_classes.clear)  # whose lock a thread may have held


def _bar_class() -> Any:  # a class of a library without types
    """Load tqdm, without its monitor thread and the lock that it shares between processes."""
    try:
        from tqdm import tqdm  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra("tqdm", "progress") from None
    if not _bar_classes:
        _bar_classes.append(type("Bar", (tqdm,), {"monitor_interval": 0, "_lock": RLock()}))
    return _bar_classes[0]


def _printable(text: str, stream: TextIO) -> str:
    """Return a text as one line in characters that the stream can hold."""
    plain = "".join([char if char.isprintable() else "?" for char in cut(text, _LONGEST)])
    encoding = getattr(stream, "encoding", None) or "ascii"
    return plain.encode(encoding, "backslashreplace").decode(encoding)


@final
class Bars:
    """The progress bars of one session, or of one loading, made by `progress=True`.

    Each thread has one bar at a time, that of the outermost work it does.
    """

    __slots__ = ()

    @classmethod
    def of(cls, progress: bool) -> Bars | None:  # noqa: FBT001  # a reader of an argument
        """Return bars if there should be any; `MissingExtra` if so and tqdm is not installed."""
        if not to_flag("progress", progress):
            return None
        _bar_class()
        return cls()

    def working(self, what: str) -> AbstractContextManager[object]:
        """Return a block in which a bar shows `what`, unless this thread has a bar already."""
        return _NOTHING if _current_work() is not None else _Work(self, what)

    def told(self, done: int, total: int | None, unit: str) -> None:
        """Show how far this thread is. All of it must be public."""
        work = _current_work()
        if work is not None and work.owner is self:
            work.position = done, total, unit


def working(bars: Bars | None, what: str) -> AbstractContextManager[object]:
    """Return a block to do some work in, with a bar if there should be any."""
    return _NOTHING if bars is None else bars.working(what)
