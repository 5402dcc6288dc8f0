"""The kit for queries: its checks, in the order in which they are carried out."""

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
from dpsdk.testing.conformance import lifting, lowering, wording
from dpsdk.testing.conformance.questions import AnyQuery, Question
from dpsdk.testing.conformance.report import Check, Report, carried_out, to_waived
from dpsdk.wire import Catalogue

__all__ = ["QUERY_CHECKS", "check_query"]

F = TypeVar("F", bound=Form)

QUERY_CHECKS: tuple[Check[Question], ...] = (
    Check(
        "lowers-alike",
        True,
        "it asked the same each time, of equal universes, on whatever table, and as a copy",
        lowering.lowers_alike,
    ),
    Check(
        "reads-nothing",
        True,
        "it holds no table, session or kernel, and made the same of equal numbers on any table",
        lowering.reads_nothing,
    ),
    Check(
        "takes-in",
        True,
        "writing into what it was made of, and into numbers that it had lifted, changed nothing",
        lowering.takes_in,
    ),
    Check(
        "hands-out",
        True,
        "writing into its forms and answers changed none that came later",
        lowering.hands_out,
    ),
    Check(
        "lifts",
        False,
        "its answers were of one type, the same for the same numbers, and it wrote into none",
        lifting.lifts,
    ),
    Check(
        "spreads",
        False,
        "the truth lay within its bounds, however raw numbers were off",
        lifting.spreads,
    ),
    Check("written-form", False, "it came back equal from its written form", wording.written),
    Check(
        "typed-refusals",
        False,
        "it refused other universes by errors of the package, and met numbers that are NaN",
        wording.refuses_in_words,
    ),
    Check(
        "described",
        False,
        "its text is one short line that prints, the same each time and of a copy",
        wording.described_well,
    ),
)

_NONE: Mapping[str, str] = MappingProxyType({})


def check_query(
    query: Query[object, F],
    *,
    domain: Domain | None = None,
    using: Mechanism[F] | None = None,
    allow: Catalogue | None = None,
    waived: Mapping[str, str] = _NONE,
    thorough: bool = False,
) -> Report:
    """Try a query as a stranger would, and report on it.

    Parameters
    ----------
    query
        What is checked, such as one of another author.
    domain
        The universe of the tables that are made for it, a small one; one of two attributes, "level"
        from 0 to 2 and "member", if left out.
    using
        A mechanism that answers it; a built-in one if left out. Needed for forms of another
        author's kind.
    allow
        The catalogue that has its kind, for its written form.
    waived
        For checks that may fail the reason why, by name. Privacy checks cannot be waived: the
        query does not conform then.
    thorough
        Whether to try it with people who have several rows, too.

    Returns
    -------
    Report
        The same for the same query; print it, and ask whether it `conforms`.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be.

    >>> from dpsdk.queries import Marginal
    >>> check_query(Marginal("level", normalized=False)).conforms
    True
    """
    if not isinstance(query, Query):
        raise InvalidArgument("query", "a query", shown(query))
    if domain is not None and not isinstance(domain, Domain):
        raise InvalidArgument("domain", "a Domain", shown(domain))
    if using is not None and not isinstance(using, Mechanism):
        raise InvalidArgument("using", "a mechanism", shown(using))
    if allow is not None and not isinstance(allow, Catalogue):
        raise InvalidArgument("allow", "a Catalogue", shown(allow))
    if type(thorough) is not bool:
        raise InvalidArgument("thorough", "True or False", shown(thorough))
    reasons = to_waived(waived, QUERY_CHECKS)
    asked, answers = cast("AnyQuery", query), cast("Mechanism[Form] | None", using)
    bench = Question(asked, domain, answers, allow, thorough=thorough)
    results = tuple(carried_out(check, bench, reasons) for check in QUERY_CHECKS)
    return Report(described(query), results)
