"""Goodness of fit against the exact law, shared by the sampler tests."""

from fractions import Fraction

import numpy as np
from scipy.stats import chi2

from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric

SCALES = [Fraction(1, 3), Fraction(1), Fraction(10), Fraction("127.9"), Fraction("1000.7")]
WIDE = Fraction(10 * 2**20)
LAWS = [
    *(DiscreteLaplace(s) for s in [*SCALES, WIDE]),
    *(DiscreteGaussian(s**2) for s in SCALES),
    *(Geometric(s) for s in [*SCALES, WIDE]),
]


def probabilities_between(law, edges):
    """P(edges[i] <= Z < edges[i+1]), from sums or closed forms in floats good to about 10^-12."""
    if isinstance(law, DiscreteGaussian):
        sigma = float(law.variance) ** 0.5
        reach = int(12 * sigma) + 2
        z = np.arange(-reach, reach + 1)
        weight = np.exp(-(z.astype(float) ** 2) / (2 * float(law.variance)))
        cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
        below = cumulative[np.clip(edges + reach, 0, len(z))]
    elif isinstance(law, DiscreteLaplace):
        q = np.exp(-1 / float(law.scale))
        # P(Z < e) = q^(1-e) / (1+q) up to e = 1, and one minus P(Z < 1-e) beyond.
        tail = np.exp(-np.where(edges <= 0, 1.0 - edges, edges) / float(law.scale)) / (1 + q)
        below = np.where(edges <= 0, tail, 1 - tail)
    else:
        assert isinstance(law, Geometric)
        below = -np.expm1(-np.maximum(edges, 0) / float(law.scale))
    below[0], below[-1] = 0.0, 1.0
    return np.diff(below)


def fit(law, drawn, bins=200):
    """The p-value of Pearson's test on about `bins` bins expected to hold 20 draws or more."""
    return fit_parts(law, [drawn], len(drawn), bins)


def fit_parts(law, parts, total, bins):
    """The same for draws that come in parts, `total` in all."""
    reach = law.radius(min(0.5, 100 / total))
    low = 0 if isinstance(law, Geometric) else -reach
    edges = np.unique(np.linspace(low, reach + 1, bins).astype(np.int64))
    edges = np.concatenate([[-(2**62)], edges, [2**62]])
    expected = probabilities_between(law, edges) * total
    observed = np.zeros(len(expected))
    for part in parts:
        observed += np.diff(np.searchsorted(np.sort(part), edges))
    assert observed.sum() == total
    keep = expected >= 20
    both = [np.append(x[keep], x[~keep].sum()) for x in (observed, expected)]
    if both[1][-1] < 20:
        both = [np.append(x[:-2], x[-2:].sum()) for x in both]
    statistic = float(((both[0] - both[1]) ** 2 / both[1]).sum())
    return float(chi2.sf(statistic, len(both[0]) - 1))
