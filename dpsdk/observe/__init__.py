"""Events for the application while a session works: costs and names, never answers."""

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
from dpsdk.observe.logs import LoggingObserver
from dpsdk.observe.telemetry import OpenTelemetryObserver

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
