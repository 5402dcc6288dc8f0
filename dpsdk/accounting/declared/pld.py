"""Declared runs by privacy-loss distributions: nearly exact, for runs that are fixed beforehand.

As with every `Declared`, what is said here holds only if no run was chosen by earlier answers;
docs/explanation/proofs/composition-declared.md says why.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, cast

from dpsdk._checks import to_positive, to_probability
from dpsdk.accounting.declared.runs import Declared
from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee
from dpsdk.accounting.numbers import DOWN, float_up, fraction_up, sqrt_up
from dpsdk.accounting.prices.envelope import gaussian_envelope
from dpsdk.accounting.prices.run import leak, pure_epsilon
from dpsdk.errors import MissingExtra, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = ["pld_epsilon"]

_COMMAND = "pip install dp-accounting"


def _library() -> tuple[Any, Any]:
    try:
        # Not installed where types are checked.
        from dp_accounting.pld import (  # noqa: PLC0415  # pyright: ignore[reportMissingImports]
            common,  # pyright: ignore[reportUnknownVariableType]
            privacy_loss_distribution,  # pyright: ignore[reportUnknownVariableType]
        )
    except ImportError:
        raise MissingExtra("dp-accounting", command=_COMMAND) from None
    return cast("Any", privacy_loss_distribution), cast("Any", common)


def pld_epsilon(declared: Declared, delta: Real, *, step: Real = "0.0001") -> float:
    """The ε of declared runs by composing privacy-loss distributions, rounded pessimistically.

    Runs of pure ε, of bounded range and of (ε, δ) enter as randomised response at their ε, with
    their leak. All discrete Gaussians together enter as one Gaussian that is proven to bound them.
    Both orderings of the neighbours are covered, since each of these is symmetric.

    Raises `InvalidArgument` if `delta` or `step` is out of range, `MissingExtra`, which names the
    command, if dp-accounting is not installed, and `UnsupportedGuarantee` if a discrete Gaussian is
    too narrow.

    δ includes leaks, and is strictly between 0 and 1; `step` is the grid of losses: a finer
    one is sharper and takes longer. The answer is infinite where the leaks alone exceed δ. It is
    worked out in floats by dp-accounting, which rounds losses up but does not bound the rounding of
    floats: not for δ of 1e-12 and less.

    Notes
    -----
    Koskela, Jälkö and Honkela (2020); Doroshenko et al. (2022) for the rounding.
    """
    allowed, grid = float(to_probability("delta", delta)), float(to_positive("step", step))
    library, common = _library()
    losses: list[Any] = []
    gaussians: list[tuple[DiscreteGaussianGuarantee, int]] = []
    for run, count in declared.runs:
        if run.free or not count:
            continue
        if isinstance(run, DiscreteGaussianGuarantee):
            gaussians.append((run, count))
            continue
        epsilon = pure_epsilon(run)
        if epsilon is None:
            raise UnsupportedGuarantee(
                str(run), "a declared list", "no theorem gives its distribution"
            )
        size, leaks = float_up(fraction_up(epsilon)), float_up(fraction_up(leak(run)))
        single = library.from_privacy_parameters(
            common.DifferentialPrivacyParameters(size, leaks), grid
        )
        losses.append(single.self_compose(count))
    square = gaussian_envelope(gaussians)
    if square:
        deviation = float(DOWN.divide(1, sqrt_up(fraction_up(square)))) * (1 - 1e-15)
        losses.append(
            library.from_gaussian_mechanism(deviation, value_discretization_interval=grid)
        )
    if not losses:
        return 0.0
    whole: Any = reduce(lambda one, other: one.compose(other), losses)
    return max(0.0, float(whole.get_epsilon_for_delta(allowed)))
