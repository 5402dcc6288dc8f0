"""Cells: counts of all of a universe, or what a strategy makes of those that are asked about."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dpsdk.forms import LinearForm, Lowers
from dpsdk.mechanisms import Matrix, NoisyHistogram
from dpsdk.planner.families.family import Family, concentrated, pure
from dpsdk.planner.families.shape import Shape

__all__ = ["cells"]

_HISTOGRAM_CELLS = 2**24
_QUOTED = 2**18
"""Of more answers the noise of their sums takes long to work out."""

_SLOW = 2**12

_DESIGNED = 32
"""For so many cells a strategy is designed in less than a second, once for a workload."""

_PATIENT = 2**9
"""And for so many where there is time."""


def cells(
    shape: Shape, workload: Lowers[LinearForm], *, delta: bool, patient: bool
) -> Iterator[Family]:
    """Sums of noisy counts of all cells, and the matrix mechanism.

    Parameters
    ----------
    patient
        Whether a plan may take seconds, so that strategies are designed for more cells.
    """
    if shape.form.rows < 2:
        return
    every = "every linear query and every model, off published records"
    if shape.universe <= _HISTOGRAM_CELLS and shape.form.rows <= _QUOTED:
        slow = shape.form.rows > _SLOW
        yield pure(
            "noisy-histogram", lambda epsilon: NoisyHistogram(epsilon=epsilon), every, slow=slow
        )
        if delta:
            yield concentrated("noisy-histogram+gaussian", NoisyHistogram, every, slow=slow)
    # One query alone is planned within milliseconds.
    designed = _PATIENT if patient else _DESIGNED if shape.several else 1
    if 1 < shape.cells <= designed:
        together = f"every linear query on {', '.join(shape.names)}"
        yield pure("matrix", lambda epsilon: Matrix(workload, epsilon=epsilon), together)
        if delta and not shape.tables:  # which the residuals are best for
            yield concentrated("matrix+gaussian", partial(Matrix, workload), together)
