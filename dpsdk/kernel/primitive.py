"""The one shape of all primitives: a request is priced in public, paid, and only then run.

Requests of other authors run only where their classes are trusted, on what is lent to them until
the run is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, NoReturn, Protocol, TypeVar, final

import numpy as np

from dpsdk._checks import shown
from dpsdk._locks import ThreadMark
from dpsdk._records import field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accounting.guarantee import check_guarantee
from dpsdk.data.counts import Counts
from dpsdk.errors import Closed, InvalidArgument, Redacted, Reentered
from dpsdk.kernel.terms import Terms
from dpsdk.kernel.trust import Trust
from dpsdk.noise import NoiseSource
from dpsdk.release import Accuracy
from dpsdk.typing import Floats, Ints

__all__ = ["Primitive", "Request", "TrustedRun", "check_not_lent", "price_trusted"]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Primitive(Protocol[R_co]):
    """One run on private data, priced in public and not yet paid.

    All but the result of `run` follows from public arguments and facts.
    """

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that the run satisfies, and is charged for."""
        ...

    @property
    def accuracy(self) -> Accuracy:
        """How far off the result will be."""
        ...

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> R_co:
        """Do what was paid for. Called by the kernel alone, once, after the charge.

        Parameters
        ----------
        noise
            Where randomness comes from. Draw it before the table is opened, so that how long a draw
            takes cannot depend on data.
        opened
            Gives the histogram of the table.
        """
        ...


class Request(ABC, Generic[R_co]):
    """A request of a strategy to a kernel, as a frozen public value: `kernel.run(request)`.

    The kinds of this package are a closed set. A class of another author runs only in a kernel that
    trusts it by name, with nothing between it and the table. Its objects are made by analysts, whom
    nobody vouches for: `price` has to look at every field as at any argument of a stranger, and
    `run` may use nothing but what was checked there.
    """

    __slots__ = ()

    @abstractmethod
    def price(self, terms: Terms, /) -> Primitive[R_co]:
        """Say what it would do and cost. Public, spends nothing.

        Parameters
        ----------
        terms
            Those of the kernel that it is to be put to.

        Raises
        ------
        InvalidArgument
            If it does not fit the table.
        """


@frozen(eq=False)
class TrustedRun(Generic[R_co]):
    """A priced run of a trusted class of another author."""

    name: str
    guarantee: Guarantee
    _run: Callable[[NoiseSource, Callable[[], Counts]], R_co] = field(repr=False)

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> R_co:
        """Do what was paid for, on what is lent for as long as it goes on."""
        going = Lock()
        loan = _Loan(opened, going)
        with going:  # no interrupt leaves it locked
            return _lent.run(lambda: self._run(noise, loan.open))


def price_trusted(request: Request[R], trust: Trust, terms: Terms) -> TrustedRun[R]:
    """Price a request of another author, if its class is trusted."""
    if not isinstance(request, Request):
        raise InvalidArgument("request", "a request, such as Measure(form, noise)", shown(request))
    name = trust.find(type(request)).name
    primitive = request.price(terms)
    guarantee: object = getattr(primitive, "guarantee", None)
    run = getattr(primitive, "run", None)
    if not isinstance(guarantee, Guarantee) or not callable(run):
        expected = "priced into a primitive, which has a guarantee and a method run"
        raise InvalidArgument("request", expected, shown(primitive))
    return TrustedRun(name, check_guarantee(guarantee), primitive.run)


_lent = ThreadMark()
"""Set while a trusted run of another author goes on in a thread."""


def check_not_lent() -> None:
    """Refuse a charge from within a trusted run: whether it is made could depend on rows."""
    if _lent.lock.locked():
        raise Reentered("a kernel")


@final
class _Loan:
    """The table that one run reads. Nothing can be read through it once the run is over."""

    __slots__ = ("_going", "_opened")

    def __init__(self, opened: Callable[[], Counts], going: Lock) -> None:
        self._opened = opened
        self._going = going

    def open(self) -> Counts:
        """The histogram of the table."""
        self.check()
        return _LentCounts(self, self._opened())

    def check(self) -> None:
        """Refuse once the run is over."""
        if not self._going.locked():
            raise Closed("a table that was lent to a run")


@final
class _LentCounts:
    """Copies of counts, as long as they are lent."""

    __slots__ = ("_counts", "_loan")

    def __init__(self, loan: _Loan, counts: Counts) -> None:
        self._loan = loan
        self._counts = counts

    @property
    def _open(self) -> Counts:
        self._loan.check()
        return self._counts

    @property
    def process(self) -> int | None:
        return self._open.process

    @property
    def rows(self) -> int:
        return self._open.rows

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        codes, counts = self._open.records(names)
        return [np.array(code) for code in codes], np.array(counts)

    def table(self, names: tuple[str, ...]) -> Floats:
        return np.array(self._open.table(names))

    def counted(self, names: tuple[str, ...]) -> Floats:
        return np.array(self._open.counted(names))

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Counts:
        return _LentCounts(self._loan, self._open.only(name, cell, keep_rows=keep_rows))

    def __repr__(self) -> str:
        return "Counts(private)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
