"""Events of a session as metrics and span events of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Protocol, TypeAlias, cast, final

from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.errors import MissingExtra
from dpsdk.observe.events import Answered, Charged, Event, Opened, Progress, fields_of, kind_of

__all__ = ["OpenTelemetryObserver"]

_MOST_NAMES = 64
_OTHER = "other"

_Attributes: TypeAlias = Mapping[str, "str | int"]


class _Counter(Protocol):
    def add(self, amount: float, attributes: _Attributes) -> None: ...


class _Meter(Protocol):
    def create_counter(self, name: str, unit: str, description: str) -> _Counter: ...


class _Span(Protocol):
    def is_recording(self) -> bool: ...
    def add_event(self, name: str, attributes: _Attributes) -> None: ...


class _Metrics(Protocol):
    def get_meter(self, name: str, *, meter_provider: object = None) -> _Meter: ...


class _Trace(Protocol):
    def get_current_span(self) -> _Span: ...


@final
class OpenTelemetryObserver:
    """An observer that counts events, and adds them to the span that is current. Never raises.

    The counters are ``dpsdk.questions`` by ``dpsdk.outcome`` (opened, answered, reused or refused),
    ``dpsdk.charges``, ``dpsdk.epsilon`` (of the charges that are pure) and ``dpsdk.rho``; each also
    by ``dpsdk.mechanism``, which is its name without parameters, and ``dpsdk.scope``. So that there
    are not too many series, the first 64 mechanisms and the first 64 scopes have names, and all
    others are "other"; queries and request ids are told by span events alone, such as
    ``dpsdk.charged``. Progress is not told. Sums are in floats: what was spent is what the ledger
    says.

    Parameters
    ----------
    meter_provider
        Gives the meter; by default the provider that is set for the process.

    Raises
    ------
    MissingExtra
        Without ``dpsdk[otel]``.
    """

    __slots__ = ("_charges", "_epsilon", "_lock", "_names", "_questions", "_rho", "_trace")

    def __init__(self, meter_provider: object = None) -> None:
        try:
            metrics = cast("_Metrics", import_module("opentelemetry.metrics"))
            self._trace = cast("_Trace", import_module("opentelemetry.trace"))
        except ImportError:
            raise MissingExtra("opentelemetry-api", "otel") from None
        meter = metrics.get_meter("dpsdk", meter_provider=meter_provider)
        made = meter.create_counter
        self._questions = made("dpsdk.questions", "{question}", "Questions by what became of them")
        self._charges = made("dpsdk.charges", "{charge}", "Charges to privacy budgets")
        self._epsilon = made("dpsdk.epsilon", "1", "Sum of the epsilon of pure charges")
        self._rho = made("dpsdk.rho", "1", "Sum of the rho of all charges")
        self._names: dict[str, set[str]] = {"mechanism": set(), "scope": set()}
        self._lock = Lock()

    def __call__(self, event: Event, /) -> None:
        """Count an event."""
        with suppress(Exception):  # exporters of others may raise what they like
            if isinstance(event, Progress):
                return
            span = self._trace.get_current_span()
            if span.is_recording():
                told = {f"dpsdk.{name}": value for name, value in fields_of(event).items()}
                span.add_event(f"dpsdk.{kind_of(event)}", told)
            by = {
                "dpsdk.mechanism": self._name("mechanism", event.mechanism.partition("(")[0]),
                "dpsdk.scope": self._name("scope", event.scope),
            }
            if isinstance(event, Charged):
                self._charges.add(1, by)
                epsilon = pure_epsilon(event.guarantee)
                if epsilon is not None:
                    self._epsilon.add(float(epsilon), by)
                self._rho.add(float(zcdp_rho(event.guarantee)), by)
                return
            if isinstance(event, Answered):
                outcome = "reused" if event.reused else "answered"
            else:
                outcome = "opened" if isinstance(event, Opened) else "refused"
            self._questions.add(1, {**by, "dpsdk.outcome": outcome})

    def _name(self, what: str, name: str) -> str:
        known = self._names[what]
        if name in known:
            return name
        # Only where a new name comes. A handler of signals that comes in between does not wait.
        if self._lock.acquire(blocking=False):
            try:
                if len(known) < _MOST_NAMES:
                    known.add(name)
            finally:
                self._lock.release()
        return name if name in known else _OTHER

    def __repr__(self) -> str:
        return "OpenTelemetryObserver()"
