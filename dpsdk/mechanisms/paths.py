"""How counts of a tree combine in the count of a run of leaves: two paths from the root tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field, frozen

from dpsdk.mechanisms.combined import Combination
from dpsdk.typing import Floats, Ints

__all__ = ["Level", "combine_runs", "levels_of"]


@frozen
class _Kind:
    """A node with all that is below it.

    Weights inside follow from the one number that comes down to it, and are multiples of it.

    Parameters
    ----------
    variance
        Of its estimate from below, and the sum of the squared weights inside for one that comes.
    share
        What part of its own count is in that.
    peak
        The largest weight inside.
    count
        How many weights there are.
    """

    variance: float
    share: float
    peak: float
    count: float


@frozen
class Level:
    """The nodes of one level, of which all are alike but for the last, which may have less.

    Parameters
    ----------
    nodes
        How many there are.
    width
        How many leaves a node has.
    each
        How many children a node has.
    """

    nodes: int
    width: int
    each: int
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

    def sums(self, below: Level, places: Ints) -> Floats:
        """The sum of the variances of the children of each node."""
        return below.between(places * self.each, self.ends(below, places))[0]

    def ends(self, below: Level, places: Ints) -> Ints:
        """Where the children of each node end."""
        ends: Ints = np.minimum((places + 1) * self.each, below.nodes)
        return ends


def levels_of(nodes: Sequence[int], branching: int, *, measured_root: bool) -> tuple[Level, ...]:
    """The levels of a tree with so many nodes on each, from the leaves to the root.

    A node's estimate from below weighs its own count, of variance one, and the sum of its children.
    """
    leaf = _Kind(1.0, 1.0, 1.0, 1.0)
    levels = [Level(nodes[0], 1, 1, leaf, leaf)]
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
        levels.append(Level(nodes[number], width, each, *kinds))
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

    def row(self, level: Level, first: Ints, end: Ints, comes: Floats) -> None:
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
    levels: Sequence[Level], starts: Ints, stops: Ints, *, known_root: bool
) -> Combination:
    """The weights of all counts in the estimated counts of runs of leaves, none of them empty.

    The steps of the estimate, transposed: what a run weighs of each node goes up the tree, and what
    is left of it comes down. Nodes that lie in the run, or beside it, all have the same, so that a
    run takes time in proportion to the number of levels.
    """
    cuts = _rise(levels, starts, stops)
    shape = np.zeros(len(starts))
    found = _Gathered(shape.copy(), shape.copy(), shape.copy())
    come_left = come_right = shape.copy() if known_root else cuts[-1].up_left
    for number in range(len(levels) - 1, 0, -1):
        level, below, cut, next_ = (
            levels[number],
            levels[number - 1],
            cuts[number],
            cuts[number - 1],
        )
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


def _rise(levels: Sequence[Level], starts: Ints, stops: Ints) -> list[_Cut]:
    """What runs weigh of the nodes that they begin and end in, level by level.

    By shares: one of a node that lies in a run, zero of one beside it.
    """
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
