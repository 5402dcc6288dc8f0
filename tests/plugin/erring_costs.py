"""Mechanisms that err about costs, refusals and noise, and that read past the kernel."""

import random
from contextlib import suppress
from fractions import Fraction

import numpy as np
from attrs import field, frozen
from erring_base import Honest, Working, by_import, by_names, pretended, truth
from typing_extensions import override

from dpsdk import Domain
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import BudgetExceeded, QueryError
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Mechanism, Strategy
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import Count
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.typing import Floats


@frozen
class Gratis(Honest):
    """Says that it is free, and charges."""

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        return Quote(Cost(), Cost(), super().quote(form, terms).accuracy)


@frozen
class Admission(Mechanism[LinearForm]):
    """Charges for opening, of which its quote knows nothing."""

    epsilon: Fraction = field(default=Fraction(1, 2), converter=Fraction)
    told: bool = False

    @property
    def _honest(self) -> Honest:
        return Honest(self.epsilon)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        one = self._honest.quote(form, terms)
        rows = self._honest.asked(_everybody(form.domain)).price(terms).guarantee
        opening = Cost((rows,))
        whole = Cost((rows, *one.at_most.guarantees))
        return Quote(opening if self.told else Cost(), whole, one.accuracy)

    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        kernel.run(self._honest.asked(_everybody(kernel.facts.domain)))
        return Working(self._honest)


def _everybody(domain: Domain) -> LinearForm:
    return Count(normalized=False).lower(domain)


@frozen
class Swallowing(Honest):
    """Makes up a number where it is refused."""

    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        try:
            return kernel.run(self.asked(form))
        except BudgetExceeded:
            return pretended(form, kernel, self, np.zeros(form.rows))


@frozen
class Recalling(Mechanism[LinearForm]):
    """Gives its last answer again where it is refused, as if it were one to this question."""

    epsilon: Fraction = field(default=Fraction(1, 2), converter=Fraction)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        return Honest(self.epsilon).quote(form, terms)

    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        return _Recall(Honest(self.epsilon))


class _Recall:
    def __init__(self, of: Honest) -> None:
        self._of = of
        self._last: Floats = np.zeros(1)

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        with suppress(BudgetExceeded):
            self._last = self._of.work(form, kernel).values
        return pretended(form, kernel, self._of, np.resize(self._last, form.rows))


@frozen
class Both(Honest):
    """The mean of two runs, paid for together."""

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        pricing = self.asked(form).price(terms)
        return Quote(Cost(), Cost((pricing.guarantee,) * 2), pricing.accuracy)

    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        one, other = self.runs(form, kernel)
        return Measurement((one.values + other.values) / 2, one.accuracy)

    def runs(self, form: LinearForm, kernel: Kernel) -> tuple[Measurement, Measurement]:
        return kernel.run_all((self.asked(form), self.asked(form)))


@frozen
class HalfPaid(Both):
    """Pays for one run after the other, so that the second is refused when the first is gone."""

    def runs(self, form: LinearForm, kernel: Kernel) -> tuple[Measurement, Measurement]:
        return kernel.run(self.asked(form)), kernel.run(self.asked(form))


@frozen
class Insisting(Honest):
    """Measures again where it is interrupted, and so is charged twice."""

    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        try:
            return kernel.run(self.asked(form))
        except KeyboardInterrupt:
            return kernel.run(self.asked(form))


@frozen
class Deaf(Honest):
    """Answers something where it is interrupted."""

    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        try:
            return kernel.run(self.asked(form))
        except KeyboardInterrupt:
            return pretended(form, kernel, self, np.zeros(form.rows))


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
