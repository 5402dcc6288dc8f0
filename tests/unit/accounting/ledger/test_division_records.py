"""Records of books: what no charges can have led to is refused."""

import copy
import itertools
import json

import pytest

from damage import at, changed, places
from dpsdk.accounting import (
    Books,
    Budget,
    MemoryLedger,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.ledger.snapshot import EMPTY, restored, snapshot_of
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.errors import RecordError

pytestmark = pytest.mark.thorough

TENTH = PureGuarantee("0.1")


def written(parts, asked, moves):
    ledger = MemoryLedger()
    odometer = Odometer(Budget(1), ledger=ledger)
    generation = odometer.generation()
    odometer.divide(generation, parts, moves=moves)
    for part in range(asked):
        PartOdometer(odometer, "a part", generation, part).charge(TENTH, "x")
    return ledger.read().to_record()


CASES = [(p, a, m) for p, m in itertools.product((1, 2, 3, 5), (False, True)) for a in range(p + 1)]


@pytest.mark.parametrize(("parts", "asked", "moves"), CASES)
def test_only_kinds_that_no_neighbours_are_of_count_nowhere(parts, asked, moves):
    record = written(parts, asked, moves)
    assert Books.from_record(record).to_record() == record
    rows = record["division"]["kinds"]
    for row, text in enumerate(rows):
        words = text.split(" ")
        for column, word in enumerate(words):
            changed = copy.deepcopy(record)
            kinds = changed["division"]["kinds"]
            other = "0" if word == "-1" else "-1"
            kinds[row] = " ".join([*words[:column], other, *words[column + 1 :]])
            if len(rows) > 1:  # pairs, of which each stands twice
                twin = kinds[column].split(" ")
                twin[row] = other
                kinds[column] = " ".join(twin)
            with pytest.raises(RecordError):
                Books.from_record(changed)


@pytest.mark.parametrize(("parts", "asked", "moves"), CASES)
@pytest.mark.parametrize("other", [0, 1, 2, 4, 6, 10**30])
def test_a_division_has_no_other_number_of_parts_than_its_kinds_tell(parts, asked, moves, other):
    record = written(parts, asked, moves)
    record["division"]["parts"] = other
    try:
        division = Books.from_record(record).division
    except RecordError:
        return
    # With parts that nobody has asked, how many they are is not told by the kinds.
    assert other - asked > (1 if division.moves and parts - asked > 1 else 0) or other == parts
    assert all(len(division.concerned(part)) for part in range(min(other, 7)))


@pytest.mark.parametrize("composition", [default_composition(), ZCDPComposition()], ids=type)
def test_no_amount_in_texts_of_books_is_negative_or_missing(composition):
    ledger = MemoryLedger()
    odometer = Odometer(Budget(1, "1e-6"), composition, ledger=ledger)
    ScopeOdometer(odometer, "a scope", "0.5").charge(TENTH, "x")
    books = ledger.read()
    texts = {name: piece.text for name, piece in snapshot_of(books, EMPTY).pieces.items()}
    (account,) = (name for name in texts if name.startswith("account"))
    for name in ("lines", account):
        plain = json.loads(texts[name])
        line = ("line",) if name == account else (0,)
        paths = [(*line, *path) for path in places(at(plain, line))]
        amounts = [path for path in paths if at(plain, path) not in ("never", None)]
        amounts = [path for path in amounts if isinstance(at(plain, path), str)]
        assert len(amounts) > 3
        for path in amounts:
            less = copy.deepcopy(plain)
            del at(less, path[:-1])[path[-1]]
            for wrong in (changed(plain, path, "-1"), less):
                text = json.dumps(wrong, separators=(",", ":"))
                with pytest.raises(RecordError):
                    restored({**texts, name: text}, books.runs, EMPTY)
