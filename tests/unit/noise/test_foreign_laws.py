"""Laws of other classes are refused, and what is drawn belongs to whoever drew it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dpsdk.errors import InvalidArgument
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseSource, SystemNoise
from dpsdk.testing import seeded
from dpsdk.testing.audit import BranchingNoise

Law = type[DiscreteLaplace] | type[DiscreteGaussian] | type[Geometric]
CLASSES: list[Law] = [DiscreteLaplace, DiscreteGaussian, Geometric]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("source", [SystemNoise, lambda: seeded(1), BranchingNoise])
def test_every_source_refuses_foreign_laws(cls: Law, source: Callable[[], NoiseSource]) -> None:
    class Plain(cls):  # type: ignore[misc, valid-type]  # one of three classes
        pass

    for law in (Plain(5), object(), None, cls):
        with pytest.raises(InvalidArgument, match="law"):
            source().draw(law, 1)  # type: ignore[arg-type]  # the refusal is what is tested


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("size", [1, 100, 5000])
def test_writing_into_what_was_drawn_changes_no_later_draw(cls: Law, size: int) -> None:
    def run(write: bool) -> list[list[int]]:
        source, results = seeded(79), []
        for _ in range(5):
            drawn = source.draw(cls(10**12), size)
            results.append(drawn.tolist())
            if write:
                drawn[...] = 0
        return results

    assert run(write=True) == run(write=False)
    assert np.count_nonzero(run(write=False)) > 0
