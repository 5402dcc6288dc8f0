"""A public table to try things on: ``from dpsdk import examples``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from dpsdk.data import Neighbors, Outside, PrivateData
from dpsdk.domain import Domain

__all__ = ["adult"]


def adult(
    *,
    name: str = "adult",
    neighbors: Neighbors | None = None,
    outside: Outside = "cell",
    max_rows: int | None = None,
    unit_rows: int = 1,
) -> PrivateData:
    """48,842 people of the United States census of 1994, as if they were private.

    The attributes are age (17 to 90), workclass, education, marital-status, race, sex, hours worked
    a week (1 to 99) and income (``"<=50K"`` or ``">50K"`` dollars a year). The table comes with the
    package and everybody may have it, so it is for learning and for tests. It is read anew by each
    call, which takes a moment.

    Parameters
    ----------
    name, neighbors, outside, max_rows, unit_rows
        What to declare of the table, as for `PrivateData.from_csv`.

    Raises
    ------
    DataError
        If there are more rows than `max_rows`.
    InvalidArgument
        If an argument is not as expected.

    References
    ----------
    Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi 10.24432/C5XW20, under
    CC BY 4.0.

    >>> from dpsdk import examples
    >>> examples.adult()
    PrivateData('adult', replace-one, 48,842 rows, 8 attributes)
    """
    with _file("adult-domain.json") as path:
        domain = Domain.load(path)
    with _file("adult.csv.gz") as path:
        return PrivateData.from_csv(
            path,
            domain,
            name=name,
            neighbors=neighbors,
            outside=outside,
            max_rows=max_rows,
            unit_rows=unit_rows,
        )


@contextmanager
def _file(name: str) -> Generator[Path]:
    """The path of a file of docs/examples, from an installed package or from its repository."""
    packaged = files("dpsdk") / "_examples" / name
    if packaged.is_file():
        with as_file(packaged) as path:
            yield path
    else:
        yield Path(__file__).parents[1] / "docs" / "examples" / name
