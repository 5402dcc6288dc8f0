"""Forms that count what is no sum over rows: persons, and different combinations of labels."""

from __future__ import annotations

from collections.abc import Sequence

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.codec import digest
from dpsdk.codec.text import Plain
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms.base import Form
from dpsdk.forms.facts import Facts

__all__ = ["TallyForm"]


def _to_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    kept = tuple(names)
    if not kept or len(set(kept)) < len(kept) or not all(type(name) is str for name in kept):
        raise InvalidArgument("names", "different names, at least one, or None", shown(kept))
    return kept


@frozen
class TallyForm(Form):
    """How many there are of something: one whole number from 0 to the number of rows.

    Parameters
    ----------
    domain
        The universe.
    names
        Attributes: counted are the combinations of their labels that some row has. None counts the
        persons of whom there is a row.
    """

    domain: Domain
    names: tuple[str, ...] | None = field(converter=_to_names)

    def __attrs_post_init__(self) -> None:
        for name in self.names or ():
            self.domain.position(name)  # which raises if there is none

    @property
    def rows(self) -> int:
        """The number of numbers."""
        return 1

    @property
    def identity(self) -> bytes:
        """The same for the same question of the universe, and for no other."""
        names: Plain = "persons" if self.names is None else [*sorted(self.names)]
        return bytes.fromhex(digest(["tally", self.domain.digest, names]))

    def move(self, facts: Facts) -> int:
        """How far the rows of one person can move it (docs/explanation/proofs/tally.md).

        Raises
        ------
        InvalidArgument
            If persons are to be counted where nothing tells them apart.
        """
        if self.names is not None:
            return facts.unit_rows
        if facts.person is None or facts.replaced:
            expected = "a table whose persons are told apart, by unit=PrivacyUnit(...)"
            raise InvalidArgument("form", expected, "one of rows")
        if facts.periods is not None:
            expected = "a table without periods, as nobody is followed from one to another"
            raise InvalidArgument("form", expected, "one of periods")
        return 1
