"""One value of every mechanism of the package, made from what its constructor asks for."""

from __future__ import annotations

import inspect
from typing import Any

from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, Lowers
from dpsdk.mechanisms import BUILT_IN, Laplace, Mechanism, Problem

__all__ = ["samples"]

# What a constructor may ask for beside its total, by name. A mechanism with another parameter that
# has no default needs a line here, and then every test of all mechanisms has it.
GIVEN = {
    "delta": "1e-6",
    "updates": 3,
    "tops": 2,
    "alpha": 0.9,
    "beta": 0.1,
    "queries": 10,
    "size": 3,
}
MODELS = Problem(dimension=3, lipschitz=1, smoothness=2.5, radius=1, summed=2.0)


def samples(
    workload: Lowers[LinearForm], attribute: str, *, base: type = Mechanism, epsilon: object = 1
) -> list[Mechanism[Any]]:
    """One mechanism of each class below a base, in the order of their names."""
    given: dict[str, object] = {
        "workload": workload, "attribute": attribute, "problem": MODELS,
        "parts": [(workload, Laplace(epsilon))],
    }  # fmt: skip
    kinds = sorted([kind for kind in BUILT_IN if issubclass(kind, base)], key=lambda k: k.__name__)
    return [_sample(kind, given, epsilon) for kind in kinds]


def _sample(
    kind: type[Mechanism[Any]], given: dict[str, object], epsilon: object
) -> Mechanism[Any]:
    known = {**given, **GIVEN, "epsilon": epsilon}
    parameters = inspect.signature(kind).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty]
    arguments = {name: known[name] for name in needed}
    totals = ({}, {"epsilon": epsilon}, {"epsilon": epsilon, "delta": "1e-6"})
    # A total is needed in one of several ways, and a promise of so few rows takes a large one.
    for total in totals:
        for more in ({}, {"updates": 3}):
            try:
                return kind(**arguments | total | (more if more.keys() <= _names(kind) else {}))
            except InvalidArgument as error:
                refused = error
    raise refused


def _names(kind: type[Mechanism[Any]]) -> set[str]:
    return set(inspect.signature(kind).parameters)
