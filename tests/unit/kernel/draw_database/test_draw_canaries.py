"""Draws that are wrong by little, each of which the exact law of all neighbours must give away."""

import itertools
import math
from collections import Counter

import pytest

CELLS, SIZE, ROWS, EPSILON = 3, 2, 7, 1.0
FUNCTIONS = ((1, 0, 0), (1, 1, 0), (0, 1, 0))
SLACK = 1e-9


def multisets(size):
    return list(itertools.combinations_with_replacement(range(CELLS), size))


def gap(table, database):
    """size · F - rows · G, at the largest."""
    return max(
        abs(
            len(database) * sum(map(f.__getitem__, table))
            - len(table) * sum(map(f.__getitem__, database))
        )
        for f in FUNCTIONS
    )


def normalised(weights):
    total = math.fsum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


def exact(table, *, rate=EPSILON / 2, size=SIZE, score=None):
    scored = score or (lambda gap_, size_: -(-gap_ // size_))
    return normalised({y: math.exp(-rate * scored(gap(table, y), size)) for y in multisets(size)})


def off_by_two(table):
    """The rate of a score of sensitivity one half."""
    return exact(table, rate=EPSILON)


def in_records(table):
    """A score in records times rows, which is SIZE times too large."""
    return exact(table, score=lambda gap_, size: gap_)


def rounded(table):
    """A score that is rounded half to even."""
    return exact(table, score=lambda gap_, size: round(gap_ / size))


def size_of_rows(table):
    """A size that follows from the number of rows, where that is private."""
    return exact(table, size=1 + (len(table) >= ROWS))


def forgotten(table):
    """A level picked as if each held as many databases."""
    levels = {y: -(-gap(table, y) // SIZE) for y in multisets(SIZE)}
    held = Counter(levels.values())
    return normalised({y: math.exp(-EPSILON / 2 * s) / held[s] for y, s in levels.items()})


def reused(table):
    """Two databases of one picked level, at the price of two draws of half the strength."""
    levels = {y: -(-gap(table, y) // SIZE) for y in multisets(SIZE)}
    held = Counter(levels.values())
    weights = {s: number * math.exp(-EPSILON / 4 * s) for s, number in held.items()}
    total = sum(weights.values())
    pairs = itertools.product(levels, repeat=2)
    return {
        (y, z): weights[levels[y]] / total / held[levels[y]] ** 2
        for y, z in pairs
        if levels[y] == levels[z]
    }


def worst(law, *, replaced):
    """The largest log ratio over all neighbours, infinite where only one of them may give it."""
    tables = [
        tuple(sorted(table))
        for rows in ((ROWS,) if replaced else (ROWS - 1, ROWS))
        for table in itertools.combinations_with_replacement(range(CELLS), rows)
    ]
    laws = {table: law(table) for table in tables}
    loss = 0.0
    for one, other in itertools.permutations(tables, 2):
        shared = sum((Counter(one) & Counter(other)).values())
        if shared != (ROWS - 1):
            continue
        for outcome, mass in laws[one].items():
            twin = laws[other].get(outcome, 0.0)
            loss = max(loss, math.log(mass / twin) if twin else math.inf)
    return loss


@pytest.mark.parametrize("replaced", [True, False])
def test_the_correct_draw_keeps_its_promise(replaced):
    assert EPSILON / 2 < worst(exact, replaced=replaced) <= EPSILON + SLACK


@pytest.mark.parametrize(
    ("canary", "replaced"),
    [
        (off_by_two, True),
        (off_by_two, False),
        (in_records, True),
        (rounded, True),
        (size_of_rows, False),
        (forgotten, True),
        (reused, True),
    ],
)
def test_canaries_are_caught(canary, replaced):
    assert worst(canary, replaced=replaced) > EPSILON + SLACK
