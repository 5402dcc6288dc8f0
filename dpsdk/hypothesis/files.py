"""Distributions in files: a zip archive of plain arrays, with a JSON header.

The compatibility law: a version, kind, flag or array never changes its meaning; what is new gets a
new name or a new version. A reader refuses versions and kinds that it does not know.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
from collections.abc import Mapping
from errno import EINVAL
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

import numpy as np

from dpsdk._checks import shown
from dpsdk.codec import JSON, opened, parsed
from dpsdk.domain import Domain
from dpsdk.errors import DataError, DomainError, InvalidArgument, TooLarge, WireError
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Arrays", "Flag", "damaged", "read", "write"]

Arrays: TypeAlias = Mapping[str, Array]
"""Arrays of a file by name, read but not yet checked, apart from their sizes."""

Flag: TypeAlias = bool | int | float | str
"""The facts of a distribution in the header of a file, by name."""

_ENVELOPE: JSON = {"format": "dpsdk.hypothesis", "version": 1}
_HEADER = "header.json"
_HEADER_LIMIT = 2**24
"""Parsed JSON takes up to some twenty times its text, so that this is up to 320 MB."""

_OWN = (*_ENVELOPE, "kind", "domain")
_MEMBERS = 8
_PREAMBLE = 2**12
_ARRAY = re.compile(
    rb"\{'descr': '(<f8|<i8)', 'fortran_order': False, 'shape': \(([0-9]{1,10}),\), \} *\n"
)
"""The text that numpy writes before a plain row of numbers; nothing else is evaluated."""

_NO_ARCHIVE = "it is no archive of plain arrays, or a damaged one"

_CELL_LIMIT = 2**28 + 1
_PART = 2**20
_DATED = (1980, 1, 1, 0, 0, 0)


def write(
    path: str | PathLike[str],
    kind: str,
    flags: Mapping[str, Flag],
    domain: Domain,
    arrays: Mapping[str, Floats | Ints],
) -> None:
    """Write a header and arrays."""
    if not kind:
        expected = 'declared by the class, as in kind = "acme.factored", to be kept in a file'
        raise InvalidArgument("kind", expected, "none")
    _check_flags(flags)
    _check_arrays(arrays)
    header = {**_ENVELOPE, "kind": kind, **flags, "domain": json.loads(domain.to_json())}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > _HEADER_LIMIT:
        advice = "declare fewer or shorter labels"
        raise TooLarge("the header of the file", len(text), _HEADER_LIMIT, "bytes", advice)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _DATED), text)
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _DATED)
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _check_flags(flags: Mapping[str, Flag]) -> None:
    for name, flag in flags.items():
        if name in _OWN:
            expected = f"no flags called {', '.join(_OWN)}, which every file has"
            raise InvalidArgument("parts", expected, shown(name))
        plain = type(flag) in (bool, int, str)
        if not plain and not (type(flag) is float and math.isfinite(flag)):
            raise InvalidArgument("parts", "flags that are plain values", shown(flag))


def _check_arrays(arrays: Mapping[str, Floats | Ints]) -> None:
    if len(arrays) >= _MEMBERS:
        raise TooLarge("a file", len(arrays), _MEMBERS - 1, "arrays", "join some of them")
    for array in arrays.values():
        if array.ndim != 1 or array.dtype not in (np.dtype(np.float64), np.dtype(np.int64)):
            expected = "arrays that are plain rows of float64 or int64"
            raise InvalidArgument("parts", expected, f"{array.dtype} of shape {array.shape}")
        if len(array) > _CELL_LIMIT:
            raise TooLarge("an array", len(array), _CELL_LIMIT, "numbers", "keep less in it")


def read(path: str | PathLike[str]) -> tuple[Domain, dict[str, object], Arrays]:
    """The domain, flags and arrays of a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive)
            flags = _header(path, archive, members.pop(_HEADER, None))
            domain = Domain.from_json(json.dumps(flags.pop("domain", None)))
            arrays = {
                name.removesuffix(".npy"): _array(path, archive, info)
                for name, info in members.items()
            }
    except DataError:
        raise
    except (WireError, DomainError, TooLarge) as error:
        raise damaged(path, f"its header: {error}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError, RuntimeError, struct.error):
        # RuntimeError has NotImplementedError and RecursionError below it.
        raise damaged(path, _NO_ARCHIVE) from None
    except OSError as error:
        # What a damaged file says of places before its beginning. Others are of the file system.
        if error.errno != EINVAL:
            raise
        raise damaged(path, _NO_ARCHIVE) from None
    return domain, dict[str, object](flags), arrays


def _members(path: str | PathLike[str], archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members by name, known to be plain and together no longer than the file."""
    listed = archive.infolist()
    members = {info.filename: info for info in listed}
    if len(members) != len(listed) or len(members) > _MEMBERS:
        raise damaged(path, "it holds a member twice, or more of them than any hypothesis")
    for name, info in members.items():
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise damaged(path, f"{_named(name)} is packed or encrypted")
        if name != _HEADER and not name.endswith(".npy"):
            raise damaged(path, f"{_named(name)} is no array")
    if sum(info.file_size for info in listed) > Path(path).stat().st_size:
        raise damaged(path, "its members are longer than the file")
    return members


def _named(name: str) -> str:
    return f"its member {shown(name)}"


def _header(
    path: str | PathLike[str], archive: zipfile.ZipFile, info: zipfile.ZipInfo | None
) -> JSON:
    if info is None:
        raise damaged(path, f"it has no {_HEADER}")
    if info.file_size > _HEADER_LIMIT:
        raise damaged(path, "its header is too long")
    return opened(parsed(archive.read(info), scale=16), _ENVELOPE)


def _array(path: str | PathLike[str], archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array of 8-byte numbers, allocated only once its size is that of the file's own part."""
    with archive.open(info) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise damaged(path, "an array is of another version than 1.0")
        length = int.from_bytes(member.read(2), "little")
        described = _ARRAY.fullmatch(member.read(min(length, _PREAMBLE)))
        if described is None:
            raise damaged(path, "an array is not a plain row of float64 or int64 numbers")
        size = int(described[2])
        if size > _CELL_LIMIT or info.file_size != member.tell() + 8 * size:
            raise damaged(path, "an array is not as long as it says, or longer than any hypothesis")
        array: Array = np.empty(size, dtype=described[1].decode())
        for start in range(0, size, _PART):
            part = array[start : start + _PART]
            part[:] = np.frombuffer(member.read(part.nbytes), dtype=array.dtype)
    return array


def damaged(path: str | PathLike[str], reason: str) -> DataError:
    """The error of a file that is not what it should be."""
    return DataError(f"the hypothesis file {shown(Path(fspath(path)).name)}", reason)
