"""Readers of what is to be drawn: each gives what a picture needs, or names what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from dpsdk._checks import shown
from dpsdk.accounting import Spent
from dpsdk.accounting.numbers.display import confidence
from dpsdk.data.private_data import title_of
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.mechanisms import Laplace
from dpsdk.planner import Curve, Plan, Plans
from dpsdk.plots.accounts import Account, scoped
from dpsdk.queries.marginal import MarginalTable
from dpsdk.queries.monotone import ranked
from dpsdk.queries.threshold import Threshold
from dpsdk.queries.totals import Count
from dpsdk.queries.workload import Answers, Workload
from dpsdk.release import Release
from dpsdk.session import Session
from dpsdk.session.history import Receipt

__all__ = [
    "items_of",
    "to_accounts",
    "to_plans",
    "to_receipts",
    "to_releases",
    "to_table",
    "to_thresholds",
]

_MOST = 100_000


def to_table(x: object, attributes: int | None = None) -> Release[MarginalTable]:
    """A release of a marginal table."""
    expected = "a release of a marginal table, as session.release(Marginal(...)) gives"
    if not isinstance(x, Release):
        raise InvalidArgument("x", expected, shown(x))
    value: object = cast("Release[object]", x).value
    if not isinstance(value, MarginalTable):
        raise InvalidArgument("x", expected, f"a release of {shown(value)}")
    if attributes is not None and len(value.attributes) != attributes:
        two = f"a release of a marginal table of {attributes} attributes"
        raise InvalidArgument("x", two, f"one of {len(value.attributes)}")
    return cast("Release[MarginalTable]", x)


def to_thresholds(x: object) -> tuple[Release[Answers[float]], tuple[Threshold, ...], list[int]]:
    """A release of thresholds of one attribute, these, and how many cells lie below each."""
    expected = "a release of a workload of thresholds of one attribute, in one unit"
    if not isinstance(x, Release):
        raise InvalidArgument("x", expected, shown(x))
    release = cast("Release[object]", x)
    asked = release.asked
    if not isinstance(asked, Workload) or not isinstance(release.value, Answers):
        raise InvalidArgument("x", expected, f"a release of {shown(release.value)}")
    queries = cast("Workload[object]", asked).queries
    # Shares of other classes, also of their subclasses, may fall.
    thresholds = tuple([one for one in queries if type(one) is Threshold])
    if len(thresholds) < len(queries):
        other = next(one for one in queries if type(one) is not Threshold)
        raise InvalidArgument("x", expected, f"one with {shown(other)}")
    found = ranked(thresholds, release.facts.domain)
    if found is None:
        raise InvalidArgument("x", expected, "conditions of another class")
    chains, ranks = found
    units = [one.normalized for one in thresholds]
    for chain, unit, other in zip(chains, units, thresholds, strict=True):
        if chain != chains[0] or unit != units[0]:
            raise InvalidArgument("x", expected, f"{shown(thresholds[0])} and {shown(other)}")
    return cast("Release[Answers[float]]", x), thresholds, ranks.tolist()


def items_of(x: object, expected: str) -> list[object]:
    """The items of a sequence that is not empty."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise InvalidArgument("x", expected, shown(x))  # pyright: ignore[reportUnknownArgumentType]  # whatever it is
    items = list(cast("Iterable[object]", x))
    if not items:
        raise InvalidArgument("x", expected, "nothing")
    if len(items) > _MOST:
        raise InvalidArgument("x", f"at most {_MOST:,} of them", f"{len(items):,}")
    return items


_STREAMS = (
    "a session, its history, or releases of one number or truth value each, in the order of asking"
)


def to_receipts(x: object) -> list[Receipt] | None:
    """The receipts of a history; None if it is none."""
    if isinstance(x, Session):
        history = list(x.history)
        if not history:
            raise InvalidArgument("x", _STREAMS, "a session that was asked nothing")
        return history
    items = items_of(x, _STREAMS)
    found = [one for one in items if isinstance(one, Receipt)]
    if found and len(found) < len(items):
        raise InvalidArgument("x", _STREAMS, "receipts among other things")
    return found or None


def to_releases(x: object) -> list[Release[float]]:
    """Releases of one number each."""
    items = items_of(x, _STREAMS)
    for one in items:
        if not isinstance(one, Release):
            raise InvalidArgument("x", _STREAMS, f"some with {shown(one)}")
        value: object = cast("Release[object]", one).value
        if not isinstance(value, int | float):
            raise InvalidArgument("x", _STREAMS, f"a release of {shown(value)}")
    return cast("list[Release[float]]", items)


def to_plans(x: object) -> tuple[Sequence[Plan[Form]], Curve, str]:
    """Plans, their curve, and what they are for."""
    if isinstance(x, Plans):
        plans = cast("Plans[Form]", x)
        if not len(plans):
            raise InvalidArgument("x", _PLANS, "no plans")
        return plans.plans, plans.curve(), plans.question
    if isinstance(x, Plan):
        plan = cast("Plan[Form]", x)
        return (plan,), Curve(()), ""
    raise InvalidArgument("x", _PLANS, shown(x))


_PLANS = "the plans of session.plan(...), or one of them"


def to_accounts(x: object, beta: float) -> tuple[list[Account], str, str, bool]:
    """Accounts, whose they are, what is left is good for, and whether noise is private."""
    if isinstance(x, Spent):
        return (
            [Account("account", x.of or str(x.guarantee), x, None)],
            x.of or str(x.guarantee),
            "",
            True,
        )
    if not isinstance(x, Session):
        raise InvalidArgument("x", "a session, or what it has spent", shown(x))
    accounts = [Account("session", str(x.budget), x.spent, x.remaining), *map(scoped, x.scopes)]
    table, private = told_of(x)
    return accounts, f"{x.budget} on {shown(table)}", _good_for(x, beta), private


def _good_for(session: Session, beta: float) -> str:
    left = session.remaining
    if not left.epsilon:
        return "No run of pure ε fits any more."
    quote = session.quote(Count(normalized=False), using=Laplace(left.epsilon))
    rows = quote.error(beta)
    return (
        f"All that is left would buy one count that is off by at most {rows:,.10g} "
        f"row{'' if rows == 1 else 's'} with probability {confidence(beta)} (β = {beta:g})."
    )


def told_of(session: Session) -> tuple[str, bool]:
    """The name of the table of a session, and whether its noise is private."""
    context = session._context  # pyright: ignore[reportPrivateUsage]  # of the package
    return title_of(context.data), context.noise.private
