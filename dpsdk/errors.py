"""Every exception that dpsdk raises.

::

    DpsdkError
    ├── InvalidArgument (ValueError)      a parameter is not what was expected
    ├── DomainError (ValueError)
    │   ├── UnknownAttribute (KeyError)
    │   └── UnknownLabel (KeyError)
    ├── QueryError (ValueError)           a query cannot be put to this universe
    │   └── PublicSizeRequired            a share of the rows needs a public row count
    ├── DataError (ValueError)            a table does not fit its declaration
    ├── TooLarge (MemoryError)            refused before anything was allocated
    ├── ExactSamplingInfeasible           no exact draw within the limits; nothing was charged
    ├── BudgetExceeded                    refused, nothing was charged
    ├── UnsupportedGuarantee              a composition cannot price this guarantee
    ├── Untrusted                         a run that nobody vouched for
    ├── AlreadyCharged                    a request was charged before, and is not charged again
    ├── AnswerLost                        a request was charged, and its answer was never stored
    ├── LedgerConflict                    a ledger was opened for something else
    ├── LedgerUnavailable                 a ledger cannot be read or written now
    ├── LedgerDamaged                     a ledger says what it cannot have been told
    ├── RecordError (ValueError)          a record says nothing that is known, or cannot be written
    ├── WireError (ValueError)            no written form of a public value, or a value without one
    ├── NoMechanism                       nothing was named to answer the query with
    ├── NoBound                           nothing is proven or promised of an answer's error
    ├── Closed                            a session or channel that was closed
    ├── Redacted (TypeError)              an attempt to look at private data
    ├── NotCopyable (TypeError)           an attempt to copy what must exist once
    ├── Reentered (RuntimeError)          asked from within the work that it would wait for
    ├── MissingExtra (ImportError)        an optional dependency is not installed
    └── ReleaseFailed                     charged, but no release came of it

Messages and fields hold public facts only: parameters, names, limits and budgets, never a
value or a count taken from private data.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from attrs import define, fields, frozen, has

__all__ = [
    "AlreadyCharged",
    "AnswerLost",
    "BudgetExceeded",
    "Closed",
    "DataError",
    "DomainError",
    "DpsdkError",
    "ExactSamplingInfeasible",
    "InvalidArgument",
    "LedgerConflict",
    "LedgerDamaged",
    "LedgerUnavailable",
    "MissingExtra",
    "NoBound",
    "NoMechanism",
    "NotCopyable",
    "PublicSizeRequired",
    "QueryError",
    "RecordError",
    "Redacted",
    "Reentered",
    "ReleaseFailed",
    "Shortage",
    "TooLarge",
    "UnknownAttribute",
    "UnknownLabel",
    "UnsupportedGuarantee",
    "Untrusted",
    "WireError",
]


class DpsdkError(Exception):
    """The root of the tree: catch it to catch everything that dpsdk raises on purpose.

    Two errors are equal if they are of one class and have equal fields, also after pickling.
    """

    def _values(self) -> tuple[object, ...]:
        kind = type(self)
        if not has(kind):
            return self.args
        return tuple(getattr(self, field.name) for field in fields(kind))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, DpsdkError):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self._values(), dict(vars(self)))


def _again(kind: type[DpsdkError], values: tuple[object, ...], notes: dict[str, object]) -> object:
    """An error as it was pickled, with its notes."""
    error = kind(*values)
    vars(error).update(notes)
    return error


@define(str=False, eq=False)
class InvalidArgument(DpsdkError, ValueError):
    """A parameter is not what was expected."""

    parameter: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.parameter} must be {self.expected}; got {self.got}"


class DomainError(DpsdkError, ValueError):
    """A name or value that the public universe does not have."""


def _choices(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 12 else shown or "none"


@define(str=False, eq=False)
class UnknownAttribute(DomainError, KeyError):
    """The domain has no attribute of this name."""

    attribute: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"the domain has no attribute {self.attribute!r}; it has {_choices(self.known)}"


@define(str=False, eq=False)
class UnknownLabel(DomainError, KeyError):
    """The attribute has no such label."""

    attribute: str
    label: str
    expected: str

    def __str__(self) -> str:
        return f"attribute {self.attribute!r} has no label {self.label}; expected {self.expected}"


@define(str=False, eq=False)
class QueryError(DpsdkError, ValueError):
    """A query that cannot be put to this universe, or not to this mechanism.

    `query` names it, `reason` says why.
    """

    query: str
    reason: str

    def about(self, query: str) -> QueryError:
        """The same error with the query named: mechanisms raise it where they know a form only."""
        return type(self)(query, self.reason)

    def __str__(self) -> str:
        return f"{self.query}: {self.reason}" if self.query else self.reason


@define(str=False, eq=False)
class PublicSizeRequired(QueryError):
    """A share of the rows was asked for where the number of rows is private."""


@define(str=False, eq=False)
class DataError(DpsdkError, ValueError):
    """A table does not fit its declaration. Never quotes a value of the table."""

    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@define(str=False, eq=False)
class TooLarge(DpsdkError, MemoryError):
    """Refused before anything was allocated: `needed` exceeds `limit`, both in `unit`."""

    what: str
    needed: int
    limit: int
    unit: str
    advice: str

    def __str__(self) -> str:
        return (
            f"{self.what} needs {self.needed:,} {self.unit}, more than the limit of "
            f"{self.limit:,}; {self.advice}"
        )


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
        Which limit did not fit, in words.
    shortages
        The same in numbers: one for each count that might have let the request pass.
    epsilon, rho
        What would fit: the largest ε of one pure run, and a ρ of one discrete Gaussian run.
    charges
        The numbers of the charges that the same question had paid before, if its mechanism pays in
        several steps. They stand.
    """

    asked: str
    spent: str
    remaining: str
    why: str = ""
    shortages: tuple[Shortage, ...] = ()
    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    charges: tuple[int, ...] = ()

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"asked for {self.asked}{why}; spent {self.spent}; remaining {self.remaining}"


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
    """A kernel was asked to run what is not of this package, and was not told to trust it."""

    primitive: str

    def __str__(self) -> str:
        return (
            f"{self.primitive} is no primitive of dpsdk, whose guarantees are proven; to vouch for "
            f"it, name it in trust={{{self.primitive!r}}}"
        )


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

    Whoever asked first ended before the answer was stored, or is still at work. The charges stand,
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
    """What a ledger holds is not what was written: damaged, edited, or an older copy put back.

    Nothing is charged or released on it any more. `ledger` says which, `why` what does not fit.
    """

    ledger: str
    why: str

    def __str__(self) -> str:
        return f"the ledger {self.ledger} is not as it was written: {self.why}"


@define(str=False, eq=False)
class RecordError(DpsdkError, ValueError):
    """A record that is not one of the known kinds to the letter, or a value that has none.

    `where` is the path to the field, `expected` what may stand there.
    """

    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.where} must be {self.expected}; got {self.got}"


@define(str=False, eq=False)
class WireError(DpsdkError, ValueError):
    """Data that are no written form of a public value, or a value that has no written form.

    `path` leads to the place, from `$`, which is the whole; `expected` is what may stand there.
    Raised before anything is looked up in a table, or charged.
    """

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path} must be {self.expected}; got {self.got}"


@define(str=False, eq=False)
class NoMechanism(DpsdkError):
    """No mechanism was named to answer the query with."""

    query: str

    def __str__(self) -> str:
        return f"{self.query}: name a mechanism, for example using=Laplace(epsilon=0.1)"


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


@define(str=False, eq=False)
class MissingExtra(DpsdkError, ImportError):
    """An optional dependency is not installed. `extra` names what installs it, if dpsdk does."""

    package: str
    extra: str = ""

    def __str__(self) -> str:
        wanted = f"dpsdk[{self.extra}]" if self.extra else self.package
        return f"{self.package} is not installed; install {wanted}"


@define(str=False, eq=False)
class ReleaseFailed(DpsdkError):
    """Something failed after the charge. The charge stands, and why is not told."""

    charge: int

    def __str__(self) -> str:
        return f"charge {self.charge} was paid, but its release failed"
