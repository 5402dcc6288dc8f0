"""What starts from weighted records and moves them keeps its claim, exactly, over all neighbours.

The rounds begin at public records, as any start leaves them. The start is all that its runs tell,
which are enumerated by themselves: what it makes of the same numbers is the same for any table.
"""

from contextlib import suppress
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np
import pytest
from registry import BIT, COUNT, PAIR

from dpsdk import Budget, Session
from dpsdk.accounting import BasicComposition, Odometer, ZCDPComposition
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.accounting.prices.run import zcdp_rho
from dpsdk.data.vault import open_histogram
from dpsdk.hypothesis import Records
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise
from dpsdk.mechanisms import MWEM, OfflinePMW, OnlinePMW, Sampled
from dpsdk.mechanisms.mwem.learners import OnRecords
from dpsdk.mechanisms.mwem.plan import Plan
from dpsdk.mechanisms.pmw.strategy import OnlineStrategy
from dpsdk.queries import Marginal, Workload
from dpsdk.release import Measurement
from dpsdk.testing import seeded
from dpsdk.testing.audit import audit, neighbours

EPSILON = Fraction(20)
TWO_TABLES = Workload([Marginal("a"), Marginal("b")]).lower(PAIR)
FOUR = Records(PAIR, [[0, 0], [0, 1], [1, 0], [1, 1]], [97, 1, 1, 1], outside_mass=0.1)
TWO = Records(BIT, [[0], [1]], [3, 1], outside_mass=0.2)


def told(records):
    """All that the weights are."""
    names = records.domain.names
    return records.table(names).tobytes(), records.outside_mass


class Truthful:
    """A kernel that charges and draws as it should, and hands out the truth."""

    def __init__(self, kernel, data):
        self.select = kernel.select
        self._kernel, self._data = kernel, data

    def measure(self, form, noise):
        true = form.evaluate(open_histogram(self._data))
        return Measurement(true, self._kernel.measure(form, noise).accuracy)


def unpaid(kernel, data):
    """A choice of the worst part, by the table."""
    honest, histogram = Truthful(kernel, data), open_histogram(data)
    honest.measure = kernel.measure
    rates = FOUR.answers(TWO_TABLES)
    gaps = np.abs(TWO_TABLES.evaluate(histogram) - rates * histogram.rows)
    honest.select = lambda _, epsilon, groups, **given: int(
        np.argmax(gaps if groups is None else gaps.reshape(2, 2).sum(axis=1))
    )
    return honest


def round_on_records(whole, over=lambda kernel, data: kernel):
    """One round past the start: which part is off the most, and where its numbers move records."""
    plan = Plan("tuned", 1, EPSILON / 4, LaplaceNoise(3 * EPSILON / 4), GaussianNoise(1))
    learners = {}

    def run(data, noise):
        kernel = Kernel(data, Odometer(Budget(EPSILON), BasicComposition()), noise, "mwem")
        if data.facts not in learners:
            start = Sampled(records=4)
            learners[data.facts] = OnRecords(TWO_TABLES, plan, kernel.terms, start, whole=whole)
        learner = learners[data.facts]
        learner._records, learner._learnt = FOUR.copy(), ()
        learner.round(over(kernel, data))
        return learner._learnt[-1][0], told(learner._records)

    return run


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("twin", [None, Truthful, unpaid])
def test_a_round_on_records(whole, twin):
    program = round_on_records(whole) if twin is None else round_on_records(whole, twin)
    report = audit(program, neighbours(PAIR, 1), PureGuarantee(EPSILON))
    assert report.passed is (twin is None), report
    assert report.figure > report.allowed * (0.8 if twin is None else 1.1)


def online(data, noise):
    """A gap that is looked at, a number that is measured, and what the records learn of it."""
    stream = OnlinePMW(EPSILON, updates=1, start=TWO, threshold=0.01)
    session = Session(data, Budget(1000), composition=BasicComposition(), noise=noise)
    with session.open(stream) as channel:
        release = channel.release(COUNT)
        return release.source, release.value, told(channel.distribution)


def online_by_the_table(monkeypatch, data, noise):
    """The same, where the records learn the truth."""
    learn = OnlineStrategy._learn

    def learnt(self, row, answer, value):
        del value
        histogram = open_histogram(data)
        learn(self, row, answer, float(row.evaluate(histogram)[0]) / histogram.rows)

    with monkeypatch.context() as patched:
        patched.setattr(OnlineStrategy, "_learn", learnt)
        return online(data, noise)


@pytest.mark.thorough
@pytest.mark.parametrize("broken", [False, True])
def test_a_round_of_a_stream_on_records(broken, monkeypatch):
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", 0)
    program = partial(online_by_the_table, monkeypatch) if broken else online
    report = audit(program, neighbours(BIT, 1), PureGuarantee(EPSILON))
    assert report.passed is not broken, report
    assert report.figure > report.allowed * (1.1 if broken else 0.3)


class Replayed:
    """A kernel over a table that hands out what was released of another, and notes what is asked.

    What a start makes of the same numbers must be the same, or it looked at the rows.
    """

    def __init__(self, data, released=None):
        odometer = Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1"))
        self.kernel = Kernel(data, odometer, seeded(5), "start")
        self.facts, self.terms = self.kernel.facts, self.kernel.terms
        self.progress = self.kernel.progress
        self.asked, self.released, self._given = [], [], iter(released or ())

    def _noted(self, asked, numbers):
        self.asked.append(asked)
        self.released.append(next(self._given, numbers))
        return self.released[-1]

    def run(self, request):
        return self._noted(request, self.kernel.run(request))

    def look(self, references, noise, *, bits):
        told = [(one.names, one.rounded(8).tobytes()) for one in references]
        return self._noted((told, noise), self.kernel.look(references, noise, bits=bits))


def started(data, released=None, rho=8):
    kernel = Replayed(data, released)
    return Sampled(width=2, records=16).open(kernel, GaussianNoise(rho)), kernel


def count(data):
    return int(open_histogram(data).table(("a",))[0])


def weighed_by_the_table(data, released=None):
    records, kernel = started(data, released)
    records.blend(0.1 * (1 + count(data)))
    return records, kernel


def paid_by_the_table(data, released=None):
    """What is asked follows from the rows."""
    return started(data, released, 4 if count(data) else 8)


TWINS = {None: started, "records": weighed_by_the_table, "requests": paid_by_the_table}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("name", TWINS)
def test_the_records_of_a_start_are_made_of_what_was_released(name):
    open_start, kept, spread = TWINS[name], [], set()
    for one, other in islice(neighbours(PAIR, 2), 0, None, 9):
        records, first = open_start(one)
        spread.add(told(records))
        with suppress(ValueError):  # of other numbers than were asked for
            again, second = open_start(other, first.released)
            kept.append(told(records) == told(again) and first.asked == second.asked)
    assert all(kept) is (name is None)
    assert len(spread) > 5


def unpaid_start(self, kernel, noise=None, allowance=None):
    """A start whose runs are charged to nobody."""
    (data,) = OPENED
    free = Kernel(data, Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1")), seeded(5), "free")
    return OPEN(self, free, noise, allowance)


OPEN, OPENED = Sampled.open, []


@pytest.mark.parametrize("make", [MWEM, OfflinePMW])
@pytest.mark.parametrize("broken", [False, True])
def test_all_that_an_opening_asks_is_charged(make, broken, monkeypatch):
    rho = Fraction(1, 2)
    if broken:
        monkeypatch.setattr(Sampled, "open", unpaid_start)
    known = make(Marginal("a", "b"), rho=rho, rounds=1, start=Sampled(records=16))
    for data, _ in islice(neighbours(PAIR, 1), 3):
        OPENED[:] = [data]
        session = Session(data, Budget(9, "1e-6"), composition=ZCDPComposition(), noise=seeded(3))
        session.open(known)
        paid = [float(zcdp_rho(run)) for run in session.history[0].cost.guarantees]
        # Nine tenths for the start in three runs, a choice, and a number.
        whole = len(paid) == 5 and sum(paid[:3]) == pytest.approx(0.9 * float(rho), rel=1e-6)
        assert whole is not broken
        assert sum(paid) <= rho
        assert (sum(paid) == pytest.approx(float(rho), rel=1e-4)) is not broken
