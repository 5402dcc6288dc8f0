"""Partitions in turn, held against one independent filter for each pair of neighbours."""

import copy
import itertools
import json
import random
from fractions import Fraction
from itertools import combinations, product

import pytest

from damage import at, changed, places
from dpsdk.accounting import (
    AnyOf,
    BasicComposition,
    Books,
    Budget,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    MemoryLedger,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.filters.composition import covered, pattern
from dpsdk.accounting.ledger import lines as division
from dpsdk.accounting.ledger.lines import LINE_LIMIT, Line, essential, worst_line
from dpsdk.accounting.ledger.snapshot import EMPTY, restored, snapshot_of
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.errors import BudgetExceeded, RecordError, TooLarge

pytestmark = pytest.mark.thorough
BUDGET = Budget(1, 1e-6)
FILTERS = [
    EnvelopeComposition(),
    ZCDPComposition(),
    default_composition(),
    AnyOf((BasicComposition(), ZCDPComposition(), EnvelopeComposition())),
]
PROBES = (PureGuarantee("0.01"), PureGuarantee("0.2"), DiscreteGaussianGuarantee(2000, 1, 1))


class Reference:
    """One filter of its own for every way in which neighbours may differ in the partitions."""

    def __init__(self, composition):
        self.composition = composition
        self.states = {(): composition.begin(BUDGET)}
        self.kinds = []

    def divide(self, parts, *, moves):
        pairs = moves and parts > 1
        self.kinds = list(combinations(range(parts), 2 if pairs else 1))
        self.states = {
            (*place, kind): state
            for (place, state), kind in product(self.states.items(), self.kinds)
        }

    def charge(self, run, part, *, open_):
        after = {}
        for place, state in self.states.items():
            if part is not None and open_ and part not in place[-1]:  # type: ignore[operator]
                after[place] = state
                continue
            new = self.composition.charge(state, run)
            if new is None:
                return False
            after[place] = new
        self.states = after
        return True

    def rounds(self, run):
        return min(self.composition.rounds(state, (run,)) or 0 for state in self.states.values())


def any_run(rng):
    if rng.random() < 0.6:
        return PureGuarantee(Fraction(rng.choice([5, 10, 10, 50, 300, 700]), 1000))
    return DiscreteGaussianGuarantee(10 ** rng.randint(3, 6), 1, 1)


def taken(odometer, run):
    try:
        odometer.charge(run, "test")
    except BudgetExceeded:
        return False
    return True


@pytest.mark.parametrize("histories", [5, pytest.param(12, marks=pytest.mark.audit)])
@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: str(c)[:60])
def test_partitions_in_turn_decide_as_one_filter_for_each_pair_of_neighbours(
    composition, histories
):
    rng = random.Random(17)
    for _ in range(histories):
        outer, reference = Odometer(BUDGET, composition), Reference(composition)
        for _ in range(2):
            generation, parts, moves = outer.generation(), rng.randint(1, 4), rng.random() < 0.5
            outer.divide(generation, parts, moves=moves)
            reference.divide(parts, moves=moves)
            for _ in range(8):
                run, part = any_run(rng), rng.randrange(parts + 1)
                whole = part == parts
                payer = outer if whole else PartOdometer(outer, "part", generation, part)
                fits = taken(payer, run)
                assert fits == reference.charge(run, None if whole else part, open_=True)
            before = [outer.affords(probe) for probe in PROBES]
            outer.merge(generation)
            assert len(outer._ledger.read().lines) <= LINE_LIMIT
            assert [outer.affords(probe) for probe in PROBES] == before
            for _ in range(2):
                run = any_run(rng)
                assert taken(outer, run) == reference.charge(run, None, open_=False)
            assert [outer.affords(probe) for probe in PROBES] == [
                reference.rounds(probe) for probe in PROBES
            ]


def test_closing_a_partition_of_a_gaussian_and_a_laplace_part_costs_nothing():
    outer = Odometer(BUDGET, default_composition())
    generation = outer.generation()
    outer.divide(generation, 2, moves=False)
    one, two = (PartOdometer(outer, "part", generation, part) for part in range(2))
    one.charge(DiscreteGaussianGuarantee(100, 1, 1), "closes basic composition, or nearly")
    two.charge(PureGuarantee("0.2"), "closes the envelope, or nearly")
    small = PureGuarantee("0.01")
    before = outer.affords(small), outer.remaining, outer.spent
    assert before[0]
    assert before[0] >= 75
    outer.merge(generation)
    assert (outer.affords(small), outer.remaining, outer.spent) == before
    assert sum(taken(outer, small) for _ in range(before[0] + 1)) == before[0]


@pytest.mark.parametrize("moves", [False, True])
def test_hundreds_of_parts_that_see_the_same_are_few_lines(moves):
    outer = Odometer(BUDGET, default_composition())
    generation, parts = outer.generation(), 300
    outer.divide(generation, parts, moves=moves)
    run = PureGuarantee("0.01")
    for part in range(parts):
        PartOdometer(outer, "part", generation, part).charge(run, "test")
    assert outer.spent.epsilon == run.epsilon * (2 if moves else 1)
    assert len(outer._ledger.read().division.bundles) <= 4
    outer.merge(generation)
    assert len(outer._ledger.read().lines) == 1


def test_a_partition_of_very_many_labels_is_open_to_some():
    outer = Odometer(BUDGET, ZCDPComposition())
    generation = outer.generation()
    outer.divide(generation, 10**9, moves=True)
    for part in (10**9 - 1, 5, 10**6):
        PartOdometer(outer, "part", generation, part).charge(PureGuarantee("0.01"), "test")
    assert outer.spent.epsilon == Fraction(2, 100)


def test_more_parts_than_can_be_told_apart_are_refused_before_anything_is_charged(monkeypatch):
    monkeypatch.setattr(division, "_MOVING_PART_LIMIT", 3)
    monkeypatch.setattr(division, "_PART_LIMIT", 4)
    for moves, limit in ((True, 3), (False, 4)):
        outer = Odometer(BUDGET, BasicComposition())
        generation = outer.generation()
        outer.divide(generation, 9, moves=moves)
        parts = [PartOdometer(outer, "part", generation, part) for part in range(9)]
        for part in parts[:limit]:
            part.charge(PureGuarantee("0.1"), "test")
        with pytest.raises(TooLarge, match="parts that are asked"):
            parts[limit].charge(PureGuarantee("0.1"), "test")
        parts[0].charge(PureGuarantee("0.1"), "test")
        assert outer.spent.charges == limit + 1


@pytest.mark.parametrize("moves", [False, True])
def test_lines_that_were_merged_admit_what_every_pair_of_neighbours_admits(moves, monkeypatch):
    monkeypatch.setattr(division, "_BUNDLE_LIMIT", 3)
    monkeypatch.setattr("dpsdk.accounting.ledger.lines.LINE_LIMIT", 2)
    monkeypatch.setattr("dpsdk.accounting.ledger.lines._COMPARED", 4)
    rng = random.Random(3)
    composition = default_composition()
    for _ in range(15):
        outer, reference = Odometer(BUDGET, composition), Reference(composition)
        kept = None
        for _ in range(2):
            generation = outer.generation()
            outer.divide(generation, 4, moves=moves)
            reference.divide(4, moves=moves)
            for _ in range(10):
                run, part = any_run(rng), rng.randrange(4)
                if taken(PartOdometer(outer, "part", generation, part), run):
                    assert reference.charge(run, part, open_=True)
            if kept is None:
                try:
                    kept = ScopeOdometer(outer, "kept", "0.1", reserve=True)
                except BudgetExceeded:
                    kept = None
            size = None if kept is None else kept.remaining.kept_epsilon
            outer.merge(generation)
            if kept is not None:
                # A merge never takes from a reserve either.
                assert kept.remaining.kept_epsilon >= size
                if size:
                    run = PureGuarantee(size / 2)
                    kept.charge(run, "kept")
                    assert reference.charge(run, None, open_=False)
            for _ in range(3):
                run = any_run(rng)
                if taken(outer, run):
                    assert reference.charge(run, None, open_=False)


def test_lines_that_another_is_further_spent_than_are_dropped():
    composition = default_composition()
    start = Line(composition.begin(BUDGET))

    def after(*runs):
        state = start.state
        for run in runs:
            new = composition.charge(state, run)
            assert new is not None
            state = new
        return Line(state, 0, len(runs))

    small, large = PureGuarantee("0.01"), PureGuarantee("0.5")
    one, two = after(small), after(small, small)
    assert essential([start, one, two, one], pattern) == (two,)
    # The large run closes the envelope, so neither of these is further spent than the other.
    apart = Line(after(large).state, 0, 0)
    assert set(essential([two, apart], pattern)) == {two, apart}
    assert covered(one.state, two.state)
    assert not covered(two.state, one.state)
    assert not covered(apart.state, two.state)
    assert worst_line([one, two]).rho == 2


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
