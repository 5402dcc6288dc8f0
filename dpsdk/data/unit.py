"""The person that a table protects where its rows say whose they are, however many rows."""

from __future__ import annotations

from dpsdk._checks import to_count, to_flag, to_name
from dpsdk._records import field, frozen
from dpsdk.codec import FLAG, NAME, POSITIVE, Member, written

__all__ = ["PrivacyUnit"]


def _to_column(value: str) -> str:
    return to_name("column", value)


def _to_max_rows(value: int) -> int:
    return to_count("max_rows", value)


def _to_distinct(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("distinct", value)


@written("unit", {"column": NAME, "max_rows": POSITIVE, "distinct": Member(FLAG, False)})
@frozen
class PrivacyUnit:
    """A person, told by the column of identifiers, of whom at most `max_rows` rows are kept.

    Who has more rows is cut to `max_rows` of them when the table is loaded, before anything is
    counted. Which ones is decided by that person's own rows and identifier, and by nothing else in
    the table: a fixed public rule that draws no cell more often than another. So two tables of
    which one has a person more, with any number of rows, differ in at most `max_rows` rows once
    they are loaded, and what is released protects that person at the price that is shown
    (docs/explanation/proofs/unit.md). How many rows and how many people there are is private.

    An identifier is an integer or a text. It is compared exactly as it is, but for these: an
    integer is the same as the text of its digits, and `strip=True` of a loader drops white space
    around it. A row whose identifier is missing (null, an empty text, nan or NaN) is left out,
    since nobody can say whose it is; so is one with a float that need not be one integer, and one
    with an integer from 2**53 on in a column of numpy's types, which a null would make floats of.
    The column may be an attribute of the domain, too.

    Parameters
    ----------
    column
        The name of the column of identifiers: one for each person, and no two people share one.
    max_rows
        How many rows of a person are kept at the most. Noise grows in proportion, so it should be
        small; and it must not be read off the table, whose row counts are private, but may be
        bought by `Discovery.rows_per_person`.
    distinct
        Whether rows of one person that fall into one cell of the domain count once. Then at most
        `max_rows` different cells are kept of a person, each once.

    >>> from dpsdk import Domain, Integer, PrivacyUnit, PrivateData
    >>> visits = {"who": ["a", "a", "a", "b"], "age": [39, 39, 40, 62]}
    >>> domain = Domain(Integer("age", 17, 90))
    >>> data = PrivateData.from_columns(visits, domain, unit=PrivacyUnit("who", max_rows=2))
    >>> data.facts.unit
    "a person by 'who', of whom up to 2 rows are kept"
    """

    column: str = field(converter=_to_column)
    max_rows: int = field(converter=_to_max_rows, kw_only=True)
    distinct: bool = field(default=False, converter=_to_distinct, kw_only=True)
