"""Checks of what a query makes of raw numbers, and what it says of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from dpsdk._checks import shown
from dpsdk.accuracy import Lifting
from dpsdk.forms import Facts, Form
from dpsdk.queries.base import LinearQuery
from dpsdk.testing.conformance.bench import Scene, runnable
from dpsdk.testing.conformance.prints import deep
from dpsdk.testing.conformance.questions import QueryBench
from dpsdk.testing.conformance.report import Tally
from dpsdk.typing import Floats

__all__ = ["lifts", "spreads"]

_SLACK = 1e-9
"""The error of floats, of the size of a number."""


def lifts(bench: QueryBench, tally: Tally) -> None:
    """Answers were of one type, the same for the same numbers, and left those as they were."""
    query, kinds = bench.query, set[type]()
    for scene in runnable(bench, tally):
        facts = scene.table.made().facts
        public = deep(facts)
        for raw in bench.raws(scene):
            given = bench.settled(raw, facts)
            mine = given.copy()
            answer = query.lift(mine, facts)
            tally.ran()
            kinds.add(type(answer))
            if not np.array_equal(mine, given, equal_nan=True):
                tally.fail(f"`lift` wrote into the numbers {_few(raw)}", "Work on a copy of them")
            sealed = given.copy()
            sealed.flags.writeable = False
            if deep(query.lift(sealed, facts)) != deep(answer):
                tally.fail(
                    f"`lift` gave another answer to the same numbers {_few(raw)}",
                    "Make the answer of the numbers and the facts alone",
                )
            if isinstance(query, LinearQuery):
                _check_numbers(query, given, facts, tally)
        if deep(facts) != public:
            tally.fail("it wrote into the facts of the table", "Leave what it is given as it is")
    answers = kinds - {type(None)}
    if len(answers) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in answers))
        tally.fail(f"its answers were of several types: {names}", "Give one type of answer")


def _check_numbers(
    query: LinearQuery[object, Form], raw: Floats, facts: Facts, tally: Tally
) -> None:
    numbers = query.numbers(raw, facts)
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype != np.float64:
        tally.fail(f"`numbers` gave {shown(numbers)}", "Give a one-dimensional array of float64")
    if np.isfinite(raw).all() and np.isnan(numbers).any():
        tally.fail(
            f"`numbers` made NaN of the numbers {_few(raw)}",
            "Give a number, or say in `settled` which raw numbers tell nothing",
        )


def spreads(bench: QueryBench, tally: Tally) -> None:
    """The truth lay within what it said of its errors, wherever the raw numbers were off."""
    query = bench.query
    if not isinstance(query, Lifting):
        tally.skip("it is no Lifting, so that its releases have no bound in its own unit")
    for scene in runnable(bench, tally):
        facts = scene.table.made().facts
        if not isinstance(query, LinearQuery):
            _check_lifting(bench, query, scene, facts, tally)
            continue
        truths = [bench.raw(scene, table) for table in bench.tables(scene)]
        _check_lengths(query, truths[0], facts, tally)
        _check_span(query, [query.numbers(raw, facts) for raw in truths], facts, tally)
        _check_width(query, truths[0], facts, tally)
        for truth in truths:
            for raw, radii in _off(truth):
                tally.ran()
                _check_cover(query, (truth, raw, radii), facts, tally)


def _off(truth: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Raw numbers that are off by no more than some radii, and these."""
    rng = np.random.default_rng(11)
    size = len(truth)
    for radius in (1.0, 40.0):
        radii = np.full(size, radius)
        yield truth + radii, radii
        yield truth - radii, radii
        yield truth + radii * rng.choice([-1.0, 1.0], size), radii
        yield truth + radii * rng.uniform(-1, 1, size), radii
    radii = rng.integers(0, 6, size).astype(np.float64)
    yield truth + radii * rng.choice([-1.0, 1.0], size), radii


def _check_cover(
    query: LinearQuery[object],
    case: tuple[Floats, Floats, Floats],
    facts: Facts,
    tally: Tally,
) -> None:
    truth, off, radii = case
    raw = query.settled(off.copy(), radii.copy, facts)
    wanted, got = query.numbers(truth, facts), query.numbers(raw, facts)
    slack = _SLACK * (1 + np.abs(wanted))
    known = query.spread(raw, radii, facts)
    blind = query.spread(np.full(len(raw), np.nan), radii, facts)
    said = f"raw numbers {_few(off)} that were off by at most {_few(radii)}"
    for what, spread in (("", known), (", not knowing them,", blind)):
        if spread.shape != got.shape or np.isnan(spread).any() or (spread < 0).any():
            tally.fail(
                f"`spread` gave {shown(spread.tolist())}{what} for {len(got)} numbers",
                "Give a half-width for each number of the answer, none negative or NaN",
            )
        # An undefined truth, as the mean of nobody, is off from nothing.
        with np.errstate(invalid="ignore"):
            if (np.abs(got - wanted) > spread + slack).any():
                tally.fail(
                    f"of {said} the answer was off by {_few(np.abs(got - wanted))}, and `spread` "
                    f"said{what} {_few(spread)}",
                    "Bound how far the answer moves when each raw number moves by its radius",
                )
    low, high = query.ends(raw, radii, facts)
    with np.errstate(invalid="ignore"):
        if (low > wanted + slack).any() or (high < wanted - slack).any():
            tally.fail(
                f"of {said} the truth {_few(wanted)} is not between {_few(low)} and {_few(high)}",
                "Give in `bracket` and `ends` the least and the largest answer that is possible",
            )
    _check_bracket(query.bracket(raw, radii, facts), query.lift(raw, facts), tally)


def _check_bracket(ends: tuple[object, object], answer: object, tally: Tally) -> None:
    if len({type(one) for one in (*ends, answer)} - {type(None)}) > 1:
        tally.fail("`bracket` gives other types than `lift`", "Give two answers")


def _check_lengths(query: LinearQuery[object], raw: Floats, facts: Facts, tally: Tally) -> None:
    numbers, answer = query.numbers(raw, facts), query.lift(raw.copy(), facts)
    ones = np.ones(len(raw))
    lengths = {
        "numbers": len(numbers),
        "spread": np.size(query.spread(raw, ones, facts)),
        "ends": np.size(query.ends(raw, ones, facts)[0]),
    }
    for known in (None, raw):
        hidden = query.coarseness(known, ones, facts)
        if hidden is None:
            continue
        lengths["coarseness"] = np.size(hidden)
        if np.isnan(hidden).any() or (hidden < 0).any():
            tally.fail(
                f"`coarseness` gave {shown(hidden.tolist())}",
                "Give a distance for each number of the answer, none negative or NaN",
            )
    if isinstance(answer, int | float):
        lengths["the answer"] = 1
    elif isinstance(answer, np.ndarray):
        lengths["the answer"] = answer.size
    tally.ran()
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{count} of `{name}`" for name, count in lengths.items())
        tally.fail(
            f"it made {found.replace('`the answer`', 'the answer')}, of {len(raw)} raw numbers",
            "Write `numbers`, `spread` and `ends` with one number for each of the answer",
        )


def _check_span(
    query: LinearQuery[object], numbers: list[Floats], facts: Facts, tally: Tally
) -> None:
    span = query.span(facts)
    tally.ran()
    with np.errstate(invalid="ignore"):
        far = max(
            float(np.nanmax(np.abs(one - other), initial=0.0))
            for one, other in product(numbers, repeat=2)
        )
    if not far <= span * (1 + _SLACK) + _SLACK:
        tally.fail(
            f"two tables have answers that are {far:g} apart, and its `span` is {span:g}",
            "Give the largest difference of two possible answers, math.inf if you know none",
        )


def _check_width(query: LinearQuery[object], raw: Floats, facts: Facts, tally: Tally) -> None:
    base = query.numbers(raw, facts)
    moved = np.zeros(len(base), dtype=int)
    for place in range(min(len(raw), 64)):
        other = raw.copy()
        other[place] += 1.0
        moved += query.numbers(other, facts) != base
    tally.ran()
    if moved.max(initial=0) > query.width:
        tally.fail(
            f"a number of its answer rests on {moved.max()} raw ones, and its `width` is "
            f"{query.width}",
            "Give in `width` how many raw numbers one number of the answer rests on",
        )


def _check_lifting(
    bench: QueryBench, query: Lifting[object], scene: Scene, facts: Facts, tally: Tally
) -> None:
    for raw in bench.raws(scene):
        radii = np.full(len(raw), 2.0)
        tally.ran()
        for given in (raw, np.full(len(raw), np.nan)):
            spread = query.spread(given, radii, facts)
            if np.isnan(spread).any() or (spread < 0).any():
                tally.fail(
                    f"`spread` gave {shown(spread.tolist())}", "Give half-widths, none negative"
                )
        _check_bracket(query.bracket(raw, radii, facts), bench.query.lift(raw, facts), tally)


def _few(numbers: Floats) -> str:
    """The first few of some numbers."""
    first = ", ".join(f"{number:.6g}" for number in numbers[:4].tolist())
    return f"[{first}{', ...' if len(numbers) > 4 else ''}]"
