"""The strategy of the one-shot mechanisms: hand every form to `measure`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from attrs import field, frozen

from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Measure, Noise, Terms
from dpsdk.mechanisms.base import Single
from dpsdk.mechanisms.refusals import check_linear, in_words
from dpsdk.release import Cost, Measurement, Quote

__all__ = ["Measuring"]


def _as_it_is(found: Measurement) -> Measurement:
    return found


@frozen
class Measuring:
    """Measure each form as it comes, with noise of one kind."""

    noise: Noise
    mechanism: str
    given: Mapping[str, Fraction | None] = field(eq=False)

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Noisy answers to the form, in counts of rows."""
        request = self._request(form)
        try:
            return kernel.run(request)
        except InvalidArgument as error:
            raise in_words(error, **self.given) from None

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        """What that would be charged for, and how far off it would be."""
        request = self._request(form)
        try:
            pricing = request.price(terms)
        except InvalidArgument as error:
            raise in_words(error, **self.given) from None
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def single(self, form: LinearForm) -> Single[Measurement[NoiseAccuracy]]:
        """The one run that an answer takes."""
        return Single(self._request(form), _as_it_is)

    def _request(self, form: LinearForm) -> Measure:
        check_linear(form, self.mechanism)
        return Measure(form, self.noise)
