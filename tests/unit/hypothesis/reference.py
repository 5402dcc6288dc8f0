"""A distribution kept as logarithms of higher precision, cell by cell, and random functions."""

import numpy as np

from dpsdk import Domain, Integer
from dpsdk.forms import Dense, Identity, Kronecker, LinearForm, Prefix, Range, Weights
from dpsdk.hypothesis import DenseHypothesis
from worlds import weights

GRID = Domain(Integer("a", 0, 4), Integer("b", 0, 2), Integer("c", 0, 0), Integer("d", 0, 6))


class Reference:
    """The same moves, by the definition; the last cell is the one outside."""

    def __init__(self, cells, outside_mass=None):
        inner = np.asarray(cells, dtype=np.longdouble).ravel()
        inner = inner / inner.sum() * (1 - (outside_mass or 0))
        with np.errstate(divide="ignore"):
            self.logs = np.log(np.append(inner, np.longdouble(outside_mass or 0)))

    def shift(self, form, step):
        self.logs = self.logs + np.longdouble(step) * np.append(weights(form)[0], 0.0)
        top = self.logs.max()
        self.logs -= top + np.log(np.exp(self.logs - top).sum())

    @property
    def probabilities(self):
        return np.exp(self.logs).astype(np.float64)

    def answers(self, form):
        return weights(form) @ self.probabilities[:-1]


def seen(hypothesis):
    """The probabilities of all cells, and of the one outside."""
    table = hypothesis.table(hypothesis.domain.names)
    return np.append(table.ravel(), hypothesis.outside_mass)


def one(domain, **factors):
    return LinearForm(domain, [Kronecker.of(domain, factors)])


def written(domain, values, names=None):
    names = domain.names if names is None else names
    shape = tuple(domain[name].size for name in names)
    return LinearForm(domain, [Dense(names, shape, np.reshape(values, (1, -1)))])


def random_function(rng, domain):
    """A form of one function of any kind."""
    kind = rng.integers(6)
    if kind == 0:
        return written(domain, rng.integers(0, 2, domain.size))
    if kind == 1:
        names = tuple(name for name in domain.names if rng.random() < 0.6) or domain.names[:1]
        cells = int(np.prod([domain[name].size for name in names]))
        return written(domain, rng.random(cells), names)
    factors = {}
    for name in domain.names:
        if rng.random() < 0.7:
            factors[name] = random_line(rng, domain[name].size, real=kind == 2)
    block = Kronecker.of(domain, factors)
    if kind == 3:
        block = Kronecker(block.names, block.factors, float(rng.normal()))
    return LinearForm(domain, [block])


def random_line(rng, size, *, real):
    kind = rng.integers(3)
    if kind == 0:
        start = int(rng.integers(size + 1))
        return Range(size, start, int(rng.integers(start, size + 1)))
    if kind == 1 and real:
        return Weights(rng.normal(size=(1, size)))
    return Weights(rng.integers(0, 2, (1, size)))


def random_workload(rng, domain):
    """A form of many functions, of every kind of block and factor."""
    blocks = [block for _ in range(6) for block in random_function(rng, domain).blocks]
    for _ in range(4):
        factors = {}
        for name in domain.names:
            size = domain[name].size
            choices = (Identity(size), Prefix(size), Weights(rng.normal(size=(2, size))))
            if rng.random() < 0.6:
                factors[name] = choices[rng.integers(3)]
        blocks.append(Kronecker.of(domain, factors))
    shape = tuple(domain[name].size for name in domain.names)
    blocks.append(Dense(domain.names, shape, rng.normal(size=(3, domain.size))))
    order = rng.permutation(len(blocks))
    return LinearForm(domain, [blocks[place] for place in order])


def pair(seed, outside, kind=DenseHypothesis):
    """A hypothesis of random weights, and what it is compared with."""
    cells = np.random.default_rng(seed).random(GRID.size)
    return kind.from_weights(GRID, cells, outside), Reference(cells, outside)
