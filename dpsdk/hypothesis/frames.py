"""Columns of labels as a data frame of a library that is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from dpsdk._checks import shown
from dpsdk._frames import ColumnKind
from dpsdk.data.frames import require_narwhals
from dpsdk.domain import Domain
from dpsdk.domain.columns import label_kind
from dpsdk.errors import InvalidArgument, MissingExtra
from dpsdk.typing import Label

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["Backend", "framed"]

Backend: TypeAlias = Literal["polars", "pandas", "pyarrow"]
"""A library of data frames."""

_BACKENDS: tuple[Backend, ...] = ("polars", "pandas", "pyarrow")


def framed(domain: Domain, columns: Mapping[str, list[Label]], backend: Backend | None) -> object:
    """Columns of labels as a frame."""
    if backend is not None and backend not in _BACKENDS:
        expected = f"{', '.join(map(repr, _BACKENDS))}, or None"
        raise InvalidArgument("backend", expected, shown(backend))
    wanted: tuple[Backend, ...] = _BACKENDS if backend is None else (backend,)
    found: Backend | None = next((name for name in wanted if find_spec(name) is not None), None)
    if found is None:
        raise MissingExtra(wanted[0])
    require_narwhals()
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    content: dict[str, list[Label]] = {}
    schema: dict[str, nw.dtypes.DType] = {}
    types: dict[ColumnKind, nw.dtypes.DType] = {
        "truth": nw.Boolean(),
        "integer": nw.Int64(),
        "time": nw.Datetime("us"),
        # pandas has no type of dates, but one of times.
        "day": nw.Datetime("us") if found == "pandas" else nw.Date(),
    }
    for name, labels in columns.items():
        kind = label_kind(domain[name])
        schema[name] = types.get(kind, nw.String())
        if kind == "text":
            attribute = domain[name]
            texts = {label: attribute.text(attribute.index(label)) for label in set(labels)}
            content[name] = [texts[label] for label in labels]
        else:
            content[name] = labels
    return nw.from_dict(content, schema, backend=found).to_native()
