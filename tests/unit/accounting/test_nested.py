from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from dpsdk.accounting import (
    AnyOf,
    BasicComposition,
    Budget,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    MemoryLedger,
    Odometer,
    PureGuarantee,
    State,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.filters.composition import lessened, serves, share_of, worst
from dpsdk.accounting.ledger.books import find_account
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.errors import (
    BudgetExceeded,
    Closed,
    InvalidArgument,
    LedgerConflict,
    NotCopyable,
    UnsupportedGuarantee,
)

BUDGET = Budget(1, 1e-6)
TENTH = PureGuarantee("0.1")
SMALL = PureGuarantee("0.02")
WIDE = DiscreteGaussianGuarantee(10_000, 1, 1)
FILTERS = [BasicComposition(), ZCDPComposition(), EnvelopeComposition(), default_composition()]


def basic():
    return Odometer(Budget(1), BasicComposition())


def spend(odometer, guarantee):
    """Charge until refused."""
    for count in range(5_000):
        try:
            odometer.charge(guarantee, "test")
        except BudgetExceeded:
            return count
    pytest.fail("never refused")


def test_a_refusal_by_the_cap_names_the_scope_and_changes_nothing():
    outer = basic()
    scope = ScopeOdometer(outer, "weekly", "0.3")
    with pytest.raises(BudgetExceeded) as caught:
        scope.charge(PureGuarantee("0.4"), "too much")
    assert "scope 'weekly' (30% of 1-DP)" in str(caught.value)
    assert outer.spent.charges == scope.spent.charges == 0
    scope.charge(TENTH, "fits")


def test_a_refusal_by_the_session_does_not_touch_the_scope():
    outer = basic()
    scope = ScopeOdometer(outer, "weekly", "0.5")
    outer.charge(PureGuarantee("0.95"), "elsewhere")
    with pytest.raises(BudgetExceeded) as caught:
        scope.charge(TENTH, "does not fit the session")
    assert "scope" not in str(caught.value)
    assert scope.spent.charges == 0
    assert scope.spent.fraction == 0.0
    assert scope.remaining.epsilon == Fraction(1, 20)


def test_a_cap_may_be_a_budget_of_its_own():
    outer = Odometer(BUDGET, default_composition())
    scope = ScopeOdometer(outer, "part", Budget("0.5", 1e-7))
    alone = Odometer(Budget("0.5", 1e-7), default_composition())
    for guarantee in (PureGuarantee("0.01"), WIDE, TENTH):
        assert scope.affords(guarantee) == alone.affords(guarantee)
    assert spend(scope, WIDE) == spend(alone, WIDE)


@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: type(c).__name__)
def test_scopes_and_parts_count_several_runs_together(composition):
    outer = Odometer(BUDGET, composition)
    outer.charge(TENTH, "before")
    runs = (PureGuarantee("0.004"), PureGuarantee("0.01"))
    scope = ScopeOdometer(outer, "scope", "0.5")
    part = parts_of(outer, 3, moves=True)[1]
    for odometer in (scope, part):
        promised = odometer.affords_all(runs)
        assert promised
        for _ in range(promised):
            odometer.charge_all(runs, "together")
        with pytest.raises(BudgetExceeded):
            odometer.charge_all(runs, "one more")


def test_without_delta_a_share_may_be_reserved_of_what_there_is():
    outer = Odometer(Budget(1), default_composition())
    scope = ScopeOdometer(outer, "kept", "0.5", reserve=True)
    other = ScopeOdometer(outer, "other", Budget("0.2"), reserve=True)
    assert outer.affords(TENTH) == 3
    assert scope.affords(TENTH) == 5
    assert other.affords(TENTH) == 2
    with pytest.raises(UnsupportedGuarantee):
        outer.charge(WIDE, "no delta")
    outer.charge(PureGuarantee(0), "free")


def test_a_cap_without_delta_may_be_reserved_of_a_budget_with_it():
    outer = Odometer(BUDGET, default_composition())
    scope = ScopeOdometer(outer, "pure", Budget("0.3"), reserve=True)
    assert outer.affords(TENTH) == 7
    assert scope.affords(TENTH) == 3
    # Only the basic count can serve the reserve, so nobody may close it.
    spend(outer, WIDE)
    spend(outer, SMALL)
    assert spend(scope, TENTH) == 3


def test_a_larger_cap_than_the_budget_is_no_way_around_it():
    outer = basic()
    scope = ScopeOdometer(outer, "greedy", Budget(100))
    assert scope.affords(TENTH) == 10
    assert spend(scope, TENTH) == 10


def test_scopes_nest():
    outer = basic()
    middle = ScopeOdometer(outer, "middle", "0.5")
    inner = ScopeOdometer(middle, "inner", "0.5")
    assert inner.affords(PureGuarantee("0.05")) == 5
    assert spend(inner, PureGuarantee("0.05")) == 5
    assert middle.spent.epsilon == outer.spent.epsilon == Fraction(1, 4)
    assert spend(middle, PureGuarantee("0.05")) == 5
    assert inner.affords(PureGuarantee("0.05")) == 0


@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: type(c).__name__)
def test_scopes_cannot_spend_more_than_the_session(composition):
    alone = spend(Odometer(BUDGET, composition), SMALL)
    outer = Odometer(BUDGET, composition)
    scopes = [ScopeOdometer(outer, str(place), "0.6") for place in range(3)]
    assert sum(spend(scope, SMALL) for scope in scopes) <= alone
    assert spend(outer, SMALL) == 0


@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: type(c).__name__)
def test_what_is_reserved_is_there_whatever_others_spent(composition):
    outer = Odometer(BUDGET, composition)
    scope = ScopeOdometer(outer, "kept", "0.4", reserve=True)
    promised = scope.affords(SMALL)
    assert promised
    others = spend(outer, SMALL)
    assert others >= 1
    assert outer.affords(SMALL) == 0
    assert scope.affords(SMALL) == promised
    assert spend(scope, SMALL) == promised


def test_without_a_reserve_others_may_take_it():
    outer = basic()
    scope = ScopeOdometer(outer, "late", "0.4")
    assert spend(outer, TENTH) == 10
    assert scope.affords(TENTH) == 0


def test_reserves_never_promise_more_than_there_is():
    outer = basic()
    first = ScopeOdometer(outer, "first", "0.6", reserve=True)
    with pytest.raises(BudgetExceeded, match="a reserve of 50%"):
        ScopeOdometer(outer, "second", "0.5", reserve=True)
    second = ScopeOdometer(outer, "second", "0.4", reserve=True)
    assert outer.affords(TENTH) == 0
    assert second.affords(TENTH) == 4
    assert first.affords(TENTH) == 6
    del first
    assert outer.affords(TENTH) == 6


def test_a_reserve_in_several_counts_lasts_as_long_as_one_stays_open():
    outer = Odometer(BUDGET, default_composition())
    scope = ScopeOdometer(outer, "kept", "0.4", reserve=True)
    outer.charge(WIDE, "closes basic composition")
    alone = Odometer(BUDGET, EnvelopeComposition())
    expected = ScopeOdometer(alone, "alone", "0.4").affords(SMALL)
    spend(outer, SMALL)
    assert scope.affords(SMALL) == expected


@pytest.mark.thorough
def test_threads_do_not_overspend_a_scope():
    outer = basic()
    scope = ScopeOdometer(outer, "shared", "0.5", reserve=True)
    tiny = PureGuarantee("0.001")

    def work(place):
        done = 0
        for _ in range(300):
            try:
                (scope if place % 2 else outer).charge(tiny, "thread")
                done += 1
            except BudgetExceeded:
                pass
        return done

    with ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(work, range(8)))
    assert total == 1000
    assert scope.spent.charges == outer.spent.charges - 500 == 500


def test_bad_scopes_are_refused():
    for share in (0, "1.01", -1):
        with pytest.raises(InvalidArgument, match="share"):
            ScopeOdometer(basic(), "bad", share)
    with pytest.raises(NotCopyable):
        ScopeOdometer(basic(), "copy", 1).__reduce_ex__(2)


def parts_of(outer, parts, *, moves):
    generation = outer.generation()
    outer.divide(generation, parts, moves=moves)
    return [PartOdometer(outer, f"part {place}", generation, place) for place in range(parts)]


def merge(outer):
    """End the open division."""
    division = outer._ledger.read().division
    outer.merge(division.generation)


def test_parts_cost_their_maximum_where_a_row_is_in_one_part():
    outer = basic()
    parts = parts_of(outer, 3, moves=False)
    assert [spend(part, TENTH) for part in parts] == [10, 10, 10]
    assert outer.spent.epsilon == 1
    assert outer.spent.charges == 30
    merge(outer)
    assert outer.affords(TENTH) == 0


def test_parts_cost_the_two_dearest_where_a_row_may_move():
    outer = basic()
    parts = parts_of(outer, 4, moves=True)
    for part, count in zip(parts, (1, 3, 2, 2), strict=True):
        for _ in range(count):
            part.charge(TENTH, "part")
    assert outer.spent.epsilon == Fraction(5, 10)
    assert parts[0].spent.epsilon == Fraction(4, 10)
    assert parts[0].affords(TENTH) == 6
    assert parts[1].affords(TENTH) == 5
    merge(outer)
    assert outer.spent.epsilon == Fraction(5, 10)
    assert outer.affords(TENTH) == 5


def test_charges_of_the_session_count_for_every_part():
    outer = basic()
    parts = parts_of(outer, 2, moves=False)
    parts[0].charge(PureGuarantee("0.7"), "part")
    assert outer.affords(TENTH) == 3
    outer.charge(TENTH, "session")
    assert [part.affords(TENTH) for part in parts] == [2, 9]


def test_one_part_alone_is_the_whole_session():
    for moves in (True, False):
        outer = basic()
        (part,) = parts_of(outer, 1, moves=moves)
        assert spend(part, TENTH) == 10


def test_one_partition_at_a_time_and_closed_parts_charge_nothing():
    outer = basic()
    parts = parts_of(outer, 2, moves=False)
    with pytest.raises(InvalidArgument, match="one partition"):
        outer.divide(outer.generation(), 2, moves=False)
    single = basic()
    single.divide(single.generation(), 1, moves=True)
    with pytest.raises(InvalidArgument, match="one partition"):
        single.divide(single.generation(), 2, moves=True)
    with pytest.raises(InvalidArgument, match="parts"):
        basic().divide(1, 0, moves=True)
    merge(outer)
    with pytest.raises(Closed, match="part 0"):
        parts[0].charge(TENTH, "late")
    assert outer.spent.charges == 0


def test_a_merged_state_admits_only_what_each_admits():
    composition = AnyOf((BasicComposition(), EnvelopeComposition()))
    start = composition.begin(BUDGET)
    one = composition.charge(start, WIDE)  # closes basic composition
    two = composition.charge(start, PureGuarantee("0.3"))  # closes the envelope
    assert one is not None
    assert two is not None
    assert composition.charge(worst([one, two]), PureGuarantee("1e-9")) is None
    assert worst([start, one]) == one
    assert worst([two, two]) is two


def test_states_are_lessened_axis_by_axis():
    state = State((3, 0), (10, 5))
    assert lessened(state, [State((1, 0), (4, 2))]) == State((3, 0), (7, 3))
    assert lessened(state, [State((0, 0), (9, 9))]) == State((3, 0), (3, 0))
    assert lessened(state, []) is state
    assert share_of(state, Fraction(1, 3)) == State((0, 0), (3, 1))
    nested = State((), (), (state, None))
    # No member that is open here can serve what is held there.
    assert lessened(nested, [State((), (), (None, state))]) == State((), (), (None, None))
    assert serves(state, [State((0, 0), (7, 5))])
    assert not serves(state, [State((0, 0), (8, 5))])
    assert not serves(state, [State((0, 0), (4, 0))] * 2)
    assert not serves(nested, [State((), (), (None, state))])


def test_members_that_cannot_hold_a_reserve_are_left_out_of_it():
    both = AnyOf((BasicComposition(), ZCDPComposition()))
    outer = Odometer(BUDGET, both)
    for _ in range(8):
        outer.charge(PureGuarantee("0.05"), "test")
    # Of zCDP 0.01 of 0.024 is spent, of basic composition 0.4 of 1.
    scope = ScopeOdometer(outer, "kept", "0.599", reserve=True)
    assert scope.state.parts[1] is None
    assert spend(scope, PureGuarantee("0.05")) == 11


def test_scopes_of_one_name_are_one():
    ledger = MemoryLedger()
    first, second = (Odometer(Budget(1), BasicComposition(), ledger=ledger) for _ in range(2))
    scope = ScopeOdometer(first, "weekly", "0.5")
    scope.charge(TENTH, "a")
    again = ScopeOdometer(second, "weekly", "0.5")
    again.charge(TENTH, "b")
    assert scope.spent == again.spent
    assert scope.affords(TENTH) == again.affords(TENTH) == 3
    assert [one.scope for one in first.charges] == ["weekly", "weekly"]
    for cap, reserve in (("0.4", False), ("0.5", True), (Budget("0.5", "1e-7"), False)):
        with pytest.raises(LedgerConflict, match="weekly"):
            ScopeOdometer(second, "weekly", cap, reserve=reserve)
    with pytest.raises(LedgerConflict, match="weekly"):
        ScopeOdometer(ScopeOdometer(second, "other", "0.5"), "weekly", "0.5")
    assert second.count == 2


def test_a_name_is_free_again_once_its_scope_was_closed_or_nobody_holds_it():
    odometer = Odometer(Budget(1), BasicComposition())
    scope = ScopeOdometer(odometer, "weekly", "0.5")
    scope.charge(TENTH, "a")
    scope.close()
    fresh = ScopeOdometer(odometer, "weekly", "0.2")
    assert fresh.affords(TENTH) == 2
    assert scope.spent.charges == 1
    with pytest.raises(Closed):
        scope.charge(TENTH, "late")
    again = ScopeOdometer(odometer, "weekly", "0.2")
    del fresh
    again.charge(TENTH, "b")  # it is held still
    assert again.affords(TENTH) == 1
    del again
    assert ScopeOdometer(odometer, "weekly", "0.3").affords(TENTH) == 3
    numbers = {one.payer.accounts for one in odometer.charges}
    assert len(numbers) == 2


def test_closing_one_of_a_name_closes_all():
    odometer = Odometer(Budget(1), BasicComposition())
    scopes = [ScopeOdometer(odometer, "weekly", "0.5", reserve=True) for _ in range(2)]
    scopes[0].close()
    with pytest.raises(Closed):
        scopes[1].charge(TENTH, "late")
    assert odometer.remaining.epsilon == 1


def test_a_name_within_a_scope_that_was_closed_is_free():
    odometer = Odometer(Budget(1), BasicComposition())
    outer = ScopeOdometer(odometer, "outer", "0.5")
    inner = ScopeOdometer(outer, "inner", "0.4")
    outer.close()
    fresh = ScopeOdometer(odometer, "inner", "0.3")
    assert fresh.affords(TENTH) == 3
    with pytest.raises(Closed, match="outer"):
        inner.charge(TENTH, "late")


def test_a_scope_whose_last_holder_goes_while_another_opens_it_is_opened_anew(monkeypatch):
    odometer = Odometer(Budget(1), BasicComposition())
    held = [ScopeOdometer(odometer, "weekly", "0.5")]
    held[0].charge(TENTH, "a")

    def gone(books, name):
        held.clear()
        return find_account(books, name)

    monkeypatch.setattr("dpsdk.accounting.nested.find_account", gone)
    assert ScopeOdometer(odometer, "weekly", "0.2").affords(TENTH) == 2
