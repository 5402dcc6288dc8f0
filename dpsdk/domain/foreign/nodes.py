"""Values of a file with the paths that lead to them, so that a refusal names the place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction

from dpsdk._checks import read_fraction
from dpsdk._records import frozen
from dpsdk.codec import Plain, refused, step
from dpsdk.domain.foreign.columns import Kind
from dpsdk.errors import WireError

__all__ = ["Node"]


@frozen
class Node:
    """A value of JSON or YAML, and the path to it from the whole, which is `$`."""

    plain: Plain
    path: str = "$"

    def refused(self, expected: str) -> WireError:
        """The error that something else than expected stands here."""
        return refused(self.path, expected, self.plain)

    def get(self, *names: str) -> Node | None:
        """The first of these members that is there and not null."""
        if not isinstance(self.plain, dict):
            raise self.refused("an object")
        for name in names:
            if self.plain.get(name) is not None:
                return Node(self.plain[name], f"{self.path}{step(name)}")
        return None

    def __getitem__(self, name: str) -> Node:
        found = self.get(name)
        if found is None:
            raise self.refused(f"an object with a member {name}")
        return found

    def __iter__(self) -> Iterator[Node]:
        if not isinstance(self.plain, list):
            raise self.refused("a list")
        return (Node(one, f"{self.path}[{place}]") for place, one in enumerate(self.plain))

    def members(self) -> list[tuple[str, Node]]:
        """The members of an object that are not null, in order."""
        names = list(self.plain) if isinstance(self.plain, dict) else []
        found = [(name, self.get(name)) for name in names]
        return [(name, node) for name, node in found if node is not None]

    def text(self) -> str:
        """The value, which has to be a text."""
        if not isinstance(self.plain, str):
            raise self.refused("a text")
        return self.plain

    def values(self) -> list[Node]:
        """The items of a list, each alone or as the value of an object."""
        return [one["value"] if isinstance(one.plain, dict) else one for one in self]

    def texts(self) -> list[str]:
        """The value, which has to be a text or a list of them."""
        return [one.text() for one in (self.values() if isinstance(self.plain, list) else [self])]

    def flag(self) -> bool:
        """The value, which has to be true or false."""
        if not isinstance(self.plain, bool):
            raise self.refused("true or false")
        return self.plain

    def label(self) -> str | int:
        """The value, which has to be a text or an integer, as labels are."""
        if isinstance(self.plain, bool) or not isinstance(self.plain, str | int):
            raise self.refused("a text or an integer; write words such as NO in quotes")
        return self.plain

    def end(self, kind: Kind) -> Fraction | date:
        """A bound: a number or the text of one, or the text that a day begins with."""
        text = self.plain if isinstance(self.plain, str) else repr(self.plain)
        if kind == "day":
            try:
                return date.fromisoformat(text[:10])
            except ValueError:
                raise self.refused("a day such as 2024-01-31") from None
        number = None if isinstance(self.plain, bool) else read_fraction(text)
        if number is None:
            raise self.refused("a finite number")
        return number
