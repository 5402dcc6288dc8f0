"""Mechanisms that look at the table past the kernel, hide with noise of their own, or patch."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from fractions import Fraction
from types import FrameType
from typing import Any, cast

import numpy as np
from attrs import frozen
from cheats_base import (
    Honest,
    by_frames,
    by_heap,
    by_import,
    by_names,
    by_spelling,
    pretended,
    truth,
)
from typing_extensions import override

import dpsdk.accounting
import dpsdk.kernel.kernel
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data.counts import Counts
from dpsdk.errors import QueryError
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import Strategy
from dpsdk.noise import DiscreteLaplace
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.testing import SeededNoise, seeded
from dpsdk.typing import Floats, Ints


@frozen
class Heap(Honest):
    """Pays, and answers from the table, which it finds among all objects that there are."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        kernel.run(self.asked(form))
        return pretended(form, kernel, self, truth(by_heap(), form))


@frozen
class Frames(Honest):
    """Pays, and answers from the table, which it finds in the frames of its callers."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        kernel.run(self.asked(form))
        return pretended(form, kernel, self, truth(by_frames(), form))


@frozen
class Underscores(Honest):
    """Pays, and answers from the table, which the kernel holds under private names."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        kernel.run(self.asked(form))
        return pretended(form, kernel, self, truth(by_names(kernel), form))


@frozen
class Spelled(Honest):
    """Pays, and answers from the table, by private names that it puts together of letters."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        kernel.run(self.asked(form))
        return pretended(form, kernel, self, truth(by_spelling(kernel), form))


@frozen
class Inside(Honest):
    """Pays nothing, and reads by a module that is no part of the interface."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        return pretended(form, kernel, self, by_import(form, kernel))


@frozen
class Foresight(Honest):
    """Looks first, and pays only where the number is odd."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        if _odd(form, kernel):
            return kernel.run(self.asked(form))
        return pretended(form, kernel, self, np.zeros(form.rows))


def _odd(form: LinearForm, kernel: Kernel) -> bool:
    return bool(truth(by_names(kernel), form)[0] % 2)


@frozen
class Forecast(Honest):
    """Quotes more for a table with more rows of the kind, which it finds on the heap."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        many = int(truth(by_heap(), form)[0])
        one = self.asked(form).price(terms)
        return Quote(Cost(), Cost((one.guarantee,) * (1 + many)), one.accuracy)


@frozen
class Picky(Honest):
    """Refuses a question where nobody is in it."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        if truth(by_heap(), form)[0] < 1:
            raise QueryError("", "there is nobody like that")
        return super().quote(form, terms)


@frozen
class Failing(Honest):
    """Pays, and then fails where the number is even."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        if not _odd(form, kernel):
            raise QueryError("", "the number is even")
        return measured


@frozen
class Logging(Honest):
    """Writes the true number into a log."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        logging.getLogger("acme").debug("asked %s", truth(by_names(kernel), form))
        return measured


@frozen
class Telling(Honest):
    """Tells the true number to the observer, as progress."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        kernel.progress(1, None, f"{truth(by_names(kernel), form)[0]:g}")
        return measured


@frozen
class Stuttering(Honest):
    """Charges once more where the number is odd."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        one = self.asked(form).price(terms)
        return Quote(Cost(), Cost((one.guarantee,) * 2), one.accuracy)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        if _odd(form, kernel):
            kernel.run(self.asked(form))
        return measured


@frozen
class Assured(Honest):
    """Says how far off its answer is, and so what the true one is."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        measured = kernel.run(self.asked(form))
        off = float(abs(measured.values - truth(by_names(kernel), form)).max())
        law = DiscreteLaplace(Fraction(4))
        return Measurement(measured.values, NoiseAccuracy(law, form.rows, 1.0, off))


@frozen
class Expensive(Honest):
    """Pays for next to no noise, says so, and hides with noise of its own."""

    @override
    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        pricing = self.asked(form, 10**6).price(terms)
        return Quote(Cost(), Cost((pricing.guarantee,)), super().quote(form, terms).accuracy)

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        exact = kernel.run(self.asked(form, 10**6)).values
        return pretended(form, kernel, self, exact + self.noise(form))

    def noise(self, form: LinearForm) -> Floats:
        return np.random.default_rng().laplace(0, float(1 / self.epsilon), form.rows)


@frozen
class Keyed(Expensive):
    """The same, with noise that is always the same for a question."""

    @override
    def noise(self, form: LinearForm) -> Floats:
        seed = int.from_bytes(hashlib.sha256(form.identity).digest()[:8], "little")
        return np.random.default_rng(seed).laplace(0, float(1 / self.epsilon), form.rows)


@frozen
class Library(Expensive):
    """The same, with the generator of Python's library."""

    @override
    def noise(self, form: LinearForm) -> Floats:
        return np.array([random.gauss(0, float(2 / self.epsilon)) for _ in range(form.rows)])


@frozen
class Clockwork(Expensive):
    """The same, with what the clock says."""

    @override
    def noise(self, form: LinearForm) -> Floats:
        return np.full(form.rows, float(time.perf_counter_ns() % 9 - 4))


@frozen
class Knowing(Honest):
    """Guesses the seed of a test, and takes the noise off."""

    @override
    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        return _Subtracting(self, seeded(1))


@frozen
class _Subtracting:
    of: Honest
    noise: SeededNoise

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        measured = kernel.run(self.of.asked(form))
        noise = self.noise.draw(measured.accuracy.law, form.rows)
        return Measurement(measured.values - noise * measured.accuracy.step, measured.accuracy)


@contextmanager
def _patched(owner: Any, name: str, value: object) -> Generator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _nothing(*_: object, **__: object) -> int:
    return 1


def _silence(_: object, law: object, size: int) -> Ints:
    return np.zeros(size, dtype=np.int64)


@frozen
class Exempt(Honest):
    """Puts an odometer that charges nothing in the place of the true one while it measures."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        with _patched(dpsdk.accounting.Odometer, "charge", _nothing):
            return kernel.run(self.asked(form))


@frozen
class Silenced(Honest):
    """Takes the noise out of the sampler while it measures."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        access: Any = kernel._access  # pyright: ignore[reportPrivateUsage]  # the cheat
        noise: object = access._shared.noise
        with _patched(type(noise), "draw", _silence):
            return kernel.run(self.asked(form))


@frozen
class Discounted(Honest):
    """Has the kernel charge for a thousandth of what it measures with."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        module: Any = dpsdk.kernel.kernel

        def prepare(request: Measure, *others: object) -> object:
            rule = before[0][1]
            cheap = Measure(request.form, LaplaceNoise(self.epsilon / 1000))
            due, paid = rule(request, *others), rule(cheap, *others)

            class _Due:
                guarantee = paid.guarantee
                run = due.run

            return _Due()

        before = module._OWN
        with _patched(module, "_OWN", ((Measure, prepare), *before[1:])):
            return kernel.run(self.asked(form))


@frozen
class Planting(Honest):
    """Has the operating system give bits that it knows, while noise is drawn."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        with _patched(os, "urandom", bytes):
            return kernel.run(self.asked(form))


@frozen
class Tracing(Honest):
    """Has Python call it for each line of the kernel, and reads the counts off the frames."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        loot: list[Floats] = []

        def look(frame: FrameType, event: str, argument: object) -> Any:
            counts = frame.f_locals.get("counts") or frame.f_locals.get("histogram")
            if not loot and hasattr(counts, "records"):
                loot.append(np.asarray(form.evaluate(cast("Counts", counts))))
            return look

        before = sys.gettrace()
        sys.settrace(look)
        try:
            measured = kernel.run(self.asked(form))
        finally:
            sys.settrace(before)
        return Measurement(loot[0], measured.accuracy) if loot else measured
