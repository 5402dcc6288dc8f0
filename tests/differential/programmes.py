"""Random programmes over the public interface, which old and new releases of the package run alike.

A programme is a description made of plain data, drawn from a number, and what it comes to is a list
of lines: a key and a text to the last digit. Nothing but public names is used. As a script it runs
`python programmes.py FIRST COUNT` with whichever `dpsdk` is found, and prints the lines as JSON.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from questions import (
    Description,
    budget_of,
    composition,
    composition_of,
    domain_of,
    query,
    query_of,
    table,
    table_of,
)

import dpsdk
from dpsdk import Budget, Neighbors, Session, SyntheticData, accounting
from dpsdk import mechanisms as ways
from dpsdk import queries as asked
from dpsdk.accounting import Odometer
from dpsdk.errors import BudgetExceeded, DpsdkError
from dpsdk.forms import Facts, LinearForm, sensitivity
from dpsdk.testing import seeded

Line = tuple[str, str]

# Texts


def text(value: Any) -> Any:
    """Write a value out to the last digit."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Fraction, dt.date)):
        return str(value)
    if isinstance(value, dict):
        return {str(name): text(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return text(value.tolist())
    for kind, fields in FIELDS:
        if isinstance(value, kind):
            return {name: text(getattr(value, name)) for name in fields}
    if isinstance(value, accounting.Guarantee):
        return repr(value)
    if isinstance(value, dpsdk.release.Cost):
        return [[text(run), times] for run, times in value.runs]
    return [text(one) for one in value]


FIELDS: list[tuple[type, tuple[str, ...]]] = [
    (Budget, ("epsilon", "delta")),
    (dpsdk.release.Bound, ("error", "beta", "standing", "vacuous", "predicted")),
    (dpsdk.forms.Sensitivity, ("l1", "l2_squared", "maximum", "exact")),
    (accounting.Spent, ("epsilon", "rho", "delta", "charges", "guarantee")),
    (accounting.Remaining, ("epsilon", "rho", "kept_epsilon", "kept_rho")),
    (accounting.Readings, ("delta", "always", "anytime", "level", "declared")),
    (asked.MarginalTable, ("values", "moved")),
    (asked.Model, ("theta", "excess")),
]


LATER = {"period", "refusing", "passing", "places"}
PROSE = {"reason", "why", "expected", "advice", "what", "asked", "spent", "remaining", "shortages"}
"""Fields of errors that are sentences, which may be put better."""


class Record:
    """The lines of one programme."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def __call__(self, key: str, make: Callable[[], Any]) -> Any:
        """Note what a call returns, or which error with which public fields; return the value."""
        try:
            value = make()
            self.note(key, value)
        except DpsdkError as error:
            told = vars_of(error).items()
            # What later versions tell of periods is nothing where a table has none.
            fields = {n: str(v) for n, v in told if n not in PROSE and (v or n not in LATER)}
            self.note(f"{key}!", [type(error).__name__, fields])
            if isinstance(error, BudgetExceeded):
                words = [error.asked, error.spent, error.remaining]
                self.note(f"{key}! words", [re.sub(r"[<>]?[0-9.]+%", "%", one) for one in words])
        except Exception as error:
            self.note(f"{key}!", type(error).__name__)
        else:
            return value
        return None

    def note(self, key: str, value: Any) -> None:
        if isinstance(value, (accounting.Spent, accounting.Remaining)):
            self.lines.append((f"{key}, share", repr(value.fraction)))
        self.lines.append((key, json.dumps(text(value))))


def vars_of(error: DpsdkError) -> dict[str, Any]:
    """Return the fields that an error is made of."""
    names = [name for one in type(error).__mro__ for name in getattr(one, "__annotations__", ())]
    return {name: getattr(error, name, None) for name in names if not name.startswith("_")}


# Forms: rows, sensitivities, true answers


def form_of(r: random.Random) -> Description:
    of = domain_of(r)
    return {"table": table_of(r, of, 12), "query": query_of(r, of), "bits": r.choice([2, 8, 20])}


def form(of: Description, record: Record) -> None:
    question = query(of["query"])
    data = table(of["table"])
    found: LinearForm | None = None
    try:
        question.check(data.facts)
        found = question.lower(data.domain)
    except DpsdkError:
        record("form", lambda: question.check(data.facts) or question.lower(data.domain))
        return
    record.note("rows", found.rows)
    record.note("names", sorted(found.names))
    record.note("extents", found.extents())
    record.note("largest", found.largest)
    for relation, unit_rows in ((Neighbors.REPLACE_ONE, 1), (Neighbors.ADD_REMOVE, 2)):
        rows = 12 if relation is Neighbors.REPLACE_ONE else None
        facts = Facts(data.domain, relation, rows, outside=True, row_limit=12, unit_rows=unit_rows)
        record(f"sensitivity {relation.value}", lambda facts=facts: sensitivity(found, facts))
    codes = np.random.default_rng(3).integers(0, data.domain.shape, (9, len(data.domain.shape)))
    rounded, moved = found.rounded(of["bits"])
    record.note("rounded", moved)
    public = SyntheticData(data.domain, codes, outside_count=2)
    record.note("answers", public.answers(found))
    record.note("answers on a lattice", public.answers(rounded))
    record("lifted", lambda: question.lift(public.answers(found), data.facts))


# Charges: admission, spent, remaining, readings


def runs_of(r: random.Random) -> list[Description]:
    found: list[Description] = []
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        epsilon = r.choice(["0.01", "0.1", "0.3", "1"])
        found.append(
            r.choice(
                [
                    ["PureGuarantee", epsilon],
                    ["DiscreteLaplaceGuarantee", r.choice(["3", "10.5", "80"]), r.randint(1, 3)],
                    ["DiscreteGaussianGuarantee", r.choice(["9", "100", "2500"]), 1, 1],
                    ["DiscreteGaussianGuarantee", "400", *r.choice([(2, 1), (4, 2), (9, 2)])],
                    ["BoundedRangeGuarantee", epsilon],
                    ["ApproximateGuarantee", epsilon, r.choice(["1e-12", "1e-9"])],
                ]
            )
        )
    return found


def guarantees(of: list[Description]) -> list[Any]:
    return [getattr(accounting, kind)(*rest) for kind, *rest in of]


def charge_of(r: random.Random) -> Description:
    return {
        "budget": budget_of(r),
        "composition": composition_of(r),
        "anytime": r.choice([None, None, ["1e-6", "0.02"]]),
        "runs": [runs_of(r) for _ in range(r.randint(2, 7))],
        "delta": r.choice(["1e-9", "1e-6", "0.01"]),
    }


def charge(of: Description, record: Record) -> None:
    anytime = accounting.Anytime(*of["anytime"]) if of["anytime"] else None
    kept: list[Odometer] = []
    way = composition(of["composition"])
    record("odometer", lambda: kept.append(Odometer(Budget(*of["budget"]), way, anytime)))
    if not kept:
        return
    (odometer,) = kept
    for number, runs in enumerate(of["runs"]):
        given = guarantees(runs)
        if number == 1:
            record("affords", lambda given=given: odometer.affords(given[0]))
        record("charge", lambda given=given: odometer.charge_all(given, "a charge"))
    record("spent", lambda: odometer.spent)
    record("remaining", lambda: odometer.remaining)
    record("readings", lambda: odometer.readings(of["delta"]))


# Conversions


def price_of(r: random.Random) -> Description:
    return {
        "epsilon": f"{r.uniform(0.01, 4):.4g}",
        "rho": f"{10 ** r.uniform(-5, 0.5):.4g}",
        "delta": r.choice(["1e-12", "1e-9", "1e-6", "0.01"]),
        "count": r.randint(1, 60),
        "order": r.choice(["1.5", "4", "20"]),
        "runs": runs_of(r),
        "composition": composition_of(r),
    }


def price(of: Description, record: Record) -> None:
    epsilon, rho, delta = of["epsilon"], of["rho"], of["delta"]
    for run in guarantees(of["runs"]):
        record("pure", lambda run=run: accounting.pure_epsilon(run))
        record("rho", lambda run=run: accounting.zcdp_rho(run))
        record("leak", lambda run=run: accounting.leak(run))
        record("renyi", lambda run=run: accounting.renyi_divergence(run, of["order"]))
    record("zcdp start", lambda: accounting.zcdp_start(epsilon, delta))
    record("zcdp epsilon", lambda: accounting.zcdp_epsilon(rho, delta))
    record("zcdp delta", lambda: accounting.zcdp_delta(rho, epsilon))
    record("gdp", lambda: accounting.gdp_epsilon(rho, delta))
    record("claim", lambda: accounting.gaussian_claim(rho, delta))
    record("renyi start", lambda: accounting.renyi_start(epsilon, delta, of["order"]))
    record("advanced", lambda: accounting.advanced_epsilon(epsilon, of["count"], delta))
    way = composition(of["composition"])
    record(
        "epsilon for a count",
        lambda: accounting.max_epsilon_for(way, way.begin(Budget(epsilon, delta)), of["count"]),
    )


# Sessions: quotes, releases, refusals, scopes


def one_shot_of(r: random.Random) -> Description:
    return r.choice(
        [
            ["Laplace", r.choice(["0.05", "0.3", "1"])],
            ["Gaussian", {"rho": r.choice(["0.001", "0.02", "0.4"])}],
            ["Gaussian", {"epsilon": "0.5", "delta": "1e-9"}],
        ]
    )


def one_shot(of: Description) -> Any:
    return ways.Laplace(of[1]) if of[0] == "Laplace" else ways.Gaussian(**of[1])


def session_of(r: random.Random) -> Description:
    of = domain_of(r)
    return {
        "table": table_of(r, of, r.choice([20, 90])),
        "budget": budget_of(r),
        "composition": composition_of(r),
        "seed": r.randrange(1000),
        "asked": [[query_of(r, of), one_shot_of(r)] for _ in range(r.randint(2, 4))],
        "share": r.choice(["0.1", "0.5"]),
        "reuse": r.random() < 0.3,
    }


def opened(of: Description) -> Session:
    return Session(
        table(of["table"]),
        Budget(*of["budget"]),
        composition=composition(of.get("composition", ["default"])),
        noise=seeded(of["seed"]),
        reuse=of.get("reuse", False),
    )


def hides(question: Any) -> str:
    """What is added to keys of errors that bins count in, as those of a mean of values in bins."""
    inner = getattr(question, "queries", ())
    own = isinstance(question, asked.Sum | asked.Mean | asked.Quantile)
    mine = own and question.attribute == "hours"  # the one that is ever in bins
    return ", bins" if mine or any(map(hides, inner)) else ""


def released(record: Record, key: str, question: Any, make: Callable[[], Any]) -> None:
    """Note all that a release says."""
    bins = hides(question)
    kept: list[Any] = []
    record(key, lambda: kept.append(make()) or kept[0].value)
    if kept:
        (release,) = kept
        record.note(f"{key}, cost", release.cost)
        record.note(f"{key}, source", release.source)
        record.note(f"{key}, reused", release.reused)
        record(f"{key}, bound{bins}", lambda: release.bound(0.1))
        record(f"{key}, errors{bins}", lambda: release.errors(0.1))
        record(f"{key}, interval{bins}", lambda: release.interval(0.1))


def quoted(record: Record, session: Session, question: Any, way: Any) -> None:
    quote: list[Any] = []
    record("quote", lambda: quote.append(session.quote(question, using=way)) or quote[0].at_open)
    if quote:
        record.note("quote, at most", quote[0].at_most)
        record(f"quote, error{hides(question)}", lambda: quote[0].error(0.1))


def session(of: Description, record: Record) -> None:
    kept: list[Session] = []
    record("session", lambda: kept.append(opened(of)))
    if not kept:
        return
    (made,) = kept
    for number, (description, way) in enumerate(of["asked"]):
        question, using = query(description), one_shot(way)
        if number < 2:
            quoted(record, made, question, using)
        if number == 1:
            record("affords", lambda q=question, u=using: made.affords(q, using=u))
        released(record, "release", question, lambda q=question, u=using: made.release(q, using=u))
    record.note("spent", made.spent)
    record.note("remaining", made.remaining)
    released(
        record,
        "in a scope",
        question,
        lambda: made.scope("another", of["share"]).release(question, using=using),
    )
    record.note("history", [[entry.cost, entry.answered, entry.scope] for entry in made.history])


# Channels of every mechanism


def channel_of(r: random.Random) -> Description:
    of = [["Integer", "age", 0, r.choice([5, 11])], ["Categorical", "sex", ["F", "M"], False],
          ["Boolean", "member"]]  # fmt: skip
    return {
        "table": {**table_of(r, of, 200), "neighbors": "replace-one", "unit_rows": 1},
        "budget": ["20", "1e-3"],
        "seed": r.randrange(1000),
        "way": r.randrange(len(WAYS)),
        "asked": [query_of(r, of) for _ in range(3)],
    }


def few() -> Any:
    return asked.Workload([asked.Threshold("age", 2), asked.Marginal("sex", "member")])


def tables() -> Any:
    return asked.Workload([asked.Marginal("sex", "member"), asked.Marginal("age")])


def model() -> Any:
    return asked.ConvexMinimization(
        dpsdk.losses.LogisticLoss(), features=["age", "sex"], label="member", over=asked.Ball(4)
    )


WAYS: list[tuple[str, Callable[[], Any]]] = [
    ("NoisyHistogram", lambda: ways.NoisyHistogram(epsilon="0.5")),
    ("NoisyHistogram, Gaussian", lambda: ways.NoisyHistogram(rho="0.1", consistent=True)),
    ("Tree", lambda: ways.Tree("age", epsilon="0.5")),
    ("Tree, Gaussian", lambda: ways.Tree("age", rho="0.1", branching=2)),
    ("SquareRoot", lambda: ways.SquareRoot("age", rho="0.1")),
    ("Matrix", lambda: ways.Matrix(tables(), rho="0.1")),
    ("Matrix, pure", lambda: ways.Matrix(few(), epsilon=1)),
    ("ResidualPlanner", lambda: ways.ResidualPlanner(tables(), rho="0.1")),
    (
        "ResidualPlanner, possible",
        lambda: ways.ResidualPlanner(tables(), rho="0.1", objective="max", nonnegative=True),
    ),
    ("Projection", lambda: ways.Projection(epsilon=1, delta="1e-6")),
    ("MWEM", lambda: ways.MWEM(few(), epsilon=2, rounds=3)),
    ("MWEM, averaged", lambda: ways.MWEM.averaged(few(), epsilon=2, rounds=3, beta=0.1)),
    ("MWEM, textbook", lambda: ways.MWEM.textbook(few(), epsilon=2, rounds=3)),
    ("OfflinePMW", lambda: ways.OfflinePMW(few(), epsilon=2, beta=0.1)),
    ("LocalMarginals", lambda: ways.LocalMarginals(tables(), rho=1)),
    (
        "LocalMarginals, certified",
        lambda: ways.LocalMarginals(tables(), rho=1, certify="0.1", components=4),
    ),
    ("SmallDB", lambda: ways.SmallDB(few(), epsilon=1, size=2)),
    ("OnlinePMW", lambda: ways.OnlinePMW(2, "1e-6", updates=3)),
    ("OnlinePMW, prepaid", lambda: ways.OnlinePMW(2, updates=3, prepaid=True)),
    ("NumericSparse", lambda: ways.NumericSparse(2, "1e-6", tops=3)),
    ("NumericSparse, gaps", lambda: ways.NumericSparse(2, tops=3, numbers="gap")),
    ("ConvexPMW", lambda: ways.ConvexPMW(4, "1e-6", updates=2)),
    ("PrivateMinimizer", lambda: ways.PrivateMinimizer(epsilon=2, delta="1e-6")),
    (
        "PrivateMinimizer, corrected",
        lambda: ways.PrivateMinimizer(
            epsilon=2, delta="1e-6", oracle=ways.Corrected(gradients=1, certify="0.25")
        ),
    ),
    (
        "PrivateMinimizer, statistics",
        lambda: ways.PrivateMinimizer(epsilon=2, oracle=ways.SufficientStatistics()),
    ),
    (
        "PrivateMinimizer, descent",
        lambda: ways.PrivateMinimizer(epsilon=2, delta="1e-6", oracle=ways.NoisyDescent(steps=5)),
    ),
    (
        "PrivateMinimizer, sketch",
        lambda: ways.PrivateMinimizer(epsilon=2, delta="1e-6", oracle=ways.Sketch(size=6)),
    ),
    ("Parts", lambda: ways.Parts([(asked.Count(), ways.Laplace(1))])),
]

LEAST = asked.ConvexMinimization(
    dpsdk.losses.SquaredLoss(), features=["age", "sex"], label="member", over=asked.Ball(2)
)


def channel(of: Description, record: Record) -> None:
    name, make = WAYS[of["way"]]
    record.note("mechanism", name)
    made = opened(of)
    way = make()
    questions = [query(one) for one in of["asked"]]
    if name.startswith(("MWEM", "OfflinePMW", "SmallDB", "Matrix")):
        questions.append(few())
    if name.startswith(("Residual", "Local", "Matrix")):
        questions.append(tables())
    if name.startswith("NumericSparse"):
        questions = [
            asked.NumericAbove(asked.Count(normalized=False), 20),
            asked.Above(asked.Threshold("age", 2), 0.6),
            asked.Above(asked.Threshold("age", 3), 0.1),
        ]
    if name.startswith(("ConvexPMW", "PrivateMinimizer")):
        # Sums of least squares serve that loss alone.
        questions = [LEAST] if "statistics" in name else [model(), LEAST]
    if name == "Parts":
        questions = [asked.Workload([asked.Count()])]
    quoted(record, made, questions[0], way)
    kept: list[Any] = []
    record("open", lambda: kept.append(made.open(way)))
    record.note("after opening", made.spent)
    for question in questions:
        if kept:
            released(record, name, question, lambda q=question: kept[0].release(q))
    record.note("spent", made.spent)
    record.note("history", [[entry.cost, entry.answered, entry.scope] for entry in made.history])


# Refusals of values that make no sense


def refusal_of(r: random.Random) -> Description:
    of = domain_of(r)
    return {
        "table": table_of(r, of, 9),
        "query": query_of(r, of),
        "number": r.choice(["0", "-1", "nan", "inf", "1e400", "x", "0.1"]),
        "which": r.randrange(len(WRONG)),
        "budget": ["0.01", "0"],
        "seed": 1,
    }


FAR = asked.Threshold("age", -99)
WRONG: list[tuple[str, Callable[[str, Any, Session], Any]]] = [
    ("Laplace", lambda number, _, __: repr(ways.Laplace(number))),
    ("Gaussian", lambda number, _, __: repr(ways.Gaussian(rho=number))),
    ("budget", lambda number, _, __: repr(Budget(number))),
    ("budget, delta", lambda number, _, __: repr(Budget(1, number))),
    ("guarantee", lambda number, _, __: repr(accounting.PureGuarantee(number))),
    ("tree", lambda number, _, __: repr(ways.Tree("age", epsilon=number))),
    ("quantile", lambda number, _, __: repr(asked.Quantile("age", number))),
    ("too much", lambda _, q, s: s.answer(q, using=ways.Laplace(1))),
    ("no such attribute", lambda _, __, s: s.answer(asked.Sum("nothing"), using=ways.Laplace(1))),
    ("no such label", lambda _, __, s: s.answer(asked.Count({"sex": "?"}), using=ways.Laplace(1))),
    ("beyond the ends", lambda _, __, s: s.answer(FAR, using=ways.Laplace("1e-3"))),
    ("nothing asked", lambda _, __, ___: asked.Workload([])),
    ("a share", lambda number, _, s: s.scope("x", number).name),
]  # fmt: skip


def refusal(of: Description, record: Record) -> None:
    name, act = WRONG[of["which"]]
    made = opened(of)
    record(name, lambda: act(of["number"], query(of["query"]), made))
    record.note("spent", made.spent)


# Plans


def plan_of(r: random.Random) -> Description:
    of = [["Integer", "age", 0, r.choice([7, 30])], ["Categorical", "sex", ["F", "M"], False]]
    return {
        "table": {**table_of(r, of, 300), "neighbors": "replace-one", "unit_rows": 1},
        "budget": ["1", "1e-6"],
        "seed": 1,
        "query": query_of(r, of),
        "error": r.choice([0.05, 0.2]),
    }


def plan(of: Description, record: Record) -> None:
    made = opened(of)
    kept: list[Any] = []
    # What 0.1.0 calls by another name.
    name = "error" if "error" in inspect.signature(made.plan).parameters else "alpha"
    record("plan", lambda: kept.append(made.plan(query(of["query"]), **{name: of["error"]})))
    for one in kept[0].plans if kept else ():
        way = type(one.mechanism).__name__
        record.note(f"plan of {way}", repr(one.mechanism))
        record.note(f"plan of {way}, cost", one.cost)
        record.note(f"plan of {way}, promise", one.promised)


# All kinds, with how often each is drawn

KINDS: dict[str, tuple[int, Callable[..., Any], Callable[..., Any]]] = {
    "form": (371, form_of, form),
    "charge": (300, charge_of, charge),
    "price": (24, price_of, price),
    "session": (180, session_of, session),
    "refusal": (100, refusal_of, refusal),
    "channel": (22, channel_of, channel),
    "plan": (3, plan_of, plan),
}


def describe(number: int) -> tuple[str, Description]:
    """Draw the programme of this number."""
    r = random.Random(number)
    kind = r.choices(list(KINDS), [one[0] for one in KINDS.values()])[0]
    return kind, KINDS[kind][1](r)


def lines(first: int, count: int) -> Iterator[tuple[int, str, list[Line]]]:
    """Run programmes: of each its number, its kind and its lines."""
    for number in range(first, first + count):
        kind, description = describe(number)
        record = Record()
        try:
            KINDS[kind][2](description, record)
        except Exception as error:
            record.note("programme!", f"{type(error).__name__}: {error}")
        yield number, kind, record.lines


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dpsdk.__file__) + "\n")
    for one in lines(int(sys.argv[1]), int(sys.argv[2])):
        sys.stdout.write(json.dumps(one) + "\n")
