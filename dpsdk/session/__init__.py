"""The session, and what it is made of: scopes, parts, channels, history and kept forms."""

from dpsdk.session.discovery import Discovery
from dpsdk.session.session import Session

__all__ = ["Discovery", "Session"]
