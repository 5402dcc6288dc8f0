"""Scopes and partitions: a session within a session, under a cap or for a part of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from dpsdk._checks import shown
from dpsdk._html import table
from dpsdk._lifetime import Closable
from dpsdk._records import shows_half_made
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.data.part import Parts
from dpsdk.errors import Closed
from dpsdk.session.context import Context
from dpsdk.session.notebook import session_page
from dpsdk.session.periods import Periodic
from dpsdk.session.query_interface import QueryInterface
from dpsdk.typing import Label

__all__ = ["Part", "Partition", "Scope"]


@shows_half_made
@final
class Scope(Periodic, Closable):
    """Typed questions under a cap within a session's budget. Made by `session.scope(...)`.

    Its answers are in the session's history, and count on the session's budget as well as on the
    cap. A request that fits only one of them is refused. What was not spent was never charged, so
    that it stays with the session.

    What it has spent can be read after closing. A durable ledger shows nothing of it any more
    (`Closed`) once another scope has its name.
    """

    __slots__ = ("_payer",)

    def __init__(self, context: Context, payer: ScopeOdometer) -> None:
        super().__init__(context)
        self._payer = payer

    def close(self) -> None:
        """Answer nothing more, and give back what was reserved and not spent."""
        self._context.lifetime.end()
        self._payer.close()

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Charges nothing."""
        payer = self._payer
        return session_page(
            f"Scope {payer.scope!r}",
            self._context,
            lambda: (("cap", payer.cap), ("spent", self.spent), ("remaining", self.remaining)),
        )

    def __repr__(self) -> str:
        try:
            return f"Scope(spent {self.spent}; remaining {self.remaining})"
        except Closed:  # in a durable ledger, once its name is another scope's
            return "Scope(closed)"


@shows_half_made
@final
class Part(QueryInterface):
    """Typed questions to the rows of one label. Made by `partition[label]`.

    It answers as if there were no other rows in the domain: counts, sums and means are those of the
    part. A share is one of all rows of the table, and needs their number to be public. `spent` and
    `remaining` tell what counts for this part: its own charges, and the session's; where a row may
    move between parts, those of the dearest other part, too.
    """

    __slots__ = ("_called",)

    def __init__(self, context: Context, called: str) -> None:
        super().__init__(context)
        self._called = called

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Charges nothing."""
        return session_page(
            f"Part {self._called}",
            self._context,
            lambda: (("spent", self.spent), ("remaining", self.remaining)),
        )

    def __repr__(self) -> str:
        return f"Part({self._context.data!r}, spent {self.spent})"


@shows_half_made
@final
class Partition(Closable):
    """The parts of a table by the labels of one attribute. Made by `session.partition(...)`.

    Index it by a label. When it closes, what the parts cost together has become the session's.
    """

    __slots__ = ("_context", "_generation", "_known", "_parts")

    def __init__(self, context: Context, attribute: str) -> None:
        self._parts = Parts.by(context.data, attribute)
        self._context = context
        self._known: dict[int, Part] = {}
        self._generation = context.payer.generation()
        size, moves = self._parts.size, self._parts.moves
        try:
            # Parts and their channels keep the lifetime. Once all are gone, so is the division,
            # also if an interrupt comes between here and the caller.
            context.payer.divide(self._generation, size, moves=moves, owner=context.lifetime)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, label: Label) -> Part:
        """The rows of one label.

        Raises
        ------
        UnknownLabel
            If the attribute does not have it.
        Closed
            If the partition or the session is closed.
        """
        self._context.lifetime.check()
        cell = self._parts.cell(label)
        known = self._known.get(cell)
        return self._opened(cell) if known is None else known

    def _opened(self, cell: int) -> Part:
        data = self._parts.table(cell)
        whole = self._context.payer
        label = self._parts.attribute.text(cell)
        called = f"{shown(label)} of {shown(self._parts.name)}"
        payer = PartOdometer(whole, f"the part {called}", self._generation, cell)
        part = Part(self._context.part(data, payer, self._parts.name, cell), called)
        # Another thread may have opened it meanwhile; then both are in use, and one is kept.
        return self._known.setdefault(cell, part)

    def close(self) -> None:
        """Answer nothing more through any part. A second time it does nothing."""
        self._context.lifetime.end()
        self._context.payer.merge(self._generation)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Opens no part, and charges nothing."""
        known = dict(self._known)
        told = [("parts", f"{self._parts.size:,}"), ("asked", f"{len(known):,}")]
        return session_page(
            f"Partition by {self._parts.name!r}",
            self._context,
            told=told,
            below=lambda: table([self._parts.name, "spent"], self._rows(known), self._parts.size),
        )

    def _rows(self, known: dict[int, Part]) -> Iterator[tuple[str, object]]:
        """The label of each part, and what was spent of those that were asked."""
        for cell in range(self._parts.size):
            part = known.get(cell)
            yield self._parts.attribute.text(cell), "" if part is None else part.spent

    def __repr__(self) -> str:
        return f"Partition({self._parts.data!r}, by {self._parts.name})"
