"""Checks of a query as a value: what it asks, how it is called and written, what it refuses."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from threading import Thread

import numpy as np

from dpsdk._checks import described, shown
from dpsdk.accounting import Budget
from dpsdk.accuracy import Lifting
from dpsdk.domain import Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.errors import DpsdkError, TooLarge
from dpsdk.forms import Facts, Form, LinearForm, Neighbors
from dpsdk.kernel import LaplaceNoise, Measure, Terms
from dpsdk.session import Session
from dpsdk.testing.conformance.bench import Scene, Table, runnable
from dpsdk.testing.conformance.prints import deep, packaged, printed
from dpsdk.testing.conformance.questions import Given, QueryBench, content_of
from dpsdk.testing.conformance.report import Tally, origin
from dpsdk.testing.conformance.values import (
    check_frozen,
    check_held,
    check_text,
    check_written,
)
from dpsdk.testing.logs import overheard
from dpsdk.typing import Floats

__all__ = [
    "described_well",
    "lowers_alike",
    "reads_nothing",
    "refuses_in_words",
    "takes_in",
    "written",
]


_SIZE = "check `size` before you list `labels`"

_HUGE = 2**24
"""More cells than this along an attribute are not listed."""


def lowers_alike(bench: QueryBench, tally: Tally) -> None:
    """One query asks one thing: of equal universes, each time, of whatever table, as a copy too."""
    for scene in runnable(bench, tally):
        domain = scene.table.made().domain
        first = bench.query.lower(domain)
        _check_form(first, scene, tally)
        asked = content_of(first)
        for when, lower in _ways(bench, scene, domain):
            tally.ran()
            if content_of(lower()) != asked:
                tally.fail(
                    f"{_where(scene)}: `lower` gave another form {when}",
                    "Make the form of the query's own fields and of the domain, and of nothing "
                    "else",
                )
    check_frozen(bench.query, tally)


def _ways(
    bench: QueryBench, scene: Scene, domain: Domain
) -> Iterator[tuple[str, Callable[[], Form]]]:
    query, equal = bench.query, Domain.from_json(domain.to_json())
    yield "the second time", lambda: query.lower(domain)
    yield "of an equal universe", lambda: query.lower(equal)
    yield "of a copy", lambda: copy.copy(query).lower(domain)
    yield "of a deep copy", lambda: copy.deepcopy(query).lower(domain)
    yield "in another thread", lambda: _elsewhere(lambda: query.lower(domain))
    for table in bench.tables(scene):
        session = bench.session(table, budget=Budget(1))
        yield f"after a quote on {table}", partial(_by_session, bench, session)


def _check_form(form: object, scene: Scene, tally: Tally) -> None:
    if not isinstance(form, Form):
        tally.fail(f"`lower` gave {shown(form)}", "Give a form of dpsdk.forms")
    if form.domain != scene.domain:
        tally.fail(
            f"{_where(scene)}: its form is over another domain than it was given",
            "Make it of the domain that `lower` is given",
        )
    if isinstance(form, LinearForm):
        try:
            Measure(form, LaplaceNoise(1)).price(Terms(scene.table.made().facts))
        except DpsdkError as error:
            tally.fail(
                f"{_where(scene)}: the kernel does not take its form ({error})",
                "Make it of the classes of dpsdk.forms, for exactly the cells of the domain",
            )


def _elsewhere(work: Callable[[], Form]) -> Form:
    found: list[Form] = []
    thread = Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def _by_session(bench: QueryBench, session: Session) -> Form:
    """The form after a session has used the query, as far as nothing has to be paid for that."""
    with suppress(DpsdkError):
        session.quote(bench.query, using=bench.mechanism(bench.query.lower(session.domain)))
    return bench.query.lower(session.domain)


def reads_nothing(bench: QueryBench, tally: Tally) -> None:
    """Of equal numbers it makes the same on any table."""
    for scene in runnable(bench, tally):
        for raw in bench.raws(scene)[:2]:
            first: Hashable = None
            for table in scene.alike(bench.tables(scene)):
                tally.ran()
                seen = _all_told(bench, table, raw)
                if first is None:
                    first = seen
                elif seen != first:
                    tally.fail(
                        f"{_where(scene)}: given the same numbers it told something else on "
                        f"{table}",
                        "Make forms, answers, errors and log lines of the numbers and the facts "
                        "that it is given, and of nothing else",
                    )


def _all_told(bench: QueryBench, table: Table, raw: Floats) -> Hashable:
    """All that is seen of one answer, of given numbers, and what was charged meanwhile."""
    told: list[Hashable] = []
    session = bench.session(table, budget=Budget(1))
    seen: Hashable
    with overheard(told.append):
        try:
            bounded = isinstance(bench.query, Lifting)
            with session.open(Given(raw, bounded)) as channel:
                seen = printed(channel.release(bench.query))
        except Exception as error:  # noqa: BLE001  # how it fails is compared as well
            seen = type(error).__name__, described(error)
    return seen, tuple(told), session.spent.charges


def takes_in(bench: QueryBench, tally: Tally) -> None:
    """Its arrays are read-only, and numbers that were lifted can be written over."""
    query = bench.query
    if not packaged(query):
        check_held(bench, tally)
    for scene in runnable(bench, tally):
        facts = scene.table.made().facts
        raw = bench.raw(scene, scene.table)
        tally.ran()
        mine = raw.copy()
        answer = query.lift(mine, facts)
        twin = _all_of(query.lift(raw.copy(), facts))
        mine[:] = mine * 3 + 1
        tally.ran()
        if _all_of(answer) != twin:
            tally.fail(
                f"{_where(scene)}: its answer changed when the numbers that it was made of were "
                "written over",
                "Copy in `lift` what the answer holds of the raw numbers",
            )


def _all_of(answer: object) -> Hashable:
    """The parts of an answer: shown, held, and worked out when asked."""
    shows = deep(answer), repr(answer)
    if isinstance(answer, np.ndarray | np.generic):
        return shows
    names = [name for name in dir(answer) if not name.startswith("_")]
    worked_out = {name: getattr(answer, name, None) for name in names}
    return shows, tuple((name, deep(one)) for name, one in worked_out.items() if not callable(one))


def _where(scene: Scene) -> str:
    return f"under {scene.neighbors.value}"


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
                except DpsdkError as error:
                    if isinstance(error, TooLarge) and error.unit == "labels":
                        tally.note(f"of {max(domain.shape):,} cells {_SIZE}")
                except Exception as error:  # noqa: BLE001  # what is looked for
                    size = f"; {_SIZE}" if max(domain.shape) > _HUGE else ""
                    tally.fail(
                        f"`{what}` raised {type(error).__name__} in {origin(error)}, over "
                        f"{shown(str(domain))}",
                        f"Raise QueryError or DomainError for what cannot be asked{size}",
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
