"""What the runs of an oracle may cost, and with which noise: chosen from public facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from attrs import evolve, frozen

from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers.rounding import truncated
from dpsdk.accounting.prices.covering import covers
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import Kronecker, LinearForm
from dpsdk.kernel import (
    Allowance,
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Measure,
    Noise,
    Terms,
)
from dpsdk.mechanisms.convex.certify import Rows
from dpsdk.mechanisms.convex.oracle import Total
from dpsdk.mechanisms.refusals import in_words
from dpsdk.release import Cost, Measurement
from dpsdk.typing import Floats

__all__ = ["Measured", "Part", "Spending", "divisor", "measured", "rows_of"]

_DIGITS = 15

_ROWS_SHARE = Fraction(1, 20)


@frozen
class Part:
    """Runs of one kind.

    Parameters
    ----------
    share
        What all of them take of the total.
    runs
        How many there are.
    form
        What is measured, or something like it.
    """

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
    def within(cls, wanted: Mapping[str, Part], total: Total, terms: Terms) -> Spending:
        """How a total is spent: an (ε, δ) by the composition of the session, or a ρ.

        Where the number of rows is private, a twentieth of it goes to that, as the part "rows".

        Raises
        ------
        InvalidArgument
            If nothing can be measured for so little, or its noise does not fit the lattices.
        """
        if not wanted:
            return cls({}, {})
        whole = sum([part.share for part in wanted.values()], Fraction(0))
        named = {name: evolve(part, share=part.share / whole) for name, part in wanted.items()}
        if terms.facts.rows is None:
            kept = 1 - _ROWS_SHARE
            named = {name: evolve(part, share=part.share * kept) for name, part in named.items()}
            rows = LinearForm(terms.facts.domain, [Kronecker((), ())])
            named = {"rows": Part(_ROWS_SHARE, 1, rows), **named}
        parts = tuple(named.values())
        chosen = _gaussian(parts, total, terms) or _laplace(parts, total, terms)
        if chosen is None:
            expected = "large enough that the runs fit by the composition of the session"
            raise InvalidArgument(_name(total), expected, str(total))
        for part, noise in zip(parts, chosen, strict=True):
            try:
                Measure(part.form, noise).price(terms)
            except InvalidArgument as error:
                raise in_words(error, **_given(total)) from None
        return cls(named, dict(zip(named, chosen, strict=True)))

    @property
    def cost(self) -> Cost:
        """What the runs cost at the most."""
        return Cost([(self.noises[name].cover, part.runs) for name, part in self.parts.items()])

    def paid(self, kernel: Kernel) -> Allowance | None:
        """Pay for all runs, or for none.

        Raises
        ------
        BudgetExceeded
            If they do not fit. Nothing was charged.
        """
        return kernel.allowance(self.cost.guarantees) if self.parts else None


def rows_of(spending: Spending, kernel: Kernel, allowance: Allowance | None) -> Rows:
    """The number of rows that a loss is the average of.

    The public one; or that of the rows inside the domain, measured where that is paid for.
    """
    known = kernel.facts.rows
    if known is not None or "rows" not in spending.parts:
        return known
    found = measured(spending.parts["rows"].form, spending.noises["rows"], kernel, allowance)
    return None if found is None else found.numbers


def divisor(rows: Rows) -> float:
    """What sums are divided by for averages: at least 1."""
    if isinstance(rows, Measurement):
        return max(float(rows.values[0]), 1.0)
    return float(max(rows or 1, 1))


def measured(
    form: LinearForm, noise: Noise, kernel: Kernel, allowance: Allowance | None
) -> Measured | None:
    """Measure with noise that was paid for; nothing where the noise does not fit the form.

    That follows from what is public, and is not charged for.
    """
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


def _given(total: Total) -> dict[str, Fraction | None]:
    """A total in the parameters that whoever asks has given."""
    if isinstance(total, Budget):
        return {"epsilon": total.epsilon, "delta": total.delta}
    return {"rho": total}


def _name(total: Total) -> str:
    return " and ".join([name for name, value in _given(total).items() if value])


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
    """The noise at the largest scale whose runs fit, none where there is no such scale.

    Raises
    ------
    UnsupportedGuarantee
        If the composition prices no such runs.
    """

    def runs(scale: Fraction) -> list[Guarantee]:
        covered = zip(parts, at(scale), strict=True)
        return [noise.cover for part, noise in covered for _ in range(part.runs)]

    if isinstance(total, Budget):
        scale = terms.calibrate(runs, total)
    else:
        scale = terms.calibrate(runs, rho=total)
    return at(scale) if scale else None
