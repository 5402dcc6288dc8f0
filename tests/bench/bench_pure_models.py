"""Pure models in few dimensions beside diffprivlib's and idealised objective perturbation.

python tests/bench/bench_pure_models.py FOLDER [--peer PYTHON] [--epsilon 0.1 1 8] [--seeds 15]

FOLDER has the data as `public_tables.py` says. Excess is over all rows, as in bench_models.py, with
medians over the seeds. Ideal is the exact minimum of a perturbed objective in floats: of 14 ridges
that with the least median excess, which nobody can know, and one determinant paid.
"""

import csv
import math
import statistics
from fractions import Fraction

import numpy as np
from bench_models import Problem, ours, peer, summed
from measuring import arguments
from model_cases import Case, _named, adult_five, evenly, wine
from scipy.optimize import minimize

from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import PerturbedObjective
from dpsdk.queries import Scaled


def of_codes(name, names, sizes, columns, radius=20.0):
    codes = np.stack(columns, axis=1).astype(np.int64)
    features = tuple([Scaled(one) for one in names[:-1]])
    held = np.zeros(len(codes), dtype=bool)
    return Case(
        name, "none", _named(names, sizes), codes, held, features, radius, (LogisticLoss(),)
    )


def transfusion(folder):
    path = folder / "transfusion" / "transfusion.csv"
    rows = np.loadtxt(path, delimiter=",", skiprows=1, encoding="utf-8-sig")
    columns = [evenly(rows[:, place], 0, high, 8) for place, high in ((0, 24), (1, 24), (3, 100))]
    names = ("recency", "frequency", "months", "gave")
    return of_codes("transfusion", names, (8, 8, 8, 2), [*columns, rows[:, 4]])


def titanic(folder):
    with (folder / "titanic" / "titanic.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["Survived"]) < 2]
    titles = ("Pclass", "Sex", "Age", "SibSp", "Parch", "Survived")
    known = {title: np.array([int(row[title]) for row in rows]) for title in titles}
    known["Age"] = known["Age"] // 10
    sizes = (3, 2, 9, 5, 4, 2)
    columns = [np.clip(known[t], 0, size - 1) for t, size in zip(titles, sizes, strict=True)]
    return of_codes("titanic", tuple(map(str.lower, titles)), sizes, columns)


def good_wine(folder):
    case = wine(folder / "wine-quality-white" / "winequality-white.csv")
    columns = [*case.codes[:, :-1].T, case.codes[:, -1] >= 3]
    return of_codes("wine", (*case.names[:-1], "good"), (*case.sizes[:-1], 2), columns)


def ideal(problem, epsilon, seeds):
    """The least median excess over ridges of exact minima with one vector of noise in floats."""
    rng = np.random.default_rng(0)
    rows, targets, counts = problem.vectors, problem.targets, problem.counts
    length, total = np.linalg.norm(rows, axis=1).max(), counts.sum()
    found = []
    for ridge in 2.0 ** np.arange(-4, 10):
        left = epsilon - math.log1p(length**2 / 4 / ridge)
        excesses = []
        for _ in range(seeds if left > 0 else 0):
            tilt = rng.normal(size=rows.shape[1])
            tilt *= rng.gamma(len(tilt)) * 2 * length / left / np.linalg.norm(tilt)

            def objective(theta, tilt=tilt, ridge=ridge):
                margins = rows @ theta
                value = counts @ problem.loss.value(margins, targets)
                slope = rows.T @ (counts * problem.loss.derivative(margins, targets))
                value += ridge / 2 * theta @ theta + tilt @ theta
                return value / total, (slope + ridge * theta + tilt) / total

            options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
            start = np.zeros(len(tilt))
            least = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
            excesses.append(problem.excess(least.x))
        found += [statistics.median(excesses)] if excesses else []
    return min(found, default=math.nan)


def main():
    given = arguments(__doc__, "folder", epsilon=[0.1, 1.0, 8.0], seeds=15, peer="")
    adult = adult_five(given.folder / "adult" / "adult.csv")
    for case in (adult, transfusion(given.folder), titanic(given.folder), good_wine(given.folder)):
        problem = Problem.of(case, LogisticLoss(), case.codes, case.codes[:0])
        theirs = peer(problem, given.peer, given.epsilon, given.seeds) if given.peer else {}
        for epsilon in given.epsilon:
            numbers = [problem.excess(problem.constant)]
            for oracle in (None, PerturbedObjective()):
                fits = ours(problem, epsilon, Fraction(0), given.seeds, oracle)
                numbers.append(summed(problem, epsilon, "", fits)["excess"])
            numbers.append(ideal(problem, epsilon, given.seeds))
            ways = [fits for (amount, _), fits in theirs.items() if amount == epsilon]
            medians = [summed(problem, epsilon, "", iter(fits))["excess"] for fits in ways]
            numbers.append(min(medians, default=math.nan))
            told = " | ".join([f"{number:.1e}" for number in numbers])
            print(f"| {case.name} | {len(case.codes):,} | {epsilon:g} | {told} |", flush=True)


if __name__ == "__main__":
    main()
