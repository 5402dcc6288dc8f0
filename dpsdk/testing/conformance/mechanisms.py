"""The kit for mechanisms: its checks, in the order in which they are carried out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar, cast

from dpsdk._checks import described, shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Query
from dpsdk.testing.conformance import spending
from dpsdk.testing.conformance.bench import Bench
from dpsdk.testing.conformance.report import Check, Report, carried_out, to_waived

__all__ = ["CHECKS", "check_mechanism"]

F = TypeVar("F", bound=Form)

CHECKS: tuple[Check[Bench], ...] = (
    Check(
        "quotes-alike",
        True,
        "quotes and refusals were the same on all tables with the same public facts",
        spending.quotes_alike,
    ),
    Check(
        "quote-covers",
        True,
        "no opening and no answer was charged more than had been quoted",
        spending.quote_covers,
    ),
)

_NONE: Mapping[str, str] = MappingProxyType({})


def check_mechanism(
    mechanism: Mechanism[F],
    *queries: Query[object, F],
    domain: Domain | None = None,
    waived: Mapping[str, str] = _NONE,
    thorough: bool = False,
) -> Report:
    """Try a mechanism as a stranger would, and report on it.

    Parameters
    ----------
    mechanism
        What is checked, such as one of another author.
    queries
        What it is asked; made to fit it where there are none.
    domain
        The universe of the tables that are made for it, a small one; one of two attributes, "level"
        from 0 to 2 and "member", if left out.
    waived
        For checks that may fail the reason why, by name. Privacy checks cannot be waived: the
        mechanism does not conform then.
    thorough
        Whether to try more of everything, which takes some ten times as long.

    Returns
    -------
    Report
        The same for the same mechanism; print it, and ask whether it `conforms`.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be.
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", "a mechanism", shown(mechanism))
    for query in queries:
        if not isinstance(query, Query):
            raise InvalidArgument("queries", "queries", shown(query))
    if domain is not None and not isinstance(domain, Domain):
        raise InvalidArgument("domain", "a Domain", shown(domain))
    if type(thorough) is not bool:
        raise InvalidArgument("thorough", "True or False", shown(thorough))
    reasons = to_waived(waived, CHECKS)
    bench = Bench(
        cast("Mechanism[Form]", mechanism),
        cast("tuple[Query[object, Form], ...]", queries),
        domain,
        thorough=thorough,
    )
    results = tuple(carried_out(check, bench, reasons) for check in CHECKS)
    return Report(described(mechanism), results)
