"""Whatever a client does to the values it holds, honest questions keep their price and noise."""

import copy
from contextlib import suppress
from datetime import date
from fractions import Fraction

import attrs
import numpy as np
import pytest

from dpsdk import (
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    PrivacyUnit,
    PrivateData,
    Session,
)
from dpsdk.accounting import (
    BasicComposition,
    DiscreteLaplaceGuarantee,
    Odometer,
    ZCDPComposition,
    zcdp_start,
)
from dpsdk.errors import DpsdkError
from dpsdk.forms import ConvexForm, GapForm, LinearForm, ProximalGapForm, sensitivity
from dpsdk.kernel import (
    DrawDatabase,
    GaussianNoise,
    Kernel,
    LaplaceNoise,
    Look,
    Measure,
    MeasureResiduals,
    Reference,
    Request,
    Select,
    Terms,
    Watching,
)
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import (
    ConvexPMW,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    NoisyDescent,
    NoisyHistogram,
    NumericSparse,
    OneShot,
    OnlinePMW,
    Parts,
    PrivateMinimizer,
    Projection,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    Tree,
)
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import (
    Above,
    Ball,
    Between,
    ConvexMinimization,
    Count,
    DateQuantile,
    Marginal,
    Mean,
    NumericAbove,
    OneHot,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.release import Cost, Measurement, NoAccuracy, NoiseAccuracy, Quote
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

MONDAY, TUESDAY = date(2024, 2, 26), date(2024, 2, 27)


def universe():
    return Domain(
        Integer("age", 0, 7), Categorical("sex", ["F", "M"]), Date("day", MONDAY, TUESDAY)
    )


DATA = PrivateData.from_counts(
    np.arange(32).reshape(8, 2, 2) * 7 + 3, universe(), neighbors=Neighbors.REPLACE_ONE
)

COMPOSITIONS = [None, ZCDPComposition("0.1")]


def questions():
    """Fresh values each time, as an honest client would make them."""
    linear = [
        Count(where={"age": 3}, normalized=False),
        Threshold("age", 4),
        Marginal("age", "sex"),
        Mean("age"),
        Threshold("day", MONDAY),
        Count(where={"day": Between(MONDAY, MONDAY), "sex": "F"}),
        DateQuantile("day", "0.6"),
        Rectangles(["age", "sex"], [[0, 0], [2, 1]], [[3, 1], [7, 1]]),
        Workload(Threshold("age", t) for t in range(8)),
    ]
    for query in linear:
        yield query, Laplace("0.01")
        yield query, Gaussian(rho="0.0001")
    yield Marginal("age", "sex"), Projection(rho="0.0001")
    table, line = Marginal("age", "sex"), Workload(Threshold("age", t) for t in range(8))
    parts = [(table, ResidualPlanner(table, rho="0.0001")), (line, Tree("age", epsilon="0.01"))]
    yield Workload([line, table]), Parts(parts)
    yield Count(normalized=False, where={"sex": "F"}), Gaussian(epsilon="0.01", delta="1e-9")
    yield Marginal("age", normalized=False), Trusting()
    yield model(), PrivateMinimizer(epsilon="0.01", oracle=NoisyDescent.textbook(steps=1))


def channels():
    above = [Above(Threshold("age", 3), 0.9), NumericAbove(Count(where={"sex": "M"}), 0.2)]
    yield NumericSparse("0.2", tops=2), above
    # NaN, as of a mean of nobody, is not equal to itself.
    boxes = Rectangles("age", [0, 2], [3, 5])
    linear = [Count(where={"age": 3}), Threshold("age", 4), Marginal("age", "sex"), boxes]
    yield NoisyHistogram(epsilon="0.1"), [*linear, model()]
    yield NoisyHistogram(rho="0.001", consistent=True), linear
    tables = Marginal("sex", "age")
    yield ResidualPlanner(tables, rho="0.001"), linear
    # Of one attribute no mixture is fitted, which takes the longest.
    yield LocalMarginals(Marginal("age"), rho="0.001", certify="0.1"), linear[1:2]
    yield ResidualPlanner([tables], rho="0.001", objective="max", nonnegative=True), linear
    yield Tree("age", epsilon="0.1"), [linear[1], boxes]
    yield SquareRoot("age", rho="0.001"), [linear[1], boxes]
    yield Matrix(Workload(linear), rho="0.001"), [*linear, boxes]
    yield Matrix(Workload(Threshold("age", t) for t in range(8)), epsilon="0.1"), linear[1:2]
    yield OnlinePMW("0.2", "1e-9", updates=3), [*(Threshold("age", t) for t in range(8)), boxes]
    yield OnlinePMW("0.2", updates=3, start="pairs"), [Threshold("age", t) for t in range(8)]
    yield ConvexPMW("0.2", "1e-9", updates=3, threshold=1e-4), [*linear, model(), model()]
    ages = Workload(Threshold("age", t) for t in range(7))
    yield SmallDB(ages, epsilon="0.3", size=4), [Threshold("age", 3), Marginal("sex")]
    pairs = Workload([Count({"age": {0, 3}}), Count({"age": {1, 5}, "sex": "F"})])
    yield SmallDB(pairs, epsilon="0.3", size=2), [Count({"age": {0, 3}})]


@attrs.frozen
class Moved(Request[Measurement]):
    """A request of another author, priced by the facts that it is given."""

    def price(self, terms, /):
        form = Marginal("age", normalized=False).lower(terms.facts.domain)
        scale = 1000 * int(sensitivity(form, terms.facts).l1)
        return Moving(form, DiscreteLaplaceGuarantee(scale, scale // 1000), DiscreteLaplace(scale))


@attrs.frozen
class Moving:
    form: LinearForm
    guarantee: DiscreteLaplaceGuarantee
    law: DiscreteLaplace

    def run(self, noise, opened, /):
        drawn = noise.draw(self.law, self.form.rows)
        accuracy = NoiseAccuracy(self.law, self.form.rows, 1.0, 0.0)
        return Measurement(self.form.evaluate(opened()) + drawn, accuracy)


@attrs.frozen
class Trusting(OneShot[LinearForm]):
    def quote(self, form, terms, /):
        priced = Moved().price(terms)
        return Quote(Cost(), Cost((priced.guarantee,)), NoAccuracy("an example"))

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        return kernel.run(Moved())


TRUST = {f"{__name__}.Moved": "acme.example/moved"}


def model():
    return ConvexMinimization(SquaredLoss(), features=[OneHot("sex")], label="age", over=Ball(9))


def asked(session):
    """What an honest client gets, and what the session says of it."""
    got = []
    for query, mechanism in questions():
        release = session.release(query, using=mechanism)
        got.append((_plain(release.value), str(release.cost), release.error()))
        got += [(one.name, one.proof) for one in release.payment.trusted]
    for mechanism, queries in channels():
        with session.open(mechanism) as channel:
            got += [(_plain(channel.answer(query)),) for query in queries]
    got += [str(session.spent), str(session.remaining)]
    return got


def _plain(value):
    values = getattr(value, "theta", getattr(value, "values", value))
    return np.asarray(values).tolist() if not callable(values) else repr(value)


def opened(composition=None, observer=None):
    given = {"composition": composition, "observer": observer, "noise": seeded(7)}
    return Session(DATA, Budget(50, "1e-6"), trust=TRUST, **given)


def held(session, events):
    """All that a client of a session can hold: made by it, given to it, or told to it."""
    unit = PrivacyUnit("age", max_rows=3)
    columns = {"age": [1, 2], "sex": ["F", "M"], "day": [MONDAY, TUESDAY]}
    people = PrivateData.from_columns(columns, universe(), unit=unit)
    things = [
        unit,
        people.facts,
        session.spent,
        session.remaining,
        *session.scopes,
        session.facts,
        session.domain,
        session.budget,
        session.trusted,
        Moved(),
    ]
    for query, mechanism in questions():
        form = query.lower(session.domain)
        if isinstance(form, ConvexForm):  # of which the kernel sees gradients alone
            form = form.gradient(form.over.centre(form.dimension))
        if isinstance(mechanism, Trusting):
            priced = Moved().price(Terms(session.facts))
            things += [priced, priced.guarantee, priced.law]
        noise = LaplaceNoise("0.01") if isinstance(mechanism, Laplace) else GaussianNoise("0.0001")
        things += [query, mechanism, form, noise, session.quote(query, using=mechanism)]
        request, terms = Measure(form, noise), Terms(session.facts)
        things += [request, terms, request.price(terms), session.release(query, using=mechanism)]
    small = DrawDatabase(Marginal("sex").lower(session.domain), 3, "0.2")
    things += [small, small.price(Terms(session.facts))]
    for mechanism, queries in channels():
        things += [mechanism, *queries, session.quote(queries[0], using=mechanism)]
        with session.open(mechanism) as channel:
            things += [channel.release(query) for query in queries]
            things.append(getattr(channel, "hypothesis", None))
            things.append(getattr(channel, "distribution", None))
            things += getattr(channel, "tables", ())
    things.append(model().lower(session.domain))
    watching = Watching("0.1", "0.1")
    kernel = Kernel(DATA, Odometer(Budget(1), BasicComposition()), seeded(1), "test")
    things += [watching, kernel.watch(watching).parameters, kernel.facts, kernel.terms]
    things.append(watching.price(kernel.terms))
    marginal = Marginal("sex").lower(session.domain)
    choice = Select(GapForm.around(marginal, np.zeros(marginal.rows)), 1, groups=[slice(0, 2)])
    things += [choice, choice.price(kernel.terms)]
    things.append(ProximalGapForm(marginal, np.zeros(marginal.rows), Ball(1)))
    look = Look([Reference(["sex"], [1, 2])], LaplaceNoise("0.01"))
    things += [look, look.price(kernel.terms)]
    bought = MeasureResiduals([(), ("sex", "age")], (3, 1), GaussianNoise("0.1"))
    things += [bought, bought.price(kernel.terms), bought.noise]
    things += [*session.history, *events, session.readings("1e-6")]
    things += [
        session.plan(Marginal("age", "sex"), budget=Budget(1, "1e-7")),
        session.plan(Mean("age"), error=0.1),
        session.plan(Threshold("age", 4), error=0.2).curve(),
    ]
    things += [
        zcdp_start(Fraction(50), Fraction(1, 10**6)),
        session.quote(Count(), using=Laplace(1)),
    ]
    return things


CLOSED = (
    "Session",
    "Kernel",
    "Watch",
    "Channel",
    "DistributionChannel",
    "HypothesisChannel",
    "TablesChannel",
    "PrivateData",
)


def walk(things):
    """Every value behind these, by its dotted attributes."""
    seen, queue = {}, list(things)
    while queue:
        thing = queue.pop()
        if id(thing) in seen or type(thing).__name__ in CLOSED or isinstance(thing, type):
            continue
        kind = type(thing)
        if kind in (tuple, list, set, frozenset):
            queue.extend(thing)
        elif kind is dict:
            queue.extend(thing.values())
        elif kind in (Fraction, np.ndarray) or kind.__module__.startswith("dpsdk"):
            seen[id(thing)] = thing
            queue.extend(parts(thing).values())
    return list(seen.values())


def parts(thing):
    if isinstance(thing, (Fraction, np.ndarray)):
        return {}
    names = {f.name for f in attrs.fields(type(thing))} if attrs.has(type(thing)) else set()
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
    names |= set(getattr(thing, "__dict__", {}))
    found = {}
    for name in names - {"__weakref__", "__dict__"}:
        try:
            found[name] = object.__getattribute__(thing, name)
        except AttributeError:
            continue
    return found


HOSTILE = [0, 1, -1, 10**9, Fraction(0), Fraction(10**9), 0.0, (), None, "x"]


def overwrite(thing, turn):
    """Change one value in every way that plain calls allow; says how to undo it."""
    undo = []
    if isinstance(thing, np.ndarray):
        array = thing
        try:
            array.flags.writeable = True
        except ValueError:
            return undo
        before = array.copy()
        if array.dtype.kind in "bif":
            array[...] = turn % 2
            undo.append(lambda: array.__setitem__(..., before))
        return undo
    if isinstance(thing, Fraction):
        for name in ("_numerator", "_denominator"):
            before = getattr(thing, name)
            setattr(thing, name, (0, 10**9)[turn % 2] if name == "_numerator" else 1)
            undo.append(lambda name=name, before=before: setattr(thing, name, before))
        return undo
    for name, before in parts(thing).items():
        try:
            object.__setattr__(thing, name, HOSTILE[turn % len(HOSTILE)])
        except (AttributeError, TypeError):
            continue
        undo.append(lambda n=name, b=before: object.__setattr__(thing, n, b))
    return undo


def begun_again(thing):
    """Run the initialiser of a value once more, with other arguments."""
    fields = [f for f in attrs.fields(type(thing)) if f.init] if attrs.has(type(thing)) else []
    undo = [
        lambda n=name, b=before: object.__setattr__(thing, n, b)
        for name, before in parts(thing).items()
    ]
    for value in HOSTILE:
        for state in ({f.name: value for f in fields}, tuple(value for _ in fields)):
            with suppress(Exception):
                type(thing).__setstate__(thing, state)
        with suppress(Exception):
            type(thing).__init__(thing, *[value for _ in fields])
    return undo


def outcome(session):
    try:
        return asked(session)
    except DpsdkError as refusal:
        return type(refusal)
    except (TypeError, AttributeError, ValueError, KeyError) as wrong:
        # The client broke a value of its own process; nothing was told.
        return type(wrong)


SHARED = {"Categorical", "Date", "Domain", "Facts", "Integer", "Neighbors"}
"""What queries are written in is one for all; who breaks it gets refusals, and no other answer."""

# Slowly one kind of value after another is broken, and quickly some at a time: whatever one of them
# changes is noticed, and a failure leaves the search among them.
CASES = [(None, 0, 5)] + [
    pytest.param(composition, turn, 1, marks=pytest.mark.audit)
    for composition in COMPOSITIONS
    for turn in (*range(len(HOSTILE)), "again")
]


@pytest.mark.parametrize(("composition", "turn", "together"), CASES)
def test_nothing_that_a_client_holds_changes_a_price_or_a_draw(composition, turn, together):
    honest = asked(opened(composition))
    events = []
    session = opened(composition, events.append)
    things = walk(held(session, events))
    kinds = sorted({type(thing) for thing in things}, key=lambda kind: kind.__name__)
    assert len(things) > 100
    alone = [[kind] for kind in kinds if kind.__name__ in SHARED]
    others = [kind for kind in kinds if kind.__name__ not in SHARED]
    broken, changed = set(), []
    for some in [*alone, *(others[n : n + together] for n in range(0, len(others), together))]:
        undo, names = [], [kind.__name__ for kind in some]
        for thing in things:
            if type(thing) in some:
                undo += begun_again(thing) if turn == "again" else overwrite(thing, turn)
        try:
            after = outcome(opened(copy.copy(composition)))
        finally:
            for step in reversed(undo):
                step()
        if isinstance(after, type):
            broken.update(names)
        elif after != honest:
            changed.append(names)
    # All was undone, so that nothing was broken but what was meant.
    assert asked(opened(composition)) == honest
    assert not changed
    assert broken <= SHARED
