"""The promise and the price of noisy gradient descent (Ullman 2015, theorems 4.1 and 4.5).

Both follow from public constants. docs/explanation/proofs/descent.md proves the three bounds of
`Descent`, each for discrete noise and for gradients that were rounded to a lattice, at every
confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from dpsdk._checks import require, shown, to_beta, to_count, to_finite, to_positive
from dpsdk._records import field, frozen
from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers import largest
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.accuracy import ScalarAccuracy, Standing
from dpsdk.codec import ENDLESS, INTEGER, NUMBER, Member, written
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import ConvexForm, Facts, Simplex
from dpsdk.forms.design import axes_of, longest
from dpsdk.forms.linear import EXACT
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise, Terms
from dpsdk.mechanisms.arguments import SHARE
from dpsdk.mechanisms.convex.noise import (
    Concentration,
    GaussianConcentration,
    LaplaceConcentration,
)
from dpsdk.mechanisms.convex.oracle import Total
from dpsdk.release import Cost

__all__ = [
    "Descent",
    "DescentAccuracy",
    "Problem",
    "Rule",
    "Runs",
    "best_rule",
    "largest_sum",
    "read_numbers",
    "runs_within",
    "to_ridge",
]

Rule: TypeAlias = Literal["smooth", "lipschitz", "strong"]
"""The bound, and with it the steps and the average of the iterates."""

_RULES: tuple[Rule, ...] = ("smooth", "lipschitz", "strong")

_FINEST = 40
_SLACK = 1 + 2.0**-30
"""A factor by which the kernel's bounds of sensitivities exceed the longest differences."""

_FLOATS = 2.0**-40
"""A bound of the error of a gradient in floats, as a part of its length."""

_PLACES = 2.0**-50
"""A bound of the error of a coefficient after a step in floats, as a part of the set's size."""


def to_ridge(value: float) -> float:
    """Read a ridge, a number of at least 0."""
    number = float(to_finite("ridge", value))
    require(0.0 <= number <= 1e100, "ridge", "a number from 0 to 1e100", value)
    return number


def read_numbers(
    constants: object, *names: str, endless: bool = False, positive: bool = False
) -> None:
    """Read fields of a new frozen value as finite floats from 0: `endless` ones up to infinity."""
    for name in names:
        value: float = getattr(constants, name)
        number = math.inf if endless and value == math.inf else float(to_finite(name, value))
        if positive and not 0.0 < number <= 1e100:
            raise InvalidArgument(name, "a positive number up to 1e100", shown(value))
        if number < 0.0:
            raise InvalidArgument(name, "at least 0", shown(value))
        object.__setattr__(constants, name, number)


@written(
    "problem.whole",
    {
        "dimension": INTEGER,
        "lipschitz": NUMBER,
        "smoothness": ENDLESS,
        "radius": NUMBER,
        "ridge": Member(NUMBER, 0.0),
        "summed": SHARE,
        "largest": SHARE,
        "range": ENDLESS,
        "rounding": Member(ENDLESS, 0.0, quiet=True),
    },
)
@frozen(kw_only=True)
class Problem:
    """The public constants of a convex loss and of a set, on which the theorems rest.

    Parameters
    ----------
    dimension
        Of θ.
    lipschitz
        L: no gradient of a record's loss is longer, anywhere in the set; the ridge not counted.
    smoothness
        How fast the gradient of a record's loss moves with θ; infinite where the loss has a kink.
    radius
        B: the set lies in a ball of this radius around its centre, where a descent starts.
    ridge
        λ of ½λ‖θ‖², which is added to the loss.
    summed
        What the absolute entries of a record's gradient sum to at the most, `lipschitz` times the
        root of the dimension if left out. Laplace noise follows it.
    largest
        The length of the longest θ of the set; `radius` if left out, for a ball around 0.
    range
        By how much the loss of one record varies over the set, infinite where that is not known.
    rounding
        How far the gradient of a record is moved by being rounded, where `lipschitz` is of what
        that gives: in models of too many attributes for a joint table.
    """

    dimension: int
    lipschitz: float
    smoothness: float
    radius: float
    ridge: float = field(default=0.0, converter=to_ridge)
    summed: float | None = None
    largest: float | None = None
    range: float = math.inf
    rounding: float = 0.0

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "dimension", to_count("dimension", self.dimension))
        known = [name for name in ("summed", "largest") if getattr(self, name) is not None]
        read_numbers(self, "lipschitz", "radius", *known)
        read_numbers(self, "smoothness", "range", "rounding", endless=True)

    @classmethod
    def of(cls, form: ConvexForm, ridge: float = 0.0) -> Problem:
        """The constants of a query. For a loss of one's own, as it declares them."""
        constants, norm = form.constants, longest(form.coordinates)
        over, dimension = form.over, form.dimension
        # From the middle of the simplex to one of its corners.
        radius = math.sqrt(1.0 - 1.0 / dimension)
        if not isinstance(over, Simplex):
            radius = 0.5 * over.diameter(dimension)
        lipschitz, rounding = form.rounding if form.wide else (constants.lipschitz * norm, 0.0)
        return cls(
            dimension=dimension,
            lipschitz=lipschitz,
            smoothness=constants.smoothness * norm**2 if norm else 0.0,
            radius=radius,
            ridge=ridge,
            summed=None if form.wide else constants.lipschitz * largest_sum(form),
            largest=over.farthest(np.zeros(dimension)),
            range=constants.range,
            rounding=rounding,
        )

    @property
    def diameter(self) -> float:
        """No two θ of the set are farther apart."""
        return 2.0 * self.radius

    @property
    def slope(self) -> float:
        """No gradient of a record's loss with the ridge is longer."""
        return self.lipschitz + self.ridge * self.farthest

    @property
    def farthest(self) -> float:
        """No θ of the set is longer."""
        return self.radius if self.largest is None else self.largest

    @property
    def of_ridge(self) -> float:
        """By how much the ridge may move the loss of the model that is least with it."""
        return 0.5 * self.ridge * self.farthest**2

    @property
    def sum_of_slopes(self) -> float:
        """A bound of the sum of the absolute entries of a record's gradient."""
        plain = self.lipschitz * math.sqrt(self.dimension)
        return plain if self.summed is None else min(plain, self.summed)


def largest_sum(form: ConvexForm) -> float:
    """The largest sum of absolute features of any record."""
    total = 0.0
    for axis in axes_of(form.coordinates):
        parts = [np.abs(form.coordinates[place].spread(axis.names)) for place in axis.members]
        total += float(sum([part.sum(axis=0) for part in parts], np.zeros(())).max())
    return total


@frozen
class Descent:
    """Noisy gradient descent of so many steps, and the bound of its answer."""

    problem: Problem
    rule: Rule
    steps: int
    """How many gradients are measured."""
    concentration: Concentration
    """Of the noise of an average gradient."""
    bias: float = 0.0
    """How far the average gradient moves at the most by being rounded to a lattice."""
    beta: float = field(default=0.05, converter=to_beta)
    """The probability for which the length of steps is chosen, where `step` is left out."""
    step: float = field(default=math.nan)

    def __attrs_post_init__(self) -> None:
        if reason := inapplicable(self.problem, self.rule):
            raise InvalidArgument("rule", reason, shown(self.rule))
        if math.isnan(self.step):
            try:
                step = self._tuned()
            except OverflowError:
                step = 0.0
            object.__setattr__(self, "step", step)

    def length(self, number: int) -> float:
        """The length of step `number`, from 1."""
        if self.rule == "strong":
            return 4.0 / (self.problem.ridge * (number + 1))
        return self.step

    def error(self, beta: float) -> float:
        """α₀: the average loss with the ridge exceeds its least value by no more, but for beta."""
        try:
            error = self._error(beta)
        except (OverflowError, ZeroDivisionError):  # constants beyond all measure
            return math.inf
        return math.inf if math.isnan(error) else error

    def _error(self, beta: float) -> float:
        one, concentration, steps = self.problem, self.concentration, self.steps
        t = self._t(beta)
        noise = concentration.mean_square(t, steps, one.dimension)
        slope, far = one.slope + self.bias, one.diameter
        slack = self.bias * far + self._rounding
        if self.rule == "strong":
            mixed = 2.0 * concentration.linear(t, steps * slope**2, slope) / steps
            first = 4.0 / (one.ridge * (steps + 1)) * (slope**2 + mixed + noise)
            second = 2.0 * t / (steps + 1)
            second *= max(
                2.0 * concentration.proxy / one.ridge, math.sqrt(2.0) * concentration.unit * far
            )
            return first + second + slack
        start = one.radius**2 / (2.0 * self.step * steps)
        if self.rule == "smooth":
            bend = one.smoothness + one.ridge
            room = 1.0 - self.step * bend
            if not room > 0.0:
                return math.inf
            along = concentration.linear(t, steps * far**2, far) / steps
            return start + self.step / (2.0 * room) * noise + along + slack
        reach = far + self.step * slope
        along = concentration.linear(t, steps * reach**2, reach) / steps
        return start + 0.5 * self.step * (slope**2 + noise) + along + slack

    @property
    def _rounding(self) -> float:
        """The errors of floats: `_FLOATS` of a slope, and `_PLACES` of the set at every step."""
        one = self.problem
        size = one.farthest + one.radius
        return one.diameter * (_FLOATS * one.slope + _PLACES * size / self.length(self.steps))

    def _t(self, beta: float) -> float:
        sums = 2 if self.rule == "strong" else 1
        return math.log(sums + self.concentration.events) - math.log(beta)

    def _tuned(self) -> float:
        """The length of steps for which the bound is least, but for the smaller of its terms."""
        one, steps = self.problem, self.steps
        noise = self.concentration.mean_square(self._t(self.beta), steps, one.dimension)
        # A set of one point needs a step all the same, of any length.
        radius = one.radius or 1.0
        if self.rule == "smooth":
            bend = one.smoothness + one.ridge
            return 1.0 / max(bend + math.sqrt(noise * steps) / radius, 1e-300)
        slope = (one.slope + self.bias) ** 2 + noise
        return radius / math.sqrt(max(steps * slope, 1e-300))


def inapplicable(problem: Problem, rule: Rule) -> str | None:
    """The condition of a rule that is not met, None if all are."""
    if rule not in _RULES:
        return f"one of {', '.join(map(repr, _RULES))}"
    if rule == "smooth" and not problem.smoothness < math.inf:
        return "another than 'smooth', for a loss with a kink"
    if rule == "strong" and not problem.ridge > 0.0:
        return "another than 'strong', without a ridge"
    return None


def best_rule(
    problem: Problem, steps: int, concentration: Concentration, bias: float, beta: float
) -> Descent:
    """The rule with the least bound at this confidence, of those whose conditions are met."""
    known = [
        Descent(problem, rule, steps, concentration, bias, beta)
        for rule in _RULES
        if inapplicable(problem, rule) is None
    ]
    return min(known, key=lambda descent: descent.error(beta))


@frozen
class DescentAccuracy(ScalarAccuracy):
    """By how much the average loss of a model, without its ridge, exceeds the least of the set."""

    descent: Descent
    kind: str = "convergence of noisy gradient descent from the centre of the set"
    standing: Standing = field(init=False, default="proven")

    @property
    def span(self) -> float:  # type: ignore[override]  # the base has a field without a setter
        """By how much the average loss varies over the set."""
        return self.descent.problem.range

    def error(self, beta: float) -> float:
        """In the unit of the loss, an average over all rows."""
        return self.descent.error(to_beta(beta)) + self.descent.problem.of_ridge


@frozen
class Runs:
    """So many runs of `measure` with one noise, to be paid before the first."""

    noise: Noise
    count: int

    @property
    def cost(self) -> Cost:
        """The price of all of them, whatever is measured."""
        return Cost([(self.noise.cover, self.count)])

    def shared(self, count: int) -> Runs:
        """About as much for another number of runs, by what their ρ or ε add up to."""
        part = Fraction(self.count, count)
        if isinstance(self.noise, GaussianNoise):
            return Runs(GaussianNoise(self.noise.rho * part), count)
        return Runs(LaplaceNoise(self.noise.epsilon * part), count)

    def concentration(
        self, problem: Problem, facts: Facts, rows: float
    ) -> tuple[Concentration, float]:
        """Of the noise of an average gradient of so many rows, and how far rounding may move it."""
        step, count = self.step(problem, facts), max(rows, 1.0)
        differing = (2 if facts.replaced else 1) * facts.unit_rows
        root = math.sqrt(problem.dimension)
        # Roundings of two columns differ by a step an entry; and squares and sums are rounded up.
        grown = step * (facts.unit_rows * root + 1.0)
        bias = (0.5 * step * root + problem.rounding) * max(facts.row_limit, 1) / count
        if isinstance(self.noise, GaussianNoise):
            moved = differing * problem.lipschitz * _SLACK + grown
            deviation = moved / math.sqrt(2.0 * float(self.noise.rho))
            return GaussianConcentration(deviation / count), bias
        moved = differing * problem.sum_of_slopes * _SLACK
        moved += step * (facts.unit_rows * problem.dimension + 1.0)
        return LaplaceConcentration(moved / float(self.noise.epsilon) / count), bias

    def step(self, problem: Problem, facts: Facts) -> float:
        """No lattice of a gradient is coarser, in the unit of the loss."""
        # Weights are scaled so that the largest is from ½ to 1. One row moves an entry by 2 at the
        # most, and all rows together are to move it by a thousandth of the noise's scale.
        scale = self.noise.log_scale(2.0 * facts.unit_rows)
        rows = max(facts.row_limit, 1)
        wanted = max(1.0, min(math.log2(rows * 512) - scale, _FINEST))
        bits = max(0.0, min(wanted, math.log2(EXACT / rows) - 3.0))
        return 2.0 * problem.lipschitz * math.pow(2.0, -bits)


def runs_within(terms: Terms, total: Total, count: int) -> Runs:
    """The runs of a gradient's noise that cost no more than a total together, by their covers."""
    noise = _noise(terms, total, count)
    if noise is None:
        expected = f"large enough that {count:,} runs fit by the composition of the session"
        raise InvalidArgument("epsilon and delta", expected, shown(total))
    return Runs(noise, count)


def _noise(terms: Terms, total: Total, count: int) -> Noise | None:
    if not isinstance(total, Budget):
        return GaussianNoise.covered(to_positive("rho", total) / count)
    fits, each = _fitting(terms, total, count), total.epsilon / count
    if not total.delta:
        epsilon = largest(lambda amount: fits(LaplaceNoise(amount).cover), each)
        return LaplaceNoise(epsilon) if epsilon else None
    try:
        rho = largest(lambda amount: fits(GaussianNoise.covered(amount).cover), each)
    except UnsupportedGuarantee:
        return _claimed(total, count, fits)
    return GaussianNoise.covered(rho) if rho else None


def _claimed(total: Budget, count: int, fits: Callable[[Guarantee], bool]) -> Noise | None:
    """Noise whose every run is worth its part of the ε and the δ."""
    delta, each = total.delta / count, total.epsilon / count
    for epsilon in (each, each * (1 - Fraction(1, 10**9))):
        if rho := claim_rho(epsilon, delta):
            noise = GaussianNoise(GaussianNoise.covered(rho).rho, (epsilon, delta))
            if fits(noise.cover):
                return noise
    return None


def _fitting(terms: Terms, total: Budget, count: int) -> Callable[[Guarantee], bool]:
    """True if so many runs of a guarantee cost no more than the total."""
    start = terms.composition.begin(total)

    def fits(run: Guarantee) -> bool:
        times = terms.composition.rounds(start, [(run, count)])
        return times is None or times >= 1

    return fits
