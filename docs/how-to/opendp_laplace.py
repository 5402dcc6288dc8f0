"""A measurement of OpenDP as a primitive: marginal tables with its discrete Laplace noise.

What is vouched for, and on what it rests, is in docs/explanation/proofs/opendp.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
import opendp.prelude as dp
from attrs import field, frozen

from dpsdk.accounting import PureGuarantee
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import LinearForm, sensitivity
from dpsdk.kernel import Counts, Kernel, Request, Terms
from dpsdk.mechanisms import OneShot
from dpsdk.noise import DiscreteLaplace, NoiseSource
from dpsdk.queries import Marginal
from dpsdk.release import Cost, Measurement, NoiseAccuracy, Quote

dp.enable_features("contrib")

_TRIES = 64


class Noisy(Protocol):
    """What is used of a measurement of OpenDP."""

    def __call__(self, vector: list[int], /) -> list[int]: ...

    def map(self, d_in: int, /) -> float: ...


def laplace(scale: float) -> Noisy:
    """Discrete Laplace noise of one scale on each integer of a vector, by OpenDP."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    made: Noisy = dp.m.make_laplace(*space, scale=scale)
    return made


def calibrated(move: int, epsilon: Fraction) -> tuple[float, Noisy]:
    """A scale at which OpenDP says that moves of so much cost no more than epsilon.

    What `map` gives is an upper bound in a float. It is compared as the exact number that the float
    is: as a decimal, 0.1 would pass for a tenth, and is a little more.
    """
    scale = float(move / epsilon)
    for _ in range(_TRIES):
        found = laplace(scale)
        if Fraction(found.map(move)) <= epsilon:
            return scale, found
        scale = math.nextafter(scale, math.inf)
    raise InvalidArgument("epsilon", "one that OpenDP has a scale for", str(epsilon))


def table_of(names: tuple[str, ...], terms: Terms) -> LinearForm:
    """The counts of a marginal table, as a form of our own making."""
    return Marginal(*names, normalized=False).lower(terms.facts.domain)


@frozen
class Noising:
    """What is about to be run."""

    names: tuple[str, ...]
    guarantee: PureGuarantee
    accuracy: NoiseAccuracy
    measurement: Noisy

    def run(
        self, noise: NoiseSource, opened: Callable[[], Counts], /
    ) -> Measurement[NoiseAccuracy]:
        del noise  # OpenDP draws its own
        counts = opened().table(self.names).reshape(-1)
        noisy = self.measurement([int(count) for count in counts])
        return Measurement(np.array(noisy, dtype=np.float64), self.accuracy)


@frozen
class OpenDPCounts(Request[Measurement[NoiseAccuracy]]):
    """The counts of a marginal table with OpenDP's noise: what is vouched for.

    Names are in the order of the domain.
    """

    names: tuple[str, ...]
    epsilon: Fraction

    def price(self, terms: Terms, /) -> Noising:
        names, epsilon = self.names, self.epsilon
        if type(names) is not tuple or any(type(name) is not str for name in names):
            raise InvalidArgument("names", "a tuple of names", "something else")
        positions = [terms.facts.domain.position(name) for name in names]
        if not names or positions != sorted(set(positions)):
            raise InvalidArgument("names", "different ones, in the order of the domain", "others")
        if type(epsilon) is not Fraction or not epsilon > 0:
            raise InvalidArgument("epsilon", "a positive Fraction", "something else")
        # Made anew, and read once: whoever made this value holds its parts.
        guarantee = PureGuarantee(Fraction(epsilon.numerator, epsilon.denominator))
        form = table_of(names, terms)
        move = math.ceil(sensitivity(form, terms.facts, power=1).l1)
        scale, measurement = calibrated(move, guarantee.epsilon)
        accuracy = NoiseAccuracy(DiscreteLaplace(Fraction(scale)), form.rows, 1.0, 0.0)
        return Noising(names, guarantee, accuracy, measurement)


@frozen
class OpenDPLaplace(OneShot[LinearForm]):
    """Marginal tables by that primitive."""

    epsilon: Fraction = field(converter=Fraction)
    request: type[OpenDPCounts] = field(default=OpenDPCounts, repr=False)

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        priced = self.request(names_of(form, terms), self.epsilon).price(terms)
        return Quote(Cost(), Cost((priced.guarantee,)), priced.accuracy)

    def open(self, kernel: Kernel, /) -> OpenDPLaplace:
        del kernel
        return self

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement[NoiseAccuracy]:
        return kernel.run(self.request(names_of(form, kernel.terms), self.epsilon))


def names_of(form: LinearForm, terms: Terms) -> tuple[str, ...]:
    """The attributes of a form that is one whole marginal table."""
    names = form.blocks[0].names if isinstance(form, LinearForm) else ()
    if not names or form.identity != table_of(names, terms).identity:
        raise QueryError("", "it takes one whole marginal table")
    return names
