"""Access to one private table: charge first, then read behind a wall that nothing leaks through."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from threading import get_ident
from typing import NoReturn, TypeVar, final

import numpy as np
from attrs import frozen

from dpsdk._lifetime import Lifetime
from dpsdk.accounting import Composition, Dataset, Guarantee, Odometer
from dpsdk.accounting.copies import book_copy, checked_copy
from dpsdk.accounting.filters.composition import Runs, counted
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.clock import system_clock, told
from dpsdk.accounting.nested import ours
from dpsdk.accounting.payment import Around
from dpsdk.accounting.spent import Asked
from dpsdk.data import PrivateData
from dpsdk.data.counts import Counts
from dpsdk.data.vault import in_engine, open_histogram, setting_of
from dpsdk.errors import (
    AlreadyCharged,
    BudgetExceeded,
    Closed,
    InvalidArgument,
    Redacted,
    ReleaseFailed,
)
from dpsdk.forms import Facts
from dpsdk.forms.facts import Neighbors, Setting
from dpsdk.kernel.allowance import Allowance, granted, paid_by
from dpsdk.kernel.loan import check_not_lent
from dpsdk.kernel.primitive import Due, Vouched
from dpsdk.kernel.trust import NOBODY, Trust, Vouching, naming
from dpsdk.noise import NoiseSource, PublicGenerator
from dpsdk.observe import Charged, Event, Observer, Progress, Refused

__all__ = [
    "DEEP",
    "Access",
    "HasAccess",
    "Question",
    "access_of",
    "dataset_of",
    "make_room",
    "whose",
]

R = TypeVar("R")


class Question(Lifetime):
    """One question to a mechanism, or the opening of a channel, while it is worked on.

    When it was answered it is closed: from then on nothing is charged for it.

    Parameters
    ----------
    asked
        What its charges are labelled with.
    outer
        What it was asked of, which may be closed before.
    since
        How many charges the session had before.
    observed
        Whether somebody wants to be told of what happens.
    """

    __slots__ = (
        "answered",
        "around",
        "asked",
        "events",
        "listener",
        "observed",
        "request",
        "since",
        "steps",
        "stop",
        "thread",
    )

    def __init__(self, asked: Asked, outer: Lifetime, since: int, *, observed: bool) -> None:
        super().__init__(asked, outer)
        self.asked: Asked = asked
        self.since: int = since
        self.observed: bool = observed
        self.answered: bool = False
        self.around: Around | None = None
        """The books before its first charge and after its last one, while it goes on."""
        self.request: str | None = asked.request
        """Names the request that the next charge is for; its other charges follow from that one."""
        self.events: list[Event] = []
        """What an observer is told when it is over, or when it has progressed."""
        self.listener: Callable[[Question], None] | None = None
        """Tells the observer what there is to tell, in the thread that asked."""
        self.stop: Callable[[Progress], object] | None = None
        """Says, in the thread that asked, whether the work should stop at what was done."""
        if observed:
            self.thread: int = get_ident()
            self.steps: dict[str, int] = {}
            """How far each unit of work was when it was last told."""

    def charged(self, before: Books, after: Books) -> None:
        """Keep what the books were before the first charge and after the last one."""
        self.around = (before if self.around is None else self.around[0], after)


def whose(asked: Asked) -> tuple[str, str, datetime | None]:
    """What an event says of whom it concerns, and when: scope, request and the time."""
    return asked.scope, asked.request or "", told(system_clock)


_HEADROOM = 64
"""No primitive calls deeper than this, but for those that ask for more."""

DEEP = 256


def _nested(deep: int) -> tuple[object, ...]:
    nest: tuple[object, ...] = ()
    for _ in range(deep):
        nest = (nest,)
    return nest


_NEST, _OTHER = ({deep: _nested(deep) for deep in (_HEADROOM, DEEP)} for _ in range(2))


def make_room(calls: int = _HEADROOM) -> None:
    """Fail if fewer calls than that, or than `DEEP`, could be nested here.

    Some interpreters count calls of C together with frames, others frames alone. Comparing nested
    tuples takes as many of the former, in a fraction of the time that as many frames would take.
    """
    if _NEST[calls] != _OTHER[calls]:  # equal, unless comparing them went too deep
        raise RecursionError
    depth = sys.getrecursionlimit() - calls
    try:
        sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]  # documented
    except ValueError:  # the stack is not that deep
        return
    message = "a release needs room for more calls than are left"
    raise RecursionError(message)


@frozen(eq=False)
class _Shared:
    """What all accesses of one channel share."""

    root: object
    """Tells them from those of another. Allowances show it, so that it must tell nothing else."""
    data: PrivateData
    odometer: Odometer
    noise: NoiseSource
    mechanism: str
    observer: Observer | None
    setting: Setting
    process: int
    trusted: bool
    """Whether the odometer may be given what the kernel itself works with."""
    vouching: Vouching
    room: int
    """How many nested calls a release may take."""
    paid: set[int]
    """The numbers of the questions that something was charged for."""


@final
class Access:
    """What the primitives of one kernel share: a table, an odometer and a source of noise.

    It belongs to the kernel package: strategies hold a kernel, which does not hand it out.
    """

    __slots__ = ("_question", "_shared")

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None,
        trust: Trust = NOBODY,
    ) -> None:
        setting, process, known = setting_of(data), os.getpid(), ours(odometer)
        room = DEEP if in_engine(data) else _HEADROOM
        self._shared = _Shared(
            object(), data, odometer, noise, mechanism, observer, setting, process, known,
            Vouching(trust), room, set(),
        )  # fmt: skip
        self._question: Question | None = None

    def on(self, question: Question) -> Access:
        """The same access, for one question: its charges name it and end with it."""
        other = object.__new__(Access)
        other._shared = self._shared
        other._question = question
        return other

    def check_same(self, parameter: str, root: object) -> None:
        """Refuse what was paid for, or opened, on another table or by another payer.

        Raises
        ------
        InvalidArgument
            If the root is not of this access.
        """
        if root is not self._shared.root:
            raise InvalidArgument(parameter, "of the same channel", "one of another channel")

    def check_allowance(self, allowance: Allowance) -> None:
        """Refuse what is no allowance of this channel. Raises as `check_same` does."""
        paid_by(allowance, self._shared.root)

    @property
    def question(self) -> Question | None:
        """The question that is worked on, where there is one."""
        return self._question

    @property
    def paid(self) -> frozenset[int]:
        """The numbers of the questions to the channel that something was charged for."""
        return frozenset(tuple(self._shared.paid))

    @property
    def mechanism(self) -> str:
        """What the history calls the mechanism."""
        return self._shared.mechanism

    @property
    def root(self) -> object:
        """What all accesses of one channel have in common."""
        return self._shared.root

    @property
    def data(self) -> PrivateData:
        """The table, which shows nothing."""
        return self._shared.data

    @property
    def facts(self) -> Facts:
        """The public facts of the table, as they are handed out."""
        return self._shared.data.facts

    @property
    def setting(self) -> Setting:
        """The same as they were when the table was made. Prices and readings rest on it."""
        return self._shared.setting

    def composition(self) -> Composition:
        """The filter that decides what fits; a copy each time."""
        return self._shared.odometer.composition

    def public_generator(self) -> PublicGenerator:
        """A new generator for what is public, of the session's source."""
        return self._shared.noise.public_generator()

    @property
    def vouching(self) -> Vouching:
        """Which classes of other authors may run, and which did."""
        return self._shared.vouching

    def allow(self, guarantees: Iterable[Guarantee]) -> Allowance:
        """Charge runs now, all or none, for later runs to use up.

        Raises
        ------
        BudgetExceeded
            If the odometer refuses. Nothing has changed.
        """
        runs = tuple(map(book_copy, guarantees))
        return granted(self._shared.root, tuple(zip(runs, self._pay(runs), strict=True)))

    def charge(self, due: Due[object], allowance: Allowance | None = None) -> int:
        """Pay for one run, from an allowance if a run in there covers it; the charge's number.

        Raises
        ------
        BudgetExceeded
            If the odometer refuses. Nothing has changed.
        Closed
            If the question is over, or the channel, scope, part or session closed.
        InvalidArgument
            If the allowance is of another channel, or given for a class that is trusted by name.
        """
        if allowance is not None:
            self.check_allowance(allowance)
            if type(due) is Vouched:
                expected = "left out for a run of another author, whose name is on its own charge"
                raise InvalidArgument("allowance", expected, due.name)
            if not due.guarantee.free:
                self._ready()
                paid = paid_by(allowance, self._shared.root, due.guarantee)
                if paid is not None:
                    return paid
        trusted = (due.name,) if type(due) is Vouched else ()
        return self._pay((due.guarantee,), trusted)[-1]

    def charge_all(self, dues: Sequence[Due[object]]) -> tuple[int, ...]:
        """Pay for several runs, all of them or none. Raises as `charge` does."""
        names = {due.name for due in dues if type(due) is Vouched}
        return self._pay(tuple([due.guarantee for due in dues]), names)

    def check_whole(self, runs: Runs) -> None:
        """Refuse, before anything is charged, what does not fit as a whole.

        Raises
        ------
        BudgetExceeded
            If these runs do not fit together.
        AlreadyCharged
            If that is because they are for a request that was charged before.
        """
        self._ready()
        odometer, question = self._shared.odometer, self._question
        try:
            odometer.check_all(runs)
        except BudgetExceeded:
            request = None if question is None else question.request
            known = odometer.ledger_charges() if request else ()
            paid = tuple(one.number for one in known if one.request_id == request)
            if request and paid:
                raise AlreadyCharged(request, paid) from None
            first = next((run for run, count in counted(runs) if count), None)
            if question is not None and first is not None:
                self._refused(question.asked, first)
            raise

    def _pay(
        self, guarantees: tuple[Guarantee, ...], trusted: Collection[str] = ()
    ) -> tuple[int, ...]:
        """Charge them for the question, with the names of those whose word is taken for them."""
        self._ready()
        if not guarantees:
            return ()
        if not self._shared.trusted:
            guarantees = tuple(map(checked_copy, guarantees))
        question, mechanism = self._question, self._shared.mechanism
        asked = question.asked if question is not None else self._unasked()
        if question is not None:
            # Before it is charged, so that no interrupt leaves a charge out.
            self._shared.paid.add(asked.number)
        if trusted:
            mechanism = naming(mechanism, trusted)
            asked = asked._replace(mechanism=mechanism)
        try:
            request = None if question is None else question.request
            # An odometer of another author need not know of witnesses.
            told = (question.charged,) if question is not None and self._shared.trusted else ()
            if question is not None and request is not None:
                pay = self._shared.odometer.charge_all
                numbers: tuple[int, ...] = pay(guarantees, asked, *told, request_id=request)
                question.request = None
            elif len(guarantees) == 1:
                numbers = (self._shared.odometer.charge(guarantees[0], asked, *told),)
            else:
                numbers = self._shared.odometer.charge_all(guarantees, asked, *told)
        except BudgetExceeded:
            self._refused(asked, guarantees[0])
            raise
        if trusted:
            self._shared.vouching.rely(trusted)
        if self._observed:
            scope, request, now = whose(asked)
            for number, guarantee in zip(numbers, guarantees, strict=True):
                what = number, asked.query, mechanism, checked_copy(guarantee)
                self._tell(Charged(*what, scope=scope, request_id=request, at=now))
        return numbers

    def _refused(self, asked: Asked, guarantee: Guarantee) -> None:
        """Tell the observer of what did not fit."""
        if self._observed:
            scope, request, now = whose(asked)
            what = asked.query, asked.mechanism, checked_copy(guarantee)
            self._tell(Refused(*what, scope=scope, request_id=request, at=now))

    def _unasked(self) -> Asked:
        """What is charged where there is no question."""
        return Asked("", self._shared.mechanism, scope=self._shared.odometer.scope)

    @property
    def _observed(self) -> bool:
        question = self._question
        return self._shared.observer is not None if question is None else question.observed

    def check(self) -> None:
        """Refuse if the question is over, or what it was asked of is closed. Raises `Closed`."""
        if self._question is not None:
            self._question.check()

    def _ready(self) -> None:
        """Refuse, in public, what could only fail after the charge.

        A process that was forked would spend what was paid once a second time. And near the limit
        of recursion a draw would fail or not by what it draws, so there must be room for any.
        """
        self._check_process()
        check_not_lent()
        self.check()
        make_room(self._shared.room)

    def _check_process(self) -> None:
        if os.getpid() != self._shared.process:
            raise Closed("a kernel in a forked process")

    def _tell(self, event: Event) -> None:
        """Keep an event until the question is over, when no lock is held; else tell it now."""
        if self._question is not None:
            self._question.events.append(event)
        elif self._shared.observer is not None:
            if isinstance(event, Refused):
                self._shared.observer(event)
            else:
                with suppress(Exception):  # what was paid for must not be lost
                    self._shared.observer(event)

    def read(self, charge: int, work: Callable[[NoiseSource, Callable[[], Counts]], R]) -> R:
        """Do what was paid for. `work` should draw its noise before it opens the histogram.

        Raises
        ------
        ReleaseFailed
            Whatever went wrong: its text, type and place might depend on data. An interrupt
            passes, without what it met.
        """
        self._check_process()
        result, stop = self._attempt(work)
        # A finaliser or a signal handler may have forked meanwhile: the noise of the other process
        # may be another.
        self._check_process()
        if stop is not None:
            raise stop
        if result is None:
            raise ReleaseFailed(charge)
        return result[0]

    def _attempt(
        self, work: Callable[[NoiseSource, Callable[[], Counts]], R]
    ) -> tuple[tuple[R] | None, BaseException | None]:
        """Private values stay in the frames below this one, and no error leaves it."""
        try:
            # Whatever numpy was told to do about errors: that one occurred might depend on data.
            with np.errstate(all="ignore"):
                return (work(self._shared.noise, lambda: open_histogram(self._shared.data)),), None
        except KeyboardInterrupt:
            return None, KeyboardInterrupt()
        except SystemExit:
            return None, SystemExit()
        except BaseException:  # noqa: BLE001  # see above
            return None, None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")


class HasAccess:
    """What is made over an access, as kernels are."""

    __slots__ = ("_access",)

    _access: Access


def access_of(kernel: HasAccess) -> Access:
    """The access under a kernel.

    Raises
    ------
    InvalidArgument
        If it is no kernel.
    """
    access: object = getattr(kernel, "_access", None)
    # A class below this one could say that it had charged.
    if type(access) is not Access:
        raise InvalidArgument("kernel", "a kernel", type(kernel).__name__)
    return access


def dataset_of(data: PrivateData) -> Dataset:
    """What a ledger knows a table by, as it was declared."""
    setting = setting_of(data)
    relation = Neighbors.REPLACE_ONE if setting.replaced else Neighbors.ADD_REMOVE
    return Dataset(data.name, relation.value, setting.unit_rows, setting.person or "")
