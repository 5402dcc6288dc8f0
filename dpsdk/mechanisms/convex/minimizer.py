"""`PrivateMinimizer`: one model, for a total; and `SufficientStatistics`, its simplest oracle."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk._checks import described, require
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting import Budget
from dpsdk.codec import AMOUNT, Nested, written
from dpsdk.errors import QueryError
from dpsdk.forms import ConvexForm, ConvexForms
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms.arguments import MAYBE, ZERO, check_convex, to_epsilon, to_zero_delta
from dpsdk.mechanisms.base import OneShot, built_in
from dpsdk.mechanisms.convex.corrected import Corrected
from dpsdk.mechanisms.convex.correction import predicted_excess
from dpsdk.mechanisms.convex.heavy_ball import HeavyBall
from dpsdk.mechanisms.convex.moments import MeasuredMatrix, least_squares, read_moments
from dpsdk.mechanisms.convex.oracle import (
    Measured,
    Oracle,
    Paid,
    Part,
    Spending,
    Total,
    certificate_parts,
    coefficients_of,
    divisor,
    to_certify,
)
from dpsdk.mechanisms.convex.pair_tables import PairTables, suits_tables
from dpsdk.mechanisms.convex.perturbed import PerturbedObjective, suits_perturbation
from dpsdk.mechanisms.convex.several import join_measurements, share_total
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Floats

__all__ = ["PrivateMinimizer", "SufficientStatistics"]


def _oracle(_: object, __: object, value: Oracle) -> None:
    require(isinstance(value, Oracle), "oracle", "an oracle, such as Corrected()", value)


@frozen(eq=False)
class Minimizing:
    """Find the model of each form as it comes."""

    mechanism: PrivateMinimizer
    total: Budget

    def answer(self, form: ConvexForm | ConvexForms, kernel: Kernel, /) -> Measurement:
        """The θ that was found, and after it the certified gap of the solver; of each model."""
        if not isinstance(form, ConvexForms):
            return self.mechanism.oracle_for(form, kernel.terms).minimise(form, kernel, self.total)
        if (tables := self.mechanism.tables_for(form, kernel.terms)) is not None:
            return tables.minimise(form, kernel, self.total)
        pairs = self.mechanism.oracles_for(form, kernel.terms)
        each, quote = share_total(pairs, kernel.terms, self.total)
        # All of them are paid before the first is found.
        paid = kernel.prepaid(kernel.allowance(quote.at_most.guarantees))
        return join_measurements([oracle.minimise(part, paid, each) for part, oracle in pairs])


@built_in(
    "private-minimizer",
    {"epsilon": AMOUNT, "delta": ZERO, "oracle": Nested[Oracle]("an oracle", Oracle)},
)
@frozen(repr=False, kw_only=True)
class PrivateMinimizer(OneShot["ConvexForm | ConvexForms"]):
    """One private model for a total (ε, δ), or those of a `Workload` together.

    Models of a workload share it equally, but for wide ones that are forecast to be found better
    from one opening of `PairTables`: what the quote says of its error tells which way they go.

    The privacy loss is that of the runs of the oracle together, (ε, δ) at the most by the
    composition of the session; all of them are paid before the first, so that a budget that has no
    room refuses at once. With δ = 0 each run is pure. What the release says of its error is the
    excess risk: by how much the average loss of the table at the model exceeds the least one over
    the set, in the unit of the loss; `release.bound(beta)` tells whether that is proven, or
    predicted and no bound. For many models of one table, fit a distribution once and ask that.
    Raises `InvalidArgument` if a parameter is out of range; when it is asked, if so little privacy
    loss leaves noise that fits no lattice. Raises `QueryError` when it is asked for anything but a
    model.

    Parameters
    ----------
    epsilon, delta
        What finding the model may cost.
    oracle
        How it is found: `Corrected`, or `SufficientStatistics` for the squared loss. If left out,
        `Corrected`; `HeavyBall` for models whose attributes have more than 10^6 cells together or
        that have several classes; and with δ = 0 `PerturbedObjective` for at most 24 features and
        other losses than the squared one, where rows times ε, over the rows of a person, are from
        300 to 40,000, or the number of rows is private, and features are no one-hot ones of few
        attributes. Of a `Workload`, `PairTables` for wide models with at most eight labels a
        coefficient, where so many of them would share the total that each by itself is forecast to
        be worse, by a public rule that was calibrated on public tables.

    >>> from dpsdk import Boolean, Budget, Domain, Integer, PrivateData, Session
    >>> from dpsdk.losses import LogisticLoss
    >>> from dpsdk.mechanisms import PrivateMinimizer
    >>> from dpsdk.queries import Ball, ConvexMinimization
    >>> from dpsdk.testing import seeded
    >>> domain = Domain(Integer("age", 0, 9), Boolean("rich"))
    >>> columns = {"age": [2, 7] * 5000, "rich": [False, True] * 5000}
    >>> data = PrivateData.from_columns(columns, domain)
    >>> session = Session(data, Budget(1, "1e-9"), noise=seeded(1))
    >>> query = ConvexMinimization(LogisticLoss(), features=["age"], label="rich", over=Ball(8))
    >>> model = session.answer(query, using=PrivateMinimizer(epsilon=1, delta="1e-9"))
    >>> (model.predict({"age": [1, 8]}) > 0.5).tolist()
    [False, True]
    """

    reusable = True
    page = "explanation/proofs/excess.md"

    epsilon: Fraction = field(converter=to_epsilon)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta)
    oracle: Oracle = field(factory=Corrected, validator=_oracle)

    def __repr__(self) -> str:
        delta = f", delta={float(self.delta):g}" if self.delta else ""
        oracle = described(self.oracle)
        return f"PrivateMinimizer(epsilon={float(self.epsilon):g}{delta}, oracle={oracle})"

    def quote(self, form: ConvexForm | ConvexForms, terms: Terms, /) -> Quote:
        if isinstance(form, ConvexForms):
            if (tables := self.tables_for(form, terms)) is not None:
                return tables.quote(form, terms, self._total)
            return share_total(self.oracles_for(form, terms), terms, self._total)[1]
        return self.oracle_for(form, terms).quote(form, terms, self._total)

    def open(self, kernel: Kernel, /) -> Minimizing:
        del kernel  # nothing is paid to open
        return Minimizing(self, self._total)

    def oracle_for(self, form: ConvexForm, terms: Terms | None = None, /) -> Oracle:
        """Return what finds a model: `oracle`, or what suits the model if none was planned.

        That is `HeavyBall` for a wide one, whose attributes have more than 10^6 cells together, and
        for one of several classes, which no other oracle finds; and with δ = 0, by what `terms`
        tell, `PerturbedObjective`. Raises `QueryError` for several classes, and for a form of
        anything but a model.
        """
        check_convex(form, "PrivateMinimizer")
        oracle = self.oracle
        if oracle == Corrected():
            if form.wide:
                return HeavyBall()
            if terms and not self.delta and suits_perturbation(form, terms.facts, self.epsilon):
                oracle = PerturbedObjective()
        if form.targets.ndim == 2 and not isinstance(oracle, HeavyBall | PairTables):
            reason = "it finds one model, and several classes are found by HeavyBall()"
            raise QueryError(described(oracle), reason)
        return oracle

    def tables_for(self, form: ConvexForms, terms: Terms, /) -> PairTables | None:
        """Return what finds several models together, if anything does. Raises as `oracle_for`."""
        for part in form.parts:
            check_convex(part, "PrivateMinimizer")
        if isinstance(self.oracle, PairTables):
            return self.oracle
        chosen = self.oracle == Corrected() and suits_tables(form, terms, self._total)
        return PairTables() if chosen else None

    def oracles_for(self, form: ConvexForms, terms: Terms, /) -> list[tuple[ConvexForm, Oracle]]:
        """Return each of several models with what finds it. Raises as `oracle_for`."""
        each = evolve(self, epsilon=self.epsilon / len(form.parts))
        return [(part, each.oracle_for(part, terms)) for part in form.parts]

    @property
    def _total(self) -> Budget:
        return Budget(self.epsilon, self.delta)


_BETA = 0.05
"""The ridge is large enough for the noise but for this probability."""

_LEAST = 1e-12

_LATER = NoAccuracy(
    "what is to be expected follows from the moments that are measured",
    "read bound(beta).predicted of the release",
)
_NOTHING = NoAccuracy("the moments could not be measured", "use a larger budget")
_KIND = "noise of the moments and the ridge against it, by the measured curvature"


@written("oracle.sufficient-statistics", {"certify": MAYBE})
@frozen(repr=False)
class SufficientStatistics(Oracle):
    """Least squares from noisy second moments, with a ridge against their noise.

    All distinct moments are measured by one run, and the normal equations are solved over the set.
    The ridge is what the smallest eigenvalue of the measured matrix lacks to what noise may have
    taken from it (as in AdaSSP, Wang 2018, which spends a third of its budget to learn that
    eigenvalue; here it is read off the same numbers). `Corrected(start=Moments(), gradients=0)`
    spends the same on a distribution that has such moments: where there are many rows and few
    features both miss as much, elsewhere it misses several times less. This one takes moments as
    they are, for models whose attributes have too many cells together to be fitted. Raises
    `QueryError` when it is asked for a model of another loss, before anything is paid.

    Parameters
    ----------
    certify
        What part of the whole goes to a certificate: then the release has a proven bound of its
        excess, at any confidence. Strictly between 0 and 1.
    """

    certify: Fraction | None = field(default=None, converter=to_certify, kw_only=True)

    def __repr__(self) -> str:
        share = "" if self.certify is None else f"certify={float(self.certify):g}"
        return f"SufficientStatistics({share})"

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        return Quote(Cost(), self._spending(form, terms, total).cost, _LATER)

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        paid = Paid(self._spending(form, kernel.terms, total), kernel)
        moments = paid.measure("moments")
        if moments is None:
            centre = form.over.centre(form.dimension)
            return Measurement(np.append(centre, math.inf), _NOTHING, "measured")
        theta, gap, predicted = _solve(form, moments, divisor(paid.rows))
        proven = paid.certify(form, theta, moments)
        sets = coefficients_of(form, moments)
        accuracy = proven or predicted_excess(form, predicted, _KIND, sets)
        return Measurement(np.append(theta, gap), accuracy, "measured")

    def _spending(self, form: ConvexForm, terms: Terms, total: Total) -> Spending:
        if not least_squares(form):
            reason = "second moments tell all of the squared loss alone; use Corrected()"
            raise QueryError(described(form.loss), reason)
        part = Part(1 - (self.certify or Fraction(0)), 1, form.distinct_moments()[0])
        parts = {"moments": part} | certificate_parts(form, self.certify, moments=True)
        return Spending.within(parts, total, terms)


def _solve(form: ConvexForm, moments: Measured, rows: float) -> tuple[Floats, float, float]:
    """θ, the certified gap of the quadratic, and the mean excess to expect."""
    pattern, places, shares, _ = read_moments(form)
    matrix = MeasuredMatrix.of(pattern, moments.numbers, fresh=False)
    there = np.flatnonzero(places >= 0)
    vector = np.zeros(form.dimension)
    vector[there] = moments.values[places[there]] * shares[there]
    values, vectors = np.linalg.eigh(matrix.matrix)
    ridge = max(0.0, matrix.excess(_BETA) - max(float(values[0]), 0.0), _LEAST * float(values[-1]))
    ridge = max(ridge, _LEAST)
    hessian: Floats = (vectors * (np.maximum(values, 0.0) + ridge)) @ vectors.T
    hessian, vector = hessian / rows, vector / rows
    theta = form.over.quadratic_minimiser(hessian, -vector, form.over.centre(form.dimension))
    gap = max(form.over.gap(theta, hessian @ theta - vector), 0.0)
    # By how much each measured number moves the normal equations.
    pull = pattern.pull(theta, moments.form.rows)
    np.add.at(pull, (there, places[there]), -shares[there])
    noise = (moments.deviation / rows) ** 2 * float((pull * np.linalg.solve(hessian, pull)).sum())
    held = (ridge / rows) ** 2 * float(theta @ np.linalg.solve(hessian, theta))
    return theta, gap, 0.5 * (noise + held)
