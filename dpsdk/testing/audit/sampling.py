"""Statistical tests of a guarantee on its own trade-off curve, with exact confidence bounds.

Half of the samples choose an event; the other half bound its probabilities on both tables by the
method of Clopper and Pearson (1934). Every event satisfies the guarantee's own inequality, so a
violated one refutes the guarantee, with a false alarm no likelier than `alpha` in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from statistics import NormalDist
from typing import TypeAlias, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import Guarantee
from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee, whole_of
from dpsdk.accounting.prices.run import leak, pure_epsilon, zcdp_rho
from dpsdk.data import PrivateData
from dpsdk.noise import NoiseSource
from dpsdk.testing.audit.programs import Program
from dpsdk.typing import Bools, Floats

__all__ = ["Batch", "SamplingReport", "clopper_pearson", "sample", "sample_batches"]

Batch: TypeAlias = Callable[[PrivateData, NoiseSource, int], Floats]
"""Many independent runs of a program at once, giving so many outcomes, each a number."""

_Event: TypeAlias = Callable[[Floats], Bools]

_LIKELIER = (1.02, 1.2, 1.5, 3.0, 10.0)
_PARTS = (1e-4, 1e-3, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 0.9999)


@frozen
class SamplingReport:
    """The result of a statistical test.

    `violated` tells whether some event refutes the claim. `first` bounds that event's probability
    on one table from below, `second` on the other from above; `event` describes it.
    """

    violated: bool
    event: str
    first: float
    second: float
    samples: int


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Bounds of a probability, each wrong with a chance of at most alpha / 2."""
    from scipy.stats import beta  # noqa: PLC0415  # slow to import

    low = float(beta.ppf(alpha / 2, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - alpha / 2, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def sample(
    program: Program,
    data: PrivateData,
    neighbour: PrivateData,
    guarantee: Guarantee,
    *,
    noise: NoiseSource,
    samples: int = 10_000,
    alpha: float = 1e-9,
) -> SamplingReport:
    """Look for an event that refutes a guarantee on a pair of neighbours, in either direction.

    Outcomes that are numbers are cut into half-lines as well; all are grouped by how much likelier
    they look on one side.
    """
    numbers: dict[Hashable, float] = {}

    def batch(table: PrivateData, source: NoiseSource, size: int) -> Floats:
        outcomes = [program(table, source) for _ in range(size)]
        return np.array([_number(outcome, numbers) for outcome in outcomes])

    return sample_batches(
        batch, data, neighbour, guarantee, noise=noise, samples=samples, alpha=alpha
    )


def sample_batches(
    batch: Batch,
    data: PrivateData,
    neighbour: PrivateData,
    guarantee: Guarantee,
    *,
    noise: NoiseSource,
    samples: int = 10_000,
    alpha: float = 1e-9,
) -> SamplingReport:
    """The same for a program that makes many runs at once, which is much faster."""
    half = samples // 2
    search = [batch(table, noise, half) for table in (data, neighbour)]
    check = [batch(table, noise, half) for table in (data, neighbour)]
    worst = SamplingReport(violated=False, event="none", first=0.0, second=1.0, samples=samples)
    for one, other in ((0, 1), (1, 0)):
        events = _events(search[one], search[other])
        share = alpha / (2 * len(events))
        for name, event in events:
            low = clopper_pearson(int(event(check[one]).sum()), half, share)[0]
            high = clopper_pearson(int(event(check[other]).sum()), half, share)[1]
            violated = _refutes(guarantee, low, high)
            report = SamplingReport(violated, name, low, high, samples)
            if violated:
                return report
            if low / high > worst.first / worst.second:
                worst = report
    return worst


def _number(outcome: Hashable, known: dict[Hashable, float]) -> float:
    """An outcome that is a number as it is, any other by a number of its own."""
    inner: Hashable = outcome
    while isinstance(inner, tuple) and len(cast("tuple[Hashable, ...]", inner)) == 1:
        inner = cast("tuple[Hashable, ...]", inner)[0]
    if isinstance(inner, int | float):
        return float(inner)
    return known.setdefault(outcome, float(len(known)))


def _events(one: Floats, other: Floats) -> list[tuple[str, _Event]]:
    values, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    first = np.bincount(places[: len(one)], minlength=len(values))
    second = np.bincount(places[len(one) :], minlength=len(values))
    events: list[tuple[str, _Event]] = []
    for factor in _LIKELIER:
        likelier = values[first > factor * (second + 1)]
        if len(likelier):
            events.append((f"outcomes {factor} times likelier", _member(likelier)))
    for part in _PARTS:
        cut = float(np.quantile(one, part, method="lower"))
        events.append((f"at most {cut:g}", _at_most(cut)))
        events.append((f"at least {cut:g}", _at_least(cut)))
    return events


def _member(values: Floats) -> _Event:
    return lambda outcomes: np.isin(outcomes, values)


def _at_most(cut: float) -> _Event:
    return lambda outcomes: outcomes <= cut


def _at_least(cut: float) -> _Event:
    return lambda outcomes: outcomes >= cut


def _refutes(guarantee: Guarantee, low: float, high: float) -> bool:
    """True if an event does, given its probability on one table at least, on the other at most."""
    guarantee = whole_of(guarantee)
    epsilon = pure_epsilon(guarantee)
    if epsilon is not None:
        return low > math.exp(float(epsilon)) * high + float(leak(guarantee))
    rho = float(zcdp_rho(guarantee))
    if isinstance(guarantee, DiscreteGaussianGuarantee) and guarantee.variance >= 4:
        # From a variance of 4 on the discrete law is Gaussian up to 1e-30, with mu**2 = 2 rho.
        if not 0 < low < 1 or not 0 < high < 1:
            return False
        normal = NormalDist()
        return normal.inv_cdf(low) - normal.inv_cdf(high) > math.sqrt(2 * rho)
    return any(_binary_renyi(low, high, order) > rho * order for order in (1.1, 1.5, 2, 4, 8, 16))


def _binary_renyi(low: float, high: float, order: float) -> float:
    """The Rényi divergence of two coins, which processing cannot raise above the programs'."""
    if low <= high or low <= 0:
        return 0.0
    total = math.exp(order * math.log(low) + (1 - order) * math.log(high))
    if low < 1 and high < 1:
        total += math.exp(order * math.log1p(-low) + (1 - order) * math.log1p(-high))
    return math.log(total) / (order - 1)
