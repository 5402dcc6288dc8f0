"""How much of the potential updates have used up, as far as public values show."""

from __future__ import annotations

import math

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument

__all__ = ["PotentialMeter", "kl_bernoulli"]


def kl_bernoulli(a: float, b: float) -> float:
    """The relative entropy, in nats, of a coin of probability `a` from one of probability `b`.

    Raises
    ------
    InvalidArgument
        If either is not in [0, 1].
    """
    for parameter, value in (("a", a), ("b", b)):
        if not 0 <= value <= 1:
            raise InvalidArgument(parameter, "a number in [0, 1]", shown(value))
    return _part(a, b) + _part(1 - a, 1 - b)


def _part(a: float, b: float) -> float:
    if a == 0:
        return 0.0
    return a * math.log(a / b) if b > 0 else math.inf


class PotentialMeter:
    """A public lower bound of how far the potential KL(h‖p) has fallen since the prior.

    The potential starts at `cap` at most (the prior's `kl_cap()`, which is ln|X| for the uniform
    one) and never falls below 0. So once `cap - used` is less than what a legitimate update must
    lower it by, there is none left: a mechanism may stop and keep the rest of its
    budget. All of this holds in the good event, in which every released value is within its radius
    of the truth; whether to stop is decided by public values alone.

    Parameters
    ----------
    cap
        The largest value that the potential can have at the start, above 0; infinite if the prior
        gives some cell no probability.
    """

    __slots__ = ("_cap", "_used")

    def __init__(self, cap: float) -> None:
        if not cap > 0:
            raise InvalidArgument("cap", "a number above 0", shown(cap))
        self._cap = float(cap)
        self._used = 0.0

    @property
    def cap(self) -> float:
        """The largest value that the potential can have at the start."""
        return self._cap

    @property
    def used(self) -> float:
        """How far the potential has fallen, at least."""
        return self._used

    @property
    def left(self) -> float:
        """How much of the potential is left, at most."""
        return max(self._cap - self._used, 0.0)

    def stepped(self, gap: float, width: float = 1.0) -> None:
        """Count a `hoeffding_step` for a gap of at least `gap`: 2·gap² / width²."""
        self._used += 2 * (gap / width) ** 2

    def moved(self, start: float, target: float) -> None:
        """Count an exact move of an answer, a share, from `start` to the near side of the truth."""
        self._used += kl_bernoulli(target, start)

    def exhausted(self, gap: float, width: float = 1.0) -> bool:
        """True if no function can be off by `gap` any more (by Pinsker's inequality)."""
        return self.left < 2 * (gap / width) ** 2
