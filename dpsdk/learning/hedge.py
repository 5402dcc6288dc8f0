"""Multiplicative weights over experts with real losses (Freund and Schapire 1997)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown, to_integer
from dpsdk._records import Factory, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.learning.experts import to_experts
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.typing import Floats

__all__ = ["Hedge", "RandomizedMultiplicativeWeights", "WeightsRule"]

_system = SystemNoise()


def _to_rounds(rounds: int) -> int:
    expected = "an integer of at least 1"
    number = to_integer("rounds", rounds, expected)
    if number < 1:
        raise InvalidArgument("rounds", expected, shown(rounds))
    return number


class WeightsRule(ABC):
    """A distribution over experts that moves away from losses.

    The state is the logarithm of each expert's weight, an array of N numbers.
    """

    __slots__ = ()
    experts: int
    rounds: int
    rate: float

    def start(self) -> Floats:
        """Equal weights."""
        return np.zeros(self.experts)

    def distribution(self, state: Floats) -> Floats:
        """The probability of each expert, in proportion to its weight."""
        weights: Floats = np.exp(state - state.max())
        weights /= weights.sum()
        return weights

    def choose(self, state: Floats, noise: NoiseSource | None = None) -> int:
        """A random expert, drawn from the distribution."""
        rising: Floats = np.cumsum(self.distribution(state))
        level = (noise or _system).uniform_below(1 << 53) * 2.0**-53 * float(rising[-1])
        return int(rising.searchsorted(level, side="right"))

    @abstractmethod
    def update(self, state: Floats, losses: Floats) -> Floats:
        """The state after the losses of a round.

        Raises
        ------
        InvalidArgument
            If there is not one loss an expert, or one is out of range.
        """

    @abstractmethod
    def regret_bound(self) -> float:
        """By how much the losses of all rounds can exceed those of the best fixed distribution.

        For the expected loss of the chosen expert, or for the loss of the distribution as a whole,
        where it holds for certain; for any sequence of losses, also an adaptive one.
        """

    def _check(self, losses: Floats, low: float, high: float) -> Floats:
        array = np.asarray(losses, dtype=np.float64)
        if array.shape != (self.experts,) or not ((array >= low) & (array <= high)).all():
            expected = f"{self.experts} numbers in [{low:g}, {high:g}], one an expert"
            raise InvalidArgument("losses", expected, shown(losses))
        return array


def _default_rate(rule: RandomizedMultiplicativeWeights) -> float:
    return min(0.5, math.sqrt(math.log(rule.experts) / rule.rounds))


@frozen
class RandomizedMultiplicativeWeights(WeightsRule):
    """Multiply each weight by 1 - rate·loss, for losses in [-1, 1] (Arora, Hazan and Kale 2012).

    The regret is at most rate·T + ln N / rate for every rate up to 1/2 (their Theorem 2.1), which
    the proof needs: with a rate above 1 a weight can turn negative. The default,
    min(1/2, √(ln N / T)), gives 2·√(T ln N) from T = 4 ln N rounds on.

    Parameters
    ----------
    experts
        N, at least 1.
    rounds
        T, at least 1.
    rate
        In (0, 1/2].
    """

    experts: int = field(converter=to_experts)
    rounds: int = field(converter=_to_rounds)
    rate: float = field(default=Factory(_default_rate, takes_self=True))

    def __attrs_post_init__(self) -> None:
        if not (0 < self.rate <= 0.5 or (self.rate == 0 and self.experts == 1)):
            raise InvalidArgument("rate", "a number in (0, 1/2]", shown(self.rate))

    @override
    def update(self, state: Floats, losses: Floats) -> Floats:
        return state + np.log1p(-self.rate * self._check(losses, -1.0, 1.0))

    @override
    def regret_bound(self) -> float:
        if self.experts == 1:
            return 0.0
        return self.rate * self.rounds + math.log(self.experts) / self.rate


def _hedge_rate(rule: Hedge) -> float:
    if not -math.inf < rule.low < rule.high < math.inf:
        raise InvalidArgument("low and high", "finite, low < high", f"{rule.low}, {rule.high}")
    return math.sqrt(8 * math.log(rule.experts) / rule.rounds) / (rule.high - rule.low)


@frozen
class Hedge(WeightsRule):
    """Multiply each weight by exp(-rate·loss), for losses in [low, high].

    With w = high - low the regret is at most ln N / rate + rate·T·w² / 8 for every rate (by
    Hoeffding's lemma), which the default rate √(8 ln N / T) / w makes w·√(T ln N / 2): for losses
    in [-1, 1] √(2 T ln N), less than what the linear factor gives, and for any number of rounds.

    Parameters
    ----------
    experts
        N, at least 1.
    rounds
        T, at least 1.
    low, high
        The range of losses.
    rate
        Above 0.
    """

    experts: int = field(converter=to_experts)
    rounds: int = field(converter=_to_rounds)
    low: float = -1.0
    high: float = 1.0
    rate: float = field(default=Factory(_hedge_rate, takes_self=True))

    def __attrs_post_init__(self) -> None:
        best = _hedge_rate(self)
        if not (0 < self.rate < math.inf or self.rate == best):
            raise InvalidArgument("rate", "a finite number above 0", shown(self.rate))

    @override
    def update(self, state: Floats, losses: Floats) -> Floats:
        moved: Floats = state - self.rate * self._check(losses, self.low, self.high)
        return moved

    @override
    def regret_bound(self) -> float:
        if self.experts == 1:
            return 0.0
        width = self.high - self.low
        return math.log(self.experts) / self.rate + self.rate * self.rounds * width**2 / 8
