"""What a reserve promises when it is made can be spent, whatever others do."""

import random
from fractions import Fraction

import pytest

from dpsdk.accounting import (
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
from dpsdk.accounting.filters.composition import NEVER_OPEN, lessened, serves, share_of, worst
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.accounting.numbers import as_room, from_steps
from dpsdk.errors import BudgetExceeded, InvalidArgument, UnsupportedGuarantee

pytestmark = pytest.mark.thorough

BUDGET = Budget(1, 1e-6)
FILTERS = [
    BasicComposition(),
    ZCDPComposition(),
    EnvelopeComposition(),
    default_composition(),
    default_composition(leak_share="0.5"),
    AnyOf((BasicComposition(), ZCDPComposition(), EnvelopeComposition())),
    AnyOf((ZCDPComposition(), default_composition())),
]
TINY = DiscreteGaussianGuarantee(10**5, 1, 1)


def any_run(rng):
    kind = rng.random()
    if kind < 0.45:
        return PureGuarantee(Fraction(rng.randint(1, 60), 1000))
    if kind < 0.6:
        return PureGuarantee(Fraction(rng.randint(1, 90), 100))
    if kind < 0.9:
        return DiscreteGaussianGuarantee(10 ** rng.randint(2, 6), 1, 1)
    return ApproximateGuarantee(Fraction(rng.randint(1, 20), 1000), Fraction(1, 10**8))


def tried(odometer, run):
    try:
        odometer.charge(run, "test")
    except (BudgetExceeded, UnsupportedGuarantee):
        return False
    return True


def alone(composition, state):
    """The counts of a state, each by itself."""
    if not isinstance(composition, AnyOf):
        return [(composition, state)]
    pairs = zip(composition.members, state.parts, strict=True)
    return [
        leaf
        for member, part in pairs
        if part is not None and part != NEVER_OPEN
        for leaf in alone(member, part)
    ]


class Promise:
    """All that a reserve could be spent on in every one of its counts, when it was made."""

    def __init__(self, scope):
        self.scope = scope
        self.counts = alone(scope.composition, scope.state)
        assert self.counts

    def after(self, run):
        counts = []
        for composition, state in self.counts:
            try:
                after = composition.charge(state, run)
            except UnsupportedGuarantee:
                return None
            if after is None:
                return None
            counts.append((composition, after))
        return counts

    def keep(self, run):
        """Spend a promised run; whether it was one."""
        counts = self.after(run)
        if counts is None:
            return False
        self.scope.charge(run, "promised")
        self.counts = counts
        return True


def history(outer, rng):
    """Some runs, and perhaps a partition that leaves several lines."""
    for _ in range(rng.randint(0, 3)):
        tried(outer, any_run(rng))
    if rng.random() < 0.6:
        generation, moves = outer.generation(), rng.random() < 0.5
        outer.divide(generation, 3, moves=moves)
        for _ in range(rng.randint(1, 6)):
            part = PartOdometer(outer, "part", generation, rng.randrange(3))
            tried(part, any_run(rng))
        if rng.random() < 0.7:
            outer.merge(generation)


@pytest.mark.parametrize("histories", [5, pytest.param(12, marks=pytest.mark.audit)])
@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: str(c)[:60])
def test_a_reserve_can_be_spent_in_every_way_that_was_promised(composition, histories):
    rng = random.Random(16)
    made = 0
    for _ in range(histories):
        outer = Odometer(BUDGET, composition)
        history(outer, rng)
        others = [outer, ScopeOdometer(outer, "free", "0.9")]
        promises = []
        for _ in range(60):
            move = rng.random()
            if move < 0.08 and len(promises) < 3:
                cap = rng.choice([Fraction(rng.randint(1, 50), 100), Budget("0.2", "1e-8")])
                try:
                    scope = ScopeOdometer(outer, f"kept {made}", cap, reserve=True)
                except BudgetExceeded:
                    continue
                promises.append(Promise(scope))
                made += 1
            elif move < 0.12 and promises:
                promises.pop(rng.randrange(len(promises))).scope.close()
            elif move < 0.7 or not promises:
                tried(rng.choice(others), any_run(rng))
            else:
                rng.choice(promises).keep(any_run(rng))
        # Others take what they can, and then all that was promised is spent.
        sizes = [PureGuarantee("0.3"), TINY, PureGuarantee("0.02"), PureGuarantee("0.001"), TINY]
        for run in sizes:
            for _ in range(8):
                tried(outer, run)
        for promise in promises:
            for run in [any_run(rng) for _ in range(20)] + sizes:
                for _ in range(30):
                    if not promise.keep(run):
                        break
    assert made > histories / 3


@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: str(c)[:60])
def test_what_a_reserve_shows_is_true(composition):
    rng = random.Random(17)
    checked = 0
    for _ in range(15):
        outer = Odometer(BUDGET, composition)
        history(outer, rng)
        try:
            scope = ScopeOdometer(outer, "kept", Fraction(rng.randint(5, 60), 100), reserve=True)
        except BudgetExceeded:
            continue
        kept = scope.remaining.kept_epsilon
        assert kept is not None
        others = []
        for _ in range(rng.randint(0, 30)):
            tried(outer, any_run(rng))
            if rng.random() < 0.1:
                try:
                    name = f"other {len(others)}"
                    others.append(ScopeOdometer(outer, name, "0.2", reserve=True))
                except BudgetExceeded:
                    others.clear()  # and all others give back what they held
        remaining = scope.remaining
        assert remaining.kept_epsilon is not None
        # Nothing that others do takes from it.
        assert kept <= remaining.kept_epsilon <= remaining.epsilon
        assert 0 < remaining.fraction <= 1
        size = rng.choice([kept, remaining.epsilon])
        if size:
            assert scope.affords(PureGuarantee(size))
            scope.charge(PureGuarantee(size), "as shown")
            checked += 1
        assert outer.affords(PureGuarantee(outer.remaining.epsilon)) != 0
    assert checked > 3


def test_a_tiny_gaussian_elsewhere_takes_nothing_from_a_reserved_half():
    outer = Odometer(BUDGET, default_composition())
    scope = ScopeOdometer(outer, "kept", "0.5", reserve=True)
    before = scope.remaining
    assert before.kept_epsilon is not None
    kept = f"whatever others ask, room for one run of epsilon up to {as_room(before.kept_epsilon)}"
    assert kept in str(before)
    other = ScopeOdometer(outer, "other", "0.1")
    tried(other, TINY)
    after = scope.remaining
    # Whether or not it closes a count of the session, what was promised is there and shown.
    assert after.kept_epsilon is not None
    assert after.kept_epsilon >= before.kept_epsilon
    assert scope.affords(PureGuarantee(after.epsilon)) == 1
    scope.charge(PureGuarantee(before.kept_epsilon), "promised")


def test_others_pass_only_while_one_count_can_serve_all_reserves():
    outer = Odometer(BUDGET, default_composition())
    # Only basic composition can hold this: in the envelope such a run is more than all there is.
    large = ScopeOdometer(outer, "large", Budget("0.9"), reserve=True)
    with pytest.raises(BudgetExceeded, match="reserve"):
        ScopeOdometer(outer, "many", "0.5", reserve=True)
    many = ScopeOdometer(outer, "many", "0.1", reserve=True)
    assert outer.affords(PureGuarantee("0.01")) == 0
    with pytest.raises(BudgetExceeded, match="a part of it reserved by scopes"):
        outer.charge(PureGuarantee("0.01"), "other")
    assert many.affords(PureGuarantee("0.01")) == 10
    many.close()
    outer.charge(PureGuarantee("0.1"), "other")
    large.charge(PureGuarantee("0.9"), "promised")


def test_two_caps_are_held_together_where_one_count_can_serve_both():
    outer = Odometer(BUDGET, default_composition())
    # Their ε adds up to more than the budget's, their squared shifts do not.
    scopes = [ScopeOdometer(outer, name, Budget("0.6", 1e-7), reserve=True) for name in "ab"]
    counts = [scope.affords(PureGuarantee("0.01")) for scope in scopes]
    assert min(counts) > 100
    while outer.affords(PureGuarantee("0.01")):
        outer.charge(PureGuarantee("0.01"), "other")
    for scope in scopes:
        for _ in range(min(counts)):
            scope.charge(PureGuarantee("0.01"), "kept")
        assert 0 < scope.spent.fraction < 1


def test_what_a_reserve_shows_fits_every_line_by_a_count_that_serves_it_there():
    outer = Odometer(BUDGET, AnyOf((BasicComposition(), EnvelopeComposition())))
    generation = outer.generation()
    outer.divide(generation, 2, moves=False)
    # One line is left to the envelope alone, and the other to basic composition alone.
    PartOdometer(outer, "one", generation, 0).charge(TINY, "test")
    PartOdometer(outer, "two", generation, 1).charge(PureGuarantee("0.4"), "test")
    outer.merge(generation)
    scope = ScopeOdometer(outer, "kept", "0.5", reserve=True)
    # Basic composition would take it, but could not serve the first line afterwards.
    large = PureGuarantee("0.45")
    assert scope.affords(large) == 0
    with pytest.raises(BudgetExceeded):
        scope.charge(large, "too large")
    shown = scope.remaining.epsilon
    assert 0.1 < shown < 0.2
    assert scope.affords(PureGuarantee(shown)) == 1
    # Basic composition is what serves the second line.
    assert scope.affords(PureGuarantee("0.01")) == 50
    for _ in range(50):
        scope.charge(PureGuarantee("0.01"), "fits")


def test_what_a_session_shows_by_is_no_limit():
    composition = default_composition()
    state = composition.begin(BUDGET)
    assert from_steps(state.reach) == 1
    assert len(state.limit) == len(state.spent) == 1
    half = share_of(state, Fraction(1, 2))
    assert from_steps(half.reach) == Fraction(1, 2)
    for changed in (lessened(state, [half]), worst([state, state])):
        assert changed.reach == state.reach
    after = composition.charge(state, PureGuarantee("0.25"))
    assert composition.fraction(after) == pytest.approx(0.25)
    assert serves(state, [half, half])
    assert serves(state, [half._replace(reach=state.reach), half._replace(reach=state.reach)])


def test_a_reserve_is_asked_of_a_session_only():
    outer = Odometer(BUDGET, default_composition())
    scope = ScopeOdometer(outer, "outer", "0.5")
    with pytest.raises(InvalidArgument, match="reserve"):
        ScopeOdometer(scope, "inner", "0.5", reserve=True)
