"""Pictures of what was released, planned, spent and found, for people.

Each is one call that gives a `matplotlib.figure.Figure`; the extra `plots` installs matplotlib.
`pyplot` has no part in it, so that nothing has to be closed and threads do not meet. With `ax=`,
axes of a figure of your own, a picture is drawn into these, and their figure is given.

Pictures are made of what is public already. They show numbers as they were released, also those
below nought, and say on what their bars rest, what was paid, and if seeded noise was used. They
follow the style in use, such as `matplotlib.style.context("dark_background")`, and colours differ
in lightness. Labels are drawn letter by letter: nothing in them is read as a formula.
`alternative` gives a picture in words, and notebooks show it with that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dpsdk._checks import shown, to_beta
from dpsdk.accounting import Spent
from dpsdk.errors import InvalidArgument, MissingExtra
from dpsdk.planner import Plan, Plans
from dpsdk.plots._inputs import (
    session_facts,
    to_plans,
    to_receipts,
    to_releases,
    to_table,
    to_thresholds,
)
from dpsdk.queries import Answers, MarginalTable
from dpsdk.release import Release
from dpsdk.session import Session
from dpsdk.session.history import Receipt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpsdk.testing.audit import SamplingReport, WorstCase

    Audits: TypeAlias = (
        WorstCase
        | SamplingReport
        | Sequence[WorstCase]
        | Sequence[SamplingReport]
        | Mapping[str, WorstCase]
        | Mapping[str, SamplingReport]
    )

__all__ = [
    "alternative",
    "audit",
    "budget",
    "cdf",
    "heatmap",
    "marginal",
    "plan",
    "stream",
]


def _require_matplotlib() -> None:
    try:
        import matplotlib.figure as figures  # noqa: PLC0415  # an extra, and slow to import
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    del figures


def marginal(x: Release[MarginalTable], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """A marginal table, one bar a cell: the values as released, and the ends of `interval`.

    Parameters
    ----------
    x
        A release of a marginal table, of any number of attributes.
    ax
        Axes to draw into; by default those of a new figure.
    beta
        All bars hold at once with probability 1 - `beta`; where that is known of each cell alone,
        each by itself; where nothing is known there are none. The heading says which.

    Raises
    ------
    InvalidArgument
        If an argument is something else.
    MissingExtra
        If matplotlib is missing.
    """
    release, fails = to_table(x), to_beta(beta)
    _require_matplotlib()
    from dpsdk.plots.tables import draw_marginal  # noqa: PLC0415  # imports matplotlib

    return draw_marginal(release, ax, fails)


def heatmap(x: Release[MarginalTable], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """A marginal table of two attributes as a map; cells that noise hides are hatched.

    A cell is hatched where its bounds include 0, or, without bounds, where it is not above 0. Small
    tables have their numbers and bounds in the cells.

    Parameters
    ----------
    x
        A release of a marginal table of two attributes: the first goes down, the second across.
    ax, beta
        As for `marginal`.

    Raises
    ------
    InvalidArgument, MissingExtra
        As `marginal` does.
    """
    release, fails = to_table(x, 2), to_beta(beta)
    _require_matplotlib()
    from dpsdk.plots.tables import draw_heatmap  # noqa: PLC0415  # imports matplotlib

    return draw_heatmap(release, ax, fails)


def cdf(x: Release[Answers[float]], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """How many rows lie at or below each of some thresholds.

    Where all bars hold at once, what follows between two thresholds is shaded: the truth is there
    no lower than at the one before, and no higher than at the next.

    Parameters
    ----------
    x
        A release of a workload of `Threshold` queries of one attribute, in any order.
    ax, beta
        As for `marginal`.

    Raises
    ------
    InvalidArgument, MissingExtra
        As `marginal` does.
    """
    (release, thresholds, ranks), fails = to_thresholds(x), to_beta(beta)
    _require_matplotlib()
    from dpsdk.plots.curves import draw_cdf  # noqa: PLC0415  # imports matplotlib

    return draw_cdf(release, thresholds, ranks, ax, fails)


def stream(
    x: Session | Sequence[Receipt] | Sequence[Release[float]],
    ax: Axes | None = None,
    beta: float = 0.05,
) -> Figure:
    """Draw the answers over time and their cost so far, in the order of asking.

    Of an online mechanism, what was paid for are its updates: all else is free. Costs are summed in
    ε where every run has a pure one, else in ρ.

    Parameters
    ----------
    x
        Releases of one number or truth value each, as a channel gave them; or a session, or its
        history, of which costs are known and answers are not.
    ax
        As for `marginal`.
    beta
        How likely a bar may fail, each by itself unless the channel promises them together. A
        history has no bars.

    Raises
    ------
    InvalidArgument, MissingExtra
        As `marginal` does.
    """
    receipts, fails = to_receipts(x), to_beta(beta)
    releases = [] if receipts is not None else to_releases(x)
    _require_matplotlib()
    from dpsdk.plots.curves import draw_receipts, draw_releases  # noqa: PLC0415  # matplotlib

    if receipts is None:
        return draw_releases(releases, ax, fails)
    private = session_facts(x)[1] if isinstance(x, Session) else True
    return draw_receipts(receipts, ax, private=private)


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

    Raises
    ------
    InvalidArgument, MissingExtra
        As `marginal` does.
    """
    fails = to_beta(beta)
    _require_matplotlib()
    from dpsdk.plots.accounts import draw_budget  # noqa: PLC0415  # imports matplotlib

    return draw_budget(x, ax, fails)


def plan(x: Plans[Any] | Plan[Any], ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """Plans at what they would cost and how far off they would be, and the curves of `curve()`.

    Parameters
    ----------
    x
        What `session.plan(...)` gave, or one of these plans.
    ax
        As for `marginal`; in these, plans have their names beside them, and no list below.
    beta
        Bounds that were planned for a larger one are left out, and the picture says so.

    Raises
    ------
    InvalidArgument, MissingExtra
        As `marginal` does.
    """
    (plans, curve, question), fails = to_plans(x), to_beta(beta)
    _require_matplotlib()
    from dpsdk.plots.plans import draw_plans  # noqa: PLC0415  # imports matplotlib

    return draw_plans(plans, curve, question, ax, fails)


def audit(x: Audits, ax: Axes | None = None, beta: float = 0.05) -> Figure:
    """Draw the findings of audits beside the claims.

    Parameters
    ----------
    x
        A `WorstCase` of `dpsdk.testing.audit.audit`, or a `SamplingReport` of its `sample`; or
        several of one kind, in a mapping by name.
    ax
        As for `marginal`.
    beta
        How often an attacker errs: said is how often one then succeeds at the most, where the claim
        tells. Of tests it is drawn as a line.

    Raises
    ------
    InvalidArgument, MissingExtra
        As `marginal` does.
    """
    fails = to_beta(beta)
    _require_matplotlib()
    from dpsdk.plots.audits import draw_audits, to_reports  # noqa: PLC0415  # imports matplotlib

    return draw_audits(to_reports(x), ax, fails)


def alternative(figure: Figure) -> str:
    """The pictures of a figure in words, with their numbers, for readers who do not see them.

    As an `alt` text of a page, or within a file:
    ``figure.savefig("ages.svg", metadata={"Description": plots.alternative(figure)})``. Empty where
    nothing in the figure was drawn by this module.

    Raises
    ------
    InvalidArgument
        If it is no figure.
    MissingExtra
        If matplotlib is missing.
    """
    _require_matplotlib()
    from matplotlib.figure import Figure as AnyFigure  # noqa: PLC0415  # an extra

    from dpsdk.plots._canvas import alternative_of  # noqa: PLC0415  # imports matplotlib

    if not isinstance(figure, AnyFigure):
        raise InvalidArgument("figure", "a figure of matplotlib", shown(figure))
    return alternative_of(figure)
