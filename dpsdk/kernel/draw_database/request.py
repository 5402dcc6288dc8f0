"""The primitive: one small database, drawn for a workload by the exponential mechanism.

Weights fall by exp(-epsilon s / 2) in a score s that neighbours move by one at the most, so that
the privacy losses of any two databases differ by at most epsilon: bounded range, and hence
epsilon-DP (docs/explanation/proofs/small-database.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpsdk._arrays import Lasting, frozen_integers
from dpsdk._checks import shown, to_amount
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accounting.guarantee import BoundedRangeGuarantee
from dpsdk.accuracy import HalfWidths, Standing
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler
from dpsdk.kernel.draw_database.bounds import DrawBound, to_size
from dpsdk.kernel.draw_database.choose import Limits, best_size, choose, covering_size
from dpsdk.kernel.draw_database.dimension import Dimension, dimension_if_given
from dpsdk.kernel.lattice import prepare_form
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import NoiseSource
from dpsdk.typing import Array, Floats, Ints, Real

__all__ = [
    "DatabaseAccuracy",
    "DrawDatabase",
    "DrawPricing",
    "SmallDatabase",
]


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


def _limits(value: Limits) -> Limits:
    if not isinstance(value, Limits):
        raise InvalidArgument("limits", "Limits, as in Limits(seconds=60)", shown(value))
    return value


def _fixed(covered: Array | None) -> Array | None:
    if covered is None:
        return None
    flags = np.asarray(covered, dtype=np.bool_).flatten()
    flags.flags.writeable = False
    return flags


def _alike(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


@frozen
class DatabaseAccuracy(HalfWidths):
    """Answers read off a small database: one bound for all functions of its workload at once.

    The bound holds for every table. It is of one event for all functions, so that no number pays
    for there being others. Of `entries` numbers those have it that are `covered`, all if left out:
    their functions are in the workload. Of others nothing is known. A dimension that was declared
    is told in `kind` with its reason, where the bound rests on it.
    """

    bound: DrawBound
    entries: int  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where others work it out
    covered: Array | None = field(
        default=None, converter=_fixed, eq=cmp_using(eq=_alike), hash=False
    )
    kind: str = field(init=False, default="")
    standing: Standing = field(init=False, default="proven")

    def __attrs_post_init__(self) -> None:
        kind = "exponential mechanism over small databases, for every table"
        if (assumed := self.bound.assumed) is not None:
            kind += f", given {assumed}"
        object.__setattr__(self, "kind", kind)

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows; infinite for functions that are not in the workload."""
        del joint  # all functions of the workload are within it together
        # A few roundings of floats lie between counts of records and counts of rows.
        error = math.nextafter(float(self.bound.error(beta)) * (1 + 2.0**-40), math.inf)
        radii = np.full(self.entries, error)
        if self.covered is not None:
            radii[~self.covered] = math.inf
        return radii

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why some number has no bound."""
        del beta
        others = 0 if self.covered is None else int((~self.covered).sum())
        why = (
            f"{others:,} of {self.entries:,} numbers are not in the workload of the small database"
        )
        return why, "read errors(beta), which has the bounds of the others"


@frozen(eq=False)
class SmallDatabase(Lasting):
    """A small database that was drawn, and is public from then on.

    `records` is an array (size, attributes) of cell numbers, for the attributes of the domain in
    its order, -1 throughout for a record outside. `bound` says how far off it may be in the
    functions of its workload.
    """

    records: Ints = field(converter=frozen_integers)
    bound: DrawBound


@frozen(eq=False)
class DrawPricing:
    """The draw that `draw_database` would make for a form, all public.

    `kind` says which sampler draws, `seconds` and `bytes` about what that takes.
    """

    guarantee: Guarantee
    _sampler: Sampler = field(repr=False)
    _entries: int = field(repr=False)

    @property
    def kind(self) -> str:
        """The kind of sampler that draws."""
        return self._sampler.kind

    @property
    def seconds(self) -> float:
        """About how long the draw takes."""
        return self._sampler.work().seconds

    @property
    def bytes(self) -> int:
        """About how much memory the draw takes."""
        return self._sampler.work().bytes

    @property
    def bound(self) -> DrawBound:
        """How far off the database may be in the functions of its workload."""
        return self._sampler.bound

    @property
    def accuracy(self) -> DatabaseAccuracy:
        """The same as an accuracy, of all functions of the workload."""
        return DatabaseAccuracy(self.bound, self._entries)

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> SmallDatabase:
        """Draw. How many records have which score follows from the table, so it is opened first."""
        records = self._sampler.draw(opened(), noise)
        return SmallDatabase(records, self.bound)


@frozen
class DrawDatabase(Request[SmallDatabase]):
    """One small database for a workload, by the exponential mechanism, drawn exactly.

    The run is `epsilon`-DP, with bounded range: for neighbours of as many rows as one person may
    have (Blum, Ligett and Roth 2008; McSherry and Talwar 2007; Dong, Durfee and Rogers 2020).

    Parameters
    ----------
    form
        The workload.
    size
        How many records, at most 2^20. Never make it depend on a private number of rows.
    epsilon
        From 1e-100 to 1e100.
    limits
        What the draw may take, as estimated from public facts.
    dimension
        What is known of the functions. Bounds may rest on it; neither the draw nor its price does.

    >>> from dpsdk import Domain, Integer, PrivateData
    >>> from dpsdk.kernel import DrawDatabase, Terms
    >>> from dpsdk.queries import Threshold, Workload
    >>> data = PrivateData.from_columns({"age": [39, 50] * 500}, Domain(Integer("age", 17, 90)))
    >>> workload = Workload(Threshold("age", t) for t in range(17, 91))
    >>> request = DrawDatabase(workload.lower(data.domain), size=10, epsilon=1)
    >>> price = request.price(Terms(data.facts))
    >>> print(price.kind, price.guarantee)
    thresholds 1-DP, bounded range
    """

    form: LinearForm
    size: int = field(converter=to_size)
    epsilon: Fraction = field(converter=_epsilon)
    limits: Limits = field(factory=Limits, converter=_limits)
    dimension: Dimension | None = field(default=None, converter=dimension_if_given)

    def price(self, terms: Terms, /) -> DrawPricing:
        """Price the draw. Public, spends nothing.

        Raises
        ------
        ExactSamplingInfeasible
            If no sampler can draw it exactly within the limits.
        InvalidArgument
            If the form does not fit the domain or is made of foreign classes, or if its weights are
            too large to be summed exactly.
        """
        facts = facts_of(terms)
        form = prepare_form(self.form, facts).form
        draw = DrawTerms(self.size, self.epsilon, facts, self.dimension)
        sampler = choose(form.apart(), draw, self.limits)
        return DrawPricing(BoundedRangeGuarantee(self.epsilon), sampler, form.rows)

    @classmethod
    def sized(
        cls,
        form: LinearForm,
        epsilon: Real,
        terms: Terms,
        *,
        alpha: Real | None = None,
        beta: float = 0.05,
        limits: Limits | None = None,
        dimension: Dimension | None = None,
    ) -> DrawDatabase:
        """A request with a size that is chosen from public facts.

        Parameters
        ----------
        form, epsilon, limits, dimension, terms
            As for the class, and the terms of the kernel that it is for.
        alpha
            How far off the best small database may be, as a share of the rows: the size is the
            fewest records for which that is proven. Without it, the size whose error is least.
        beta
            At which confidence that error is compared.

        Raises
        ------
        InvalidArgument
            If alpha is out of range, or neither it nor the number of rows is public.
        ExactSamplingInfeasible
            If no sampler is within the limits at any size.
        """
        facts = facts_of(terms)
        allowed, strength = _limits(limits or Limits()), _epsilon(epsilon)
        own = prepare_form(form, facts).form.apart()
        draw = DrawTerms(1, strength, facts, dimension_if_given(dimension))
        if alpha is None:
            size = best_size(own, draw, beta, allowed)
        else:
            size = covering_size(own, draw, alpha, allowed)
        return cls(form, size, strength, allowed, dimension)
