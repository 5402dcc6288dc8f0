"""Questions: what is asked of a public table, from one count to all tables of three attributes."""

import hashlib
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from attrs import frozen

from dpsdk.domain import Binned, Integer
from dpsdk.hypothesis import Streams
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.queries import (
    Ball,
    ConvexMinimization,
    Marginal,
    Mean,
    Median,
    Query,
    Rectangles,
    Workload,
)

_MOST_NUMBERS = 1 << 16
_MOST_TABLES = 500
_ENOUGH = 1 << 12
_GROUPS = 16
_GROUP = 0.01
"""Means are asked of groups of at least this share of the rows."""

_FEATURES = 4
_MODEL_CELLS = 1 << 18
_LINE = 12
"""From so many cells on, all thresholds of an attribute are asked."""


class Draws:
    """Numbers that look drawn and follow from a name. Public, and nothing is hidden by them."""

    __slots__ = ("_key",)

    def __init__(self, *name):
        self._key = hashlib.sha256(repr(name).encode("utf-8", "backslashreplace")).digest()

    def below(self, name, most, count):
        """So many whole numbers from 0 to below `most`."""
        levels = Streams(count, self._key).levels(name)
        return (levels * most).astype(np.int64)

    def order(self, name, count):
        """The numbers below `count` in some order."""
        levels = Streams(count, self._key).levels(name)
        return [int(place) for place in np.argsort(levels, kind="stable")]


@frozen(eq=False)
class Question:
    """A query, what it is called, and what share of the rows it is about, if that is assumed."""

    name: str
    query: Query[Any, Any]
    inside: Fraction | None = None


def questions(table, variant):
    """Questions to a table, of every kind that its domain has room for.

    Which rectangles and which single tables they are about follows from `variant`.
    """
    domain, draws = table.domain, Draws("questions", variant)
    names, sizes = domain.names, dict(zip(domain.names, domain.shape, strict=True))
    for many in (1, 10, 100, 1_000, 30_000):
        if domain.size >= min(many, _ENOUGH):
            yield Question(f"{many} rectangles", _rectangles(domain, many, draws))
    long = sorted(names, key=lambda name: -sizes[name])[:2]
    for name in long:
        if _LINE <= sizes[name] <= _MOST_NUMBERS:
            yield Question(f"CDF of {name}", _thresholds(domain, name))
    for way in (1, 2, 3):
        chosen = list(combinations(names, way))
        one = chosen[draws.order(f"table of {way}", len(chosen))[0]] if chosen else ()
        if one and prod(sizes[name] for name in one) <= _MOST_NUMBERS:
            yield Question(f"one table of {way}", Marginal(*one, normalized=False))
        numbers = sum(prod(sizes[name] for name in kept) for kept in chosen)
        if 1 < len(chosen) <= _MOST_TABLES and numbers <= _MOST_NUMBERS:
            tables = [Marginal(*kept, normalized=False) for kept in chosen]
            yield Question(f"all tables of {way}", Workload(tables))
    yield from _means(table)
    yield from _models(domain)


def _means(table):
    """The mean and the median of the longest attribute, and means of the groups of a short one."""
    domain = table.domain
    numeric = [name for name in domain.names if isinstance(domain[name], Integer | Binned)]
    if not numeric:
        return
    about = max(numeric, key=lambda name: domain[name].size)
    yield Question("mean", Mean(about), Fraction(1))
    yield Question("median", Median(about))
    groups = [name for name in domain.names if name != about and domain[name].size <= _GROUPS]
    for name in groups[:1]:
        shares = table.records.counts(name) / table.rows
        kept = [place for place, share in enumerate(shares.tolist()) if share >= _GROUP]
        means = [Mean(about, where={name: domain[name].label(place)}) for place in kept]
        if len(means) > 1:
            least = Fraction(float(shares[kept].min())).limit_denominator(1000)
            yield Question("means of groups", Workload(means), least)


def _models(domain):
    """A model of two labels, and one of numbers, on up to four other attributes."""
    names = domain.names
    if len(names) < 2:
        return
    two = [name for name in names if domain[name].size == 2]
    many = [name for name in names if isinstance(domain[name], Integer | Binned)]
    for what, loss, labels in (("logistic", LogisticLoss(), two), ("linear", SquaredLoss(), many)):
        if labels:
            label = labels[-1]
            features = [name for name in names if name != label][:_FEATURES]
            if prod(domain[name].size for name in (*features, label)) <= _MODEL_CELLS:
                query = ConvexMinimization(loss, features=features, label=label, over=Ball(8))
                yield Question(f"{what} model", query)


def _thresholds(domain, name):
    ends = np.arange(domain[name].size - 1)
    return Rectangles([name], np.zeros_like(ends), ends, normalized=False)


def _rectangles(domain, many, draws):
    """Random ones: each attribute takes part with an even chance, one at the least."""
    sizes = np.array(domain.shape)
    ends = np.stack(
        [
            draws.below(f"{many} ends of {place}", size, 2 * many).reshape(2, many)
            for place, size in enumerate(domain.shape)
        ],
        axis=2,
    )
    chosen = draws.below(f"{many} chosen", 2, many * len(sizes)).reshape(many, -1) == 0
    chosen[~chosen.any(axis=1), 0] = True
    low, high = ends.min(axis=0), ends.max(axis=0)
    return Rectangles(
        domain.names, np.where(chosen, low, 0), np.where(chosen, high, sizes - 1), normalized=False
    )
