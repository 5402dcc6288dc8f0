"""Parquet files as one frame, by whichever library is there; no row is read but by pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from glob import escape, glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import unquote

from dpsdk.data.columns import require_columns
from dpsdk.errors import DataError, MissingExtra

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["parquet_files", "parquet_frame", "parquet_names"]

_Scan: TypeAlias = Callable[[list[str]], "nw.LazyFrame[Any]"]

_NULL = "__HIVE_DEFAULT_PARTITION__"


def parquet_files(path: str) -> list[str]:
    """Return the files that a path stands for, none of which is opened."""
    if "://" in path:
        return [path]
    found = [path]
    if Path(path).is_dir():
        found = [str(file) for file in Path(path).rglob("*.parquet")]
    elif not Path(path).exists() and has_magic(path):
        found = glob(path, recursive=True)  # noqa: PTH207  # Path.glob takes no root
    files = sorted(file for file in found if Path(file).is_file())
    if not files:
        raise DataError(path, "no such file, and no Parquet files there")
    return files


def parquet_names(path: str) -> list[str]:
    """Return the names of the columns of Parquet files, those of their folders included."""
    file = parquet_files(path)[0]
    held = _scanner((), address="://" in path)([file]).collect_schema().names()
    return list(dict.fromkeys([*held, *({} if file == path else _folders(path, file))]))


def parquet_frame(path: str, names: Sequence[str]) -> object:
    """Return a frame of the named columns of Parquet files.

    Folders such as "s=1" give their files a column s of texts. Integers of several widths are read
    in the widest.
    """
    files, scan = parquet_files(path), _scanner(names, address="://" in path)
    parts: dict[tuple[object, ...], list[str]] = {}
    schemas: dict[str, Mapping[str, nw.dtypes.DType]] = {}
    for file in files:
        schemas[file] = scan([file]).collect_schema()
        folders = {} if len(files) == 1 and file == path else _folders(path, file)
        asked = {name: value for name, value in folders.items() if name in names}
        require_columns(path, [*schemas[file], *(set(asked) - {*schemas[file]})], names)
        parts.setdefault((*schemas[file].items(), *asked.items()), []).append(file)
    types = {
        name: _common(path, name, [schemas[file].get(name) for file in files]) for name in names
    }
    frames = [_part(scan(some), names, types, _folders(path, some[0])) for some in parts.values()]
    return _joined(frames).to_native()


def _scanner(names: Sequence[str], *, address: bool) -> _Scan:
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    for library in (_by_polars, _by_duckdb, _by_arrow):
        try:
            scan = library(names, address=address)
        except ImportError:
            continue
        return lambda files: cast(
            "nw.LazyFrame[Any]", nw.from_native(cast("Any", scan(files))).lazy()
        )
    raise MissingExtra("polars, duckdb or pyarrow")


def _by_polars(names: Sequence[str], *, address: bool) -> Callable[[list[str]], object]:
    import polars  # noqa: ICN001, PLC0415  # one of three

    del names
    # Files that were found are names, whatever characters are in these.
    return lambda files: polars.scan_parquet(files, glob=address, hive_partitioning=False)


def _by_duckdb(names: Sequence[str], *, address: bool) -> Callable[[list[str]], object]:
    import duckdb  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  # one of three

    del names
    connection = cast("Any", duckdb).connect()

    def scan(files: list[str]) -> object:
        files = files if address else [escape(file) for file in files]
        return connection.read_parquet(files, hive_partitioning=False)

    return scan


def _by_arrow(names: Sequence[str], *, address: bool) -> Callable[[list[str]], object]:
    import pyarrow  # noqa: ICN001, PLC0415  # one of three
    from pyarrow import parquet  # noqa: PLC0415  # one of three

    del address
    arrow, reader = cast("Any", pyarrow), cast("Any", parquet)

    def read(file: str) -> Any:
        opened = reader.ParquetFile(file)
        held = set(opened.schema_arrow.names)
        return opened.read(columns=[name for name in names if name in held])

    return lambda files: arrow.concat_tables([read(file) for file in files])


def _folders(path: str, file: str) -> dict[str, str | None]:
    """Return the columns that the names of the folders of a file give it, below its directory."""
    start = len(Path(path).parts) if Path(path).is_dir() else 0
    pairs = [part.split("=", 1) for part in Path(file).parts[start:-1] if "=" in part]
    return {unquote(name): None if value == _NULL else unquote(value) for name, value in pairs}


def _common(
    path: str, name: str, types: Sequence[nw.dtypes.DType | None]
) -> nw.dtypes.DType | None:
    """Return the type of a column in all files; None where their folders name it."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    distinct = list(dict.fromkeys(types))
    if len(distinct) == 1:
        return distinct[0]
    known = [dtype for dtype in distinct if dtype is not None]
    if len(known) == len(distinct) and all(dtype.is_integer() for dtype in known):
        unsigned = [dtype.is_unsigned_integer() for dtype in known]
        if all(unsigned) or not any(dtype == nw.UInt64 for dtype in known):
            return nw.UInt64() if all(unsigned) else nw.Int64()
    held = " and ".join(sorted(map(str, known)))
    raise DataError(path, f"column {name!r} is {held} in different files")


def _part(
    frame: nw.LazyFrame[Any],
    names: Sequence[str],
    types: Mapping[str, nw.dtypes.DType | None],
    folders: Mapping[str, str | None],
) -> nw.LazyFrame[Any]:
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    from dpsdk.data.engine.table import column_of  # noqa: PLC0415  # needs narwhals

    schema = frame.collect_schema()
    chosen: list[nw.Expr] = []
    for name in dict.fromkeys(names):
        dtype = types[name]
        if dtype is None:
            column = nw.lit(folders[name], nw.String())
        else:
            column = column_of(frame, name)
            column = column if schema[name] == dtype else column.cast(dtype)
        chosen.append(column.alias(name))
    return frame.select(*chosen)


def _joined(frames: Sequence[nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
    """Return the rows of all frames, joined by halves, as engines nest what is joined."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  # an extra

    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return nw.concat([_joined(frames[:middle]), _joined(frames[middle:])], how="vertical")
