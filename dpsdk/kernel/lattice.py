"""Forms as primitives read them: checked against a table, and put onto a lattice of integers.

A form goes onto a lattice of step 2**-bits before anything is summed. How fine it is follows from
the form, the noise and public facts only; it is never so fine that a sum could leave the integers
that floats hold, and that is proven before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from dpsdk._identity_map import IdentityMap
from dpsdk._records import define, field
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm, Sensitivity, UnwrittenForm
from dpsdk.forms import sensitivity as sensitivity_of
from dpsdk.forms.linear import EXACT
from dpsdk.typing import Floats, Ints

__all__ = [
    "PreparedForm",
    "allowed_bits",
    "exact",
    "finest",
    "on_given_lattice",
    "on_lattice",
    "prepare_form",
]

V = TypeVar("V")

_FINEST = 40
"""The finest lattice has steps of 2**-40."""

_RESULTS = ((2**14, 64), (2**19, 8), (math.inf, 4))
"""Of forms of up to so many bytes, so many prices and so many lattices are cached."""

_FORMS = 2**12
_FORM_BYTES = 2**29
_SETTINGS = 8


@define(eq=False)
class PreparedForm:
    """A form that fits tables of certain facts, and what was worked out of it."""

    form: LinearForm
    facts: Facts
    _most: int
    _known: dict[object, object] = field(factory=dict[object, object], repr=False)
    _lattices: dict[object, object] = field(factory=dict[object, object], repr=False)

    def once(self, key: object, work: Callable[[], V], *, of_lattices: bool = False) -> V:
        """Return the result of some work, done once for each key as long as there is room."""
        results = self._lattices if of_lattices else self._known
        known = results.get(key)
        if known is None:
            if len(results) >= self._most:
                results.clear()
            known = results[key] = work()
        return cast("V", known)

    def sensitivity(self, power: int) -> Sensitivity:
        """How far one person can move the answers, off the lattice, in the norm of that power."""
        return self.once(
            ("sensitivity", power), lambda: sensitivity_of(self.form, self.facts, power=power)
        )

    def lattice(self, bits: int) -> tuple[LinearForm, float]:
        """The form in integer units of 2**-bits, and the largest change of a weight."""
        return self.once(bits, lambda: self.form.rounded(bits), of_lattices=True)

    def reaches(self, lattice: LinearForm) -> float:
        """The largest number on the way to an answer over 2**53; at 1, sums may round off.

        Infinite where floats do not hold it.
        """
        share = lattice.reach * max(self.facts.row_limit, 1) / EXACT
        return share if math.isfinite(share) else math.inf


_prepared: IdentityMap[tuple[PreparedForm, ...]] = IdentityMap(_FORMS, _FORM_BYTES)
"""Each form as prepared for several settings, the last one first."""


def prepare_form(form: LinearForm, facts: Facts) -> PreparedForm:
    """Check that a form fits a table, and that its sums are exact there."""
    if type(form) is not LinearForm:
        if isinstance(form, UnwrittenForm):
            form.refuse()
        raise InvalidArgument("form", "a LinearForm, of that very class", type(form).__name__)
    known = _prepared.get(form) or ()
    for one in known:
        if one.facts is facts or one.facts == facts:
            return one
    if form.domain is not facts.domain and form.domain != facts.domain:
        raise InvalidArgument("form", "over the domain of the table", "another domain")
    for reach in {block.reach for block in form.blocks}:
        # On a lattice each weight is at least what it is here, up to half a step.
        if not reach * max(facts.row_limit, 1) < EXACT:
            raise _too_large("weights", reach)
    # Another object with the same blocks, which does not keep the form alive.
    own = LinearForm(form.domain, form.blocks)
    size = own.lattice_nbytes
    most = next(most for limit, most in _RESULTS if size <= limit)
    prepared = PreparedForm(own, facts, most)
    entries = (prepared, *known[: _SETTINGS - 1])
    # Each with its groups and all the lattices that it may come to hold.
    _prepared.keep(form, entries, len(entries) * size * (2 + most))
    return prepared


def finest(wanted: float, least: int = 0) -> int:
    """So many bits, rounded up, but at least the least and no more than the finest lattice has."""
    return math.ceil(min(max(wanted, least), _FINEST))


def allowed_bits(row_limit: int) -> int:
    """How fine a lattice may be on which all rows add weights from 0 to 1, and a sign is left."""
    return math.floor(math.log2(EXACT / max(row_limit, 1))) - 1


def on_lattice(own: PreparedForm, bits: int) -> tuple[int, LinearForm, float]:
    """A form in integer units of 2**-bits, and the largest change of a weight.

    With so many bits, or as many as exact sums allow. Rounding moves a weight by half a step at the
    most, so all rows together move an answer by half a step each; what that is, is part of the
    error bound. Integer weights stay on the integers if no bits are wanted.
    """
    form = own.form
    while True:
        lattice, change = own.lattice(bits) if bits or not form.integral else (form, 0.0)
        excess = own.reaches(lattice)
        if excess < 1.0:
            return bits, lattice, change
        if not bits:
            raise _too_large("weights", lattice.reach)
        step = math.ceil(math.log2(excess)) if excess < math.inf else bits
        bits = max(0, bits - max(1, step))


def on_given_lattice(own: PreparedForm, bits: int, parameter: str) -> tuple[LinearForm, float]:
    """The same with just so many bits, for what shares a lattice with others."""
    lattice, change = own.lattice(bits)
    if not own.reaches(lattice) < 1.0:
        raise _too_large(parameter, lattice.reach)
    return lattice, change


def _too_large(parameter: str, reach: float) -> InvalidArgument:
    expected = "small enough that rows times weight stay within 2**53"
    return InvalidArgument(parameter, expected, f"up to {reach:.3g} a row")


def exact(answers: Floats) -> Ints:
    """The integers that exact sums are, for work behind the wall."""
    if not (np.abs(answers) < EXACT).all():
        message = "a sum left the integers that floats hold"
        raise ArithmeticError(message)
    return answers.astype(np.int64)
