"""The first entries of a released table, with the ranks that its bounds allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, overload, runtime_checkable

import numpy as np

from dpsdk._arrays import Lasting
from dpsdk._checks import to_count
from dpsdk._frames import Column, Framed
from dpsdk._html import html_of, lined_up, number_text, page, table
from dpsdk._records import frozen
from dpsdk.domain import Attribute
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Label

__all__ = ["Labelled", "Ranked", "Ranking", "rank"]

Numbers = Mapping[tuple[Label, ...], float]


@runtime_checkable
class Labelled(Protocol):
    """An answer with a number for every combination of labels."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes, whose labels these are."""
        ...

    def to_dict(self) -> dict[tuple[Label, ...], float]:
        """Every combination of labels with its number."""
        ...


@frozen
class Ranked:
    """An entry of a table with the ranks that are possible for it, of which 1 is the largest.

    Parameters
    ----------
    labels
        One for each attribute.
    value
        The number that was released.
    low, high
        The truth is between these.
    best, worst
        Its rank among the true numbers is between these.
    certain
        True if it is certainly among the first so many as were asked for.
    """

    labels: tuple[Label, ...]
    value: float
    low: float
    high: float
    best: int
    worst: int
    certain: bool


@frozen(repr=False)
class Ranking(Lasting, Sequence[Ranked], Framed):
    """The first entries of a released table, the largest one first: a sequence of `Ranked`.

    With probability 1 - `beta` all of it is true at once. `possible` are the labels of all entries
    that may be among the first `len(ranking)`, those that are shown among them.
    """

    attributes: tuple[Attribute, ...]
    entries: tuple[Ranked, ...]
    possible: tuple[tuple[Label, ...], ...]
    beta: float

    @overload
    def __getitem__(self, index: int) -> Ranked: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Ranked, ...]: ...
    def __getitem__(self, index: int | slice) -> Ranked | tuple[Ranked, ...]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple([one.name for one in self.attributes])

    @property
    def labels(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of the entries, in order."""
        return tuple([one.labels for one in self.entries])

    @property
    def certain(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of those that are certainly among the first."""
        return tuple([one.labels for one in self.entries if one.certain])

    def _columns(self) -> Mapping[str, Column | Sequence[object]]:
        labels = zip(*map(self._texts, self.entries), strict=True)
        columns: dict[str, Column | Sequence[object]] = {
            name: Column(texts, "text") for name, texts in zip(self.names, labels, strict=True)
        }
        for name in ("value", "low", "high"):
            columns[name] = Column([getattr(one, name) for one in self.entries], "number")
        for name in ("best", "worst"):
            columns[name] = Column([getattr(one, name) for one in self.entries], "integer")
        columns["certain"] = Column([one.certain for one in self.entries], "truth")
        return columns

    def _shown(self) -> Iterator[list[str]]:
        for one in self.entries:
            ranks = str(one.best) if one.best == one.worst else f"{one.best} to {one.worst}"
            certain = "yes" if one.certain else "no"
            yield [*self._texts(one), number_text(one.value), ranks, certain]

    def _texts(self, entry: Ranked) -> list[str]:
        pairs = zip(self.attributes, entry.labels, strict=True)
        return [attribute.text(attribute.index(label)) for attribute, label in pairs]

    @property
    def _header(self) -> list[str]:
        return [*self.names, "value", "rank", "certain"]

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return page(f"The first {len(self)} of {', '.join(self.names)}", html_of(self))

    def __repr__(self) -> str:
        more = len(self.possible) - len(self)
        rest = [f"{more:,} more may be among them"] if more else []
        return "\n".join([*lined_up([self._header, *self._shown()]), *rest])


@html_of.register
def _html_of_ranking(ranking: Ranking, /) -> str:
    rows = ranking._shown()  # pyright: ignore[reportPrivateUsage]  # of this module
    header = ranking._header  # pyright: ignore[reportPrivateUsage]  # of this module
    return table(header, rows, len(ranking))


def rank(
    attributes: tuple[Attribute, ...],
    values: Numbers,
    low: Numbers,
    high: Numbers,
    k: int,
    beta: float,
) -> Ranking:
    """The first k entries by their values, with the ranks that joint bounds of all allow.

    docs/explanation/proofs/groups.md
    """
    count, labels = to_count("k", k), list(values)
    if count > len(labels):
        raise InvalidArgument("k", f"at most {len(labels):,}, as there are entries", f"{count:,}")
    numbers = np.array(list(values.values()))
    least, most = np.array(list(low.values())), np.array(list(high.values()))
    size = len(labels)
    best = 1 + size - np.searchsorted(np.sort(least), most, side="right")
    worst = 1 + size - np.searchsorted(np.sort(most), least, side="right") - (most > least)
    # What is no number comes last.
    order: list[int] = np.argsort(-numbers, kind="stable").tolist()
    first = set(order[:count])
    entries = tuple([
        Ranked(
            labels[place],
            float(numbers[place]),
            float(least[place]),
            float(most[place]),
            int(best[place]),
            int(worst[place]),
            bool(worst[place] <= count),
        )
        for place in order[:count]
    ])  # fmt: skip
    possible = [place for place in order if place in first or best[place] <= count]
    return Ranking(attributes, entries, tuple([labels[place] for place in possible]), beta)
