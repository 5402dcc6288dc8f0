"""Many rectangles as two arrays: the same question as the conjunctions that they are."""

import itertools

import numpy as np
import pytest

import dpsdk.mechanisms.pmw.strategy as module
from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.accounting import ZCDPComposition
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError, TooLarge, UnknownAttribute
from dpsdk.forms import Boxes, GapForm, LinearForm, sensitivity
from dpsdk.kernel import Kernel, Watching
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    NoisyHistogram,
    OfflinePMW,
    OnlinePMW,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    Tree,
)
from dpsdk.queries import Above, Conjunction, Count, Not, Rectangles, Threshold, Workload
from dpsdk.queries.conjunction import masked
from dpsdk.testing import seeded
from worlds import PEOPLE, facts, inside, people, quiet, table

QUIET = Laplace(epsilon=10**7)

NAMES = ("hours", "age", "sex")
"""Not in the order of the domain."""


def codes(seed=0, count=9, names=NAMES, domain=PEOPLE):
    rng = np.random.default_rng(seed)
    sizes = [domain[name].size for name in names]
    ends = rng.integers(0, sizes, (2, count, len(names)))
    return ends.min(axis=0), ends.max(axis=0)


def conjunctions(names, lower, upper, *, where=None, normalized=True, domain=PEOPLE):
    """The same, an object each: conditions on labels."""
    for low, high in zip(lower, upper, strict=True):
        conditions = {}
        for name, first, last in zip(names, low, high, strict=True):
            labels = [domain[name].label(code) for code in range(first, last + 1)]
            conditions[name] = set(labels)
        if where is None:
            yield Conjunction(conditions, normalized=normalized)
        else:
            yield Both(Conjunction(conditions), Conjunction(where), normalized)


class Both(Conjunction):
    """Two conjunctions that may name the same attribute, for reference."""

    def __init__(self, one, other, normalized):
        super().__init__(dict(one.conditions), normalized=normalized)
        object.__setattr__(self, "_both", (one, other))

    def lower(self, domain):
        one, other = self._both
        return Count(where=one).lower(domain) if other is None else masked_form(one, other, domain)


def masked_form(one, other, domain):
    return LinearForm(domain, [masked(one.factors(domain), other, domain)])


WHERES = {
    "all": None,
    "a range of another attribute": {"member": True},
    "a range of its own": {"age": range(18, 22)},
    "a set of its own": {"age": {17, 20, 24}, "member": False},
    "a bin": {"hours": (10, 20)},
    "a complement": {"age": Not({18, 19, 22}), "sex": "Male"},
    "nothing": {"age": Not(range(17, 25))},
}


@pytest.mark.thorough(quick=9)
@pytest.mark.parametrize("where", WHERES.values(), ids=WHERES)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_rectangles_are_the_conjunctions_of_their_ranges(where, neighbors):
    lower, upper = codes()
    rows = people(60, seed=3)
    data = table(rows, neighbors)
    asked = Rectangles(NAMES, lower, upper, where=where, normalized=False)
    same = Workload(conjunctions(NAMES, lower, upper, where=where, normalized=False))
    form, other = asked.lower(PEOPLE), same.lower(PEOPLE)
    assert form.identity == other.identity
    assert list(form.row_identities()) == list(other.row_identities())
    assert sensitivity(form, data.facts) == sensitivity(other, data.facts)
    session = quiet(data)
    answers = session.answer(asked, using=QUIET)
    assert answers.tolist() == session.answer(same, using=QUIET).values.tolist()
    assert answers.tolist() == by_hand(rows, NAMES, lower, upper, where)


def by_hand(rows, names, lower, upper, where):
    """Counted row by row."""
    kept = [row for row in rows if inside(row) and meets(row, where)]
    return [
        float(
            sum(
                all(
                    low <= code_of(row, name) <= high
                    for name, low, high in zip(names, lows, highs, strict=True)
                )
                for row in kept
            )
        )
        for lows, highs in zip(lower, upper, strict=True)
    ]


def code_of(row, name):
    if name == "hours":
        return 0 if row["hours"] < 10 else 1 if row["hours"] < 20 else 2
    return {"age": row["age"] - 17, "sex": row["sex"] == "Male", "member": row["member"]}[name]


def meets(row, where):
    return all(code_of(row, name) in wanted(name, value) for name, value in (where or {}).items())


def wanted(name, value):
    attribute = PEOPLE[name]
    labels = [attribute.label(code) for code in range(attribute.size)]
    if isinstance(value, Not):
        return set(range(attribute.size)) - wanted(name, value.value)
    if isinstance(value, range | set | frozenset):
        return {code for code, label in enumerate(labels) if label in value}
    return {code for code, label in enumerate(labels) if label == value}


@pytest.mark.parametrize("using", [Laplace(1), Gaussian(rho="0.1")])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("unit_rows", [1, 3])
def test_noise_cost_and_bounds_are_those_of_the_conjunctions(using, neighbors, unit_rows):
    lower, upper = codes(seed=4)
    more = {"unit_rows": unit_rows}
    if neighbors is Neighbors.ADD_REMOVE:
        more["max_rows"] = 100
    data = table(people(60, seed=3), neighbors, **more)
    shares = neighbors is Neighbors.REPLACE_ONE
    asked = Rectangles(NAMES, lower, upper, normalized=shares)
    same = Workload(conjunctions(NAMES, lower, upper, normalized=shares))
    found = []
    for query in (asked, same):
        session = Session(data, Budget(100, "1e-6"), noise=seeded(5))
        quote = session.quote(query, using=using)
        release = session.release(query, using=using)
        values = getattr(release.value, "values", release.value)
        errors = release.errors(0.05)
        found.append((values.tolist(), str(quote), str(release.cost), errors.tolist()))
    assert found[0] == found[1]


def test_an_answer_has_an_interval_of_arrays():
    lower, upper = codes()
    session = Session(table(people(60, seed=3)), Budget(10), noise=seeded(5))
    release = session.release(Rectangles(NAMES, lower, upper), using=Laplace(1))
    low, high = release.interval(0.05)
    assert low.shape == high.shape == release.value.shape == (9,)
    assert (low < release.value).all()
    assert (release.value < high).all()
    with pytest.raises(ValueError, match="read-only"):
        release.value[0] = 0.5


ONE = ("age",)

PAIR = {"epsilon": 1, "delta": "1e-6"}
FIVE = {"updates": 5, "threshold": 0.01}
CHANNELS = {
    "planner": (NAMES, lambda q: ResidualPlanner(q, rho="0.1")),
    "planner of possible tables": (NAMES, lambda q: ResidualPlanner(q, rho=1, nonnegative=True)),
    "planner of the largest": (NAMES, lambda q: ResidualPlanner(q, objective="max", **PAIR)),
    "histogram": (NAMES, lambda q: NoisyHistogram(epsilon=1)),
    "histogram, consistent": (NAMES, lambda q: NoisyHistogram(epsilon=1, consistent=True)),
    "tree": (ONE, lambda q: Tree("age", epsilon=1)),
    "square root": (ONE, lambda q: SquareRoot("age", epsilon=1, delta="1e-6")),
    "small database": (ONE, lambda q: SmallDB(q, epsilon=1, size=3)),
    "small database of boxes": (("member", "sex"), lambda q: SmallDB(q, epsilon=1, size=2)),
    "MWEM": (NAMES, lambda q: MWEM(q, epsilon=1, rounds=3)),
    "MWEM, printed": (NAMES, lambda q: MWEM.textbook(q, 1, rounds=3)),
    "MWEM, averaged": (NAMES, lambda q: MWEM.averaged(q, 1, "1e-6", rounds=3)),
    "offline": (NAMES, lambda q: OfflinePMW(q, epsilon=1)),
    "offline, concentrated": (NAMES, lambda q: OfflinePMW(q, rho="0.1")),
    "offline, approximate": (NAMES, lambda q: OfflinePMW(q, epsilon=1, delta="1e-6")),
    "online from pairs": (NAMES, lambda q: OnlinePMW(2, "1e-6", start="pairs", **FIVE)),
    "stream of any one": (ONE, lambda q: OnlinePMW(20, start="uniform", **FIVE)),
    "online": (NAMES, lambda q: OnlinePMW(20, **FIVE)),
}


@pytest.mark.thorough(quick=4)
@pytest.mark.parametrize("where", [None, {"age": {17, 20, 24}}], ids=["all", "a set"])
@pytest.mark.parametrize("name", CHANNELS)
def test_every_channel_answers_them_as_it_answers_the_conjunctions(name, where):
    names, build = CHANNELS[name]
    lower, upper = codes(seed=6, names=names)
    data = table(people(60, seed=3))
    asked = Rectangles(names, lower, upper, where=where)
    same = Workload(conjunctions(names, lower, upper, where=where))
    found = []
    for query in (asked, same):
        session = Session(data, Budget(100, "1e-3"), composition=ZCDPComposition(), noise=seeded(5))
        quote = str(session.quote(query, using=build(query)))
        with session.open(build(query)) as channel:
            release = channel.release(query)
        values = getattr(release.value, "values", release.value)
        bounds = None if release._measurement.accuracy.standing == "none" else release.errors(0.1)
        found.append((values, bounds, session.spent.charges, str(session.spent), quote))
    (values, bounds, *spent), (others, others_bounds, *others_spent) = found
    np.testing.assert_allclose(values, others, rtol=1e-9, atol=1e-12)
    if bounds is not None:
        np.testing.assert_allclose(bounds, others_bounds, rtol=1e-9)
    assert spent == others_spent


def test_a_stream_of_them_learns_in_parts(monkeypatch):
    monkeypatch.setattr(module, "_PART", 4)
    lower, upper = codes(seed=6, count=23)
    found = []
    for query in (Rectangles(NAMES, lower, upper), Workload(conjunctions(NAMES, lower, upper))):
        session = Session(
            table(people(60, seed=3)), Budget(100, "1e-3"), composition=ZCDPComposition(),
            noise=seeded(5),
        )  # fmt: skip
        with session.open(OnlinePMW(50, updates=6, threshold=0.01)) as channel:
            answers = channel.answer(query)
        found.append((getattr(answers, "values", answers), session.spent.charges))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9, atol=1e-12)
    assert found[0][1] == found[1][1] > 3


@pytest.mark.thorough
def test_a_piecewise_hypothesis_takes_intervals_of_a_huge_attribute():
    domain = Domain(Integer("x", 0, 2**30 - 1))
    values = np.random.default_rng(1).integers(0, 2**30, 500).tolist()
    data = PrivateData.from_columns({"x": values}, domain)
    starts = np.arange(40) * 2**24
    asked = Rectangles("x", starts, starts + 2**26, normalized=False)
    for query in (asked, Rectangles("x", starts[:1], starts[:1] + 2**26, normalized=False)):
        session = Session(data, Budget(10**6), noise=seeded(2))
        with session.open(OnlinePMW(10**5, updates=50, threshold=0.001)) as channel:
            answers = channel.answer(query)
        truth = [sum(s <= v <= s + 2**26 for v in values) for s in starts[: len(answers)].tolist()]
        assert np.abs(answers - truth).max() <= 2
    hollow = Rectangles("x", starts, starts + 2**26, where={"x": {1, 3}})
    with session.open(OnlinePMW(1, updates=5)) as channel, pytest.raises((QueryError, TooLarge)):
        channel.answer(hollow)


def test_a_watch_compares_gaps_of_boxes():
    data = table(people(60, seed=3))
    lower, upper = codes(seed=7)
    form = Rectangles(NAMES, lower, upper).lower(PEOPLE)
    gap = GapForm.around(form, np.zeros(form.rows))
    same = Workload(conjunctions(NAMES, lower, upper)).lower(PEOPLE)
    assert gap.identity == GapForm.around(same, np.zeros(form.rows)).identity
    session = Session(data, Budget(10**6), noise=seeded(2))
    kernel = kernel_of(session)
    watch = kernel.watch(Watching(10**4, 10**4))
    truth = by_hand(people(60, seed=3), NAMES, lower, upper, None)
    top = watch.first_above(gap, max(truth) - 0.5)
    assert top.place == truth.index(max(truth))


def kernel_of(session):
    context = session._context
    return Kernel.over(context.access("test").on(context.history.ask("", "test", context.lifetime)))


@pytest.mark.parametrize(
    "kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", "<u2", "list", "tuple", "F"]
)
def test_codes_of_any_integer_type_are_the_same(kind):
    lower, upper = codes()
    plain = Rectangles(NAMES, lower, upper)
    if kind in ("list", "tuple"):
        made = [array.tolist() for array in (lower, upper)]
        made = [tuple(map(tuple, rows)) for rows in made] if kind == "tuple" else made
    elif kind == "F":
        made = [np.asfortranarray(array)[::1] for array in (lower, upper)]
    else:
        made = [array.astype(kind) for array in (lower, upper)]
    other = Rectangles(list(NAMES), lower=made[0], upper=made[1])
    assert other == plain
    assert hash(other) == hash(plain)
    assert other.lower(PEOPLE).identity == plain.lower(PEOPLE).identity
    assert other.low.dtype == other.high.dtype == np.int64


def test_one_attribute_may_have_flat_codes_and_a_name_alone():
    flat = Rectangles("age", [0, 3], [2, 7])
    assert flat == Rectangles(["age"], [[0], [3]], [[2], [7]])
    bounds = [Threshold("age", 19), Conjunction({"age": range(20, 25)})]
    assert flat.lower(PEOPLE).identity == Workload(bounds).lower(PEOPLE).identity


OF_TWO = np.array([[1, 1]])
LOWER = [
    [[0, True]], [["0", 0]], [[0, None]], [[0, 0, 0]], [[0, -1]], [[2**70, 0]], "codes", None, 7,
    np.zeros((1, 2, 1), dtype=int), np.array([[2**63, 0]], dtype=np.uint64),
    np.array([[0, 0]], dtype="m8[s]"), np.ma.masked_array([[0, 0]], mask=[[1, 0]]),
    np.array([[0, 0]], dtype=object),
]  # fmt: skip
BOTH = [
    (np.zeros((2, 2)), np.zeros((2, 2), dtype=int)),
    (np.zeros((2, 2), dtype=bool), np.ones((2, 2), dtype=int)),
    ([[0, 0], [1]], [[1, 1], [1, 1]]),
    ([], []),
    ([[]], [[]]),
    (np.empty((0, 2), dtype=int), np.empty((0, 2), dtype=int)),
    ([0, 0], [1, 1]),
    *((lower, OF_TWO) for lower in LOWER),
]
UPPER = [
    ([[0, 0]], [[1.0, 1]]),
    ([[0, 0]], [[1, np.True_]]),
    ([[0, 0]], [[1, 1], [1, 1]]),
    ([[0, 0], [2, 2]], [[1, 1], [2, 1]]),
]


@pytest.mark.parametrize(
    ("lower", "upper", "named"),
    [(*pair, "lower") for pair in BOTH] + [(*pair, "upper") for pair in UPPER],
)
def test_codes_that_are_none_are_refused_by_name(lower, upper, named):
    with pytest.raises(InvalidArgument) as caught:
        Rectangles(("age", "sex"), lower, upper)
    assert caught.value.parameter == named


def test_a_refusal_names_the_row_and_the_attribute():
    lower, upper = codes()
    lower[4, 1], upper[4, 1] = 3, 2
    with pytest.raises(InvalidArgument, match=r"3 for 'age' in row 4; got 2"):
        Rectangles(NAMES, lower, upper)
    lower, upper = codes()
    upper[5, 0] = 3
    with pytest.raises(QueryError, match=r"row 5 goes up to code 3 of 'hours', whose codes are 0"):
        Rectangles(NAMES, lower, upper).lower(PEOPLE)
    lower[2, 2] = -1
    with pytest.raises(InvalidArgument, match="-1 in row 2"):
        Rectangles(NAMES, lower, upper)


@pytest.mark.parametrize("names", [(), ("age", "age"), (1, 2), None, ("age", ""), [["age", "sex"]]])
def test_names_that_are_none_are_refused(names):
    with pytest.raises(InvalidArgument):
        Rectangles(names, [[0, 0]], [[1, 1]])


def test_nothing_is_paid_for_what_cannot_be_asked():
    session = quiet(table(people(20, seed=1), Neighbors.ADD_REMOVE))
    with pytest.raises(PublicSizeRequired):
        session.answer(Rectangles("age", [0], [1]), using=QUIET)
    for query, kind in [
        (Rectangles("height", [0], [1], normalized=False), UnknownAttribute),
        (Rectangles("age", [0], [8], normalized=False), QueryError),
    ]:
        with pytest.raises(kind):
            session.answer(query, using=QUIET)
    assert not session.spent.charges


def test_more_than_a_form_may_ask_are_refused_at_once():
    many = np.broadcast_to(np.int8(0), (2**24 + 1, 1))
    with pytest.raises(TooLarge):
        Rectangles("age", many, many)


def test_they_go_into_workloads_with_other_queries():
    lower, upper = codes()
    rows = people(60, seed=3)
    session = quiet(table(rows))
    asked = Workload([Count(), Rectangles(NAMES, lower, upper, normalized=False), Count()])
    first, many, last = session.answer(asked, using=QUIET)
    assert many.tolist() == by_hand(rows, NAMES, lower, upper, None)
    assert first == last == pytest.approx(sum(map(inside, rows)) / 60)
    release = session.release(asked, using=QUIET)
    assert release.errors(0.05).shape == (11,)
    assert release.value.values.shape == (11,)
    with pytest.raises(TooLarge):
        Workload([Vast(NAMES, lower, upper)] * 9).lower(PEOPLE)


class Vast(Rectangles):
    """As many as there may be, for the footprint alone."""

    def footprint(self, domain):
        return super().footprint(domain) // len(self.low) * 2**24


def test_they_ask_for_no_level():
    with pytest.raises(InvalidArgument):
        Above(Rectangles("age", [0], [1]), 0.5)


def test_a_table_beyond_cells_is_read_by_its_records():
    domain = Domain(*(Integer(f"a{i}", 0, 9) for i in range(8)))
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 10, (200, 8))
    names = domain.names
    data = PrivateData.from_columns({n: rows[:, i].tolist() for i, n in enumerate(names)}, domain)
    lower, upper = codes(seed=1, names=names, domain=domain)
    session = quiet(data)
    found = session.answer(
        Rectangles(names, lower, upper, where={"a0": {1, 2, 8}}, normalized=False), using=QUIET
    )
    kept = np.isin(rows[:, 0], [1, 2, 8])
    within = (rows[None] >= lower[:, None]) & (rows[None] <= upper[:, None])
    assert found.tolist() == (within.all(axis=2) & kept).sum(axis=1).tolist()


def test_no_object_stands_for_a_rectangle():
    lower, upper = codes(count=500)
    form = Rectangles(NAMES, lower, upper, where={"age": {17, 20, 24}}).lower(PEOPLE)
    ((block, _),) = form.groups
    assert form.blocks == (block,)
    assert type(block) is Boxes
    assert block.rows == 500
    # An attribute on which no rectangle says anything is none of the form's.
    lower[:, 0], upper[:, 0] = 0, 2
    assert Rectangles(NAMES, lower, upper).lower(PEOPLE).names == ("age", "sex")
    everything = Rectangles(("sex", "member"), [[0, 0]], [[1, 1]]).lower(PEOPLE)
    assert everything.identity == Count().lower(PEOPLE).identity


OF_BOTH = Rectangles(["age", "sex"], [[0, 0]], [[1, 1]], where={"sex": "Male"}, normalized=False)
GIVEN = "where=Conjunction({'sex': 'Male'}), normalized=False"
WRITTEN = {
    Rectangles("age", [0, 3], [2, 7]): "(('age',), arrays of shape (2, 1))",
    OF_BOTH: f"(('age', 'sex'), arrays of shape (1, 2), {GIVEN})",
}


@pytest.mark.parametrize(("query", "text"), WRITTEN.items())
def test_what_they_call_themselves(query, text):
    assert repr(query) == str(query) == f"Rectangles{text}"


def test_codes_are_places_of_labels():
    domain = Domain(
        Integer("age", 17, 24),
        Binned("hours", [0, 10, 20, 40]),
        Boolean("member"),
        Categorical("sex", ["Female", "Male"]),
    )
    for attribute, label in [
        ("age", 20), ("hours", (10, 20)), ("member", True), ("sex", "Male")
    ]:  # fmt: skip
        code = domain[attribute].index(label)
        one = Rectangles(attribute, [code], [code]).lower(domain)
        assert one.identity == Conjunction({attribute: label}).lower(domain).identity


def test_facts_of_both_relations_price_alike_however_written():
    lower, upper = codes(count=40)
    form = Rectangles(NAMES, lower, upper).lower(PEOPLE)
    for neighbors, outside in itertools.product(Neighbors, [True, False]):
        of = facts(PEOPLE, neighbors, outside=outside)
        assert sensitivity(form, of) == sensitivity(form.apart(), of)
