"""Mixtures of pure and Gaussian runs, to see which composition admits how many of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsdk.accounting import (
    AdvancedComposition,
    BasicComposition,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    Guarantee,
    MixedComposition,
    PureGuarantee,
    RenyiComposition,
    State,
    ZCDPComposition,
    default_composition,
)
from dpsdk.errors import UnsupportedGuarantee
from dpsdk.kernel import GaussianNoise
from dpsdk.mechanisms import Gaussian

BUDGET = Budget(1, "1e-6")


def compositions(order: int = 30, **leaks: str) -> dict[str, Composition]:
    """Every composition, with the order that is given and, if one is, a share for leaks."""
    return {
        "basic": BasicComposition(),
        "advanced": AdvancedComposition(**leaks),
        "zCDP": ZCDPComposition(**leaks),
        f"Rényi, order {order}": RenyiComposition(order, **leaks),
        "envelope": EnvelopeComposition(**leaks),
        "mixed": MixedComposition(**leaks),
        "default": default_composition(**leaks),
    }


COMPOSITIONS = compositions()


def gaussian(noise: GaussianNoise) -> DiscreteGaussianGuarantee:
    """A run with noise of 8 lattice steps or more, as the kernel makes it."""
    shift = 1
    while shift**2 < 64 * 2 * noise.rho:
        shift *= 2
    return DiscreteGaussianGuarantee(shift**2 / (2 * noise.rho), shift**2, shift, noise.claim)


def by_rho(rho: str) -> DiscreteGaussianGuarantee:
    return gaussian(GaussianNoise(Fraction(rho)))


def by_pair(epsilon: str, delta: str) -> DiscreteGaussianGuarantee:
    return gaussian(Gaussian(epsilon=epsilon, delta=delta).noise)


def laplace(epsilon: str) -> PureGuarantee:
    return PureGuarantee(epsilon)


Mixture = tuple[str, Sequence[Guarantee], Sequence[Guarantee]]
"""Its name, what comes first, and what is then asked over and over."""

TINY, PAIR = by_rho("0.0001"), by_pair("0.05", "1e-7")

MIXTURES: list[Mixture] = [
    ("Laplace 0.01", (), (laplace("0.01"),)),
    ("Laplace 0.1", (), (laplace("0.1"),)),
    ("Laplace 0.2", (), (laplace("0.2"),)),
    ("Gaussian ρ 0.0001, then Laplace 0.01", (TINY,), (laplace("0.01"),)),
    ("Gaussian ρ 0.0001, then Laplace 0.1", (TINY,), (laplace("0.1"),)),
    ("Gaussian ρ 0.0001, then Laplace 0.2", (TINY,), (laplace("0.2"),)),
    ("100 Gaussians ρ 0.00001, then Laplace 0.2", (by_rho("0.00001"),) * 100, (laplace("0.2"),)),
    ("Gaussian (0.05, 10⁻⁷), then Laplace 0.01", (PAIR,), (laplace("0.01"),)),
    ("Gaussian (0.05, 10⁻⁷), then Laplace 0.1", (PAIR,), (laplace("0.1"),)),
    ("Gaussian (0.05, 10⁻⁷), then Laplace 0.2", (PAIR,), (laplace("0.2"),)),
    ("two Laplace 0.3, then Gaussians ρ 0.0005", (laplace("0.3"),) * 2, (by_rho("0.0005"),)),
    ("pairs of Laplace 0.1 and Gaussian ρ 0.001", (), (laplace("0.1"), by_rho("0.001"))),
    ("pairs of Laplace 0.01 and Gaussian ρ 0.00005", (), (laplace("0.01"), by_rho("0.00005"))),
    ("pairs of Laplace 0.2 and Gaussian ρ 0.0005", (), (laplace("0.2"), by_rho("0.0005"))),
    ("pairs of Laplace 0.1 and Gaussian (0.1, 10⁻⁸)", (), (laplace("0.1"), by_pair("0.1", "1e-8"))),
    ("pairs of Laplace 0.2 and Gaussian (0.2, 10⁻⁷)", (), (laplace("0.2"), by_pair("0.2", "1e-7"))),
    ("Gaussians (0.2, 10⁻⁷)", (), (by_pair("0.2", "1e-7"),)),
]


def rounds(composition: Composition, mixture: Mixture) -> int | None:
    """How often all that is asked fits after what comes first; None where some run has no price."""
    _, first, asked = mixture
    state: State | None = composition.begin(BUDGET)
    try:
        for run in first:
            state = composition.charge(state, run) if state is not None else None
        return 0 if state is None else composition.rounds(state, asked)
    except UnsupportedGuarantee:
        return None


def table() -> str:
    """Every mixture under every composition, as a table in Markdown."""
    lines = [f"| runs | {' | '.join(COMPOSITIONS)} |", "|---|" + "---|" * len(COMPOSITIONS)]
    for mixture in MIXTURES:
        counts = [rounds(composition, mixture) for composition in COMPOSITIONS.values()]
        shown = ["no price" if count is None else f"{count}" for count in counts]
        shown[-1] = f"**{shown[-1]}**"
        lines.append(f"| {mixture[0]} | {' | '.join(shown)} |")
    return "\n".join(lines)
