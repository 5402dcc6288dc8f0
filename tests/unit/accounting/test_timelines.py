"""Budgets of which each period of time has one: the odometer against one odometer a period."""

import json
import math
import random
import time
from fractions import Fraction

import pytest

from dpsdk.accounting import (
    Books,
    Budget,
    Charge,
    Dataset,
    DiscreteGaussianGuarantee,
    GuaranteeByPeriod,
    MemoryLedger,
    Odometer,
    Payer,
    PureGuarantee,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.ledger import timeline
from dpsdk.accounting.ledger.charge import charge_of
from dpsdk.accounting.ledger.snapshot import EMPTY, restored, snapshot_of
from dpsdk.accounting.ledger.timeline import Timeline
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.accounting.prices.covering import cover_of, covers
from dpsdk.accounting.prices.together import most_together, together
from dpsdk.errors import (
    BudgetExceeded,
    InvalidArgument,
    LedgerConflict,
    RecordError,
    TooLarge,
)

BUDGET = Budget(1, "1e-6")
VISITS = Dataset("visits", "add-remove", periods="visited: date by day, zone none")
LAST = 199
WIDE = DiscreteGaussianGuarantee(1000, 40, 6)
RUNS = [
    *map(PureGuarantee, ("0.02", "0.1", "0.3")),
    DiscreteGaussianGuarantee(20_000, 40, 6),
    DiscreteGaussianGuarantee(4_000, 40, 6),
]


def opened(ledger=None, composition=None, last=LAST, dataset=VISITS):
    return Odometer(BUDGET, composition, ledger=ledger, dataset=dataset, periods=(0, last))


class Apart:
    """An odometer of its own for each period: what the theorem is about."""

    def __init__(self, composition, last):
        self.odometers = [Odometer(BUDGET, composition) for _ in range(last + 1)]
        self.scopes = {}

    def open(self, name, share, reserve, since):
        opened = {}
        for period, odometer in enumerate(self.odometers):
            if period >= (since or 0):
                try:
                    opened[period] = ScopeOdometer(odometer, name, share, reserve=reserve)
                except BudgetExceeded:
                    for scope in opened.values():
                        scope.close()
                    return False
        self.scopes[name] = opened
        return True

    def ask(self, touched, scope):
        payers = self.scopes[scope] if scope else dict(enumerate(self.odometers))
        try:
            for period, run in touched.items():
                if period not in payers:
                    return False
                payers[period].check_all((run,))
        except BudgetExceeded:
            return False
        for period, run in touched.items():
            payers[period].charge(run, "asked")
        return True

    def lines(self):
        return [odometer._ledger.read().lines[0] for odometer in self.odometers]


def asked(source, last):
    """A run on a desk, and what it tells each period that it touches."""
    low = source.randint(0, last)
    high = min(last, low + source.choice((0, 0, 3, 10, last)))
    run = source.choice(RUNS)
    if source.random() < 0.6:
        return low, high, run, dict.fromkeys(range(low, high + 1), run)
    parts, at = [], low
    while at <= high:
        end = min(high, at + source.randint(0, 4))
        if source.random() < 0.7:
            parts.append((at, end, source.choice(RUNS)))
        at = end + 1
    touched = {period: part for a, b, part in parts for period in range(a, b + 1)}
    return low, high, GuaranteeByPeriod(WIDE, tuple(parts)), touched


def compare(composition, seed, count, last):
    source = random.Random(seed)
    odometer, apart = opened(composition=composition, last=last), Apart(composition, last)
    scopes, refused = {}, 0
    for step in range(count):
        if step % 9 == 4 and len(scopes) < 3:
            reserve, since = source.random() < 0.7, source.choice((None, last // 2))
            share, name = source.choice(("0.1", "0.3")), f"scope {step}"
            expected = apart.open(name, share, reserve, since)
            try:
                scopes[name] = ScopeOdometer(odometer, name, share, reserve=reserve, since=since)
                assert expected
            except BudgetExceeded as error:
                assert not expected and error.period is not None  # noqa: PT017, PT018
        low, high, run, touched = asked(source, last)
        name = source.choice((None, None, *scopes))
        payer = (scopes[name] if name else odometer).between(low, high)
        before = odometer._ledger.read()
        expected = apart.ask(touched, name)
        try:
            payer.charge(run, "asked")
            assert expected
        except BudgetExceeded as error:
            refused += 1
            assert not expected and error.refusing >= 1  # noqa: PT017, PT018
            assert payer.affords(run) == 0
            assert odometer._ledger.read() is before
            if error.passing and not isinstance(run, GuaranteeByPeriod):
                payer.between(*error.passing).check_all((run,))
        known = odometer._ledger.read().timeline
        assert [known.line(period) for period in range(last + 1)] == apart.lines()
    assert 0 < refused < count
    return odometer, scopes, apart


@pytest.mark.parametrize("composition", [default_composition(), ZCDPComposition()], ids=str)
def test_each_period_is_charged_as_a_table_of_its_own(composition):
    odometer, scopes, apart = compare(composition, 7, 60, 40)
    for first, last, spent, remaining in odometer.periods():
        one = apart.odometers[first]
        assert (spent, remaining) == (one.spent, one.remaining)
        assert apart.odometers[last].spent == one.spent
    for desk in (odometer.between(3, 30), odometer.between(0, 0)):
        low, high = desk._payer.periods
        mine = apart.odometers[low : high + 1]
        assert desk.remaining.epsilon == min(one.remaining.epsilon for one in mine)
        assert desk.spent.rho == max(one.spent.rho for one in mine)
        for run in RUNS:
            assert desk.affords(run) == min(one.affords(run) for one in mine)
            assert desk.balance.fits((run,)) <= all(one.affords(run) for one in mine)
    for name, scope in scopes.items():
        for period, one in apart.scopes[name].items():
            assert scope.between(period, period).remaining == one.remaining


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_each_of_200_periods_is_charged_as_a_table_of_its_own(seed):
    compare(default_composition() if seed % 2 else ZCDPComposition(), seed, 400, LAST)


def test_the_books_are_read_back_and_said_in_one_way():
    odometer, _, _ = compare(default_composition(), 11, 30, 20)
    books = odometer._ledger.read()
    assert Books.from_record(json.loads(json.dumps(books.to_record()))) == books
    texts = {name: piece.text for name, piece in snapshot_of(books, EMPTY).pieces.items()}
    assert restored(texts, books.runs, EMPTY).books == books
    for name, text in texts.items():
        if "[" in text:
            for wrong in ("0", "[]", text.replace("[", "[1,", 1), text[:-1] + ",1]"):
                with pytest.raises(RecordError):
                    restored({**texts, name: wrong}, books.runs, EMPTY)
    record = books.to_record()
    steps = record["timeline"]["starts"]
    for wrong in (steps[:-1], steps[::-1], [*steps[:-1], steps[0]], [*steps[:-1], 2**80], ["1"]):
        with pytest.raises(RecordError):
            Books.from_record({**record, "timeline": {**record["timeline"], "starts": wrong}})
    with pytest.raises(RecordError):
        Books.from_record({name: one for name, one in record.items() if name != "timeline"})


def test_books_and_charges_without_periods_are_written_as_before():
    odometer = Odometer(BUDGET, dataset=Dataset("visits", "add-remove"))
    odometer.charge(PureGuarantee("0.1"), "a")
    ScopeOdometer(odometer, "s", "0.5")
    texts = json.dumps(odometer._ledger.read().to_record())
    texts += json.dumps(odometer.ledger_charges()[0].to_record())
    assert "timeline" not in texts
    assert "periods" not in texts
    assert "since" not in texts


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("seed", range(3))
def test_merged_steps_refuse_at_least_as_much(monkeypatch, seed):
    monkeypatch.setattr(timeline, "DISTINCT_LIMIT", 16)
    source, last = random.Random(seed), 60
    whole = opened(composition=default_composition(), last=last)
    apart = [Odometer(BUDGET) for _ in range(last + 1)]
    whole_scope = ScopeOdometer(whole, "kept", "0.2", reserve=True, since=20)
    kept = {p: ScopeOdometer(apart[p], "kept", "0.2", reserve=True) for p in range(20, last + 1)}
    for _ in range(120):
        low = source.randint(0, last)
        high, run = min(last, low + source.choice((0, 2, 9))), source.choice(RUNS)
        # No step may be merged whose line could not serve what is set aside there.
        scoped = low >= 20 and source.random() < 0.2
        payer = (whole_scope if scoped else whole).between(low, high)
        try:
            payer.charge(run, "asked")
        except (BudgetExceeded, TooLarge):
            continue
        for period in range(low, high + 1):
            (kept if scoped else apart)[period].charge(run, "the same where nothing is merged")
    books = whole._ledger.read()
    assert len(set(books.timeline.lines)) <= 16
    assert books.timeline.lines[-1].rho == 0
    for first, _, spent, _ in whole.periods():
        assert spent.fraction >= apart[first].spent.fraction
    assert whole_scope.between(20, last).remaining.kept_epsilon >= 0


def test_only_steps_that_are_open_alike_are_merged_and_never_the_endless_ones(monkeypatch):
    monkeypatch.setattr(timeline, "DISTINCT_LIMIT", 8)
    odometer = opened(last=99)

    def spend():
        for period in range(99):  # large runs close what small ones leave open
            odometer.between(period, period).charge(RUNS[2 if period % 2 else 3], "a")
            odometer.between(period, period).charge(PureGuarantee(f"0.00{period + 1:02}"), "b")

    with pytest.raises(TooLarge, match="timeline"):
        spend()
    assert odometer.between(99, 99).spent.fraction == 0
    assert odometer.between(98, 98).spent.fraction == 0


def test_a_reserve_holds_period_by_period():
    odometer = opened(last=10)
    odometer.between(0, 4).charge(PureGuarantee("0.9"), "spent before")
    with pytest.raises(BudgetExceeded) as refused:
        ScopeOdometer(odometer, "sums", "0.5", reserve=True)
    assert refused.value.period is not None
    sums = ScopeOdometer(odometer, "sums", "0.5", reserve=True, since=5)
    again = ScopeOdometer(odometer, "sums", "0.5", reserve=True, since=5)
    assert again._payer == sums._payer
    with pytest.raises(LedgerConflict, match="from period 5"):
        ScopeOdometer(odometer, "sums", "0.5", reserve=True, since=6)
    odometer.between(0, 4).charge(PureGuarantee("0.1"), "others may have all before its first")
    with pytest.raises(BudgetExceeded, match="reserved"):
        odometer.between(5, 6).charge(PureGuarantee("0.6"), "which it keeps")
    with pytest.raises(BudgetExceeded) as refused:
        sums.charge(PureGuarantee("0.01"), "it is closed before its first")
    assert (refused.value.period, refused.value.refusing) == (0, 5)
    assert refused.value.passing == (5, 10)
    for period in range(5, 11):
        sums.between(period, 10).charge(PureGuarantee("0.05"), "one more each day")
    assert sums.between(10, 10).spent.epsilon == PureGuarantee("0.3").epsilon
    (statement,) = ScopeOdometer.within(odometer)
    assert statement.spent.epsilon == PureGuarantee("0.3").epsilon
    sums.close()
    odometer.between(6, 6).charge(PureGuarantee("0.8"), "given back")


def test_a_refusal_names_the_periods_and_what_would_pass():
    odometer = opened(last=30)
    for low, high in ((3, 4), (20, 20)):
        odometer.between(low, high).charge(PureGuarantee("0.7"), "spent")
    with pytest.raises(BudgetExceeded) as refused:
        odometer.charge(PureGuarantee("0.5"), "a")
    error = refused.value
    assert (error.period, error.refusing, error.passing) == (3, 3, (5, 19))
    assert "3 periods refused, first 3, and 5 to 19 would not" in str(error)
    assert "30% of the budget of the most spent period is left" in str(error)
    with pytest.raises(BudgetExceeded) as refused:
        odometer.between(4, 4).check_all([(PureGuarantee("0.2"), 2)])
    assert (refused.value.period, refused.value.passing) == (4, None)


def test_tables_with_and_without_periods_are_told_apart():
    plain = Dataset("visits", "add-remove")
    for dataset, periods in ((plain, (0, 1)), (VISITS, None), (VISITS, (2, 1)), (VISITS, (0, "1"))):
        with pytest.raises(InvalidArgument, match="periods"):
            Odometer(BUDGET, dataset=dataset, periods=periods)
    odometer, old = opened(), Odometer(BUDGET, dataset=plain)
    told = GuaranteeByPeriod(PureGuarantee(1), ((0, 0, PureGuarantee(1)),))
    with pytest.raises(InvalidArgument, match="guarantee"):
        old.charge(told, "a")
    for wrong in (lambda: old.between(0, 1), old.periods, lambda: odometer.between(0, LAST + 1)):
        with pytest.raises(InvalidArgument):
            wrong()
    with pytest.raises(InvalidArgument, match="guarantee"):
        odometer.between(5, 6).charge(told, "it touches a period that the desk does not have")
    with pytest.raises(InvalidArgument, match="without periods"):
        odometer.divide(odometer.generation(), 2, moves=False)
    ledger = MemoryLedger()
    opened(ledger, last=3)
    opened(ledger, last=9)  # of a domain that reaches further
    monthly = Dataset("visits", "add-remove", periods="visited: date by month")
    for other, periods in ((plain, None), (monthly, (0, 1))):
        with pytest.raises(LedgerConflict, match="periods"):
            Odometer(BUDGET, ledger=ledger, dataset=other, periods=periods)
    begun = MemoryLedger()
    Odometer(BUDGET, ledger=begun, dataset=plain)
    with pytest.raises(LedgerConflict, match="periods"):
        opened(begun)


def test_what_one_period_was_told_covers_no_other():
    one, two = PureGuarantee("0.5"), PureGuarantee("0.2")
    told = GuaranteeByPeriod(one, ((0, 3, two), (4, 9, one)))
    assert covers(one, told)
    assert not covers(two, told)
    assert covers(told, GuaranteeByPeriod(one, ((2, 3, two), (4, 5, one))))
    assert covers(told, GuaranteeByPeriod(two, ((2, 7, two),)))
    assert not covers(told, GuaranteeByPeriod(one, ((3, 4, one),)))
    assert not covers(told, GuaranteeByPeriod(two, ((9, 10, two),)))
    assert not covers(told, two)
    assert covers(told, GuaranteeByPeriod(one, ()))
    assert cover_of(told) == one


def test_parts_are_in_order_joined_and_never_free():
    a, b, free = PureGuarantee(1), PureGuarantee(2), PureGuarantee(0)
    told = GuaranteeByPeriod(b, ((-3, -1, a), (0, 4, a), (5, 5, free), (6, 6, b)))
    assert told.parts == ((-3, 4, a), (6, 6, b))
    assert not told.free
    assert GuaranteeByPeriod(b, ((5, 5, free),)).free
    for wrong in (((1, 0, a),), ((0, 1, a), (1, 2, a)), ((3, 3, a), (1, 1, a)), ((0, 0, told),)):
        with pytest.raises(InvalidArgument, match="parts"):
            GuaranteeByPeriod(b, wrong)
    for whole in (told, free):
        with pytest.raises(InvalidArgument, match="whole"):
            GuaranteeByPeriod(whole, ((0, 0, a),))
    record = told.to_record()
    for wrong in ({"epsilon": "2"}, {"kind": "guarantee.pure", "epsilon": "1"}, {"more": 1}, []):
        parts = [{"first": 0, "last": 0, "changes": wrong}]
        with pytest.raises(RecordError):
            GuaranteeByPeriod.from_record({**record, "parts": parts})


def test_a_charge_tells_the_periods_of_its_desk():
    odometer = opened()
    odometer.between(3, 9).charge(PureGuarantee("0.1"), "a")
    (charge,) = odometer.ledger_charges()
    assert charge.payer == Payer(periods=(3, 9))
    for wrong in ([9, 3], [3], [3, 4, 5], ["3", 4], [True, 4], None):
        record = charge.to_record()
        record["payer"]["periods"] = wrong
        for read in (Charge.from_record, charge_of):
            with pytest.raises(RecordError):
                read(record)


def nightly(odometer, nights):
    for night in range(30, nights):
        odometer.between(night - 6, night).charge(DiscreteGaussianGuarantee(10**5, 40, 6), "week")
        odometer.between(night - 29, night).charge(DiscreteGaussianGuarantee(10**5, 9, 3), "month")


def test_the_last_week_and_month_every_night_take_a_few_steps_and_little_time():
    odometer = opened(last=400)
    nightly(odometer, 200)
    snapshot, decided, written = EMPTY, [], []
    for night in range(200, 220):
        start = time.process_time()
        odometer.between(night - 29, night).charge(DiscreteGaussianGuarantee(10**5, 9, 3), "m")
        decided.append(time.process_time() - start)
        start = time.process_time()
        snapshot = snapshot_of(odometer._ledger.read(), snapshot)
        written.append(time.process_time() - start)
    books = odometer._ledger.read()
    assert len(books.timeline.lines) < 70
    assert sorted(decided)[10] < 0.002
    assert sorted(written)[10] < 0.003


def test_a_timeline_looks_up_every_period():
    line = odometer_line = opened()._ledger.read().timeline.lines[0]
    marks = [line._replace(rho=number) for number in range(5)]
    known = Timeline((), (marks[0],)).replaced([(2, 4, marks[1]), (5, 5, marks[2])])
    assert [known.line(p).rho for p in range(8)] == [0, 0, 1, 1, 1, 2, 0, 0]
    known = known.replaced([(4, 4, marks[2]), (7, 9, marks[0])])
    assert [known.line(p).rho for p in range(8)] == [0, 0, 1, 1, 2, 2, 0, 0]
    assert known.starts == (2, 4, 6)
    assert list(known.steps(3, 6)) == [(3, 3, marks[1]), (4, 5, marks[2]), (6, 6, odometer_line)]


def test_what_the_periods_of_a_person_have_together_and_where_it_ends():
    budget, delta = Budget(1, "1e-6"), Budget(1, "1e-6").delta
    epsilon, leaked = budget.epsilon, Fraction(0)
    for periods in range(1, 15):  # one step from kind to kind after the other
        leaked = leaked * Fraction(math.e) + delta
        known = together(budget, periods)
        assert known[0] == periods * epsilon
        assert float(known[1]) == pytest.approx(float(leaked), rel=1e-9)
    assert [f"{float(together(budget, n)[1]):.2g}" for n in (7, 14, 15)] == ["0.00064", "0.7", "1"]
    assert most_together(budget) == 14
    assert most_together(Budget(1)) is None
    assert most_together(Budget("1e-9", "0.3")) == 3
    assert most_together(Budget(1000, "1e-6")) == 1
    for most in (5, 1000):
        small = Budget("0.001", Fraction(1, most + 3))
        assert together(small, most_together(small))[1] < 1
        assert together(small, most_together(small) + 1)[1] == 1
    assert together(budget, 10**30)[1] == 1
    for wrong in (0, -1, 1.5, "1"):
        with pytest.raises(InvalidArgument, match="periods"):
            together(budget, wrong)
