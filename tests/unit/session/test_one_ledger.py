"""One ledger for persons: rows of a person and domains may differ, the reading of identifiers not.

Theorem 4 of docs/explanation/proofs/unit.md.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, PrivacyUnit, PrivateData, Session, SQLiteLedger
from dpsdk.accounting import Dataset, MemoryLedger, Odometer
from dpsdk.accounting.filters.any_of import default_composition
from dpsdk.accounting.ledger.base import Decision
from dpsdk.accounting.ledger.binding import PersonsDataset
from dpsdk.accounting.ledger.bookkeeping import begin_books
from dpsdk.data.vault import open_histogram
from dpsdk.errors import LedgerConflict
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count

VISITS = {"who": ["a", "a", "b ", "b"], "age": [39, 40, 62, 50], "floor": [1, 2, 1, 1]}
AGE, FLOOR = Domain(Integer("age", 17, 90)), Domain(Integer("floor", 0, 3))
BUDGET = Budget(1, "1e-6")
TENTH = Laplace("0.1")


def visits(most, domain=AGE, *, distinct=False, strip=False):
    unit = PrivacyUnit("who", max_rows=most, distinct=distinct)
    return PrivateData.from_columns(VISITS, domain, name="visits", unit=unit, strip=strip)


def test_rows_of_a_person_and_domains_differ_and_charges_add_up(quick_disk):
    path = quick_disk / "spend.db"
    for spent, (most, domain, distinct) in enumerate(
        [(1, AGE, False), (5, AGE, False), (5, FLOOR, False), (2, FLOOR, True)]
    ):
        data = visits(most, domain, distinct=distinct)
        with Session(data, BUDGET, ledger=SQLiteLedger(path)) as session:
            assert session.spent.epsilon == Fraction(spent, 10)
            session.answer(Count(normalized=False), using=TENTH)
    dataset = SQLiteLedger(path).read().binding.dataset
    assert dataset == PersonsDataset("visits", "add-remove", "who", False)


def test_the_reading_of_identifiers_is_bound():
    ledger = MemoryLedger()
    Session(visits(1, strip=True), BUDGET, ledger=ledger)
    with pytest.raises(LedgerConflict, match="strip of identifiers True; got False"):
        Session(visits(1), BUDGET, ledger=ledger)
    Session(visits(3, strip=True), BUDGET, ledger=ledger)
    assert ledger.read().binding.dataset.strip


def test_rows_that_are_somebodys_own_stay_bound():
    ledger = MemoryLedger()

    def rows(most):
        return PrivateData.from_columns(VISITS, AGE, name="visits", unit_rows=most, strip=True)

    Session(rows(2), BUDGET, ledger=ledger)
    with pytest.raises(LedgerConflict, match="rows of a person 2; got 3"):
        Session(rows(3), BUDGET, ledger=ledger)
    with pytest.raises(LedgerConflict, match="neighbour relation"):
        Session(visits(2), BUDGET, ledger=ledger)


def test_books_of_before_keep_their_rule():
    old = Dataset("visits", "add-remove", 2, "who")
    begun = begin_books(old, BUDGET, default_composition(), None)
    record = begun._replace(binding=begun.binding._replace(dataset=old)).to_record()
    assert record["binding"]["dataset"]["kind"] == "dataset"
    books = type(begun).from_record(record)
    assert books.binding.dataset == old
    ledger = MemoryLedger()
    ledger.transact(lambda _: Decision(books))
    Session(visits(2, strip=True), BUDGET, ledger=ledger)
    with pytest.raises(LedgerConflict, match="rows of a person 2; got 3"):
        Session(visits(3), BUDGET, ledger=ledger)
    assert ledger.read().binding.dataset == old


def test_the_record_says_who_is_one_person():
    odometer = Odometer(BUDGET, dataset=Dataset("t", "add-remove", 7, "who", True))
    assert odometer._ledger.read().to_record()["binding"]["dataset"] == {
        "kind": "dataset.persons",
        "name": "t",
        "neighbors": "add-remove",
        "person": "who",
        "strip": True,
    }


def cells(identifiers, most, *, strip):
    """The kept rows of visits on one floor each, by floor."""
    columns = {"who": [who for who, _ in identifiers], "floor": [at for _, at in identifiers]}
    unit = PrivacyUnit("who", max_rows=most)
    data = PrivateData.from_columns(columns, FLOOR, unit=unit, strip=strip)
    return np.array([int(n) for n in open_histogram(data).counted(("floor",)).reshape(-1)])


@pytest.mark.parametrize("most", [1, 2])
def test_one_reading_keeps_neighbours_and_two_do_not(most):
    """A person more moves `most` rows by the reading that defines persons; by another, twice."""
    rows = [(who, at) for who in ("p", "p ") for at in (0, 1)]
    worst = {True: 0, False: 0}
    for others in product(rows, repeat=2):
        mine = [row for row in others if row[0] == "p "]
        for visits_of_p in product((0, 1, 2), repeat=2):
            more = [("p", at) for at in visits_of_p]
            for strip, known in worst.items():
                before, after = (cells(t, most, strip=strip) for t in (mine, [*mine, *more]))
                worst[strip] = max(known, int(np.abs(after - before).sum()))
    assert worst[False] == most  # the reading by which "p" and "p " are two people
    assert worst[True] > most  # the mutant: what a ledger that does not bind it would add up


def test_answers_are_reused_for_the_same_rows_of_a_person_only():
    ledger = MemoryLedger()

    def asked(**how):
        session = Session(visits(**how), BUDGET, ledger=ledger, reuse=True)
        return session._context.place.digest

    digests = [
        asked(most=1),
        asked(most=2),
        asked(most=2, distinct=True),
        asked(most=2, domain=FLOOR),
    ]
    assert len(set(digests)) == len(digests)
    assert asked(most=2) == digests[1]
