"""Predicting by the advice of experts (Littlestone 1988; Littlestone and Warmuth 1994)."""

from __future__ import annotations

import math

import numpy as np

from dpsdk._checks import shown, to_integer
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Bools, Ints

__all__ = ["Halving", "WeightedMajority"]


def to_experts(experts: int) -> int:
    """A number of experts, at least 1."""
    expected = "an integer of at least 1"
    number = to_integer("experts", experts, expected)
    if number < 1:
        raise InvalidArgument("experts", expected, shown(experts))
    return number


def _to_predictions(predictions: Bools, experts: int) -> Bools:
    array = np.asarray(predictions)
    if array.dtype != np.bool_ or array.shape != (experts,):
        expected = f"an array of {experts} booleans, one an expert"
        raise InvalidArgument("predictions", expected, shown(predictions))
    return array


@frozen
class Halving:
    """Follow the majority of the experts that were never wrong (Littlestone 1988).

    The state is the set of these experts. Each mistake at least halves it, so that there are at
    most ⌊log2 N⌋ as long as one of the N experts is never wrong. The majority is that of the
    survivors: one over all experts in each round would bound nothing.

    Parameters
    ----------
    experts
        N, at least 1.
    """

    experts: int = field(converter=to_experts)

    def start(self) -> Bools:
        """Everybody."""
        return np.ones(self.experts, dtype=np.bool_)

    def predict(self, state: Bools, predictions: Bools) -> bool:
        """The prediction of most survivors; False where they are split evenly."""
        said = _to_predictions(predictions, self.experts)[state]
        return 2 * int(said.sum()) > len(said)

    def update(self, state: Bools, predictions: Bools, signal: bool) -> Bools:  # noqa: FBT001 - the other prediction
        """The survivors that were right.

        Raises
        ------
        InvalidArgument
            If all survivors were wrong: there is no perfect expert.
        """
        left: Bools = state & (_to_predictions(predictions, self.experts) == signal)
        if not left.any():
            raise InvalidArgument("signal", "what some perfect expert predicted", shown(signal))
        return left

    def mistake_bound(self) -> int:
        """No sequence with a perfect expert causes more mistakes (Littlestone 1988)."""
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

    experts: int = field(converter=to_experts)

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
        wrong = _to_predictions(predictions, self.experts) != signal
        later: Ints = state + wrong.astype(np.int64)
        return later

    def mistake_bound(self, best: int) -> int:
        """No sequence in which the best expert makes `best` causes more (see the class)."""
        mistakes = to_integer("best", best)
        return math.floor((mistakes + math.log2(self.experts)) / math.log2(4 / 3) + 1e-9)
