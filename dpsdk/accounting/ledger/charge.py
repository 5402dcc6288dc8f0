"""Charges: the rows of a ledger, one for each accepted run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import NamedTuple, Self

from dpsdk._checks import shown
from dpsdk._records import (
    NATURAL,
    TEXT,
    Listed,
    Optional,
    Record,
    Single,
    as_record,
    from_record,
)
from dpsdk.accounting.guarantee import GUARANTEES, Guarantee
from dpsdk.errors import RecordError

__all__ = ["CHARGES", "SESSION", "Charge", "Payer", "written"]

_MOST_ACCOUNTS = 64

_SHORT = 1 << 12

dumped: Callable[[object], str] = json.JSONEncoder(separators=(",", ":")).encode
"""Plain data as JSON, in ASCII and without spaces."""

_MOMENT = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{6}Z", re.ASCII)


class Payer(NamedTuple):
    """On which accounts a run counts, and on which part of a divided table."""

    accounts: tuple[int, ...] = ()
    generation: int = 0
    part: int | None = None


SESSION = Payer()
"""Pays from the whole budget for runs on the whole table."""


class Charge(NamedTuple):
    """One accepted run, as a ledger keeps it: a value that never changes.

    Parameters
    ----------
    number
        Counted from 1, for all sessions of a ledger together.
    label
        What the run was for: the question, or empty where a channel was opened.
    guarantee
        What is proven of the run.
    mechanism
        Which mechanism ran it.
    question
        The number of the question in its session, 0 if it belongs to none.
    session
        Which session charged it, counted from 1 in the order of opening on the ledger.
    payer
        The accounts of scopes that it counts on, and the part of the table that it was run on.
    request_id
        The request that it was charged for, or empty.
    scope
        The name of the scope that paid; empty where the session itself did.
    at
        When, in UTC, by the clock of whoever charged it. Clocks differ and jump: the order is that
        of the numbers. None where no time was kept.
    """

    number: int
    label: str
    guarantee: Guarantee
    mechanism: str = ""
    question: int = 0
    session: int = 1
    payer: Payer = SESSION
    request_id: str = ""
    scope: str = ""
    at: datetime | None = None

    def to_record(self) -> Record:
        """The charge as plain data, for a ledger to write.

        Raises
        ------
        RecordError
            If its texts or numbers are too long, or not such as UTF-8 can hold.
        """
        return as_record(CHARGES, self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The charge of a record.

        Raises
        ------
        RecordError
            If it is no record of a charge.
        """
        return from_record(CHARGES, cls, record)


_PAYERS: Single[Payer] = Single(
    Payer,
    "payer.1",
    {
        "accounts": Listed(NATURAL, _MOST_ACCOUNTS),
        "generation": NATURAL,
        "part": Optional(NATURAL),
    },
)


class _Moment:
    """A moment in UTC, as 2026-01-31T09:30:00.000000Z."""

    def write(self, value: datetime, where: str) -> str:
        expected = "a moment in a time zone"
        if not isinstance(value, datetime):
            raise RecordError(where, expected, type(value).__name__)
        if value.utcoffset() is None:
            raise RecordError(where, expected, "one without")
        try:
            at = value.astimezone(UTC)
        except OverflowError:
            raise RecordError(
                where, "a moment whose year in UTC has four digits", "another"
            ) from None
        return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"

    def read(self, plain: object, where: str) -> datetime:
        text = TEXT.read(plain, where)
        if _MOMENT.fullmatch(text):
            try:
                return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
            except ValueError:
                pass
        raise RecordError(where, "a moment, as 2026-01-31T09:30:00.000000Z", shown(text))


_FIRST_FIELDS = {
    "number": NATURAL,
    "label": TEXT,
    "guarantee": GUARANTEES,
    "mechanism": TEXT,
    "question": NATURAL,
    "session": NATURAL,
    "payer": _PAYERS,
    "request_id": TEXT,
}

CHARGES: Single[Charge] = Single(
    Charge, "charge.2", {**_FIRST_FIELDS, "scope": TEXT, "at": Optional(_Moment())}
)
# Of whom and when was not written then.
CHARGES.read_also(Charge, "charge.1", _FIRST_FIELDS)


_guarantee_record = lru_cache(1024)(partial(GUARANTEES.write, where="Charge.guarantee"))
"""Equal guarantees have one record, which is written and not changed."""


def written(charges: Sequence[Charge]) -> bytes:
    """The records of charges, as an entry holds them.

    Raises
    ------
    RecordError
        If a text or number is too long, or none that UTF-8 can hold.
    """
    return dumped([_plain(charge) for charge in charges]).encode("ascii")


def _plain(charge: Charge) -> Record:
    """What `Charge.to_record` gives, sooner for what is short."""
    number, label, guarantee, mechanism, question, session, payer, request, scope, at = charge
    texts = f"{label}{mechanism}{request}{scope}"
    if not texts.isascii() or len(texts) > _SHORT or (at is not None and at.tzinfo is not UTC):
        return charge.to_record()
    accounts, generation, part = payer
    moment = "" if at is None else at.replace(tzinfo=None).isoformat(timespec="microseconds")
    return {
        "tag": "charge.2",
        "number": str(number),
        "label": label,
        "guarantee": _guarantee_record(guarantee),
        "mechanism": mechanism,
        "question": str(question),
        "session": str(session),
        "payer": {
            "tag": "payer.1",
            "accounts": list(map(str, accounts)),
            "generation": str(generation),
            "part": [] if part is None else [str(part)],
        },
        "request_id": request,
        "scope": scope,
        "at": [f"{moment}Z"] if moment else [],
    }
