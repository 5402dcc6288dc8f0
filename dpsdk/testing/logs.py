"""Lines of logs: what any logger is told meanwhile, of every level."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

from typing_extensions import override

__all__ = ["logged"]


class _Handler(logging.Handler):
    def __init__(self, note: Callable[[logging.LogRecord], object]) -> None:
        super().__init__(logging.DEBUG)
        self._note = note

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._note(record)


@contextmanager
def logged(note: Callable[[logging.LogRecord], object]) -> Generator[None]:
    """Call with each record that reaches the root logger meanwhile."""
    logger = logging.getLogger()
    level, handler = logger.level, _Handler(note)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
