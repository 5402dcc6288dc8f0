"""A start for universes of any size: marginals first, and weighted records that resemble them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Literal, TypeAlias, cast

import numpy as np
from typing_extensions import override

from dpsdk._checks import require, to_count
from dpsdk._records import field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.codec import AMOUNT, INTEGER, Member, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts, Identity, Kronecker, LinearForm
from dpsdk.hypothesis import DenseHypothesis, Records, Start, Streams
from dpsdk.hypothesis.digests import digest_of
from dpsdk.hypothesis.start import Given, StartLike, kind_for, to_share
from dpsdk.hypothesis.start import to_start as to_plain_start
from dpsdk.kernel import Allowance, GaussianNoise, Kernel, Noise, Terms
from dpsdk.mechanisms.base import Unfinished
from dpsdk.mechanisms.fitted import Fitted
from dpsdk.mechanisms.local_marginals import LocalMarginals
from dpsdk.mechanisms.local_marginals.sets import Lattice
from dpsdk.mechanisms.local_marginals.tables import LocalStrategy
from dpsdk.release import FromRecords, Note

__all__ = [
    "Sampled",
    "StartOrRecords",
    "check_records",
    "draw_records",
    "notes_from",
    "start_beyond",
    "to_records",
    "to_start",
]

_SHARE = Fraction(9, 10)
_RECORDS = 2**16
_MOST_RECORDS = 2**24

_SWEEPS = 3
"""So many passes bring the weights to the tables; after two there is little left to gain."""

_LEAST = 1 / 16
"""No move leaves fewer effective records than this share of all."""


@frozen
class _Marginals:
    """The workload of all marginals of so many attributes."""

    width: int

    def lower(self, domain: Domain, /) -> LinearForm:
        blocks = [
            Kronecker.of(domain, {name: Identity(domain[name].size) for name in names})
            for names in self.sets(domain)
        ]
        return LinearForm(domain, blocks)

    def sets(self, domain: Domain) -> Iterator[tuple[str, ...]]:
        """The attributes of each, in the order of the domain."""
        return combinations(domain.names, min(self.width, len(domain.names)))


@lru_cache(maxsize=4)
def _lattice(width: int, domain: Domain, rows: int) -> Lattice:
    """What the marginals are, worked out once for all prices that a calibration tries."""
    sets = [tuple(map(domain.position, names)) for names in _Marginals(width).sets(domain)]
    return Lattice.of(domain.shape, sets, rows)


def _records(value: int) -> int:
    return to_count("records", value, most=_MOST_RECORDS)


def _width(value: int) -> int:
    return to_count("width", value)


@written(
    "start.sampled",
    {"share": AMOUNT, "width": Member(INTEGER, 2), "records": Member(INTEGER, _RECORDS)},
)
@frozen
class Sampled(Start):
    """Records drawn from marginals of a universe of any size, whose weights then move.

    `LocalMarginals` opens for a share of the budget, on all marginals of `width` attributes.
    Records are drawn from its distribution by public numbers, and their weights are raked to its
    tables. Nothing but the released tables goes into them, so that all of it is free. A
    mechanism that starts from them promises nothing: what no record shows cannot be learnt
    (`Records`).

    The fit does most. A stream guards against what it misses, and gains a little; known questions
    gain more, by `MWEM`.

    The number of rows must be public, and the budget have a δ above 0. It is opened after all that
    can be refused was. What it measures it pays in several steps: where the opening is stopped
    between two of them, or another took the budget meanwhile, `Stopped` says what was paid, and its
    channel answers from records of the marginals so far.

    Parameters
    ----------
    share
        What part of the mechanism's budget the marginals take, strictly between 0 and 1.
    width
        How many attributes a marginal has.
    records
        How many records are drawn, at most 2^24. More take longer, and err by less where questions
        are narrow.

    >>> Sampled("0.75")
    Sampled(share=Fraction(3, 4), width=2, records=65536)
    """

    share: Fraction = field(default=_SHARE, converter=to_share)
    width: int = field(default=2, converter=_width)
    records: int = field(default=_RECORDS, converter=_records)

    @override
    def check(self, facts: Facts) -> None:
        if facts.rows is None:
            raise PublicSizeRequired("a fit of marginals", "it needs a public number of rows")
        _lattice(self.width, facts.domain, facts.row_limit)

    @override
    def price(self, noise: Noise, terms: Terms) -> tuple[Guarantee, ...]:
        self.check(terms.facts)
        facts = terms.facts
        lattice = _lattice(self.width, facts.domain, facts.row_limit)
        return self._mechanism(noise).cost(terms, lattice).guarantees

    @override
    def open(
        self, kernel: Kernel, noise: Noise | None = None, allowance: Allowance | None = None
    ) -> Records:
        if noise is None:
            raise InvalidArgument("noise", "what the share is worth", "none")
        if allowance is not None:
            raise InvalidArgument("prepaid", "left out, since marginals pay in steps", "True")
        self.check(kernel.facts)
        sets = tuple(_Marginals(self.width).sets(kernel.facts.domain))
        try:
            return draw_records(self._mechanism(noise).open(kernel), sets, self.records)
        except Unfinished as early:
            records = draw_records(cast("LocalStrategy", early.strategy), sets, self.records)
            raise Unfinished(Fitted(records), early.why) from None

    def _mechanism(self, noise: Noise) -> LocalMarginals:
        if not isinstance(noise, GaussianNoise):
            expected = 'above 0 for start="marginals", which has Gaussian noise'
            raise InvalidArgument("delta", expected, "0")
        return LocalMarginals(_Marginals(self.width), rho=noise.rho)


def draw_records(fitted: LocalStrategy, sets: Sequence[tuple[str, ...]], count: int) -> Records:
    """Records of the mixture, raked to tables; a function of what was released alone."""
    mixture = fitted.distribution
    # What was released tells the numbers of the draw as well, so that it may be repeated.
    key = bytes.fromhex(digest_of(mixture, "records"))
    codes = np.stack(mixture.draw(Streams(count, key)), axis=1)
    mass: float | None = None
    if mixture.outside:
        # A record of its own, so that the cell can be learnt though none was seen in it.
        mass = max(mixture.outside_mass, 1 / (count + 1))
    records = Records(mixture.domain, codes, outside_mass=mass, least=count * _LEAST)
    for _ in range(_SWEEPS):
        for names in sets:
            records.rake(names, fitted.shares(names))
    return records


def check_records(start: Start | None, *, pure: bool, prepaid: bool = False) -> None:
    """Refuse what a start of marginals cannot have."""
    if not isinstance(start, Sampled):
        return
    if pure:
        expected = 'above 0 for start="marginals", which has Gaussian noise'
        raise InvalidArgument("delta", expected, "0")
    if prepaid:
        expected = 'left out for start="marginals", which pays in steps'
        raise InvalidArgument("prepaid", expected, "True")


def start_beyond(facts: Facts, most: int, *, pure: bool, prepaid: bool = False) -> Sampled | None:
    """The start where none was given and a universe has more cells than the usual one takes."""
    fits = facts.domain.size <= most or kind_for(facts.domain) is not DenseHypothesis
    return None if fits or facts.rows is None or pure or prepaid else Sampled()


def notes_from(start: Start | None) -> tuple[Note, ...]:
    """What readers have to know of the answers of a mechanism with such a start."""
    if isinstance(start, Sampled):
        return (FromRecords(start.records, start.share),)
    if isinstance(start, Given) and isinstance(start.distribution, Records):
        return (FromRecords(start.distribution.size, Fraction(0)),)
    return ()


StartOrRecords: TypeAlias = 'StartLike | Literal["marginals"]'
"""A start, a distribution to start from, or the name of a start with its default parameters."""


def to_start(value: StartOrRecords | None) -> Start | None:
    """The start that a value stands for; None stays None."""
    if isinstance(value, str) and str.__str__(value) == "marginals":
        return Sampled()
    return to_plain_start(value)  # type: ignore[arg-type]


def to_records(value: StartOrRecords | None) -> Sampled | None:
    """The same of a mechanism that knows no other start."""
    expected = '"marginals", or a Sampled'
    start = to_start(value)
    require(start is None or isinstance(start, Sampled), "start", expected, value)
    return start if isinstance(start, Sampled) else None
