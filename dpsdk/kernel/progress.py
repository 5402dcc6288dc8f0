"""Progress of a strategy at work: counted in public units, told where nobody waits for it.

An observer may ask the session, so it is called where no turn is held: not below `Turns.take`, nor
below a call of a ledger, which may have a lock of its own, on the stack of the thread that asked;
and in no other thread, for which that one might be waiting.
What is behind the wall of a primitive says nothing at all.
"""

from __future__ import annotations

import sys
from threading import get_ident
from types import CodeType, FrameType

from dpsdk._checks import shown, to_integer, to_name
from dpsdk._turns import Passage, Turns
from dpsdk.accounting.ledger.keeper import Keeper
from dpsdk.errors import InvalidArgument
from dpsdk.kernel.access import Access, Question, whose
from dpsdk.observe import Progress

__all__ = ["report"]

_HUNDREDTHS = 100

_UNITS = 16
"""So many units of work are counted for one question."""

_LOCKED: frozenset[CodeType] = frozenset(
    {Turns.take.__code__, Passage.take.__code__, Keeper.read.__code__, Keeper.charges.__code__}
)
# The one function of the kernel below which private values are.
_PRIVATE: frozenset[CodeType] = frozenset(
    {Access._attempt.__code__}  # pyright: ignore[reportPrivateUsage]
)


def report(access: Access, done: int, total: int | None, unit: str) -> bool:
    """Queue what was done for the observer, and tell it now if that can hold up nobody.

    Returns whether whoever asked wants the work to stop here.

    Raises
    ------
    InvalidArgument
        If the counts are out of range, or too many units are counted.
    Closed
        If the question is over.
    """
    access.check()
    most = None if total is None else to_integer("total", total)
    count, name = to_integer("done", done), to_name("unit", unit)
    if most is not None and most < 1:
        raise InvalidArgument("total", "an integer of at least 1, or None", shown(total))
    if count < 0 or (most is not None and count > most):
        raise InvalidArgument("done", "an integer from 0 to the total", shown(done))
    question = access.question
    if question is None:
        return False
    if question.listener is not None:
        _queue(access, question, count, most, name)
    return _stops(access, question, count, most, name)


def _stops(access: Access, question: Question, count: int, most: int | None, name: str) -> bool:
    """Ask whoever asked, where that can hold up nobody."""
    stop = question.stop
    if stop is None or question.thread != get_ident() or _within(_LOCKED | _PRIVATE):
        return False
    return bool(stop(_progress(access, question, count, most, name)))


def _progress(
    access: Access, question: Question, count: int, most: int | None, name: str
) -> Progress:
    asked = question.asked
    scope, request, now = whose(asked)
    what = asked.query, access.mechanism, count, most, name
    return Progress(*what, scope=scope, request_id=request, at=now)


def _queue(access: Access, question: Question, count: int, most: int | None, name: str) -> None:
    # By the counts alone: each hundredth of the work or, without a total, each time twice as much.
    step = count.bit_length() if most is None else count * _HUNDREDTHS // most
    last = question.steps.get(name)
    if last is None and len(question.steps) >= _UNITS:
        raise InvalidArgument("unit", f"one of at most {_UNITS}", shown(name))
    if (last is not None and step <= last) or _within(_PRIVATE):
        return
    question.steps[name] = step
    question.events.append(_progress(access, question, count, most, name))
    listener = question.listener
    if listener is not None and question.thread == get_ident() and not _within(_LOCKED):
        listener(question)


def _within(codes: frozenset[CodeType]) -> bool:
    """Whether this thread is inside of one of these functions."""
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # documented
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False
