"""What is said of an error before there is an answer, and under which assumptions it holds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpsdk import Binned, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.forms.assumptions import NOTHING, Assumptions
from dpsdk.mechanisms import Gaussian, Laplace, NumericSparse
from dpsdk.planner import Assumptions as Public
from dpsdk.queries import Above, Count, Marginal, Mean, Median, Quantile, Sum, Threshold, Workload
from dpsdk.testing import seeded
from worlds import crossed

pytestmark = pytest.mark.thorough

ADD = Neighbors.ADD_REMOVE
DOMAIN = Domain(Integer("age", 17, 90), Categorical("sex", ["F", "M"]))


def facts_of(attribute, rows, *, outside=True, neighbors=Neighbors.REPLACE_ONE):
    public = rows if neighbors is Neighbors.REPLACE_ONE else None
    return Facts(Domain(attribute), neighbors, public, outside, rows)


def session_of(size=2000, **options):
    ages = [17 + (7 * row) % 74 for row in range(size)]
    sexes = ["FM"[row % 2] for row in range(size)]
    data = PrivateData.from_columns({"age": ages, "sex": sexes}, DOMAIN, **options)
    return Session(data, Budget(10**6, "1e-6"), noise=seeded(3))


ATTRIBUTES = (Integer("x", 0, 2), Integer("x", -5, -4), Binned("x", [0.0, 0.5, 3.0]))
RADII = ((1.0, 1.0), (3.0, 0.5), (0.25, 2.0), (0.0, 1.0))


def weights_of(query, attribute):
    """What a row of each cell adds to the raw numbers of a mean."""
    total, count = query.lower(Domain(attribute)).blocks
    sums = total.scale * total.factors[0].matrix()[0]
    return np.stack([sums, np.full(attribute.size, count.scale)])


def truths(query, attribute, counted):
    """The raw numbers of every table with so many rows that count."""
    weights = weights_of(query, attribute)
    for cells in itertools.combinations_with_replacement(range(attribute.size), counted):
        yield weights[:, list(cells)].sum(axis=1)


@pytest.mark.parametrize(("attribute", "radii"), crossed(ATTRIBUTES, RADII, 2))
def test_no_table_that_is_as_assumed_has_a_worse_mean(attribute, radii):
    # Radii in rows of full weight; every table, and every corner and edge of what may be released.
    query, rows = Mean("x"), 6
    facts = facts_of(attribute, rows)
    unit = weights_of(query, attribute)[1, 0]
    wide = np.array(radii) * unit
    steps = (-1.0, 0.0, 1.0)
    for settled, least in itertools.product((0.0, 3.5), (4, 5)):
        apart = np.full(2, settled * unit)
        assumed = Assumptions(inside=Fraction(least, rows))
        said = float(query.presumed(wide, lambda a=apart: a, facts, assumed)[0])
        worst = 0.0
        for counted in (least, rows):
            for raw in truths(query, attribute, counted):
                mean = query.lift(raw, facts)
                for moves in itertools.product(steps, steps):
                    near = raw + wide * moves
                    released = query.settled(near, lambda a=apart: a, facts)
                    stated = float(query.spread(released, wide, facts)[0])
                    worst = max(worst, stated)
                    assert stated <= said
                    if not np.isnan(released).any():
                        assert abs(query.lift(released, facts) - mean) <= said
        # And it is not much larger than it has to be.
        if radii == (1.0, 1.0) and isinstance(attribute, Integer):
            assert worst >= 0.6 * said


def test_a_mean_is_bounded_as_often_as_it_says():
    session, query, beta = session_of(), Mean("age"), 0.2
    quote = session.quote(query, using=Laplace(epsilon=0.05), assume={"inside": 1})
    bound, truth = quote.assumed(beta), np.mean([17 + (7 * row) % 74 for row in range(2000)])
    assert bound.standing == "assumed"
    assert not bound.vacuous
    assert not bound.proven
    runs = 400
    releases = [session.release(query, using=Laplace(epsilon=0.05)) for _ in range(runs)]
    most = binom.isf(1e-6, runs, beta)
    assert sum(abs(one.value - truth) > bound.error for one in releases) <= most
    assert sum(one.error(beta) > bound.error for one in releases) <= most
    # As near as a factor of two: it is the worst of all means, and this one is in the middle.
    assert np.median([one.error(beta) for one in releases]) > bound.error / 3


def test_a_quote_of_a_mean_rests_on_what_is_assumed_and_on_nothing_else():
    session, using = session_of(), Laplace(epsilon=0.1)
    quote = session.quote(Mean("age"), using=using)
    assert quote.bound().vacuous
    assert quote.assumed() is None
    assumed = session.quote(Mean("age"), using=using, assume={"inside": 0.9})
    assert assumed.bound() == quote.bound()
    assert (assumed.at_open, assumed.at_most) == (quote.at_open, quote.at_most)
    bound = assumed.assumed(0.05)
    assert 0 < bound.error < 10
    assert bound.kind.endswith("if at least 90% of the rows count")
    assert "assumed: at least 90% of the rows count" in repr(assumed)
    fewer = session.quote(Mean("age"), using=using, assume={"inside": 0.5}).assumed()
    assert fewer.error > bound.error
    where = session.quote(Mean("age", where={"sex": "F"}), using=using, assume={"inside": 0.9})
    assert where.assumed() == bound
    # The public number is what there is, so that all of them lie in the domain.
    rows = session.quote(Mean("age"), using=using, assume={"rows": 2000}).assumed()
    assert rows.error < bound.error
    assert rows.kind.endswith("if all rows lie in the domain")


def test_what_is_known_of_the_rows_needs_no_assumption():
    session = session_of(outside="raise")
    bound = session.quote(Mean("age"), using=Laplace(epsilon=0.1)).bound()
    assert bound.proven
    assert not bound.vacuous
    assert (
        session.quote(Mean("age"), using=Laplace(epsilon=0.1), assume={"inside": 1}).assumed()
        is None
    )
    for _ in range(20):
        release = session.release(Mean("age"), using=Laplace(epsilon=0.1))
        assert release.error(1e-6) <= session.quote(Mean("age"), using=Laplace("0.1")).error(1e-6)
    conditional = session.quote(Mean("age", where={"sex": "F"}), using=Laplace(epsilon=0.1))
    assert conditional.bound().vacuous
    # Of a part nobody knows how many rows it has.
    with session.partition("sex") as parts:
        assert parts["F"].quote(Mean("age"), using=Laplace(epsilon=0.1)).bound().vacuous


def test_a_private_number_of_rows_is_assumed():
    session = session_of(neighbors=ADD, max_rows=10_000)
    using = Gaussian(rho="0.001")
    assert session.quote(Mean("age"), using=using).bound().vacuous
    assert session.quote(Mean("age"), using=using, assume={"inside": 1}).assumed() is None
    quote = session.quote(Mean("age"), using=using, assume={"rows": 2000})
    assert quote.assumed().kind.endswith(
        "if there are at least 2,000 rows and all rows lie in the domain"
    )
    both = session.quote(Mean("age"), using=using, assume={"rows": 2000, "inside": "0.5"})
    assert both.assumed().error > quote.assumed().error
    for _ in range(20):
        assert session.release(Mean("age"), using=using).error(1e-6) <= quote.assumed(1e-6).error
    # A level that is a share has its error in rows alone, unless their number is assumed.
    above = Above(Threshold("age", 40), 0.5)
    sparse = NumericSparse(epsilon=1, tops=3)
    assert session.quote(above, using=sparse).bound().error == math.inf
    told = session.quote(above, using=sparse, assume={"rows": 2000})
    count = session.quote(Above(Threshold("age", 40, normalized=False), 800), using=sparse)
    assert told.assumed().error == pytest.approx(count.bound().error / 2000)


def test_a_level_that_is_a_share_is_as_far_off_as_assumed_though_its_release_states_nothing():
    session, sparse, beta = (
        session_of(neighbors=ADD, max_rows=10_000),
        NumericSparse(epsilon=1, tops=1),
        0.2,
    )
    assume = {"rows": 2000}
    error = session.quote(Above(Count(), 0.5), using=sparse, assume=assume).assumed(beta).error
    share, runs, wrong = sum((7 * row) % 74 <= 40 - 17 for row in range(2000)) / 2000, 200, 0
    for run in range(runs):
        level = share + error * (1.001 if run % 2 else -1.001)
        with session.open(sparse) as channel:
            release = session.release(Above(Threshold("age", 40), level), using=channel)
        wrong += release.value is not (level <= share)
        assert release.bound(beta).standing == "none"
    assert wrong <= binom.isf(1e-6, runs, beta)


def test_nothing_can_be_assumed_of_quantiles_and_counts_gain_nothing():
    session = session_of()
    for query in (Median("age"), Quantile("age", 0.9), Count(), Sum("age"), Marginal("sex")):
        quote = session.quote(query, using=Laplace(epsilon=0.1), assume={"inside": 1})
        assert quote.assumed() is None
        assert quote.bound() == session.quote(query, using=Laplace(epsilon=0.1)).bound()
    # Half of the rows at either end, and one of noise: a median is off by the whole of its range.
    median, facts = Median("x"), facts_of(Integer("x", 0, 9), 100, outside=False)
    counts = np.array([50.0] * 9 + [100.0])
    assert median.lift(counts, facts) == 0
    assert median.lift(counts - 0.5 * (np.arange(10) < 9), facts) == 9


def test_a_workload_is_assumed_query_by_query():
    session, using = session_of(), Gaussian(rho="0.01")
    groups = Workload([Mean("age", where={"sex": "F"}), Mean("age", where={"sex": "M"})])
    assert session.quote(groups, using=using).bound().vacuous
    quote = session.quote(groups, using=using, assume={"inside": "0.49"})
    assert not quote.assumed().vacuous
    for _ in range(10):
        assert session.release(groups, using=using).error(1e-6) <= quote.assumed(1e-6).error
    facts, seen = session.facts, []

    class Nosy(Mean):
        def presumed(self, radii, apart, facts, assumptions, /):
            seen.append((radii.copy(), apart()))
            apart()[:] = 0
            radii[:] = 0
            return super().presumed(seen[-1][0], apart, facts, assumptions)

    mixed = Workload([Count(), Nosy("age"), Marginal("sex"), Nosy("age", where={"sex": "F"})])
    radii = np.arange(7.0)
    said = mixed.presumed(radii.copy(), lambda: radii.copy(), facts, NOTHING)
    assert len(said) == 5
    assert [one.tolist() for pair in seen for one in pair] == [[1, 2], [1, 2], [5, 6], [5, 6]]


def test_assumptions_change_no_noise_and_no_charge():
    def run(**assumed):
        session = session_of()
        quotes = [session.quote(Mean("age"), using=Laplace(epsilon=0.1), **assumed)]
        answers = [session.release(Mean("age"), using=Laplace(epsilon=0.1)) for _ in range(3)]
        for _ in range(2):
            session.plan(Mean("age"), error=5, **assumed)
        answers.append(session.release(Mean("age"), using=Gaussian(rho=1)))
        raw = [one.raw.tolist() for one in answers]
        return raw, [quotes[0].at_most, *(one.cost for one in answers)], session.spent

    assert run() == run(assume={"inside": 0.9}) == run(assume=Public(inside=1))


@pytest.mark.parametrize(
    "assume",
    [
        3, "rows", ["rows"], {"row": 3}, {"rows": 0}, {"rows": -1}, {"rows": 2.5}, {"rows": True},
        {"rows": "many"}, {"inside": 0}, {"inside": 1.01}, {"inside": -0.5}, {"inside": "half"},
        {"inside": math.nan}, {"inside": math.inf}, {"inside": True}, {1: 2}, {"rows": 1999},
        {"rows": 2001}, {"rows": 10**30},
    ],
    ids=repr,
)  # fmt: skip
def test_what_cannot_be_assumed_is_refused(assume):
    session = session_of()
    with pytest.raises(InvalidArgument):
        session.quote(Mean("age"), using=Laplace(epsilon=0.1), assume=assume)
    with pytest.raises(InvalidArgument):
        session.plan(Mean("age"), error=1, assume=assume)
    assert session.spent.charges == 0
    private = session_of(neighbors=ADD, max_rows=3000)
    with pytest.raises(InvalidArgument, match="3,000"):
        private.quote(Mean("age"), using=Laplace(epsilon=0.1), assume={"rows": 3001})
