"""The protocol of mechanisms: frozen public values that open to a strategy over a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from dpsdk import forms
from dpsdk._records import define, frozen
from dpsdk.codec import Nested, written
from dpsdk.errors import DpsdkError
from dpsdk.forms import Facts, Form, Identity, Kronecker, LinearForm, Lowers
from dpsdk.kernel import Kernel, Request, Terms
from dpsdk.release import Measurement, Note, Quote, Source
from dpsdk.typing import Floats

if TYPE_CHECKING:
    from dpsdk.forms import ConvexForm, ConvexForms
    from dpsdk.hypothesis import Distribution, Hypothesis, Mixture

__all__ = [
    "MECHANISM",
    "Answerable",
    "DistributionMechanism",
    "DistributionStrategy",
    "FittedTable",
    "HypothesisMechanism",
    "HypothesisStrategy",
    "MeasuresOnce",
    "Mechanism",
    "ModelsMechanism",
    "ModelsStrategy",
    "OneRun",
    "OneShot",
    "Single",
    "Strategy",
    "TablesMechanism",
    "TablesStrategy",
    "Unfinished",
    "WhyStopped",
    "built_in",
    "notes_of",
    "priced_by",
]

Answerable: TypeAlias = "LinearForm | ConvexForm | ConvexForms"
"""The forms that a distribution answers."""

F_contra = TypeVar("F_contra", bound=Form, contravariant=True)
R = TypeVar("R")


class Strategy(Protocol[F_contra]):
    """A mechanism at work: it asks primitives and post-processes what comes back."""

    def answer(self, form: F_contra, kernel: Kernel, /) -> Measurement:
        """Raw numbers for a form, in counts of rows for a linear one.

        Parameters
        ----------
        form
            The question.
        kernel
            For this question alone: what its primitives charge is the cost of this answer, from
            whichever thread. When the answer is given, it is closed.
        """
        ...


class Mechanism(ABC, Generic[F_contra]):
    """A way to answer forms of one kind, as a frozen value made of public parameters.

    A subclass writes fields, `quote` and `open`; `name`, `family`, `reusable` and `page` have
    defaults. It spends through the kernel's primitives only, so it cannot forget to charge, and
    needs no proof of its own. `OneShot` answers at once, `MeasuresOnce` may be opened for one
    answer, any other has to be opened.
    """

    __slots__ = ()

    family: ClassVar[str] = ""
    """The name in plans and written forms, as "noisy-histogram"; of built-in mechanisms only."""

    reusable: ClassVar[bool] = False
    """True if an answer may be given again to the same question. Read of built-in ones only."""

    page: ClassVar[str] = ""
    """The page below `docs` that proves what it claims; of built-in mechanisms only."""

    @property
    def name(self) -> str:
        """The name in the history."""
        return str(self)

    @abstractmethod
    def quote(self, form: F_contra, terms: Terms, /) -> Quote:
        """Price answering a form, and bound the errors of the raw numbers.

        Parameters
        ----------
        form
            The question.
        terms
            Those of the kernel that would be asked. What a request is priced at against them,
            `request.price(terms)`, is what that kernel charges for it.
        """

    @abstractmethod
    def open(self, kernel: Kernel, /) -> Strategy[F_contra]:
        """Start work over a kernel. Whatever is paid here is paid once a channel.

        The kernel serves the opening; each answer gets one of its own.
        """

    def notes(self, facts: Facts, /) -> tuple[Note, ...]:
        """What readers have to know of answers that it does not measure. Public.

        For `notes` of quotes and releases, and read of built-in mechanisms only.
        """
        del facts
        return ()

    def alpha_for(
        self, terms: Terms, query: Lowers[F_contra] | None = None, *, beta: float | None = None
    ) -> float | None:
        """The error that a table's rows buy: with probability 1 - beta no number is off by more.

        Public, and free. What is proven or promised beforehand, at best: of linear queries as a
        share of the rows, whatever the unit of their answers, of a model as its excess loss. None
        where nothing is, or nothing below the range of an answer.

        Parameters
        ----------
        terms
            Those of the table, such as ``Terms(data.facts)``. Their number of rows is public.
        query
            What would be asked. Where the mechanism was given a workload, or says how many queries
            may come, it may be left out.
        beta
            The mechanism's own if left out, else 0.05.
        """
        from dpsdk.mechanisms.theorems import promised_alpha  # noqa: PLC0415  # it knows this class

        return promised_alpha(self, terms, *self._stated(query, beta))

    def rows_for(
        self,
        terms: Terms,
        query: Lowers[F_contra] | None = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
    ) -> int | None:
        """How many rows an error takes, to a thousandth; None if more than 2^50.

        Over a table of so many rows `alpha_for` is at most `alpha`, which is the mechanism's own if
        left out. How many rows the table of these terms has does not matter.
        """
        from dpsdk.mechanisms.theorems import promised_rows  # noqa: PLC0415  # as above

        query, beta = self._stated(query, beta)
        return promised_rows(self, terms, query, alpha, beta)

    def _stated(
        self, query: Lowers[F_contra] | None, beta: float | None
    ) -> tuple[Lowers[F_contra] | None, float]:
        """What a theorem is asked about, with the mechanism's own where nothing else is given."""
        return query, 0.05 if beta is None else beta


class OneShot(Mechanism[F_contra]):
    """A mechanism that keeps no state between answers and pays nothing to open.

    It can be given to `session.answer(query, using=...)` directly.
    """

    __slots__ = ()


class MeasuresOnce(Mechanism[F_contra]):
    """A mechanism that pays all when it is opened, and nothing for the answers of its channel.

    As `using=` it is opened for one answer alone, and a second call pays again.
    """

    __slots__ = ()


class DistributionStrategy(Strategy[LinearForm], Protocol):
    """A strategy that has a public distribution over the universe, and answers linear forms."""

    @property
    def distribution(self) -> Distribution:
        """The distribution as it stands. Later answers do not change what was given out."""
        ...


WhyStopped: TypeAlias = Literal["stop", "interrupt", "budget"]
"""The reason why the work of an opening ended early.

The `stop` that was given to `session.open`, an interrupt from the keyboard, or a budget that had no
room for the next run.
"""


@define(str=False, eq=False)
class Unfinished(DpsdkError):
    """An opening that ends before its work is done, and has something that answers already.

    Raised by `open` of a `DistributionMechanism`; a session makes a `Stopped` of it.
    """

    strategy: DistributionStrategy
    """What was learnt so far, at work."""
    why: WhyStopped

    def __str__(self) -> str:
        return f"the opening was ended by {_CAUSES[self.why]}"


_CAUSES: dict[WhyStopped, str] = {
    "stop": "the stop that was given to it",
    "interrupt": "an interrupt",
    "budget": "a budget without room for the next run",
}


class DistributionMechanism(Mechanism[LinearForm]):
    """A mechanism with a public distribution; its channel shows it as `channel.distribution`.

    Whatever else it answers, it answers every linear query that its distribution can.
    """

    __slots__ = ()

    @abstractmethod
    def open(self, kernel: Kernel, /) -> DistributionStrategy:
        """Start work over a kernel. Whatever is paid here is paid once a channel."""


@frozen
class FittedTable:
    """The origin of one table of a channel. Public, as all that the channel holds.

    Parameters
    ----------
    names
        Its attributes, in the order of the domain.
    requested
        Whether the workload asks for it, and not only for wider tables that it is a margin of.
    source
        "measured" if noisy numbers of its own were bought; "fitted" if not, so that it is what the
        distribution says, brought to the margins that its narrower tables have.
    deviation
        The scale of the noise, in rows, on each cell of what was measured of it beyond its margins;
        None if nothing was. It is no standard deviation of the table, which was fitted.
    total_variation
        The certified bound of its total variation from the true one, None without a certificate.
    """

    names: tuple[str, ...]
    requested: bool
    source: Source
    deviation: float | None
    total_variation: float | None


class TablesStrategy(DistributionStrategy, Protocol):
    """A strategy that has tables of its own beside its distribution, and answers from them."""

    @property
    def distribution(self) -> Mixture:
        """A mixture of products near to the tables."""
        ...

    @property
    def listing(self) -> tuple[FittedTable, ...]:
        """The origin of each table."""
        ...

    def shares(self, names: tuple[str, ...], /) -> Floats:
        """The marginal of attributes in the order of the domain, in shares of the rows."""
        ...


class TablesMechanism(DistributionMechanism):
    """A mechanism with tables of its own; its channel lists them as `channel.tables`."""

    __slots__ = ()

    @abstractmethod
    def open(self, kernel: Kernel, /) -> TablesStrategy:
        """Start work over a kernel. Whatever is paid here is paid once a channel."""


class _Moves(Protocol):
    """A strategy with a distribution that moves."""

    @property
    def distribution(self) -> Hypothesis:
        """The same as `hypothesis`."""
        ...

    @property
    def hypothesis(self) -> Hypothesis:
        """The distribution as it stands. Later answers do not change what was given out."""
        ...


class HypothesisStrategy(_Moves, DistributionStrategy, Protocol):
    """A strategy whose distribution moves."""


class HypothesisMechanism(DistributionMechanism):
    """A mechanism whose distribution moves; its channel shows it as `channel.hypothesis`."""

    __slots__ = ()

    @abstractmethod
    def open(self, kernel: Kernel, /) -> HypothesisStrategy:
        """Start work over a kernel. Whatever is paid here is paid once a channel."""


@runtime_checkable
class ModelsStrategy(_Moves, Strategy[Answerable], Protocol):
    """A strategy whose distribution moves, and that answers convex minimisations itself.

    Of a model the raw numbers are its θ, and after it the certified gap of the solver.
    """


class ModelsMechanism(Mechanism[Answerable]):
    """A mechanism that watches over models; its channel shows what moves as `channel.hypothesis`.

    Other channels with a distribution answer a convex minimisation from that, and never look at the
    table for it.
    """

    __slots__ = ()

    @abstractmethod
    def open(self, kernel: Kernel, /) -> ModelsStrategy:
        """Start work over a kernel. Whatever is paid here is paid once a channel."""


@frozen(eq=False)
class Single(Generic[R]):
    """All that a mechanism asks of a table to answer a form: one run.

    Parameters
    ----------
    request
        What it asks the kernel for.
    answered
        What follows from the result, for the form and for nothing.
    """

    request: Request[R]
    answered: Callable[[R], Measurement]


@runtime_checkable
class OneRun(Protocol):
    """A mechanism that answers a form with one run, so that several can be paid for together."""

    def single(self, form: LinearForm, terms: Terms, /) -> Single[Any]:
        """The request to the kernel. Public, spends nothing, and raises as `quote` does."""
        ...


MECHANISM = Nested[Mechanism[Form]]("a mechanism", Mechanism)
"""A mechanism of any kind, as a member of written forms."""

M = TypeVar("M", bound=type[Mechanism[Any]])


def built_in(family: str, members: Mapping[str, object]) -> Callable[[M], M]:
    """Give the class below its family, and its written form as a mechanism of that name."""

    def register(kind: M) -> M:
        kind.family = family
        return written(f"mechanism.{family}", members)(kind)

    return register


def notes_of(mechanism: object, facts: Facts) -> tuple[Note, ...]:
    """What a built-in mechanism has to say of its answers; nothing of any other."""
    if isinstance(mechanism, Mechanism) and mechanism.family:
        return mechanism.notes(facts)
    return ()


def priced_by(mechanism: Mechanism[Any], form: Form) -> Form:
    """Return the form for which a mechanism quotes what a question costs."""
    if not isinstance(mechanism, DistributionMechanism):
        return form
    if isinstance(form, forms.ConvexForms):  # whichever of them: all are free
        form = form.parts[0]
    if isinstance(form, forms.ConvexForm):
        labels = Identity(form.domain[form.label].size)
        return LinearForm(form.domain, (Kronecker.of(form.domain, {form.label: labels}),))
    return form
