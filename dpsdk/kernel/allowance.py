"""Runs that were paid for together, before it was known which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, final

from dpsdk._beside import Beside
from dpsdk._turns import Turns
from dpsdk.accounting import DiscreteGaussianGuarantee, Guarantee, zcdp_rho
from dpsdk.accounting.prices.covering import covers
from dpsdk.errors import InvalidArgument, Redacted

__all__ = ["Allowance", "granted", "paid_by"]


class _Paid:
    """The runs of one allowance that are left, and for whom they were paid."""

    __slots__ = ("_left", "_turns", "root")

    def __init__(self, root: object, paid: Sequence[tuple[Guarantee, int]]) -> None:
        self.root = root
        self._turns = Turns("an allowance")
        # Equal guarantees together, since a list has few kinds of them.
        self._left: dict[Guarantee, list[int]] = {}
        for guarantee, charge in reversed(paid):
            self._left.setdefault(guarantee, []).append(charge)

    @property
    def left(self) -> int:
        return sum(map(len, tuple(self._left.values())))

    def use(self, guarantee: Guarantee) -> int | None:
        return self._turns.take(lambda: self._use(guarantee))

    def _use(self, guarantee: Guarantee) -> int | None:
        able = [paid for paid, left in self._left.items() if left and covers(paid, guarantee)]
        if not able:
            return None
        least = able[0]
        for paid in able[1:]:
            if covers(least, paid) or _smaller(paid, least):
                least = paid
        return self._left[least].pop()


def _smaller(paid: Guarantee, other: Guarantee) -> bool:
    """Whether one discrete Gaussian has less ρ than another, though they cover alike."""
    both = isinstance(paid, DiscreteGaussianGuarantee) and isinstance(
        other, DiscreteGaussianGuarantee
    )
    return both and zcdp_rho(paid) < zcdp_rho(other)


# Beside the allowances and not inside, since strategies hold these: they can neither make one, nor
# have one that they hold say that more was paid.
_paid: Beside[_Paid] = Beside()


@final
class Allowance:
    """Runs that were charged together; later runs use them up. Made by `kernel.allowance`.

    A run may use up a paid one that covers it: one that was enough to set aside for it under any
    composition of the package, whatever is answered in between.
    docs/explanation/proofs/allowance.md has the proof.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, *_: object) -> None:
        raise InvalidArgument("Allowance", "made by kernel.allowance", "a direct call")

    @property
    def left(self) -> int:
        """How many of the runs are not used up."""
        paid = _paid.get(self)
        return 0 if paid is None else paid.left

    def __repr__(self) -> str:
        return f"Allowance({self.left} runs left)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying an allowance")


def granted(root: object, paid: Sequence[tuple[Guarantee, int]]) -> Allowance:
    """An allowance of runs that were charged, each with the number of its charge.

    Parameters
    ----------
    root
        For whom they were charged: who has this, and nobody else, can make or use one.
    paid
        The runs, as the books keep them.
    """
    allowance = Allowance.__new__(Allowance)
    _paid.keep(allowance, _Paid(root, paid))
    return allowance


def paid_by(allowance: Allowance, root: object, guarantee: Guarantee | None = None) -> int | None:
    """Use up the least paid run that covers another; the number of its charge, None if none does.

    What was used up stays so, whatever becomes of the run. Without a guarantee, only look.

    Raises
    ------
    InvalidArgument
        If it is no allowance, or was paid for somebody else.
    """
    if type(allowance) is not Allowance:
        raise InvalidArgument("allowance", "an Allowance", type(allowance).__name__)
    paid = _paid.get(allowance)
    if paid is None or paid.root is not root:
        raise InvalidArgument("allowance", "of the same channel", "one of another channel")
    return None if guarantee is None else paid.use(guarantee)
