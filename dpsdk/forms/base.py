"""Forms: what a question asks, in numbers, without what its answer means."""

from __future__ import annotations

from abc import ABC
from typing import Protocol, TypeVar

from dpsdk._arrays import Lasting
from dpsdk.domain import Domain

__all__ = ["Form", "Lowers"]


class Form(Lasting, ABC):
    """A question put to a universe in public numbers. Mechanisms know forms, not queries."""

    __slots__ = ()

    domain: Domain
    """The universe that the form speaks of."""

    @property
    def identity(self) -> bytes | None:
        """A key that tells questions of one kind apart, however built; None if nothing does.

        Equal where the same is asked, different where it is not.
        """
        return None


F_co = TypeVar("F_co", bound=Form, covariant=True)


class Lowers(Protocol[F_co]):
    """Anything that lowers to a form: a query, or a workload that a mechanism holds."""

    def lower(self, domain: Domain, /) -> F_co:
        """The form of this question over a universe."""
        ...
