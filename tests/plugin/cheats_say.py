"""Mechanisms that say what is not so: of their errors, their numbers, or themselves."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
from attrs import field, frozen
from cheats_base import Honest, shared
from typing_extensions import override

from dpsdk import wire
from dpsdk.errors import QueryError
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.release import Accuracy, Measurement, Quote
from dpsdk.typing import Floats
from dpsdk.wire import JSON, Codebook, Kind, Plain


@frozen
class Boasting(Honest):
    """Claims a quarter of the error bound that its noise has."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        one = super().quote(form, terms)
        return Quote(one.at_open, one.at_most, shared(one.accuracy, 0.25))

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        return Measurement(measured.values, shared(measured.accuracy, 0.25))


@frozen
class Shaped(Honest):
    """Hands numbers out in another shape or of another type than was asked for."""

    way: str = "plain"

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        return Measurement(SHAPES[self.way](measured.values), measured.accuracy)


@frozen
class Bare(Honest):
    """Says nothing of the error of its numbers, not even that nothing is known."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        return Measurement(measured.values, cast("Accuracy", None))


SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "plain": lambda values: values,
    "one more": lambda values: np.append(values, 0.0),
    "a column": lambda values: values[:, None],
    "short floats": lambda values: cast("Floats", values.astype(np.float32)),
    "integers": lambda values: cast("Floats", values.astype(np.int64)),
    "a list": lambda values: cast("Floats", values.tolist()),
    "no numbers": lambda values: np.full(len(values), np.nan),
}


@frozen
class Nameless(Honest):
    """Has no name that a history could show."""

    @property
    @override
    def name(self) -> str:
        return ""


@frozen
class Crashing(Honest):
    """Fails with an error of its own where a form is none that it takes."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        return super().quote(_checked(form), terms)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        return super().work(_checked(form), kernel)


def _checked(form: LinearForm) -> LinearForm:
    if form.rows > 1:
        message = "one number only"
        raise ValueError(message)
    return form


@frozen
class Choosy(Honest):
    """The same, with the refusal that the interface has for it."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        return super().quote(self._checked(form), terms)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        return super().work(self._checked(form), kernel)

    def _checked(self, form: LinearForm) -> LinearForm:
        if not isinstance(form, LinearForm) or form.rows > 1:
            raise QueryError("", "it answers one number only")
        return form


@frozen
class Rounded(Honest):
    """Is written down with fewer digits than it has."""

    epsilon: Fraction = field(default=Fraction(1, 3), converter=Fraction)


@frozen
class Written(Honest):
    """Is written down with all its digits."""

    epsilon: Fraction = field(default=Fraction(1, 3), converter=Fraction)


class _Digits:
    """Writes an amount with so few digits."""

    def write(self, value: Fraction, path: str, codebook: Codebook, /) -> Plain:
        return wire.AMOUNT.write(value.limit_denominator(2), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Fraction:
        return wire.AMOUNT.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return wire.AMOUNT.schema(codebook)


KINDS: tuple[Kind[Any], ...] = (
    Kind(Rounded, "cheats:rounded", {"epsilon": _Digits()}),
    Kind(Written, "cheats:written", {"epsilon": wire.AMOUNT}),
)
