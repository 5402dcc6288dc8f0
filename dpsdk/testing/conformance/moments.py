"""Checks of what happens meanwhile and afterwards: threads, forks, interrupts, kept kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from dpsdk._checks import described
from dpsdk.accounting import Budget
from dpsdk.errors import BudgetExceeded, Closed, DpsdkError
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.release import Cost, Release
from dpsdk.session.opening import Stopped
from dpsdk.testing.audit.programs import AMPLE
from dpsdk.testing.conformance.bench import MechanismBench, Scene, runnable
from dpsdk.testing.conformance.costs import charges, least, within
from dpsdk.testing.conformance.report import Tally, called
from dpsdk.testing.interrupts import moments, outcome_of

__all__ = ["interrupts", "keeps_no_kernel", "threads"]

_THREADS = 4
_MOMENTS = 36
_HONEST = Laplace("0.001")


def threads(bench: MechanismBench, tally: Tally) -> None:
    """Several threads at once: each pays what was quoted, the books add up, and no thread stays."""
    for scene in runnable(bench, tally):
        before = set(threading.enumerate())
        session = bench.session(scene.table)
        bench.asked(scene, session)
        tally.ran()
        _none_left(tally, scene, before)
        asked = bench.asked(scene, bench.session(scene.table))
        _together(bench, tally, scene, AMPLE)
        _mixed(bench, tally, scene)
        runs = [*asked.opened.guarantees, *asked.costs[0].guarantees]
        budget = least(runs * 2)
        if budget is not None:
            _together(bench, tally, scene, budget)
        _none_left(tally, scene, before)


def _none_left(tally: Tally, scene: Scene, before: set[threading.Thread]) -> None:
    left = [thread for thread in threading.enumerate() if thread not in before]
    if left:
        for thread in left:
            thread.join(timeout=5)
        tally.fail(
            f"{scene}: after its answer there was a thread more, {left[0].name!r}",
            "End every thread before the answer is given: what it asks later is refused",
        )


def _at_once(work: Callable[[int], object]) -> list[BaseException]:
    """Do some work in several threads; what it raised is returned."""
    errors: list[BaseException] = []

    def tried(place: int) -> None:
        try:
            work(place)
        except BaseException as error:  # noqa: BLE001  # looked at by the caller
            errors.append(error)

    workers = [threading.Thread(target=tried, args=(place,)) for place in range(_THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return errors


def _together(bench: MechanismBench, tally: Tally, scene: Scene, budget: Budget) -> None:
    """Ask from several threads over one channel."""
    session = bench.session(scene.table, budget=budget)
    most = bench.quotes(scene, scene.table)[0].at_most
    releases: list[Release[object]] = []
    many = f"{scene}: asked from {_THREADS} threads at once"
    change = "Ask the kernel that the answer was given, and no other"
    with suppress(BudgetExceeded, Stopped), bench.opened(session) as channel:
        opened = len(charges(session))
        errors = _at_once(lambda _: releases.append(channel.release(scene.queries[0])))
        tally.ran(_THREADS)
        for error in errors:
            if not isinstance(error, DpsdkError):
                tally.fail(
                    f"{many} it raised {type(error).__name__}, {called(error)}",
                    "Let a strategy take a lock around what it changes, or change nothing",
                )
        for release in releases:
            excess = within(release.cost, most)
            if excess:
                tally.fail(f"{many} one answer was charged {excess}", change)
        paid = sum(len(release.cost.guarantees) for release in releases)
        charged = len(charges(session)) - opened
        if charged != paid and not errors:
            tally.fail(f"{many} it told of {paid} charges, and the books have {charged}", change)


def _mixed(bench: MechanismBench, tally: Tally, scene: Scene) -> None:
    """Ask different things at once: each thread gets as many numbers as it would get alone."""
    asked = [scene.queries[turn % len(scene.queries)] for turn in range(_THREADS)]
    try:
        with bench.opened(bench.session(scene.table)) as channel:
            sizes = [len(channel.release(query).raw) for query in asked]
    except DpsdkError:  # it takes fewer questions
        return
    got: dict[int, int] = {}
    with bench.opened(bench.session(scene.table)) as channel:
        errors = _at_once(lambda place: got.update({place: len(channel.release(asked[place]).raw)}))
    tally.ran(_THREADS)
    for place, size in enumerate(sizes):
        if got.get(place) != size:
            found = got.get(place, f"{', '.join(map(called, errors))}")
            tally.fail(
                f"{scene}: asked from {_THREADS} threads at once {described(asked[place])} got "
                f"{found}, and {size} numbers alone",
                "Keep what an answer is made of in the answer, and not in the strategy",
            )


def interrupts(bench: MechanismBench, tally: Tally) -> None:
    """Interrupted at any line: it comes out, charges stay within the quote, books stay whole."""
    scenes = runnable(bench, tally)
    for scene in scenes if bench.thorough else (scenes[0], scenes[-1]):
        quotes = bench.quotes(scene, scene.table)
        most = Cost([run for quote in quotes for run in quote.at_most.runs])
        whole = moments(partial(_once, bench, scene))
        for place in _spread(whole, _MOMENTS * (10 if bench.thorough else 1)):
            tally.ran()
            _interrupt(bench, tally, scene, most, place)


def _once(bench: MechanismBench, scene: Scene) -> None:
    bench.asked(scene, bench.session(scene.table))


def _spread(whole: int, many: int) -> list[int]:
    """About so many places of all lines, from the first to the last."""
    if whole <= many:
        return list(range(1, whole + 1))
    return sorted({1 + place * (whole - 1) // (many - 1) for place in range(many)})


def _interrupt(bench: MechanismBench, tally: Tally, scene: Scene, most: Cost, place: int) -> None:
    session = bench.session(scene.table)
    stopped: list[Stopped] = []

    def work() -> None:
        try:
            with session.open(bench.mechanism) as channel:
                for query in scene.queries:
                    with suppress(Closed):  # those that end after so many answers
                        channel.release(query)
        except Stopped as early:
            if early.why != "interrupt":
                raise
            stopped.append(early)

    came, _ = outcome_of(work, place)
    where = f"{scene}: interrupted at line {place} of those that it runs"
    if came == "swallowed" and not stopped:
        tally.fail(
            f"{where}, it went on as if nothing had been",
            "Let KeyboardInterrupt pass: catch Exception, and not BaseException",
        )
    excess = within(Cost(charges(session)), most)
    if excess:
        tally.fail(f"{where}, it was charged {excess}", "Ask nothing again after an interrupt")
    if len(charges(session)) != session.spent.charges:
        tally.fail(f"{where}, history and books differ", "Charge by the kernel alone")
    # A lock that is still held would have this wait for ever, or raise.
    before = len(charges(session))
    session.answer(Count(normalized=False), using=_HONEST)
    bench.asked(scene, session)
    if len(charges(session)) <= before:
        tally.fail(f"{where}, later answers were not charged", "Charge by the kernel alone")


def keeps_no_kernel(bench: MechanismBench, tally: Tally) -> None:
    """Each answer asks its own kernel."""
    for scene in runnable(bench, tally):
        with bench.opened(bench.session(scene.table)) as channel:
            for query in (*scene.queries, *scene.queries):
                tally.ran()
                try:
                    channel.release(query)
                except Closed as error:
                    if error.what.startswith(("the question ", "the opening of ")):
                        tally.fail(
                            f"{scene}: its answer raised {error}",
                            "Use the kernel of each answer within that answer, and keep none",
                        )
                except DpsdkError:  # some end after so many answers
                    break
