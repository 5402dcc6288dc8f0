"""Models of whole tables: excess, and loss and AUC on a third held out, beside their rivals.

python tests/bench/bench_heldout.py DATA [--only TABLE ...] [--methods NAME ...]
    [--epsilon 0.1 1 8] [--seeds 5] [--peer PYTHON]

DATA is a folder of public data as public_tables.py reads it, with Adult in fourteen attributes.
Neighbours exchange one row, whose number is public; delta is 1e-6. Each method fits all rows, which
gives its excess over the least loss of any linear model, and again two thirds of them, drawn anew
by each seed, which gives its loss and AUC on the others. `dpsdk` is `PrivateMinimizer` as it comes,
and so is `dpsdk squared`, whose excess is in its own loss. `perturbed` is a perturbed objective as
nobody can run it: noise is in floats, and the minimum is exact. `diffprivlib` has pure epsilon, a
column of ones and the longest row as `data_norm`, as its users do, in an environment of its own
(see peer_models.py). Printed are rows of a table: medians, and the least and largest in brackets.
"""

import json
import math
import statistics
import subprocess
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from attrs import field, frozen
from bench_predictions import columns, survivors
from measuring import arguments
from model_cases import evenly, grouped, opened
from public_tables import Data

from dpsdk import Boolean, Budget, Integer
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import PrivateMinimizer
from dpsdk.queries import ConvexMinimization, OneHot, Scaled
from dpsdk.typing import Floats, Ints

DELTA = Fraction(1, 10**6)
METHODS = ("best", "constant", "dpsdk", "perturbed", "diffprivlib", "dpsdk squared")
EDGES = {
    "age": [9, 14, 19, 24, 29, 34, 39, 44, 54],
    "fnlwgt": [6, 12, 20],
    "education-num": [5, 8, 9, 10, 11, 12, 13],
    "capital-gain": [1, 5, 8],
    "capital-loss": [1, 36, 50],
    "hours-per-week": [19, 34, 39, 40, 44, 49, 59],
}
"""The first code of each group but the first."""


@frozen(eq=False)
class Table:
    """Codes of rows, the label last; columns of `hot` are factors, others numbers."""

    name: str
    codes: Ints
    sizes: tuple[int, ...]
    hot: tuple[int, ...]
    vectors: Floats = field(init=False)
    """Of all rows, as long as 1 at the most, a constant last."""
    label: Ints = field(init=False)

    def __attrs_post_init__(self):
        blocks, longest = [], 1.0
        for place, size in enumerate(self.sizes[:-1]):
            numbers = np.eye(size) if place in self.hot else np.linspace(-1, 1, size)[:, None]
            blocks.append(numbers[self.codes[:, place]])
            longest += float(np.square(numbers).sum(axis=1).max())
        rows = np.hstack([*blocks, np.ones((len(self.codes), 1))]) / math.sqrt(longest)
        object.__setattr__(self, "vectors", rows)
        object.__setattr__(self, "label", self.codes[:, -1])

    def split(self, seed):
        """Which rows are held out."""
        return np.random.default_rng(1000 + seed).permutation(len(self.codes)) % 3 == 0


def tables(data):
    yield table_of("adult", grouped_adult(data), -1)
    blood = columns(data.transfusion())
    numbers = [(blood["recency"], 75), (blood["frequency"], 50), (blood["frequency"], 50)]
    yield table_of("transfusion", [*numbers, (blood["time"], 97), (blood["donated"], 2)], 0)
    ship = survivors(data)
    sizes = {"Sex": 2, "Age": 91, "SibSp": 9, "Parch": 7, "Fare": 32}
    factors = [(ship[name], size) for name, size in (("Pclass", 3), ("Cabin", 9), ("Embarked", 3))]
    others = [(ship[name], size) for name, size in sizes.items()]
    yield table_of("titanic", [*factors, *others, (ship["Survived"], 2)], 3)
    wine = data.wine()
    codes = list(zip(columns(wine).values(), wine.domain.shape, strict=True))
    yield table_of("wine", [*codes[:-1], (codes[-1][0] >= 3, 2)], 0)
    pums = columns(data.pums())
    kept = [(pums["educ"], 16), (evenly(pums["age"], 0, 100, 10), 10), (pums["income"] // 5, 20)]
    bits = [(pums[name], 2) for name in ("sex", "latino", "black", "asian", "married")]
    yield table_of("census", [*kept, *bits], 2)
    yield table_of("numbers", drawn(), 0)


def table_of(name, kept, factors):
    """A table whose first columns are factors; all of them but the label where it is negative."""
    kept = list(kept)
    hot = tuple(range(len(kept) - 1 if factors < 0 else factors))
    codes = np.stack([np.asarray(one, dtype=np.int64) for one, _ in kept], axis=1)
    return Table(name, codes, tuple([int(size) for _, size in kept]), hot)


def grouped_adult(data):
    adult = data.adult()
    for name, codes in columns(adult).items():
        edges = EDGES.get(name)
        if edges is None:
            yield codes, adult.domain[name].size
        else:
            yield grouped(codes, [edge - 1 for edge in edges]), len(edges) + 1


def drawn():
    """Twenty correlated numbers, of which the label depends on few."""
    rng = np.random.default_rng(26)
    numbers = rng.normal(size=(20_000, 1)) * 0.7 + rng.normal(size=(20_000, 20)) * 0.7
    odds = 1.5 * numbers[:, 0] - numbers[:, 1] + 0.5 * numbers[:, 2]
    yield from [(evenly(one, -3, 3, 24), 24) for one in numbers.T]
    yield rng.random(20_000) < 1 / (1 + np.exp(-odds)), 2


def losses(margins, label):
    return np.logaddexp(0.0, margins) - label * margins


def auc(margins, label):
    """The chance that a row of the second label has the larger margin; one half where equal."""
    _, places, counts = np.unique(margins, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    second = int(label.sum())
    most = second * (len(label) - second)
    return (float(ranks[label == 1].sum()) - second * (second + 1) / 2) / most


def newton(rows, label, ridge=1e-9, linear=0.0):
    """The least of the mean logistic loss, with half a ridge and a linear term."""
    theta = np.zeros(rows.shape[1])

    def value(theta):
        own = float(losses(rows @ theta, label).mean())
        return own + ridge / 2 * float(theta @ theta) + float(np.sum(linear * theta))

    for _ in range(60):
        shares = 0.5 * (1.0 + np.tanh(rows @ theta / 2.0))
        slope = rows.T @ (shares - label) / len(rows) + ridge * theta + linear
        bend = (rows * (shares * (1 - shares))[:, None]).T @ rows / len(rows)
        way = np.linalg.lstsq(bend + (ridge + 1e-12) * np.eye(len(theta)), slope, rcond=None)[0]
        gain, length, before = float(slope @ way), 1.0, value(theta)
        if gain < 1e-10:
            break
        while value(theta - length * way) > before - 0.25 * length * gain and length > 1e-6:
            length /= 2.0
        theta = theta - length * way
    return theta


def perturbed(rows, label, epsilon, seed):
    """Objective perturbation (Kifer, Smith, Thakurta 2012) by the analysis of generalised linear
    models (Redberg, Koskela, Wang 2023, theorem 3.1), with one row taken out and another put in:
    gradients of length 1 move by 2, and the determinant twice.
    """
    share = 0.25 if epsilon < 4 else 0.15
    ridge = 0.25 / (1.0 - math.exp(-epsilon * share / 2.0))
    left, low, high = epsilon * (1.0 - share), 1e-3, 1e5

    def beyond(deviation):
        mu = 2.0 / deviation
        upper = normal(mu / 2 - left / mu) - math.exp(left) * normal(-mu / 2 - left / mu)
        return left < mu * mu / 2 or 2.0 * upper > float(DELTA)

    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if beyond(middle) else (low, middle)
    noise = np.random.default_rng(seed).normal(size=rows.shape[1]) * high
    return newton(rows, label, ridge / len(rows), noise / len(rows))


def normal(value):
    return 0.5 * math.erfc(-value / math.sqrt(2.0))


def ours(table, kept, epsilon, seed, loss):
    """Margins of all rows by the model of some."""
    names = [f"x{place}" for place in range(len(table.sizes))]
    attributes = [Integer(n, 0, s - 1) for n, s in zip(names[:-1], table.sizes[:-1], strict=True)]
    features = [OneHot(n) if p in table.hot else Scaled(n) for p, n in enumerate(names[:-1])]
    query = ConvexMinimization(loss, features=features, label=names[-1])
    amount = Fraction(str(epsilon))
    given = (*attributes, Boolean(names[-1]))
    session = opened(given, table.codes[kept], Budget(amount, DELTA), seed)
    start = time.process_time()
    model = session.answer(query, using=PrivateMinimizer(epsilon=amount, delta=DELTA))
    spent = time.process_time() - start
    codes = dict(zip(names[:-1], table.codes.T[:-1], strict=True))
    return model.margins(codes), spent


def peer(table, kept, epsilon, seed, python):
    with tempfile.TemporaryDirectory() as folder:
        file, rows = Path(folder) / "table.npz", table.vectors[kept]
        known = {"vectors": rows, "targets": table.label[kept] * 2 - 1, "norm_all": 1.0}
        np.savez(file, counts=np.ones(len(rows), dtype=np.int64), **known)
        program = str(Path(__file__).with_name("peer_models.py"))
        asked = ["--table", str(file), "--seeds", "1", "--first", str(seed), "--ways", "column"]
        command = [python, program, "logistic", *asked, "--epsilon", str(epsilon)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
    line = json.loads(ended.stdout)
    return table.vectors @ np.array(line["theta"]), line["cpu_s"]


def fitted(table, kept, method, epsilon, seed, python):
    """Margins of all rows, and CPU seconds."""
    rows, label = table.vectors[kept], table.label[kept]
    if method.startswith("dpsdk"):
        loss = SquaredLoss() if method == "dpsdk squared" else LogisticLoss()
        return ours(table, kept, epsilon, seed, loss)
    if method == "diffprivlib":
        return peer(table, kept, epsilon, seed, python)
    start = time.process_time()
    if method == "perturbed":
        theta = perturbed(rows, label, epsilon, seed)
    elif method == "best":
        theta = newton(rows, label)
    else:
        share = label.mean()
        theta = np.zeros(rows.shape[1])
        theta[-1] = math.log(share / (1 - share)) / rows[0, -1]
    return table.vectors @ theta, time.process_time() - start


def losses_of(method, margins, label):
    """The loss of each row: the logistic one, or half a square of what is told from 0 to 1."""
    if method == "dpsdk squared":
        return 2.0 * np.square(margins - label)
    return losses(margins, label)


def measured(table, method, epsilon, given, least):
    whole, found = np.ones(len(table.codes), dtype=bool), []
    fixed = method in ("best", "constant")
    everywhere = fitted(table, whole, method, epsilon, 0, given.peer) if fixed else None
    for seed in range(given.seeds):
        margins, spent = everywhere or fitted(table, whole, method, epsilon, seed, given.peer)
        excess = float(losses_of(method, margins, table.label).mean()) - least
        out = table.split(seed)
        margins, _ = fitted(table, ~out, method, epsilon, seed, given.peer)
        held = float(losses_of(method, margins[out], table.label[out]).mean())
        found.append((excess, held, auc(margins[out], table.label[out]), spent))
    return [*zip(*found, strict=True)]


def least_of(table, method):
    """The least loss of any linear model over all rows."""
    if method == "dpsdk squared":
        theta = np.linalg.lstsq(table.vectors, table.label, rcond=None)[0]
    else:
        theta = newton(table.vectors, table.label)
    return float(losses_of(method, table.vectors @ theta, table.label).mean())


def told(numbers, digits=2):
    middle, low, high = statistics.median(numbers), min(numbers), max(numbers)
    return f"{middle:.{digits}g} ({low:.{digits}g}–{high:.{digits}g})"


def main():
    given = arguments(
        __doc__, "data", only=[], methods=list(METHODS), epsilon=[0.1, 1.0, 8.0], seeds=5, peer=""
    )
    for table in tables(Data(Path(given.data))):
        if given.only and table.name not in given.only:
            continue
        rows, dimension = table.vectors.shape
        print(f"{table.name}: {rows} rows, {dimension} coefficients", flush=True)
        for method in given.methods:
            if method == "diffprivlib" and not given.peer:
                continue
            for epsilon in [0.0] if method in ("best", "constant") else given.epsilon:
                least = least_of(table, method)
                excess, held, area, spent = measured(table, method, epsilon, given, least)
                line = f"| {table.name} | {epsilon:g} | {method} | {told(excess)} | {told(held, 3)}"
                print(f"{line} | {told(area, 3)} | {statistics.median(spent):.2g} |", flush=True)


if __name__ == "__main__":
    main()
