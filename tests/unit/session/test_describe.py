"""A first look at a table that nobody has described: what it tells, and that it costs once."""

import numpy as np
import pytest

from dpsdk import MISSING, Budget, Discovery, Marginal, Neighbors, PrivateData, Session, Undeclared
from dpsdk.accounting import MemoryLedger
from dpsdk.errors import BudgetExceeded, InvalidArgument
from dpsdk.mechanisms import Gaussian
from dpsdk.testing import seeded

RNG = np.random.default_rng(5)
ROWS = 6000
COLUMNS = {
    "age": np.where(RNG.random(ROWS) < 0.1, "", RNG.integers(17, 90, ROWS).astype(str)).tolist(),
    "sex": RNG.choice(["F", "M"], ROWS).tolist(),
    "paid": [f"{value:.2f}" for value in RNG.lognormal(3, 1, ROWS)],
    "day": [
        f"{2021 + int(year)}-{1 + int(month):02}-{1 + int(day):02}"
        for year, month, day in RNG.integers(0, (4, 12, 28), (ROWS, 3))
    ],
    "id": [f"person {place}" for place in range(ROWS)],
    "code": RNG.choice(["1", "2", "10"], ROWS).tolist(),
}


def look(columns=None, budget=None, unit=None, **given):
    raw = Undeclared.from_columns(columns or COLUMNS, unit=unit, name="visits")
    with Discovery(raw, budget or Budget(4, 1e-6), noise=seeded(3)) as discovery:
        return discovery.describe(**given or {"epsilon": 1, "delta": 1e-6}), discovery


def test_each_column_is_told_by_its_kind():
    found, _ = look()
    kinds = {one.name: one.kind for one in found.columns}
    assert kinds == {
        "age": "number", "sex": "labels", "paid": "number", "day": "date", "id": "unknown",
        "code": "labels",
    }  # fmt: skip
    domain = found.domain
    assert domain["age"].bounds == (0.0, 100.0)
    assert domain["age"].exact
    assert not domain["paid"].exact
    assert domain["sex"].labels[:2] == ("F", "M")
    assert domain["code"].labels[:3] == ("1", "2", "10")
    assert domain["day"].text(0) == "2021-01-01"
    assert float(domain["paid"].step) == 0.001
    assert found.unknown == ("id",)
    assert "id" not in domain
    missing = {one.name: one.missing for one in found.columns}
    assert missing["age"] == pytest.approx(0.1, abs=0.02)
    assert all(one.missing <= one.radius for one in found.columns if one.name != "age")
    assert not any("person" in text for text in (str(found), repr(found), found._repr_html_()))


def test_the_domain_loads_the_table_and_the_ledger_goes_on():
    ledger, budget = MemoryLedger(), Budget(4, 1e-6)
    raw = Undeclared.from_columns(COLUMNS, unit=None, name="visits")
    with Discovery(raw, budget, ledger=ledger) as discovery:
        estimate = discovery.quote_describe(epsilon=1, delta=1e-6)
        assert not discovery.spent.charges
        found = discovery.describe(epsilon=1, delta=1e-6)
        assert found.cost == estimate.cost
        assert discovery.spent.charges == 2
    data = PrivateData.from_columns(COLUMNS, found.domain, name="visits")
    assert not data.facts.outside
    with Session(data, budget, ledger=ledger) as session:
        assert session.spent.charges == 2
        table = session.answer(Marginal("sex", normalized=False), using=Gaussian(rho="0.1"))
    assert table.values.sum() == pytest.approx(ROWS, abs=60)
    assert table[MISSING] < 20


def test_persons_count_once_each():
    columns = {"who": [f"p{place % 1500}" for place in range(ROWS)], "sex": COLUMNS["sex"]}
    found, discovery = look(columns, unit="who")
    assert [one.name for one in found.columns] == ["sex"]
    assert found.rows == pytest.approx(1500, abs=100)
    assert found.person == "who"
    assert "of the persons" in str(found)
    assert "rows" not in str(found)
    assert discovery.facts.neighbors is Neighbors.ADD_REMOVE


def test_fewer_columns_show_more():
    raw = Undeclared.from_columns(COLUMNS, unit=None, name="visits")
    with Discovery(raw, Budget(4, 1e-6)) as discovery:
        every = discovery.quote_describe(epsilon="0.1", delta=1e-6)
        one = discovery.quote_describe(epsilon="0.1", delta=1e-6, columns=["sex"])
    assert one.passing < every.passing


def test_a_step_that_is_given_is_kept():
    found, _ = look(epsilon=1, delta=1e-6, steps={"paid": "0.01", "code": 1})
    assert float(found.domain["paid"].step) == 0.01
    assert found.domain["code"].kind == "number"


def test_what_stays_unknown_says_what_it_would_take():
    found, _ = look(epsilon="0.01", delta=1e-6)
    assert set(found.unknown) == set(COLUMNS)
    assert all(one.more > 10 for one in found.columns)
    assert "times the epsilon" in str(found)
    with pytest.raises(InvalidArgument, match="columns"):
        _ = found.domain


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"epsilon": 1, "delta": 1e-6, "columns": ["nobody"]}, "column"),
        ({"epsilon": 1, "delta": 1e-6, "columns": "sex"}, "columns"),
        ({"epsilon": 1, "delta": 1e-6, "columns": []}, "columns"),
        ({"epsilon": 1, "delta": 1e-6, "columns": ["sex", "sex"]}, "columns"),
        ({"epsilon": 1, "delta": 1e-6, "steps": {"nobody": 1}}, "steps"),
        ({"epsilon": 1, "delta": 1e-6, "steps": {"paid": 0}}, "steps"),
        ({"delta": 1e-6}, "rho"),
        ({"epsilon": 0, "delta": 1e-6}, "epsilon"),
    ],
)
def test_bad_input_costs_nothing(given, parameter):
    raw = Undeclared.from_columns(COLUMNS, unit=None, name="visits")
    with Discovery(raw, Budget(4, 1e-6)) as discovery:
        with pytest.raises(InvalidArgument) as caught:
            discovery.describe(**given)
        assert caught.value.parameter == parameter
        assert not discovery.spent.charges


def test_columns_that_no_domain_could_hold_together_cost_nothing():
    raw = Undeclared.from_columns({"a": ["x"] * 50, "a ": ["x"] * 50}, unit=None)
    with Discovery(raw, Budget(4, 1e-6)) as discovery:
        with pytest.raises(InvalidArgument, match="look different"):
            discovery.describe(epsilon=1, delta=1e-6)
        assert not discovery.spent.charges
        discovery.describe(epsilon=1, delta=1e-6, columns=["a"])


def test_a_look_that_does_not_fit_costs_nothing():
    raw = Undeclared.from_columns(COLUMNS, unit=None, name="visits")
    with Discovery(raw, Budget("0.1", 1e-6)) as discovery:
        with pytest.raises(BudgetExceeded):
            discovery.describe(epsilon=1, delta=1e-6)
        assert not discovery.spent.charges


@pytest.mark.parametrize(
    "values",
    [
        ["7"] * 500, [""] * 500, ["\ud800"] * 500, ["x" * 300] * 500, [b"\x00\xff"] * 500,
        [[1, 2]] * 500, [1e300] * 500, [float("nan")] * 500, [f"{n}" for n in range(500)],
        ["9999-99-99"] * 500, ["2024-02-30"] * 500, ["1e999999999"] * 500,
    ],
    ids=repr,
)  # fmt: skip
def test_odd_columns_are_described_and_fail_nothing(values):
    found, _ = look({"odd": values})
    assert len(found.columns) == 1
    assert str(found)
