import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta as beta_law
from scipy.stats import binom

from dpsdk import Binned, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import ApproximateGuarantee, PureGuarantee, zcdp_epsilon
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.queries import Count, Linear, Marginal, MarginalTable, Mean, Sum, Threshold, Workload
from dpsdk.release import Cost, NoiseAccuracy
from dpsdk.testing.noise import seeded
from worlds import crossed, inside, people, table

ROWS = people(200, 11)
DATA = table(ROWS)
LAWS = [DiscreteLaplace("0.3"), DiscreteLaplace(7), DiscreteGaussian("0.2"), DiscreteGaussian(40)]


def session(data=DATA, seed=1):
    return Session(data, Budget(10**12, "1e-6"), noise=seeded(seed))


def brute_tail(law, radius):
    """P(|Z| > radius), by adding up the law."""
    span = np.arange(-4000, 4001, dtype=np.float64)
    if isinstance(law, DiscreteLaplace):
        mass = np.exp(-np.abs(span) / float(law.scale))
    else:
        mass = np.exp(-(span**2) / (2 * float(law.variance)))
    mass /= math.fsum(mass)
    return math.fsum(mass[np.abs(span) > radius])


@pytest.mark.thorough(quick=8)
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("beta", [0.9, 0.3, 0.05, 0.001])
def test_radii_are_the_least_that_the_exact_tail_allows(law, beta):
    each = NoiseAccuracy(law, 6, 1.0, 0.0).radii(beta, joint=False)
    joint = NoiseAccuracy(law, 6, 1.0, 0.0).radii(beta, joint=True)
    assert each.shape == joint.shape == (6,)
    for radius, failure in (
        (each[0], lambda r: brute_tail(law, r)),
        (joint[0], lambda r: 1 - (1 - brute_tail(law, r)) ** 6),
    ):
        assert radius == int(radius)
        assert failure(radius) <= beta * (1 + 1e-9)
        assert radius == 0 or failure(radius - 1) > beta * (1 - 1e-9)
    assert joint[0] >= each[0]


def test_steps_and_bias_enter_the_radius():
    plain = NoiseAccuracy(DiscreteLaplace(7), 2, 1.0, 0.0).radii(0.05, joint=True)
    scaled = NoiseAccuracy(DiscreteLaplace(7), 2, 0.25, 3.0).radii(0.05, joint=True)
    np.testing.assert_array_equal(scaled, plain * 0.25 + 3)


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", [Laplace("0.2"), Gaussian(rho="0.01")], ids=str)
def test_the_error_of_a_release_is_the_exact_tail_in_the_answers_unit(mechanism):
    for query, unit in (
        (Marginal("age", "sex"), 1 / 200),
        (Marginal("age", "sex", normalized=False), 1.0),
        (Threshold("age", 20), 1 / 200),
    ):
        release = session().release(query, using=mechanism)
        accuracy = release._measurement.accuracy
        for level in (0.01, 0.05, 0.5):
            radius = round((release.error(level) / unit - accuracy.bias) / accuracy.step)
            entries = accuracy.entries
            assert 1 - (1 - brute_tail(accuracy.law, radius)) ** entries <= level
            assert 1 - (1 - brute_tail(accuracy.law, radius - 1)) ** entries > level
            radius = round((release.errors(level)[0] / unit - accuracy.bias) / accuracy.step)
            assert brute_tail(accuracy.law, radius) <= level < brute_tail(accuracy.law, radius - 1)
            assert release.errors(level).shape == (entries,)
            assert release.errors(level).max() <= release.error(level)


@pytest.mark.parametrize(
    "query",
    [
        Count(), Threshold("age", 20, normalized=False), Sum("hours"), Mean("age"),
        Linear(lambda r: r["age"] / 24, ["age"]),
    ],
)  # fmt: skip
def test_an_interval_contains_the_value_and_has_the_width_of_the_error(query):
    release = session().release(query, using=Laplace("0.5"))
    low, high = release.interval(0.1)
    assert low <= release.value <= high
    assert max(high - release.value, release.value - low) == pytest.approx(release.error(0.1))
    narrow = release.interval(0.9)
    assert low <= narrow[0] <= narrow[1] <= high


def test_the_interval_of_tables_and_workloads_is_a_pair_of_answers():
    release = session().release(Marginal("sex", "age"), using=Laplace("0.5"))
    low, high = release.interval()
    assert isinstance(low, MarginalTable)
    assert low.names == high.names == ("sex", "age")
    np.testing.assert_allclose(high.values - low.values, 2 * release.error())
    np.testing.assert_allclose((high.values + low.values) / 2, release.value.values)
    workload = Workload([Threshold("age", 20), Mean("age"), Marginal("sex")])
    release = session().release(workload, using=Laplace("0.5"))
    low, high = release.interval()
    assert low[0] < release.value[0] < high[0]
    assert low[1] <= release.value[1] <= high[1]
    assert (low[2].values < high[2].values).all()
    for end in (low, high):
        assert end.values[:2].tolist() == [end[0], end[1]]
        assert end.values[2:].tolist() == end[2].values.tolist()
    nested = session().release(Workload([workload, Mean("hours")]), using=Laplace("0.5"))
    for end in nested.interval():
        assert end.values.tolist() == [*end[0].values.tolist(), end[1]]
    assert high.values.shape == release.value.values.shape == release.errors().shape


def test_bounds_say_what_they_rest_on_and_whether_they_say_anything():
    useful = session().release(Count(), using=Laplace(1)).bound(0.05)
    assert (useful.proven, useful.vacuous, useful.beta) == (True, False, 0.05)
    assert useful.kind == "exact tail of the discrete noise"
    vacuous = session().release(Count(), using=Laplace("0.001"))
    assert vacuous.bound(0.05).vacuous
    assert vacuous.bound(0.05).error >= 1
    assert not vacuous.bound(0.999).vacuous
    assert "(vacuous)" in repr(vacuous)
    assert session().quote(Count(), using=Laplace("0.001")).bound().vacuous
    mean = session().release(Mean("age", where={"age": 17, "member": True}), using=Laplace("0.001"))
    assert mean.bound().vacuous
    assert mean.error() == 7
    private = session(table(ROWS, Neighbors.ADD_REMOVE))
    count = private.release(Count(normalized=False), using=Laplace("0.001"))
    assert not count.bound().vacuous  # no public number of rows bounds it


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.1, float("nan"), True, "0.05", None])
def test_beta_is_a_probability(value):
    release = session().release(Count(), using=Laplace(1))
    for ask in (release.error, release.errors, release.interval, release.bound):
        with pytest.raises(InvalidArgument, match="beta"):
            ask(value)


def test_a_release_says_what_was_asked_of_what_at_what_cost():
    release = session().release(Count(), using=Laplace("0.5"))
    assert release.query == "Count()"
    assert release.mechanism == "Laplace(epsilon=0.5)"
    assert str(release.cost)
    assert release.cost.epsilon == Budget("0.5").epsilon
    assert release.source == "measured"
    assert not release.private
    text = repr(release)
    for part in ("Count()", "95%", "measured by Laplace(epsilon=0.5)", "NOT PRIVATE"):
        assert part in text


def test_the_release_of_a_table_keeps_its_error_out_of_the_table():
    release = session().release(Marginal("sex"), using=Laplace("0.5"))
    first, *table, last, note = repr(release).splitlines()
    assert first == "Release of Marginal('sex')"
    assert table == repr(release.value).splitlines()
    assert last.startswith(
        f"± {release.error():.4g} at 95%, measured by Laplace(epsilon=0.5), cost "
    )
    assert last.endswith("NOT PRIVATE: seeded noise")
    assert note == f"note: {release.notes[0]}"
    workload = session().release(Workload([Count(), Marginal("sex")]), using=Laplace("0.5"))
    assert repr(workload).splitlines()[0] == "Release of Workload of 2 queries"
    assert repr(workload).splitlines()[1] == "Answers, 2 in all:"
    assert repr(workload).splitlines()[-2].startswith("± ")


def test_releases_and_quotes_compare_by_value():
    queries = [Count(), Mean("age"), Marginal("sex"), Workload([Count(), Marginal("sex")])]
    for query in [*queries, Linear(np.full(2, 0.5), ["sex"]), Mean("age", where={"age": 24})]:
        one = session(seed=4).release(query, using=Laplace("0.5"))
        same = session(seed=4).release(query, using=Laplace("0.5"))
        other = session(seed=5).release(query, using=Laplace("0.5"))
        dearer = session(seed=4).release(query, using=Laplace("0.6"))
        assert one == same
        assert hash(one) == hash(same)
        assert one != other
        assert one != dearer
        assert one != one.value
        quote = session().quote(query, using=Laplace("0.5"))
        assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
        assert quote == session().quote(query, using=Laplace("0.5"))
        assert hash(quote) == hash(session().quote(query, using=Laplace("0.5")))
        assert quote != session().quote(query, using=Laplace("0.6"))
        assert quote != session().quote(Threshold("age", 20), using=Laplace("0.5"))


def test_a_cost_prints_as_what_was_paid():
    assert repr(Cost((PureGuarantee(2),))) == "Cost(2-DP)"


EMPTY = {"age": 17, "sex": "Female", "member": True, "hours": (10, 20)}


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", [Laplace("0.3"), Gaussian(rho="0.05")], ids=str)
def test_a_mean_of_no_rows_is_not_a_number_and_its_bound_says_nothing(mechanism):
    empty = [row for row in ROWS if not (row["age"] == 17 and inside(row))]
    asked = session(table(empty), seed=6)
    runs, numbers = 200, 0
    for _ in range(runs):
        release = asked.release(Mean("age", where=EMPTY), using=mechanism)
        if math.isnan(release.value):
            for beta in (0.01, 0.05, 0.9):
                assert release.error(beta) == 7
                assert release.bound(beta).vacuous
                assert release.interval(beta) == (17, 24)
                assert release.errors(beta).tolist() == [7]
            assert "(vacuous)" in repr(release)
        else:
            numbers += 1
    # Noise alone exceeds its 95% half-width upwards in 2.5% at the most.
    assert binom.sf(numbers - 1, runs, 0.025) > 1e-6


def test_a_mean_of_many_rows_is_a_number_also_at_its_bound():
    data = PrivateData.from_columns({"a": [9] * 500}, Domain(Integer("a", 0, 9)))
    asked = session(data, seed=7)
    for _ in range(50):
        release = asked.release(Mean("a"), using=Laplace("0.5"))
        assert 8.5 < release.value <= 9
        assert not release.bound().vacuous


def test_in_a_workload_only_the_mean_of_no_rows_is_not_a_number():
    empty = [row for row in ROWS if not (row["age"] == 17 and inside(row))]
    means = Workload([Count(), Mean("age", where=EMPTY), Mean("age"), Marginal("sex")])
    release = session(table(empty), seed=2).release(Workload([means, Count()]), using=Laplace(2))
    inner, count = release.value
    assert np.isnan(release.value.values).tolist() == [False, True, False, False, False, False]
    assert math.isnan(inner[1])
    assert 17 <= inner[2] <= 24
    errors = release.errors()
    assert errors[1] == 7
    assert errors[0] < 1
    assert release.bound().error == 7
    assert math.isfinite(count)


def test_the_unit_of_an_attribute_does_not_change_its_mean():
    rows = list(range(100)) * 10
    means = []
    for unit in (1.0, 2.0**-30, 2.0**-900, 2.0**20):
        domain = Domain(Binned("a", [edge * unit for edge in range(0, 101, 10)]))
        data = PrivateData.from_columns({"a": [row * unit for row in rows]}, domain)
        release = session(data, seed=8).release(Mean("a"), using=Laplace("0.5"))
        means.append((release.value / unit, release.error() / unit))
        assert not release.bound().vacuous
    for value, error in means:
        assert value == pytest.approx(50, abs=1.5)
        assert error == pytest.approx(means[0][1], rel=0.2)


def test_the_cost_of_nothing_is_nothing():
    assert Cost().free
    assert str(Cost()) == "nothing"
    assert Cost().epsilon == Cost().rho == 0
    gaussian = session().release(Count(), using=Gaussian(rho="0.01"))
    assert gaussian.cost.epsilon is None
    assert gaussian.cost.rho == Budget("0.01").epsilon
    assert not gaussian.cost.free


def exact_failure(release, level):
    """How often the truth is outside, by the law itself."""
    accuracy = release._measurement.accuracy
    radius = accuracy.law.radius(level, accuracy.entries)
    return 1 - (1 - brute_tail(accuracy.law, radius)) ** accuracy.entries


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mechanism", "level"), crossed([Laplace("0.5"), Gaussian(rho="0.02")], [0.05, 0.4], 2), ids=str
)
def test_two_thousand_seeded_releases_cover_as_often_as_the_law_says(mechanism, level):
    asked = session(seed=3)
    query = Marginal("sex", "member", normalized=False)
    truth = np.zeros((2, 2))
    for row in ROWS:
        if inside(row):
            truth[int(row["sex"] == "Male"), int(row["member"])] += 1
    runs, missed = 2000, 0
    for _ in range(runs):
        release = asked.release(query, using=mechanism)
        off = np.abs(release.value.values - truth).max()
        missed += off > release.error(level) + 1e-9
    expected = exact_failure(release, level)
    low = beta_law.ppf(5e-7, missed, runs - missed + 1) if missed else 0.0
    high = beta_law.ppf(1 - 5e-7, missed + 1, runs - missed)
    assert low <= expected <= high
    assert expected <= level


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "level"), crossed([None, {"sex": "Male", "member": True}], [0.05, 0.3], 2)
)
def test_the_interval_of_a_mean_covers_the_truth(where, level):
    asked = session(seed=5)
    kept = [r["age"] for r in ROWS if inside(r)]
    if where:
        kept = [r["age"] for r in ROWS if inside(r) and r["sex"] == "Male" and r["member"]]
    truth = np.mean(kept)
    runs, missed, wide = 600, 0, 0
    for _ in range(runs):
        release = asked.release(Mean("age", where=where), using=Laplace("0.3"))
        low, high = release.interval(level)
        missed += not low <= truth <= high
        wide += abs(release.value - truth) > release.error(level)
    # Far fewer than `level` miss; more would have a chance below 1e-6 if exactly `level` did.
    most = runs * level + 5 * math.sqrt(runs * level * (1 - level))
    assert missed <= most
    assert wide <= most
    assert high - low < 7 or where


def test_rounded_weights_are_within_the_bound_without_noise():
    domain = Domain(Integer("a", 0, 6))
    data = PrivateData.from_columns({"a": [3] * 1000}, domain)
    query = Linear(lambda r: r["a"] / 7, normalized=False)
    release = session(data).release(query, using=Laplace(10**7))
    assert abs(release.value - 3000 / 7) <= release.error(0.01)


def test_a_cost_counts_equal_runs_together():
    run, other = PureGuarantee(Fraction(1, 10)), PureGuarantee(2)
    assert str(Cost((run, other, run))) == "2 x 0.1-DP + 2-DP"


def test_a_cost_is_the_same_however_its_equal_runs_are_told():
    run, other = PureGuarantee(Fraction(1, 10)), PureGuarantee(2)
    listed = Cost((run, run, other))
    assert listed == Cost(((run, 2), other)) == Cost([(run, 1), (run, 1), (other, 1), (run, 0)])
    assert listed.runs == ((run, 2), (other, 1))
    assert listed.guarantees == (run, run, other)
    assert listed.epsilon == Fraction(22, 10)
    many = Cost(((run, 10**12),))
    assert str(many) == "1,000,000,000,000 x 0.1-DP"
    assert many.epsilon == 10**11
    assert many.rho == 10**12 * Cost((run,)).rho
    assert not many.free
    with pytest.raises(TooLarge, match="read runs"):
        assert many.guarantees


def test_every_cost_has_a_pair_that_is_proven():
    tenth = PureGuarantee("0.1")
    assert Cost().approximate() == ApproximateGuarantee(0, 0)
    assert Cost(((tenth, 3),)).approximate() == ApproximateGuarantee("0.3", 0)
    leaky = ApproximateGuarantee("0.1", "1e-9")
    assert Cost((tenth, leaky)).approximate() == ApproximateGuarantee("0.2", "1e-9")
    many = Cost(((tenth, 1000),))
    assert many.approximate("1e-6").epsilon < 30 < many.approximate().epsilon == 100
    domain = Domain(Integer("age", 0, 9))
    data = PrivateData.from_columns({"age": [3] * 50}, domain, name="some")
    session = Session(data, Budget(10, "1e-3"))
    asked = Gaussian(epsilon="0.1", delta="1e-6")
    cost = session.quote(Count(), using=asked).at_most
    assert cost.approximate() == ApproximateGuarantee("0.1", "1e-6")
    assert session.release(Count(), using=asked).cost.approximate() == cost.approximate()
    assert cost.approximate("1e-3").epsilon <= Fraction(1, 10)
    plain = session.quote(Count(), using=Gaussian(rho="0.01")).at_most
    with pytest.raises(InvalidArgument, match="delta must be given"):
        plain.approximate()
    for wrong in (0, 1, -1, "x"):
        with pytest.raises(InvalidArgument, match="delta"):
            plain.approximate(wrong)
    assert plain.approximate("1e-6").epsilon == Fraction(zcdp_epsilon(plain.rho, "1e-6"))
    with pytest.raises(InvalidArgument, match="larger"):
        Cost((leaky,)).approximate("1e-10")


@pytest.mark.parametrize("text", ["1/3", "+2/6", "007/21"])
def test_a_fraction_is_an_amount_in_python_as_on_the_wire(text):
    assert Laplace(text).epsilon == Budget(text).epsilon == Fraction(1, 3)
    for wrong in ("1/0", "1/", "/3", "1/-3", "1 /3", "0.1/3", "1/3/1", "9" * 2000 + "/7"):
        with pytest.raises(InvalidArgument):
            Laplace(wrong)
