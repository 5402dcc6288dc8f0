"""Checks of what is quoted, charged and refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TypeVar

from dpsdk._checks import described
from dpsdk.accounting import Budget, Guarantee
from dpsdk.errors import BudgetExceeded, DpsdkError, UnsupportedGuarantee
from dpsdk.mechanisms import Laplace
from dpsdk.observe import Event, Refused
from dpsdk.queries import Count
from dpsdk.release import Cost
from dpsdk.session import Session
from dpsdk.session.opening import Stopped
from dpsdk.session.query_interface import QueryInterface
from dpsdk.testing.audit.replay import DRAWS, RecordingNoise
from dpsdk.testing.conformance.bench import AnyQuery, MechanismBench, Scene, Table, runnable
from dpsdk.testing.conformance.costs import TINY, charges, fits, least, paid, within
from dpsdk.testing.conformance.prints import printed, printed_quote
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.logs import overheard
from dpsdk.testing.noise import seeded

__all__ = ["pays_first", "quote_covers", "quotes_alike", "refusal_changes_nothing", "refused_whole"]

T = TypeVar("T")

_STEPS = 4
"""At how many of its runs a mechanism of many is refused in a quick run."""


def _outcome(work: Callable[[T], Hashable], of: T) -> Hashable:
    """Return what some work gives of something, or the error that it raises."""
    try:
        return work(of)
    except Exception as error:  # noqa: BLE001  # refusals are compared as well
        return type(error).__name__, described(error)


def quotes_alike(bench: MechanismBench, tally: Tally) -> None:
    """Equal quotes, and equal refusals, whatever is in the table and whatever was asked before."""
    for scene in runnable(bench, tally):
        tables = _of_equal_facts(scene)
        first = _quoted(bench, scene, bench.session(tables[0]))
        for table in tables:
            tally.ran()
            session = bench.session(table, seed=1)
            fresh = _quoted(bench, scene, session)
            # Another check tells of what is raised.
            with suppress(Exception):
                bench.asked(scene, session)
            for told, when in (
                (fresh, f"on {table} than on {tables[0]}"),
                (_quoted(bench, scene, session), f"in a session on {table} that had answers"),
                (_quoted(bench, scene, bench.session(tables[0])), f"after answers on {table}"),
            ):
                if told != first:
                    tally.fail(
                        f"{scene}: another quote or refusal {when}",
                        "Quote from the form and the terms alone, and keep nothing in between",
                    )


def _of_equal_facts(scene: Scene) -> list[Table]:
    return scene.alike([*scene.far, *(other for _, other in scene.neighbours)])


def _quoted(bench: MechanismBench, scene: Scene, session: Session) -> Hashable:
    def quoted(query: AnyQuery) -> Hashable:
        return printed_quote(session.quote(query, using=bench.mechanism))

    return tuple(_outcome(quoted, query) for query in scene.queries)


def pays_first(bench: MechanismBench, tally: Tally) -> None:
    """No draw before a charge; with nothing to pay, all that is told is the same on any table."""
    for scene in runnable(bench, tally):
        for number, table in enumerate(scene.far):
            tally.ran()
            _check_draws(bench, tally, scene, table, bench.seed(number))
        tables = _of_equal_facts(scene)
        tally.ran(len(tables))
        first = _unpaid(bench, scene, tables[0])
        for table in tables[1:]:
            told = _unpaid(bench, scene, table)
            if told != first:
                tally.fail(
                    f"{scene}: with a budget for nothing it told {_brief(first)} on {tables[0]}, "
                    f"and {_brief(told)} on {table}",
                    "Let nothing come of a question that was not paid",
                )


def _check_draws(
    bench: MechanismBench, tally: Tally, scene: Scene, table: Table, seed: int
) -> None:
    early: list[tuple[Hashable, ...]] = []

    def note(event: tuple[Hashable, ...]) -> None:
        if event[0] in DRAWS and not charges(session):
            early.append(event)

    session = bench.session(table, noise=RecordingNoise(seeded(seed), note))
    bench.asked(scene, session)
    if early:
        tally.fail(
            f"{scene}: it drew {' '.join(map(str, early[0]))} before anything was charged",
            "Ask a primitive of the kernel, which charges and then draws",
        )


def _unpaid(bench: MechanismBench, scene: Scene, table: Table) -> Hashable:
    """All that is told in a session that can pay for nothing, answers and errors included."""
    drawn: list[Hashable] = []
    events: list[Event] = []
    noise = RecordingNoise(seeded(bench.seed(0)), drawn.append)
    session = bench.session(table, budget=TINY, noise=noise, observer=events.append)
    answers: list[Hashable] = []

    def ask(asked: Session) -> None:
        with bench.opened(asked) as channel:
            # Each by itself, so that what was answered before an error is told as well.
            for query in scene.queries:
                said = _outcome(lambda query: printed(channel.release(query)), query)
                answers.append(said)

    told: list[Hashable] = []
    with overheard(told.append):
        answers.append(_outcome(ask, session))
    # When it happened is told as well, and is no one's secret.
    return tuple(answers), tuple(drawn), tuple(map(str, events)), tuple(told), _state(session)


def _brief(told: Hashable) -> str:
    text = repr(told)
    return text if len(text) <= 200 else f"{text[:200]}..."


def quote_covers(bench: MechanismBench, tally: Tally) -> None:
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


def _refuse(
    bench: MechanismBench, tally: Tally, scene: Scene, desk: QueryInterface, seen: list[Event],
    when: str,
) -> Exception | None:  # fmt: skip
    """Ask, and fail unless a refusal comes of it, which is returned, or a claim of nothing."""
    error: Exception | None = None
    claim = ""
    before = len(seen)
    try:
        # What an opening has learnt before a refusal answers by itself, and says that it is early.
        with desk.open(bench.mechanism) as channel:
            release = channel.release(scene.queries[0])
            if release.source == "measured":
                claim = "as measured"
            elif release.accuracy.proven:
                claim = "with a proven bound"
    except Exception as raised:  # noqa: BLE001  # looked at below
        error = raised
    refusals: tuple[type[DpsdkError], ...] = (BudgetExceeded, Stopped)
    if not isinstance(desk, Session):  # a scope of a bare ε does not price zCDP
        refusals = (*refusals, UnsupportedGuarantee)
    if error is not None and not isinstance(error, refusals):
        tally.fail(
            f"{scene}: {when} it raised {type(error).__name__}, {described(error)}, and not "
            "BudgetExceeded",
            "Let the refusal of the kernel pass",
        )
    if error is None and claim and any(isinstance(event, Refused) for event in seen[before:]):
        tally.fail(
            f"{scene}: {when} the kernel refused, and it answered all the same, {claim}",
            "Let BudgetExceeded pass, or say by `source` and `accuracy` that nothing was measured",
        )
    return error


def _unanswered(error: Exception | None) -> bool:
    """True if no answer came, not even an early one."""
    return error is not None and not isinstance(error, Stopped)


def _state(session: Session) -> Hashable:
    return str(session.spent), str(session.remaining), str(session.history), charges(session)


def refusal_changes_nothing(bench: MechanismBench, tally: Tally) -> None:
    """A refusal is typed, and afterwards everything is as if it had not been asked."""
    for scene in runnable(bench, tally):
        cap = _below(paid(bench.asked(scene, bench.session(scene.table)).charged))
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
    while any(fits([run], budget) for run in runs):
        budget = Budget(budget.epsilon / 2, budget.delta)
    return budget


def _small_session(
    bench: MechanismBench, tally: Tally, scene: Scene, table: Table, cap: Budget
) -> None:
    events: list[Event] = []
    session = bench.session(table, budget=cap, observer=events.append)
    before = _state(session)
    error = _refuse(bench, tally, scene, session, events, "with a budget below its cost")
    if _state(session) != before and _unanswered(error):
        tally.fail(
            f"{scene}: after a refusal the session stands at {session.spent}, and not as before",
            "Pay for all runs at once, by `kernel.run_all` or an allowance",
        )
    honest = Laplace(cap.epsilon / 4)
    twin = bench.session(table, budget=cap)
    if error is not None and not charges(session):
        answers = [
            printed(one.release(Count(normalized=False), using=honest)) for one in (session, twin)
        ]
        if answers[0] != answers[1]:
            tally.fail(
                f"{scene}: after a refusal Laplace answers otherwise than if it had not been asked",
                "Draw no noise before the charge",
            )


def _small_scope(
    bench: MechanismBench, tally: Tally, scene: Scene, table: Table, cap: Budget
) -> None:
    """Refused in a scope, and then asked in the session: as if the first had not been."""
    events: list[Event] = []
    session = bench.session(table, observer=events.append)
    scope = session.scope("small", epsilon=cap.epsilon)
    error = _refuse(bench, tally, scene, scope, events, "in a scope below its cost")
    scope.close()
    if error is None or charges(session):
        return
    again, twin = bench.asked(scene, session), bench.asked(scene, bench.session(table))
    if (again.answers, again.charged) != (twin.answers, twin.charged):
        tally.fail(
            f"{scene}: after a refusal it answers or charges otherwise than if it had not been "
            "asked before",
            "Keep nothing of a question that was refused",
        )


def refused_whole(bench: MechanismBench, tally: Tally) -> None:
    """Mechanisms of several runs: refused at each number of runs that fits, whole."""
    several = False
    for scene in runnable(bench, tally):
        asked = bench.asked(scene, bench.session(scene.table))
        opening = paid(asked.opened.guarantees)
        answer = paid(asked.costs[0].guarantees)
        for before, runs in (([], opening), (opening, answer)):
            if len(runs) >= 2:
                several = True
                _refuse_each(bench, tally, scene, before, runs)
    if not several:
        tally.skip("every opening and every answer takes one run, or none")


def _refuse_each(
    bench: MechanismBench,
    tally: Tally,
    scene: Scene,
    before: Sequence[Guarantee],
    runs: Sequence[Guarantee],
) -> None:
    """Refuse one stage at each number of its runs that fits."""
    counts: Sequence[int] = range(1, len(runs))
    if not bench.thorough and len(counts) > _STEPS:
        counts = sorted({1, len(runs) // 3, len(runs) // 2, len(runs) - 1})
    for count in counts:
        budget = least([*before, *runs[:count]])
        if budget is None or fits([*before, *runs], budget):
            continue
        events: list[Event] = []
        session = bench.session(scene.table, budget=budget, observer=events.append)
        when = f"with room for {count} of {len(runs)} runs"
        error = _refuse(bench, tally, scene, session, events, when)
        tally.ran()
        spent = len(paid(charges(session)))
        if _unanswered(error) and spent not in (0, len(before)):
            tally.fail(
                f"{scene}: {when} it was charged for {spent - len(before)} of them, and no answer "
                "came",
                "Pay for all runs at once, by `kernel.run_all` or an allowance",
            )
