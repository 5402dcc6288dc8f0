"""Any mixture of requests to an odometer, for every ledger that may be under it."""

from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dpsdk.accounting import (
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    DiscreteGaussianGuarantee,
    Ledger,
    MemoryLedger,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
    zcdp_rho,
)
from dpsdk.errors import BudgetExceeded, UnsupportedGuarantee

EITHER = AnyOf((BasicComposition(), ZCDPComposition("0.1")))


class Spending(RuleBasedStateMachine):
    """Any mixture of requests: exact sums never pass the limits, and refusals change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(2, "1e-5")
        self.odometer = Odometer(self.budget, EITHER, ledger=self.ledger())
        self.limit = ZCDPComposition("0.1").limits(self.budget)[0]
        self.rho = Fraction(0)
        self.delta = Fraction(0)
        self.epsilon: Fraction | None = Fraction(0)

    def ledger(self) -> Ledger:
        """What remembers."""
        return MemoryLedger()

    def ask(self, guarantee) -> None:
        before = self.odometer.state
        fits = None
        try:
            fits = self.odometer.affords(guarantee)
            self.odometer.charge(guarantee, "asked")
        except (BudgetExceeded, UnsupportedGuarantee):
            assert not fits
            assert self.odometer.state == before
            return
        assert fits is None or fits >= 1
        self.rho += zcdp_rho(guarantee)
        if isinstance(guarantee, ApproximateGuarantee):
            self.delta += guarantee.delta
        if self.epsilon is not None:
            pure = isinstance(guarantee, PureGuarantee)
            self.epsilon = self.epsilon + guarantee.epsilon if pure else None

    @rule(epsilon=st.decimals("0.001", "1.5", places=3))
    def pure(self, epsilon) -> None:
        self.ask(PureGuarantee(epsilon))

    @rule(variance=st.integers(5, 10**4))
    def gaussian(self, variance: int) -> None:
        self.ask(DiscreteGaussianGuarantee(variance, 1, 1))

    @rule(epsilon=st.decimals("0.001", "0.2", places=3), delta=st.integers(1, 50))
    def approximate(self, epsilon, delta: int) -> None:
        self.ask(ApproximateGuarantee(epsilon, Fraction(delta, 10**8)))

    @invariant()
    def some_theorem_covers_all_runs(self) -> None:
        basic = self.epsilon is not None and self.epsilon <= 2
        concentrated = self.rho <= self.limit and self.delta <= Fraction(1, 10**6)
        assert basic or concentrated
        assert self.odometer.spent.epsilon == self.epsilon
