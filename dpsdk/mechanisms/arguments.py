"""Arguments that mechanisms have in common, read and written: totals, workloads, streams."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from dpsdk._checks import shown, to_amount, to_count, to_delta, to_flag, to_fraction
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.codec import AMOUNT, FLAG, INTEGER, NUMBER, Choice, Member, Nested, OrNone
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, Lowers
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise
from dpsdk.typing import Real

__all__ = [
    "BETA",
    "COUNT",
    "MAYBE",
    "NO",
    "QUERY",
    "SHARE",
    "TOTAL",
    "WHEN_SPENT",
    "ZERO",
    "WhenSpent",
    "check_total",
    "check_when_spent",
    "count_if_given",
    "describe_total",
    "epsilon_if_given",
    "forms_of",
    "noise_for",
    "rho_if_given",
    "share_if_given",
    "threshold_if_given",
    "to_epsilon",
    "to_prepaid",
    "to_queries",
    "to_workload",
    "to_zero_delta",
]

WhenSpent: TypeAlias = Literal["hypothesis", "raise"]
"""The behaviour of a stream where the budget has no room for another round."""

_LEAST_SHARE = Fraction(1, 10**12)

QUERY = Nested[object]("a query", "query")
ZERO = Member(AMOUNT, Fraction(0))
MAYBE = Member(OrNone(AMOUNT), None)
COUNT = Member(OrNone(INTEGER), None)
SHARE = Member(OrNone(NUMBER), None)
NO = Member(FLAG, False)
BETA = Member(NUMBER, 0.05)
WHEN_SPENT = Member(Choice[str]("hypothesis", "raise"), "hypothesis")
TOTAL: dict[str, object] = {"epsilon": MAYBE, "delta": ZERO, "rho": MAYBE}
"""How each is written."""


def to_epsilon(value: Real) -> Fraction:
    """Read an `epsilon=`."""
    return to_amount("epsilon", value)


def epsilon_if_given(value: Real | None) -> Fraction | None:
    """Read an `epsilon=` that may be left out."""
    return None if value is None else to_amount("epsilon", value)


def rho_if_given(value: Real | None) -> Fraction | None:
    """Read a `rho=` that may be left out."""
    return None if value is None else to_amount("rho", value)


def to_zero_delta(value: Real) -> Fraction:
    """Read a `delta=` that may be zero."""
    return to_delta(value, zero=True)


def check_total(
    mechanism: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> None:
    """Refuse a total that is not given as ε, as ε and δ, or as ρ alone."""
    if (epsilon is None) == (rho is None) or (rho is not None and delta):
        given = {"epsilon": epsilon, "delta": delta or None, "rho": rho}
        names = [name for name, value in given.items() if value is not None]
        expected = "given as epsilon, as epsilon and delta, or as rho alone"
        raise InvalidArgument(mechanism, expected, ", ".join(names) or "nothing")


def gaussian_for(epsilon: Fraction, delta: Fraction) -> GaussianNoise:
    """Gaussian noise by the largest ρ that is certified for an (ε, δ), which it must have."""
    certified = claim_rho(epsilon, delta)
    if not certified:
        expected = "large enough that some rho implies this guarantee"
        got = f"epsilon={float(epsilon):g}, delta={float(delta):g}"
        raise InvalidArgument("epsilon and delta", expected, got)
    return GaussianNoise(certified, (epsilon, delta))


def noise_for(
    mechanism: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> Noise:
    """Laplace noise for a pure ε, Gaussian noise for an (ε, δ) or a ρ."""
    check_total(mechanism, epsilon, delta, rho)
    if rho is not None:
        return GaussianNoise(rho)
    whole = epsilon or Fraction(0)
    return gaussian_for(whole, delta) if delta else LaplaceNoise(whole)


def describe_total(epsilon: Fraction | None, delta: Fraction, rho: Fraction | None) -> str:
    """The arguments of a total, as they are written."""
    if rho is not None:
        return f"rho={float(rho):g}"
    shown_epsilon = f"epsilon={float(epsilon or 0):g}"
    return f"{shown_epsilon}, delta={float(delta):g}" if delta else shown_epsilon


def to_workload(value: Lowers[LinearForm]) -> Lowers[LinearForm]:
    """Read a `workload=`: anything that lowers to a form."""
    # Texts have a method of that name, too.
    if isinstance(value, type | str | bytes | bytearray) or not callable(
        getattr(value, "lower", None)
    ):
        expected = "a query or a workload, which lowers to a linear form"
        raise InvalidArgument("workload", expected, shown(value))
    return value


@runtime_checkable
class _InParts(Protocol):
    """A workload that lowers query by query, and so may ask for more numbers than one form."""

    def forms(self, domain: Domain, /) -> Iterator[LinearForm]: ...


def forms_of(workload: Lowers[LinearForm], domain: Domain) -> Iterator[LinearForm]:
    """The forms of a workload, one a query where it has several; refuse other than linear ones."""
    found = workload.forms(domain) if isinstance(workload, _InParts) else [workload.lower(domain)]
    for form in found:
        if not isinstance(form, LinearForm):
            expected = "a query or a workload of linear queries, such as marginals"
            raise InvalidArgument("workload", expected, shown(workload))
        yield form


def share_if_given(parameter: str, value: float | None) -> float | None:
    """A number strictly between 0 and 1, if there is one."""
    if value is None:
        return None
    expected = "a number strictly between 0 and 1, and at least 1e-12"
    number = to_fraction(parameter, value, expected)
    if isinstance(value, str) or not _LEAST_SHARE <= number < 1:
        raise InvalidArgument(parameter, expected, shown(value))
    return float(number)


def count_if_given(parameter: str, value: int | None) -> int | None:
    """A positive integer, if there is one."""
    return None if value is None else to_count(parameter, value)


def to_prepaid(value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    """Read a `prepaid=`."""
    return to_flag("prepaid", value)


def to_queries(value: int | None) -> int | None:
    """Read a `queries=` that may be left out."""
    return count_if_given("queries", value)


def threshold_if_given(value: float | None) -> float | None:
    """Read a `threshold=` that may be left out."""
    return share_if_given("threshold", value)


def check_when_spent(value: WhenSpent) -> None:
    """Refuse a `when_spent=` of another kind."""
    if not isinstance(value, str) or value not in ("hypothesis", "raise"):
        raise InvalidArgument("when_spent", '"hypothesis" or "raise"', shown(value))
