"""What type checkers must infer of the public API. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction
from logging import Logger
from pathlib import Path
from typing import Literal, assert_type

import numpy as np
from acme_dp.ledger import JSONLedger
from acme_dp.median import Median, MedianAnswer
from acme_dp.records import NoisyRecords
from acme_dp.repeated import Repeated
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dpsdk
from dpsdk import (
    MISSING,
    OTHER,
    Budget,
    Categorical,
    Channel,
    Discovery,
    DistributionChannel,
    HypothesisChannel,
    Neighbors,
    Number,
    Periods,
    PrivacyUnit,
    PrivateData,
    Quote,
    Release,
    Session,
    Stopped,
    SyntheticData,
    TablesChannel,
    Undeclared,
    errors,
    examples,
    plots,
    plugins,
    queries,
    wire,
)
from dpsdk import notes as release_notes
from dpsdk.accounting import (
    Books,
    Charge,
    Composition,
    FileAnchor,
    Guarantee,
    GuaranteeByPeriod,
    Ledger,
    Ledgers,
    MemoryLedger,
    Odometer,
    PostgresLedger,
    PureGuarantee,
    Readings,
    Remaining,
    ScopeStatement,
    Spent,
    SQLiteLedger,
    Trusted,
)
from dpsdk.data import Collect
from dpsdk.domain import Attribute, Domain
from dpsdk.forms import (
    ConvexForm,
    ConvexForms,
    Crossing,
    Design,
    Facts,
    Form,
    GapForm,
    LinearForm,
    Minimum,
    ProximalGapForm,
    Residual,
    TallyForm,
    Weights,
    minimise,
)
from dpsdk.hypothesis import (
    Distribution,
    Given,
    Hypothesis,
    Mixture,
    Pairs,
    Product,
    Records,
    Start,
    Uniform,
)
from dpsdk.kernel import (
    Counts,
    Dimension,
    DrawDatabase,
    EuclideanNoise,
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Limits,
    Look,
    LookPricing,
    Measure,
    MeasureResiduals,
    PointPricing,
    Pricing,
    Primitive,
    Reference,
    Request,
    ResidualAccuracy,
    ResidualPricing,
    Select,
    SelectPricing,
    SmallDatabase,
    Terms,
    Top,
    Watch,
    Watching,
)
from dpsdk.learning import fit_mixture
from dpsdk.losses import (
    Constants,
    GLMLoss,
    LogisticLoss,
    Loss,
    Predicts,
    QuantileLoss,
    SVMLoss,
)
from dpsdk.mechanisms import (
    MWEM,
    Certificate,
    CertifiedExcess,
    CoefficientSet,
    ConvexPMW,
    Corrected,
    DistributionMechanism,
    ExponentialQuantile,
    FittedTable,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    Mechanism,
    Moments,
    NoisyDescent,
    NoisyHistogram,
    NumericSparse,
    OfflineConvexPMW,
    OfflinePMW,
    OneShot,
    OnlinePMW,
    Oracle,
    PairTables,
    Parts,
    PrivateMinimizer,
    Problem,
    Projection,
    ResidualPlanner,
    Sampled,
    Sketch,
    SketchedProblem,
    SmallDB,
    SquareRoot,
    SufficientStatistics,
    TextbookConvexPMW,
    Tree,
)
from dpsdk.noise import NoiseSource
from dpsdk.observe import LoggingObserver, Observers, OpenTelemetryObserver, Progress
from dpsdk.planner import Curve, Goal, Plan, Plans, Point, Reason
from dpsdk.publication import About, Described, Metadata, PublishedTable, TableFile
from dpsdk.queries import (
    Above,
    Answers,
    Ball,
    Box,
    Classifier,
    Conjunction,
    ConvexMinimization,
    Count,
    CountDistinct,
    CountPersons,
    DateQuantile,
    GroupTable,
    Interval,
    Linear,
    LinearQuery,
    Marginal,
    MarginalTable,
    Mean,
    Model,
    Not,
    NumericAbove,
    OneHot,
    OneVsRest,
    Quantile,
    Query,
    Rectangles,
    Simplex,
    Softmax,
    StdDev,
    Sum,
    Threshold,
    Unmatched,
    UnmatchedTable,
    Variance,
    Workload,
    marginals,
)
from dpsdk.release import (
    Accuracy,
    AddsUp,
    Bound,
    Bounds,
    Clipped,
    ColumnDescription,
    Cost,
    Description,
    FromRecords,
    HalfWidths,
    InBins,
    Keys,
    KnownRowsOnly,
    Lifting,
    Measurement,
    NoAccuracy,
    NoiseAccuracy,
    Note,
    PopulationExpectation,
    PopulationInterval,
    PromisedAccuracy,
    Ranked,
    Ranking,
    RowsPerPerson,
    ScalarAccuracy,
    Source,
    Standing,
    Transcript,
)
from dpsdk.session.discovery import Estimate
from dpsdk.session.history import Receipt, Receipts
from dpsdk.session.periods import PeriodStatement, TimeRange
from dpsdk.sklearn import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from dpsdk.testing import Report, Result, check_mechanism, check_query, seeded
from dpsdk.typing import Bools, Floats, Ints, Label


def answers_have_the_type_of_their_query(session: Session) -> None:
    laplace, gaussian = Laplace(epsilon=0.1), Gaussian(rho=0.005)
    assert_type(session.answer(Threshold("age", 40), using=laplace), float)
    assert_type(session.answer(Interval("age", 20, 40), using=gaussian), float)
    assert_type(session.answer(Conjunction({"sex": "Female"}), using=laplace), float)
    assert_type(session.answer(Conjunction({"age": Not(range(17, 30))}), using=laplace), float)
    assert_type(session.answer(Count(where={"sex": "Female"}), using=laplace), float)
    assert_type(session.answer(Sum("hours", normalized=False), using=laplace), float)
    assert_type(session.answer(Mean("hours"), using=laplace), float)
    assert_type(session.answer(Quantile("hours", 0.9), using=laplace), float)
    assert_type(session.release(queries.Median("hours"), using=laplace), Release[float])
    quarter = queries.Between(date(2024, 1, 1), date(2024, 3, 31))
    assert_type(session.answer(Count(where={"visited": quarter}), using=laplace), float)
    assert_type(session.answer(Threshold("visited", date(2024, 3, 31)), using=laplace), float)
    assert_type(
        session.answer(Interval("visited", quarter.low, quarter.high), using=laplace), float
    )
    assert_type(session.answer(DateQuantile("visited", 0.5), using=laplace), date | None)
    assert_type(session.answer(Linear(lambda record: 0.5), using=laplace), float)
    boxes = Rectangles(
        ["age", "hours"], lower=[[0, 0]], upper=np.array([[3, 4]]), where={"sex": "F"}
    )
    assert_type(session.answer(boxes, using=laplace), Floats)
    assert_type(session.release(Rectangles("age", [0, 1], (2, 3)), using=laplace), Release[Floats])
    assert_type(boxes.low, Ints)
    Rectangles(["age"], [[0.5]], [[1]])  # type: ignore[arg-type]  # must stay an error
    assert_type(session.answer(Marginal("sex", "income"), using=gaussian), MarginalTable)
    assert_type(session.release(Threshold("age", 40), using=laplace), Release[float])
    assert_type(session.answer(Count(), using=laplace, request_id="a7"), float)
    assert_type(session.release(Marginal("sex"), using=laplace), Release[MarginalTable])


def the_rows_of_a_person_are_a_number(domain: Domain) -> None:
    assert_type(PrivateData.from_counts([1], domain, unit_rows=2), PrivateData)
    assert_type(PrivateData.from_csv("t.csv", domain, unit_rows=2).facts.unit_rows, int)
    assert_type(PrivateData.from_parquet("t.parquet", domain, unit_rows=2), PrivateData)
    assert_type(PrivateData.from_sql(None, "", domain, parameters=[1]), PrivateData)
    PrivateData.from_sql(None, 5, domain)  # type: ignore[arg-type]  # must stay an error
    unit = PrivacyUnit("who", max_rows=3, distinct=True)
    assert_type(PrivateData.from_columns({}, domain, unit=unit), PrivateData)
    assert_type(PrivateData.from_csv("t.csv", domain, unit=unit).facts.unit, str)
    assert_type(PrivateData.from_frame(None, domain, unit=unit).facts.person, str | None)
    assert_type(PrivateData.from_sql(None, "", domain, unit=unit).facts.distinct, bool)
    assert_type(unit.max_rows, int)
    PrivacyUnit("who", 3)  # type: ignore[call-arg]  # must stay an error
    PrivateData.from_counts([1], domain, unit=unit)  # type: ignore[call-arg]  # must stay one
    PrivateData.from_frame(None, domain, unit="who")  # type: ignore[arg-type]  # must stay one
    PrivateData.from_columns({}, domain, unit_rows=None)  # type: ignore[arg-type]  # must stay one
    PrivateData.from_frame(None, domain, unit_rows="2")  # type: ignore[arg-type]  # must stay one


def domains_are_read_from_what_others_declared(frame: object) -> None:
    steps = {"paid": "0.01"}
    read = Domain.from_metadata(Path("m.yaml"), step=steps, leave_out=["remark"])
    assert_type(read, Domain)
    assert_type(Domain.from_metadata({"fields": list[object]()}, leave_out=True), Domain)
    assert_type(Domain.from_schema(frame, declared=["ward"], attributes=read), Domain)
    made = examples.random(read, 10, seed=1)
    assert_type(made, dict[str, list[str | int | float | bool | date | None]])


def tables_are_collected_in_one_of_two_ways(domain: Domain) -> None:
    assert_type(PrivateData.from_frame(None, domain, collect="marginals"), PrivateData)
    assert_type(PrivateData.from_parquet("t.parquet", domain, collect="histogram"), PrivateData)
    mode: Collect = "marginals"
    assert_type(PrivateData.from_sql(None, "SELECT 1", domain, collect=mode), PrivateData)
    PrivateData.from_frame(None, domain, collect="rows")  # type: ignore[arg-type]  # must stay one


def names_are_given_one_by_one_or_as_one_list(table: MarginalTable) -> None:
    assert_type(Marginal(["sex", "income"]), Marginal)
    assert_type(Count({"sex": ["Female", "Male"]}), Count)
    table.project(["sex"])  # type: ignore[arg-type]  # must stay an error


def ledgers_need_no_base_class(data: PrivateData, budget: Budget) -> None:
    ledgers: list[Ledger] = [MemoryLedger(), JSONLedger(Path("spent.json"))]
    shared = SQLiteLedger("spent.db", key=b"0" * 32, anchor=FileAnchor(Path("anchor")))
    ledgers += [shared, shared.dataset("adults")]
    books: Ledgers = shared
    ledgers.append(books.dataset("adults"))
    assert_type(shared.dataset("adults"), SQLiteLedger)
    hosts = PostgresLedger("postgresql://me@host/db", schema="spent", key=b"0" * 32)
    ledgers += [hosts, hosts.dataset("adults")]
    assert_type(hosts.dataset("adults"), PostgresLedger)
    assert_type(hosts.verify(), int)
    PostgresLedger(5432)  # type: ignore[arg-type]  # must stay an error
    SQLiteLedger("spent.db", key="text")  # type: ignore[arg-type]  # must stay an error
    assert_type(SQLiteLedger("spent.db", patience=2.5), SQLiteLedger)
    assert_type(PostgresLedger("postgresql://me@host/db", patience=5), PostgresLedger)
    SQLiteLedger("spent.db", patience="5")  # type: ignore[arg-type]  # must stay an error
    for ledger in ledgers:
        assert_type(Session(data, budget, ledger=ledger), Session)
        assert_type(ledger.read(), Books)
        assert_type(ledger.charges(), Sequence[Charge])
        assert_type(ledger.stored("request"), bytes | None)
        assert_type(Books.from_record(ledger.read().to_record()), Books)
    Session(data, budget, ledger="spent.json")  # type: ignore[arg-type]  # must stay an error


def who_asked_and_when_is_told(
    data: PrivateData, budget: Budget, logger: Logger, charge: Charge
) -> None:
    observer = Observers(LoggingObserver(logger), OpenTelemetryObserver(), print)
    session = Session(data, budget, observer=observer, reuse=True)
    assert_type(session.release(Count(), using=Laplace(epsilon=0.1)).reused, bool)
    for receipt in session.history:
        assert_type(receipt.scope, str)
        assert_type(receipt.at, datetime | None)
    assert_type(charge.at, datetime | None)
    assert_type(charge.request_id, str)
    LoggingObserver("dpsdk")  # type: ignore[arg-type]  # must stay an error
    Session(data, budget, reuse="yes")  # type: ignore[arg-type]  # must stay an error
    assert_type(Session(data, budget, progress=True), Session)
    Session(data, budget, progress="yes")  # type: ignore[arg-type]  # must stay an error


def scopes_and_parts_answer_like_sessions(session: Session) -> None:
    laplace = Laplace(epsilon=0.1)
    with session.scope("weekly", "0.2", reserve=True) as scope:
        assert_type(scope.answer(Marginal("sex"), using=laplace), MarginalTable)
        assert_type(scope.open(laplace), Channel[LinearForm | TallyForm])
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
    rising = session.release(thresholds, using=laplace).monotone().nonnegative()
    assert_type(rising, Release[Answers[float]])
    assert_type(rising.moved, float)
    assert_type(rising.to_frame("pandas", beta=0.1, joint=False, prefix="a_"), object)
    assert_type(rising.value.to_frame(), object)
    assert_type(answers.queries, tuple[Query[float, Form], ...] | None)
    assert_type(answers[Threshold("age", 40)], float)
    assert_type([attribute for attribute in domain], list[Attribute])  # noqa: C416  # its type
    sequence: Sequence[float] = answers
    assert_type([value for value in sequence], list[float])  # noqa: C416  # the item's type
    assert_type(session.answer(marginals(domain, 2), using=laplace), Answers[MarginalTable])


def a_list_of_float_queries_is_a_float_workload(session: Session) -> None:
    queries: list[Query[float]] = [Threshold("age", 40), Count(), Mean("hours")]
    assert_type(session.answer(Workload(queries), using=Laplace(epsilon=1)), Answers[float])


def a_query_by_group_answers_a_table(session: Session, by: list[str]) -> None:
    laplace = Laplace(epsilon=1)
    assert_type(Mean("hours"), Mean[float])
    assert_type(Mean("hours", by="education"), Mean[GroupTable])
    assert_type(Sum("hours", by=by), Sum[GroupTable])
    assert_type(Variance("hours"), Variance[float])
    assert_type(StdDev("hours", by="education"), StdDev[GroupTable])
    assert_type(session.answer(StdDev("hours", where={"sex": "Male"}), using=laplace), float)
    assert_type(session.answer(Variance("hours", by=by), using=laplace), GroupTable)
    assert_type(Count({"age": 40}), Count[float])
    assert_type(Count(by=("sex", "income")), Count[GroupTable])
    bare: Mean = Mean("hours")
    assert_type(bare, Mean[float])
    assert_type(session.answer(Mean("hours", by=by), using=laplace), GroupTable)
    release = session.release(Mean("hours", by="education"), using=laplace)
    assert_type(release, Release[GroupTable])
    assert_type(release.value.counts, MarginalTable | None)
    assert_type(release.value["Masters"], float)
    caps = Transcript(questions=9, updates=3, answers=2)
    assert_type(release.population(0.05, chosen="beforehand"), PopulationInterval[GroupTable])
    assert_type(release.population(chosen=caps).low, GroupTable)
    assert_type(release.population(chosen="adaptively"), PopulationExpectation[GroupTable])
    assert_type(release.population(chosen="adaptively").assumptions, tuple[str, ...])
    release.population(0.05)  # type: ignore[call-overload]  # nothing is assumed by itself
    assert_type(release.top(3), Ranking)
    assert_type(release.top(3)[0], Ranked)
    assert_type(release.top(3).certain, tuple[tuple[Label, ...], ...])
    several = Workload([Mean("hours", by="sex"), Count(by="sex")])
    assert_type(session.answer(several, using=laplace), Answers[GroupTable])
    Above(Count(by="sex"), 0.5)  # type: ignore[arg-type]  # not one number


def persons_and_combinations_are_counted(session: Session) -> None:
    assert_type(session.answer(CountPersons(), using=Laplace(epsilon=1)), float)
    assert_type(session.release(CountDistinct("sex"), using=Gaussian(rho=1)), Release[float])
    assert_type(session.plan(CountPersons(), error=5).best, Plan[TallyForm])
    assert_type(session.answer(CountPersons()), float)
    session.answer(CountPersons(), using=Tree("age", epsilon=1))  # type: ignore[misc]  # no rows
    with session.open(Laplace(epsilon=1)) as channel:
        assert_type(channel.answer(CountPersons()), float)
        assert_type(channel.answer(Count()), float)


def clients_write_the_answer_only(session: Session, query: Query[float]) -> float:
    return session.answer(query, using=Laplace(epsilon=0.1))


def missing_values_are_counted(session: Session, table: MarginalTable) -> None:
    laplace = Laplace(epsilon=1)
    unmatched = session.answer(Unmatched(where={"sex": MISSING}), using=laplace)
    assert_type(unmatched, UnmatchedTable)
    assert_type(unmatched.missing, dict[str, float])
    assert_type(unmatched["age", OTHER], float)
    assert_type(table["Female", MISSING], float)
    Count({"sex": {"Female", MISSING}, "age": Not(OTHER)})
    assert_type(session.answer(Marginal("sex", known=True), using=laplace), MarginalTable)
    assert_type(session.answer(Threshold("age", 40, known=True), using=laplace), float)


def releases_carry_typed_bounds(release: Release[MarginalTable]) -> None:
    assert_type(release.value, MarginalTable)
    assert_type(release.value["Female", ">50K"], float)
    assert_type(release.error(beta=0.05), float)
    assert_type(release.errors(), Floats)
    assert_type(release.interval(), tuple[MarginalTable, MarginalTable])
    assert_type(release.bound(), Bound)
    assert_type(release.bound().error, float)
    assert_type(release.bound().standing, Standing)
    assert_type(release.bound().predicted, float | None)
    assert_type(release.bound().bins, float)
    assert_type(release.bound().parts, dict[str, float])
    assert_type(release.notes, tuple[Note, ...])
    for note in release.notes:
        assert_type(str(note), str)
        if isinstance(note, AddsUp):
            assert_type((note.total, note.radius), tuple[float, float])
        elif isinstance(note, InBins):
            assert_type(note.widest, float)
        elif isinstance(note, release_notes.Rounded):
            assert_type(note.step, float)
        elif isinstance(note, Clipped):
            assert_type((note.attribute, note.low, note.high), tuple[str, float, float])
        elif isinstance(note, KnownRowsOnly):
            assert_type(note.names, tuple[str, ...])
        elif isinstance(note, FromRecords):
            assert_type((note.records, note.share), tuple[int, Fraction])
    assert_type(release.cost, Cost)
    assert_type(release.source, Source)


def accuracies_are_of_three_shapes(
    kernel: Kernel, form: LinearForm, measurement: Measurement
) -> float:
    assert_type(measurement.accuracy, Accuracy)
    assert_type(kernel.measure(form, LaplaceNoise(Fraction(1))), Measurement[NoiseAccuracy])
    assert_type(kernel.measure(form, EuclideanNoise(1)), Measurement[NoiseAccuracy])
    match measurement.accuracy:
        case HalfWidths() as accuracy:
            assert_type(accuracy.radii(0.05, joint=True), Floats)
            return 0.0
        case ScalarAccuracy() as accuracy:
            return assert_type(accuracy.error(0.05), float)
        case NoAccuracy() as accuracy:
            assert_type(accuracy.advice, str)
            return 0.0


def any_accuracy_may_be_measured_with(values: Floats, source: Source) -> list[Measurement]:
    return [
        Measurement(values, PromisedAccuracy(1.0, 0.05, 2), source),
        Measurement(values, NoAccuracy("nobody looked"), "fitted"),
    ]


def linear_queries_are_liftings_and_queries(
    session: Session, query: LinearQuery[bool]
) -> tuple[Query[bool], Lifting[bool]]:
    assert_type(session.answer(query, using=Laplace(epsilon=1)), bool)
    assert_type(Workload([query]), Workload[bool])
    return query, query


def shared_fields_are_keywords_of_every_query() -> None:
    Threshold("age", 40, where={"sex": "Male"}, normalized=False)
    Interval("age", 1, 2, where={"sex": "Male"}, normalized=False)
    Sum("age", where={"sex": "Male"}, normalized=False)
    Mean("age", where={"sex": "Male"})
    Linear(lambda record: 0.5, where={"sex": "Male"}, normalized=False)
    Marginal("age", where={"sex": "Male"}, normalized=False)
    Marginal("sex", "age", bins={"age": [17, 30, 90]})
    Marginal("age", bins=[17, 30, 90])  # type: ignore[arg-type]  # edges by attribute
    Count({"sex": "Male"}, normalized=False)
    Threshold("age", 40, {"sex": "Male"})  # type: ignore[call-arg]  # a keyword only
    Mean("age", normalized=False)  # type: ignore[call-overload]  # a mean is no share


def sessions_tell_typed_costs(session: Session) -> None:
    assert_type(session.spent, Spent)
    assert_type(session.remaining, Remaining)
    assert_type(session.scopes, tuple[ScopeStatement, ...])
    may = date(2026, 5, 1)
    week = session.between(may, None)
    assert_type(week, TimeRange)
    assert_type(week.between(None, may).remaining, Remaining)
    assert_type(session.periods(), tuple[PeriodStatement, ...])
    assert_type(session.periods(may, may)[0].remaining, Remaining)
    assert_type(Periods("visited", days=7).range(session.domain["visited"]), tuple[int, int])
    assert_type(session.scopes[0].spent, Spent)
    assert_type(session.quote(Threshold("age", 40), using=Laplace(epsilon=1)), Quote)
    assert_type(session.affords(Threshold("age", 40), using=Laplace(epsilon=1)), int | None)
    planned = session.plan(Threshold("age", 40), error=0.1).best
    assert_type(session.affords(Threshold("age", 40), using=planned), int | None)
    assert_type(session.quote(Threshold("age", 40), using=planned), Quote)
    assert_type(session.quote(Threshold("age", 40), using=planned).notes, tuple[Note, ...])
    assert_type(session.readings(1e-6), Readings)
    assert_type(session.history, Receipts)
    assert_type(session.history[0], Receipt)
    assert_type(session.history[-5:], Receipts)
    assert_type(session.history.to_frame("pyarrow"), object)


def channels_answer_like_sessions(session: Session) -> None:
    with session.open(Laplace(epsilon=0.1)) as channel:
        assert_type(channel, Channel[LinearForm | TallyForm])
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


class Rounded:
    """What a primitive of another author is."""

    guarantee: Guarantee = PureGuarantee(1)
    accuracy: Accuracy = NoAccuracy("an example")

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> int:
        assert_type(opened().rows, int)
        assert_type(opened().table(("age",)), Floats)
        assert_type(noise.uniform_below(2), int)
        return 0


class Rounding(Request[int]):
    def price(self, terms: Terms, /) -> Rounded:
        assert_type(terms.trust, tuple[Trusted, ...])
        return Rounded()


def classes_of_others_are_trusted_by_name_and_proof(
    data: PrivateData, budget: Budget, kernel: Kernel, release: Release[float]
) -> None:
    session = Session(data, budget, trust={"acme.Rounding": "acme.example/rounding"})
    assert_type(session.trusted, tuple[Trusted, ...])
    assert_type(session.trusted[0].proof, str)
    assert_type(kernel.run(Rounding()), int)
    priced: Primitive[int] = Rounding().price(kernel.terms)
    assert_type(priced.guarantee, Guarantee)
    if (payment := release.payment) is not None:
        assert_type(payment.trusted, tuple[Trusted, ...])
    assert_type(wire.ReleaseRecord.of(release).trusted, tuple[Trusted, ...])
    Session(data, budget, trust={"acme.Rounding"})  # type: ignore[arg-type]  # without a proof


def releases_describe_themselves(release: Release[MarginalTable]) -> None:
    metadata = release.metadata(beta=0.1)
    assert_type(metadata, Metadata)
    assert_type(metadata.record, wire.ReleaseRecord)
    assert_type(metadata.budget, Budget | None)
    assert_type(metadata.tables, tuple[PublishedTable, ...])
    assert_type(metadata.tables[0].to_csv(), str)
    assert_type(metadata.tables[0].columns[0].labels, tuple[str, ...] | None)
    assert_type(metadata.to_json(), str)
    about = About(name="Ages", curators=["Bureau"], published=date(2026, 7, 1))
    assert_type(metadata.to_registry(about), Described)
    file = TableFile("ages.csv", numbers=["value", "error"])
    assert_type(metadata.to_csvw(file, about=about).content, wire.JSON)
    assert_type(metadata.to_datapackage("ages.csv", notes=["Rounded."]).missing, tuple[str, ...])
    TableFile("ages.csv", numbers=["values"])  # type: ignore[list-item]  # no such numbers


def plans_answer_what_they_are_plans_of(session: Session, text: str) -> None:
    threshold, table = Threshold("age", 40), Marginal("sex")
    model = ConvexMinimization(LogisticLoss(), features=["age"], label="rich", over=Ball(2))
    plans = session.plan(threshold, error=0.01, beta=0.1, assume={"rows": 1000})
    assert_type(plans, Plans[LinearForm])
    assert_type(plans.best, Plan[LinearForm])
    assert_type(plans[0], Plan[LinearForm])
    assert_type(plans[0].mechanism, Mechanism[LinearForm])
    assert_type(plans[0].promised, Bound | None)
    assert_type(plans[0].because, tuple[Reason, ...])
    assert_type(session.answer(threshold, using=plans.best), float)
    assert_type(session.release(table, using=plans[0]), Release[MarginalTable])
    assert_type(session.plan(table, budget=Budget(1)), Plans[LinearForm])
    assert_type(session.plan(table, budget=plans.best.cost), Plans[LinearForm])
    models = session.plan(model, error=0.1)
    assert_type(models, Plans[ConvexForm])
    assert_type(session.answer(model, using=models.best), Model)
    session.answer(threshold, using=models.best)  # type: ignore[misc]  # a plan for models
    session.answer(model, using=plans.best)  # type: ignore[misc]  # a plan for linear queries
    goals = [Goal(threshold, 0.01), Goal(table, 0.02)]
    assert_type(plans.curve().points, tuple[Point, ...])
    assert_type(plans.curve(), Curve)
    assert_type(plans.to_frame(backend="pandas"), object)
    plans.to_frame(backend="numpy")  # type: ignore[arg-type]  # no library of frames
    parts = Parts([(threshold, Laplace(epsilon=1)), (table, Gaussian(rho=1))])
    assert_type(session.answer(Workload[object]([table, threshold]), using=parts), Answers[object])
    joint = session.plan(goals, beta=0.1)
    assert_type(joint, Plans[LinearForm])
    both = Workload[object]([threshold, table])
    assert_type(session.answer(both, using=joint.best), Answers[object])
    session.plan(threshold)  # type: ignore[call-overload]  # neither alpha nor budget
    session.plan(threshold, error=0.1, budget=Budget(1))  # type: ignore[call-overload]  # both
    session.plan(goals, error=0.1)  # type: ignore[call-overload]  # goals carry their own
    # What is best is found at run time; the answer has the type that the query promises.
    assert_type(session.answer(threshold), float)
    assert_type(session.release(table), Release[MarginalTable])
    assert_type(session.answer(model), Model)
    # A plan that was read answers whatever it can.
    assert_type(wire.loads("plan", text), Plan[Form])
    assert_type(wire.loads("plans", text).best, Plan[Form])
    assert_type(wire.from_json("goal", {}), Goal[object, Form])
    assert_type(session.answer(threshold, using=wire.loads("plan", text)), float)
    assert_type(
        session.quote(threshold, using=Laplace(1), assume={"inside": 1}).assumed(), Bound | None
    )


def requests_have_the_type_of_their_result(
    kernel: Kernel, measure: Measure, rows: Request[int], text: Request[str]
) -> None:
    assert_type(kernel.run(measure), Measurement[NoiseAccuracy])
    assert_type(kernel.run(rows), int)
    assert_type(kernel.run_all([measure, measure]), tuple[Measurement[NoiseAccuracy], ...])
    assert_type(kernel.run_all((measure, rows)), tuple[Measurement[NoiseAccuracy], int])
    assert_type(kernel.run_all((rows, text, measure)), tuple[int, str, Measurement[NoiseAccuracy]])
    assert_type(measure.price(kernel.terms), Pricing)
    assert_type(rows.price(Terms(kernel.facts)), Primitive[int])
    priced: Primitive[Measurement] = measure.price(kernel.terms)
    assert_type(priced.guarantee, Guarantee)


def channels_that_learn_show_their_hypothesis(session: Session) -> None:
    with session.open(OnlinePMW(epsilon=0.5, delta=1e-7, updates=50)) as channel:
        assert_type(channel, HypothesisChannel)
        assert_type(channel.hypothesis, Hypothesis)
        assert_type(channel.distribution, Distribution)
        assert_type(channel.answer(Threshold("age", 40)), float)
        assert_type(channel.answer(Workload([Threshold("age", 40)])), Answers[float])
        assert_type(channel.release(Marginal("sex")), Release[MarginalTable])
        assert_type(session.answer(Threshold("age", 40), using=channel), float)
        later = OnlinePMW(epsilon=1, updates=9, start=channel.hypothesis)
        assert_type(session.open(later).hypothesis, Hypothesis)
    textbook = OnlinePMW.textbook(1, 1e-6, alpha=0.1, beta=0.05, queries=1000)
    assert_type(session.open(textbook), HypothesisChannel)


def a_workload_is_learnt_until_it_is_stopped(session: Session) -> None:
    workload = Workload([Threshold("age", 40)])
    mechanism = MWEM(workload, epsilon=1, delta="1e-9", rounds=5)

    def late(progress: Progress) -> bool:
        return progress.done > 3

    try:
        with session.open(mechanism, stop=late) as channel:
            assert_type(channel, DistributionChannel)
            assert_type(channel.answer(workload), Answers[float])
    except Stopped as stopped:
        assert_type(stopped.channel, DistributionChannel)
        assert_type(stopped.paid, Cost)
    assert_type(session.open(OfflinePMW(workload, epsilon=1)), DistributionChannel)
    assert_type(session.open(OfflinePMW(workload, rho=1)), DistributionChannel)
    known = OfflinePMW(workload, rho=1, rounds=9, start="marginals")
    assert_type(known.start, Sampled | None)
    assert_type(session.open(known), DistributionChannel)
    assert_type(MWEM(workload, rho=1, start=Sampled("0.75")).start, Sampled | None)
    OfflinePMW(workload, rho=1, start=Sampled(records=2**10))
    MWEM(workload, rho=1, start="marginals")
    MWEM(workload, rho=1, start=5)  # type: ignore[arg-type]
    OfflinePMW.textbook(workload, 1, alpha=0.1, start="marginals")  # type: ignore[call-arg]
    printed = OfflinePMW.textbook(workload, 1, alpha=0.1)
    assert_type(session.open(printed), DistributionChannel)
    assert_type(MWEM.averaged(Marginal("sex"), rho=1), MWEM)
    assert_type(session.open(OnlinePMW(1, updates=9), stop=late), HypothesisChannel)
    assert_type(session.open(Laplace(1), stop=late), Channel[LinearForm | TallyForm])


def local_marginals_list_their_tables(session: Session) -> None:
    workload = Workload([Marginal("age", "sex")])
    with session.open(LocalMarginals(workload, epsilon=1, delta="1e-9", certify=0.1)) as channel:
        assert_type(channel, TablesChannel)
        assert_type(channel.tables, tuple[FittedTable, ...])
        assert_type(channel.tables[0].total_variation, float | None)
        assert_type(channel.distribution, Mixture)
        assert_type(channel.distribution.synthesize(10), SyntheticData)
        assert_type(channel.marginal("age"), MarginalTable)
        assert_type(channel.answer(workload), Answers[MarginalTable])
    LocalMarginals(workload, 1)  # type: ignore[call-arg]  # by name, since it may be a rho
    assert_type(session.answer(Count(), using=LocalMarginals(workload, rho=1)), float)


def a_choice_is_the_number_of_an_option(
    kernel: Kernel, gaps: GapForm, crossing: Crossing, terms: Terms
) -> None:
    assert_type(kernel.select(gaps, 1, groups=[slice(0, 2)]), int)
    assert_type(kernel.run(Select(gaps, 1)), int)
    assert_type(kernel.select(crossing, 1), int)
    assert_type(Select(crossing, 1).price(terms), SelectPricing | PointPricing)


def a_quantile_is_chosen_for_an_epsilon(session: Session) -> None:
    using = ExponentialQuantile(epsilon="0.1")
    release = session.release(Quantile("income", 0.5), using=using)
    assert_type(release, Release[float])
    assert_type(release.bound().ranks, float | None)
    assert_type(session.answer(DateQuantile("day", 0.5), using=using), date | None)
    assert_type(Quantile("income", 0.5).lower(session.domain).crossing, Crossing | None)
    ExponentialQuantile(rho=1)  # type: ignore[call-arg]  # of bounded range, which a rho is not


def a_watch_compares_proximal_gaps(
    watch: Watch, watching: Watching, facts: Facts, form: ConvexForm
) -> None:
    gap = ProximalGapForm.of(form, np.zeros(2))
    assert_type(gap, ProximalGapForm)
    signed = Linear(np.array([-1, 1]), low=-1, high=1)
    assert_type(GapForm.around(signed.lower(facts.domain), np.zeros(1)).moved(facts), float)
    assert_type(OnlinePMW(1, updates=9, signed=True).signed, bool)
    shifted = ProximalGapForm(gap.gradient, np.zeros(1), Ball(1), 0.5, np.zeros(1))
    assert_type(shifted, ProximalGapForm)
    assert_type(gap.shift, Floats | None)
    assert_type(gap.moved(facts), float)
    assert_type(gap.identity, bytes)
    assert_type(watch.first_above(gap, 3), Top | None)
    assert_type(watching.unit(facts, gap), float)
    assert_type(watching.below(0.05, facts, form=gap), float)
    watch.first_above(form, 3)  # type: ignore[arg-type]  # a convex form reaches no kernel


def a_look_is_a_measurement_of_distances(kernel: Kernel, terms: Terms) -> None:
    look = Look([Reference(["sex"], [3.5, 2])], LaplaceNoise(1), bits=4)
    assert_type(kernel.run(look), Measurement[NoiseAccuracy])
    assert_type(kernel.look(look.references, look.noise), Measurement[NoiseAccuracy])
    assert_type(look.price(terms), LookPricing)
    assert_type(look.price(terms).accuracy, NoiseAccuracy)


def residuals_have_an_accuracy_of_their_own(kernel: Kernel) -> None:
    bought = MeasureResiduals([(), ("sex",)], [2, 1], GaussianNoise(1))
    assert_type(kernel.run(bought), Measurement[ResidualAccuracy])
    assert_type(bought.price(kernel.terms), ResidualPricing)
    assert_type(Residual(4).row(1), Weights)


def any_public_distribution_is_a_start(session: Session, data: SyntheticData) -> None:
    for start in (Uniform(), Product(share="0.2"), Pairs(share="0.5", width=3), Given(data)):
        assert_type(session.open(OnlinePMW(1, updates=9, start=start)), HypothesisChannel)
    OnlinePMW(1, updates=9, start=data)
    OnlinePMW(1, updates=9, start="uniform")
    OnlinePMW(1, updates=9, start="pairs")
    OnlinePMW(1, 1e-9, updates=9, start="marginals")
    OnlinePMW(1, 1e-9, updates=9, start=Sampled(share="0.75", width=2, records=2**10))
    assert_type(OnlinePMW(1, updates=9, start="product").start, Start | None)


def what_is_measured_once_answers_every_linear_query(session: Session) -> None:
    with session.open(NoisyHistogram(epsilon=1)) as channel:
        assert_type(channel, DistributionChannel)
        assert_type(channel.distribution, Distribution)
        assert_type(channel.answer(Threshold("age", 40)), float)
        assert_type(channel.release(Marginal("sex")), Release[MarginalTable])
    for mechanism in (Tree("age", epsilon=1), SquareRoot("age", rho=1)):
        with session.open(mechanism) as levels:
            assert_type(levels, Channel[LinearForm])
            assert_type(levels.answer(Threshold("age", 40)), float)
    assert_type(session.answer(Threshold("age", 40), using=Tree("age", epsilon=1)), float)
    assert_type(session.release(Count(), using=SquareRoot("age", rho=1)), Release[float])
    assert_type(session.answer(Marginal("sex"), using=MWEM(Count(), epsilon=1)), MarginalTable)
    with session.open(Matrix(Threshold("age", 40), rho=1)) as planned:
        assert_type(planned, Channel[LinearForm])
        assert_type(planned.answer(Threshold("age", 40)), float)
    assert_type(session.answer(Marginal("sex"), using=Projection(epsilon=1)), MarginalTable)
    Matrix(3, rho=1)  # type: ignore[arg-type]  # no workload
    assert_type(session.answer(Count(), using=Matrix(Count(), rho=1)), float)
    workload = Workload([Marginal("sex", "age")])
    for planner in (
        ResidualPlanner(workload, rho=1),
        ResidualPlanner([workload, Marginal("sex")], epsilon=1, delta="1e-9", objective="max"),
        ResidualPlanner(workload.queries, rho=1, weights=[2.0], nonnegative=True),
    ):
        with session.open(planner) as tables:
            assert_type(tables, Channel[LinearForm])
            assert_type(tables.answer(Marginal("sex", "age")), MarginalTable)
            assert_type(tables.answer(workload), Answers[MarginalTable])
    ResidualPlanner(workload, rho=1, objective="mean")  # type: ignore[arg-type]  # sum or max
    assert_type(session.answer(Count(), using=ResidualPlanner(workload, rho=1)), float)
    NoisyHistogram(1)  # type: ignore[call-arg]  # by name, since it may be a rho
    assert_type(session.release(Count(), using=NoisyHistogram(rho=1)), Release[float])
    session.answer(Above(Count(), 0.5), using=NoisyHistogram(rho=1))  # type: ignore[misc]  # another form


def channels_with_a_distribution_show_it(
    session: Session, fitting: DistributionMechanism, query: Query[float, GapForm]
) -> None:
    with session.open(fitting) as channel:
        assert_type(channel, DistributionChannel)
        assert_type(channel.distribution, Distribution)
        assert_type(channel.marginal("sex"), MarginalTable)
        assert_type(channel.sample(9, seed=1), dict[str, list[Label]])
        assert_type(channel.answer(Threshold("age", 40)), float)
        assert_type(session.answer(Threshold("age", 40), using=channel), float)
        del channel.hypothesis  # type: ignore[attr-defined]  # it does not move
        channel.answer(query)  # type: ignore[arg-type]  # another form
    channel = session.open(NoisyRecords(Fraction(1)))
    assert_type(channel, DistributionChannel)
    session.answer(Count(), using=fitting)  # type: ignore[arg-type]  # must be opened


def a_small_database_is_opened_to_a_distribution(session: Session) -> None:
    workload = Workload([Threshold("age", 40)])
    small = SmallDB(workload, epsilon="0.5", alpha=0.01)
    assert_type(small.size, int | None)
    assert_type(SmallDB(Marginal("sex"), epsilon=1, limits=Limits(seconds=5)).limits, Limits)
    known = Dimension(3, "half-planes")
    assert_type(
        SmallDB(workload, epsilon=1, alpha=0.1, dimension=known).dimension, Dimension | None
    )
    assert_type((known.value, known.reason), tuple[int, str])
    assert_type(SmallDB.theorem_rows(0.1, 0.05, 1, universe=100, dimension=3), Fraction)
    with session.open(small) as channel:
        assert_type(channel, DistributionChannel)
        assert_type(channel.distribution, Distribution)
        assert_type(channel.answer(Threshold("age", 40)), float)
        assert_type(channel.release(Marginal("sex")), Release[MarginalTable])
        assert_type(channel.answer(workload), Answers[float])
    assert_type(session.answer(Threshold("age", 40), using=small), float)
    SmallDB(Above(Count(), 0.5), epsilon=1)  # type: ignore[arg-type]  # another form
    SmallDB("age", epsilon=1)  # type: ignore[arg-type]  # not a query


def a_small_database_is_a_request(kernel: Kernel, form: LinearForm) -> None:
    request = DrawDatabase(form, 20, "0.5")
    assert_type(kernel.run(request), SmallDatabase)
    assert_type(kernel.draw_database(form, 20, 1), SmallDatabase)
    assert_type(kernel.draw_database(form, 20, 1).records, Ints)
    priced: Primitive[SmallDatabase] = request.price(kernel.terms)
    assert_type(priced.guarantee, Guarantee)


def synthetic_data_is_a_distribution(data: SyntheticData, form: LinearForm) -> None:
    distribution: Distribution = data
    assert_type(distribution.answers(form), Floats)
    assert_type(distribution.accuracy(form, facts_of(data)), Accuracy)
    assert_type(data.counts("sex"), Ints)
    assert_type(data.codes, Ints)
    assert_type(data.multiplicities, Ints)
    assert_type(data.to_columns(), dict[str, list[Label]])
    assert_type(data.to_frame("polars"), object)
    assert_type(SyntheticData.load("kept"), SyntheticData)
    assert_type(Distribution.load("kept"), Distribution)
    assert_type(Hypothesis.load("kept").shift(form, 0.5), float)
    data.to_frame("numpy")  # type: ignore[arg-type]  # no such library
    data.shift(form, 0.5)  # type: ignore[attr-defined]  # it does not move


def a_mixture_is_fitted_to_tables(domain: Domain, pair: Floats, form: LinearForm) -> None:
    mixture = fit_mixture(domain, {("a", "b"): pair}, components=4, rows=100)
    distribution: Distribution = mixture
    assert_type(distribution.answers(form), Floats)
    assert_type(mixture.counts("a", "b"), Floats)
    assert_type(mixture.synthesize(10, seed=1), SyntheticData)
    assert_type(Mixture.load("kept"), Mixture)
    records = Records(domain, [[0], [1]], [1, 2], outside_mass=0.1)
    assert_type(records.copy(), Records)
    assert_type(records.effective, float)
    records.rake(("a",), records.table(("a",)))
    assert_type(Mixture(domain, [1, 2], {"a": [[1, 2], [3, 4]]}).rows, float | None)


def certificates_bound_total_variation(looked: Measurement[NoiseAccuracy], rows: int) -> None:
    assert_type(Certificate(looked, [3.5], rows).bounds(0.05), Floats)
    assert_type(Certificate.of([Reference(["a"], [1, 2])], looked), Certificate)


def coefficients_have_confidence_sets(
    form: ConvexForm, moments: Measurement[NoiseAccuracy], excess: CertifiedExcess, model: Model
) -> None:
    found = CoefficientSet.of(form, moments)
    assert_type(found.contains([0.0, 1.0], 0.05), bool)
    assert_type(found.half_widths(0.05), Floats)
    assert_type(found.centre, Floats)
    accuracy: ScalarAccuracy = excess
    assert_type(accuracy.error(0.05), float)
    assert_type(excess.coefficients, CoefficientSet | None)
    assert_type(found.reach([[0.0, 1.0]], 0.05), Floats)
    assert_type(model.intervals(accuracy, 0.05), dict[str, tuple[float, float]])
    assert_type(model.contrast({"age": 1}, accuracy), tuple[float, float])


def facts_of(data: SyntheticData) -> Facts:
    return Facts(data.domain, Neighbors.REPLACE_ONE, data.rows, data.outside, data.rows)


def samples_take_seeds_of_three_kinds(data: SyntheticData) -> None:
    data.sample(3, 7)
    data.sample(3, np.random.default_rng(7))
    data.sample(3, seeded(7))
    data.sample(3, "7")  # type: ignore[arg-type]  # a text


def kits_take_queries_and_give_reports(domain: Domain) -> None:
    report = check_query(Median("age"), domain=domain, using=Laplace(epsilon=1))
    assert_type(report, Report)
    assert_type(report.conforms, bool)
    check_query(Laplace(epsilon=1))  # type: ignore[arg-type]  # a mechanism
    check_query(Median("age"), using=Threshold("age", 40))  # type: ignore[arg-type]  # a query


def strangers_are_inferred_as_exactly(session: Session) -> None:
    assert_type(session.answer(Median("age"), using=Laplace(epsilon=1)), MedianAnswer)
    repeated = Repeated(Laplace(epsilon=1).epsilon)
    assert_type(session.answer(Median("age"), using=repeated), MedianAnswer)
    assert_type(session.answer(Threshold("age", 40), using=repeated), float)


def forms_are_told_apart_by_bytes(linear: LinearForm, gap: GapForm, other: Form) -> None:
    assert_type(linear.identity, bytes)
    assert_type(gap.identity, bytes)
    assert_type(other.identity, bytes | None)
    assert_type(frozenset(linear.row_identities()), frozenset[bytes])


def strategies_get_public_randomness(kernel: Kernel) -> None:
    assert_type(kernel.randomness, np.random.Generator)
    kernel.progress(1, 10, "iterations")
    kernel.progress("1")  # type: ignore[arg-type]  # counts are numbers


class OtherForm(Form):
    """A form that no built-in mechanism knows."""


def nobody_subclasses_the_closed_family() -> None:
    class Own(Accuracy):  # type: ignore[misc]  # one of its three shapes
        pass


def models_come_from_distributions_alone(
    session: Session,
    fitting: DistributionMechanism,
    linear: OneShot[LinearForm],
    convex: OneShot[ConvexForm],
    distribution: Distribution,
    domain: Domain,
) -> None:
    query = ConvexMinimization(
        LogisticLoss(), features=["age", OneHot("sex")], label="income", over=Ball(8)
    )
    with session.open(fitting) as channel:
        assert_type(channel.answer(query), Model)
        assert_type(channel.release(query), Release[Model])
        assert_type(session.answer(query, using=channel), Model)
        assert_type(session.release(Count(), using=channel), Release[float])
    with session.open(OnlinePMW(epsilon=1, updates=9)) as online:
        assert_type(online.answer(query), Model)
    guard = ConvexPMW(epsilon=1, updates=9)
    with session.open(guard) as models:
        assert_type(models, HypothesisChannel)
        assert_type(models.answer(query), Model)
        assert_type(models.release(Count()), Release[float])
        models.answer(Above(Count(), 0.5))  # type: ignore[arg-type]  # another form
    problem = Problem(dimension=3, lipschitz=1, smoothness=1, radius=1)
    promised = ConvexPMW.textbook(1, 1e-6, alpha=0.1, beta=0.1, queries=9, problem=problem)
    assert_type(promised, TextbookConvexPMW)
    assert_type(session.open(promised), HypothesisChannel)
    assert_type(promised.rows_for(Terms(session.facts)), int | None)
    assert_type(promised.alpha_for(Terms(session.facts)), float | None)
    assert_type(promised.alpha_for(Terms(session.facts), query, beta=0.1), float | None)
    assert_type(Laplace(epsilon=1).rows_for(Terms(session.facts), Count(), alpha=0.1), int | None)
    wide = SketchedProblem.of(query.lower(session.domain), 400)
    assert_type(wide, SketchedProblem)
    assert_type(wide.problem(wide.distortion(0.1)), Problem)
    ConvexPMW.textbook(1, 1e-6, alpha=0.1, beta=0.1, queries=9, problem=wide)
    known = OfflineConvexPMW(Workload([query]), epsilon=1)
    with session.open(known) as learnt:
        assert_type(learnt, HypothesisChannel)
        assert_type(learnt.answer(query), Model)
        assert_type(learnt.release(Workload([query])), Release[Answers[Model]])
        assert_type(learnt.answer(Count()), float)
    assert_type(session.release(query, using=OfflineConvexPMW(query, rho=1)), Release[Model])
    assert_type(session.answer(Workload([query]), using=known), Answers[Model])
    session.answer(Above(Count(), 0.5), using=known)  # type: ignore[misc]  # another form
    assert_type(OfflineConvexPMW.textbook(query, 1, 1e-6, alpha=0.5), OfflineConvexPMW)
    assert_type(known.rows_for(Terms(session.facts), alpha=0.1), int | None)
    OfflineConvexPMW(Count(), epsilon=1)  # type: ignore[arg-type]  # no model
    assert_type(session.quote(query, using=guard), Quote)
    assert_type(session.quote(Count(), using=guard), Quote)
    session.answer(query, using=guard)  # type: ignore[arg-type]  # must be opened
    assert_type(session.answer(query, using=convex), Model)
    one = PrivateMinimizer(epsilon="0.5", delta=1e-9, oracle=Corrected(Pairs("0.3"), gradients=1))
    assert_type(session.answer(query, using=one), Model)
    assert_type(session.release(query, using=one), Release[Model])
    assert_type(session.quote(query, using=one), Quote)
    assert_type(one.oracle, Oracle)
    assert_type(Corrected(distribution, certify="0.25").gradients, int | None)
    PrivateMinimizer(epsilon=1, oracle=Corrected(Moments(share=0.3)))
    PrivateMinimizer(epsilon=1, oracle=SufficientStatistics())
    session.answer(Count(), using=one)  # type: ignore[misc]  # another form
    PrivateMinimizer(1)  # type: ignore[call-arg]  # by name
    PrivateMinimizer(epsilon=1, oracle=Corrected)  # type: ignore[arg-type]  # a value of it
    Corrected("pairs")  # type: ignore[arg-type]  # Pairs()
    Corrected(gradients=0.5)  # type: ignore[arg-type]  # a number of them
    assert_type(query.fit(distribution), Model)
    assert_type(query.lower(domain), ConvexForm)
    session.answer(query, using=Laplace(1))  # type: ignore[misc]  # another form
    session.answer(query, using=linear)  # type: ignore[misc]  # another form
    session.answer(Count(), using=convex)  # type: ignore[misc]  # another form
    session.open(Laplace(1)).answer(query)  # type: ignore[arg-type]  # another form
    session.open(Tree("age", epsilon=1)).answer(query)  # type: ignore[arg-type]  # another form
    session.quote(query, using=fitting)  # type: ignore[misc]  # asked of its channel
    session.answer(query, using=fitting)  # type: ignore[arg-type]  # must be opened
    several = Workload([query, query])
    assert_type(several, Workload[Model, ConvexForm | ConvexForms])
    assert_type(session.answer(several, using=PrivateMinimizer(epsilon=1)), Answers[Model])
    together = PrivateMinimizer(epsilon=1, delta=1e-6, oracle=PairTables())
    assert_type(session.release(several, using=together), Release[Answers[Model]])
    PairTables(records=5)  # type: ignore[call-arg]
    session.answer(several, using=Laplace(1))  # type: ignore[misc]  # another form
    Workload([query, Count()])  # type: ignore[list-item]  # other forms
    query.fit([1.0])  # type: ignore[arg-type]  # no distribution
    ConvexMinimization("squared", features=["age"], label="income", over=Ball(8))  # type: ignore[arg-type]  # no loss
    ConvexMinimization(LogisticLoss(), features=[3], label="income", over=Ball(8))  # type: ignore[list-item]  # no feature


def models_are_read_by_name(model: Model, form: ConvexForm, tables: Distribution) -> None:
    ConvexMinimization(LogisticLoss(), features=[OneHot("sex", drop="first")], label="income")
    OneHot("sex", drop=("F", "M"))  # type: ignore[arg-type]  # one label
    assert_type(model.theta, Floats)
    assert_type(model.coefficients, dict[str, float])
    assert_type(model.intercept, float)
    assert_type(model.excess, float)
    assert_type(model.predict({"age": [39, 50], "sex": ["Female", "Male"]}), Floats)
    assert_type(model.extrapolates({"age": [39], "sex": ["Male"]}, tables), Bools)
    assert_type(form.fit(tables), tuple[Floats, float])
    assert_type(form.minimise(tables), tuple[Floats, float])
    assert_type(form.gradient(model.theta), LinearForm)
    assert_type(form.hessian([0.0, 1.0]), LinearForm)
    assert_type(form.moments(), LinearForm)
    assert_type(form.matrix([1.0]), Floats)
    distinct, places = form.distinct_moments()
    assert_type(distinct, LinearForm)
    assert_type(form.moments_from([1.0], places), Floats)


def several_classes_have_a_model_each(session: Session, query: ConvexMinimization) -> None:
    asked = OneVsRest(query)
    assert_type(asked, OneVsRest)
    release = session.release(asked, using=PrivateMinimizer(epsilon=1, delta="1e-6"))
    assert_type(release, Release[Classifier])
    found = release.value
    assert_type(found.classes, tuple[Label, ...])
    assert_type(found.models, dict[Label, Model])
    assert_type(found.coefficients, dict[Label, dict[str, float]])
    assert_type(found.intercepts, dict[Label, float])
    assert_type(found.predict({"age": [39]}), list[Label | None])
    assert_type(found.predict_proba({"age": [39]}), Floats)
    assert_type(found.margins({"age": [39]}), Floats)
    asked_at_once = Softmax(query)
    assert_type(asked_at_once, Softmax)
    assert_type(session.release(asked_at_once), Release[Classifier])
    Softmax(LogisticLoss())  # type: ignore[arg-type]  # no query
    OneVsRest(LogisticLoss())  # type: ignore[arg-type]  # no query


def estimators_are_fitted_on_sessions(session: Session) -> None:
    model = PrivateLogisticRegression(1, "1e-6", over=Ball(8)).fit(session, label="income")
    assert_type(model, PrivateLogisticRegression)
    assert_type(model.coef_, Floats)
    assert_type(model.predict_proba({"age": [39]}), Floats)
    assert_type(model.release_, Release[Model | Classifier])
    assert_type(model.model_, Model | Classifier)
    assert_type(model.score({"age": [39]}, ["<=50K"]), float)
    line = PrivateLinearRegression(epsilon=1).fit(session, label="age", features=[OneHot("sex")])
    assert_type(line.intercept_, float)
    assert_type(line.get_params(), dict[str, object])
    PrivateLinearSVC(1).fit([[1.0]], [1])  # type: ignore[arg-type]  # no session


def descents_are_oracles(session: Session, query: ConvexMinimization, form: ConvexForm) -> None:
    descent = NoisyDescent.textbook(beta=0.05, ridge=0.1, steps=64)
    sketch = Sketch.textbook(size=400)
    assert_type(descent, NoisyDescent)
    assert_type(session.answer(query, using=PrivateMinimizer(epsilon=1, oracle=descent)), Model)
    assert_type(session.answer(query, using=PrivateMinimizer(epsilon=1, oracle=sketch)), Model)
    total = Budget(1, "1e-6")
    assert_type(descent.alpha0(form, Terms(session.facts), total, 0.05), float)
    assert_type(sketch.sketched(form, 3), tuple[ConvexForm, Floats])
    NoisyDescent(steps="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def minima_are_typed(design: Design, loss: Loss, weights: Floats) -> None:
    found = minimise(design, loss, [0.0, 1.0], weights, Ball(2), ridge=0.1)
    assert_type(found, Minimum)
    assert_type(found.theta, Floats)
    assert_type(found.gap, float)
    assert_type(minimise(design, SVMLoss(), [-1, 1], weights, Box([0, 1], 2)).value, float)
    assert_type(minimise(design, QuantileLoss("0.9"), [0], weights, Simplex()).steps, int)
    assert_type(loss.constants(-1, 1, [0, 1]), Constants)
    assert_type(loss.smoothed(0.1), Loss | None)
    assert_type(loss.predicts, Predicts)
    assert_type(design.joined(weights), tuple[Design, Floats])
    GLMLoss("inverse")  # type: ignore[arg-type]  # no such link
    minimise(design, "squared", [0], weights, Ball(2))  # type: ignore[arg-type]  # not a loss


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


def written_forms_are_read_as_what_is_asked_for(
    session: Session, text: str, data: dict[str, object], release: Release[float]
) -> None:
    assert_type(wire.loads("query", text), Query[object, Form])
    assert_type(wire.loads("mechanism", text.encode()), Mechanism[Form])
    assert_type(wire.loads("one-shot", text), OneShot[Form])
    assert_type(wire.loads("domain", text), Domain)
    assert_type(wire.loads("loss", text), Loss)
    assert_type(wire.loads("guarantee", text), Guarantee)
    assert_type(wire.loads("composition", text), Composition)
    assert_type(wire.loads("budget", text), Budget)
    assert_type(wire.loads("release", text), wire.ReleaseRecord)
    assert_type(wire.from_json(Threshold, data), Threshold)
    assert_type(wire.from_json(Laplace, data, allow=wire.Catalogue.shipped()), Laplace)
    assert_type(wire.from_json("query", data), Query[object, Form])
    assert_type(wire.to_json(Count()), wire.JSON)
    assert_type(wire.dumps(release), str)
    assert_type(wire.digest(Count()), str)
    assert_type(wire.schema("query"), wire.JSON)
    answer = session.answer(wire.loads("query", text), using=wire.loads("one-shot", text))
    assert_type(answer, object)
    record = wire.ReleaseRecord.of(release, beta=0.1)
    assert_type(record.by, Mechanism[Form] | None)
    assert_type(record.after, Spent | None)
    assert_type(wire.loads(PrivacyUnit, text), PrivacyUnit)
    if (payment := release.payment) is not None:
        assert_type(payment.budget, Budget)
        assert_type(payment.before, Spent | None)
    assert_type(record.question, Query[object, Form] | None)
    assert_type(record.answer.numbers, Floats)
    assert_type(record.joint.error, float)
    kind = wire.Kind(Median, "acme:median", {"attribute": wire.NAME})
    assert_type(kind, wire.Kind[Median])
    assert_type(wire.Catalogue.shipped().plus(kind).only("query"), wire.Catalogue)
    wire.loads("queries", text)  # type: ignore[call-overload]  # no group of that name
    wire.loads("query", 3)  # type: ignore[call-overload]  # no text
    wire.dumps(Count(), domain="age")  # type: ignore[arg-type]  # a domain


def what_is_made_by_name_has_the_class_of_a_name_that_is_written_out(
    session: Session, name: str, given: dict[str, object]
) -> None:
    assert_type(dpsdk.mechanism("laplace", epsilon=1), Laplace)
    assert_type(dpsdk.query("threshold", attribute="age", threshold=40), Threshold)
    mean = dpsdk.query("mean", attribute="hours", by="sex")
    assert_type(mean, Mean[float | GroupTable])
    asked = dpsdk.query("threshold", attribute="age", threshold=40)
    assert_type(session.answer(asked, using=dpsdk.mechanism("laplace", epsilon=1)), float)
    assert_type(dpsdk.query("workload", queries=[asked]), Workload[object])
    made = dpsdk.mechanism(name, **given)
    assert_type(made, Mechanism[Form])
    assert_type(dpsdk.query(name, **given), Query[object, Form])
    assert_type(dpsdk.mechanism("acme-dp:repeated", epsilon=1), Mechanism[Form])
    session.answer(asked, using=made)  # type: ignore[arg-type]  # it may have to be opened
    if isinstance(made, OneShot):
        assert_type(session.answer(asked, using=made), float)
    assert_type(session.open(made).answer(asked), float)
    assert_type(plugins.listed(), tuple[plugins.Plugin, ...])
    assert_type(plugins.listed()[0].refused, str)
    assert_type(plugins.catalogue("acme-dp"), wire.Catalogue)
    dpsdk.mechanism()  # type: ignore[call-overload]  # without a name
    dpsdk.mechanism(3)  # type: ignore[call-overload]  # no text
    plugins.catalogue(["acme-dp"])  # type: ignore[arg-type]  # no text


def kits_report_on_plugins() -> None:
    report = check_mechanism(Laplace(epsilon=1), Count(), Threshold("age", 40), waived={})
    assert_type(report, Report)
    assert_type(report.conforms, bool)
    assert_type(report.failed, tuple[str, ...])
    assert_type(report.results, tuple[Result, ...])
    assert_type(report["audit"].outcome, Literal["passed", "failed", "waived", "not applicable"])
    check_mechanism(NumericSparse(1, tops=1), Above(Count(), 1), thorough=True)
    assert_type(report.nothing, str)
    check_mechanism(Laplace(epsilon=1), trust={"acme.Peek": "acme.org/peek"})
    check_mechanism(Laplace(epsilon=1), trust=["acme.Peek"])  # type: ignore[arg-type]  # no proof
    check_mechanism(Laplace(epsilon=1), Above(Count(), 1))  # type: ignore[misc]  # must stay one


def discoveries(raw: Undeclared, budget: Budget, session: Session) -> None:
    assert_type(Undeclared.from_csv("flights.csv", unit="tailnum", name="flights"), Undeclared)
    Undeclared.from_csv("flights.csv")  # type: ignore[call-arg]  # whom it protects has no default
    with Discovery(raw, budget) as discovery:
        keys = discovery.keys("dest", rho="0.01", width=3)
        assert_type(keys, Keys)
        assert_type(keys.labels, tuple[str, ...])
        assert_type(keys.covered, float | None)
        assert_type(keys.categorical(other=True), Categorical)
        bounds = discovery.bounds("delay", epsilon=0.1)
        assert_type(bounds, Bounds)
        assert_type(bounds.number(step="0.01"), Number)
        assert_type(discovery.rows_per_person(epsilon=1), RowsPerPerson)
        described = discovery.describe(epsilon=1, delta=1e-6)
        assert_type(described, Description)
        assert_type(described.domain, Domain)
        assert_type(described.columns, tuple[ColumnDescription, ...])
        assert_type(discovery.rows_per_person(epsilon=1).unit, PrivacyUnit)
        assert_type(discovery.quote_keys("dest", rho=1), Estimate)
        assert_type(discovery.history, Receipts)
    Session(raw, budget)  # type: ignore[arg-type]  # nobody has described it
    Discovery(session, budget)  # type: ignore[arg-type]  # a session is no table


def examples_are_private_tables() -> None:
    assert_type(dpsdk.examples.adult(), PrivateData)
    dpsdk.examples.adult(neighbors=Neighbors.ADD_REMOVE, max_rows=50_000, outside="clip")
    dpsdk.examples.adult(unit="who")  # type: ignore[call-arg]  # it has no column of persons
    dpsdk.examples.adult(outside="drop")  # type: ignore[arg-type]  # must stay an error


def pictures(session: Session, workload: Workload[float], axes: Axes) -> None:
    table = session.release(Marginal("age", "sex"), using=Laplace(epsilon=1))
    assert_type(plots.marginal(table), Figure)
    assert_type(plots.heatmap(table, ax=axes, beta=0.1), Figure)
    assert_type(plots.cdf(session.release(workload, using=Laplace(epsilon=1))), Figure)
    fitted = ConvexMinimization(LogisticLoss(), features=["age"], label="income")
    released = session.release(fitted, using=PrivateMinimizer(epsilon=1))
    assert_type(plots.coefficients(released), Figure)
    plots.coefficients(3)  # type: ignore[arg-type]  # no release
    assert_type(plots.stream(session.history), Figure)
    assert_type(plots.stream([session.release(Count(), using=Laplace(epsilon=1))]), Figure)
    assert_type(plots.budget(session), Figure)
    assert_type(plots.plan(session.plan(Count(), error=0.1)), Figure)
    assert_type(plots.plan(session.plan(Count(), error=0.1).best), Figure)
    assert_type(plots.alternative(plots.budget(session.spent)), str)
    plots.marginal(session.release(Count(), using=Laplace(epsilon=1)))  # type: ignore[arg-type]  # no table
    plots.marginal(table.value)  # type: ignore[arg-type]  # no release
    plots.stream(table)  # type: ignore[arg-type]  # of one number each


def budgets_by_period(odometer: Odometer, refused: errors.BudgetExceeded) -> None:
    told = GuaranteeByPeriod(PureGuarantee(1), ((0, 3, PureGuarantee(1)),))
    assert_type(told.whole, Guarantee)
    assert_type(told.parts, tuple[tuple[int, int, Guarantee], ...])
    assert_type(odometer.between(0, 3), Odometer)
    for first, _, spent, remaining in odometer.periods():
        assert_type(first, int)
        assert_type(spent, Spent)
        assert_type(remaining, Remaining)
    assert_type(refused.period, int | None)
    assert_type(refused.passing, tuple[int, int] | None)
