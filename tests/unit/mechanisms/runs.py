"""Runs of one mechanism over and over, beside the truth."""

import math

import numpy as np
import pytest


def may_miss(runs, beta):
    """How many of so many runs may miss a bound: five deviations above the share that may."""
    return runs * beta + 5 * math.sqrt(runs * beta * (1 - beta))


def check_runs(asked, mechanism, batch, sums, one, total, runs=200):
    """Bounds hold as often as they say for a workload and for one number, whose variance is met."""
    bounds = [asked.quote(query, using=mechanism).error(0.2) for query in (batch, one)]
    variance = asked.quote(one, using=mechanism).accuracy.variances[0]
    missed, errors = np.zeros(2), []
    for _ in range(runs):
        with asked.open(mechanism) as channel:
            missed[0] += np.abs(channel.answer(batch).values - sums).max() > bounds[0]
            errors.append(channel.answer(one) - total)
        missed[1] += abs(errors[-1]) > bounds[1]
    assert missed.max() <= may_miss(runs, 0.2)
    # Five deviations of what the mean and the variance may be.
    assert abs(np.mean(errors)) <= 5 * math.sqrt(variance / runs)
    assert np.mean(np.square(errors)) == pytest.approx(variance, rel=5 * math.sqrt(5 / runs))
