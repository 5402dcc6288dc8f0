"""Plans for one question, the best first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar, overload

from dpsdk.errors import NoMechanism
from dpsdk.forms import Form
from dpsdk.planner.plan import Plan

__all__ = ["Plans"]

F = TypeVar("F", bound=Form)


class Plans(Sequence[Plan[F]], Generic[F]):
    """Ways to answer, the best first; those that cannot be taken are last, with their reasons."""

    __slots__ = ("_plans",)

    def __init__(self, plans: Iterable[Plan[F]]) -> None:
        self._plans = tuple(plans)

    @property
    def best(self) -> Plan[F]:
        """The first one that may be run.

        Raises
        ------
        NoMechanism
            If there is none.
        """
        for plan in self._plans:
            if plan.feasible:
                return plan
        raise NoMechanism("this question")

    @overload
    def __getitem__(self, index: int) -> Plan[F]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Plan[F], ...]: ...
    def __getitem__(self, index: int | slice) -> Plan[F] | tuple[Plan[F], ...]:
        return self._plans[index]

    def __len__(self) -> int:
        return len(self._plans)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._plans)) or "no plans"
