"""Thresholds of one ordered attribute: counted along the running counts of its atoms."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from typing_extensions import override

from dpsdk.data.counts import Counts
from dpsdk.kernel.draw_database.axis import Axis
from dpsdk.kernel.draw_database.chain import Chain, Course
from dpsdk.kernel.draw_database.part import Aim, Effort, Part, Profile
from dpsdk.kernel.draw_database.ways import Ways
from dpsdk.noise import NoiseSource

__all__ = ["Thresholds", "course"]


def course(axis: Axis, histogram: Counts, aim: Aim) -> Course:
    """The running counts of a private table along an attribute."""
    (codes,), counts = histogram.records((axis.name,))
    return Course.of(axis.pieces, aim.rows, aim.size, axis.locate(codes), counts.astype("int64"))


@frozen(eq=False)
class Thresholds(Part):
    """How many records lie at or before the end of each piece of an axis, but for the last."""

    axis: Axis

    @property
    @override
    def names(self) -> tuple[str, ...]:  # type: ignore[override]  # derived here, a field elsewhere
        return (self.axis.name,)

    @property
    @override
    def atoms(self) -> int:
        return self.axis.pieces

    @property
    @override
    def spare(self) -> bool:
        return True

    @override
    def profile(self, histogram: Counts, aim: Aim) -> Profile:
        return _Near(course(self.axis, histogram, aim), aim)

    @override
    def fill(self, atom: int, noise: NoiseSource) -> tuple[int, ...]:
        return (self.axis.fill(atom, noise),)

    @override
    def effort(self, aim: Aim, width: int) -> Effort:
        steps = min(2 * aim.size, self.atoms) + 1
        return Effort(steps, steps * width * width // 2, steps * width)


@frozen(eq=False)
class _Near(Profile):
    course: Course
    aim: Aim

    @override
    def ways(self, level: int) -> Ways:
        return self._chain(level).ways

    def _chain(self, level: int) -> Chain:
        reach = level * self.aim.size
        checks = self.course.checks(-reach, reach)
        steps = self.course.steps(checks, -reach, reach)
        return Chain.along(steps, ordered=self.aim.ordered)

    @override
    def sample(self, level: int, records: int, noise: NoiseSource) -> list[int]:
        return self._chain(level).sample(records, noise)

    @override
    def score(self, atoms: Sequence[int]) -> int:
        low, high = self.course.extremes(atoms, last=False)
        return self.aim.score(max(-low, high))
