"""Samples of every kind of distribution: their law, their streams, their sizes."""

import math

import numpy as np
import pytest
from reference import GRID, one
from scipy import stats

from dpsdk import Domain, Integer, SyntheticData
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Range
from dpsdk.hypothesis import DenseHypothesis, Mixture, PiecewiseHypothesis, Streams
from dpsdk.hypothesis import dense as dense_module
from dpsdk.hypothesis.distribution import reached
from dpsdk.hypothesis.streams import to_key
from dpsdk.testing import seeded

SURE = 1e-5
CELLS = np.random.default_rng(1).random(GRID.size) ** 3
LINE = Domain(Integer("x", 0, 2**62 - 1))


def kinds():
    dense = DenseHypothesis.from_weights(GRID, CELLS, 0.25)
    logs = dense.copy()
    logs.shift(one(GRID, a=Range(5, 0, 2)), -3000.0)
    assert logs._cells.logs
    counts = np.random.default_rng(2).integers(0, 5, GRID.size)
    line = PiecewiseHypothesis.uniform(LINE, outside=True)
    line.shift(one(LINE, x=Range(LINE.size, 7, 10**15)), 9.0)
    rng = np.random.default_rng(4)
    tables = {name: rng.random((3, GRID[name].size)) ** 4 for name in GRID.names}
    tables["d"][:, 2] = 0
    return {
        "mixture": Mixture(GRID, [5, 2, 3], tables, outside_mass=0.1),
        "dense": dense,
        "logs": logs,
        "synthetic": SyntheticData.from_counts(GRID, counts, outside_count=3),
        "piecewise": line,
    }


def codes_of(distribution, size, seed):
    columns = distribution.sample(size, seed)
    return {
        name: np.array([distribution.domain[name].index(label) for label in labels])
        for name, labels in columns.items()
    }


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("name", ["dense", "logs", "synthetic", "mixture"])
def test_a_sample_follows_the_joint_distribution_and_every_marginal(name):
    distribution, size = kinds()[name], 40_000
    codes = codes_of(distribution, size, 3)
    joint = distribution.table(GRID.names) / (1 - distribution.outside_mass)
    cells = np.ravel_multi_index([codes[n] for n in GRID.names], GRID.shape)
    counts = np.bincount(cells, minlength=GRID.size)
    likely = joint.ravel() * size >= 5
    assert not counts[joint.ravel() == 0].any()
    rest = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(joint.ravel()[likely] * size, joint.ravel()[~likely].sum() * size)
    some = wanted > 0
    assert stats.chisquare(rest[some], wanted[some]).pvalue > SURE
    for attribute in GRID.names:
        share = distribution.table((attribute,)) / (1 - distribution.outside_mass) * size
        seen = np.bincount(codes[attribute], minlength=len(share))
        kept = share > 1e-9
        assert len(share) == 1 or stats.chisquare(seen[kept], share[kept]).pvalue > SURE


@pytest.mark.parametrize("name", kinds())
def test_equal_seeds_give_equal_samples_and_the_beginning_of_longer_ones(name):
    distribution = kinds()[name]
    short, long = distribution.sample(20, 7), distribution.sample(500, 7)
    assert distribution.sample(20, 7) == short
    assert {column: labels[:20] for column, labels in long.items()} == short
    assert distribution.sample(20, 8) != short
    assert distribution.sample(20, seeded(7)) == distribution.sample(20, seeded(7))
    generator, twin = np.random.default_rng(7), np.random.default_rng(7)
    first, second = distribution.sample(20, generator), distribution.sample(20, generator)
    assert first != second
    assert distribution.sample(20, twin) == first
    assert distribution.sample(20) != distribution.sample(20)


@pytest.mark.parametrize("name", kinds())
def test_none_may_be_drawn_and_too_many_may_not(name):
    distribution = kinds()[name]
    assert distribution.sample(0, 1) == {column: [] for column in distribution.domain.names}
    for size in (2**29, 2**100):
        with pytest.raises(TooLarge, match="sample"):
            distribution.sample(size)
    for size in (-1, 1.0, "1", True, None):
        with pytest.raises(InvalidArgument, match="size"):
            distribution.sample(size)
    with pytest.raises(InvalidArgument, match="seed"):
        distribution.sample(1, 1.5)


def test_the_low_digits_of_a_long_attribute_are_random_too():
    # One number of 53 bits a record would leave the last nine bits of the label at zero.
    drawn = np.array(PiecewiseHypothesis.uniform(LINE).sample(20_000, 5)["x"])
    assert stats.chisquare(np.bincount(drawn % 512, minlength=512)).pvalue > SURE
    assert stats.kstest(drawn / 2.0**62, "uniform").pvalue > SURE
    assert stats.chisquare(np.bincount(drawn % 3)).pvalue > SURE


class Recorded(Streams):
    """Streams that tell whose numbers were asked for, and may have those of one replaced."""

    __slots__ = ("asked", "other")

    def __init__(self, size, other=""):
        super().__init__(size, bytes(32))
        self.asked, self.other = [], other

    def _words(self, purpose, name, each):
        self.asked.append(name)
        return super()._words(purpose, name + "!" * (name == self.other), each)


@pytest.mark.parametrize("name", ["dense", "logs", "synthetic", "mixture"])
def test_each_attribute_is_drawn_from_numbers_of_its_own(name):
    distribution, size = kinds()[name], 3000
    streams = Recorded(size)
    drawn = distribution.draw(streams)
    assert sorted(set(streams.asked)) == sorted(GRID.names)
    # Other numbers for the last attribute leave all before it as they were.
    other = distribution.draw(Recorded(size, "d"))
    assert all(np.array_equal(a, b) for a, b in zip(drawn[:3], other[:3], strict=True))
    assert not np.array_equal(drawn[3], other[3])


def test_independent_attributes_stay_independent():
    shares = {"a": np.arange(1.0, 6.0), "d": np.arange(7.0, 0.0, -1.0)}
    hypothesis = DenseHypothesis.product(GRID, shares)
    codes = codes_of(hypothesis, 40_000, 11)
    table = np.zeros((5, 7))
    np.add.at(table, (codes["a"], codes["d"]), 1)
    assert stats.chi2_contingency(table).pvalue > SURE
    apart = hypothesis.draw(Recorded(3000, "a"))
    together = hypothesis.draw(Recorded(3000))
    assert np.array_equal(apart[3], together[3])


@pytest.mark.parametrize("chunk", [1, 3, 8, 50])
def test_a_sample_does_not_depend_on_how_the_cells_are_cut(chunk, monkeypatch):
    distribution = kinds()["dense"]
    before = distribution.sample(500, 13)
    monkeypatch.setattr("dpsdk.hypothesis.cells.CHUNK", chunk)
    assert distribution.sample(500, 13) == before


def test_levels_at_the_edges_meet_cells_that_have_weight():
    table = np.array([[0.0, 1.0, 0.0, 3.0, 0.0], [5e-324, 0.0, 0.0, 0.0, 0.0]])
    ends = np.array([0, 4, 6])
    levels = np.array([0.0, 0.25, np.nextafter(0.25, 0), 1 - 2**-53, 0.0, 1 - 2**-53])
    assert dense_module._reached(table, ends, levels).tolist() == [1, 3, 1, 3, 0, 0]


def test_lines_are_searched_all_at_once_as_one_by_one():
    rng = np.random.default_rng(5)
    for _ in range(50):
        lines, width = rng.integers(1, 6, 2)
        table = rng.integers(0, 3, (lines, width)).astype(np.float64)
        table[:, rng.integers(0, width)] += 1
        ends = np.append(0, np.cumsum(rng.integers(0, 20, lines)))
        levels = rng.random(ends[-1])
        levels[::5], levels[3::7] = 0.0, 0.5
        single = [reached(*pair) for pair in zip(table, np.split(levels, ends[1:-1]), strict=True)]
        assert (
            dense_module._reached(table, ends, levels).tolist() == np.concatenate(single).tolist()
        )


def test_nothing_inside_is_a_typed_error():
    hypothesis = PiecewiseHypothesis.from_pieces(LINE, [0], [1.0], 0.5)
    hypothesis.shift(one(LINE, x=Range(LINE.size, 0, LINE.size)), -5000.0)
    with pytest.raises(InvalidArgument, match="probability"):
        hypothesis.sample(1)
    dense = DenseHypothesis.uniform(GRID, outside=True)
    dense.shift(one(GRID), -5000.0)
    assert math.isclose(dense.outside_mass, 1.0)
    with pytest.raises(InvalidArgument, match="probability"):
        dense.sample(1)


KEY = bytes(range(32))


def test_levels_are_uniform_and_below_one():
    levels = Streams(100_000, KEY).levels("a")
    assert levels.min() >= 0.0
    assert levels.max() < 1.0
    assert stats.kstest(levels, "uniform").pvalue > SURE
    low_digits = (levels * 2**53).astype(np.int64) % 64
    assert stats.chisquare(np.bincount(low_digits)).pvalue > SURE


def test_streams_of_attributes_are_independent_and_come_in_any_order():
    one, other = Streams(50_000, KEY), Streams(50_000, KEY)
    a, b = one.levels("a"), one.levels("b")
    assert np.array_equal(other.levels("b"), b)
    assert np.array_equal(other.levels("a"), a)
    table = np.histogram2d(a, b, bins=8, range=[(0, 1), (0, 1)])[0]
    assert stats.chisquare(table.ravel()).pvalue > SURE
    below = one.below("a", np.array(8))
    table = np.histogram2d(a, below, bins=8)[0]
    assert stats.chisquare(table.ravel()).pvalue > SURE
    assert not np.array_equal(Streams(50_000, bytes(32)).levels("a"), a)


@pytest.mark.parametrize("name", ["a", "é", "\0", "a\0", "long" * 1000])
def test_the_first_records_are_those_of_a_longer_sample(name):
    short, long = Streams(10, KEY), Streams(1000, KEY)
    assert np.array_equal(long.levels(name)[:10], short.levels(name))
    limits = np.arange(1, 1001) ** 6
    assert np.array_equal(long.below(name, limits)[:10], short.below(name, limits[:10]))


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000])
def test_integers_below_a_limit_are_uniform(limit):
    drawn = Streams(60_000, KEY).below("a", np.array(limit))
    counts = np.bincount(drawn, minlength=limit)
    assert len(counts) == limit
    assert limit == 1 or stats.chisquare(counts).pvalue > SURE


def test_integers_below_are_the_exact_products_rounded_down():
    size = 2000
    streams = Streams(size, KEY)
    limits = np.random.default_rng(1).integers(1, 2**63 - 1, size)
    limits[:4] = 2**63 - 1, 2**62, 1, 3 * 2**60
    words = streams._words(b"\1", "a", 2).tolist()
    wanted = [((top << 64 | low) * n) >> 128 for (top, low), n in zip(words, limits.tolist(),
                                                                     strict=True)]  # fmt: skip
    assert streams.below("a", limits).tolist() == wanted


def test_three_times_a_power_of_two_has_no_preferred_rests():
    # With 64 bits only, of every 16 integers of them six would fall on one rest of the three.
    drawn = Streams(60_000, KEY).below("a", np.array(3 * 2**60))
    assert stats.chisquare(np.bincount(drawn % 3)).pvalue > SURE


def test_keys_follow_from_seeds():
    assert to_key(7) == to_key(np.int64(7)) == to_key(7)
    assert len({to_key(seed) for seed in (0, 1, -1, 2**64, 2**1000)}) == 5
    assert to_key(None) != to_key(None)
    assert to_key(seeded(7)) == to_key(seeded(7))
    noise, generator = seeded(7), np.random.default_rng(7)
    assert to_key(noise) != to_key(noise)
    assert to_key(generator) != to_key(generator)
    assert to_key(np.random.default_rng(7)) == to_key(np.random.default_rng(7))
    assert len(to_key(np.random.RandomState(1))) == 32


class Short:
    def bytes(self, length):
        return b"x"


@pytest.mark.parametrize(
    "seed", [1.0, "7", True, b"x" * 32, [1], math.nan, 2**5000, Short(), Short, object()]
)
def test_a_seed_that_is_none_is_named(seed):
    with pytest.raises(InvalidArgument, match="seed"):
        to_key(seed)


def test_bad_sizes_keys_and_limits_are_named():
    with pytest.raises(InvalidArgument, match="size"):
        Streams(-1, KEY)
    with pytest.raises(InvalidArgument, match="size"):
        Streams(1.5, KEY)
    for key in (b"", b"x" * 33, "x" * 32, None):
        with pytest.raises(InvalidArgument, match="key"):
            Streams(1, key)
    for limit in (0, -1):
        with pytest.raises(InvalidArgument, match="limits"):
            Streams(1, KEY).below("a", np.array(limit))
    assert len(Streams(0, KEY).levels("a")) == 0
    assert len(Streams(0, KEY).below("a", np.array([], dtype=np.int64))) == 0
