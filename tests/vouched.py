"""The primitive of the how-to guide, which a session has to trust, and broken twins of it."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

from attrs import evolve, frozen
from typing_extensions import override

sys.path.append(str(Path(__file__).parents[1] / "docs" / "how-to"))

from distinct import CountDistinct, Counting, Distinct, DistinctLaplace

from dpsdk.forms import Form
from dpsdk.kernel import Kernel, Terms
from dpsdk.noise import DiscreteLaplace
from dpsdk.release import Measurement

__all__ = [
    "TRUST",
    "CountDistinct",
    "Distinct",
    "DistinctLaplace",
    "ForOneRow",
    "Halved",
    "ShortOfNoise",
]

TRUST = {
    "distinct.CountDistinct": "docs/how-to/distinct.py",
    f"{__name__}.Halved": "none: it is broken",
    f"{__name__}.ForOneRow": "none: it is broken",
}


@frozen
class Halved(CountDistinct):
    """Has half the noise that it is charged for."""

    @override
    def price(self, terms: Terms, /) -> Counting:
        honest = super().price(terms)
        return evolve(honest, law=DiscreteLaplace(honest.law.scale / 2))


@frozen
class ForOneRow(CountDistinct):
    """Forgets that a person may have several rows."""

    @override
    def price(self, terms: Terms, /) -> Counting:
        return evolve(super().price(terms), law=DiscreteLaplace(1 / self.epsilon))


@frozen
class ShortOfNoise(DistinctLaplace):
    """Answers by one of them, or by the honest one."""

    request: type[CountDistinct] = CountDistinct

    @override
    def answer(self, form: Form, kernel: Kernel, /) -> Measurement:
        return kernel.run(self.request(form.names, Fraction(self.epsilon)))
