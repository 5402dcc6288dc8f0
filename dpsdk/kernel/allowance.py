"""Runs that were paid for together, before it was known which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, final

from dpsdk._turns import Turns
from dpsdk.accounting import Guarantee
from dpsdk.accounting.covering import covers
from dpsdk.errors import Redacted

__all__ = ["Allowance"]


@final
class Allowance:
    """Runs that were charged together; later runs use them up. Made by `kernel.allowance`.

    A run may use up a paid one that covers it: whose guarantee the run satisfies, so that it costs
    no more under any composition of the package. docs/explanation/proofs/allowance.md has the
    proof.
    """

    __slots__ = ("_paid", "_root", "_turns")

    def __init__(self, root: object, paid: Sequence[tuple[Guarantee, int]]) -> None:
        self._root = root
        self._turns = Turns("an allowance")
        # Equal guarantees together, since a plan has few kinds of them.
        self._paid: dict[Guarantee, list[int]] = {}
        for guarantee, charge in reversed(paid):
            self._paid.setdefault(guarantee, []).append(charge)

    @property
    def root(self) -> object:
        """For whom it was paid."""
        return self._root

    @property
    def left(self) -> int:
        """How many of the runs are not used up."""
        return sum(map(len, tuple(self._paid.values())))

    def use(self, guarantee: Guarantee) -> int | None:
        """Use up the least paid run that covers another; the number of its charge, None if none.

        What was used up stays so, whatever becomes of the run.
        """
        return self._turns.take(lambda: self._use(guarantee))

    def _use(self, guarantee: Guarantee) -> int | None:
        able = [paid for paid, left in self._paid.items() if left and covers(paid, guarantee)]
        if not able:
            return None
        least = able[0]
        for paid in able[1:]:
            if covers(least, paid):
                least = paid
        return self._paid[least].pop()

    def __repr__(self) -> str:
        return f"Allowance({self.left} runs left)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying an allowance")
