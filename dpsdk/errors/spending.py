"""Errors of what is asked, of ledgers, and of how things are used."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._records import define, frozen
from dpsdk.errors.given import DpsdkError

__all__ = [
    "AlreadyCharged",
    "AnswerLost",
    "BudgetExceeded",
    "Closed",
    "Declined",
    "ExactSamplingInfeasible",
    "LedgerConflict",
    "LedgerDamaged",
    "LedgerUnavailable",
    "MeasurementRefused",
    "NoBound",
    "NoBounds",
    "NoMechanism",
    "NotCopyable",
    "Redacted",
    "Reentered",
    "ReleaseFailed",
    "Shortage",
    "UnsupportedGuarantee",
    "Untrusted",
]


@define(str=False, eq=False)
class ExactSamplingInfeasible(DpsdkError):
    """No small database can be drawn exactly within the limits. Nothing was charged.

    Decided by public facts alone: by the workload, the universe, the size asked for, and the number
    of rows where that is public.

    Parameters
    ----------
    atoms
        How many kinds of records the workload tells apart, or a number above it.
    size
        How many records the small database was to have.
    log2_candidates
        The binary logarithm of the number of small databases to draw from.
    seconds
        About how long the draw would take; infinite where no sampler applies.
    alternatives
        What could be asked for instead, in words.
    """

    atoms: int
    size: int
    log2_candidates: float
    seconds: float
    alternatives: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"no exact draw of {self.size} records over {self.atoms} atoms, one of "
            f"2^{self.log2_candidates} small databases, fits the limits: it would take about "
            f"{self.seconds} seconds; instead: {', or '.join(self.alternatives) or 'nothing'}"
        )


@frozen
class Shortage:
    """One limit that a request would have passed, in numbers.

    Parameters
    ----------
    limit
        What is limited: "epsilon", "delta", "rho", "divergence" or "squared shift".
    within
        Whose limit it is: a composition, its share for leaks, or a scope.
    asked
        What the request would have taken; None where the composition has no price for it at this
        point, since the request is larger than all that is left.
    left
        What is left of the limit.
    cap
        The limit.
    """

    limit: str
    within: str
    asked: Fraction | None
    left: Fraction
    cap: Fraction


@define(str=False, eq=False)
class BudgetExceeded(DpsdkError):
    """The request does not fit what is left. Nothing was charged for it, and nothing changed.

    Parameters
    ----------
    asked, spent, remaining
        The request, what is spent and what is left, in words.
    why
        The share that is left and what would fit it, in the units of the request.
    shortages
        The limits that did not fit: one for each count that might have let the request pass.
    epsilon, rho
        What would fit: the largest ε of one pure run, and a ρ of one discrete Gaussian run.
    charges
        The numbers of the charges that the same question had paid before, if its mechanism pays in
        several steps. They stand.
    period, refusing
        Of a table with periods, the number of the first that refused, and how many did.
    passing
        The first and last number of the largest range of periods that would not have refused.
    places
        That in words.
    """

    asked: str
    spent: str
    remaining: str
    why: str = ""
    shortages: tuple[Shortage, ...] = ()
    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    charges: tuple[int, ...] = ()
    period: int | None = None
    refusing: int = 0
    passing: tuple[int, int] | None = None
    places: str = ""

    def __str__(self) -> str:
        why = self.why or f"what is left is {self.remaining}"
        return f"asked for {self.asked}, but {why}{self.places}"


@define(str=False, eq=False)
class UnsupportedGuarantee(DpsdkError):
    """The composition has no theorem that prices this guarantee."""

    guarantee: str
    composition: str
    reason: str

    def __str__(self) -> str:
        return f"{self.composition} cannot price {self.guarantee}: {self.reason}"


@define(str=False, eq=False)
class Untrusted(DpsdkError):
    """A kernel was asked to run what is not of this package, and was not told to trust it.

    Parameters
    ----------
    primitive
        What its class calls itself.
    why
        Why a class is not trusted that has the name of one that was; empty for any other.
    """

    primitive: str
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"{self.primitive} is not trusted: {self.why}"
        return (
            f"{self.primitive} is no primitive of dpsdk, whose guarantees are proven; whoever "
            f"opens the session can vouch for it by trust={{{self.primitive!r}: 'its proof'}}"
        )


@frozen
class Declined:
    """Why a mechanism was not chosen.

    Parameters
    ----------
    mechanism
        The mechanism, in words.
    code
        A short name of the reason, which stays: "too-dear".
    why
        A sentence for people, in public terms.
    """

    mechanism: str
    code: str
    why: str

    def __str__(self) -> str:
        return f"{self.mechanism}: {self.why} ({self.code})"


@define(str=False, eq=False)
class NoMechanism(DpsdkError):
    """No mechanism was named to answer the query with, and none was found. Nothing was charged.

    Parameters
    ----------
    query
        What was asked, in words.
    reasons
        Why each mechanism that was looked at cannot answer it.
    """

    query: str
    reasons: tuple[Declined, ...] = ()

    def __str__(self) -> str:
        if not self.reasons:
            return f"{self.query}: name a mechanism, for example using=Laplace(epsilon=0.1)"
        alike: dict[tuple[str, str], dict[str, None]] = {}
        for one in self.reasons:
            alike.setdefault((one.why, one.code), {})[one.mechanism] = None
        told = "; ".join(f"{', '.join(of)}: {why} ({code})" for (why, code), of in alike.items())
        return f"{self.query}: no mechanism can be taken. {told}"


@define(str=False, eq=False)
class NoBounds(DpsdkError):
    """A search for bounds was paid for, and no cell of numbers stood out of the noise.

    Parameters
    ----------
    column
        The column.
    passing
        A cell passes with about so many rows, or persons.
    factor
        With so many times the epsilon, one in ten of the rows would do; for a rho its square. 0
        where the counts say nothing.
    """

    column: str
    passing: float
    factor: float = 0.0

    def __str__(self) -> str:
        text = f"no bounds of {self.column!r}: no cell has {self.passing:.6g} rows or persons"
        if not self.factor:
            return f"{text}, and the counts say nothing; more epsilon may help"
        times, squared = max(self.factor, 1.0), max(self.factor, 1.0) ** 2
        return (
            f"{text}; {times:.6g} times the epsilon, or {squared:.6g} times the rho, would do for "
            "one in ten of the rows"
        )


@define(str=False, eq=False)
class NoBound(DpsdkError):
    """Nothing is proven or promised of how far off an answer may be, at the confidence asked for.

    Parameters
    ----------
    answer
        What was asked, in words.
    why
        Why there is no bound.
    advice
        What may be done about it.
    """

    answer: str
    why: str
    advice: str

    def __str__(self) -> str:
        return f"no error bound for {self.answer}: {self.why}; {self.advice}"


@define(str=False, eq=False)
class ReleaseFailed(DpsdkError):
    """Something failed after the charge. The charge stands, and why is not told."""

    charge: int

    def __str__(self) -> str:
        return f"charge {self.charge} was paid, but its release failed"


@define(str=False, eq=False)
class MeasurementRefused(DpsdkError):
    """The numbers of a mechanism do not fit its question. What was charged stays so.

    `mechanism` is what it calls itself, and `reason` what is wrong: with types and lengths, and not
    with the numbers.
    """

    mechanism: str
    reason: str

    def __str__(self) -> str:
        return f"{self.mechanism} {self.reason}"


@define(str=False, eq=False)
class AlreadyCharged(DpsdkError):
    """A request was charged before. It is not charged again, so nothing may run for it again.

    `request_id` names the request, `charges` the numbers of its charges, which stand. Its answer,
    if the first run came to one, is what the ledger stored for it.
    """

    request_id: str
    charges: tuple[int, ...]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.charges))
        return f"request {self.request_id!r} was charged before, as {numbers}"


@define(str=False, eq=False)
class AnswerLost(DpsdkError):
    """A request was charged before, and no answer is stored for it. Nothing is drawn for it again.

    The first process ended before the answer was stored, or is still at work. The charges stand,
    since noise may have been drawn and seen. Ask anew under another name, at another price.

    `request_id` names the request, `charges` the numbers of its charges.
    """

    request_id: str
    charges: tuple[int, ...]

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.charges))
        return f"request {self.request_id!r} was charged, as {numbers}, and has no stored answer"


@define(str=False, eq=False)
class LedgerConflict(DpsdkError):
    """A ledger is bound to a table, a budget and a composition, and was opened for others.

    `what` names which differs; `bound` is what the ledger holds, `asked` what was asked for.
    """

    what: str
    bound: str
    asked: str

    def __str__(self) -> str:
        return f"the ledger is bound to the {self.what} {self.bound}; got {self.asked}"


@define(str=False, eq=False)
class LedgerUnavailable(DpsdkError):
    """A ledger cannot be read or written: a full disk, a file that is read-only, busy or gone.

    Nothing is released for a charge that may not have been written. `ledger` says which, `why` what
    the system said. The same may pass once its cause is removed.
    """

    ledger: str
    why: str

    def __str__(self) -> str:
        return f"the ledger {self.ledger} cannot be used: {self.why}"


@define(str=False, eq=False)
class LedgerDamaged(DpsdkError):
    """The content of a ledger is not as written: damaged, edited, or an older copy put back.

    Nothing is charged or released on it any more. `ledger` says which, `why` what does not fit.
    """

    ledger: str
    why: str

    def __str__(self) -> str:
        return f"the ledger {self.ledger} is not as it was written: {self.why}"


@define(str=False, eq=False)
class Closed(DpsdkError):
    """The session or channel was closed."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} is closed"


@define(str=False, eq=False)
class Redacted(DpsdkError, TypeError):
    """Private data was asked to show, copy, count or iterate itself."""

    operation: str

    def __str__(self) -> str:
        return f"private data does not support {self.operation}; ask a session instead"


@define(str=False, eq=False)
class NotCopyable(DpsdkError, TypeError):
    """An attempt to copy or pickle what must exist once, as a budget being spent."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} cannot be copied or pickled; share the one that exists"


@define(str=False, eq=False)
class Reentered(DpsdkError, RuntimeError):
    """A finaliser, signal handler or callback asked for what its own thread is busy with.

    To wait would have been to wait for ever. Nothing was charged.
    """

    what: str

    def __str__(self) -> str:
        return f"{self.what} was asked for from within its own work"
