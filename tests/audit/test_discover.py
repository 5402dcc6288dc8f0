"""Searches of keys: the law of all small tables against the two guarantees that are charged.

The noise is exact and independent for every key, so the law of what is shown follows from the sums
of weights and from the threshold, which are those of the code; broken twins must be caught.
"""

import unicodedata
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest

from dpsdk import Neighbors, Undeclared
from dpsdk.accounting import ApproximateGuarantee, DiscreteGaussianGuarantee
from dpsdk.data.cells import ListedCells
from dpsdk.data.vault import open_rows
from dpsdk.kernel import Discover, GaussianNoise, LaplaceNoise, Search
from dpsdk.kernel import discover as primitive

LEAK = "0.05"
EPSILONS = (0.1, 0.5, 1.0, 2.0, 20.0)
NEGLIGIBLE = 1e-9


@cache
def mass(variance, reach):
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-(z**2) / (2.0 * float(variance)))
    return weight / weight.sum()


def shown(total, pricing, threshold):
    """The law of one key: absent, or its noisy sum from the threshold on."""
    reach = int(7 * float(pricing.law.variance) ** 0.5) + 1
    law = np.zeros(1 + threshold + 2 * reach)
    if total == 0:
        law[0] = 1.0
        return law
    chance = mass(pricing.law.variance, reach)
    for z, p in zip(range(-reach, reach + 1), chance, strict=True):
        value = total + z
        law[1 + value - threshold if value >= threshold else 0] += p
    return law


def counted(total, pricing, threshold):
    """The law of one closed cell."""
    reach = int(7 * float(pricing.law.variance) ** 0.5) + 1
    law = np.zeros(threshold + 4 * reach)
    law[total : total + 2 * reach + 1] = mass(pricing.law.variance, reach)
    return law


def apart(pairs, epsilon):
    """The δ at an ε between two products of laws, in both directions."""
    p, q = np.ones(1), np.ones(1)
    for one, other in pairs:
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
        stay = (p > 1e-12) | (q > 1e-12)
        p, q = p[stay], q[stay]
    grown = np.exp(epsilon)
    return max(np.maximum(p - grown * q, 0).sum(), np.maximum(q - grown * p, 0).sum())


def claimed(pricing, epsilon):
    """The δ of what is charged: a Gaussian of the whole shift, and the leak beside it."""
    gaussian, *leaks = pricing.guarantees
    assert isinstance(gaussian, DiscreteGaussianGuarantee)
    leak = sum(float(one.delta) for one in leaks if isinstance(one, ApproximateGuarantee))
    entries, rest = [], gaussian.shift_squared
    while rest > 0:
        step = min(gaussian.shift_max, int(rest**0.5))
        entries.append(step)
        rest -= step * step
    reach = int(7 * float(gaussian.variance) ** 0.5) + 1
    law = mass(gaussian.variance, reach)
    pairs = []
    for step in entries:
        before, after = np.zeros(len(law) + step), np.zeros(len(law) + step)
        before[: len(law)], after[step:] = law, law
        pairs.append((before, after))
    return leak + (1 - leak) * apart(pairs, epsilon)


def table(people, relation=None):
    """One row for each key of each person; without persons, one for each person."""
    columns = {"who": [], "key": [], "more": []}
    for number, keys in enumerate(people):
        for key in keys:
            columns["who"].append(f"p{number}")
            columns["key"].append(key[0])
            columns["more"].append(key[1:])
    if relation is not None:
        del columns["who"]
        unit = None
    else:
        unit = "who"
    return Undeclared.from_columns(columns, unit=unit, neighbors=relation, max_rows=8)


def laws(people, request, relation, weigh, lower, noisy=True):
    """The law of each key and cell for a table."""
    if not people:
        return None
    raw = table(people, relation)
    pricing = request.price(raw.facts)
    threshold, found = pricing.threshold - lower, {}
    for place, search in enumerate(request.searches):
        closed, column, sums = weigh(pricing, open_rows(raw), search)
        for cell, total in enumerate(closed):
            found[place, cell] = counted(int(total), pricing, threshold)
        for key, total in zip(column.keys, sums, strict=False):
            law = shown(int(total), pricing, threshold)
            if not noisy:
                law = np.zeros_like(law)
                law[1 if total >= threshold else 0] = 1.0
            found[place, key] = law
    return found, pricing


def excess(tables, request, relation=None, *, weigh=None, lower=0, noisy=True):
    """By how much the worst pair of neighbours exceeds what is charged, at the worst ε."""
    weigh = weigh or (lambda pricing, rows, search: pricing.weigh(rows, search))
    known = {people: laws(people, request, relation, weigh, lower, noisy) for people in tables}
    worst = -1.0
    for first, second in neighbours(tables, relation):
        (one, pricing), (other, _) = known[first], known[second]
        absent = shown(0, pricing, pricing.threshold - lower)
        names = sorted({*one, *other}, key=str)
        pairs = [(one.get(name, absent), other.get(name, absent)) for name in names]
        for epsilon in EPSILONS:
            worst = max(worst, apart(pairs, epsilon) - claimed(pricing, epsilon))
    return worst


def neighbours(tables, relation):
    for people in tables:
        for place in range(len(people)):
            rest = people[:place] + people[place + 1 :]
            if relation is Neighbors.REPLACE_ONE:
                for other in tables:
                    if len(other) == len(people) and rest == other[:-1] != people:
                        yield people, other
            elif rest in tables:
                yield people, rest


def people_of(choices, most=3):
    return [
        tuple(people)
        for count in range(1, most + 1)
        for people in combinations_with_replacement(choices, count)
    ]


@pytest.fixture
def coarse(monkeypatch):
    """Weights in sixteenths, so that all laws are short."""
    monkeypatch.setattr(primitive, "_BITS", 4)
    # Noise of one step is exact, too, and no filter asks for more.
    monkeypatch.setattr(primitive, "widening_bits", lambda noise, squared: 0)


SETS = (("a",), ("b",), ("a", "b"))
WIDE = Discover([Search("key", keys=True)], GaussianNoise("0.5"), LEAK, width=2)


class TestTwoKeysOfAPerson:
    TABLES = people_of(SETS)

    def test_it_costs_what_is_charged(self, coarse):
        assert -0.05 < excess(self.TABLES, WIDE) <= NEGLIGIBLE

    def test_a_lower_threshold_is_caught(self, coarse):
        assert excess(self.TABLES, WIDE, lower=1) > NEGLIGIBLE

    def test_weights_that_are_not_shared_out_are_caught(self, coarse, monkeypatch):
        monkeypatch.setattr(primitive, "_weights", lambda noise, whole, width: (whole,) * width)
        assert excess(self.TABLES, WIDE) > NEGLIGIBLE

    def test_keys_without_noise_are_caught(self, coarse):
        assert excess(self.TABLES, WIDE, noisy=False) > 0.1

    def test_keys_that_are_merged_after_the_weights_are_caught(self, coarse):
        # Two spellings of one key, which the reader of the twin takes for two.
        spelt = people_of((("a",), ("\u0430",), ("a", "\u0430")))

        def merged(pricing, rows, search):
            closed, column, sums = pricing.weigh(rows, search)
            both = type(column)(["a"], column.codes)
            return closed, both, np.array([sums.sum()])

        assert excess(spelt, WIDE, weigh=merged) > NEGLIGIBLE

    def test_spellings_of_one_key_are_merged_before(self, coarse):
        forms = ("\u00e9", unicodedata.normalize("NFD", "\u00e9"))
        raw = Undeclared.from_columns({"who": ["p", "p"], "key": list(forms)}, unit="who")
        pricing = WIDE.price(raw.facts)
        _, column, sums = pricing.weigh(open_rows(raw), WIDE.searches[0])
        assert column.keys == [forms[0]]
        assert sums.tolist() == [16]


ROWS = (("ax",), ("ay",), ("bx",), ("by",))


@pytest.mark.thorough
@pytest.mark.parametrize("relation", list(Neighbors), ids=lambda one: one.value)
def test_two_columns_of_rows_cost_what_is_charged(coarse, relation):
    searches = [Search("key", keys=True), Search("more", keys=True)]
    request = Discover(searches, GaussianNoise("0.5"), LEAK)
    tables = people_of(ROWS, 2 if relation is Neighbors.REPLACE_ONE else 3)
    assert -0.2 < excess(tables, request, relation) <= NEGLIGIBLE


@pytest.mark.thorough
@pytest.mark.parametrize("relation", list(Neighbors), ids=lambda one: one.value)
def test_closed_cells_beside_keys_cost_what_is_charged(coarse, relation):
    search = Search("key", ListedCells(["a", "b"]), keys=True)
    request = Discover([search], GaussianNoise("0.5"), LEAK)
    tables = people_of((("a",), ("b",)))
    assert -0.2 < excess(tables, request, relation) <= NEGLIGIBLE
    forgotten = Discover([Search("key", keys=True)], GaussianNoise("0.5"), LEAK)

    def both(pricing, rows, _):
        return pricing.weigh(rows, search)

    # A twin that pays for one of the two parts.
    assert excess(tables, forgotten, relation, weigh=both) > NEGLIGIBLE


class Scripted:
    """Noise that is what a test says."""

    private = False

    def __init__(self, *values):
        self._values = list(values)

    def draw(self, law, size):
        drawn, self._values = self._values[:size], self._values[size:]
        return np.array(drawn, dtype=np.int64)


def test_what_runs_is_what_was_enumerated(coarse):
    raw = table([("ax", "bx"), ("ax",), ("cx",)])
    search = Search("key", ListedCells(["a", "z"]), keys=True, known={"c"})
    pricing = Discover([search], GaussianNoise("0.5"), LEAK, width=2).price(raw.facts)
    closed, column, sums = pricing.weigh(open_rows(raw), search)
    assert closed.tolist() == [32, 0]
    assert column.keys == ["a", "b", "c"]
    assert sums.tolist() == [27, 11, 0]
    level = pricing.threshold
    noise = Scripted(3, -1, level - 27, level - 12)
    (found,) = pricing.run(noise, lambda: open_rows(raw))
    assert found.cells.tolist() == [35 / 16, -1 / 16]
    assert found.keys == ("a",)
    assert found.counts.tolist() == [level / 16]
    assert not noise._values  # keys that are known, or absent, have no draw


@pytest.mark.parametrize("noise", [GaussianNoise("0.5"), LaplaceNoise(1)], ids=repr)
@pytest.mark.parametrize("width", [1, 2, 7])
def test_the_threshold_is_the_least_that_keeps_the_leak(coarse, noise, width):
    raw = table([("ax",)])
    pricing = Discover([Search("key", keys=True)], noise, LEAK, width).price(raw.facts)
    scale = float(pricing.law.parameter)
    z = np.arange(0, 4000)
    weight = (
        np.exp(-(z**2) / (2 * scale)) if isinstance(noise, GaussianNoise) else np.exp(-z / scale)
    )
    tails = weight[::-1].cumsum()[::-1] / (2 * weight.sum() - weight[0])

    def leaks(threshold):
        own = enumerate(pricing.weights, start=1)
        return max(count * tails[threshold - weight] for count, weight in own)

    assert leaks(pricing.threshold) <= float(LEAK) * (1 + 1e-9)
    assert leaks(pricing.threshold - 1) > float(LEAK) * (1 - 1e-5)
    square = isinstance(noise, GaussianNoise)
    whole = pricing.weights[0]
    for count, weight in enumerate(pricing.weights, start=1):
        used = count * weight**2 if square else count * weight
        assert used <= (whole**2 if square else whole)


def test_prices_of_both_relations():
    rows = {"key": ["a"] * 8, "more": ["b"] * 8}
    two = [Search("key", ListedCells(["a"]), keys=True), Search("more", keys=True)]
    for relation, twice in ((Neighbors.ADD_REMOVE, 1), (Neighbors.REPLACE_ONE, 2)):
        raw = Undeclared.from_columns(rows, unit=None, neighbors=relation)
        gaussian, leak = Discover(two, GaussianNoise("0.01"), "1e-9").price(raw.facts).guarantees
        assert gaussian.shift_squared == twice * 3 * gaussian.shift_max**2
        assert gaussian.rho == GaussianNoise("0.01").rho
        assert leak == ApproximateGuarantee(0, "1e-9")
        (laplace,) = Discover(two[:1], LaplaceNoise(1), "1e-9").price(raw.facts).guarantees[:1]
        assert laplace.shift == twice * 2
