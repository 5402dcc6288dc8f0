"""Columns as a data frame of whichever library is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal, TypeAlias

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument, MissingExtra

__all__ = ["FrameLibrary", "to_frame"]

FrameLibrary: TypeAlias = Literal["pandas", "polars", "pyarrow"]


def to_frame(columns: Mapping[str, Sequence[object]], backend: FrameLibrary) -> object:
    """The columns as a frame of a library, through narwhals.

    Raises
    ------
    InvalidArgument
        If the library is another.
    MissingExtra
        If narwhals, which the extra `frames` installs, or that library itself is missing.
    """
    if backend not in ("pandas", "polars", "pyarrow"):
        raise InvalidArgument("backend", '"pandas", "polars" or "pyarrow"', shown(backend))
    try:
        import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtra("narwhals", "frames") from None
    if find_spec(backend) is None:
        raise MissingExtra(backend)
    return nw.from_dict(dict(columns), backend=backend).to_native()
