import itertools
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from random_forms import random_domain, random_form

import dpsdk.forms.boxes as products_module
import dpsdk.forms.factors as factors_module
import dpsdk.forms.linear as linear_module
from dpsdk import Domain, Integer
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.forms import (
    Boxes,
    Cuts,
    Dense,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Range,
    Residual,
    Squares,
    Toeplitz,
    Weights,
    Within,
)  # fmt: skip
from dpsdk.forms.factors import half_up
from dpsdk.forms.linear import narrowed
from worlds import PEOPLE, Records, weights

SEEDS = range(120)


def random_records(rng, domain, count=15):
    return Records(
        domain, [tuple(int(rng.integers(s)) for s in domain.shape) for _ in range(count)]
    )


def brute(form, records):
    """The weights of the records' cells summed in exact arithmetic."""
    matrix = weights(form)
    numbers = [np.ravel_multi_index(cell, form.domain.shape) for cell in records.cells]
    return [sum(Fraction(float(line[number])) for number in numbers) for line in matrix]


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("way", ["table", "records"])
def test_whole_forms_are_evaluated_exactly_on_tables_and_on_records(way, monkeypatch):
    if way == "records":
        monkeypatch.setattr(linear_module, "TABLE_LIMIT", 0)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        form = random_form(rng)
        records = random_records(rng, form.domain)
        assert form.evaluate(records).tolist() == brute(form, records), form
        assert records.asked == {way}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("limit", [2**22, 0])
def test_real_forms_are_evaluated_to_rounding(limit, monkeypatch):
    monkeypatch.setattr(linear_module, "TABLE_LIMIT", limit)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        form = random_form(rng, whole=False)
        records = random_records(rng, form.domain)
        expected = [float(x) for x in brute(form, records)]
        np.testing.assert_allclose(form.evaluate(records), expected, rtol=1e-9, atol=1e-9)


def test_many_small_blocks_are_answered_in_chunks_alike(monkeypatch):
    monkeypatch.setattr(products_module, "_CHUNK", 5)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        domain = random_domain(rng)
        form = random_form(rng, domain, blocks=12, dense=0)
        records = random_records(rng, domain)
        assert form.evaluate(records).tolist() == brute(form, records)


def test_no_records_count_nothing():
    form = random_form(np.random.default_rng(3))
    assert form.evaluate(Records(form.domain, [])).tolist() == [0.0] * form.rows


def test_extents_limits_norms_and_columns_are_those_of_the_weights():
    for seed in SEEDS:
        form = random_form(np.random.default_rng(seed))
        matrix = weights(form)
        low, high = form.extents()
        np.testing.assert_array_equal(low, matrix.min(axis=1))
        np.testing.assert_array_equal(high, matrix.max(axis=1))
        assert form.largest == np.abs(matrix).max()
        assert form.rows == len(matrix)
        start = 0
        for block in form.blocks:
            own = weights(LinearForm(form.domain, [block]))
            assert block.limits() == (own.min(), own.max())
            codes = [
                np.array([cell[form.domain.position(n)] for cell in np.ndindex(*form.domain.shape)])
                for n in block.names
            ]
            columns = np.broadcast_to(block.columns(codes), own.shape)
            np.testing.assert_array_equal(columns, own)
            for power in (1, 2):
                cells = list(np.ndindex(*block.shape))
                norms = block.column_norms(power)
                assert norms.shape == block.shape
                along = [form.domain.position(n) for n in block.names]
                for number, cell in enumerate(np.ndindex(*form.domain.shape)):
                    expected = (np.abs(own[:, number]) ** power).sum()
                    assert norms[tuple(cell[i] for i in along)] == expected
                assert len(cells) == norms.size
            start += block.rows


def test_grouped_blocks_have_the_same_columns_and_norms_as_one_by_one():
    domain = Domain(Integer("a", 0, 4), Integer("b", 0, 2))
    rng = np.random.default_rng(5)
    singles = [
        Kronecker(
            ("a", "b"),
            (Weights(rng.integers(-1, 3, (1, 5))), Range(3, 0, int(rng.integers(1, 4)))),
            float(rng.integers(-2, 3)),
        )
        for _ in range(9)
    ]
    form = LinearForm(domain, singles)
    ((stacked, places),) = form.groups
    assert list(places) == list(range(9))
    matrix = weights(form)
    codes = [np.array(axis) for axis in zip(*np.ndindex(5, 3), strict=True)]
    np.testing.assert_array_equal(stacked.columns(codes), matrix)
    np.testing.assert_array_equal(stacked.extents(), form.extents())
    for power in (1, 2):
        expected = (np.abs(matrix) ** power).sum(axis=0)
        np.testing.assert_array_equal(stacked.column_norms(power).ravel(), expected)


def test_reach_bounds_every_partial_sum_of_one_record():
    for seed in SEEDS:
        form = random_form(np.random.default_rng(seed), whole=False)
        assert form.reach >= np.abs(weights(form)).max() * (1 - 1e-12)
    shrinking = Kronecker(("a", "b"), (Weights([[8.0]]), Weights([[0.125]])))
    assert shrinking.reach >= 8


# Rounding to the lattice.


@pytest.mark.parametrize(
    ("weight", "rounded"),
    [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, 0), (-1.5, -1), (0.49, 0), (-0.51, -1)],
)
def test_halves_go_upwards(weight, rounded):
    assert half_up(np.array([weight])).tolist() == [rounded]


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("bits", [0, 1, 3, 8, 20])
def test_rounding_gives_whole_weights_and_says_how_far_they_moved(bits):
    for seed in SEEDS:
        form = random_form(np.random.default_rng(seed), whole=False)
        lattice, change = form.rounded(bits)
        assert lattice.integral
        moved = np.abs(weights(lattice) * 2.0**-bits - weights(form)).max()
        assert moved <= change * (1 + 1e-9) + 1e-12


def test_one_factor_is_rounded_half_up_by_half_a_step_at_the_most():
    weights_given = np.linspace(0, 1, 33)[None, :]
    form = LinearForm(Domain(Integer("a", 0, 32)), [Kronecker(("a",), (Weights(weights_given),))])
    lattice, change = form.rounded(4)
    assert weights(lattice).tolist() == np.floor(weights_given * 16 + 0.5).tolist()
    assert change == 2.0**-5


def test_rounding_happens_before_the_sum():
    # Sixteen rows of 5/16 are five, but each is rounded on the lattice of halves first.
    domain = Domain(Integer("a", 0, 1))
    form = LinearForm(domain, [Kronecker(("a",), (Weights([[0.0, 5 / 16]]),))])
    lattice, _ = form.rounded(1)
    assert lattice.evaluate(Records(domain, [(1,)] * 16)).tolist() == [16.0]


@pytest.mark.parametrize("scale", [0.6, -0.6, 1 / 3, 2.5])
def test_a_scale_is_rounded_too(scale):
    domain = Domain(Integer("a", 0, 1))
    for factor in (Range(2, 0, 1), Weights([[0.3, 0.7]])):
        form = LinearForm(domain, [Kronecker(("a",), (factor,), scale)])
        lattice, change = form.rounded(6)
        assert lattice.integral
        np.testing.assert_allclose(weights(lattice) / 64, weights(form), atol=change + 1e-15)
        assert change <= 2.0**-6


def test_integer_sums_are_exact_up_to_2_to_the_53():
    domain = Domain(Integer("a", 0, 1))
    heavy = float(2**53 // 1024 - 1)
    form = LinearForm(domain, [Dense(("a",), (2,), np.array([[heavy, heavy - 1], [1, -heavy]]))])
    records = Records(domain, [(i % 2,) for i in range(1024)])
    expected = [512 * int(heavy) + 512 * (int(heavy) - 1), 512 - 512 * int(heavy)]
    assert [int(x) for x in form.evaluate(records)] == expected


# Pieces.


def test_the_meaning_of_the_named_factors():
    assert Identity(2).matrix().tolist() == [[1, 0], [0, 1]]
    assert Prefix(3).matrix().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert Range(4, 1, 3).matrix().tolist() == [[0, 1, 1, 0]]
    assert Groups(5, 2).matrix().tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert [Groups(5, 2).row(i) for i in range(3)] == [
        Range(5, 0, 2),
        Range(5, 2, 4),
        Range(5, 4, 5),
    ]


def test_factors_follow_the_order_of_the_domain():
    block = Kronecker.of(PEOPLE, {"member": Identity(2), "age": Prefix(8)})
    assert block.names == ("age", "member")
    assert block.shape == (8, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearForm(PEOPLE, [Kronecker.of(PEOPLE, {"age": Identity(3)})]),
        *(lambda width=width: Groups(5, width) for width in (0, -1, 6)),
        lambda: Weights(np.ones(3)),
        lambda: Weights(np.ones((0, 3))),
        lambda: Weights([[float("nan")]]),
        lambda: Weights([["x"]]),
        lambda: Dense(("age",), (8,), np.ones((1, 7))),
        lambda: Dense(("age",), (8,), np.full((1, 8), np.inf)),
        lambda: LinearForm(PEOPLE, []),
        lambda: LinearForm.stack(
            [random_form(np.random.default_rng(0)), random_form(np.random.default_rng(9))]
        ),
    ],
)
def test_pieces_that_do_not_fit_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()


def test_a_stack_has_all_functions_in_order():
    rng = np.random.default_rng(1)
    domain = random_domain(rng)
    forms = [random_form(rng, domain) for _ in range(3)]
    stacked = LinearForm.stack(forms)
    np.testing.assert_array_equal(weights(stacked), np.concatenate([weights(f) for f in forms]))


def test_forms_too_large_are_refused_before_anything_is_allocated():
    huge = Domain(*(Integer(f"a{i}", 0, 99) for i in range(10)))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge) as caught:
            LinearForm(huge, [Kronecker.of(huge, {name: Identity(100) for name in huge.names})])
        with pytest.raises(TooLarge):
            Range(10**9, 5, 10**8).matrix()
        with pytest.raises(TooLarge):
            Identity(factors_module.MATRIX_LIMIT).matrix()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert caught.value.needed == 10**20
    assert caught.value.limit < caught.value.needed


def test_an_empty_marginal_block_counts_all_records():
    form = LinearForm(PEOPLE, [Kronecker((), ())])
    cells = list(itertools.islice(np.ndindex(*PEOPLE.shape), 5))
    assert form.evaluate(Records(PEOPLE, cells)).tolist() == [5.0]


# Attributes of one cell play no part.


DOMAIN = Domain(Integer("a", 0, 0), Integer("b", 0, 2), Integer("c", 0, 0))
SINGLE = [Identity(1), Prefix(1), Range(1, 0, 1), Range(1, 0, 0), Groups(1, 1), Residual(1),
          Weights([[-2.5]]), Toeplitz([3.0]), Weights([[1.0], [0.0], [4.0]])]  # fmt: skip
BLOCKS = [
    *(Kronecker(("a", "b"), (factor, Identity(3)), 2.0) for factor in SINGLE),
    *(Kronecker(("b", "c"), (Prefix(3), factor), -1.0) for factor in SINGLE),
    *(Kronecker(("a", "c"), (Identity(1), factor)) for factor in SINGLE),
    Dense(("a", "b"), (1, 3), np.arange(6.0).reshape(2, 3)),
    Dense(("a", "c"), (1, 1), np.array([[2.0], [0.0]])),
    Boxes(("a", "b"), (1, 3), [[0, 0, 1], [0, 1, 0]], [[1, 0, 1], [2, 3, 3]], [1.0, 2.0, 3.0]),
    Boxes(("a", "b"), (1, 3), [[0], [0]], [[1], [3]], [5.0], (np.zeros(1), np.array([1, 0, 1.0]))),
    Boxes(("a", "c"), (1, 1), [[0, 0], [0, 0]], [[1, 1], [1, 0]], [1.0, 3.0]),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_the_functions_stay_and_the_attributes_go(block):
    form = LinearForm(DOMAIN, [block, Kronecker(("b",), (Identity(3),))])
    found = narrowed(form)
    assert found.identity == form.identity
    assert found.names == ("b",)
    assert not any(1 in block.shape for block in found.blocks)


def test_a_form_without_such_attributes_is_left_alone():
    form = LinearForm(DOMAIN, [Kronecker(("b",), (Identity(3),)), Kronecker((), ())])
    assert narrowed(form) is form


def test_factors_are_held_against_the_attributes_that_they_are_for():
    domain = Domain(Integer("x", 0, 3), Integer("y", 0, 1))
    with pytest.raises(InvalidArgument, match=r"of sizes \(4, 2\); got sizes \(4, 3\)"):
        Kronecker.of(domain, {"y": Identity(3), "x": Identity(4)})
    for factors in ({"z": Identity(3)}, {"z": Identity(3), "x": Identity(4)}):
        with pytest.raises(UnknownAttribute):
            Kronecker.of(domain, factors)


@pytest.mark.parametrize("limit", [1, 5, 40])
def test_records_are_answered_without_a_table_of_more_cells_than_functions(monkeypatch, limit):
    rng = np.random.default_rng(8)
    kinds = [
        Identity(5),
        Prefix(4),
        Weights(rng.integers(-3, 4, (2, 6)).astype(float)),
        Squares(7, 8, 2, width=1),
        Within(Squares(9, 10, 4, width=2), 11),
        Cuts(6, np.array([0, 2])),
    ]
    monkeypatch.setattr("dpsdk.forms.blocks._TALLIED", limit)
    for chosen in itertools.permutations(kinds, 3):
        block = Kronecker(["a", "b", "c"], chosen, 2.0)
        codes = [rng.integers(0, factor.size, 12) for factor in chosen]
        counts = rng.integers(0, 5, 12).astype(float)
        wanted = (block.columns(codes) * counts).sum(axis=1)
        assert block.answer_records(codes, counts).tolist() == wanted.tolist()
