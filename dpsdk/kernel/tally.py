"""The primitive `tally`: how many persons, or different combinations of labels, with noise.

Theorem (docs/explanation/proofs/tally.md). The number of persons of whom there is a row differs by
one between tables of which one has one person more. The number of combinations that some row has
differs by the rows of a person at the most, under both neighbour relations. So discrete noise as
for `measure` makes it ε-DP or ρ-zCDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, Sensitivity, TallyForm
from dpsdk.forms.linear import EXACT, TABLE_LIMIT
from dpsdk.kernel.measure import GaussianNoise, Noise, calibrated, check_noise, widening_bits
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import NoiseLaw, NoiseSource
from dpsdk.release import Measurement

__all__ = ["Tally", "TallyPricing"]

_SATURATION = 2**62 - 1 - 2**53
"""Released integers are clamped here, as those of `measure` are."""


@frozen(eq=False)
class TallyPricing:
    """The plan of `tally` for a form, all public: the noise and the guarantee.

    `law` is that of the noise in steps of 2**-`bits`.
    """

    bits: int
    law: NoiseLaw
    guarantee: Guarantee
    _known: tuple[tuple[str, int], ...] | None = field(repr=False)
    """Attributes and how many labels each has; None where persons are counted."""
    _tabled: bool = field(repr=False)
    """Whether a table has all cells of the attributes, those that are no labels included."""
    _by_rows: bool = field(repr=False)
    """Whether each row is another person."""

    @property
    def accuracy(self) -> NoiseAccuracy:
        """How far off the number may be; there is nothing that rounding adds."""
        return NoiseAccuracy(self.law, 1, 2.0**-self.bits, 0.0)

    def run(
        self, noise: NoiseSource, opened: Callable[[], Counts], /
    ) -> Measurement[NoiseAccuracy]:
        """Draw, read and add, in that order."""
        drawn = int(noise.draw(self.law, 1)[0])
        noisy = (self._count(opened()) << self.bits) + drawn
        value = min(max(noisy, -_SATURATION), _SATURATION) * 2.0**-self.bits
        return Measurement(np.array([value]), self.accuracy)

    def _count(self, counts: Counts) -> int:
        if self._known is None:
            persons = counts.rows if self._by_rows else counts.persons
            if persons is None:
                raise ArithmeticError("a table of persons that were not counted")
            return persons
        names = tuple([name for name, _ in self._known])
        known = [size for _, size in self._known]
        if self._tabled:
            labels = tuple([slice(size) for size in known])
            return int(np.count_nonzero(counts.table(names)[labels]))
        codes, numbers = counts.records(names)
        there = numbers > 0
        for code, size in zip(codes, known, strict=True):
            there &= code < size
        return int(np.unique(np.stack([code[there] for code in codes]), axis=1).shape[1])


@frozen
class Tally(Request[Measurement[NoiseAccuracy]]):
    """How many persons, or different combinations of labels, a table has, with noise.

    `LaplaceNoise(epsilon)` makes it ε-DP, `GaussianNoise(rho)` ρ-zCDP. How long it takes depends on
    how many different combinations there are, if their attributes have more than 2^22.
    """

    form: TallyForm
    noise: Noise

    def price(self, terms: Terms, /) -> TallyPricing:
        """Price it. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If the form is over another domain, if nothing tells the persons of the table apart, or
            if numbers in steps of such noise are not exact.
        """
        form, facts = self.form, facts_of(terms)
        if type(form) is not TallyForm or form.domain != facts.domain:
            raise InvalidArgument("form", "a TallyForm over the domain of the table", shown(form))
        check_noise(self.noise)
        rows = form.move(facts)
        move = Sensitivity(Fraction(rows), Fraction(rows**2), Fraction(rows), exact=True)
        noise, bits = self.noise, 0
        if isinstance(noise, GaussianNoise):
            bits = widening_bits(noise, move.l2_squared)
        if max(facts.row_limit, 1) << bits >= EXACT:
            raise InvalidArgument("rho", "smaller, or max_rows smaller", f"{noise}")
        law, guarantee = calibrated(noise, move.times(2**bits))
        cells = math.prod([facts.domain[name].size for name in form.names or ()])
        tabled, by_rows = cells <= TABLE_LIMIT, facts.unit_rows == 1
        return TallyPricing(bits, law, guarantee, _known(form, facts), tabled, by_rows)


def _known(form: TallyForm, facts: Facts) -> tuple[tuple[str, int], ...] | None:
    if form.names is None:
        return None
    return tuple([(name, facts.domain[name].known) for name in form.names])
