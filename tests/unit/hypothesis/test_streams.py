import math

import numpy as np
import pytest
from scipy import stats

from dpsdk.errors import InvalidArgument
from dpsdk.hypothesis import Streams
from dpsdk.hypothesis.streams import to_key
from dpsdk.testing import seeded

KEY = bytes(range(32))
SURE = 1e-5
"""Each test asks that much of a few p-values; all are of fixed keys."""


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
