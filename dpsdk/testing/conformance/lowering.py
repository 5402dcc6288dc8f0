"""Checks of what a query asks: of what its form is made, and who can change that."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial
from threading import Thread

import attrs
import numpy as np

from dpsdk._checks import described, shown
from dpsdk.accounting import Budget
from dpsdk.accuracy import Lifting
from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError
from dpsdk.forms import Form, LinearForm
from dpsdk.kernel import LaplaceNoise, Measure, Terms
from dpsdk.session import Session
from dpsdk.testing.conformance.bench import ANY, Scene, Table
from dpsdk.testing.conformance.prints import deep, fields_of, printed
from dpsdk.testing.conformance.questions import Given, Question, askable, content_of
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.logs import logged
from dpsdk.testing.noise import seeded
from dpsdk.typing import Floats

__all__ = ["lowers_alike", "reads_nothing", "takes_in"]

_CLOSE = "Hold tuples and read-only arrays, made of copies of what you are given"


def lowers_alike(bench: Question, tally: Tally) -> None:
    """One query asks one thing: of equal universes, each time, of whatever table, as a copy too."""
    for scene in askable(bench, tally):
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
    _check_frozen(bench.query, tally)


def _ways(
    bench: Question, scene: Scene, domain: Domain
) -> Iterator[tuple[str, Callable[[], Form]]]:
    query, equal = bench.query, Domain.from_json(domain.to_json())
    yield "the second time", lambda: query.lower(domain)
    yield "of an equal universe", lambda: query.lower(equal)
    yield "of a copy", lambda: copy.copy(query).lower(domain)
    yield "of a deep copy", lambda: copy.deepcopy(query).lower(domain)
    yield "in another thread", lambda: _elsewhere(lambda: query.lower(domain))
    for table in bench.tables(scene):
        session = Session(table.made(), Budget(1), noise=seeded(1), trust=bench.trust)
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


def _by_session(bench: Question, session: Session) -> Form:
    """The form after a session has used the query, as far as nothing has to be paid for that."""
    with suppress(DpsdkError):
        session.quote(bench.query, using=bench.mechanism(bench.query.lower(session.domain)))
    return bench.query.lower(session.domain)


def _check_frozen(query: object, tally: Tally) -> None:
    kind = type(query)
    for name in [one.name for one in attrs.fields(kind)] if attrs.has(kind) else []:
        tally.ran()
        value = getattr(query, name, None)
        try:
            setattr(query, name, value)
        except Exception:  # noqa: BLE001, S112  # as it should be
            continue
        tally.fail(f"its field {name!r} can be set", "Make its class `attrs.frozen`")
    twin = copy.copy(query)
    try:
        equal, alike = bool(query == twin), _hash(query) == _hash(twin)
        same = bool(query == object())
    except Exception as error:  # noqa: BLE001  # a plugin may raise what it likes
        tally.fail(f"to compare it raised {type(error).__name__}", "Let `attrs.frozen` compare it")
    tally.ran()
    if not equal or not alike or same:
        found = "it equals anything" if same else "it does not equal its copy"
        tally.fail(found, "Let `attrs.frozen` compare it by its fields")


def _hash(value: object) -> int | None:
    try:
        return hash(value)
    except TypeError:
        return None


def reads_nothing(bench: Question, tally: Tally) -> None:
    """Of equal numbers it makes the same on any table."""
    for scene in askable(bench, tally):
        for raw in bench.raws(scene)[:2]:
            first: Hashable = None
            for table in _alike(bench, scene):
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


def _alike(bench: Question, scene: Scene) -> list[Table]:
    """Tables that nothing public tells apart."""
    facts = scene.table.made().facts
    return [table for table in bench.tables(scene) if table.made().facts == facts]


def _all_told(bench: Question, table: Table, raw: Floats) -> Hashable:
    """All that is seen of one answer, of given numbers, and what was charged meanwhile."""
    lines: list[str] = []
    session = Session(table.made(), Budget(1), composition=ANY, noise=seeded(1))
    seen: Hashable
    with logged(lambda line: lines.append(line.getMessage())):
        try:
            bounded = isinstance(bench.query, Lifting)
            with session.open(Given(raw, bounded)) as channel:
                seen = printed(channel.release(bench.query))
        except Exception as error:  # noqa: BLE001  # how it fails is compared as well
            seen = type(error).__name__, described(error)
    return seen, tuple(lines), session.spent.charges


def takes_in(bench: Question, tally: Tally) -> None:
    """Its arrays are read-only, and numbers that were lifted can be written over."""
    query = bench.query
    packaged = type(query).__module__.partition(".")[0] == "dpsdk"
    for name, held in () if packaged else fields_of(query).items():
        if isinstance(held, list | dict | set) or (
            isinstance(held, np.ndarray) and held.flags.writeable
        ):
            tally.fail(f"whoever made it can write into {name}, and so change it", _CLOSE)
    for scene in askable(bench, tally):
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
