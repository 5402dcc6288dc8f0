"""Checks of what is quoted, charged and refused."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from fractions import Fraction

from dpsdk._checks import described
from dpsdk._records import frozen
from dpsdk.accounting import Budget, Guarantee
from dpsdk.errors import BudgetExceeded
from dpsdk.mechanisms import Laplace
from dpsdk.observe import Event, Refused
from dpsdk.queries import Count
from dpsdk.release import Cost
from dpsdk.session import Session
from dpsdk.session.opening import Stopped
from dpsdk.session.query_interface import QueryInterface
from dpsdk.testing.conformance.bench import (
    ANY,
    TINY,
    Bench,
    Scene,
    Table,
    charges,
    fits,
    least,
    runnable,
    within,
)
from dpsdk.testing.conformance.listening import Heard, overheard
from dpsdk.testing.conformance.prints import printed, printed_quote
from dpsdk.testing.conformance.report import Tally

__all__ = [
    "pays_first",
    "quote_covers",
    "quotes_alike",
    "refusal_changes_nothing",
    "refused_whole",
]

_STEPS = 4
"""At how many of its runs a mechanism of many is refused in a quick run."""


def quotes_alike(bench: Bench, tally: Tally) -> None:
    """Equal quotes, and equal refusals, whatever is in the table and whatever was asked before."""
    for scene in runnable(bench, tally):
        tables = _of_equal_facts(scene)
        first = _told(bench, scene, bench.session(tables[0]))
        for table in tables:
            tally.ran()
            session = bench.session(table, seed=1)
            fresh = _told(bench, scene, session)
            # Another check tells of what is raised.
            with suppress(Exception):
                bench.asked(scene, session)
            for told, when in (
                (fresh, f"on {table} than on {tables[0]}"),
                (_told(bench, scene, session), f"in a session on {table} that had answers"),
                (_told(bench, scene, bench.session(tables[0])), f"after answers on {table}"),
            ):
                if told != first:
                    tally.fail(
                        f"{scene}: another quote or refusal {when}",
                        "Quote from the form and the terms alone, and keep nothing in between",
                    )


def _of_equal_facts(scene: Scene) -> list[Table]:
    """Tables that nothing public tells apart."""
    tables = dict.fromkeys([*scene.far, *(other for _, other in scene.neighbours)])
    facts = scene.table.made().facts
    return [table for table in tables if table.made().facts == facts]


def _told(bench: Bench, scene: Scene, session: Session) -> Hashable:
    told: list[Hashable] = []
    for query in scene.queries:
        try:
            told.append(printed_quote(session.quote(query, using=bench.mechanism)))
        except Exception as error:  # noqa: BLE001  # refusals are compared as well
            told.append((type(error).__name__, described(error)))
    return tuple(told)


def pays_first(bench: Bench, tally: Tally) -> None:
    """No draw before a charge; with nothing to pay, all that is told is the same on any table."""
    for scene in runnable(bench, tally):
        early: list[str] = []
        sessions: list[Session] = []

        def heard(draw: str, early: list[str] = early, sessions: list[Session] = sessions) -> None:
            if sessions and not charges(sessions[0]):
                early.append(draw)

        for number, table in enumerate(scene.far):
            tally.ran()
            sessions[:] = [bench.session(table, noise=Heard(bench.seed(number), heard))]
            bench.asked(scene, sessions[0])
            if early:
                tally.fail(
                    f"{scene}: it drew {early[0]} before anything was charged",
                    "Ask a primitive of the kernel, which charges and then draws",
                )
        unpaid = {table: _unpaid(bench, scene, table) for table in _of_equal_facts(scene)}
        tally.ran(len(unpaid))
        first, *others = unpaid.items()
        for table, told in others:
            if told != first[1]:
                tally.fail(
                    f"{scene}: with a budget for nothing it told {_brief(first[1])} on {first[0]}, "
                    f"and {_brief(told)} on {table}",
                    "Let nothing come of a question that was not paid",
                )


def _unpaid(bench: Bench, scene: Scene, table: Table) -> Hashable:
    """All that is told in a session that can pay for nothing, answers and errors included."""
    drawn: list[Hashable] = []
    events: list[Event] = []
    session = bench.session(
        table, budget=TINY, noise=Heard(bench.seed(0), drawn.append), observer=events.append
    )
    answers: list[Hashable] = []
    with overheard() as told:
        try:
            with bench.opened(session) as channel:
                for query in scene.queries:
                    try:
                        answers.append(printed(channel.release(query)))
                    except Exception as error:  # noqa: BLE001  # compared as well
                        answers.append((type(error).__name__, described(error)))
        except Exception as error:  # noqa: BLE001  # compared as well
            answers.append((type(error).__name__, described(error)))
    # When it happened is told as well, and is no one's secret.
    return tuple(answers), tuple(drawn), tuple(map(str, events)), tuple(told), _state(session)


def _brief(told: Hashable) -> str:
    text = repr(told)
    return text if len(text) <= 200 else f"{text[:200]}..."


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
                excess = within(Cost((*asked.opened.runs, *cost.runs)), quote.at_most)
                if excess:
                    tally.fail(
                        f"{scene}: with its opening {described(query)} was charged {excess}",
                        "Quote as at_most every run that `open` and `answer` may ask for",
                    )


@frozen
class _Refusal:
    """The outcome of a question that the budget had no room for."""

    error: Exception | None
    source: str | None
    """Of the answer, if one was given all the same."""
    proven: bool
    """True if bounds were given with it."""
    refused: int
    """How often the books refused meanwhile, by what an observer was told."""


def _refused(bench: Bench, scene: Scene, desk: QueryInterface, seen: Sequence[Event]) -> _Refusal:
    """Ask, and tell what came of it."""
    error: Exception | None = None
    source: str | None = None
    proven = False
    before = len(seen)
    try:
        # What an opening has learnt before a refusal answers by itself, and says that it is early.
        with desk.open(bench.mechanism) as channel:
            release = channel.release(scene.queries[0])
            source, proven = release.source, release.accuracy.proven
    except Exception as raised:  # noqa: BLE001  # looked at by the caller
        error = raised
    refused = sum(isinstance(event, Refused) for event in seen[before:])
    return _Refusal(error, source, proven, refused)


def _check_refusal(tally: Tally, scene: Scene, came: _Refusal, when: str) -> None:
    """Fail unless a refusal is what came of it, or an answer that claims nothing."""
    if came.error is not None:
        if not isinstance(came.error, BudgetExceeded | Stopped):
            tally.fail(
                f"{scene}: {when} it raised {type(came.error).__name__}, "
                f"{described(came.error)}, and not BudgetExceeded",
                "Let the refusal of the kernel pass",
            )
    elif came.refused and (came.source == "measured" or came.proven):
        claim = "as measured" if came.source == "measured" else "with a proven bound"
        tally.fail(
            f"{scene}: {when} the kernel refused, and it answered all the same, {claim}",
            "Let BudgetExceeded pass, or say by `source` and `accuracy` that nothing was measured",
        )


def _state(session: Session) -> Hashable:
    return str(session.spent), str(session.remaining), str(session.history), charges(session)


def refusal_changes_nothing(bench: Bench, tally: Tally) -> None:
    """A refusal is typed, and afterwards everything is as if it had not been asked."""
    for scene in runnable(bench, tally):
        runs = [
            run for run in bench.asked(scene, bench.session(scene.table)).charged if not run.free
        ]
        cap = _below(runs)
        if cap is None:
            tally.note("what is free cannot be refused")
            tally.ran()
            continue
        for table in scene.far:
            tally.ran()
            _small_session(bench, tally, scene, table, cap)
            _small_scope(bench, tally, scene, table, cap)


def _below(runs: Sequence[Guarantee]) -> Budget | None:
    """A budget that none of these runs fits, and half of which is still one."""
    budgets = [budget for run in runs if (budget := least([run])) is not None]
    if not budgets:
        return None
    smallest = min(budget.epsilon for budget in budgets)
    budget = Budget(Fraction(smallest) * 3 / 4, "0.01")
    while any(fits([run], budget, ANY) for run in runs):
        budget = Budget(budget.epsilon / 2, budget.delta)
    return budget


def _small_session(bench: Bench, tally: Tally, scene: Scene, table: Table, cap: Budget) -> None:
    events: list[Event] = []
    session = bench.session(table, budget=cap, observer=events.append)
    before = _state(session)
    came = _refused(bench, scene, session, events)
    _check_refusal(tally, scene, came, "with a budget below its cost")
    if _state(session) != before and not (came.error is None or isinstance(came.error, Stopped)):
        tally.fail(
            f"{scene}: after a refusal the session stands at {session.spent}, and not as before",
            "Pay for all runs at once, by `kernel.run_all` or an allowance",
        )
    honest = Laplace(cap.epsilon / 4)
    twin = bench.session(table, budget=cap)
    if came.error is not None and not charges(session):
        answers = [
            printed(one.release(Count(normalized=False), using=honest)) for one in (session, twin)
        ]
        if answers[0] != answers[1]:
            tally.fail(
                f"{scene}: after a refusal Laplace answers otherwise than if it had not been asked",
                "Draw no noise before the charge",
            )


def _small_scope(bench: Bench, tally: Tally, scene: Scene, table: Table, cap: Budget) -> None:
    """Refused in a scope, and then asked in the session: as if the first had not been."""
    events: list[Event] = []
    session = bench.session(table, observer=events.append)
    scope = session.scope("small", epsilon=cap.epsilon)
    came = _refused(bench, scene, scope, events)
    scope.close()
    if came.error is None or charges(session):
        return
    again, twin = bench.asked(scene, session), bench.asked(scene, bench.session(table))
    if (again.answers, again.charged) != (twin.answers, twin.charged):
        tally.fail(
            f"{scene}: after a refusal it answers or charges otherwise than if it had not been "
            "asked before",
            "Keep nothing of a question that was refused",
        )


def refused_whole(bench: Bench, tally: Tally) -> None:
    """Mechanisms of several runs: refused at each number of runs that fits, whole."""
    several = False
    for scene in runnable(bench, tally):
        asked = bench.asked(scene, bench.session(scene.table))
        first = next((cost for cost in asked.costs), Cost())
        for before, stage in (
            ((), asked.opened.guarantees),
            (asked.opened.guarantees, first.guarantees),
        ):
            paid = [run for run in stage if not run.free]
            if len(paid) < 2:
                continue
            several = True
            _refuse_each(bench, tally, scene, before, paid)
    if not several:
        tally.skip("every opening and every answer takes one run, or none")


def _refuse_each(
    bench: Bench,
    tally: Tally,
    scene: Scene,
    before: tuple[Guarantee, ...],
    runs: Sequence[Guarantee],
) -> None:
    """Refuse one stage at each number of its runs that fits."""
    counts: Sequence[int] = range(1, len(runs))
    if not bench.thorough and len(counts) > _STEPS:
        counts = sorted({1, len(runs) // 3, len(runs) // 2, len(runs) - 1})
    for count in counts:
        budget = least([*before, *runs[:count]])
        if budget is None or fits([*before, *runs], budget, ANY):
            continue
        events: list[Event] = []
        session = bench.session(scene.table, budget=budget, observer=events.append)
        came = _refused(bench, scene, session, events)
        tally.ran()
        when = f"with room for {count} of {len(runs)} runs"
        _check_refusal(tally, scene, came, when)
        spent = len([run for run in charges(session) if not run.free])
        free = len([run for run in before if not run.free])
        if came.error is None or isinstance(came.error, Stopped):
            continue
        if spent not in (0, free):
            tally.fail(
                f"{scene}: {when} it was charged for {spent - free} of them, and no answer came",
                "Pay for all runs at once, by `kernel.run_all` or an allowance",
            )
