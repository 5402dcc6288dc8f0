"""Convex minima beside scipy: CPU seconds to a certified gap of 1e-6, on one-hot universes.

python tests/bench/bench_convex.py [--rounds 3]

Cells are those of the universe with its two labels. Labels are planted, weights Dirichlet. scipy's
L-BFGS-B gets the written design, value and gradient at once, and stops at the first iterate whose
own Frank-Wolfe gap is 1e-6; its ball is not active. Times are medians of interleaved rounds, of one
thread if OMP_NUM_THREADS=1 is set, and the goals are read on these.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy import optimize

from dpsdk.forms import Design, minimise
from dpsdk.losses import HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.queries import Ball
from dpsdk.typing import Floats

SHAPES = {
    1_000: (10, 10, 5),
    16_000: (10, 8, 10, 10),
    128_000: (8, 5, 8, 5, 8, 5),
    1_000_000: (10, 10, 10, 10, 10, 5),
}
GAP = 1e-6
SIGNED = [-1.0, 1.0]
GOAL_SECONDS, GOAL_RATIO = 0.4, 10.0


def problem(shape: tuple[int, ...]) -> tuple[Design, Floats]:
    rng = np.random.default_rng(0)
    size = 1 / np.sqrt(len(shape) + 1)
    blocks = [size * np.eye(cells)[:, 1:] for cells in shape]
    blocks[-1] = np.hstack([blocks[-1], np.full((shape[-1], 1), size)])
    design = Design(blocks, labels=2)
    theta = rng.normal(size=design.features) * 2
    share = 1 / (1 + np.exp(-design.margins(theta)))
    weights = rng.dirichlet(np.full(design.cells, 0.3))
    return design, np.stack([weights * (1 - share), weights * share])


class _Certified(Exception):
    """L-BFGS-B has reached the gap."""


def by_scipy(rows: Floats, weights: Floats, loss: Loss, over: Ball) -> None:
    def function(theta: Floats) -> tuple[float, Floats]:
        z = rows @ theta
        value, slopes = 0.0, np.zeros_like(z)
        for label, line in zip(SIGNED, weights, strict=True):
            value += float(line @ loss.value(z, label))
            slopes += line * loss.derivative(z, label)
        gradient = slopes @ rows
        if over.gap(theta, gradient) <= GAP:
            raise _Certified
        return value, gradient

    with contextlib.suppress(_Certified):
        optimize.minimize(
            function,
            np.zeros(rows.shape[1]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 10_000, "maxfun": 10_000, "ftol": 0, "gtol": 0},
        )


def cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{'cells':>9} {'d':>3} {'inside':>8} {'edge':>8} {'L-BFGS-B':>9}  CPU ms, logistic")
    for cells, shape in SHAPES.items():
        design, weights = problem(shape)
        times: dict[str, list[float]] = {"inside": [], "edge": [], "scipy": []}
        rows = design.rows() if cells <= 128_000 else None
        found = minimise(design, LogisticLoss(), SIGNED, weights, Ball(20))
        narrow = Ball(0.3 * float(np.linalg.norm(found.theta)))
        for _ in range(rounds):
            for name, over in (("inside", Ball(20)), ("edge", narrow)):
                problems = (design, LogisticLoss(), SIGNED, weights, over)
                times[name].append(cpu(lambda problems=problems: minimise(*problems)))
            if rows is not None:
                written = (rows, weights, LogisticLoss(), Ball(20))
                times["scipy"].append(cpu(lambda written=written: by_scipy(*written)))
        inside, edge = statistics.median(times["inside"]), statistics.median(times["edge"])
        other = statistics.median(times["scipy"]) if rows is not None else float("nan")
        line = f"{cells:>9,} {design.features:>3} {inside * 1e3:>8.1f} {edge * 1e3:>8.1f}"
        print(f"{line} {other * 1e3:>9.1f}", end="")
        if cells == 128_000:
            print(f"  {other / inside:.0f} times (goal {GOAL_RATIO:.0f})", end="")
        if cells == 1_000_000:
            print(f"  goal {GOAL_SECONDS * 1e3:.0f}", end="")
        print()
    print(f"\n{'loss':>32} {'ms':>8} {'gap':>9} steps   of 128,000 cells, ball 20")
    design, weights = problem(SHAPES[128_000])
    for loss in (
        SquaredLoss(),
        HuberLoss(0.5),
        SVMLoss(0.1),
        SVMLoss(),
        QuantileLoss("0.3", 0.1),
        QuantileLoss("0.3"),
    ):
        start = time.process_time()
        found = minimise(design, loss, SIGNED, weights, Ball(20), tolerance=GAP)
        spent = time.process_time() - start
        print(f"{loss!s:>32.32} {spent * 1e3:>8.1f} {found.gap:>9.1e} {found.steps:>5}")


if __name__ == "__main__":
    main()
