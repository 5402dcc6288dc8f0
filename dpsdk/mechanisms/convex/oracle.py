"""Oracles: ways to find one model within a total, and how they spend it.

An oracle is a frozen public value. Its runs, their noise and their cost are chosen from public
facts and paid before the first of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from dpsdk._checks import to_probability
from dpsdk._records import evolve, frozen
from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers import truncated
from dpsdk.accounting.prices.covering import covers
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import BudgetExceeded, InvalidArgument, QueryError, TooLarge, UnsupportedGuarantee
from dpsdk.forms import ConvexForm, Kronecker, LinearForm
from dpsdk.kernel import Allowance, GaussianNoise, Kernel, LaplaceNoise, Measure, Noise, Terms
from dpsdk.mechanisms.arguments import in_words
from dpsdk.mechanisms.convex.excess import CertifiedExcess, Rows, certified, shares
from dpsdk.mechanisms.convex.moments import CoefficientSet, least_squares
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.typing import Floats, Real

__all__ = [
    "Measured",
    "Oracle",
    "Part",
    "Spending",
    "Total",
    "certificate_parts",
    "certify",
    "coefficients_of",
    "divisor",
    "measure",
    "rows_of",
    "to_certify",
]

Total: TypeAlias = Budget | Fraction
"""An (ε, δ), or a ρ, that all runs of an oracle together may cost by the session's composition."""

_DIGITS = 15

_ROWS_SHARE = Fraction(1, 20)

_CERTIFICATE = ("certificate", "curvature")
"""The parts of a certificate by their names, in the order of its batches."""


class Oracle(ABC):
    """A way to find the θ of least average loss, made of public parameters.

    It asks the kernel for linear forms alone, such as gradients at public θ, and never minimises
    anything over private data. All that it checks, and all that may refuse, comes before the first
    charge and follows from public facts.
    """

    __slots__ = ()

    @abstractmethod
    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        """Price finding a model, and bound its excess risk beforehand.

        The cost is `at_most`, and covers every run that `minimise` may make. Accuracies are of one
        number, the excess risk of the answer over the best θ of the set, in the unit of the loss.
        """

    @abstractmethod
    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """The θ of a model, and after it the certified gap of the solver that found it.

        The gap is infinite where no solver ran. What is charged is what `quote` told, or less.
        """


@frozen
class Part:
    """Runs of one kind: their share of a total, how many, and something like what is measured."""

    share: Fraction
    runs: int
    form: LinearForm


@frozen(eq=False)
class Measured:
    """Numbers that were measured, and the standard deviation of the noise of each, in rows."""

    form: LinearForm
    numbers: Measurement[NoiseAccuracy]
    deviation: float

    @property
    def values(self) -> Floats:
        """The numbers."""
        return self.numbers.values


@frozen
class Spending:
    """The noise of each run of each part, which a total pays for."""

    parts: Mapping[str, Part]
    noises: Mapping[str, Noise]

    @classmethod
    def within(cls, wanted: Mapping[str, Part], total: Total, terms: Terms) -> Spending:
        """How a total is spent: an (ε, δ) by the composition of the session, or a ρ."""
        if not wanted:
            return cls({}, {})
        whole = sum([part.share for part in wanted.values()], Fraction(0))
        named = {name: evolve(part, share=part.share / whole) for name, part in wanted.items()}
        if terms.facts.rows is None:
            left = 1 - _ROWS_SHARE
            named = {name: evolve(part, share=part.share * left) for name, part in named.items()}
            rows = LinearForm(terms.facts.domain, [Kronecker((), ())])
            named = {"rows": Part(_ROWS_SHARE, 1, rows), **named}
        parts = tuple(named.values())
        noises = _gaussian(parts, total, terms) or _laplace(parts, total, terms)
        if noises is None:
            expected = "large enough that the runs fit by the composition of the session"
            name = " and ".join([name for name, value in _amounts(total).items() if value])
            raise InvalidArgument(name, expected, str(total))
        for part, noise in zip(parts, noises, strict=True):
            try:
                Measure(part.form, noise).price(terms)
            except InvalidArgument as error:
                raise in_words(error, **_amounts(total)) from None
        return cls(named, dict(zip(named, noises, strict=True)))

    @property
    def cost(self) -> Cost:
        """The most that the runs cost."""
        return Cost([(self.noises[name].cover, part.runs) for name, part in self.parts.items()])

    def pay(self, kernel: Kernel) -> Allowance | None:
        """Pay for all runs, or for none."""
        return kernel.allowance(self.cost.guarantees) if self.parts else None


def rows_of(spending: Spending, kernel: Kernel, allowance: Allowance | None) -> Rows:
    """The number of rows that a loss is the average of."""
    known = kernel.facts.rows
    if known is not None or "rows" not in spending.parts:
        return known
    counted = measure(spending.parts["rows"].form, spending.noises["rows"], kernel, allowance)
    return None if counted is None else counted.numbers


def divisor(rows: Rows) -> float:
    """The divisor of sums for averages: at least 1."""
    if isinstance(rows, Measurement):
        return max(float(rows.values[0]), 1.0)
    return float(max(rows or 1, 1))


def measure(
    form: LinearForm, noise: Noise, kernel: Kernel, allowance: Allowance | None
) -> Measured | None:
    """Measure with noise that was paid for; nothing where the noise does not fit the form."""
    try:
        guarantee = Measure(form, noise).price(kernel.terms).guarantee
    except InvalidArgument:
        return None
    if not covers(noise.cover, guarantee):
        return None
    numbers = kernel.measure(form, noise, allowance=allowance)
    law, step = numbers.accuracy.law, numbers.accuracy.step
    deviation = 0.0 if guarantee.free else law.standard_deviation() * step
    return Measured(form, numbers, deviation)


def _amounts(total: Total) -> dict[str, Fraction | None]:
    """A total in the parameters that were given for it."""
    if isinstance(total, Budget):
        return {"epsilon": total.epsilon, "delta": total.delta}
    return {"rho": total}


def _laplace(parts: tuple[Part, ...], total: Total, terms: Terms) -> tuple[Noise, ...] | None:
    def at(scale: Fraction) -> tuple[Noise, ...]:
        return tuple([LaplaceNoise(scale * part.share / part.runs) for part in parts])

    if isinstance(total, Budget) and not total.delta:
        # Amounts of pure ε add up, whatever else a composition may know.
        return at(total.epsilon)
    return _largest(parts, at, total, terms)


def _gaussian(parts: tuple[Part, ...], total: Total, terms: Terms) -> tuple[Noise, ...] | None:
    if isinstance(total, Budget) and not total.delta:
        return None

    def at(scale: Fraction) -> tuple[Noise, ...]:
        rhos = [truncated(scale * part.share / part.runs, _DIGITS) for part in parts]
        return tuple(map(GaussianNoise.covered, rhos))

    try:
        return _largest(parts, at, total, terms)
    except UnsupportedGuarantee:
        return None


def _largest(
    parts: tuple[Part, ...],
    at: Callable[[Fraction], tuple[Noise, ...]],
    total: Total,
    terms: Terms,
) -> tuple[Noise, ...] | None:
    """The noise at the largest scale whose runs fit; None where there is no such scale."""

    def runs(scale: Fraction) -> list[Guarantee]:
        covered = zip(parts, at(scale), strict=True)
        return [noise.cover for part, noise in covered for _ in range(part.runs)]

    if isinstance(total, Budget):
        scale = terms.calibrate(runs, total)
    else:
        scale = terms.calibrate(runs, rho=total)
    return at(scale) if scale else None


def to_certify(value: Real | None) -> Fraction | None:
    """Read the share of a certificate."""
    return None if value is None else to_probability("certify", value)


def certificate_parts(form: ConvexForm, share: Fraction, *, moments: bool) -> dict[str, Part]:
    """The parts of a certificate, by names."""
    gradient = form.gradient(form.over.centre(form.dimension))
    taken = shares(form, moments=moments)
    names = _CERTIFICATE[: len(taken)]
    return {name: Part(share * part, 1, gradient) for name, part in zip(names, taken, strict=True)}


def certify(
    spending: Spending,
    form: ConvexForm,
    kernel: Kernel,
    theta: Floats,
    rows: Rows,
    allowance: Allowance | None,
    moments: Measurement[NoiseAccuracy] | None = None,
) -> CertifiedExcess | None:
    """The bound that was paid for; None where the noise does not fit what it measures."""
    noises = [spending.noises[name] for name in _CERTIFICATE if name in spending.noises]
    try:
        return certified(
            form, kernel, theta, noises, rows=rows, allowance=allowance, moments=moments
        )
    except (InvalidArgument, QueryError, BudgetExceeded):
        return None


def coefficients_of(form: ConvexForm, moments: Measured) -> CoefficientSet | None:
    """The confidence set that measured moments give; None for other losses, or if too large."""
    if not least_squares(form):
        return None
    try:
        return CoefficientSet.of(form, moments.numbers)
    except TooLarge:
        return None
