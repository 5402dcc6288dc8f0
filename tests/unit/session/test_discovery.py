"""Discoveries: what they find, what they charge, and what they never tell."""

import threading
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import (
    Budget,
    Discovery,
    Domain,
    Neighbors,
    PrivacyUnit,
    PrivateData,
    Session,
    SQLiteLedger,
    Undeclared,
)
from dpsdk.accounting import (
    ApproximateGuarantee,
    BasicComposition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    MemoryLedger,
)
from dpsdk.data.cells import ListedCells
from dpsdk.data.vault import open_rows
from dpsdk.errors import (
    BudgetExceeded,
    Closed,
    InvalidArgument,
    LedgerConflict,
    NoBound,
    NoBounds,
    ReleaseFailed,
)
from dpsdk.kernel import Discover, DiscoverPricing, GaussianNoise, Search
from dpsdk.mechanisms import Laplace
from dpsdk.noise import SystemNoise
from dpsdk.queries import Count
from dpsdk.testing import seeded

BUDGET = Budget(1, "1e-6")
FLIGHTS = {
    "dest": ["ORD"] * 500 + ["ATL"] * 400 + ["XNA"] * 2 + [None] * 98,
    "delay": [-10, 20, 30, 45] * 250,
}


def flights(**options):
    return Undeclared.from_columns(FLIGHTS, **{"unit": None, "name": "flights", **options})


def visits(people=600, rows=3, **options):
    """Each person has so many rows and as many keys, of which all share the first two."""
    who = [f"p{person}" for person in range(people) for _ in range(rows)]
    key = [
        f"k{row}" if row < 2 else f"own {person}" for person in range(people) for row in range(rows)
    ]
    return Undeclared.from_columns({"who": who, "key": key}, unit="who", name="visits", **options)


@pytest.fixture
def discovery():
    with Discovery(flights(), BUDGET, noise=seeded(3)) as made:
        yield made


def test_frequent_keys_are_found_and_rare_ones_are_not(discovery):
    found = discovery.keys("dest", rho="0.02")
    assert found.labels == ("ATL", "ORD")
    assert found.counts == pytest.approx([400, 500], abs=60)
    assert found.covered == pytest.approx(0.9, abs=0.1)
    assert 20 < found.passing < 60
    attribute = found.categorical()
    assert attribute.values == ("ATL", "ORD")
    assert attribute.size == attribute.known + 2
    domain = Domain(attribute)
    data = PrivateData.from_columns({"dest": FLIGHTS["dest"]}, domain, name="flights")
    assert data.facts.domain == domain
    with pytest.raises(NoBound, match="shown because"):
        found.error()
    assert found.to_frame("pandas")["dest"].tolist() == ["ATL", "ORD"]


def test_what_is_charged_is_a_gaussian_and_a_leak():
    ledger = MemoryLedger()
    with Discovery(flights(), BUDGET, ledger=ledger) as discovery:
        assert discovery.default_leak() == Fraction(1, 10**9)
        quote = discovery.quote_keys("dest", rho="0.001", rounds=1)
        found = discovery.keys("dest", rho="0.001", rounds=1)
        assert found.cost == quote.cost
        gaussian, leak = [charge.guarantee for charge in ledger.charges()]
        assert isinstance(gaussian, DiscreteGaussianGuarantee)
        assert gaussian.rho == Fraction(1, 1000)
        assert leak == ApproximateGuarantee(0, "1e-9")
        assert discovery.default_leak() == Fraction(1, 2 * 10**9)
        (receipt,) = discovery.history
        assert (receipt.query, receipt.mechanism) == ("the keys of 'dest'", "discover")
        assert receipt.answered
        # Listed keys and bounds leak nothing.
        discovery.keys("dest", epsilon="0.01", among=["ORD", "JFK"])
        assert isinstance(ledger.charges()[-1].guarantee, DiscreteLaplaceGuarantee)
        assert len(ledger.charges()) == 3


def test_rounds_are_paid_together_and_look_for_what_is_left(discovery):
    found = discovery.keys("dest", rho="0.02", rounds=3)
    assert found.labels == ("ATL", "ORD")
    first, second, third = [
        run for run, _ in found.cost.runs if isinstance(run, DiscreteGaussianGuarantee)
    ]
    assert [one.rho * 13 / Fraction("0.02") for one in (first, second, third)] == [1, 3, 9]
    assert sum(
        run.delta for run, _ in found.cost.runs if isinstance(run, ApproximateGuarantee)
    ) == Fraction(1, 10**9)
    assert len(discovery.history) == 1
    with Discovery(flights(), Budget(1, "1e-6"), noise=seeded(3)) as other:
        assert other.keys("dest", rho="0.001").cost.runs[0][0].rho == Fraction(1, 1000)


def test_listed_keys_are_all_counted(discovery):
    found = discovery.keys("dest", epsilon=1, among=["ORD", "JFK", "ATL"])
    assert found.labels == ("ATL", "JFK", "ORD")
    assert np.abs(found.counts - [400, 0, 500]).max() <= found.error(1e-6)
    with pytest.raises(InvalidArgument, match="leak"):
        discovery.keys("dest", epsilon=1, among=["ORD"], leak="1e-9")


def test_of_keys_that_look_alike_the_largest_is_a_label():
    columns = {"v": ["a b"] * 300 + ["a  b"] * 600 + ["\u00e9"] * 300}
    raw = Undeclared.from_columns(columns, unit=None)
    with Discovery(raw, BUDGET, noise=seeded(1)) as discovery:
        found = discovery.keys("v", rho="0.02")
        assert found.labels == ("a  b", "a b", "\u00e9")
        assert found.categorical().values == ("a  b", "\u00e9")


def test_keys_called_as_the_cells_of_other_values_are_no_labels():
    columns = {"v": ["(other)"] * 300 + [" (missing)"] * 300 + ["a"] * 300, "w": ["(other)"] * 900}
    raw = Undeclared.from_columns(columns, unit=None)
    with Discovery(raw, BUDGET, noise=seeded(1)) as discovery:
        found = discovery.keys("v", rho="0.01")
        assert len(found.labels) == 3
        assert found.categorical().values == ("a",)
        described = discovery.describe(rho="0.01")
        assert [one.kind for one in described.columns] == ["labels", "unknown"]


def test_persons_count_once_for_each_of_their_keys():
    with Discovery(visits(), BUDGET, noise=seeded(2)) as discovery:
        found = discovery.keys("key", rho="0.02", width=3)
        assert found.labels == ("k0", "k1")
        # Three keys of each person share a weight of one.
        assert found.counts == pytest.approx([600 / 3**0.5] * 2, rel=0.2)
        assert found.covered is None
        with pytest.raises(InvalidArgument, match="identifiers are not shown"):
            discovery.keys("who", rho="0.01")


def test_the_rows_that_are_kept_are_a_persons_own_affair():
    """Taking one person out changes the sums of no key by more than that person's weights."""
    generator = np.random.default_rng(5)
    rows = [(f"p{person}", f"k{key}") for person in range(9) for key in generator.integers(0, 6, 8)]
    request = Discover([Search("key", keys=True)], GaussianNoise(1), "1e-3", width=2)
    for shuffle in range(3):
        generator.shuffle(rows)
        sums = {}
        for gone in [None, *range(9)]:
            left = [row for row in rows if row[0] != f"p{gone}"]
            columns = {"who": [who for who, _ in left], "key": [key for _, key in left]}
            raw = Undeclared.from_columns(columns, unit="who")
            pricing = request.price(raw.facts)
            _, column, weights = pricing.weigh(open_rows(raw), request.searches[0])
            sums[gone] = dict(zip(column.keys, weights.tolist(), strict=True))
        whole = {key: value for key, value in sums[None].items() if value}
        if shuffle == 0:
            first = whole
        assert whole == first  # whatever the order of the rows
        for gone in range(9):
            moved = [whole.get(key, 0) - sums[gone].get(key, 0) for key in {*whole, *sums[gone]}]
            assert min(moved) >= 0
            assert sum(weight**2 for weight in moved) <= pricing.weights[0] ** 2
            assert sum(weight > 0 for weight in moved) <= 2


def test_bounds_are_edges_of_a_public_scale(discovery):
    found = discovery.bounds("delay", epsilon="0.5")
    assert (found.low, found.high) == (-20, 50)
    assert found.covered == pytest.approx(1, abs=0.1)
    number = found.number(step=1)
    assert (number.low, number.high, number.step) == (-20, 50, 1)
    assert found.number("0.25").known == 281
    assert not number.exact
    assert found.number(exact=True).exact
    assert found.error() < 100
    assert isinstance(found.cost.runs[0][0], DiscreteLaplaceGuarantee)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0] * 900, (0, Fraction(1, 1000))),
        ([5] * 900, (5, 10)),
        ([-5] * 900, (-10, -5)),
        (["0.0004"] * 900, (0, Fraction(1, 1000))),
        (["1e3"] * 900 + [0] * 900, (0, 2000)),
        (["1,5"] * 900, None),
        (["x"] * 900, None),
        ([None] * 900, None),
        ([1e300] * 900, None),
        ([float("inf")] * 900, None),
    ],
    ids=lambda one: str(one)[:20],
)
def test_bounds_of_odd_columns(values, ends):
    raw = Undeclared.from_columns({"v": values}, unit=None)
    with Discovery(raw, BUDGET, noise=seeded(4)) as discovery:
        if ends is None:
            with pytest.raises(NoBounds, match="times the epsilon"):
                discovery.bounds("v", epsilon="0.2")
            assert discovery.history[0].answered
            return
        found = discovery.bounds("v", epsilon="0.2")
        assert (found.low, found.high) == ends
        assert found.number(1).known >= 2


def test_decimal_commas_are_read_as_the_table_writes_them():
    raw = Undeclared.from_columns({"v": ["1.234,5"] * 900}, unit=None, decimal=",", thousands=".")
    with Discovery(raw, BUDGET, noise=seeded(4)) as discovery:
        found = discovery.bounds("v", epsilon="0.2")
        assert (found.low, found.high) == (1000, 2000)


def test_rows_of_persons():
    with Discovery(visits(rows=4), BUDGET, noise=seeded(2)) as discovery:
        found = discovery.rows_per_person(epsilon="0.5")
        assert found.unit == PrivacyUnit("who", max_rows=5)
        assert found.counts[3] == pytest.approx(600, abs=30)
    with Discovery(flights(), BUDGET) as discovery:
        with pytest.raises(InvalidArgument, match="tells persons apart"):
            discovery.rows_per_person(epsilon="0.5")
        with pytest.raises(InvalidArgument, match="each row has one key"):
            discovery.keys("dest", rho="0.01", width=2)


def test_sessions_that_follow_go_on_with_the_ledger(quick_disk):
    path = quick_disk / "spend.db"
    raw = Undeclared.from_columns(
        {"who": ["p", "q"] * 300, "v": ["a"] * 600}, unit="who", name="t", strip=True
    )
    with Discovery(raw, BUDGET, ledger=SQLiteLedger(path)) as discovery:
        discovery.keys("v", epsilon="0.25", among=["a"])
    domain = Domain(found_attribute())
    columns = {"who": ["p", "q"], "v": ["a", "b"]}
    for most in (1, 7):
        unit = PrivacyUnit("who", max_rows=most)
        data = PrivateData.from_columns(columns, domain, name="t", unit=unit, strip=True)
        with Session(data, BUDGET, ledger=SQLiteLedger(path)) as session:
            session.answer(Count(normalized=False), using=Laplace("0.125"))
    assert session.spent.epsilon == Fraction(1, 2)
    assert session.history[0].query == "the listed keys of 'v'"
    unstripped = PrivateData.from_columns(columns, domain, name="t", unit=unit)
    with pytest.raises(LedgerConflict, match="strip"):
        Session(unstripped, BUDGET, ledger=SQLiteLedger(path))
    with pytest.raises(LedgerConflict):
        Discovery(flights(name="t"), BUDGET, ledger=SQLiteLedger(path))
    with pytest.raises(InvalidArgument, match="name"):
        Discovery(flights(name="data"), BUDGET, ledger=SQLiteLedger(quick_disk / "b.db"))
    with pytest.raises(InvalidArgument, match="noise"):
        Discovery(raw, BUDGET, ledger=SQLiteLedger(path), noise=seeded(1))


def found_attribute():
    raw = Undeclared.from_columns({"v": ["a"] * 900}, unit=None)
    with Discovery(raw, BUDGET, noise=seeded(1)) as discovery:
        return discovery.keys("v", rho="0.02").categorical()


REFUSED = [
    {"column": "nope", "rho": "0.01"},
    {"column": 3, "rho": "0.01"},
    {"column": "dest"},
    {"column": "dest", "rho": "0.01", "epsilon": 1},
    {"column": "dest", "delta": "1e-9"},
    {"column": "dest", "rho": 0},
    {"column": "dest", "rho": "0.01", "leak": 0},
    {"column": "dest", "rho": "0.01", "leak": "0.5"},
    {"column": "dest", "rho": "0.01", "leak": "1e-400"},
    {"column": "dest", "rho": "0.01", "rounds": 0},
    {"column": "dest", "rho": "0.01", "width": 0},
    {"column": "dest", "rho": "0.01", "among": []},
    {"column": "dest", "rho": "0.01", "among": "ORD"},
    {"column": "dest", "rho": "0.01", "among": ["a", "a"]},
    {"column": "dest", "rho": "0.01", "among": ["e\u0301", "\u00e9"]},
    {"column": "dest", "rho": "0.01", "among": [None]},
    {"column": "dest", "rho": "0.01", "among": ["a"], "known": ["b"]},
    {"column": "dest", "rho": "0.01", "known": "ORD"},
    {"column": "dest", "rho": "0.01", "known": [3]},
    {"column": "dest", "rho": "0.01", "known": 3},
]


@pytest.mark.parametrize("asked", REFUSED, ids=str)
def test_what_is_refused_costs_nothing(discovery, asked):
    with pytest.raises(InvalidArgument):
        discovery.keys(**asked)
    assert not discovery.history


def test_a_budget_refuses_both_guarantees_or_none():
    with Discovery(flights(), Budget(1)) as discovery:
        with pytest.raises(InvalidArgument, match="leak must be possible"):
            discovery.keys("dest", epsilon="0.1")
        assert not discovery.history
    with Discovery(flights(), BUDGET) as discovery:
        with pytest.raises(BudgetExceeded):
            discovery.keys("dest", rho="0.001", leak="3e-9")
        with pytest.raises(BudgetExceeded):
            discovery.keys("dest", rho=5)
        assert not discovery.history
        assert discovery.spent.epsilon == 0
    with Discovery(flights(), BUDGET, composition=BasicComposition()) as discovery:
        assert discovery.default_leak() == Fraction(1, 2 * 10**6)
        discovery.keys("dest", epsilon="0.9", delta="4e-7")
        assert discovery.default_leak() == Fraction("0.5e-7") / 1


def test_an_error_behind_the_wall_tells_nothing_and_stays_charged(discovery, monkeypatch):
    def fail(self, rows, search):
        raise ValueError(rows.columns["dest"].keys)

    monkeypatch.setattr(DiscoverPricing, "weigh", fail)
    with pytest.raises(ReleaseFailed) as caught:
        discovery.keys("dest", rho="0.001")
    assert "ORD" not in f"{caught.value!r} {caught.value.__cause__} {caught.value.__context__}"
    (receipt,) = discovery.history
    assert receipt.answered is False
    assert not receipt.cost.nothing


def test_an_interrupt_after_the_charge_keeps_it(monkeypatch):
    class Interrupted(SystemNoise):
        def draw(self, law, size):
            raise KeyboardInterrupt

    with Discovery(flights(), BUDGET, noise=Interrupted()) as discovery:
        with pytest.raises(KeyboardInterrupt):
            discovery.bounds("delay", epsilon="0.1")
        assert discovery.spent.epsilon == Fraction(1, 10)
        (receipt,) = discovery.history
        assert receipt.answered is False


def test_two_threads_spend_no_more_than_there_is():
    with Discovery(flights(), BUDGET) as discovery:
        outcomes = []

        def ask():
            for _ in range(10):
                try:
                    discovery.keys("dest", epsilon="0.125", among=["ORD"])
                    outcomes.append(True)
                except BudgetExceeded:
                    outcomes.append(False)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(outcomes) == 8
        assert discovery.spent.epsilon == 1


def test_after_closing_nothing_is_charged():
    discovery = Discovery(flights(), BUDGET, noise=seeded(1))
    discovery.close()
    with pytest.raises(Closed):
        discovery.keys("dest", rho="0.01")
    assert discovery.remaining.rho == 0
    assert "closed" in repr(discovery)
    assert "NOT PRIVATE" in repr(discovery)
    assert "closed" in discovery._repr_html_()


def test_a_column_of_identifiers_shows_none():
    ids = [f"secret {number}" for number in range(5000)]
    for neighbors in Neighbors:
        raw = Undeclared.from_columns({"v": ids}, unit=None, name="t", neighbors=neighbors)
        with Discovery(raw, BUDGET) as discovery:
            found = discovery.keys("v", rho="0.01")
            assert found.labels == ()
            with pytest.raises(InvalidArgument, match="at least one that was found"):
                found.categorical()
            told = f"{found} {found!r} {discovery!r} {discovery.history} {discovery._repr_html_()}"
            assert "secret" not in told


def test_searches_cost_what_was_quoted_and_quotes_cost_nothing():
    raw = Undeclared.from_columns(
        {"who": [f"p{place % 400}" for place in range(2_000)], "paid": [10, 30] * 1_000},
        unit="who",
    )
    with Discovery(raw, BUDGET, noise=seeded(5)) as discovery:
        bounds = discovery.quote_bounds("paid", rho="0.01")
        rows = discovery.quote_rows_per_person(epsilon="0.1")
        assert not discovery.spent.charges
        assert bounds.passing > 0
        assert discovery.bounds("paid", rho="0.01").cost == bounds.cost
        assert discovery.rows_per_person(epsilon="0.1").cost == rows.cost
        for call in (discovery.bounds, discovery.quote_bounds):
            with pytest.raises(InvalidArgument, match="column"):
                call("nobody", rho="0.01")


def test_cells_of_another_author_see_no_key(discovery):
    class Curious(ListedCells):
        def of(self, keys, texts):
            seen.extend(keys)
            return super().of(keys, texts)

    seen = []
    with pytest.raises(InvalidArgument, match="cells of dpsdk"):
        Search("dest", Curious(["ORD"]))
    assert not seen


def test_a_declared_label_that_no_row_has_is_not_shown():
    pandas = pytest.importorskip("pandas")
    held = pandas.Categorical(["a"] * 500, categories=["a", "ghost"])
    raw = Undeclared.from_frame(pandas.DataFrame({"v": held}), unit=None)

    class Loud(SystemNoise):
        def draw(self, law, size):
            return np.full(size, 2**40)

    with Discovery(raw, BUDGET, noise=Loud()) as discovery:
        assert discovery.keys("v", rho="0.01").labels == ("a",)
