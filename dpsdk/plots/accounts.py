"""Accounts as pictures show them: what was spent of what, and what is left."""

from __future__ import annotations

from attrs import frozen

from dpsdk.accounting import Remaining, ScopeStatement, Spent
from dpsdk.accounting.numbers.display import as_room, percentage
from dpsdk.plots.texts import several, spelled

__all__ = ["Account", "scoped"]


@frozen
class Account:
    """One line of the picture: a share that was spent, of what, and what is left."""

    name: str
    cap: str
    spent: Spent
    remaining: Remaining | None
    reserve: bool = False
    closed: bool = False
    scope: bool = False

    @property
    def called(self) -> str:
        """What sentences call it."""
        return f"scope {spelled(self.name, 40)!r}" if self.scope else self.name

    @property
    def words(self) -> str:
        """What was spent, and what is left, in words that are exact."""
        runs = several(self.spent.charges, "charge")
        parts = [f"{percentage(self.spent.fraction)} spent in {runs}"]
        if self.closed:
            parts.append("closed")
        elif self.remaining is not None:
            left = self.remaining
            sizes = {"ε": left.epsilon, "ρ": left.rho}
            told = [f"{name} {as_room(size)}" for name, size in sizes.items() if size > 0]
            parts.append(f"left: a run of {' or '.join(told)}" if told else "left: no run")
            if left.kept_epsilon is not None:
                parts.append(f"kept: ε {as_room(left.kept_epsilon)}")
        return "; ".join(parts)


def scoped(statement: ScopeStatement) -> Account:
    """The line of a scope."""
    return Account(
        statement.name,
        statement.cap,
        statement.spent,
        statement.remaining,
        statement.reserve,
        statement.closed,
        scope=True,
    )
