"""The binding of a ledger to a table, a budget, a filter, and a bound fixed beforehand."""

from __future__ import annotations

from typing import NamedTuple

from dpsdk._checks import shown
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.composition import COMPOSITION, STATE, Composition, State
from dpsdk.codec import NATURAL, TEXT, Nested, OrNone, written
from dpsdk.errors import InvalidArgument, LedgerConflict, RecordError

__all__ = ["Binding", "Dataset", "check_same", "check_written"]


@written(
    "dataset",
    {"name": TEXT, "neighbors": TEXT, "unit_rows": NATURAL, "person": TEXT},
    public=False,
)
class Dataset(NamedTuple):
    """The table that a budget protects.

    Parameters
    ----------
    name
        The name of the table.
    neighbors
        Its neighbour relation, as `Neighbors` spells it.
    unit_rows
        How many rows one person may have.
    person
        The column that tells persons apart, or nothing where each row is somebody's own.
    """

    name: str = ""
    neighbors: str = ""
    unit_rows: int = 1
    person: str = ""


@written(
    "binding",
    {
        "dataset": Nested[Dataset]("a table", Dataset),
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
        What is protected.
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

    dataset: Dataset
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
    for what, bound, asked in (
        ("dataset", binding.dataset.name, dataset.name),
        ("neighbour relation", binding.dataset.neighbors, dataset.neighbors),
        ("column of persons", binding.dataset.person, dataset.person),
        ("rows of a person", binding.dataset.unit_rows, dataset.unit_rows),
        ("budget", binding.budget, budget),
    ):
        if bound != asked:
            raise LedgerConflict(what, shown(bound), shown(asked))
    if composition is not None and composition != binding.composition:
        raise LedgerConflict("composition", shown(binding.composition), shown(composition))
    if anytime is not None and anytime != binding.anytime:
        raise LedgerConflict("anytime bound", shown(binding.anytime), shown(anytime))
