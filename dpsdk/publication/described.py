"""Descriptions of a release in formats of others, and what of these formats nobody filled in."""

from __future__ import annotations

import json
import re
from typing import cast

from dpsdk._records import frozen
from dpsdk.wire import JSON, Plain

__all__ = ["Described", "described"]


@frozen(repr=False)
class Described:
    """A description of a release in a format of others.

    Parameters
    ----------
    format
        What the format is called.
    missing
        What the format has and neither the release nor an `About` says: it was left out.
    required
        Those of them without which the format's own validators refuse the description.
    """

    format: str
    missing: tuple[str, ...]
    required: tuple[str, ...]
    _text: str

    @property
    def content(self) -> JSON:
        """The description as plain JSON values, made anew at each call."""
        return cast("JSON", json.loads(self._text))

    @property
    def complete(self) -> bool:
        """True if nothing is missing that the format requires."""
        return not self.required

    def to_json(self) -> str:
        """The description as a text in JSON, which ends in a line feed."""
        spelled = json.dumps(self.content, indent=1, ensure_ascii=False)
        try:
            spelled.encode("utf-8")
        except UnicodeEncodeError:  # half of a surrogate pair in somebody's label
            spelled = json.dumps(self.content, indent=1)
        return f"{spelled}\n"

    def to_yaml(self) -> str:
        """The same as a text in YAML, as the public registry keeps its records.

        Numbers and texts are written so that readers of YAML 1.1 and 1.2 take them alike.
        """
        return "\n".join(_lines(cast("Plain", self.content), "")) + "\n"

    def __repr__(self) -> str:
        left = f", left out: {', '.join(self.missing)}" if self.missing else ""
        state = "complete" if self.complete else f"not complete without {', '.join(self.required)}"
        return f"Described({self.format}, {state}{left})"


def described(
    name: str, content: JSON, missing: list[str], required: frozenset[str] = frozenset()
) -> Described:
    """Make a description of plain values, which are copied."""
    text = json.dumps(content, allow_nan=False)
    needed = tuple([one for one in missing if one in required])
    return Described(name, tuple(missing), needed, text)


def _lines(value: Plain, indent: str) -> list[str]:
    """The lines of a value in YAML's block style."""
    found: list[str] = []
    if isinstance(value, dict):
        for name, inner in value.items():
            found += _under(f"{indent}{_scalar(name)}:", inner, f"{indent}  ")
        return found
    if isinstance(value, list):
        for inner in value:
            found += _under(f"{indent}-", inner, f"{indent}  ")
        return found
    return [f"{indent}{_scalar(value)}"]


def _under(head: str, inner: Plain, indent: str) -> list[str]:
    if isinstance(inner, dict | list):
        if not inner:
            return [f"{head} {{}}" if isinstance(inner, dict) else f"{head} []"]
        return [head, *_lines(inner, indent)]
    return [f"{head} {_scalar(inner)}"]


def _scalar(value: Plain) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        text = repr(value)
        # To YAML 1.1 a number without a point is a text if it has an exponent.
        return text if "." in text else text.replace("e", ".0e")
    return json.dumps(value)


_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})

_PLAIN = re.compile(r"(?:\w|-(?=[-\w]))[-\w]*")
_NUMBER_OR_DAY = re.compile(
    r"-?[\d_]+(?:e[-+]?\d+)?|0[box][\da-f_]+|\d{4}-\d\d?-\d\d?", re.IGNORECASE
)


def _quoted(text: str) -> str:
    """Return a text in quotes, unless it is of letters, digits and dashes and is nothing else."""
    typed = text.lower() in _WORDS or _NUMBER_OR_DAY.fullmatch(text)
    if _PLAIN.fullmatch(text) and not typed:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter == "\n":
        return "\\n"
    if letter == " " or letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
