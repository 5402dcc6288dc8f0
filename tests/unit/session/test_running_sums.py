"""Nightly sums for ever: what they cost each period, what follows from them, and who goes on."""

import multiprocessing
import os
import random
import signal
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Categorical, Date, Domain, Periods, PrivacyUnit, PrivateData, Session
from dpsdk.accounting import MemoryLedger, SQLiteLedger, ZCDPComposition
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.errors import BudgetExceeded, InvalidArgument, QueryError, UnknownLabel
from dpsdk.mechanisms import Gaussian, Laplace, RunningSums
from dpsdk.mechanisms.running_sums.series import UNIT, inverse, of_nights, weights
from dpsdk.queries import Between, Count, Marginal
from dpsdk.session.running import RunningChannel
from dpsdk.testing import seeded

FIRST = date(2026, 1, 1)
SEXES = Marginal("sex", normalized=False)


def day(number):
    return FIRST + timedelta(days=number)


def visits(days=12, rows=600, *, until=None, cells=1, unit=None, start=0):
    noise = np.random.default_rng(3)
    when = noise.integers(0, until or days, rows)
    sexes = noise.choice(["F", "M"], rows)
    kept = (when >= start) & (when < days)
    columns = {
        "visited": [day(int(one)) for one in when[kept]],
        "sex": sexes[kept].tolist(),
        "who": noise.integers(0, 99, rows)[kept].astype(str).tolist(),
    }
    domain = Domain(Date("visited", day(start), day(days - 1)), Categorical("sex", ["F", "M"]))
    periods = Periods("visited", days=cells, origin=FIRST if cells > 1 else None)
    return PrivateData.from_columns(columns, domain, name="visits", periods=periods, unit=unit)


def session(data=None, **given):
    return Session(data or visits(), Budget(1, "1e-6"), noise=seeded(1), **given)


def sums(nights=4, rho="0.01", **given):
    return RunningSums(SEXES, nights=nights, rho=rho, **given)


def during(first, last, query=Marginal):
    where = {"visited": Between(day(first), day(last))}
    return (
        query("sex", where=where, normalized=False)
        if query is Marginal
        else Count(where, normalized=False)
    )


def factor(memory, width, nights=3650, total=False):
    """The deviation of a sum of the last periods, in units of one answer at all that one pays."""
    line = weights(365, memory)
    count = 365 if total else nights
    wanted = np.zeros((1, count))
    wanted[0, count - width :] = 1
    whole = np.sqrt(sum(one**2 for one in line)) / UNIT
    return whole * np.linalg.norm(of_nights(line, wanted))


def test_deviations_are_those_of_the_table():
    found = [round(factor(0.35, width), 2) for width in (1, 7, 30, 90, 365)]
    assert found == [1.30, 2.13, 2.84, 3.46, 4.23]
    assert round(factor(0.35, 365, total=True), 2) == 3.75
    assert round(factor(0.5, 365, total=True), 2) == 2.94
    assert round(factor(0, 365, total=True), 2) == 19.10


@pytest.mark.parametrize("memory", [0, 0.35, 0.5, 1])
def test_nights_give_periods_back_with_the_covariance_of_the_inverse(memory):
    line, nights = weights(4, memory), 6
    triangle = np.array(
        [
            [line[t - s] / UNIT if 0 <= t - s < 4 else 0 for s in range(nights)]
            for t in range(nights)
        ]
    )
    back = np.linalg.inv(triangle)
    assert np.allclose(inverse(line, nights), back[:, 0], atol=1e-12)
    wanted = np.array(
        [[a <= p <= b for p in range(nights)] for a in range(nights) for b in range(a, nights)],
        float,
    )
    found = of_nights(line, wanted)
    assert np.allclose(found, wanted @ back, atol=1e-12)
    assert np.allclose(found @ found.T, wanted @ back @ back.T @ wanted.T, atol=1e-12)


def test_many_sums_at_once_are_the_same():
    line = weights(30, 0.35)
    wanted = np.tril(np.ones((1500, 1500)))
    assert np.allclose(of_nights(line, wanted)[[3, 1499]], of_nights(line, wanted[[3, 1499]]))


def test_answers_are_right_within_their_bounds_and_free():
    one = session()
    with one.open(sums()) as channel:
        assert isinstance(channel, RunningChannel)
        assert channel.known is None
        assert channel.advance(day(9)) == tuple(map(day, range(10)))
        assert channel.known == (day(0), day(9))
        spent = one.spent
        whole = Session(visits(), Budget(10**6), noise=seeded(2)).between(day(2), day(7))
        exact = whole.answer(SEXES, using=Laplace(1000)).values
        release = channel.release(during(2, 7))
        assert (abs(release.value.values - exact) <= release.error(1e-6)).all()
        assert release.cost.nothing
        assert "night of their period" in release.bound().kind
        total = channel.release(during(2, 7, Count))
        assert total.value == pytest.approx(release.value.total())
        table = channel.answer(
            Marginal("visited", "sex", where={"visited": Between(day(2), day(7))}, normalized=False)
        )
        assert table.values.sum(axis=0) == pytest.approx(release.value.values)
        assert one.spent == spent


def test_errors_have_the_variance_that_is_told():
    data, found = visits(days=6), []
    for seed in range(30):
        one = Session(data, Budget(1, "1e-6"), noise=seeded(seed))
        channel = one.open(sums())
        channel.advance(day(5))
        release = channel.release(during(1, 4))
        found.append(release.value.values)
    variance = release.accuracy.variances
    assert np.var(found, axis=0).sum() / variance.sum() == pytest.approx(1, abs=0.6)


@pytest.mark.parametrize("unit", [None, PrivacyUnit("who", max_rows=3)])
def test_each_period_pays_the_squares_of_its_weights(unit):
    one = session(visits(unit=unit), composition=ZCDPComposition())
    mechanism = sums(nights=4)
    channel = one.open(mechanism)
    channel.advance(day(9))
    line = mechanism.weights
    for number in range(12):
        nights = range(number, min(number + 4, 10))
        due = Fraction(sum(line[night - number] ** 2 for night in nights), UNIT**2 * 100)
        (statement,) = one.periods(day(number), day(number))
        assert statement.spent.rho == pytest.approx(float(due), abs=0)


def test_a_night_that_was_asked_twice_is_charged_once():
    one = session()
    channel = one.open(sums())
    channel.advance(day(5))
    charged = one.spent.charges
    assert channel.advance(day(5)) == ()
    other = one.open(sums())
    assert other.advance(day(5)) == ()
    assert one.spent.charges == charged
    assert (other.answer(during(0, 5)).values == channel.answer(during(0, 5)).values).all()


def on(ledger, data):
    return Session(data, Budget(1, "1e-6"), ledger=ledger)


def test_others_go_on_over_a_domain_that_grew(tmp_path):
    ledger = SQLiteLedger(tmp_path / "spent.db")
    with on(ledger, visits(days=8, until=12)) as one:
        channel = one.open(sums())
        channel.advance(day(7))
        before = channel.answer(during(0, 6)).values
    with on(SQLiteLedger(tmp_path / "spent.db"), visits(days=9, until=12)) as two:
        channel = two.open(sums())
        assert (channel.answer(during(0, 6)).values == before).all()
        assert channel.advance(day(8)) == (day(8),)
    # A table that reaches back as far as a night weighs is enough.
    with on(SQLiteLedger(tmp_path / "spent.db"), visits(days=10, until=12, start=6)) as three:
        channel = three.open(sums())
        assert channel.known == (day(0), day(8))
        assert channel.advance(day(9)) == (day(9),)
    late = visits(days=11, until=12, start=9)
    with (
        on(SQLiteLedger(tmp_path / "spent.db"), late) as four,
        pytest.raises(InvalidArgument, match="2026-01-08 on"),
    ):
        four.open(sums()).advance(day(10))


def test_a_lost_night_is_paid_again(monkeypatch):
    one = session(composition=ZCDPComposition())
    channel = one.open(sums())
    channel.advance(day(3))
    from dpsdk.session.stored import Request

    def lost(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Request, "kept", lost)
        with pytest.raises(KeyboardInterrupt):
            channel.advance(day(4))
    paid = one.periods(day(4), day(4))[0].spent.rho
    assert channel.known == (day(0), day(3))
    assert channel.advance(day(4)) == (day(4),)
    assert one.periods(day(4), day(4))[0].spent.rho == 2 * paid
    # What was to spare is gone, and so the next loss is one that nobody pays.
    channel.advance(day(5))
    assert channel.known == (day(0), day(5))


def test_a_spent_day_does_not_end_the_series():
    one = session(composition=ZCDPComposition())
    channel = one.open(sums())
    channel.advance(day(3))
    for number in (3, 4):
        desk = one.between(day(number), day(number))
        left = desk.remaining.rho
        desk.answer(SEXES, using=Gaussian(rho=left))
        with pytest.raises(BudgetExceeded):
            desk.answer(SEXES, using=Gaussian(rho=left))
    assert len(channel.advance(day(11))) == 8


def test_days_before_the_series_may_be_spent():
    one = session(composition=ZCDPComposition())
    old = one.between(day(0), day(3))
    old.answer(SEXES, using=Gaussian(rho=old.remaining.rho))
    channel = one.open(sums(since=day(4)))
    assert channel.advance(day(11)) == tuple(map(day, range(4, 12)))
    channel.answer(during(4, 11))
    with pytest.raises(QueryError, match="2026-01-05 to 2026-01-12"):
        channel.answer(during(3, 11))


def test_periods_are_measured_when_they_are_complete():
    one = session(visits(days=12, cells=5))
    channel = one.open(sums())
    assert channel.advance(day(8)) == (day(0),)
    assert channel.advance(day(11)) == (day(5),)
    with pytest.raises(QueryError, match="whole periods"):
        channel.answer(during(0, 6))
    assert channel.release(during(0, 9)).error() > 0


def test_what_it_does_not_know_is_refused_and_what_it_cannot_do():
    one = session()
    channel = one.open(sums())
    with pytest.raises(QueryError, match="nothing yet"):
        channel.answer(during(0, 3))
    channel.advance(day(5))
    charges = one.spent.charges
    for query in (SEXES, during(0, 6), Count({"visited": day(8)}, normalized=False)):
        with pytest.raises(QueryError, match="2026-01-01 to 2026-01-06"):
            channel.answer(query)
    with pytest.raises(UnknownLabel):
        channel.advance(day(12))
    with pytest.raises(InvalidArgument, match="nights must"):
        RunningSums(SEXES, nights=1025)
    with pytest.raises(InvalidArgument, match="memory"):
        RunningSums(SEXES, memory=1.5)
    with pytest.raises(InvalidArgument, match="query"):
        RunningSums("sex")
    for query in (Marginal("visited"), Count({"sex": "F"}), Marginal("sex", where={"sex": "F"})):
        with pytest.raises(QueryError):
            one.open(RunningSums(query))
    with pytest.raises(InvalidArgument, match="rho"):
        one.open(sums(rho=5))
    with pytest.raises(InvalidArgument, match="session"):
        one.between(day(0), day(3)).open(sums())
    assert one.spent.charges == charges


def test_it_needs_a_table_with_periods():
    domain = Domain(Categorical("sex", ["F", "M"]))
    data = PrivateData.from_columns({"sex": ["F"]}, domain)
    with pytest.raises(InvalidArgument, match="periods"):
        session(data).open(sums())


def test_ending_a_series_gives_its_reserve_back():
    ledger = MemoryLedger()
    one = session(ledger=ledger)
    left = one.remaining.rho
    channel = one.open(sums())
    assert one.remaining.rho < left
    channel.end()
    assert one.remaining.rho == left
    assert all(told.closed for told in ScopeOdometer.within(one._context.payer))


@pytest.mark.thorough
def test_nights_go_on_where_a_process_was_killed(tmp_path):
    """Killed at whatever it was doing, again and again: no night is lost or paid too often."""
    path, ends = tmp_path / "spent.db", random.Random(5)
    asked, killed = sums(nights=6, rho="0.0005", spare=4), 0
    opened = Session(visits(40), Budget(1, "1e-6"), ledger=SQLiteLedger(path))
    opened.open(asked)

    def advance():
        one = Session(visits(40), Budget(1, "1e-6"), ledger=SQLiteLedger(path))
        one.open(asked).advance(day(39))

    for _ in range(30):
        process = multiprocessing.get_context("fork").Process(target=advance)
        process.start()
        process.join(0.02 + 0.3 * ends.random())
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.join()
        last = opened.open(asked).known
        if last is not None and last[1] == day(39):
            break
    assert killed
    channel = opened.open(asked)
    channel.advance(day(39))
    assert channel.known == (day(0), day(39))
    assert channel.release(during(3, 30)).value.values.shape == (2,)
    nights = {one.request_id.partition(", again")[0] for one in opened_charges(path)}
    assert len(nights) == 40
    assert len(opened_charges(path)) <= 40 * 5


def opened_charges(path):
    return [one for one in SQLiteLedger(path).charges() if "night of" in one.request_id]
