"""Pictures of audits: what was found, against what is claimed."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The stubs of matplotlib leave the types of many keywords open.

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpsdk.plots._canvas import Canvas
from dpsdk.plots.reports import power
from dpsdk.plots.texts import number, several, spelled
from dpsdk.testing.audit import SamplingReport, WorstCase

__all__ = ["draw_samples", "draw_worst_cases"]

_SHOWN = 40


def _heading(count: int, failed: int, what: str) -> str:
    verdict = "all hold" if not failed else f"{several(failed, 'claim')} REFUTED"
    return f"{several(count, what)}: {verdict}" if count > 1 or failed else f"One {what}: it holds"


def draw_worst_cases(reports: Mapping[str, WorstCase], ax: Axes | None, beta: float) -> Figure:
    """One bar for each audit: what was found, as a share of what its claim allows."""
    named = list(reports.items())[:_SHOWN]
    canvas = Canvas(ax, max(3.5, 1.9 * len(named)))
    axes, colours = canvas.axes, canvas.colours
    shares = [_share(one) for _, one in named]
    finite = [share for share in shares if math.isfinite(share)]
    end = 1.15 * max([1.0, *finite])
    told: list[str] = []
    for place, ((name, one), share) in enumerate(zip(named, shares, strict=True)):
        bar = axes.barh(
            place,
            min(share, end),
            0.4,
            facecolor=colours.strong if one.passed else "none",
            edgecolor=colours.strong if one.passed else colours.ink,
            hatch=None if one.passed else "xxxx",
        )
        bar.set_label("_found")
        if math.isinf(share):
            axes.plot([end * 0.985], [place], ">", color=colours.ink, markersize=8, zorder=4)
        line = axes.plot([1, 1], [place - 0.26, place + 0.26], color=colours.ink, linewidth=2.2)
        line[0].set_label("_claimed")
        verdict = "holds" if one.passed else f"REFUTED by outcome {spelled(one.outcome, 40)}"
        words = (
            f"found {one.quantity} {number(one.figure)} of {number(one.allowed)} claimed "
            f"({spelled(one.claimed, 40)}): {verdict}"
        )
        canvas.write(
            0, place - 0.28, canvas.spelled(words, 110), fontsize=0.8 * canvas.size, va="bottom"
        )
        told.append(f"{spelled(name, 40)}: {words}.")
    axes.set_xlim(0, end)
    axes.set_ylim(len(named) - 0.5, -0.8)
    canvas.numbers("x")
    canvas.title("x", "found, as a share of what is claimed (line)")
    canvas.ticks("y", list(range(len(named))), [canvas.spelled(name, 24) for name, _ in named])
    pairs, paths = (sum(getattr(one, key) for _, one in named) for key in ("pairs", "paths"))
    looked = f"{several(pairs, 'pair')} of neighbouring tables, {several(paths, 'path')} in all"
    lines = [f"Exact enumeration of {looked}."]
    lines += _attack([one for _, one in named], beta)
    if len(reports) > len(named):
        lines.append(f"{len(reports) - len(named):,} more audits are not shown.")
    lines.append("An audit refutes a claim; none can prove it.")
    failed = sum(not one.passed for one in reports.values())
    title = _heading(len(reports), failed, "audit")
    return canvas.finish(title, lines, " ".join(told), private=True)


def _share(report: WorstCase) -> float:
    if report.allowed > 0:
        return report.figure / report.allowed
    return math.inf if report.figure > 0 else 0.0


def _attack(reports: list[WorstCase], beta: float) -> list[str]:
    known = [one for report in reports if (one := power(report, beta)) is not None]
    if len(known) < len(reports):
        return []
    which = "this claim" if len(reports) == 1 else "the weakest claim"
    who = f"who knows all other rows and errs with probability β = {beta:g}"
    return [f"Under {which}, {who} finds a row with probability {number(max(known))} at the most."]


def draw_samples(reports: Mapping[str, SamplingReport], ax: Axes | None, beta: float) -> Figure:
    """Two bars for each test: how likely the event is, on one table and on its neighbour."""
    named = list(reports.items())[:_SHOWN]
    canvas = Canvas(ax, max(3.5, 2.1 * len(named)))
    axes, colours = canvas.axes, canvas.colours
    told: list[str] = []
    for place, (name, one) in enumerate(named):
        for height, up, face, hatch in (
            (one.first, -0.11, colours.strong, None),
            (one.second, 0.11, colours.weak, None),
        ):
            bar = axes.barh(
                place + up,
                height,
                0.2,
                facecolor=face if not one.violated else "none",
                edgecolor=colours.strong if not one.violated else colours.ink,
                hatch=hatch if not one.violated else "xxxx" if up < 0 else "..",
            )
            bar.set_label("_found")
        ratio = math.inf if one.second <= 0 else one.first / one.second
        verdict = "REFUTED" if one.violated else "not refuted"
        words = (
            f"{spelled(one.event, 40)}: at least {number(one.first)} on one table, at most "
            f"{number(one.second)} on its neighbour, {number(ratio)} times; {verdict}"
        )
        canvas.write(
            0, place - 0.3, canvas.spelled(words, 120), fontsize=0.8 * canvas.size, va="bottom"
        )
        told.append(f"{spelled(name, 40)}: {words}.")
    axes.axvline(beta, color=colours.ink, linewidth=1.0, linestyle=":").set_label("beta")
    axes.set_xlim(0, max([0.1, beta, *[max(one.first, one.second) for _, one in named]]) * 1.1)
    axes.set_ylim(len(named) - 0.5, -0.8)
    canvas.numbers("x")
    canvas.title("x", "probability of the event that tells most")
    canvas.ticks("y", list(range(len(named))), [canvas.spelled(name, 24) for name, _ in named])
    samples = sum(one.samples for _, one in named)
    caught = sum(one.second <= beta for _, one in named)
    errs = several(caught, "event errs", "events err")
    lines = [
        f"{samples:,} samples. Above: on one table, at least; below: on its neighbour, at most.",
        f"As an attack, {errs} with probability β = {beta:g} at the most (dotted).",
        "A test refutes a claim with high confidence; none can prove it.",
    ]
    if len(reports) > len(named):
        lines.append(f"{len(reports) - len(named):,} more tests are not shown.")
    failed = sum(one.violated for one in reports.values())
    title = _heading(len(reports), failed, "statistical test")
    return canvas.finish(title, lines, " ".join(told), private=True)
