"""The kernel: the only way from a mechanism to private data. It charges first, then reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, TypeVar, final, overload

from dpsdk._records import shows_half_made
from dpsdk.accounting import Budget, Guarantee, Odometer, Trusted
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data import PrivateData
from dpsdk.errors import InvalidArgument, Redacted
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel.access import Access, Allowance
from dpsdk.kernel.measure import EuclideanNoise, Measure, Noise
from dpsdk.kernel.primitive import Primitive, Request, TrustedRun, price_trusted
from dpsdk.kernel.terms import Terms
from dpsdk.kernel.trust import Trust
from dpsdk.noise import NoiseSource, PublicGenerator
from dpsdk.observe import Observer
from dpsdk.release import Measurement
from dpsdk.typing import Real

if TYPE_CHECKING:
    from dpsdk.forms import Crossing, GapForm, ProximalGapForm
    from dpsdk.kernel.draw_database.choose import Limits
    from dpsdk.kernel.draw_database.request import SmallDatabase
    from dpsdk.kernel.look import Reference
    from dpsdk.kernel.watch import Watch, Watching

__all__ = ["Kernel"]

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

_PACKAGE = f"{__package__}."
"""Requests of classes in modules below are priced as they say."""


@shows_half_made
@final
class Kernel:
    """Primitives on one private table, paid from one odometer.

    A strategy holds a kernel and asks its primitives. Each computes its cost from public
    arguments, charges the odometer, and only then draws noise and reads the table; so what a
    strategy gets has been paid for, whatever the strategy does with it.

    The kernel that a session hands out serves one question, or the opening of one channel: what it
    charges is charged for that, from whichever thread, and once that is over it is closed.

    Parameters
    ----------
    data, odometer, noise
        The table, what pays, and where randomness comes from.
    mechanism
        What charges are labelled with; public.
    observer
        Called with the events of dpsdk.observe.
    trust
        Classes of requests that may run though they are not of this package, by dotted names, each
        with its proof; see `Session`.
    """

    __slots__ = ("_access", "_paid", "_randomness")

    _access: Access
    _paid: Allowance
    _randomness: PublicGenerator

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None = None,
        *,
        trust: Mapping[str, str] | Iterable[Trusted] = (),
    ) -> None:
        self._access = Access(data, odometer, noise, mechanism, observer, Trust.of(trust, Request))

    @classmethod
    def over(cls, access: Access) -> Kernel:
        """A kernel over an access, as sessions make one for each question."""
        kernel = cls.__new__(cls)
        kernel._access = access
        return kernel

    @property
    def facts(self) -> Facts:
        """The public facts of the table."""
        return self._access.facts

    @property
    def randomness(self) -> PublicGenerator:
        """Public randomness to post-process with, whose draws cost nothing and hide nothing.

        One generator a kernel, and a new one for each question; keep the one of the opening for a
        stream that goes on. It starts from entropy of the operating system that no noise is made
        of, so that drawing from it neither shifts the noise nor tells anything of it. With
        `dpsdk.testing.seeded` it repeats.
        """
        known = getattr(self, "_randomness", None)
        if known is None:
            # Threads that come here at once may each have one for a moment.
            known = self._randomness = self._access.noise.public_generator()
        return known

    def progress(self, done: int, total: int | None = None, unit: str = "steps") -> bool:
        """Tell the session's observer how far the work on this question is. Costs nothing.

        Call it as often as you like: what is told is chosen by the counts alone, never by time. It
        is told at once in the thread that asked, if no turn is held there; else when there is
        occasion, at the latest when the question is over. Counts must be public: made of public
        arguments, and of what was released.

        Parameters
        ----------
        done, total
            How many units are done, and how many there are, if that is known.
        unit
            What is counted, such as "iterations"; of at most 16 kinds.

        Returns
        -------
        bool
            Whether the opener of the channel wants the work to stop here, by the `stop` that was
            given to `session.open`. A mechanism that can be stopped raises `Unfinished` then; any
            other may go on.

        Raises
        ------
        InvalidArgument, Closed
            If a count is out of range, or the question is over.
        """
        access = self._access
        access.check()
        question = access.question
        return question is not None and question.report(access.mechanism, done, total, unit)

    @property
    def terms(self) -> Terms:
        """The facts, how costs add up, and who is trusted."""
        return self._access.terms

    def run(self, request: Request[R], /, *, allowance: Allowance | None = None) -> R:
        """Price a request, pay for it, and only then do what it asks for.

        Parameters
        ----------
        request
            What to run, such as `Measure(form, noise)`; or one of a class of another author, if the
            kernel trusts it. The name of that class is then on the charge.
        allowance
            What was paid before, to be used up first. Not for other authors' classes, whose names
            belong on charges of their own.

        Raises
        ------
        InvalidArgument
            If the request does not fit the table. Nothing was charged.
        Untrusted
            If it is of a class of another author that nobody named. Nothing was charged.
        BudgetExceeded
            If the odometer refuses. Nothing has changed.
        ReleaseFailed
            If something fails after the charge. Why is not told, since that may depend on data.
        """
        access, priced = self._access, self._price(request)
        if not isinstance(priced, TrustedRun):
            charge = access.charge(priced.guarantee, allowance or getattr(self, "_paid", None))
        elif allowance is None:
            charge = access.charge_all((priced.guarantee,), (priced.name,))[-1]
        else:
            expected = "left out for a run of another author, whose name is on its own charge"
            raise InvalidArgument("allowance", expected, priced.name)
        return access.read(charge, priced.run)

    @overload
    def run_all(self, requests: tuple[Request[R], Request[S]], /) -> tuple[R, S]: ...
    @overload
    def run_all(self, requests: tuple[Request[R], Request[S], Request[T]], /) -> tuple[R, S, T]: ...
    @overload
    def run_all(self, requests: Iterable[Request[R]], /) -> tuple[R, ...]: ...
    def run_all(self, requests: Iterable[Request[object]], /) -> tuple[object, ...]:
        """Run several requests of any kinds, paid for all at once or not at all.

        If there are trusted classes of other authors among them, their names are on all charges.
        Raises as `run` does: before anything is charged for any of them, or after all are.
        """
        access, priced = self._access, [self._price(request) for request in requests]
        names = {run.name for run in priced if isinstance(run, TrustedRun)}
        charges = access.charge_all(tuple([run.guarantee for run in priced]), names)
        return tuple(
            [access.read(charge, run.run) for run, charge in zip(priced, charges, strict=True)]
        )

    def _price(self, request: Request[R]) -> Primitive[R] | TrustedRun[R]:
        """Price requests of the package, and those of classes that somebody vouched for."""
        access = self._access
        if type(request).__module__.startswith(_PACKAGE):
            return request.price(access.terms)
        return price_trusted(request, access.trust, access.terms)

    def measure(
        self,
        form: LinearForm,
        noise: Noise | EuclideanNoise,
        /,
        *,
        allowance: Allowance | None = None,
    ) -> Measurement[NoiseAccuracy]:
        """Answer a batch of linear queries with noise, in counts of rows.

        The same as ``run(Measure(form, noise), allowance=allowance)``; see `Measure`.
        """
        return self.run(Measure(form, noise), allowance=allowance)

    def draw_database(
        self,
        form: LinearForm,
        size: int,
        epsilon: Real,
        /,
        *,
        limits: Limits | None = None,
        allowance: Allowance | None = None,
    ) -> SmallDatabase:
        """Draw one small database for a workload, by the exponential mechanism, exactly.

        The same as ``run(DrawDatabase(form, size, epsilon, limits))``; see `DrawDatabase`. How long
        it takes depends on the table.
        """
        from dpsdk.kernel.draw_database.choose import Limits  # noqa: PLC0415  # few draw one
        from dpsdk.kernel.draw_database.request import DrawDatabase  # noqa: PLC0415  # the same

        request = DrawDatabase(form, size, epsilon, limits or Limits())
        return self.run(request, allowance=allowance)

    def select(
        self,
        gaps: GapForm | Crossing | Sequence[ProximalGapForm],
        epsilon: Real,
        /,
        *,
        groups: Sequence[slice] | None = None,
        penalties: Sequence[int] | None = None,
        opposites: bool = False,
        allowance: Allowance | None = None,
    ) -> int:
        """Choose the largest gap or group of gaps, or a quantile: the number of an option.

        The same as ``run(Select(gaps, epsilon, ...))``; see `Select`.
        """
        from dpsdk.kernel.select import Select  # noqa: PLC0415  # few select

        request = Select(gaps, epsilon, groups=groups, penalties=penalties, opposites=opposites)
        return self.run(request, allowance=allowance)

    def look(
        self,
        references: Iterable[Reference],
        noise: Noise,
        /,
        *,
        bits: int = 12,
        allowance: Allowance | None = None,
    ) -> Measurement[NoiseAccuracy]:
        """Measure L1 distances of marginals from public tables with noise, in rows.

        The same as ``run(Look(references, noise, bits))``; see `Look`.
        """
        from dpsdk.kernel.look import Look  # noqa: PLC0415  # few look

        return self.run(Look(references, noise, bits), allowance=allowance)

    def watch(self, parameters: Watching, /, *, allowance: Allowance | None = None) -> Watch:
        """Make a watch for gaps above a threshold. Nothing is paid before its first run opens."""
        from dpsdk.kernel.watch import Watch  # noqa: PLC0415  # few watch

        return Watch(self._access, parameters, allowance)

    def calibrate(
        self,
        runs: Callable[[Fraction], Iterable[Guarantee]],
        total: Budget | None = None,
        /,
        *,
        rho: Real | None = None,
    ) -> Fraction:
        """Find the largest scale at which runs together cost no more than a total; see `Terms`."""
        return self.terms.calibrate(runs, total, rho=rho)

    def allowance(self, guarantees: Iterable[Guarantee], /) -> Allowance:
        """Charge runs now, all or none, for primitives that are given the allowance to use up.

        A later run uses one up that covers it; runs that none covers are charged as ever.

        Parameters
        ----------
        guarantees
            What is paid for each run. `PureGuarantee(e)` pays for any run that is at most e-DP,
            and `noise.cover` for what is measured with a noise. A discrete Gaussian pays for those
            of a little less ρ, and not for itself: which run it will be may depend on answers that
            come in between, and choosing among lattices is worth something.

        Raises
        ------
        BudgetExceeded
            If they do not fit together. Nothing has changed.
        """
        paid: Allowance | None = getattr(self, "_paid", None)
        return self._access.allow(guarantees) if paid is None else paid

    def prepaid(self, allowance: Allowance, /) -> Kernel:
        """Return a kernel for several pieces of work, each of which asks for its own allowance.

        Each is given this one, which was paid for all of them, and so is what runs without one. A
        run that it does not cover is charged as ever.
        """
        kernel = Kernel.over(self._access)
        kernel._paid = allowance
        return kernel

    def __repr__(self) -> str:
        return f"Kernel({self._access.data!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
