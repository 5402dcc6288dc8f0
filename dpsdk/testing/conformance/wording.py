"""Checks of what a query calls itself, how it is written down, and how it refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date

import numpy as np

from dpsdk._checks import shown
from dpsdk.domain import Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.errors import DpsdkError
from dpsdk.forms import Facts, Neighbors
from dpsdk.testing.conformance.bench import runnable
from dpsdk.testing.conformance.questions import QueryBench, content_of
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.conformance.values import check_text, check_written


def written(bench: QueryBench, tally: Tally) -> None:
    """It came back equal from its written form, and asked the same."""
    back = check_written(bench.query, "query", bench, tally)
    for scene in bench.scenes:
        tally.ran()
        if content_of(back.lower(scene.domain)) != content_of(bench.query.lower(scene.domain)):
            tally.fail(
                "what was read of its written form asks something else",
                "Write in its kind all that the query is made of",
            )


def described_well(bench: QueryBench, tally: Tally) -> None:
    """Its text is one short line of printable characters, the same each time and of a copy."""
    runnable(bench, tally)
    check_text(bench.query, tally)


def refuses_in_words(bench: QueryBench, tally: Tally) -> None:
    """Universes that it does not fit, and numbers that say nothing, met no untyped error."""
    query = bench.query
    for domain in _odd(bench.domain):
        for neighbors in Neighbors:
            facts = _facts(domain, neighbors)
            for what, ask in (
                ("check", lambda facts=facts: query.check(facts)),
                ("lower", lambda domain=domain: query.lower(domain)),
            ):
                tally.ran()
                try:
                    ask()
                except DpsdkError:
                    continue
                except Exception as error:  # noqa: BLE001  # what is looked for
                    tally.fail(
                        f"`{what}` raised {type(error).__name__} over {shown(str(domain))}",
                        "Raise QueryError or DomainError for what cannot be asked",
                    )
    for scene in bench.scenes:
        facts = scene.table.made().facts
        raw = bench.raw(scene, scene.table)
        tally.ran()
        try:
            query.lift(np.full(len(raw), math.nan), facts)
        except DpsdkError:
            continue
        except Exception as error:  # noqa: BLE001  # what is looked for
            tally.fail(
                f"`lift` raised {type(error).__name__} for numbers that are all NaN",
                "Answer NaN, or whatever stands for nothing",
            )


def _odd(domain: Domain) -> Iterator[Domain]:
    """Universes that lack the attributes, or have others of their names."""
    yield Domain(Integer("another", 0, 1))
    for place, one in enumerate(domain.attributes):
        for other in (
            Integer(one.name, 7, 7),
            Integer(one.name, -(2**60), 2**60),
            Binned(one.name, [0.0, 0.5, 1e300]),
            Categorical(one.name, ["a\nb", "\x1b[2J"]),
            Boolean(one.name),
            Date(one.name, date(2024, 1, 1), date(2024, 1, 2)),
        ):
            attributes = list(domain.attributes)
            attributes[place] = other
            yield Domain(*attributes)


def _facts(domain: Domain, neighbors: Neighbors) -> Facts:
    known = neighbors is Neighbors.REPLACE_ONE
    return Facts(domain, neighbors, 9 if known else None, outside=True, row_limit=2**40)
