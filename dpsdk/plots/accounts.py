"""Pictures of budgets: what a session and its scopes have spent, and what is left to them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsdk._checks import shown, to_beta
from dpsdk._records import frozen
from dpsdk.accounting import Remaining, Spent
from dpsdk.accounting.numbers import as_room, confidence, percentage
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Laplace
from dpsdk.plots._inputs import canvas_for, session_facts
from dpsdk.plots._text import format_count, printable
from dpsdk.queries.totals import Count
from dpsdk.session import Session

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["budget"]

_SHOWN = 24


@frozen
class _Account:
    """One line of the picture: a share that was spent, of what, and what is left."""

    name: str
    cap: str
    spent: Spent
    remaining: Remaining | None
    title: str
    reserved: bool = False
    closed: bool = False

    @property
    def words(self) -> str:
        """The spent and the remaining budget, in exact words."""
        charges = format_count(self.spent.charges, "charge")
        parts = [f"{percentage(self.spent.fraction)} spent in {charges}"]
        if self.closed:
            parts.append("closed")
        elif self.remaining is not None:
            left = self.remaining
            sizes = {"ε": left.epsilon, "ρ": left.rho}
            runs = [f"{name} {as_room(size)}" for name, size in sizes.items() if size > 0]
            parts.append(f"left: a run of {' or '.join(runs)}" if runs else "left: no run")
            if left.kept_epsilon is not None:
                parts.append(f"kept: ε {as_room(left.kept_epsilon)}")
        return "; ".join(parts)


def _accounts(x: Session | Spent) -> list[_Account]:
    if isinstance(x, Spent):
        return [_Account("account", x.of or str(x.guarantee), x, None, "account")]
    accounts = [_Account("session", str(x.budget), x.spent, x.remaining, "session")]
    for one in x.scopes:
        title, reserved = f"scope {printable(one.name, 40)!r}", one.reserve and not one.closed
        told = one.name, one.cap, one.spent, one.remaining, title, reserved, one.closed
        accounts.append(_Account(*told))
    return accounts


def _affordable_count(session: Session, beta: float) -> str:
    """Say how exact one count could be for all that is left."""
    left = session.remaining
    if not left.epsilon:
        return "No run of pure ε fits any more."
    quote = session.quote(Count(normalized=False), using=Laplace(left.epsilon))
    rows = quote.error(beta)
    return (
        f"All that is left would buy one count that is off by at most {rows:,.10g} "
        f"row{'' if rows == 1 else 's'} with probability {confidence(beta)} (β = {beta:g})."
    )


def budget(x: Session | Spent, ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """Draw the spending of a session and its scopes, and what is left to them.

    Parameters
    ----------
    x
        A session, with all scopes on its ledger; or what it, or a scope, has spent.
    ax
        As for `marginal`.
    beta
        How likely the count may be farther off that all that is left would buy; of a `Spent`
        nothing is known that is left.
    """
    fails = to_beta(beta)
    if not isinstance(x, Session | Spent):
        raise InvalidArgument("x", "a session, or what it has spent", shown(x))
    accounts = _accounts(x)
    drawn = accounts[:_SHOWN]
    canvas = canvas_for(ax, max(3.0, 2.1 * len(drawn)))
    axes, colours = canvas.axes, canvas.colours
    for place, account in enumerate(drawn):
        gone = account.spent.fraction
        axes.barh(
            place,
            1 - gone,
            0.42,
            left=gone,
            facecolor="none" if account.closed else colours.weak,
            edgecolor=colours.strong,
            hatch="////" if account.reserved else None,
            linewidth=0.8,
        ).set_label("_left")
        bar = axes.barh(place, gone, 0.42, color=colours.strong, edgecolor=colours.strong)
        bar.set_label("_spent")
        canvas.caption(place - 0.26, account.words)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(drawn) - 0.5, -0.75)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], labels=["0%", "25%", "50%", "75%", "100%"])
    canvas.name_axis("x", "share of its own cap")
    names = [f"{canvas.printable(one.name, 24)}\n{canvas.printable(one.cap, 30)}" for one in drawn]
    canvas.ticks("y", list(range(len(drawn))), names)
    lines = ["In each bar, from the left: what is spent, then what remains."]
    if any(account.reserved for account in drawn):
        lines[0] += " Hatched: set aside for its scope."
    if len(accounts) > len(drawn):
        lines.append(f"{len(accounts) - len(drawn):,} more scopes are not shown.")
    lines.append(f"Whatever is asked next, the session keeps {accounts[0].spent.guarantee}.")
    subject, private = accounts[0].cap, True
    if isinstance(x, Session):
        lines.append(_affordable_count(x, fails))
        table, private = session_facts(x)
        subject = f"{x.budget} on {shown(table)}"
    words = " ".join(f"{account.title} ({account.cap}): {account.words}." for account in drawn)
    return canvas.finish(f"Budget of {subject}", lines, words, private=private)
