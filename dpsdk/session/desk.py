"""The former place of `QueryInterface`, which was called Desk."""

import warnings

from dpsdk.session.query_interface import QueryInterface

__all__ = ()


def __getattr__(name: str) -> type[QueryInterface]:
    if name != "Desk":
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    advice = "dpsdk.session.desk.Desk is dpsdk.session.query_interface.QueryInterface"
    warnings.warn(advice, DeprecationWarning, stacklevel=2)
    return QueryInterface
