"""Online learning: experts, multiplicative weights, and how a hypothesis learns from answers."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.hypothesis.fit import EntropicFit
    from dpsdk.learning.experts import (
        Halving,
        Hedge,
        RandomizedMultiplicativeWeights,
        WeightedMajority,
        WeightsRule,
    )
    from dpsdk.learning.mixture import fit_mixture
    from dpsdk.learning.updates import (
        PotentialMeter,
        QueryMultiplicativeWeights,
        Replay,
        hoeffding_drop,
        hoeffding_step,
        kl_bernoulli,
        near_side_target,
        step_towards,
        textbook_step,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "dpsdk.hypothesis.fit": "EntropicFit",
            "experts": (
                "Halving Hedge RandomizedMultiplicativeWeights WeightedMajority WeightsRule"
            ),
            "mixture": "fit_mixture",
            "updates": (
                "PotentialMeter QueryMultiplicativeWeights Replay hoeffding_drop hoeffding_step "
                "kl_bernoulli near_side_target step_towards textbook_step"
            ),
        },
    )

__all__ = [
    "EntropicFit",
    "Halving",
    "Hedge",
    "PotentialMeter",
    "QueryMultiplicativeWeights",
    "RandomizedMultiplicativeWeights",
    "Replay",
    "WeightedMajority",
    "WeightsRule",
    "fit_mixture",
    "hoeffding_drop",
    "hoeffding_step",
    "kl_bernoulli",
    "near_side_target",
    "step_towards",
    "textbook_step",
]
