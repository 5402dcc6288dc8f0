"""Hierarchical counts of one ordered attribute, made consistent by least squares."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_integer
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Groups, Kronecker, LinearForm, Neighbors
from dpsdk.kernel import GaussianNoise, Noise
from dpsdk.mechanisms.combined import Combination
from dpsdk.mechanisms.one_attribute import OneAttribute
from dpsdk.mechanisms.paths import combine_runs, levels_of
from dpsdk.mechanisms.runs import combined_over
from dpsdk.typing import Floats, Ints

__all__ = ["Hierarchy", "Tree", "branching_for", "whole_of"]

SIZE_LIMIT = 2**22
"""No tree has more leaves."""

Whole: TypeAlias = Literal["known", "measured", "unknown"]
"""What is known of the count of all rows inside the domain, beside its parts."""


def whole_of(facts: Facts) -> tuple[Whole, int | None]:
    """What may be known of the count of all rows inside the domain, and that count if it is.

    Under replace-one two records inside the domain do not move it, and a record that leaves it
    moves as much as one of them, so that measuring it costs nothing.
    """
    if facts.neighbors is not Neighbors.REPLACE_ONE:
        return "unknown", None
    return ("measured", None) if facts.outside else ("known", facts.rows)


def branching_for(size: int, noise: Noise) -> int:
    """How many children nodes have, for so many leaves: as few as make the levels even.

    Laplace noise grows with the number of levels, and Gaussian with its root, so that trees for the
    latter are deeper. Found by the exact mean variance of thresholds on 16 to 1024 cells, of which
    these are at most 6% above the best.
    """
    widest = 4 if isinstance(noise, GaussianNoise) else 32
    levels = 1
    while widest**levels < size:
        levels += 1
    # Levels are added until no node has more children than the widest.
    return next(many for many in range(2, widest + 1) if many**levels >= size)


@frozen
class Hierarchy:
    """Counts of nested groups of cells, level by level, and their least-squares estimates.

    All measured counts have noise of one law, so that least squares weigh them alike (Hay, Rastogi,
    Miklau and Suciu 2010): estimates go up the tree, each the average of a node's own count and
    the sum of its children by their variances, and down again, what a parent knows better being
    shared out to its children by theirs. `total` is what the whole is known to be, where it is.
    """

    domain: Domain
    attribute: str
    branching: int
    whole: Whole
    total: int | None

    @classmethod
    def over(cls, facts: Facts, attribute: str, branching: int | None, noise: Noise) -> Hierarchy:
        """The tree of an attribute of a table.

        Raises
        ------
        UnknownAttribute
            If the domain does not have it.
        TooLarge
            If it has more than 2^22 cells.
        """
        size = facts.domain[attribute].size
        if size > SIZE_LIMIT:
            advice = "declare a coarser attribute"
            raise TooLarge(f"Tree({attribute!r})", size, SIZE_LIMIT, "cells", advice)
        children = branching_for(size, noise) if branching is None else min(branching, max(2, size))
        return cls(facts.domain, attribute, children, *whole_of(facts))

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many cells the nodes of each level have, from the leaves up; without the root."""
        widths = [1]
        while widths[-1] * self.branching < self.domain[self.attribute].size:
            widths.append(widths[-1] * self.branching)
        return tuple(widths)

    @property
    def strategy(self) -> LinearForm:
        """The counts of all nodes, from the leaves up; of the root only where that is free."""
        size = self.domain[self.attribute].size
        blocks = [Kronecker((self.attribute,), (Groups(size, width),)) for width in self.widths]
        if self.whole == "measured":
            blocks.append(Kronecker((self.attribute,), (Groups(size, size),)))
        return LinearForm(self.domain, blocks)

    @property
    def _nodes(self) -> tuple[int, ...]:
        """The number of nodes of each level, the root at last."""
        size = self.domain[self.attribute].size
        return (*(-(-size // width) for width in self.widths), 1)

    @property
    def _shapes(self) -> tuple[tuple[Ints, Ints, Floats, Floats], ...]:
        """How each level hangs together with that below, from the lowest inner one to the root.

        Where the children of its nodes start, how many they are, the share of a node's own count in
        its estimate, and that of each child in what comes from above.
        """
        shapes: list[tuple[Ints, Ints, Floats, Floats]] = []
        variances: Floats = np.ones(self._nodes[0])
        top = len(self._nodes) - 1
        for level in range(1, top + 1):
            below = self._nodes[level - 1]
            each = below if level == top else self.branching
            starts = np.arange(0, below, each)
            counts = np.diff(starts, append=below)
            sums: Floats = np.add.reduceat(variances, starts)
            shares = variances / np.repeat(sums, counts)
            own = np.zeros(len(starts))
            if level < top or self.whole == "measured":
                own = sums / (sums + 1)
            shapes.append((starts, counts, own, shares))
            variances = own
        return tuple(shapes)

    def _levels(self, values: Floats) -> list[Floats]:
        """Numbers of all nodes, level by level; zero for a root that was not measured."""
        ends = np.cumsum(self._nodes[:-1])
        levels = np.split(values, ends)
        if self.whole != "measured":
            levels[-1] = np.zeros(1)
        return levels

    def cells(self, values: Floats) -> Floats:
        """The estimates of the leaves."""
        levels = self._levels(values)
        sums: list[Floats] = []
        for level, (starts, _, own, _) in enumerate(self._shapes, start=1):
            below: Floats = np.add.reduceat(levels[level - 1], starts)
            sums.append(below)
            levels[level] = own * levels[level] + (1 - own) * below
        if self.total is not None:
            levels[-1] = np.array([float(self.total)])
        for level in range(len(self._shapes), 0, -1):
            _, counts, _, shares = self._shapes[level - 1]
            change = np.repeat(levels[level] - sums[level - 1], counts)
            levels[level - 1] = levels[level - 1] + shares * change
        return levels[0]

    def combine(self, form: LinearForm) -> Combination:
        """The weights of all measured counts in the answers to a form."""
        return combined_over(self, form, self.domain[self.attribute].size)

    def runs(self, starts: Ints, stops: Ints) -> Combination:
        """Those in the counts of runs of leaves, in time that grows with the number of levels."""
        levels = levels_of(self._nodes, self.branching, measured_root=self.whole == "measured")
        return combine_runs(levels, starts, stops, known_root=self.whole == "known")

    def adjoint(self, weights: Floats) -> Floats:
        """The transposed reconstruction: weights of measured counts, from those of the leaves."""
        # Of the reconstruction's steps, last to first, the derivative by what each of them takes.
        found = [weights]
        falls: list[Floats] = []
        for starts, _, _, shares in self._shapes:
            above: Floats = np.add.reduceat(found[-1] * shares, starts, axis=1)
            falls.append(-above)
            found.append(above)
        if self.whole == "known":
            found[-1] = np.zeros_like(found[-1])
        for level in range(len(self._shapes), 0, -1):
            _, counts, own, _ = self._shapes[level - 1]
            down = falls[level - 1] + (1 - own) * found[level]
            found[level] = own * found[level]
            found[level - 1] = found[level - 1] + np.repeat(down, counts, axis=1)
        return np.concatenate(found if self.whole == "measured" else found[:-1], axis=1)


def _to_branching(value: int | None) -> int | None:
    if value is None:
        return None
    expected = "an integer of at least 2, or None"
    number = to_integer("branching", value, expected)
    if not 2 <= number <= SIZE_LIMIT:
        raise InvalidArgument("branching", expected, shown(number))
    return number


@frozen(repr=False, cache_hash=True)
class Tree(OneAttribute):
    """Thresholds, intervals and counts of one attribute, from noisy counts of nested intervals.

    Counts of all nodes of a tree over the cells are measured when it is opened, and made consistent
    by least squares (Hay, Rastogi, Miklau and Suciu 2010; the branching after Qardaji, Yang and Li
    2013). Every linear query on the attribute alone is then answered as the sum of estimates of
    its cells, free, with its exact variance and a proven bound. One row moves two nodes of each
    level by one under replace-one neighbours, and one under add-remove, so that the same ε brings
    twice the noise there.

    Answers take no longer than sums of cells. Error bounds are worked out when they are asked for:
    of counts of runs of cells, such as thresholds, intervals and cells, in time that grows with the
    number of answers times that of levels; of other functions, with their number times that of
    nodes.

    The root is not measured where that costs: where the number of rows is public and none lies
    outside the domain, it is known; under replace-one it is free otherwise.

    Parameters
    ----------
    attribute
        Whose cells are the leaves, in their order: up to 2^22.
    epsilon, delta, rho
        The total, as for `NoisyHistogram`.
    branching
        How many children a node has; by default chosen by the number of cells and the noise: 16 for
        4,096 cells and Laplace noise, 4 for Gaussian noise.

    Raises
    ------
    InvalidArgument
        If an argument is not as described.
    UnknownAttribute, TooLarge
        When opened or quoted, before anything is paid: if the domain does not have the attribute,
        or it has more cells.
    QueryError
        When asked about another attribute.

    >>> from dpsdk.mechanisms import Tree
    >>> Tree("age", epsilon="0.1")
    Tree('age', epsilon=0.1)
    """

    branching: int | None = field(default=None, converter=_to_branching, kw_only=True)

    def _over(self, facts: Facts, noise: Noise) -> Hierarchy:
        return Hierarchy.over(facts, self.attribute, self.branching, noise)

    def __repr__(self) -> str:
        plain = OneAttribute.__repr__(self)
        return plain if self.branching is None else f"{plain[:-1]}, branching={self.branching})"
