"""Which how-to guides the reference links to from which entry.

By page of `how-to`: the entries it helps with, as the reference names them without `dpsdk.`.
"""

from __future__ import annotations

from typing import Final

PAGES: Final[dict[str, str]] = {
    "from-csv-to-report": """Discovery Undeclared release.Description
        release.ColumnDescription""",
    "declare-a-domain": "Domain Attribute Boolean Categorical Integer Binned Date",
    "load-data": """PrivateData Neighbors Domain Boolean Categorical Integer Binned data.Outside
        data.Collect""",
    "people": "PrivacyUnit PrivateData Neighbors queries.CountPersons",
    "large-tables": "PrivateData queries.Marginal forms.Counts",
    "spark": "PrivateData",
    "conditions": """queries.Count queries.Linear queries.Sum queries.Mean queries.Interval
        queries.Conjunction queries.Not queries.Between queries.Condition queries.Where""",
    "missing-values": """Domain Categorical PrivateData queries.Unmatched queries.UnmatchedTable
        queries.Threshold queries.Interval queries.Marginal queries.Not queries.Count""",
    "dates": "Date queries.DateQuantile queries.Between queries.Interval queries.Threshold",
    "numbers": """Number queries.Sum queries.Mean queries.Variance queries.StdDev
        queries.Threshold queries.Interval queries.Marginal""",
    "quantiles": """mechanisms.ExponentialQuantile mechanisms.RankAccuracy queries.Quantile
        queries.Median queries.DateQuantile forms.Crossing""",
    "marginal-tables": "queries.Marginal queries.MarginalTable",
    "workloads": """queries.Workload queries.Answers queries.Threshold queries.Rectangles
        queries.Marginal queries.marginals mechanisms.Gaussian""",
    "plan": """Session planner.Plans planner.Plan planner.Reason planner.Goal planner.Forecast
        queries.Mean queries.Workload""",
    "choose-a-mechanism": """mechanisms.Laplace mechanisms.Gaussian mechanisms.NoisyHistogram
        mechanisms.Tree mechanisms.SquareRoot mechanisms.Matrix mechanisms.Projection
        mechanisms.ExponentialQuantile
        mechanisms.ResidualPlanner mechanisms.OnlinePMW mechanisms.MWEM mechanisms.SmallDB
        mechanisms.LocalMarginals mechanisms.PrivateMinimizer mechanisms.NumericSparse""",
    "above": "mechanisms.NumericSparse queries.Above queries.NumericAbove",
    "measure-once": """mechanisms.NoisyHistogram mechanisms.Tree mechanisms.SquareRoot
        queries.Threshold queries.Interval queries.Quantile queries.Median queries.isotonic
        HypothesisChannel""",
    "many-tables": """mechanisms.ResidualPlanner mechanisms.ResidualPlan mechanisms.Parts
        mechanisms.JointAccuracy TablesChannel queries.Marginal queries.marginals""",
    "many-queries": """mechanisms.OnlinePMW Channel HypothesisChannel Stopped queries.Count
        queries.Rectangles queries.marginals hypothesis.DenseHypothesis hypothesis.Hypothesis
        hypothesis.PiecewiseHypothesis hypothesis.Product hypothesis.Start hypothesis.Uniform
        hypothesis.Records hypothesis.Pairs mechanisms.Sampled hypothesis.Streams
        learning.WeightsRule learning.QueryMultiplicativeWeights""",
    "small-database": """mechanisms.SmallDB SyntheticData queries.Count queries.Conjunction
        queries.Interval""",
    "known-workloads": """mechanisms.MWEM mechanisms.OfflinePMW mechanisms.Matrix
        mechanisms.Projection mechanisms.ProjectionAccuracy mechanisms.Unfinished Stopped
        DistributionChannel queries.Workload""",
    "many-marginals": """mechanisms.LocalMarginals mechanisms.FittedTable mechanisms.Certificate
        TablesChannel queries.marginals""",
    "distributions": """SyntheticData DistributionChannel HypothesisChannel hypothesis.Distribution
        hypothesis.Hypothesis hypothesis.Mixture hypothesis.Start
        hypothesis.DenseHypothesis hypothesis.Given learning.fit_mixture""",
    "models": """queries.ConvexMinimization queries.Model queries.OneVsRest queries.Classifier
        queries.Softmax queries.OneHot queries.Scaled queries.Cross queries.Feature queries.Ball
        queries.Box
        queries.Simplex mechanisms.PrivateMinimizer mechanisms.Corrected mechanisms.Moments
        mechanisms.SufficientStatistics mechanisms.PredictedExcess mechanisms.CertifiedExcess
        mechanisms.CoefficientSet mechanisms.NoisyDescent mechanisms.Sketch losses.Loss
        losses.GLMLoss losses.LogisticLoss losses.SquaredLoss losses.HuberLoss
        losses.QuantileLoss losses.SVMLoss losses.Link losses.Constants losses.Predicts""",
    "guarded-models": """mechanisms.ConvexPMW mechanisms.TextbookConvexPMW mechanisms.Problem
        mechanisms.OfflineConvexPMW
        mechanisms.SketchedProblem mechanisms.Oracle queries.ConvexMinimization""",
    "composition": """accounting.Composition accounting.AdditiveComposition accounting.AnyOf
        accounting.BasicComposition accounting.AdvancedComposition accounting.ZCDPComposition
        accounting.RenyiComposition accounting.EnvelopeComposition accounting.MixedComposition
        accounting.default_composition""",
    "error-bounds": """Release Quote release.Bound release.Standing release.Source queries.Mean
        mechanisms.Laplace release.PopulationInterval release.PopulationExpectation
        release.Transcript""",
    "typed-clients": "Session Release Channel planner.Plan queries.Query",
    "own-query": """queries.Query queries.LinearQuery queries.CountingQuery queries.ScalarQuery
        release.Lifting forms.Form forms.LinearForm forms.Facts forms.Factor forms.Kronecker
        forms.Weights testing.check_query""",
    "own-mechanism": """mechanisms.Mechanism mechanisms.OneShot mechanisms.OneRun mechanisms.Single
        mechanisms.MeasuresOnce
        mechanisms.Strategy mechanisms.DistributionMechanism mechanisms.TablesMechanism
        mechanisms.HypothesisMechanism mechanisms.ModelsMechanism kernel.Kernel kernel.Measure
        kernel.Terms kernel.LaplaceNoise kernel.GaussianNoise release.Measurement release.Cost
        release.NoAccuracy release.PromisedAccuracy release.ScalarAccuracy release.HalfWidths""",
    "own-primitive": """kernel.Primitive kernel.Request kernel.RunPricing accounting.Trusted
        accounting.Guarantee accounting.PureGuarantee accounting.ApproximateGuarantee
        accounting.DiscreteLaplaceGuarantee accounting.State""",
    "opendp": "accounting.Trusted testing.audit.sample_batches forms.sensitivity",
    "plugins": "plugins.Plugin plugins.mechanism plugins.query plugins.listed plugins.catalogue",
    "check-a-plugin": """testing.check_mechanism testing.check_query testing.Report testing.Result
        plugins.Plugin""",
    "questions-as-data": """wire.Catalogue wire.Kind wire.Field wire.Member wire.dumps wire.loads
        wire.digest wire.schema wire.ReleaseRecord plugins.mechanism
        plugins.query""",
    "ledger": """Session accounting.SQLiteLedger accounting.PostgresLedger accounting.MemoryLedger
        accounting.Anchor accounting.FileAnchor accounting.Spent accounting.Remaining Budget""",
    "renewing": """Periods PrivateData Session session.periods.TimeRange
        session.periods.PeriodStatement release.ByPeriod accounting.GuaranteeByPeriod
        errors.BudgetExceeded""",
    "own-ledger": """accounting.Ledger accounting.Ledgers accounting.Books accounting.Decision
        accounting.Decide accounting.Binding accounting.Dataset accounting.Account accounting.Payer
        accounting.Charge accounting.MemoryLedger""",
    "repeated": "Session",
    "scopes": "Session session.scopes.Scope",
    "groups": """queries.Mean queries.Sum queries.Count queries.GroupTable queries.Workload
        queries.CountPersons queries.CountDistinct
        release.Ranking release.Ranked""",
    "partitions": "Session session.scopes.Partition session.scopes.Part",
    "all-tables": "queries.marginals",
    "read-a-refusal": """errors.DpsdkError errors.BudgetExceeded errors.NoMechanism
        errors.AnswerLost errors.InvalidArgument errors.QueryError errors.LedgerConflict
        errors.ReleaseFailed""",
    "servers": """Session accounting.SQLiteLedger session.scopes.Scope
        mechanisms.RunningSums""",
    "observe": """observe.Observer observe.Observers observe.Opened observe.Charged observe.Refused
        observe.Answered observe.Progress observe.LoggingObserver observe.OpenTelemetryObserver
        session.history.Receipt""",
    "notebooks": """Session Release Domain queries.Answers queries.MarginalTable planner.Plans
        session.history.Receipts""",
    "pictures": """plots.marginal plots.cdf plots.heatmap plots.budget plots.plan plots.stream
        plots.audit plots.alternative Release planner.Plans""",
    "publish": """Release publication.Metadata publication.About publication.Described
        publication.TableFile publication.PublishedTable""",
    "command-line": "examples.adult",
    "service": "Session session.scopes.Scope accounting.SQLiteLedger",
    "progress": "Session PrivateData observe.Progress",
    "migrate": "Session PrivateData",
    "testing": """testing.seeded testing.SeededNoise""",
}


def guides() -> dict[str, tuple[str, ...]]:
    """The guides of an entry by its full name, in the order of `PAGES`."""
    found: dict[str, list[str]] = {}
    for page, entries in PAGES.items():
        for entry in entries.split():
            found.setdefault(f"dpsdk.{entry}", []).append(page)
    return {entry: tuple(pages) for entry, pages in found.items()}
