"""What type checkers must infer of the public API. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import assert_type

from acme_ledger import JSONLedger
from acme_median import Median, MedianAnswer
from acme_repeated import Repeated

from dpsdk import Budget, Channel, HypothesisChannel, PrivateData, Quote, Release, Session
from dpsdk.accounting import Books, Charge, Ledger, MemoryLedger, Readings, Remaining, Spent
from dpsdk.domain import Domain
from dpsdk.forms import Form, GapForm, LinearForm
from dpsdk.hypothesis import Hypothesis
from dpsdk.mechanisms import Gaussian, Laplace, Mechanism, NumericSparse, OneShot, OnlinePMW
from dpsdk.queries import (
    Above,
    Answers,
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    MarginalTable,
    Mean,
    Not,
    NumericAbove,
    Query,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.release import Bound, Cost
from dpsdk.session.history import Receipt
from dpsdk.typing import Floats


def answers_have_the_type_of_their_query(session: Session) -> None:
    laplace, gaussian = Laplace(epsilon=0.1), Gaussian(rho=0.005)
    assert_type(session.answer(Threshold("age", 40), using=laplace), float)
    assert_type(session.answer(Interval("age", 20, 40), using=gaussian), float)
    assert_type(session.answer(Conjunction({"sex": "Female"}), using=laplace), float)
    assert_type(session.answer(Conjunction({"age": Not(range(17, 30))}), using=laplace), float)
    assert_type(session.answer(Count(where={"sex": "Female"}), using=laplace), float)
    assert_type(session.answer(Sum("hours", normalized=False), using=laplace), float)
    assert_type(session.answer(Mean("hours"), using=laplace), float)
    assert_type(session.answer(Linear(lambda record: 0.5), using=laplace), float)
    assert_type(session.answer(Marginal("sex", "income"), using=gaussian), MarginalTable)
    assert_type(session.release(Threshold("age", 40), using=laplace), Release[float])
    assert_type(session.release(Marginal("sex"), using=laplace), Release[MarginalTable])


def names_are_given_one_by_one(table: MarginalTable) -> None:
    Marginal(["sex", "income"])  # type: ignore[arg-type]  # must stay an error
    table.project(["sex"])  # type: ignore[arg-type]  # must stay an error


def ledgers_need_no_base_class(data: PrivateData, budget: Budget) -> None:
    ledgers: list[Ledger] = [MemoryLedger(), JSONLedger(Path("spent.json"))]
    for ledger in ledgers:
        assert_type(Session(data, budget, ledger=ledger), Session)
        assert_type(ledger.read(), Books)
        assert_type(ledger.charges(), Sequence[Charge])
        assert_type(ledger.stored("request"), bytes | None)
        assert_type(Books.from_record(ledger.read().to_record()), Books)
    Session(data, budget, ledger="spent.json")  # type: ignore[arg-type]  # must stay an error


def scopes_and_parts_answer_like_sessions(session: Session) -> None:
    laplace = Laplace(epsilon=0.1)
    with session.scope("weekly", "0.2", reserve=True) as scope:
        assert_type(scope.answer(Marginal("sex"), using=laplace), MarginalTable)
        assert_type(scope.open(laplace), Channel[LinearForm])
        assert_type(scope.remaining, Remaining)
    with session.partition("sex") as parts:
        assert_type(parts["Female"].release(Count(), using=laplace), Release[float])
        assert_type(parts["Male"].affords(Count(), using=laplace), int | None)


def workloads_answer_sequences(session: Session, domain: Domain) -> None:
    laplace = Laplace(epsilon=0.1)
    thresholds = Workload(Threshold("age", t) for t in range(17, 91))
    assert_type(thresholds, Workload[float])
    answers = session.answer(thresholds, using=laplace)
    assert_type(answers, Answers[float])
    assert_type(answers[0], float)
    assert_type(answers[:2], tuple[float, ...])
    assert_type(answers.values, Floats)
    sequence: Sequence[float] = answers
    assert_type([value for value in sequence], list[float])  # noqa: C416  # the item's type
    assert_type(session.answer(marginals(domain, 2), using=laplace), Answers[MarginalTable])


def a_list_of_float_queries_is_a_float_workload(session: Session) -> None:
    queries: list[Query[float]] = [Threshold("age", 40), Count(), Mean("hours")]
    assert_type(session.answer(Workload(queries), using=Laplace(epsilon=1)), Answers[float])


def clients_write_the_answer_only(session: Session, query: Query[float]) -> float:
    return session.answer(query, using=Laplace(epsilon=0.1))


def releases_carry_typed_bounds(release: Release[MarginalTable]) -> None:
    assert_type(release.value, MarginalTable)
    assert_type(release.value["Female", ">50K"], float)
    assert_type(release.error(beta=0.05), float)
    assert_type(release.errors(), Floats)
    assert_type(release.interval(), tuple[MarginalTable, MarginalTable])
    assert_type(release.bound(), Bound)
    assert_type(release.cost, Cost)


def sessions_tell_typed_costs(session: Session) -> None:
    assert_type(session.spent, Spent)
    assert_type(session.remaining, Remaining)
    assert_type(session.quote(Threshold("age", 40), using=Laplace(epsilon=1)), Quote)
    assert_type(session.affords(Threshold("age", 40), using=Laplace(epsilon=1)), int | None)
    assert_type(session.readings(1e-6), Readings)
    assert_type(session.history, tuple[Receipt, ...])


def channels_answer_like_sessions(session: Session) -> None:
    with session.open(Laplace(epsilon=0.1)) as channel:
        assert_type(channel, Channel[LinearForm])
        assert_type(channel.answer(Threshold("age", 40)), float)
        assert_type(channel.release(Marginal("sex")), Release[MarginalTable])
        assert_type(session.answer(Threshold("age", 40), using=channel), float)


def the_sparse_vector_answers_yes_or_no_or_a_number(session: Session) -> None:
    with session.open(NumericSparse(epsilon=1, tops=3)) as channel:
        assert_type(channel, Channel[GapForm])
        above = Above(Threshold("age", 40), 0.5)
        assert_type(channel.answer(above), bool)
        assert_type(channel.release(above), Release[bool])
        assert_type(channel.answer(NumericAbove(Count({"sex": "Male"}), 0.5)), float | None)
        assert_type(session.answer(above, using=channel), bool)


def channels_that_learn_show_their_hypothesis(session: Session) -> None:
    with session.open(OnlinePMW(epsilon=0.5, delta=1e-7, updates=50)) as channel:
        assert_type(channel, HypothesisChannel[LinearForm])
        assert_type(channel.hypothesis, Hypothesis)
        assert_type(channel.answer(Threshold("age", 40)), float)
        assert_type(channel.answer(Workload([Threshold("age", 40)])), Answers[float])
        assert_type(channel.release(Marginal("sex")), Release[MarginalTable])
        assert_type(session.answer(Threshold("age", 40), using=channel), float)
        later = OnlinePMW(epsilon=1, updates=9, start=channel.hypothesis)
        assert_type(session.open(later).hypothesis, Hypothesis)
    textbook = OnlinePMW.textbook(1, 1e-6, alpha=0.1, beta=0.05, queries=1000)
    assert_type(session.open(textbook), HypothesisChannel[LinearForm])


def strangers_are_inferred_as_exactly(session: Session) -> None:
    assert_type(session.answer(Median("age"), using=Laplace(epsilon=1)), MedianAnswer)
    repeated = Repeated(Laplace(epsilon=1).epsilon)
    assert_type(session.answer(Median("age"), using=repeated), MedianAnswer)
    assert_type(session.answer(Threshold("age", 40), using=repeated), float)


class OtherForm(Form):
    """A form that no built-in mechanism knows."""


def wrong_pairings_are_static_errors(
    session: Session,
    data: PrivateData,
    other: Query[float, OtherForm],
    stateful: Mechanism[LinearForm],
) -> None:
    session.answer(other, using=Laplace(epsilon=1))  # type: ignore[misc]  # another form
    session.answer(Threshold("age", 40), using=stateful)  # type: ignore[arg-type]  # must be opened
    session.answer("age", using=Laplace(epsilon=1))  # type: ignore[arg-type]  # not a query
    session.answer(Threshold("age", "40"), using=Laplace(epsilon=1))  # type: ignore[arg-type]  # text
    sparse, online = NumericSparse(epsilon=1, tops=3), OnlinePMW(epsilon=1, updates=9)
    session.answer(Threshold("age", 40), using=online)  # type: ignore[arg-type]  # must be opened
    session.answer(Above(Count(), 0.5), using=sparse)  # type: ignore[arg-type]  # must be opened
    session.open(sparse).answer(Threshold("age", 40))  # type: ignore[arg-type]  # another form
    session.open(online).answer(Above(Count(), 0.5))  # type: ignore[arg-type]  # another form
    del session.open(Laplace(epsilon=1)).hypothesis  # type: ignore[attr-defined]  # it has none
    Above(Marginal("sex"), 0.5)  # type: ignore[arg-type]  # not one number
    OnlinePMW(epsilon=1, updates=9, start="best")  # type: ignore[arg-type]  # no such start
    Session(data, 1.0)  # type: ignore[arg-type]  # not a budget
    share: str = session.answer(Threshold("age", 40), using=Laplace(1))  # type: ignore[assignment]
    del share


def a_mechanism_for_any_form_serves_linear_queries(
    session: Session, mechanism: OneShot[Form]
) -> None:
    assert_type(session.answer(Threshold("age", 40), using=mechanism), float)
