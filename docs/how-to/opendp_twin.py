"""A twin of the request for OpenDP whose noise repeats in tests, since a kernel draws it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen
from opendp_laplace import Noising, OpenDPCounts
from typing_extensions import override

from dpsdk.kernel import Counts, Terms
from dpsdk.noise import NoiseSource
from dpsdk.release import Measurement, NoiseAccuracy


@frozen
class Repeating(Noising):
    """What is about to be run, with noise of the same law."""

    @override
    def run(
        self, noise: NoiseSource, opened: Callable[[], Counts], /
    ) -> Measurement[NoiseAccuracy]:
        drawn = noise.draw(self.accuracy.law, self.accuracy.entries)
        values = opened().table(self.names).reshape(-1) + drawn
        return Measurement(values.astype(np.float64), self.accuracy)


@frozen
class OpenDPTwin(OpenDPCounts):
    """The same question at the same price."""

    @override
    def price(self, terms: Terms, /) -> Noising:
        honest = super().price(terms)
        return Repeating(honest.names, honest.guarantee, honest.accuracy, honest.measurement)
