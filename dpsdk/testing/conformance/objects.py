"""Checks of what a mechanism takes in, hands out, and is."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import cast

import attrs
import numpy as np

from dpsdk._checks import shown
from dpsdk.data import PrivateData
from dpsdk.forms import Form
from dpsdk.kernel import Kernel
from dpsdk.mechanisms import Laplace
from dpsdk.session import Session
from dpsdk.session.channel import Channel, DistributionChannel
from dpsdk.testing.conformance.bench import Bench, Scene, charges, runnable
from dpsdk.testing.conformance.prints import deep, fields_of, parts, printed, printed_quote
from dpsdk.testing.conformance.reach import reached, scribble, unsealed
from dpsdk.testing.conformance.report import Tally
from dpsdk.typing import Array

__all__ = ["frozen_value", "hands_out", "takes_in"]


def hands_out(bench: Bench, tally: Tally) -> None:
    """What it hands out may be written over: later answers, quotes and costs stay the same."""
    for scene in runnable(bench, tally):
        answers: list[Hashable] = []
        for attacked in (False, True):
            session = bench.session(scene.table, seed=3)
            told: list[Hashable] = []
            with bench.opened(session) as channel:
                for query in (*scene.queries, *scene.queries):
                    quote = session.quote(query, using=bench.mechanism)
                    told.append(printed_quote(quote))
                    out: list[object] = [quote]
                    with suppress(Exception):
                        release = channel.release(query)
                        told.append(printed(release))
                        out.append(release)
                    told += [deep(one) for one in _shown(channel)]
                    if attacked:
                        tally.ran()
                        shown = _shown(channel)
                        _no_secrets(tally, scene, [*out, *shown])
                        # Of a distribution what it tells, and not what it works with.
                        scribble(*out, *filter(_is_array, shown))
                told.append(tuple(map(str, charges(session))))
            answers.append(tuple(told))
        if answers[0] != answers[1]:
            tally.fail(
                f"{scene}: written over, an array that it had handed out changed what came later",
                "Hand out copies, or arrays that were made read-only by setflags(write=False)",
            )


def _shown(channel: Channel[Form]) -> list[object]:
    """What a channel shows of its distribution."""
    if not isinstance(channel, DistributionChannel):
        return []
    found: list[object] = []
    with suppress(Exception):
        found.append(channel.distribution)
        names = channel.distribution.domain.names
        found += [channel.distribution.table(names[:1]), channel.distribution.table(names)]
    return found


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _no_secrets(tally: Tally, scene: Scene, out: list[object]) -> None:
    """Fail if the table, a kernel or a session can be reached from what was handed out."""
    for one in reached(*out):
        if isinstance(one, PrivateData | Kernel | Session):
            tally.fail(
                f"{scene}: from what it handed out, {type(one).__name__} can be reached",
                "Hand out numbers, and nothing that holds a kernel",
            )


def takes_in(bench: Bench, tally: Tally) -> None:
    """What it was given stays as it was, and may be written over later without effect."""
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
    """What of a mechanism can be changed by whoever has it, by name."""
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
        return unsealed(cast("Array", value))
    return isinstance(value, list | dict | set | bytearray)


def _own(value: object) -> bool:
    """Whether a class is of this package, which takes care of its own."""
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
        if not _written(other, name):
            continue
        if _equal(mechanism, other) or _equal(other, mechanism):
            tally.fail(
                f"It calls itself equal to one with another {name}",
                "Use attrs.frozen, which compares all fields",
            )


def _written(value: object, name: str) -> bool:
    """Write into a frozen value; whether that could be done."""
    try:
        object.__setattr__(value, name, _Other())
    except (AttributeError, TypeError):
        return False
    return True


class _Other:
    """Equal to nothing but itself, and a parameter of no mechanism."""


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
