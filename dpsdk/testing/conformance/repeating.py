"""Checks that run the same again: on a neighbour, with the same seed, after other tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np

from dpsdk.data import PrivateData
from dpsdk.noise import NoiseSource
from dpsdk.testing.audit.programs import Program
from dpsdk.testing.audit.replay import DRAWS, Difference, Trace, parted, record
from dpsdk.testing.audit.sampling import sample
from dpsdk.testing.conformance.bench import MechanismBench, Scene, Table, runnable
from dpsdk.testing.conformance.costs import combined
from dpsdk.testing.conformance.prints import short
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.logs import overheard
from dpsdk.testing.noise import seeded

_SAMPLES = 240
_ALPHA = 1e-6


def replays(bench: MechanismBench, tally: Tally) -> None:
    """With the same noise on a neighbour: the same draws, charges, events, logs and refusals.

    A mechanism whose later steps depend on its noisy answers may differ, as its guarantee allows:
    whether it does more is sampled.
    """
    depends = False
    for scene in runnable(bench, tally):
        program = _loud(bench.program(scene))
        sampled = False
        for number, (one, other) in enumerate(scene.neighbours):
            tally.ran()
            first = _recorded(program, one, bench.seed(number))
            second = _recorded(program, other, bench.seed(number), first.noise)
            found = parted(first, second)
            if found is None:
                continue
            if _public(first) == _public(second):
                tally.note("how much a primitive draws may depend on the table")
            elif bench.thorough or not (sampled or depends):
                sampled = depends = True
                _explained(bench, tally, scene, (one, other), found)
        first = _recorded(program, scene.table, bench.seed(0))
        again = _recorded(program, scene.table, bench.seed(0), first.noise)
        if parted(first, again) is not None or first.outcome != again.outcome:
            tally.fail(
                f"{scene}: on the same table with the same noise it did something else",
                "Take all randomness from the kernel, and keep nothing from one run to the next",
            )


def _loud(program: Program) -> Program:
    """The same, telling also what was printed and warned of."""

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        with overheard() as told:
            outcome = program(data, noise)
        return _Loud(outcome, tuple(one for one in told if one[0] != "log"))

    return run


class _Loud(NamedTuple):
    """The result of a run, and its prints and warnings."""

    outcome: Hashable
    told: tuple[tuple[Hashable, ...], ...]


def _recorded(
    program: Program, table: Table, seed: int, script: tuple[tuple[int, ...], ...] = ()
) -> Trace:
    trace = record(program, table.made(), seed=seed, script=script)
    outcome = trace.outcome
    if isinstance(outcome, _Loud):
        return Trace((*outcome.told, *trace.events), trace.noise, outcome.outcome)
    return trace


def _public(trace: Trace) -> tuple[Hashable, ...]:
    """The events that others see: what a primitive draws is its own affair once it was paid."""
    return tuple(event for event in trace.events if event[0] not in DRAWS)


def _explained(
    bench: MechanismBench, tally: Tally, scene: Scene, pair: tuple[Table, Table], found: Difference
) -> None:
    """Fail if what differs is likelier on one side than the guarantee allows."""
    program = _loud(bench.program(scene))

    def events(data: PrivateData, noise: NoiseSource) -> Hashable:
        # A source of its own, which writes down what is asked of it.
        seed = int(noise.uniform_below(2**62))
        return short(_public(record(program, data, seed=seed)))

    guarantee = combined(bench.asked(scene, bench.session(pair[0])).charged)
    differs = (
        f"{scene}: with the same noise it did {_event(found.first)} on {pair[0]}, "
        f"and {_event(found.second)} on {pair[1]}"
    )
    change = (
        "Let draws, charges, events and lines of logs follow from public facts and from answers"
    )
    if guarantee is None:
        tally.note("what depends on noisy answers was not sampled, for want of one guarantee")
        return
    report = sample(
        events,
        pair[0].made(),
        pair[1].made(),
        guarantee,
        noise=seeded(bench.seed(9)),
        samples=_SAMPLES * (10 if bench.thorough else 1),
        alpha=_ALPHA,
    )
    tally.ran(report.samples)
    tally.note("later steps depend on noisy answers, no more than the guarantee allows")
    if report.violated:
        tally.fail(
            f"{differs}; that is likelier on one of them than {guarantee} allows "
            f"({report.first:.3g} against {report.second:.3g})",
            change,
        )


def _event(event: tuple[Hashable, ...]) -> str:
    text = " ".join(map(str, event))
    return text if len(text) <= 120 else f"{text[:120]}..."


def randomness(bench: MechanismBench, tally: Tally) -> None:
    """Seeded runs repeat whatever other generators stand at, and none of those is drawn from."""
    change = "Draw noise by primitives, and what is public from `kernel.randomness`"
    for scene in runnable(bench, tally):
        traces: list[Trace] = []
        for start in (1, 2):
            with _other_generators(start) as unmoved:
                traces.append(_recorded(bench.program(scene), scene.table, bench.seed(1)))
                moved = not unmoved()
            tally.ran()
            if moved:
                what = "it moved the generator of `random` or of `numpy.random`"
                tally.fail(f"{scene}: {what}", change)
        if traces[0].outcome != traces[1].outcome or traces[0].events != traces[1].events:
            tally.fail(f"{scene}: two runs with the same seed differ", change)


@contextmanager
def _other_generators(start: int) -> Generator[Callable[[], bool]]:
    """Set the generators of a process to something; tells whether they still stand there."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # whoever uses it
    try:
        random.seed(start)
        np.random.seed(start)  # noqa: NPY002  # the same
        known = _where()
        yield lambda: _where() == known
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002  # the same


def _where() -> Hashable:
    return short((random.getstate(), repr(np.random.get_state())))  # noqa: NPY002  # the same


def keeps_nothing(bench: MechanismBench, tally: Tally) -> None:
    """Answers on one table tell nothing of another: runs on others change none of its."""
    for scene in runnable(bench, tally):
        before = _recorded(bench.program(scene), scene.table, bench.seed(5))
        for number, table in enumerate(scene.far[1:]):
            for seed in (5, 60 + number):
                tally.ran()
                with suppress(Exception):
                    bench.asked(scene, bench.session(table, seed=seed))
            after = _recorded(bench.program(scene), scene.table, bench.seed(5))
            if (after.events, after.outcome) != (before.events, before.outcome):
                tally.fail(
                    f"{scene}: after answers on {table} it did something else on {scene.table} "
                    "with the same noise",
                    "Keep nothing of answers in a class, a module or the mechanism itself",
                )
