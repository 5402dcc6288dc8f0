"""Tasks and goals: what is to be planned, in public terms."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from dpsdk._checks import shown, to_finite
from dpsdk._records import define, field, frozen
from dpsdk.accounting.balance import Balance
from dpsdk.accuracy import Bound, HalfWidths
from dpsdk.codec import FLOAT, written
from dpsdk.errors import DpsdkError, InvalidArgument
from dpsdk.forms import Facts, Form, LinearForm
from dpsdk.forms.assumptions import Assumptions
from dpsdk.kernel import Terms
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Query
from dpsdk.queries.base import QUERY, lifting
from dpsdk.release import Quote
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.kernel import Limits

__all__ = ["Assumptions", "Goal", "Task", "to_error"]

_ROUNDING = 1e-9
_WIDE = Fraction(1, 1000)
"""An ε whose noise is so wide that no step of whole rows shows."""

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
F = TypeVar("F", bound=Form)
F_co = TypeVar("F_co", bound=Form, covariant=True)


def to_error(name: str, value: float) -> float:
    """Read a positive, finite error."""
    error = float(to_finite(name, value))
    if not error > 0:
        raise InvalidArgument(name, "a positive number", shown(value))
    return error


def _to_alpha(value: float) -> float:
    return to_error("alpha", value)


@written("goal", {"query": QUERY, "alpha": FLOAT})
@frozen
class Goal(Generic[A_co, F_co]):
    """A query, and `alpha`, the largest error of any entry of its answer, in the answer's unit."""

    query: Query[A_co, F_co]
    alpha: float = field(converter=_to_alpha)


@define(eq=False)
class Task(Generic[A, F]):
    """A query over a table of known facts, what may be spent on it, and what is believed of it."""

    query: Query[A, F]
    form: F
    terms: Terms
    balance: Balance
    beta: float
    assumptions: Assumptions = field(factory=Assumptions)
    limits: Limits | None = None

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self.terms.facts

    @property
    def delta(self) -> Fraction:
        """The δ of the whole budget."""
        return self.balance.budget.delta

    @cached_property
    def rows(self) -> int | None:
        """The number of rows where it is public or assumed."""
        return self.facts.rows if self.facts.rows is not None else self.assumptions.rows

    def bound(self, quote: Quote) -> Bound:
        """Return what is known of the error of an answer beforehand, in the answer's unit."""
        return quote.for_query(lifting(self.query), self.facts).bound(self.beta)

    def assumed(self, quote: Quote) -> Bound | None:
        """Return the bound that holds if the assumptions do; None where they add nothing."""
        whole = quote.for_query(lifting(self.query), self.facts, self.assumptions)
        return whole.assumed(self.beta)

    @property
    def assumes(self) -> tuple[str, ...]:
        """The assumptions, in words."""
        return self.assumptions.words(self.facts)

    @property
    def missing(self) -> tuple[str, ...]:
        """The keys of `assume=` that a bound needs and that were not given."""
        lift = lifting(self.query)
        needed = frozenset[str]() if lift is None else lift.presumes(self.facts)
        return tuple(sorted(key for key in needed if getattr(self.assumptions, key) is None))

    @property
    def span(self) -> float:
        """The largest difference between two possible answers, infinite where none is known."""
        lift = lifting(self.query)
        return np.inf if lift is None else lift.span(self.facts)

    @cached_property
    def scales(self) -> Floats | None:
        """The worth of one row of each raw number in the unit of the answer, of a linear query.

        None where errors of raw numbers do not just add up to those of the answer.
        """
        lift = lifting(self.query)
        if lift is None or lift.width != 1 or not isinstance(self.form, LinearForm):
            return None
        unknown, ones = np.full(self.form.rows, np.nan), np.ones(self.form.rows)
        once, twice = (lift.spread(unknown, factor * ones, self.facts) for factor in (1.0, 2.0))
        if once.shape != ones.shape or not np.isfinite(once).all() or not (once > 0).all():
            return None
        return once if np.allclose(twice, 2 * once, rtol=_ROUNDING, atol=0.0) else None

    @cached_property
    def plain_noise(self) -> float:
        """The median of the largest plain noise where sqrt(2ρ) is 1, in rows, of a linear query."""
        mechanisms: list[Laplace | Gaussian] = [Laplace(epsilon=_WIDE)]
        if self.balance.budget.delta:
            mechanisms.append(Gaussian(rho=_WIDE**2 / 2))
        medians: list[float] = []
        for mechanism in mechanisms:
            try:
                accuracy = mechanism.quote(self.form, self.terms).accuracy  # type: ignore[arg-type]  # see above
            except DpsdkError:
                continue
            if isinstance(accuracy, HalfWidths):
                medians.append(float(accuracy.radii(0.5, joint=True).max()) * float(_WIDE))
        return min(medians, default=math.inf)
