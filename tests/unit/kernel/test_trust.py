"""Who is trusted: the class that was named or given, for as long as its run goes on."""

import sys
import threading
import types
from contextlib import suppress
from itertools import count

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee
from dpsdk.errors import Closed, InvalidArgument, Redacted, Reentered, ReleaseFailed, Untrusted
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Request
from dpsdk.kernel.primitive import check_not_lent
from dpsdk.queries import Marginal
from dpsdk.testing import seeded
from dpsdk.testing.interrupts import interrupted
from parallel import at_once

DOMAIN = Domain(Integer("age", 0, 7), Integer("size", 0, 2))
AGES = [0, 1, 1, 2, 3, 3, 3, 7]
PROOF = "acme.example/proof"
SOURCE = """
from dpsdk.accounting import PureGuarantee
from dpsdk.kernel import Request

class Run:
    guarantee = PureGuarantee("0.1")
    def run(self, noise, opened, /):
        return {result}

class Base(Request[int]):
    def helped(self):
        return Run()

class Peek(Base):
    def price(self, terms, /):
        return self.helped()
"""


def table(neighbors=Neighbors.REPLACE_ONE, domain=DOMAIN, **given):
    rows = {"age": AGES, "size": [0, 1, 2, 0, 1, 2, 0, 1]}
    return PrivateData.from_columns(rows, domain, neighbors=neighbors, max_rows=100, **given)


def kernel(*names, data=None, observer=None):
    odometer = Odometer(Budget(10), BasicComposition())
    trust = dict.fromkeys(names, PROOF)
    made = Kernel(data or table(), odometer, seeded(1), "Acme", observer, trust=trust)
    return made, odometer


NUMBERS = count()


@pytest.fixture
def acme(monkeypatch):
    """A module of another author, with a class of requests."""
    name = f"acme_{next(NUMBERS)}"
    module = types.ModuleType(name)
    exec(SOURCE.format(result=1), vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, name, module)
    return module


def refused(asked, request, why=""):
    made, odometer = asked
    with pytest.raises(Untrusted, match=why or "trust") as caught:
        made.run(request)
    assert odometer.spent.charges == 0
    return caught.value


def test_a_name_that_is_bound_anew_stands_for_the_class_that_was_named(acme):
    asked = kernel(f"{acme.__name__}.Peek")
    old = acme.Peek
    exec(SOURCE.format(result=2), vars(acme))  # noqa: S102
    error = refused(asked, acme.Peek(), "had this name when")
    assert error.primitive == f"{acme.__name__}.Peek"
    assert kernel(f"{acme.__name__}.Peek")[0].run(acme.Peek()) == 2  # whoever trusts it now
    assert asked[1].spent.charges == 0
    assert isinstance(old(), acme.Request)


def test_a_class_may_be_given_in_place_of_its_name():
    class Local(Request[int]):
        def price(self, terms, /):
            return Priced(lambda noise, opened: 3)

    Local.__qualname__ = "Local"
    asked, odometer = kernel(Local, Outer.Free)
    assert asked.run(Local()) == 3
    assert asked.run(Outer.Free()) == 7
    assert odometer.charges[0].mechanism == f"Acme, trusting {__name__}.Local"
    assert {one.name for one in asked.terms.trust} == {
        f"{__name__}.Local",
        f"{__name__}.Outer.Free",
    }


class Outer:
    class Free(Request[int]):
        """A class within another, whose guarantee costs nothing."""

        def price(self, terms, /):
            priced = Priced(lambda noise, opened: 7)
            priced.guarantee = PureGuarantee(0)
            return priced


def test_a_class_within_another_has_a_name_and_what_is_free_is_on_record():
    asked, odometer = kernel(f"{__name__}.Outer.Free")
    assert asked.run(Outer.Free()) == 7
    (charge,) = odometer.charges
    assert charge.guarantee.free
    assert charge.mechanism == f"Acme, trusting {__name__}.Outer.Free"


def test_a_class_has_one_name(acme):
    acme.Same = acme.Peek
    with pytest.raises(InvalidArgument, match="two names of one class"):
        kernel(f"{acme.__name__}.Peek", f"{acme.__name__}.Same")
    assert kernel(f"{acme.__name__}.Same")[1].spent.charges == 0


class Priced:
    guarantee = PureGuarantee("0.1")

    def __init__(self, run):
        self.run = run


class Doing(Request[object]):
    """Runs what it was made with: what a vetted class must not do, as a tool for these tests."""

    def __init__(self, do):
        self.do = (do,)

    def price(self, terms, /):
        return Priced(self.do[0])


DOING = f"{__name__}.Doing"


def test_what_a_run_keeps_reads_nothing_when_it_is_over():
    kept = []

    def keep(noise, opened):
        counts = opened()
        part = counts.only("size", 1, keep_rows=False)
        kept.extend([opened, counts, part])
        return counts, opened, part.rows

    asked, _ = kernel(DOING)
    counts, opened, rows = asked.run(Doing(keep))
    assert rows == 3
    for call in (
        opened, kept[0], lambda: counts.rows, lambda: counts.process,
        lambda: counts.table(("age",)), lambda: counts.counted(("age",)),
        lambda: counts.records(("age",)), lambda: counts.only("age", 0, keep_rows=True),
        lambda: kept[2].rows,
    ):  # fmt: skip
        with pytest.raises(Closed, match="lent to a run"):
            call()
    with pytest.raises(Redacted):
        counts.__reduce_ex__(4)
    assert "3" not in repr(counts)


def test_what_a_run_hands_out_is_no_view_of_the_table():
    def hand_out(noise, opened):
        counts = opened()
        codes, weights = counts.records(("age", "size"))
        return [*codes, weights, counts.table(("age",)), counts.counted(("size",))]

    data = table()
    asked, _ = kernel(DOING, data=data)
    for array in asked.run(Doing(hand_out)):
        if array.flags.writeable:
            array[...] = 0
    arrays = asked.run(Doing(hand_out))
    assert [int(array.sum()) for array in arrays[2:]] == [8, 8, 8]
    assert int(arrays[0].sum()) == sum(AGES)


def test_a_run_charges_nothing_by_itself():
    form = Marginal("age", normalized=False).lower(DOMAIN)
    errors = []

    def reenter(noise, opened):
        for ask in (
            lambda: asked.measure(form, LaplaceNoise("0.1")),
            lambda: asked.run(Doing(lambda *_: 0)),
            lambda: asked.allowance([PureGuarantee("0.1")]),
            lambda: other.measure(form, LaplaceNoise("0.1")),
        ):
            try:
                ask()
            except Reentered as error:
                errors.append(str(error))
        return 1

    asked, odometer = kernel(DOING)
    other, others = kernel(DOING)
    assert asked.run(Doing(reenter)) == 1
    assert len(errors) == 4
    assert (odometer.spent.charges, others.spent.charges) == (1, 0)
    # When it is over, also by an error, everybody may ask again.
    with pytest.raises(ReleaseFailed):
        asked.run(Doing(lambda noise, opened: opened().table(("nothing",))))
    asked.measure(form, LaplaceNoise("0.1"))
    assert odometer.spent.charges == 3


def test_an_interrupt_at_any_moment_ends_the_loan():
    asked, _ = kernel(DOING)
    kept = []

    def keep(noise, opened):
        kept.append(opened)
        kept.append(opened())
        return 0

    def work():
        kept.clear()
        with suppress(KeyboardInterrupt, ReleaseFailed):
            asked.run(Doing(keep))
        check_not_lent()
        for call in (*kept[:1], *[lambda: kept[1].rows for _ in kept[1:]]):
            with pytest.raises(Closed):
                call()

    place = 1
    while interrupted(work, place):
        place += 1
    assert place > 50


def test_runs_in_other_threads_go_on():
    asked, odometer = kernel(DOING)
    barrier = threading.Barrier(2, timeout=10)

    def meet(noise, opened):
        barrier.wait()
        return opened().rows

    found = []
    at_once(lambda _: found.append(asked.run(Doing(meet))), range(2))
    assert found == [8, 8]
    assert odometer.spent.charges == 2


def test_a_thread_that_a_run_leaves_behind_reads_nothing():
    over, errors = threading.Event(), []

    def late(counts):
        over.wait(10)
        for call in (lambda: counts.rows, lambda: counts.table(("age",))):
            try:
                errors.append(call())
            except Closed as error:
                errors.append(str(error))

    threads = []

    def leave(noise, opened):
        threads.append(threading.Thread(target=late, args=(opened(),)))
        threads[0].start()
        return 0

    asked, _ = kernel(DOING)
    asked.run(Doing(leave))
    over.set()
    threads[0].join()
    assert errors == ["a table that was lent to a run is closed"] * 2


def test_text_of_what_a_run_read_reaches_nobody():
    def fail(noise, opened):
        raise ValueError(opened().table(("age",)))

    def stop(noise, opened):
        raise KeyboardInterrupt(opened().rows)

    asked, odometer = kernel(DOING)
    with pytest.raises(ReleaseFailed) as caught:
        asked.run(Doing(fail))
    assert caught.value.__context__ is None
    with pytest.raises(KeyboardInterrupt) as stopped:
        asked.run(Doing(stop))
    assert stopped.value.args == ()
    assert odometer.spent.charges == 2


def test_arrays_of_a_run_are_its_own_however_the_table_is_read():
    form = Marginal("age", "size", normalized=False).lower(DOMAIN)
    asked, _ = kernel(DOING)
    found = asked.run(Doing(lambda noise, opened: form.evaluate(opened())))
    np.testing.assert_array_equal(found.reshape(8, 3).sum(axis=1), np.bincount(AGES, minlength=8))
    assert asked.run(Measure(form, LaplaceNoise(1))).values.shape == (24,)
