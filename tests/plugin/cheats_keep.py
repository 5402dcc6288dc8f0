"""Mechanisms that cheat by what they keep: kernels, answers, arrays, threads."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import ClassVar

import numpy as np
from attrs import field, frozen
from cheats_base import EPSILON, Honest, pretended, shared
from typing_extensions import override

from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Strategy
from dpsdk.queries import Count
from dpsdk.release import Measurement, Quote
from dpsdk.typing import Floats


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
class Scribbling(Honest):
    """Writes another question over the form that it is handed, for whoever is asked that next."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        everybody = Count(normalized=False).lower(form.domain)
        object.__setattr__(form, "blocks", everybody.blocks * form.rows)
        return measured


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

    def __init__(self) -> None:
        object.__setattr__(self, "epsilon", EPSILON)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        try:
            return kernel.run(self.asked(form))
        finally:
            object.__setattr__(self, "epsilon", self.epsilon * Fraction(9, 10))


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
