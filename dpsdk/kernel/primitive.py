"""The one shape of all primitives: a request is priced in public, paid, and only then run.

Requests of other authors run only where their classes are trusted, on what is lent to them until
the run is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Lock
from typing import Generic, NoReturn, Protocol, TypeVar, cast, final

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

        def lend() -> Counts:
            _check_going(going)
            return cast("Counts", _LentCounts(opened(), going))

        with going:  # no interrupt leaves it locked
            return _lent.run(lambda: self._run(noise, lend))


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
class _LentCounts:
    """What one run reads of the table. Nothing can be read through it once the run is over."""

    __slots__ = ("_counts", "_going")

    def __init__(self, counts: Counts, going: Lock) -> None:
        self._counts = counts
        self._going = going

    def __getattr__(self, name: str) -> object:
        _check_going(self._going)
        return getattr(self._counts, name)

    def only(self, name: str, cell: int, *, keep_rows: bool) -> Counts:
        _check_going(self._going)
        part = self._counts.only(name, cell, keep_rows=keep_rows)
        return cast("Counts", _LentCounts(part, self._going))

    def between(self, name: str, low: int, high: int) -> Counts:
        _check_going(self._going)
        part = self._counts.between(name, low, high)
        return cast("Counts", _LentCounts(part, self._going))

    def __repr__(self) -> str:
        return "Counts(private)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")


def _check_going(going: Lock) -> None:
    if not going.locked():
        raise Closed("a table that was lent to a run")
