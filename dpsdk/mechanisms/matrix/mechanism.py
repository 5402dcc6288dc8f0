"""`Matrix`, as a mechanism."""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from typing import Any

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, Identity, Kronecker, LinearForm, Lowers
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.base import Mechanism, Single, Strategy
from dpsdk.mechanisms.estimates import Cells, EstimateAccuracy, copied_form
from dpsdk.mechanisms.matrix.design import designed
from dpsdk.mechanisms.matrix.stack import Stack
from dpsdk.mechanisms.refusals import check_linear, in_words
from dpsdk.mechanisms.residual_planner import ResidualPlanner
from dpsdk.mechanisms.total import (
    noise_for,
    to_epsilon,
    to_rho,
    to_zero_delta,
    total_in_words,
)
from dpsdk.mechanisms.workload import to_workload
from dpsdk.noise import NoiseLaw
from dpsdk.release import Cost, Measurement, NoiseAccuracy, Quote

__all__ = ["Matrix", "MatrixStrategy"]


def _plain(form: LinearForm) -> bool:
    """Whether all of it are tables of counts, and not the number of rows alone."""
    return bool(form.names) and all(
        isinstance(block, Kronecker)
        and block.scale == 1.0
        and all(isinstance(factor, Identity) for factor in block.factors)
        for block in form.blocks
    )


@frozen(eq=False)
class MatrixStrategy:
    """Answers from what was measured for a workload."""

    _mechanism: str
    _stack: Stack
    _tables: tuple[Cells, ...]
    _law: NoiseLaw
    _step: float

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, as sums of estimates. Free."""
        return self.told(form, kernel.facts)

    def told(self, form: LinearForm, facts: Facts) -> Measurement:
        """The same."""
        form = self._stack.answerable(form, self._mechanism, facts)
        values = self._stack.answers(form, self._tables)
        accuracy = EstimateAccuracy(self._law, self._step, copy(self._stack), copied_form(form))
        return Measurement(values, accuracy, "fitted")


def _started(stack: Stack, found: Measurement[NoiseAccuracy]) -> MatrixStrategy:
    tables = stack.tables(found.values)
    return MatrixStrategy("Matrix", stack, tables, found.accuracy.law, found.accuracy.step)


@frozen(repr=False)
class Matrix(Mechanism[LinearForm]):
    """What answers a workload best is measured, once, and every answer is a sum of it, free.

    The matrix mechanism (Li, Miklau, Hay, McGregor and Rastogi 2015): a strategy is chosen for a
    workload that is known beforehand, measured when the channel opens, and inverted by least
    squares. Answers have no bias, and each has its exact variance and a proven bound. What is asked
    need not be in the workload: every linear query is answered that depends on no other attributes
    than some block of the workload does; attributes of one cell do not matter.

    The strategy depends on public arguments alone, and is worked out once for a workload:

    - for up to 2^8 cells together, with Gaussian noise, the strategy of least squared error to a
      tenth of a percent (Yuan, Yang, Zhang and Hao 2016); with Laplace noise, p-identity strategies
      (McKenna, Miklau, Hay and Machanavajjhala 2018); or a few functions themselves, and of all
      cells a little, if that is better;
    - for one attribute the best of these, a `Tree`, a `SquareRoot` and the cells;
    - for several the products of strategies for each of up to 2^8 cells, larger ones cell by cell;
    - for plain marginals, with Gaussian noise, the residuals of `ResidualPlanner`, which are best;
    - for blocks on different attributes all of these, with the shares of the total that make the
      sum of the squared errors least, or one strategy on all attributes if that is better.

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries.
    epsilon, delta
        The total: discrete Laplace noise that is `epsilon`-DP where delta is 0, else discrete
        Gaussian noise by the largest ρ that is certified for (ε, δ).
    rho
        Instead: discrete Gaussian noise that is ρ-zCDP.

    Raises
    ------
    InvalidArgument
        If the workload lowers to no form, or the total is not given in one of these ways.
    TooLarge
        When opened or quoted, before anything is paid: if more than 2^24 cells would be estimated.
    QueryError
        When asked what depends on attributes that no block of the workload has together.

    >>> from dpsdk.mechanisms import Matrix
    >>> from dpsdk.queries import Threshold, Workload
    >>> Matrix(Workload([Threshold("age", t) for t in (30, 40)]), rho="0.01")
    Matrix(Workload of 2 queries, rho=0.01)
    """

    workload: Lowers[LinearForm] = field(converter=to_workload)
    epsilon: Fraction | None = field(default=None, converter=to_epsilon, kw_only=True)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta, kw_only=True)
    rho: Fraction | None = field(default=None, converter=to_rho, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._noise()

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_linear(form, "Matrix")
        facts = facts_of(terms)
        workload = self._lowered(facts)
        planner = self._planner(workload)
        if planner is not None:
            return planner.quote(form, terms)
        stack = designed(workload, facts, self._noise())
        form = stack.answerable(form, "Matrix", facts)
        try:
            pricing = Measure(stack.strategy, self._noise()).price(terms)
        except InvalidArgument as error:
            raise self._in_words(error) from None
        accuracy = EstimateAccuracy(
            pricing.law, pricing.accuracy.step, copy(stack), copied_form(form)
        )
        cost = Cost((pricing.guarantee,))
        return Quote(cost, cost, accuracy)

    def open(self, kernel: Kernel, /) -> Strategy[LinearForm]:
        workload = self._lowered(kernel.facts)
        planner = self._planner(workload)
        if planner is not None:
            return planner.open(kernel)
        stack = copy(designed(workload, kernel.facts, self._noise()))
        try:
            found = kernel.measure(stack.strategy, self._noise())
        except InvalidArgument as error:
            raise self._in_words(error) from None
        return _started(stack, found)

    def single(self, form: LinearForm, terms: Terms, /) -> Single[Any]:
        """The one run that an answer takes."""
        facts = facts_of(terms)
        workload = self._lowered(facts)
        planner = self._planner(workload)
        if planner is not None:
            return planner.single(form, terms)
        stack = copy(designed(workload, facts, self._noise()))
        stack.answerable(form, "Matrix", facts)
        request = Measure(stack.strategy, self._noise())
        return Single(request, lambda found: _started(stack, found).told(form, facts))

    def _lowered(self, facts: Facts) -> LinearForm:
        form = self.workload.lower(facts.domain)
        check_linear(form, "Matrix")
        return form

    def _planner(self, form: LinearForm) -> ResidualPlanner | None:
        """The residual basis, which is best for plain marginals and Gaussian noise."""
        if isinstance(self._noise(), LaplaceNoise) or not _plain(form):
            return None
        return ResidualPlanner(
            self.workload,
            epsilon=self.epsilon,
            delta=self.delta,
            rho=self.rho,
            # Of the squared errors of all cells the sum is to be least.
            weights=[float(block.rows) for block in form.blocks],
        )

    def _noise(self) -> Noise:
        return noise_for("Matrix", self.epsilon, self.delta, self.rho)

    def _in_words(self, error: InvalidArgument) -> InvalidArgument:
        return in_words(error, epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    def __repr__(self) -> str:
        total = total_in_words(self.epsilon, self.delta, self.rho)
        return f"Matrix({shown(self.workload)}, {total})"
