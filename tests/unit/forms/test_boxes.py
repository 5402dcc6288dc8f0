import itertools
import math
import sys

import numpy as np
import pytest
from random_forms import random_boxes

import dpsdk.forms.corners as module
from dpsdk import Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Identity, Kronecker, LinearForm, Prefix, Range, sensitivity
from dpsdk.forms.boxes import Boxes, Products, worth_boxing
from dpsdk.forms.corners import Corners
from worlds import Records, facts

pytestmark = pytest.mark.thorough

SEEDS = range(60)


def random_shape(rng, most=3):
    return tuple(int(rng.integers(1, 6)) for _ in range(rng.integers(1, most + 1)))


def random_range(rng, size):
    start = int(rng.integers(0, size + 1))
    return Range(size, start, int(rng.integers(start, size + 1)))


def random_blocks(rng, shape, *, whole=True):
    """One-row blocks of ranges, empty and full ones among them, each with a scale."""
    names = tuple("abcd"[: len(shape)])
    made = []
    for _ in range(rng.integers(1, 9)):
        scale = float(rng.integers(-3, 4)) if whole else float(rng.normal())
        made.append(Kronecker(names, tuple(random_range(rng, size) for size in shape), scale))
    full = tuple(Range(size, 0, size) for size in shape)
    empty = tuple(Range(size, size // 2, size // 2) for size in shape)
    return [*made, Kronecker(names, full, 2.0), Kronecker(names, empty, 5.0)]


def at(block, cell):
    return zip(block.factors, cell, strict=True)


def written(blocks):
    """All weights (boxes, cells), cell by cell."""
    shape = blocks[0].shape
    return np.array(
        [
            [
                block.scale * all(f.columns(np.array([c]))[0, 0] for f, c in at(block, cell))
                for cell in itertools.product(*map(range, shape))
            ]
            for block in blocks
        ],
        dtype=float,
    )


@pytest.fixture(params=[2**18, 3], ids=["one chunk", "chunks of three"])
def chunked(request, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", request.param)


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("seed", SEEDS)
def test_boxes_sum_what_their_cells_sum(seed):
    rng = np.random.default_rng(seed)
    blocks = random_blocks(rng, random_shape(rng, 4))
    boxes, weights, shape = Boxes.stack(blocks), written(blocks), blocks[0].shape
    table = rng.integers(0, 1000, shape).astype(float)
    wanted = weights @ table.ravel()
    assert boxes.answer(table).tolist() == wanted.tolist()
    assert boxes.answer(table).tolist() == Products.stack(blocks).answer(table).tolist()
    assert [float(block.answer(table)[0]) for block in blocks] == wanted.tolist()
    codes = [code.ravel() for code in np.indices(shape)]
    assert boxes.answer_records(codes, table.ravel()).tolist() == wanted.tolist()
    assert boxes.rows == len(blocks)
    assert boxes.names == blocks[0].names
    assert boxes.shape == shape


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_and_their_norms_are_those_of_the_weights(seed, chunked):
    rng = np.random.default_rng(seed)
    blocks = random_blocks(rng, random_shape(rng, 4))
    boxes, weights, shape = Boxes.stack(blocks), written(blocks), blocks[0].shape
    codes = [code.ravel() for code in np.indices(shape)]
    assert np.array_equal(boxes.columns(codes), weights)
    some = [code[[0, -1, 0]] for code in codes]
    assert np.array_equal(boxes.columns(some), weights[:, [0, -1, 0]])
    for power in (1, 2):
        wanted = (np.abs(weights) ** power).sum(axis=0).reshape(shape)
        assert np.array_equal(boxes.column_norms(power), wanted)
        assert np.array_equal(Products.stack(blocks).column_norms(power), wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_extents_and_limits_are_those_of_the_weights(seed):
    rng = np.random.default_rng(seed)
    blocks = random_blocks(rng, random_shape(rng), whole=bool(seed % 2))
    boxes, weights = Boxes.stack(blocks), written(blocks)
    low, high = boxes.extents()
    assert low.tolist() == weights.min(axis=1).tolist()
    assert high.tolist() == weights.max(axis=1).tolist()
    assert boxes.limits() == (weights.min(), weights.max())


def test_a_stack_with_a_fractional_scale_is_not_integral():
    factors = (Range(3, 0, 2),)
    whole = [Kronecker(("a",), factors, scale) for scale in (1.0, 4.0)]
    assert Boxes.stack(whole).integral
    assert not Boxes.stack([*whole, Kronecker(("a",), factors, 0.5)]).integral


def test_real_scales_and_real_tables_are_answered_to_rounding():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        blocks = random_blocks(rng, random_shape(rng), whole=False)
        table = rng.dirichlet(np.ones(math.prod(blocks[0].shape))).reshape(blocks[0].shape)
        wanted = written(blocks) @ table.ravel()
        np.testing.assert_allclose(Boxes.stack(blocks).answer(table), wanted, atol=1e-14)


def partial_sums(boxes, table):
    """Every number that is met on the way to the answers."""
    sums = np.pad(table, [(1, 0)] * table.ndim)
    for axis in range(table.ndim):
        sums = np.cumsum(sums, axis=axis)
    running, met = np.zeros(boxes.rows), [sums.max()]
    corners = Corners(boxes.shape, (False,) * table.ndim)
    for _, sign, cells in corners._places(boxes.starts, boxes.stops):
        running = running + sign * sums.reshape(-1)[cells]
        met.append(np.abs(running).max())
    return max(*met, np.abs(running * boxes.scales).max())


@pytest.mark.parametrize("scale", [1.0, 2.0**20])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_no_partial_sum_exceeds_the_reach(width, scale):
    rng = np.random.default_rng(width)
    shape = (3,) * width
    names = tuple(f"a{i}" for i in range(width))
    most = 0.0
    for _ in range(50):
        block = Kronecker(names, tuple(random_range(rng, 3) for _ in names), scale)
        boxes = Boxes.stack([block, block])
        table = np.zeros(shape)
        table[tuple(rng.integers(0, 3, width))] = 1.0
        most = max(most, partial_sums(boxes, table))
        assert most <= boxes.reach
    # Not much is lost to the bound: boxes on a fine lattice must not be refused for their corners.
    assert boxes.reach == max(scale, 2.0**width)


def corner_domain(width):
    return Domain(*(Integer(f"a{i}", 0, 2) for i in range(width)))


@pytest.mark.parametrize("width", [1, 3, 6])
def test_counts_are_exact_as_far_as_the_reach_allows(width):
    domain = corner_domain(width)
    names = domain.names
    middle = Kronecker(names, tuple(Range(3, 1, 3) for _ in names))
    form = LinearForm(domain, [middle, middle, middle])
    assert isinstance(form.groups[0][0], Boxes)
    rows = int(2**53 / form.reach) - 1
    for cell in [(2,) * width, (1,) * width, (0,) + (2,) * (width - 1)]:
        table = np.zeros(domain.shape)
        table[cell] = rows
        inside = rows if min(cell) >= 1 else 0
        assert Boxes.stack([middle]).answer(table).tolist() == [float(inside)]


def test_a_form_answers_boxes_in_the_places_of_its_blocks():
    domain = Domain(Integer("a", 0, 3), Integer("b", 0, 4), Integer("c", 0, 1))
    ranges = {"a": Range(4, 1, 3), "b": Range(5, 0, 2)}
    blocks = [
        Kronecker.of(domain, {"b": Range(5, 2, 4)}),
        Kronecker.of(domain, ranges),
        Kronecker.of(domain, {"c": Identity(2)}),
        Kronecker.of(domain, {"b": Range(5, 0, 0)}),
        Kronecker.of(domain, {**ranges, "b": Range(5, 4, 5)}),
    ]
    form = LinearForm(domain, blocks)
    assert sum(isinstance(block, Boxes) for block, _ in form.groups) == 2
    cells = [(1, 0, 0), (2, 4, 1), (3, 3, 1), (0, 2, 0), (1, 1, 1)]
    assert form.evaluate(Records(domain, cells)).tolist() == [2, 2, 2, 3, 0, 1]


def test_few_corners_and_ranges_only_are_worth_boxing():
    def block(*factors):
        return Kronecker(tuple(f"a{i}" for i in range(len(factors))), factors)

    assert worth_boxing(block(Range(2, 0, 1)))
    assert not worth_boxing(block(Range(1, 0, 1)))
    assert not worth_boxing(block(Identity(1), Range(9, 0, 1)))
    assert not worth_boxing(block(Prefix(9)))
    assert worth_boxing(block(*[Range(3, 0, 2)] * 8))
    assert not worth_boxing(block(*[Range(3, 0, 2)] * 9))


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("seed", range(12))
def test_whichever_axes_are_listed_sums_and_counts_are_the_same(seed):
    rng = np.random.default_rng(seed)
    blocks = random_blocks(rng, random_shape(rng))
    boxes, shape = Boxes.stack(blocks), blocks[0].shape
    table = rng.integers(0, 1000, shape).astype(float)
    inside = written([Kronecker(b.names, b.factors) for b in blocks])
    kept = inside.any(axis=1)
    weights = rng.integers(0, 9, int(kept.sum())).astype(float)
    for listed in itertools.product((False, True), repeat=len(shape)):
        corners = Corners(shape, listed)
        found = corners.sums(table, boxes.starts, boxes.stops)
        assert found.tolist() == (inside @ table.ravel()).tolist()
        held = corners.held(weights, boxes.starts[:, kept], boxes.stops[:, kept])
        assert held.ravel().tolist() == (weights @ inside[kept]).tolist()


def test_short_axes_are_listed_where_boxes_are_many():
    shape = (9, 16, 7, 6, 5, 2, 2)
    # Of two cells there are as many ranges as running sums.
    assert Corners.best(shape, 1).listed == (False,) * 5 + (True, True)
    assert Corners.best((9, 16), 1).listed == (False, False)
    assert Corners.best(shape, 10**6).listed == (False,) * 4 + (True,) * 3
    assert Corners.best((9, 16), 10**6).listed == (True, True)
    # Without any listed there would be more corners than allowed.
    assert sum(Corners.best((2,) * 10, 1).listed) >= 2
    assert Corners.best((2**27,), 5) is None
    assert Corners.best((2,) * 40, 5) is None


def lined(rng, shape, count, scales):
    """Boxes of which some cells never count, and their weights cell by cell."""
    ends = np.sort([rng.integers(0, size + 1, (count, 2)) for size in shape], axis=2)
    lines = tuple(rng.integers(0, 2, s).astype(float) if s % 2 else None for s in shape)
    names = tuple("abcd"[: len(shape)])
    boxes = Boxes(names, shape, ends[:, :, 0], ends[:, :, 1], scales, lines)
    cells = list(itertools.product(*map(range, shape)))
    weights = [
        [
            scales[row]
            * all(
                ends[axis, row, 0] <= code < ends[axis, row, 1]
                and (lines[axis] is None or lines[axis][code])
                for axis, code in enumerate(cell)
            )
            for cell in cells
        ]
        for row in range(count)
    ]
    return boxes, np.array(weights)


@pytest.mark.parametrize("room", ["tables of sums", "no room for them"])
@pytest.mark.parametrize("seed", range(15))
def test_cells_that_never_count_are_in_no_box(seed, room, monkeypatch):
    if room == "no room for them":
        monkeypatch.setattr(module, "_WIDE_LIMIT", 0)
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    boxes, weights = lined(rng, shape, 7, rng.integers(-3, 4, 7).astype(float))
    table = rng.integers(0, 1000, shape).astype(float)
    codes = [code.ravel() for code in np.indices(shape)]
    wanted = weights @ table.ravel()
    assert boxes.answer(table).tolist() == wanted.tolist()
    assert boxes.answer_records(codes, table.ravel()).tolist() == wanted.tolist()
    assert np.array_equal(boxes.columns(codes), weights)
    assert boxes.cells.tolist() == (weights != 0).sum(axis=1).tolist() or 0.0 in boxes.scales
    low, high = boxes.extents()
    assert (low.tolist(), high.tolist()) == (
        weights.min(axis=1).tolist(),
        weights.max(axis=1).tolist(),
    )
    for power in (1, 2):
        norms = (np.abs(weights) ** power).sum(axis=0).reshape(shape)
        assert np.array_equal(boxes.column_norms(power), norms)
    for row in range(boxes.rows):
        assert np.array_equal(boxes.row(row).columns(codes)[0], weights[row])
    (part,) = boxes.parts(2, 5)
    assert np.array_equal(part.columns(codes), weights[2:5])
    rounded, change = boxes.rounded(3)
    assert np.array_equal(rounded.columns(codes), weights * 8)
    assert change == 0.0


def test_scales_are_rounded_half_up_and_the_change_is_the_largest():
    ends = np.array([[0, 1]]), np.array([[2, 2]])
    boxes, change = Boxes(("a",), (2,), *ends, np.array([0.3, 0.5])).rounded(1)
    assert boxes.scales.tolist() == [1.0, 1.0]
    assert change == pytest.approx(0.2)


GOOD = {
    "names": ("a", "b"),
    "shape": (3, 2),
    "starts": [[0, 1], [0, 1]],
    "stops": [[3, 1], [1, 2]],
    "scales": [1.0, 2.0],
}


@pytest.mark.parametrize(
    "bad",
    [
        {"names": (), "shape": (), "starts": [], "stops": []},
        {"shape": (3,)},
        {"shape": (2, 2)},
        {"starts": [[0, 2], [0, 1]]},
        {"starts": [[-1, 1], [0, 1]]},
        {"stops": [[4, 1], [1, 2]]},
        {"stops": [[3], [1]]},
        {"starts": [0, 1], "stops": [3, 1]},
        {"starts": [[0.0, 1], [0, 1]]},
        {"starts": [[False, True], [False, True]]},
        {"stops": np.array([[3, 2**64 - 1], [1, 2]], dtype=np.uint64)},
        {"scales": [1.0]},
        {"scales": [1.0, math.nan]},
        {"scales": [], "starts": [[], []], "stops": [[], []]},
        {"lines": (None,)},
        {"lines": (None, [1.0])},
        {"lines": (None, [1.0, 0.5])},
        {"lines": (None, [1.0, math.inf])},
    ],
)
def test_boxes_that_do_not_fit_are_refused(bad):
    Boxes(**GOOD)
    with pytest.raises(InvalidArgument):
        Boxes(**{**GOOD, **bad})


@pytest.mark.parametrize("seed", range(8))
def test_a_form_of_boxes_comes_in_parts_and_apart(seed):
    rng = np.random.default_rng(seed)
    domain = Domain(Integer("a", 0, 3), Integer("b", 0, 2))
    one = Kronecker.of(domain, {"a": Identity(4)})
    form = LinearForm(domain, [random_boxes(rng, domain, most=9), one])
    wanted = list(form.row_identities())
    parts = list(form.pieces(2))
    assert [identity for part in parts for identity in part.row_identities()] == wanted
    assert all(part.rows >= 2 for part in parts[:-1])
    assert max(part.rows for part in parts) <= 5  # the whole block among them
    apart = form.apart()
    assert apart.identity == form.identity
    assert all(isinstance(block, Kronecker) for block in apart.blocks)
    assert apart.apart() is apart
    assert [next(form.row(i).row_identities()) for i in range(form.rows)] == wanted


@pytest.mark.parametrize(
    ("neighbors", "outside"), list(itertools.product(Neighbors, [True, False]))
)
def test_many_intervals_of_a_huge_attribute_move_by_how_much_they_overlap(neighbors, outside):
    domain = Domain(Integer("x", 0, 2**40))
    size = domain.size
    starts = np.arange(1000) * 2**20
    boxes = Boxes(("x",), (size,), [starts], [starts + 3 * 2**20], np.ones(1000))
    found = sensitivity(LinearForm(domain, [boxes]), facts(domain, neighbors, outside=outside))
    # By rows it would be 1,000, or twice that.
    most = 6 if neighbors is Neighbors.REPLACE_ONE else 3
    assert (found.l1, found.l2_squared, found.maximum) == (most, most, 1)


def test_an_attribute_too_large_for_shadows_is_bounded_by_rows(monkeypatch):
    monkeypatch.setattr(sys.modules["dpsdk.forms.sensitivity"], "SPAN_LIMIT", 2)
    domain = Domain(Integer("x", 0, 9))
    boxes = Boxes(("x",), (10,), [[0, 2, 5]], [[3, 4, 9]], np.ones(3))
    assert sensitivity(LinearForm(domain, [boxes]), facts(domain)).l1 == 3


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("records", [0, 1, 7, 8, 100])
def test_records_are_counted_in_whatever_portions(records, small, monkeypatch):
    if small:
        for name in ("RECORDS", "_BOXES", "_ADDED"):
            monkeypatch.setattr(module, name, 3)
    rng = np.random.default_rng(records)
    sizes = (5, 2**40, 3)
    ends = np.sort([rng.integers(0, size + 1, (20, 2)) for size in sizes], axis=2)
    codes = [rng.integers(0, size, records) for size in sizes]
    counts = rng.integers(-5, 2**40, records).astype(float)
    inside = np.ones((20, records), dtype=bool)
    for side, code in zip(ends, codes, strict=True):
        inside &= (side[:, :1] <= code) & (code < side[:, 1:])
    found = module.counted_within(ends[:, :, 0], ends[:, :, 1], codes, counts)
    assert found.tolist() == (inside @ counts).tolist()
    narrow = [
        code.astype(np.int8) if size < 9 else code for code, size in zip(codes, sizes, strict=True)
    ]
    assert (
        module.counted_within(ends[:, :, 0], ends[:, :, 1], narrow, counts).tolist()
        == found.tolist()
    )
