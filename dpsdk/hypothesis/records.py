"""A hypothesis whose cells are public records, so that the universe may have any size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from dpsdk._checks import require, to_array
from dpsdk._records import frozen, shows_half_made
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.forms.blocks import numbered, tally
from dpsdk.hypothesis.distribution import (
    Hypothesis,
    check_domain,
    reached,
    to_finite_float,
    to_outside,
    to_weight,
)
from dpsdk.hypothesis.files import Arrays, Flag
from dpsdk.hypothesis.seeking import Tilted, inside
from dpsdk.hypothesis.streams import Streams
from dpsdk.hypothesis.synthetic import Counted, to_columns
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Records"]

_KEPT = 2**23
"""So many numbers of tables are kept between two moves: 64 MiB."""

_HALVINGS = 50
_LEAST = 1e-300


@shows_half_made
class Records(Hypothesis):
    """Public records with weights that move, beside the cell outside the domain where there is one.

    It answers and learns every linear function at the cost of its records and never of the
    universe, which may have any number of cells. What no record shows it cannot learn: a function
    that has one value on all records is not moved at all, and a move that would leave the weight on
    too few of them is made as far as it leaves enough. So no promise rests on it, and `kl_cap()` is
    infinite.

    Raises `InvalidArgument` if codes or weights are not as described, and `TooLarge` for more than
    2^28 codes, or an attribute of more than 2^63 cells.

    Parameters
    ----------
    domain
        The universe.
    codes
        Shape (m, d): for each record the number of its cell along each of the d attributes.
    weights
        Shape (m,): the weights of the records, not negative and not all zero; equal by default.
    outside_mass
        The probability of the cell outside the domain; None for a hypothesis without it.
    least
        `move_to` makes no move that leaves fewer effective records than this, (Σ p)² / Σ p² over
        those inside the domain, unless it had fewer before.

    >>> from dpsdk import Boolean, Domain, Integer
    >>> from dpsdk.forms import Kronecker, LinearForm, Range
    >>> domain = Domain(Integer("age", 17, 90), Boolean("member"))
    >>> members = LinearForm(domain, [Kronecker.of(domain, {"member": Range(2, 1, 2)})])
    >>> hypothesis = Records(domain, [[3, 1], [60, 0], [61, 0], [70, 0]])
    >>> step = hypothesis.move_to(members, 0.5)
    >>> round(hypothesis.answer(members), 12)
    0.5
    """

    __slots__ = (
        "_beyond",
        "_codes",
        "_kept",
        "_logs",
        "_shares",
        "_tables",
        "domain",
        "least",
        "outside",
    )

    kind: ClassVar[str] = "records"
    listed: ClassVar[bool] = True
    domain: Domain
    outside: bool
    least: float
    """No move leaves fewer effective records than this."""

    def __init__(
        self,
        domain: Domain,
        codes: Array | Sequence[Sequence[int]],
        weights: Array | Sequence[float] | None = None,
        *,
        outside_mass: float | None = None,
        least: float = 0.0,
    ) -> None:
        check_domain(domain)
        columns = to_columns(domain, codes)
        count = columns.shape[1]
        expected = f"{count} finite numbers of at least 0, not all zero"
        own = np.ones(count) if weights is None else to_array("weights", weights, expected)
        total = float(own.sum()) if own.shape == (count,) else math.nan
        if not (0.0 < total < math.inf and float(own.min()) >= 0.0):
            raise InvalidArgument("weights", expected, "others")
        mass = to_outside(outside_mass)
        with np.errstate(divide="ignore"):
            logs = np.log(own) - math.log(total)
        if mass is not None:
            logs += math.log1p(-mass)
        beyond = None if mass is None else math.log(mass) if mass else -math.inf
        self._keep(domain, _narrowed(domain, columns), logs, beyond, least)

    def _keep(
        self,
        domain: Domain,
        codes: tuple[Array, ...],
        logs: Floats,
        beyond: float | None,
        least: float,
    ) -> None:
        require(0.0 <= least < math.inf, "least", "a number of at least 0", least)
        self.domain = domain
        self.outside = beyond is not None
        self.least = float(least)
        self._codes = codes
        self._logs, self._beyond = logs, beyond
        self._normalise()

    def _normalise(self) -> float:
        """Bring the probabilities to a sum of 1; the logarithm of what that was."""
        beyond = -math.inf if self._beyond is None else self._beyond
        top = max(float(self._logs.max()), beyond)
        shares: Floats = np.exp(self._logs - top)
        total = float(shares.sum()) + math.exp(beyond - top)
        grown = top + math.log(total)
        self._logs = self._logs - grown
        if self._beyond is not None:
            self._beyond -= grown
        self._shares: Floats = shares / total
        self._forget()
        return grown

    def _forget(self) -> None:
        self._tables: dict[tuple[str, ...], Floats] = {}
        self._kept = 0

    @property
    def size(self) -> int:
        """How many records there are."""
        return len(self._logs)

    @property
    def effective(self) -> float:
        """The effective number of records, (Σ p)² / Σ p² over those inside the domain."""
        return _effective(self._shares)

    @property
    @override
    def outside_mass(self) -> float:
        return 0.0 if self._beyond is None else math.exp(self._beyond)

    @override
    def answers(self, form: LinearForm) -> Floats:
        self._check(form)
        return form.evaluate(self)

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[tuple[Sequence[Ints], Floats]]:
        """The codes along each named attribute and the weights of so many records at a time."""
        return self._counted.pieces(names, rows)

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        known = self._tables.get(names)
        if known is None:
            known = self._counted.table(names)
            known.flags.writeable = False
            if self._kept + known.size <= _KEPT:
                self._tables[names] = known
                self._kept += known.size
        return known

    @override
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        return self._counted.records(names)

    @property
    def _counted(self) -> Counted:
        return Counted(self.domain, self._codes, self._shares)

    def _values(self, form: LinearForm) -> Floats:
        """The weight that a function gives each record."""
        (block,) = form.blocks
        codes, _ = self._counted.records(block.names)
        if not block.names:
            return np.full(self.size, float(block.columns(codes).reshape(-1)[0]))
        values: Floats = block.columns(codes)[0]
        return values

    @override
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        self._check_one(form)
        if to_finite_float("step", step) == 0.0:
            return 0.0
        return self._shift(self._values(form), step)

    def _shift(self, values: Floats, step: float) -> float:
        self._logs = self._logs + step * values
        return self._normalise()

    @override
    def move_to(self, form: LinearForm, target: float, answer: float | None = None) -> float:
        self._check_one(form)
        wanted, values = to_finite_float("target", target), self._values(form)
        moved = _Moved.of(values, self._shares)
        tilted = Tilted([(moved.values, moved.masses)], logs=False, rest=self._rest)
        low, high = tilted.reach()
        if not low < high:
            return 0.0
        now = float((values * self._shares).sum()) if answer is None else answer
        step = tilted.solve(inside(wanted, now, low, high), high - low)
        step = moved.within(step, self.least)
        if step != 0.0:
            self._shift(values, step)
        return step

    @property
    def _rest(self) -> float:
        return -math.inf if self._beyond is None else self._beyond

    def rake(self, names: tuple[str, ...], table: Floats, most: float = 4.0) -> None:
        """Scale the weights of records so that a marginal comes near a public table.

        In one pass of iterative proportional fitting (Deming and Stephan 1940). Cells without a
        record stay empty, and no weight changes by more than a factor `most`; where too few
        effective records would be left, by the part of it that leaves `least`. The mass outside the
        domain stays. Raises `InvalidArgument` if the table is not of the shape of the marginal, or
        of finite numbers of at least 0 that are not all zero.

        Parameters
        ----------
        names
            Attributes of the domain.
        table
            Weights of the cells of these, one axis a name.
        """
        shape = tuple([self.domain[name].size for name in names])
        expected = f"finite numbers of at least 0 of shape {shape}, not all zero"
        own = to_array("table", table, expected)
        total = float(own.sum())
        if own.shape != shape or not (0.0 < total < math.inf and float(own.min()) >= 0.0):
            raise InvalidArgument("table", expected, "others")
        codes, shares = self._counted.records(names)
        cells = numbered(codes, shape, self.size)
        now = tally(cells, shares, (own.size,))
        mass = float(shares.sum())
        if mass == 0.0:
            return
        wanted = own.reshape(-1) * (mass / total)
        factors = np.divide(wanted, now, out=np.ones(own.size), where=now > _LEAST)
        steps = np.log(np.clip(factors, 1.0 / most, most))
        enough = min(self.least, self.effective * (1.0 - 1e-9))
        grown = shares * np.exp(steps)[cells]
        for _ in range(_HALVINGS):
            if _effective(grown) >= enough:
                break
            steps = steps / 2
            grown = shares * np.exp(steps)[cells]
        scale = mass / float(grown.sum())
        self._logs = self._logs + (steps + math.log(scale))[cells]
        self._shares = grown * scale
        self._forget()

    @override
    def kl_cap(self) -> float:
        """Infinite: of a cell without a record nothing can be learnt."""
        return math.inf

    @override
    def blend(self, weight: float) -> None:
        """Mix with the distribution that is uniform over the records and the cell outside."""
        share = to_weight(weight)
        if share > 0.0:
            with np.errstate(divide="ignore"):
                rest, each = np.log(1.0 - share), math.log(share / (self.size + self.outside))
            self._logs = np.logaddexp(self._logs + rest, each)
            if self._beyond is not None:
                self._beyond = float(np.logaddexp(self._beyond + rest, each))
            self._normalise()

    @override
    def copy(self) -> Self:
        twin = type(self).__new__(type(self))
        twin._keep(self.domain, self._codes, self._logs, self._beyond, self.least)
        return twin

    @override
    def draw(self, streams: Streams) -> Sequence[Ints]:
        # Whole records, by the numbers of the first attribute.
        chosen = reached(self._shares, streams.levels(self.domain.names[0]))
        return [code[chosen].astype(np.int64) for code in self._codes]

    @override
    def parts(self) -> tuple[Mapping[str, Flag], Mapping[str, Floats | Ints]]:
        mass = [] if self._beyond is None else [self.outside_mass]
        arrays: dict[str, Floats | Ints] = {
            "codes": np.concatenate([code.astype(np.int64) for code in self._codes]),
            "weights": self._shares,
            "outside": np.array(mass, dtype=np.float64),
        }
        return {"least": self.least}, arrays

    @classmethod
    @override
    def from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
        least = flags.get("least")
        if set(arrays) != {"codes", "weights", "outside"} or not isinstance(least, int | float):
            raise InvalidArgument("its parts", "codes, weights, outside and least", "others")
        codes, weights, outside = arrays["codes"], arrays["weights"], arrays["outside"]
        floats = weights.dtype == outside.dtype == np.float64
        if codes.dtype != np.int64 or not floats or len(outside) > 1:
            raise InvalidArgument("its parts", "codes of int64 and weights of float64", "others")
        width = len(domain.attributes)
        if len(codes) != width * len(weights):
            raise InvalidArgument("its codes", "one for each record and attribute", "others")
        mass = float(outside[0]) if len(outside) else None
        columns = codes.reshape(width, -1).T
        return cls(domain, columns, weights, outside_mass=mass, least=least)

    def __repr__(self) -> str:
        beside = f", {self.outside_mass:.3g} outside the domain" if self.outside else ""
        return f"Records({self.size:,} records, {self.effective:,.0f} effective{beside})"


def _effective(shares: Floats) -> float:
    """The effective number of records of such weights; 0 where there is no weight."""
    # Not by a product of vectors, for which many threads would be woken.
    squares = float(np.square(shares).sum())
    return float(shares.sum()) ** 2 / squares if squares > 0.0 else 0.0


@frozen(eq=False)
class _Moved:
    """The values of a function over records, each with the sums of p and p² where it has it."""

    values: Floats
    masses: Floats
    squares: Floats

    @classmethod
    def of(cls, values: Floats, shares: Floats) -> _Moved:
        there = values != 0.0
        height = float(values[there][0]) if there.any() else 0.0
        if bool((values[there] == height).all()):
            # Two values, as nearly all functions have, are sorted quicker so.
            found, places = np.array([0.0, height]), there.astype(np.int64)
        else:
            found, places = np.unique(values, return_inverse=True)
        size = len(found)
        masses = tally(places, shares, (size,))
        squares = tally(places, shares * shares, (size,))
        return cls(found, masses, squares)

    def _effective(self, step: float) -> float:
        exponents = step * self.values
        grown = np.exp(exponents - exponents[self.masses > 0.0].max())
        squares = float(self.squares @ (grown * grown))
        return float(self.masses @ grown) ** 2 / squares if squares > 0.0 else 0.0

    def within(self, step: float, least: float) -> float:
        """The step, or the part of it that leaves so many effective records."""
        enough = min(least, self._effective(0.0) * (1.0 - 1e-9))
        if self._effective(step) >= enough:
            return step
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._effective(step * middle) >= enough:
                low = middle
            else:
                high = middle
        return step * low


def _narrowed(domain: Domain, columns: Ints) -> tuple[Array, ...]:
    """Codes in as few bytes as hold them."""
    kinds = [np.min_scalar_type(size - 1) for size in domain.shape]
    return tuple(
        [column.astype(np.int64 if kind.itemsize == 8 else kind) for column, kind in
         zip(columns, kinds, strict=True)]
    )  # fmt: skip
