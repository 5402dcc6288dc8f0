"""How many persons there are, and how many different combinations of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsdk._records import frozen
from dpsdk.accuracy import Constrained, Constraint, Lifting
from dpsdk.codec import NAME, ListOf, written
from dpsdk.domain import Domain
from dpsdk.errors import QueryError
from dpsdk.forms import Facts, TallyForm
from dpsdk.queries.base import Query
from dpsdk.queries.conditions import listed
from dpsdk.queries.linear import to_names
from dpsdk.typing import Floats

__all__ = ["CountDistinct", "CountPersons"]


class _Tally(Query[float, TallyForm], Lifting[float]):
    """A query whose answer is the one number that was measured."""

    __slots__ = ()

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        del facts
        return float(raw[0])

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw, facts
        return radii

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[float, float]:
        return self.lift(raw - radii, facts), self.lift(raw + radii, facts)

    def span(self, facts: Facts, /) -> float:
        return math.inf if facts.rows is None else float(facts.rows)

    def constrained(
        self, constraint: Constraint, raw: Floats, facts: Facts, /
    ) -> Constrained[float]:
        if constraint == "nonnegative":
            return Constrained(max(self.lift(raw, facts), 0.0), raw.clip(min=0.0))
        return super().constrained(constraint, raw, facts)


@written("query.count-persons", {})
@frozen
class CountPersons(_Tally):
    """The number of persons of whom there is a row, in the domain or not; a float.

    One person moves it by one, however many rows of each are kept; so it is as exact as a count of
    rows where each person has one. It needs a table that was loaded with a `PrivacyUnit`, which
    tells persons apart. `Laplace` and `Gaussian` answer it.

    Raises
    ------
    QueryError
        When the query is asked, before anything is paid: if nothing tells persons apart. Ask
        `Count(normalized=False)` where each row is a person.

    >>> from dpsdk.queries import CountPersons
    >>> CountPersons()
    CountPersons()
    """

    def check(self, facts: Facts, /) -> None:
        if facts.person is None:
            reason = (
                "nothing tells the persons of this table apart; load it with "
                "unit=PrivacyUnit(...), or ask Count(normalized=False) if each row is a person"
            )
            raise QueryError(str(self), reason)
        if facts.periods is not None:
            reason = "of a table with periods, nobody is followed from one period to another"
            raise QueryError(str(self), reason)

    def lower(self, domain: Domain, /) -> TallyForm:
        return TallyForm(domain, None)


def _distinct(attributes: Sequence[str]) -> CountDistinct:
    return CountDistinct(*to_names(attributes))


@written("query.count-distinct", {"attributes": ListOf(NAME, least=1)}, take=_distinct)
@frozen(init=False, repr=False)
class CountDistinct(_Tally):
    """How many different combinations of labels of a few attributes some row has; a float.

    Rows outside the domain have none, nor have those with a missing value, or one that matches no
    label, in one of the attributes. The rows of one person move it by as many as they are, under
    both neighbour relations. `Laplace` and `Gaussian` answer it.

    The attributes may also come as one list.

    >>> from dpsdk.queries import CountDistinct
    >>> CountDistinct("age", "sex")
    CountDistinct('age', 'sex')
    """

    attributes: tuple[str, ...]

    def __init__(self, *attributes: str | Sequence[str]) -> None:
        first = attributes[0] if attributes else ()
        names = first if len(attributes) == 1 and isinstance(first, list | tuple) else attributes
        object.__setattr__(self, "attributes", to_names(names))

    def lower(self, domain: Domain, /) -> TallyForm:
        return TallyForm(domain, self.attributes)

    def span(self, facts: Facts, /) -> float:
        cells = math.prod([facts.domain[name].known for name in self.attributes])
        return min(float(cells), super().span(facts))

    def __repr__(self) -> str:
        return f"CountDistinct({listed(self.attributes, len(self.attributes))})"
