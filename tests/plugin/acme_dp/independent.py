"""A stranger's hypothesis, a product of attributes: nothing of dpsdk was changed for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import ClassVar

import numpy as np
from typing_extensions import override

from dpsdk import Domain
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Kronecker, LinearForm
from dpsdk.hypothesis import Hypothesis, Streams
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Independent"]


class Independent(Hypothesis):
    """Independent attributes, which functions of one attribute at a time leave independent.

    Its universe may have any number of cells, as long as no attribute has many.
    """

    kind: ClassVar[str] = "acme.independent"

    def __init__(
        self, domain: Domain, lines: Sequence[Floats], outside_mass: float | None = None
    ) -> None:
        self.domain = domain
        self.outside = outside_mass is not None
        self._mass = 0.0 if outside_mass is None else outside_mass
        self._lines = [line / line.sum() for line in lines]

    @classmethod
    def uniform(cls, domain: Domain, outside_mass: float | None = None) -> Independent:
        return cls(domain, [np.ones(size) for size in domain.shape], outside_mass)

    @property
    @override
    def outside_mass(self) -> float:
        return self._mass

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        lines = [self._lines[self.domain.position(name)] for name in names]
        inside = np.array(1.0 - self._mass)
        return reduce(lambda table, line: np.multiply.outer(table, line), lines, inside)

    @override
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        table = self.table(names)
        return list(np.indices(table.shape).reshape(len(names), -1)), table.reshape(-1)

    @override
    def check(self, form: LinearForm) -> None:
        for block in form.blocks:
            if not isinstance(block, Kronecker) or len(block.names) > 1:
                raise QueryError("an independent hypothesis", "it learns one attribute at a time")

    @override
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        self._check_one(form)
        self.check(form)
        block = form.blocks[0]
        assert isinstance(block, Kronecker)
        if block.names:
            place = self.domain.position(block.names[0])
            line = self._lines[place]
            raised = line * np.exp(step * block.scale * block.factors[0].matrix()[0])
            growth = float(raised.sum())
            self._lines[place] = raised / growth
        else:
            growth = math.exp(step * block.scale)
        total = (1.0 - self._mass) * growth + self._mass
        self._mass /= total
        return math.log(total)

    @override
    def kl_cap(self) -> float:
        least = [float(line.min()) for line in self._lines]
        if min(least) == 0.0 or (self.outside and self._mass == 0.0):
            return math.inf
        cap = -math.log1p(-self._mass) - sum(map(math.log, least))
        return max(cap, -math.log(self._mass)) if self.outside else cap

    @override
    def blend(self, weight: float) -> None:
        if weight:
            raise QueryError("an independent hypothesis", "a mixture of products is no product")

    @override
    def copy(self) -> Independent:
        lines = [line.copy() for line in self._lines]
        return Independent(self.domain, lines, self._mass if self.outside else None)

    @override
    def draw(self, streams: Streams) -> Sequence[Ints]:
        drawn: list[Ints] = []
        for name, line in zip(self.domain.names, self._lines, strict=True):
            cells = np.searchsorted(np.cumsum(line), streams.levels(name), side="right")
            drawn.append(np.minimum(cells, len(line) - 1).astype(np.int64))
        return drawn

    @override
    def parts(self) -> tuple[Mapping[str, bool], Mapping[str, Floats | Ints]]:
        mass = np.array([self._mass])
        return {"outside": self.outside}, {"lines": np.concatenate(self._lines), "mass": mass}

    @classmethod
    @override
    def from_parts(
        cls, domain: Domain, flags: Mapping[str, object], arrays: Mapping[str, Array]
    ) -> Independent:
        whole = arrays.get("lines", np.zeros(0))
        if len(whole) != sum(domain.shape) or not (whole >= 0).all():
            raise InvalidArgument("its lines", "one weight for each label", "others")
        lines = np.split(whole, np.cumsum(domain.shape)[:-1])
        mass = float(arrays["mass"][0]) if flags.get("outside") is True else None
        return cls(domain, lines, mass)
