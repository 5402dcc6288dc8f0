"""Small databases of any functions: counted, drawn with their exact law, and within bounds."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpsdk import Domain, Integer, Neighbors
from dpsdk.data.histogram import Histogram
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, Facts, Identity, Kronecker, LinearForm, Prefix, Range, Weights
from dpsdk.kernel.draw_database import enumeration
from dpsdk.kernel.draw_database.atoms import Atoms, Counting
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.enumeration import Enumeration, Multisets
from dpsdk.noise import SystemNoise
from dpsdk.testing import seeded
from dpsdk.testing.audit import enumerate_law, neighbours
from worlds import crossed

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("a", 0, 3))
GRID = Domain(Integer("a", 0, 1), Integer("b", 0, 2))


def setting_of(domain, relation=Neighbors.REPLACE_ONE, outside=True, rows=5, unit_rows=1):
    public = rows if relation is Neighbors.REPLACE_ONE else None
    return Facts(domain, relation, public, outside, rows, unit_rows)


def dense(domain, weights):
    return LinearForm(domain, [Dense(domain.names, domain.shape, np.asarray(weights, float))])


def histogram_of(domain, counts, outside=0):
    codes = np.unravel_index(np.arange(domain.size), domain.shape)
    named = {n: np.asarray(c) for n, c in zip(domain.names, codes, strict=True)}
    return Histogram(domain, named, np.asarray(counts, float), outside)


def weights_of(form, bits, outside):
    """Of each function the exact weight on each cell, the outside last."""
    codes = np.unravel_index(np.arange(form.domain.size), form.domain.shape)
    named = dict(zip(form.domain.names, codes, strict=True))
    rows = []
    for block in form.blocks:
        columns = block.columns([named[name] for name in block.names])
        columns = np.broadcast_to(columns, (block.rows, form.domain.size))
        rows += [[Fraction(float(weight)) for weight in row] for row in columns]
    rows = [[math.floor(weight * 2**bits + Fraction(1, 2)) for weight in row] for row in rows]
    return [row + [0] * outside for row in rows]


def brute_law(form, counts, terms, bits=0):
    """The law that the definition gives: weights exp(-rate · score) on databases over atoms."""
    outside = terms.setting.outside
    weights = weights_of(form, bits, outside)
    cells = list(itertools.product(*map(range, form.domain.shape)))
    cells += [(-1,) * len(form.domain.shape)] * outside
    signatures = list(zip(*weights, strict=True))
    atoms = sorted(set(signatures))
    members = {
        atom: [c for c, s in zip(cells, signatures, strict=True) if s == atom] for atom in atoms
    }
    for atom, inside in members.items():
        # A record of an atom that has cells of the domain lies in one of these.
        members[atom] = [c for c in inside if c[0] >= 0] or inside
    rows, size = sum(counts), terms.size
    answers = [sum(w * c for w, c in zip(row, counts, strict=True)) for row in weights]
    widest = max(max(row) - min(row) for row in weights) or 1
    law = Counter()
    for chosen in itertools.combinations_with_replacement(atoms, size):
        sums = [sum(column) for column in zip(*chosen, strict=True)]
        gap = max(abs(size * f - rows * g) for f, g in zip(answers, sums, strict=True))
        score = -(-gap // (size * widest))
        weight = math.exp(-float(terms.epsilon) * score / (2 * terms.setting.unit_rows))
        ways = math.prod(len(members[atom]) for atom in chosen)
        for records in itertools.product(*(members[atom] for atom in chosen)):
            law[tuple(sorted(records))] += weight / ways
    total = sum(law.values())
    return {records: weight / total for records, weight in law.items()}


def law_of(sampler, histogram):
    def run(data, noise):
        del data
        return tuple(map(tuple, sampler.draw(histogram, noise).tolist()))

    return enumerate_law(run, None).masses


def check_law(sampler, form, counts, bits=0):
    """The sampler's law is that of the definition, to the last digits of floats."""
    outside = counts[-1] if sampler.terms.setting.outside else 0
    inside = counts[: form.domain.size]
    found = law_of(sampler, histogram_of(form.domain, inside, outside))
    wanted = brute_law(
        form, list(inside) + [outside] * sampler.terms.setting.outside, sampler.terms, bits
    )
    assert found.keys() == wanted.keys()
    assert all(math.isclose(found[y], wanted[y], rel_tol=1e-9) for y in wanted)


BOOLEAN = [[1, 0, 0, 1], [1, 1, 0, 0]]
WIDE = [[0, 1, 2, 5], [3, 1, 1, 0]]
REAL = [[0.0, 0.25, 0.5, 1.0], [0.1, 0.7, 0.7, 0.3]]
KINDS = {"enumeration": Enumeration, "counting": Counting}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", [BOOLEAN, WIDE], ids=["boolean", "wide"])
@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_databases_come_out_as_often_as_defined(kind, weights, relation, outside, unit_rows):
    form = dense(LINE, weights)
    setting = setting_of(LINE, relation, outside, unit_rows=unit_rows)
    terms = DrawTerms(3, Fraction(3, 2), setting)
    sampler = KINDS[kind](terms, Atoms.of(form, terms.setting))
    check_law(sampler, form, [2, 0, 1, 1, 1] if outside else [2, 0, 1, 2, 0])


def test_weights_that_are_no_integers_are_scored_on_their_lattice():
    form = dense(LINE, REAL)
    terms = DrawTerms(2, Fraction(2), setting_of(LINE))
    atoms = Atoms.of(form, terms.setting)
    assert atoms.bits == 20
    assert atoms.change <= 2.0**-21
    check_law(Enumeration(terms, atoms), form, [2, 1, 1, 1, 0], bits=20)


def test_an_empty_table_of_private_size_is_drawn_for():
    form = dense(LINE, BOOLEAN)
    terms = DrawTerms(2, Fraction(1), setting_of(LINE, Neighbors.ADD_REMOVE))
    for kind in KINDS.values():
        check_law(kind(terms, Atoms.of(form, terms.setting)), form, [0, 0, 0, 0, 0])


def test_cells_of_several_attributes_are_drawn_uniformly_within_an_atom():
    factors = {"b": Weights([[0, 1, 1]])}
    form = LinearForm(GRID, [Kronecker.of(GRID, factors)])
    terms = DrawTerms(2, Fraction(1), setting_of(GRID, outside=True, rows=4))
    for kind in KINDS.values():
        check_law(kind(terms, Atoms.of(form, terms.setting)), form, [1, 0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("limits", [(1, 1, 1), (3, 5, 2), (40, 7, 1000)])
def test_blocks_and_sections_do_not_change_the_law(limits, monkeypatch):
    longest, sections, buffer = limits
    monkeypatch.setattr(enumeration, "_LONGEST", longest)
    monkeypatch.setattr(enumeration, "_SHORTEST", 1)
    monkeypatch.setattr(enumeration, "_HEADS", 2)
    monkeypatch.setattr(enumeration, "_SECTIONS", sections)
    monkeypatch.setattr(enumeration, "_BUFFER", buffer)
    form = dense(LINE, [*BOOLEAN, [0, 0, 1, 0]])
    terms = DrawTerms(3, Fraction(1), setting_of(LINE))
    check_law(Enumeration(terms, Atoms.of(form, terms.setting)), form, [2, 0, 1, 1, 1])


def test_counts_that_no_machine_integer_holds_are_counted_alike(monkeypatch):
    monkeypatch.setattr("dpsdk.kernel.draw_database.atoms._MACHINE", 2)
    form = dense(LINE, WIDE)
    terms = DrawTerms(3, Fraction(1), setting_of(LINE))
    monkeypatch.setattr(Counting, "_large", property(lambda self: True))
    check_law(Counting(terms, Atoms.of(form, terms.setting)), form, [2, 0, 1, 1, 1])


@pytest.mark.parametrize("longest", [1, 7, 30, 10**6])
@pytest.mark.parametrize(
    ("atoms", "size"), [(1, 1), (1, 3), (2, 4), (5, 4), (6, 5), (4, 6), (7, 1)]
)
def test_every_multiset_is_looked_at_once(longest, atoms, size, monkeypatch):
    monkeypatch.setattr(enumeration, "_LONGEST", longest)
    monkeypatch.setattr(enumeration, "_SHORTEST", 1)
    weights = np.random.default_rng(atoms * size).integers(0, 4, (3, atoms))
    every = Multisets(weights, size)
    seen = []
    for batch in every.batches():
        sums = every.sums(batch)
        for place in range(batch.number):
            drawn = every.multiset(batch, place)
            head, tail = divmod(place, batch.tails.shape[1])
            assert (sums[:, head] + batch.tails[:, tail] == weights[:, drawn].sum(axis=1)).all()
            seen.append(tuple(drawn))
    wanted = set(itertools.combinations_with_replacement(range(atoms), size))
    assert len(seen) == every.number == len(wanted)
    assert set(seen) == wanted


@pytest.mark.parametrize(("kind", "relation"), crossed(KINDS, Neighbors, 2))
def test_a_pooled_sample_of_real_noise_fits_the_law(kind, relation):
    form = dense(LINE, WIDE)
    terms = DrawTerms(2, Fraction(4), setting_of(LINE, relation))
    sampler = KINDS[kind](terms, Atoms.of(form, terms.setting))
    wanted = brute_law(form, [2, 0, 1, 1, 1], terms)
    histogram = histogram_of(LINE, [2, 0, 1, 1], 1)
    noise, number = seeded(11), 1500
    found = Counter(
        tuple(map(tuple, sampler.draw(histogram, noise).tolist())) for _ in range(number)
    )
    statistic = sum((found[y] - number * p) ** 2 / (number * p) for y, p in wanted.items())
    assert statistic < chi2.isf(1e-6, len(wanted) - 1)


@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("unit_rows", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_no_neighbour_is_told_apart_by_more_than_epsilon(kind, relation, unit_rows):
    epsilon = Fraction(2)
    form = dense(Domain(Integer("a", 0, 2)), [[1, 0, 1], [0, 2, 1]])
    setting = setting_of(form.domain, relation, rows=4, unit_rows=unit_rows)
    terms = DrawTerms(2, epsilon, setting)
    sampler = KINDS[kind](terms, Atoms.of(form, terms.setting))
    laws = {}

    def law(data):
        table = open_histogram(data)
        key = tuple(table.table(("a",)).tolist()), table.rows
        if key not in laws:
            laws[key] = law_of(sampler, table)
        return laws[key]

    worst = 0.0
    for one, other in neighbours(form.domain, 4, relation):
        first, second = law(one), law(other)
        assert first.keys() == second.keys()
        worst = max(worst, *(abs(math.log(first[y] / second[y])) for y in first))
    # A row moves every score by one at the most, so that each of several costs its share.
    assert worst <= float(epsilon) / unit_rows + 1e-9
    assert worst > float(epsilon) / unit_rows / 2


def test_cells_are_merged_as_far_as_functions_go():
    domain = Domain(Integer("a", 0, 9), Integer("b", 1, 10**6), Integer("c", 0, 2**40))
    blocks = [
        Kronecker.of(domain, {"a": Range(10, 2, 5)}),
        Kronecker.of(domain, {"a": Range(10, 4, 10), "b": Range(10**6, 0, 77)}),
        # The complement of the first, and a constant.
        Kronecker.of(domain, {"a": Weights([[1, 1, 0, 0, 0, 1, 1, 1, 1, 1]])}),
        Kronecker((), (), 1.0),
    ]
    form = LinearForm(domain, blocks)
    inside = Atoms.of(form, setting_of(domain, outside=False))
    assert (inside.number, inside.functions) == (4, 2)
    # Outside, a constant is none, and a complement is none.
    atoms = Atoms.of(form, setting_of(domain, outside=True))
    assert (atoms.number, atoms.functions) == (5, 4)
    terms = DrawTerms(3, Fraction(1), setting_of(domain, outside=True, rows=10))
    codes = {"a": np.array([3, 9]), "b": np.array([5, 76]), "c": np.array([2**39, 0])}
    table = Histogram(domain, codes, np.array([5.0, 4.0]), 1)
    drawn = Enumeration(terms, atoms).draw(table, SystemNoise())
    assert drawn.shape == (3, 3)
    assert ((drawn >= -1) & (drawn < [10, 10**6, 2**40 + 1])).all()


def test_shared_structure_and_dense_blocks_are_not_merged_wrongly():
    rng = np.random.default_rng(5)
    domain = Domain(Integer("a", 0, 3), Integer("b", 0, 4))
    for _ in range(30):
        blocks = [
            Kronecker.of(domain, {"a": Identity(4)}),
            Kronecker.of(domain, {"b": Weights(rng.integers(0, 2, (2, 5)))}),
            Kronecker.of(domain, {"a": Weights(rng.integers(0, 2, (1, 4))), "b": Prefix(5)}),
            Dense(("b",), (5,), rng.integers(0, 2, (1, 5)).astype(float)),
        ]
        chosen = [block for block in blocks if rng.random() < 0.6] or blocks[:1]
        form = LinearForm(domain, chosen)
        for outside in (True, False):
            atoms = Atoms.of(form, setting_of(domain, outside=outside))
            columns = set(zip(*weights_of(form, 0, outside), strict=True))
            assert atoms.number == len(columns)
            varying = {
                tuple(w - min(row) for w in row)
                for row in weights_of(form, 0, outside)
                if min(row) < max(row)
            }
            pairs = {min(row, tuple(max(row) - w for w in row)) for row in varying}
            assert atoms.functions == len(pairs)


def test_too_many_combinations_of_cells_are_refused_before_they_are_looked_at():
    domain = Domain(Integer("a", 0, 2**15), Integer("b", 0, 2**15))
    prefix = Prefix(2**15 + 1)
    form = LinearForm(domain, [Kronecker.of(domain, {name: prefix}) for name in "ab"])
    with pytest.raises(TooLarge, match="cells apart"):
        Atoms.of(form, setting_of(domain))


def test_weights_whose_sums_floats_do_not_hold_are_refused():
    form = dense(LINE, [[0, 1, 2**30, 3]])
    with pytest.raises(InvalidArgument, match="weights"):
        Atoms.of(form, setting_of(LINE, rows=2**24))


def test_work_is_a_matter_of_public_facts_and_grows_with_size():
    form = dense(LINE, BOOLEAN)
    for kind in KINDS.values():
        atoms = Atoms.of(form, setting_of(LINE, rows=1000))
        times = [
            kind(DrawTerms(m, Fraction(1), atoms.setting), atoms).work().seconds for m in (2, 9, 40)
        ]
        assert times == sorted(times)
        assert (
            kind(DrawTerms(2, Fraction(1), setting_of(LINE, rows=2**61)), atoms).work().seconds
            == math.inf
        )


def test_sums_over_heads_take_no_more_memory_than_is_said(monkeypatch):
    functions = 3
    monkeypatch.setattr(enumeration, "_LONGEST", 7)
    monkeypatch.setattr(enumeration, "_SHORTEST", 1)
    monkeypatch.setattr(enumeration, "HEAD_SUMS", 60, raising=False)
    every = Multisets(np.ones((functions, 9), dtype=np.int64), 5)
    batches = list(every.batches())
    assert sum(batch.number for batch in batches) == every.number
    assert max(len(batch.heads) for batch in batches) * functions == 60


def test_time_is_counted_for_each_function_of_each_run():
    domain = Domain(Integer("a", 0, 29))
    weights = np.random.default_rng(3).integers(0, 2, (1000, 30))
    setting = setting_of(domain, rows=100)
    terms = DrawTerms(5, Fraction(1), setting)
    work = Enumeration(terms, Atoms.of(dense(domain, weights), setting)).work()
    # Scores of all databases and functions, one by one, are the least of it here.
    assert work.seconds > 10 * 2.5e-10 * 1000 * math.comb(35, 5)
