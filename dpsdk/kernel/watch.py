"""The primitive `watch`: which gap of a stream is the first above a threshold.

Theorem (docs/explanation/proofs/watch.md). One run answers any number of adaptively chosen gaps
of sensitivity Δ, the rows that one person may have, with "below", and one with "above", which ends
it. With geometric noise of scale
Δ / ε1 on the threshold and of scale 2 Δ / ε2 on every gap, all on one lattice, a run is
(ε1 + ε2)-DP; with c answers "above" under one threshold it is (ε1 + c ε2)-DP. The size by which
the noisy gap exceeded the noisy threshold is free.

Below a threshold θ means: the gap is less than θ plus the noise of the threshold alone.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn, TypeVar, final

import numpy as np

from dpsdk._checks import shown, to_count, to_positive, to_within, whole_repr
from dpsdk._identity_map import IdentityMap
from dpsdk._locks import ExclusiveLock
from dpsdk._records import define, field, frozen, shows_half_made
from dpsdk.accounting import Guarantee, PureGuarantee
from dpsdk.data.counts import Counts
from dpsdk.errors import Closed, InvalidArgument, Redacted
from dpsdk.forms import Facts, Gap, GapForm, ProximalGapForm
from dpsdk.kernel.access import Access, Allowance, access_of
from dpsdk.kernel.gaps import (
    FARTHEST,
    LatticeGaps,
    RoundedForm,
    bits_of_row,
    in_rows,
    prepare_gaps,
    prepare_proximal,
)
from dpsdk.kernel.lattice import allowed_bits, finest, on_given_lattice, prepare_form
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import Geometric, NoiseSource
from dpsdk.release import HalfWidths, Standing
from dpsdk.typing import Bools, Floats, Ints, Real

if TYPE_CHECKING:
    from dpsdk.kernel.kernel import Kernel

__all__ = ["RunPricing", "Top", "Watch", "Watching", "run_share"]

R = TypeVar("R")

_FIRST_CHUNK = 256
_SATURATED = 2**62 - 1
"""The value at which the draws of a source end."""


def _threshold(value: Real) -> Fraction:
    return to_positive("threshold_epsilon", value)


def _query(value: Real) -> Fraction:
    return to_positive("query_epsilon", value)


def _tops(value: int | None) -> int | None:
    return None if value is None else to_count("tops", value)


@frozen(cache_hash=True)
class Watching:
    """The parameters of a watch, all public.

    A run is paid when it opens and ends with its first "above". With `tops`, one run is paid at
    once that ends with as many. `threshold_epsilon` goes to the noise of the threshold,
    `query_epsilon` to that of the gaps, for each answer "above".
    """

    threshold_epsilon: Fraction = field(converter=_threshold, repr=whole_repr)
    query_epsilon: Fraction = field(converter=_query, repr=whole_repr)
    tops: int | None = field(default=None, converter=_tops)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of one run."""
        return PureGuarantee(self.threshold_epsilon + (self.tops or 1) * self.query_epsilon)

    def threshold_noise(self, facts: Facts, steps: int = 1) -> Geometric:
        """The law of the threshold's noise on a lattice of so many steps a row."""
        return Geometric(facts.unit_rows * steps / self.threshold_epsilon)

    def query_noise(self, facts: Facts, steps: int = 1) -> Geometric:
        """The law of a gap's noise on a lattice of so many steps a row."""
        return Geometric(2 * facts.unit_rows * steps / self.query_epsilon)

    def mean_noise(self, facts: Facts) -> float:
        """The average excess of the noise of a gap over that of the threshold, in rows."""
        return facts.unit_rows * float(2 / self.query_epsilon - 1 / self.threshold_epsilon)

    def lattice_bits(self, facts: Facts) -> int:
        """How many lattice points a row is cut into, as a power of two."""
        # So fine that half a step a row stays below a thousandth of the scale of a gap's noise.
        parts = 512 * max(facts.row_limit, 1) * float(self.query_epsilon) / facts.unit_rows
        return min(finest(math.log2(max(parts, 1.0))), allowed_bits(facts.row_limit))

    def price(self, terms: Terms, /) -> RunPricing:
        """Price one run and bound its error. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If its noise would be wider than the lattice of the table can hold.
        """
        facts = facts_of(terms)
        _laws(self, facts)
        return RunPricing(self.guarantee, RunAccuracy(self, facts))

    def below(
        self, beta: float, facts: Facts, runs: int = 1, form: RoundedForm | None = None
    ) -> float:
        """How much larger than its threshold a gap called "below" may be, in rows.

        With probability 1 - beta no such gap of so many runs, all of them together, is larger.
        `form` is what the gaps are of, which may round to the lattice by more than the rest. For
        gaps of another sensitivity than a row, all figures are in multiples of that: of `unit`.
        """
        return self._threshold_radius(beta, facts, runs) + self.rounding(facts, form)

    def below_in(
        self,
        run: int,
        beta: float,
        facts: Facts,
        runs: int,
        form: RoundedForm | None = None,
    ) -> float:
        """The same for gaps called "below" in a run, of no more than so many, up to that number.

        Which run is open at a question depends on the noise: a run whose threshold came out high
        lives longer. So the bounds of all runs hold together with probability 1 - beta, that of a
        later run being the wider (docs/explanation/proofs/watch.md).
        """
        part = beta * run_share(min(run, runs), runs)
        return self._threshold_radius(part, facts, 1) + self.rounding(facts, form)

    def _threshold_radius(self, beta: float, facts: Facts, runs: int) -> float:
        steps = 1 << self.lattice_bits(facts)
        return self.threshold_noise(facts, steps).radius(beta, runs) / steps

    def above(self, beta: float, facts: Facts, gaps: int, form: RoundedForm | None = None) -> float:
        """How much smaller than its threshold a gap called "above" may be, in rows.

        With probability 1 - beta no such gap among so many asked is smaller.
        """
        steps = 1 << self.lattice_bits(facts)
        radius = self.query_noise(facts, steps).radius(beta, gaps) / steps
        return radius + self.rounding(facts, form)

    def rounding(self, facts: Facts, form: RoundedForm | None = None) -> float:
        """How much rounding weights, rates and thresholds to the lattice can move a gap, in rows.

        Of forms whose weights change by half a step at the most, if none is given; of gaps in
        multiples of their `unit`.
        """
        step = 2.0 ** -self.lattice_bits(facts)
        usual = (facts.row_limit + 1) * step
        if form is None:
            return usual
        if isinstance(form, ProximalGapForm):
            gaps = prepare_proximal(form, facts, self.lattice_bits(facts))
            return gaps.rounding(facts.row_limit, step)
        bits = self.lattice_bits(facts)
        if isinstance(form, GapForm):
            unit, bits = form.moved(facts), bits_of_row(form, facts, bits)
            change = on_given_lattice(prepare_form(form.form, facts), bits, "gap")[1] / unit
        else:
            change = on_given_lattice(prepare_form(form, facts), bits, "gap")[1]
        return max(usual, usual + facts.row_limit * (change - step / 2))

    def unit(self, facts: Facts, gap: Gap) -> float:
        """In what unit all these figures are: how far one record moves such a gap, as charged.

        What moves a `ProximalGapForm`, with its gradient on the lattice; a row for a `GapForm` of
        weights from 0 to 1.
        """
        if isinstance(gap, ProximalGapForm):
            return prepare_proximal(gap, facts, self.lattice_bits(facts)).moved
        return gap.moved(facts) if isinstance(gap, GapForm) else gap.sensitivity


def run_share(run: int, runs: int) -> float:
    """The share of the failures that the bound of one run gets, of no more than so many runs.

    Half of them in equal parts, half as the inverse squares: the shares of all runs add up to 1 at
    the most, and none is much less than the better of the two.
    """
    summed = sum(1 / number**2 for number in range(1, min(runs, 1000) + 1))
    squares = summed if runs <= 1000 else summed + 1 / 1000
    return (1 / runs + 1 / (run**2 * squares)) / 2


@frozen
class RunAccuracy(HalfWidths):
    """How much larger than its threshold any gap called "below" in one run may be, in rows."""

    parameters: Watching
    facts: Facts
    kind: str = field(init=False, default="exact tail of the threshold's noise")
    standing: Standing = field(init=False, default="proven")

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """One half-width, in rows."""
        del joint  # the same for each gap and for all at once
        return np.array([self.parameters.below(beta, self.facts)])


@frozen(eq=False)
class RunPricing:
    """The price and the error of one run of a watch, all public."""

    guarantee: Guarantee
    accuracy: RunAccuracy


@frozen
class Top:
    """The first gap above its threshold.

    `place` is its number in the form. `excess` tells by how much the noisy gap was above the noisy
    threshold, in rows, if the form asked for numbers: free, but biased by having been selected.
    """

    place: int
    excess: float | None


@define(eq=False, repr=False)
class _Secret:
    """The secrets of a watch: the noise of its threshold, and the true numbers last read.

    Only functions behind the wall of `Access.read` hold it under a name, since frames of errors
    show their names.
    """

    level: int | None = None
    kind: object = None
    source: object = None
    numbers: Ints | None = None


_secrets: IdentityMap[_Secret] = IdentityMap()


@shows_half_made
@final
class Watch:
    """A watch over one table. Made by `kernel.watch`; its answers come one after the other."""

    __slots__ = (
        "__weakref__",
        "_access",
        "_allowance",
        "_bits",
        "_charge",
        "_laws",
        "_lock",
        "_opened",
        "_parameters",
        "_tops",
    )

    def __init__(
        self, access: Access, parameters: Watching, allowance: Allowance | None = None
    ) -> None:
        if type(parameters) is not Watching:
            expected, got = "a Watching, of that very class", type(parameters).__name__
            raise InvalidArgument("parameters", expected, got)
        if allowance is not None:
            access.check_allowance(allowance)
        self._access = access
        self._allowance = allowance
        self._parameters = parameters
        # Laws whose noise would not fit the lattice are refused here, before anything is paid.
        self._laws = _laws(parameters, access.facts)
        self._bits = parameters.lattice_bits(access.facts)
        self._lock = ExclusiveLock("a watch")
        self._charge = 0
        self._opened = False
        self._tops = 0
        _secrets.keep(self, _Secret())

    @property
    def tops(self) -> int:
        """How many gaps were called "above" so far; a run that failed counts as one."""
        return self._tops

    @property
    def parameters(self) -> Watching:
        """The parameters it was made with."""
        return self._parameters

    def open(self) -> None:
        """Pay for a run, unless one is open. Raises as `first_above` does."""
        self._lock.run(lambda: self._open(self._access))

    def _open(self, access: Access) -> None:
        if _secrets[self].level is not None:
            return
        if self._parameters.tops is not None and self._opened:
            raise Closed("the watch")
        self._charge = access.charge(self._parameters.guarantee, self._allowance)
        self._opened = True
        self._read(self._redraw)

    def _redraw(self, noise: NoiseSource, _: Callable[[], Counts]) -> None:
        _secrets[self].level = _unbounded(noise, self._laws[0])

    def first_above(
        self, gap: Gap, threshold: float, start: int = 0, *, kernel: Kernel | None = None
    ) -> Top | None:
        """The first gap, from number `start` on, that is above a threshold in rows; or None.

        Opens a run, and pays for it, if none is open. Gaps after the first one above are not
        compared: ask again, with new public answers. The same linear form asked again is not read
        again. All noise is measured by the sensitivity that the kind of the gaps has.

        A run that opens is charged to `kernel`, that of the question which is being answered; if
        left out, to the kernel that made the watch.

        Raises
        ------
        InvalidArgument
            If the gap does not fit the table, or the threshold or `start` is out of range. Nothing
            was charged.
        BudgetExceeded
            If a run had to be opened and does not fit. Nothing has changed.
        ReleaseFailed
            If something fails after the charge; the run is over then.
        Closed
            If the question is over, or all tops of a watch that was paid at once are used up.
        """
        access = self._access if kernel is None else access_of(kernel)
        access.check_same("kernel", self._access.root)
        access.check()
        gaps = prepare_gaps(gap, access.facts, self._bits)
        last = gaps.rows - 1
        first = to_within("start", start, 0, last, f"an integer from 0 to {last}")
        try:
            height = float(threshold) if isinstance(threshold, numbers.Real) else math.nan
        except OverflowError:
            height = math.inf
        if not abs(height) * gaps.steps <= FARTHEST:
            raise InvalidArgument("threshold", in_rows(gaps.steps), shown(threshold))
        asked = gaps, gaps.height(height), first

        def work() -> Top | None:
            self._open(access)
            return self._read(lambda noise, opened: self._look(noise, opened, *asked))

        return self._lock.run(work)

    def _read(self, work: Callable[[NoiseSource, Callable[[], Counts]], R]) -> R:
        try:
            return self._access.read(self._charge, work)
        except BaseException:
            # The run is over, and what it might have said is not known: it counts as a top.
            self._tops += 1
            raise

    def _look(
        self,
        noise: NoiseSource,
        opened: Callable[[], Counts],
        gaps: LatticeGaps,
        threshold: int,
        start: int,
    ) -> Top | None:
        """Compare under the open threshold, which lives on only where an answer comes of it."""
        secret, tops = _secrets[self], self._parameters.tops
        level = secret.level
        # A run that fails is dead: it must not be asked again on what it already drew.
        secret.level = None
        if level is None:
            raise Closed("the run")
        needed = threshold - gaps.scores(self._numbers(gaps, opened))
        top = self._first(noise, gaps, needed, start, level)
        if top is not None:
            self._tops += 1
        if top is None or (tops is not None and self._tops < tops):
            secret.level = level
        return top

    def _first(
        self, noise: NoiseSource, gaps: LatticeGaps, needed: Ints, start: int, level: int
    ) -> Top | None:
        """The first gap whose fresh noise reaches what it needs above the level."""
        law, stop, chunk = self._laws[1], start, _FIRST_CHUNK
        while stop < gaps.rows:
            place, stop = stop, min(stop + chunk, gaps.rows)
            reached = _reach(noise, law, needed[place:stop], level)
            if reached.any():
                first = place + int(reached.argmax())
                if not gaps.numeric:
                    return Top(first, None)
                # Geometric noise forgets: given that it reached its level, what it has beyond
                # is fresh noise, on top of whatever the gap was above before any noise.
                beyond = int(noise.draw(law, 1)[0]) + max(0, -(int(needed[first]) + level))
                return Top(first, beyond / gaps.steps)
            chunk *= 4
        return None

    def _numbers(self, gaps: LatticeGaps, opened: Callable[[], Counts]) -> Ints:
        """The numbers that are read for these gaps; once, as long as the same is asked."""
        secret = _secrets[self]
        kind, source, numbers = type(gaps), gaps.source, secret.numbers
        if numbers is None or secret.source is not source or secret.kind is not kind:
            secret.kind = secret.source = None  # until it is read
            numbers = secret.numbers = gaps.read(opened())
            secret.kind, secret.source = kind, source
        return numbers

    def __repr__(self) -> str:
        return f"Watch({self._parameters})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a watch")


def _laws(parameters: Watching, facts: Facts) -> tuple[Geometric, Geometric]:
    """The noise of the threshold and that of a gap, in lattice steps."""
    steps = 1 << parameters.lattice_bits(facts)
    return parameters.threshold_noise(facts, steps), parameters.query_noise(facts, steps)


def _unbounded(noise: NoiseSource, law: Geometric) -> int:
    """A draw without the bound at which sources saturate: beyond it the noise begins afresh."""
    total = 0
    while (drawn := int(noise.draw(law, 1)[0])) >= _SATURATED:
        total += drawn
    return total + drawn


def _reach(noise: NoiseSource, law: Geometric, needed: Ints, level: int) -> Bools:
    """True if fresh noise reaches what is needed above a level."""
    far = _SATURATED // 2
    if level < far:
        return noise.reaches(law, needed + level)
    reached: list[bool] = []
    for amount in (int(need) + level for need in needed):
        # In steps that a source can draw: beyond each the noise begins afresh.
        left, all_so_far = amount, True
        while left > far and all_so_far:
            all_so_far = bool(noise.reaches(law, np.array([far]))[0])
            left -= far
        reached.append(all_so_far and bool(noise.reaches(law, np.array([left]))[0]))
    return np.array(reached)
