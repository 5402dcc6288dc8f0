"""The kernel's own copies, in plain numbers, of all that it is asked for.

Forms, noise and gaps are in the hands of who asks, and could be changed at any time: initialised
anew, their fields set, their arrays made writeable, their numbers exchanged for others of a class
that answers as it likes. So what is priced, charged and read is what was copied here, once, and
nothing of it is handed out. A form that was copied before is known by its place, not by what it
says of itself; while its copy is kept, what it became later plays no part.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
from attrs import define, evolve, field

from dpsdk._checks import shown
from dpsdk._memo import Memo
from dpsdk.domain import Domain, Integer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Boxes,
    Dense,
    Factor,
    FormBlock,
    Kronecker,
    LinearForm,
    Range,
    Sensitivity,
    sensitivity,
)
from dpsdk.forms.factors import is_own
from dpsdk.forms.facts import Setting
from dpsdk.forms.linear import EXACT
from dpsdk.typing import Real

__all__ = ["Kept", "OwnForm", "numbers", "own_form"]

_KEPT = ((2**14, 64), (2**19, 8))
"""Of forms of up to so many bytes, so many prices and lattices are kept."""

_KEPT_OF_LARGE = 4

_FORMS = 2**12
_FORM_BYTES = 2**29
_SETTINGS = 8

K = TypeVar("K")
V = TypeVar("V")


def numbers(parameter: str, value: Real) -> tuple[int, int]:
    """The numerator and the denominator of a fraction, read once.

    Raises
    ------
    InvalidArgument
        If it is no fraction of plain integers.
    """
    if type(value) is Fraction:
        above, below = value.numerator, value.denominator
        if type(above) is int and type(below) is int and below > 0:
            return above, below
    raise InvalidArgument(parameter, "an exact fraction", shown(value))


class Kept(Generic[K, V]):
    """What was worked out last, for keys of plain values; when it is full it starts anew."""

    __slots__ = ("_most", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """What was kept, if it was."""
        return self._values.get(key)

    def keep(self, key: K, value: V) -> V:
        """Keep a value, and give back that which is kept."""
        if len(self._values) >= self._most:
            self._values.clear()
        return self._values.setdefault(key, value)


@define(eq=False)
class OwnForm:
    """The kernel's own copy of a form, for tables of one setting, and what was worked out of it."""

    form: LinearForm
    setting: Setting
    prices: Kept[object, object] = field(repr=False)
    _lattices: Kept[int, tuple[LinearForm, float]] = field(repr=False)
    _moves: dict[int, Sensitivity] = field(factory=dict[int, Sensitivity], repr=False)

    def sensitivity(self, power: int) -> Sensitivity:
        """How far the rows of one person can move the answers, before weights are on a lattice.

        In the norm of that power, which alone is searched for.
        """
        known = self._moves.get(power)
        if known is None:
            known = self._moves[power] = sensitivity(self.form, self.setting, power=power)
        return known

    def lattice(self, bits: int) -> tuple[LinearForm, float]:
        """The form in integer units of 2**-bits, and the largest change of a weight."""
        known = self._lattices.get(bits)
        return self._lattices.keep(bits, self.form.rounded(bits)) if known is None else known

    def reaches(self, lattice: LinearForm) -> float:
        """What the largest number on the way to an answer is of 2**53; at 1, sums may round off.

        Infinite where floats do not hold it.
        """
        share = lattice.reach * max(self.setting.row_limit, 1) / EXACT
        return share if math.isfinite(share) else math.inf


_own_forms: Memo[tuple[OwnForm, ...]] = Memo(_FORMS, _FORM_BYTES)
"""The copies of each form, one for each setting, the last one first."""


def own_form(form: LinearForm, setting: Setting, domain: Domain) -> OwnForm:
    """The kernel's own copy of a form. Every primitive asks for it, then charges, then reads it.

    Forms, blocks and factors compute both what is charged and what is read, so a class of another
    author could charge for one thing and read another, or take the counts away; a factor of the
    wrong size would be priced for cells that it does not read; and weights so large that their
    products leave the floats would be priced for what is not computed.

    Raises
    ------
    InvalidArgument
        If the form is over another domain, does not fit it, is made of foreign classes, or has
        weights whose products could not be summed exactly.
    """
    if type(form) is not LinearForm:
        raise InvalidArgument("form", "a LinearForm, of that very class", type(form).__name__)
    known = _own_forms.get(form) or ()
    for one in known:
        if one.setting is setting or one.setting == setting:
            return one
    if form.domain is not domain and form.domain != domain:
        raise InvalidArgument("form", "over the domain of the table", "another domain")
    copying = _Copying(setting)
    blocks = [copying.block(block) for block in tuple(form.blocks)]
    copy = LinearForm(_domain(setting), blocks)
    size = copy.lattice_nbytes
    most = next((most for limit, most in _KEPT if size <= limit), _KEPT_OF_LARGE)
    own = OwnForm(copy, setting, Kept[object, object](most), Kept(most))
    kept = (own, *known[: _SETTINGS - 1])
    # Each with its groups and all the lattices that it may come to hold.
    _own_forms.keep(form, kept, len(kept) * size * (2 + most))
    return own


@lru_cache(64)
def _domain(setting: Setting) -> Domain:
    """A domain of plain attributes, for the kernel's own forms."""
    return Domain(*(Integer(name, 0, size - 1) for name, size in setting.sizes.items()))


class _Copying:
    """Copies the blocks of one form, parts that they share once."""

    def __init__(self, setting: Setting) -> None:
        self._sizes = setting.sizes
        # On a lattice each factor is at least what it is here, up to half a step.
        self._most = EXACT / max(setting.row_limit, 1)
        self._ranges: dict[tuple[int, int, int], Range] = {}
        self._factors: dict[int, tuple[Factor, Factor, float]] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def block(self, block: FormBlock) -> FormBlock:
        if type(block) is Kronecker:
            return self._kronecker(block)
        if type(block) is Boxes:
            return self._boxes(block)
        if type(block) is not Dense:
            raise _foreign(type(block))
        names, shape, weights = block.names, block.shape, block.weights
        if type(shape) is not tuple or any(type(size) is not int for size in shape):
            raise _foreign(type(shape), *map(type, shape))
        self._check(names, shape)
        own = Dense(names, shape, _plain_array(weights))
        self._bounded(own.reach)
        return own

    def _boxes(self, block: Boxes) -> Boxes:
        names, shape, lines = block.names, block.shape, block.lines
        if type(lines) is not tuple or type(shape) is not tuple:
            raise _foreign(type(lines), type(shape))
        if any(type(size) is not int for size in shape):
            raise _foreign(*map(type, shape))
        names = self._check(names, shape)
        # The copy is checked as it is made.
        own = Boxes(
            names,
            shape,
            _plain_array(block.starts),
            _plain_array(block.stops),
            _plain_array(block.scales),
            tuple([None if line is None else _plain_array(line) for line in lines]),
        )
        self._bounded(max(1.0, float(np.abs(own.scales).max())))
        return own

    def _kronecker(self, block: Kronecker) -> Kronecker:
        names, factors, scale = block.names, block.factors, block.scale
        if type(factors) is not tuple or type(scale) is not float:
            raise _foreign(type(factors), type(scale))
        reach = max(abs(scale), 1.0) if math.isfinite(scale) else math.inf
        own: list[Factor] = []
        shape: list[int] = []
        for factor in factors:
            if type(factor) is Range:
                copy: Factor = self._range(factor)
            else:
                copy, largest = self._factor(factor)
                reach *= largest
            own.append(copy)
            shape.append(copy.size)
        names = self._check(names, tuple(shape))
        self._bounded(reach)
        return Kronecker(names, tuple(own), scale)

    def _range(self, factor: Range) -> Range:
        key = factor.size, factor.start, factor.stop
        # Only whole numbers of the plain kind compare as they will be read.
        if not type(key[0]) is type(key[1]) is type(key[2]) is int:
            raise _foreign(*map(type, key))
        known = self._ranges.get(key)
        if known is None:
            known = self._ranges[key] = Range(*key)
        return known

    def _factor(self, factor: Factor) -> tuple[Factor, float]:
        """A copy, and its reach."""
        known = self._factors.get(id(factor))
        if known is not None:
            return known[1], known[2]
        if not is_own(type(factor)):
            raise _foreign(type(factor))
        copy = evolve(factor)  # type: ignore[misc]  # all factors of the package are attrs
        largest = copy.reach
        # The original is kept meanwhile, so that its identity stays its own.
        self._factors[id(factor)] = factor, copy, largest
        return copy, largest

    def _check(self, names: tuple[str, ...], shape: tuple[int, ...]) -> tuple[str, ...]:
        """The names of the attributes of a block, which must be of such sizes."""
        if type(names) is not tuple or any(type(name) is not str for name in names):
            raise _foreign(type(names), *map(type, names))
        sizes = tuple([self._sizes.get(name) for name in names])
        if sizes != shape or len(set(names)) != len(shape):
            expected = f"of shape {sizes}, as their attributes are"
            raise InvalidArgument("blocks", expected, f"shape {shape}")
        return self._names.setdefault(names, names)

    def _bounded(self, reach: float) -> None:
        if not reach < self._most:
            expected = "small enough that rows times weight stay within 2**53"
            raise InvalidArgument("weights", expected, f"up to {reach:.3g} a row")


def _plain_array(weights: object) -> np.ndarray:
    # A subclass would be asked for its numbers by its own methods.
    if type(weights) is not np.ndarray:
        raise _foreign(type(weights))
    return weights


def _foreign(*kinds: type) -> InvalidArgument:
    plain: set[type] = {tuple, str, int, float, Boxes, Kronecker, Dense}
    foreign = sorted({kind.__name__ for kind in kinds} - {kind.__name__ for kind in plain})
    expected = "made of dpsdk.forms, tuples and plain numbers"
    return InvalidArgument("blocks", expected, ", ".join(foreign) or "parts of other kinds")
