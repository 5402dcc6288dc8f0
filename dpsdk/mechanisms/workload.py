"""Reading the workload of a mechanism that is given one beforehand."""

from __future__ import annotations

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, Lowers

__all__ = ["to_workload"]


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
