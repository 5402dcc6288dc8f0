"""One value of every mechanism of the package, made from what its constructor asks for."""

from __future__ import annotations

import inspect
from typing import Any

from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm, Lowers
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import BUILT_IN, Laplace, Mechanism, OfflineConvexPMW, Problem
from dpsdk.queries import Ball, ConvexMinimization

__all__ = ["sample", "samples"]

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
    workload: Lowers[LinearForm], attribute: str, *, base: type = Mechanism
) -> list[Mechanism[Any]]:
    """One mechanism of each class below a base, in the order of their names."""
    kinds = sorted([kind for kind in BUILT_IN if issubclass(kind, base)], key=lambda k: k.__name__)
    return [sample(kind, workload, attribute) for kind in kinds]


def sample(
    kind: type[Mechanism[Any]], workload: Lowers[LinearForm], attribute: str, epsilon: object = 1
) -> Mechanism[Any]:
    """A mechanism of one class, with such an ε."""
    parameters = inspect.signature(kind).parameters
    known: dict[str, object] = {
        **GIVEN, "epsilon": epsilon, "workload": workload, "attribute": attribute,
        "problem": MODELS, "parts": [(workload, Laplace(1))],
    }  # fmt: skip
    if kind.__name__ == OfflineConvexPMW.__name__:
        known["workload"] = ConvexMinimization(
            SquaredLoss(), features=["member"], label=attribute, over=Ball(2), intercept=False
        )
    needed = {name: known[name] for name, one in parameters.items() if one.default is one.empty}
    # A total is given in one of several ways, and a stream says how long it is.
    refused: InvalidArgument | None = None
    for more in ({}, {"updates": 3}):
        for total in ({}, {"epsilon": epsilon}, {"epsilon": epsilon, "delta": "1e-6"}):
            given = {name: one for name, one in (more | total).items() if name in parameters}
            try:
                return kind(**needed | given)
            except InvalidArgument as error:
                refused = error
    raise refused or AssertionError
