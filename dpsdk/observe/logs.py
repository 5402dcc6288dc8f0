"""Events of a session as records of `logging`."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import final

from dpsdk._checks import shown
from dpsdk._records import shows_half_made
from dpsdk.errors import InvalidArgument
from dpsdk.observe.events import Event, Progress, Refused, fields_of, kind_of

__all__ = ["LoggingObserver"]


@shows_half_made
@final
class LoggingObserver:
    """An observer that writes each event to a logger, and never raises.

    A refusal is a warning, progress is for debugging, and all else is information. The message is
    one line; the record also has each field of the event as an attribute that begins with
    ``dpsdk_``, such as ``dpsdk_mechanism``, and the kind of the event as ``dpsdk_event``. Events
    hold costs and names, and no answers.

    Parameters
    ----------
    logger
        By default that of the name "dpsdk". An adapter, which may put its fields in the place of
        these, is none.

    Raises
    ------
    InvalidArgument
        If it is no logger.
    """

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger | None = None) -> None:
        own = logging.getLogger("dpsdk") if logger is None else logger
        if not isinstance(own, logging.Logger):
            raise InvalidArgument("logger", "a logger", shown(logger))
        self._logger = own

    def __call__(self, event: Event, /) -> None:
        """Write an event."""
        with suppress(Exception):  # filters and handlers may raise what they like
            level = logging.INFO
            if isinstance(event, Refused):
                level = logging.WARNING
            elif isinstance(event, Progress):
                level = logging.DEBUG
            if not self._logger.isEnabledFor(level):
                return
            told, kind = fields_of(event), kind_of(event)
            words = " ".join(f"{name}={_line(value)}" for name, value in told.items())
            extra = {f"dpsdk_{name}": value for name, value in told.items()}
            self._logger.log(level, "%s %s", kind, words, extra={"dpsdk_event": kind, **extra})

    def __repr__(self) -> str:
        return f"LoggingObserver({self._logger!r})"


def _line(value: str | int) -> str:
    """A value on one line, in quotes where words would run together."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(" =\"'")
    return text if plain else ascii(text)
