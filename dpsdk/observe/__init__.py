"""Events for the application while a session works: costs and names, never answers."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names
from dpsdk.observe.events import (
    Answered,
    Charged,
    Event,
    Observer,
    Observers,
    Opened,
    Progress,
    Refused,
)

if TYPE_CHECKING:
    from dpsdk.observe.logs import LoggingObserver
    from dpsdk.observe.telemetry import OpenTelemetryObserver
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"logs": "LoggingObserver", "telemetry": "OpenTelemetryObserver"}
    )

__all__ = [
    "Answered",
    "Charged",
    "Event",
    "LoggingObserver",
    "Observer",
    "Observers",
    "OpenTelemetryObserver",
    "Opened",
    "Progress",
    "Refused",
]
