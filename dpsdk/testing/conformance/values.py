"""Checks of plugins as values, for both kits: frozen, equal to copies, described, written."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Literal, ParamSpec, TypeVar, cast

import numpy as np

from dpsdk import wire
from dpsdk._checks import described, shown
from dpsdk.errors import WireError
from dpsdk.mechanisms import Laplace
from dpsdk.testing.conformance.bench import Bench
from dpsdk.testing.conformance.prints import fields_of, parts
from dpsdk.testing.conformance.report import Tally

__all__ = ["check_frozen", "check_held", "check_text", "check_written"]

T = TypeVar("T")
P = ParamSpec("P")

_LONGEST = 1000
_FREEZE = "Use attrs.frozen, which compares and hashes all fields"


def check_frozen(value: object, tally: Tally) -> None:
    """Fail unless a plugin is a frozen value: equal to its copies and to nothing else."""
    for how, make in (("copy", copy.copy), ("deep copy", copy.deepcopy)):
        other = _tried(tally, f"To make a {how}", make, value)
        tally.ran()
        if not _equal(value, other, tally) or not _equal(other, value, tally):
            tally.fail(f"It does not equal its {how}", _FREEZE)
        if _hash(value, tally) != _hash(other, tally):
            tally.fail(f"Its {how} has another hash", _FREEZE)
    if _hash(value, tally) is None and type(value).__hash__ is not None:
        tally.fail(
            "It says that it has a hash, and has none",
            "Hold tuples and frozen values in place of lists, dicts and sets",
        )
    strangers: tuple[object, ...] = (object(), None, 0, "", Laplace("0.123"))
    for stranger in strangers:
        tally.ran()
        if type(stranger) is not type(value) and _equal(value, stranger, tally):
            tally.fail(f"It calls itself equal to {shown(stranger)}", _FREEZE)
    for name in fields_of(value):
        tally.ran()
        try:
            setattr(copy.copy(value), name, object())
        except Exception:  # noqa: BLE001, S112  # as it should be
            continue
        tally.fail(f"Its {name} can be set", _FREEZE)


def _tried(tally: Tally, what: str, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    try:
        return work(*args, **more)
    except Exception as error:  # noqa: BLE001  # a plugin may raise what it likes
        tally.fail(f"{what} raised {type(error).__name__}, {described(error)}", _FREEZE)


def _equal(one: object, other: object, tally: Tally) -> bool:
    return bool(_tried(tally, "To compare it", operator.eq, one, other))


def _hash(value: object, tally: Tally) -> int | None:
    try:
        return hash(value)
    except TypeError:
        return None
    except Exception as error:  # noqa: BLE001  # a plugin may raise what it likes
        tally.fail(f"Its hash raised {type(error).__name__}", _FREEZE)


def check_held(bench: Bench, tally: Tally) -> None:
    """Fail if a plugin holds what others can change."""
    tally.ran()
    for name, held in bench.held:
        kind = "an array that can be written" if isinstance(held, np.ndarray) else shown(held)
        tally.fail(
            f"Its {name} is {kind}, which whoever gave it can change afterwards",
            "Keep a tuple, or a copy of the array with setflags(write=False)",
        )


def check_text(value: object, tally: Tally) -> None:
    """Fail unless its text is one short line that prints, the same each time and of a copy."""
    for name, word in (("str", "{!s}"), ("repr", "{!r}")):
        tally.ran()
        what, change = f"Its {name}", "Let `attrs.frozen` describe it, in one line"
        values = value, value, copy.copy(value)
        texts = [_tried(tally, what, word.format, one) for one in values]
        text = texts[0]
        if not text.strip():
            tally.fail(f"{what} is {shown(text)}", change)
        if len(text) > _LONGEST:
            tally.fail(f"{what} has {len(text):,} characters", change)
        if not text.isprintable():
            tally.fail(f"{what} has characters that do not print", change)
        if len(set(texts)) > 1 or " at 0x" in text:
            tally.fail(f"{what} is another each time, or of a copy", change)


def check_written(
    value: T, kind: Literal["query", "one-shot", "mechanism"], bench: Bench, tally: Tally
) -> T:
    """Fail unless a plugin comes back equal from its written form; what was read is returned."""
    allow, domain = bench.catalogue, bench.domain if kind == "query" else None
    has_kind = False
    try:
        has_kind = bool(allow.kind_of(value, "$"))
        text = wire.dumps(value, domain=domain, allow=allow)
    except WireError as error:
        if has_kind and kind == "query":  # a mechanism may hold queries that have none
            raise
        tally.skip(
            f"it has no written form ({error}): give a `catalogue` with its `wire.Kind`, if any"
        )
    tally.ran()
    back = cast("T", wire.loads(kind, text, allow=allow))
    change = "Let the kind have a member for each field, and its default in none of them change"
    if type(back) is not type(value):
        tally.fail(f"its written form was read as a {type(back).__name__}", change)
    if wire.dumps(back, domain=domain, allow=allow) != text:
        tally.fail("what was read of its written form is written otherwise", change)
    # A function is written as the table of its values.
    if back != value and not any(isinstance(held, FunctionType) for _, held in parts(value)):
        tally.fail(f"{text} was read as {described(back)}, which does not equal it", change)
    broken = json.loads(text) | {"no such member": 1}
    tally.ran()
    try:
        wire.loads(kind, json.dumps(broken), allow=allow)
    except WireError:
        return back
    found = "it was read from a text with a member that means nothing"
    return tally.fail(found, "Read by its `wire.Kind`")
