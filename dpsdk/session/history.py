"""The history of a session: what was asked, and what the odometer charged for it."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

from attrs import frozen

from dpsdk._lifetime import Lifetime
from dpsdk.accounting import Guarantee, Odometer
from dpsdk.accounting.spent import Asked
from dpsdk.errors import BudgetExceeded
from dpsdk.kernel.access import Question
from dpsdk.observe import Event, Observer, Refused
from dpsdk.release import Cost

__all__ = ["Entry", "History"]


@frozen
class Entry:
    """One line of a session's history.

    `query` is what was asked, empty where a channel was opened; `cost` what was charged for it;
    `answered` is False where a charge came to nothing.
    """

    query: str
    mechanism: str
    cost: Cost
    answered: bool = True

    def __str__(self) -> str:
        asked = self.query or "opened"
        return f"{asked} by {self.mechanism}: {self.cost}{'' if self.answered else ', no answer'}"


class History:
    """What was asked of a session, its scopes and parts, and what was told of it while it went on.

    Costs are what the odometer charged, and nothing else: each charge names its question. So an
    interrupt at any moment leaves no charge without an entry.

    Parameters
    ----------
    odometer
        The session's.
    observer
        What is told of each question when it is over, outside all locks.
    """

    __slots__ = ("_asked", "_numbers", "_observer", "_odometer")

    def __init__(self, odometer: Odometer, observer: Observer | None) -> None:
        self._odometer = odometer
        self._observer = observer
        self._numbers = count(1)
        self._asked: dict[int, Question] = {}

    def ask(self, query: str, mechanism: str, ending: Lifetime) -> Question:
        """A new question, which charges name and which ends with its channel or before."""
        asked = Asked(query, mechanism, next(self._numbers))
        observed = self._observer is not None
        question = Question(asked, ending, self._odometer.charges, observed=observed)
        if observed:
            question.listener = self._tell
        # Before anything is charged, so that what is charged is found here.
        self._asked[asked.number] = question
        return question

    def cost(self, question: Question) -> Cost:
        """What a question was charged so far."""
        return Cost(self._paid(question))

    def note(self, question: Question, error: BaseException) -> None:
        """Tell whoever meets the error of a question what was charged for it and stays charged."""
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
        question.end()
        if not question.answered and not self._paid(question):
            self._asked.pop(question.asked.number, None)
        if self._observer is not None:
            question.listener = None  # so that questions keep no session alive
            if event is not None:
                question.events.append(event)
            self._tell(question)

    def _tell(self, question: Question) -> None:
        """Tell the observer what happened since it was last told."""
        observer, events = self._observer, question.events
        while observer is not None and events:
            event = events.pop(0)
            if isinstance(event, Refused):
                observer(event)
            else:
                with suppress(Exception):  # what was paid for must not be lost
                    observer(event)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """One entry a question that was answered or charged, in the order of asking."""
        # What was asked is read first: a charge that comes later has its question in there, or
        # makes an entry of its own.
        asked = dict(self._asked)
        costs: dict[int, list[Guarantee]] = {}
        strays: dict[int, Asked] = {}
        for charge in self._odometer.entries:
            costs.setdefault(charge.question, []).append(charge.guarantee)
            if charge.question not in asked:
                strays[charge.question] = Asked(charge.label, charge.mechanism, charge.question)
        found = [
            (question.asked, question.answered)
            for number, question in asked.items()
            if question.answered or number in costs
        ]
        found += [(stray, False) for stray in strays.values()]
        found.sort(key=lambda one: one[0].number)
        return tuple(
            Entry(one.query, one.mechanism, Cost(tuple(costs.get(one.number, ()))), answered)
            for one, answered in found
        )

    def _paid(self, question: Question) -> tuple[Guarantee, ...]:
        return self._odometer.cost_of(question.asked.number, question.since)
