"""Random domains, questions, tables and budgets, as plain data and as values of the package."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import dpsdk
from dpsdk import Domain, Neighbors, PrivateData, accounting
from dpsdk import queries as asked

Description = Any


def domain_of(r: random.Random) -> Description:
    found: list[Description] = []
    if r.random() < 0.85:
        low = r.choice([0, 17, -3])
        found.append(["Integer", "age", low, low + r.choice([1, 3, 9, 40, 73])])
    if r.random() < 0.7:
        labels = ["Female", "Male", "x", "y z"][: r.randint(2, 4)]
        found.append(["Categorical", "sex", labels, r.random() < 0.3])
    if r.random() < 0.5 or not found:
        found.append(["Binned", "hours", r.choice([[0, 10, 20, 40], [-1, 0.5, 1], [0, 1e3]])])
    if r.random() < 0.5:
        found.append(["Boolean", "member"])
    if r.random() < 0.25:
        found.append(["Date", "day", r.choice([6, 30])])
    return found


def domain(of: Description) -> Domain:
    made = []
    for kind, name, *rest in of:
        if kind == "Integer":
            made.append(dpsdk.Integer(name, *rest))
        elif kind == "Categorical":
            other = rest[0][-1] if rest[1] else None
            made.append(dpsdk.Categorical(name, rest[0], **({"other": other} if other else {})))
        elif kind == "Binned":
            made.append(dpsdk.Binned(name, rest[0]))
        elif kind == "Boolean":
            made.append(dpsdk.Boolean(name))
        else:
            made.append(dpsdk.Date(name, DAY, DAY + dt.timedelta(days=rest[0])))
    return Domain(*made)


DAY = dt.date(2024, 1, 1)


def place(r: random.Random, of: Description) -> Description:
    """Draw a place on an attribute with an order."""
    kind, _, *rest = of
    if kind == "Integer":
        return r.randint(rest[0], rest[1])
    if kind == "Binned":
        return r.choice(rest[0])
    return ["day", r.randint(0, rest[0])]


def as_place(value: Description) -> Any:
    return DAY + dt.timedelta(days=value[1]) if isinstance(value, list) else value


def cell(r: random.Random, of: Description) -> Description:
    """Draw a value that a row may have, now and then one outside."""
    kind, _, *rest = of
    if r.random() < 0.03:
        return None
    if kind == "Categorical":
        return r.choice(rest[0])
    if kind == "Boolean":
        return r.random() < 0.4
    if kind == "Binned":
        return r.uniform(rest[0][0], rest[0][-1])
    return place(r, of)


def where_of(r: random.Random, of: Description, but: str = "") -> Description:
    """Draw conditions, mostly none."""
    found: dict[str, Description] = {}
    for one in of:
        if one[1] == but or r.random() > 0.25:
            continue
        if one[0] == "Categorical":
            pick = r.choice(one[2])
            found[one[1]] = r.choice([pick, ["not", pick], ["set", r.sample(one[2], 2)]])
        elif one[0] == "Boolean":
            found[one[1]] = r.random() < 0.5
        elif one[0] == "Integer":
            low, high = sorted((place(r, one), place(r, one)))
            found[one[1]] = r.choice([low, ["range", low, high + 1], ["between", low, high]])
    return found


def condition(value: Description) -> Any:
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind == "not":
        return asked.Not(rest[0])
    if kind == "set":
        return set(rest[0])
    return range(*rest) if kind == "range" else asked.Between(*rest)


def where(of: Description) -> Any:
    return {name: condition(value) for name, value in of.items()} or None


def query_of(r: random.Random, of: Description) -> Description:
    """Draw a question about a domain."""
    ordered = [one for one in of if one[0] in ("Integer", "Binned", "Date")]
    numeric = [one for one in of if one[0] in ("Integer", "Binned")]
    kinds = ["Count", "Conjunction", "Marginal", "Marginal", "Linear", "Workload"]
    kinds += ["Threshold", "Interval"] if ordered else []
    kinds += ["Sum", "Mean", "Median", "Quantile", "Rectangles", "thresholds"] if numeric else []
    kind = r.choice(kinds)
    share = r.random() < 0.5
    if kind == "Count":
        return [kind, where_of(r, of), share]
    if kind == "Conjunction":
        return [kind, where_of(r, of) or {of[0][1]: cell_in(r, of[0])}, share]
    if kind == "Marginal":
        names = [one[1] for one in r.sample(of, min(len(of), r.randint(1, 3)))]
        return [kind, names, where_of(r, of), share]
    if kind == "Linear":
        one = r.choice(of)
        size = size_of(one)
        weights = [r.choice([0, 1, 0.5, 0.25, r.random()]) for _ in range(size)]
        return [kind, one[1], weights, share]
    if kind == "Workload":
        return [kind, [query_of(r, of) for _ in range(r.randint(1, 3))]]
    if kind in ("Threshold", "Interval"):
        one = r.choice(ordered)
        low, high = sorted((place(r, one), place(r, one)))
        return [kind, one[1], low, high, where_of(r, of, one[1]), share]
    one = r.choice(numeric)
    if kind == "thresholds":
        low, high = (one[2], one[3]) if one[0] == "Integer" else (one[2][0], one[2][-1])
        step = max(1, int((high - low) // 7))
        places = range(low, high + 1, step) if one[0] == "Integer" else one[2][1:]
        return ["Workload", [["Threshold", one[1], t, t, {}, share] for t in places]]
    if kind == "Rectangles":
        size = size_of(one)
        lower = [r.randrange(size) for _ in range(r.randint(1, 4))]
        return [kind, one[1], lower, [r.randrange(low, size) for low in lower], share]
    if kind == "Quantile":
        return [kind, one[1], r.choice(["0.1", "0.5", "0.9"]), where_of(r, of, one[1])]
    return [kind, one[1], where_of(r, of, one[1]), share]


def cell_in(r: random.Random, of: Description) -> Description:
    found = None
    while found is None:
        found = cell(r, of)
    return ["between", of[2][0], of[2][1]] if of[0] == "Binned" else found


def size_of(of: Description) -> int:
    kind, _, *rest = of
    if kind == "Integer":
        return int(rest[1] - rest[0] + 1)
    if kind == "Date":
        return int(rest[0] + 1)
    return {"Boolean": 2}.get(kind) or len(rest[0]) - (kind == "Binned")


def query(of: Description) -> Any:
    kind, *rest = of
    if kind == "Count":
        return asked.Count(where(rest[0]), normalized=rest[1])
    if kind == "Conjunction":
        found = {name: as_place(condition(value)) for name, value in rest[0].items()}
        return asked.Conjunction(found, normalized=rest[1])
    if kind == "Marginal":
        return asked.Marginal(*rest[0], where=where(rest[1]), normalized=rest[2])
    if kind == "Linear":
        return asked.Linear(rest[1], attributes=[rest[0]], normalized=rest[2])
    if kind == "Workload":
        return asked.Workload([query(one) for one in rest[0]])
    if kind == "Threshold":
        name, low, _, of_rows, share = rest
        return asked.Threshold(name, as_place(low), where=where(of_rows), normalized=share)
    if kind == "Interval":
        name, low, high, of_rows, share = rest
        ends = as_place(low), as_place(high)
        return asked.Interval(name, *ends, where=where(of_rows), normalized=share)
    if kind == "Rectangles":
        return asked.Rectangles(rest[0], lower=rest[1], upper=rest[2], normalized=rest[3])
    if kind == "Quantile":
        return asked.Quantile(rest[0], rest[1], where=where(rest[2]))
    if kind == "Sum":
        return asked.Sum(rest[0], where=where(rest[1]), normalized=rest[2])
    return {"Mean": asked.Mean, "Median": asked.Median}[kind](rest[0], where=where(rest[1]))


def table_of(r: random.Random, of: Description, rows: int) -> Description:
    return {
        "domain": of,
        "columns": {one[1]: [cell(r, one) for _ in range(rows)] for one in of},
        "neighbors": r.choice(["replace-one", "add-remove"]),
        "unit_rows": r.choice([1, 1, 2]),
    }


def table(of: Description) -> PrivateData:
    columns = {
        name: [as_place(value) for value in values] for name, values in of["columns"].items()
    }
    more = {"max_rows": 500} if of["neighbors"] == "add-remove" else {}
    return PrivateData.from_columns(
        columns,
        domain(of["domain"]),
        neighbors=Neighbors(of["neighbors"]),
        unit_rows=of["unit_rows"],
        **more,
    )


def composition_of(r: random.Random) -> Description:
    return r.choice(
        [
            ["default"], ["Basic"], ["Advanced"], ["ZCDP"], ["Envelope"], ["Mixed"],
            ["Renyi", r.choice(["4", "12.5", "40"])],
        ]
    )  # fmt: skip


def composition(of: Description) -> Any:
    kind, *rest = of
    if kind == "default":
        return accounting.default_composition()
    return getattr(accounting, f"{kind}Composition")(*rest)


def budget_of(r: random.Random) -> Description:
    return [
        r.choice(["0.1", "1", "2.5", "10"]),
        r.choice(["0", *["1e-9", "1e-6", "0.001"] * 4]),
    ]
