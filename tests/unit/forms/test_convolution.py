"""Convolutions of integers are exact, and their lines move answers as far as is said."""

import tracemalloc

import numpy as np
import pytest

from dpsdk import Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Kronecker, LinearForm, Toeplitz, convolution, sensitivity
from dpsdk.forms.convolution import EXACT, causal, correlated
from worlds import facts


def by_hand(line, table):
    """Of Python's integers, which have no limit."""
    ours, theirs = ([int(number) for number in numbers] for numbers in (line, table))
    return [
        sum(ours[i - j] * theirs[j] for j in range(i + 1) if theirs[j]) for i in range(len(ours))
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 17, 64, 130])
@pytest.mark.parametrize("limit", [1, 10, 2**20, 2**40, 2**52])
def test_integers_within_what_floats_hold_are_exact(size, limit):
    rng = np.random.default_rng(size)
    line = rng.integers(-limit, limit + 1, size).astype(float)
    most = max(0, int((EXACT - 1) // max(1.0, np.abs(line).max()) // size))
    tables = np.array([
        rng.integers(-most, most + 1, size),
        np.full(size, most),
        np.where(np.arange(size) == size // 2, most * size, 0),
    ]).astype(float)  # fmt: skip
    found = causal(line, tables)
    for row, table in zip(found, tables, strict=True):
        assert [int(number) for number in row] == by_hand(line, table)
    small = np.clip(line, -(2**20), 2**20)
    line_of_many = [int(number) for number in small]
    wanted = [
        sum(line_of_many[k] * line_of_many[k + shift] for k in range(size - shift))
        for shift in range(size)
    ]
    assert [int(number) for number in correlated(small)] == wanted


def test_a_long_line_of_the_largest_digits_is_exact():
    size = 2**16
    line = np.full(size, 2.0**20 - 1)
    table = np.full(size, float(EXACT // (size * 2**20)))
    np.testing.assert_array_equal(causal(line, table), line * table * np.arange(1, size + 1))
    table = np.where(np.arange(size) % 2, table, -table)
    wanted = np.where(np.arange(size) % 2, 0.0, -table[1] * line)
    np.testing.assert_array_equal(causal(line, table), wanted)


def test_numbers_that_are_no_integers_are_close():
    rng = np.random.default_rng(5)
    line, tables = rng.normal(size=300), rng.random((2, 300))
    wanted = [np.convolve(line, table)[:300] for table in tables]
    np.testing.assert_allclose(causal(line, tables), wanted, atol=1e-12)
    large = np.full(300, 2.0**40)
    np.testing.assert_allclose(causal(large, large), 2.0**80 * np.arange(1, 301), rtol=1e-12)


def test_a_product_that_is_no_integer_is_never_rounded_to_one(monkeypatch):
    # As if digits were too large for what floats round off.
    monkeypatch.setattr(convolution, "_UNIT", 0.0)
    monkeypatch.setattr(convolution, "_MOST_DIGIT", 30)
    rng = np.random.default_rng(1)
    with pytest.raises(ArithmeticError):
        causal(rng.integers(0, 2**25, 2**12).astype(float), rng.integers(0, 2**15, 2**12) * 1.0)


def columns_of(form, outside):
    block = form.blocks[0]
    written = block.columns([np.arange(block.shape[0])])
    return [*written.T, *([np.zeros(len(written))] if outside else [])]


@pytest.mark.parametrize("pairs", [2**11, 1])
@pytest.mark.parametrize("seed", range(40))
def test_no_two_columns_are_farther_apart_than_is_said(seed, pairs, monkeypatch):
    monkeypatch.setattr(convolution, "PAIR_LIMIT", pairs)
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    line = (
        np.sort(rng.integers(0, 9, size))[::-1],
        rng.integers(-3, 4, size),
        rng.normal(size=size),
        np.sort(rng.random(size))[::-1],
    )[seed % 4]
    scale = float(rng.choice([1.0, 2.0, -1.0, 0.3]))
    form = LinearForm(
        Domain(Integer("a", 0, size - 1)), [Kronecker(("a",), (Toeplitz(line),), scale)]
    )
    for neighbors in Neighbors:
        for outside in (False, True):
            columns = columns_of(form, outside)
            if neighbors is Neighbors.REPLACE_ONE:
                moves = np.array([one - other for one in columns for other in columns])
            else:
                moves = np.array(columns)
            found = sensitivity(form, facts(form.domain, neighbors, rows=99, outside=outside))
            farthest = [
                np.abs(moves).sum(axis=1).max(), (moves**2).sum(axis=1).max(), np.abs(moves).max()
            ]  # fmt: skip
            claimed = [float(found.l1), float(found.l2_squared), float(found.maximum)]
            assert (np.array(claimed) >= np.array(farthest) * (1 - 1e-15)).all()
            if found.exact:
                np.testing.assert_allclose(claimed, farthest, rtol=1e-9)
            # Whole numbers that never rise are exact at any size.
            assert found.exact or seed % 4 or not scale.is_integer()


def test_long_lines_take_no_matrix():
    size = 2**16
    line = np.floor(2.0**20 / np.sqrt(np.arange(1, size + 1)) + 0.5)
    form = LinearForm(Domain(Integer("a", 0, size - 1)), [Kronecker(("a",), (Toeplitz(line),))])
    tracemalloc.start()
    try:
        found = sensitivity(form, facts(form.domain, rows=10))
        answers = form.blocks[0].answer(np.ones(size))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**26
    np.testing.assert_array_equal(answers, np.cumsum(line))
    squares = float((line**2).sum())
    # What floats may round off of numbers so large is added.
    assert squares < float(found.l2_squared) <= 2 * squares * (1 + 1e-9)
    assert found.exact
    with pytest.raises(TooLarge):
        form.blocks[0].factors[0].matrix()


@pytest.mark.parametrize("line", [[], [[1.0]], 3.0, [1.0, float("nan")], ["a"]])
def test_lines_are_checked(line):
    with pytest.raises(InvalidArgument):
        Toeplitz(line)
