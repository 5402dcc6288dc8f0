"""A stranger's mechanism that fits records once: nothing of dpsdk was changed for it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from attrs import frozen

from dpsdk import SyntheticData
from dpsdk.forms import Facts, Identity, Kronecker, LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import DistributionMechanism, DistributionStrategy, Fitted
from dpsdk.release import Cost, NoAccuracy, Quote


@frozen
class NoisyRecords(DistributionMechanism):
    """Count every cell with noise once, and answer everything from what is above zero."""

    epsilon: Fraction

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        asked = Measure(_cells(terms.facts), LaplaceNoise(self.epsilon))
        cost = Cost((asked.price(terms).guarantee,))
        return Quote(cost, cost, NoAccuracy("read off noisy records"))

    def open(self, kernel: Kernel, /) -> DistributionStrategy:
        facts = kernel.facts
        counted = kernel.measure(_cells(facts), LaplaceNoise(self.epsilon)).values
        kept = np.maximum(np.rint(counted), 0).astype(np.int64)
        if not kept.any():  # so little was found that any record will do
            kept[0] = 1
        outside = 0 if facts.outside else None
        return Fitted(SyntheticData.from_counts(facts.domain, kept, outside_count=outside))


def _cells(facts: Facts) -> LinearForm:
    domain = facts.domain
    factors = {name: Identity(domain[name].size) for name in domain.names}
    return LinearForm(domain, [Kronecker.of(domain, factors)])
