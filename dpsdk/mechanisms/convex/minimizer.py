"""`PrivateMinimizer`: one model, for a total."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._checks import described, require
from dpsdk._records import field, frozen
from dpsdk.accounting import Budget
from dpsdk.codec import AMOUNT, Nested
from dpsdk.forms import ConvexForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms.arguments import ZERO, check_convex, to_epsilon, to_zero_delta
from dpsdk.mechanisms.base import OneShot, built_in
from dpsdk.mechanisms.convex.corrected import Corrected
from dpsdk.mechanisms.convex.oracle import Oracle
from dpsdk.release import Measurement, Quote

__all__ = ["PrivateMinimizer"]


def _oracle(_: object, __: object, value: Oracle) -> None:
    require(isinstance(value, Oracle), "oracle", "an oracle, such as Corrected()", value)


@frozen(eq=False)
class Minimizing:
    """Find the model of each form as it comes."""

    oracle: Oracle
    total: Budget

    def answer(self, form: ConvexForm, kernel: Kernel, /) -> Measurement:
        """The θ that was found, and after it the certified gap of the solver."""
        check_convex(form, "PrivateMinimizer")
        return self.oracle.minimise(form, kernel, self.total)


@built_in(
    "private-minimizer",
    {"epsilon": AMOUNT, "delta": ZERO, "oracle": Nested[Oracle]("an oracle", Oracle)},
)
@frozen(repr=False, kw_only=True)
class PrivateMinimizer(OneShot[ConvexForm]):
    """One private model for a total (ε, δ).

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
        How it is found: `Corrected`, or `SufficientStatistics` for the squared loss.

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

    def quote(self, form: ConvexForm, terms: Terms, /) -> Quote:
        check_convex(form, "PrivateMinimizer")
        return self.oracle.quote(form, terms, self._total)

    def open(self, kernel: Kernel, /) -> Minimizing:
        del kernel  # nothing is paid to open
        return Minimizing(self.oracle, self._total)

    @property
    def _total(self) -> Budget:
        return Budget(self.epsilon, self.delta)
