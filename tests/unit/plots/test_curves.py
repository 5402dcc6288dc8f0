"""Pictures along a line: thresholds, and what was answered and paid over time."""

import math
from datetime import date, datetime

import numpy as np
import pytest

from dpsdk import Date, Domain, Integer, plots
from dpsdk.accuracy import PromisedAccuracy
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Laplace, NumericSparse, OnlinePMW
from dpsdk.queries import Above, Count, Interval, Marginal, Threshold, Workload
from pictures import Widths, ages, artists, drawn, made, segments, session_of, texts, values

pytestmark = pytest.mark.thorough


words = plots.alternative


def test_thresholds_are_in_order_with_their_intervals():
    release = session_of().release(ages(23, 20, 25), using=Laplace(0.5))
    figure = plots.cdf(release, beta=0.1)
    low, high = release.interval(0.1)
    places, lower, upper = segments(figure)
    assert places.tolist() == [20, 23, 25]
    assert lower.tolist() == [low[1], low[0], low[2]]
    assert upper.tolist() == [high[1], high[0], high[2]]
    assert values(figure, "y").tolist() == [release.value[at] for at in (1, 0, 2)]
    assert "β = 0.1, joint" in words(figure)
    assert "at or below 20" in words(figure)


def test_between_thresholds_lies_what_a_rising_share_allows():
    query = Workload(Threshold("age", t, normalized=False) for t in (20, 22, 25))
    figure = plots.cdf(made(query, [1, 4, 9], Widths((1.0, 2.0, 1.0))))
    [shade] = artists(figure, "between thresholds")
    corners = {tuple(corner) for corner in shade.get_paths()[0].vertices.tolist()}
    # From 20 on no lower than 0, and up to 22 no higher than 6; then 2 and 10.
    assert corners == {(20, 0), (22, 0), (20, 6), (22, 6), (22, 2), (25, 2), (22, 10), (25, 10)}
    alone = made(query, [1, 4, 9], Widths((math.inf,) * 3, (1.0,) * 3))
    assert artists(plots.cdf(alone), "between thresholds") == []
    assert "each" in words(plots.cdf(alone))


def test_days_are_thresholds_too():
    domain = Domain(Date("day", date(2024, 1, 1), date(2024, 1, 5)))
    query = Workload(Threshold("day", date(2024, 1, day)) for day in (2, 1, 4))
    figure = plots.cdf(session_of(domain).release(query, using=Laplace(1)))
    drawn(figure)
    assert "2024-01-01" in texts(figure)


def test_among_hours_a_day_lies_below_its_last_one():
    hours = Date("t", datetime(2024, 1, 1), datetime(2024, 1, 2, 23), unit="hour")
    asked = (date(2024, 1, 1), datetime(2024, 1, 1, 5), datetime(2024, 1, 2, 5))
    query = Workload([Threshold("t", one) for one in asked])
    figure = plots.cdf(session_of(Domain(hours)).release(query, using=Laplace(1)))
    [marks] = artists(figure, "value")
    places = np.asarray(marks.get_xdata()) - date(2024, 1, 1).toordinal()
    np.testing.assert_allclose(places, [5 / 24, 1, 29 / 24])


class Falling(Threshold):
    def lower(self, domain):
        return Interval(self.attribute, self.threshold, 99).lower(domain)


def test_of_another_class_it_is_not_known_that_shares_rise():
    query = Workload([Falling("age", t) for t in (21, 23)])
    with pytest.raises(InvalidArgument, match="thresholds"):
        plots.cdf(session_of().release(query, using=Laplace(1)))


def test_bars_without_an_end_go_to_the_edge_of_the_picture():
    figure = plots.cdf(made(ages(20, 21), [0.1, 0.2], Widths((math.inf, 0.1))))
    assert segments(figure)[2].max() == figure.axes[0].get_ylim()[1] > 1


def test_promises_of_several_channels_are_not_said_to_hold_together():
    count = Count(normalized=False)
    releases = [made(count, [one], PromisedAccuracy(2.0, 0.05, 1)) for one in (3, 4)]
    assert "for all of one channel at once" in words(plots.stream(releases))


def test_answers_are_counted_in_whole_numbers():
    releases = [made(Count(normalized=False), [one], Widths((1.0,))) for one in (3, 4)]
    figure = plots.stream(releases)
    drawn(figure)
    assert all(float(one).is_integer() for one in figure.axes[0].get_xticks())


def test_one_threshold_and_one_without_bounds_are_drawn():
    release = session_of().release(ages(22), using=Laplace(1))
    drawn(plots.cdf(release))
    endless = made(ages(20, 21), [1, 2], Widths((math.inf, 1.0)))
    drawn(plots.cdf(endless))
    assert "no end" in words(plots.cdf(endless))


def test_a_monotone_release_says_that_it_was_moved():
    raw = [5, 1, 7, 6, 9, 10]
    release = made(ages(), raw, Widths((2.0,) * 6)).monotone()
    figure = plots.cdf(release)
    assert "Moved after it was measured" in words(figure)
    assert (np.diff(values(figure, "y")) >= 0).all()


@pytest.mark.parametrize(
    "query",
    [
        Workload([Threshold("age", 20), Interval("age", 20, 22)]),
        Workload([Threshold("age", 20), Threshold("age", 22, normalized=False)]),
        Workload([Threshold("age", 20), Threshold("age", 22, where={"sex": "F"})]),
        Workload([Count()]),
        Threshold("age", 20),
        Marginal("age"),
    ],
)
def test_other_workloads_are_no_thresholds(query):
    release = session_of().release(query, using=Laplace(1))
    with pytest.raises(InvalidArgument, match="thresholds of one attribute"):
        plots.cdf(release)


def stream_of(count=12):
    session = session_of(Domain(Integer("age", 0, 15)), private=False)
    with session.open(OnlinePMW(epsilon=1, delta="1e-7", updates=4)) as channel:
        releases = [channel.release(Interval("age", at, at + 3)) for at in range(count)]
    return session, releases


def test_a_stream_shows_answers_updates_and_what_they_cost():
    _, releases = stream_of()
    paying = [not one.cost.free for one in releases]
    assert any(paying)
    figure = plots.stream(releases)
    places, lower, upper = segments(figure)
    intervals = [one.interval() for one in releases]
    assert places.tolist() == list(range(1, 13))
    assert lower.tolist() == [low for low, _ in intervals]
    assert upper.tolist() == [high for _, high in intervals]
    [marks] = artists(figure, "paid for")
    assert marks.get_xdata().tolist() == [at for at, pays in enumerate(paying, 1) if pays]
    [line] = artists(figure, "cost so far")
    total = sum(one.cost.epsilon for one in releases)
    assert line.get_ydata()[-1] == float(total)
    assert (np.diff(line.get_ydata()) > 0).tolist() == paying
    assert f"{sum(paying)} answer" in words(figure)
    assert words(figure).startswith("NOT PRIVATE")
    assert "Each bar holds by itself" in words(figure)
    drawn(figure)


def test_a_stream_of_truth_values_and_of_pure_costs():
    session = session_of()
    releases = [session.release(Count(normalized=False), using=Laplace("0.1")) for _ in range(3)]
    figure = plots.stream(releases)
    assert "together ε 0.3." in words(figure)
    [line] = artists(figure, "cost so far")
    assert line.get_ydata().tolist() == [0, 0.1, 0.2, 0.3]
    with session.open(NumericSparse(1, tops=2)) as sparse:
        drawn(plots.stream([sparse.release(Above(Count(normalized=False), 5)) for _ in range(2)]))


def test_a_history_shows_what_was_charged():
    session = session_of(private=False)
    with pytest.raises(InvalidArgument, match="asked nothing"):
        plots.stream(session)
    session.answer(Count(), using=Laplace("0.1"))
    with session.scope("anna", "0.5") as scope:
        scope.answer(Count(), using=Laplace("0.2"))
    for x in (session, session.history):
        figure = plots.stream(x)
        [line] = artists(figure, "cost so far")
        assert line.get_ydata().tolist() == [0, 0.1, 0.3]
        assert "together ε 0.3." in words(figure)
        assert "anna" in words(figure)
        drawn(figure)
    assert words(plots.stream(session)).startswith("NOT PRIVATE")


def test_other_streams_are_refused():
    session = session_of()
    release = session.release(Count(), using=Laplace(1))
    table = session.release(Marginal("sex"), using=Laplace(1))
    for x in ([], 3, "text", [3], [release, 3], [table], [*session.history, release], {}):
        with pytest.raises(InvalidArgument, match="a session, its history, or releases"):
            plots.stream(x)
