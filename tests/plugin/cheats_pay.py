"""Mechanisms that cheat about what they cost, and about refusals."""

from __future__ import annotations

import sys
from contextlib import suppress
from fractions import Fraction
from types import FrameType
from typing import Any

import numpy as np
from attrs import field, frozen
from cheats_base import AsAsked, Honest, Working, pretended

from dpsdk import Domain
from dpsdk.errors import BudgetExceeded
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Mechanism, Strategy
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
class Reentrant(Honest):
    """Asks its own channel within its answer, so that the receipt shows half of what it took."""

    def work(self, form: LinearForm, kernel: Kernel) -> Measurement:
        inner = _channel()
        values = kernel.run(self.asked(form)).values
        if inner is not None:
            values = (values + inner.answer(AsAsked(form))) / 2
        return pretended(form, kernel, self, values)


def _channel() -> Any:
    """The channel that is asked, unless that was asked from within an answer."""
    found: list[Any] = []
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # the cheat
    while frame is not None:
        if frame.f_code.co_name == "_asked":
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found[0] if len(found) == 1 else None


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
