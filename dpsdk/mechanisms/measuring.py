"""The strategy of the one-shot mechanisms: hand every form to `measure`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from attrs import field, frozen

from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel import Kernel, Noise, price
from dpsdk.mechanisms.refusals import check_linear, in_words
from dpsdk.release import Cost, Measurement, Quote

__all__ = ["Measuring", "quoted"]


@frozen
class Measuring:
    """Measure each form as it comes, with noise of one kind."""

    noise: Noise
    mechanism: str
    given: Mapping[str, Fraction | None] = field(eq=False)

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Noisy answers to the form, in counts of rows."""
        check_linear(form, self.mechanism)
        try:
            return kernel.measure(form, self.noise)
        except InvalidArgument as error:
            raise in_words(error, **self.given) from None


def quoted(
    form: LinearForm, noise: Noise, facts: Facts, mechanism: str, **given: Fraction | None
) -> Quote:
    """What such a strategy would charge for a form, and how far off it would be."""
    check_linear(form, mechanism)
    try:
        pricing = price(form, noise, facts)
    except InvalidArgument as error:
        raise in_words(error, **given) from None
    return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)
