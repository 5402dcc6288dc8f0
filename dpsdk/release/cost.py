"""Costs that were or would be paid."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from dpsdk._checks import shown, to_probability
from dpsdk._records import field, frozen
from dpsdk.accounting import ApproximateGuarantee, DiscreteGaussianGuarantee, Guarantee
from dpsdk.accounting.filters.composition import Runs
from dpsdk.accounting.guarantee import GUARANTEE, whole_of
from dpsdk.accounting.prices.claims import claim_holds
from dpsdk.accounting.prices.conversion import zcdp_epsilon
from dpsdk.accounting.prices.run import leak, pure_epsilon, zcdp_rho
from dpsdk.codec import POSITIVE, Entry, ListOf, written
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.typing import Real

__all__ = ["Cost"]

_LISTED = 2**20


def _to_runs(runs: Runs) -> tuple[tuple[Guarantee, int], ...]:
    merged: list[tuple[Guarantee, int]] = []
    for run in runs:
        guarantee, count = run if isinstance(run, tuple) else (run, 1)
        if merged and merged[-1][0] == guarantee:
            merged[-1] = (guarantee, merged[-1][1] + count)
        elif count:
            merged.append((guarantee, count))
    return tuple(merged)


RUNS = ListOf(Entry(guarantee=GUARANTEE, count=POSITIVE))
"""Guarantees, each with how often it was charged."""


@written("cost", {"runs": RUNS})
@frozen(repr=False)
class Cost:
    """A cost that was or would be paid: the guarantee of each run, none where nothing is paid.

    Parameters
    ----------
    runs
        Guarantees, in their order, or pairs of a guarantee and how many such runs follow each
        other. Kept as such pairs.
    """

    runs: tuple[tuple[Guarantee, int], ...] = field(default=(), converter=_to_runs)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantee of each run, in their order.

        Raises
        ------
        TooLarge
            If there are more than a million runs; `runs` counts equal ones.
        """
        count = sum(count for _, count in self.runs)
        if count > _LISTED:
            raise TooLarge("a list of all runs", count, _LISTED, "entries", "read runs")
        return tuple(run for run, count in self.runs for _ in range(count))

    @property
    def nothing(self) -> bool:
        """True if there is no run at all."""
        return not self.runs

    @property
    def free(self) -> bool:
        """True if nothing is paid."""
        return all(run.free for run, _ in self.runs)

    @property
    def epsilon(self) -> Fraction | None:
        """The sum of the pure ε of the runs, None if one of them has none."""
        total = Fraction(0)
        for run, count in self.runs:
            epsilon = pure_epsilon(run)
            if epsilon is None:
                return None
            total += epsilon * count
        return total

    @property
    def rho(self) -> Fraction:
        """The sum of the ρ of zero-concentrated privacy of the runs, leaks aside."""
        return sum((zcdp_rho(run) * count for run, count in self.runs), Fraction(0))

    def approximate(self, delta: Real | None = None) -> ApproximateGuarantee:
        """An (ε, δ) that is proven of all runs together, if all were fixed beforehand.

        The ε is the least of the sum of the pairs of the runs, which a Gaussian run has that was
        asked for by one, and of what their ρ certifies at this δ (Bun and Steinke 2016, in the form
        of Canonne, Kamath and Steinke 2020).

        Parameters
        ----------
        delta
            The δ, in [0, 1). The least for which the runs have a pair each, if left out: 0 where
            all are pure.

        Raises
        ------
        InvalidArgument
            If the runs have no such pair at this δ, or a Gaussian run none at all and `delta` is
            left out.

        >>> from dpsdk.accounting import PureGuarantee
        >>> from dpsdk.release import Cost
        >>> Cost((PureGuarantee("0.1"), PureGuarantee("0.2"))).approximate()
        ApproximateGuarantee(epsilon=Fraction(3, 10), delta=Fraction(0, 1))
        """
        pairs = [(_pair(run), count) for run, count in self.runs]
        known = [(*pair, count) for pair, count in pairs if pair is not None]
        whole = len(known) == len(pairs)
        least = sum((share * count for _, share, count in known), Fraction(0))
        if delta is None and not whole:
            raise InvalidArgument(
                "delta", "given, since a Gaussian run has no δ of its own", "none"
            )
        allowed = least if delta is None else to_probability("delta", delta, zero=True)
        bounds: list[Fraction] = []
        if whole and least <= allowed:
            bounds.append(sum((epsilon * count for epsilon, _, count in known), Fraction(0)))
        left = allowed - sum((leak(run) * count for run, count in self.runs), Fraction(0))
        if left > 0 and math.isfinite(epsilon := zcdp_epsilon(self.rho, left)):
            bounds.append(Fraction(epsilon))
        if not bounds:
            raise InvalidArgument("delta", "larger, for these runs to have an ε", shown(allowed))
        return ApproximateGuarantee(min(bounds), allowed)

    def __repr__(self) -> str:
        return f"Cost({self})"

    def __str__(self) -> str:
        paid: Counter[str] = Counter()
        for run, count in self.runs:
            if not run.free:
                paid[str(run)] += count
        runs = (text if count == 1 else f"{count:,} x {text}" for text, count in paid.items())
        return " + ".join(runs) or "nothing"


def _pair(run: Guarantee) -> tuple[Fraction, Fraction] | None:
    """The (ε, δ) of one run by itself; None of a Gaussian one that claims none."""
    run = whole_of(run)
    epsilon = pure_epsilon(run)
    if epsilon is not None:
        return epsilon, leak(run)
    return run.claim if isinstance(run, DiscreteGaussianGuarantee) and claim_holds(run) else None
