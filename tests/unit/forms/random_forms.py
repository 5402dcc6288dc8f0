"""Random small forms of every kind of block and factor."""

import numpy as np

from dpsdk import Domain, Integer
from dpsdk.forms import (
    Boxes,
    Cuts,
    Dense,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Ramp,
    Range,
    Residual,
    Toeplitz,
    Weights,
    Within,
)


def random_factor(rng, size, *, whole):
    kind = rng.integers(12)
    if kind == 0:
        return Identity(size)
    if kind == 1:
        return Prefix(size)
    if kind == 2:
        start = int(rng.integers(size + 1))
        return Range(size, start, int(rng.integers(start, size + 1)))
    if kind == 3:
        return Weights(rng.integers(0, 2, (1, size)))
    if kind == 6:
        return Groups(size, int(rng.integers(1, size + 1)))
    if kind == 7:
        return Toeplitz(rng.integers(-2, 3, size) if whole else rng.normal(size=size))
    if kind == 8:
        return Residual(size)
    if kind == 9:
        return Ramp(size, *(int(end) for end in rng.integers(-3, 4, 2)))
    if kind == 10:
        return Cuts(size, np.unique([0, *rng.integers(0, size, 2)]))
    if kind == 11:
        inner = int(rng.integers(1, size + 1))
        first = int(rng.integers(size - inner + 1))
        return Within(random_factor(rng, inner, whole=whole), size, first)
    shape = (int(rng.integers(1, 4)), size)
    if whole or kind == 4:
        return Weights(rng.integers(-2, 3, shape))
    return Weights(rng.normal(size=shape))


def random_boxes(rng, domain, *, whole=True, most=4):
    """A block of boxes, with empty ones, several scales, and cells that never count."""
    names = tuple(n for n in domain.names if rng.random() < 0.7) or domain.names[-1:]
    shape = tuple(domain[n].size for n in names)
    count = int(rng.integers(1, most + 1))
    ends = np.sort([rng.integers(0, size + 1, (count, 2)) for size in shape], axis=2)
    scales = rng.integers(-2, 3, count) if whole else rng.normal(size=count)
    lines = tuple(
        rng.integers(0, 2, size).astype(float) if rng.random() < 0.3 else None for size in shape
    )
    return Boxes(names, shape, ends[:, :, 0], ends[:, :, 1], scales.astype(float), lines)


def random_domain(rng, most=4):
    return Domain(
        *(Integer(f"a{i}", 0, int(rng.integers(most))) for i in range(rng.integers(1, 4)))
    )


def random_form(rng, domain=None, *, whole=True, dense=0.25, blocks=5, boxes=0.2):
    domain = random_domain(rng) if domain is None else domain
    made = []
    for _ in range(rng.integers(1, blocks)):
        if rng.random() < boxes:
            made.append(random_boxes(rng, domain, whole=whole))
        elif rng.random() < dense:
            names = tuple(n for n in domain.names if rng.random() < 0.7) or domain.names[:1]
            shape = tuple(domain[n].size for n in names)
            cells = (int(rng.integers(1, 4)), int(np.prod(shape)))
            drawn = rng.integers(-2, 3, cells) if whole else rng.random(cells)
            made.append(Dense(names, shape, drawn))
        else:
            chosen = [n for n in domain.names if rng.random() < 0.7]
            factors = {n: random_factor(rng, domain[n].size, whole=whole) for n in chosen}
            block = Kronecker.of(domain, factors)
            if rng.random() < 0.3:
                scale = float(rng.integers(-3, 4)) if whole else float(rng.normal())
                block = Kronecker(block.names, block.factors, scale)
            made.append(block)
    return LinearForm(domain, made)
