"""The interface of every ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from dpsdk._checks import shown
from dpsdk._locks import lock_held
from dpsdk.accounting.ledger.binding import Binding
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.ledger.charge import Charge
from dpsdk.errors import InvalidArgument, LedgerUnavailable

__all__ = [
    "Decide",
    "Decision",
    "Ledger",
    "Ledgers",
    "ask",
    "binding_of",
    "ledger_of",
    "to_ledger",
]


L = TypeVar("L")
R = TypeVar("R")


class Decision(NamedTuple):
    """The new books, and the answer of a decision.

    Parameters
    ----------
    books
        As they are from now on.
    charges
        What is appended, numbered from the count of the books before on.
    repeated
        Whether a ledger gives again what it took before for the same request.
    """

    books: Books
    charges: Sequence[Charge] = ()
    repeated: bool = False


Decide: TypeAlias = Callable[[Books], Decision]
"""A pure function from the books as they are to what becomes of them. It raises to refuse."""


@runtime_checkable
class Ledger(Protocol):
    """Remembers what the odometers on it decide: one `Books`, charges, and answers to requests.

    It decides nothing by itself, and is used from any number of threads at a time. Whoever opens a
    session with one trusts it to keep what it took and to give back nothing else. How books and
    charges are written is its own affair; `Books.to_record` and `Charge.to_record` give plain data
    for it.
    """

    @property
    def durable(self) -> bool:
        """True if what was taken is still there after this process, also if it is killed.

        Sessions on such a ledger use private noise, a named table and compositions of the package.
        """
        ...

    def transact(self, decide: Decide, request_id: str | None = None) -> Decision:
        """Take a decision whole or not at all, with no other in between, and give it back.

        `decide` is called with the books as they are, `Books()` in an empty ledger, perhaps
        more than once if the ledger has to begin again; what it raises passes, and nothing has
        changed. It asks the ledger for nothing. What is given back would survive whatever the
        ledger is made to survive.

        If charges that name `request_id` were taken before, `decide` does not count: the ledger
        gives the books as they are and those charges, as `repeated`. A decision that was refused,
        or charged nothing, is not remembered.
        """
        ...

    def read(self) -> Books:
        """The books as they are, `Books()` in an empty ledger. Never waits for a decision."""
        ...

    def charges(self, since: int = 0) -> Sequence[Charge]:
        """The charges in order, without the first `since`. No fewer than `read` has counted."""
        ...

    def store(self, request_id: str, answer: bytes) -> None:
        """Keep the answer to a request. The first that is stored stays, and is there for good.

        Raises `InvalidArgument` if another answer is stored already.
        """
        ...

    def stored(self, request_id: str) -> bytes | None:
        """The answer that is stored for a request; None if there is none."""
        ...


@runtime_checkable
class Ledgers(Protocol):
    """A ledger that keeps the books of any number of tables, and gives each out by its name.

    A session that is handed one asks for the ledger of its own table.
    """

    def dataset(self, name: str) -> Ledger:
        """The ledger of the table of a name, empty if there is none yet."""
        ...


def ledger_of(value: Ledger, dataset: str) -> Ledger:
    """The ledger of one table, where a ledger has those of several. Raises as `to_ledger` does."""
    ledger = to_ledger(value)
    if not isinstance(ledger, Ledgers):
        return ledger
    return to_ledger(ask(ledger, lambda ledger: ledger.dataset(dataset)))


def ask(ledger: L, work: Callable[[L], R], decided: Sequence[BaseException] = ()) -> R:
    """Ask a ledger of any author something; an error of the system comes typed, without its text.

    That may tell anything, as how a server is reached. What a decision raised passes.
    """
    try:
        return lock_held.run(lambda: work(ledger))
    except OSError as error:
        if any(error is one for one in decided):
            raise
        raise LedgerUnavailable(type(ledger).__name__, type(error).__name__) from None


def binding_of(books: Books) -> Binding:
    """The binding of the books, once a ledger has taken some."""
    if books.binding is None:
        expected = "one that keeps what it takes"
        raise InvalidArgument("ledger", expected, "one whose books are empty after it took some")
    return books.binding


def to_ledger(value: Ledger) -> Ledger:
    """A ledger."""
    # The protocol alone would also take the class itself for a ledger.
    if isinstance(value, type) or not isinstance(value, Ledger):
        raise InvalidArgument("ledger", "a ledger", shown(value))
    return value
