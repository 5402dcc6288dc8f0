"""The gate: what may run, what it is charged for, and that a price is the same before and after."""

import copy
import dataclasses
import pickle
import sys
import types
from fractions import Fraction

import attrs
import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import (
    BasicComposition,
    Guarantee,
    Odometer,
    PureGuarantee,
    Trusted,
    ZCDPComposition,
    default_composition,
)
from dpsdk.data.vault import open_histogram
from dpsdk.errors import BudgetExceeded, InvalidArgument, UnsupportedGuarantee, Untrusted
from dpsdk.forms import GapForm
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Request, Terms, Watching
from dpsdk.mechanisms import Gaussian, Laplace, NumericSparse, OnlinePMW
from dpsdk.noise import DiscreteLaplace
from dpsdk.observe import Charged
from dpsdk.queries import Marginal, Threshold
from dpsdk.release import NoiseAccuracy
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 7))
AGES = [0, 1, 1, 2, 3, 3, 3, 7]
FORM = Marginal("age", normalized=False).lower(DOMAIN)
NAME = f"{__name__}.Rows"
PROOF = "acme.example/rows"


@attrs.frozen
class Counting:
    """The number of rows with noise, as an author outside of the package would read it."""

    guarantee: Guarantee
    accuracy: NoiseAccuracy
    law: DiscreteLaplace

    def run(self, noise, opened, /):
        drawn = int(noise.draw(self.law, 1)[0])
        return opened().rows + drawn


@attrs.frozen
class Rows(Request[int]):
    """What another author asks for."""

    epsilon: Fraction = Fraction(1, 10)
    primitive: object = None
    seen: list = attrs.field(factory=list, eq=False)

    def price(self, terms, /):
        self.seen.append(terms)
        if self.primitive is not None:
            return self.primitive
        law = DiscreteLaplace(1 / self.epsilon)
        return Counting(PureGuarantee(self.epsilon), NoiseAccuracy(law, 1, 1.0, 0.0), law)


def data(neighbors=Neighbors.REPLACE_ONE):
    return PrivateData.from_columns({"age": AGES}, DOMAIN, neighbors=neighbors, max_rows=100)


def kernel(epsilon=1, trust=(), observer=None, composition=None):
    odometer = Odometer(Budget(epsilon, "1e-6"), composition or BasicComposition())
    return Kernel(data(), odometer, seeded(1), "Acme", observer, trust=trust), odometer


def test_a_foreign_request_is_refused_and_costs_nothing():
    asked, odometer = kernel()
    request = Rows()
    for ask in (lambda: asked.run(request), lambda: asked.run_all([request])):
        with pytest.raises(Untrusted, match=r"vouch for it by trust=.*Rows") as caught:
            ask()
        assert caught.value.primitive == NAME
    assert request.seen == []
    with pytest.raises(Untrusted):
        asked.run_all([Measure(FORM, LaplaceNoise("0.1")), request])
    assert odometer.spent.charges == 0


def test_a_trusted_request_is_charged_then_run_with_its_name_on_the_charge():
    events = []
    asked, odometer = kernel(trust={NAME: PROOF}, observer=events.append)
    got = asked.run(Rows(Fraction(1, 10)))
    law = DiscreteLaplace(10)
    assert got == len(AGES) + int(seeded(1).draw(law, 1)[0])
    (charge,) = odometer.charges
    assert charge.guarantee == PureGuarantee("0.1")
    assert charge.mechanism == f"Acme, trusting {NAME}"
    assert [event.mechanism for event in events if isinstance(event, Charged)] == [charge.mechanism]
    asked.measure(FORM, LaplaceNoise("0.1"))
    assert odometer.charges[1].mechanism == "Acme"
    with pytest.raises(BudgetExceeded):
        asked.run(Rows(Fraction(9, 10)))
    assert odometer.spent.epsilon == Fraction(2, 10)


def test_terms_of_a_kernel_are_like_others_before_and_after_their_composition_is_asked_for():
    asked, _ = kernel(trust={NAME: PROOF}, composition=ZCDPComposition())
    asked.run(request := Rows())
    whole = Terms(asked.facts, ZCDPComposition(), {NAME: PROOF})
    assert request.seen == [asked.terms] == [whole]
    assert hash(asked.terms) == hash(whole)
    assert repr(asked.terms) == repr(whole)
    assert copy.deepcopy(asked.terms) == whole
    assert pickle.loads(pickle.dumps(asked.terms)) == whole  # noqa: S301 - made here
    assert attrs.evolve(asked.terms, trust=()) == Terms(asked.facts, ZCDPComposition())
    assert asked.terms != Terms(asked.facts)
    assert Terms(asked.facts).composition == default_composition()


class Below(Measure):
    """A class below one of the package's own is another author's."""


def test_a_class_below_an_own_request_is_a_foreign_one():
    asked, odometer = kernel()
    with pytest.raises(Untrusted):
        asked.run(Below(FORM, LaplaceNoise("0.1")))
    assert odometer.spent.charges == 0


@pytest.mark.parametrize("request_", [None, 7, (FORM, LaplaceNoise(1)), FORM, Measure])
def test_what_is_no_request_is_refused(request_):
    asked, odometer = kernel()
    for ask in (lambda: asked.run(request_), lambda: asked.run_all([request_])):
        with pytest.raises(InvalidArgument, match="request"):
            ask()
    assert odometer.spent.charges == 0


class Cheap(PureGuarantee):
    free = property(lambda self: True)


class Bare:
    guarantee = PureGuarantee("0.1")


class Unproven:
    guarantee = Cheap(5)

    def run(self, noise, opened, /):
        return opened().rows


@pytest.mark.parametrize(
    ("primitive", "error"),
    [(7, InvalidArgument), (Bare(), InvalidArgument), (Unproven(), UnsupportedGuarantee)],
)
def test_a_trusted_request_must_be_priced_into_a_primitive(primitive, error):
    asked, odometer = kernel(trust={NAME: PROOF})
    with pytest.raises(error):
        asked.run(Rows(primitive=primitive))
    assert odometer.spent.charges == 0


def test_the_price_of_a_trusted_run_is_read_once():
    class Changing:
        accuracy = None
        asked = 0

        @property
        def guarantee(self):
            self.asked += 1
            return PureGuarantee("0.5" if self.asked == 1 else "0.001")

        def run(self, noise, opened, /):
            return 0

    asked, odometer = kernel(trust={NAME: PROOF})
    asked.run_all([Rows(primitive=Changing())])
    assert odometer.spent.epsilon == Fraction(1, 2)


def test_no_allowance_pays_for_what_must_have_its_name_on_a_charge():
    asked, odometer = kernel(trust={NAME: PROOF})
    allowance = asked.allowance([PureGuarantee("0.5")])
    with pytest.raises(InvalidArgument, match="allowance"):
        asked.run(Rows(), allowance=allowance)
    assert allowance.left == odometer.spent.charges == 1


WRONG = [
    "acme.Peek", 7, [7], [""], ["acme.Peek"], {"acme.Peek"}, {"acme.Peek": 1}, {2: "why"}, None,
    {"acme.Peek": ""}, {"acme.Peek": " "}, {"Peek": "why"}, {"acme..Peek": "why"},
    {"acme.Pe ek": "why"}, {"acme.f.<locals>.Peek": "why"}, {"acme.Peek": "w" * 1001},
    [Trusted("acme.Peek")], [Trusted("acme.Peek", "a"), Trusted("acme.Peek", "b")],
]  # fmt: skip


@pytest.mark.parametrize("trust", WRONG, ids=repr)
def test_trust_is_names_with_proofs(trust):
    with pytest.raises(InvalidArgument, match=r"trust|proof"):
        kernel(trust=trust)
    with pytest.raises(InvalidArgument, match=r"trust|proof"):
        Terms(data().facts, trust=trust)


def test_terms_say_who_is_trusted_and_why():
    terms = Terms(data().facts, trust={"b.B": "here", "a.A": "there"})
    assert terms.trust == (Trusted("a.A", "there"), Trusted("b.B", "here"))
    assert attrs.evolve(terms) == terms == pickle.loads(pickle.dumps(terms))  # noqa: S301 - made here
    assert "there" in repr(terms)


@pytest.mark.parametrize(
    "name",
    [
        "antigravity.Peek", "dpsdk.kernel.Measure.form.x", "dpsdk.kernel.Nothing", "dpsdk.kernel",
        "dpsdk.kernel.Kernel", "dpsdk.kernel.Request", f"{__name__}.Counting", f"{__name__}.rows",
        f"{__name__}.NAME",
    ],
)  # fmt: skip
def test_a_name_must_stand_for_a_class_of_requests_and_nothing_is_imported_for_it(name):
    before = set(sys.modules)
    with pytest.raises(InvalidArgument, match="trust"):
        kernel(trust={name: PROOF})
    assert "antigravity" not in set(sys.modules) - before


def test_a_module_is_not_asked_for_what_it_does_not_hold(monkeypatch):
    asked = []
    lazy = types.ModuleType("lazy")
    lazy.__getattr__ = lambda name: asked.append(name) or Rows
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    with pytest.raises(InvalidArgument, match="trust"):
        kernel(trust={"lazy.Rows": PROOF})
    assert asked == []


def test_terms_are_made_of_facts_and_a_composition():
    of = data().facts
    for wrong in (None, data(), Terms(of)):
        with pytest.raises(InvalidArgument, match="facts"):
            Terms(wrong)
    with pytest.raises(InvalidArgument, match="composition"):
        Terms(of, "basic")
    gap = GapForm.around(FORM, np.zeros(FORM.rows))
    for price in (
        Measure(FORM, LaplaceNoise(1)).price,
        Watching(1, 1).price,
        lambda terms: Laplace(1).quote(FORM, terms),
        lambda terms: NumericSparse(1, tops=2).quote(gap, terms),
        lambda terms: OnlinePMW(1, updates=2).quote(FORM, terms),
    ):
        with pytest.raises(InvalidArgument, match=r"Terms\(facts\)"):
            price(of)
        price(Terms(of))


def test_several_runs_of_any_kinds_are_paid_for_at_once_or_not_at_all():
    asked, odometer = kernel(trust={NAME: PROOF})
    requests = [Measure(FORM, LaplaceNoise("0.3")), Rows(Fraction(3, 10))]
    measured, rows = asked.run_all(requests)
    assert len(measured.values) == FORM.rows
    assert isinstance(rows, int)
    assert {charge.mechanism for charge in odometer.charges} == {f"Acme, trusting {NAME}"}
    with pytest.raises(BudgetExceeded):
        asked.run_all(requests)
    assert odometer.spent.charges == 2
    assert asked.run_all([]) == ()
    assert odometer.spent.epsilon == Fraction(6, 10)


@pytest.mark.parametrize("noise", [LaplaceNoise("0.3"), GaussianNoise("0.001"), GaussianNoise(2)])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_what_is_charged_is_what_the_price_said(noise, neighbors):
    table = data(neighbors)
    odometer = Odometer(Budget(10, "0.1"), default_composition())
    asked = Kernel(table, odometer, seeded(1), "Acme")
    request = Measure(FORM, noise)
    price = request.price(asked.terms)
    got = asked.run(request)
    assert price.guarantee == odometer.charges[0].guarantee
    assert price.accuracy == got.accuracy
    # The price is a primitive itself: on the same noise and rows it does the same.
    again = price.run(seeded(1), lambda: open_histogram(table))
    np.testing.assert_array_equal(again.values, got.values)
    assert isinstance(request, Request)
    primitive = price
    assert primitive is price


def test_what_a_run_of_a_watch_is_charged_is_what_its_price_said():
    asked, odometer = kernel()
    watching = Watching("0.1", "0.2")
    price = watching.price(asked.terms)
    asked.watch(watching).open()
    assert odometer.charges[0].guarantee == price.guarantee
    assert price.accuracy.radii(0.1, joint=True) == [watching.below(0.1, asked.facts)]
    with pytest.raises(InvalidArgument):
        Watching("1e-30", 1).price(asked.terms)


@pytest.mark.parametrize("mechanism", [Laplace("0.2"), Gaussian(rho="0.001")])
def test_a_quote_needs_terms_alone(mechanism):
    asked, odometer = kernel(10, composition=default_composition())
    quote = mechanism.quote(FORM, asked.terms)
    mechanism.open(asked).answer(FORM, asked)
    assert quote.at_most.guarantees == (odometer.charges[0].guarantee,)
    assert mechanism.quote(FORM, Terms(asked.facts)).at_most == quote.at_most


def test_terms_split_a_total_as_the_kernel_does():
    asked, _ = kernel(composition=ZCDPComposition())

    def runs(scale):
        return [PureGuarantee(scale / 10)] * 10

    total = Budget(1, "1e-6")
    assert asked.terms.calibrate(runs, total) == asked.calibrate(runs, total) > 0
    assert Terms(asked.facts, BasicComposition()).calibrate(runs, total) == 1
    assert Terms(asked.facts).calibrate(runs, rho="0.1") == asked.calibrate(runs, rho="0.1")
    for given in ({}, {"rho": 1, "total": total}):
        with pytest.raises(InvalidArgument):
            asked.terms.calibrate(runs, given.get("total"), rho=given.get("rho"))


def test_a_session_quotes_by_its_own_composition():
    told = []

    class Telling(Laplace):
        def quote(self, form, terms, /):
            told.append(terms)
            return super().quote(form, terms)

    session = Session(
        data(), Budget(1, "1e-6"), composition=ZCDPComposition("0.1"), noise=seeded(1)
    )
    for desk in (session, session.scope("half", "0.5")):
        desk.quote(Threshold("age", 3), using=Telling("0.1"))
    assert told == [Terms(session.facts, ZCDPComposition("0.1"))] * 2


@dataclasses.dataclass(frozen=True)
class WithDefault(Request[int]):
    """Keeps what its fields hold where a class has their defaults."""

    law: type = DiscreteLaplace

    def price(self, terms, /):
        return Rows().price(terms)


def test_a_field_whose_default_can_be_called_is_no_method():
    asked, odometer = kernel(trust={f"{__name__}.WithDefault": PROOF})
    assert isinstance(asked.run(WithDefault()), int)
    assert odometer.count == 1
