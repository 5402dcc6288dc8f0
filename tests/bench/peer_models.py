"""diffprivlib's models of one coded table, fitted and printed as JSON, one line a fit.

    PEER_PYTHON tests/bench/peer_models.py logistic|squared --table FILE.npz
        [--epsilon 0.1 1 3] [--seeds 15] [--first 0] [--ways own column]

It runs in the peer's own environment and needs nothing of this package: diffprivlib 0.6.6 with
scikit-learn 1.4.2, scipy 1.12 and numpy 1.26 runs, with scikit-learn 1.5 and later it does not (it
declares numpy of 2.0 at least, which that scikit-learn has no build for; pip has to be told twice).

FILE holds, for the occupied cells of a table, `vectors` (features, with the constant of an
intercept last), `targets` from -1 to 1 and `counts`; and of the universe `low` and `high` of each
feature, and `norm` and `norm_all`, the longest vector without and with the constant. A line gives
the `theta` of those vectors, whichever way its intercept was found:

- `own`: the peer adds an intercept to the features, as is its default. To a logistic model it adds
  a 1, so that it is told of features in the unit in which the constant is 1;
- `column`: the constant is one of the features, and no intercept is added.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np


def logistic(table, epsilon, seed, way):
    from diffprivlib.models import LogisticRegression

    own = way == "own"
    vectors, constant = table["vectors"], float(table["vectors"][0, -1])
    rows = vectors[:, :-1] / constant if own else vectors
    norm = float(table["norm"]) / constant if own else float(table["norm_all"])
    model = LogisticRegression(
        epsilon=epsilon, data_norm=norm, fit_intercept=own, max_iter=1_000, random_state=seed
    ).fit(rows, (table["targets"] > 0).astype(int))
    if not own:
        return np.ravel(model.coef_)
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_)[0]) / constant


def squared(table, epsilon, seed, way):
    from diffprivlib.models import LinearRegression

    own = way == "own"
    vectors, constant = table["vectors"], float(table["vectors"][0, -1])
    kept = slice(0, -1) if own else slice(None)
    bounds = table["low"][kept], table["high"][kept]
    model = LinearRegression(
        epsilon=epsilon, bounds_X=bounds, bounds_y=(-1, 1), fit_intercept=own, random_state=seed
    ).fit(vectors[:, kept], table["targets"])
    if not own:
        return np.ravel(model.coef_)
    return np.append(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]) / constant)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loss", choices=["logistic", "squared"])
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--ways", nargs="+", default=["own", "column"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table = dict(np.load(given.table))
    rows = np.repeat(np.arange(len(table["counts"])), table["counts"])
    table["vectors"], table["targets"] = table["vectors"][rows], table["targets"][rows]
    fit = {"logistic": logistic, "squared": squared}[given.loss]
    for epsilon in given.epsilon:
        for seed in range(given.first, given.first + given.seeds):
            for way in given.ways:
                start = time.process_time()
                line = {"way": way, "epsilon": epsilon, "seed": seed}
                try:
                    line["theta"] = np.asarray(fit(table, epsilon, seed, way)).tolist()
                except Exception as error:
                    line["error"] = f"{type(error).__name__}: {error}"
                print(json.dumps(line | {"cpu_s": time.process_time() - start}), flush=True)


if __name__ == "__main__":
    main()
