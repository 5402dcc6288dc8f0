"""Checks of what a query calls itself, how it is written down, and how it refuses."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from datetime import date
from types import FunctionType

import numpy as np

from dpsdk import wire
from dpsdk._checks import shown
from dpsdk.domain import Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.errors import DpsdkError, WireError
from dpsdk.forms import Facts, Neighbors
from dpsdk.testing.conformance.prints import parts
from dpsdk.testing.conformance.questions import Question, askable, content_of
from dpsdk.testing.conformance.report import Tally

__all__ = ["described_well", "refuses_in_words", "written"]

_LONGEST = 1000


def written(bench: Question, tally: Tally) -> None:
    """It came back equal from its written form, and asked the same."""
    query, allow = bench.query, bench.catalogue
    try:
        kind = allow.kind_of(query, "$")
    except WireError:
        tally.skip("its class has no kind in the catalogue; hand one in as `catalogue`")
    text = wire.dumps(query, domain=bench.domain, allow=allow)
    tally.ran()
    back = wire.loads("query", text, allow=allow)
    change = f"Write in the kind {kind.name!r} all that the query is made of"
    if type(back) is not type(query):
        tally.fail(f"its written form was read as a {type(back).__name__}", change)
    if wire.dumps(back, domain=bench.domain, allow=allow) != text:
        tally.fail("what was read of its written form is written otherwise", change)
    for scene in bench.scenes:
        tally.ran()
        if content_of(back.lower(scene.domain)) != content_of(query.lower(scene.domain)):
            tally.fail("what was read of its written form asks something else", change)
    if back != query and not _holds_function(query):
        tally.fail("what was read of its written form does not equal it", change)


def _holds_function(query: object) -> bool:
    """True if it holds a function, which is written as the table of its values."""
    return any(isinstance(held, FunctionType) for _, held in parts(query))


def refuses_in_words(bench: Question, tally: Tally) -> None:
    """Universes that it does not fit, and numbers that say nothing, met no untyped error."""
    query = bench.query
    for domain in _odd(bench.domain):
        for neighbors in Neighbors:
            facts = _facts(domain, neighbors)
            for what in ("check", "lower"):
                tally.ran()
                try:
                    if what == "check":
                        query.check(facts)
                    else:
                        query.lower(domain)
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


def described_well(bench: Question, tally: Tally) -> None:
    """Its text is one short line of printable characters, the same each time and of a copy."""
    query = bench.query
    change = "Let `attrs.frozen` describe it, or write a `__repr__` of its fields"
    askable(bench, tally)
    for word in (str, repr):
        tally.ran()
        try:
            text, again, of_copy = word(query), word(query), word(copy.copy(query))
        except Exception as error:  # noqa: BLE001  # what is looked for
            tally.fail(f"its {word.__name__} raised {type(error).__name__}", change)
        if type(text) is not str or not text:
            tally.fail(f"its {word.__name__} is {shown(text)}", change)
        if len(text) > _LONGEST:
            tally.fail(f"its {word.__name__} has {len(text):,} characters", "Describe it shortly")
        if not text.isprintable():
            tally.fail(f"its {word.__name__} has characters that do not print", change)
        if not text == again == of_copy or " at 0x" in text:
            tally.fail(f"its {word.__name__} is another each time, or of a copy", change)
