"""The visible effects of a run beside its answers: lines of logs, printed text, warnings."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from typing_extensions import override

__all__ = ["overheard"]


class _Handler(logging.Handler):
    def __init__(self, note: Callable[[tuple[Hashable, ...]], object]) -> None:
        super().__init__(logging.DEBUG)
        self._note = note

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._note(("log", record.name, record.levelno, record.getMessage()))


@contextmanager
def overheard(note: Callable[[tuple[Hashable, ...]], object]) -> Generator[None]:
    """Tell of each line of any log, and at the end of what was printed and warned of."""
    logger, out = logging.getLogger(), io.StringIO()
    level, handler = logger.level, _Handler(note)
    warned: list[warnings.WarningMessage] = []
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            redirect_stdout(out),
            redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        if out.getvalue():
            note(("printed", out.getvalue()))
        for one in warned:
            note(("warned", str(one.message)))
