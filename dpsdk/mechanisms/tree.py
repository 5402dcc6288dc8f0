"""Hierarchical counts of one ordered attribute, made consistent by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import shown, to_integer
from dpsdk._records import define, field, frozen
from dpsdk.codec import NAME
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Groups, Kronecker, LinearForm, Neighbors
from dpsdk.kernel import GaussianNoise, Noise
from dpsdk.mechanisms.arguments import COUNT, TOTAL
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.one_attribute import OneAttribute, combined_over
from dpsdk.typing import Floats, Ints

__all__ = ["Hierarchy", "Tree", "branching_for", "whole_of"]

SIZE_LIMIT = 2**22
"""No tree has more leaves."""

Whole: TypeAlias = Literal["known", "measured", "unknown"]
"""The knowledge of the count of all rows inside the domain, beside its parts."""


def whole_of(facts: Facts) -> tuple[Whole, int | None]:
    """The public knowledge of the count of rows inside the domain, and the count if known.

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
        """The tree of an attribute of a table."""
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
        """How each level hangs together with that below, from the lowest inner one to the root."""
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
        levels = _levels_of(self._nodes, self.branching, measured_root=self.whole == "measured")
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


@frozen
class _Kind:
    """A node with all that is below it: the weights inside, for one that comes down to it."""

    variance: float
    """The variance of its estimate from below, and the sum of the squared weights inside."""
    share: float
    """The part of its own count in that estimate."""
    peak: float
    """The largest weight inside."""
    count: float
    """How many weights there are."""


@frozen
class _Level:
    """The nodes of one level, of which all are alike but for the last, which may have less."""

    nodes: int
    width: int
    """How many leaves a node has."""
    each: int
    """How many children a node has."""
    _all: _Kind
    _last: _Kind

    def variances(self, places: Ints) -> Floats:
        """The variance of each of these nodes, from below."""
        return self._of(places, self._all.variance, self._last.variance)

    def shares(self, places: Ints) -> Floats:
        """The share of its own count in that, of each of these nodes."""
        return self._of(places, self._all.share, self._last.share)

    def _of(self, places: Ints, alike: float, last: float) -> Floats:
        found: Floats = np.where(places == self.nodes - 1, last, alike)
        return found

    def between(self, first: Ints, end: Ints) -> tuple[Floats, Floats, Floats]:
        """The sum of the variances, the largest peak and the count of a row of nodes."""
        many = np.maximum(end - first, 0)
        last = (many > 0) & (end == self.nodes)
        alike = many - last
        variances = alike * self._all.variance + last * self._last.variance
        peaks = np.maximum((alike > 0) * self._all.peak, last * self._last.peak)
        return variances, peaks, alike * self._all.count + last * self._last.count

    def sums(self, below: _Level, places: Ints) -> Floats:
        """The sum of the variances of the children of each node."""
        return below.between(places * self.each, self.ends(below, places))[0]

    def ends(self, below: _Level, places: Ints) -> Ints:
        """The places where the children of each node end."""
        ends: Ints = np.minimum((places + 1) * self.each, below.nodes)
        return ends


def _levels_of(nodes: Sequence[int], branching: int, *, measured_root: bool) -> tuple[_Level, ...]:
    """The levels of a tree with so many nodes on each, from the leaves to the root."""
    leaf = _Kind(1.0, 1.0, 1.0, 1.0)
    levels = [_Level(nodes[0], 1, 1, leaf, leaf)]
    top = len(nodes) - 1
    for number in range(1, top + 1):
        below = levels[-1]
        each = below.nodes if number == top else branching
        left = below.nodes - (nodes[number] - 1) * each
        measured = number < top or measured_root
        kinds = [
            _kind(*(float(x[0]) for x in below.between(*ends)), measured=measured)
            for ends in (
                (np.array([0]), np.array([min(each, below.nodes - 1)])),
                (np.array([below.nodes - left]), np.array([below.nodes])),
            )
        ]
        width = nodes[0] if number == top else below.width * each
        levels.append(_Level(nodes[number], width, each, *kinds))
    return tuple(levels)


def _kind(variances: float, peak: float, count: float, *, measured: bool) -> _Kind:
    if not measured:
        return _Kind(variances, 0.0, peak, count)
    share = variances / (variances + 1)
    return _Kind(share, share, max(share, (1 - share) * peak), count + 1)


@define
class _Gathered:
    """Squares, peaks and numbers of weights, gathered piece by piece."""

    squares: Floats
    peaks: Floats
    counts: Floats

    def one(self, weights: Floats) -> None:
        """One weight for each run."""
        self.squares += weights**2
        self.peaks = np.maximum(self.peaks, np.abs(weights))
        self.counts += weights != 0

    def row(self, level: _Level, first: Ints, end: Ints, comes: Floats) -> None:
        """A row of whole nodes, each with all below it, by what comes down to them."""
        variances, peaks, counts = level.between(first, end)
        self.squares += variances * comes**2
        self.peaks = np.maximum(self.peaks, peaks * np.abs(comes))
        self.counts += counts * (comes != 0)


@frozen
class _Cut:
    """A level as runs see it: the nodes of their first and last leaf, and what these weigh."""

    left: Ints
    right: Ints
    up_left: Floats = field(eq=False)
    up_right: Floats = field(eq=False)


def combine_runs(
    levels: Sequence[_Level], starts: Ints, stops: Ints, *, known_root: bool
) -> Combination:
    """The weights of all counts in the estimated counts of runs of leaves, none of them empty.

    The steps of the estimate, transposed: what a run weighs of each node goes up the tree, and what
    is left of it comes down. Nodes that lie in the run, or beside it, all have the same, so that a
    run takes time in proportion to the number of levels.
    """
    cuts = _rise(levels, starts, stops)
    shape = np.zeros(len(starts))
    found = _Gathered(*np.zeros((3, len(starts))))
    come_left = come_right = shape.copy() if known_root else cuts[-1].up_left
    for number in range(len(levels) - 1, 0, -1):
        level, below = levels[number], levels[number - 1]
        cut, next_ = cuts[number], cuts[number - 1]
        split = cut.left != cut.right
        share_left, share_right = (level.shares(p) for p in (cut.left, cut.right))
        found.one(share_left * come_left)
        found.one(np.where(split, share_right * come_right, 0.0))
        down_left = (1 - share_left) * come_left - cut.up_left
        down_right = np.where(split, (1 - share_right) * come_right - cut.up_right, down_left)
        ends = level.ends(below, cut.left)
        found.row(below, cut.left * level.each, next_.left, down_left)
        found.row(below, next_.left + 1, np.where(split, ends, next_.right), 1 + down_left)
        first = np.where(split, cut.right * level.each, next_.right)
        found.row(below, first, next_.right, 1 + down_right)
        found.row(below, next_.right + 1, level.ends(below, cut.right), down_right)
        come_left = next_.up_left + down_left
        come_right = next_.up_right + down_right
    found.one(come_left)
    found.one(np.where(cuts[0].left != cuts[0].right, come_right, 0.0))
    return Combination(found.squares, found.peaks, found.counts)


def _rise(levels: Sequence[_Level], starts: Ints, stops: Ints) -> list[_Cut]:
    """The weights of the nodes that runs begin and end in, level by level."""
    size = levels[0].nodes
    ones = np.ones(len(starts))
    cuts = [_Cut(starts, stops - 1, ones, ones)]
    for number in range(1, len(levels)):
        level, below, cut = levels[number], levels[number - 1], cuts[-1]
        left, right = cut.left // level.each, cut.right // level.each
        split = left != right
        own_left = below.variances(cut.left) * cut.up_left
        own_right = below.variances(cut.right) * cut.up_right
        ends = np.where(split, level.ends(below, left), cut.right)
        inside = own_left + below.between(cut.left + 1, ends)[0]
        inside += np.where(~split & (cut.left != cut.right), own_right, 0.0)
        up_left = inside / level.sums(below, left)
        other = own_right + below.between(right * level.each, cut.right)[0]
        up_right = np.where(split, other / level.sums(below, right), up_left)
        # Exactly one where all of a node is in the run, so that nothing is left of it.
        for places, ups in ((left, up_left), (right, up_right)):
            whole = starts <= places * level.width
            whole &= stops >= np.minimum((places + 1) * level.width, size)
            ups[whole] = 1.0
        cuts.append(_Cut(left, right, up_left, up_right))
    return cuts


def _to_branching(value: int | None) -> int | None:
    if value is None:
        return None
    expected = "an integer of at least 2, or None"
    number = to_integer("branching", value, expected)
    if not 2 <= number <= SIZE_LIMIT:
        raise InvalidArgument("branching", expected, shown(number))
    return number


@built_in("tree", {"attribute": NAME, **TOTAL, "branching": COUNT})
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

    page = "explanation/proofs/combined.md"

    branching: int | None = field(default=None, converter=_to_branching, kw_only=True)

    def _over(self, facts: Facts, noise: Noise) -> Hierarchy:
        return Hierarchy.over(facts, self.attribute, self.branching, noise)

    def __repr__(self) -> str:
        plain = OneAttribute.__repr__(self)
        return plain if self.branching is None else f"{plain[:-1]}, branching={self.branching})"
