"""The kit for mechanisms: its checks, in the order in which they are carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Query
from dpsdk.testing.conformance import (
    meanings,
    moments,
    repeating,
    spending,
)
from dpsdk.testing.conformance.bench import NOTHING, MechanismBench
from dpsdk.testing.conformance.report import Check, Report, called, carried_out, to_waived
from dpsdk.wire import Catalogue

__all__ = ["CHECKS", "check_mechanism"]

F = TypeVar("F", bound=Form)

CHECKS: tuple[Check[MechanismBench], ...] = (
    Check(
        "quotes-alike", True, spending.quotes_alike,
        "quotes and refusals were the same on all tables with the same public facts",
    ),
    Check(
        "pays-first", True, spending.pays_first,
        "nothing was drawn before a charge, and what was not paid for told nothing",
    ),
    Check(
        "quote-covers", True, spending.quote_covers,
        "no opening and no answer was charged more than had been quoted",
    ),
    Check(
        "refusal-changes-nothing", True, spending.refusal_changes_nothing,
        "refusals were typed, and left books and later answers as if it had not been asked",
    ),
    Check(
        "refused-whole", True, spending.refused_whole,
        "it was refused whole at each number of its runs that fitted", spared=True,
    ),
    Check(
        "replays", True, repeating.replays,
        "with the same noise on a neighbour it drew, charged, logged and raised the same",
    ),
    Check(
        "threads", True, moments.threads,
        "asked from several threads it was charged what was quoted, and left no thread behind",
    ),
    Check(
        "interrupts", True, moments.interrupts,
        "interrupts came out at every line tried, and left the books whole",
    ),
    Check(
        "keeps-no-kernel", True, moments.keeps_no_kernel,
        "no kernel outlived its question",
    ),
    Check(
        "takes-in", True, meanings.takes_in,
        "what it was given stayed as it was, and cannot be changed in it afterwards",
    ),
    Check(
        "keeps-nothing", True, repeating.keeps_nothing,
        "what it did on a table did not depend on tables that it was asked of before",
    ),
    Check(
        "randomness", True, repeating.randomness,
        "seeded runs repeated, and no generator but the kernel's was drawn from",
    ),
    Check(
        "audit", True, repeating.enumerated,
        "on tiny tables the exact law of all that it tells was within what was charged",
        spared=True,
    ),
    Check(
        "frozen", False, meanings.frozen_value,
        "it is a frozen value, equal to its copies and to no other",
    ),
    Check(
        "bounds-cover", False, meanings.bounds_cover,
        "its bounds held as often as they say",
    ),
    Check(
        "types-and-shapes", False, meanings.types_and_shapes,
        "measurements were finite float64 of the right length, with bounds in order",
    ),
    Check(
        "written-form", False, meanings.written_form,
        "written as JSON and read again it was the same",
    ),
    Check(
        "metadata", False, meanings.metadata,
        "its name, texts, quotes and sources were complete",
    ),
    Check(
        "typed-refusals", False, meanings.typed_refusals,
        "what it does not take it refused by errors of dpsdk",
    ),
)  # fmt: skip
"""The checks, in this order. Privacy rests on the first thirteen."""


def check_mechanism(
    mechanism: Mechanism[F],
    *queries: Query[object, F],
    domain: Domain | None = None,
    waived: Mapping[str, str] = NOTHING,
    thorough: bool = False,
    catalogue: Catalogue | None = None,
    trust: Mapping[str, str] = NOTHING,
) -> Report:
    """Try a mechanism on many tables and moments, and report on it.

    Parameters
    ----------
    mechanism
        What is checked, such as one of another author.
    queries
        What it is asked; made to fit it where there are none.
    domain
        The universe of the tables that are made for it, of at most 65,536 cells, and better of a
        few; one of two attributes, "level" from 0 to 2 and "member", if left out.
    waived
        For checks that may fail the reason why, by name. Privacy checks cannot be waived: the
        mechanism does not conform then.
    thorough
        Whether to try more of everything, which takes several times as long.
    catalogue
        The kinds of written forms, with that of the mechanism; those of the package if left out.
    trust
        The classes of requests that it needs and that the caller vouches for, each with its proof,
        as `Session` takes them.

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
    reasons = to_waived(waived, CHECKS)
    # Queries lower to forms of the mechanism, which the bench does not tell apart.
    plain = cast("Mechanism[Form]", mechanism)
    asked = cast("tuple[Query[object, Form], ...]", queries)
    bench = MechanismBench(plain, asked, domain, catalogue, thorough=thorough, trust=trust)
    results = tuple([carried_out(check, bench, reasons) for check in CHECKS])
    return Report(called(mechanism), results, bench.advise())
