"""Charges: the rows of a ledger, one for each accepted run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, Self, cast

from dpsdk import codec
from dpsdk._checks import shown
from dpsdk.accounting.guarantee import GUARANTEE, Guarantee
from dpsdk.codec import (
    INTEGER,
    JSON,
    NATURAL,
    TEXT,
    Codebook,
    ListOf,
    Nested,
    OrNone,
    Plain,
    from_record,
    to_plain,
    to_record,
)
from dpsdk.errors import WireError

__all__ = ["SESSION", "Charge", "Payer", "charge_of", "written"]

_SHORT = 1 << 12

dumped: Callable[[object], str] = json.JSONEncoder(separators=(",", ":")).encode
"""Plain data as JSON, in ASCII and without spaces."""

_MOMENT = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{6}Z", re.ASCII)


@codec.written(
    "payer",
    {
        "accounts": ListOf(NATURAL, most=64),
        "generation": NATURAL,
        "part": OrNone(NATURAL),
        # Of tables without periods it is not written.
        "periods": codec.Member(OrNone(ListOf(INTEGER, least=2, most=2)), None, quiet=True),
    },
    wrong=lambda payer: (
        "" if payer.periods is None or payer.periods[0] <= payer.periods[1] else "periods in order"
    ),
    public=False,
)
class Payer(NamedTuple):
    """On which accounts a run counts, and on which part of a divided table.

    Of a table with periods, on the periods of a range, both ends included.
    """

    accounts: tuple[int, ...] = ()
    generation: int = 0
    part: int | None = None
    periods: tuple[int, int] | None = None


SESSION = Payer()
"""Pays from the whole budget for runs on the whole table."""


class _Moment:
    """A moment in UTC, as 2026-01-31T09:30:00.000000Z."""

    def write(self, value: datetime, path: str, _: Codebook, /) -> Plain:
        expected = "a moment in a time zone"
        if not isinstance(value, datetime):
            raise WireError(path, expected, type(value).__name__)
        if value.utcoffset() is None:
            raise WireError(path, expected, "one without")
        try:
            at = value.astimezone(UTC)
        except OverflowError:
            expected = "a moment whose year in UTC has four digits"
            raise WireError(path, expected, "another") from None
        return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"

    def read(self, plain: Plain, path: str, _: Codebook, /) -> datetime:
        if type(plain) is str and _MOMENT.fullmatch(plain):
            try:
                return datetime.fromisoformat(plain[:-1]).replace(tzinfo=UTC)
            except ValueError:
                pass
        raise WireError(path, "a moment, as 2026-01-31T09:30:00.000000Z", shown(plain))

    def schema(self, _: Codebook, /) -> JSON:
        return {"type": "string", "pattern": f"^{_MOMENT.pattern}$"}


@codec.written(
    "charge",
    {
        "number": NATURAL,
        "label": TEXT,
        "guarantee": GUARANTEE,
        "mechanism": TEXT,
        "question": NATURAL,
        "session": NATURAL,
        "payer": Nested[Payer]("a payer", Payer),
        "request_id": TEXT,
        # Of whom and when was not written at first.
        "scope": codec.Member(TEXT, ""),
        "at": codec.Member(OrNone(_Moment()), None),
    },
    public=False,
)
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
        When, in UTC, by the charger's clock. Clocks differ and jump: the order is that
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

    def to_record(self) -> JSON:
        """The charge as plain data; raises `RecordError` if its texts or numbers are too long."""
        return to_record(self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The charge of a record; raises `RecordError` if it is none."""
        return from_record(cls, record)


_guarantee_form = lru_cache(1024)(to_plain)
"""Equal guarantees have one form, which is written and not changed."""


@lru_cache(1024)
def _guarantee_of(items: tuple[tuple[str, Plain], ...]) -> Guarantee:
    return codec.from_plain(Guarantee, dict(items))  # type: ignore[type-abstract]  # of any class


def written(charges: Sequence[Charge]) -> bytes:
    """The records of charges, as an entry holds them."""
    return dumped([_plain(charge) for charge in charges]).encode("ascii")


def _plain(charge: Charge) -> JSON:
    """The result of `Charge.to_record`, sooner for short charges."""
    number, label, guarantee, mechanism, question, session, payer, request, scope, at = charge
    texts = f"{label}{mechanism}{request}{scope}"
    if not texts.isascii() or len(texts) > _SHORT or (at is not None and at.tzinfo is not UTC):
        return charge.to_record()
    accounts, generation, part, periods = payer
    moment = "" if at is None else at.replace(tzinfo=None).isoformat(timespec="microseconds")
    return {
        "kind": "charge",
        "number": number,
        "label": label,
        "guarantee": _guarantee_form(guarantee),
        "mechanism": mechanism,
        "question": question,
        "session": session,
        "payer": {
            "kind": "payer",
            "accounts": list(accounts),
            "generation": generation,
            "part": part,
            **({} if periods is None else {"periods": list(periods)}),
        },
        "request_id": request,
        "scope": scope,
        "at": f"{moment}Z" if moment else None,
    }


def charge_of(record: object) -> Charge:
    """The result of `Charge.from_record`, sooner where `_plain` wrote it."""
    try:
        members = cast("dict[str, Any]", record)
        payer, at = members["payer"], members["at"]
        periods = payer.get("periods")
        changed: dict[str, Any] = {
            "guarantee": _guarantee_of(tuple(members["guarantee"].items())),
            "payer": Payer(
                tuple(payer["accounts"]),
                payer["generation"],
                payer["part"],
                periods and tuple(periods),
            ),
            "at": at and datetime.fromisoformat(at[:-1]).replace(tzinfo=UTC),
        }
        charge = Charge(**{name: members[name] for name in Charge._fields} | changed)
        numbers = [charge.number, charge.question, charge.session, *charge.payer.accounts]
        numbers += [charge.payer.generation, charge.payer.part or 0]
        if periods is not None:
            first, last = periods
            numbers.append(last - first if type(first) is type(last) is int else -1)
        texts = charge.label, charge.mechanism, charge.request_id, charge.scope
        exact = {*map(type, numbers)} == {int} and {*map(type, texts)} == {str}
        if exact and min(numbers) >= 0 and _plain(charge) == record:
            return charge
    except (TypeError, ValueError, KeyError, AttributeError):
        pass
    return Charge.from_record(record)
