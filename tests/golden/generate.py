"""Writes the golden files beside it, with the `dpsdk` that is found: those here are of 0.1.0.

`python generate.py FOLDER`, with the unpacked wheel of tests/differential and tests/ on PYTHONPATH.
"""

from __future__ import annotations

import gzip
import json
import sys
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpsdk import Budget, PrivateData, Session, SyntheticData, wire
from dpsdk.accounting import SQLiteLedger
from dpsdk.domain import Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.hypothesis import DenseHypothesis, Pairs, PiecewiseHypothesis
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    Corrected,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    NoisyHistogram,
    NumericSparse,
    OfflinePMW,
    OnlinePMW,
    Parts,
    PrivateMinimizer,
    Projection,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    SufficientStatistics,
    Tree,
)
from dpsdk.queries import (
    Above,
    Ball,
    ConvexMinimization,
    Count,
    Marginal,
    Mean,
    Median,
    NumericAbove,
    Quantile,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 9), Categorical("sex", ["F", "M"]), Boolean("member"))
ROWS = np.random.default_rng(1).integers(0, DOMAIN.shape, (300, 3))
KEY = b"a key of thirty-two random bytes"


def table() -> PrivateData:
    columns = {
        "age": [int(row[0]) for row in ROWS],
        "sex": ["FM"[row[1]] for row in ROWS],
        "member": [bool(row[2]) for row in ROWS],
    }
    return PrivateData.from_columns(columns, DOMAIN, name="adults")


TABLES = Workload([Marginal("sex", "member"), Marginal("age", normalized=False)])
MIXED = Workload([Threshold("age", 4), Count({"sex": "F"})])


def model(loss: Any) -> ConvexMinimization:
    return ConvexMinimization(loss, features=["age", "sex"], label="member", over=Ball(2))


PARTS = Parts([(Threshold("age", 3), Laplace("0.1")), (Count(), Gaussian(rho="0.01"))])

# Asked by name: a question, and the mechanism that answers.
ONE_SHOT: dict[str, tuple[Any, Any]] = {
    "count": (Count(), Laplace("0.1")),
    "sum": (Sum("age", normalized=False), Laplace("0.1")),
    "mean": (Mean("age", where={"sex": "F"}), Gaussian(rho="0.01")),
    "quantile": (Quantile("age", "0.9"), Laplace("0.5")),
    "table": (Marginal("sex", "member"), Gaussian(epsilon="0.5", delta="1e-9")),
    "workload": (MIXED, Laplace("0.2")),
    "tables": (TABLES, Projection(rho="0.01")),
    "parts": (Workload([Threshold("age", 3), Count()]), PARTS),
    "model": (model(SquaredLoss()), PrivateMinimizer(epsilon=1, oracle=SufficientStatistics())),
    "corrected": (
        model(LogisticLoss()),
        PrivateMinimizer(epsilon=1, delta="1e-9", oracle=Corrected(gradients=1, certify="0.25")),
    ),
}  # fmt: skip
OPENED: dict[str, tuple[Any, Any]] = {
    "histogram": (Median("age"), NoisyHistogram(epsilon="0.5")),
    "tree": (Threshold("age", 4), Tree("age", epsilon="0.5")),
    "square root": (Threshold("age", 4), SquareRoot("age", rho="0.1")),
    "matrix": (TABLES, Matrix(TABLES, rho="0.1")),
    "residuals": (TABLES, ResidualPlanner(TABLES, rho="0.1")),
    "mwem": (MIXED, MWEM(MIXED, epsilon=1, rounds=2)),
    "offline": (MIXED, OfflinePMW(MIXED, epsilon=1)),
    "local": (Marginal("sex", "member"), LocalMarginals(TABLES, rho=1, certify="0.1")),
    "small": (MIXED, SmallDB(MIXED, epsilon=1, size=2)),
    "online": (Threshold("age", 4), OnlinePMW(2, "1e-6", updates=3)),
    "sparse": (Above(Threshold("age", 4), 0.4), NumericSparse(2, tops=2)),
    "number": (NumericAbove(Count(normalized=False), 20), NumericSparse(2, tops=2)),
}


def plain(value: Any) -> Any:
    """Write an answer out to the last digit."""
    if hasattr(value, "theta"):
        return [repr(float(one)) for one in value.theta]
    if hasattr(value, "values") and not isinstance(value, dict):
        return plain(np.asarray(value.values).tolist())
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        return [plain(one) for one in value]
    return repr(value) if isinstance(value, bool) else repr(float(value))


def facts(release: Any) -> dict[str, Any]:
    """Say what a release tells: its answer, what it cost, and how far off it may be."""
    bound = release.bound(0.1)
    return {
        "value": plain(release.value),
        "epsilon": None if release.cost.epsilon is None else str(Fraction(release.cost.epsilon)),
        "rho": str(Fraction(release.cost.rho)),
        "error": repr(float(bound.error)),
        "source": release.source,
    }


def session(**more: Any) -> Session:
    return Session(table(), Budget(1000, "1e-2"), **more)


def domains() -> list[Domain]:
    return [
        DOMAIN,
        Domain(Integer("n", -(2**40), 2**40), Binned("x", [-1, 0.1, 1e300])),
        Domain(Categorical("c", [1, "Ünïcode", -3], other=-3), Boolean("b", true=["Y"], false=[])),
        Domain(Date("day", date(2024, 1, 1), date(2024, 12, 31), unit="week")),
    ]


def distributions() -> dict[str, Any]:
    dense = DenseHypothesis.from_weights(DOMAIN, np.random.default_rng(1).random(DOMAIN.shape), 0.2)
    line = Domain(Integer("x", 0, 2**40))
    piecewise = PiecewiseHypothesis.uniform(line, outside=True)
    form = Threshold("x", 2**20).lower(line)
    piecewise.shift(form, 2.5)
    synthetic = SyntheticData(DOMAIN, ROWS[:20], outside_count=3)
    fitted = session(noise=seeded(3)).open(OnlinePMW(2, updates=3, start=Pairs())).distribution
    averaged = session(noise=seeded(3)).open(MWEM.averaged(MIXED, epsilon=1, rounds=2, beta=0.1))
    return {
        "dense": dense,
        "piecewise": piecewise,
        "synthetic": synthetic,
        "fitted": fitted,
        "averaged": averaged.distribution,
        "small": session(noise=seeded(3)).open(SmallDB(MIXED, epsilon=1, size=2)).distribution,
    }


def asked_of(distribution: Any) -> Any:
    if distribution.domain == DOMAIN:
        return Workload([Marginal("age", "sex", normalized=False), Count(normalized=False)])
    return Workload([Threshold("x", t, normalized=False) for t in (5, 2**20, 2**39)])


def write_wire(folder: Path) -> None:
    from written import CATALOGUE, VALUES

    texts = [wire.dumps(value, allow=CATALOGUE) for value in VALUES]
    (folder / "wire.json.gz").write_bytes(gzip.compress(json.dumps(texts).encode(), mtime=0))


def write_releases(folder: Path) -> None:
    made = {}
    for name, (query, using) in {**ONE_SHOT, **OPENED}.items():
        own = session(noise=seeded(7))
        how = using if name in ONE_SHOT else own.open(using)
        release = own.release(query, using=how)
        metadata = release.metadata(0.1)
        made[name] = {
            **facts(release),
            "wire": wire.dumps(release),
            "registry": metadata.to_registry().to_json(),
            "csvw": metadata.to_csvw().to_json(),
            "datapackage": metadata.to_datapackage().to_json(),
            "csv": [table.to_csv() for table in metadata.tables],
        }
    data = json.dumps(made, sort_keys=True).encode()
    (folder / "releases.json.gz").write_bytes(gzip.compress(data, mtime=0))


def write_reused(folder: Path) -> None:
    path = folder / "reused.db"
    own = session(ledger=SQLiteLedger(path, key=KEY), reuse=True)
    told: dict[str, Any] = {
        name: facts(own.release(query, using=using, request_id=name))
        for name, (query, using) in ONE_SHOT.items()
    }
    own.release(Count({"sex": "M"}), using=Laplace("0.1"))
    told["spent"] = {"charges": own.spent.charges, "rho": str(own.spent.rho)}
    (folder / "reused.json").write_text(json.dumps(told, indent=1) + "\n")
    (folder / "reused.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    for left in folder.glob("reused.db*"):
        if left.suffix != ".gz":
            left.unlink()


def write_others(folder: Path) -> None:
    for number, domain in enumerate(domains()):
        domain.save(folder / f"domain-{number}.json")
    told = {}
    for name, distribution in distributions().items():
        distribution.save(folder / f"{name}.distribution")
        answers = distribution.answers(asked_of(distribution).lower(distribution.domain))
        told[name] = [repr(float(one)) for one in answers]
    (folder / "distributions.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    into = Path(sys.argv[1])
    write_wire(into)
    write_releases(into)
    write_reused(into)
    write_others(into)
