"""The kernel: the only way from a mechanism to private data. It charges first, then reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, final

from dpsdk.accounting import Guarantee, Odometer
from dpsdk.data import PrivateData
from dpsdk.errors import Redacted
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel.access import Access
from dpsdk.kernel.measure import Noise, measured, price
from dpsdk.kernel.watch import Watch, Watching
from dpsdk.noise import NoiseSource
from dpsdk.observe import Observer
from dpsdk.release import Measurement

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
        pricing = price(form, noise, self.facts)
        charge = self._access.charge(pricing.guarantee)
        values = self._access.read(charge, lambda source, opened: measured(pricing, source, opened))
        return Measurement(values, pricing.accuracy)

    def watch(self, plan: Watching, /) -> Watch:
        """A watch for gaps above a threshold. Nothing is paid before its first run opens.

        See dpsdk.kernel.watch for the theorem.
        """
        return Watch(self._access, plan)

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
