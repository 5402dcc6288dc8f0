"""Mechanisms that look at the table past the kernel, hide with noise of their own, or patch."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
from attrs import frozen
from cheats_base import Honest, by_import, by_names, pretended, truth
from typing_extensions import override

from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import QueryError
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.noise import DiscreteLaplace
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.typing import Floats


@frozen
class Inside(Honest):
    """Pays nothing, and reads by a module that is no part of the interface."""

    @override
    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        return pretended(form, kernel, self, by_import(form, kernel))


def _odd(form: LinearForm, kernel: Kernel) -> bool:
    return bool(truth(by_names(kernel), form)[0] % 2)


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
class Library(Expensive):
    """The same, with the generator of Python's library."""

    @override
    def noise(self, form: LinearForm) -> Floats:
        return np.array([random.gauss(0, float(2 / self.epsilon)) for _ in range(form.rows)])
