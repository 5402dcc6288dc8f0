"""`Sketch`: noisy descent on few random combinations of many features."""

from __future__ import annotations

import math

import numpy as np

from dpsdk._checks import require, shown, to_beta, to_count, to_integer
from dpsdk._records import evolve, field, frozen
from dpsdk.accuracy import ScalarAccuracy, Standing
from dpsdk.codec import ENDLESS, INTEGER, NUMBER, Nested, written
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError, TooLarge
from dpsdk.forms import Ball, ConvexForm
from dpsdk.forms.convex import WEIGHT_LIMIT
from dpsdk.forms.design import Coordinates, longest
from dpsdk.hypothesis.streams import Seed, Streams, to_key
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms.arguments import COUNT
from dpsdk.mechanisms.convex.descent import (
    PRIVATE_BETA,
    NoisyDescent,
    check_gradient,
    descend,
    optional_beta,
)
from dpsdk.mechanisms.convex.descent_bounds import DescentAccuracy, Problem, Runs, read_numbers
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Floats

__all__ = ["Sketch", "SketchAccuracy", "SketchedProblem", "distortion"]

_WIDER = 1.5
"""Margins on a sketch are no more than so many times what they were."""

_WORST = 0.5
"""The inequality behind a sketch is for distortions up to this."""

_UNPROMISED = NoAccuracy(
    "a descent on a sketch of a given size, of which nothing is proven",
    "use Sketch.textbook, which bounds the excess risk",
)

_LENGTHENED = NoAccuracy(
    "a sketch that lengthened a feature vector by more than it may",
    "ask again, since another one is drawn then",
)


def distortion(size: int, vectors: int, beta: float) -> float:
    """e: a Gaussian sketch of so many rows keeps inner products with a fixed vector up to e.

    With probability 1 - beta, |⟨Φu, Φx⟩ - ⟨u, x⟩| ≤ e‖u‖‖x‖ for each x of so many vectors, and the
    squares of ‖Φx‖ and ‖Φu‖ are at most 1 + e times those of ‖x‖ and ‖u‖. Infinite where no such e
    up to ½ follows.
    """
    e = math.sqrt(6.0 * math.log((5.0 * vectors + 1.0) / beta) / size)
    return e if e <= _WORST else math.inf


def _size(value: int | None) -> int | None:
    expected = "a positive number of coordinates"
    size = None if value is None else to_integer("size", value, expected)
    require(size is None or size >= 1, "size", expected, value)
    return size


@written(
    "oracle.sketch",
    {
        "size": COUNT,
        "descent": Nested[NoisyDescent]("a descent", NoisyDescent),
        "beta": PRIVATE_BETA,
    },
)
@frozen(kw_only=True)
class Sketch(Oracle):
    """Noisy descent in a few dimensions, which are random combinations Φx of the features.

    Φ has independent normal entries, is public, and is drawn anew for each model. A θ of the sketch
    answers as Φᵀθ, which may lie outside the set of the query: its predictions are what is bounded,
    not its length. This pays for far more features than rows times ε only.

    Parameters
    ----------
    size
        The number of combinations. For `textbook` the one with the lowest bound, if left out.
    descent
        How θ is found.
    """

    size: int | None = field(default=None, converter=_size)
    descent: NoisyDescent = field(factory=NoisyDescent)
    _beta: float | None = field(default=None, converter=optional_beta, alias="_beta")

    def __attrs_post_init__(self) -> None:
        require(isinstance(self.descent, NoisyDescent), "descent", "a NoisyDescent", self.descent)
        if self.descent.ridge:
            # The length of Φᵀθ is not that of θ.
            raise InvalidArgument("descent", "one without a ridge", shown(self.descent))
        if self._beta is None and self.size is None:
            raise InvalidArgument("size", "given; Sketch.textbook chooses one", "nothing")

    @classmethod
    def textbook(cls, *, beta: float = 0.05, steps: int = 512, size: int | None = None) -> Sketch:
        """The dimension-free theorem 4.3 of Ullman (2015), for any loss of margins on a ball.

        By a sketch before the descent of `NoisyDescent.textbook` (compare Arora, Bassily, Guzmán,
        Menart and Ullah 2022), where Jain and Thakurta (2014) perturb an exact minimum. With
        probability 1 - `beta`, over Φ and the noise, the excess risk is within the bound
        (docs/explanation/proofs/descent.md), which does not grow with the number of features.
        Raises `PublicSizeRequired` when it is asked, if the number of rows is private, and
        `InvalidArgument` when it is asked, if the set is no ball around 0, or if no sketch is
        proven that is smaller than the number of features.

        Parameters
        ----------
        beta
            As for `NoisyDescent.textbook`; half of it is for Φ.
        steps
            At most so many gradients are measured.
        size
            As for the class.
        """
        checked = to_beta(beta)
        descent = NoisyDescent.textbook(beta=checked / 2, steps=steps)
        return cls(size=size, descent=descent, _beta=checked)

    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        bound = self._planned(form, terms, total)
        # What is paid is the same for every Φ; that of 0 stands for one that is yet to be drawn.
        sketched, _ = self._drawn(form, to_key(0), bound)
        if bound is None:
            quote = self.descent.quote(sketched, terms, total)
            return Quote(quote.at_open, quote.at_most, _UNPROMISED)
        check_gradient(sketched, bound.runs, terms)
        return Quote(Cost(), bound.runs.cost, bound)

    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """As of `Oracle`. No solver runs and certifies a gap, which is infinite."""
        bound = self._planned(form, kernel.terms, total)
        sketched, matrix = self._drawn(form, to_key(kernel.randomness), bound)
        if bound is None:
            found, known = self.descent.minimise(sketched, kernel, total), _UNPROMISED
            return Measurement(np.append(matrix.T @ found.values[:-1], math.inf), known)
        kept = longest(sketched.coordinates) <= bound.problem.longest(bound.planned)
        theta, accuracy = descend(
            sketched, bound.descent.descent, bound.runs, kernel, bound if kept else _LENGTHENED
        )
        return Measurement(np.append(matrix.T @ theta, math.inf), accuracy)

    def alpha0(self, form: ConvexForm, terms: Terms, total: Total, beta: float, /) -> float:
        """α₀: what the excess risk does not exceed with probability 1 - beta. Public, and free.

        Raises `InvalidArgument` if it is not of `textbook`, or as that says.
        """
        bound = self._planned(form, terms, total)
        if bound is None:
            raise InvalidArgument("Sketch", "one of Sketch.textbook", repr(self))
        return bound.error(beta)

    def sketched(
        self, form: ConvexForm, seed: Seed | None = None, *, size: int | None = None
    ) -> tuple[ConvexForm, Floats]:
        """The query on the sketch, and Φ: a θ of the sketched query answers as Φᵀθ.

        Public, and free. So a whole query over a ball can be sketched before it is watched, as
        theorem 4.4 has it. The public seed of Φ comes from the operating system, and the number of
        combinations is that of the oracle, if left out.
        """
        taken = size or self.size
        if taken is None:
            raise InvalidArgument("size", "given, to the oracle or here", "nothing")
        _radius(form)
        _check_size(form, taken)
        return _sketched(form, taken, to_key(seed), self._excess(form, taken))

    def _drawn(
        self, form: ConvexForm, key: bytes, bound: SketchAccuracy | None
    ) -> tuple[ConvexForm, Floats]:
        if bound is None:
            return _sketched(form, self.size or 1, key, 0.0)
        return _sketched(form, bound.problem.size, key, bound.planned)

    def _excess(self, form: ConvexForm, size: int) -> float:
        if self._beta is None:
            return 0.0
        e = distortion(size, _vectors(form), self._beta / 2)
        return e if e < math.inf else _WORST

    def _planned(self, form: ConvexForm, terms: Terms, total: Total) -> SketchAccuracy | None:
        """The promise with the least bound; None of a descent that promises nothing."""
        _radius(form)
        if self._beta is None:
            _check_size(form, self.size or 1)
            return None
        if terms.facts.rows is None:
            reason = "its bound is of an average over the rows, whose number is private here"
            raise PublicSizeRequired("Sketch.textbook", reason)
        least = math.floor(24.0 * math.log((5.0 * _vectors(form) + 1.0) / (self._beta / 2))) + 1
        sizes = [self.size] if self.size is not None else _sizes(least, form.dimension - 1)
        known = [self._bound(form, size, terms, total) for size in sizes if size >= least]
        if not known:
            got = f"{form.dimension} features" if self.size is None else f"size={self.size}"
            expected = f"of {least} coordinates or more, and of fewer than there are features"
            raise InvalidArgument("a sketch", expected, got)
        bound = min(known, key=lambda one: one.error(self._beta or 1.0))
        _check_size(form, bound.problem.size)
        return bound

    def _bound(self, form: ConvexForm, size: int, terms: Terms, total: Total) -> SketchAccuracy:
        e = self._excess(form, size)
        reach = _radius(form) * longest(form.coordinates) * (1.0 + e)
        problem = _problem(form, size, reach)
        runs, descent = self.descent.planned(problem.problem(e), terms, total)
        return SketchAccuracy(DescentAccuracy(descent), runs, problem, e)

    def __repr__(self) -> str:
        size = [] if self.size is None else [f"size={self.size}"]
        if self._beta is None:
            return f"Sketch({', '.join([*size, f'descent={self.descent!r}'])})"
        given = [f"beta={self._beta:g}", f"steps={self.descent.steps}", *size]
        return f"Sketch.textbook({', '.join(given)})"


@frozen
class SketchAccuracy(ScalarAccuracy):
    """By how much the average loss of a sketched model exceeds the least one of the ball."""

    descent: DescentAccuracy
    """Of the descent on the sketch."""
    runs: Runs
    """The price of its gradients."""
    problem: SketchedProblem
    planned: float
    """The distortion by which the ball on the sketch was widened; a smaller β gets no bound."""
    kind: str = "a Gaussian sketch, and the convergence of noisy gradient descent on it"
    standing: Standing = field(init=False, default="proven")

    @property
    def span(self) -> float:  # type: ignore[override]  # the base has a field without a setter
        """By how much the loss varies."""
        return self.problem.range

    def error(self, beta: float) -> float:
        """In the unit of the loss; half of beta is for the sketch."""
        half = to_beta(beta) / 2
        e = self.problem.distortion(half)
        return self.problem.lost(e) + self.descent.error(half) if e <= self.planned else math.inf


def _radius(form: ConvexForm) -> float:
    if not isinstance(form, ConvexForm):
        raise QueryError("", "asks for no model; Sketch answers ConvexMinimization only")
    if not isinstance(form.over, Ball):
        expected = "a Ball: a sketch keeps lengths, and no sides of boxes or simplices"
        raise InvalidArgument("over", expected, shown(form.over))
    return form.over.radius


def _vectors(form: ConvexForm) -> int:
    """No table has more different feature vectors."""
    return max(1, form.cells // len(form.targets))


def _check_size(form: ConvexForm, size: int) -> None:
    if size * form.cells > WEIGHT_LIMIT:
        advice = "use a smaller sketch, or coarser attributes"
        raise TooLarge("a gradient of a sketch", size * form.cells, WEIGHT_LIMIT, "weights", advice)


def _sizes(least: int, most: int) -> list[int]:
    """Sizes from the least to the most, each about a quarter larger than the last."""
    sizes: list[int] = []
    size = float(least)
    while size <= most:
        sizes.append(int(size))
        size = max(size * 1.25, size + 1)
    return [*sizes, most] if sizes and sizes[-1] < most else sizes


def _sketched(form: ConvexForm, size: int, key: bytes, e: float) -> tuple[ConvexForm, Floats]:
    matrix = _normal(size * form.dimension, key).reshape(size, -1) / math.sqrt(size)
    names = tuple([name for name in form.names if name != form.label])
    shape = tuple([form.domain[name].known for name in names])
    values, start = np.zeros((size, *shape)), 0
    for one in form.coordinates:
        part = matrix[:, start : start + one.width]
        values = values + np.tensordot(part, one.spread(names), axes=1)
        start += one.width
    ball = Ball(_radius(form) * math.sqrt(1.0 + e))
    return evolve(form, coordinates=[Coordinates(names, values)], over=ball), matrix


def _normal(count: int, key: bytes) -> Floats:
    """Independent standard normal numbers (Box and Muller 1958), public ones."""
    streams = Streams(count, key)
    lengths = np.sqrt(-2.0 * np.log1p(-streams.levels("length")))
    return lengths * np.cos(2.0 * math.pi * streams.levels("angle"))


@written(
    "problem.sketched",
    {
        "size": INTEGER,
        "vectors": INTEGER,
        "slope": NUMBER,
        "bend": NUMBER,
        "norm": NUMBER,
        "radius": NUMBER,
        "range": ENDLESS,
    },
)
@frozen(kw_only=True)
class SketchedProblem:
    """The public constants of models over a ball, each of which is asked about on a sketch.

    Sketches are as for `Sketch`, so that nothing depends on the number of features.

    Parameters
    ----------
    size, vectors
        The number of rows of Φ, and of different feature vectors at the most.
    slope, bend
        The loss moves no faster with the margin, for margins up to 1.5 times radius times norm, and
        that slope no faster either.
    norm, radius
        No feature vector is longer; and the radius of the ball, around 0.
    range
        By how much the loss of one record varies over these margins.
    """

    size: int
    vectors: int
    slope: float
    bend: float
    norm: float
    radius: float
    range: float = math.inf

    def __attrs_post_init__(self) -> None:
        for name in ("size", "vectors"):
            object.__setattr__(self, name, to_count(name, getattr(self, name)))
        read_numbers(self, "slope", "norm", "radius", positive=True)
        read_numbers(self, "bend", "range", endless=True)

    @classmethod
    def of(cls, form: ConvexForm, size: int) -> SketchedProblem:
        """The constants of a query over a ball."""
        require(isinstance(form, ConvexForm), "form", "that of a ConvexMinimization", form)
        return _problem(form, size, _WIDER * _radius(form) * longest(form.coordinates))

    def distortion(self, beta: float) -> float:
        """The distortion of inner products by a sketch, up to ½; infinite where nothing follows."""
        return distortion(self.size, self.vectors, beta)

    def lost(self, distortion: float) -> float:
        """The most that the least loss of a model rises by on a sketch."""
        return self.slope * self.radius * self.norm * distortion

    def longest(self, distortion: float) -> float:
        """No sketched feature vector is longer, if all goes well."""
        return self.norm * math.sqrt(1.0 + distortion)

    def problem(self, distortion: float) -> Problem:
        """The constants on a sketch."""
        norm = self.longest(distortion)
        return Problem(
            dimension=self.size,
            lipschitz=self.slope * norm,
            smoothness=self.bend * norm**2,
            radius=self.radius * math.sqrt(1.0 + distortion),
            range=self.range,
        )


def _problem(form: ConvexForm, size: int, reach: float) -> SketchedProblem:
    """The constants of a query for margins up to `reach`."""
    constants = form.loss.constants(-reach, reach, form.targets.tolist())
    return SketchedProblem(
        size=size,
        vectors=_vectors(form),
        slope=constants.lipschitz,
        bend=constants.smoothness,
        norm=longest(form.coordinates),
        radius=_radius(form),
        range=constants.range,
    )
