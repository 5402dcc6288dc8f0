"""The strategy of the one-shot mechanisms: hand every form to `measure`."""

from __future__ import annotations

from attrs import frozen

from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, Noise
from dpsdk.release import Measurement

__all__ = ["Measuring"]


@frozen
class Measuring:
    """Measure each form as it comes, with noise of one kind."""

    noise: Noise

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Noisy answers to the form, in counts of rows."""
        return kernel.measure(form, self.noise)
