"""How a server of PostgreSQL is reached, and what of that may be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from dpsdk.errors import InvalidArgument, MissingExtra

__all__ = ["address_of"]

_LIMITS: Mapping[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "fallback_application_name": "dpsdk",
}
"""How long one waits for a network that is gone, unless the connection string says otherwise."""

_PLAIN: Mapping[str, re.Pattern[str]] = {
    "user": re.compile(r"[^:/]*"),
    "host": re.compile(r"[^@:/=]*|/[^@=]*|[0-9A-Fa-f:.,]*"),
    "port": re.compile(r"[0-9,]*"),
    "dbname": re.compile(r"[^@:/=;]*"),
    "service": re.compile(r"[^@:/=;]*"),
}
"""How the public parts of an address look: names, the folder of a socket, numbers."""


def address_of(dsn: str) -> tuple[str, str]:
    """How a server is reached, with limits for networks that are gone, and what may be shown."""
    try:
        from psycopg import Error  # noqa: PLC0415  # of an extra
        from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415  # of an extra
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    # Never what was given, which may hold a password.
    expected = "a connection string of PostgreSQL, as postgresql://user@host/database"
    if not isinstance(dsn, str):
        raise InvalidArgument("dsn", expected, type(dsn).__name__)
    reached, given = "", dict[str, str | int | None]()
    with suppress(Error, UnicodeError, ValueError):
        given = dict(conninfo_to_dict(dsn))
        reached = make_conninfo("", **{**_LIMITS, **given, "client_encoding": "UTF8"})
    # Only now, so that what psycopg said of it is not in the error's context either.
    if not reached:
        raise InvalidArgument("dsn", expected, "another text")
    return reached, _public(given)


def _public(given: Mapping[str, str | int | None]) -> str:
    shown = {name: str(given.get(name) or "") for name in _PLAIN}
    if not all(plain.fullmatch(shown[name]) for name, plain in _PLAIN.items()):
        return "an address that is not shown"
    user, host, port, database, service = shown.values()
    public = f"{user}{'@' if user else ''}{host}{':' if port else ''}{port}/{database}"
    return f"postgresql://{public} service {service}" if service else f"postgresql://{public}"
