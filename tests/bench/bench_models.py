"""Private linear models beside diffprivlib's and the best constant one, and beside each other.

python tests/bench/bench_models.py --adult CSV --wine CSV --ionosphere CSV [--only CASE ...]
    [--losses CLASS ...] [--epsilon 0.1 1 3] [--seeds 15] [--held-out] [--oracles NAME ...]
    [--peer PYTHON]

CSV of Adult holds coded columns, as in bench_mwem.py, those of wine and ionosphere are UCI's.
Tables have a public number of rows, neighbours exchange one row. Excess is the average loss of a
model over the rows less the least one of the ball, found by `ConvexForm.minimise` on counts that
this program took itself, certified to 1e-10; both are of all rows, or with `--held-out` of those
not held out, and then accuracies on the others are told (of numeric labels: the average loss).
PYTHON is that of an environment with diffprivlib, whose fits by peer_models.py are of the same rows
and vectors, of pure ε; of its two ways to an intercept the one with the smaller median counts.
Medians are over the seeds.

Many models of one table are measured by bench_many_models.py.
"""

import json
import statistics
import subprocess
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from attrs import frozen
from measuring import arguments
from model_cases import Case, Table, adult_eight, adult_five, ionosphere, opened, wine

from dpsdk import Budget, mechanisms
from dpsdk.errors import DpsdkError
from dpsdk.hypothesis import Pairs
from dpsdk.losses import LogisticLoss, Loss, QuantileLoss, SquaredLoss
from dpsdk.mechanisms import Corrected, Moments, PrivateMinimizer, SufficientStatistics
from dpsdk.typing import Floats, Ints

DELTA = Fraction(1, 10**9)
ORACLES = {
    "pairs": lambda: Corrected(Pairs("0.3"), gradients=0),
    "pairs+1": lambda: Corrected(Pairs("0.3"), gradients=1),
    "pairs+2": lambda: Corrected(Pairs("0.3"), gradients=2),
    "triples": lambda: Corrected(Pairs("0.3", width=3), gradients=0),
    "triples+1": lambda: Corrected(Pairs("0.3", width=3), gradients=1),
    "moments": lambda: Corrected(Moments("0.3"), gradients=0),
    "moments+1": lambda: Corrected(Moments("0.3"), gradients=1),
    "moments+2": lambda: Corrected(Moments("0.3"), gradients=2),
    "statistics": SufficientStatistics,
    "descent": lambda: mechanisms.NoisyDescent(),
    "heavy-ball": mechanisms.HeavyBall,
}


@frozen(eq=False)
class Problem:
    """A case with a loss, and all that is known of it without privacy."""

    case: Case
    loss: Loss
    codes: Ints
    tested: Ints
    vectors: Floats
    targets: Floats
    shares: Floats
    counts: Ints
    best: Floats
    least: float
    constant: Floats

    @classmethod
    def of(cls, case, loss, codes, tested):
        table = Table.of(case.names, case.sizes, codes)
        form = case.query(loss).lower(case.domain)
        theta, gap = form.minimise(table, tolerance=1e-10)
        cells, counts = np.unique(codes, axis=0, return_counts=True)
        vectors, targets, shares = case.vectors(cells), case.targets(cells), counts / len(codes)

        def average(theta):
            return float(shares @ loss.value(vectors @ theta, targets))

        slopes = vectors.T @ (shares * loss.derivative(vectors @ theta, targets))
        found = float(slopes @ theta + case.radius * np.linalg.norm(slopes))
        if not found <= gap + 1e-9:
            raise AssertionError(f"{case.name}: {found} left of a gap of {gap}")
        constant = np.zeros(len(theta))
        # The best constant model, by halving: its loss is convex in one number.
        low, high = -case.radius, case.radius
        for _ in range(200):
            constant[-1] = (low + high) / 2
            slope = shares @ loss.derivative(vectors @ constant, targets)
            low, high = (low, constant[-1]) if slope > 0 else (constant[-1], high)
        known = vectors, targets, shares, counts
        return cls(case, loss, codes, tested, *known, theta, average(theta), constant)

    def excess(self, theta):
        margins = self.vectors @ theta
        return float(self.shares @ self.loss.value(margins, self.targets)) - self.least

    def held(self, theta):
        """Accuracy on the rows held out, or their average loss."""
        if not len(self.tested):
            return float("nan")
        margins, targets = self.case.vectors(self.tested) @ theta, self.case.targets(self.tested)
        if self.case.classes:
            return float(np.mean((margins >= 0) == (targets > 0)))
        return float(np.mean(self.loss.value(margins, targets)))


def ours(problem, epsilon, delta, seeds, oracle=None):
    """Coefficients by `PrivateMinimizer`, the excess that was predicted, and CPU seconds."""
    query = problem.case.query(problem.loss)
    amount = Fraction(str(epsilon))
    for seed in range(seeds):
        session = opened(problem.case.attributes, problem.codes, Budget(amount, delta), seed)
        using = PrivateMinimizer(epsilon=amount, delta=delta)
        if oracle is not None:
            using = PrivateMinimizer(epsilon=amount, delta=delta, oracle=oracle)
        start = time.process_time()
        release = session.release(query, using=using)
        spent = time.process_time() - start
        try:
            told = release.bound(0.05).predicted
        except DpsdkError:
            told = None
        yield release.value.theta, float("nan") if told is None else told, spent


def peer(problem, python, epsilons, seeds):
    """diffprivlib's fits of one problem, by ε and the way to an intercept."""
    every = problem.case.vectors(
        np.stack([code.ravel() for code in np.indices(problem.case.sizes)], axis=1)
    )
    name = "logistic" if isinstance(problem.loss, LogisticLoss) else "squared"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.npz"
        np.savez(
            file,
            vectors=problem.vectors,
            targets=problem.targets,
            counts=problem.counts,
            low=every.min(axis=0),
            high=every.max(axis=0),
            norm=np.linalg.norm(every[:, :-1], axis=1).max(),
            norm_all=np.linalg.norm(every, axis=1).max(),
        )
        program = Path(__file__).with_name("peer_models.py")
        command = [python, str(program), name, "--table", str(file), "--seeds", str(seeds)]
        ended = subprocess.run(
            [*command, "--epsilon", *map(str, epsilons)], capture_output=True, text=True, check=True
        )
    found = {}
    for text in ended.stdout.splitlines():
        line = json.loads(text)
        if "theta" in line:
            fits = found.setdefault((line["epsilon"], line["way"]), [])
            fits.append((np.array(line["theta"]), float("nan"), line["cpu_s"]))
    return found


def summed(problem, epsilon, method, fits):
    rows = [
        (problem.excess(t), problem.held(t), told, np.count_nonzero(t[:-1]) == 0, spent)
        for t, told, spent in fits
    ]
    excesses, held, told, constants, spent = zip(*rows, strict=True)
    return {
        "case": problem.case.name,
        "loss": type(problem.loss).__name__ + _told(problem.loss),
        "rows": len(problem.codes),
        "dimension": problem.vectors.shape[1],
        "epsilon": epsilon,
        "method": method,
        "excess": statistics.median(excesses),
        "tenth": float(np.quantile(excesses, 0.9)),
        "held": statistics.median(held),
        "predicted": statistics.median(told),
        "constants": int(sum(constants)),
        "seconds": statistics.median(spent),
    }


def _told(loss):
    return f" {float(loss.q):g}" if isinstance(loss, QuantileLoss) else ""


def measured(problem, given):
    theirs = {}
    if given.peer and isinstance(problem.loss, LogisticLoss | SquaredLoss):
        theirs = peer(problem, given.peer, given.epsilon, given.seeds)
    nothing = float("nan")
    yield summed(problem, 0.0, "best", iter([(problem.best, nothing, 0.0)]))
    yield summed(problem, 0.0, "constant", iter([(problem.constant, nothing, 0.0)]))
    for epsilon in given.epsilon:
        yield summed(problem, epsilon, "dpsdk", ours(problem, epsilon, DELTA, given.seeds))
        pure = ours(problem, epsilon, Fraction(0), given.seeds)
        yield summed(problem, epsilon, "dpsdk pure", pure)
        for name in given.oracles:
            made = ours(problem, epsilon, DELTA, given.seeds, ORACLES[name]())
            try:
                yield summed(problem, epsilon, name, made)
            except DpsdkError as error:  # least squares alone, or too many cells
                print(f"{problem.case.name} {name}: {error}")
        ways = [
            summed(problem, epsilon, f"diffprivlib {way}", iter(fits))
            for (amount, way), fits in theirs.items()
            if amount == epsilon
        ]
        yield from ways


def told(line):
    held = line["held"]
    last = "" if held != held else f" held out {held:.4f}"
    hint = "" if line["predicted"] != line["predicted"] else f" predicted {line['predicted']:.1e}"
    return (
        f"{line['case']:<13}{line['loss']:<18}{line['epsilon']:>5g} {line['method']:<19}"
        f"{line['excess']:>10.2e} (90%: {line['tenth']:.1e}) {line['seconds']:>7.3f} s{hint}{last}"
    )


def main():
    given = arguments(
        __doc__, adult=Path, wine=Path, ionosphere=Path, only=[], losses=[],
        epsilon=[0.1, 1.0, 3.0], seeds=15, oracles=[], held_out=False, peer="",
    )  # fmt: skip
    readers = [
        (given.adult, adult_five),
        (given.adult, adult_eight),
        (given.wine, wine),
        (given.ionosphere, ionosphere),
    ]
    for path, read in readers:
        if path is None:
            continue
        case = read(path)
        for loss in case.losses:
            if given.only and case.name not in given.only:
                continue
            if given.losses and type(loss).__name__ not in given.losses:
                continue
            kept = case.codes[~case.test] if given.held_out else case.codes
            tested = case.codes[case.test] if given.held_out else case.codes[:0]
            problem = Problem.of(case, loss, kept, tested)
            for line in measured(problem, given):
                print(told(line), flush=True)


if __name__ == "__main__":
    main()
