"""The kernel: the only way from a mechanism to private data. It charges first, then reads."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import NoReturn, final

from attrs import define, field

from dpsdk.accounting import Guarantee, Odometer
from dpsdk.data import PrivateData
from dpsdk.data.vault import open_histogram
from dpsdk.errors import BudgetExceeded, Redacted, ReleaseFailed
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel.measure import Noise, Pricing, price
from dpsdk.noise import NoiseSource
from dpsdk.observe import Charged, Observer, Refused
from dpsdk.release import Measurement
from dpsdk.typing import Floats

__all__ = ["Kernel", "Receipt", "receipt"]


@define
class Receipt:
    """What the primitives charged on behalf of one question."""

    query: str
    guarantees: list[Guarantee] = field(factory=list[Guarantee])


receipt: ContextVar[Receipt | None] = ContextVar("receipt", default=None)
"""The question that the running thread or task is answering."""


@final
class Kernel:
    """Primitives on one private table, paid from one odometer.

    A strategy holds a kernel and asks its primitives. Each computes its cost from public
    arguments, charges the odometer, and only then draws noise and reads the table; so what a
    strategy gets has been paid for, whatever the strategy does with it.
    """

    __slots__ = ("_data", "_mechanism", "_noise", "_observer", "_odometer")

    def __init__(
        self,
        data: PrivateData,
        odometer: Odometer,
        noise: NoiseSource,
        mechanism: str,
        observer: Observer | None = None,
    ) -> None:
        self._data = data
        self._odometer = odometer
        self._noise = noise
        self._mechanism = mechanism
        self._observer = observer

    @property
    def facts(self) -> Facts:
        """The public facts of the table."""
        return self._data.facts

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
        number = self._charge(pricing.guarantee)
        values, interrupt = self._settle(pricing)
        if interrupt is not None:
            raise interrupt
        if values is None:
            raise ReleaseFailed(number)
        return Measurement(values, pricing.accuracy)

    def _charge(self, guarantee: Guarantee) -> int:
        asked = receipt.get()
        query = "" if asked is None else asked.query
        try:
            number = self._odometer.charge(guarantee, query)
        except BudgetExceeded:
            if self._observer is not None:
                self._observer(Refused(query, self._mechanism, guarantee))
            raise
        if asked is not None:
            asked.guarantees.append(guarantee)
        if self._observer is not None:
            with suppress(Exception):  # what was paid for must not be lost
                self._observer(Charged(number, query, self._mechanism, guarantee))
        return number

    def _settle(self, pricing: Pricing) -> tuple[Floats | None, BaseException | None]:
        """Draw, read and add. Private values stay in this frame, and no error leaves it."""
        try:
            # The noise comes first, so that its time cannot depend on what is read.
            noise = self._noise.draw(pricing.law, pricing.form.rows)
            answers = pricing.form.evaluate(open_histogram(self._data))
            return pricing.settle(answers, noise), None
        except (KeyboardInterrupt, SystemExit) as stop:
            return None, type(stop)()
        except BaseException:  # noqa: BLE001  # its text and place may depend on data
            return None, None

    def __repr__(self) -> str:
        return f"Kernel({self._data!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")
