"""How many different records a table has: a primitive of its own, with its proof.

Theorem. Let f be the number of cells, over some attributes, in which a table has a row inside the
domain, and let a person have k rows at the most. Then f differs by k at the most between
neighbours. Proof: a row more fills one cell at the most and empties none, so that k rows more add
from 0 to k to f. That is add-remove. Under replace-one take away up to k rows, which adds from -k
to 0, then put as many in, which adds from 0 to k; together from -k to k. A row outside the domain
fills no cell. So f plus discrete Laplace noise of scale k / ε is ε-DP.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from attrs import field, frozen

from dpsdk import Domain
from dpsdk.accounting import DiscreteLaplaceGuarantee
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, Form
from dpsdk.kernel import Counts, Kernel, Request, Terms
from dpsdk.mechanisms import OneShot
from dpsdk.noise import DiscreteLaplace, NoiseSource
from dpsdk.queries import Query
from dpsdk.release import Cost, Measurement, Quote, ScalarAccuracy, Standing
from dpsdk.typing import Floats


@frozen
class Off(ScalarAccuracy):
    """How far a count with noise of one law is off."""

    law: DiscreteLaplace
    kind: str = field(init=False, default="exact law of the noise")
    standing: Standing = field(init=False, default="proven")

    def error(self, beta: float) -> float:
        return float(self.law.radius(beta))


@frozen
class Counting:
    """What is about to be run. All of it was made of numbers that were checked."""

    names: tuple[str, ...]
    law: DiscreteLaplace
    guarantee: DiscreteLaplaceGuarantee

    @property
    def accuracy(self) -> Off:
        return Off(self.law)

    def run(self, noise: NoiseSource, opened: Callable[[], Counts], /) -> Measurement[Off]:
        drawn = int(noise.draw(self.law, 1)[0])  # before anything is read
        codes, counts = opened().records(self.names)
        cells = np.stack([code[counts > 0] for code in codes])
        found = np.unique(cells, axis=1).shape[1]
        return Measurement(np.array([float(found + drawn)]), self.accuracy)


@frozen
class CountDistinct(Request[Measurement[Off]]):
    """How many different records there are, with noise: what is vouched for."""

    names: tuple[str, ...]
    epsilon: Fraction

    def price(self, terms: Terms, /) -> Counting:
        # Whoever made this value could have written anything into it.
        names, epsilon = self.names, self.epsilon
        if type(names) is not tuple or not names or any(type(name) is not str for name in names):
            raise InvalidArgument("names", "a tuple of names", "something else")
        if len(set(names)) < len(names):
            raise InvalidArgument("names", "different names", "one of them twice")
        for name in names:
            terms.facts.domain.position(name)
        if type(epsilon) is not Fraction or not epsilon > 0:
            raise InvalidArgument("epsilon", "a positive Fraction", "something else")
        rows = terms.facts.unit_rows
        scale = rows / epsilon  # one new number, from which all else follows
        return Counting(names, DiscreteLaplace(scale), DiscreteLaplaceGuarantee(scale, rows))


@frozen
class DistinctForm(Form):
    """Which attributes are meant."""

    domain: Domain
    names: tuple[str, ...]


@frozen
class Distinct(Query[float, DistinctForm]):
    """How many different records a table has over some attributes."""

    names: tuple[str, ...]

    def lower(self, domain: Domain, /) -> DistinctForm:
        for name in self.names:
            domain.position(name)  # which says so if there is none
        return DistinctForm(domain, self.names)

    def lift(self, raw: Floats, facts: Facts, /) -> float:
        del facts
        return float(np.maximum(raw[0], 0))


@frozen
class DistinctLaplace(OneShot[DistinctForm]):
    """Answers by that primitive."""

    epsilon: Fraction = field(converter=Fraction)

    def quote(self, form: DistinctForm, terms: Terms, /) -> Quote:
        priced = self._request(form).price(terms)
        return Quote(Cost(), Cost((priced.guarantee,)), priced.accuracy)

    def open(self, kernel: Kernel, /) -> DistinctLaplace:
        del kernel
        return self

    def answer(self, form: DistinctForm, kernel: Kernel, /) -> Measurement[Off]:
        return kernel.run(self._request(form))

    def _request(self, form: Form) -> CountDistinct:
        if not isinstance(form, DistinctForm):  # others have names, too
            raise QueryError("", "it counts different records")
        return CountDistinct(form.names, self.epsilon)
