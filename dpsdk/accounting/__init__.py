"""Privacy accounting: what a run is proven to cost, what still fits a budget, what was spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.any_of import AnyOf, default_composition
from dpsdk.accounting.filters.composition import Composition, State
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    GuaranteeByPeriod,
    PureGuarantee,
)
from dpsdk.accounting.ledger.base import Decide, Decision, Ledger, Ledgers
from dpsdk.accounting.ledger.binding import Binding, Dataset
from dpsdk.accounting.ledger.books import Account, Books
from dpsdk.accounting.ledger.charge import Charge, Payer
from dpsdk.accounting.ledger.memory import MemoryLedger
from dpsdk.accounting.odometer import Odometer
from dpsdk.accounting.spent import Payment, Readings, Remaining, ScopeStatement, Spent, Trusted

if TYPE_CHECKING:
    from dpsdk.accounting.declared.calibration import calibrate, max_epsilon_for
    from dpsdk.accounting.declared.pld import pld_epsilon
    from dpsdk.accounting.declared.runs import (
        Declared,
        advanced_epsilon,
        declare,
        heterogeneous_epsilon,
        optimal_epsilon,
    )
    from dpsdk.accounting.filters.additive import (
        AdditiveComposition,
        AdvancedComposition,
        BasicComposition,
        ZCDPComposition,
    )
    from dpsdk.accounting.filters.envelope import EnvelopeComposition
    from dpsdk.accounting.filters.renyi import MixedComposition, RenyiComposition
    from dpsdk.accounting.ledger.anchor import Anchor, FileAnchor
    from dpsdk.accounting.ledger.postgres import PostgresLedger
    from dpsdk.accounting.ledger.sqlite import SQLiteLedger
    from dpsdk.accounting.prices.conversion import (
        bun_steinke_epsilon,
        bun_steinke_start,
        gaussian_claim,
        renyi_start,
        zcdp_delta,
        zcdp_epsilon,
        zcdp_start,
    )
    from dpsdk.accounting.prices.gdp import gdp_delta, gdp_epsilon, gdp_start
    from dpsdk.accounting.prices.run import leak, pure_epsilon, renyi_divergence, zcdp_rho
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "declared.calibration": "calibrate max_epsilon_for",
            "declared.pld": "pld_epsilon",
            "declared.runs": (
                "Declared advanced_epsilon declare heterogeneous_epsilon optimal_epsilon"
            ),
            "filters.additive": (
                "AdditiveComposition AdvancedComposition BasicComposition ZCDPComposition"
            ),
            "filters.envelope": "EnvelopeComposition",
            "filters.renyi": "MixedComposition RenyiComposition",
            "ledger.anchor": "Anchor FileAnchor",
            "ledger.postgres": "PostgresLedger",
            "ledger.sqlite": "SQLiteLedger",
            "prices.conversion": (
                "bun_steinke_epsilon bun_steinke_start gaussian_claim renyi_start zcdp_delta "
                "zcdp_epsilon zcdp_start"
            ),
            "prices.gdp": "gdp_delta gdp_epsilon gdp_start",
            "prices.run": "leak pure_epsilon renyi_divergence zcdp_rho",
        },
    )

__all__ = [
    # What one run satisfies.
    "Guarantee",
    "PureGuarantee",
    "DiscreteLaplaceGuarantee",
    "DiscreteGaussianGuarantee",
    "BoundedRangeGuarantee",
    "ApproximateGuarantee",
    "GuaranteeByPeriod",
    "pure_epsilon",
    "zcdp_rho",
    "leak",
    # What may be spent, and how runs add up.
    "Budget",
    "Composition",
    "State",
    "AdditiveComposition",
    "BasicComposition",
    "AdvancedComposition",
    "ZCDPComposition",
    "EnvelopeComposition",
    "RenyiComposition",
    "MixedComposition",
    "AnyOf",
    "default_composition",
    # What was spent.
    "Odometer",
    "Charge",
    "Spent",
    "Remaining",
    "ScopeStatement",
    "Payment",
    "Trusted",
    "Anytime",
    "Readings",
    # What remembers.
    "Ledger",
    "Ledgers",
    "MemoryLedger",
    "SQLiteLedger",
    "PostgresLedger",
    "Anchor",
    "FileAnchor",
    "Books",
    "Decision",
    "Decide",
    "Binding",
    "Dataset",
    "Account",
    "Payer",
    # What fits, and what a list declared beforehand costs.
    "calibrate",
    "max_epsilon_for",
    "Declared",
    "declare",
    "advanced_epsilon",
    "heterogeneous_epsilon",
    "optimal_epsilon",
    "pld_epsilon",
    # From one notion of privacy to another.
    "zcdp_start",
    "zcdp_epsilon",
    "zcdp_delta",
    "bun_steinke_start",
    "bun_steinke_epsilon",
    "gaussian_claim",
    "gdp_start",
    "gdp_epsilon",
    "gdp_delta",
    "renyi_divergence",
    "renyi_start",
]
