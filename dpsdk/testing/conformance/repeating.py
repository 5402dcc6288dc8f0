"""Checks that run the same again: on neighbours, with the same seed, with all noise there is."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

import numpy as np

from dpsdk._checks import described
from dpsdk.accounting import Guarantee
from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.forms import Neighbors
from dpsdk.noise import NoiseSource
from dpsdk.testing.audit.enumeration import TooManyPaths
from dpsdk.testing.audit.neighbours import neighbours
from dpsdk.testing.audit.programs import Program
from dpsdk.testing.audit.replay import DRAWS, Difference, Trace, parted, record
from dpsdk.testing.audit.sampling import sample
from dpsdk.testing.audit.worst_case import Pair, audit
from dpsdk.testing.conformance.bench import (
    REFUSALS,
    TINY_DOMAINS,
    AnyQuery,
    MechanismBench,
    Scene,
    Table,
    runnable,
)
from dpsdk.testing.conformance.costs import combined, paid
from dpsdk.testing.conformance.prints import short
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.noise import seeded

__all__ = ["enumerated", "keeps_nothing", "randomness", "replays"]

_SAMPLES = 240
_ALPHA = 1e-6

_PATHS = 150
"""For each table, in a quick run."""

_TAIL = 1e-9
_DRAWS = 3
_BIT_PATHS = 3000
_BIT_TAIL = 1e-4
"""Over one bit, where an answer takes no more draws than these, in at most so many paths."""

_FOLLOW = "Let what is told follow from what the kernel's primitives gave, and from nothing else"
_CELLS = 6


def replays(bench: MechanismBench, tally: Tally) -> None:
    """With the same noise on a neighbour: the same draws, charges, events, logs and refusals.

    A mechanism whose later steps depend on its noisy answers may differ, as its guarantee allows:
    whether it does more is sampled.
    """
    depends = False
    for scene in runnable(bench, tally):
        program = bench.program(scene)
        sampled = False
        for number, (one, other) in enumerate(scene.neighbours):
            tally.ran()
            first = record(program, one.made(), seed=bench.seed(number))
            second = record(program, other.made(), seed=bench.seed(number), script=first.noise)
            found = parted(first, second)
            if found is None:
                continue
            if _public(first) == _public(second):
                tally.note("how much a primitive draws may depend on the table")
            elif bench.thorough or not (sampled or depends):
                sampled = depends = True
                _explained(bench, tally, scene, (one, other), found)


def _public(trace: Trace) -> tuple[Hashable, ...]:
    """The events that others see: what a primitive draws is its own affair once it was paid."""
    return tuple(event for event in trace.events if event[0] not in DRAWS)


def _explained(
    bench: MechanismBench, tally: Tally, scene: Scene, pair: tuple[Table, Table], found: Difference
) -> None:
    """Fail if what differs is likelier on one side than the guarantee allows."""
    program = bench.program(scene)

    def events(data: PrivateData, noise: NoiseSource) -> Hashable:
        # A source of its own, which writes down what is asked of it.
        seed = int(noise.uniform_below(2**62))
        return short(_public(record(program, data, seed=seed)))

    guarantee = combined(bench.asked(scene, bench.session(pair[0])).charged)
    if guarantee is None:
        tally.note("what depends on noisy answers was not sampled, for want of one guarantee")
        return
    tally.note("later steps depend on noisy answers, no more than the guarantee allows")
    _sample(
        bench, tally, events, pair, guarantee,
        f"{scene}: with the same noise it did {_event(found.first)} on {pair[0]}, and "
        f"{_event(found.second)} on {pair[1]}",
        "Let draws, charges, events and lines of logs follow from public facts and from answers",
    )  # fmt: skip


def _sample(
    bench: MechanismBench, tally: Tally, program: Program, pair: tuple[Table, Table],
    guarantee: Guarantee, what: str, change: str,
) -> None:  # fmt: skip
    """Fail if many runs on each of two tables refute a guarantee."""
    report = sample(
        program, pair[0].made(), pair[1].made(), guarantee, noise=seeded(bench.seed(9)),
        samples=_SAMPLES * _more(bench), alpha=_ALPHA,
    )  # fmt: skip
    tally.ran(report.samples)
    if report.violated:
        tally.fail(
            f"{what}; that is likelier on one of them than {guarantee} allows "
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
                traces.append(record(bench.program(scene), scene.table.made(), seed=bench.seed(1)))
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
        before = record(bench.program(scene), scene.table.made(), seed=bench.seed(5))
        for number, table in enumerate(scene.far[1:]):
            for seed in (5, 60 + number):
                tally.ran()
                with suppress(Exception):
                    bench.asked(scene, bench.session(table, seed=seed))
            after = record(bench.program(scene), scene.table.made(), seed=bench.seed(5))
            if (after.events, after.outcome) != (before.events, before.outcome):
                tally.fail(
                    f"{scene}: after answers on {table} it did something else on {scene.table} "
                    "with the same noise",
                    "Keep nothing of answers in a class, a module or the mechanism itself",
                )


def enumerated(bench: MechanismBench, tally: Tally) -> None:
    """On tiny tables its exact law, all that it tells included, is within what was charged."""
    large = _enumerated(bench, tally)
    found = "; ".join(map(": ".join, large.items()))
    if not tally.runs:
        _over_one_bit(bench, tally)
        one_number = bool(tally.runs)
        instead = _sampled(bench, tally)
        if not one_number:
            change = "give a domain that it takes"
            if large:
                change = "give a smaller domain, or another such mechanism with fewer draws, be "
                change += "thorough, or audit one number over one bit yourself"
            why = found or "nothing was asked over a tiny universe"
            tally.skip(f"privacy audit not run ({why}): {change}; {instead}")
        tally.note(f"of one number over one bit alone; {instead}")
    if large:
        tally.note(f"not enumerated: {found}")


def _enumerated(bench: MechanismBench, tally: Tally) -> dict[str, str]:
    """Audit each question over the smallest universe; of those too large to enumerate, say why."""
    domain = _tiny(bench)
    if domain.size > _CELLS:
        return {"all": f"a universe of {domain.size:,} cells is too large"}
    large: dict[str, str] = {}
    for neighbors in Neighbors:
        for unit_rows in (1, 2) if bench.thorough else (1,):
            scene = bench.scene(domain, neighbors, unit_rows)
            if scene is None:
                continue
            pairs = list(islice(_pairs(scene), None if bench.thorough else 8))
            for query in scene.queries:
                name = described(query)
                if name in large:
                    continue
                asked = Scene(domain, neighbors, unit_rows, (query,))
                try:
                    _audited(bench, tally, asked, pairs, _TAIL, _PATHS * _more(bench))
                except (TooManyPaths, *REFUSALS) as error:  # of tables as small as these
                    large[name] = str(error)
    return large


def _over_one_bit(bench: MechanismBench, tally: Tally) -> None:
    """Audit one number over one bit, where few draws are made for it."""
    domain = TINY_DOMAINS[0]
    bit = MechanismBench(bench.mechanism, (), domain, bench.catalogue, trust=bench.trust)
    for scene in bit.scenes:
        if scene.unit_rows > 1:
            continue
        asked = Scene(domain, scene.neighbors, 1, scene.queries[-1:])
        replaced = scene.neighbors is Neighbors.REPLACE_ONE
        rows = ((1, 0, 0), (0, int(replaced), 0))
        one, other = [Table(domain, counts, scene.neighbors, 1).made() for counts in rows]
        drawn = record(bit.program(asked), one, seed=bit.seed(0)).noise
        if sum(map(len, drawn)) > _DRAWS:
            return
        try:
            _audited(bit, tally, asked, [(one, other), (other, one)], _BIT_TAIL, _BIT_PATHS)
        except (TooManyPaths, *REFUSALS):
            return


def _more(bench: MechanismBench) -> int:
    return 10 if bench.thorough else 1


def _tiny(bench: MechanismBench) -> Domain:
    """The smallest universe over which it takes anything."""
    for domain in bench.tiny[:-1]:
        if any(bench.scene(domain, neighbors, 1) for neighbors in Neighbors):
            return domain
    return bench.tiny[-1]


def _audited(
    bench: MechanismBench, tally: Tally, scene: Scene, pairs: Sequence[Pair], tail: float,
    limit: int,
) -> None:  # fmt: skip
    """Fail if the exact laws of what is told on neighbours are not within what was charged."""
    run = bench.program(scene)
    charged = bench.asked(scene, bench.session(pairs[0][0])).charged
    guarantee = combined(charged)
    if guarantee is None:
        if paid(charged):
            return
        # What costs nothing has to be the same on every table.
        guarantee = combined(())
    assert guarantee is not None  # noqa: S101  # of no runs there is one
    found = audit(run, pairs, guarantee, tail=tail, limit=limit)
    tally.ran(found.pairs)
    if not found.passed:
        tally.fail(
            f"{scene}: on tiny tables {described(found.outcome)} is told with {found.quantity} "
            f"{found.figure:.6g}, where {found.claimed} was charged",
            _FOLLOW,
        )


def _sampled(bench: MechanismBench, tally: Tally) -> str:
    """Fail if many answers refute what was charged; what was done, in words."""
    for scene in bench.scenes[:1]:
        asked = Scene(scene.domain, scene.neighbors, scene.unit_rows, scene.queries[:1])
        guarantee = combined(bench.asked(asked, bench.session(scene.table)).charged)
        if guarantee is None:
            continue

        def run(data: PrivateData, noise: NoiseSource, query: AnyQuery = asked.queries[0]) -> float:
            with bench.opened(bench.session(data, noise=noise)) as channel:
                return float(channel.release(query).raw[0])

        one, other = pair = scene.neighbours[0]
        what = f"{asked}: an answer lies where it seldom should, on {one} or on {other}"
        _sample(bench, tally, run, pair, guarantee, what, _FOLLOW)
        return "sampled answers did not refute it"
    return "nothing was sampled instead"


def _pairs(scene: Scene) -> Iterator[Pair]:
    return neighbours(scene.domain, scene.unit_rows, scene.neighbors, unit_rows=scene.unit_rows)
