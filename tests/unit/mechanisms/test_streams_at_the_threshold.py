"""Bounds of sparse vectors on the streams that are worst for them.

A run whose threshold came out high lives longer, so that at a fixed question the threshold in force
is more often a high one than a fresh one is. In these streams most gaps are near their threshold,
so that runs with a low one end and runs with a high one go on; then comes one gap just beyond the
bound, which is broken if that gap is called "below".
"""

import math
from contextlib import suppress

import numpy as np
import pytest
from scipy.stats import binom

from dpsdk import Budget, Domain, Integer, PrivateData
from dpsdk.accounting import Odometer, default_composition
from dpsdk.errors import Closed
from dpsdk.forms import GapForm, Kronecker, LinearForm, Weights
from dpsdk.kernel import Kernel
from dpsdk.kernel.watch import run_share
from dpsdk.mechanisms import NumericSparse, OnlinePMW
from dpsdk.mechanisms.pmw.strategy import Origin
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

BETA = 0.05
DELTA = "1e-6"


def kernel_over(data, source):
    odometer = Odometer(Budget(10**9, "0.1"), default_composition())
    return Kernel(data, odometer, source, "stream")


def kept(failures, trials, beta=BETA):
    """Whether so few failures are no wonder where one comes with probability beta."""
    return binom.sf(failures - 1, trials, beta) > 1e-4


ROWS = 10**6
HALF = Domain(Integer("x", 0, 1))
DATA = PrivateData.from_counts([ROWS // 2, ROWS // 2], HALF)


def stream(tops):
    """A sparse vector, and the bound that would hold if the threshold in force were a fresh one."""
    mechanism = NumericSparse(1, DELTA, tops=tops, numbers="gap")
    watching = mechanism.schedule.watching
    of = facts(HALF, rows=ROWS)
    mean = watching.mean_noise(of)
    fresh = max(watching.below(BETA / 2, of) + mean, watching.above(BETA / 2, of, 1) - mean)
    return mechanism, watching, fresh


@pytest.mark.parametrize("tops", [60, pytest.param(400, marks=pytest.mark.audit)])
def test_a_fixed_question_of_a_long_stream_keeps_its_bound(tops):
    mechanism, watching, fresh = stream(tops)
    questions, trials, source = tops + 1, 250, seeded(3)
    form = LinearForm(HALF, [Kronecker.of(HALF, {"x": Weights([[1.0, 0.0]] * questions)})])
    beyond = np.full(questions, float(1 / watching.threshold_epsilon))
    beyond[-1] = fresh + 1
    gaps = GapForm(form, np.zeros(questions), ROWS / 2 - beyond, absolute=False)
    failures = too_fresh = 0
    for _ in range(trials):
        with suppress(Closed):
            kernel = kernel_over(DATA, source)
            answer = mechanism.open(kernel).answer(gaps, kernel)
            if np.isnan(answer.values[-1]):
                too_fresh += 1
                failures += answer.accuracy.radii(BETA, joint=False)[-1] < beyond[-1]
    assert not kept(too_fresh, trials)  # the stream is as bad as it is meant to be
    assert kept(failures, trials), failures


@pytest.mark.parametrize("tops", [60, 400])
@pytest.mark.parametrize("height", [0.0, 1.0])
def test_no_height_of_the_last_gap_breaks_the_bound_more_often(tops, height):
    """The stream by itself, without a table, with many more trials."""
    rng, trials = np.random.default_rng(5), 4000
    _, watching, fresh = stream(tops)
    scale, spread = float(1 / watching.threshold_epsilon), float(2 / watching.query_epsilon)
    of = facts(HALF, rows=ROWS)
    mean = watching.mean_noise(of)
    wide = np.array(
        [watching.below_in(run, BETA / 2, of, tops) + mean for run in range(1, tops + 1)]
    )
    for part in (0.2, 0.5, 1.0, 1.5):
        questions = round(part * tops * math.exp((1 - height) * scale / spread))
        levels = rng.exponential(scale, (trials, tops))
        chance = np.exp(-np.maximum(levels + mean - height * scale, 0.0) / spread)
        ends = np.cumsum(rng.geometric(chance), axis=1)
        run = (ends < questions).sum(axis=1)
        alive = run < tops
        run = np.minimum(run, tops - 1)
        in_force = levels[np.arange(trials), run] + mean
        failures = {}
        for beyond in (fresh, *wide[[0, tops // 4, tops // 2, -1]]):
            below = alive & (rng.exponential(spread, trials) + beyond < in_force)
            failures[beyond] = int((below & (wide[run] <= beyond)).sum())
            assert kept(failures[beyond], trials, BETA / 2), (part, beyond, failures[beyond])


def test_the_shares_of_all_runs_come_to_one_at_the_most():
    for runs in (1, 2, 3, 60, 1000, 1001, 5000):
        shares = [run_share(run, runs) for run in range(1, runs + 1)]
        assert math.fsum(shares) <= 1 + 1e-12
        assert shares == sorted(shares, reverse=True)
        assert min(shares) >= 1 / (2 * runs)
    assert run_share(1, 1) == 1


# Private multiplicative weights: each cell is asked once, and most gaps are near the threshold.


@pytest.mark.parametrize(
    ("updates", "trials"), [(40, 150), pytest.param(200, 200, marks=pytest.mark.audit)]
)
def test_a_fixed_answer_of_multiplicative_weights_keeps_its_bound(updates, trials):
    cells = updates + 2
    domain = Domain(Integer("x", 0, cells - 1))
    given = {"updates": updates, "start": "uniform", "replay": False}
    watching = OnlinePMW(1, DELTA, **given).schedule(facts(domain, rows=ROWS)).watching
    scale, mean = float(1 / watching.threshold_epsilon), watching.mean_noise(facts(domain))
    height = 2 * scale
    fresh = watching.below(BETA, facts(domain, rows=ROWS))
    # From a uniform start: in turns so many rows more and fewer, then a tooth and its counterpart.
    off = np.full(cells, height + scale - mean) * (-1.0) ** np.arange(cells)
    off[-2:] = (height + fresh + scale / 4, -(height + fresh + scale / 4))
    counts = np.round(np.full(cells, 100 * (fresh + height)) + off)
    data = PrivateData.from_counts(counts, domain, outside_rows=round(100 * (fresh + height)))
    rows = data.facts.rows
    mechanism = OnlinePMW(1, DELTA, threshold=height / rows, **given)
    asked = Kronecker.of(domain, {"x": Weights(np.eye(cells)[:-1])})
    form, source = LinearForm(domain, [asked]), seeded(2)
    failures = too_fresh = 0
    for _ in range(trials):
        kernel = kernel_over(data, source)
        answer = mechanism.open(kernel).answer(form, kernel)
        if answer.accuracy.origins[-1] == Origin.BELOW:
            wrong = abs(answer.values[-1] - counts[-2])
            too_fresh += wrong > height + fresh
            failures += wrong > answer.accuracy.radii(BETA, joint=False)[-1]
    assert not kept(too_fresh, trials)
    assert kept(failures, trials), failures
