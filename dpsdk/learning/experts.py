"""Learning from the advice of experts: mistakes and real losses.

Littlestone (1988), Littlestone and Warmuth (1994), Freund and Schapire (1997).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from typing_extensions import override

from dpsdk._checks import require, shown, to_count, to_integer
from dpsdk._records import Factory, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.typing import Bools, Floats, Ints

__all__ = ["Halving", "Hedge", "RandomizedMultiplicativeWeights", "WeightedMajority", "WeightsRule"]

_system = SystemNoise()


def _to_experts(experts: int) -> int:
    return to_count("experts", experts)


def _to_rounds(rounds: int) -> int:
    return to_count("rounds", rounds)


def _to_predictions(predictions: Bools, experts: int) -> Bools:
    array = np.asarray(predictions)
    if array.dtype != np.bool_ or array.shape != (experts,):
        expected = f"an array of {experts} booleans, one an expert"
        raise InvalidArgument("predictions", expected, shown(predictions))
    return array


@frozen
class Halving:
    """Follow the majority of the experts that were never wrong (Littlestone 1988).

    The state is the set of these experts. Each mistake at least halves it. The majority is that of
    the survivors: one over all experts in each round would bound nothing.

    Parameters
    ----------
    experts
        N, at least 1.
    """

    experts: int = field(converter=_to_experts)

    def start(self) -> Bools:
        """Everybody."""
        return np.ones(self.experts, dtype=np.bool_)

    def predict(self, state: Bools, predictions: Bools) -> bool:
        """The prediction of most survivors; False where they are split evenly."""
        said = _to_predictions(predictions, self.experts)[state]
        return 2 * int(said.sum()) > len(said)

    def update(self, state: Bools, predictions: Bools, signal: bool) -> Bools:  # noqa: FBT001 - the other prediction
        """The survivors that were right. Raises `InvalidArgument` if all were wrong."""
        left: Bools = state & (_to_predictions(predictions, self.experts) == signal)
        require(left.any(), "signal", "what some perfect expert predicted", signal)
        return left

    def mistake_bound(self) -> int:
        """⌊log2 N⌋: no sequence with a perfect expert causes more mistakes."""
        return self.experts.bit_length() - 1


@frozen
class WeightedMajority:
    """Follow the weighted majority, and halve the weights of those that were wrong.

    The state is the number of mistakes of each expert, whose weight is 2 to the minus that. When
    the prediction was wrong, at least half of the weight was and is halved, so that the total
    drops to at most 3/4; the best expert's weight is 2^-OPT. So the number of mistakes is at most
    (OPT + log2 N) / log2(4/3), that is 2.41 (OPT + log2 N) (Littlestone and Warmuth 1994).

    Parameters
    ----------
    experts
        N, at least 1.
    """

    experts: int = field(converter=_to_experts)

    def start(self) -> Ints:
        """No mistakes yet."""
        return np.zeros(self.experts, dtype=np.int64)

    def predict(self, state: Ints, predictions: Bools) -> bool:
        """The prediction of the larger part of the weight; False where it is split evenly."""
        said = _to_predictions(predictions, self.experts)
        weights = np.exp2(-(state - state.min()).astype(np.float64))
        return float(weights[said].sum()) > float(weights[~said].sum())

    def update(self, state: Ints, predictions: Bools, signal: bool) -> Ints:  # noqa: FBT001 - the other prediction
        """One mistake more for those that were wrong; the others keep their weight."""
        later: Ints = state + (_to_predictions(predictions, self.experts) != signal)
        return later

    def mistake_bound(self, best: int) -> int:
        """No sequence in which the best expert makes `best` causes more (see the class)."""
        mistakes = to_integer("best", best)
        return math.floor((mistakes + math.log2(self.experts)) / math.log2(4 / 3) + 1e-9)


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
        """The state after the losses of a round, one an expert.

        Raises `InvalidArgument` if there are others, or one is out of range.
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
    experts, rounds
        N and T, at least 1.
    rate
        In (0, 1/2].
    """

    experts: int = field(converter=_to_experts)
    rounds: int = field(converter=_to_rounds)
    rate: float = field(default=Factory(_default_rate, takes_self=True))

    def __attrs_post_init__(self) -> None:
        require(
            0 < self.rate <= 0.5 or (self.rate == 0 and self.experts == 1),
            "rate",
            "a number in (0, 1/2]",
            self.rate,
        )

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
    experts, rounds
        N and T, at least 1.
    low, high
        The range of losses.
    rate
        Above 0.
    """

    experts: int = field(converter=_to_experts)
    rounds: int = field(converter=_to_rounds)
    low: float = -1.0
    high: float = 1.0
    rate: float = field(default=Factory(_hedge_rate, takes_self=True))

    def __attrs_post_init__(self) -> None:
        best = _hedge_rate(self)
        require(
            0 < self.rate < math.inf or self.rate == best,
            "rate",
            "a finite number above 0",
            self.rate,
        )

    @override
    def update(self, state: Floats, losses: Floats) -> Floats:
        return np.asarray(state - self.rate * self._check(losses, self.low, self.high))

    @override
    def regret_bound(self) -> float:
        if self.experts == 1:
            return 0.0
        width = self.high - self.low
        return math.log(self.experts) / self.rate + self.rate * self.rounds * width**2 / 8
