"""Pictures of audits: what was found, against what is claimed."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.plots._canvas import Canvas
from dpsdk.plots._inputs import to_items
from dpsdk.plots._text import format_count, format_number, printable
from dpsdk.testing.audit import SamplingReport, WorstCase

__all__ = ["draw_audits", "power", "to_reports"]

Audit: TypeAlias = WorstCase | SamplingReport

_SHOWN = 40
_ORDERS = (1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 64.0)


def to_reports(x: object) -> dict[str, WorstCase] | dict[str, SamplingReport]:
    """Read reports by name, all of one kind."""
    expected = "a WorstCase or SamplingReport, or a sequence or mapping of such of one kind"
    if isinstance(x, WorstCase | SamplingReport):
        named: dict[str, object] = {x.claimed if isinstance(x, WorstCase) else "test": x}
    elif isinstance(x, Mapping):
        given = cast("Mapping[object, object]", x)
        named = {str(name): report for name, report in given.items()}
    else:
        named = {f"{place}": one for place, one in enumerate(to_items(x, expected), 1)}
    cases = {name: one for name, one in named.items() if isinstance(one, WorstCase)}
    samples = {name: one for name, one in named.items() if isinstance(one, SamplingReport)}
    if named and len(cases) == len(named):
        return cases
    if named and len(samples) == len(named):
        return samples
    raise InvalidArgument("x", expected, shown(x))  # pyright: ignore[reportUnknownArgumentType]  # whatever it is


def draw_audits(
    reports: Mapping[str, WorstCase] | Mapping[str, SamplingReport], ax: Axes | None, beta: float
) -> Figure:
    """Draw one bar, or two, for each audit."""
    shown_reports = list(reports.items())[:_SHOWN]
    cases = [(name, one) for name, one in shown_reports if isinstance(one, WorstCase)]
    samples = [(name, one) for name, one in shown_reports if isinstance(one, SamplingReport)]
    canvas = Canvas(ax, max(3.5, 2.0 * len(shown_reports)))
    if cases:
        words, lines = _draw_cases(canvas, cases, beta)
        kind = "audit"
    else:
        words, lines = _draw_samples(canvas, samples, beta)
        kind = "statistical test"
    canvas.axes.set_ylim(len(shown_reports) - 0.5, -0.8)
    canvas.numbers("x")
    names = [canvas.printable(name, 24) for name, _ in shown_reports]
    canvas.ticks("y", list(range(len(names))), names)
    if len(reports) > len(shown_reports):
        lines.append(f"{len(reports) - len(shown_reports):,} more are not shown.")
    failed = sum(not _passed(report) for report in reports.values())
    verdict = f"{format_count(failed, 'claim')} REFUTED" if failed else "none refutes its claim"
    title = f"{format_count(len(reports), kind)}: {verdict}"
    if len(reports) == 1 and not failed:
        title = f"One {kind}: its claim is not refuted"
    told = " ".join(
        f"{printable(name, 40)}: {text}."
        for (name, _), text in zip(shown_reports, words, strict=True)
    )
    return canvas.finish(title, lines, told, private=True)


def _passed(report: Audit) -> bool:
    return report.passed if isinstance(report, WorstCase) else not report.violated


def _draw_cases(
    canvas: Canvas, named: Sequence[tuple[str, WorstCase]], beta: float
) -> tuple[list[str], list[str]]:
    """Draw what was found, as a share of what each claim allows."""
    axes, colours = canvas.axes, canvas.colours
    shares = [_share(report) for _, report in named]
    end = 1.15 * max([1.0, *filter(math.isfinite, shares)])
    words: list[str] = []
    for place, ((_, report), share) in enumerate(zip(named, shares, strict=True)):
        axes.barh(
            place,
            min(share, end),
            0.4,
            facecolor=colours.strong if report.passed else "none",
            edgecolor=colours.strong if report.passed else colours.ink,
            hatch=None if report.passed else "xxxx",
        ).set_label("_found")
        if math.isinf(share):
            axes.plot([end * 0.985], [place], ">", color=colours.ink, markersize=8, zorder=4)
        ends = [place - 0.26, place + 0.26]
        axes.plot([1, 1], ends, color=colours.ink, linewidth=2.2, label="_claimed")
        found = f"REFUTED by outcome {printable(report.outcome, 24)}"
        words.append(
            f"{'Not refuted' if report.passed else found}: found {report.quantity} "
            f"{format_number(report.figure)} of {format_number(report.allowed)} claimed, "
            f"{printable(report.claimed, 40)}"
        )
        canvas.caption(place - 0.26, words[-1])
    axes.set_xlim(0, end)
    canvas.name_axis("x", "found, as a share of what is claimed (line)")
    pairs = format_count(sum(one.pairs for _, one in named), "pair")
    paths = format_count(sum(one.paths for _, one in named), "path")
    lines = [f"Exact enumeration of {pairs} of neighbouring tables, {paths} in all."]
    powers = [power(report, beta) for _, report in named]
    known = [one for one in powers if one is not None]
    if len(known) == len(named):
        which = "this claim" if len(named) == 1 else "the weakest claim"
        lines.append(
            f"Under {which}, who knows all other rows and errs with probability β = {beta:g} finds "
            f"a row with probability {format_number(max(known))} at the most."
        )
    return words, [*lines, "An audit refutes a claim; none can prove it."]


def _share(report: WorstCase) -> float:
    if report.allowed > 0:
        return report.figure / report.allowed
    return math.inf if report.figure > 0 else 0.0


def _draw_samples(
    canvas: Canvas, named: Sequence[tuple[str, SamplingReport]], beta: float
) -> tuple[list[str], list[str]]:
    """Draw how likely each event is, on one table and on its neighbour."""
    axes, colours = canvas.axes, canvas.colours
    words: list[str] = []
    for place, (_, report) in enumerate(named):
        for height, up, face in (
            (report.first, -0.11, colours.strong),
            (report.second, 0.11, colours.weak),
        ):
            axes.barh(
                place + up,
                height,
                0.2,
                facecolor="none" if report.violated else face,
                edgecolor=colours.ink if report.violated else colours.strong,
                hatch=("xxxx" if up < 0 else "..") if report.violated else None,
            ).set_label("_found")
        ratio = math.inf if report.second <= 0 else report.first / report.second
        words.append(
            f"{'REFUTED' if report.violated else 'Not refuted'}: at least "
            f"{format_number(report.first)} on one table, at most {format_number(report.second)} "
            f"on its neighbour, {format_number(ratio)} times, {printable(report.event, 40)}"
        )
        canvas.caption(place - 0.26, words[-1])
    axes.axvline(beta, color=colours.ink, linewidth=1.0, linestyle=":", label="beta")
    axes.set_xlim(0, 1.1 * max([0.1, beta, *[max(one.first, one.second) for _, one in named]]))
    canvas.name_axis("x", "probability of the event that tells most")
    samples = sum(one.samples for _, one in named)
    errs = format_count(sum(one.second <= beta for _, one in named), "event errs", "events err")
    return words, [
        f"{samples:,} samples. Above: on one table, at least; below: on its neighbour, at most.",
        f"As an attack, {errs} with probability β = {beta:g} at the most (dotted).",
        "A test refutes a claim with high confidence; none can prove it.",
    ]


def power(report: WorstCase, beta: float) -> float | None:
    """Return the largest probability, under the claim, to find a row by a test that errs with beta.

    Of pure claims by Wasserman and Zhou (2010), theorem 2.4, in both directions; of
    zero-concentrated ones since a test cannot raise a Rényi divergence. None of other claims.
    """
    if report.quantity in ("ε", "η"):
        epsilon = report.allowed
        if epsilon > 700:
            return 1.0
        return min(beta * math.exp(epsilon), 1 - (1 - beta) * math.exp(-epsilon))
    if report.quantity != "ρ":
        return None
    low, high = beta, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if any(_divergence(middle, beta, order) > report.allowed * order for order in _ORDERS):
            high = middle
        else:
            low = middle
    return high


def _divergence(first: float, second: float, order: float) -> float:
    """Return the Rényi divergence of two coins."""
    terms = [
        order * math.log(one) + (1 - order) * math.log(other)
        for one, other in ((first, second), (1 - first, 1 - second))
        if one > 0
    ]
    largest = max(terms)
    return (largest + math.log(sum(math.exp(term - largest) for term in terms))) / (order - 1)
