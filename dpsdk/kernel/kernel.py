"""The kernel: the only way from a mechanism to private data. It charges first, then reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import NoReturn, final

from dpsdk._checks import shown, to_positive
from dpsdk.accounting import Budget, Guarantee, Odometer
from dpsdk.accounting.declared.calibration import calibrate_within
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data import PrivateData
from dpsdk.errors import InvalidArgument, Redacted
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel.access import Access, HasAccess
from dpsdk.kernel.allowance import Allowance
from dpsdk.kernel.measure import Noise, Prepared, measured, prepare
from dpsdk.kernel.progress import report
from dpsdk.kernel.watch import Watch, Watching
from dpsdk.noise import NoiseSource, PublicGenerator
from dpsdk.observe import Observer
from dpsdk.release import Measurement
from dpsdk.typing import Real

__all__ = ["Kernel"]


@final
class Kernel(HasAccess):
    """Primitives on one private table, paid from one odometer.

    A strategy holds a kernel and asks its primitives. Each computes its cost from public
    arguments, charges the odometer, and only then draws noise and reads the table; so what a
    strategy gets has been paid for, whatever the strategy does with it.

    The kernel that a session hands out serves one question, or the opening of one channel: what it
    charges is charged for that, from whichever thread, and once that is over it is closed.
    """

    __slots__ = ("_randomness",)

    _randomness: PublicGenerator

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None = None,
    ) -> None:
        self._access = Access(data, odometer, noise, mechanism, observer)

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
            known = self._randomness = self._access.public_generator()
        return known

    def progress(self, done: int, total: int | None = None, unit: str = "steps") -> None:
        """Tell the session's observer how far the work on this question is. Costs nothing.

        Call it as often as you like: what is told is chosen by the counts alone, never by time. It
        is told at once in the thread that asked, if no turn is held there; else when there is
        occasion, at the latest when the question is over. Counts must be public: made of public
        arguments, and of what was released.

        Parameters
        ----------
        done
            How many units are done.
        total
            How many there are, if that is known.
        unit
            What is counted, such as "iterations".

        Raises
        ------
        InvalidArgument
            If the counts are out of range, or more than 16 kinds of units are counted.
        Closed
            If the question is over.
        """
        report(self._access, done, total, unit)

    def measure(
        self, form: LinearForm, noise: Noise, /, *, allowance: Allowance | None = None
    ) -> Measurement[NoiseAccuracy]:
        """Noisy answers to a batch of linear queries, in counts of rows.

        Parameters
        ----------
        form
            The queries.
        noise
            `LaplaceNoise(epsilon)` makes the batch ε-DP, `GaussianNoise(rho)` ρ-zCDP; see
            dpsdk.kernel.measure for the theorem.
        allowance
            What was paid before, to be used up first.

        Raises
        ------
        BudgetExceeded
            If the odometer refuses. Nothing has changed.
        ReleaseFailed
            If something fails after the charge. Why is not told, since that may depend on data.
        """
        prepared = self._prepared(form, noise)
        charge = self._access.charge(prepared.guarantee, allowance)
        return self._measured(prepared, charge)

    def measure_all(
        self, requests: Iterable[tuple[LinearForm, Noise]], /
    ) -> tuple[Measurement[NoiseAccuracy], ...]:
        """Several measurements, paid for all at once or not at all.

        Parameters
        ----------
        requests
            A form and its noise for each, as for `measure`.

        Raises
        ------
        BudgetExceeded
            If they do not fit together. Nothing has changed.
        ReleaseFailed
            If one fails after the charge. All of them stay charged.
        """
        all_prepared = [self._prepared(form, noise) for form, noise in requests]
        charges = self._access.charge_all(tuple(one.guarantee for one in all_prepared))
        return tuple(map(self._measured, all_prepared, charges))

    def _prepared(self, form: LinearForm, noise: Noise) -> Prepared:
        return prepare(form, noise, self._access.setting, self._access.facts.domain)

    def _measured(self, prepared: Prepared, charge: int) -> Measurement[NoiseAccuracy]:
        values = self._access.read(charge, partial(measured, prepared))
        return Measurement(values, prepared.accuracy)

    def watch(self, plan: Watching, /, *, allowance: Allowance | None = None) -> Watch:
        """A watch for gaps above a threshold. Nothing is paid before its first run opens.

        See dpsdk.kernel.watch for the theorem.

        Parameters
        ----------
        plan
            The parameters of its runs.
        allowance
            What was paid before, to be used up first.
        """
        return Watch(self._access, plan, allowance)

    def calibrate(
        self,
        plan: Callable[[Fraction], Iterable[Guarantee]],
        total: Budget | None = None,
        /,
        *,
        rho: Real | None = None,
    ) -> Fraction:
        """The largest scale at which planned runs together cost no more than a total.

        Charges nothing: take an `allowance` of the plan at this scale to be sure of all of it.

        Parameters
        ----------
        plan
            The guarantees of the runs at a positive scale, in their order; each must cost more at a
            larger scale, as with ``lambda x: [PureGuarantee(x / 10)] * 10``.
        total
            What they may cost by the composition of the session, taken by themselves.
        rho
            Instead: what the sum of their ρ of zCDP may be, where none of them leaks.

        Returns
        -------
        Fraction
            A scale at which the plan was seen to fit, to nine digits; 0 where none was found.

        Raises
        ------
        InvalidArgument
            If not one of `total` and `rho` is given, or it is out of range.
        UnsupportedGuarantee
            If no theorem prices one of the runs.
        """
        if (total is None) == (rho is None):
            raise InvalidArgument("total", "given as a budget, or as rho", "both or neither")
        whole = to_positive("rho", 0 if rho is None else rho) if total is None else total
        if not isinstance(whole, Budget | Fraction):
            raise InvalidArgument("total", "a Budget", shown(total))
        return calibrate_within(self._access.composition, whole, plan)

    def allowance(self, guarantees: Iterable[Guarantee], /) -> Allowance:
        """Charge runs now, all or none, for primitives that are given the allowance to use up.

        A later run uses one up that covers it; runs that none covers are charged as ever.

        Parameters
        ----------
        guarantees
            The plan: what is proven of each run. `PureGuarantee(e)` pays for any run that is at
            most e-DP, a discrete Gaussian for any of at most its ρ on no coarser a lattice.

        Raises
        ------
        BudgetExceeded
            If they do not fit together. Nothing has changed.
        """
        return self._access.allow(guarantees)

    def __repr__(self) -> str:
        return f"Kernel({self._access.data!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
