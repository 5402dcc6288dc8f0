"""Several things measured at once, each of attributes of its own, and answers from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property

import numpy as np
from attrs import evolve, frozen

from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Boxes, Dense, Facts, FormBlock, Kronecker, LinearForm, Range
from dpsdk.forms.blocks import Block
from dpsdk.mechanisms.combined import Combination
from dpsdk.mechanisms.estimates import Cells, Reconstruction
from dpsdk.mechanisms.refusals import check_linear
from dpsdk.typing import Floats

__all__ = ["Part", "Stack"]


@frozen
class Part:
    """What is measured of some attributes, a whole number of times as finely as the noise."""

    measured: Reconstruction
    scale: int = 1

    def __copy__(self) -> Part:
        return Part(copy(self.measured), self.scale)

    @property
    def blocks(self) -> tuple[FormBlock, ...]:
        """What it adds to the strategy."""
        blocks = self.measured.strategy.blocks
        return blocks if self.scale == 1 else tuple([_times(block, self.scale) for block in blocks])

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the measured numbers in its answers to a form."""
        one = self.measured.combine(form)
        return Combination(one.squares / self.scale**2, one.peaks / self.scale, one.counts)


def _times(block: FormBlock, scale: int) -> FormBlock:
    if isinstance(block, Kronecker):
        return Kronecker(block.names, block.factors, block.scale * scale)
    if isinstance(block, Boxes):
        return evolve(block, scales=block.scales * scale)
    return Dense(block.names, block.shape, block.weights * scale)


@frozen
class Stack:
    """Parts that are measured as one batch; what depends on no more than a part is answered.

    Where several parts cover what a function depends on, their answers are averaged, by weights
    that follow from its attributes alone: by how well each part knows a cell of these.
    """

    parts: tuple[Part, ...]

    def __copy__(self) -> Stack:
        # What is handed out shares nothing that could be changed.
        return Stack(tuple([copy(part) for part in self.parts]))

    @property
    def names(self) -> tuple[str, ...]:
        """All attributes that it measures."""
        first = self.parts[0].measured.strategy.domain
        known = {name for part in self.parts for name in part.measured.names}
        return tuple([name for name in first.names if name in known])

    @cached_property
    def strategy(self) -> LinearForm:
        """What is measured."""
        domain = self.parts[0].measured.strategy.domain
        return LinearForm(domain, [block for part in self.parts for block in part.blocks])

    def tables(self, values: Floats) -> tuple[Cells, ...]:
        """The estimated cells of each part."""
        counts = [part.measured.strategy.rows for part in self.parts]
        pieces = np.split(values, np.cumsum(counts)[:-1])
        return tuple(
            [
                Cells(part.measured.names, part.measured.cells(piece / part.scale))
                for part, piece in zip(self.parts, pieces, strict=True)
            ]
        )

    def covering(self, names: Sequence[str]) -> list[int]:
        """The places of the parts that know all of these attributes."""
        wanted = set(names)
        return [
            place for place, part in enumerate(self.parts) if wanted.issubset(part.measured.names)
        ]

    def check(self, form: LinearForm, mechanism: str, facts: Facts) -> None:
        """Refuse what does not follow from what is measured.

        Raises
        ------
        QueryError
            If the form is not linear, or a function depends on attributes that no part has.
        InvalidArgument
            If it is over another domain.
        """
        check_linear(form, mechanism)
        if form.domain is not facts.domain and form.domain != facts.domain:
            raise InvalidArgument("form", "over the domain of the table", "another domain")
        for names in {block.names for block in form.blocks}:
            if not self.covering(names):
                asked = ", ".join(map(repr, names))
                known = "; ".join(
                    [", ".join(map(repr, part.measured.names)) for part in self.parts[:8]]
                )
                more = ", and more" if len(self.parts) > 8 else ""
                reason = f"its strategy answers queries on {known}{more}, not on {asked} together"
                raise QueryError("", reason)

    def shares(self, names: Sequence[str]) -> list[tuple[int, float]]:
        """The parts that answer functions of some attributes, each with its weight."""
        places = self.covering(names)
        if len(places) == 1:
            return [(places[0], 1.0)]
        domain = self.parts[0].measured.strategy.domain
        own = [name for name in domain.names if name in names]
        middle = [Range(size, size // 2, size // 2 + 1) for size in (domain[n].size for n in own)]
        cell = LinearForm(domain, (Kronecker(tuple(own), tuple(middle)),))
        known = np.array([float(self.parts[place].combine(cell).squares[0]) for place in places])
        if not known.all():
            # A part that knows it for certain, as the number of all rows may be.
            return [(places[int(known.argmin())], 1.0)]
        shares = 1 / known / float((1 / known).sum())
        return list(zip(places, shares.tolist(), strict=True))

    def answers(self, form: LinearForm, tables: Sequence[Cells]) -> Floats:
        """The functions of a form, summed over the estimated cells."""
        values = np.empty(form.rows)
        shares: dict[tuple[str, ...], list[tuple[int, float]]] = {}
        for block, places in form.groups:
            known = shares.setdefault(block.names, []) or self.shares(block.names)
            shares[block.names] = known
            values[places] = _averaged(block, known, tables)
        return values

    def combine(self, form: LinearForm) -> Combination:
        """The weights that the measured numbers have in the answers to a form."""
        kinds: dict[tuple[str, ...], list[tuple[int, FormBlock]]] = {}
        start = 0
        for block in form.blocks:
            kinds.setdefault(block.names, []).append((start, block))
            start += block.rows
        squares, peaks, counts = np.zeros((3, form.rows))
        for names, members in kinds.items():
            asked = LinearForm(form.domain, [block for _, block in members])
            places = np.concatenate([np.arange(at, at + block.rows) for at, block in members])
            for place, share in self.shares(names):
                one = self.parts[place].combine(asked)
                squares[places] += one.squares * share**2
                peaks[places] = np.maximum(peaks[places], one.peaks * share)
                counts[places] += one.counts
        return Combination(squares, peaks, counts)


def _averaged(block: Block, shares: Sequence[tuple[int, float]], tables: Sequence[Cells]) -> Floats:
    if len(shares) == 1:
        return block.answer(tables[shares[0][0]].table(block.names))
    result: Floats = np.zeros(block.rows)
    for place, share in shares:
        result += share * block.answer(tables[place].table(block.names))
    return result
