"""What is kept beside an object is found by that object alone, and goes with it."""

import gc
import weakref

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk._beside import Beside
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import GapForm, Kronecker, LinearForm, Range
from dpsdk.kernel import Kernel, Watch, Watching
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.testing import seeded


class Thing:
    """Equal to whatever has its number."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return True

    def __hash__(self):
        return self.number


def like(kind, victim, *bases):
    """An object that says that it is another."""
    said = {"__eq__": lambda self, other: True, "__hash__": lambda self: hash(victim)}
    return object.__new__(type(kind, bases, said))


def test_an_object_that_is_equal_finds_nothing():
    beside, one = Beside(), Thing(1)
    beside.keep(one, "kept")
    assert beside[one] == "kept"
    assert one in beside
    for other in (Thing(1), like("Like", one), 1, None):
        assert beside.get(other) is None
        assert other not in beside
        with pytest.raises(KeyError):
            beside[other]


@pytest.mark.thorough
def test_what_is_kept_goes_with_its_object_and_not_with_another_in_its_place():
    beside, one = Beside(), Thing(1)
    beside.keep(one, "first")
    beside.keep(one, "second")
    gc.collect()
    assert beside[one] == "second"
    assert list(beside) == [one]
    del one
    gc.collect()
    assert len(beside) == 0


def test_nothing_that_is_kept_shows_in_the_references_to_its_object():
    beside, one = Beside(), Thing(1)
    kept = object()
    beside.keep(one, kept)
    assert all(type(found) is weakref.ref for found in weakref.getweakrefs(one))


def test_no_table_is_opened_by_what_says_that_it_is_that_table():
    data = PrivateData.from_counts([3, 4], Domain(Integer("age", 0, 1)))
    thief = like("Thief", data, PrivateData)
    object.__setattr__(thief, "_facts", data.facts)
    object.__setattr__(thief, "_name", "mine")
    with pytest.raises(InvalidArgument):
        Session(thief, Budget(10**6)).answer(Count(), using=Laplace(1))


def test_no_threshold_is_told_to_what_says_that_it_is_a_watch():
    domain = Domain(Integer("age", 0, 1))
    data = PrivateData.from_counts([3, 4], domain)
    kernel = Kernel(data, Odometer(Budget(1), BasicComposition()), seeded(1), "x")
    watch = kernel.watch(Watching("0.2", "0.2"))
    watch.open()
    gap = GapForm.around(LinearForm(domain, [Kronecker(("age",), (Range(2, 0, 1),))]), [0.0])

    class Noiseless:
        def __getattr__(self, name):
            return getattr(kernel._access, name)

        def read(self, charge, work):
            seen.append(charge)
            return work(seeded(2), lambda: None)

    seen = []
    thief = like("Thief", watch)
    held = set(Watch.__slots__) - {"__weakref__", "_access"}
    for name in held:
        setattr(thief, name, getattr(watch, name))
    for name in ("_asked", "_open", "_read", "_look", "_compare", "_redraw", "_numbers"):
        setattr(thief, name, getattr(Watch, name).__get__(thief))
    thief._access = Noiseless()
    with pytest.raises(KeyError):
        Watch.first_above(thief, gap, 1.0)
    assert not seen
