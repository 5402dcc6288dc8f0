"""JSON data with one thing wrong, everywhere and in every way."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

WRONG = (
    *(None, True, 0, -1, 1.5, "", "false", "1", "1/0", "nan", "0x", "1\n", "a.b", "\ud800"),
    *([], [[]], [None], {}, {"kind": "query.count"}, {"a": 1}, 2**1023, float("nan"), 1e400),
)
"""Of every type of JSON, and what some readers take for another."""


def places(data: object) -> Iterator[tuple[str | int, ...]]:
    """The paths to all that is inside of data; of long lists to the first few."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(data, dict):
        inside = list(data.items())
    elif isinstance(data, list):
        inside = list(enumerate(data))[:3]
    for key, one in inside:
        yield (key,)
        yield from ((key, *rest) for rest in places(one))


def at(data, path):
    for key in path:
        data = data[key]
    return data


def changed(data, path, value):
    """A copy with another value in a place."""
    result = deepcopy(data)
    at(result, path[:-1])[path[-1]] = value
    return result


def damaged(data: dict[str, object]) -> Iterator[object]:
    """The data with one thing wrong, though it may happen to be right."""
    for path in places(data):
        for value in WRONG:
            yield changed(data, path, value)
        less = deepcopy(data)
        del at(less, path[:-1])[path[-1]]
        yield less
        inside = at(data, path)
        if isinstance(inside, dict):
            yield changed(data, path, {**inside, "more": 1})
        if isinstance(inside, list):
            yield changed(data, path, [*inside, *inside])
        if isinstance(inside, int) and not isinstance(inside, bool):
            yield changed(data, path, float(inside) if abs(inside) < 2**53 else 0.5)
            yield changed(data, path, str(inside))
        if isinstance(inside, bool):
            yield changed(data, path, int(inside))
            yield changed(data, path, str(inside).lower())
    yield {**data, "more": 1}
