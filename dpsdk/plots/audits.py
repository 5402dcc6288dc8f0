"""Pictures of audits: what was found, against what is claimed."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from dpsdk._checks import shown, to_beta
from dpsdk.errors import InvalidArgument
from dpsdk.plots._inputs import canvas_for, to_items
from dpsdk.plots._text import format_count, format_number, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpsdk.plots._canvas import Canvas
    from dpsdk.testing.audit import SamplingReport, WorstCase

    Audits: TypeAlias = (
        WorstCase
        | SamplingReport
        | Sequence[WorstCase]
        | Sequence[SamplingReport]
        | Mapping[str, WorstCase]
        | Mapping[str, SamplingReport]
    )
    Reports: TypeAlias = dict[str, WorstCase] | dict[str, SamplingReport]

__all__ = ["audit", "power"]

_SHOWN = 40
_ORDERS = (1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 64.0)


def _to_reports(x: object) -> Reports:
    """Read reports by name, all of one kind."""
    from dpsdk.testing.audit import SamplingReport, WorstCase  # noqa: PLC0415  # which few load

    expected = "a WorstCase or SamplingReport, or a sequence or mapping of such of one kind"
    if isinstance(x, WorstCase | SamplingReport):
        named: dict[str, object] = {x.claimed if isinstance(x, WorstCase) else "test": x}
    elif isinstance(x, Mapping):
        given = cast("Mapping[object, object]", x)
        named = {str(name): report for name, report in given.items()}
    else:
        named = {f"{place}": one for place, one in enumerate(to_items(x, expected), 1)}
    for kind in (WorstCase, SamplingReport):
        if named and all(isinstance(one, kind) for one in named.values()):
            return cast("Reports", named)
    raise InvalidArgument("x", expected, shown(x))  # pyright: ignore[reportUnknownArgumentType]  # whatever it is


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
    """
    from dpsdk.testing.audit import SamplingReport, WorstCase  # noqa: PLC0415  # which few load

    fails, reports = to_beta(beta), _to_reports(x)
    drawn = list(reports.items())[:_SHOWN]
    cases = [one for _, one in drawn if isinstance(one, WorstCase)]
    samples = [one for _, one in drawn if isinstance(one, SamplingReport)]
    canvas = canvas_for(ax, max(3.5, 2.0 * len(drawn)))
    kind = "audit" if cases else "statistical test"
    draw = _draw_cases(canvas, cases, fails) if cases else _draw_samples(canvas, samples, fails)
    words, lines = draw
    for place, text in enumerate(words):
        canvas.caption(place - 0.26, text)
    canvas.axes.set_ylim(len(drawn) - 0.5, -0.8)
    canvas.numbers("x")
    canvas.ticks("y", list(range(len(drawn))), [canvas.printable(name, 24) for name, _ in drawn])
    if len(reports) > len(drawn):
        lines.append(f"{len(reports) - len(drawn):,} more are not shown.")
    failed = sum(
        not one.passed if isinstance(one, WorstCase) else one.violated for one in reports.values()
    )
    verdict = f"{format_count(failed, 'claim')} REFUTED" if failed else "none refutes its claim"
    title = f"{format_count(len(reports), kind)}: {verdict}"
    if len(reports) == 1 and not failed:
        title = f"One {kind}: its claim is not refuted"
    pairs = zip(drawn, words, strict=True)
    told = " ".join(f"{printable(name, 40)}: {text}." for (name, _), text in pairs)
    return canvas.finish(title, lines, told, private=True)


def _draw_cases(
    canvas: Canvas, reports: Sequence[WorstCase], beta: float
) -> tuple[list[str], list[str]]:
    """Draw what was found, as a share of what each claim allows."""
    axes, colours = canvas.axes, canvas.colours
    shares = list(map(_share, reports))
    end = 1.15 * max([1.0, *filter(math.isfinite, shares)])
    words: list[str] = []
    for place, (report, share) in enumerate(zip(reports, shares, strict=True)):
        _draw_bar(canvas, place, min(share, end), 0.4, "" if report.passed else "xxxx")
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
    axes.set_xlim(0, end)
    canvas.name_axis("x", "found, as a share of what is claimed (line)")
    pairs = format_count(sum(one.pairs for one in reports), "pair")
    paths = format_count(sum(one.paths for one in reports), "path")
    lines = [f"Exact enumeration of {pairs} of neighbouring tables, {paths} in all."]
    powers = [power(report, beta) for report in reports]
    known = [one for one in powers if one is not None]
    if len(known) == len(reports):
        which = "this claim" if len(reports) == 1 else "the weakest claim"
        lines.append(
            f"Under {which}, who knows all other rows and errs with probability β = {beta:g} finds "
            f"a row with probability {format_number(max(known))} at the most."
        )
    return words, [*lines, "An audit refutes a claim; none can prove it."]


def _draw_bar(
    canvas: Canvas, place: float, width: float, height: float, refuted: str, *, weak: bool = False
) -> None:
    """Draw a bar, with a pattern in place of its colour if it refutes something."""
    colours = canvas.colours
    face = colours.weak if weak else colours.strong
    canvas.axes.barh(
        place,
        width,
        height,
        facecolor="none" if refuted else face,
        edgecolor=colours.ink if refuted else colours.strong,
        hatch=refuted or None,
    ).set_label("_found")


def _share(report: WorstCase) -> float:
    if report.allowed > 0:
        return report.figure / report.allowed
    return math.inf if report.figure > 0 else 0.0


def _draw_samples(
    canvas: Canvas, reports: Sequence[SamplingReport], beta: float
) -> tuple[list[str], list[str]]:
    """Draw how likely each event is, on one table and on its neighbour."""
    axes = canvas.axes
    words: list[str] = []
    for place, report in enumerate(reports):
        above, below = ("xxxx", "..") if report.violated else ("", "")
        _draw_bar(canvas, place - 0.11, report.first, 0.2, above)
        _draw_bar(canvas, place + 0.11, report.second, 0.2, below, weak=True)
        ratio = math.inf if report.second <= 0 else report.first / report.second
        words.append(
            f"{'REFUTED' if report.violated else 'Not refuted'}: at least "
            f"{format_number(report.first)} on one table, at most {format_number(report.second)} "
            f"on its neighbour, {format_number(ratio)} times, {printable(report.event, 40)}"
        )
    axes.axvline(beta, color=canvas.colours.ink, linewidth=1.0, linestyle=":", label="beta")
    axes.set_xlim(0, 1.1 * max([0.1, beta, *[max(one.first, one.second) for one in reports]]))
    canvas.name_axis("x", "probability of the event that tells most")
    samples = sum(one.samples for one in reports)
    errs = format_count(sum(one.second <= beta for one in reports), "event errs", "events err")
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
