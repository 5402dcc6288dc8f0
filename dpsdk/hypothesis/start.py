"""Starts of mechanisms that learn: one family of frozen public values."""

# ruff: noqa: ARG002  # defaults of methods that starts override

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from typing_extensions import override

from dpsdk._checks import require, shown, to_count, to_fraction, to_probability
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.codec import AMOUNT, INTEGER, Member, Nested, OrNone, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, PublicSizeRequired, TooLarge
from dpsdk.forms import Facts, Identity, Kronecker, LinearForm
from dpsdk.hypothesis.dense import CELL_LIMIT, DenseHypothesis
from dpsdk.hypothesis.digests import DISTRIBUTION
from dpsdk.hypothesis.distribution import Distribution, Hypothesis
from dpsdk.hypothesis.fit import FEWER_CELLS, FIT_LIMIT, EntropicFit
from dpsdk.hypothesis.piecewise import PiecewiseHypothesis
from dpsdk.kernel import Allowance, Kernel, Measure, Noise, Terms
from dpsdk.release import Measurement
from dpsdk.typing import Floats, Real

__all__ = [
    "START",
    "Given",
    "Pairs",
    "Product",
    "Start",
    "StartLike",
    "Uniform",
    "kind_for",
    "opened",
    "share_of",
    "to_share",
    "to_start",
]

_BLEND = 1e-3
"""The share of the uniform in a measured or given start, so that nothing is impossible."""

_LEAST_SHARE = Fraction(1, 10**12)
_SHARE_BITS = 128
_DEFAULT_SHARE = Fraction(1, 10)

# Measured on Adult by tests/bench/bench_pmw.py --pairs; 9/10 is no better.
_PAIRS_SHARE = Fraction(3, 4)

_PASSES = 20
"""On Adult 10 have less error at ε = 0.1, and 30 no less at ε = 1 (bench_pmw.py --pairs)."""

_PASS_STEPS = 100
"""A pass stops by itself where it is good enough, after 3 to 15 steps on Adult."""

_LEAST_DEVIATION = 0.01
"""In rows. Numbers without noise, which no row changes, are fitted as if they had so much."""


def kind_for(domain: Domain) -> type[PiecewiseHypothesis | DenseHypothesis]:
    """The class of hypotheses for a universe, by public facts alone."""
    return PiecewiseHypothesis if PiecewiseHypothesis.suits(domain) else DenseHypothesis


class Start(ABC):
    """How a mechanism that learns comes by its first hypothesis: a frozen public value.

    What it measures for that it pays itself, out of `share` of the mechanism's budget; where the
    share is 0, it measures nothing. A subclass has `open`, and `price` and `share` if it measures.
    """

    __slots__ = ()

    @property
    def share(self) -> Fraction:
        """The share of the mechanism's budget that it may take, public; at least 0 and below 1."""
        return Fraction(0)

    def check(self, facts: Facts) -> None:
        """Refuse a table that it cannot start from, before anything is paid.

        Raises `InvalidArgument` or `TooLarge` or `PublicSizeRequired` if this start does not suit
        such a table.
        """
        del facts

    def price(self, noise: Noise, terms: Terms) -> tuple[Guarantee, ...]:
        """Price the opening, where the share pays for noise of this kind."""
        return ()

    def kl_cap(self, facts: Facts) -> float:
        """The most that `kl_cap()` of the first hypothesis can be; infinite if not known."""
        return math.inf

    @abstractmethod
    def open(
        self, kernel: Kernel, noise: Noise | None = None, allowance: Allowance | None = None
    ) -> Hypothesis:
        """The first hypothesis, which nobody else holds.

        `noise` is what the share is worth, None where it is 0; `allowance` pays for it, if that was
        set aside. Raises `BudgetExceeded` if measuring does not fit; nothing was charged.
        """


START = Member(OrNone(Nested[Start]("a start", Start)), None)
"""How a start is written among the members of a mechanism."""


@written("start.uniform", {})
@frozen
class Uniform(Start):
    """Every cell alike. Costs nothing."""

    @override
    def kl_cap(self, facts: Facts) -> float:
        return math.log(facts.domain.size + facts.outside)

    @override
    def open(
        self, kernel: Kernel, noise: Noise | None = None, allowance: Allowance | None = None
    ) -> Hypothesis:
        facts = kernel.facts
        return kind_for(facts.domain).uniform(facts.domain, outside=facts.outside)


def to_share(value: Real) -> Fraction:
    """The share of a budget that a start takes."""
    expected = "a number strictly between 0 and 1, at least 1e-12 and of at most 38 digits"
    number = to_probability("share", value)
    if number < _LEAST_SHARE or number.denominator.bit_length() > _SHARE_BITS:
        raise InvalidArgument("share", expected, shown(value))
    return number


class _Blended(Start):
    """A start that measures marginals for its share, and ends a little blended with the uniform."""

    __slots__ = ()

    @property
    @abstractmethod
    def _width(self) -> int:
        """The most attributes that a marginal has."""

    @abstractmethod
    def _fitted(
        self, kernel: Kernel, form: LinearForm, measured: Measurement[NoiseAccuracy], rows: int
    ) -> Hypothesis:
        """The hypothesis that fits measured marginals."""

    @override
    def price(self, noise: Noise, terms: Terms) -> tuple[Guarantee, ...]:
        return (Measure(_marginals(terms.facts, self._width), noise).price(terms).guarantee,)

    @override
    def kl_cap(self, facts: Facts) -> float:
        return math.log((facts.domain.size + facts.outside) / _BLEND)

    @override
    def open(
        self, kernel: Kernel, noise: Noise | None = None, allowance: Allowance | None = None
    ) -> Hypothesis:
        facts = kernel.facts
        self.check(facts)
        if noise is None or facts.rows is None:
            raise InvalidArgument("noise", "what the share is worth", "none")
        form = _marginals(facts, self._width)
        measured = kernel.measure(form, noise, allowance=allowance)
        hypothesis = self._fitted(kernel, form, measured, facts.rows)
        hypothesis.blend(_BLEND)
        return hypothesis


@written("start.product", {"share": AMOUNT})
@frozen
class Product(_Blended):
    """Independent attributes, with noisy one-way marginals, a little blended with the uniform.

    The number of rows must be public, and the universe have at most 2^28 cells.

    Parameters
    ----------
    share
        What part of the mechanism's budget the marginals take, strictly between 0 and 1.
    """

    share: Fraction = field(default=_DEFAULT_SHARE, converter=to_share)

    @override
    def check(self, facts: Facts) -> None:
        if facts.rows is None:
            raise PublicSizeRequired("a product of marginals", "it needs a public number of rows")
        if facts.domain.size > CELL_LIMIT:
            size = facts.domain.size
            raise TooLarge("a hypothesis", size, CELL_LIMIT, "cells", FEWER_CELLS)

    @property
    @override
    def _width(self) -> int:
        return 1

    @override
    def _fitted(
        self, kernel: Kernel, form: LinearForm, measured: Measurement[NoiseAccuracy], rows: int
    ) -> Hypothesis:
        facts, numbers = kernel.facts, measured.values / rows
        tables: dict[str, Floats] = {}
        masses: list[float] = []
        start = 0
        for attribute in facts.domain.attributes:
            table = np.clip(numbers[start : start + attribute.size], 0.0, None)
            start += attribute.size
            mass = float(table.sum())
            masses.append(min(mass, 1.0))
            tables[attribute.name] = table / mass if mass > 0 else np.ones(attribute.size)
        outside = None
        if facts.outside:
            # Noise may leave nothing inside; the hypothesis must, or it could learn nothing.
            outside = min(1.0 - float(np.mean(masses)), 1.0 - _BLEND)
        return DenseHypothesis.product(facts.domain, tables, outside)


def _to_width(value: int) -> int:
    return to_count("width", value)


@written("start.pairs", {"share": AMOUNT, "width": Member(INTEGER, 2)})
@frozen
class Pairs(_Blended):
    """The distribution of most entropy that fits noisy marginals of few attributes each.

    All marginals of up to `width` attributes are measured together, by one run whose noise is that
    of their joint sensitivity, and fitted by `dpsdk.learning.EntropicFit`; a little is blended with
    the uniform distribution. What attributes have to do with each other is known beforehand then,
    so that a stream has little left to learn and most of the budget may go here: the stream guards
    against what the marginals miss. Fitting noisy marginals is from Barak and others (2007) and
    McKenna, Sheldon and Miklau (2019).

    The number of rows must be public, and the universe have at most 2^24 cells.

    Parameters
    ----------
    share
        What part of the mechanism's budget the marginals take, strictly between 0 and 1.
    width
        The most attributes that a marginal has.
    """

    share: Fraction = field(default=_PAIRS_SHARE, converter=to_share)
    width: int = field(default=2, converter=_to_width)

    @override
    def check(self, facts: Facts) -> None:
        if facts.rows is None:
            raise PublicSizeRequired("a fit of marginals", "it needs a public number of rows")
        if facts.domain.size > FIT_LIMIT:
            raise TooLarge("a fit", facts.domain.size, FIT_LIMIT, "cells", FEWER_CELLS)
        if (size := _marginal_cells(facts.domain, self.width)) > FIT_LIMIT:
            raise TooLarge("a fit", size, FIT_LIMIT, "cells of marginals", FEWER_CELLS)

    @property
    @override
    def _width(self) -> int:
        return self.width

    @override
    def _fitted(
        self, kernel: Kernel, form: LinearForm, measured: Measurement[NoiseAccuracy], rows: int
    ) -> Hypothesis:
        facts, accuracy, count = kernel.facts, measured.accuracy, float(max(rows, 1))
        noise = max(_LEAST_DEVIATION, accuracy.law.standard_deviation() * accuracy.step)
        fit = EntropicFit(facts.domain, outside=facts.outside)
        fit.add_all(form, measured.values / count, noise / count)
        for done in range(_PASSES):
            kernel.progress(done, _PASSES, "passes")
            fit.run(_PASS_STEPS)
        return fit.hypothesis()


def share_of(start: Start) -> Fraction:
    """The share of the budget that a start of any author says it may take."""
    expected = "one whose share is a number of at least 0 and below 1"
    share = to_fraction("start", start.share, expected)
    require(0 <= share < 1, "start", expected, share)
    return share


def opened(
    start: Start, kernel: Kernel, noise: Noise | None = None, allowance: Allowance | None = None
) -> Hypothesis:
    """The first hypothesis of a start of any author."""
    hypothesis: object = start.open(kernel, noise, allowance)
    facts, expected = kernel.facts, "one that opens to a hypothesis over the domain of the table"
    if not isinstance(hypothesis, Hypothesis):
        raise InvalidArgument("start", expected, shown(hypothesis))
    if hypothesis.domain != facts.domain:
        raise InvalidArgument("start", expected, "one over another domain")
    if facts.outside and not hypothesis.outside:
        expected = "one that opens to a hypothesis with the cell outside, as the table has it"
        raise InvalidArgument("start", expected, "one without")
    return hypothesis


def _to_distribution(distribution: Distribution) -> Distribution:
    require(isinstance(distribution, Distribution), "distribution", "a distribution", distribution)
    # What moves is copied, so that the start stays as it is.
    return distribution.copy() if isinstance(distribution, Hypothesis) else distribution


def _same(one: Distribution, other: Distribution) -> bool:
    """True if two distributions are of one class and of equal parts."""
    if one is other:
        return True
    if type(one) is not type(other) or one.domain != other.domain:
        return False
    (flags, arrays), (others, rows) = one.parts(), other.parts()
    if flags != others or arrays.keys() != rows.keys():
        return False
    return all(np.array_equal(array, rows[name]) for name, array in arrays.items())


@written("start.given", {"distribution": DISTRIBUTION})
@frozen
class Given(Start):
    """A public distribution. Costs nothing.

    A hypothesis is copied as it is, such as one that an earlier channel ended with. Any other
    distribution, such as synthetic data, becomes a hypothesis with its probabilities, a thousandth
    of them those of the uniform distribution, so that nothing is impossible.

    Parameters
    ----------
    distribution
        Over the domain of the table; a hypothesis has the cell outside it where the table has that.
    """

    distribution: Distribution = field(
        converter=_to_distribution, eq=cmp_using(eq=_same), hash=False
    )

    @override
    def check(self, facts: Facts) -> None:
        if self.distribution.domain != facts.domain:
            raise InvalidArgument("start", "over the domain of the table", "another domain")
        moves = isinstance(self.distribution, Hypothesis)
        if moves and facts.outside and not self.distribution.outside:
            expected = "a hypothesis with the cell outside the domain, as the table has it"
            raise InvalidArgument("start", expected, "one without")

    @override
    def kl_cap(self, facts: Facts) -> float:
        if isinstance(self.distribution, Hypothesis):
            return self.distribution.kl_cap()
        outside = facts.outside or self.distribution.outside
        return math.log((facts.domain.size + outside) / _BLEND)

    @override
    def open(
        self, kernel: Kernel, noise: Noise | None = None, allowance: Allowance | None = None
    ) -> Hypothesis:
        self.check(kernel.facts)
        given = self.distribution
        if isinstance(given, Hypothesis):
            return given.copy()
        if not given.outside_mass < 1.0:
            expected = "a distribution with some probability inside the domain"
            raise InvalidArgument("start", expected, "one without")
        kind = kind_for(given.domain)
        hypothesis = kind.resembling(given, outside=given.outside or kernel.facts.outside)
        hypothesis.blend(_BLEND)
        return hypothesis


StartLike: TypeAlias = 'Start | Distribution | Literal["pairs", "product", "uniform"]'
"""A start, a distribution to start from, or the name of a start with its default parameters."""


def to_start(value: StartLike | None) -> Start | None:
    """The start that a value stands for; None stays None."""
    if value is None or isinstance(value, Start):
        return value
    if isinstance(value, Distribution):
        return Given(value)
    named = {"pairs": Pairs(), "product": Product(), "uniform": Uniform()}
    # By the characters alone, whatever a subclass says of them.
    name = str.__str__(value) if isinstance(value, str) else ""
    if name in named:
        return named[name]
    expected = '"pairs", "product", "uniform", a start or a distribution'
    raise InvalidArgument("start", expected, shown(value))


def _marginals(facts: Facts, width: int) -> LinearForm:
    """All marginals of up to so many attributes, in one form."""
    domain = facts.domain
    blocks = [
        Kronecker.of(domain, {name: Identity(domain[name].size) for name in names})
        for count in range(1, min(width, len(domain.names)) + 1)
        for names in combinations(domain.names, count)
    ]
    return LinearForm(domain, blocks)


def _marginal_cells(domain: Domain, width: int) -> int:
    """How many cells all marginals of up to so many attributes have, without listing them."""
    sums = [1] + [0] * min(width, len(domain.shape))
    for size in domain.shape:
        for count in range(len(sums) - 1, 0, -1):
            sums[count] += sums[count - 1] * size
    return sum(sums[1:])
