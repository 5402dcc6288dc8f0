"""Small universes as plain arrays beside their hypotheses, and the potential between them."""

import numpy as np

from dpsdk import Domain, Integer
from dpsdk.forms import Dense, LinearForm
from dpsdk.hypothesis import DenseHypothesis


def line(size):
    return Domain(Integer("x", 0, size - 1))


def function(domain, values):
    return LinearForm(domain, [Dense(("x",), (domain.size,), np.reshape(values, (1, -1)))])


def functions(domain, values):
    return LinearForm(domain, [Dense(("x",), (domain.size,), values)])


def potential(truth, hypothesis):
    """KL(truth ‖ hypothesis) in nats."""
    p = hypothesis.table(("x",))
    some = truth > 0
    return float((truth[some] * np.log(truth[some] / p[some])).sum())


def hardest(hypothesis, alpha):
    """A function that only the truth, all in cell 0, gives 1, and the hypothesis hardly 1 - alpha.

    None once the hypothesis gives cell 0 so much that no function is off by more than alpha.
    """
    p = hypothesis.table(("x",))
    order = np.argsort(-p[1:], kind="stable") + 1
    lost = np.cumsum(p[order])
    last = int(np.searchsorted(lost, alpha, side="right"))
    if last == len(lost):
        return None
    # One lighter cell may do to exceed alpha where the heaviest would by more.
    kept = lost[last - 1] if last else 0.0
    lighter = order[last:][p[order[last:]] > alpha - kept]
    values = np.ones(len(p))
    values[order[:last]] = 0.0
    values[lighter[-1]] = 0.0
    return function(hypothesis.domain, values)


def uniform(size):
    return DenseHypothesis.uniform(line(size))
