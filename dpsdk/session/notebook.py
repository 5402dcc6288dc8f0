"""The HTML of a session, and of all that belongs to it: nothing that is not public."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from dpsdk._html import page, pairs, warning
from dpsdk.errors import DpsdkError
from dpsdk.session.context import Context

__all__ = ["Rows", "session_page"]

Rows: TypeAlias = Iterable[tuple[str, object]]


def _no_accounts() -> Rows:
    return ()


def _nothing() -> str:
    return ""


def session_page(
    title: str,
    context: Context,
    accounts: Callable[[], Rows] = _no_accounts,
    *,
    told: Rows = (),
    below: Callable[[], str] = _nothing,
) -> str:
    """The HTML of what belongs to a session. Charges nothing, and reads nothing but the ledger.

    Parameters
    ----------
    title
        What it is.
    context
        Its context.
    accounts
        Reads its ledger. A ledger that cannot be read is reported instead.
    told
        What else there is to say.
    below
        Gives what is shown below, as HTML, and may read the ledger too.
    """
    lines: list[tuple[str, object]] = [("table", repr(context.data))]
    part = ""
    try:
        lines += accounts()
        part = below()
    except DpsdkError as error:
        lines.append(("ledger", error))
    ended = ", closed" if context.lifetime.over else ""
    parts = warning(private=context.noise.private), pairs([*lines, *told]), part
    return page(f"{title}{ended}", *parts)
