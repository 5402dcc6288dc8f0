"""The shape of a linear form, as far as it decides which mechanisms suit it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations

from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.forms import Boxes, Kronecker, LinearForm
from dpsdk.forms.blocks import Block
from dpsdk.queries import Marginal, Workload

__all__ = ["Shape", "tables_of"]

Names = tuple[str, ...]


@frozen(eq=False)
class Shape:
    """A linear form by its blocks, for queries of any author.

    Attributes of one cell are left out: nothing depends on them.
    """

    form: LinearForm
    sizes: dict[str, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        names, shape = self.form.domain.names, self.form.domain.shape
        object.__setattr__(self, "sizes", dict(zip(names, shape, strict=True)))

    @cached_property
    def sets(self) -> tuple[Names, ...]:
        """The attributes of each block, each set once."""
        position = {name: place for place, name in enumerate(self.sizes)}
        found: dict[Names, None] = {}
        for names in {block.names: None for block in self.form.blocks}:
            known = [name for name in names if self.sizes[name] > 1]
            found[tuple(sorted(known, key=position.__getitem__))] = None
        return tuple(found)

    @cached_property
    def names(self) -> Names:
        """All attributes that something depends on."""
        touched = {name for names in self.sets for name in names}
        return tuple([name for name in self.sizes if name in touched])

    @property
    def line(self) -> str | None:
        """The attribute, where there is one only."""
        return self.names[0] if len(self.names) == 1 else None

    @cached_property
    def cells(self) -> int:
        """How many cells the attributes have together."""
        return math.prod([self.sizes[name] for name in self.names])

    @property
    def universe(self) -> int:
        """How many cells there are in all."""
        return self.form.domain.size

    @cached_property
    def tables(self) -> bool:
        """True if every row counts once in each block, as in marginals."""
        return all(one.partition for one in self.form.blocks)

    @property
    def several(self) -> bool:
        """True if it has more than one block, or one of functions that have nothing in common."""
        blocks = self.form.blocks
        return len(blocks) > 1 or any(
            one.rows > 1 and not isinstance(one, Kronecker) for one in blocks
        )

    @cached_property
    def runs(self) -> bool:
        """True if it counts runs of cells, such as thresholds and intervals, times what it may."""
        return all(isinstance(one, Boxes) or one.counting for one in self.form.blocks)

    @cached_property
    def shares(self) -> bool:
        """True if rows are counted, or weighed from 0 to 1."""
        low, high = self.form.limits
        return low >= 0 and high <= 1

    @cached_property
    def weights(self) -> int:
        """How many weights it has, written out on all of its attributes."""
        return self.form.rows * self.cells

    @cached_property
    def parts(self) -> int:
        """How many blocks there are, each box by itself."""
        blocks: Iterable[Block] = self.form.blocks
        return sum([block.rows if isinstance(block, Boxes) else 1 for block in blocks])


def tables_of(sets: Iterable[Names], width: int, domain: Domain) -> Workload[object]:
    """The marginals of up to so many attributes that sets have together, as a workload."""
    found: dict[Names, None] = {}
    for names in sets:
        known = [name for name in names if domain[name].size > 1] or list(names[:1])
        for part in combinations(known, min(width, len(known))):
            found[part] = None
    # A count has no attributes, and follows from any table.
    chosen = [part for part in found if part] or [domain.names[:1]]
    # Of narrower ones that lie within wider ones nothing would be learnt.
    wide = {part for part in chosen if len(part) == width}
    within = {part for whole in wide for k in range(width) for part in combinations(whole, k)}
    return Workload([Marginal(*part, normalized=False) for part in chosen if part not in within])
