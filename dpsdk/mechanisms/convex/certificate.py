"""What oracles pay for a proven bound, and get."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._checks import to_probability
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import BudgetExceeded, InvalidArgument, QueryError, TooLarge
from dpsdk.forms import ConvexForm
from dpsdk.kernel import Allowance, Kernel
from dpsdk.mechanisms.convex.certify import CertifiedExcess, Rows, certified, shares
from dpsdk.mechanisms.convex.confidence import CoefficientSet, least_squares
from dpsdk.mechanisms.convex.spending import Measured, Part, Spending
from dpsdk.release import Measurement
from dpsdk.typing import Floats, Real

__all__ = ["certificate_parts", "coefficients", "proven", "to_certify"]


_NAMES = ("certificate", "curvature")


def to_certify(value: Real | None) -> Fraction | None:
    """Read the share of a certificate."""
    return None if value is None else to_probability("certify", value)


def certificate_parts(form: ConvexForm, share: Fraction, *, moments: bool) -> dict[str, Part]:
    """What a certificate takes, by names."""
    gradient = form.gradient(form.over.centre(form.dimension))
    taken = shares(form, moments=moments)
    return {
        name: Part(share * part, 1, gradient)
        for name, part in zip(_NAMES[: len(taken)], taken, strict=True)
    }


def proven(
    spending: Spending,
    form: ConvexForm,
    kernel: Kernel,
    theta: Floats,
    rows: Rows,
    allowance: Allowance | None,
    moments: Measurement[NoiseAccuracy] | None = None,
) -> CertifiedExcess | None:
    """The bound that was paid for; none where the noise does not fit what it measures.

    Nor where what was paid does not cover that, or the loss has no finite derivatives at θ. All of
    it follows from public facts.
    """
    noises = [spending.noises[name] for name in _NAMES if name in spending.noises]
    try:
        return certified(
            form,
            kernel,
            theta,
            noises,
            rows=rows,
            allowance=allowance,
            moments=moments,
        )
    except (InvalidArgument, QueryError, BudgetExceeded):
        return None


def coefficients(form: ConvexForm, found: Measured) -> CoefficientSet | None:
    """The confidence set that measured moments give; none for other losses, or if too large."""
    if not least_squares(form):
        return None
    try:
        return CoefficientSet.of(form, found.numbers)
    except TooLarge:
        return None
