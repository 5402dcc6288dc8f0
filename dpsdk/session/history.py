"""The history of a ledger: what was asked, and what the odometer charged for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from fractions import Fraction
from itertools import count
from typing import SupportsIndex, overload

from dpsdk._frames import Column, Framed
from dpsdk._html import html_of, page, table
from dpsdk._lifetime import Lifetime
from dpsdk._records import field, frozen
from dpsdk.accounting import Charge, Guarantee, Odometer, Trusted
from dpsdk.accounting.spent import Around, Asked, Payment, moment_of, scope_line
from dpsdk.errors import BudgetExceeded
from dpsdk.kernel.question import Question
from dpsdk.kernel.trust import named, naming
from dpsdk.observe import Event, Observer, Progress, Refused
from dpsdk.progress import Bars
from dpsdk.release import Cost

__all__ = ["History", "Receipt", "Receipts"]


@frozen
class Receipt:
    """The cost of a question.

    Parameters
    ----------
    query
        What was asked; empty where a channel was opened.
    mechanism
        Which mechanism was asked, and which classes of other authors were trusted for it.
    cost
        What was charged for it.
    answered
        Whether an answer came of it: False where a charge came to nothing, and None where another
        session on the same ledger asked, since only charges are on record.
    scope
        The scope that asked; empty where the session itself did.
    request_id
        The request that it was for, or empty.
    at
        When it was charged first, in UTC, by the charger's clock; None where it was
        free, or no time was kept. Neither compared nor shown.
    """

    query: str
    mechanism: str
    cost: Cost
    answered: bool | None = True
    scope: str = ""
    request_id: str = ""
    at: datetime | None = field(default=None, eq=False, repr=False)

    def __str__(self) -> str:
        asked = self.query or "opened"
        lost = ", no answer" if self.answered is False else ""
        scope = f" in scope {self.scope!r}" if self.scope else ""
        return f"{asked} by {self.mechanism}{scope}: {self.cost}{lost}"


def _rounded(amount: Fraction) -> float:
    try:
        return float(amount)
    except OverflowError:
        return math.inf


class Receipts(Framed, tuple[Receipt, ...]):
    """The costs of questions, in order of asking: a tuple of receipts that can be made a frame.

    Its columns are `query`, `mechanism`, `scope`, `request_id`, `cost` in words, `epsilon`, empty
    where a run has no pure ε, `rho`, `answered` and `at`, in UTC.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> Receipts: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Receipt | Receipts:
        if isinstance(index, slice):
            return Receipts(super().__getitem__(index))
        return super().__getitem__(index)

    def _columns(self) -> dict[str, Column]:
        pure = [receipt.cost.epsilon for receipt in self]
        return {
            "query": Column([receipt.query for receipt in self], "text"),
            "mechanism": Column([receipt.mechanism for receipt in self], "text"),
            "scope": Column([receipt.scope for receipt in self], "text"),
            "request_id": Column([receipt.request_id for receipt in self], "text"),
            "cost": Column([str(receipt.cost) for receipt in self], "text"),
            "epsilon": Column([None if one is None else _rounded(one) for one in pure], "number"),
            "rho": Column([_rounded(receipt.cost.rho) for receipt in self], "number"),
            "answered": Column([receipt.answered for receipt in self], "truth"),
            "at": Column([receipt.at for receipt in self], "moment"),
        }

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the newest."""
        return html_of(self)


@html_of.register(Receipts)
def _html_of_receipts(receipts: Receipts, /) -> str:
    header = ["query", "mechanism", "scope", "cost", "answered"]
    outcomes = {True: "yes", False: "no", None: "not known"}
    newest = (
        [one.query or "opened", one.mechanism, one.scope, one.cost, outcomes[one.answered]]
        for one in reversed(receipts)
    )
    count = len(receipts)
    if not count:
        return page("Nothing was asked yet")
    title = f"{count:,} receipt{'' if count == 1 else 's'}, the newest first"
    return page(title, table(header, newest, count))


class History:
    """The questions of a session, its scopes and parts, and the events they caused.

    Costs are what the ledger has on record, and nothing else: each charge names its question. So an
    interrupt at any moment leaves no charge without a receipt, and the charges of other sessions on
    the same ledger, also of those that ended before, have theirs.

    Parameters
    ----------
    odometer
        The session's.
    observer
        Gets the event of each question when it is over, outside all locks.
    bars
        Where the progress of what lasts is shown, if it is.
    """

    __slots__ = (
        "_asked",
        "_bars",
        "_known",
        "_numbers",
        "_observer",
        "_odometer",
        "_rules",
        "_whole",
        "observed",
        "working",
    )

    def __init__(
        self, odometer: Odometer, observer: Observer | None, bars: Bars | None = None
    ) -> None:
        self._odometer = odometer
        self._observer = observer
        self._bars = bars
        self.working: Callable[[str], AbstractContextManager[object]]
        """Makes a block of work of this thread, which is shown once it has lasted."""
        self.working = nullcontext if bars is None else bars.working
        # Copies, which releases hold.
        self.observed: bool = observer is not None or bars is not None
        """True if somebody is told what happens."""
        self._rules = odometer.composition, odometer.budget
        self._numbers = count(1)
        self._asked: dict[int, Question] = {}
        self._known: dict[tuple[int, int], tuple[tuple[int, bool], Receipt]] = {}
        self._whole: tuple[tuple[int, int], Receipts] = (0, 0), Receipts()

    def ask(
        self,
        query: str,
        mechanism: str,
        lifetime: Lifetime,
        *,
        scope: str = "",
        request: str | None = None,
    ) -> Question:
        """A new question, which charges name and which ends with its channel or before."""
        asked = Asked(query, mechanism, next(self._numbers), scope, request)
        question = Question(asked, lifetime, self._odometer.since, observed=self.observed)
        if self.observed:
            question.listener = self.tell
        # Before anything is charged, so that what is charged is found here.
        self._asked[asked.number] = question
        return question

    def cost(self, question: Question) -> Cost:
        """The charges of a question so far."""
        return Cost(self._paid(question))

    def spent_on(self, questions: Collection[int]) -> Cost:
        """The charges of some questions of this session so far."""
        mine = self._odometer.session
        charges = self._odometer.charges if questions else ()
        return Cost(
            [one.guarantee for one in charges if one.session == mine and one.question in questions]
        )

    def payment(
        self,
        table: str,
        account: str,
        by: object,
        around: Around | None,
        trusted: tuple[Trusted, ...] = (),
        periods: tuple[int, int] | None = None,
    ) -> Payment:
        """The payer of the session, the rules, the trust, and what is left, of periods at worst."""
        before, after = (
            (None, None) if around is None else (moment_of(books, periods) for books in around)
        )
        scope = None if around is None or not account else scope_line(around[1], account)
        return Payment(table, account, by, *self._rules, before, after, trusted, scope)

    def note(self, question: Question, error: BaseException) -> None:
        """Note on the error of a question what was charged for it and stays charged."""
        charges: tuple[Charge, ...] = ()
        with suppress(Exception):  # a ledger that fails must not take the place of the error
            charges = self._odometer.charged_for(question.asked.number, question.since)
        if not charges:
            return
        cost = Cost(tuple(charge.guarantee for charge in charges))
        if type(error) is BudgetExceeded:
            error.charges = tuple(charge.number for charge in charges)
        with suppress(Exception):
            error.add_note(f"charged before it failed, and still charged: {cost}")

    def over(self, question: Question, event: Event | None) -> None:
        """End a question, and tell the observer what happened; last, that it was answered."""
        self.ended(question, event)
        self.tell(question)

    def ended(self, question: Question, event: Event | None) -> None:
        """End a question. The observer is yet to be told what happened."""
        question.end()
        question.around = None  # books may be large, and questions are kept
        if not question.answered:
            with suppress(Exception):  # if a ledger fails, whether it was charged is not known
                if not self._paid(question):
                    self._asked.pop(question.asked.number, None)
        if question.observed:
            question.listener = None  # so that questions keep no session alive
            if event is not None:
                question.events.append(event)

    def tell(self, question: Question) -> None:
        """Tell the observer what happened since it was last told."""
        observer, bars, events = self._observer, self._bars, question.events
        while events:
            event = events.pop(0)
            if bars is not None and isinstance(event, Progress):
                bars.told(event.done, event.total, event.unit)
            if observer is None:
                continue
            if isinstance(event, Refused):
                observer(event)
            else:
                with suppress(Exception):  # what was paid for must not be lost
                    observer(event)

    @property
    def receipts(self) -> Receipts:
        """One for each question that was answered or charged, in order of asking."""
        # What was asked is read first: a charge that comes later has its question in there, or
        # makes a receipt of its own.
        mine, asked = self._odometer.session, dict(self._asked)
        answered = {(mine, number) for number, question in asked.items() if question.answered}
        charges = self._odometer.charges
        state, whole = self._whole
        if state == (len(charges), len(answered)):
            return whole
        paid: dict[tuple[int, int], list[Charge]] = {}
        for charge in charges:
            paid.setdefault((charge.session, charge.question), []).append(charge)
        receipts: list[Receipt] = []
        for key in sorted({*answered, *paid}):
            question = asked[key[1]].asked if key in answered else None
            own = paid.get(key, [])
            # Charges are only appended, so that the same number of them are the same.
            how, receipt = self._known.get(key, (None, None))
            if receipt is None or how != (len(own), question is None):
                receipt = _receipt_of(question, own, mine)
                self._known[key] = (len(own), question is None), receipt
            receipts.append(receipt)
        found = Receipts(receipts)
        self._whole = (len(charges), len(answered)), found
        return found

    def _paid(self, question: Question) -> tuple[Guarantee, ...]:
        return self._odometer.cost_of(question.asked.number, question.since)


def _receipt_of(asked: Asked | None, charges: list[Charge], mine: int) -> Receipt:
    """Return the receipt of one question, None where it was not answered here, and its charges."""
    told, trusted = asked, set[str]()
    answered: bool | None = True
    for charge in charges:
        by, names = named(charge.mechanism)
        if asked is None or asked.mechanism != charge.mechanism:
            trusted.update(names)
        if told is None:
            answered = False if charge.session == mine else None
            told = Asked(charge.label, by, charge.question)
            told = told._replace(scope=charge.scope, request=charge.request_id)
    assert told is not None  # noqa: S101  # it was answered or charged
    return Receipt(
        told.query,
        naming(told.mechanism, trusted),
        Cost(tuple([charge.guarantee for charge in charges])),
        answered,
        told.scope,
        told.request or "",
        charges[0].at if charges else None,
    )
