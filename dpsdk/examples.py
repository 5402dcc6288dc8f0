"""Tables to try things on, a public one and made-up ones: ``from dpsdk import examples``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import MAXYEAR, date, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from random import Random
from typing import TypeAlias, cast

from dpsdk._checks import to_count, to_integer
from dpsdk.data import Neighbors, Outside, PrivateData
from dpsdk.domain import Attribute, Binned, Date, Domain, Integer, Number
from dpsdk.typing import Extra

__all__ = ["adult", "random"]

Value: TypeAlias = str | int | float | bool | date | None
"""A value of a table, as files and frames have it; None is one that is missing."""

_EXTRA_SHARE = 0.05


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


def random(domain: Domain, rows: int, *, seed: int = 0) -> dict[str, list[Value]]:
    """A made-up table of a domain, to try questions without data: lists of values by columns.

    All values are drawn evenly and independently, so no table is like it. An attribute that has
    cells for missing or for other values has them in one row of twenty each. The same arguments
    give the same table. It goes into `PrivateData.from_columns`, files, and the frames of all
    libraries: into those of polars with strict=False, if texts are among the other values.

    Parameters
    ----------
    domain
        What the values may be.
    rows
        How many rows there are.
    seed
        Which of the tables it is.

    Raises
    ------
    InvalidArgument
        If `rows` or `seed` is no whole number, or `rows` is negative.

    >>> from dpsdk import Boolean, Domain, Integer, examples
    >>> examples.random(Domain(Integer("age", 17, 90, missing=True), Boolean("member")), 3, seed=5)
    {'age': [26, 64, 51], 'member': [True, True, True]}
    """
    count, start = to_count("rows", rows), to_integer("seed", seed)
    return {one.name: _values(one, count, Random(f"{start} {one.name}")) for one in domain}  # noqa: S311


def _values(attribute: Attribute, count: int, source: Random) -> list[Value]:
    """Draw values of an attribute; each takes its numbers from a source that no version changes."""
    known, extras = attribute.known, attribute.extras
    bits = known.bit_length() + 53
    return [
        _value_of_extra(attribute, extras[place])
        if (place := int(source.random() / _EXTRA_SHARE)) < len(extras)
        else _value(attribute, source.getrandbits(bits) * known >> bits, source.random())
        for _ in range(count)
    ]


def _value(attribute: Attribute, cell: int, within: float) -> Value:
    if isinstance(attribute, Binned):
        low, high = attribute.edges[cell : cell + 2]
        return low + (high - low) * within
    return cast("Value", attribute.label(cell))


def _value_of_extra(attribute: Attribute, extra: Extra) -> Value:
    if extra is Extra.MISSING:
        return None
    if isinstance(attribute, Integer):
        return attribute.high + 1
    if isinstance(attribute, Number) and attribute.outside == "other":
        beyond = attribute.high + attribute.step
        return int(beyond) if attribute.whole else float(beyond)
    if isinstance(attribute, Date) and attribute.high.year < MAXYEAR:
        return attribute.high + timedelta(days=1)
    if isinstance(attribute, Binned):
        return 2 * attribute.edges[-1] - attribute.edges[0]
    return str(extra.value)


@contextmanager
def _file(name: str) -> Generator[Path]:
    """The path of a file of docs/examples, from an installed package or from its repository."""
    packaged = files("dpsdk") / "_examples" / name
    if packaged.is_file():
        with as_file(packaged) as path:
            yield path
    else:
        yield Path(__file__).parents[1] / "docs" / "examples" / name
