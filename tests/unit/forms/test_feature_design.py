"""Designs never write their rows out, and say the same as these."""

import tracemalloc

import numpy as np
import pytest

from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Design
from dpsdk.queries import Ball

CASES = [
    [(4, 3)],
    [(3, 2), (2, 2)],
    [(2, 1), (3, 2), (2, 0), (4, 3)],
    [(1, 1), (5, 4), (2, 2), (3, 3), (2, 1)],
]


def made(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return Design([rng.normal(size=shape) for shape in shapes]), rng


@pytest.mark.parametrize("shapes", CASES, ids=str)
def test_sums_are_those_of_the_written_rows(shapes):
    design, rng = made(shapes)
    cells = np.ndindex(*design.shape)
    rows = np.array(
        [
            np.concatenate([block[place] for block, place in zip(design.blocks, cell, strict=True)])
            for cell in cells
        ]
    )
    assert np.array_equal(design.rows(), rows)
    theta, numbers = rng.normal(size=design.features), rng.normal(size=design.cells)
    assert np.allclose(design.margins(theta), rows @ theta)
    assert np.allclose(design.gradient(numbers), rows.T @ numbers)
    assert np.allclose(design.hessian(numbers), (rows.T * numbers) @ rows)
    assert design.norm == pytest.approx(np.linalg.norm(rows, axis=1).max())
    longest = 2 * np.linalg.norm(rows, axis=1).max()
    assert design.reach(Ball(2)) == pytest.approx((-longest, longest))


def test_equal_rows_are_joined():
    rng = np.random.default_rng(1)
    groups, other = np.eye(2)[[0, 1, 1, 0, 1]], np.array([[1.0], [2.0], [1.0]])
    design = Design([groups, other])
    weights = rng.random((3, 15))
    small, joined = design.joined(weights)
    assert (small.cells, joined.shape) == (4, (3, 4))
    assert joined.sum(axis=1) == pytest.approx(weights.sum(axis=1))
    theta = rng.normal(size=3)
    for line, short in zip(weights, joined, strict=True):
        slopes, fewer = np.cos(design.margins(theta)), np.cos(small.margins(theta))
        assert np.allclose(design.gradient(line * slopes), small.gradient(short * fewer))
    again, same = small.joined(joined)
    assert again is small
    assert same is joined


def test_a_universe_of_a_million_cells_takes_little_memory():
    blocks = [np.eye(10)] * 5 + [np.eye(10)]
    tracemalloc.start()
    try:
        design = Design(blocks)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert design.cells == 10**6
    assert held < 4 * 2**20


def test_what_is_too_large_is_told_before_it_is_made():
    assert Design.require([(10, 9)] * 5 + [(5, 5)], labels=2) == 1000 * 28 + 500 * 24
    with pytest.raises(TooLarge, match="1,000,000"):
        Design.require([(10, 9)] * 6, labels=2)
    with pytest.raises(TooLarge, match="1,000,000"):
        Design([np.eye(10)] * 6, labels=2)
    with pytest.raises(TooLarge, match="numbers"):
        Design.require([(10**6, 40)])
    with pytest.raises(TooLarge, match="written"):
        Design([np.eye(10)] * 6).rows()


@pytest.mark.parametrize(
    "blocks",
    [
        [], [np.eye(2), np.zeros(3)], [np.zeros((0, 2))], [[[np.nan]]], [[["a"]]],
        [np.zeros((2, 2, 2))],
    ],
    ids=str,
)  # fmt: skip
def test_blocks_that_cannot_be(blocks):
    with pytest.raises(InvalidArgument, match="blocks"):
        Design(blocks)
