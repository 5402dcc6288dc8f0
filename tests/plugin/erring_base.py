"""What a sound mechanism does, which others do otherwise; and how they look at the table."""

from fractions import Fraction

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from dpsdk import PrivateData
from dpsdk.accuracy import HalfWidths, Standing
from dpsdk.data.vault import open_histogram
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Terms
from dpsdk.kernel.access import access_of
from dpsdk.mechanisms import OneShot, Strategy
from dpsdk.release import Accuracy, Cost, Measurement, Quote
from dpsdk.typing import Floats

EPSILON = Fraction(1, 2)


@frozen
class Honest(OneShot[LinearForm]):
    """Laplace noise, once. A plugin that errs overwrites `quote`, or what is done for an answer."""

    epsilon: Fraction = field(default=EPSILON, converter=Fraction)

    def asked(self, form: LinearForm, times: Fraction | int = 1) -> Measure:
        return Measure(form, LaplaceNoise(self.epsilon * times))

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        pricing = self.asked(form).price(terms)
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        del kernel  # nothing is paid to open
        return Working(self)

    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        return kernel.run(self.asked(form))


@frozen(eq=False)
class Working:
    """Leaves all to the mechanism, which keeps nothing."""

    of: Honest

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        return self.of.work(form, kernel)


def pretended(form: LinearForm, kernel: Kernel, mechanism: Honest, values: Floats) -> Measurement:
    """Numbers that look as if the mechanism had measured them."""
    accuracy = mechanism.asked(form).price(kernel.terms).accuracy
    return Measurement(values, accuracy)


@frozen
class Share(HalfWidths):
    """A part of what another accuracy says."""

    each: HalfWidths
    part: float
    kind: str = "so I believe"
    standing: Standing = "proven"
    lent: Floats | None = None
    """An array that is handed out with it."""

    @override
    def radii(self, beta: float, *, joint: bool) -> Floats:
        return self.each.radii(beta, joint=joint) * self.part


def shared(accuracy: Accuracy, part: float, lent: Floats | None = None) -> Share:
    assert isinstance(accuracy, HalfWidths)
    return Share(accuracy, part, lent=lent)


def truth(data: PrivateData, form: LinearForm) -> Floats:
    """The true numbers of a table that a plugin has got hold of."""
    return np.asarray(form.evaluate(open_histogram(data)))


def by_import(form: LinearForm, kernel: Kernel) -> Floats:
    """The true numbers, by a module of the package that is no part of its interface."""
    return access_of(kernel).read(0, lambda _, opened: np.asarray(form.evaluate(opened())))


def by_names(kernel: Kernel) -> PrivateData:
    """The table under a kernel, by names that begin with an underscore."""
    return kernel._access.data  # pyright: ignore[reportPrivateUsage]  # the mistake
