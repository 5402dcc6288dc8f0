"""Readers of audits: their reports by name, and what their claims leave to an attacker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias, cast

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.plots.asked import items_of
from dpsdk.testing.audit import SamplingReport, WorstCase

__all__ = ["Audit", "power", "to_reports"]

Audit: TypeAlias = WorstCase | SamplingReport
"""What an audit found."""

_ORDERS = (1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 64.0)


def to_reports(x: object) -> tuple[dict[str, WorstCase], dict[str, SamplingReport]]:
    """Reports by name, of one kind or the other."""
    expected = "a WorstCase or SamplingReport, or a sequence or mapping of such of one kind"
    if isinstance(x, WorstCase | SamplingReport):
        named: dict[str, object] = {_called(x): x}
    elif isinstance(x, Mapping):
        given = cast("Mapping[object, object]", x)
        named = {str(name): one for name, one in given.items()}
    else:
        items = items_of(x, expected)
        named = {f"{place}": one for place, one in enumerate(items, 1)}
    cases = {name: one for name, one in named.items() if isinstance(one, WorstCase)}
    samples = {name: one for name, one in named.items() if isinstance(one, SamplingReport)}
    if not named or max(len(cases), len(samples)) < len(named):
        raise InvalidArgument("x", expected, shown(x))  # pyright: ignore[reportUnknownArgumentType]  # whatever it is
    return cases, samples


def _called(report: Audit) -> str:
    return report.claimed if isinstance(report, WorstCase) else "test"


def power(report: WorstCase, beta: float) -> float | None:
    """The largest probability, under the claim, of finding a row by a test that errs with beta.

    Of pure claims by Wasserman and Zhou (2010), theorem 2.4, in both directions; of
    zero-concentrated ones since a test cannot raise a Rényi divergence. None of other claims.
    """
    if report.quantity in ("ε", "η"):
        epsilon = report.allowed
        if epsilon > 700:
            return 1.0
        return min(beta * math.exp(epsilon), 1 - (1 - beta) * math.exp(-epsilon))
    if report.quantity != "ρ":
        return None
    low, high = beta, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if any(_divergence(middle, beta, order) > report.allowed * order for order in _ORDERS):
            high = middle
        else:
            low = middle
    return high


def _divergence(first: float, second: float, order: float) -> float:
    """The Rényi divergence of two coins."""
    terms = [
        order * math.log(one) + (1 - order) * math.log(other)
        for one, other in ((first, second), (1 - first, 1 - second))
        if one > 0
    ]
    largest = max(terms)
    return (largest + math.log(sum(math.exp(term - largest) for term in terms))) / (order - 1)
