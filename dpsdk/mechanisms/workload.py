"""The workload of a mechanism that is given one beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, Lowers

__all__ = ["forms_of", "to_workload"]


def to_workload(value: Lowers[LinearForm]) -> Lowers[LinearForm]:
    """Anything that lowers to a form.

    Raises
    ------
    InvalidArgument
        If it has no method for that.
    """
    # Texts have a method of that name, too.
    if isinstance(value, type | str | bytes | bytearray) or not callable(
        getattr(value, "lower", None)
    ):
        expected = "a query or a workload, which lowers to a linear form"
        raise InvalidArgument("workload", expected, shown(value))
    return value


@runtime_checkable
class _InParts(Protocol):
    """A workload that lowers query by query, and so may ask for more numbers than one form."""

    def forms(self, domain: Domain, /) -> Iterator[LinearForm]: ...


def forms_of(workload: Lowers[LinearForm], domain: Domain) -> Iterator[LinearForm]:
    """The forms of a workload, one a query where it has several.

    Raises
    ------
    InvalidArgument
        If something else than a linear form comes out.
    """
    found = workload.forms(domain) if isinstance(workload, _InParts) else [workload.lower(domain)]
    for form in found:
        if not isinstance(form, LinearForm):
            expected = "a query or a workload of linear queries, such as marginals"
            raise InvalidArgument("workload", expected, shown(workload))
        yield form
