"""Checks of what a mechanism takes in, hands out, and is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import attrs
import numpy as np

from dpsdk._checks import shown
from dpsdk.mechanisms import Laplace
from dpsdk.testing.conformance.bench import Bench, runnable
from dpsdk.testing.conformance.prints import deep, fields_of, parts
from dpsdk.testing.conformance.report import Tally
from dpsdk.typing import Array

__all__ = ["frozen_value", "takes_in"]


def takes_in(bench: Bench, tally: Tally) -> None:
    """Its arguments stay as they were, and may be written over later without effect."""
    mechanism = bench.mechanism
    before = deep(mechanism)
    for scene in runnable(bench, tally):
        session = bench.session(scene.table)
        forms = [query.lower(scene.domain) for query in scene.queries]
        terms = bench.kernel(scene.table, 0).terms
        prints = [deep(form) for form in forms], deep(terms.facts)
        with suppress(Exception):
            for form in forms:
                mechanism.quote(form, terms)
        kernel = bench.kernel(scene.table, 0)
        with suppress(Exception):
            strategy = mechanism.open(kernel)
            for form in forms:
                strategy.answer(form, kernel)
        bench.asked(scene, session)
        tally.ran()
        if prints != ([deep(form) for form in forms], deep(terms.facts)):
            tally.fail(
                f"{scene}: a form or the facts that it was given are not as they were",
                "Leave what is handed to it as it is",
            )
        if deep(mechanism) != before:
            tally.fail(
                f"{scene}: the mechanism itself is not as it was",
                "Keep what changes in the strategy that `open` makes, one for each channel",
            )
    for name, held in _mutable(mechanism):
        tally.ran()
        tally.fail(
            f"Its {name} is {_kind(held)}, which whoever gave it can change after it was priced",
            "Keep a tuple, or a copy of the array with setflags(write=False)",
        )
    tally.ran()


def _kind(value: object) -> str:
    return "an array that can be written" if isinstance(value, np.ndarray) else f"{shown(value)}"


def _mutable(value: object, path: str = "", depth: int = 3) -> Iterator[tuple[str, object]]:
    """The parts of a mechanism that others can change, by name."""
    for name, part in parts(value):
        where = f"{path}{name}"
        if isinstance(part, tuple):
            inside = enumerate(cast("tuple[object, ...]", part))
            yield from ((f"{where}[{number}]", one) for number, one in inside if _changes(one))
        elif _changes(part):
            yield where, part
        elif depth and attrs.has(type(part)) and not _own(part):
            yield from _mutable(part, f"{where}.", depth - 1)


def _changes(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return bool(cast("Array", value).flags.writeable)
    return isinstance(value, list | dict | set | bytearray)


def _own(value: object) -> bool:
    """True if a class is of this package, which takes care of its own."""
    return type(value).__module__.partition(".")[0] == "dpsdk"


def frozen_value(bench: Bench, tally: Tally) -> None:
    """A frozen value: equal to its copies and to no other, and as good as new after use."""
    mechanism = bench.mechanism
    tally.ran()
    for how, make in (("copy", copy.copy), ("deepcopy", copy.deepcopy)):
        try:
            other = make(mechanism)
        except Exception as error:  # noqa: BLE001  # a plugin may raise what it likes
            tally.fail(f"{how} raised {type(error).__name__}: {error}", "Use attrs.frozen")
        tally.ran()
        if not _equal(mechanism, other) or not _equal(other, mechanism):
            tally.fail(
                f"It is not equal to its {how}", "Use attrs.frozen, which compares all fields"
            )
        if _hash(mechanism) is None and type(mechanism).__hash__ is not None:
            tally.fail(
                "It says that it has a hash, and has none",
                "Hold tuples and frozen values in place of lists, dicts and sets",
            )
        if _hash(other) != _hash(mechanism):
            tally.fail(f"Its {how} has another hash", "Use attrs.frozen, which hashes all fields")
    strangers: tuple[object, ...] = (object(), None, 0, "", Laplace("0.123"))
    for stranger in strangers:
        tally.ran()
        if type(stranger) is not type(mechanism) and _equal(mechanism, stranger):
            tally.fail(f"It calls itself equal to {shown(stranger)}", "Use attrs.frozen")
    for name in fields_of(mechanism):
        tally.ran()
        other = copy.copy(mechanism)
        try:
            setattr(other, name, object())
        except AttributeError:
            pass
        else:
            tally.fail(f"Its {name} can be set", "Use attrs.frozen")


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001  # what cannot be compared is not the same
        return False


def _hash(value: object) -> object:
    try:
        return hash(value)
    except TypeError:
        return None
