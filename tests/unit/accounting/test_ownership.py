"""What the accounting works with is its own: nothing that a client holds or makes up changes it."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import pytest

import dpsdk.accounting
from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    Anytime,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    Guarantee,
    MixedComposition,
    Odometer,
    PureGuarantee,
    RenyiComposition,
    State,
    ZCDPComposition,
    bun_steinke_start,
    declare,
    default_composition,
    gaussian_claim,
    gdp_start,
    leak,
    pure_epsilon,
    renyi_divergence,
    renyi_start,
    zcdp_rho,
    zcdp_start,
)
from dpsdk.accounting.copies import book_copy, book_own, checked_copy, client_copy
from dpsdk.accounting.declared.anytime import own_anytime
from dpsdk.accounting.filters.comparison import (
    covered,
    lessened,
    own_state,
    pattern,
    serves,
    share_of,
)
from dpsdk.accounting.filters.composition import NEVER_OPEN
from dpsdk.accounting.filters.copies import (
    _SHIPPED,
    own_budget,
    own_composition,
)
from dpsdk.accounting.prices.gdp import randomised_response_mu_squared
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(dpsdk.accounting.__path__, "dpsdk.accounting.")
]

GUARANTEES: list[Callable[[], Guarantee]] = [
    lambda: PureGuarantee("0.1"),
    lambda: DiscreteLaplaceGuarantee(10, 1),
    lambda: DiscreteGaussianGuarantee(10_000, 4, 2, claim=("0.2", "1e-9")),
    lambda: BoundedRangeGuarantee("0.1"),
    lambda: ApproximateGuarantee("0.1", "1e-9"),
]
COMPOSITIONS: list[Callable[[], Composition]] = [
    BasicComposition,
    AdvancedComposition,
    lambda: ZCDPComposition("0.01"),
    lambda: EnvelopeComposition("0.01"),
    lambda: MixedComposition("0.01"),
    lambda: RenyiComposition(30, "0.01"),
    lambda: AnyOf((ZCDPComposition("0.1"), BasicComposition()), weights=(1, 0), leak_share="0.1"),
    default_composition,
]
CONVERSIONS: list[Callable[[Any], Fraction]] = [
    lambda epsilon: zcdp_start(epsilon, Fraction(1, 10**6)),
    lambda epsilon: bun_steinke_start(epsilon, Fraction(1, 10**6)),
    lambda epsilon: renyi_start(epsilon, Fraction(1, 10**6), Fraction(30)),
    lambda epsilon: renyi_start(Fraction(1), Fraction(1, 10**6), epsilon * 30),
    lambda epsilon: gdp_start(epsilon, Fraction(1, 10**6)),
    lambda epsilon: renyi_divergence(PureGuarantee(1), epsilon * 30),
    lambda epsilon: randomised_response_mu_squared(epsilon),
    lambda epsilon: gaussian_claim(epsilon, "1e-6")[0],
]


class Liar(Fraction):
    """Equal to everything, and found wherever one half is."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(Fraction(1, 2))

    def __mul__(self, other: object) -> Liar:
        return self


def caches() -> Iterator[Any]:
    """Every cache of a function of the accounting, wherever it is kept."""
    gc.unfreeze()  # of what was there before the first test
    every = gc.get_objects()
    gc.freeze()
    for found in every:
        if isinstance(found, functools._lru_cache_wrapper) and found.__wrapped__.__module__ in {
            module.__name__ for module in MODULES
        }:
            yield found


def held(cache: Any) -> dict[Any, Any]:
    return next(one for one in gc.get_referents(cache) if type(one) is dict and one)


def everything_is_worked_out() -> None:
    for conversion in CONVERSIONS:
        conversion(Fraction(1, 2))
    for make in COMPOSITIONS:
        composition = make()
        state = composition.begin(Budget(1, 1e-6))
        for guarantee in GUARANTEES:
            try:
                composition.charge(state, guarantee())
            except UnsupportedGuarantee:
                assert isinstance(composition, BasicComposition)


def plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(plain, value))
    return value is None or type(value) in {int, str, float, bool}


@pytest.mark.thorough
def test_every_cache_is_keyed_by_plain_numbers_and_keeps_nothing_that_it_gives():
    everything_is_worked_out()
    found = [cache for cache in caches() if cache.cache_info().currsize]
    assert len(found) > 10
    for cache in found:
        for key, link in held(cache).items():
            assert plain(key), cache.__wrapped__
            # Fractions are copied for each caller, as the tests below try.
            kept = [one for one in gc.get_referents(link) or [link] if type(one) is not type(link)]
            assert all(plain(one) or type(one) is Fraction for one in kept)


@pytest.mark.thorough
def test_there_is_one_kind_of_cache():
    for module in MODULES:
        source = Path(inspect.getfile(module)).read_text(encoding="utf-8")
        names = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Attribute | ast.Name)
        }
        imported = {
            name.name
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom | ast.Import)
            for name in node.names
        }
        if module.__name__ != "dpsdk.accounting.copies":
            kinds = {"lru_cache", "cache", "cached_property", "functools", "weakref"}
            assert not (names | imported) & kinds, module.__name__


@pytest.mark.parametrize("place", range(len(CONVERSIONS)))
def test_a_number_that_lies_leaves_nothing_behind(place: int):
    conversion = CONVERSIONS[place]
    honest = conversion(Fraction(7, 10))
    try:
        lied = conversion(Liar(700))
    except InvalidArgument:
        pass
    else:
        assert type(lied) is Fraction
    assert conversion(Fraction(1, 2)) < honest or place in {3, 5}
    assert conversion(Fraction(7, 10)) == honest


def test_a_liar_enlarges_no_later_cap():
    zcdp_start(Liar(10**6), Liar(Fraction(1, 2)))
    start = ZCDPComposition().begin(Budget("0.5", "0.5"))
    assert start.limit[0] < ZCDPComposition().begin(Budget(1, "0.5")).limit[0]


@pytest.mark.parametrize("place", range(len(CONVERSIONS)))
def test_a_figure_that_was_given_out_can_be_changed_without_effect(place: int):
    conversion = CONVERSIONS[place]
    first = conversion(Fraction(9, 10))
    expected = Fraction(first.numerator, first.denominator)
    first._numerator = 10**9  # type: ignore[attr-defined]
    assert conversion(Fraction(9, 10)) == expected


@pytest.mark.parametrize("figure", [pure_epsilon, leak, zcdp_rho])
@pytest.mark.parametrize("make", GUARANTEES)
def test_a_price_that_was_given_out_can_be_changed_without_effect(
    figure: Callable[[Guarantee], Fraction | None], make: Callable[[], Guarantee]
):
    first = figure(make())
    if first is None:
        return
    expected = Fraction(first.numerator, first.denominator)
    first._numerator = 10**9  # type: ignore[attr-defined]
    assert figure(make()) == expected


def by_init(guarantee: Guarantee) -> None:
    names = [field.name for field in attrs.fields(type(guarantee)) if field.name != "claim"]
    guarantee.__init__(**dict.fromkeys(names, 0))  # type: ignore[misc]


def by_setattr(guarantee: Guarantee) -> None:
    for field in attrs.fields(type(guarantee)):
        object.__setattr__(guarantee, field.name, None if field.name == "claim" else 0)


def by_setstate(guarantee: Guarantee) -> None:
    names = [field.name for field in attrs.fields(type(guarantee))]
    guarantee.__setstate__({name: None if name == "claim" else 0 for name in names})  # type: ignore[attr-defined]


def by_parts(guarantee: Guarantee) -> None:
    for field in attrs.fields(type(guarantee)):
        value = getattr(guarantee, field.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, Fraction):
                number._numerator = 10**6 if field.name in {"scale", "variance"} else 0  # type: ignore[attr-defined]


TAMPERS = [by_init, by_setattr, by_setstate, by_parts]


@pytest.mark.parametrize("tamper", TAMPERS)
@pytest.mark.parametrize("make", GUARANTEES)
def test_a_guarantee_that_was_changed_leaves_its_copy_and_every_price_alone(
    make: Callable[[], Guarantee], tamper: Callable[[Guarantee], None]
):
    mine = make()
    copy = checked_copy(mine)
    prices = [zcdp_rho(mine), pure_epsilon(mine), leak(mine)]
    tamper(mine)
    assert copy == make()
    assert [zcdp_rho(copy), pure_epsilon(copy), leak(copy)] == prices
    for compose in COMPOSITIONS:
        composition = compose()
        state = composition.begin(Budget(1, 1e-6))
        after = composition.charge(state, copy)
        assert composition.charge(state, make()) == after
        assert after is None or after != state


@pytest.mark.parametrize("make", GUARANTEES)
def test_a_number_that_is_changed_after_it_was_handed_over_changes_nothing(
    make: Callable[[], Guarantee],
):
    numbers = [
        Fraction(value) if isinstance(value, Fraction) else value
        for value in attrs.astuple(make(), recurse=False)
    ]
    mine = [Fraction(n.numerator, n.denominator) if type(n) is Fraction else n for n in numbers]
    guarantee = type(make())(*mine)
    for number in mine:
        if type(number) is Fraction:
            number._numerator = 0  # type: ignore[attr-defined]
    assert guarantee == make()
    amount = Fraction(1)
    budget = Budget(amount, 1e-6)
    amount._numerator = 1000  # type: ignore[attr-defined]
    assert budget == Budget(1, 1e-6)


@pytest.mark.parametrize("make", GUARANTEES)
def test_a_class_below_a_known_one_has_no_price(make: Callable[[], Guarantee]):
    kind = type(make())

    class Free(kind):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return hash(make())

    liar = Free(*attrs.astuple(make(), recurse=False))
    for figure in (checked_copy, pure_epsilon, leak, zcdp_rho, lambda g: declare([g])):
        with pytest.raises(UnsupportedGuarantee):
            figure(liar)
    for compose in COMPOSITIONS:
        composition = compose()
        with pytest.raises(UnsupportedGuarantee):
            composition.charge(composition.begin(Budget(1, 1e-6)), liar)


def test_what_holds_no_exact_number_any_more_is_refused():
    for broken in ("0.1", 0.1, None, (1, 2), object(), -1):
        guarantee = PureGuarantee("0.1")
        object.__setattr__(guarantee, "epsilon", broken)
        with pytest.raises(InvalidArgument):
            checked_copy(guarantee)
    hollow = object.__new__(PureGuarantee)
    with pytest.raises(InvalidArgument):
        checked_copy(hollow)
    claimed = DiscreteGaussianGuarantee(100, 1, 1, claim=(1, "1e-6"))
    object.__setattr__(claimed, "claim", (Fraction(1),))
    with pytest.raises(InvalidArgument):
        checked_copy(claimed)
    zero = PureGuarantee("0.1")
    zero.epsilon._denominator = 0  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument):
        checked_copy(zero)
    with pytest.raises(UnsupportedGuarantee):
        checked_copy(3)  # type: ignore[type-var]


def parts(value: object) -> Iterator[object]:
    """The value, and everything in it that could be changed."""
    if attrs.has(type(value)):
        yield value
        for field in attrs.fields(type(value)):
            yield from parts(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from parts(item)
    elif isinstance(value, Fraction):
        yield value


@pytest.mark.parametrize(
    ("value", "own"),
    [
        (Budget(1, 1e-6), own_budget),
        (Anytime(1e-6, 1), own_anytime),
        *[(make(), own_composition) for make in COMPOSITIONS],
        *[(make(), checked_copy) for make in GUARANTEES],
        (default_composition().begin(Budget(1, 1e-6)), own_state),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(
    value: object, own: Callable[[Any], object]
):
    copy = own(value)
    assert copy == value
    assert type(copy) is type(value)
    assert not {id(part) for part in parts(copy)} & {id(part) for part in parts(value)}


def test_every_composition_of_the_package_is_copied():
    found = {
        thing
        for module in MODULES
        for name, thing in vars(module).items()
        if inspect.isclass(thing)
        and issubclass(thing, Composition)
        and not inspect.isabstract(thing)
        and not name.startswith("_")
    }
    assert found == _SHIPPED
    assert {type(make()) for make in COMPOSITIONS} == _SHIPPED

    class Other(BasicComposition):
        pass

    other = Other()
    assert own_composition(other) is other
    assert own_composition(AnyOf((other,))).members[0] is other


def test_a_composition_that_was_changed_leaves_its_copy_alone():
    mine = RenyiComposition(30)
    copy = own_composition(AnyOf((mine, BasicComposition())))
    state = copy.begin(Budget(1, 1e-6))
    run = DiscreteGaussianGuarantee(1000, 1, 1)
    before = copy.capacity(state, run)
    mine.order._numerator = 2  # type: ignore[attr-defined]
    mine.__init__(Fraction(3, 2))  # type: ignore[misc]
    assert copy.capacity(state, run) == before


def test_what_stands_for_a_closed_member_cannot_be_opened():
    for composition in (default_composition(), AnyOf((BasicComposition(), ZCDPComposition()))):
        state = composition.begin(Budget(1))
        for part in (NEVER_OPEN, *state.parts):
            if part == NEVER_OPEN:
                for name, value in (("limit", (10**300, 10**300)), ("spent", (0, 0))):
                    with pytest.raises(AttributeError):
                        object.__setattr__(part, name, value)
        fresh = composition.begin(Budget(1))
        assert composition.capacity(fresh, PureGuarantee("0.1")) == 10
        assert isinstance(fresh, State)


def test_what_stands_for_a_member_that_is_never_open_decides_nothing():
    composition, half = default_composition(), Fraction(1, 2)
    start = composition.begin(Budget(1, 1e-6))
    after = composition.charge(start, PureGuarantee(half))
    assert after is not None
    assert after.parts[0] is not None

    def seen() -> tuple[object, ...]:
        told = covered(after, start), covered(start, after), serves(after, [share_of(start, half)])
        return *told, pattern(after), lessened(after, [share_of(start, half)])

    before = seen()
    basic = after.parts[0]
    try:
        NEVER_OPEN.__init__(basic.spent, basic.limit, basic.parts)  # type: ignore[misc]
        assert seen() == before
    finally:
        NEVER_OPEN.__init__((), ())  # type: ignore[misc]


def priced(guarantee: Guarantee) -> list[object]:
    """All that is charged for a run, by each composition that prices it."""
    found: list[object] = [zcdp_rho(guarantee), pure_epsilon(guarantee), leak(guarantee)]
    for compose in COMPOSITIONS:
        composition = compose()
        try:
            found.append(composition.charge(composition.begin(Budget(1, 1e-6)), guarantee))
        except UnsupportedGuarantee as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("tamper", TAMPERS)
@pytest.mark.parametrize("make", GUARANTEES)
def test_what_the_books_keep_is_never_handed_out(
    make: Callable[[], Guarantee], tamper: Callable[[Guarantee], None]
):
    expected = priced(make())
    mine = make()
    own = book_copy(mine)
    assert book_copy(make()) is own
    odometer = Odometer(Budget(1, 1e-6), ZCDPComposition("0.1"))
    odometer.charge(mine, "asked")
    shown = [
        odometer.charges[0].guarantee,
        *odometer.cost_of(0),
        odometer.charged_for(0)[0].guarantee,
        client_copy(own),
        mine,
    ]
    for guarantee in shown:
        assert guarantee == make()
        assert not {id(part) for part in parts(guarantee)} & {id(part) for part in parts(own)}
        tamper(guarantee)
    assert own == make()
    assert priced(own) == priced(make()) == expected
    assert odometer.charges[0].guarantee == make()


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("make", GUARANTEES)
def test_prices_of_what_is_kept_are_those_of_any_equal_run(make: Callable[[], Guarantee]):
    own = book_copy(make())
    expected = priced(make())
    assert priced(own) == expected == priced(own)
    # Until so many others came that it is forgotten, and another object may take its place.
    for number in range(5000):
        book_own(PureGuarantee(Fraction(number + 1, 10**9)))
    assert priced(own) == expected
    assert book_copy(make()) is not own
    assert priced(book_copy(make())) == expected


def test_a_state_cannot_be_written_into():
    state = default_composition().begin(Budget(1, 1e-6))
    for part in (state, *state.parts):
        assert part is not None
        with pytest.raises(AttributeError):
            object.__setattr__(part, "limit", (10**300, 10**300))
        part.__init__((0, 0), (10**300, 10**300))  # type: ignore[misc]
    assert state == default_composition().begin(Budget(1, 1e-6))
