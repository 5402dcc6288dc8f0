"""`Matrix`, as a mechanism."""

from __future__ import annotations

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.forms import LinearForm, Lowers
from dpsdk.kernel import LaplaceNoise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import QUERY, TOTAL, check_linear, to_workload
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.matrix.design import designed
from dpsdk.mechanisms.measured_once import Estimates, LeastSquares, Measured
from dpsdk.mechanisms.residual_planner import ResidualPlanner

__all__ = ["Matrix"]


def _plain(form: LinearForm) -> bool:
    """True if all of it are tables of counts, and not the number of rows alone."""
    return bool(form.names) and all(block.table for block in form.blocks)


@built_in("matrix", {"workload": QUERY, **TOTAL})
@frozen(repr=False)
class Matrix(LeastSquares[Estimates]):
    """Measure the best strategy for a workload once; every answer is a sum of it, free.

    The matrix mechanism (Li, Miklau, Hay, McGregor and Rastogi 2015). Answers have no bias, and
    each has its exact variance and a proven bound. Every linear query is answered that depends on
    no other attributes than some block of the workload does, in the workload or not.

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
    epsilon, delta, rho
        The total, as for `NoisyHistogram`.

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

    page = "explanation/proofs/matrix.md"

    workload: Lowers[LinearForm] = field(converter=to_workload)

    def _measured(self, terms: Terms, /) -> Measured:
        facts = facts_of(terms)
        form = self.workload.lower(facts.domain)
        check_linear(form, "Matrix")
        planner = self._planner(form)
        return designed(form, facts, self._noise()) if planner is None else planner.plan(terms)

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

    def __repr__(self) -> str:
        return f"Matrix({shown(self.workload)}, {self._total})"
