"""Charges: the rows of a ledger, one for each accepted run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

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
from dpsdk.accounting.copies import client_copy
from dpsdk.accounting.guarantee import GUARANTEES, Guarantee

__all__ = ["CHARGES", "SESSION", "Charge", "Payer", "shown_copies"]

_MOST_ACCOUNTS = 64


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
    """

    number: int
    label: str
    guarantee: Guarantee
    mechanism: str = ""
    question: int = 0
    session: int = 1
    payer: Payer = SESSION
    request_id: str = ""

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

CHARGES: Single[Charge] = Single(
    Charge,
    "charge.1",
    {
        "number": NATURAL,
        "label": TEXT,
        "guarantee": GUARANTEES,
        "mechanism": TEXT,
        "question": NATURAL,
        "session": NATURAL,
        "payer": _PAYERS,
        "request_id": TEXT,
    },
)


def shown_copies(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Charges to hand out."""
    return tuple([one._replace(guarantee=client_copy(one.guarantee)) for one in charges])
