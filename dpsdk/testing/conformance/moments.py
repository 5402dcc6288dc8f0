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
from dpsdk.testing.conformance.bench import (
    AMPLE,
    Bench,
    Scene,
    charges,
    least,
    runnable,
    typed,
    within,
)
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.interrupts import moments, outcome_of

__all__ = ["interrupts", "keeps_no_kernel", "threads"]

_THREADS = 4
_MOMENTS = 36
_HONEST = Laplace("0.001")


def threads(bench: Bench, tally: Tally) -> None:
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


def _together(bench: Bench, tally: Tally, scene: Scene, budget: Budget) -> None:
    """Ask from several threads over one channel."""
    session = bench.session(scene.table, budget=budget)
    most = bench.quotes(scene, scene.table)[0].at_most
    errors: list[BaseException] = []
    releases: list[Release[object]] = []
    with suppress(BudgetExceeded, Stopped), bench.opened(session) as channel:
        opened = len(charges(session))

        def work() -> None:
            try:
                releases.append(channel.release(scene.queries[0]))
            except BaseException as error:  # noqa: BLE001  # looked at below
                errors.append(error)

        workers = [threading.Thread(target=work) for _ in range(_THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        tally.ran(_THREADS)
        odd = next((error for error in errors if not typed(error)), None)
        if odd is not None:
            tally.fail(
                f"{scene}: asked from {_THREADS} threads at once it raised "
                f"{type(odd).__name__}, {described(odd)}",
                "Let a strategy take a lock around what it changes, or change nothing",
            )
        for release in releases:
            excess = within(release.cost, most)
            if excess:
                tally.fail(
                    f"{scene}: asked from {_THREADS} threads at once one answer was charged "
                    f"{excess}",
                    "Ask the kernel that the answer was given, and no other",
                )
        paid = sum(len(release.cost.guarantees) for release in releases)
        charged = len(charges(session)) - opened
        refused = [error for error in errors if isinstance(error, DpsdkError)]
        if charged != paid and not refused:
            tally.fail(
                f"{scene}: {_THREADS} threads were told of {paid} charges, and the books have "
                f"{charged}",
                "Ask the kernel that the answer was given, and no other",
            )


def _mixed(bench: Bench, tally: Tally, scene: Scene) -> None:
    """Ask different things at once: each thread gets as many numbers as it would get alone."""
    asked = [scene.queries[turn % len(scene.queries)] for turn in range(_THREADS)]
    sizes: list[int] = []
    try:
        with bench.opened(bench.session(scene.table)) as channel:
            sizes = [len(channel.release(query).raw) for query in asked]
    except DpsdkError:  # it takes fewer questions
        return
    got: dict[int, int | str] = {}
    with bench.opened(bench.session(scene.table)) as channel:

        def work(place: int) -> None:
            try:
                got[place] = len(channel.release(asked[place]).raw)
            except BaseException as error:  # noqa: BLE001  # told below
                got[place] = f"{type(error).__name__}: {described(error)}"

        workers = [threading.Thread(target=work, args=(place,)) for place in range(_THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    tally.ran(_THREADS)
    for place, size in enumerate(sizes):
        if got[place] != size:
            tally.fail(
                f"{scene}: asked from {_THREADS} threads at once {described(asked[place])} got "
                f"{got[place]}, and {size} numbers alone",
                "Keep what an answer is made of in the answer, and not in the strategy",
            )


def interrupts(bench: Bench, tally: Tally) -> None:
    """Interrupted at any line: it comes out, charges stay within the quote, books stay whole."""
    scenes = runnable(bench, tally)
    for scene in scenes if bench.thorough else (scenes[0], scenes[-1]):
        quotes = bench.quotes(scene, scene.table)
        most = Cost([run for quote in quotes for run in quote.at_most.runs])
        whole = moments(partial(_once, bench, scene))
        for place in _spread(whole, _MOMENTS * (10 if bench.thorough else 1)):
            tally.ran()
            _interrupt(bench, tally, scene, most, place)


def _once(bench: Bench, scene: Scene) -> None:
    bench.asked(scene, bench.session(scene.table))


def _spread(whole: int, many: int) -> list[int]:
    """About so many places of all lines, from the first to the last."""
    if whole <= many:
        return list(range(1, whole + 1))
    return sorted({1 + place * (whole - 1) // (many - 1) for place in range(many)})


def _interrupt(
    bench: Bench,
    tally: Tally,
    scene: Scene,
    most: Cost,
    place: int,
) -> None:
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


def keeps_no_kernel(bench: Bench, tally: Tally) -> None:
    """Each answer asks its own kernel, and a closed channel or session says nothing."""
    scenes = runnable(bench, tally)
    for scene in scenes if bench.thorough else scenes[::2]:
        session = bench.session(scene.table)
        with bench.opened(session) as channel:
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
        _closed(tally, scene, channel.release, "after its channel was closed")
        with bench.opened(session) as again:
            session.close()
            _closed(tally, scene, again.release, "after its session was closed")


def _closed(tally: Tally, scene: Scene, ask: Callable[..., object], when: str) -> None:
    tally.ran()
    try:
        ask(scene.queries[0])
    except Closed:
        return
    tally.fail(f"{scene}: {when} it answered", "Keep no way around the kernel")
