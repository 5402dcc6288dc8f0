"""Bars on standard error for what takes longer than a second: who is at work, and how far.

A bar tells what is public: what was asked, units of work as `Progress` counts them, rows where
their number is public, and the time that has passed. It is drawn by a thread of its own, so that
it moves on also while nothing is told, and goes when the work is over, however that ends.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Event, RLock, Thread, local
from types import TracebackType
from typing import Final, Protocol, TextIO, cast, final
from weakref import ref

from dpsdk._checks import cut, to_flag
from dpsdk.errors import MissingExtra

__all__ = ["Bars", "working"]

_AFTER: Final = 1.0
"""So many seconds are left without a bar."""

_STEP: Final = 0.1
"""So many seconds lie between two drawings at a terminal."""

_RARELY: Final = 10.0
"""And so many where there is none, as in a file, which keeps them all."""

_PATIENCE: Final = 1.0
"""So many seconds whoever is at work waits for who draws, as at a terminal that was halted."""

_LONGEST: Final = 48
"""So many characters of what was asked are shown."""

_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class _Bar(Protocol):
    """What is used of a bar of tqdm."""

    bar_format: str | None
    delay: float
    desc: str
    disable: bool
    fp: TextIO
    n: int
    start_t: float
    total: int | None
    unit: str

    def refresh(self, *, nolock: bool) -> object: ...
    def close(self) -> None: ...


class _Make(Protocol):
    def __call__(self, **options: object) -> _Bar: ...


@final
class _Work:
    """One piece of work of a thread. Whoever does it holds it, and nobody else.

    Parameters
    ----------
    board
        Where it is shown.
    owner
        Who may tell of it.
    what
        What it is.
    """

    __slots__ = (
        "__weakref__", "bar", "board", "broken", "far", "next", "owner", "since", "what",
    )  # fmt: skip

    def __init__(self, board: _Board, owner: object, what: str) -> None:
        self.board = board
        self.owner = owner
        self.what = what
        self.far: tuple[int, int | None, str] | None = None
        """Units that are done, and in all; at one go, as whoever draws may look at any moment."""
        self.since = board.clock()
        self.next = self.since + _AFTER
        self.bar: _Bar | None = None
        self.broken = False

    def __enter__(self) -> _Work:
        self.board.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.board.end(self)


class _Board:
    """Who is at work in this process, and the bars of those that have been for a while.

    It keeps nobody alive: a work that nobody does any more has no bar either, also if an interrupt
    came between. It belongs to its process; in a forked one it does and writes nothing.

    Parameters
    ----------
    make
        Makes bars.
    stream
        Gives where they are drawn, at that moment; None where there is nothing.
    clock
        Seconds.
    wake
        Called when there is work again, so that somebody ticks.
    """

    def __init__(
        self,
        make: Callable[[], _Make],
        stream: Callable[[], TextIO | None],
        clock: Callable[[], float],
        wake: Callable[[], object],
    ) -> None:
        self.clock = clock
        self.lock = RLock()
        self._make = make
        self._stream = stream
        self._wake = wake
        self._works: dict[int, ref[_Work]] = {}
        self._current = local()
        self._process = os.getpid()
        self._over = False
        self._stuck = False

    def current(self) -> _Work | None:
        """What this thread is at work on."""
        held: ref[_Work] | None = getattr(self._current, "work", None)
        return None if held is None else held()

    def begin(self, work: _Work) -> None:
        """Have a work shown from now on, once it has lasted."""
        works, key = self._works, id(work)
        held = ref(work, lambda _: works.pop(key, None))
        self._current.work = held
        works[key] = held
        self._wake()

    def end(self, work: _Work) -> None:
        """Show it no longer."""
        self._works.pop(id(work), None)
        self._current.work = None
        if os.getpid() != self._process:
            _forget(work)
            return
        try:
            if self.hold():  # so that nobody is drawing it
                _close(work)
            else:
                _forget(work)
        finally:
            self.let_go()

    def hold(self) -> bool:
        """Keep bars from being drawn; False where who draws is kept by a stream that is full.

        Whoever is at work waits for that once, and not each time.
        """
        held = self.lock.acquire(timeout=0 if self._stuck else _PATIENCE)
        self._stuck = not held
        return held

    def let_go(self) -> None:
        """Have bars drawn again, if this thread held them."""
        with suppress(RuntimeError):
            self.lock.release()

    def stop(self) -> None:
        """Draw nothing more: the interpreter is about to end."""
        try:
            self.hold()
            self._over = True
        finally:
            self.let_go()

    def tick(self) -> bool:
        """Draw what is due; whether anybody is at work."""
        if os.getpid() != self._process:
            return False
        with self.lock:
            if self._over:
                return False
            now = self.clock()
            # A copy is made at one go; a work may end, or be collected, at any moment.
            for held in self._works.copy().values():
                work = held()
                if work is not None and now >= work.next and not work.broken:
                    self._draw(work, now)
            self._stuck = False
        return bool(self._works)

    def _draw(self, work: _Work, now: float) -> None:
        # A stream may be closed, or another author's, and no bar is worth an answer.
        try:
            stream = self._stream()
            if stream is None:
                return
            bar = work.bar
            if bar is None:
                # It shows itself when it is told to, and not when it is made.
                size = _size(stream)
                bar = self._make()(file=stream, leave=False, delay=_RARELY, unit="", **size)
                bar.delay = 0
                bar.start_t -= now - work.since
                work.bar = bar
                # Where all is kept, nothing is written over or wiped out, nor left to it.
                bar.disable = not _live(stream)
            work.next = now + (_RARELY if bar.disable else _STEP)
            bar.desc, form = _shown(work.what, stream), _TIME
            if work.far is not None:
                bar.n, bar.total, unit = work.far
                bar.unit = f" {_shown(unit, stream)}"
                form = _COUNT if bar.total is None else _SHARE
            bar.bar_format = form
            if bar.disable:
                bar.fp.write(f"{bar}\n")
                bar.fp.flush()
            else:
                bar.refresh(nolock=True)  # which would keep its lock if this failed
        except Exception:  # noqa: BLE001  # see above
            work.broken = True
            _forget(work)


_TIME: Final = "{desc} [{elapsed}]"
_COUNT: Final = "{desc}: {n_fmt}{unit} [{elapsed}]"
_SHARE: Final = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}]"
)
"""Where nothing is counted, where nobody knows how much there is, and where that is known."""


def _close(work: _Work) -> None:
    bar = work.bar
    if bar is not None:
        work.bar = None
        if bar.disable:
            return
        try:
            bar.close()
            bar.fp.write("\r")  # so that what comes next begins its line, whichever line that is
        except Exception:  # noqa: BLE001  # as of drawing
            bar.disable = True


def _forget(work: _Work) -> None:
    """Let go of a bar, which then writes nothing more."""
    bar, work.bar = work.bar, None
    if bar is not None:
        bar.disable = True


def _size(stream: TextIO) -> dict[str, object]:
    """How large a bar may be. Some terminals say that they have no lines at all."""
    with suppress(OSError, ValueError):  # it is no terminal, as most that have a file
        if not min(os.get_terminal_size(stream.fileno())):
            return {"ncols": 80, "nrows": 24}
    return {"dynamic_ncols": True}


def _live(stream: TextIO) -> bool:
    """Whether what is written over is not kept: at a terminal, and under a cell of a notebook."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


def _shown(text: str, stream: TextIO) -> str:
    """A text on one line, in characters that the stream can hold, and not too many of them."""
    plain = "".join([one if one.isprintable() else "?" for one in cut(text, _LONGEST)])
    encoding = getattr(stream, "encoding", None) or "ascii"
    return plain.encode(encoding, "backslashreplace").decode(encoding)


def _library() -> type:
    try:
        from tqdm import tqdm  # noqa: PLC0415  # an extra, which need not be there
    except ImportError:
        raise MissingExtra("tqdm", "progress") from None
    return cast("type", tqdm)


_made: list[_Make] = []


def _bar_class() -> _Make:
    """Bars of tqdm without its watching thread, under a lock that no other process shares."""
    if not _made:
        kind = type("Bar", (_library(),), {"monitor_interval": 0, "_lock": RLock()})
        _made.append(cast("_Make", kind))
    return _made[0]


class _Ticker:
    """The thread that draws, from the first work of a process on. It waits while there is none."""

    def __init__(self) -> None:
        self._wake = Event()
        self.board = _Board(_bar_class, lambda: sys.stderr, time.monotonic, self._wake.set)
        Thread(target=self._run, name="dpsdk-progress", daemon=True).start()
        atexit.register(self.board.stop)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self.board.tick():
                time.sleep(_STEP)


_ticker: _Ticker | None = None
_begin = RLock()


def _board() -> _Board | None:
    """The board of this process; None where it can have no further thread, as at its end."""
    global _ticker  # one a process, as there is one standard error
    with _begin:
        if _ticker is None:
            with suppress(RuntimeError):
                _ticker = _Ticker()
        return None if _ticker is None else _ticker.board


def _before_fork() -> None:
    """Wait until nobody is drawing, so that no lock is held that the child would wait for."""
    _begin.acquire()
    if _ticker is not None:
        _ticker.board.hold()


def _after_fork() -> None:
    if _ticker is not None:
        _ticker.board.let_go()
    with suppress(RuntimeError):  # an interrupt came before it was acquired
        _begin.release()


def _in_child() -> None:
    global _ticker  # its thread is the parent's
    _after_fork()
    _ticker = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


@final
class Bars:
    """The bars of one session, or of one loading. Made by `progress=True`.

    Each thread has one at a time, of the outermost work that it does.

    Parameters
    ----------
    board
        Gives where they are shown: by default on the standard error of this process.
    """

    __slots__ = ("_get",)

    def __init__(self, board: Callable[[], _Board | None] = _board) -> None:
        self._get = board

    @classmethod
    def of(cls, progress: bool) -> Bars | None:  # noqa: FBT001  # a reader of an argument
        """Bars, if there should be any.

        Raises
        ------
        InvalidArgument
            If it is neither True nor False.
        MissingExtra
            If tqdm is not installed, and there should be some.
        """
        if not to_flag("progress", progress):
            return None
        _library()
        return cls()

    def working(self, what: str) -> AbstractContextManager[object]:
        """A block to do some work in: a bar tells of it, unless this thread has one already."""
        board = self._get()
        if board is None or board.current() is not None:
            return _NOTHING
        return _Work(board, self, what)

    def told(self, done: int, total: int | None, unit: str) -> None:
        """Say how far this thread is. All of it must be public."""
        work = self._own()
        if work is not None:
            work.far = done, total, unit

    def _own(self) -> _Work | None:
        board = self._get()
        work = None if board is None else board.current()
        return work if work is not None and work.owner is self else None


def working(bars: Bars | None, what: str) -> AbstractContextManager[object]:
    """A block to do some work in, with a bar if there should be any."""
    return _NOTHING if bars is None else bars.working(what)
