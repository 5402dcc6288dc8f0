"""How a server of PostgreSQL is reached, and what of that may be shown."""

from __future__ import annotations

from collections.abc import Mapping

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
    try:
        given = dict[str, str | int | None](conninfo_to_dict(dsn))
        reached = make_conninfo("", **{**_LIMITS, **given, "client_encoding": "UTF8"})
    except (Error, UnicodeError, ValueError):
        raise InvalidArgument("dsn", expected, "another text") from None
    user, host, port, database = [
        str(given.get(name) or "") for name in ("user", "host", "port", "dbname")
    ]
    public = f"{user}{'@' if user else ''}{host}{':' if port else ''}{port}/{database}"
    service = given.get("service")
    return reached, public if service is None else f"{public} service {service}"
