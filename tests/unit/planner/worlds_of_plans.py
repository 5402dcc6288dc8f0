"""Tables, accounts and questions to plan for."""

from fractions import Fraction
from unittest.mock import patch

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import (
    AdvancedComposition,
    BasicComposition,
    EnvelopeComposition,
    RenyiComposition,
    ZCDPComposition,
)
from dpsdk.errors import DpsdkError, NoMechanism
from dpsdk.forms import Identity, Kronecker, LinearForm
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Count, Marginal, Query, Sum, Threshold, Workload
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 19), Boolean("b"))
BUDGET = Budget(1, "1e-6")
COMPOSITIONS = [
    BasicComposition(), ZCDPComposition(), None, EnvelopeComposition(), AdvancedComposition(),
    RenyiComposition(100),
]  # fmt: skip

AGES = Workload([Threshold("age", t, normalized=False) for t in range(20)])
SEXES = Marginal("b", normalized=False)
ONE = Count({"b": True}, normalized=False)
YEARS = Sum("age", normalized=False)
QUERIES = [ONE, SEXES, AGES, YEARS]


def table(rows=300, relation=Neighbors.REPLACE_ONE, shift=0):
    columns = {
        "age": [(7 * row + shift) % 20 for row in range(rows)],
        "b": [(row + shift) % 3 == 0 for row in range(rows)],
    }
    most = {} if relation is Neighbors.REPLACE_ONE else {"max_rows": 1000}
    return PrivateData.from_columns(columns, DOMAIN, neighbors=relation, **most)


def session(composition=None, budget=BUDGET, **of):
    noise = of.pop("noise", None) or seeded(1)
    return Session(table(**of), budget, composition=composition, noise=noise)


def spent(asker, rng):
    """Something is spent, if it fits."""
    for _ in range(rng.randrange(3)):
        using = rng.choice(
            [
                Laplace(epsilon=Fraction(rng.randrange(1, 100), 1000)),
                Gaussian(rho=Fraction(rng.randrange(1, 100), 100000)),
            ]
        )
        try:
            asker.answer(Count(normalized=False), using=using)
        except DpsdkError:
            return


def an_account(rng):
    """A session, scope or part that has spent something; and what must live as long."""
    relation = rng.choice(list(Neighbors))
    own = session(rng.choice(COMPOSITIONS), relation=relation)
    kept = [own]
    asker = own
    kind = rng.randrange(4)
    if kind == 1:
        kept.append(own.scope("beside", Fraction(1, 3), reserve=True))
    elif kind == 2:
        asker = own.scope("within", Fraction(1, 2), reserve=rng.random() < 0.5)
    elif kind == 3:
        kept.append(own.partition("b"))
        asker = kept[-1][True]
    spent(own, rng)
    spent(asker, rng)
    return asker, kept


class Strange(Query[float]):
    """A query of another author, which says nothing of its unit."""

    def lower(self, domain, /):
        return LinearForm(domain, [Kronecker(("b",), (Identity(2),))])

    def lift(self, raw, facts, /):
        return float(raw[0])


def best(plans):
    try:
        return plans.best
    except NoMechanism:
        return None


def codes(plan):
    return [reason.code for reason in plan.because]


def never(*_, **__):
    raise AssertionError("planning looked at the table")


def without_a_table():
    """Nothing may open the counts of a table."""
    return patch("dpsdk.kernel.access.open_histogram", never)
