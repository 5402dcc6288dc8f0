"""The visible effects of a run beside its answers: lines of logs, printed text, warnings."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from typing_extensions import override


class _Handler(logging.Handler):
    def __init__(self, note: Callable[[logging.LogRecord], object]) -> None:
        super().__init__(logging.DEBUG)
        self._note = note

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._note(record)


@contextmanager
def logged(note: Callable[[logging.LogRecord], object]) -> Generator[None]:
    """Call with each record of any level that reaches the root logger meanwhile."""
    logger = logging.getLogger()
    level, handler = logger.level, _Handler(note)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def overheard() -> Generator[list[tuple[Hashable, ...]]]:
    """Give a list of what is logged, printed and warned of meanwhile; complete at the end."""
    told: list[tuple[Hashable, ...]] = []
    out, warned = io.StringIO(), list[warnings.WarningMessage]()

    def note(line: logging.LogRecord) -> None:
        told.append(("log", line.name, line.levelno, line.getMessage()))

    try:
        with (
            logged(note),
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(out),
            redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            warned = caught
            yield told
    finally:
        if out.getvalue():
            told.append(("printed", out.getvalue()))
        told += [("warned", str(one.message)) for one in warned]
