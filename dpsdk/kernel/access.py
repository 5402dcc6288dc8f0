"""Access to one private table: charge first, then read behind a wall that nothing leaks through."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Generic, NoReturn, Self, TypeVar, final

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown
from dpsdk._locks import ExclusiveLock
from dpsdk._records import evolve, shows_half_made
from dpsdk.accounting import (
    Dataset,
    DiscreteGaussianGuarantee,
    Guarantee,
    GuaranteeByPeriod,
    Odometer,
    Trusted,
    zcdp_rho,
)
from dpsdk.accounting.filters.composition import Runs, counted, paired
from dpsdk.accounting.guarantee import check_guarantee, whole_of
from dpsdk.accounting.prices.covering import covers
from dpsdk.accounting.spent import Asked
from dpsdk.data import PrivateData
from dpsdk.data.counts import Counts
from dpsdk.data.keyed import KeyedRows
from dpsdk.data.undeclared import Undeclared, UndeclaredFacts
from dpsdk.data.vault import open_histogram, open_rows, public_facts, undeclared_facts
from dpsdk.errors import (
    AlreadyCharged,
    BudgetExceeded,
    Closed,
    InvalidArgument,
    Redacted,
    ReleaseFailed,
)
from dpsdk.forms.facts import Facts, Neighbors
from dpsdk.kernel.primitive import check_not_lent
from dpsdk.kernel.question import Question, behind_wall, event_context
from dpsdk.kernel.terms import Terms
from dpsdk.kernel.trust import NOBODY, Trust, naming
from dpsdk.noise import NoiseSource
from dpsdk.observe import Charged, Event, Observer, Refused

__all__ = [
    "Access",
    "Allowance",
    "Gate",
    "UndeclaredAccess",
    "access_of",
    "dated",
    "dataset_of",
    "unbounded",
]

R = TypeVar("R")
S = TypeVar("S")

_FORKED = "a kernel in a forked process"


class Gate(ABC, Generic[S]):
    """The gate before one private source: what is behind it is paid for first, and read then."""

    question: Question | None = None
    """The question that is worked on, where there is one."""

    def __init__(
        self,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None,
        trust: Trust = NOBODY,
    ) -> None:
        self.root: object = object()
        """Shared by all accesses of one channel. Allowances show it, so it must tell nothing."""
        self.mechanism = mechanism
        self.trust = trust
        self.noise = noise
        self._odometer = odometer
        self._observer = observer
        self._process = os.getpid()
        self._paid = set[int]()
        self._relied = set[str]()

    @abstractmethod
    def _open(self) -> S:
        """Open the source, behind the wall."""

    def on(self, question: Question) -> Self:
        """The same access, for one question: its charges name it and end with it."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), question=question)
        return other

    @property
    def paid(self) -> frozenset[int]:
        """The numbers of the questions to the channel that something was charged for."""
        return frozenset(tuple(self._paid))

    @property
    def relied(self) -> tuple[Trusted, ...]:
        """The trusted classes whose runs were paid for, and which answers may rest on."""
        if not self._relied:
            return ()
        return tuple([one for one in self.trust.names if one.name in self._relied])

    def check_whole(self, runs: Runs) -> None:
        """Refuse, before anything is charged, what does not fit as a whole."""
        self._ready()
        self._check_bounded(runs)
        odometer, question = self._odometer, self.question
        try:
            odometer.check_all(runs)
        except BudgetExceeded as error:
            request = None if question is None else question.request
            known = odometer.ledger_charges() if request else ()
            paid = tuple(one.number for one in known if one.request_id == request)
            if request and paid:
                raise AlreadyCharged(request, paid) from None
            first = next((run for run, count in counted(runs) if count), None)
            if question is not None and first is not None:
                self._refused(question.asked, first)
            raise self._dated(error) from None

    def charge_all(
        self, guarantees: tuple[Guarantee, ...], trusted: Collection[str] = ()
    ) -> tuple[int, ...]:
        """Pay for several runs, all of them or none, for the question that is worked on.

        Their labels have the names of those whose word is taken for them. Raises what an odometer
        raises.
        """
        self._ready()
        if not guarantees:
            return ()
        self._check_bounded(guarantees)
        question, witness, request = self.question, None, None
        if question is None:
            asked = Asked("", self.mechanism, scope=self._odometer.scope)
        else:
            asked, witness, request = question.asked, question.charged, question.request
            # Before it is charged, so that no interrupt leaves a charge out.
            self._paid.add(asked.number)
        if trusted:
            asked = asked._replace(mechanism=naming(self.mechanism, trusted))
        try:
            numbers = self._odometer.charge_all(guarantees, asked, witness, request_id=request)
        except BudgetExceeded as error:
            self._refused(asked, guarantees[0])
            raise self._dated(error) from None
        if question is not None:
            question.request = None
        self._relied.update(trusted)
        if self._observer is not None if question is None else question.observed:
            scope, name, now = event_context(asked)
            for number, guarantee in zip(numbers, guarantees, strict=True):
                what = number, asked.query, asked.mechanism, guarantee
                self._tell(Charged(*what, scope=scope, request_id=name, at=now))
        return numbers

    def _refused(self, asked: Asked, guarantee: Guarantee) -> None:
        """Tell the observer of what did not fit."""
        question = self.question
        if self._observer is not None if question is None else question.observed:
            scope, request, now = event_context(asked)
            what = asked.query, asked.mechanism, guarantee
            self._tell(Refused(*what, scope=scope, request_id=request, at=now))

    def check(self) -> None:
        """Refuse if the question is over, or what it was asked of is closed. Raises `Closed`."""
        if self.question is not None:
            self.question.check()

    def _ready(self) -> None:
        """Refuse, in public, what could only fail after the charge."""
        if os.getpid() != self._process:
            raise Closed(_FORKED)
        check_not_lent()
        if self.question is not None:
            self.question.check()

    def _check_bounded(self, runs: Runs) -> None:
        """Refuse runs on all of time that nobody asked for in so many words."""
        del runs

    def _dated(self, error: BudgetExceeded) -> BudgetExceeded:
        """The same refusal, in the words of the table."""
        return error

    def _tell(self, event: Event) -> None:
        """Keep an event until the question is over, when no lock is held; else tell it now."""
        if self.question is not None:
            self.question.events.append(event)
        elif self._observer is not None:
            if isinstance(event, Refused):
                self._observer(event)
            else:
                with suppress(Exception):  # what was paid for must not be lost
                    self._observer(event)

    def read(self, charge: int, work: Callable[[NoiseSource, Callable[[], S]], R]) -> R:
        """Do what was paid for. `work` should draw its noise before it opens the source."""
        result, stop = self._attempt(work)
        # A finaliser or a signal handler may have forked meanwhile: the noise of the other process
        # may be another.
        if os.getpid() != self._process:
            raise Closed(_FORKED)
        if stop is not None:
            raise stop
        if result is None:
            raise ReleaseFailed(charge)
        return result[0]

    def _attempt(
        self, work: Callable[[NoiseSource, Callable[[], S]], R]
    ) -> tuple[tuple[R] | None, BaseException | None]:
        """Private values stay in the frames below this one, and no error leaves it."""
        try:
            # Whatever numpy was told to do about errors: that one occurred might depend on data.
            behind_wall.on = True
            with np.errstate(all="ignore"):
                return (work(self.noise, self._open),), None
        except KeyboardInterrupt:
            return None, KeyboardInterrupt()
        except SystemExit:
            return None, SystemExit()
        except BaseException:  # noqa: BLE001  # see above
            return None, None
        finally:
            behind_wall.on = False

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")


@final
class Access(Gate[Counts]):
    """What the primitives of one kernel share. A kernel does not hand it out."""

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None,
        trust: Trust = NOBODY,
    ) -> None:
        public_facts(data)  # refuses what is no table, or was closed
        super().__init__(odometer, noise, mechanism, observer, trust)
        self.data = data
        self.facts: Facts = data.facts
        self.terms: Terms = Terms(data.facts, odometer.composition, trust.names)

    def _open(self) -> Counts:
        return open_histogram(self.data)

    @override
    def _check_bounded(self, runs: Runs) -> None:
        if unbounded(self.facts, runs):
            expected = (
                "bounded in time, as it would spend every period at once: ask "
                "session.between(first, last), or between(None, None) if all of them are meant"
            )
            raise InvalidArgument("query", expected, "one about all of time")

    @override
    def _dated(self, error: BudgetExceeded) -> BudgetExceeded:
        return dated(error, self.facts)

    def check_same(self, parameter: str, root: object) -> None:
        """Refuse what was paid for, or opened, on another table or by another payer."""
        if root is not self.root:
            raise InvalidArgument(parameter, "of the same channel", "one of another channel")

    def allow(self, guarantees: Iterable[Guarantee]) -> Allowance:
        """Charge runs now, all or none, for later runs to use up."""
        runs = tuple(map(check_guarantee, guarantees))
        return Allowance(self.root, zip(runs, self.charge_all(runs), strict=True))

    def charge(self, guarantee: Guarantee, allowance: Allowance | None = None) -> int:
        """Pay for one run, from an allowance if a run in there covers it; the charge's number."""
        if allowance is not None:
            self.check_allowance(allowance)
            if not guarantee.free:
                self._ready()
                paid = allowance.use(guarantee)
                if paid is not None:
                    return paid
        return self.charge_all((guarantee,))[-1]

    def check_allowance(self, allowance: Allowance) -> None:
        """Refuse what is no allowance of this channel. Raises as `check_same` does."""
        if not isinstance(allowance, Allowance):
            raise InvalidArgument("allowance", "an Allowance", type(allowance).__name__)
        self.check_same("allowance", allowance.root)


def dated(error: BudgetExceeded, facts: Facts) -> BudgetExceeded:
    """The same refusal with the dates of periods in place of their numbers."""
    periods = facts.periods
    if periods is None or error.period is None:
        return error
    attribute = facts.domain[periods.attribute]
    first, count = periods.text(attribute, error.period), error.refusing
    if count == 1:
        what = f"that is so of one period of {shown(attribute.name)}, {first}"
    else:
        what = f"that is so of {count:,} periods of {shown(attribute.name)}, the first {first}"
    if error.passing is not None:
        low, high = (periods.text(attribute, number) for number in error.passing)
        what += f", and not of those from {low} to {high}"
    return evolve(error, places=f"; {what}")


def unbounded(facts: Facts, runs: Runs) -> bool:
    """True if a run touches all periods of a table at once, and nobody asked for just these."""
    desk = facts.period_range
    # A table of some time alone was asked for by `between`.
    if desk is None or desk[0] == desk[1] or facts.part_of is not None:
        return False
    return any(_is_of_all(run, desk) for run, _ in paired(runs))


def _is_of_all(run: Guarantee, desk: tuple[int, int]) -> bool:
    """True if a run touches all periods of a desk, as far as its guarantee says."""
    if not isinstance(run, GuaranteeByPeriod):
        return True
    reached = desk[0] - 1
    for first, last, _ in run.parts:
        if first > reached + 1:
            return False
        reached = last
    return reached >= desk[1]


@final
class UndeclaredAccess(Gate[KeyedRows]):
    """The gate before a table that nobody has described."""

    def __init__(
        self,
        data: Undeclared,
        odometer: Odometer,
        noise: NoiseSource,
        observer: Observer | None,
    ) -> None:
        self.facts: UndeclaredFacts = undeclared_facts(data)
        super().__init__(odometer, noise, "discover", observer)
        self.data = data

    def _open(self) -> KeyedRows:
        return open_rows(self.data)


def access_of(kernel: object) -> Access:
    """The access under a kernel."""
    access: object = getattr(kernel, "_access", None)
    if not isinstance(access, Access):
        raise InvalidArgument("kernel", "a kernel", type(kernel).__name__)
    return access


def dataset_of(data: PrivateData | Undeclared) -> Dataset:
    """The name of a table in a ledger, as it was declared."""
    if isinstance(data, Undeclared):
        own = undeclared_facts(data)
        return Dataset(data.name, own.neighbors.value, 1, own.person or "", own.strip)
    setting = public_facts(data)
    relation = Neighbors.REPLACE_ONE if setting.replaced else Neighbors.ADD_REMOVE
    person, rule = setting.person or "", setting.period_rule
    return Dataset(data.name, relation.value, setting.unit_rows, person, setting.strip, rule)


@shows_half_made
@final
class Allowance:
    """Runs that were charged together; later runs use them up. Made by `kernel.allowance`.

    A run may use up a paid one that covers it: one that was enough to set aside for it under any
    composition of the package, whatever is answered in between.
    docs/explanation/proofs/allowance.md has the proof.
    """

    __slots__ = ("_left", "_lock", "root")

    def __init__(self, root: object, paid: Iterable[tuple[Guarantee, int]]) -> None:
        self.root: object = root
        """Shared by all accesses of the channel that it was paid for."""
        self._lock = ExclusiveLock("an allowance")
        # The numbers of the charges by what was paid, since a list of runs has few kinds of them.
        self._left: dict[Guarantee, list[int]] = {}
        for guarantee, charge in reversed(list(paid)):
            self._left.setdefault(guarantee, []).append(charge)

    @property
    def left(self) -> int:
        """How many of the runs are not used up."""
        return sum(map(len, tuple(self._left.values())))

    def use(self, guarantee: Guarantee) -> int | None:
        """Use up the least paid run that covers another; the number of its charge, None if none.

        What was used up stays so, whatever becomes of the run.
        """
        return self._lock.run(lambda: self._use(guarantee))

    def _use(self, guarantee: Guarantee) -> int | None:
        able = [paid for paid, left in self._left.items() if left and covers(paid, guarantee)]
        if not able:
            return None
        least = able[0]
        for paid in able[1:]:
            if covers(least, paid) or _smaller(paid, least):
                least = paid
        return self._left[least].pop()

    def __repr__(self) -> str:
        return f"Allowance({self.left} runs left)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying an allowance")


def _smaller(paid: Guarantee, other: Guarantee) -> bool:
    """True if one discrete Gaussian has less ρ than another, though they cover alike."""
    paid, other = whole_of(paid), whole_of(other)
    both = isinstance(paid, DiscreteGaussianGuarantee) and isinstance(
        other, DiscreteGaussianGuarantee
    )
    return both and zcdp_rho(paid) < zcdp_rho(other)
