"""Answers of one-shot mechanisms, given again for free to the same question."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, local
from typing import TypeVar

from dpsdk._locks import ExclusiveLock
from dpsdk.accounting import Odometer
from dpsdk.errors import Closed, DpsdkError, InvalidArgument, Reentered
from dpsdk.release import Measurement
from dpsdk.session.stored import Request

__all__ = ["Reuse"]

V = TypeVar("V")

_MOST = 2**12
_MOST_BYTES = 2**26
_MOST_STORED = 2**16
"""Answers of more numbers are not written into a ledger for others."""

_ANSWER = 512
"""The bytes of an answer beside its numbers, roughly."""

_INSIDE = local()
"""The turn that a thread has, of whichever session: two may ask each other from within."""


class Reuse:
    """The answers that a session has given, by their questions, and those that its ledger has.

    At most 4,096 answers of 64 MiB together are kept in memory, the newest; a durable ledger keeps
    those of at most 65,536 numbers for good, and for all sessions on it. What is forgotten is
    asked, and paid, anew. Nothing is locked while a question is at work; who asks the same
    meanwhile waits for it, but for those who ask from within a question, be it another session's,
    who might wait for each other.
    """

    __slots__ = ("_asked", "_bytes", "_known", "_lock", "_process")

    def __init__(self) -> None:
        self._known: dict[str, Measurement] = {}
        self._bytes = 0
        self._lock = ExclusiveLock("stored answers")
        self._asked: dict[str, Lock] = {}
        self._process = os.getpid()

    def find(
        self, question: str, payer: Odometer, before: Callable[[], str | None]
    ) -> Measurement | None:
        """The answer to a question, which `before` gives as 0.1 told it; None if there is none.

        Raises
        ------
        LedgerDamaged, LedgerUnavailable
            If the ledger cannot be read.
        """
        known = self._known.get(question)
        if known is not None:
            return known
        if not payer.durable:
            return None
        # Somebody may have used this name for another request, and so is none of these answers.
        with suppress(InvalidArgument):
            found = _request(question, payer).stored()
            if found is None and (old := before()) is not None:
                found = _request(old, payer).stored()
            return found
        return None

    def keep(self, question: str, payer: Odometer, measurement: Measurement) -> None:
        """Keep the answer to a question, if there is room; the first that is kept stays.

        That it could not be written must not lose an answer that was paid for, and raises nothing.
        """
        if payer.durable and len(measurement.values) <= _MOST_STORED:
            with suppress(DpsdkError):
                _request(question, payer).kept(measurement)
        size = int(measurement.values.nbytes) + _ANSWER
        if size > _MOST_BYTES:
            return
        with suppress(Reentered, Closed):
            self._lock.run(lambda: self._put(question, measurement, size))

    def _put(self, question: str, measurement: Measurement, size: int) -> None:
        known = self._known
        while known and (len(known) >= _MOST or self._bytes + size > _MOST_BYTES):
            oldest = known.pop(next(iter(known)))
            self._bytes -= int(oldest.values.nbytes) + _ANSWER
        if question not in known:
            # Counted first: an interrupt in between may count too much, never too little.
            self._bytes += size
            known[question] = measurement

    def settle(self, question: str, look: Callable[[], V | None], ask: Callable[[], V]) -> V:
        """What is found, or else what comes of asking: by one thread, while others wait to look."""
        found: V | None = None
        while found is None:
            found = self._settle(question, look, ask)
        return found

    def _settle(
        self, question: str, look: Callable[[], V | None], ask: Callable[[], V]
    ) -> V | None:
        """The same; nothing where another thread asked meanwhile and kept no answer."""
        known: Lock | None = getattr(_INSIDE, "turn", None)
        if (known is not None and known.locked()) or os.getpid() != self._process:
            found = look()
            return ask() if found is None else found
        # An interrupt may come at any line, but none between a block and giving its lock back. So a
        # turn that is left behind is a free one, which whoever waited for it takes away.
        mine = Lock()
        with mine:
            # First, for a finaliser may ask the same as soon as others can find the turn.
            _INSIDE.turn = mine
            first = self._asked.setdefault(question, mine)
            if first is mine:
                try:
                    found = look()
                    return ask() if found is None else found
                finally:
                    self._over(question, mine)
                    # Those who waited take the lock when this is over, and are none of this thread.
                    _INSIDE.turn = None
        with first:
            pass
        self._over(question, first)
        return look()

    def _over(self, question: str, turn: Lock) -> None:
        if self._asked.get(question) is turn:
            self._asked.pop(question, None)


def _request(question: str, payer: Odometer) -> Request:
    return Request(f"reuse {question}", f"reuse {question}", payer)
