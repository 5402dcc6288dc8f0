"""Every query against conditions, units, sizes, empty cells and attributes of extreme bounds."""

import itertools
import math
import warnings

import numpy as np
import pytest

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.errors import PublicSizeRequired, QueryError
from dpsdk.mechanisms import Gaussian, Laplace, NumericSparse, OnlinePMW
from dpsdk.queries import (
    Above,
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    MarginalTable,
    Mean,
    Not,
    NumericAbove,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.testing.noise import seeded

LOUD = Laplace(epsilon=1)
QUIET = Laplace(epsilon=10**40)
"""Noise of none, also where a row weighs as much as it may."""


def quiet(data):
    return Session(data, Budget(epsilon=10**50), noise=seeded(1))


NUMERIC = {
    "plain": (Integer("x", 0, 5), [0, 3, 5, 5]),
    "one cell": (Integer("x", 7, 7), [7, 7, 7, 7]),
    "one bin": (Binned("x", [2.0, 4.0]), [2.0, 3.0, 4.0, 3.5]),
    "negative": (Integer("x", -9, -4), [-9, -9, -4, -5]),
    "largest sum": (Integer("x", 2**50 - 2, 2**50), [2**50, 2**50 - 1, 2**50, 2**50 - 2]),
    "small bins": (Binned("x", [0.0, 1e-11, 2e-11]), [0.0, 1e-11, 2e-11, 0.0]),
    "wide bins": (Binned("x", [-(2.0**49), 0.0, 2.0**49]), [-1.0, 1.0, 2.0, -3.0]),
}
"""Attributes whose sums are exact, and the values of four rows."""

BEYOND = {
    "2**53": (Integer("x", 2**53 - 1, 2**53), [2**53] * 4),
    "more rows than sums": (Integer("x", 0, 2**52), [1, 2, 3, 4]),
    "hardly a float": (Integer("x", -(2**1010), 5 - 2**1010), [3, 3, 3, 3]),
    "difference overflows": (Binned("x", [-1.7e308, 0.0, 1.7e308]), [1.0, 2.0, -1.0, 0.0]),
    "middle overflows": (Binned("x", [1.6e308, 1.7e308, 1.79e308]), [1.65e308] * 4),
    "far bins": (Binned("x", [0.0, 1.0, 1e300]), [0.5, 0.5, 2.0, 1e200]),
}
"""Attributes whose sums are not."""

TINY = Binned("x", [0.0, 5e-324, 1e-300])

WHERES = {
    "all": None,
    "some": {"sex": "F"},
    "none": {"sex": "none"},
    "impossible": {"sex": Not({"F", "M", "none"})},
    "two": {"sex": Not("M"), "flag": True},
}

ORDERED = {
    "threshold": lambda a, **g: Threshold("x", a.bounds[1], **g),
    "threshold below": lambda a, **g: Threshold("x", a.bounds[0] - 1, **g),
    "interval": lambda a, **g: Interval("x", a.bounds[0], a.bounds[1], **g),
}
WEIGHED = {
    "sum": lambda a, **g: Sum("x", **g),
    "mean": lambda a, normalized=True, **g: Mean("x", **g),
}
PLAIN = {
    "count": lambda a, **g: Count(**g),
    "conjunction": lambda a, where=None, **g: Conjunction(where or {"flag": True}, **g),
    "marginal": lambda a, **g: Marginal("x", "flag", **g),
    "marginal of the condition": lambda a, **g: Marginal("sex", **g),
    "linear": lambda a, **g: Linear(lambda r: 0.3 if r["flag"] else 0.7, ["flag"], **g),
    "linear of two": lambda a, **g: Linear(np.full((a.size, 2), 0.1), ["x", "flag"], **g),
    "workload": lambda a, **g: Workload([Count(**g), Marginal("flag", **g), Count(**g)]),
}


def data_of(attribute, values, neighbors=Neighbors.REPLACE_ONE):
    domain = Domain(attribute, Categorical("sex", ["F", "M", "none"]), Boolean("flag"))
    given = {} if neighbors is Neighbors.REPLACE_ONE else {"max_rows": 4}
    columns = {"x": values, "sex": ["F", "F", "M", "M"], "flag": [True, False, True, True]}
    return PrivateData.from_columns(columns, domain, neighbors=neighbors, **given)


def numbers(answer):
    """All numbers of an answer, flat."""
    if isinstance(answer, float):
        return [answer]
    if isinstance(answer, MarginalTable):
        return answer.values.ravel().tolist()
    return [number for part in answer for number in numbers(part)]


def bounds_fit(release, empty_mean):
    bound = release.bound()
    values = np.array(numbers(release.value))
    low, high = (np.array(numbers(end)) for end in release.interval())
    errors = release.errors()
    assert errors.shape == values.shape == low.shape
    assert (errors >= 0).all()
    assert not np.isnan([bound.error, *errors, *low, *high]).any()
    assert (low <= high).all()
    if empty_mean:
        assert np.isnan(values).all()
        assert bound.vacuous
    else:
        slack = 1e-9 * max(1.0, np.abs(values).max())
        assert (low <= values + slack).all()
        assert (values <= high + slack).all()
    assert "at 95%" in repr(release)
    assert release == release
    assert hash(release) == hash(release)


KINDS = {**PLAIN, **ORDERED, **WEIGHED}

# Each attribute quickly in a third of all ways, by turns, and slowly in all.
WAYS = [
    pytest.param(attribute, kind, where, neighbors, marks=() if quick else pytest.mark.audit)
    for first, attribute in enumerate(NUMERIC)
    for second, kind in enumerate(KINDS)
    for third, where in enumerate(WHERES)
    for last, neighbors in enumerate(Neighbors)
    for quick in [(first + second + third + last) % 3 == 0]
]


@pytest.mark.thorough(quick=9)
@pytest.mark.parametrize(("attribute", "kind", "where", "neighbors"), WAYS)
def test_every_query_answers_or_says_why_not(attribute, kind, where, neighbors):
    declared, values = NUMERIC[attribute]
    data = data_of(declared, values, neighbors)
    make = KINDS[kind]
    given = {} if WHERES[where] is None else {"where": WHERES[where]}
    counts = [0.0 for _ in values]
    if where != "impossible":
        counts = [
            float((where not in {"some", "two"} or sex == "F") and (where != "two" or flag))
            for sex, flag in zip("FFMM", (1, 0, 1, 1), strict=True)
        ]
        counts = counts if where != "none" else [0.0] * 4
    for normalized in (True, False):
        query = make(declared, normalized=normalized, **given)
        session = quiet(data)
        if neighbors is Neighbors.ADD_REMOVE and normalized and kind != "mean":
            for ask in (session.answer, session.quote):
                with pytest.raises(PublicSizeRequired):
                    ask(query, using=QUIET)
            continue
        # Of an attribute with one value, the mean is that value whatever the rows are.
        known = declared.bounds[0] == declared.bounds[1]
        empty = kind == "mean" and not sum(counts) and not known
        quiet_release = session.release(query, using=QUIET)
        bounds_fit(quiet_release, empty)
        for using in (LOUD, Gaussian(rho=1)):
            noisy = Session(data, Budget(10**3, "0.01"), noise=seeded(2))
            released = noisy.release(query, using=using)
            bounds_fit(released, kind == "mean" and math.isnan(released.value))
        quote = session.quote(query, using=LOUD)
        assert quote.error() >= 0
        assert quote == session.quote(query, using=LOUD)
        expected = truth(kind, declared, values, counts)
        if kind == "mean" and known:
            expected = declared.bounds[0]
        if expected is not None and not empty:
            unit = 4 if normalized and kind != "mean" else 1
            scale = 1e-9 * max(1.0, abs(expected))
            assert quiet_release.value == pytest.approx(expected / unit, abs=scale)


def truth(kind, attribute, values, counts):
    """The sum, mean or count by hand, where this kind has one number."""
    if kind in {"count", "threshold", "interval"}:
        return sum(counts)
    if kind == "threshold below":
        return 0.0
    if kind in WEIGHED:
        if isinstance(attribute, Binned):
            places = [
                min(np.searchsorted(attribute.edges, v, "right") - 1, attribute.size - 1)
                for v in values
            ]
            values = [(attribute.edges[i] + attribute.edges[i + 1]) / 2 for i in places]
        total = math.fsum(v * c for v, c in zip(values, counts, strict=True))
        return total if kind == "sum" else total / max(sum(counts), 1)
    return None


@pytest.mark.thorough(quick=70)
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("kind", WEIGHED)
@pytest.mark.parametrize("attribute", BEYOND)
def test_sums_that_floats_cannot_hold_are_refused_by_query_and_attribute(
    attribute, kind, where, neighbors
):
    declared, values = BEYOND[attribute]
    given = {} if WHERES[where] is None else {"where": WHERES[where]}
    query = WEIGHED[kind](declared, normalized=False, **given)
    session = Session(data_of(declared, values, neighbors), Budget(1), noise=seeded(1))
    for each in (query, Workload([Count(normalized=False), query])):
        for ask in (session.answer, session.quote, session.affords):
            with pytest.raises(QueryError) as caught:
                ask(each, using=LOUD)
            assert caught.value.query == str(query)
            assert "attribute 'x'" in caught.value.reason
    assert session.spent.charges == 0


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("where", WHERES)
def test_sums_of_values_that_would_be_rounded_away_are_refused(where, neighbors):
    given = {} if WHERES[where] is None else {"where": WHERES[where]}
    query = Sum("x", normalized=False, **given)
    session = Session(data_of(TINY, [0.0, 0.0, 1e-301, 0.0], neighbors), Budget(1))
    for ask in (session.answer, session.quote, session.affords):
        with pytest.raises(QueryError, match=r"attribute 'x' .* smaller unit") as caught:
            ask(query, using=LOUD)
        assert caught.value.query == str(query)
    # A mean does not depend on the unit.
    if where not in {"none", "impossible"}:
        mean = quiet(data_of(TINY, [1e-301] * 4, neighbors)).answer(Mean("x", **given), using=QUIET)
        assert mean == pytest.approx(5e-301)
    zero = data_of(Integer("x", 0, 0), [0] * 4, neighbors)
    assert quiet(zero).answer(query, using=QUIET) == 0


@pytest.mark.parametrize("kind", [*PLAIN, *ORDERED])
@pytest.mark.parametrize("attribute", BEYOND)
def test_counts_do_not_care_how_far_an_attribute_reaches(attribute, kind):
    declared, values = BEYOND[attribute]
    if attribute == "hardly a float" and kind in ORDERED:
        kinds = {
            "threshold": Threshold("x", 5),
            "threshold below": Threshold("x", -(2**999)),
            "interval": Interval("x", -5, 5),
        }
        query = kinds[kind]
    elif attribute == "more rows than sums" and kind in {"marginal", "linear of two"}:
        return  # so many cells are refused, whatever their bounds
    else:
        query = {**PLAIN, **ORDERED}[kind](declared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = quiet(data_of(declared, values)).release(query, using=QUIET)
    bounds_fit(released, empty_mean=False)


@pytest.mark.thorough(quick=11)
@pytest.mark.parametrize("kind", [*PLAIN, *ORDERED, *WEIGHED])
@pytest.mark.parametrize("where", WHERES)
def test_every_query_with_every_mechanism_answers_or_names_the_query(kind, where):
    declared, values = NUMERIC["plain"]
    given = {} if WHERES[where] is None else {"where": WHERES[where]}
    query = {**PLAIN, **ORDERED, **WEIGHED}[kind](declared, **given)
    session = Session(data_of(declared, values), Budget(100, "0.01"), noise=seeded(1))
    for make in (OnlinePMW(1, updates=2), NumericSparse(1, tops=2)):
        channel = session.open(make)
        fits = isinstance(make, OnlinePMW) and kind not in WEIGHED
        before = session.spent.charges
        for ask in (channel.release, lambda q, make=make: session.quote(q, using=make)):
            # Weights that are all zero fit, whatever they would be.
            if fits or (where == "impossible" and isinstance(make, OnlinePMW)):
                ask(query)
                continue
            with pytest.raises(QueryError) as caught:
                ask(query)
            assert caught.value.query == str(query)
            assert type(make).__name__ in caught.value.reason
            assert session.spent.charges == before
    if kind in {"workload", "marginal", "marginal of the condition", "mean"}:
        return  # a level is for one number
    for above in (Above, NumericAbove):
        question = above(query, 0.5)
        if kind == "sum" and where != "impossible":
            with pytest.raises(QueryError, match="Sum") as caught:
                session.open(NumericSparse(1, tops=2)).release(question)
            continue
        session.open(NumericSparse(1, tops=2)).release(question)
        for one_shot in (LOUD, Gaussian(rho=1)):
            for ask in (session.release, session.quote):
                with pytest.raises(QueryError, match="open NumericSparse") as caught:
                    ask(question, using=one_shot)
                assert caught.value.query == str(question)


def test_all_marginals_of_a_domain_with_attributes_of_one_cell():
    data = data_of(Integer("x", 3, 3), [3, 3, 3, 3])
    for ways, normalized in itertools.product((1, 2, 3), (True, False)):
        query = marginals(data.domain, ways, normalized=normalized)
        bounds_fit(quiet(data).release(query, using=QUIET), empty_mean=False)
