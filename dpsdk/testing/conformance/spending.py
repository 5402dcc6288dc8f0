"""Checks of what is quoted, charged and refused."""

from __future__ import annotations

from collections.abc import Hashable

from dpsdk._checks import described
from dpsdk.testing.conformance.bench import Bench, Scene, Table, runnable, within
from dpsdk.testing.conformance.prints import printed_quote
from dpsdk.testing.conformance.report import Tally

__all__ = ["quote_covers", "quotes_alike"]


def quotes_alike(bench: Bench, tally: Tally) -> None:
    """Equal quotes, and equal refusals, whatever is in the table and whatever was asked before."""
    for scene in runnable(bench, tally):
        tables = dict.fromkeys([*scene.far, *(other for _, other in scene.neighbours)])
        before = {table: _told(bench, scene, table) for table in _of_equal_facts(tables, scene)}
        for table in before:
            with_history = _asked_quietly(bench, scene, table)
            tally.ran()
            after = _told(bench, scene, table)
            first = next(iter(before.values()))
            for told, when in (
                (before[table], "on another table"),
                (with_history, "in a session that had asked before"),
                (after, "after answers on that table"),
            ):
                if told != first:
                    tally.fail(
                        f"{scene}: another quote or refusal {when}, {table}, than at first",
                        "Quote from the form and the terms alone, and keep nothing in between",
                    )


def _of_equal_facts(tables: dict[Table, None], scene: Scene) -> list[Table]:
    """Tables that nothing public tells apart."""
    facts = scene.table.made().facts
    return [table for table in tables if table.made().facts == facts]


def _told(bench: Bench, scene: Scene, table: Table) -> Hashable:
    session = bench.session(table)
    told: list[Hashable] = []
    for query in scene.queries:
        try:
            told.append(printed_quote(session.quote(query, using=bench.mechanism)))
        except Exception as error:  # noqa: BLE001  # refusals are compared as well
            told.append((type(error).__name__, described(error)))
    return tuple(told)


def _asked_quietly(bench: Bench, scene: Scene, table: Table) -> Hashable:
    """The quotes of a session that has answers already."""
    session = bench.session(table, seed=1)
    try:
        bench.asked(scene, session)
    except Exception:  # noqa: BLE001, S110  # another check tells of it
        pass
    told: list[Hashable] = []
    for query in scene.queries:
        try:
            told.append(printed_quote(session.quote(query, using=bench.mechanism)))
        except Exception as error:  # noqa: BLE001  # refusals are compared as well
            told.append((type(error).__name__, described(error)))
    return tuple(told)


def quote_covers(bench: Bench, tally: Tally) -> None:
    """Never charged more than was quoted, on opening and for each answer."""
    for scene in runnable(bench, tally):
        for seed, table in enumerate([*scene.far, scene.neighbor]):
            quotes = bench.quotes(scene, table)
            asked = bench.asked(scene, bench.session(table, seed=seed))
            for quote, query, cost in zip(quotes, scene.queries, asked.costs, strict=True):
                tally.ran()
                excess = within(asked.opened, quote.at_open)
                if excess:
                    tally.fail(
                        f"{scene}: opening was charged {excess}",
                        "Quote as at_open all that `open` asks of the kernel",
                    )
                whole = type(cost)([*asked.opened.runs, *cost.runs])
                excess = within(whole, quote.at_most)
                if excess:
                    tally.fail(
                        f"{scene}: with its opening {described(query)} was charged {excess}",
                        "Quote as at_most every run that `open` and `answer` may ask for",
                    )
