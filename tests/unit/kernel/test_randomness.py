"""Public randomness costs nothing, and has nothing to do with the noise."""

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Boolean, Budget, Domain, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.forms import LinearForm
from dpsdk.kernel import Kernel, LaplaceNoise
from dpsdk.mechanisms import OneShot
from dpsdk.noise import SystemNoise
from dpsdk.queries import Count, Marginal
from dpsdk.release import Measurement
from dpsdk.testing import seeded
from dpsdk.testing.audit import enumerate_law, replay
from dpsdk.testing.audit.programs import program
from worlds import PEOPLE, people, table

DATA = table(people(40, 9))
FORM = Marginal("sex").lower(PEOPLE)


def kernel(noise):
    return Kernel(DATA, Odometer(Budget(10**6), BasicComposition()), noise, "x")


def test_drawing_it_does_not_shift_the_noise_of_a_seed():
    plain, mixed = kernel(seeded(4)), kernel(seeded(4))
    for _ in range(5):
        mixed.randomness.random(1000)
        kernel(mixed._access.noise).randomness.integers(7)
        one, two = plain.measure(FORM, LaplaceNoise(1)), mixed.measure(FORM, LaplaceNoise(1))
        assert (one.values == two.values).all()


def test_the_noise_does_not_shift_it_either_and_it_repeats_with_the_seed():
    noise = seeded(5)
    first = kernel(noise)
    first.measure(FORM, LaplaceNoise(1))
    streams = [first.randomness.random(4).tolist(), kernel(noise).randomness.random(4).tolist()]
    again = seeded(5)
    assert [kernel(again).randomness.random(4).tolist() for _ in range(2)] == streams
    assert streams[0] != streams[1]
    assert kernel(seeded(6)).randomness.random(4).tolist() not in streams


def test_a_kernel_has_one_generator_that_goes_on():
    one = kernel(seeded(1))
    assert one.randomness is one.randomness
    assert isinstance(one.randomness, np.random.Generator)
    assert one.randomness.random() != one.randomness.random()


def test_the_system_starts_it_from_fresh_entropy(monkeypatch):
    asked = []
    noise = SystemNoise()

    def urandom(count):
        asked.append(count)
        return bytes(count)

    drawn = {tuple(kernel(noise).randomness.integers(2**62, size=4).tolist()) for _ in range(100)}
    assert len(drawn) == 100
    monkeypatch.setattr("dpsdk.noise.source.os.urandom", urandom)
    kernel(noise).randomness.random(10**5)
    assert asked == [32]


def test_it_is_free_and_reads_nothing():
    odometer = Odometer(Budget(1), BasicComposition())
    one = Kernel(DATA, odometer, seeded(1), "x")
    one.randomness.random(100)
    assert odometer.charges == ()


@frozen
class _Shuffling:
    def answer(self, form, kernel, /):
        measured = kernel.measure(form, LaplaceNoise(1))
        return Measurement(kernel.randomness.permutation(measured.values), measured.accuracy)


@frozen
class Shuffled(OneShot[LinearForm]):
    def quote(self, form, terms, /):
        raise NotImplementedError

    def open(self, kernel, /):
        return _Shuffling()


@pytest.mark.parametrize("noise", [seeded(8), None])
def test_a_strategy_may_shuffle_and_each_question_has_a_stream_of_its_own(noise):
    session = Session(DATA, Budget(10**6), noise=noise)
    orders = set()
    for _ in range(60):
        answer = session.answer(Marginal("age", normalized=False), using=Shuffled())
        orders.add(tuple(np.argsort(answer.values)))
    assert len(orders) > 20


def test_audits_see_the_same_public_randomness_in_every_run():
    domain = Domain(Boolean("bit"))
    one, other = (PrivateData.from_counts(counts, domain) for counts in ([2, 1], [1, 2]))
    shuffled = program(Shuffled(), Marginal("bit", normalized=False))
    assert replay(shuffled, one, other)[0] is None
    count = program(Shuffled(), Count({"bit": True}, normalized=False))
    assert enumerate_law(count, one) == enumerate_law(count, one)
