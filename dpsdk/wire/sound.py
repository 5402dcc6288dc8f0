"""Values that are no more than their members, and yet not all that these could say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpsdk.errors import InvalidArgument, WireError
from dpsdk.wire.catalogue import Codebook

__all__ = ["settling", "taking"]

T = TypeVar("T")


def taking(made: Callable[..., T], wrong: Callable[[T], str]) -> Callable[..., T]:
    """What makes a value of what was read, if `wrong` finds nothing; it says what is expected."""

    def take(**members: object) -> T:
        value = made(**members)
        expected = wrong(value)
        if expected:
            raise InvalidArgument("members", expected, "others")
        return value

    return take


def settling(wrong: Callable[[T], str]) -> Callable[[T, str, Codebook], T]:
    """The same of a value that is to be written, so that nothing is that could not be read."""

    def settle(value: T, path: str, codebook: Codebook) -> T:
        del codebook
        try:
            expected = wrong(value)
        except Exception:  # noqa: BLE001  # of members of other types, which their fields refuse
            return value
        if expected:
            raise WireError(path, expected, "others")
        return value

    return settle
