"""Hierarchical counts of one ordered attribute, made consistent by least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import shown, to_integer
from dpsdk._records import field, frozen
from dpsdk.codec import NAME
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Groups, Kronecker, LinearForm, Neighbors
from dpsdk.kernel import GaussianNoise, Noise
from dpsdk.mechanisms.arguments import COUNT, TOTAL
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.one_attribute import Line, OneAttribute
from dpsdk.typing import Floats, Ints

__all__ = ["Hierarchy", "Tree", "branching_for", "whole_of"]

SIZE_LIMIT = 2**22
"""No tree has more leaves."""

Whole: TypeAlias = Literal["known", "measured", "unknown"]
"""The knowledge of the count of all rows inside the domain, beside its parts."""


def whole_of(facts: Facts) -> tuple[Whole, int | None]:
    """The public knowledge of the count of rows inside the domain, and the count if known."""
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
class Hierarchy(Line):
    """Counts of nested groups of cells, level by level, and their least-squares estimates.

    All counts have noise of one law (Hay, Rastogi, Miklau and Suciu 2010): estimates go up the
    tree, and down again. `total` is what the whole is known to be, where it is.
    """

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
    def widths(self) -> tuple[int, ...]:
        """How many cells the nodes of each level have, from the leaves up; without the root."""
        widths = [1]
        while widths[-1] * self.branching < self.size:
            widths.append(widths[-1] * self.branching)
        return tuple(widths)

    @property
    def strategy(self) -> LinearForm:
        """The counts of all nodes, from the leaves up; of the root only where that is free."""
        size = self.size
        blocks = [Kronecker((self.attribute,), (Groups(size, width),)) for width in self.widths]
        if self.whole == "measured":
            blocks.append(Kronecker((self.attribute,), (Groups(size, size),)))
        return LinearForm(self.domain, blocks)

    @property
    def _nodes(self) -> tuple[int, ...]:
        """The number of nodes of each level, the root at last."""
        return (*(-(-self.size // width) for width in self.widths), 1)

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

    def runs(self, starts: Ints, stops: Ints) -> Combination:
        """The weights of all counts in the counts of runs of leaves.

        The steps of the estimate, transposed: what a run weighs of each node goes up the tree, and
        what is left of it comes down. Nodes that lie in the run, or beside it, all have the same,
        so that a run takes time in proportion to the number of levels.
        """
        levels = _levels_of(self._nodes, self.branching, measured_root=self.whole == "measured")
        cuts = _rise(levels, starts, stops)
        squares, peaks, counts = np.zeros((3, len(starts)))

        def add(variances: Floats, largest: Floats, number: Floats, comes: Floats) -> None:
            """Weights below some nodes in sum, by what comes down to them."""
            nonlocal squares, peaks, counts
            squares += variances * comes**2
            peaks = np.maximum(peaks, largest * np.abs(comes))
            counts += number * (comes != 0)

        one = np.ones(len(starts))
        come_left = come_right = 0 * one if self.whole == "known" else cuts[-1].up_left
        for number in range(len(levels) - 1, 0, -1):
            level, below = levels[number], levels[number - 1]
            cut, next_ = cuts[number], cuts[number - 1]
            split = cut.left != cut.right
            share_left, share_right = (level.of(_SHARE, places) for places in (cut.left, cut.right))
            add(one, one, one, share_left * come_left)
            add(one, one, one, np.where(split, share_right * come_right, 0.0))
            down_left = (1 - share_left) * come_left - cut.up_left
            down_right = np.where(split, (1 - share_right) * come_right - cut.up_right, down_left)
            ends = level.ends(below, cut.left)
            first = np.where(split, cut.right * level.each, next_.right)
            # What is left of the run among the children of its ends, in it, and right of it.
            add(*below.between(cut.left * level.each, next_.left), down_left)
            inner = np.where(split, ends, next_.right)
            add(*below.between(next_.left + 1, inner), 1 + down_left)
            add(*below.between(first, next_.right), 1 + down_right)
            add(*below.between(next_.right + 1, level.ends(below, cut.right)), down_right)
            come_left = next_.up_left + down_left
            come_right = next_.up_right + down_right
        add(one, one, one, come_left)
        add(one, one, one, np.where(cuts[0].left != cuts[0].right, come_right, 0.0))
        return Combination(squares, peaks, counts)

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


_VARIANCE, _SHARE, _PEAK, _COUNT = range(4)
"""Of a node with all that is below it, for one that comes down to it: the variance of its estimate
from below, and so the sum of the squared weights inside; the part of its own count in that
estimate; the largest weight inside, and how many there are."""


@frozen(eq=False)
class _Level:
    """The nodes of one level, of which all are alike but for the last, which may have less."""

    nodes: int
    width: int
    """How many leaves a node has."""
    each: int
    """How many children a node has."""
    alike: Sequence[float]
    last: Sequence[float]

    def of(self, what: int, places: Ints) -> Floats:
        """The variance, or the share, of each of these nodes."""
        found: Floats = np.where(places == self.nodes - 1, self.last[what], self.alike[what])
        return found

    def between(self, first: Ints, end: Ints) -> tuple[Floats, Floats, Floats]:
        """The sum of the variances, the largest peak and the count of a row of nodes."""
        many = np.maximum(end - first, 0)
        last = (many > 0) & (end == self.nodes)
        alike = many - last
        sums = [alike * self.alike[what] + last * self.last[what] for what in (_VARIANCE, _COUNT)]
        peaks = np.maximum((alike > 0) * self.alike[_PEAK], last * self.last[_PEAK])
        return sums[0], peaks, sums[1]

    def sums(self, below: _Level, places: Ints) -> Floats:
        """The sum of the variances of the children of each node."""
        return below.between(places * self.each, self.ends(below, places))[0]

    def ends(self, below: _Level, places: Ints) -> Ints:
        """The places where the children of each node end."""
        ends: Ints = np.minimum((places + 1) * self.each, below.nodes)
        return ends


def _levels_of(nodes: Sequence[int], branching: int, *, measured_root: bool) -> tuple[_Level, ...]:
    """The levels of a tree with so many nodes on each, from the leaves to the root."""
    levels = [_Level(nodes[0], 1, 1, [1.0] * 4, [1.0] * 4)]
    top = len(nodes) - 1
    for number in range(1, top + 1):
        below = levels[-1]
        each = below.nodes if number == top else branching
        left = below.nodes - (nodes[number] - 1) * each
        kinds: list[Sequence[float]] = []
        for first, end in ((0, min(each, below.nodes - 1)), (below.nodes - left, below.nodes)):
            found = below.between(np.array([first]), np.array([end]))
            variances, peak, count = (float(one[0]) for one in found)
            if number == top and not measured_root:
                kinds.append([variances, 0.0, peak, count])
            else:
                share = variances / (variances + 1)
                kinds.append([share, share, max(share, (1 - share) * peak), count + 1])
        width = nodes[0] if number == top else below.width * each
        levels.append(_Level(nodes[number], width, each, *kinds))
    return tuple(levels)


@frozen(eq=False)
class _Cut:
    """A level as runs see it: the nodes of their first and last leaf, and what these weigh."""

    left: Ints
    right: Ints
    up_left: Floats
    up_right: Floats


def _rise(levels: Sequence[_Level], starts: Ints, stops: Ints) -> list[_Cut]:
    """The weights of the nodes that runs begin and end in, level by level."""
    size = levels[0].nodes
    ones = np.ones(len(starts))
    cuts = [_Cut(starts, stops - 1, ones, ones)]
    for number in range(1, len(levels)):
        level, below, cut = levels[number], levels[number - 1], cuts[-1]
        left, right = cut.left // level.each, cut.right // level.each
        split = left != right
        own_left = below.of(_VARIANCE, cut.left) * cut.up_left
        own_right = below.of(_VARIANCE, cut.right) * cut.up_right
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
    level by one under replace-one neighbours, and one under add-remove.

    Error bounds are worked out when they are asked for: of counts of runs of cells, such as
    thresholds and intervals, in time that grows with the number of answers times that of levels;
    of other functions, with their number times that of nodes.

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
