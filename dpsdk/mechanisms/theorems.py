"""What theorems promise: the error that so many rows allow, and the rows that an error takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpsdk import forms
from dpsdk._checks import require, shown, to_beta
from dpsdk._records import evolve
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.forms.gap import weight_range
from dpsdk.kernel import Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.base import Mechanism

__all__ = [
    "at_rows",
    "fewest_rows",
    "least_share",
    "not_promised",
    "promised_alpha",
    "promised_rows",
    "to_target",
]

_MOST_ROWS = 2**50


def promised_alpha(
    mechanism: Mechanism[Any], terms: Terms, query: Lowers[Any] | None, beta: float
) -> float | None:
    """The bound that a mechanism quotes: of a linear form as a share of the rows."""
    facts = facts_of(terms)
    if facts.rows is None:
        raise PublicSizeRequired(repr(mechanism), "what rows buy depends on their number")
    if query is None:
        raise InvalidArgument("query", "a query or a workload", shown(query))
    form = query.lower(facts.domain)
    error = mechanism.quote(form, terms).bound(to_beta(beta)).error  # in rows, of a linear form
    if not error < math.inf:
        return None
    if not isinstance(form, LinearForm):
        return error if isinstance(form, forms.ConvexForm) else None
    low, high = weight_range(form)
    share = error / max(facts.rows, 1)
    return share if share < high - low else None


def not_promised(alpha: float, least: float | None) -> InvalidArgument:
    """The refusal of an alpha, where `least` is the smallest that could be promised, if any."""
    expected = "larger than any excess can be, since nothing can be promised here"
    if least is not None:
        expected = f"at least {least * 1.0005:.4g}, the least that can be promised here"
    return InvalidArgument("alpha", expected, f"{alpha:g}")


def promised_rows(
    mechanism: Mechanism[Any],
    terms: Terms,
    query: Lowers[Any] | None,
    alpha: float | None,
    beta: float,
) -> int | None:
    """The rows from which on `promised_alpha` is at most alpha."""
    wanted, facts = to_target(alpha), facts_of(terms)
    if facts.rows is None:
        raise PublicSizeRequired(repr(mechanism), "its theorem is about a public number of rows")
    if query is None:
        raise InvalidArgument("query", "a query or a workload", shown(query))
    query.lower(facts.domain)  # which raises what is wrong with it

    def kept(of_rows: Terms) -> bool:
        try:
            least = promised_alpha(mechanism, of_rows, query, beta)
        except (InvalidArgument, ArithmeticError):
            return False
        return least is not None and least <= wanted

    return fewest_rows(kept, terms)


def to_target(alpha: float | None) -> float:
    """An error that is asked for."""
    expected = "the error to be promised, a positive number"
    require(isinstance(alpha, int | float) and 0 < alpha < math.inf, "alpha", expected, alpha)
    return float(alpha or 0)


def at_rows(terms: Terms, rows: int) -> Terms:
    """The same terms over a table of so many rows."""
    facts = terms.facts
    return evolve(terms, facts=Facts(
        facts.domain, facts.neighbors, rows, facts.outside, rows, facts.unit_rows
    ))  # fmt: skip


def fewest_rows(kept: Callable[[Terms], bool], terms: Terms) -> int | None:
    """The least number of rows at which something is kept, to a thousandth; None below 2^50."""
    high = 1
    while not kept(at_rows(terms, high)):
        high *= 4
        if high > _MOST_ROWS:
            return None
    low = high // 4
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        if kept(at_rows(terms, middle)):
            high = middle
        else:
            low = middle
    return high


def least_share(kept: Callable[[float], bool]) -> float | None:
    """The least error below 1 that is kept, to a thousandth; None if there is none."""
    high = 1 - 2.0**-20
    if not kept(high):
        return None
    low = 2.0**-40
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        if kept(middle):
            high = middle
        else:
            low = middle
    return high
