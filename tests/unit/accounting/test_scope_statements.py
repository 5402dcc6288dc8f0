"""What a session tells of the scopes on its ledger, whoever opened them."""

import gc

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee, SQLiteLedger
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count


def session_on(ledger=None):
    data = PrivateData.from_columns({"age": [1, 2]}, Domain(Integer("age", 0, 9)), name="people")
    return Session(data, Budget(1), composition=BasicComposition(), ledger=ledger)


COUNT = Count(normalized=False)


def test_scopes_of_other_sessions_on_a_ledger_are_told_of(quick_disk):
    ledger = SQLiteLedger(quick_disk / "spend.db")
    mine, other = session_on(ledger), session_on(ledger)
    scope = mine.scope("anna", "0.5", reserve=True)
    scope.answer(COUNT, using=Laplace("0.1"))
    [told] = other.scopes
    assert (told.name, told.cap, told.reserve, told.closed) == ("anna", "50% of 1-DP", True, False)
    assert (told.spent.fraction, told.remaining) == (scope.spent.fraction, scope.remaining)
    assert told.spent.charges == 1
    scope.close()
    assert [one.name for one in other.scopes if not one.closed] == []


def test_a_look_at_scopes_keeps_and_charges_nothing():
    session = session_on()
    scope = session.scope("anna", "0.5", reserve=True)
    before = session.spent, session.remaining
    told = session.scopes
    assert (session.spent, session.remaining) == before
    with pytest.raises(AttributeError):
        told[0].name = "bob"
    del scope
    gc.collect()
    session.answer(COUNT, using=Laplace("0.9"))  # which did not fit while half was set aside
    assert session.scopes == ()


def test_caps_are_shares_where_they_are_one():
    whole = Odometer(Budget(1))
    outer = ScopeOdometer(whole, "outer", "0.5")
    inner = ScopeOdometer(outer, "inner", "0.1")
    apart = ScopeOdometer(whole, "apart", Budget("0.5", 0))
    inner.charge(PureGuarantee("0.01"), "a count")
    told = ScopeOdometer.within(whole)
    assert [one.cap for one in told][:2] == ["50% of 1-DP", "10% of 1-DP"]
    assert [one.remaining for one in told] == [outer.remaining, inner.remaining, apart.remaining]
    assert [one.spent.fraction for one in told] == [
        outer.spent.fraction,
        inner.spent.fraction,
        apart.spent.fraction,
    ]
    assert [one.name for one in ScopeOdometer.within(outer)] == ["inner"]


def test_scopes_are_told_of_while_the_table_is_divided():
    session = session_on()
    scope = session.scope("anna", "0.5")
    scope.answer(COUNT, using=Laplace("0.1"))
    with session.partition("age") as parts:
        parts[1].answer(COUNT, using=Laplace("0.2"))
        [told] = session.scopes
        assert (told.spent.fraction, told.remaining) == (scope.spent.fraction, scope.remaining)
