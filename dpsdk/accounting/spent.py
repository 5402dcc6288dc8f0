"""What was spent, what remains, and who paid: the figures of an odometer for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from dpsdk._checks import shown, to_name
from dpsdk._records import field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.composition import Composition
from dpsdk.accounting.filters.divergence import divergence_cap
from dpsdk.accounting.guarantee import Guarantee, GuaranteeByPeriod
from dpsdk.accounting.ledger.books import Books, find_account, lines_of
from dpsdk.accounting.ledger.charge import SESSION, Charge
from dpsdk.accounting.ledger.lines import Line
from dpsdk.accounting.ledger.timeline import EVER
from dpsdk.accounting.numbers import (
    LEAK_STEPS,
    as_room,
    as_text,
    float_up,
    fraction_up,
    from_steps,
    percentage,
)
from dpsdk.accounting.prices.conversion import zcdp_epsilon
from dpsdk.accounting.prices.run import prices_of
from dpsdk.codec import AMOUNT, FLOAT, NATURAL, TEXT, Nested, OrNone, written
from dpsdk.errors import InvalidArgument

__all__ = [
    "Around",
    "Asked",
    "Moment",
    "Payment",
    "Readings",
    "Remaining",
    "ScopeStatement",
    "Spent",
    "Trusted",
    "Witness",
    "least_of",
    "moment_of",
    "readings_of",
    "scope_line",
    "spent_of",
    "told_in",
    "without_runs",
]


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


def spent_of(
    composition: Composition, lines: Sequence[Line], charges: int, guarantee: Budget, of: str
) -> Spent:
    """Sum up the spending in so many charges: of several lines the largest of each figure."""
    sizes = [line.epsilon for line in lines]
    known = [size for size in sizes if size is not None]
    states = [line.state for line in lines]
    return Spent(
        fraction=max(map(composition.fraction, states)),
        epsilon=from_steps(max(known)) if len(known) == len(sizes) else None,
        rho=from_steps(max(line.rho for line in lines)),
        delta=max(map(composition.leaked, states)),
        charges=charges,
        guarantee=guarantee,
        of=of,
    )


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


def least_of(parts: Sequence[Remaining]) -> Remaining:
    """The rest for what has to fit all of some kinds of neighbours: of each figure the least."""
    kept = [(one.kept_epsilon, one.kept_rho) for one in parts]
    return Remaining(
        min(one.fraction for one in parts),
        min(one.epsilon for one in parts),
        min(one.rho for one in parts),
        min((epsilon for epsilon, _ in kept if epsilon is not None), default=None),
        min((rho for _, rho in kept if rho is not None), default=None),
    )


def told_in(charges: Iterable[Charge], period: int) -> list[Guarantee]:
    """What is proven of the runs that touched a period, of neighbours that differ in it."""
    told: list[Guarantee] = []
    for charge in charges:
        first, last = charge.payer.periods or EVER
        if not first <= period <= last:
            continue
        run = charge.guarantee
        parts = run.parts if isinstance(run, GuaranteeByPeriod) else ((first, last, run),)
        told += [part for low, high, part in parts if low <= period <= high]
    return told


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


def readings_of(
    line: Line,
    kinds: Iterable[Sequence[Guarantee]],
    always: Budget,
    bound: Anytime | None,
    level: Fraction,
) -> Readings:
    """Read the cost of runs at one δ; see `Readings`.

    There are those that each kind of neighbours was told, and a line that bounds all of them.
    """
    from dpsdk.accounting.declared.runs import declare  # noqa: PLC0415  # for readings alone

    rho = from_steps(line.rho)
    lists = [declare(runs) for runs in kinds]
    steps = [sum(prices_of(run).leak_steps * times for run, times in one.runs) for one in lists]
    leaks = from_steps(max(steps), LEAK_STEPS)
    summed = zcdp_epsilon(rho, level - leaks) if leaks < level else math.inf
    known = max(one.epsilon(level) for one in dict.fromkeys(lists))
    # What the session keeps in any case bounds what a figure at no smaller δ may say.
    cap = float_up(fraction_up(always.epsilon))
    if level >= always.delta:
        summed, known = min(summed, cap), min(known, cap)
    anytime = None
    if bound is not None and not leaks:
        anytime = bound.epsilon(rho)
        anytime = min(anytime, cap) if bound.delta >= always.delta else anytime
    return Readings(level, always, anytime, summed, known)


Around: TypeAlias = tuple[Books, Books]
"""Books before and after some charges."""

Witness: TypeAlias = Callable[[Books, Books], object]
"""Told of books before and after some charges."""


class Moment(NamedTuple):
    """The sum of all runs of a session at one moment."""

    lines: tuple[Line, ...]
    charges: int


def moment_of(books: Books, periods: tuple[int, int] | None = None) -> Moment:
    """The sum of the runs in some books for the whole session, or for a range of periods."""
    return Moment(lines_of(books, SESSION._replace(periods=periods)), books.runs)


def scope_line(books: Books, name: str) -> Line | None:
    """The sum of the runs of the open scope of a name; None if there is none."""
    number = find_account(books, name)
    return None if number is None else books.accounts[number].furthest


def _dotted(value: str) -> str:
    name = to_name("trust", value)
    parts = name.split(".")
    if len(parts) == 1 or not all(map(str.isidentifier, parts)):
        raise InvalidArgument("trust", "dotted names of classes, as 'acme.Peek'", shown(name))
    return name


def _argued(value: str) -> str:
    return to_name("proof", value) if value != "" else ""


@written("trusted", {"name": TEXT, "proof": TEXT})
@frozen
class Trusted:
    """A class of requests of another author, taken at its word since somebody vouches for it.

    Parameters
    ----------
    name
        The dotted name of the class.
    proof
        Where it is argued that its runs have the guarantee they are charged for: an address, a
        path, or the argument itself, in at most 1,000 characters. Empty where whoever tells of it
        did not vouch for the class, as for a stored answer of another session.
    """

    name: str = field(converter=_dotted)
    proof: str = field(default="", converter=_argued)


@frozen(eq=False, repr=False)
class Payment:
    """The payer of an answer, the rules, and the rest of the budget.

    Public, as what was spent always is. Summed up when somebody asks, and a value of its own: it
    does not change when more is spent.

    Parameters
    ----------
    table
        The name of the table, or of the part of it, that was asked.
    account
        The name of the scope that paid; empty where the session itself did.
    by
        The mechanism that was asked.
    trusted
        Whose word the answer rests on, beside the theorems of the package: the trusted classes of
        other authors that ran for it, or for what its channel had learnt before.
    """

    table: str
    account: str
    by: object
    _composition: Composition
    _budget: Budget
    _before: Moment | None = None
    _after: Moment | None = None
    trusted: tuple[Trusted, ...] = ()
    _scope: Line | None = None

    @property
    def payer(self) -> str:
        """The scope or the session that paid, in words."""
        return f"scope {self.account!r}" if self.account else "the session"

    @property
    def composition(self) -> Composition:
        """How costs add up in the session."""
        return self._composition

    @property
    def budget(self) -> Budget:
        """The whole budget of the session."""
        return self._budget

    @property
    def before(self) -> Spent | None:
        """The spending of that budget, by all on the ledger, when it was charged first.

        None where nothing was charged this time: for an answer that was free, or is given again.
        """
        return self._spent(self._before)

    @property
    def after(self) -> Spent | None:
        """The spending when it was charged last. None as for `before`."""
        return self._spent(self._after)

    @property
    def divergence(self) -> Fraction | None:
        """The most that all answers so far tell of one row in nats, fixed before the first charge.

        The limit of a filter that has accepted all of them, and not what they came to; of a scope
        that paid, the limit of its cap for all that it paid for. None where no theorem gives one,
        where a run may have leaked, and where nothing was charged this time.
        """
        moment, composition = self._after, self._composition
        if moment is None or (self.account and self._scope is None):
            return None
        lines = moment.lines if self._scope is None else (self._scope,)
        if any(composition.leaked(line.state) for line in lines):
            return None
        caps = [divergence_cap(composition, line.state) for line in lines]
        known = [cap for cap in caps if cap is not None]
        return max(known) if known and len(known) == len(caps) else None

    def _spent(self, moment: Moment | None) -> Spent | None:
        if moment is None:
            return None
        return spent_of(self._composition, moment.lines, moment.charges, self.budget, "")

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self.trusted)
        trust = f", trusting {names}" if names else ""
        return f"Payment({self.payer}, after it {self.after or 'as before'}{trust})"
