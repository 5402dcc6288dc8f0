"""Every exception that dpsdk raises.

::

    DpsdkError
    ├── InvalidArgument (ValueError)      a parameter is not what was expected
    ├── DomainError (ValueError)
    │   ├── UnknownAttribute (KeyError)
    │   └── UnknownLabel (KeyError)
    ├── QueryError (ValueError)           a query cannot be put to this universe
    │   ├── PublicSizeRequired            a share of the rows needs a public row count
    │   └── UnknownQuery (KeyError)       no answer was given to this query
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
    ├── UnknownName (KeyError)            no built-in or installed thing has this name
    ├── PluginError                       a plugin that was refused, or that failed
    ├── NoMechanism                       nothing was named to answer with, and nothing was found
    ├── NoBound                           nothing is proven or promised of an answer's error
    ├── NoBounds                          paid for, and no number stood out of the noise
    ├── Closed                            a session or channel that was closed
    ├── Redacted (TypeError)              an attempt to look at private data
    ├── NotCopyable (TypeError)           an attempt to copy what must exist once
    ├── Reentered (RuntimeError)          asked from within the work that it would wait for
    ├── MissingExtra (ImportError)        an optional dependency is not installed
    ├── ReleaseFailed                     charged, but no release came of it
    └── MeasurementRefused                a mechanism gave what does not fit its question

Messages and fields hold public facts only: parameters, names, limits and budgets, never a
value or a count taken from private data.
"""

from __future__ import annotations

from dpsdk.errors.given import (
    DataError,
    DomainError,
    DpsdkError,
    InvalidArgument,
    MissingExtra,
    PluginError,
    PublicSizeRequired,
    QueryError,
    RecordError,
    TooLarge,
    UnknownAttribute,
    UnknownLabel,
    UnknownName,
    UnknownQuery,
    WireError,
)
from dpsdk.errors.spending import (
    AlreadyCharged,
    AnswerLost,
    BudgetExceeded,
    Closed,
    Declined,
    ExactSamplingInfeasible,
    LedgerConflict,
    LedgerDamaged,
    LedgerUnavailable,
    MeasurementRefused,
    NoBound,
    NoBounds,
    NoMechanism,
    NotCopyable,
    Redacted,
    Reentered,
    ReleaseFailed,
    Shortage,
    UnsupportedGuarantee,
    Untrusted,
)

__all__ = [
    "AlreadyCharged",
    "AnswerLost",
    "BudgetExceeded",
    "Closed",
    "DataError",
    "Declined",
    "DomainError",
    "DpsdkError",
    "ExactSamplingInfeasible",
    "InvalidArgument",
    "LedgerConflict",
    "LedgerDamaged",
    "LedgerUnavailable",
    "MeasurementRefused",
    "MissingExtra",
    "NoBound",
    "NoBounds",
    "NoMechanism",
    "NotCopyable",
    "PluginError",
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
    "UnknownName",
    "UnknownQuery",
    "UnsupportedGuarantee",
    "Untrusted",
    "WireError",
]
