"""Checks of the noise itself: exact laws on tiny tables, against what was charged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dpsdk._checks import described
from dpsdk.data import PrivateData
from dpsdk.domain import Domain
from dpsdk.forms import Neighbors
from dpsdk.noise import NoiseSource
from dpsdk.testing.audit.enumeration import TooManyPaths
from dpsdk.testing.audit.neighbours import neighbours
from dpsdk.testing.audit.sampling import sample
from dpsdk.testing.audit.worst_case import audit
from dpsdk.testing.conformance.bench import REFUSALS, MechanismBench, Scene
from dpsdk.testing.conformance.costs import combined, paid
from dpsdk.testing.conformance.prints import printed_briefly
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.noise import seeded

_PATHS = 150
"""For each table, in a quick run."""

_SAMPLES = 240
"""On each of two neighbours, where nothing can be enumerated."""

_TAIL = 1e-9
_CHANGE = "Let what is told follow from what the kernel's primitives gave, and from nothing else"
_CELLS = 6


def enumerated(bench: MechanismBench, tally: Tally) -> None:
    """On tiny tables its exact law, all that it tells included, is within what was charged."""
    domain = _tiny(bench)
    if domain.size > _CELLS:
        cells = f"a universe of {domain.size:,} cells is too large to enumerate"
        tally.skip(f"{cells}: give a smaller one; {_sampled(bench, tally)}")
    large: dict[str, str] = {}
    for neighbors in Neighbors:
        for unit_rows in (1, 2) if bench.thorough else (1,):
            scene = bench.scene(domain, neighbors, unit_rows)
            if scene is None:
                continue
            for number in range(len(scene.queries)):
                asked = Scene(domain, neighbors, unit_rows, scene.queries[number : number + 1])
                name = described(asked.queries[0])
                if name in large:
                    continue
                try:
                    _audited(bench, tally, asked)
                except (TooManyPaths, *REFUSALS) as error:  # of tables as small as these
                    large[name] = str(error)
    if not tally.runs:
        instead = _sampled(bench, tally)
        tally.skip(
            f"not enumerated ({'; '.join(map(': '.join, large.items()))}): give a smaller "
            f"domain, or another such mechanism with fewer draws, or be thorough; {instead}"
            if large
            else "nothing was asked over a tiny universe: give a domain that it takes"
        )
    if large:
        tally.note(f"not enumerated: {', '.join(large)}")


def _tiny(bench: MechanismBench) -> Domain:
    """The smallest universe over which it takes anything."""
    for domain in bench.tiny[:-1]:
        if any(bench.scene(domain, neighbors, 1) for neighbors in Neighbors):
            return domain
    return bench.tiny[-1]


def _audited(bench: MechanismBench, tally: Tally, scene: Scene) -> None:
    run = bench.program(scene, printed_briefly)
    charged = bench.asked(scene, bench.session(next(_pairs(scene))[0]), printed_briefly).charged
    guarantee = combined(charged)
    if guarantee is None:
        if paid(charged):
            return
        # What costs nothing has to be the same on every table.
        guarantee = combined(())
    assert guarantee is not None  # noqa: S101  # of no runs there is one
    found = audit(
        run,
        islice(_pairs(scene), None if bench.thorough else 8),
        guarantee,
        tail=_TAIL,
        limit=_PATHS * (10 if bench.thorough else 1),
    )
    tally.ran(found.pairs)
    if not found.passed:
        tally.fail(
            f"{scene}: on tiny tables {described(found.outcome)} is told with {found.quantity} "
            f"{found.figure:.6g}, where {found.claimed} was charged",
            _CHANGE,
        )


def _sampled(bench: MechanismBench, tally: Tally) -> str:
    """Fail if many answers refute what was charged; what was done, in words."""
    nothing = "nothing was sampled instead"
    if not bench.scenes:
        return nothing
    scene = bench.scenes[0]
    pair = tuple(table.made() for table in scene.neighbours[0])
    asked = Scene(scene.domain, scene.neighbors, scene.unit_rows, scene.queries[:1])
    guarantee = combined(bench.asked(asked, bench.session(scene.table)).charged)
    if guarantee is None:
        return nothing

    def run(data: PrivateData, noise: NoiseSource) -> float:
        with bench.opened(bench.session(data, noise=noise)) as channel:
            return float(channel.release(asked.queries[0]).raw[0])

    found = sample(
        run, pair[0], pair[1], guarantee, noise=seeded(bench.seed(8)), samples=_SAMPLES, alpha=1e-6
    )
    if found.violated:
        tally.ran(found.samples)
        tally.fail(
            f"{asked}: of {found.samples} answers each on {scene.neighbours[0][0]} and "
            f"{scene.neighbours[0][1]}, those {found.event} are likelier on one of them than "
            f"{guarantee} allows ({found.first:.3g} against {found.second:.3g})",
            _CHANGE,
        )
    return f"{found.samples} sampled answers did not refute it"


def _pairs(scene: Scene) -> Iterator[tuple[PrivateData, PrivateData]]:
    return neighbours(scene.domain, scene.unit_rows, scene.neighbors, unit_rows=scene.unit_rows)
