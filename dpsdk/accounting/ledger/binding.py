"""The binding of a ledger to a table, a budget, a filter, and a bound fixed beforehand."""

from __future__ import annotations

from typing import NamedTuple

from dpsdk._checks import shown
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.composition import COMPOSITION, STATE, Composition, State
from dpsdk.codec import FLAG, NAME, NATURAL, TEXT, Nested, OrNone, written
from dpsdk.errors import InvalidArgument, LedgerConflict, RecordError

__all__ = [
    "Binding",
    "Dataset",
    "PeriodsDataset",
    "PersonsDataset",
    "check_same",
    "check_written",
]


@written(
    "dataset.persons",
    {"name": TEXT, "neighbors": TEXT, "person": TEXT, "strip": FLAG},
    public=False,
)
class PersonsDataset(NamedTuple):
    """The table that a budget protects where a column tells persons apart.

    Neighbours have one person more, with any number of rows, so how many of them a session keeps is
    its own affair. Which identifiers are one person is not.

    Parameters
    ----------
    name, neighbors, person
        As of a `Dataset`.
    strip
        Whether identifiers are read without the white space around them.
    """

    name: str
    neighbors: str
    person: str
    strip: bool


@written(
    "dataset.periods",
    {"name": TEXT, "neighbors": TEXT, "person": TEXT, "strip": FLAG, "periods": NAME},
    public=False,
)
class PeriodsDataset(NamedTuple):
    """The table that a budget protects period by period.

    Neighbours differ by a row, or by all rows of a person, of one period. So it is bound for good
    how a row is told to be of a period, and how many rows of a person and a period a session keeps
    is its own affair.

    Parameters
    ----------
    name, neighbors, person, strip, periods
        As of a `Dataset`.
    """

    name: str
    neighbors: str
    person: str
    strip: bool
    periods: str


@written(
    "dataset",
    {"name": TEXT, "neighbors": TEXT, "unit_rows": NATURAL, "person": TEXT},
    public=False,
)
class Dataset(NamedTuple):
    """The table that a budget protects, as a session has it.

    Parameters
    ----------
    name
        The name of the table.
    neighbors
        Its neighbour relation, as `Neighbors` spells it.
    unit_rows
        How many rows one person may have, or keeps.
    person
        The column that tells persons apart, or nothing where each row is somebody's own.
    strip
        Whether identifiers are read without the white space around them.
    periods
        The rule by which a row is of a period, in words; nothing where the budget is one for all
        time.
    """

    name: str = ""
    neighbors: str = ""
    unit_rows: int = 1
    person: str = ""
    strip: bool = False
    periods: str = ""

    @property
    def bound(self) -> Dataset | PersonsDataset | PeriodsDataset:
        """The part that books are bound to: with a column of persons, all but their rows."""
        if self.periods:
            return PeriodsDataset(self.name, self.neighbors, self.person, self.strip, self.periods)
        if not self.person:
            return self
        return PersonsDataset(self.name, self.neighbors, self.person, self.strip)


@written(
    "binding",
    {
        "dataset": Nested[Dataset | PersonsDataset | PeriodsDataset](
            "a table", Dataset, PersonsDataset, PeriodsDataset
        ),
        "budget": Nested[Budget]("a budget", Budget),
        "composition": COMPOSITION,
        "start": STATE,
        "anytime": OrNone(Nested[Anytime]("an anytime bound", Anytime)),
    },
    public=False,
)
class Binding(NamedTuple):
    """The facts that books are bound to from their beginning on.

    Parameters
    ----------
    dataset
        What is protected. Books with a `Dataset` that has a column of persons began before there
        was a `PersonsDataset`, and stay bound to the rows of a person.
    budget
        What may be spent in all.
    composition
        The filter that decides what fits.
    start
        The filter's state when nothing was charged. Later versions may find a sharper limit; books
        keep to that with which they began.
    anytime
        A bound that was fixed before the first run, for readings.
    """

    dataset: Dataset | PersonsDataset | PeriodsDataset
    budget: Budget
    composition: Composition
    start: State
    anytime: Anytime | None = None


def check_written(composition: Composition) -> None:
    """Refuse a composition that a durable ledger could not write."""
    try:
        composition.to_record()
    except RecordError:
        expected = "one of dpsdk, since the ledger is durable and has to write it"
        raise InvalidArgument("composition", expected, shown(type(composition).__name__)) from None


def check_same(
    binding: Binding,
    dataset: Dataset,
    budget: Budget,
    composition: Composition | None,
    anytime: Anytime | None,
) -> None:
    """Refuse to go on with books that are bound to something else."""
    known = binding.dataset
    last: tuple[str, int, int]
    if isinstance(known, PersonsDataset | PeriodsDataset):
        last = ("strip of identifiers", known.strip, dataset.strip)
    else:
        last = ("rows of a person", known.unit_rows, dataset.unit_rows)
    for what, bound, asked in (
        ("dataset", known.name, dataset.name),
        ("periods", known.periods if isinstance(known, PeriodsDataset) else "", dataset.periods),
        ("neighbour relation", known.neighbors, dataset.neighbors),
        ("column of persons", known.person, dataset.person),
        last,
        ("budget", binding.budget, budget),
    ):
        if bound != asked:
            raise LedgerConflict(what, shown(bound), shown(asked))
    if composition is not None and composition != binding.composition:
        raise LedgerConflict("composition", shown(binding.composition), shown(composition))
    if anytime is not None and anytime != binding.anytime:
        raise LedgerConflict("anytime bound", shown(binding.anytime), shown(anytime))
