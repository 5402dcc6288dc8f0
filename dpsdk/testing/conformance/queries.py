"""The kit for queries: its checks, in the order in which they are carried out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TypeVar, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Query
from dpsdk.testing.conformance import lifting, lowering
from dpsdk.testing.conformance.bench import NOTHING, AnyQuery
from dpsdk.testing.conformance.questions import QueryBench
from dpsdk.testing.conformance.report import Check, Report, called, carried_out, to_waived
from dpsdk.wire import Catalogue

__all__ = ["QUERY_CHECKS", "check_query"]

F = TypeVar("F", bound=Form)

QUERY_CHECKS: tuple[Check[QueryBench], ...] = (
    Check(
        "lowers-alike", True, lowering.lowers_alike,
        "it asked the same each time, of equal universes, on whatever table, and as a copy",
    ),
    Check(
        "reads-nothing", True, lowering.reads_nothing,
        "it made the same of equal numbers on any table",
    ),
    Check(
        "takes-in", True, lowering.takes_in,
        "writing into what it was made of, and into numbers that it had lifted, changed nothing",
    ),
    Check(
        "lifts", False, lifting.lifts,
        "its answers were of one type, the same for the same numbers, and it wrote into none",
    ),
    Check(
        "spreads", False, lifting.spreads,
        "the truth lay within its bounds, however raw numbers were off",
    ),
    Check(
        "written-form", False, lowering.written,
        "it came back equal from its written form",
    ),
    Check(
        "typed-refusals", False, lowering.refuses_in_words,
        "it refused other universes by errors of the package, and met numbers that are NaN",
    ),
    Check(
        "described", False, lowering.described_well,
        "its text is one short line that prints, the same each time and of a copy",
    ),
)  # fmt: skip
"""The checks, in this order. Privacy rests on the first three."""


def check_query(
    query: Query[object, F],
    *,
    domain: Domain | None = None,
    using: Mechanism[F] | None = None,
    waived: Mapping[str, str] = NOTHING,
    thorough: bool = False,
    catalogue: Catalogue | None = None,
    trust: Mapping[str, str] = NOTHING,
) -> Report:
    """Try a query on many tables, and report on it.

    Parameters
    ----------
    query
        What is checked, such as one of another author.
    using
        A mechanism that answers it; a built-in one if left out. Needed for forms of another
        author's kind.
    domain, waived, catalogue, trust
        As for `check_mechanism`.
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
    if using is not None and not isinstance(using, Mechanism):
        raise InvalidArgument("using", "a mechanism", shown(using))
    reasons = to_waived(waived, QUERY_CHECKS)
    asked, answers = cast("AnyQuery", query), cast("Mechanism[Form] | None", using)
    # What is divided by a noisy nought is no finding, whatever was to be done about warnings.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bench = QueryBench(asked, answers, domain, catalogue, thorough=thorough, trust=trust)
        results = tuple(carried_out(check, bench, reasons) for check in QUERY_CHECKS)
        return Report(called(query), results, bench.advise())
