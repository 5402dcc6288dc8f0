"""Ways around the price that were tried and must stay closed."""

import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee, default_composition
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, Kronecker, LinearForm, Range, sensitivity
from dpsdk.kernel import Kernel, LaplaceNoise, Watching
from dpsdk.mechanisms import Laplace, NumericSparse
from dpsdk.queries import Above, Count
from dpsdk.testing import seeded
from parallel import count_closed, in_a_child, needs_fork

DOMAIN = Domain(Integer("x", 0, 1))
COUNT = Count(where={"x": 0}, normalized=False)


DATA = PrivateData.from_counts([617, 383], DOMAIN)


def session(epsilon=1, **options):
    return Session(DATA, Budget(epsilon, "1e-6"), noise=seeded(1), **options)


def kernel_over(data, epsilon=1):
    """A kernel as a strategy has it, and what it pays from."""
    odometer = Odometer(Budget(epsilon, "1e-6"), default_composition())
    return Kernel(data, odometer, seeded(1), "test"), odometer


@pytest.mark.parametrize("relation", list(Neighbors))
def test_an_empty_range_of_a_large_scale_hides_no_other_function(relation):
    def part(start, stop, scale):
        return Kronecker(("x",), (Range(2, start, stop),), scale)

    form = LinearForm(DOMAIN, [part(0, 0, 2.0**28), part(0, 1, -1.0)])
    found = sensitivity(form, Facts(DOMAIN, relation, 10, True, 10))
    assert (found.l1, found.l2_squared, found.maximum) == (1, 1, 1)


def test_a_watching_of_another_class_is_refused():
    class Cheap(Watching):
        guarantee = property(lambda self: PureGuarantee(0))

    with pytest.raises(InvalidArgument, match="parameters"):
        kernel_over(DATA)[0].watch(Cheap("50", "50", tops=10**6))


@needs_fork
def test_a_forked_process_cannot_use_what_was_paid():
    asked = session()
    data = PrivateData.from_counts([617, 383], DOMAIN)
    kernel = Kernel(data, Odometer(Budget(1), BasicComposition()), seeded(1), "test")
    paid = kernel.allowance([PureGuarantee("0.5")])
    form = COUNT.lower(DOMAIN)
    channel = asked.open(NumericSparse("0.3", tops=1))
    channel.answer(Above(COUNT, 990))
    attempts = (
        lambda: channel.answer(Above(COUNT, 990)),
        lambda: kernel.measure(form, LaplaceNoise("0.5"), allowance=paid),
    )
    assert in_a_child(lambda: count_closed(*attempts)) == 2


def test_an_interrupt_that_takes_arguments_passes_without_what_it_met(monkeypatch):
    class Stop(KeyboardInterrupt):
        def __init__(self, needed):
            super().__init__(needed)

    def interrupting(*_):
        raise Stop("617")

    monkeypatch.setattr("dpsdk.data.histogram.Histogram.table", interrupting)
    with pytest.raises(KeyboardInterrupt) as caught:
        session().answer(COUNT, using=Laplace("0.1"))
    assert caught.value.__context__ is None
    assert not caught.value.args
