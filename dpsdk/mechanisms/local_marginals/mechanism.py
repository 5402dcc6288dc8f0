"""LocalMarginals, as a mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpsdk._checks import shown, to_beta, to_integer, to_probability
from dpsdk._records import field, frozen
from dpsdk.accounting import Budget
from dpsdk.accuracy import NoAccuracy
from dpsdk.codec import AMOUNT, INTEGER
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.kernel import Kernel, Terms
from dpsdk.kernel.terms import facts_of
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
from dpsdk.mechanisms.fitted import learn
from dpsdk.mechanisms.local_marginals.learning import Learning
from dpsdk.mechanisms.local_marginals.sets import Attributes, Lattice, Spending
from dpsdk.mechanisms.local_marginals.tables import LocalStrategy
from dpsdk.release import Quote
from dpsdk.typing import Real

__all__ = ["LocalMarginals"]

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
        if self.rho is None and not self.delta:
            raise InvalidArgument("delta", _PURE, "0")
        if self.first + self.look + (self.certify or 0) >= 1:
            raise InvalidArgument("first, look and certify", "less than 1 together", repr(self))

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        check_linear(form, "LocalMarginals")
        cost = self._spending(self._lattice(facts_of(terms)), terms).cost
        return Quote(cost, cost, NoAccuracy("fitted to noisy numbers, and known once they are"))

    def open(self, kernel: Kernel, /) -> LocalStrategy:
        terms = kernel.terms
        facts = terms.facts
        lattice = self._lattice(facts)
        spending = self._spending(lattice, terms)
        learning = Learning(lattice, facts, spending, components=self.components, beta=self.beta)
        return learn(kernel, len(learning.steps), learning, "steps")

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

    def _lattice(self, facts: Facts) -> Lattice:
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
