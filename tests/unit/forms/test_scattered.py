"""Boxes on many sets of attributes, summed over records."""

from itertools import combinations

import numpy as np
import pytest

from dpsdk import Domain, Integer, SyntheticData
from dpsdk.data.histogram import Histogram
from dpsdk.forms import Boxes, Identity, Kronecker, LinearForm, Range
from dpsdk.forms.scattered import Scattered
from dpsdk.hypothesis import Records

DOMAIN = Domain(*[Integer(f"a{place}", 0, 1 + place % 5) for place in range(14)])


def form(seed=0, sets=300):
    """Boxes on one to four attributes, some of them empty, and other blocks between them."""
    rng = np.random.default_rng(seed)
    blocks = [Kronecker((), (), 2.0)]
    chosen = [names for width in (1, 2, 3, 4) for names in combinations(DOMAIN.names, width)]
    for place in rng.permutation(len(chosen))[:sets]:
        names, many = chosen[place], int(rng.integers(1, 4))
        shape = tuple([DOMAIN[name].size for name in names])
        sizes = np.array(shape)[:, None, None]
        ends = np.sort(rng.integers(0, sizes + 1, (len(shape), many, 2)), axis=2)
        scales = rng.integers(-2, 3, many).astype(np.float64)
        blocks.append(Boxes(names, shape, ends[:, :, 0], ends[:, :, 1], scales))
        half = tuple([Range(size, 0, 1 + size // 2) for size in shape])
        blocks.append(Kronecker(names, half, -1.0))
    blocks.append(Kronecker.of(DOMAIN, {"a3": Identity(DOMAIN["a3"].size)}))
    return LinearForm(DOMAIN, blocks)


def codes(rows, seed=1):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, rows) for size in DOMAIN.shape], axis=1)


def by_tables(asked, counts):
    """Each block by itself, from its table."""
    return np.concatenate([block.answer(counts.table(block.names)) for block in asked.blocks])


@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_counts_of_a_private_table_are_those_of_tables_to_the_last_bit(rows):
    asked, records = form(), codes(rows)
    counts = np.random.default_rng(2).integers(1, 9, rows).astype(np.float64)
    named = dict(zip(DOMAIN.names, records.T, strict=True))
    histogram = Histogram(DOMAIN, named, counts, 3)
    found, others = asked._scattered
    assert found is not None
    assert len(others) < 100
    assert np.array_equal(asked.evaluate(histogram), by_tables(asked, histogram))


def test_shares_of_public_records_are_those_of_tables():
    asked, records = form(), codes(3000)
    weights = np.random.default_rng(2).random(3000)
    shares = Records(DOMAIN, records, weights, outside_mass=0.25)
    np.testing.assert_allclose(shares.answers(asked), by_tables(asked, shares), atol=1e-12)
    shares.move_to(asked.row(1), 0.4)
    np.testing.assert_allclose(shares.answers(asked), by_tables(asked, shares), atol=1e-12)
    people = SyntheticData(DOMAIN, records)
    assert np.array_equal(people.answers(asked), by_tables(asked, people._counted) / 3000)


def test_few_sets_are_left_to_their_tables():
    asked = form(sets=100)
    assert Scattered.of(asked.groups) == (None, asked.groups)
