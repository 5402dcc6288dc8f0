"""The spent and the remaining budget, as an odometer shows them."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from dpsdk._records import frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.numbers import as_room, as_text, percentage
from dpsdk.codec import AMOUNT, FLOAT, NATURAL, TEXT, Nested, OrNone, written

__all__ = ["Asked", "Readings", "Remaining", "ScopeStatement", "Spent", "without_runs"]


class Asked(NamedTuple):
    """The reason of a charge: a question to a mechanism, or the opening of a channel to it.

    `number` tells the questions of a session apart; 0 belongs to none. `scope` is the scope that
    asked, empty for the session itself, and `request` the name of the request, if it has one.
    """

    query: str
    mechanism: str = ""
    number: int = 0
    scope: str = ""
    request: str | None = None

    def __str__(self) -> str:
        if self.query:
            return f"the question {self.query} to {self.mechanism}"
        return f"the opening of {self.mechanism}"


@written(
    "spent",
    {
        "fraction": FLOAT,
        "epsilon": OrNone(AMOUNT),
        "rho": AMOUNT,
        "delta": AMOUNT,
        "charges": NATURAL,
        "guarantee": Nested[Budget]("a budget", Budget),
        "of": TEXT,
    },
)
@frozen(repr=False)
class Spent:
    """The spending of a session.

    Parameters
    ----------
    fraction
        The share of the budget that is gone, from 0 to 1.
    epsilon
        The sum of the pure ε of all runs, if every run had one and none could leak; else None.
    rho
        The sum of the ρ of zCDP of all runs, leaks aside.
    delta
        The sum of the leaks.
    charges
        The number of runs.
    guarantee
        What the session keeps whatever is asked next. The other figures describe the runs so far;
        only this one holds when the moment of looking depends on the answers.
    of
        What `fraction` is a share of, where that is not the budget: a scope, or a part of a table.
    """

    fraction: float
    epsilon: Fraction | None
    rho: Fraction
    delta: Fraction
    charges: int
    guarantee: Budget
    of: str = ""

    def __str__(self) -> str:
        runs = "1 charge" if self.charges == 1 else f"{self.charges:,} charges"
        parts = [f"{percentage(self.fraction)} of {self.of or self.guarantee} in {runs}"]
        if self.epsilon is not None:
            parts.append(f"epsilon {as_text(self.epsilon)}")
        parts.append(f"rho {as_text(self.rho)}")
        if self.delta:
            parts.append(f"delta {as_text(self.delta)}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Spent({self})"


@frozen(repr=False)
class Remaining:
    """The budget that a session, scope or part can still spend, while nobody else is charged.

    Where that is closed, and in a forked process, no run fits: the sizes are 0, and `fraction`
    still tells what is left of the budget for others.

    Parameters
    ----------
    fraction
        The share of the budget that is left, from 0 to 1.
    epsilon
        The largest ε of one pure run that still fits, to nine digits or more, rounded down. While a
        scope has a reserve, it may be that a smaller run does not fit; `affords` tells.
    rho
        The largest ρ of one discrete Gaussian run that still fits. Exact where ρ adds up. In the
        Gaussian envelope, as in the default composition, what fits depends on how wide the noise
        is in steps of its lattice: a run of this ρ fits from 8 steps on. There up to 2.1% more may
        fit, or up to 5.3% from a squared shift of 4 on.
    kept_epsilon, kept_rho
        For a scope that has reserved its cap: the largest such runs that fit whatever others ask.
    """

    fraction: float
    epsilon: Fraction
    rho: Fraction
    kept_epsilon: Fraction | None = None
    kept_rho: Fraction | None = None

    def __str__(self) -> str:
        text = f"{percentage(self.fraction)}, {_room(self.epsilon, self.rho)}"
        if self.kept_epsilon is None or self.kept_rho is None:
            return text
        return f"{text}; whatever others ask, {_room(self.kept_epsilon, self.kept_rho)}"

    def __repr__(self) -> str:
        return f"Remaining({self})"


def _room(epsilon: Fraction, rho: Fraction) -> str:
    """The largest runs that fit; of smaller ones, several may."""
    sizes = {"epsilon": epsilon, "rho": rho}
    told = [f"{name} up to {as_room(size)}" for name, size in sizes.items() if size > 0]
    return f"room for one run of {' or of '.join(told)}" if told else "room for no run"


def without_runs(remaining: Remaining) -> Remaining:
    """The same where nothing is charged any more."""
    return Remaining(remaining.fraction, Fraction(0), Fraction(0))


@frozen
class ScopeStatement:
    """The spending of a scope, and the rest of its cap.

    Parameters
    ----------
    name
        The name of the scope.
    cap
        What it may spend at the most, in words.
    spent, remaining
        As the scope itself shows them.
    reserve
        Whether what its cap still allows is set aside.
    closed
        Whether nothing more may be charged to it, as it is closed or lies in a scope that is.
    """

    name: str
    cap: str
    spent: Spent
    remaining: Remaining
    reserve: bool
    closed: bool


@frozen(repr=False)
class Readings:
    """The cost of the runs so far, read in four ways.

    Parameters
    ----------
    delta
        The δ of the figures `level` and `declared`.
    always
        What the session keeps whatever is asked next. Needs no condition.
    anytime
        The ε of the odometer's `Anytime` bound, at the δ fixed there: it holds also if this moment
        was chosen by the answers. None without such a bound, or once a run may have leaked.
    level
        The ε of the sum of ρ: holds if it was settled beforehand to spend no more than that.
    declared
        The least ε of a `Declared` of the same runs: holds only if neither the runs nor their
        parameters were chosen by earlier answers.
    """

    delta: Fraction
    always: Budget
    anytime: float | None
    level: float
    declared: float

    def __repr__(self) -> str:
        anytime = "none" if self.anytime is None else f"{self.anytime:.5g}"
        return (
            f"Readings(always {self.always}; anytime epsilon {anytime};\n"
            f"    at delta {as_text(self.delta)}: level epsilon {self.level:.5g}, "
            f"declared epsilon {self.declared:.5g})"
        )
