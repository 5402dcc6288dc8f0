"""Hypotheses in files: a zip archive of plain arrays, with a JSON header.

The compatibility law: a version, kind, flag or array never changes its meaning; what is new gets a
new name or a new version. A reader refuses versions and kinds that it does not know.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np

from dpsdk.domain import Domain
from dpsdk.errors import DataError, DomainError
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Arrays", "damaged", "read", "write"]

Arrays: TypeAlias = Mapping[str, Array]
"""Arrays of a file by name, read but not yet checked, apart from their sizes."""

_FORMAT = "dpsdk.hypothesis"
_VERSION = 1
_HEADER = "header.json"
_HEADER_LIMIT = 2**26
_PREAMBLE = 2**12
_CELL_LIMIT = 2**28 + 1
_PART = 2**20
_DATED = (1980, 1, 1, 0, 0, 0)


def write(
    path: str | PathLike[str],
    flags: Mapping[str, object],
    domain: Domain,
    arrays: Mapping[str, Floats | Ints],
) -> None:
    """Write a header and arrays."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        **flags,
        "domain": json.loads(domain.to_json()),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        text = json.dumps(header, indent=2, ensure_ascii=False)
        archive.writestr(zipfile.ZipInfo(_HEADER, _DATED), text.encode())
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _DATED)
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def read(path: str | PathLike[str]) -> tuple[Domain, dict[str, object], Arrays]:
    """The domain, flags and arrays of a file. The flag "kind" is among them, unchecked.

    Raises
    ------
    DataError
        If the file is not such a hypothesis. Nothing of its size is allocated before it is known
        to be plausible.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            flags = _header(path, archive)
            domain = Domain.from_json(json.dumps(flags.pop("domain", None)))
            arrays: dict[str, Array] = {}
            for info in archive.infolist():
                if info.filename == _HEADER:
                    continue
                arrays[info.filename.removesuffix(".npy")] = _array(path, archive, info)
    except DataError:
        raise
    except DomainError as error:
        raise damaged(path, str(error)) from None
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError, NotImplementedError):
        raise damaged(path, "it is no archive of plain arrays, or a damaged one") from None
    return domain, flags, arrays


def _header(path: str | PathLike[str], archive: zipfile.ZipFile) -> dict[str, object]:
    if archive.getinfo(_HEADER).file_size > _HEADER_LIMIT:
        raise damaged(path, "its header is too long")
    parsed: object = json.loads(archive.read(_HEADER))
    header = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    if header.pop("format", None) != _FORMAT:
        raise damaged(path, f'its header has no "format": "{_FORMAT}"')
    version = header.pop("version", None)
    if isinstance(version, bool) or version != _VERSION:
        raise damaged(path, f"this version reads files of version {_VERSION} only")
    return header


def _array(path: str | PathLike[str], archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array of 8-byte numbers, allocated only once its size is that of the file's own part."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > 8 * _CELL_LIMIT + _PREAMBLE:
        raise damaged(path, "an array is packed, or larger than any hypothesis")
    with archive.open(info) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise damaged(path, "an array is of another version than 1.0")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(member, _PREAMBLE)
        if dtype.str not in {"<f8", "<i8"} or fortran or len(shape) != 1:
            raise damaged(path, "an array is not a plain row of float64 or int64 numbers")
        if info.file_size != member.tell() + 8 * shape[0]:
            raise damaged(path, "an array is not as long as it says")
        array: Array = np.empty(shape, dtype=dtype)
        for start in range(0, len(array), _PART):
            part = array[start : start + _PART]
            part[:] = np.frombuffer(member.read(part.nbytes), dtype=dtype)
    return array


def damaged(path: str | PathLike[str], reason: str) -> DataError:
    """The error of a file that is not what it should be."""
    return DataError(f"the hypothesis file {Path(fspath(path)).name!r}", reason)
