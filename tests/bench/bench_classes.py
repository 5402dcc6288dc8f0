"""Models of several classes: the share of rows that were held out whose class they predict.

python tests/bench/bench_classes.py DATA [--epsilon 0.1 1 8] [--seeds 5] [--only TABLE ...] [--few]

DATA has `adult/adult.csv` and `titanic/titanic.csv`, coded columns with headers, and
`wine-quality-white/winequality-white.csv` without one. Classes are groups of education, classes of
passage, bands of quality, and 15 occupations; groups and bounds are fixed here. A third of the
rows, drawn once, is held out. δ is 1e-6, neighbours exchange one row, the number of rows is public.
`softmax` is one model of all classes, the others have one against the rest each. `--few` keeps
three or four attributes and has two other ways: each class by itself, by `Corrected` at a part of
ρ, and a distribution fitted to all pairs. What is not private is logistic regression of each
against the rest with a ridge of 2e-5. Figures are medians, and ranges, over the seeds of the noise.
"""

import statistics
import time
from fractions import Fraction

import numpy as np
from measuring import arguments, coded
from scipy.optimize import minimize

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.accounting import zcdp_start
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import Corrected, LocalMarginals, PrivateMinimizer
from dpsdk.queries import ConvexMinimization, OneVsRest, Softmax, marginals
from dpsdk.testing import seeded

DELTA = "1e-6"
TABLES = ("adult", "wine", "titanic", "occupation")


def adult(folder):
    raw = coded(folder / "adult" / "adult.csv")
    codes = {
        "age": raw["age"] // 9,
        "hours": np.minimum(raw["hours-per-week"] // 10, 9),
        "gain": np.digitize(raw["capital-gain"], [1, 5, 10]),
        "loss": np.digitize(raw["capital-loss"], [1, 40]),
    }
    sizes = {"age": 10, "hours": 10, "gain": 4, "loss": 3}
    plain = {"workclass": 9, "marital-status": 7, "occupation": 15, "relationship": 6, "race": 5}
    for name, size in (plain | {"sex": 2, "native-country": 42, "income>50K": 2}).items():
        codes[name], sizes[name] = raw[name], size
    attributes = [Categorical(name, range(size)) for name, size in sizes.items()]
    groups = np.digitize(raw["education-num"], [8, 9, 12])
    return attributes, codes, groups, ("age", "occupation", "sex")


def occupation(folder):
    attributes, codes, groups, _ = adult(folder)
    attributes = [one for one in attributes if one.name != "occupation"]
    attributes.append(Categorical("education", range(4)))
    codes["education"] = groups
    return attributes, codes, codes["occupation"], ("age", "education", "sex")


def wine(folder):
    path = folder / "wine-quality-white" / "winequality-white.csv"
    raw = np.loadtxt(path, delimiter=",")
    lows = (3.5, 0, 0, 0, 0, 0, 0, 0.985, 2.7, 0.2, 8)
    highs = (14.5, 1.2, 1.7, 66, 0.35, 290, 440, 1.04, 3.9, 1.1, 14.5)
    codes = {}
    for place, (low, high) in enumerate(zip(lows, highs, strict=True)):
        bins = ((raw[:, place] - low) / (high - low) * 20).astype(np.int64)
        codes[f"x{place}"] = np.clip(bins, 0, 19)
    attributes = [Integer(name, 0, 19) for name in codes]
    return attributes, codes, np.digitize(raw[:, 11], [5.5, 6.5]), ("x1", "x7", "x10")


def titanic(folder):
    codes = coded(folder / "titanic" / "titanic.csv")
    attributes = [Categorical(name, range(3)) for name in ("Embarked", "Survived")]
    attributes += [Categorical("Sex", range(2)), Integer("Age", 0, 90), Integer("SibSp", 0, 8)]
    attributes += [Integer("Parch", 0, 6), Integer("Fare", 0, 31)]
    return attributes, codes, codes["Pclass"], ("Sex", "Embarked", "Fare", "Survived")


def vectors(attributes, codes):
    """Numbers from -1 to 1, labels one by one, and a constant."""
    parts = [np.ones((len(codes[attributes[0].name]), 1))]
    for one in attributes:
        code = codes[one.name]
        number = (2 * code[:, None] - one.size) / one.size
        parts.append(number if isinstance(one, Integer) else np.eye(one.size)[code])
    return np.concatenate(parts, axis=1)


def logistic(x, sign):
    def loss(theta):
        margins = sign * (x @ theta)
        slopes = -sign / (1 + np.exp(margins)) / len(x)
        value = np.logaddexp(0, -margins).mean() + 1e-5 * theta @ theta
        return value, slopes @ x + 2e-5 * theta

    return minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x


def part_of(epsilon, parts):
    """The ε at which a model pays for an equal part of the ρ of all."""
    whole, low, high = zcdp_start(epsilon, DELTA), Fraction(0), Fraction(epsilon)
    for _ in range(24):
        middle = (low + high) / 2
        fits = zcdp_start(middle, DELTA) * parts <= whole
        low, high = (middle, high) if fits else (low, middle)
    return low


def opened(attributes, codes, label, values, epsilon, seed):
    data = PrivateData.from_columns(codes | {label.name: values}, Domain(*attributes, label))
    return Session(data, Budget(epsilon, DELTA), noise=seeded(seed))


def margins(way, attributes, codes, classes, held, epsilon, seed):
    count = int(classes.max()) + 1
    names = [one.name for one in attributes]
    query = ConvexMinimization(LogisticLoss(), features=names, label="class")
    if way == "each":
        oracle = PrivateMinimizer(epsilon=part_of(epsilon, count), delta=DELTA, oracle=Corrected())
        sessions = [
            opened(attributes, codes, Boolean("class"), classes == one, epsilon, 100 * seed + one)
            for one in range(count)
        ]
        return np.stack([one.answer(query, using=oracle).margins(held) for one in sessions], axis=1)
    session = opened(attributes, codes, Integer("class", 0, count - 1), classes, epsilon, seed)
    using = PrivateMinimizer(epsilon=epsilon, delta=DELTA)
    if way == "pairs":
        using = LocalMarginals(marginals(session.domain, 2), epsilon=epsilon, delta=DELTA)
    asked = Softmax(query) if way == "softmax" else OneVsRest(query)
    return session.answer(asked, using=using).margins(held)


def main():
    given = arguments(__doc__, "data", epsilon=["0.1", "1", "8"], seeds=5, only=TABLES, few=False)
    for table in given.only:
        attributes, codes, classes, few = globals()[table](given.data)
        if given.few:
            attributes = [one for one in attributes if one.name in few]
        order = np.random.default_rng(123).permutation(len(classes))
        out, kept = np.split(order, [len(order) // 3])
        own, held = [{a.name: codes[a.name][some] for a in attributes} for some in (kept, out)]
        plain = vectors(attributes, own), vectors(attributes, held)
        signs = [np.where(classes[kept] == one, 1.0, -1.0) for one in range(classes.max() + 1)]
        best = np.stack([plain[1] @ logistic(plain[0], sign) for sign in signs], axis=1)
        most = (classes[out] == np.bincount(classes[kept]).argmax()).mean()
        right = (best.argmax(axis=1) == classes[out]).mean()
        print(f"\n{table}, {len(kept):,} rows: largest class {most:.3f}, not private {right:.3f}")
        for epsilon in given.epsilon:
            for way in ("batch", "softmax", *(("each", "pairs") if given.few else ())):
                shares, begun = [], time.process_time()
                for seed in range(given.seeds):
                    found = margins(way, attributes, own, classes[kept], held, epsilon, seed)
                    shares.append(float((found.argmax(axis=1) == classes[out]).mean()))
                spent = (time.process_time() - begun) / given.seeds
                middle = f"{statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"
                print(f"{way:7} ε = {epsilon:4} {middle}, {spent:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
