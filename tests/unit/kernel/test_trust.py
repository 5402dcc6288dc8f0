"""Who is trusted: the very class that was named, as it was then, and with no more than it needs."""

import gc
import importlib
import sys
import threading
import types
from contextlib import suppress
from fractions import Fraction
from itertools import count

import attrs
import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, DiscreteLaplaceGuarantee, Odometer, PureGuarantee
from dpsdk.errors import Closed, InvalidArgument, Redacted, Reentered, ReleaseFailed, Untrusted
from dpsdk.forms import Facts, sensitivity
from dpsdk.kernel import Kernel, LaplaceNoise, Measure, Request
from dpsdk.kernel.loan import check_not_lent
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import Marginal
from dpsdk.testing import seeded
from dpsdk.testing.interrupts import interrupted

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


def test_a_name_that_is_bound_anew_is_not_trusted_again(acme):
    asked = kernel(f"{acme.__name__}.Peek")
    old = acme.Peek
    exec(SOURCE.format(result=2), vars(acme))  # noqa: S102
    error = refused(asked, acme.Peek(), "had this name when")
    assert error.primitive == f"{acme.__name__}.Peek"
    refused(asked, old(), "changed since")  # its methods look up the names of the new ones
    assert kernel(f"{acme.__name__}.Peek")[0].run(acme.Peek()) == 2  # whoever trusts it now


def test_a_module_that_is_loaded_again_is_to_be_vetted_again(tmp_path, monkeypatch):
    (tmp_path / "acme_reloaded.py").write_text(SOURCE.format(result=1))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("acme_reloaded")
    asked, old = kernel("acme_reloaded.Peek"), module.Peek
    importlib.reload(module)
    refused(asked, module.Peek(), "had this name when")
    refused(asked, old(), "changed since")
    asked = kernel("acme_reloaded.Peek")
    assert asked[0].run(module.Peek()) == 1
    monkeypatch.delitem(sys.modules, "acme_reloaded")
    with pytest.raises(Untrusted, match="changed since"):
        asked[0].run(module.Peek())


def other_helper(self):
    raise AssertionError


CHANGES = {
    "a method": lambda acme, patch: patch.setattr(acme.Peek, "price", other_helper),
    "a method above": lambda acme, patch: patch.setattr(acme.Base, "helped", other_helper),
    "a new method": lambda acme, patch: patch.setattr(
        acme.Peek, "__getattribute__", object.__getattribute__, raising=False
    ),
    "one taken away": lambda acme, patch: patch.delattr(acme.Base, "helped"),
    "the code of a method": lambda acme, patch: patch.setattr(
        acme.Base.helped, "__code__", other_helper.__code__
    ),
    "a number": lambda acme, patch: patch.setattr(acme.Peek, "SCALE", 0, raising=False),
    "the classes above": lambda acme, patch: setattr(
        acme.Peek, "__bases__", (type("Base", (acme.Base,), {}),)
    ),
    "the name": lambda acme, patch: patch.setattr(acme, "Peek", acme.Base),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_class_that_was_changed_is_not_trusted_any_more(acme, change):
    asked = kernel(f"{acme.__name__}.Peek")
    given, bases = acme.Peek(), acme.Peek.__bases__
    with pytest.MonkeyPatch.context() as patch:
        change(acme, patch)
        refused(asked, given, "changed since")
    acme.Peek.__bases__ = bases
    assert asked[0].run(given) == 1  # restored, it is the same again


PARTS = """
from functools import cached_property, wraps

def doubled(call):
    @wraps(call)
    def twice(*args):
        return call(*args)
    return twice

def scaled(by):
    def scale(self):
        return by
    return scale

class Parted(Base):
    def price(self, terms, /, times=1, *, more=1):
        return self.helped()

    @staticmethod
    def fixed():
        return 1

    @classmethod
    def made(cls):
        return 1

    @property
    def size(self):
        return 1

    @cached_property
    def kept(self):
        return 1

    @doubled
    def wrapped(self):
        return 1

    scale = scaled([1])

    def again(self):
        return super().helped() and self.again
"""


def swap(patch, function):
    patch.setattr(function, "__code__", (lambda *_: 2).__code__)


INNER = {
    "defaults": lambda own, patch: patch.setattr(own["price"], "__defaults__", (2,)),
    "defaults by name": lambda own, patch: patch.setattr(own["price"], "__kwdefaults__", {}),
    "one default by name": lambda own, patch: patch.setitem(own["price"].__kwdefaults__, "more", 2),
    "a static method": lambda own, patch: swap(patch, own["fixed"].__func__),
    "a class method": lambda own, patch: swap(patch, own["made"].__func__),
    "a property": lambda own, patch: swap(patch, own["size"].fget),
    "a kept property": lambda own, patch: swap(patch, own["kept"].func),
    "what was closed over": lambda own, patch: patch.setattr(
        own["scale"].__closure__[0], "cell_contents", [2]
    ),
    "a decorated method": lambda own, patch: patch.setattr(
        own["wrapped"].__closure__[0].cell_contents, "__defaults__", (2,)
    ),
}


@pytest.mark.parametrize("change", INNER.values(), ids=INNER)
def test_the_inner_parts_of_methods_belong_to_the_class(acme, change):
    exec(PARTS, vars(acme))  # noqa: S102
    asked = kernel(f"{acme.__name__}.Parted")
    given = acme.Parted()
    assert asked[0].run(given) == 1
    with pytest.MonkeyPatch.context() as patch:
        change(vars(acme.Parted), patch)
        with pytest.raises(Untrusted, match="changed since"):
            asked[0].run(given)
    assert asked[0].run(given) == 1


META = """
class Meta(type(Request)):
    pass

class Ruled(Base, metaclass=Meta):
    def price(self, terms, /):
        return self.helped()
"""


def test_the_class_of_a_class_prices_nothing(acme):
    exec(META, vars(acme))  # noqa: S102
    made, odometer = kernel(f"{acme.__name__}.Ruled")
    cheap = types.SimpleNamespace(guarantee=PureGuarantee("0.001"), run=lambda *_: 2)
    acme.Meta.price = property(lambda cls: lambda own, terms: cheap)
    assert made.run(acme.Ruled()) == 1
    assert odometer.spent.epsilon == Fraction(1, 10)


@pytest.mark.thorough
def test_looking_at_a_class_does_not_change_it(acme):
    asked, _ = kernel(f"{acme.__name__}.Peek")
    for _ in range(3):
        asked.run(acme.Peek())
        assert acme.Peek.__annotations__ == {}
        assert isinstance(acme.Peek.__doc__, str | None)
        Request[int], attrs.has(acme.Peek), hash(acme.Peek), gc.collect()


def test_a_class_is_told_by_what_it_is_whatever_it_and_its_class_say(acme):
    asked = kernel(f"{acme.__name__}.Peek")

    class Lying(type(Request)):
        __eq__ = lambda cls, other: True  # noqa: E731
        __hash__ = lambda cls: hash(acme.Peek)  # noqa: E731

        def __getattribute__(cls, name):
            return getattr(acme.Peek, name)

    class Shouting(type(Request)):
        def __getattribute__(cls, name):
            if name in {"__module__", "__qualname__", "__name__"}:
                raise ZeroDivisionError(name)
            return super().__getattribute__(name)

    class Claiming(acme.Peek):
        __class__ = acme.Peek

    local = type("Peek", (acme.Peek,), {"__module__": acme.__name__, "__qualname__": "Peek"})
    for kind in (
        Claiming,
        Lying("Peek", (acme.Peek,), {}),
        Shouting("Peek", (acme.Peek,), {}),
        type("Below", (acme.Peek,), {}),
    ):
        refused(asked, kind())
    refused(asked, local(), "had this name when")


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
        opened,
        kept[0],
        lambda: counts.rows,
        lambda: counts.process,
        lambda: counts.table(("age",)),
        lambda: counts.counted(("age",)),
        lambda: counts.records(("age",)),
        lambda: counts.only("age", 0, keep_rows=True),
        lambda: kept[2].rows,
    ):
        with pytest.raises(Closed, match="lent to a run"):
            call()
    with pytest.raises(Redacted):
        counts.__reduce_ex__(4)
    assert "3" not in repr(counts)
    # And nothing of it leads to the counts.
    seen, waiting = set(), [counts, opened, kept[2]]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not isinstance(one, type | types.ModuleType | dict):
            seen.add(id(one))
            waiting += gc.get_referents(one)
            assert type(one).__name__ != "Histogram"


def test_what_a_run_hands_out_is_no_view_of_the_table():
    def hand_out(noise, opened):
        counts = opened()
        codes, weights = counts.records(("age", "size"))
        return [*codes, weights, counts.table(("age",)), counts.counted(("size",))]

    data = table()
    asked, _ = kernel(DOING, data=data)
    for array in asked.run(Doing(hand_out)):
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


@pytest.mark.thorough
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
    threads = [
        threading.Thread(target=lambda: found.append(asked.run(Doing(meet)))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


@attrs.frozen
class Sized(Request[Fraction]):
    """Priced by the sensitivity of a form, as an author outside of the package would do it."""

    def price(self, terms, /):
        form = Marginal("age", normalized=False).lower(terms.facts.domain)
        move = int(sensitivity(form, terms.facts).l1)

        class Run:
            guarantee = DiscreteLaplaceGuarantee(10, move)

            def run(self, noise, opened, /):
                return noise.draw(DiscreteLaplace(10), 1)[0] + opened().rows

        return Run()


SIZED = f"{__name__}.Sized"

WRITTEN = {
    "unit_rows": lambda facts: object.__setattr__(facts, "unit_rows", 0),
    "neighbors": lambda facts: object.__setattr__(facts, "neighbors", Neighbors.ADD_REMOVE),
    "outside": lambda facts: object.__setattr__(facts, "outside", False),
    "anew": lambda facts: facts.__init__(DOMAIN, Neighbors.ADD_REMOVE, None, False, 1, 1),
}


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_facts_that_were_written_into_change_no_price_of_a_trusted_class(write):
    data = table(unit_rows=3)
    asked, odometer = kernel(SIZED, data=data)
    asked.run(Sized())
    write(data.facts)
    asked.run(Sized())
    fresh, others = kernel(SIZED, data=data)
    fresh.run(Sized())
    paid = [charge.guarantee.shift for charge in (*odometer.charges, *others.charges)]
    assert paid == [6, 6, 6]


def test_a_domain_that_was_written_into_is_found_out():
    data = table()
    asked, odometer = kernel(SIZED, data=data)
    data.facts.domain.__init__(Integer("age", 0, 7))
    with pytest.raises(InvalidArgument, match="attributes that the table was made with"):
        asked.run(Sized())
    assert odometer.spent.charges == 0


def test_a_trusted_class_gets_facts_that_nobody_else_holds():
    seen = []

    class Priced:
        guarantee = PureGuarantee("0.1")

        def run(self, noise, opened, /):
            return 0

    def price(self, terms, /):
        seen.append(terms)
        return Priced()

    module = sys.modules[__name__]
    module.Seeing = type("Seeing", (Request,), {"price": price, "__module__": __name__})
    try:
        data = table()
        asked, _ = kernel(f"{__name__}.Seeing", data=data)
        asked.run(module.Seeing())
    finally:
        del module.Seeing
    (terms,) = seen
    assert terms == asked.terms
    assert terms.facts == data.facts
    assert terms.facts is not data.facts
    assert terms.facts.domain is not data.domain
    assert isinstance(terms.facts, Facts)


@attrs.define
class Held(Request[int]):
    """Lets whoever made it write into it: priced by what it is when it is asked for."""

    epsilon: Fraction = Fraction(1, 10)

    def price(self, terms, /):
        priced = Priced(lambda noise, opened: float(self.epsilon))
        priced.guarantee = PureGuarantee(self.epsilon)
        if self.epsilon == Fraction(1, 10):
            request.epsilon = Fraction(9)  # as another thread might
        return priced


request = Held()


def test_a_request_is_priced_and_run_as_the_kernel_took_it():
    asked, odometer = kernel(f"{__name__}.Held")
    request.epsilon = Fraction(1, 10)
    assert asked.run(request) == 0.1
    assert odometer.spent.epsilon == Fraction(1, 10)
    assert request.epsilon == 9


class Uncopied(Request[int]):
    def __reduce_ex__(self, protocol):
        raise TypeError

    def price(self, terms, /):
        return Priced(lambda noise, opened: 0)


class Same(Uncopied):
    def __copy__(self):
        return self


@pytest.mark.parametrize("kind", [Uncopied, Same])
def test_a_request_that_cannot_be_copied_is_refused(kind):
    asked, odometer = kernel(f"{__name__}.{kind.__name__}")
    with pytest.raises(InvalidArgument, match="can be copied"):
        asked.run(kind())
    assert odometer.spent.charges == 0


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
