"""Checks of what a mechanism is and claims: a value, bounds, shapes, words, typed refusals."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, cast, get_args

import numpy as np

from dpsdk._checks import described
from dpsdk.accounting import Budget
from dpsdk.accuracy import HalfWidths, Standing
from dpsdk.errors import DpsdkError
from dpsdk.forms import LinearForm
from dpsdk.forms.crossing import chosen_place
from dpsdk.mechanisms import DistributionMechanism, Laplace, OneShot
from dpsdk.queries import Query
from dpsdk.release import Accuracy, Cost
from dpsdk.release.quote import check_quote
from dpsdk.session import Session
from dpsdk.session.channel import DistributionChannel
from dpsdk.session.gate import fitting
from dpsdk.testing.conformance.bench import AnyQuery, MechanismBench, Scene, questions, runnable
from dpsdk.testing.conformance.costs import charges, paid, within
from dpsdk.testing.conformance.prints import deep, fields_of, printed_accuracy
from dpsdk.testing.conformance.report import Tally, called, caught, origin
from dpsdk.testing.conformance.values import check_frozen, check_held, check_text, check_written
from dpsdk.typing import Floats, Ints

__all__ = [
    "bounds_cover",
    "frozen_value",
    "metadata",
    "takes_in",
    "typed_refusals",
    "types_and_shapes",
    "written_form",
]

_BETAS = (0.5, 0.2, 0.05, 0.01)
_ALARM = 1e-6 / 200
"""Of each comparison, so that all together are false with a probability of at most 1e-6."""

_SAMPLES = 150
_ENOUGH = 10
"""After so many answers without a bound none is looked for."""

_QUIET = Laplace(10**7)
"""Noise so small that all of it is zero."""


def takes_in(bench: MechanismBench, tally: Tally) -> None:
    """Its arguments stay as they were, and may be written over later without effect."""
    mechanism = bench.mechanism
    before = deep(mechanism)
    for scene in runnable(bench, tally):
        forms = [query.lower(scene.domain) for query in scene.queries]
        kernel = bench.kernel(scene.table, 0)
        lent = deep(forms), deep(kernel.terms.facts)
        with suppress(Exception):
            for form in forms:
                mechanism.quote(form, kernel.terms)
        with suppress(Exception):
            strategy = mechanism.open(kernel)
            for form in forms:
                strategy.answer(form, kernel)
        bench.asked(scene, bench.session(scene.table))
        tally.ran()
        if lent != (deep(forms), deep(kernel.terms.facts)):
            tally.fail(
                f"{scene}: a form or the facts that it was given are not as they were",
                "Leave what is handed to it as it is",
            )
        if deep(mechanism) != before:
            tally.fail(
                f"{scene}: the mechanism itself is not as it was",
                "Keep what changes in the strategy that `open` makes, one for each channel",
            )
    check_held(bench, tally)


def frozen_value(bench: MechanismBench, tally: Tally) -> None:
    """A frozen value: equal to its copies and to no other, and as good as new after use."""
    check_frozen(bench.mechanism, tally)


def bounds_cover(bench: MechanismBench, tally: Tally) -> None:
    """Stated bounds hold as often as they say; false alarms have a probability of 1e-6."""
    stated = False
    scenes = runnable(bench, tally)
    if not bench.thorough:
        scenes = tuple(scene for scene in scenes if scene.unit_rows == 1) or scenes[:1]
    for scene in scenes:
        queries = [one for one in scene.queries if isinstance(one.lower(scene.domain), LinearForm)]
        if queries:
            # The first one twice: that it was asked before makes no bound narrower.
            twice = (*queries, queries[0])
            asked = Scene(scene.domain, scene.neighbors, scene.unit_rows, twice)
            stated |= _covers(bench, tally, asked)
    if not stated:
        tally.skip("it states no bounds of the numbers of a linear form")


def _covers(bench: MechanismBench, tally: Tally, scene: Scene) -> bool:
    session = bench.session(scene.table, seed=7)
    quiet = bench.session(scene.table, budget=Budget(10**12))
    # Of linear forms alone, though the scene does not know.
    linear = cast("tuple[Query[object, LinearForm], ...]", scene.queries)
    truths = [quiet.release(query, using=_QUIET).raw for query in linear]
    quotes = bench.quotes(scene, scene.table)
    misses: dict[tuple[int, str, float], Ints] = {}
    """How often each number was further off than said, and last whether any of them was."""
    samples = _SAMPLES * (5 if bench.thorough else 1)
    for done in range(samples):
        if done == _ENOUGH and not misses:
            return False
        with bench.opened(session) as channel:
            for number, query in enumerate(linear):
                try:
                    release = channel.release(query)
                except DpsdkError:
                    continue
                off = _off(release.raw, truths[number], query.lower(scene.domain))
                for who, accuracy in (
                    ("release", release.accuracy),
                    ("quote", quotes[number].accuracy),
                ):
                    if not isinstance(accuracy, HalfWidths) or not accuracy.proven:
                        continue
                    for beta in _BETAS:
                        found = misses.setdefault((number, who, beta), np.zeros(len(off) + 1, int))
                        found[-1] += (off > _widened(accuracy.radii(beta, joint=True))).any()
                        if accuracy.standing == "proven":
                            found[:-1] += off > _widened(accuracy.radii(beta, joint=False))
    for (number, who, beta), found in misses.items():
        tally.ran(samples)
        for kind, count in (("joint", int(found[-1])), ("each", int(found[:-1].max(initial=0)))):
            if _unlikely(count, samples, beta):
                tally.fail(
                    f"{scene}: the {kind} bounds of a {who} of {described(scene.queries[number])} "
                    f"at beta={beta:g} were exceeded {count} times of {samples}",
                    "State bounds that are proven, or `NoAccuracy`",
                )
    return bool(misses)


def _off(raw: Floats, truth: Floats, form: LinearForm) -> Floats:
    """How far raw numbers are off, in rows; of a chosen value that is its rank."""
    crossing = form.crossing
    place = None if crossing is None else chosen_place(raw, crossing.cells)
    if crossing is None or place is None:
        return np.abs(raw - truth)
    wanted, below = float(crossing.q) * truth[-1], np.append(truth, 0.0)[place - 1]
    return np.full(len(raw), max(0.0, wanted - truth[place], below - wanted))


def _widened(radii: Floats) -> Floats:
    return radii * (1 + 1e-9) + 1e-9


def _unlikely(count: int, trials: int, beta: float) -> bool:
    """True if so many misses or more are less likely than the alarm allows, where each has beta."""
    from scipy.special import betainc  # noqa: PLC0415  # slow to import

    return count > 0 and float(betainc(count, trials - count + 1, beta)) < _ALARM


def types_and_shapes(bench: MechanismBench, tally: Tally) -> None:
    """Measurements are finite float64 of the right length, their bounds as long, and in order."""
    for scene in runnable(bench, tally):
        for table in scene.far:
            kernel = bench.kernel(table, 2)
            strategy = bench.mechanism.open(kernel)
            answered = 0
            for query in scene.queries:
                form = query.lower(scene.domain)
                if isinstance(bench.mechanism, DistributionMechanism) and not isinstance(
                    form, LinearForm
                ):
                    continue  # which its channel answers from its distribution
                quote = check_quote(bench.mechanism.quote(form, kernel.terms), bench.mechanism)
                try:
                    given: object = strategy.answer(form, kernel)
                except DpsdkError:
                    if not answered:
                        raise
                    continue
                answered += 1
                tally.ran()
                measured = fitting(given, form, bench.mechanism.name)
                length = len(measured.values) if isinstance(form, LinearForm) else None
                problem = _bound_problem(measured.accuracy, length)
                problem = problem or _bound_problem(quote.accuracy, length)
                if length is not None and not np.isfinite(measured.values).all():
                    problem = "some of its numbers are not finite"
                if problem:
                    name = described(query)
                    tally.fail(f"{scene}: for {name} {problem}", "Return what `Measurement` says")
        session = bench.session(scene.table)
        with bench.opened(session) as channel:
            if isinstance(channel, DistributionChannel):
                tally.ran()
                table_of = channel.distribution.table(channel.distribution.domain.names)
                if table_of.shape != scene.domain.shape or not (table_of >= 0).all():
                    tally.fail(
                        f"{scene}: its distribution is no table of probabilities over the universe",
                        "Give a `Distribution`, such as `SyntheticData`",
                    )


def _bound_problem(accuracy: Accuracy, length: int | None) -> str:
    """The fault of what is said of errors, empty where there is none."""
    if accuracy.standing not in get_args(Standing):
        return f"its accuracy has the standing {accuracy.standing!r}"
    if not isinstance(accuracy, HalfWidths):
        return ""
    before: dict[bool, Floats] = {}
    for beta in (1e-9, 0.01, 0.3):
        both = {joint: accuracy.radii(beta, joint=joint) for joint in (False, True)}
        for joint, radii in both.items():
            array: object = radii
            if not isinstance(array, np.ndarray) or array.dtype != np.float64:
                return "its bounds are not float64"
            if length is not None and array.shape != (length,):
                return f"its bounds have the shape {array.shape}, for {length} numbers"
            if np.isnan(array).any() or (array < 0).any():
                return "its bounds are negative or no numbers"
            if joint in before and (array > before[joint] * (1 + 1e-9)).any():
                return "its bounds are wider at a lower confidence"
            before[joint] = radii
        if accuracy.standing == "proven" and (both[True] < both[False] * (1 - 1e-9)).any():
            return "its bounds of all numbers at once are narrower than those of each"
    return ""


def written_form(bench: MechanismBench, tally: Tally) -> None:
    """Written as JSON and read again it is equal, and written the same."""
    one_shot = isinstance(bench.mechanism, OneShot)
    kind: Literal["one-shot", "mechanism"] = "one-shot" if one_shot else "mechanism"
    again = check_written(bench.mechanism, kind, bench, tally)
    change = "Write in the kind all that the mechanism is made of"
    after = fields_of(again)
    for name, held in fields_of(bench.mechanism).items():
        if type(after.get(name)) is not type(held) or after[name] != held:
            tally.fail(f"it was read with another {name}, {described(after.get(name))}", change)
    for scene in bench.scenes:
        tally.ran()
        session = bench.session(scene.table)
        told = [
            [printed_accuracy(session.quote(query, using=one).accuracy) for query in scene.queries]
            for one in (bench.mechanism, again)
        ]
        if told[0] != told[1]:
            tally.fail(f"{scene}: what was read again quotes otherwise", change)


def metadata(bench: MechanismBench, tally: Tally) -> None:
    """Names, texts, quotes and sources are complete, and say what was done."""
    mechanism = bench.mechanism
    check_text(mechanism, tally)
    name: object = mechanism.name
    if not isinstance(name, str) or not name.strip() or name != mechanism.name:
        tally.fail(f"Its name is {name!r}", "Say in a few words what it is, the same each time")
    if len(name) > 1000 or "\n" in name or " at 0x" in name:
        tally.fail(f"Its name is {name[:80]!r}", "Say what it is in one line")
    if not (type(mechanism).__doc__ or "").strip():
        tally.fail("Its class has no docstring", "Say there what it does, and from which theorem")
    for scene in runnable(bench, tally):
        for quote in bench.quotes(scene, scene.table):
            tally.ran()
            if within(quote.at_open, quote.at_most):
                tally.fail(
                    f"{scene}: it quotes more for the opening than in all",
                    "at_most bounds the opening and one answer together",
                )
            _told(tally, scene, quote.accuracy)
        session = bench.session(scene.table)
        with bench.opened(session) as channel:
            for query in scene.queries:
                try:
                    release = channel.release(query)
                except DpsdkError:
                    continue
                tally.ran()
                _told(tally, scene, release.accuracy)
                if release.source == "measured" and all(run.free for run in charges(session)):
                    tally.fail(
                        f"{scene}: an answer is said to be measured, and nothing was charged",
                        'Say "fitted" or "hypothesis" by `source`',
                    )


def _told(tally: Tally, scene: Scene, accuracy: Accuracy) -> None:
    kind: object = accuracy.kind
    if not isinstance(kind, str) or not kind.strip():
        tally.fail(f"{scene}: its accuracy has no `kind`", "Say on what it rests")


def typed_refusals(bench: MechanismBench, tally: Tally) -> None:
    """A request that it does not take is refused by an error of dpsdk, and charged nothing for."""
    if not bench.scenes and not bench.refusals:
        runnable(bench, tally)
    change = "Raise InvalidArgument or QueryError; pricing a request of the kernel does so"
    for asked, raised in bench.strange.items():
        tally.fail(f"{asked}: its quote raised {raised}", change)
    tally.ran(len(bench.refusals))
    for scene in bench.scenes:
        for query in [kind[0] for kind in questions(scene.domain) if kind]:
            session, costs = bench.session(scene.table), list[Cost]()
            quoting = caught(session.quote, query, using=bench.mechanism)
            asking = caught(_ask, bench, session, query, costs)
            tally.ran()
            for error in (quoting, asking):
                if error is not None and not isinstance(error, DpsdkError):
                    where = f"{scene}: for {described(query)} it raised "
                    what = f"{type(error).__name__}, {called(error)}, in {origin(error)}"
                    tally.fail(f"{where}{what}", change)
            if quoting is not None and asking is None and paid(costs[0].guarantees):
                tally.fail(
                    f"{scene}: {described(query)} was answered for {costs[0]}, after its quote was "
                    "refused",
                    "Refuse to answer what is refused a quote",
                )


def _ask(bench: MechanismBench, session: Session, query: AnyQuery, costs: list[Cost]) -> None:
    with bench.opened(session) as channel:
        opened = len(charges(session))
        channel.release(query)
    costs.append(Cost(charges(session)[opened:]))
