"""What was or would be paid."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from attrs import field, frozen

from dpsdk.accounting import Guarantee
from dpsdk.accounting.filters.composition import Runs
from dpsdk.accounting.guarantee import GUARANTEE
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.codec import POSITIVE, Entry, ListOf, written
from dpsdk.errors import TooLarge

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
    """What was or would be paid: the guarantee of each run, none where nothing is paid.

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
        """Whether there is no run at all."""
        return not self.guarantees

    @property
    def free(self) -> bool:
        """Whether nothing is paid."""
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

    def __repr__(self) -> str:
        return f"Cost({self})"

    def __str__(self) -> str:
        paid: Counter[str] = Counter()
        for run, count in self.runs:
            if not run.free:
                paid[str(run)] += count
        runs = (text if count == 1 else f"{count:,} x {text}" for text, count in paid.items())
        return " + ".join(runs) or "nothing"
