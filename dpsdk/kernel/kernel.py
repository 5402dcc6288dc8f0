"""The kernel: the only way from a mechanism to private data. It charges first, then reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NoReturn, final

from dpsdk._checks import shown, to_positive
from dpsdk.accounting import Budget, Guarantee, Odometer
from dpsdk.accounting.calibration import calibrate_within
from dpsdk.data import PrivateData
from dpsdk.errors import InvalidArgument, Redacted
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel.access import Access
from dpsdk.kernel.measure import Noise, measured, prepare
from dpsdk.kernel.watch import Watch, Watching
from dpsdk.noise import NoiseSource
from dpsdk.observe import Observer
from dpsdk.release import Measurement
from dpsdk.typing import Real

__all__ = ["Kernel"]


@final
class Kernel:
    """Primitives on one private table, paid from one odometer.

    A strategy holds a kernel and asks its primitives. Each computes its cost from public
    arguments, charges the odometer, and only then draws noise and reads the table; so what a
    strategy gets has been paid for, whatever the strategy does with it.
    """

    __slots__ = ("_access",)

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None = None,
    ) -> None:
        self._access = Access(data, odometer, noise, mechanism, observer)

    @property
    def facts(self) -> Facts:
        """The public facts of the table."""
        return self._access.facts

    def measure(self, form: LinearForm, noise: Noise, /) -> Measurement:
        """Noisy answers to a batch of linear queries, in counts of rows.

        Parameters
        ----------
        form
            The queries.
        noise
            `LaplaceNoise(epsilon)` makes the batch ε-DP, `GaussianNoise(rho)` ρ-zCDP; see
            dpsdk.kernel.measure for the theorem.

        Raises
        ------
        BudgetExceeded
            If the odometer refuses. Nothing has changed.
        ReleaseFailed
            If something fails after the charge. Why is not told, since that may depend on data.
        """
        access = self._access
        prepared = prepare(form, noise, access.setting, access.facts.domain)
        charge = access.charge(prepared.guarantee)
        values = access.read(charge, lambda source, opened: measured(prepared, source, opened))
        return Measurement(values, prepared.accuracy)

    def watch(self, plan: Watching, /) -> Watch:
        """A watch for gaps above a threshold. Nothing is paid before its first run opens.

        See dpsdk.kernel.watch for the theorem.
        """
        return Watch(self._access, plan)

    def calibrate(
        self,
        plan: Callable[[Fraction], Iterable[Guarantee]],
        total: Budget | None = None,
        /,
        *,
        rho: Real | None = None,
    ) -> Fraction:
        """The largest scale at which planned runs together cost no more than a total.

        Charges nothing: `prepay` the plan at this scale to be sure of all of it.

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

    def prepay(self, guarantees: Iterable[Guarantee], /) -> None:
        """Charge runs now, all or none, that primitives with the same guarantees then use up.

        Raises
        ------
        BudgetExceeded
            If they do not fit together. Nothing has changed.
        """
        self._access.prepay(guarantees)

    def __repr__(self) -> str:
        return f"Kernel({self._access.data!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
