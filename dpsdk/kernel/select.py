"""The primitive `select`: which gap or group of gaps is the largest, or which value a quantile.

Gaps are those of linear functions from public answers, or of models from what is best for them.

Theorem (docs/explanation/proofs/select.md). The exponential mechanism over exact integer scores
(McSherry and Talwar 2007), with weights exp(ε · score / (2 Δ)), where one person moves no score by
more than Δ. Privacy losses of any two outcomes then differ by ε at the most, which costs ε of pure
privacy and ε² / 8 of zCDP (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021). The chosen score
is below the best by more than (2 Δ / ε) ln(k / β) with probability β at the most, for k options.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import Lasting, frozen_integers
from dpsdk._checks import shown, to_amount, to_integer
from dpsdk._records import field, frozen
from dpsdk.accounting import BoundedRangeGuarantee, Guarantee
from dpsdk.accuracy import ScalarAccuracy, Standing
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Crossing,
    Facts,
    FormBlock,
    GapForm,
    LinearForm,
    ProximalGapForm,
    sensitivity,
)
from dpsdk.forms.gap import weight_range
from dpsdk.kernel.gaps import (
    FARTHEST,
    LinearGaps,
    ProximalBatch,
    prepare_linear,
    prepare_proximals,
)
from dpsdk.kernel.lattice import allowed_bits, finest
from dpsdk.kernel.points import PointPricing, price_points
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints, Real

__all__ = ["Select", "SelectPricing", "ShortfallAccuracy"]

_FARTHEST_SCORE = 2.0**60
"""Scores and penalties stay within so many steps, so that levels are at most 2^62 apart."""

_OF_ONE_ROW = 10
"""No row has a proximal gap of more than 2^10 times what a row moves one by; see `Steps.moved`."""

Span = tuple[int, int]

Gaps: TypeAlias = GapForm | Crossing | tuple[ProximalGapForm, ...]


def _gaps(value: GapForm | Crossing | Sequence[ProximalGapForm]) -> Gaps:
    return tuple(value) if isinstance(value, Sequence) else value


def _epsilon(value: Real) -> Fraction:
    return to_amount("epsilon", value)


def _spans(value: Sequence[slice] | Sequence[Span] | None) -> tuple[Span, ...] | None:
    if value is None:
        return None
    expected = "slices of rows with a start and a stop, as in [slice(0, 3), slice(3, 5)]"
    if not isinstance(value, Iterable):
        raise InvalidArgument("groups", expected, shown(value))
    spans: list[Span] = []
    for part in value:
        # Groups that were read before are pairs.
        ends = (part.start, part.stop) if type(part) is slice else part
        if type(ends) is not tuple or len(ends) != 2 or getattr(part, "step", None) is not None:
            raise InvalidArgument("groups", expected, shown(part))
        start, stop = (to_integer("groups", end, expected) for end in ends)
        if not 0 <= start < stop:
            raise InvalidArgument("groups", "not empty, and counted from 0", shown(part))
        spans.append((start, stop))
    if not spans:
        raise InvalidArgument("groups", "at least one group", "none")
    return tuple(spans)


def _penalties(value: Sequence[int] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Iterable):
        raise InvalidArgument("penalties", "a sequence of integers", shown(value))
    return tuple([to_integer("penalties", number) for number in value])


@frozen(eq=False)
class Select(Request[int]):
    """Choose the largest gap of a batch, the group of gaps with the largest sum, or a quantile.

    The options are public: the rows of `gaps`, the groups, or the values of an attribute. `epsilon`
    is what the choice costs, with bounded range. The answer is the number of an option.

    Parameters
    ----------
    gaps
        How far the rows are from public answers, in counts of rows. The score of a row is its gap;
        one row of a person moves it by `gaps.moved(facts)` at the most. Or a `Crossing`, and
        nothing but `epsilon` beside it: then the options are its cells, and the score of one is by
        how many rows it misses the share, below zero.
    epsilon
        From 1e-100 to 1e100.
    groups
        Slices of rows, such as the rows of a whole marginal, which may overlap. The score of a
        group is the sum of its absolute gaps. One row of a person moves it by what the functions
        of the group are worth together: for a marginal by two, and by one where the number of rows
        is private and the gaps are those from public counts (all rates are 0).
    penalties
        For each option what is taken off its score, in whole rows; public.
    opposites
        Whether each gap is an option as it is and negated: option `gaps.rows + i` is the negation
        of gap i. Only for gaps that are not absolute, and without groups.
    """

    gaps: Gaps = field(converter=_gaps)
    epsilon: Fraction = field(converter=_epsilon)
    groups: tuple[Span, ...] | None = field(default=None, converter=_spans, kw_only=True)
    penalties: tuple[int, ...] | None = field(default=None, converter=_penalties, kw_only=True)
    opposites: bool = field(default=False, converter=bool, kw_only=True)

    def price(self, terms: Terms, /) -> SelectPricing | PointPricing:
        """Price the choice. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If the gaps, groups or penalties do not fit the table or each other, or if scores could
            not be summed exactly.
        TooLarge
            If there may be too many different values to choose from.
        """
        gaps, epsilon, spans = self.gaps, self.epsilon, self.groups
        facts = facts_of(terms)
        plain = spans is None and self.penalties is None and not self.opposites
        if not plain and type(gaps) in (tuple, Crossing):
            named = "a Crossing" if type(gaps) is Crossing else "the gaps of models"
            expected = f"left out for {named}, with penalties and opposites"
            raise InvalidArgument("groups", expected, "some of them")
        if type(gaps) is Crossing:
            return price_points(gaps, epsilon, facts, ShortfallAccuracy)
        if isinstance(gaps, tuple):
            return _price_proximals(gaps, epsilon, facts)
        if type(gaps) is not GapForm:
            expected = "a GapForm, a Crossing or proximal gaps, of that very class"
            raise InvalidArgument("gaps", expected, type(gaps).__name__)
        largest = 1 if spans is None else max(stop - start for start, stop in spans)
        bits = _bits(epsilon, largest, facts)
        own = prepare_linear(gaps, facts, bits)
        _check(own, spans, opposites=self.opposites)
        # A gap is at most what all rows move away from its offset.
        farthest = float(np.abs(own.offsets.astype(np.float64)).max())
        low, high = weight_range(gaps.form)
        most = max(facts.row_limit, 1) * own.steps * (high - low)
        if largest * (most + farthest) > _FARTHEST_SCORE:
            expected = "small enough that sums of gaps stay within 2**60 steps of a lattice"
            raise InvalidArgument("gaps", expected, f"groups of up to {largest:,}")
        options = len(spans) if spans is not None else own.rows * (1 + self.opposites)
        move = _move(own, spans, facts, bits)
        unit = int(own.steps)
        scale = 2 * float(Fraction(move, unit) / epsilon)
        rounding = 2 * largest * (facts.row_limit * (own.change + 1 / unit) + 1 / unit)
        return SelectPricing(
            BoundedRangeGuarantee(epsilon),
            ShortfallAccuracy(scale, options, rounding),
            own,
            spans,
            _in_steps(self.penalties, options, unit),
            self.opposites,
            epsilon / (2 * move),
        )


@frozen
class ShortfallAccuracy(ScalarAccuracy):
    """By how much the score that was chosen may be below the best, in rows.

    `scale` is how fast the chance falls, in rows; `options` how many there are; `rounding` what the
    lattice may add.
    """

    scale: float
    options: int
    rounding: float
    kind: str = field(init=False, default="exact law of the exponential mechanism")
    standing: Standing = field(init=False, default="proven")

    def error(self, beta: float) -> float:
        """The shortfall, in rows, that is exceeded with probability beta at the most."""
        return self.scale * math.log(self.options / beta) + self.rounding


@frozen(eq=False)
class SelectPricing(Lasting):
    """The price of `select`, and how far from the best its choice may be; all public."""

    guarantee: Guarantee
    accuracy: ShortfallAccuracy
    _gaps: LinearGaps | ProximalBatch = field(repr=False)
    _spans: tuple[Span, ...] | None = field(repr=False)
    _penalties: Ints | None = field(repr=False)
    """In lattice steps."""
    _opposites: bool = field(repr=False)
    _rate: Fraction = field(repr=False)
    """The exponent of a step of score: ε over twice what a person moves a score by, in steps."""

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> int:
        """Read, score and choose. Every option is treated alike, whatever its score."""
        gaps = self._gaps
        scores = gaps.scores(gaps.read(opened()))
        if self._opposites:
            scores = np.concatenate([scores, -scores])
        elif self._spans is not None:
            ends = np.array(self._spans, dtype=np.int64).reshape(-1)
            scores = np.add.reduceat(np.append(scores, 0), ends)[::2]
        levels = -scores if self._penalties is None else self._penalties - scores
        return noise.pick(levels, self._rate)


def _price_proximals(
    gaps: tuple[ProximalGapForm, ...], epsilon: Fraction, facts: Facts
) -> SelectPricing:
    """Price the choice of a model. A score is rounded down once, after all rows are summed."""
    if not gaps or any(type(gap) is not ProximalGapForm for gap in gaps):
        expected = "at least one ProximalGapForm, and others of that very class"
        raise InvalidArgument("gaps", expected, shown(gaps))
    rows = max(facts.row_limit, 1)
    most = math.floor(math.log2(_FARTHEST_SCORE / rows)) - _OF_ONE_ROW
    bits = max(0, min(_bits(epsilon, 1, facts), most))
    batch = prepare_proximals(gaps, facts, bits)
    move = facts.unit_rows << bits
    return SelectPricing(
        BoundedRangeGuarantee(epsilon),
        ShortfallAccuracy(
            2 * float(Fraction(move, 1 << bits) / epsilon) * batch.moved,
            len(gaps),
            2 * batch.rounding(facts.row_limit, 2.0**-bits),
        ),
        batch,
        None,
        None,
        False,
        epsilon / (2 * move),
    )


def _bits(epsilon: Fraction, largest: int, setting: Facts) -> int:
    """How many lattice points a row is cut into, as a power of two."""
    # So fine that half a step a row stays below a thousandth of the scale of a score's noise, and
    # so coarse that the largest group can be summed up.
    parts = 512 * max(setting.row_limit, 1) * epsilon / setting.unit_rows
    wanted = math.log2(parts.numerator) - math.log2(parts.denominator)
    most = min(
        allowed_bits(setting.row_limit),
        math.floor(math.log2(_FARTHEST_SCORE / (largest * max(setting.row_limit, 1)))) - 1,
    )
    return max(0, min(finest(wanted), most))


def _check(gaps: LinearGaps, spans: tuple[Span, ...] | None, *, opposites: bool) -> None:
    """Refuse options that do not fit the gaps."""
    if opposites and (gaps.absolute or spans is not None):
        expected = "left out for absolute gaps, and for groups"
        raise InvalidArgument("opposites", expected, "both together")
    if spans is not None:
        if max(stop for _, stop in spans) > gaps.rows:
            raise InvalidArgument("groups", f"within {gaps.rows} rows", "rows beyond that")
        if not gaps.absolute:
            raise InvalidArgument("gaps", "absolute where they are in groups", "signed gaps")


def _in_steps(penalties: tuple[int, ...] | None, options: int, unit: int) -> Ints | None:
    if penalties is None:
        return None
    if len(penalties) != options:
        raise InvalidArgument("penalties", f"{options} of them, one an option", f"{len(penalties)}")
    if max(map(abs, penalties)) * unit > FARTHEST:
        expected = f"at most {FARTHEST / unit:g} rows"
        raise InvalidArgument("penalties", expected, "some beyond that")
    return frozen_integers(np.array([number * unit for number in penalties], dtype=np.int64))


def _move(gaps: LinearGaps, spans: tuple[Span, ...] | None, setting: Facts, bits: int) -> int:
    """By how much a person moves a score at the most, in lattice steps."""
    row = setting.unit_rows << bits
    if spans is None:
        return row
    # A single function moves by so many steps at the most, whatever it is.
    wide = {span for span in spans if span[1] > span[0] + 1}
    # A lattice of integral weights has the same weights, so many times.
    form, steps = (gaps.own.form, gaps.steps) if gaps.own.form.integral else (gaps.source, 1)
    ends = list(accumulate(block.rows for block in form.blocks))

    def moves() -> dict[Span, int]:
        return {
            span: math.ceil(sensitivity(_part(form, ends, *span), setting, power=1).l1 * steps)
            for span in wide
        }

    sums = gaps.own.once(("select", gaps.steps, spans), moves)
    largest = row if any(stop == start + 1 for start, stop in spans) else 1
    for (start, stop), functions in sums.items():
        # Where rows come and go, so does what the rates expect of them.
        rates = 0 if setting.replaced else sum(map(abs, gaps.rates[start:stop].tolist()))
        most = (stop - start) * row
        largest = max(largest, min(most, functions + setting.unit_rows * rates))
    return largest


def _part(form: LinearForm, ends: list[int], start: int, stop: int) -> LinearForm:
    """The functions of a group, in the whole blocks that they come in where they do."""
    blocks: list[FormBlock] = []
    for number in range(bisect_right(ends, start), bisect_left(ends, stop) + 1):
        block = form.blocks[number]
        place = ends[number] - block.rows
        first, last = max(start - place, 0), min(stop - place, block.rows)
        whole = last - first == block.rows
        blocks += [block] if whole else block.parts(first, last)
    return LinearForm(form.domain, blocks)
