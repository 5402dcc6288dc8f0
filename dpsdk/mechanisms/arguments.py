"""Arguments of mechanisms: how they are read, written and refused."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from dpsdk import forms
from dpsdk._checks import shown, to_amount, to_count, to_delta, to_flag, to_fraction
from dpsdk._records import field, frozen
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.codec import AMOUNT, FLAG, INTEGER, NUMBER, Choice, Member, Nested, OrNone
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import LinearForm, Lowers
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Noise
from dpsdk.typing import Real

__all__ = [
    "BETA",
    "COUNT",
    "HasTotal",
    "MAYBE",
    "NO",
    "QUERY",
    "SHARE",
    "TOTAL",
    "WHEN_SPENT",
    "WhenSpent",
    "ZERO",
    "check_convex",
    "check_gap",
    "check_linear",
    "check_shares",
    "check_when_spent",
    "count_if_given",
    "epsilon_if_given",
    "forms_of",
    "gaussian_for",
    "implying",
    "in_words",
    "in_words_of",
    "rho_if_given",
    "share_if_given",
    "threshold_if_given",
    "to_epsilon",
    "to_prepaid",
    "to_queries",
    "to_workload",
    "to_zero_delta",
]

_NOISE = frozenset({"scale", "variance", "threshold_epsilon", "query_epsilon", "threshold", "rho"})
"""The kernel's names of the parameters that follow from those of a mechanism."""


def in_words(error: InvalidArgument, **given: Fraction | None) -> InvalidArgument:
    """The error of the kernel, in terms of the parameters that the mechanism was given."""
    if error.parameter not in _NOISE:
        return error
    known = {name: value for name, value in given.items() if value}
    expected = "larger, since noise for so little privacy loss does not fit 64-bit integers"
    return InvalidArgument(
        " and ".join(known), expected, ", ".join(f"{float(value):g}" for value in known.values())
    )


@contextmanager
def in_words_of(**given: Fraction | None) -> Generator[None]:
    """Raise errors of the kernel in terms of these parameters."""
    try:
        yield
    except InvalidArgument as error:
        raise in_words(error, **given) from None


def check_linear(form: object, mechanism: str) -> None:
    """Refuse what is no linear query, before anything is paid."""
    if isinstance(form, LinearForm):
        return
    if isinstance(form, forms.GapForm):
        reason = f"asks whether something is above a level; open NumericSparse for it, {mechanism} "
        raise QueryError("", f"{reason}answers counts, shares, sums and tables")
    if isinstance(form, forms.ConvexForm | forms.ConvexForms):
        reason = "asks for a model, which PrivateMinimizer answers, and channels with a"
        distribution = "distribution, as those of MWEM and SmallDB"
        raise QueryError("", f"{reason} {distribution}; {mechanism} itself answers linear queries")
    if isinstance(form, forms.TallyForm):
        reason = "counts persons or different combinations, which Laplace and Gaussian answer"
        raise QueryError("", f"{reason}; {mechanism} answers linear queries only")
    raise QueryError("", f"{mechanism} answers linear queries only")


def check_gap(form: object, mechanism: str) -> None:
    """Refuse what does not ask for a level. Raises as `check_linear` does."""
    if not isinstance(form, forms.GapForm):
        reason = f"{mechanism} answers Above and NumericAbove, as in Above(query, level)"
        raise QueryError("", reason)


def check_convex(form: object, mechanism: str) -> None:
    """Refuse what does not ask for a model. Raises as `check_linear` does."""
    if not isinstance(form, forms.ConvexForm):
        raise QueryError(
            "", f"{mechanism} answers ConvexMinimization alone, which asks for a model"
        )


def check_shares(form: LinearForm, mechanism: str, *, signed: bool = True) -> None:
    """Refuse weights other than from 0, or from -1, to 1. Raises as `check_linear` does."""
    check_linear(form, mechanism)
    low, high = form.limits
    if low < -signed or high > 1:
        reason = (
            f"{mechanism} answers queries that count rows, or weigh them from {-signed:d} to 1, "
            "such as Count, Threshold, Interval, Conjunction, Marginal and Linear; this one weighs "
            f"them from {low:g} to {high:g}, so ask it of Laplace or Gaussian"
        )
        raise QueryError("", reason)


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


def gaussian_for(epsilon: Fraction, delta: Fraction) -> GaussianNoise:
    """Gaussian noise by the largest ρ that is certified for an (ε, δ), which it must have."""
    return GaussianNoise(implying(claim_rho, epsilon, delta), (epsilon, delta))


def implying(
    price: Callable[[Fraction, Fraction], Fraction], epsilon: Fraction, delta: Fraction
) -> Fraction:
    """The ρ of an (ε, δ) by a price of it, which must not be zero."""
    rho = price(epsilon, delta)
    if not rho:
        expected = "large enough that some rho implies this guarantee"
        got = f"epsilon={float(epsilon):g}, delta={float(delta):g}"
        raise InvalidArgument("epsilon and delta", expected, got)
    return rho


@frozen(repr=False, kw_only=True)
class HasTotal:
    """A mechanism that takes a total: a pure ε, an (ε, δ), or a ρ of zCDP."""

    epsilon: Fraction | None = field(default=None, converter=epsilon_if_given)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta)
    rho: Fraction | None = field(default=None, converter=rho_if_given)

    def __attrs_post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.rho is not None and self.delta):
            names = [name for name, value in self._given.items() if value is not None]
            expected = "given as epsilon, as epsilon and delta, or as rho alone"
            raise InvalidArgument(type(self).__name__, expected, ", ".join(names) or "nothing")

    def _noise(self) -> Noise:
        """Laplace noise for a pure ε, Gaussian noise for an (ε, δ) or a ρ."""
        if self.rho is not None:
            return GaussianNoise(self.rho)
        whole = self.epsilon or Fraction(0)
        return gaussian_for(whole, self.delta) if self.delta else LaplaceNoise(whole)

    @property
    def _pure(self) -> bool:
        """True if it is a pure ε."""
        return self.rho is None and not self.delta

    @property
    def _given(self) -> dict[str, Fraction | None]:
        return {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self.rho}

    def _in_words(self) -> AbstractContextManager[None]:
        """Put refusals of the kernel into these parameters."""
        return in_words_of(**self._given)

    @property
    def _total(self) -> str:
        """The total as it is written in code."""
        given = [f"{name}={float(value):g}" for name, value in self._given.items() if value]
        return ", ".join(given)


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
