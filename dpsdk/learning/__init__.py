"""Online learning: experts, multiplicative weights, and how a hypothesis learns from answers."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.hypothesis.fit import EntropicFit
    from dpsdk.learning.experts import Halving, WeightedMajority
    from dpsdk.learning.hedge import Hedge, RandomizedMultiplicativeWeights, WeightsRule
    from dpsdk.learning.mixture import fit_mixture
    from dpsdk.learning.potential import PotentialMeter, kl_bernoulli
    from dpsdk.learning.queries import QueryMultiplicativeWeights
    from dpsdk.learning.replay import Replay
    from dpsdk.learning.updates import (
        hoeffding_drop,
        hoeffding_step,
        near_side_target,
        step_towards,
        textbook_step,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "dpsdk.hypothesis.fit": "EntropicFit",
            "experts": "Halving WeightedMajority",
            "hedge": "Hedge RandomizedMultiplicativeWeights WeightsRule",
            "mixture": "fit_mixture",
            "potential": "PotentialMeter kl_bernoulli",
            "queries": "QueryMultiplicativeWeights",
            "replay": "Replay",
            "updates": "hoeffding_drop hoeffding_step near_side_target step_towards textbook_step",
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
