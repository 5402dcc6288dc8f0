"""A stranger's query with an answer type of its own: nothing of dpsdk was changed for it."""

from __future__ import annotations

from attrs import frozen

from dpsdk import Domain
from dpsdk.forms import Facts, Kronecker, LinearForm, Prefix
from dpsdk.queries import LinearQuery
from dpsdk.typing import Floats, Label

__all__ = ["Median", "MedianAnswer"]


@frozen
class MedianAnswer:
    """A label that about half of the rows lie at or below, and the noisy share that does."""

    label: Label
    share: float


@frozen
class Median(LinearQuery[MedianAnswer]):
    """The median of an ordered attribute, read off its noisy thresholds."""

    attribute: str

    def lower(self, domain: Domain, /) -> LinearForm:
        size = domain[self.attribute].size
        return LinearForm(domain, [Kronecker.of(domain, {self.attribute: Prefix(size)})])

    def lift(self, raw: Floats, facts: Facts, /) -> MedianAnswer:
        rows = float(raw[-1]) if facts.rows is None else float(facts.rows)
        shares = raw / rows
        nearest = int(abs(shares - 0.5).argmin())
        return MedianAnswer(facts.domain[self.attribute].label(nearest), float(shares[nearest]))

    def scale(self, facts: Facts, /) -> float:
        return 1.0 if facts.rows is None else 1.0 / facts.rows
