"""The file of what whoever publishes tables knows of them, and the release itself does not."""

from __future__ import annotations

import tomllib
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, cast

from attrs import evolve, fields

from dpsdk._checks import cut, shown
from dpsdk.cli.files import contents
from dpsdk.cli.words import printable
from dpsdk.errors import InvalidArgument
from dpsdk.publication import About
from dpsdk.publication.registry import check_about

__all__ = ["about_of", "said_by"]

_LONGEST = 2**16
"""No such file is longer, in bytes: a key of very many dots takes as long as their square."""

_DEEPEST = 8
"""Tables of details are no deeper in each other; names of the registry have a dot or two."""

_MOST_WORDS = 200
"""So many characters are told of what is wrong with TOML, which may quote a key."""

_FIELDS = tuple([field.name for field in fields(About)])


def about_of(path: Path | None, name: str | None) -> About:
    """Read a TOML file with the fields of `About`; `name` is that of the table if it has none."""
    found = About() if path is None else _read(path)
    return evolve(found, name=name) if found.name is None else found


def said_by(path: Path, about: About) -> str:
    """Tell people which fields a file fills in, and which it leaves out."""
    said = [name for name in _FIELDS if getattr(about, name)]
    left = [name for name in _FIELDS if name not in said]
    more = f"; it leaves out {', '.join(left)}" if left else ""
    return f"{printable(path)} says {', '.join(said) or 'nothing'}{more}."


def _read(path: Path) -> About:
    file = printable(path)
    given = _tables(path, file)
    for name in given:
        if name not in _FIELDS:
            expected = f"one of {', '.join(_FIELDS)}"
            raise InvalidArgument(f"each field in {file}", expected, shown(name))
    details = given.get("details")
    if isinstance(details, dict):
        given["details"] = _dotted(cast("dict[str, object]", details), file)
    for name, value in given.items():
        _check_days(name, value, file)
    try:
        about = About(**cast("dict[str, Any]", given))
        check_about(about)
    except InvalidArgument as error:
        raise InvalidArgument(f"{error.parameter} in {file}", error.expected, error.got) from None
    return about


def _tables(path: Path, file: str) -> dict[str, object]:
    read = contents("--about", path, most=_LONGEST)
    expected, got = "a file of TOML", file
    try:
        # Some editors begin a text with a mark of their own.
        return cast("dict[str, object]", tomllib.loads(read.decode("utf-8-sig")))
    except UnicodeDecodeError:
        expected = "a text in utf-8"
    except tomllib.TOMLDecodeError as error:
        got = f"{file}: {cut(str(error), _MOST_WORDS)}"
    except ValueError:
        # Python makes no integer of thousands of digits, and tomllib says no more of it.
        expected = "a file of TOML without numbers of thousands of digits"
    except RecursionError:
        expected = "a file of TOML that is not deep"
    raise InvalidArgument("--about", expected, got)


def _check_days(name: str, value: object, file: str) -> None:
    """Refuse a day where none belongs and what is no day where one does, as TOML spells it."""
    if name == "published":
        if isinstance(value, str):
            expected = "a date without quotes, such as 2026-07-01"
            raise InvalidArgument(f"published in {file}", expected, shown(value))
        if isinstance(value, datetime | time):
            expected = "a date, without a time of the day"
            raise InvalidArgument(f"published in {file}", expected, value.isoformat())
        return
    if isinstance(value, dict):
        for inner, one in cast("dict[str, object]", value).items():
            _check_days(f"{name}[{shown(inner)}]", one, file)
        return
    for one in cast("list[object]", value) if isinstance(value, list) else [value]:
        if isinstance(one, date | time):
            raise InvalidArgument(f"{name} in {file}", "a text, in quotes", one.isoformat())


def _dotted(
    details: dict[str, object], file: str, before: str = "", deep: int = 1
) -> dict[str, object]:
    """Flatten tables within tables to the names of the registry, which have dots between."""
    if deep > _DEEPEST:
        expected = f"tables at most {_DEEPEST} deep"
        raise InvalidArgument(f"details in {file}", expected, shown(before.removesuffix(".")))
    found: dict[str, object] = {}
    for name, value in details.items():
        whole = f"{before}{name}"
        inner = {whole: value}
        if isinstance(value, dict):
            inner = _dotted(cast("dict[str, object]", value), file, f"{whole}.", deep + 1)
        twice = next((one for one in inner if one in found), None)
        if twice is not None:
            raise InvalidArgument(f"details in {file}", "given once each", f"{shown(twice)} twice")
        found |= inner
    return found
