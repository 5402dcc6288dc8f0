"""YAML of strangers as plain values."""

from __future__ import annotations

from datetime import date
from importlib import import_module
from typing import Any

from dpsdk._checks import shown
from dpsdk.codec import Plain, check
from dpsdk.errors import MissingExtra, WireError

__all__ = ["from_yaml"]

_LONGEST = 1 << 18
_DEEPEST = 20
_LONGEST_SCALAR = 1000


def from_yaml(text: str) -> Plain:
    """Return the one document of a text in YAML.

    Raises
    ------
    WireError
        If it is no YAML, uses aliases or tags, names a member twice, or is beyond a limit.
    MissingExtra
        If PyYAML is not installed.
    """
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise MissingExtra("pyyaml", "yaml") from None
    if len(text) > _LONGEST:
        raise WireError("$", f"YAML of at most {_LONGEST:,} characters", f"{len(text):,}")
    try:
        content = _read(yaml, text)
    except WireError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        at = "" if mark is None else f" in line {mark.line + 1}"
        raise WireError("$", "YAML of plain values", f"something else{at}") from None
    check(content)
    return content


def _read(yaml: Any, text: str) -> Plain:
    """Build the values from events, one by one: what is deep or refers back is never made."""
    loader = yaml.SafeLoader(text)
    loader.get_event()
    documents: list[Plain] = []
    open_: list[tuple[list[Plain], Any]] = [(documents, None)]
    while loader.check_event():
        event = loader.get_event()
        value: Plain = None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            raise WireError("$", "YAML without aliases and tags", type(event).__name__)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_) > _DEEPEST:
                raise WireError("$", f"at most {_DEEPEST} lists or objects deep", "a deeper one")
            open_.append(([], event))
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            items, start = open_.pop()
            value = _object(items) if isinstance(start, yaml.MappingStartEvent) else items
        elif isinstance(event, yaml.ScalarEvent):
            if len(event.value) > _LONGEST_SCALAR:
                expected = f"texts of at most {_LONGEST_SCALAR:,} characters"
                raise WireError("$", expected, f"one of {len(event.value):,}")
            tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            value = loader.construct_object(yaml.ScalarNode(tag, event.value))
            value = value.isoformat() if isinstance(value, date) else value
        else:
            continue
        open_[-1][0].append(value)
    if len(documents) != 1:
        raise WireError("$", "one document", f"{len(documents):,}")
    return documents[0]


def _object(items: list[Plain]) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for name, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(name, str):
            raise WireError("$", "names that are texts, in quotes if need be", shown(name))
        if name in found:
            raise WireError("$", "objects that name each member once", f"{shown(name)} twice")
        found[name] = value
    return found
