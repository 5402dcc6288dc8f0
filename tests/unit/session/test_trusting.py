"""Sessions that trust a class of another author: who may ask for it, and that it is on record."""

from fractions import Fraction

import attrs
import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session, wire
from dpsdk.accounting import MemoryLedger, PureGuarantee, SQLiteLedger, Trusted
from dpsdk.errors import InvalidArgument, Untrusted
from dpsdk.forms import LinearForm
from dpsdk.kernel import LaplaceNoise, Measure, Request
from dpsdk.kernel.trust import named
from dpsdk.mechanisms import Laplace, Mechanism, OneShot
from dpsdk.noise import DiscreteLaplace
from dpsdk.observe import Charged
from dpsdk.planner import Plan
from dpsdk.queries import Count, Threshold
from dpsdk.release import Cost, Measurement, NoiseAccuracy, Quote
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 7), Integer("sex", 0, 1))
ROWS = {"age": [0, 1, 1, 2, 3, 3, 3, 7], "sex": [0, 1, 0, 1, 0, 1, 0, 1]}


@attrs.frozen
class Rows(Request[Measurement]):
    """The number of rows, with noise."""

    epsilon: Fraction = Fraction(1, 10)

    def price(self, terms, /):
        return Counting(PureGuarantee(self.epsilon), terms.facts.unit_rows / self.epsilon)


@attrs.frozen
class Others(Rows):
    """The same, by another name."""


@attrs.frozen
class Counting:
    guarantee: PureGuarantee
    scale: Fraction

    def run(self, noise, opened, /):
        law = DiscreteLaplace(self.scale)
        drawn = int(noise.draw(law, 1)[0])
        values = np.array([float(opened().table(())) + drawn])
        return Measurement(values, NoiseAccuracy(law, 1, 1.0, 0.0))


@attrs.frozen
class Counted(OneShot[LinearForm]):
    """Asks for what it was made with, one after the other."""

    requests: tuple = (Rows(),)

    def quote(self, form, terms, /):
        cost = Cost([request.price(terms).guarantee for request in self.requests])
        return Quote(Cost(), cost, NoiseAccuracy(DiscreteLaplace(10), 1, 1.0, 0.0))

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        found = [kernel.run(request) for request in self.requests]
        return Measurement(found[0].values * form.rows, found[0].accuracy)


@attrs.frozen
class AtOpening(Mechanism[LinearForm]):
    """Pays when it is opened, and answers from that."""

    def quote(self, form, terms, /):
        cost = Cost([Rows().price(terms).guarantee])
        return Quote(cost, cost, NoiseAccuracy(DiscreteLaplace(10), 1, 1.0, 0.0))

    def open(self, kernel, /):
        return Known(kernel.run(Rows()))


@attrs.frozen
class Known:
    measured: Measurement

    def answer(self, form, kernel, /):
        return self.measured


ROWS_NAME, OTHERS_NAME = f"{__name__}.Rows", f"{__name__}.Others"
PROOF = "https://acme.example/rows"
TRUST = {ROWS_NAME: PROOF, OTHERS_NAME: "docs/others.md"}
BOTH = tuple(Trusted(name, TRUST[name]) for name in sorted(TRUST))
QUERY = Count(normalized=False)


def session(trust=TRUST, neighbors=Neighbors.ADD_REMOVE, **given):
    data = PrivateData.from_columns(
        ROWS, DOMAIN, neighbors=neighbors, max_rows=100, name=given.pop("name", "data")
    )
    given.setdefault("noise", seeded(1))
    return Session(data, given.pop("budget", Budget(10)), trust=trust, **given)


def test_a_session_trusts_nobody_unless_it_is_told_to():
    for trust in (None, {}):
        asked = session(trust)
        assert asked.trusted == ()
        with pytest.raises(Untrusted) as caught:
            asked.answer(QUERY, using=Counted())
        assert caught.value.primitive == ROWS_NAME
        with pytest.raises(Untrusted):
            asked.open(AtOpening())
        assert asked.spent.charges == 0
        assert asked.history == ()
        assert "trusting" not in repr(asked)


@pytest.mark.parametrize(
    "trust", [ROWS_NAME, {ROWS_NAME}, {ROWS_NAME: ""}, {"acme.Peek": "x"}, {"Rows": "x"}, 7]
)
def test_trust_is_a_mapping_of_names_to_proofs(trust):
    with pytest.raises(InvalidArgument, match="trust"):
        session(trust)


def test_a_trusted_class_is_on_record_wherever_it_ran():
    events = []
    asked = session(observer=events.append)
    assert asked.trusted == BOTH
    assert f"trusting   {OTHERS_NAME}, {ROWS_NAME}" in repr(asked)
    release = asked.release(QUERY, using=Counted())
    named = f"{Counted().name}, trusting {ROWS_NAME}"
    assert release.mechanism == named
    assert release.payment.trusted == (Trusted(ROWS_NAME, PROOF),)
    assert ROWS_NAME in repr(release.payment)
    assert [receipt.mechanism for receipt in asked.history] == [named]
    assert [event.mechanism for event in events if isinstance(event, Charged)] == [named]
    own = asked.release(QUERY, using=Laplace(1))
    assert own.mechanism == Laplace(1).name
    assert own.payment.trusted == ()
    assert asked.history[1].mechanism == own.mechanism
    both = asked.release(QUERY, using=Counted((Others(), Rows(), measured())))
    assert both.payment.trusted == BOTH
    assert asked.history[2].mechanism.endswith(f", trusting {OTHERS_NAME}, {ROWS_NAME}")
    assert len(asked.history[2].cost.guarantees) == 3


def measured():
    return Measure(QUERY.lower(DOMAIN), LaplaceNoise(1))


def test_what_a_channel_rests_on_is_said_with_each_answer():
    asked = session()
    with asked.open(AtOpening()) as channel:
        for _ in range(2):
            release = channel.release(QUERY)
            assert release.cost.free
            assert release.payment.trusted == (Trusted(ROWS_NAME, PROOF),)
            assert release.mechanism.endswith(f"trusting {ROWS_NAME}")
    assert asked.history[0].mechanism.endswith(f"trusting {ROWS_NAME}")


def test_scopes_parts_channels_and_quotes_trust_whom_their_session_trusts():
    told = []

    class Telling(Counted):
        def quote(self, form, terms, /):
            told.append(terms.trust)
            return super().quote(form, terms)

    asked = session()
    desks = [asked, asked.scope("half", "0.5")]
    with asked.partition("sex") as parts:
        desks.append(parts[1])
        for desk in desks:
            desk.quote(QUERY, using=Telling())
            assert desk.affords(QUERY, using=Telling()) > 1
        told_by = [desk.release(QUERY, using=Counted()).payment.trusted for desk in desks[2:]]
    told_by += [desk.release(QUERY, using=Counted()).payment.trusted for desk in desks[:2]]
    assert told == [BOTH] * 6
    assert told_by == [(Trusted(ROWS_NAME, PROOF),)] * 3
    assert session(None).release(QUERY, using=Laplace(1)).payment.trusted == ()


def test_sessions_on_one_ledger_need_not_trust_the_same():
    ledger = MemoryLedger()
    first = session(ledger=ledger)
    first.answer(QUERY, using=Counted((measured(), Rows(), Others())))
    second = session(None, ledger=ledger)
    with pytest.raises(Untrusted):
        second.answer(QUERY, using=Counted())
    (receipt,) = second.history
    assert receipt.mechanism == first.history[0].mechanism
    assert receipt.mechanism.endswith(f", trusting {OTHERS_NAME}, {ROWS_NAME}")
    assert second.spent == first.spent


def test_a_stored_answer_says_whose_word_it_rests_on(tmp_path):
    path = tmp_path / "ledger"
    made = session(ledger=SQLiteLedger(path), noise=None, name="people")
    first = made.release(QUERY, using=Counted(), request_id="monday")
    for trust, proof in ((TRUST, PROOF), (None, "")):
        made = session(trust, ledger=SQLiteLedger(path), noise=None, name="people")
        again = made.release(QUERY, using=Counted(), request_id="monday")
        assert again.value == first.value
        assert again.mechanism == first.mechanism
        assert again.payment.trusted == (Trusted(ROWS_NAME, proof),)
        assert made.spent.charges == 1


@pytest.mark.parametrize("trust", [TRUST, None], ids=["trusted", "not trusted"])
@pytest.mark.parametrize("called", [f"Boasting, trusting {ROWS_NAME}", "Boasting, trusting me"])
def test_a_mechanism_that_calls_itself_trusting_makes_no_answer_rest_on_a_class(trust, called):
    class Boasting(Laplace):
        @property
        def name(self):
            return called

    asked = session(trust)
    plan = Plan(Boasting(1), Cost(), None, None, None, None, None, None, True, ())
    for using in (Boasting(1), plan):
        name = f"of {type(using).__name__}"
        first = asked.release(QUERY, using=using, request_id=name)
        again = asked.release(QUERY, using=using, request_id=name)
        assert first.payment.trusted == again.payment.trusted == ()
        assert first.mechanism == again.mechanism
    assert {receipt.mechanism for receipt in asked.history} == {first.mechanism}
    assert named(first.mechanism) == (first.mechanism, ())


def test_the_written_form_of_a_release_names_the_proof():
    release = session().release(QUERY, using=Counted((Rows(), Others())))
    record = wire.ReleaseRecord.of(release)
    assert record.trusted == BOTH
    written = wire.to_json(record)
    assert {"kind": "trusted", "name": ROWS_NAME, "proof": PROOF} in written["trusted"]
    assert wire.loads(wire.ReleaseRecord, wire.dumps(record)) == record
    assert wire.ReleaseRecord.of(session().release(QUERY, using=Laplace(1))).trusted == ()


def test_an_answer_given_again_for_free_rests_on_nobody_else():
    asked = session(reuse=True)
    asked.release(QUERY, using=Laplace(1))
    again = asked.release(QUERY, using=Laplace(1))
    assert again.reused
    assert again.payment.trusted == ()
    first = asked.release(Threshold("age", 3, normalized=False), using=Counted())
    assert not asked.release(first.asked, using=Counted()).reused
    assert first.payment.trusted == (Trusted(ROWS_NAME, PROOF),)
