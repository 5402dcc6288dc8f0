"""`PairTables`: any number of models from one opening of noisy tables of pairs."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import Budget
from dpsdk.codec import written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge, UnsupportedGuarantee
from dpsdk.forms import ConvexForm, ConvexForms, Identity, Kronecker, LinearForm
from dpsdk.forms.convex_forms import parts_of
from dpsdk.forms.design import CELL_LIMIT
from dpsdk.hypothesis import Records
from dpsdk.kernel import GaussianNoise, Kernel, Terms
from dpsdk.mechanisms.convex.heavy_ball import HeavyBall
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.mechanisms.local_marginals import LocalMarginals
from dpsdk.mechanisms.sampled import draw_records
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.typing import Floats

__all__ = ["PairTables", "suits_tables"]

_RECORDS, _FEWEST = 2**16, 2**12
"""How many records are drawn, and how few where a label has many values."""

_RIDGE = 1e-5
"""Keeps coefficients of labels that hardly any record has from running away."""

_MORE, _LONG, _SHORT = 1.7, 25_000.0, 250.0
_COARSE = 8
"""What decides where models are found together: see `suits_tables`."""

_COMPARED = NoAccuracy(
    "found on records drawn from noisy tables of pairs, which all models asked together share, and "
    "never compared with the table",
    "ask HeavyBall() for one model by itself",
)


@frozen
class _Pairs:
    """The workload of the marginals of some sets of attributes."""

    sets: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, models: tuple[ConvexForm, ...]) -> _Pairs:
        """All pairs of attributes that some model depends on, each once."""
        pairs = [pair for one in models for pair in combinations(one.names, min(2, len(one.names)))]
        return cls(tuple(dict.fromkeys(pairs)))

    def lower(self, domain: Domain, /) -> LinearForm:
        blocks = [
            Kronecker.of(domain, {name: Identity(domain[name].size) for name in names})
            for names in self.sets
        ]
        return LinearForm(domain, blocks)


@written("oracle.pair-tables", {})
@frozen(repr=False)
class PairTables(Oracle):
    """Models from one opening of `LocalMarginals`, on all pairs of the attributes they depend on.

    However many are asked together, in a `Workload`, the tables are paid once, with the whole total
    of all. Records are drawn from their mixture by public numbers and weighed so that they agree
    with the tables; each model is then found on these, free. A model by itself is mostly found
    better by `HeavyBall`: what tables of pairs do not tell, such as a product of features, stays
    unknown, which no budget mends, and every pair of attributes has its noise, those of numbers in
    fine steps most. Nothing is proven of such models.

    It needs a δ above 0.
    """

    def __repr__(self) -> str:
        return "PairTables()"

    def quote(self, form: ConvexForm | ConvexForms, terms: Terms, total: Total, /) -> Quote:
        _count(parts_of(form))
        return Quote(Cost(), self._mechanism(form, total).cost(terms), _COMPARED)

    def minimise(
        self, form: ConvexForm | ConvexForms, kernel: Kernel, total: Total, /
    ) -> Measurement:
        """As of `Oracle`, or the numbers of each of several models in turn.

        The gap is infinite: what is minimised has a ridge.
        """
        models = parts_of(form)
        count, sets = _count(models), _Pairs.of(models).sets
        opening = self._mechanism(form, total)
        learning = opening.learning(kernel.terms)
        paid = kernel.prepaid(opening.allowance(kernel))
        for done in range(len(learning.steps)):
            kernel.progress(done, len(learning.steps), "steps")
            learning.round(paid)
        records = draw_records(learning.strategy(finished=True), sets, count)
        found = [part for one in models for part in (*_thetas(one, records), np.array([math.inf]))]
        return Measurement(np.concatenate(found), _COMPARED, "hypothesis")

    def _mechanism(self, form: ConvexForm | ConvexForms, total: Total) -> LocalMarginals:
        pairs = _Pairs.of(parts_of(form))
        if not isinstance(total, Budget):
            # The covers of its steps cost no more than that.
            return LocalMarginals(pairs, rho=GaussianNoise.covered(total).rho)
        return LocalMarginals(pairs, epsilon=total.epsilon, delta=total.delta)


def _count(models: tuple[ConvexForm, ...]) -> int:
    """How many records all models may be found on. Raises `TooLarge` where they are too few."""
    labels = max([one.targets.shape[-1] for one in models if one.cells > CELL_LIMIT], default=1)
    if labels > CELL_LIMIT // _FEWEST:
        advice = "use a coarser label, or HeavyBall()"
        raise TooLarge("the label of a model", labels, CELL_LIMIT // _FEWEST, "labels", advice)
    return min(_RECORDS, CELL_LIMIT // labels)


def _thetas(form: ConvexForm, records: Records) -> list[Floats]:
    return [one.minimise(records, ridge=_RIDGE)[0] for one in form.by_class]


def suits_tables(form: ConvexForms, terms: Terms, total: Budget) -> bool:
    """True if wide models are forecast to be found better together, by tables of pairs.

    A rule of public facts, that figures on public tables gave (docs/explanation/models.md): by how
    many models there are, how long a descent could run for all of the total, and whether features
    are as fine as the tables that would be measured.
    """
    facts = terms.facts
    if facts.rows is None or not total.delta:
        return False
    axes = [axis for one in form.parts for axis in one.coordinates if axis.names]
    cells = sum([math.prod(axis.values.shape[1:]) for axis in axes])
    coarse = cells <= _COARSE * sum([axis.width for axis in axes])
    single = all(len(axis.names) < 2 for axis in axes)
    wide = all(one.cells > CELL_LIMIT and one.targets.ndim == 1 for one in form.parts)
    if not (coarse and single and wide):
        return False
    kinds = {type(one.loss): one for one in form.parts}
    try:
        times = [HeavyBall().time(one, terms, total) for one in kinds.values()]
        fewest = _MORE * (1.0 + max(times) / _LONG) ** 2
        if min(times) < _SHORT or len(form.parts) < fewest:
            return False
        PairTables().quote(form, terms, total)  # last, since it takes the longest
    except (InvalidArgument, TooLarge, UnsupportedGuarantee):
        return False
    return True
