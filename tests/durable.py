"""What every ledger that lasts does alike, be it in a file or in a database."""

import random
import threading

import pytest

from dpsdk.accounting import (
    BasicComposition,
    Books,
    Budget,
    Dataset,
    Decision,
    Ledger,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
)
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.errors import (
    AlreadyCharged,
    BudgetExceeded,
    InvalidArgument,
    LedgerConflict,
    LedgerDamaged,
    Reentered,
)
from parallel import at_once, needs_fork
from spenders import (
    HUNDREDTH,
    fork_within_a_decision,
    killed,
    killed_by_period,
    opened,
    opened_by_period,
    serve_forked_workers,
    shared_by_period,
    shares,
    spend,
    written_meanwhile,
)

KEY = b"a key of thirty-two random bytes"


def throw(error):
    raise error


def spent(place, **given):
    """A ledger with the charges and answers of two tables."""
    ledger = place.ledger(**given)
    spend(ledger)
    return ledger


class DurableLedgers:
    """The tests of a fixture `place`, whose `ledger(**given)` opens the ledger that is there."""

    two_processes = 100, 20
    """The charges that fill the budget of the race of two, and how many each gets at the least."""

    def test_one_ledger_has_the_books_of_many_tables(self, place):
        ledger = place.ledger()
        assert isinstance(ledger, Ledger)
        assert (ledger.read(), list(ledger.charges()), ledger.stored("a")) == (Books(), [], None)
        one, other = opened(ledger, "one"), opened(ledger, "other", Budget(2))
        one.charge(HUNDREDTH, "x", request_id="a")
        other.charge_all([HUNDREDTH] * 3, "y", request_id="a")
        assert (one.count, other.count) == (1, 3)
        assert [charge.number for charge in other.charges] == [1, 2, 3]
        assert ledger.datasets == ("one", "other")
        with pytest.raises(InvalidArgument, match="dataset"):
            ledger.read()
        named = ledger.dataset("other")
        assert (named.read().runs, len(named.charges()), len(named.charges(2))) == (3, 3, 1)
        assert (len(named.charges(-1)), list(named.charges(9))) == (3, [])
        named.store("a", b"1")
        ledger.dataset("one").store("a", b"2")
        assert (named.stored("a"), ledger.dataset("one").stored("a")) == (b"1", b"2")
        with pytest.raises(InvalidArgument, match="answer"):
            named.store("a", b"3")
        assert ledger.dataset("third").read() == Books()
        with pytest.raises(LedgerConflict, match="dataset"):
            opened(named, "one")
        with pytest.raises(LedgerConflict, match="budget"):
            opened(place.ledger(), "other", Budget(1))
        with pytest.raises(LedgerConflict, match="composition"):
            Odometer(Budget(1), ZCDPComposition("0.1"), ledger=ledger, dataset=Dataset("one"))
        with pytest.raises(InvalidArgument, match="request_id"):
            ledger.dataset("third").store(" ", b"")
        for bad in (7, None, " ", "\ud800", b"one"):
            with pytest.raises(InvalidArgument, match="dataset"):
                ledger.dataset(bad)
        with pytest.raises(AlreadyCharged):
            opened(place.ledger(), "one").charge(HUNDREDTH, "x", request_id="a")
        assert ledger.verify() == 7

    @needs_fork
    def test_two_busy_processes_end_on_the_budget_with_about_equal_shares(self, place):
        runs, least = self.two_processes
        one, other = shares(place.ledger, 2, runs)
        assert one + other == runs
        assert min(one, other) >= least

    @needs_fork
    def test_a_process_that_is_killed_loses_no_charge(self, place):
        killed(place.ledger, random.Random(3), 8, 2)

    @needs_fork
    def test_a_kill_between_charge_and_answer_leaves_all_periods_charged_or_none(self, place):
        killed_by_period(place.ledger, 2)

    @needs_fork
    def test_two_processes_share_periods_as_one_after_the_other(self, place):
        shared_by_period(place.ledger)

    def test_a_ledger_keeps_to_its_periods_and_old_ones_to_having_none(self, place):
        ledger = place.ledger()
        opened(ledger, "old").charge(HUNDREDTH, "x")
        by_day = Dataset("old", periods="visited: date by day")
        basic = BasicComposition()
        with pytest.raises(LedgerConflict, match="periods"):
            Odometer(Budget(1), basic, ledger=ledger, dataset=by_day, periods=(0, 9))
        assert opened(place.ledger(), "old").count == 1
        odometer = opened_by_period(ledger)
        odometer.between(3, 4).charge(HUNDREDTH, "x")
        ScopeOdometer(odometer, "sums", "0.5", reserve=True, since=4)
        with pytest.raises(LedgerConflict, match="periods"):
            opened(ledger, "days")
        again = opened_by_period(place.ledger())
        assert again.periods() == odometer.periods()
        assert ScopeOdometer(again, "sums", "0.5", reserve=True, since=4).spent.charges == 0
        with pytest.raises(BudgetExceeded, match="reserved"):
            again.between(4, 5).charge(PureGuarantee("0.7"), "x")
        assert ledger.verify() == place.ledger().verify()

    @pytest.mark.audit
    @needs_fork
    def test_five_hundred_kills_lose_no_charge(self, place):
        killed(place.ledger, random.Random(5), 500, 4)

    def test_threads_take_turns_with_other_threads_and_other_objects(self, place):
        ledger = place.ledger()
        odometers = [opened(ledger), opened(ledger), opened(place.ledger())]
        done = []
        at_once(
            lambda odometer: done.extend(odometer.charge(HUNDREDTH, "x") for _ in range(10)),
            odometers * 2,
        )
        assert sorted(done) == list(range(1, 61))
        assert odometers[0].spent.epsilon == 60 * HUNDREDTH.epsilon
        assert len(ledger._store._idle) <= 4

    @needs_fork
    def test_one_ledger_serves_the_parent_and_forked_workers(self, place):
        serve_forked_workers(place.ledger())

    @needs_fork
    def test_a_process_that_is_forked_within_a_decision_takes_nothing(self, place):
        fork_within_a_decision(place.ledger())

    def test_a_decision_asks_its_ledger_for_nothing_and_what_it_raises_is_its_own(self, place):
        ledger = place.ledger()
        odometer = opened(ledger)

        def decide(books):
            with pytest.raises(Reentered):
                ledger.transact(Decision)
            with pytest.raises(Reentered):
                ledger.dataset("other").store("x", b"")
            assert ledger.read() == books
            return Decision(books)

        ledger.transact(decide)
        for error in (OSError(28, "of the decision"), KeyboardInterrupt()):
            with pytest.raises(type(error)) as caught:
                ledger.transact(lambda _, error=error: throw(error))
            assert caught.value is error
        assert odometer.charge(HUNDREDTH, "x") == 1
        assert opened(place.ledger()).count == 1

    def test_who_knows_the_key_alone_can_go_on(self, place):
        spent(place, key=KEY)
        for key in (None, KEY[::-1]):
            with pytest.raises(LedgerDamaged):
                place.ledger(key=key)
        assert place.ledger(key=KEY).verify() == 8

    def test_a_ledger_that_others_write_to_meanwhile_is_no_older_copy(self, place, tmp_path):
        written_meanwhile(lambda anchor: place.ledger(anchor=anchor), tmp_path / "anchor")

    def test_a_reader_whose_moment_is_older_than_what_others_wrote_is_no_older_copy(
        self, place, monkeypatch
    ):
        # Of SQLite with a log, since another journal lets nobody write while somebody reads.
        monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 51, 3))
        ledger = place.ledger()
        odometer = opened(ledger)

        def read(work):
            other = threading.Thread(target=odometer.charge, args=(HUNDREDTH, "x"))
            other.start()
            other.join()
            assert work.follow().seq == 1

        ledger._store.read(read)
        assert odometer.count == 1
