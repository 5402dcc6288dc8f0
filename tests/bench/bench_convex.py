"""Convex minima beside scipy: CPU milliseconds to a certified gap of 1e-6, on one-hot universes.

python tests/bench/bench_convex.py [--rounds 3] [--largest 1000000]

Cells are those of the universe with its two labels. Labels are planted, weights Dirichlet. scipy's
solvers get the same sums over attributes as ours, value and gradient at once, and stop at the first
iterate in the set whose own Frank-Wolfe gap is 1e-6; they know no ball but as a constraint. Times
are medians of interleaved rounds, of one thread if OMP_NUM_THREADS=1 is set.
"""

import contextlib
import time
import warnings

import numpy as np
from measuring import arguments, medians
from scipy import optimize

from dpsdk.forms import Design, minimise
from dpsdk.losses import HuberLoss, LogisticLoss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.queries import Ball, Box, Simplex

SHAPES = {
    1_000: (10, 10, 5),
    16_000: (10, 8, 10, 10),
    128_000: (8, 5, 8, 5, 8, 5),
    1_000_000: (10, 10, 10, 10, 10, 5),
}
GAP = 1e-6
SIGNED = [-1.0, 1.0]
SMOOTH = (LogisticLoss(), SquaredLoss(), HuberLoss(0.5), SVMLoss(0.1), QuantileLoss("0.3", 0.1))
KINKED = (SVMLoss(), QuantileLoss("0.3"))


def problem(shape):
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
    """A solver of scipy's has reached the gap."""


def by_scipy(design, weights, loss, over, method):
    def function(theta):
        z = design.margins(theta)
        value, slopes = 0.0, np.zeros_like(z)
        for label, line in zip(SIGNED, weights, strict=True):
            value += float(line @ loss.value(z, label))
            slopes += line * loss.derivative(z, label)
        gradient = design.gradient(slopes)
        if over.contains(theta, tolerance=1e-12) and over.gap(theta, gradient) <= GAP:
            raise _Certified
        return value, gradient

    bounds, constraints = None, ()
    if isinstance(over, Box):
        bounds = optimize.Bounds(*over.sides(design.features))
    elif isinstance(over, Simplex):
        bounds = optimize.Bounds(0.0, 1.0)
        constraints = optimize.LinearConstraint(np.ones((1, design.features)), 1.0, 1.0)
    elif isinstance(over, Ball) and method == "SLSQP":
        square = over.radius**2
        constraints = {"type": "ineq", "fun": lambda t: square - t @ t, "jac": lambda t: -2 * t}
    options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 0, "gtol": 0}
    with contextlib.suppress(_Certified), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimize.minimize(
            function,
            over.centre(design.features),
            jac=True,
            method=method,
            bounds=bounds,
            constraints=constraints,
            options=options if method == "L-BFGS-B" else {"maxiter": 1_000, "ftol": 1e-16},
        )


def main():
    given = arguments(__doc__, rounds=3, largest=1_000_000)
    print(f"{'cells':>9} {'loss':>24} {'set':>10} {'ours':>7} {'gap':>8} {'steps':>5} {'scipy':>7}")
    for cells, shape in SHAPES.items():
        if cells > given.largest:
            continue
        design, weights = problem(shape)
        for loss in (*SMOOTH, *KINKED) if cells > 16_000 else SMOOTH[:1]:
            free = minimise(design, loss, SIGNED, weights, Ball(20))
            edge = Ball(0.3 * float(np.linalg.norm(free.theta)))
            sets = {"ball": Ball(20), "its edge": edge, "box": Box(-0.5, 0.5), "simplex": Simplex()}
            for name, over in sets.items():
                method = "L-BFGS-B" if name in ("ball", "box") else "SLSQP"
                ours = lambda: minimise(design, loss, SIGNED, weights, over, tolerance=GAP)  # noqa: B023, E731
                calls = [ours]
                if not loss.kinked:
                    calls.append(lambda: by_scipy(design, weights, loss, over, method))  # noqa: B023
                spent = [*medians(given.rounds, *calls, clock=time.process_time), float("nan")]
                least = ours()
                print(
                    f"{cells:>9,} {loss!s:>24.24} {name:>10} {spent[0] * 1e3:>7.1f} "
                    f"{least.gap:>8.0e} {least.steps:>5} {spent[1] * 1e3:>7.1f}"
                )


if __name__ == "__main__":
    main()
