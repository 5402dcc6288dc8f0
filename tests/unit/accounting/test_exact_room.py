"""What `affords` and `remaining` say is what is accepted: no more, and no less."""

import math
import random
from fractions import Fraction

import pytest

from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.filters.renyi import MixedComposition
from dpsdk.accounting.filters.reserves import gaussian_of
from dpsdk.accounting.ledger.bookkeeping import Refusal, charge_books
from dpsdk.accounting.ledger.books import lines_of
from dpsdk.accounting.ledger.charge import SESSION
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.accounting.numbers import from_steps, largest
from dpsdk.errors import BudgetExceeded, UnsupportedGuarantee

pytestmark = pytest.mark.thorough

BUDGET = Budget(1, 1e-6)
FILTERS = [
    BasicComposition(),
    AdvancedComposition(),
    ZCDPComposition("0.1"),
    EnvelopeComposition("0.1"),
    MixedComposition("0.1"),
    default_composition(),
    default_composition(leak_share="0.5"),
    AnyOf((BasicComposition(), ZCDPComposition(), EnvelopeComposition())),
    AnyOf((ZCDPComposition(), default_composition())),
    AnyOf((EnvelopeComposition("0.1"), ZCDPComposition("0.2"), BasicComposition())),
]
CAPS = [Budget("0.2", "1e-8"), Budget("0.5", "1e-7"), *(Fraction(n, 100) for n in (3, 10, 25, 50))]
ADDED = Fraction("1.000000001")
MANY = 300


def any_run(rng):
    kind = rng.random()
    if kind < 0.3:
        return PureGuarantee(Fraction(rng.randint(5, 60), 1000))
    if kind < 0.5:
        return PureGuarantee(Fraction(rng.randint(5, 90), 100))
    if kind < 0.85:
        return DiscreteGaussianGuarantee(rng.choice([10, 30, 100, 300, 1000, 3000]), 1, 1)
    return ApproximateGuarantee(Fraction(rng.randint(1, 20), 1000), Fraction(1, 10**8))


def any_round(rng):
    return [any_run(rng) for _ in range(rng.choice([1, 1, 2, 3]))]


def tried(odometer, runs):
    try:
        odometer.charge_all(runs, "test")
    except (BudgetExceeded, UnsupportedGuarantee):
        return False
    return True


def divided(outer, rng):
    generation = outer.generation()
    outer.divide(generation, 3, moves=rng.random() < 0.5)
    parts = [PartOdometer(outer, f"p{i}", generation, i) for i in range(3)]
    for _ in range(rng.randint(0, 5)):
        tried(rng.choice(parts), [any_run(rng)])
    return generation, parts


def world(composition, rng, reserves):
    """A session, its scopes, scopes within them and perhaps parts of the table, all spent a bit."""
    outer = Odometer(BUDGET, composition)
    desks = [outer]
    for _ in range(rng.randint(0, 3)):
        tried(outer, [any_run(rng)])
    if rng.random() < 0.4:
        outer.merge(divided(outer, rng)[0])
    for number in range(rng.randint(0, 4)):
        reserve = rng.random() < reserves
        try:
            scope = ScopeOdometer(outer, f"s{number}", rng.choice(CAPS), reserve=reserve)
        except BudgetExceeded:
            continue
        desks.append(scope)
        if rng.random() < 0.4:
            desks.append(ScopeOdometer(scope, f"n{number}", Fraction(rng.randint(20, 90), 100)))
        for _ in range(rng.randint(0, 3)):
            tried(rng.choice(desks), [any_run(rng)])
    if rng.random() < 0.4:
        desks += divided(outer, rng)[1]
    for _ in range(rng.randint(0, 6)):
        tried(rng.choice(desks), [any_run(rng)])
    return desks


def accepted(desk, runs, most):
    """How often in a row a charge would be accepted, by the decision itself, on books that stay."""
    books, count = desk._ledger.read(), 0
    while count < most:
        after = charge_books(desk.composition, books, desk._payer, runs)
        if isinstance(after, Refusal):
            break
        books, count = after, count + 1
    return count


def fits(desk, run):
    try:
        return accepted(desk, [run], 1) == 1
    except UnsupportedGuarantee:
        return False


def check(desk, rng):
    asked = 0
    for _ in range(2):
        runs = any_round(rng)
        try:
            told = desk.affords_all(runs)
        except UnsupportedGuarantee:
            assert not tried(desk, runs)
            continue
        assert told is not None
        if told <= MANY:
            assert accepted(desk, runs, told + 1) == told
            asked += 1
    remaining = desk.remaining
    for size, run in ((remaining.epsilon, PureGuarantee), (remaining.rho, gaussian_of)):
        assert not size or fits(desk, run(size))
        assert not any(fits(desk, run(size + more)) for more in (Fraction(1, 50), Fraction(1, 3)))
    assert not fits(desk, PureGuarantee(remaining.epsilon * ADDED + Fraction(1, 10**18)))
    adds_up = "Envelope" not in str(desk.composition)
    assert not adds_up or not fits(desk, gaussian_of(remaining.rho * ADDED + Fraction(1, 10**18)))
    return asked


@pytest.mark.parametrize("worlds", [3, pytest.param(60, marks=pytest.mark.audit)])
@pytest.mark.parametrize("reserves", [0.0, 0.7])
@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: str(c)[:60])
def test_affords_and_remaining_are_what_is_accepted(composition, reserves, worlds):
    rng = random.Random(worlds)
    asked = sum(
        check(desk, rng) for _ in range(worlds) for desk in world(composition, rng, reserves)
    )
    assert asked > worlds


@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: str(c)[:60])
def test_so_many_are_charged_as_affords_says(composition):
    rng = random.Random(4)
    charges = 0
    for _ in range(4):
        desks = world(composition, rng, 0.7)
        rng.shuffle(desks)
        for desk in desks:
            runs = any_round(rng)
            try:
                told = desk.affords_all(runs)
            except UnsupportedGuarantee:
                continue
            assert told is not None
            if told > 15:
                continue
            for left in range(told, 0, -1):
                assert desk.affords_all(runs) == left
                desk.charge_all(runs, "test")
            assert desk.affords_all(runs) == 0
            assert not tried(desk, runs)
            charges += told
    assert charges


def test_beside_a_reserve_an_envelope_charges_by_what_is_really_left():
    outer = Odometer(BUDGET, EnvelopeComposition())
    kept = ScopeOdometer(outer, "kept", "0.8", reserve=True)
    run = PureGuarantee("0.05")
    told = outer.affords(run)
    assert told == 4
    # By limits that are lowered by the reserve a run is dearer: fewer would seem to fit.
    assert (EnvelopeComposition().capacity(outer._states(outer._ledger.read())[0], run)) < told
    for _ in range(told):
        outer.charge(run, "test")
    with pytest.raises(BudgetExceeded):
        outer.charge(run, "test")
    assert (kept.affords(run) or 0) > 10


@pytest.mark.parametrize(("gap", "rounds"), [("5e-7", 278), ("1.2e-6", 50)])
def test_a_count_may_serve_all_reserves_again_once_one_of_them_is_spent(gap, rounds):
    composition = AnyOf((BasicComposition(), EnvelopeComposition()))
    outer = Odometer(BUDGET, composition)
    mine = ScopeOdometer(outer, "mine", "0.5", reserve=True)
    other = ScopeOdometer(outer, "other", "0.2", reserve=True)
    outer.charge(PureGuarantee("0.1"), "test")

    def short(size):
        """Whether the envelope lacks so much for both reserves after a run."""
        after = composition.charge(outer.state, PureGuarantee(size))
        assert after is not None
        parts = [state.parts[1] for state in (after, mine.state, other.state)]
        left, *held = (part.limit[0] - part.spent[0] for part in parts if part is not None)
        return from_steps(sum(held) - left) >= Fraction(gap)

    size = largest(lambda size: not short(size), Fraction(1, 20)) * ADDED
    outer.charge(PureGuarantee(size), "test")
    # Until the scope is at the end of its 50 runs in basic composition, or for longer: a run costs
    # its cap more than the session, so that the envelope may have come to hold both by then.
    assert mine.affords(PureGuarantee("0.01")) == rounds
    assert accepted(mine, [PureGuarantee("0.01")], rounds + 1) == rounds


def test_printed_room_is_never_more_than_there_is():
    for epsilon in ("0.6666666666666", "0.99999999999", "0.1234567899999"):
        odometer = Odometer(Budget(epsilon), BasicComposition())
        text = str(odometer.remaining)
        shown = Fraction(text.split("epsilon up to ")[1])
        assert shown <= odometer.remaining.epsilon < shown * Fraction("1.0001")
        assert "rho" not in text
        odometer.charge(PureGuarantee(shown), "as printed")
        assert math.isclose(odometer.remaining.fraction, 0, abs_tol=1e-4)


def test_nothing_left_is_room_for_no_run():
    odometer = Odometer(Budget(1), BasicComposition())
    odometer.charge(PureGuarantee(1), "all")
    assert str(odometer.remaining) == "0%, room for no run"


def test_a_count_that_cannot_serve_a_reserve_accepts_no_run_of_leaks_alone():
    filters = ZCDPComposition("0.1"), EnvelopeComposition("0.9")
    outer = Odometer(BUDGET, AnyOf(filters))
    kept = ScopeOdometer(outer, "kept", "0.5", reserve=True)
    outer.charge(PureGuarantee("0.15"), "test")
    run = ApproximateGuarantee(0, "1e-9")
    # The envelope has a larger share for leaks, but no longer what is kept.
    assert outer.affords(run) == accepted(outer, [run], MANY) == 25
    assert kept.remaining.kept_epsilon  # the scope lives, so that its reserve does


@pytest.mark.parametrize("share", ["0.002", "0.005", "0.01"])
@pytest.mark.parametrize("composition", [EnvelopeComposition(), default_composition()], ids=str)
def test_beside_a_small_reserve_the_largest_rho_fits_from_8_lattice_steps_on(composition, share):
    outer = Odometer(Budget("0.3", "1e-6"), composition)
    kept = ScopeOdometer(outer, "kept", share, reserve=True)
    rho = outer.remaining.rho
    least = math.ceil(128 * rho)
    for square in (least, least + 1, 4 * least):
        assert fits(outer, DiscreteGaussianGuarantee(square / (2 * rho), square, 1))
    assert kept.remaining.kept_epsilon


def test_room_on_many_lines_takes_few_looks_at_each(monkeypatch):
    outer = Odometer(BUDGET, default_composition())
    kept = ScopeOdometer(outer, "kept", "0.2", reserve=True)
    generation, parts = outer.generation(), 12
    outer.divide(generation, parts, moves=True)
    for number in range(parts):
        part = PartOdometer(outer, f"p{number}", generation, number)
        part.charge(PureGuarantee(Fraction(1000 + number * number, 10**6)), "test")
    lines = len({line.state for line in lines_of(outer._ledger.read(), SESSION)})
    assert lines > 60
    looks = 0
    charge, rounds = AnyOf.charge, AnyOf.rounds

    def charge_seen(self, state, guarantee):
        nonlocal looks
        looks += 1
        return charge(self, state, guarantee)

    def rounds_seen(self, state, runs):
        nonlocal looks
        looks += 1
        return rounds(self, state, runs)

    monkeypatch.setattr(AnyOf, "charge", charge_seen)
    monkeypatch.setattr(AnyOf, "rounds", rounds_seen)
    remaining = outer.remaining
    monkeypatch.undo()
    assert fits(outer, PureGuarantee(remaining.epsilon))
    assert fits(outer, gaussian_of(remaining.rho))
    assert looks < 20 * lines
    assert kept.remaining.kept_epsilon
