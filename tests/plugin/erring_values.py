"""Mechanisms that err by what they keep, and by what they say of themselves."""

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
from attrs import field, frozen
from erring_base import EPSILON, Honest, pretended, shared
from typing_extensions import override

from dpsdk import wire
from dpsdk.errors import QueryError
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Strategy
from dpsdk.release import Accuracy, Measurement, Quote
from dpsdk.typing import Floats
from dpsdk.wire import JSON, Codebook, Kind, Plain


class Keeping:
    """A strategy with room for what it keeps."""

    def __init__(self, of: Honest) -> None:
        self.of = of
        self.kernels: list[Kernel] = []
        self.known: dict[bytes, Floats] = {}
        self.times: dict[bytes, int] = {}

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        return self.of.work(form, kernel)


class _Stale(Keeping):
    @override
    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        self.kernels.append(kernel)
        return self.of.work(form, self.kernels[0])


@frozen
class Stashing(Honest):
    """Keeps the kernel of its first question, and asks that for all others."""

    @override
    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        return _Stale(self)


@frozen
class Pooling(Honest):
    """Takes the mean of all that any session has ever measured of a form."""

    heard: ClassVar[dict[bytes, list[Floats]]] = {}

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        heard = self.heard.setdefault(form.identity, [])
        heard.append(measured.values)
        return Measurement(np.mean(heard, axis=0), measured.accuracy)


class _Averaging(Keeping):
    @override
    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        if form.identity not in self.known:
            self.known[form.identity] = self.of.work(form, kernel).values
        times = self.times[form.identity] = self.times.get(form.identity, 0) + 1
        accuracy = shared(self.of.asked(form).price(kernel.terms).accuracy, 1 / times)
        return Measurement(self.known[form.identity].copy(), accuracy)


@frozen
class Averaging(Honest):
    """Repeats an answer for free, and says each time that the mean has become more exact."""

    @override
    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        return _Averaging(self)


class Once(Keeping):
    """Measures a form once, and gives the number again for free. Hands out copies."""

    @override
    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        known = self.known.get(form.identity)
        if known is None:
            known = self.known[form.identity] = self.of.work(form, kernel).values
        return pretended(form, kernel, self.of, known.copy())


@frozen
class Repeating(Honest):
    """Measures a form once a channel; the honest twin of those that keep what they measured."""

    @override
    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        return Once(self)


def _kept(weights: Floats) -> Floats:
    return np.frombuffer(np.array(weights, dtype=np.float64).tobytes(), dtype=np.float64)


def _bytes(array: Floats) -> bytes:
    return array.tobytes()


@frozen
class Weighing(Honest):
    """Multiplies what it measured by a factor of its own, of which it holds a copy."""

    factor: Floats = field(factory=lambda: np.ones(1), converter=_kept, eq=_bytes)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        return Measurement(measured.values * self.factor[0], measured.accuracy)


@frozen
class Borrowing(Honest):
    """Works with the array that it was given, whoever writes into that."""

    factor: Floats = field(factory=lambda: np.ones(1), eq=_bytes)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        return Measurement(measured.values * self.factor[0], measured.accuracy)


@frozen
class Counting(Honest):
    """Holds a list in a frozen value, in which all sessions find what the others have asked."""

    asked_before: list[bytes] = field(factory=list[bytes])

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        self.asked_before.append(form.identity)
        return super().quote(form, terms)


class Thawed(Honest):
    """Is no frozen value: its epsilon follows from how often it was asked."""

    __setattr__ = object.__setattr__

    def __init__(self) -> None:
        self.epsilon = EPSILON  # pyright: ignore[reportAttributeAccessIssue]  # it is thawed

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        try:
            return kernel.run(self.asked(form))
        finally:
            self.epsilon *= Fraction(9, 10)  # pyright: ignore[reportAttributeAccessIssue]


class _Confused(Keeping):
    form: LinearForm

    @override
    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        self.form = form
        time.sleep(0.001)  # as long as its work would take
        return self.of.work(self.form, kernel)


@frozen
class Confusing(Honest):
    """Keeps the question that it works on in one place for all threads."""

    @override
    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        return _Confused(self)


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
    Kind(Rounded, "erring:rounded", {"epsilon": _Digits()}),
    Kind(Written, "erring:written", {"epsilon": wire.AMOUNT}),
)
