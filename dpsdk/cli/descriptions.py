"""Files that describe the tables beside them, in formats that others read."""

from __future__ import annotations

from collections.abc import Sequence

from dpsdk.cli.digits import Step
from dpsdk.cli.made import Made
from dpsdk.cli.request import Request
from dpsdk.cli.tables import TableFormat, header_of
from dpsdk.publication import About, Described, TableFile

__all__ = ["description_names", "descriptions_of"]

REGISTRY, CSVW, PACKAGE = "metadata.json", "csv-metadata.json", "datapackage.json"


def description_names(kind: TableFormat) -> tuple[str, ...]:
    """What the files are called that describe tables of a format."""
    return (REGISTRY, CSVW, PACKAGE) if kind == "csv" else (REGISTRY, PACKAGE)


def descriptions_of(
    request: Request, made: Made, names: Sequence[str], steps: Sequence[Step], about: About
) -> dict[str, Described]:
    """The descriptions by the names of their files: for the registry, and of the tables.

    Parameters
    ----------
    request, made
        What was asked for, and what was released.
    names, steps
        The file of each table, and the grid on which its numbers are written.
    about
        What whoever publishes them says.
    """
    metadata = made.release.metadata(float(request.beta))
    guards = request.kind == "csv"
    files = [
        TableFile(name, ("value", "error"), tuple(header_of(table, guards=guards)), guards=guards)
        for name, table in zip(names, made.release.value, strict=True)
    ]
    notes = () if all(step.places is None for step in steps) else (_ROUNDED,)
    # What a release says of its tables it says by itself.
    unit = f"Values and errors are {'numbers of rows' if request.counts else 'shares of the rows'}."
    described = {
        REGISTRY: metadata.to_registry(about, notes=(unit, *notes)),
        PACKAGE: metadata.to_datapackage(*files, about=about, notes=notes),
    }
    if request.kind == "csv":
        described[CSVW] = metadata.to_csvw(*files, about=about, notes=notes)
    return described


_ROUNDED = (
    "Values are rounded to a power of ten that is a tenth of their error at the most; the errors "
    "in the files include that."
)
