"""Readers of what is to be drawn: each returns what a picture needs, or names what it expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from dpsdk._checks import shown
from dpsdk.data.private_data import title_of
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.planner import Curve, Plan, Plans
from dpsdk.queries.marginal import MarginalTable
from dpsdk.queries.monotone import ranked
from dpsdk.queries.threshold import Threshold
from dpsdk.queries.workload import Answers, Workload
from dpsdk.release import Release
from dpsdk.session import Session
from dpsdk.session.history import Receipt

__all__ = [
    "session_facts",
    "to_items",
    "to_plans",
    "to_receipts",
    "to_releases",
    "to_table",
    "to_thresholds",
]

_MOST = 100_000
_PLANS = "the plans of session.plan(...), or one of them"
_STREAMS = (
    "a session, its history, or releases of one number or truth value each, in the order of asking"
)


def to_table(x: object, attributes: int | None = None) -> Release[MarginalTable]:
    """Read a release of a marginal table."""
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
    """Read a release of thresholds of one attribute: it, them, and the cells below each."""
    expected = "a release of a workload of thresholds of one attribute, in one unit"
    if not isinstance(x, Release):
        raise InvalidArgument("x", expected, shown(x))
    release = cast("Release[object]", x)
    asked = release.asked
    if not isinstance(asked, Workload) or not isinstance(release.value, Answers):
        raise InvalidArgument("x", expected, f"a release of {shown(release.value)}")
    queries = cast("Workload[object]", asked).queries
    # Shares of other classes, also of their subclasses, may fall.
    thresholds = tuple([query for query in queries if type(query) is Threshold])
    if len(thresholds) < len(queries):
        other = next(query for query in queries if type(query) is not Threshold)
        raise InvalidArgument("x", expected, f"one with {shown(other)}")
    known = ranked(thresholds, release.facts.domain)
    if known is None:
        raise InvalidArgument("x", expected, "conditions of another class")
    chains, ranks = known
    for chain, query in zip(chains, thresholds, strict=True):
        if chain != chains[0] or query.normalized != thresholds[0].normalized:
            raise InvalidArgument("x", expected, f"{shown(thresholds[0])} and {shown(query)}")
    return cast("Release[Answers[float]]", x), thresholds, ranks.tolist()


def to_items(x: object, expected: str) -> list[object]:
    """Read the items of a sequence that is not empty."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise InvalidArgument("x", expected, shown(x))  # pyright: ignore[reportUnknownArgumentType]  # whatever it is
    items = list(cast("Iterable[object]", x))
    if not items:
        raise InvalidArgument("x", expected, "nothing")
    if len(items) > _MOST:
        raise InvalidArgument("x", f"at most {_MOST:,} of them", f"{len(items):,}")
    return items


def to_receipts(x: object) -> list[Receipt] | None:
    """Read the receipts of a history; None if it is none."""
    if isinstance(x, Session):
        history = list(x.history)
        if not history:
            raise InvalidArgument("x", _STREAMS, "a session that was asked nothing")
        return history
    items = to_items(x, _STREAMS)
    receipts = [item for item in items if isinstance(item, Receipt)]
    if receipts and len(receipts) < len(items):
        raise InvalidArgument("x", _STREAMS, "receipts among other things")
    return receipts or None


def to_releases(x: object) -> list[Release[float]]:
    """Read releases of one number each."""
    items = to_items(x, _STREAMS)
    for item in items:
        if not isinstance(item, Release):
            raise InvalidArgument("x", _STREAMS, f"some with {shown(item)}")
        value: object = cast("Release[object]", item).value
        if not isinstance(value, int | float):
            raise InvalidArgument("x", _STREAMS, f"a release of {shown(value)}")
    return cast("list[Release[float]]", items)


def to_plans(x: object) -> tuple[Sequence[Plan[Form]], Curve, str]:
    """Read plans, their curve, and what they are for."""
    if isinstance(x, Plans):
        plans = cast("Plans[Form]", x)
        if not len(plans):
            raise InvalidArgument("x", _PLANS, "no plans")
        return plans.plans, plans.curve(), plans.question
    if isinstance(x, Plan):
        return (cast("Plan[Form]", x),), Curve(()), ""
    raise InvalidArgument("x", _PLANS, shown(x))


def session_facts(session: Session) -> tuple[str, bool]:
    """Return the name of the table of a session, and whether its noise is private."""
    context = session._context  # pyright: ignore[reportPrivateUsage]  # of the package
    return title_of(context.data), context.noise.private
