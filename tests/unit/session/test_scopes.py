import html
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve

from dpsdk import Budget, Categorical, Domain, Neighbors, PrivateData, Session
from dpsdk._checks import shown
from dpsdk.accounting import (
    AnyOf,
    BasicComposition,
    DiscreteLaplaceGuarantee,
    ZCDPComposition,
    nested,
)
from dpsdk.accounting.filters.composition import is_open
from dpsdk.data.part import Parts
from dpsdk.data.vault import open_histogram
from dpsdk.errors import (
    BudgetExceeded,
    Closed,
    InvalidArgument,
    LedgerConflict,
    PublicSizeRequired,
    UnknownAttribute,
    UnknownLabel,
)
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Conjunction, Count, Marginal, Mean, Sum, Threshold
from dpsdk.testing.noise import seeded
from worlds import PEOPLE, QUIET, columns, inside, people, table

ROWS = people(120, 11)
BOTH = list(Neighbors)


def opened(neighbors=Neighbors.REPLACE_ONE, epsilon=1, delta=0):
    return Session(table(ROWS, neighbors), Budget(epsilon, delta), noise=seeded(5))


def test_a_scope_answers_like_its_session():
    whole, session = opened(), opened()
    with session.scope("same", share=1) as scope:
        for query in (Threshold("age", 20), Marginal("sex"), Mean("age")):
            one = whole.release(query, using=Laplace(0.1))
            two = scope.release(query, using=Laplace(0.1))
            assert repr(one) == repr(two)
            assert scope.quote(query, using=Laplace(0.1)).error() == one.error()
    assert session.spent.epsilon == whole.spent.epsilon == Fraction(3, 10)
    assert session.history == tuple(evolve(one, scope="same") for one in whole.history)


def test_a_scope_stops_at_its_cap_and_the_session_goes_on():
    session = opened()
    with session.scope("small", share="0.2") as scope:
        assert scope.affords(Count(), using=Laplace(0.1)) == 2
        scope.answer(Count(), using=Laplace(0.1))
        with pytest.raises(BudgetExceeded, match="scope 'small'"):
            scope.answer(Count(), using=Laplace("0.11"))
        assert scope.remaining.epsilon == Fraction(1, 10)
    assert session.affords(Count(), using=Laplace(0.1)) == 9


def test_a_scope_may_be_capped_by_a_budget():
    session = opened(epsilon=1, delta=1e-6)
    with session.scope("capped", epsilon="0.25", delta="1e-7") as scope:
        assert scope.affords(Count(), using=Laplace("0.05")) == 5
        assert "(0.25, 1e-7)-DP" in str(scope.spent)


def test_a_reserved_share_is_kept_from_others_until_the_scope_closes():
    session = opened()
    scope = session.scope("kept", share="0.5", reserve=True)
    assert session.affords(Count(), using=Laplace(0.1)) == 5
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Laplace("0.6"))
    scope.answer(Count(), using=Laplace("0.2"))
    scope.close()
    session.answer(Count(), using=Laplace("0.8"))
    assert session.remaining.epsilon == 0


def test_channels_of_a_scope_pay_within_it_and_close_with_it():
    session = opened()
    with session.scope("with a channel", share="0.2") as scope:
        channel = scope.open(Laplace(0.1))
        channel.answer(Count())
        assert scope.answer(Count(), using=channel) is not None
        with pytest.raises(BudgetExceeded, match="with a channel"):
            channel.answer(Count())
        with pytest.raises(InvalidArgument, match="using"):
            session.answer(Count(), using=channel)
        outside = session.open(Laplace(0.1))
        with pytest.raises(InvalidArgument, match="using"):
            scope.answer(Count(), using=outside)
    with pytest.raises(Closed, match="the scope 'with a channel'"):
        channel.answer(Count())
    with pytest.raises(Closed, match="the scope"):
        scope.answer(Count(), using=Laplace(0.1))
    outside.answer(Count())
    assert session.spent.epsilon == Fraction(3, 10)


def test_a_closed_session_closes_its_scopes_and_parts():
    session = opened()
    scope, parts = session.scope("open", share=1), session.partition("sex")
    part = parts["Male"]
    session.close()
    for ask in (
        lambda: scope.answer(Count(), using=Laplace(0.1)),
        lambda: part.answer(Count(normalized=False), using=Laplace(0.1)),
        lambda: parts["Female"],
        lambda: session.scope("late", share=1),
        lambda: session.partition("sex"),
    ):
        with pytest.raises(Closed, match="the session"):
            ask()


def test_a_scope_needs_one_kind_of_cap():
    session = opened()
    for given in ({}, {"share": 1, "epsilon": 1}, {"share": 1, "delta": 0.1}, {"delta": 0.1}):
        with pytest.raises(InvalidArgument, match="scope"):
            session.scope("bad", **given)
    with pytest.raises(InvalidArgument, match="name"):
        session.scope("", share=1)


def test_threads_share_a_scope():
    session = opened(epsilon=1)
    with session.scope("shared", share="0.5") as scope, ThreadPoolExecutor(4) as pool:

        def ask(_):
            try:
                scope.answer(Count(), using=Laplace("0.01"))
            except BudgetExceeded:
                return False
            return True

        assert sum(pool.map(ask, range(80))) == 50
    assert session.spent.epsilon == Fraction(1, 2)


def of_sex(sex):
    return [row for row in ROWS if row["sex"] == sex and inside(row)]


@pytest.mark.parametrize("neighbors", BOTH)
def test_a_part_answers_for_its_rows_alone(neighbors):
    session = Session(table(ROWS, neighbors), Budget(10**12), noise=seeded(1))
    with session.partition("sex") as parts:
        for sex in ("Female", "Male"):
            part, rows = parts[sex], of_sex(sex)
            assert part.answer(Count(normalized=False), using=QUIET) == pytest.approx(len(rows))
            counts = part.answer(Marginal("age", normalized=False), using=QUIET).values
            assert counts == pytest.approx(
                np.bincount([int(str(row["age"])) - 17 for row in rows], minlength=8)
            )
            other = {"Female": "Male", "Male": "Female"}[sex]
            stray = part.answer(Conjunction({"sex": other}, normalized=False), using=QUIET)
            assert stray == pytest.approx(0)
            age = part.answer(Mean("age"), using=QUIET)
            assert age == pytest.approx(np.mean([int(str(row["age"])) for row in rows]))


def test_a_share_in_a_part_is_one_of_all_rows():
    session = Session(table(ROWS), Budget(10**12), noise=seeded(1))
    with session.partition("sex") as parts:
        share = parts["Male"].answer(Threshold("age", 20), using=QUIET)
    young = sum(int(str(row["age"])) <= 20 for row in of_sex("Male"))
    assert share == pytest.approx(young / len(ROWS))
    with opened(Neighbors.ADD_REMOVE).partition("sex") as parts, pytest.raises(PublicSizeRequired):
        parts["Male"].answer(Threshold("age", 20), using=Laplace(0.1))


def tables_but_for(row, neighbors):
    """The table, and its neighbours in one row of another part."""
    yield table([*ROWS, row], neighbors, max_rows=200)
    if neighbors is Neighbors.ADD_REMOVE:
        yield table(ROWS, neighbors, max_rows=200)
    else:
        for changed in ({"age": 24}, {"member": True}, {"hours": None}):
            yield table([*ROWS, row | changed], neighbors, max_rows=200)


def test_the_rows_of_a_part_are_as_public_as_those_of_the_table():
    for neighbors, expected in (
        (Neighbors.REPLACE_ONE, len(ROWS)),
        (Neighbors.ADD_REMOVE, len(of_sex("Male"))),
    ):
        parts = Parts.by(table(ROWS, neighbors), "sex")
        part = parts.table(parts.cell("Male"))
        assert open_histogram(part).rows == expected
        assert part.facts.rows == (len(ROWS) if neighbors is Neighbors.REPLACE_ONE else None)


@pytest.mark.parametrize("neighbors", BOTH)
def test_a_part_is_the_same_whatever_rows_of_other_parts_are(neighbors):
    row = {"age": 17, "sex": "Female", "hours": 3.5, "member": False}
    seen = set()
    for data in tables_but_for(row, neighbors):
        session = Session(data, Budget(100), noise=seeded(9))
        with session.partition("sex") as parts:
            part = parts["Male"]
            queries = (Marginal("age", "member", normalized=False), Sum("age", normalized=False))
            seen.add(repr([part.release(query, using=Laplace(1)) for query in queries]))
    assert len(seen) == 1


def test_a_part_is_priced_for_rows_that_leave_it():
    # In the whole table the number of rows is public; that of a part is not.
    data = PrivateData.from_columns(columns(people(30, 2, stray=False)), PEOPLE, outside="raise")
    session = Session(data, Budget(1), noise=seeded(1))
    assert session.release(Count(), using=Laplace(0.1)).cost.free
    with session.partition("sex") as parts:
        release = parts["Male"].release(Count(), using=Laplace(0.1))
    (guarantee,) = release.cost.guarantees
    assert isinstance(guarantee, DiscreteLaplaceGuarantee)
    assert guarantee.epsilon == Fraction(1, 10)


def test_parts_cost_the_dearest_under_add_remove():
    session = opened(Neighbors.ADD_REMOVE)
    count = Count(normalized=False)
    with session.partition("age") as parts:
        for age in range(17, 25):
            parts[age].answer(count, using=Laplace("0.4"))
        parts[20].answer(count, using=Laplace("0.2"))
        assert session.spent.epsilon == Fraction(6, 10)
        assert parts[20].affords(count, using=Laplace("0.1")) == 4
        assert parts[21].affords(count, using=Laplace("0.1")) == 6
    assert session.spent.epsilon == Fraction(6, 10)
    assert session.affords(count, using=Laplace("0.1")) == 4
    assert len(session.history) == 9


def test_parts_cost_the_two_dearest_under_replace_one():
    session = opened()
    count = Count(normalized=False)
    with session.partition("age") as parts:
        for age in range(17, 25):
            parts[age].answer(count, using=Laplace("0.3"))
        assert session.spent.epsilon == Fraction(6, 10)
        session.answer(count, using=Laplace("0.2"))
        with pytest.raises(BudgetExceeded):
            parts[17].answer(count, using=Laplace("0.3"))
        parts[17].answer(count, using=Laplace("0.2"))
    assert session.remaining.epsilon == 0


def test_parts_work_with_gaussians_and_channels():
    session = Session(
        table(ROWS, Neighbors.ADD_REMOVE),
        Budget(1, 1e-6),
        composition=ZCDPComposition(),
        noise=seeded(1),
    )
    with session.partition("sex") as parts:
        for sex in ("Female", "Male"):
            channel = parts[sex].open(Gaussian(rho="0.01"))
            channel.answer(Marginal("age", normalized=False))
        assert session.spent.rho == Fraction(1, 100)
        part = parts["Male"]
        assert parts["Male"] is part
    with pytest.raises(Closed, match="the partition by 'sex'"):
        part.answer(Count(normalized=False), using=Laplace(0.1))
    with pytest.raises(Closed, match="the partition by 'sex'"):
        channel.answer(Marginal("age", normalized=False))


def test_one_partition_is_open_at_a_time():
    session = opened()
    first = session.partition("sex")
    with pytest.raises(InvalidArgument, match="one partition"):
        session.partition("age")
    first.close()
    first.close()
    with session.partition("member") as parts, pytest.raises(UnknownLabel):
        parts["maybe"]
    with pytest.raises(UnknownAttribute):
        session.partition("shoe size")
    session.partition("age").close()


def test_a_partition_with_few_gains_says_what_it_costs_of_the_budget():
    session = Session(table(ROWS), Budget(1), composition=BasicComposition(), noise=seeded(1))
    with session.partition("sex") as parts:
        for sex in ("Female", "Male"):
            parts[sex].answer(Count(normalized=False), using=Laplace("0.5"))
        assert repr(parts).startswith("Partition(")
        assert "epsilon 1" in repr(parts["Male"])
    # Two parts, between which a row may move: no cheaper than asking the whole table twice.
    assert session.remaining.epsilon == 0


def test_a_scope_shares_the_forms_of_its_session_and_not_its_channels(monkeypatch):
    lowered, lower = [], Count.lower

    def counted(self, domain, /):
        lowered.append(self)
        return lower(self, domain)

    monkeypatch.setattr(Count, "lower", counted)
    session, query = opened(), Count()
    scope = session.scope("some", epsilon="0.5")
    for desk in (session, scope):
        desk.answer(query, using=Laplace("0.1"))
    assert len(lowered) == 1
    with session.open(Laplace("0.1")) as channel, pytest.raises(InvalidArgument, match="using"):
        scope.answer(query, using=channel)
    with scope.open(Laplace("0.1")) as channel, pytest.raises(InvalidArgument, match="using"):
        session.answer(query, using=channel)


def moved(state, by):
    """A cap as a machine whose last digits are others works it out."""
    limit = tuple([int(one * (1 + by)) for one in state.limit])
    parts = tuple([moved(part, by) if is_open(part) else part for part in state.parts])
    return state._replace(limit=limit, parts=parts)


@pytest.mark.parametrize("cap", [{"epsilon": "0.5", "delta": "1e-7"}, {"share": "0.5"}], ids=str)
@pytest.mark.parametrize(("by", "same"), [("1e-13", True), ("-1e-13", True), ("1e-6", False)])
def test_a_scope_is_the_same_where_its_cap_was_worked_out_elsewhere(monkeypatch, cap, by, same):
    session = opened(delta=1e-6)
    first = session.scope("weekly", **cap)
    first.answer(Count(normalized=False), using=Laplace("0.01"))
    for owner, name in ((AnyOf, "begin"), (nested, "share_of")):
        known = getattr(owner, name)
        other = lambda *given, known=known: moved(known(*given), Fraction(by))  # noqa: E731
        monkeypatch.setattr(owner, name, other)
    if not same:
        with pytest.raises(LedgerConflict, match="weekly"):
            session.scope("weekly", **cap)
        return
    again = session.scope("weekly", **cap)
    assert again.spent.rho == first.spent.rho
    assert again.spent.charges == 1


@pytest.mark.parametrize("name", ["a, b", "it's", ' "q" ', "two\nlines", "x" * 300])
def test_sentences_quote_the_name_of_a_scope(name):
    session = opened(BOTH[0])
    scope = session.scope(name, "0.25")
    with pytest.raises(BudgetExceeded) as refused:
        scope.answer(Count(), using=Laplace(100))
    quoted = shown(name)
    place = refused.value.shortages[0].within
    assert place.startswith("basic composition in scope ")
    assert f"100% of scope {quoted} (25% of " in str(refused.value)
    assert "), by" not in str(refused.value)
    assert str(scope.spent).count(quoted) == 1
    scope.close()
    with pytest.raises(Closed, match=f"^the scope {re.escape(quoted)} is closed$"):
        scope.answer(Count(), using=Laplace("0.1"))


def test_sentences_quote_attributes_and_labels():
    domain = Domain(Categorical("a, b", ["x, y", "z"]))
    data = PrivateData.from_columns({"a, b": ["z"]}, domain, name="people")
    session = Session(data, Budget(1))
    with session.partition("a, b") as parts:
        part = parts["x, y"]
    with pytest.raises(Closed, match=r"^the partition by 'a, b' is closed$"):
        part.answer(Count(), using=Laplace("0.1"))
    assert "Part 'x, y' of 'a, b'" in html.unescape(part._repr_html_())


def test_a_scope_of_a_taken_name_says_what_differs():
    session = opened(BOTH[0])
    held = session.scope("a, b", "0.5", reserve=True)
    with pytest.raises(LedgerConflict, match=r"scope 'a, b' with the cap 50% of .*cap 25% of "):
        session.scope("a, b", "0.25", reserve=True)
    with pytest.raises(LedgerConflict, match="'a, b' with a reserve; got one without a reserve"):
        session.scope("a, b", "0.5")
    held.close()
    held = session.scope("a, b", "0.5")
    with pytest.raises(LedgerConflict, match="without a reserve; got one with a reserve"):
        session.scope("a, b", "0.5", reserve=True)
    held.close()


def test_the_former_name_of_the_query_interface_warns():
    with pytest.warns(DeprecationWarning, match="query_interface"):
        from dpsdk.session.desk import Desk  # which warns
    assert issubclass(Session, Desk)
