"""The one shape of all primitives, and the one gate that what a strategy asks for passes.

A request is priced from public arguments into a primitive. The kernel charges what is proven of it,
and only then lets it draw noise and read. Requests of this package are priced from the kernel's own
copies of all that they hold; those of others run only where they were named beforehand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from inspect import getattr_static
from typing import Generic, Protocol, TypeVar, cast

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.accounting import Guarantee
from dpsdk.accounting.copies import book_copy
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.kernel.loan import on_loan
from dpsdk.kernel.terms import Terms
from dpsdk.kernel.trust import Trust, bound, mro
from dpsdk.noise import NoiseSource
from dpsdk.release import Accuracy

__all__ = ["Due", "Primitive", "Request", "Vouched", "vouched"]

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Due(Protocol[R_co]):
    """What is about to be run: what is proven of it, and how."""

    @property
    def guarantee(self) -> Guarantee:
        """What the run satisfies, and is charged for."""
        ...

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> R_co:
        """Do what was paid for; see `Primitive`."""
        ...


class Primitive(Due[R_co], Protocol[R_co]):
    """One run on private data, priced in public and not yet paid.

    All but the result of `run` follows from public arguments and facts.
    """

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
    """What a strategy asks a kernel for, as a frozen public value: `kernel.run(request)`.

    The kinds of this package are a closed set. A class of another author runs only in a kernel that
    trusts it by name, with nothing between it and the table. Its objects are made by analysts, whom
    nobody vouches for: `price` has to look at every field as at any argument of a stranger, and
    `run` may use nothing but what was checked and copied there.
    """

    __slots__ = ()

    @abstractmethod
    def price(self, terms: Terms, /) -> Primitive[R_co]:
        """What it would do and cost. Public, spends nothing.

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
class Vouched(Generic[R_co]):
    """A run of a trusted class of another author, under the kernel's own copy of its guarantee."""

    name: str
    guarantee: Guarantee
    _run: Callable[[NoiseSource, Callable[[], Counts]], R_co] = field(repr=False)

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> R_co:
        """Do what was paid for, on what is lent for as long as it goes on."""
        return on_loan(self._run, noise, opened)


def vouched(request: Request[R], trust: Trust, terms: Callable[[], Terms]) -> Vouched[R]:
    """Price a request of another author, if its class is trusted.

    Parameters
    ----------
    request
        Made by whoever asks.
    trust
        The classes that may run.
    terms
        Makes the terms that it is priced by, in values of its own.

    Raises
    ------
    InvalidArgument
        If it is no request, has methods of its own in place of those of its class, or was not
        priced into a primitive.
    Untrusted
        If nobody named its class, or it was changed since.
    UnsupportedGuarantee
        If no theorem speaks of its guarantee.
    """
    kind = type(request)
    if not any(above is Request for above in mro(kind)):
        raise InvalidArgument("request", "a request, such as Measure(form, noise)", shown(request))
    name = trust.find(kind).name
    own = _own(request, kind)
    # Of the class, which was vouched for, and not of the object, which whoever asks has made.
    price = cast("Callable[[Terms], object]", bound(kind, "price", own))
    primitive = price(terms())
    guarantee: object = getattr(primitive, "guarantee", None)
    run: object = getattr(primitive, "run", None)
    if not isinstance(guarantee, Guarantee) or not callable(run):
        expected = "priced into a primitive, which has a guarantee and a method run"
        raise InvalidArgument("request", expected, shown(primitive))
    return cast("Vouched[R]", Vouched(name, book_copy(guarantee), run))


def _own(request: Request[R], kind: type) -> Request[R]:
    """A request of the same fields that whoever asks does not hold, and cannot change any more.

    Raises
    ------
    InvalidArgument
        If it cannot be copied, or was given other methods than its class has: nobody vouched for
        those.
    """
    try:
        own = copy(request)
    except Exception:  # noqa: BLE001  # parts of other authors may raise what they like
        own = None
    if own is None or type(own) is not kind or own is request:
        raise InvalidArgument("request", "one that can be copied", shown(request))
    state: dict[object, object] = getattr(own, "__dict__", {})
    for name in tuple(state):
        # A text of another class could answer for any name when it is looked up.
        method = getattr_static(kind, name, None) if type(name) is str else name
        if isinstance(method, classmethod | str) or (
            callable(method) and not isinstance(method, type)
        ):
            expected = "with the methods of its class alone"
            raise InvalidArgument("request", expected, f"one with its own {shown(name)}")
    return own
