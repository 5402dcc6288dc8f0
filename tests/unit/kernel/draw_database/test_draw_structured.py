"""Samplers of structured workloads against small databases that are written out one by one."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from plain_databases import World, histogram, levels, neighbours, p_value, setting, tables, terms

from dpsdk.data.histogram import Histogram
from dpsdk.domain import Categorical, Domain, Integer
from dpsdk.forms import Facts, Identity, Kronecker, LinearForm, Neighbors, Prefix, Range, Weights
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.choose import recognised
from dpsdk.kernel.draw_database.structured import Levels, attempt, segmented
from dpsdk.testing import seeded
from dpsdk.testing.audit import BranchingNoise
from worlds import crossed

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("x", 0, 4))
SHORT = Domain(Integer("x", 0, 2))
PLANE = Domain(Integer("x", 0, 2), Categorical("y", ["a", "b"]))


def spread(gaps, grain=1):
    """The score of intervals: of gaps of running counts, the greatest less the least, rounded."""
    return math.ceil(grain * max([*gaps, 0])) - math.floor(grain * min([*gaps, 0]))


def ranges(*pairs, size=5):
    return [Range(size, start, stop) for start, stop in pairs]


def form(domain, *factors):
    return LinearForm(domain, [Kronecker.of(domain, given) for given in factors])


def rows_of(asked):
    """The functions of a form on all cells of its domain."""
    cells = np.indices(asked.domain.shape).reshape(len(asked.domain.shape), -1)
    names = asked.domain.names
    blocks = [block.columns([cells[names.index(n)] for n in block.names]) for block in asked.blocks]
    wide = [np.broadcast_to(b, (len(b), asked.domain.size)) for b in blocks]
    return np.concatenate(wide).astype(np.int64)


def running(domain, cuts):
    """The running counts up to each cut, and of everything."""
    cells = np.arange(domain.size)
    return (cells[None, :] < np.array([*cuts, domain.size])[:, None]).astype(np.int64)


WORKLOADS = {
    "thresholds": {
        "all thresholds": form(LINE, {"x": Prefix(5)}),
        "thresholds of three": form(SHORT, {"x": Prefix(3)}),
        "some thresholds": form(LINE, *[{"x": r} for r in ranges((0, 1), (0, 4))]),
        "thresholds and all": form(LINE, *[{"x": r} for r in ranges((0, 2), (0, 3), (0, 5))]),
    },
    "cells": {
        "a histogram": form(LINE, {"x": Identity(5)}),
        "a histogram and all": form(SHORT, {"x": Identity(3)}, {}),
        "disjoint ranges": form(LINE, *[{"x": r} for r in ranges((1, 2), (3, 5))]),
        "rows of a matrix": form(LINE, {"x": Weights([[1, 1, 0, 0, 0], [0, 0, 0, 1, 0]])}),
        "a table": form(PLANE, {"x": Identity(3), "y": Identity(2)}),
        "a table of a part": form(PLANE, {"x": Identity(3), "y": Range(2, 1, 2)}),
        "all cells of some": form(PLANE, {"x": Identity(3)}),
    },
    "marginals": {
        "one-way marginals": form(PLANE, {"x": Identity(3)}, {"y": Identity(2)}),
        "marginals and all": form(PLANE, {"x": Identity(3)}, {"y": Range(2, 0, 1)}, {}),
        "a marginal and thresholds": form(PLANE, {"x": Prefix(3)}, {"y": Range(2, 1, 2)}),
    },
    "intervals": {
        "crossing ranges": form(LINE, *[{"x": r} for r in ranges((0, 3), (2, 4))]),
        "all cells and thresholds": form(SHORT, {"x": Prefix(3)}, {"x": Identity(3)}),
    },
}
CASES = {
    name: (asked, kind, kind == "marginals")  # which are drawn in order
    for kind, workloads in WORKLOADS.items()
    for name, asked in workloads.items()
}

_CUTS = {"crossing ranges": [2, 3, 4], "all cells and thresholds": [1, 2]}


def world(name, size, *, outside, replaced):
    """The plain counterpart of a case."""
    asked, kind, ordered = CASES[name]
    if kind != "intervals":
        return World(asked.domain, rows_of(asked), size, outside, ordered)
    functions = running(asked.domain, _CUTS[name])
    grain = 1 if replaced else min(size, 4)
    return World(asked.domain, functions, size, outside, score=lambda gaps: spread(gaps, grain))


def sampler(name, given):
    asked, kind, _ = CASES[name]
    found = recognised(asked, given)
    assert found is not None
    assert found.kind == kind
    return found


def some_table(plain, rows, seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(plain.cells, 0.5))
    counts = rng.multinomial(rows, shares)
    return counts if plain.outside else np.append(counts, 0)


@pytest.mark.parametrize(
    ("name", "kind"), crossed(CASES, itertools.product([False, True], repeat=2), 2)
)
def test_levels_hold_as_many_as_are_written_out(name, kind):
    outside, replaced = kind
    for size, rows in [(1, 0), (1, 3), (2, 5), (3, 4), (3, 7), (5, 3)]:
        plain = world(name, size, outside=outside, replaced=replaced)
        drawn = sampler(name, terms(plain, rows, replaced=replaced))
        for seed in range(3):
            table = some_table(plain, rows, seed)
            near = levels(drawn, histogram(plain.domain, table))
            counts = [near.count(level) for level in range(near.worst + 1)]
            assert counts == plain.counts(table, near.worst)
            assert counts[-1] == drawn.candidates
            assert 0 <= drawn.log2_candidates - math.log2(drawn.candidates) < 1e-9


def exact_law(plain, drawn, table):
    """What one try gives if it is kept, by every path of its draws."""
    near = levels(drawn, histogram(plain.domain, table))
    rate = drawn.rate / drawn.grain
    segments = segmented(near, float(rate))
    noise = BranchingNoise()
    masses = Counter()
    more = True
    while more:
        noise.start()
        kept = attempt(near, segments, rate, noise)
        if kept is not None:
            masses[kept] += noise.mass()
        more = noise.advance()
    total = math.fsum(masses.values())
    return {candidate: mass / total for candidate, mass in masses.items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    crossed(
        ["thresholds of three", "a histogram and all", "all cells and thresholds"],
        itertools.product([False, True], repeat=2),
        2,
    ),
)
def test_every_path_together_gives_the_exact_law(name, kind):
    outside, replaced = kind
    plain = world(name, 2, outside=outside, replaced=replaced)
    drawn = sampler(name, terms(plain, 3, replaced=replaced, epsilon=Fraction(3, 2)))
    for seed in range(2):
        table = some_table(plain, 3, seed)
        weight = Fraction(math.exp(-drawn.rate / drawn.grain))
        atoms = sorted(set(plain.atoms()))
        wanted = {
            candidate(drawn, plain, atoms, small): float(mass)
            for small, mass in plain.law(table, weight).items()
        }
        assert exact_law(plain, drawn, table) == pytest.approx(wanted, rel=1e-9)


CHI = [
    ("all thresholds", 3, 12), ("some thresholds", 4, 9), ("a histogram", 3, 7),
    ("disjoint ranges", 4, 10), ("a table of a part", 2, 6), ("one-way marginals", 2, 6),
    ("a marginal and thresholds", 2, 5), ("crossing ranges", 3, 8),
    ("all cells and thresholds", 3, 8),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "size", "rows", "replaced"),
    [
        # Every other one, by turns, and slowly all of them.
        pytest.param(*case, replaced, marks=() if place % 4 == 2 * replaced else pytest.mark.audit)
        for place, case in enumerate(CHI)
        for replaced in (True, False)
    ],
)
def test_draws_follow_the_law(name, size, rows, replaced):
    plain = world(name, size, outside=not replaced, replaced=replaced)
    drawn = sampler(name, terms(plain, rows, replaced=replaced, epsilon=Fraction(1, 2)))
    table = some_table(plain, rows, 5)
    weight = Fraction(math.exp(-drawn.rate / drawn.grain))
    law = {small: float(mass) for small, mass in plain.law(table, weight).items()}
    private, noise = histogram(plain.domain, table), seeded(11)
    observed = Counter(
        plain.smalls(drawn.draw(private, noise))
        for _ in range(200 if drawn.kind == "intervals" else 400)
    )
    # Eighteen such tests on fixed seeds: each would be off by chance once in a thousand.
    assert p_value(observed, law) > 1e-3


def worst_ratio(plain, law, rows, *, replaced):
    """The largest ratio of probabilities over neighbours; None for a chance that vanishes."""
    known = {}

    def of(table):
        key = table.tobytes()
        if key not in known:
            known[key] = law(table)
        return known[key]

    worst = Fraction(0)
    for one, other in neighbours(plain, rows, replaced=replaced):
        ours, theirs = of(one), of(other)
        for small, mass in ours.items():
            if mass and not theirs.get(small):
                return None
            if mass:
                worst = max(worst, mass / theirs[small])
    return worst


def law_of_counts(drawn, plain, weight):
    """The law that a sampler's own counts and levels give, in fractions."""

    def law(table):
        near = levels(drawn, histogram(plain.domain, table))
        counts = [0, *(near.count(level) for level in range(near.worst + 1))]
        total = sum(
            (after - before) * weight**level
            for level, (before, after) in enumerate(pairwise(counts))
        )
        base, atoms = plain.weights(), sorted(set(plain.atoms()))
        return {
            small: base[small] * weight ** near.level(candidate(drawn, plain, atoms, small)) / total
            for small in base
        }

    return law


def candidate(drawn, plain, atoms, small):
    """What a sampler calls a small database of one attribute."""
    extra = plain.outside and drawn.atoms == len(atoms) and plain.domain.size in atoms
    inside = tuple(atoms.index(cell) for cell in small if not (extra and cell == plain.domain.size))
    del drawn
    return (inside,)


AUDITED = ["thresholds of three", "a histogram and all", "all cells and thresholds"]


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("name", AUDITED)
def test_no_neighbour_is_more_likely_than_epsilon_allows(name, outside, replaced):
    # With rate = epsilon / (2 D) a step of the score weighs exp(-epsilon / (2 D)), and the ratio
    # may be exp(epsilon), whatever epsilon: weight ** (-2 D). So any weight below 1 will do.
    for size, rows in [(2, 3), (3, 2), (5, 2)]:
        plain = world(name, size, outside=outside, replaced=replaced)
        drawn = sampler(name, terms(plain, rows, replaced=replaced))
        moved = drawn.terms.epsilon * drawn.grain / (2 * drawn.rate)
        assert moved.denominator == 1
        weight = Fraction(1, 3)
        worst = worst_ratio(plain, law_of_counts(drawn, plain, weight), rows, replaced=replaced)
        assert worst is not None
        assert 1 < worst <= weight ** (-2 * moved.numerator)


def canaries():
    """Draws with a mistake, as laws, and whether they pair two draws."""
    weight = Fraction(1, 3)

    def off_by_two(plain, table):
        return plain.law(table, weight**2)

    def rounded(plain, table):
        halves = World(
            plain.domain,
            plain.functions,
            plain.size,
            plain.outside,
            score=lambda gaps: round(max(map(abs, gaps))),
        )
        return halves.law(table, weight)

    def in_records(plain, table):
        return plain.law(table, weight**plain.size)

    def forgotten(plain, table):
        scores = plain.scores(table)
        held = Counter(scores.values())
        masses = {small: weight**score / held[score] for small, score in scores.items()}
        return {small: mass / sum(masses.values()) for small, mass in masses.items()}

    def reused(plain, table):
        scores, base = plain.scores(table), plain.weights()
        held = Counter(scores[small] for small in base)
        total = sum(held[level] * weight**level for level in held)
        return {
            one + two: weight ** scores[one] / (total * held[scores[one]])
            if scores[one] == scores[two]
            else Fraction(0)
            for one in base
            for two in base
        }

    return {
        "sensitivity off by two": (off_by_two, False),
        "score rounded to even": (rounded, False),
        "score in records times rows": (in_records, False),
        "size of levels forgotten": (forgotten, False),
        "level reused for two draws": (reused, True),
    }


@pytest.mark.parametrize("name", canaries())
def test_canaries_are_caught(name):
    law, pair = canaries()[name]
    plain = world("a histogram and all", 2, outside=False, replaced=True)
    worst = worst_ratio(plain, lambda table: law(plain, table), 5, replaced=True)
    allowed = Fraction(3) ** (4 if pair else 2)
    assert worst is None or worst > allowed


def test_a_base_measure_that_is_forgotten_is_noticed():
    plain = world("one-way marginals", 3, outside=False, replaced=True)
    drawn = sampler("one-way marginals", terms(plain, 6))
    table = some_table(plain, 6, 5)
    weight = Fraction(math.exp(-drawn.rate))
    right = {small: float(mass) for small, mass in plain.law(table, weight).items()}
    unordered = World(plain.domain, plain.functions, 3, outside=False)
    wrong = {small: float(mass) for small, mass in unordered.law(table, weight).items()}
    private, noise = histogram(plain.domain, table), seeded(11)
    observed = Counter(plain.smalls(drawn.draw(private, noise)) for _ in range(600))
    assert p_value(observed, wrong) < 1e-6
    assert p_value(observed, right) > 1e-3


def test_the_rate_follows_what_a_neighbour_moves():
    for name, size, grain, add_remove in [
        ("all thresholds", 9, 1, Fraction(1, 4)),
        ("crossing ranges", 9, 4, Fraction(2, 9)),
        ("crossing ranges", 3, 3, Fraction(1, 4)),
    ]:
        plain = world(name, size, outside=False, replaced=False)
        for replaced in (True, False):
            facts = setting(plain.domain, 50, replaced=replaced, outside=False, unit_rows=2)
            drawn = sampler(name, DrawTerms(size, Fraction(1), facts))
            assert drawn.rate == (Fraction(1, 4) if replaced else add_remove)
            assert drawn.grain == (1 if replaced else grain)


def test_cells_within_an_atom_are_uniform():
    domain = Domain(Integer("x", 0, 5), Categorical("y", ["a", "b", "c"]))
    asked = form(domain, {"x": Range(6, 1, 4)})
    plain = World(domain, rows_of(asked), 40, outside=False)
    drawn = recognised(asked, terms(plain, 10))
    assert drawn is not None
    table = np.append(np.arange(18) % 2, 0)
    codes = np.concatenate(
        [drawn.draw(histogram(domain, table), seeded(seed)) for seed in range(60)]
    )
    inside = (codes[:, 0] >= 1) & (codes[:, 0] < 4)
    for chosen in (codes[inside], codes[~inside]):
        cells, counts = np.unique(chosen, axis=0, return_counts=True)
        assert len(cells) == 9
        expected = counts.sum() / 9
        assert ((counts - expected) ** 2 / expected).sum() < 26.1  # chi-square, 8 degrees, 1e-3
        assert abs(counts - expected).max() > 0


def test_a_universe_that_cannot_be_written_out():
    domain = Domain(Integer("x", 0, 2**62 - 1))
    cuts = [(2**62 // 1000) * number for number in range(1, 1000)]
    asked = form(domain, *[{"x": Range(2**62, 0, cut)} for cut in cuts])
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2**62, 2_000)
    private = Histogram(domain, {"x": rows}, np.ones(2_000), 0)
    facts = Facts(domain, Neighbors.REPLACE_ONE, 2_000, False, 2_000)
    given = DrawTerms(20, Fraction(1), facts)
    drawn = recognised(asked, given)
    assert drawn is not None
    assert drawn.atoms == 1000
    codes = drawn.draw(private, seeded(1))
    assert codes.shape == (20, 1)
    assert (np.diff(codes[:, 0]) >= 0).all()
    ours = np.searchsorted(codes[:, 0], cuts) / 20
    theirs = np.searchsorted(np.sort(rows), cuts) / 2_000
    assert np.abs(ours - theirs).max() < 0.25


def test_one_way_marginals_of_ten_to_the_twenty_cells():
    names = [f"a{number}" for number in range(20)]
    domain = Domain(*[Integer(name, 0, 9) for name in names])
    asked = form(domain, *[{name: Identity(10)} for name in names])
    rng = np.random.default_rng(4)
    rows = {name: rng.binomial(9, 0.3, 500) for name in names}
    private = Histogram(domain, rows, np.ones(500), 0)
    facts = Facts(domain, Neighbors.REPLACE_ONE, 500, False, 500)
    drawn = recognised(asked, DrawTerms(8, Fraction(1), facts))
    assert drawn is not None
    assert drawn.kind == "marginals"
    assert drawn.candidates == 10**160
    assert drawn.draw(private, seeded(1)).shape == (8, 20)


@pytest.mark.parametrize(
    "asked",
    [
        form(PLANE, {"x": Identity(3), "y": Identity(2)}, {"x": Prefix(3)}),
        form(
            PLANE, {"x": Identity(3), "y": Identity(2)}, {"x": Range(3, 0, 1), "y": Range(2, 0, 1)}
        ),
        form(LINE, {"x": Weights(np.array([[1.0, 0, 1, 0, 0]]))}),
        form(LINE, {"x": Weights(np.array([[0.5, 0.5, 0, 0, 0]]))}),
        form(LINE, {"x": Weights(np.array([[2.0, 2.0, 0, 0, 0]]))}),
        form(LINE, {}),
        LinearForm(LINE, [Kronecker(("x",), (Prefix(5),), 2.0)]),
        form(PLANE, {"x": Prefix(3), "y": Identity(2)}),
        form(PLANE, {"x": Range(3, 0, 2)}, {"x": Range(3, 1, 3)}, {"y": Identity(2)}),
    ],
)
def test_other_workloads_are_left_to_others(asked):
    plain = World(asked.domain, np.zeros((1, asked.domain.size)), 2, outside=False)
    assert recognised(asked, terms(plain, 4)) is None


def test_work_is_told_from_public_facts():
    plain = world("all thresholds", 30, outside=False, replaced=True)
    little = sampler("all thresholds", terms(plain, 1_000)).work()
    larger = sampler("all thresholds", terms(plain, 1_000, epsilon=Fraction(1, 100))).work()
    assert 0 < little.seconds < larger.seconds
    assert little.bytes > 0
    crossing = sampler("crossing ranges", terms(plain, 1_000)).work()
    assert crossing.seconds > little.seconds


def test_numbers_too_long_to_pick_by_are_never_feasible():
    domain = Domain(Integer("x", 0, 2**23 - 1), Integer("y", 0, 2**23 - 1))
    asked = form(domain, {"x": Identity(2**23)}, {"y": Prefix(2**23)})
    facts = setting(domain, 10, replaced=True, outside=False)
    for size, feasible in [(2**10, True), (2**20, False)]:
        found = recognised(asked, DrawTerms(size, Fraction(1), facts))
        assert found is not None
        assert math.isfinite(found.work().seconds) is feasible


@pytest.mark.parametrize("name", ["thresholds of three", "a histogram"])
def test_tables_that_int64_does_not_hold_times_the_size(name):
    times, size = 2**49, 300
    domain = CASES[name][0].domain
    table = np.array([1, 2, 4] if domain is SHORT else [1, 0, 2, 4, 0])
    nears = []
    for scale in (1, times):
        facts = setting(domain, 7 * scale, replaced=True, outside=False)
        drawn = sampler(name, DrawTerms(size, Fraction(1), facts))
        nears.append(levels(drawn, histogram(domain, np.append(table * scale, 0))))
    little, large = nears
    for level in range(8):
        assert large.count(level * times) == little.count(level)
    inside = [0] * 150 + [2] * 150
    gap = Fraction(5, 2) if domain is SHORT else Fraction(4)
    assert little.level((tuple(inside),)) == math.ceil(gap)
    assert large.level((tuple(inside),)) == gap * times


class _Flat(Levels):
    """A thousand levels with one candidate each, and nothing below the five-hundredth."""

    worst = 1000
    guess = 0

    def count(self, level):
        return max(0, level - 499)

    def sample(self, level, noise):
        raise NotImplementedError

    def level(self, candidate):
        return candidate


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.1, 1.0, 50.0])
def test_segments_hold_every_level_once(rate):
    segments = sorted(segmented(_Flat(), rate), key=lambda segment: segment.below)
    assert segments[-1].end == 1000
    assert segments[0].below < 500
    for one, two in pairwise(segments):
        assert one.end == two.below
    assert all(s.count == max(0, s.end - 499) for s in segments)
    assert len(segments) < 60
    assert list(tables(1, 0))
