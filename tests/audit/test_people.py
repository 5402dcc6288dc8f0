"""Loading with a unit: one person more or less changes at most so many rows, whoever else is there.

All tables of two people with up to three rows each are loaded, and every person is taken out of
each. A person's rows include those that do not say whose they are.
"""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from registry import pure_program

from dpsdk import Boolean, Domain, Neighbors, PrivacyUnit, PrivateData
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.data.persons import (
    CELL_FACTOR,
    PERSON_FACTOR,
    PRIME,
    REPEAT_FACTOR,
)
from dpsdk.data.vault import open_histogram
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Conjunction, Count, CountPersons
from dpsdk.testing.audit import audit

BITS = Domain(Boolean("a"), Boolean("b"))
BIT = Domain(Boolean("a"))
WORDS = {0: False, 1: True, -1: None}

UNITS = [
    PrivacyUnit("who", max_rows=most, distinct=distinct)
    for most in (1, 2)
    for distinct in (False, True)
]
PEOPLE = ("ann", "bob")


def subsets(names):
    return [
        some for size in range(1, len(names) + 1) for some in itertools.combinations(names, size)
    ]


def loaded(rows, unit, domain):
    """What the package holds of a list of (whose, cell): every marginal, and the rows outside."""
    columns = {"who": [who for who, _ in rows]}
    for place, name in enumerate(domain.names):
        columns[name] = [WORDS[cell[place]] for _, cell in rows]
    data = PrivateData.from_columns(columns, domain, unit=unit)
    histogram = open_histogram(data)
    held = {names: histogram.table(names).ravel() for names in subsets(domain.names)}
    return held, histogram.rows - held[domain.names].sum()


def counted(rows, domain):
    """The same of the rows that some other rule has kept."""
    held = {}
    inside = [cell for _, cell in rows if min(cell) >= 0]
    for names in subsets(domain.names):
        table = np.zeros([2] * len(names))
        for cell in inside:
            table[tuple(cell[domain.names.index(name)] for name in names)] += 1
        held[names] = table.ravel()
    return held, len(rows) - len(inside)


def fault(held, fewer, unit, domain):
    """What is wrong with a table that has one person more than another, if anything is."""
    (more_tables, more_out), (less_tables, less_out) = held, fewer
    change = {names: more_tables[names] - less_tables[names] for names in more_tables}
    full, out = change[domain.names], more_out - less_out
    if (full < 0).any() or out < 0:
        return "a row of somebody else is gone"
    if full.sum() + out > unit.max_rows:
        return "too many rows"
    shape = [2] * len(domain.names)
    for names, moved in change.items():
        others = tuple(i for i, name in enumerate(domain.names) if name not in names)
        if (full.reshape(shape).sum(axis=others).ravel() != moved).any():
            return "marginals of different tables"
    return None


@cache
def universe(domain, most):
    """All that one person may bring: up to so many rows, each of a cell, named or not."""
    cells = [*itertools.product((0, 1), repeat=len(domain.names)), (-1,) * len(domain.names)]
    kinds = [(named, cell) for named in (True, False) for cell in cells]
    return [
        lot
        for size in range(most + 1)
        for lot in itertools.combinations_with_replacement(kinds, size)
    ]


def faults(load, unit, domain, most, step=1):
    """What is wrong over all tables of two people, and over every `step`-th of them."""
    lots = universe(domain, most)
    found = set()
    alone = {
        (who, lot): load([(who if named else None, cell) for named, cell in lot], unit, domain)
        for who in PEOPLE
        for lot in lots
    }
    for one, other in itertools.islice(itertools.product(lots, lots), 0, None, step):
        rows = [
            (who if named else None, cell)
            for who, lot in zip(PEOPLE, (one, other), strict=True)
            for named, cell in lot
        ]
        both = load(rows, unit, domain)
        for kept in ((PEOPLE[0], one), (PEOPLE[1], other)):
            found.add(fault(both, alone[kept], unit, domain))
    return found - {None}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_one_person_changes_at_most_so_many_rows(unit):
    assert faults(loaded, unit, BIT, 2, step=7) == set()
    assert faults(loaded, unit, BITS, 2, step=97) == set()


@pytest.mark.audit
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_one_person_changes_at_most_so_many_rows_of_all_tables(unit):
    assert faults(loaded, unit, BIT, 3) == set()
    assert faults(loaded, unit, BITS, 2) == set()


def key(salt, cell, repeat):
    number = 1
    for code in cell:
        number = (number * CELL_FACTOR + code + 1) % PRIME
    number += salt * PERSON_FACTOR + repeat * REPEAT_FACTOR
    return pow(number, 5, PRIME)


def numbered(who):
    """The number of a short identifier of letters, as the package makes it."""
    places = [*who.ljust(8, "\0"), *who.rjust(4, "\0")]
    number = len(who) % 64
    for character in places:
        number = number * 8 + (ord(character) & 7)
    return number % PRIME


def ranked(rows, unit, salt):
    """The rows of one lot by their keys, repeats left out where cells count once."""
    seen: dict[tuple[int, ...], int] = {}
    keyed = []
    for who, cell in rows:
        seen[cell] = seen.get(cell, 0) + 1
        if seen[cell] == 1 or not unit.distinct:
            keyed.append((key(salt, cell, seen[cell]), cell, seen[cell], who))
    return [(who, cell) for _, cell, _, who in sorted(keyed)]


def by_person(rows, unit, salt=numbered):
    kept = []
    for person in dict.fromkeys(who for who, _ in rows):
        if person is not None:
            own = [row for row in rows if row[0] == person]
            kept += ranked(own, unit, salt(person))[: unit.max_rows]
    return kept


def by_rule(rows, unit, domain):
    return counted(by_person(rows, unit), domain)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_what_is_kept_follows_the_rule(unit):
    lots = universe(BITS, 3)
    for lot in lots[:: len(lots) // 40]:
        rows = [("ann" if named else None, cell) for named, cell in lot]
        rows += [("bob", cell) for _, cell in reversed(lot)]
        (held, out), (expected, expected_out) = loaded(rows, unit, BITS), by_rule(rows, unit, BITS)
        assert out == expected_out
        assert all((held[names] == expected[names]).all() for names in held)


def over_all_rows(rows, unit, domain):
    named = [row for row in rows if row[0] is not None]
    return counted(ranked(named, unit, 0)[: unit.max_rows], domain)


def first_rows(rows, unit, domain):
    people = {who for who, _ in rows if who is not None}
    named = [row for row in rows if row[0] is not None]
    named = list(dict.fromkeys(named)) if unit.distinct else named
    return counted(named[: unit.max_rows * len(people)], domain)


def null_as_one_person(rows, unit, domain):
    return by_rule([("nobody" if who is None else who, cell) for who, cell in rows], unit, domain)


def nobody_unbounded(rows, unit, domain):
    nobody = [row for row in rows if row[0] is None]
    return counted([*by_person(rows, unit), *nobody], domain)


def by_rank(rows, unit, domain):
    people = sorted({who for who, _ in rows if who is not None}, reverse=True)
    return counted(by_person(rows, unit, people.index), domain)


def outside_unbounded(rows, unit, domain):
    inside = [row for row in rows if min(row[1]) >= 0]
    out = [row for row in rows if row[0] is not None and min(row[1]) < 0]
    return counted([*by_person(inside, unit), *out], domain)


def per_marginal(rows, unit, domain, kept):
    """Each marginal of rows that were chosen for it alone."""
    held, out = counted(kept(rows, unit), domain)
    for names in subsets(domain.names):
        places = [domain.names.index(name) for name in names]
        projected = [(who, tuple(cell[place] for place in places)) for who, cell in rows]
        made = Domain(*(domain[name] for name in names))
        held[names] = counted(kept(projected, unit), made)[0][names]
    return held, out


def distinct_after_a_marginal(rows, unit, domain):
    def once(some, unit):
        return list(dict.fromkeys(row for row in some if row[0] is not None))

    return per_marginal(by_person(rows, unit), unit, domain, once)


def bounded_per_marginal(rows, unit, domain):
    return per_marginal(rows, unit, domain, by_person)


CANARIES = {
    over_all_rows: PrivacyUnit("who", max_rows=1),
    first_rows: PrivacyUnit("who", max_rows=1),
    null_as_one_person: PrivacyUnit("who", max_rows=1),
    nobody_unbounded: PrivacyUnit("who", max_rows=1),
    by_rank: PrivacyUnit("who", max_rows=1),
    outside_unbounded: PrivacyUnit("who", max_rows=1),
    distinct_after_a_marginal: PrivacyUnit("who", max_rows=2),
    bounded_per_marginal: PrivacyUnit("who", max_rows=1, distinct=True),
}


@pytest.mark.parametrize("broken", CANARIES, ids=lambda one: one.__name__)
def test_a_broken_rule_is_caught(broken):
    unit = CANARIES[broken]
    assert faults(by_rule, unit, BITS, 2, step=31) == set()
    assert faults(broken, unit, BITS, 2, step=31)


def tables_of_people(unit, load):
    """Tables of two people, and each without the second, as the package prices them."""
    lots = [lot for lot in universe(BIT, 2) if all(named for named, _ in lot)]
    for one in lots[1:3]:
        rows = [("ann", cell) for _, cell in one]
        fewer = load(rows, unit)
        for other in lots:
            more = load([*rows, *(("bob", cell) for _, cell in other)], unit)
            yield more, fewer
            yield fewer, more


def protected(rows, unit):
    columns = {"who": [who for who, _ in rows], "a": [WORDS[cell[0]] for _, cell in rows]}
    return PrivateData.from_columns(columns, BIT, unit=unit)


def unprotected(rows, unit):
    """The table that is not bounded, declared as if it were."""
    held, out = counted(rows, BIT)
    return PrivateData.from_counts(
        held["a",].astype(int),
        BIT,
        outside_rows=int(out),
        neighbors=Neighbors.ADD_REMOVE,
        unit_rows=unit.max_rows,
    )


def persons_in(rows, unit):
    return open_histogram(protected(rows, unit)).persons


def rows_kept(rows, unit):
    return open_histogram(protected(rows, unit)).rows


def identifiers_and_none(rows, unit):
    del unit
    return len({who for who, _ in rows})


def most_persons_moved(count, unit):
    """How far one person moves a number, over all tables of two."""
    lots, moves = universe(BIT, 2), set()
    for one, other in itertools.islice(itertools.product(lots, lots), 0, None, 5):
        rows = [("ann" if named else None, cell) for named, cell in one]
        more = [*rows, *(("bob" if named else None, cell) for named, cell in other)]
        moves.add(count(more, unit) - count(rows, unit))
    return min(moves), max(moves)


@pytest.mark.parametrize("most", [1, 2])
def test_one_person_moves_the_number_of_persons_by_one(most):
    unit = PrivacyUnit("who", max_rows=most)
    assert most_persons_moved(persons_in, unit) == (0, 1)
    # Broken twins: one that counts rows, and one to whom nobody is somebody.
    assert (most_persons_moved(rows_kept, unit)[1] > 1) == (most > 1)
    assert most_persons_moved(identifiers_and_none, unit)[1] > 1


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("most", [2, 1])
def test_a_count_of_persons_protects_a_person_at_its_price_and_no_better(most):
    unit, claim = PrivacyUnit("who", max_rows=most), PureGuarantee(Fraction(1))
    run = pure_program(Laplace(1), CountPersons())
    pairs = list(tables_of_people(unit, protected))[::3]
    report = audit(run, pairs, claim, tail=1e-7)
    assert report.passed, report
    assert report.figure == pytest.approx(1, rel=1e-6)
    # A count of rows with the noise of one person is caught.
    if most > 1:
        broken = pure_program(Laplace(2), Count(normalized=False))
        assert not audit(broken, pairs, claim, tail=1e-7).passed


@pytest.mark.thorough
def test_a_release_protects_a_person_at_its_price_and_no_better():
    unit, claim = PrivacyUnit("who", max_rows=1), PureGuarantee(Fraction(1))
    run = pure_program(Laplace(1), Conjunction({"a": True}, normalized=False))
    report = audit(run, tables_of_people(unit, protected), claim, tail=1e-7)
    assert report.passed, report
    assert report.figure == pytest.approx(1, rel=1e-6)
    assert not audit(run, tables_of_people(unit, unprotected), claim, tail=1e-7).passed
