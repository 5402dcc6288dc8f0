"""A mixture of products that is fitted to one- and two-way tables, by expectation maximisation.

The composite likelihood adds up, over the tables, what a mixture p makes of each of them:
Σ_S Σ_x y_S(x) ln p_S(x), with tables y of mass 1 (Lindsay 1988). Expectation maximisation
(Dempster, Laird and Rubin 1977) takes every cell of every table as so many records whose component
is not known, so that no iteration makes the likelihood smaller. All tables are one symmetric
matrix over the labels of all attributes, and an iteration is two products of it with the one-way
tables of the components. It is public post-processing of what was released.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpsdk._checks import require, shown, to_count, to_shaped
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.hypothesis import Mixture, Streams
from dpsdk.hypothesis.distribution import check_domain
from dpsdk.typing import Array, Floats, Ints

__all__ = ["fit_mixture"]

_LABELS = 2**13
"""The most labels of all attributes together: some arrays have as many rows and columns."""

_PRODUCT = 2**18
"""So many multiplications are done at a time, as many as BLAS leaves to one core: with more, its
threads wait for one another longer than they work. What is worked on fits a cache as well."""

_ROWS = 64
"""So many rows at the most: of its own rows both sides of the diagonal are worked out."""

_COMPONENTS = 2**10
_ITERATIONS = 2**20

_KEY = b"dpsdk mixture of products: start"
"""Public: a fit of the same tables is the same each time."""

_SPREAD = 0.8
"""How far components begin from the one-way tables, relatively. They must differ to part."""

_LEAST = 1e-12
"""Of the one-way tables something stays in every component, so that none of its rows is zero."""

_NEVER = 1e-300
"""Nothing smaller divides. Shares of at least 1e-24 in the heaviest component never get there."""


def fit_mixture(
    domain: Domain,
    tables: Mapping[tuple[str, ...], Array],
    *,
    components: int = 8,
    iterations: int = 200,
    outside_mass: float | None = None,
    rows: float | None = None,
) -> Mixture:
    """Fit a mixture of products to public tables of one and two attributes.

    Costs nothing, reads nothing private, and takes the same steps each time: the components begin
    at the one-way tables, disturbed by fixed numbers. A table may be noisy: what is negative counts
    as 0, and each is divided by its sum, so that all tables weigh alike, large or small.

    The mixture makes the tables likely: a local optimum, which says nothing of how far off it may
    be. Raises `InvalidArgument` if a table does not fit the domain or is not finite, or a number is
    out of range, and `TooLarge` for more labels.

    Parameters
    ----------
    domain
        The universe, of any size, with at most 2^13 labels of all attributes together.
    tables
        For names of one or two attributes a table with one axis a name, of finite numbers. Tables
        without anything positive say nothing; of attributes in no table all cells are alike.
    components, iterations
        How many products are mixed, up to 2^10, and steps taken: public constants.
    outside_mass, rows
        As for `Mixture`, which keeps them.

    >>> from dpsdk import Boolean, Domain
    >>> from dpsdk.learning import fit_mixture
    >>> domain = Domain(Boolean("a"), Boolean("b"))
    >>> fitted = fit_mixture(domain, {("a", "b"): [[40, 10], [10, 40]]}, components=2)
    >>> fitted.table(("a", "b")).round(3).tolist()
    [[0.4, 0.1], [0.1, 0.4]]
    """
    check_domain(domain)
    many = to_count("components", components, most=_COMPONENTS)
    steps = to_count("iterations", iterations, most=_ITERATIONS)
    labels = sum(domain.shape)
    if labels > _LABELS:
        raise TooLarge("a fit", labels, _LABELS, "labels", "declare coarser labels")
    # One label more, of an attribute that has no other: one-way tables are pairs with it.
    starts = np.concatenate([[0, 1], 1 + np.cumsum(domain.shape)])
    seen = _together(domain, tables, starts)
    ones = seen.sum(axis=1)
    ones[0] = 1.0
    ones = _normal(np.maximum(ones, _LEAST)[:, None], starts)
    shares = _normal(ones * _disturbed(domain, many), starts)
    weights = np.full(many, 1.0 / many)
    for _ in range(steps):
        weights, shares = _step(seen, ones, weights, shares, starts)
    found = {
        name: shares[start:stop].T
        for name, start, stop in zip(domain.names, starts[1:-1], starts[2:], strict=True)
    }
    return Mixture(domain, weights, found, outside_mass=outside_mass, rows=rows)


def _step(
    seen: Floats, ones: Floats, weights: Floats, shares: Floats, starts: Ints
) -> tuple[Floats, Floats]:
    """Share each table out among the components, and average what each of them has got."""
    weighted = shares * weights
    taken = np.zeros_like(shares)
    start = 0
    while start < len(seen):
        # Both matrices are symmetric, so what is right of the diagonal is enough.
        stop = start + max(1, min(_ROWS, _PRODUCT // ((len(seen) - start) * len(weights))))
        rows, right, later = slice(start, stop), slice(start, None), slice(stop, None)
        likely = weighted[rows] @ shares[right].T
        np.maximum(likely, _NEVER, out=likely)
        np.divide(seen[rows, right], likely, out=likely)
        taken[rows] += likely @ shares[right]
        taken[later] += likely[:, stop - start :].T @ shares[rows]
        start = stop
    taken *= weighted
    held = taken.sum(axis=0)
    total = float(held.sum())
    # A component that nothing is left of, and an attribute that nothing is said of, stay where the
    # one-way tables are.
    return held / total if total > 0.0 else weights, _normal(taken + _LEAST * ones, starts)


def _together(domain: Domain, tables: Mapping[tuple[str, ...], Array], starts: Ints) -> Floats:
    """All tables as one symmetric matrix over all labels, each with a sum of 1 on either side."""
    require(isinstance(tables, Mapping), "tables", "a mapping from names to tables", tables)
    whole = np.zeros((int(starts[-1]), int(starts[-1])))
    for names, given in tables.items():
        if not isinstance(names, tuple) or len(names) not in (1, 2) or len(set(names)) < len(names):
            expected = "tables of one or two different attributes, by a tuple of their names"
            raise InvalidArgument("tables", expected, shown(names))
        table = _to_table(names, given, tuple([domain[name].size for name in names]))
        places = [1 + domain.position(name) for name in names]
        if len(places) == 1:
            places, table = [0, *places], table[None, :]
        one, other = (slice(starts[place], starts[place + 1]) for place in places)
        # Of two tables of the same attributes, in either order, both count.
        whole[one, other] += table
        whole[other, one] += table.T
    return whole


def _to_table(names: tuple[str, ...], given: Array, shape: tuple[int, ...]) -> Floats:
    expected = f"finite numbers of shape {shape} for {shown(names)}"
    table = to_shaped("tables", given, shape, expected)
    np.maximum(table, 0.0, out=table)
    top = float(table.max())
    if top > 0.0:  # by the largest first, so that no sum leaves the floats
        table /= top
        table /= table.sum()
    return table


def _disturbed(domain: Domain, components: int) -> Floats:
    """Factors around 1 that differ from one component to the next, for each label; public."""
    whole = [np.ones((1, components))]
    for name, size in zip(domain.names, domain.shape, strict=True):
        levels = Streams(size * components, _KEY).levels(name).reshape(size, components)
        whole.append(1.0 + _SPREAD * (2.0 * levels - 1.0))
    return np.concatenate(whole)


def _normal(columns: Floats, starts: Ints) -> Floats:
    sums = np.add.reduceat(columns, starts[:-1], axis=0)
    result: Floats = columns / np.repeat(sums, np.diff(starts), axis=0)
    return result
