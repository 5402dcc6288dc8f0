"""`Matrix`, and how it chooses the strategy that measures a workload best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import TooLarge
from dpsdk.forms import Facts, FormBlock, LinearForm, Lowers, sensitivity
from dpsdk.forms.linear import narrowed
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import QUERY, TOTAL, check_linear, to_workload
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.matrix.optimal import (
    DESIGN_LIMIT,
    Batch,
    batches_of,
    best_for_gaussian,
    best_for_laplace,
    evenly,
    gram_of,
)
from dpsdk.mechanisms.measured_once import Estimates, LeastSquares, Measured, Part, Stack
from dpsdk.mechanisms.one_attribute import SIZE_LIMIT as ROOT_LIMIT
from dpsdk.mechanisms.one_attribute import Root
from dpsdk.mechanisms.residual_planner import ResidualPlanner
from dpsdk.mechanisms.strategy_matrix import Product, StrategyMatrix, Table, columns_of
from dpsdk.mechanisms.tree import Hierarchy, whole_of
from dpsdk.typing import Floats

__all__ = ["CELL_LIMIT", "Matrix", "designed"]

CELL_LIMIT = 2**24
"""No strategy estimates more cells in all its parts."""

_JOINED_LIMIT = 2**20
"""Parts are measured as one where that has no more cells."""

_WORK_LIMIT = 2**28
"""How many multiplications the parts of a strategy are optimised with, in cubes of sizes."""

_BITS = 20
"""Strategies are on a lattice of steps of 2^-20, where exact sums allow that."""

_FEWEST_BITS = 6
"""On a coarser one nothing but cells is measured."""

_LARGEST = 51
"""Rows times weights stay below two to this."""

_FINENESS = 16
"""The least of the whole numbers that parts are scaled by, where exact sums allow it."""

_ROUNDS = 2
"""How often the attributes of a product are gone through, where they depend on each other."""

_GAIN = 0.99
"""The share of the cells' error that an optimised strategy may leave to be worth its noise."""

_TOTAL = 0.01
"""How much of the total functions keep when it is known: the errors hardly depend on it."""

_LITTLE = 1 / 64
"""By how much of a cell few functions are joined: their own noise grows by little."""

_SAMPLED = 2**22
"""On large attributes errors are those of functions taken evenly, by so many weights."""

_GRAM_LIMIT = 2**12
"""On attributes of up to so many cells they are those of all, by arrays of 128 MiB."""


def designed(form: LinearForm, facts: Facts, noise: Noise) -> Stack:
    """The strategy for a workload: the same for the same blocks, facts and kind of noise."""
    form = narrowed(form)
    parts = _attribute_sets(form)
    cells = sum(_cells(form.domain, names) for names in parts)
    if cells > CELL_LIMIT:
        advice = "ask for functions of fewer or coarser attributes, or open MWEM"
        raise TooLarge("Matrix", cells, CELL_LIMIT, "cells", advice)
    gaussian = isinstance(noise, GaussianNoise)
    kept = _kept_for(form.identity, _layout(form), facts, gaussian)
    if not kept:
        kept.append(_Designer(form, facts, gaussian).stack(parts))
    return kept[0]


_Layout: TypeAlias = tuple[tuple[str, tuple[str, ...], int], ...]


@lru_cache(16)
def _kept_for(*question: object) -> list[Stack]:
    """The key of the strategy for a question."""
    del question
    return []


def _layout(form: LinearForm) -> _Layout:
    """How functions are laid out in blocks: which attributes are answered follows from that."""
    kinds = [(type(block).__name__, block.names, block.rows) for block in form.blocks]
    runs = [
        (*kind, sum(rows for *_, rows in run))
        for kind, run in groupby(kinds, lambda kind: kind[:2])
    ]
    return tuple(runs)


def _cells(domain: Domain, names: Iterable[str]) -> int:
    return math.prod(domain[name].size for name in names)


def _attribute_sets(form: LinearForm) -> tuple[tuple[str, ...], ...]:
    """The sets of attributes of the blocks of a form that are in no other, in its order."""
    order = form.domain.names
    sets = dict.fromkeys([tuple(sorted(block.names, key=order.index)) for block in form.blocks])
    return tuple([one for one in sets if not any(set(one) < set(other) for other in sets)])


@frozen(eq=False)
class _Candidate:
    """A possible measurement, with the error of its blocks where its noise has variance 1."""

    measured: StrategyMatrix
    error: float
    norm: float

    @property
    def score(self) -> float:
        """The error for a total of one."""
        return self.error * self.norm


@frozen(eq=False)
class _Designer:
    form: LinearForm
    facts: Facts
    gaussian: bool
    _known: dict[bytes, Floats] = field(factory=dict[bytes, "Floats"], repr=False)

    def stack(self, parts: Sequence[tuple[str, ...]]) -> Stack:
        """The best of what is worth trying."""
        shared = self._assigned(parts)
        chosen = [self._best(names, blocks) for names, blocks in shared.items()]
        if len(chosen) == 1:
            return Stack((Part(chosen[0].measured),))
        scales = self._scales(chosen)
        joined = self._joined()
        if joined is not None and joined.score < self._score(chosen, scales):
            return Stack((Part(joined.measured),))
        pairs = zip(chosen, scales, strict=True)
        return Stack(tuple([Part(one.measured, scale) for one, scale in pairs]))

    def _assigned(self, parts: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], list[FormBlock]]:
        """The blocks that each part is designed for: those that no smaller one has."""
        sizes = {names: _cells(self.form.domain, names) for names in parts}
        shared: dict[tuple[str, ...], list[FormBlock]] = {names: [] for names in parts}
        homes: dict[tuple[str, ...], tuple[str, ...]] = {}
        for block in self.form.blocks:
            home = homes.get(block.names)
            if home is None:
                covering = [names for names in parts if set(block.names) <= set(names)]
                home = homes[block.names] = min(covering, key=sizes.__getitem__)
            shared[home].append(block)
        return shared

    def _joined(self) -> _Candidate | None:
        names = self.form.names
        if _cells(self.form.domain, names) > _JOINED_LIMIT:
            return None
        return self._best(names, self.form.blocks)

    def _best(self, names: tuple[str, ...], blocks: Sequence[FormBlock]) -> _Candidate:
        """The best for some blocks, of all that is known for these attributes."""
        found = self._products(names, blocks)
        if names and _cells(self.form.domain, names) <= DESIGN_LIMIT:
            found.extend(self._tables(names, blocks))
        if len(names) == 1:
            found.extend(self._ordered(names[0], blocks))
        return min(found, key=lambda one: one.score)

    @property
    def _bits(self) -> int:
        room = _LARGEST - math.ceil(math.log2(max(1, self.facts.row_limit)))
        return max(0, min(_BITS, room - math.ceil(math.log2(_FINENESS))))

    def _norm(self, product: Product) -> float:
        """How far a person moves a product at the most, squared, by the norms of its columns."""
        power = 2 if self.gaussian else 1
        norms = [float(factor.column_norms(power).max()) for factor in product.factors]
        moved = float(self.facts.unit_rows)
        if self.facts.replaced:
            # Two columns of weights that are not negative are no farther from each other.
            moved *= math.sqrt(2) if self.gaussian else 2
        return (math.prod(norms) if self.gaussian else math.prod(norms) ** 2) * moved**2

    def _exact(self, measured: StrategyMatrix, error: float) -> _Candidate:
        """A candidate with the sensitivity of what is measured."""
        move = sensitivity(measured.strategy, self.facts, power=2 if self.gaussian else 1)
        norm = float(move.l2_squared) if self.gaussian else float(move.l1) ** 2
        return _Candidate(measured, error, norm)

    def _optimised(self, gram: Floats) -> Floats:
        """The strategy for a Gram matrix, remembered up to its scale."""
        scaled = gram / max(float(np.trace(gram)), 1e-300)
        key = np.float32(scaled).tobytes()
        known = self._known.get(key)
        if known is None:
            if (len(self._known) + 1) * len(gram) ** 3 > _WORK_LIMIT:
                return np.eye(len(gram))
            known = (best_for_gaussian if self.gaussian else best_for_laplace)(scaled)
            self._known[key] = known
        return known

    def _tables(self, names: tuple[str, ...], blocks: Sequence[FormBlock]) -> list[_Candidate]:
        """The best of all strategies for a few cells, as far as it is known."""
        if self._bits < _FEWEST_BITS:
            return []
        gram = gram_of(blocks, names, self.form.domain)
        whole, total = whole_of(self.facts)
        # A total that is known or free need not be told by other sums.
        sought = gram if whole == "unknown" else _apart_from_total(gram)
        strategy = self._optimised(sought)
        if whole == "measured":
            strategy = np.concatenate([strategy, np.ones((1, len(gram)))])
        found: list[_Candidate] = []
        for rows in (strategy, self._as_asked(names, blocks)):
            if rows is None:
                continue
            measured = Table.of(self.form.domain, names, rows, self._bits, total)
            if measured is not None:
                error = float((gram * (measured.inverse @ measured.inverse.T)).sum())
                found.append(self._exact(measured, error))
        return found

    def _as_asked(self, names: tuple[str, ...], blocks: Sequence[FormBlock]) -> Floats | None:
        """A few functions themselves, with a little of all cells, so that others are answered."""
        if sum([block.rows for block in blocks]) > _cells(self.form.domain, names):
            return None
        part = LinearForm(self.form.domain, blocks)
        if not part.largest:
            return None
        every = [columns_of(block, self.form.domain, names) for block in blocks]
        written = np.concatenate(every) / part.largest
        return np.concatenate([written, np.eye(written.shape[1]) * _LITTLE])

    def _products(self, names: tuple[str, ...], blocks: Sequence[FormBlock]) -> list[_Candidate]:
        """All cells, and what may be better along each attribute."""
        domain = self.form.domain
        plain = Product.cell_by_cell(domain, names)
        norm = self._norm(plain)
        batches = batches_of(blocks, names, domain)
        if batches is None:
            part = LinearForm(domain, blocks)
            return [_Candidate(plain, float(plain.combine(part).squares.sum()), norm)]
        none: dict[str, Floats | None] = dict.fromkeys(names)
        found = [_Candidate(plain, _error(batches, none), norm)]
        if len(names) == 1 and domain[names[0]].size <= DESIGN_LIMIT:
            return found  # a table of these cells is no worse
        strategies = self._along(names, batches)
        used = [name for name, one in strategies.items() if one is not None]
        if not used or self._bits // len(used) < _FEWEST_BITS:
            return found
        share, extra = divmod(self._bits, len(used))
        bits = {name: share + (turn < extra) for turn, name in enumerate(used)}
        measured = Product.of(domain, strategies, bits)
        if measured is None:
            return found
        inverses = {
            name: None if inverse is None else inverse @ inverse.T
            for name, inverse in zip(names, measured.inverses, strict=True)
        }
        found.append(_Candidate(measured, _error(batches, inverses), self._norm(measured)))
        return found

    def _along(self, names: tuple[str, ...], batches: Sequence[Batch]) -> dict[str, Floats | None]:
        """A strategy for each attribute in turn, the others being what they are by then."""
        domain = self.form.domain
        strategies: dict[str, Floats | None] = dict.fromkeys(names)
        inverses: dict[str, Floats | None] = dict.fromkeys(names)
        small = [name for name in names if 1 < domain[name].size <= DESIGN_LIMIT]
        for _ in range(_ROUNDS if len(batches) > 1 and len(small) > 1 else 1):
            for name in small:
                gram: Floats = np.zeros((domain[name].size,) * 2)
                for batch in batches:
                    gram += batch.lines[name].weighed(batch.others(inverses, name))
                strategy = self._optimised(gram)
                inverse = np.asarray(np.linalg.inv(strategy.T @ strategy), dtype=np.float64)
                if float((gram * inverse).sum()) < _GAIN * float(np.trace(gram)):
                    strategies[name], inverses[name] = strategy, inverse
        return strategies

    def _ordered(self, name: str, blocks: Sequence[FormBlock]) -> list[_Candidate]:
        """A tree over an attribute, and the square root of its thresholds."""
        kinds: list[Hierarchy | Root] = []
        size = self.form.domain[name].size
        if size > 1:
            reference: Noise = GaussianNoise(1) if self.gaussian else LaplaceNoise(1)
            kinds.append(Hierarchy.over(self.facts, name, None, reference))
        if self.gaussian and 1 < size <= ROOT_LIMIT:
            kinds.append(Root.over(self.facts, name))
        return [self._exact(kind, self._ordered_error(kind, blocks)) for kind in kinds]

    def _ordered_error(self, kind: Hierarchy | Root, blocks: Sequence[FormBlock]) -> float:
        size = self.form.domain[kind.attribute].size
        if size <= _GRAM_LIMIT:
            inverse = kind.adjoint(np.eye(size))
            gram = gram_of(blocks, kind.names, self.form.domain)
            return float((gram * (inverse @ inverse.T)).sum())
        asked, worth = _sampled(LinearForm(self.form.domain, blocks), size)
        return float(kind.combine(asked).squares.sum()) * worth

    def _scales(self, chosen: Sequence[_Candidate]) -> list[int]:
        """The whole numbers that share the total best among parts.

        The error is Σ Eᵢ/wᵢ². With Σ wᵢ² Nᵢ given it is least where wᵢ⁴ is in proportion to Eᵢ/Nᵢ;
        with Σ wᵢ nᵢ given, where wᵢ³ is to Eᵢ/nᵢ.
        """
        limit = 2.0**_LARGEST / max(1, self.facts.row_limit)
        wanted: list[float] = []
        room = math.inf
        for one in chosen:
            ratio = max(one.error, 1e-300) / (one.norm if self.gaussian else math.sqrt(one.norm))
            wanted.append(ratio ** (1 / 4 if self.gaussian else 1 / 3))
            room = min(room, limit / (one.measured.strategy.reach * wanted[-1]))
        unit = min(_FINENESS / min(wanted), room)
        scales = [max(1, round(one * unit)) for one in wanted]
        divisor = math.gcd(*scales)
        return [scale // divisor for scale in scales]

    def _score(self, chosen: Sequence[_Candidate], scales: Sequence[int]) -> float:
        error = norm = 0.0
        for one, scale in zip(chosen, scales, strict=True):
            error += one.error / scale**2
            norm += one.norm * scale**2 if self.gaussian else math.sqrt(one.norm) * scale
        return error * (norm if self.gaussian else norm**2)


def _error(batches: Iterable[Batch], inverses: dict[str, Floats | None]) -> float:
    return sum([batch.error(inverses) for batch in batches])


def _apart_from_total(gram: Floats) -> Floats:
    """The Gram matrix of functions but for what they have in common with the total."""
    means = gram.mean(axis=0)
    mean = float(means.mean())
    result: Floats = gram - means[:, None] - means[None, :] + (1 + _TOTAL) * mean
    return result


def _sampled(form: LinearForm, size: int) -> tuple[LinearForm, float]:
    """Functions of a form, taken evenly where it has many, and for how many each stands."""
    most = max(4, _SAMPLED // max(1, size))
    if form.rows <= most:
        return form, 1.0
    places = evenly(form.rows, most)
    rows = LinearForm.stack([form.row(place) for place in places])
    return rows, form.rows / len(places)


def _plain(form: LinearForm) -> bool:
    """True if all of it are tables of counts, and not the number of rows alone."""
    return bool(form.names) and all(block.table for block in form.blocks)


@built_in("matrix", {"workload": QUERY, **TOTAL})
@frozen(repr=False)
class Matrix(LeastSquares[Estimates]):
    """Measure the best strategy for a workload once; every answer is a sum of it, free.

    The matrix mechanism (Li, Miklau, Hay, McGregor and Rastogi 2015). Answers have no bias, and
    each has its exact variance and a proven bound. Every linear query is answered that depends on
    no other attributes than some block of the workload does, in the workload or not.

    The strategy depends on public arguments alone, and is worked out once for a workload:

    - for up to 2^8 cells together, with Gaussian noise, the strategy of least squared error to a
      tenth of a percent (Yuan, Yang, Zhang and Hao 2016); with Laplace noise, p-identity strategies
      (McKenna, Miklau, Hay and Machanavajjhala 2018); or a few functions themselves, and of all
      cells a little, if that is better;
    - for one attribute the best of these, a `Tree`, a `SquareRoot` and the cells;
    - for several the products of strategies for each of up to 2^8 cells, larger ones cell by cell;
    - for plain marginals, with Gaussian noise, the residuals of `ResidualPlanner`, which are best;
    - for blocks on different attributes all of these, with the shares of the total that make the
      sum of the squared errors least, or one strategy on all attributes if that is better.

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries.
    epsilon, delta, rho
        The total, as for `NoisyHistogram`.

    Raises
    ------
    InvalidArgument
        If the workload lowers to no form, or the total is not given in one of these ways.
    TooLarge
        When opened or quoted, before anything is paid: if more than 2^24 cells would be estimated.
    QueryError
        When asked what depends on attributes that no block of the workload has together.

    >>> from dpsdk.mechanisms import Matrix
    >>> from dpsdk.queries import Threshold, Workload
    >>> Matrix(Workload([Threshold("age", t) for t in (30, 40)]), rho="0.01")
    Matrix(Workload of 2 queries, rho=0.01)
    """

    page = "explanation/proofs/matrix.md"

    workload: Lowers[LinearForm] = field(converter=to_workload)

    def _measured(self, terms: Terms, /) -> Measured:
        facts = facts_of(terms)
        form = self.workload.lower(facts.domain)
        check_linear(form, "Matrix")
        planner = self._planner(form)
        return designed(form, facts, self._noise()) if planner is None else planner.plan(terms)

    def _planner(self, form: LinearForm) -> ResidualPlanner | None:
        """The residual basis, which is best for plain marginals and Gaussian noise."""
        if isinstance(self._noise(), LaplaceNoise) or not _plain(form):
            return None
        return ResidualPlanner(
            self.workload,
            epsilon=self.epsilon,
            delta=self.delta,
            rho=self.rho,
            # Of the squared errors of all cells the sum is to be least.
            weights=[float(block.rows) for block in form.blocks],
        )

    def __repr__(self) -> str:
        return f"Matrix({shown(self.workload)}, {self._total})"
