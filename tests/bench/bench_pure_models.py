"""Pure models in few dimensions beside diffprivlib's and idealised objective perturbation.

python tests/bench/bench_pure_models.py FOLDER [--peer PYTHON] [--epsilon 0.1 1 8] [--seeds 15]
    [--others]

With `--others`: how the default chooses on other tables, of logistic and smoothed hinge losses,
beside each of the two oracles that it chooses from.

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
from model_cases import Case, Dropped, _named, adult_five, adult_nine, evenly, ionosphere, wine
from scipy.optimize import minimize

from dpsdk.losses import LogisticLoss, SVMLoss
from dpsdk.mechanisms import Corrected, PerturbedObjective
from dpsdk.queries import Scaled


class Started(Corrected):
    """A start and gradients, where the default would be something else."""


def of_codes(name, names, sizes, columns, radius=20.0, feature=Scaled):
    codes = np.stack(columns, axis=1).astype(np.int64)
    features = tuple([feature(one) for one in names[:-1]])
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


def mammograms(folder):
    text = (folder / "mammographic-mass" / "mammographic_masses.data").read_text()
    rows = [line.split(",") for line in text.split() if "?" not in line]
    read = np.array(rows, dtype=np.int64)
    lows, sizes = (1, 2, 1, 1, 1), (5, 8, 4, 5, 4)
    read[:, 1] //= 10
    pairs = zip(read.T, lows, sizes, strict=False)
    columns = [np.clip(column - low, 0, size - 1) for column, low, size in pairs]
    names = ("assessment", "age", "shape", "margin", "density", "malignant")
    return names, (*sizes, 2), [*columns, read[:, 5]]


def census(folder):
    with (folder / "pums-ca" / "pums10k.csv").open(newline="") as file:
        read = np.array([row[2:10] for row in csv.reader(file)], dtype=np.float64).T
    sex, age, education, income, _, black, asian, married = read
    race = np.clip(black + 2 * asian, 0, 3)
    income = evenly(np.log10(np.maximum(income, 1)), 2, 6, 6)
    columns = [evenly(age, 18, 94, 8), sex, np.clip(education - 1, 0, 15), race, income, married]
    return ("age", "sex", "education", "race", "income", "married"), (8, 2, 16, 4, 6, 2), columns


def drawn(kind, attributes, labels, rows, rng):
    """Labels of a logistic model of uniform or correlated numbers, or of rare indicators."""
    if kind == "rare":
        codes = rng.random((rows, attributes)) < np.geomspace(0.3, 0.01, attributes)
        margins = 3 * codes @ rng.normal(size=attributes) - 0.5
    elif kind == "uniform":
        codes = rng.integers(0, labels, (rows, attributes))
        margins = (2 * codes / (labels - 1) - 1) @ rng.normal(size=attributes)
    else:
        shared = 0.9 * rng.normal(size=(rows, 1)) + 0.45 * rng.normal(size=(rows, attributes))
        codes = np.clip(np.floor((shared + 2) / 4 * labels), 0, labels - 1)
        margins = 2 * (2 * codes / (labels - 1) - 1) @ rng.normal(size=attributes)
    names = (*[f"a{place}" for place in range(attributes)], "label")
    columns = [*codes.T, rng.random(rows) < 1 / (1 + np.exp(-margins))]
    sizes = (*[labels] * attributes, 2)
    return of_codes(f"{kind}-{attributes}", names, sizes, columns)


def others(folder):
    """Tables of which none had a part in from and up to which n·ε the default is this oracle."""
    rng = np.random.default_rng(5)
    yield ionosphere(folder / "ionosphere" / "ionosphere.csv")
    scanned, counted = mammograms(folder), census(folder)
    nine = adult_nine(folder / "adult" / "adult.csv").T
    yield of_codes("mammograms", *scanned)
    yield of_codes("mammograms-hot", *scanned, feature=Dropped)
    yield of_codes("census", *counted)
    names, sizes, columns = counted
    few = [[part[place] for place in (0, 3, 4, 5)] for part in (names, sizes, columns)]
    yield of_codes("census-hot", *few, feature=Dropped)
    names = ("age", "job", "income")
    yield of_codes("adult-2hot", names, (5, 5, 2), nine[[0, 4, 8]], feature=Dropped)
    for kind in ("uniform", "correlated", "rare"):
        for attributes, labels, rows in ((2, 8, 5_000), (4, 4, 5_000), (8, 3, 20_000)):
            yield drawn(kind, attributes, 2 if kind == "rare" else labels, rows, rng)


def compare(case, epsilons, seeds):
    """How the default does beside each of the two oracles that it chooses from."""
    for loss in (LogisticLoss(), SVMLoss(0.5)):
        problem = Problem.of(case, loss, case.codes, case.codes[:0])
        for epsilon in epsilons:
            if not 100 <= len(case.codes) * epsilon <= 200_000:
                continue
            numbers = [problem.excess(problem.constant)]
            for oracle in (None, PerturbedObjective(), Started()):
                fits = ours(problem, epsilon, Fraction(0), seeds, oracle)
                numbers.append(summed(problem, epsilon, "", fits)["excess"])
            told = " | ".join([f"{number:.1e}" for number in numbers])
            worse = numbers[1] / min(numbers[2:])
            kind = type(loss).__name__
            print(f"| {case.name} | {kind} | {epsilon:g} | {told} | {worse:.2f} |", flush=True)
            yield worse


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
    given = arguments(__doc__, "folder", epsilon=[0.1, 1.0, 8.0], seeds=15, peer="", others=False)
    if given.others:
        told = [
            one
            for case in others(given.folder)
            for one in compare(case, given.epsilon, given.seeds)
        ]
        mean = math.exp(statistics.mean(map(math.log, told)))
        print(f"worse than the better of both: {mean:.2f} on the average, {max(told):.1f} at most")
        return
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
