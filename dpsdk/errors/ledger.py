"""Errors of what remembers the charges."""

from __future__ import annotations

from attrs import define

from dpsdk.errors.root import DpsdkError

__all__ = ["AlreadyCharged", "AnswerLost", "LedgerConflict", "LedgerDamaged", "LedgerUnavailable"]


@define(str=False, eq=False)
class AlreadyCharged(DpsdkError):
    """A request was charged before. It is not charged again, so nothing may run for it again.

    `request_id` names the request, `charges` the numbers of its charges, which stand. Its answer,
    if the first run came to one, is what the ledger stored for it.
    """

    request_id: str
    charges: tuple[int, ...]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.charges))
        return f"request {self.request_id!r} was charged before, as {numbers}"


@define(str=False, eq=False)
class AnswerLost(DpsdkError):
    """A request was charged before, and no answer is stored for it. Nothing is drawn for it again.

    Whoever asked first ended before the answer was stored, or is still at work. The charges stand,
    since noise may have been drawn and seen. Ask anew under another name, at another price.

    `request_id` names the request, `charges` the numbers of its charges.
    """

    request_id: str
    charges: tuple[int, ...]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.charges))
        return f"request {self.request_id!r} was charged, as {numbers}, and has no stored answer"


@define(str=False, eq=False)
class LedgerConflict(DpsdkError):
    """A ledger is bound to a table, a budget and a composition, and was opened for others.

    `what` names which differs; `bound` is what the ledger holds, `asked` what was asked for.
    """

    what: str
    bound: str
    asked: str

    def __str__(self) -> str:
        return f"the ledger is bound to the {self.what} {self.bound}; got {self.asked}"


@define(str=False, eq=False)
class LedgerUnavailable(DpsdkError):
    """A ledger cannot be read or written: a full disk, a file that is read-only, busy or gone.

    Nothing is released for a charge that may not have been written. `ledger` says which, `why` what
    the system said. The same may pass once its cause is removed.
    """

    ledger: str
    why: str

    def __str__(self) -> str:
        return f"the ledger {self.ledger} cannot be used: {self.why}"


@define(str=False, eq=False)
class LedgerDamaged(DpsdkError):
    """What a ledger holds is not what was written: damaged, edited, or an older copy put back.

    Nothing is charged or released on it any more. `ledger` says which, `why` what does not fit.
    """

    ledger: str
    why: str

    def __str__(self) -> str:
        return f"the ledger {self.ledger} is not as it was written: {self.why}"
