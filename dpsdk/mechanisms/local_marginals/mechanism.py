"""LocalMarginals: buy, look, plan, buy again, fit, and look at what came out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from dpsdk._checks import shown, to_beta, to_integer, to_probability
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting import Budget
from dpsdk.accuracy import NoAccuracy
from dpsdk.codec import AMOUNT, INTEGER
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.forms.residuals import centred
from dpsdk.kernel import Allowance, GaussianNoise, Kernel, Reference, ResidualAccuracy, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.learning.purchases import Candidates, Curves, deviations_for, purchases
from dpsdk.mechanisms.arguments import (
    BETA,
    MAYBE,
    QUERY,
    TOTAL,
    HasTotal,
    check_linear,
    forms_of,
    to_workload,
)
from dpsdk.mechanisms.base import MeasuresOnce, TablesMechanism, built_in
from dpsdk.mechanisms.certificate import Certificate
from dpsdk.mechanisms.fitted import Learner, learn
from dpsdk.mechanisms.local_marginals.sets import (
    Attributes,
    Lattice,
    Spending,
    counted,
    first_deviations,
    prices,
    request_for,
)
from dpsdk.mechanisms.local_marginals.tables import Certified, LocalStrategy, Look, Residual, Tables
from dpsdk.noise import DiscreteGaussian
from dpsdk.release import Cost, Measurement, NoiseAccuracy, Quote
from dpsdk.typing import Floats, Real

__all__ = ["Learning", "LocalMarginals"]

_PRIOR = (8, 150)
"""So many products the prior of tables is a mixture of, after so many iterations. For 14 attributes
more of either gain nothing."""

_PRIOR_OF_MANY = (16, 400)
_MANY = 64
"""For more attributes than these, each of which is in so many tables that more can be told: for 100
of them and 100,000 rows a tenth of the error goes at ε 1."""

_PIECE = 2**20
"""Cells of the public tables that one request to look holds."""

BITS = 12
"""Public tables are rounded to 2^-12 rows before they are looked from."""

_LEAST_SEEN = 0.25
"""A table is taken to be at least so many standard deviations of the look from independence."""


@frozen(eq=False)
class _LearningState:
    """The releases so far, and the tables made of them."""

    tables: Tables
    rows: Measurement[ResidualAccuracy] | int | None = None
    """The number of rows inside the domain, as it was released."""
    done: int = 0
    certified: Certified | None = None


class Learning(Learner[LocalStrategy]):
    """One opening of LocalMarginals at work. Not safe for use by several threads at once."""

    def __init__(
        self, lattice: Lattice, facts: Facts, spending: Spending, *, components: int, beta: float
    ) -> None:
        self._lattice = lattice
        self._facts = facts
        self._names = facts.domain.names
        self._spending = spending
        self._components = components
        self._beta = beta
        # One field, so that an interrupt finds all of a step or nothing.
        self._state = _LearningState(self._tables(float(facts.rows or 0), {}))
        steps: list[Callable[[Kernel], _LearningState]] = [self._begin]
        if spending.look is not None:
            steps.append(partial(self._look, spending.look))
        if spending.rest is not None:
            steps.append(partial(self._buy, spending.rest))
        steps.append(self._fit)
        if spending.certify is not None:
            steps.append(partial(self._certify, spending.certify))
        self.steps = steps

    @property
    def learnt(self) -> bool:
        return bool(self._state.done)

    @property
    def begun(self) -> bool:  # type: ignore[override]  # derived here, a variable elsewhere
        return self.learnt

    def round(self, kernel: Kernel) -> None:
        done = self._state.done
        self._state = evolve(self.steps[done](kernel), done=done + 1)

    def strategy(self, *, finished: bool) -> LocalStrategy:
        del finished
        state = self._state
        return LocalStrategy(state.tables, self._facts, self._components, state.certified)

    def _tables(
        self, total: float, residuals: Mapping[Attributes, Residual], look: Look | None = None
    ) -> Tables:
        return Tables.of(self._lattice, self._facts.domain, total, residuals, look)

    def _begin(self, kernel: Kernel) -> _LearningState:
        """The number of rows, and each attribute by itself."""
        noise, facts, lattice = self._spending.first, self._facts, self._lattice
        sets: list[Attributes] = [] if counted(facts) else [()]
        sets += [chosen for chosen in lattice.singles if lattice.cells(chosen) > 1]
        total = float(facts.rows or 0)
        rows: Measurement[ResidualAccuracy] | int | None = facts.rows
        residuals: dict[Attributes, Residual] = {}
        if noise is not None:
            wanted = first_deviations(lattice, sets, replaced=facts.replaced)
            deviations = dict(zip(sets, wanted.tolist(), strict=True))
            residuals, accuracy = self._bought(kernel, deviations, noise)
            count = residuals.pop((), None)
            if count is not None:
                value = float(count.values)
                # Never less than one row, so that there are shares of it.
                total = min(max(value, 1.0), float(max(facts.row_limit, 1)))
                first = ResidualAccuracy(accuracy.law, (1,), accuracy.steps[:1])
                rows = Measurement(np.array([value]), first)
        return _LearningState(self._tables(total, residuals), rows)

    def _bought(
        self, kernel: Kernel, deviations: dict[Attributes, float], noise: GaussianNoise
    ) -> tuple[dict[Attributes, Residual], ResidualAccuracy]:
        """Residuals with noise in given proportions, centred."""
        lattice = self._lattice
        request = request_for(deviations, lattice, self._facts, noise)
        measured = kernel.run(request)
        ends = np.cumsum([lattice.cells(chosen) for chosen in deviations])[:-1]
        parts = np.split(measured.values, ends)
        found = {
            chosen: Residual(centred(part.reshape(lattice.shape(chosen)), len(chosen)), deviation)
            for chosen, part, deviation in zip(
                deviations, parts, measured.accuracy.deviations, strict=True
            )
        }
        return found, measured.accuracy

    def _look(self, noise: GaussianNoise, kernel: Kernel) -> _LearningState:
        """How far tables of two attributes or more are from products of single ones."""
        state = self._state
        tables = state.tables
        sets = _seen(self._lattice)
        looked, _ = self._looked(kernel, sets, lambda one: tables.independent([one])[0], noise)
        seen = dict(zip(sets, looked.values.tolist(), strict=True))
        look = Look(seen, _scale(looked.accuracy), tables.single)
        return evolve(state, tables=self._tables(tables.total, tables.residuals, look))

    def _looked(
        self,
        kernel: Kernel,
        sets: Sequence[Attributes],
        table: Callable[[Attributes], Floats],
        noise: GaussianNoise,
    ) -> tuple[Measurement[NoiseAccuracy], list[float]]:
        """Noisy distances from public tables, and what these have in sum once they are rounded."""
        found: list[Measurement[NoiseAccuracy]] = []
        masses: list[float] = []
        for piece, share in _pieces(sets, self._lattice, noise):
            named = [tuple([self._names[place] for place in chosen]) for chosen in piece]
            references = [
                Reference(names, table(chosen)) for names, chosen in zip(named, piece, strict=True)
            ]
            found.append(kernel.look(references, share, bits=BITS))
            masses += [float(one.rounded(BITS).sum()) for one in references]
        widest = max([one.accuracy for one in found], key=_scale)
        accuracy = NoiseAccuracy(widest.law, len(sets), widest.step, 0.0)
        return Measurement(np.concatenate([one.values for one in found]), accuracy), masses

    def _buy(self, noise: GaussianNoise, kernel: Kernel) -> _LearningState:
        """Buy what is worth most."""
        state = self._state
        tables = state.tables
        bought = self._planned(tables, float(noise.rho))
        residuals = dict(tables.residuals)
        if bought:
            for chosen, new in self._bought(kernel, bought, noise)[0].items():
                known = residuals.get(chosen)
                residuals[chosen] = new if known is None else known.joined(new)
        return evolve(state, tables=self._tables(tables.total, residuals, tables.look))

    def _planned(self, tables: Tables, rho: float) -> dict[Attributes, float]:
        """The residuals to buy, and their noise."""
        lattice, look = self._lattice, tables.look
        tried = deviations_for(rho)
        candidates: list[Attributes] = []
        curves: list[Curves] = []
        for chosen in lattice.singles:
            if lattice.cells(chosen) > 1:
                known = np.array([tables.residuals[chosen].deviation ** -2])
                curves.append(Curves.of(tables.table(chosen)[None], tried, known))
                candidates.append(chosen)
        for stack in lattice.stacks if look is not None else ():
            sets = [chosen for chosen in stack.sets if chosen in lattice.measurable]
            if sets and look is not None:
                away = np.array([look.away(one, _LEAST_SEEN) for one in sets])
                # No two tables of so many rows are farther apart than all of both.
                part = np.minimum(away / max(tables.total, 1.0), 2.0)[:, None]
                scales = tables.independent(sets).reshape(len(sets), -1)
                curves.append(Curves.of(scales * part, tried))
                candidates += sets
        price = prices(candidates, lattice.sizes, replaced=self._facts.replaced)
        worths = lattice.worths(candidates)
        found = purchases(Candidates(price, worths, Curves.joined(curves)), tried, rho)
        return {
            chosen: deviation
            for chosen, deviation in zip(candidates, found.tolist(), strict=True)
            if deviation < np.inf
        }

    def _fit(self, kernel: Kernel) -> _LearningState:
        """Tables from independence, a mixture of products from them, and tables from that."""
        del kernel
        state = self._state
        tables = state.tables.fitted()
        if self._lattice.stacks:
            many = len(self._lattice.singles) > _MANY
            components, iterations = _PRIOR_OF_MANY if many else _PRIOR
            tables = tables.fitted(tables.mixture(components, iterations=iterations))
        return evolve(state, tables=tables)

    def _certify(self, noise: GaussianNoise, kernel: Kernel) -> _LearningState:
        """How far the tables of the workload are from the true ones, whatever was done to them."""
        state, lattice = self._state, self._lattice
        sets = [chosen for stack in lattice.stacks for chosen in stack.sets]
        wanted = frozenset(lattice.wanted)
        sets = [chosen for chosen in [*lattice.singles, *sets] if chosen in wanted]
        looked, masses = self._looked(kernel, sets, state.tables.table, noise)
        bounds = Certificate(looked, masses, state.rows).bounds(self._beta)
        return evolve(state, certified=Certified.of(sets, bounds, masses, self._beta, BITS))


def _seen(lattice: Lattice) -> list[Attributes]:
    """The sets that are looked at."""
    found = [chosen for stack in lattice.stacks for chosen in stack.sets]
    return [chosen for chosen in found if chosen in lattice.measurable]


def _pieces(
    sets: Sequence[Attributes], lattice: Lattice, noise: GaussianNoise
) -> list[tuple[list[Attributes], GaussianNoise]]:
    """The sets of each request to look, and its part of the noise."""
    pieces: list[list[Attributes]] = []
    room = 0
    for chosen in sets:
        cells = lattice.cells(chosen)
        if cells > room or not pieces:
            pieces.append([])
            room = max(cells, _PIECE)
        pieces[-1].append(chosen)
        room -= cells
    # In proportion to what it asks, so that all noise is the same.
    parts = [Fraction(len(piece), len(sets)) for piece in pieces]
    return [(p, GaussianNoise(noise.rho * part)) for p, part in zip(pieces, parts, strict=True)]


def _scale(accuracy: NoiseAccuracy) -> float:
    """The scale of Gaussian noise, in rows."""
    law = accuracy.law
    variance = law.variance if isinstance(law, DiscreteGaussian) else Fraction(0)
    return math.sqrt(variance) * accuracy.step


_FIRST = Fraction(15, 100)
_LOOK = Fraction(4, 100)
_COMPONENTS = 32
_MOST_COMPONENTS = 256

_PURE = "above 0: the noise is Gaussian; for pure DP ask Laplace, or open MWEM with delta=0"


def _to_components(value: int) -> int:
    expected = f"an integer from 1 to {_MOST_COMPONENTS}"
    count = to_integer("components", value, expected)
    if not 1 <= count <= _MOST_COMPONENTS:
        raise InvalidArgument("components", expected, shown(value))
    return count


def _first(value: Real) -> Fraction:
    return to_probability("first", value)


def _look(value: Real) -> Fraction:
    return to_probability("look", value)


def _certify(value: Real | None) -> Fraction | None:
    return None if value is None else to_probability("certify", value)


@built_in(
    "local-marginals",
    {
        "workload": QUERY,
        **TOTAL,
        "first": AMOUNT,
        "look": AMOUNT,
        "certify": MAYBE,
        "beta": BETA,
        "components": INTEGER,
    },
)
@frozen(repr=False)
class LocalMarginals(TablesMechanism, MeasuresOnce[LinearForm], HasTotal):
    """Marginals of a domain of whatever size, each fitted by itself, and paid for together.

    For workloads of many marginals over domains that nobody could write down. When the channel
    opens, it buys the number of rows and the marginals of single attributes; looks how far wider
    tables are from independence; plans in public which of them are worth measuring; and buys those,
    as residuals (Xiao, He and Kifer 2023). Each table is then fitted by itself, smallest first: at
    least zero, with the margins of the narrower tables, and drawn by as much as Stein's estimate of
    the risk (Stein 1981) finds best towards a mixture of products that is fitted to all tables of
    two attributes. What is asked of the channel costs nothing.

    A query on attributes that lie in a set of the workload, or whose narrower tables are all known,
    is answered from the table of exactly those attributes: `release.source` is "measured" if
    residuals of it were bought, and "fitted" if not. Anything else is answered from the channel's
    `distribution`, a mixture of products that may differ from the tables by a few per cent, and its
    source is "hypothesis". `channel.tables` lists what each table rests on.

    Without `certify` nothing is proven of the tables. With it a part of the total looks at the
    final ones once more, rounded to 2^-12 rows: then, with probability 1 - `beta`, the total
    variation of every marginal of the workload is within the bound that `channel.tables` lists; and
    so is every sum of entries of a release.

    Universes of up to about 2^21 cells are answered better by `MWEM`, by some 12 per cent in the
    mean on Adult. `ResidualPlanner` is unbiased and has exact variances.

    Parameters
    ----------
    workload
        A query, or a `Workload` of queries: for each of them, the marginal of its attributes.
    epsilon, delta
        What the opening may cost, by the composition of the session; δ above 0.
    rho
        Instead: what it may cost in zCDP.
    first, look
        What parts of that the first purchase and the look take.
    certify
        What part the certificate takes, none if left out.
    beta
        How likely the certificate may fail, strictly between 0 and 1.
    components
        How many products the channel's distribution is a mixture of. More of them come closer to
        the tables, which rows are sampled for, and take longer.

    Raises
    ------
    InvalidArgument
        If the total is not given in one of these ways, δ is 0, or nothing is left to buy; when
        opened or quoted, before anything is paid, also if the total is so small or so large that
        noise or counts might not fit 64 bits.
    TooLarge
        When opened or quoted, before anything is paid: for a marginal of more than 2^24 cells, more
        than 2^16 sets of attributes, or a limit of more than 2^47 rows, or of 2^53 over the cells
        of an attribute.

    >>> from dpsdk.mechanisms import LocalMarginals
    >>> from dpsdk.queries import Marginal
    >>> LocalMarginals(Marginal("sex", "income"), epsilon=1, delta=1e-9)
    LocalMarginals(Marginal('sex', 'income'), epsilon=1, delta=1e-09)
    """

    page = "explanation/proofs/local-marginals.md"

    workload: Lowers[LinearForm] = field(converter=to_workload)
    first: Fraction = field(default=_FIRST, converter=_first, kw_only=True)
    look: Fraction = field(default=_LOOK, converter=_look, kw_only=True)
    certify: Fraction | None = field(default=None, converter=_certify, kw_only=True)
    beta: float = field(default=0.05, converter=to_beta, kw_only=True)
    components: int = field(default=_COMPONENTS, converter=_to_components, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self._pure:
            raise InvalidArgument("delta", _PURE, "0")
        if self.first + self.look + (self.certify or 0) >= 1:
            raise InvalidArgument("first, look and certify", "less than 1 together", repr(self))

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_linear(form, "LocalMarginals")
        cost = self.cost(terms)
        return Quote(cost, cost, NoAccuracy("fitted to noisy numbers, and known once they are"))

    def cost(self, terms: Terms, lattice: Lattice | None = None) -> Cost:
        """What opening costs under some terms, by its `lattice` where that is known. Public."""
        return self._spending(lattice or self.lattice(facts_of(terms)), terms).cost

    def allowance(self, kernel: Kernel) -> Allowance:
        """Pay all runs of an opening without a certificate at once, or none."""
        lattice = self.lattice(facts_of(kernel.terms))
        spending = self._spending(lattice, kernel.terms)
        looks = () if spending.look is None else _pieces(_seen(lattice), lattice, spending.look)
        runs = [spending.first, *[share for _, share in looks], spending.rest]
        return kernel.allowance([noise.cover for noise in runs if noise is not None])

    def open(self, kernel: Kernel, /) -> LocalStrategy:
        learning = self.learning(kernel.terms)
        return learn(kernel, len(learning.steps), learning, "steps")

    def learning(self, terms: Terms) -> Learning:
        """The steps of an opening, none of them taken yet."""
        facts = terms.facts
        lattice = self.lattice(facts)
        spending = self._spending(lattice, terms)
        return Learning(lattice, facts, spending, components=self.components, beta=self.beta)

    def _spending(self, lattice: Lattice, terms: Terms) -> Spending:
        facts = terms.facts

        def split(rho: Fraction) -> Spending:
            return Spending.of(rho, lattice, facts, self.first, self.look, self.certify)

        with self._in_words():
            rho = self.rho
            if rho is None:
                total = Budget(self.epsilon or 0, self.delta)
                rho = terms.calibrate(lambda rho: split(rho).cost.guarantees, total)
                if not rho:
                    expected = "large enough that the steps fit by the composition of the session"
                    raise InvalidArgument("epsilon and delta", expected, str(total))
            spending = split(rho)
        try:
            spending.check(lattice, facts)
        except InvalidArgument as error:
            given = "rho" if self.rho is not None else "epsilon and delta"
            raise InvalidArgument(given, error.expected, error.got) from None
        return spending

    def lattice(self, facts: Facts) -> Lattice:
        """The sets of attributes that a workload asks for. Raises `TooLarge` for too many."""
        domain = facts.domain
        return Lattice.of(domain.shape, self._sets(domain), facts.row_limit)

    def _sets(self, domain: Domain) -> Iterator[Attributes]:
        for form in forms_of(self.workload, domain):
            for block in form.blocks:
                yield tuple(sorted(domain.position(name) for name in block.names))

    def __repr__(self) -> str:
        given = [shown(self.workload), self._total]
        if self.certify is not None:
            given.append(f"certify={float(self.certify):g}, beta={self.beta:g}")
        parts = (("first", self.first, _FIRST), ("look", self.look, _LOOK))
        given += [f"{name}={float(part):g}" for name, part, usual in parts if part != usual]
        if self.components != _COMPONENTS:
            given.append(f"components={self.components}")
        return f"LocalMarginals({', '.join(given)})"
