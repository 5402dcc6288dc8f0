"""Oracles: ways to find one model within a total, and how they spend it.

An oracle is a frozen public value. Its runs, their noise and their cost are chosen from public
facts and paid before the first of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
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
from dpsdk.kernel import (
    Allowance,
    EuclideanNoise,
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Measure,
    Noise,
    Terms,
)
from dpsdk.mechanisms.arguments import in_words
from dpsdk.mechanisms.convex.excess import CertifiedExcess, Rows, certified, shares
from dpsdk.mechanisms.convex.moments import CoefficientSet, least_squares
from dpsdk.release import Cost, Measurement, Quote
from dpsdk.typing import Floats, Real

__all__ = [
    "Measured",
    "Oracle",
    "Paid",
    "Part",
    "Spending",
    "Total",
    "certificate_parts",
    "coefficients_of",
    "divisor",
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
    """The noise of each run of each part, which a total pays for.

    It is Gaussian where the total has a δ, or is a ρ, and the composition of the session prices
    such runs; Laplace otherwise. Runs of pure ε alone may make less noise of few numbers at the
    same (ε, δ), but a session that has made any Gaussian run prices them by their ρ, at which
    Laplace noise has twice the variance and more: they would be refused there.
    """

    parts: Mapping[str, Part]
    noises: Mapping[str, Noise]

    @classmethod
    def within(cls, parts: Mapping[str, Part], total: Total, terms: Terms) -> Spending:
        """How a total is spent: an (ε, δ) by the composition of the session, or a ρ.

        Where the number of rows is private, a twentieth of it goes to that, as the part "rows".
        """
        if not parts:
            return cls({}, {})
        whole, private = sum([part.share for part in parts.values()]), terms.facts.rows is None
        left = (1 - _ROWS_SHARE if private else 1) / Fraction(whole)
        parts = {name: evolve(part, share=part.share * left) for name, part in parts.items()}
        if private:
            rows = LinearForm(terms.facts.domain, [Kronecker((), ())])
            parts = {"rows": Part(_ROWS_SHARE, 1, rows), **parts}
        given: dict[str, Fraction | None] = (
            {"epsilon": total.epsilon, "delta": total.delta}
            if isinstance(total, Budget)
            else {"rho": total}
        )
        noises = _noises(parts, total, terms)
        if noises is None:
            expected = "large enough that the runs fit by the composition of the session"
            name = " and ".join([name for name, value in given.items() if value])
            raise InvalidArgument(name, expected, str(total))
        for name, part in parts.items():
            try:
                Measure(part.form, noises[name]).price(terms)
            except InvalidArgument as error:
                raise in_words(error, **given) from None
        return cls(parts, noises)

    @property
    def cost(self) -> Cost:
        """The most that the runs cost."""
        return Cost([(self.noises[name].cover, part.runs) for name, part in self.parts.items()])


def _noises(parts: Mapping[str, Part], total: Total, terms: Terms) -> dict[str, Noise] | None:
    """The noise at the largest scale whose runs fit; None where there is no such scale."""

    def at(scale: Fraction, *, gaussian: bool) -> dict[str, Noise]:
        each = {name: scale * part.share / part.runs for name, part in parts.items()}
        if not gaussian:
            return {name: LaplaceNoise(epsilon) for name, epsilon in each.items()}
        return {name: GaussianNoise.covered(truncated(rho, _DIGITS)) for name, rho in each.items()}

    def largest(*, gaussian: bool) -> dict[str, Noise] | None:
        def runs(scale: Fraction) -> list[Guarantee]:
            noises = at(scale, gaussian=gaussian)
            covers = ([noises[name].cover] * part.runs for name, part in parts.items())
            return [cover for own in covers for cover in own]

        if isinstance(total, Budget):
            scale = terms.calibrate(runs, total)
        else:
            scale = terms.calibrate(runs, rho=total)
        return at(scale, gaussian=gaussian) if scale else None

    if isinstance(total, Budget) and not total.delta:
        # Amounts of pure ε add up, whatever else a composition may know.
        return at(total.epsilon, gaussian=False)
    with suppress(UnsupportedGuarantee):
        if noises := largest(gaussian=True):
            return noises
    return largest(gaussian=False)


def divisor(rows: Rows) -> float:
    """The divisor of sums for averages: at least 1."""
    if isinstance(rows, Measurement):
        return max(float(rows.values[0]), 1.0)
    return float(max(rows or 1, 1))


class Paid:
    """The runs of a spending, all of them paid when this is made, and made one by one."""

    def __init__(self, spending: Spending, kernel: Kernel) -> None:
        self.spending: Spending = spending
        self.kernel: Kernel = kernel
        cost = spending.cost.guarantees
        self.allowance: Allowance | None = kernel.allowance(cost) if spending.parts else None
        self.rows: Rows = kernel.facts.rows
        """The number of rows that a loss is the average of: the public one, or that of the rows
        inside the domain, measured where that is paid for."""
        if self.rows is None and (counted := self.measure("rows")):
            self.rows = counted.numbers

    def measure(
        self,
        name: str,
        form: LinearForm | None = None,
        noise: Noise | EuclideanNoise | None = None,
    ) -> Measured | None:
        """Measure the form of a part, or another, with the noise of that part, or one as dear.

        None where there is no such part, or where the noise does not fit the form: that follows
        from what is public, and is not charged for.
        """
        paid = self.spending.noises.get(name)
        if paid is None:
            return None
        noise = noise or paid
        form = self.spending.parts[name].form if form is None else form
        try:
            guarantee = Measure(form, noise).price(self.kernel.terms).guarantee
        except InvalidArgument:
            return None
        if not covers(paid.cover, guarantee):
            return None
        numbers = self.kernel.measure(form, noise, allowance=self.allowance)
        law, step = numbers.accuracy.law, numbers.accuracy.step
        return Measured(form, numbers, 0.0 if guarantee.free else law.standard_deviation() * step)

    def certify(
        self, form: ConvexForm, theta: Floats, moments: Measured | None = None
    ) -> CertifiedExcess | None:
        """The bound of the excess at θ that was paid for; None where none was.

        Nor where the noise does not fit what it measures, what was paid does not cover that, or the
        loss has no finite derivatives at θ. All of it follows from public facts.
        """
        noises = [self.spending.noises[one] for one in _CERTIFICATE if one in self.spending.noises]
        if not noises:
            return None
        with suppress(InvalidArgument, QueryError, BudgetExceeded):
            return certified(
                form,
                self.kernel,
                theta,
                noises,
                rows=self.rows,
                allowance=self.allowance,
                moments=None if moments is None else moments.numbers,
            )
        return None


def to_certify(value: Real | None) -> Fraction | None:
    """Read the share of a certificate."""
    return None if value is None else to_probability("certify", value)


def certificate_parts(
    form: ConvexForm, share: Fraction | None, *, moments: bool
) -> dict[str, Part]:
    """The parts of a certificate, by names; none where it has no share."""
    if share is None:
        return {}
    gradient = form.gradient(form.over.centre(form.dimension))
    taken = zip(_CERTIFICATE, shares(form, moments=moments), strict=False)
    return {name: Part(share * part, 1, gradient) for name, part in taken}


def coefficients_of(form: ConvexForm, moments: Measured) -> CoefficientSet | None:
    """The confidence set that measured moments give; None for other losses, or if too large."""
    if not least_squares(form):
        return None
    with suppress(TooLarge):
        return CoefficientSet.of(form, moments.numbers)
    return None
