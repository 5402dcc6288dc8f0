"""Runs that were paid for together, before it was known which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, final

from dpsdk._locks import ExclusiveLock
from dpsdk._records import shows_half_made
from dpsdk.accounting import DiscreteGaussianGuarantee, Guarantee, zcdp_rho
from dpsdk.accounting.prices.covering import covers
from dpsdk.errors import InvalidArgument, Redacted

__all__ = ["Allowance"]


@shows_half_made
@final
class Allowance:
    """Runs that were charged together; later runs use them up. Made by `kernel.allowance`.

    A run may use up a paid one that covers it: one that was enough to set aside for it under any
    composition of the package, whatever is answered in between.
    docs/explanation/proofs/allowance.md has the proof.
    """

    __slots__ = ("_left", "_lock", "_root")

    _left: dict[Guarantee, list[int]]
    """The numbers of the charges by what was paid, since a list of runs has few kinds of them."""
    _lock: ExclusiveLock
    _root: object

    def __init__(self, *_: object) -> None:
        raise InvalidArgument("Allowance", "made by kernel.allowance", "a direct call")

    @classmethod
    def of(cls, root: object, paid: Sequence[tuple[Guarantee, int]]) -> Allowance:
        """Runs that were charged for the channel of a root, each with the number of its charge."""
        allowance = cls.__new__(cls)
        allowance._root = root
        allowance._lock = ExclusiveLock("an allowance")
        allowance._left = {}
        for guarantee, charge in reversed(paid):
            allowance._left.setdefault(guarantee, []).append(charge)
        return allowance

    @property
    def left(self) -> int:
        """How many of the runs are not used up."""
        return sum(map(len, tuple(self._left.values())))

    def check(self, root: object) -> None:
        """Raise `InvalidArgument` if it was paid for another channel than that of a root."""
        if self._root is not root:
            raise InvalidArgument("allowance", "of the same channel", "one of another channel")

    def use(self, guarantee: Guarantee) -> int | None:
        """Use up the least paid run that covers another; the number of its charge, None if none.

        What was used up stays so, whatever becomes of the run.
        """
        return self._lock.run(lambda: self._use(guarantee))

    def _use(self, guarantee: Guarantee) -> int | None:
        able = [paid for paid, left in self._left.items() if left and covers(paid, guarantee)]
        if not able:
            return None
        least = able[0]
        for paid in able[1:]:
            if covers(least, paid) or _smaller(paid, least):
                least = paid
        return self._left[least].pop()

    def __repr__(self) -> str:
        return f"Allowance({self.left} runs left)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying an allowance")


def _smaller(paid: Guarantee, other: Guarantee) -> bool:
    """True if one discrete Gaussian has less ρ than another, though they cover alike."""
    both = isinstance(paid, DiscreteGaussianGuarantee) and isinstance(
        other, DiscreteGaussianGuarantee
    )
    return both and zcdp_rho(paid) < zcdp_rho(other)
