import copy
import itertools
import math
import pickle
import types
from contextlib import suppress
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from diary import World
from scipy.stats import binom

import dpsdk.kernel.access as access
import dpsdk.kernel.watch as module
from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, Redacted, ReleaseFailed
from dpsdk.forms import Dense, GapForm, Identity, Kronecker, LinearForm, Prefix, Range
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Top, Watching
from dpsdk.mechanisms import NumericSparse, OnlinePMW
from dpsdk.noise import Geometric, NoiseSource
from dpsdk.queries import Above, NumericAbove, Threshold, Workload
from dpsdk.testing.audit import enumerate_law
from dpsdk.testing.noise import seeded
from worlds import crossed, facts

LINE = Domain(Integer("x", 0, 3))
COUNTS = [40, 30, 20, 10]
PREFIXES = LinearForm(LINE, [Kronecker.of(LINE, {"x": Prefix(4)})])
FIRST = PREFIXES.row(0)
ONE = Watching(Fraction(1, 2), Fraction(1, 2))
FAR = 10**6
"""No gap comes near a threshold of so many rows, nor of so many below zero."""


def gaps(form=PREFIXES, **given):
    return GapForm(form, np.zeros(form.rows), np.zeros(form.rows), **given)


def world_of(monkeypatch, epsilon=100):
    return World(monkeypatch, PrivateData.from_counts(COUNTS, LINE), epsilon)


@pytest.fixture
def world(monkeypatch):
    return world_of(monkeypatch)


# Charges


def test_a_watch_costs_nothing_until_a_run_opens_with_its_charge_first(world):
    watch = world.kernel.watch(ONE)
    assert world.did() == []
    watch.open()
    assert world.did() == ["charge", "draw"]
    watch.open()
    assert world.did() == []
    watch.first_above(gaps(), FAR)
    assert world.did() == ["open", "draw"]
    world.kernel.watch(ONE).first_above(gaps(), FAR)
    assert world.did() == ["charge", "draw", "open", "draw"]


def test_a_run_is_charged_once_however_many_gaps_are_below(world):
    watch = world.kernel.watch(ONE)
    assert {watch.first_above(gaps(), FAR) for _ in range(50)} == {None}
    assert world.did().count("charge") == 1
    assert [entry.guarantee for entry in world.odometer.charges] == [PureGuarantee(1)]
    assert watch.tops == 0


def test_each_top_ends_its_run_and_the_next_gap_opens_another(world):
    watch = world.kernel.watch(ONE)
    for turn in range(1, 5):
        assert watch.first_above(gaps(), -FAR) == Top(0, None)
        assert watch.tops == turn
        assert len(world.odometer.charges) == turn
    assert world.odometer.spent.epsilon == 4


def test_a_watch_paid_at_once_goes_on_under_one_threshold_and_then_is_closed(world):
    watch = world.kernel.watch(Watching(Fraction(1, 2), Fraction(1, 4), tops=3))
    for place in (0, 3, 1):
        assert watch.first_above(gaps(), FAR) is None
        assert watch.first_above(gaps(), -FAR, place) == Top(place, None)
    assert watch.tops == 3
    assert world.odometer.spent.epsilon == Fraction(5, 4)
    assert world.did().count("charge") == 1
    with pytest.raises(Closed):
        watch.first_above(gaps(), FAR)
    with pytest.raises(Closed):
        watch.open()
    assert world.did() == []


@pytest.mark.parametrize("tops", [None, 1, 4])
def test_a_run_claims_one_share_for_its_threshold_and_one_for_each_top(tops):
    watching = Watching("0.3", "0.2", tops)
    assert watching.guarantee == PureGuarantee(Fraction(3 + 2 * (tops or 1), 10))


def test_a_refusal_changes_nothing(monkeypatch):
    world = world_of(monkeypatch, epsilon=Fraction(3, 2))
    watch = world.kernel.watch(ONE)
    watch.first_above(gaps(), -FAR)
    world.did()
    before = world.books
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            watch.first_above(gaps(), -FAR)
        with pytest.raises(BudgetExceeded):
            watch.open()
    assert world.did() == []
    assert world.books == before
    assert watch.tops == 1
    smaller = world.kernel.watch(Watching(Fraction(1, 4), Fraction(1, 4)))
    assert smaller.first_above(gaps(), -FAR) == Top(0, None)
    assert world.odometer.remaining.epsilon == 0


def test_an_open_run_goes_on_where_nothing_is_left_to_spend(monkeypatch):
    world = world_of(monkeypatch, epsilon=1)
    watch = world.kernel.watch(ONE)
    assert watch.first_above(gaps(), FAR) is None
    assert world.odometer.remaining.epsilon == 0
    assert watch.first_above(gaps(), -FAR) == Top(0, None)


# Paid before


def test_allowed_runs_are_used_up_before_anything_new_is_charged(monkeypatch):
    world = world_of(monkeypatch, epsilon=3)
    allowance = world.kernel.allowance([ONE.guarantee] * 2)
    assert world.odometer.spent.epsilon == 2
    assert world.did() == ["charge"]
    watch = world.kernel.watch(ONE, allowance=allowance)
    for _ in range(2):
        watch.first_above(gaps(), -FAR)
    assert "charge" not in world.did()
    watch.first_above(gaps(), -FAR)
    assert world.did().count("charge") == 1
    with pytest.raises(BudgetExceeded):
        watch.first_above(gaps(), -FAR)


def test_runs_are_allowed_all_or_none(monkeypatch):
    world = world_of(monkeypatch, epsilon=3)
    before = world.books
    with pytest.raises(BudgetExceeded):
        world.kernel.allowance([ONE.guarantee] * 4)
    assert world.books == before
    assert world.kernel.allowance([]).left == 0
    assert world.books == before
    world.kernel.watch(ONE).open()
    assert world.odometer.spent.epsilon == 1


def test_what_was_allowed_serves_any_run_of_no_larger_pure_epsilon(monkeypatch):
    world = world_of(monkeypatch, epsilon=4)
    allowance = world.kernel.allowance([PureGuarantee(1), PureGuarantee("0.5"), PureGuarantee(1)])
    form = PREFIXES.row(0)
    world.kernel.measure(form, LaplaceNoise("0.4"), allowance=allowance)
    assert allowance.left == 2
    world.kernel.measure(form, LaplaceNoise("1.1"), allowance=allowance)
    assert world.odometer.spent.epsilon == Fraction(36, 10)
    world.kernel.watch(ONE, allowance=allowance).open()
    world.kernel.measure(form, LaplaceNoise("0.2"), allowance=allowance)
    assert allowance.left == 0
    assert world.odometer.spent.epsilon == Fraction(36, 10)
    world.kernel.measure(form, LaplaceNoise("0.2"), allowance=allowance)
    assert world.odometer.spent.epsilon == Fraction(38, 10)


def test_an_allowed_pure_run_does_not_pay_for_a_gaussian():
    odometer = Odometer(Budget(100, "1e-6"), BasicComposition())
    data = PrivateData.from_counts(COUNTS, LINE)
    kernel = Kernel(data, odometer, seeded(1), "test")
    allowance = kernel.allowance([PureGuarantee(1)])
    kernel.measure(PREFIXES, GaussianNoise("0.01", (1, "1e-7")), allowance=allowance)
    assert odometer.spent.charges == 2


# Failures


@pytest.mark.parametrize("raises", [ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("fails_at", [0, 1, 2], ids=["threshold", "gap", "gap of an open run"])
def test_a_failure_after_the_charge_ends_the_run(world, fails_at, raises):
    watch = world.kernel.watch(ONE)
    if fails_at == 2:
        assert watch.first_above(gaps(), FAR) is None
        fails_at = 0
    world.noise.fails_at, world.noise.raises = fails_at, raises
    wanted = KeyboardInterrupt if raises is KeyboardInterrupt else ReleaseFailed
    with pytest.raises(wanted) as caught:
        watch.first_above(gaps(), FAR)
    assert "271828" not in str(caught.value)
    assert len(world.odometer.charges) == 1
    # What the run might have said is not known, so whoever counts tops must count it.
    assert watch.tops == 1
    assert module._secrets[watch].level is None
    assert watch.first_above(gaps(), FAR) is None
    assert len(world.odometer.charges) == 2


def test_a_failed_read_ends_the_run(world, monkeypatch):
    watch = world.kernel.watch(ONE)
    with monkeypatch.context() as broken:
        broken.setattr(access, "open_histogram", partial(int, "the count of row 7"))
        with pytest.raises(ReleaseFailed):
            watch.first_above(gaps(), -FAR)
    assert module._secrets[watch].level is None
    assert watch.first_above(gaps(), -FAR) == Top(0, None)
    assert len(world.odometer.charges) == 2


def test_a_watch_paid_at_once_that_fails_answers_nothing_more(world):
    watch = world.kernel.watch(Watching(1, 1, tops=5))
    world.noise.fails_at = 1
    with pytest.raises(ReleaseFailed):
        watch.first_above(gaps(), FAR)
    with pytest.raises(Closed):
        watch.first_above(gaps(), FAR)
    assert len(world.odometer.charges) == 1


def locals_of(failing):
    """What a failing call raises, and all values that its frames inside the package had names for.

    Told through the frames' own variables, so that no repr can hide them.
    """
    with pytest.raises(BaseException) as caught:
        failing()
    found, trace = [], caught.value.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            found.extend(trace.tb_frame.f_locals.values())
        trace = trace.tb_next
    assert found
    assert caught.value.__context__ is None
    return caught.value, found


def test_no_frame_of_an_error_has_a_name_for_what_a_watch_hides(monkeypatch):
    world = world_of(monkeypatch, epsilon=1)
    watch = world.kernel.watch(ONE)
    assert watch.first_above(gaps(), FAR) is None
    level = module._secrets[watch].level
    assert level > 0
    world.noise.fails_at = 0
    for error in (ReleaseFailed, BudgetExceeded):
        raised, found = locals_of(lambda: watch.first_above(gaps(), FAR))
        assert type(raised) is error
        assert not any(isinstance(value, module._Secret) for value in found)
        assert not any(isinstance(value, int) and value == level for value in found)


# What is let in


class Foreign(GapForm):
    pass


class ForeignLinear(LinearForm):
    pass


OTHER = Domain(Integer("x", 0, 4))


def elsewhere(domain=OTHER):
    return LinearForm(domain, [Kronecker.of(domain, {"x": Prefix(domain.size)})])


MISFITS = {
    "foreign gap": (lambda: Foreign(PREFIXES, np.zeros(4), np.zeros(4)), "gap"),
    "no gap": (lambda: PREFIXES, "gap"),
    "foreign form": (lambda: gaps(ForeignLinear(LINE, PREFIXES.blocks)), "form"),
    "another domain": (lambda: gaps(elsewhere()), "form"),
    "wrong size": (lambda: gaps(LinearForm(LINE, elsewhere().blocks)), "blocks"),
    "far offsets": (lambda: GapForm(PREFIXES, np.zeros(4), np.full(4, 1e30)), "offsets"),
}


@pytest.mark.parametrize(("build", "parameter"), MISFITS.values(), ids=MISFITS)
def test_gaps_that_do_not_fit_are_refused_before_any_charge(build, parameter, world):
    watch = world.kernel.watch(ONE)
    with pytest.raises(InvalidArgument) as caught:
        watch.first_above(build(), 0.0)
    assert caught.value.parameter == parameter
    assert world.did() == []


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ((value,), "threshold")
        for value in (math.nan, math.inf, -math.inf, 1e300, "7", None, 10**400, Fraction(10**400))
    ]
    + [((0.0, start), "start") for start in (-1, 4, 1.0, True, None, "0")],
    ids=str,
)
def test_a_threshold_is_a_number_of_rows_and_the_start_a_place(given, parameter, world):
    watch = world.kernel.watch(ONE)
    with pytest.raises(InvalidArgument) as caught:
        watch.first_above(gaps(), *given)
    assert caught.value.parameter == parameter
    assert world.did() == []


def test_weights_and_rates_of_gaps_lie_within_bounds_and_are_as_many_as_functions():
    for low, high in [(-(2.0**20) - 1, 1.0), (0.0, 2.0**21)]:
        with pytest.raises(InvalidArgument, match="form"):
            gaps(LinearForm(LINE, [Dense(("x",), (4,), [[low, 0.5, 0.5, high]])]))
    for rates in (*np.diag([-0.001, 1.001, math.nan, math.inf]), np.zeros(3)):
        with pytest.raises(InvalidArgument, match="rates"):
            GapForm(PREFIXES, rates, np.zeros(4))
    for offsets in (np.zeros((4, 1)), np.full(4, np.inf)):
        with pytest.raises(InvalidArgument, match="offsets"):
            GapForm(PREFIXES, np.zeros(4), offsets)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [((0, 1), "threshold_epsilon"), ((1, -1), "query_epsilon"), ((1, math.nan), "query_epsilon")]
    + [((1, 1, tops), "tops") for tops in (0, -3, 1.0, True, "1")],
    ids=str,
)
def test_the_parameters_of_a_watch_are_checked(given, parameter):
    with pytest.raises(InvalidArgument) as caught:
        Watching(*given)
    assert caught.value.parameter == parameter


def test_noise_too_wide_for_any_lattice_and_what_is_no_kernel_are_refused_before_any_charge(world):
    with pytest.raises(InvalidArgument, match="scale"):
        world.kernel.watch(Watching(Fraction(1, 2**60), 1))
    with pytest.raises(InvalidArgument):
        world.kernel.watch(ONE).first_above(gaps(), 1.0, kernel=object())
    assert world.did() == []


def test_a_stack_of_boxes_on_a_fine_lattice_is_let_in():
    domain = Domain(*(Integer(f"a{i}", 0, 3) for i in range(4)))
    box = {name: Range(4, 1, 3) for name in domain.names}
    form = LinearForm(domain, [Kronecker.of(domain, box)] * 3)
    data = PrivateData.from_counts(np.full(256, 40_000), domain)
    kernel = Kernel(data, Odometer(Budget(9), BasicComposition()), seeded(1), "test")
    gap = GapForm(form, np.zeros(3), np.full(3, 640_000.0), absolute=False, numeric=True)
    assert kernel.watch(ONE).first_above(gap, 1000.0) is None
    top = kernel.watch(ONE).first_above(gap, -1000.0)
    assert top.place == 0
    assert top.excess == pytest.approx(1000, abs=100)


def test_a_form_is_read_once_however_often_it_is_asked(world):
    watch = world.kernel.watch(ONE)
    for rate in np.linspace(0, 1, 9):
        watch.first_above(GapForm.around(PREFIXES, np.full(4, rate)), FAR)
        watch.first_above(GapForm.around(PREFIXES, np.full(4, rate)), -FAR)
    assert world.did().count("open") == 1
    watch.first_above(gaps(PREFIXES.row(1)), FAR)
    assert world.did().count("open") == 1


# Laws


BIT = Domain(Boolean("bit"))
CELLS = LinearForm(
    BIT, [Kronecker.of(BIT, {"bit": Identity(2)}), Kronecker.of(BIT, {"bit": Range(2, 0, 1)})]
)
SETTINGS = [
    Watching(2, 1),
    Watching(Fraction(3, 2), 4),
    Watching(1, 2, tops=1),
    Watching(2, 1, tops=2),
]
TAIL = 1e-8


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", 0)


def kernel_over(data, noise):
    return Kernel(data, Odometer(Budget(10**9), BasicComposition()), noise, "test")


def watched(watching, gap, threshold, *, runs=2, batch=True):
    """The places above, in order; gaps are asked together, or one by one."""

    def run(data, noise):
        watch = kernel_over(data, noise).watch(watching)
        tops, place = [], 0
        while place < gap.rows and watch.tops < runs:
            if batch:
                top = watch.first_above(gap, threshold, place)
            else:
                single = GapForm(
                    gap.form.row(place), gap.rates[[place]], gap.offsets[[place]], gap.absolute
                )
                top = watch.first_above(single, threshold)
                top = Top(place, None) if top else None
                place += top is None
                if top is None:
                    continue
            if top is None:
                break
            tops.append(top.place)
            place = top.place + 1
        return tuple(tops)

    return run


def survive(level, scale):
    return math.exp(-max(level, 0) / float(scale))


def law_by_hand(watching, scores, threshold, runs):
    """The law of `watched`, by summing over the noise of each threshold."""
    first, second = float(1 / watching.threshold_epsilon), float(2 / watching.query_epsilon)
    levels = range(int(first * 24) + 1)
    weights = [(1 - math.exp(-1 / first)) * math.exp(-z / first) for z in levels]

    def path(place, tops, level, mass, law):
        if place == len(scores) or len(tops) == runs:
            law[tops] = law.get(tops, 0.0) + mass
            return
        chance = survive(threshold + level - scores[place], second)
        path(place + 1, tops, level, mass * (1 - chance), law)
        if watching.tops is None:
            for z, weight in zip(levels, weights, strict=True):
                if len(tops) + 1 == runs or place + 1 == len(scores):
                    path(place + 1, (*tops, place), z, mass * chance, law)
                    return
                path(place + 1, (*tops, place), z, mass * chance * weight, law)
        else:
            path(place + 1, (*tops, place), level, mass * chance, law)

    law = {}
    for z, weight in zip(levels, weights, strict=True):
        path(0, (), z, weight, law)
    return law


def same_law(found, wanted):
    assert found.lost < 1e-6
    for outcome in {*found.masses, *wanted}:
        got, expected = found.masses.get(outcome, 0.0), wanted.get(outcome, 0.0)
        assert got == pytest.approx(expected, abs=1e-6), outcome


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    ("watching", "way"), crossed(SETTINGS, itertools.product([True, False], repeat=2), 4), ids=str
)
def test_the_law_of_a_watch_is_the_one_that_its_theorem_speaks_of(watching, way):
    batch, absolute = way
    data = PrivateData.from_counts([2, 5], BIT)
    offsets = np.array([3.0, 3.0, 1.0])
    gap = GapForm(CELLS, np.zeros(3), offsets, absolute)
    scores = np.array([2, 5, 2]) - offsets
    runs = watching.tops or 2
    found = enumerate_law(watched(watching, gap, 1.0, runs=runs, batch=batch), data, tail=TAIL)
    same_law(found, law_by_hand(watching, np.abs(scores) if absolute else scores, 1, runs))


class Clipped(NoiseSource):
    """Draws end at a bound, as those of real sources do, only much nearer."""

    def __init__(self, inner, bound):
        self.inner, self.bound = inner, bound
        self.ends = 0

    @property
    def private(self):
        return False

    def _bits(self, count):
        raise AssertionError(count)

    def draw(self, law, size):
        assert size == 1
        # So seldom does a path go on that what is left of them is less than what is compared.
        assert self.ends < 4, "a path too long to follow"
        masses = [survive(z, law.scale) - survive(z + 1, law.scale) for z in range(self.bound)]
        drawn = self.inner.choose([*masses, survive(self.bound, law.scale)])
        self.ends += drawn == self.bound
        return np.array([drawn])

    def reaches(self, law, levels):
        assert (levels <= self.bound).all(), "further than a draw can ever go"
        return self.inner.reaches(law, levels)


@pytest.mark.thorough(quick=2)
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("bound", [3, 4, 7])
@pytest.mark.parametrize("watching", [SETTINGS[0], SETTINGS[3]], ids=str)
def test_levels_further_than_a_source_can_draw_have_the_same_law(watching, bound, monkeypatch):
    monkeypatch.setattr(module, "_SATURATED", bound)
    # As with the bound of real sources, what is needed above the level stays far below it.
    data, gap = PrivateData.from_counts([1, 1], BIT), gaps(CELLS.row(0))
    runs = watching.tops or 1
    run = watched(watching, gap, 1.0, runs=runs)
    found = enumerate_law(lambda data, noise: run(data, Clipped(noise, bound)), data)
    assert sum(isinstance(outcome[0], str) for outcome in found.masses if outcome) == 1
    same_law(found, law_by_hand(watching, [1], 1, runs))


@pytest.mark.thorough(quick=1)
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("score", [-2, 0, 3])
def test_the_excess_is_what_the_noisy_gap_was_above_the_noisy_threshold(score):
    watching, threshold = Watching(1, 2), 1
    gap = GapForm(CELLS.row(1), [0.0], [5.0 - score], absolute=False, numeric=True)

    def run(data, noise):
        top = kernel_over(data, noise).watch(watching).first_above(gap, threshold)
        return None if top is None else top.excess

    found = enumerate_law(run, PrivateData.from_counts([2, 5], BIT), tail=TAIL)
    wanted = {}
    for level, noise in itertools.product(range(40), range(60)):
        mass = (1 - math.exp(-1)) * math.exp(-level) * (1 - math.exp(-1)) * math.exp(-noise)
        excess = score + noise - threshold - level
        outcome = float(excess) if excess >= 0 else None
        wanted[outcome] = wanted.get(outcome, 0.0) + mass
    same_law(found, wanted)


def test_a_gap_that_is_not_numeric_tells_no_excess(world):
    assert world.kernel.watch(ONE).first_above(gaps(), -FAR).excess is None
    assert world.kernel.watch(ONE).first_above(gaps(numeric=True), -FAR).excess > 0


def test_the_excess_is_in_rows_on_any_lattice(monkeypatch):
    world = world_of(monkeypatch, epsilon=10**4)
    watching = Watching(1000, 1000)
    gap = GapForm(PREFIXES.row(1), [0.0], [12.5], absolute=False, numeric=True)
    assert watching.lattice_bits(world.kernel.facts) > 8
    top = world.kernel.watch(watching).first_above(gap, 3.25)
    assert top.excess == pytest.approx(70 - 12.5 - 3.25, abs=0.05)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_rates_are_of_the_rows_of_the_table_outside_ones_included(neighbors, monkeypatch):
    data = PrivateData.from_counts([40, 30, 20, 10], LINE, outside_rows=50, neighbors=neighbors)
    kernel = kernel_over(data, seeded(1))
    gap = GapForm(PREFIXES.row(1), [0.25], [0.0], absolute=False, numeric=True)
    top = kernel.watch(Watching(1000, 1000)).first_above(gap, 0.0)
    assert top.excess == pytest.approx(70 - 0.25 * 150, abs=0.1)


@pytest.mark.parametrize(("rate", "rounded"), [(0.74, 0.5), (0.75, 1.0), (0.8, 1.0), (0.26, 0.5)])
def test_rates_are_rounded_half_up_to_the_lattice(rate, rounded, monkeypatch):
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", 1)
    kernel = kernel_over(PrivateData.from_counts(COUNTS, LINE), seeded(1))
    gap = GapForm(PREFIXES.row(3), [rate], [0.0], absolute=False, numeric=True)
    top = kernel.watch(Watching(10**4, 10**4)).first_above(gap, 0.0)
    assert top.excess == 100 - 100 * rounded
    # So far and no further may rounding move a gap.
    assert abs(rate - rounded) * 100 <= Watching(10**4, 10**4).rounding(kernel.facts)


def test_every_gap_of_a_long_batch_is_compared_and_the_first_above_is_found():
    domain = Domain(Integer("x", 0, 2999))
    counts = np.zeros(3000, dtype=int)
    form = LinearForm(domain, [Kronecker.of(domain, {"x": Identity(3000)})])
    watching = Watching(5, 5)
    for place in (0, 255, 256, 1279, 1280, 2999):
        counts[:] = 0
        counts[place] = counts[2999] = 1000
        kernel = kernel_over(PrivateData.from_counts(counts, domain), seeded(place))
        assert kernel.watch(watching).first_above(gaps(form), 500.0) == Top(place, None)
        assert kernel.watch(watching).first_above(gaps(form), 500.0, place) == Top(place, None)
        later = kernel.watch(watching).first_above(gaps(form), 500.0, min(place + 1, 2999))
        assert later == Top(2999, None)


# Radii


@pytest.mark.parametrize("rows", [20, 1000, 10**7])
@pytest.mark.parametrize("beta", [0.3, 0.01, 1e-6])
def test_radii_are_the_exact_tails_of_the_geometric_laws(rows, beta):
    watching, of = Watching("0.7", "0.4"), facts(LINE, rows=rows)
    step = 2.0 ** -watching.lattice_bits(of)
    for count in (1, 50):
        each = -math.expm1(math.log1p(-beta) / count)
        for scale, radius in (
            (1 / 0.7, watching.below(beta, of, count)),
            (2 / 0.4, watching.above(beta, of, count)),
        ):
            steps = round((radius - watching.rounding(of)) / step)
            law = Geometric(Fraction(scale).limit_denominator(1000) / Fraction(step))
            assert law.tail(steps) <= each < law.tail(steps - 1)
            ideal = -scale * math.log(each) + watching.rounding(of)
            assert radius == pytest.approx(ideal, abs=2 * step)


def rate_of(watching, threshold, outcome, runs=1500):
    """How often one gap of 40 rows is called so, of so many runs."""
    kernel, gap = kernel_over(PrivateData.from_counts(COUNTS, LINE), seeded(11)), gaps(FIRST)
    return sum(
        (kernel.watch(watching).first_above(gap, threshold) is None) == outcome for _ in range(runs)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("beta", [0.2, 0.02])
def test_gaps_called_below_exceed_their_radius_as_rarely_as_they_may(beta):
    of = facts(LINE, rows=100)
    for query in (Fraction(1, 2), Fraction(200)):
        watching = Watching(Fraction(1, 4), query)
        threshold = 40 - watching.below(beta, of) - 1e-9
        failures = rate_of(watching, threshold, True)
        assert binom.sf(failures - 1, 1500, beta) > 1e-6
    # Where the gaps have next to no noise of their own the radius is not a step too wide.
    assert binom.cdf(failures, 1500, 0.9 * beta) > 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("beta", [0.2, 0.02])
def test_gaps_called_above_fall_short_by_their_radius_as_rarely_as_they_may(beta):
    of = facts(LINE, rows=100)
    for threshold_epsilon in (Fraction(1, 2), Fraction(200)):
        watching = Watching(threshold_epsilon, Fraction(1, 4))
        threshold = 40 + watching.above(beta, of, 1) + 1e-9
        failures = rate_of(watching, threshold, False)
        assert binom.sf(failures - 1, 1500, beta) > 1e-6
    assert binom.cdf(failures, 1500, 0.9 * beta) > 1e-6


@pytest.mark.parametrize("rows", [1, 1000, 2**30, 2**45, 2**52 - 1])
def test_the_lattice_is_as_fine_as_exact_sums_allow(rows):
    of = facts(LINE, rows=rows)
    for epsilon in ("1e-6", 1, 10**6):
        bits = Watching(1, epsilon).lattice_bits(of)
        assert 0 <= bits <= 40
        assert rows * 2.0**bits <= 2.0**52
    assert Watching(1, 1).rounding(of) <= max((rows + 1) * 2.0**-9 / rows, 4 * rows**2 * 2.0**-52)


# Secrets


def reachable(start, skip=()):
    """Every object that attributes, items and closures lead to, by public and private names."""
    seen, todo = {}, [start]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType | skip):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, str | bytes | int | float | complex | Fraction):
            continue
        if isinstance(thing, np.ndarray):
            continue
        if isinstance(thing, dict):
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            todo += list(thing)
        if isinstance(thing, types.MethodType):
            todo += [thing.__self__]
            continue
        if isinstance(thing, types.FunctionType):
            todo += [cell.cell_contents for cell in thing.__closure__ or ()]
            continue
        for name in dir(thing):
            if not (name.startswith("__") and name.endswith("__")):
                with suppress(Exception):
                    todo.append(getattr(thing, name))
    return list(seen.values())


SECRET = 271828
SECRETIVE = [
    (
        NumericSparse(1, tops=3),
        [Above(Threshold("x", 0), 0.9), NumericAbove(Threshold("x", 0), 0.01)],
    ),
    (
        OnlinePMW(1, updates=3, start="uniform"),
        [Threshold("x", 0), Workload([Threshold("x", 0), Threshold("x", 1)])],
    ),
]


@pytest.mark.parametrize(("mechanism", "queries"), SECRETIVE, ids=str)
def test_nothing_that_a_strategy_can_reach_holds_true_answers_or_a_threshold(mechanism, queries):
    data = PrivateData.from_counts([SECRET, 300_000, 1, 428_171], LINE)
    # The noise of tests hides nothing; what stays reachable of any source is its own affair.
    session = Session(data, Budget(10), noise=seeded(3))
    channel = session.open(mechanism)
    for query in queries:
        channel.answer(query)
    watches = [watch for watch in module._secrets if watch._access.data is data]
    hidden = [module._secrets[watch] for watch in watches]
    assert any(SECRET * 2 ** watches[0]._bits in secret.numbers for secret in hidden)
    levels = {secret.level for secret in hidden if secret.level is not None}
    bits = {watch._bits for watch in watches}
    exact = {SECRET, *levels, *(SECRET << b for b in bits)}
    found = reachable(channel, skip=NoiseSource)
    assert any(thing is watches[0] for thing in found)
    assert any(isinstance(thing, access.Access) for thing in found)
    for thing in found:
        if isinstance(thing, np.ndarray) and thing.dtype.kind in "iuf":
            assert not np.isin(thing, list(exact)).any()
        elif isinstance(thing, int | float | Fraction):
            assert thing not in exact
        assert not isinstance(thing, module._Secret)
        assert str(SECRET) not in repr(thing)


def test_a_watch_shows_its_parameters_and_nothing_else(world):
    watch = world.kernel.watch(ONE)
    watch.first_above(gaps(), FAR)
    assert repr(watch) == f"Watch({ONE})"
    assert watch.parameters == ONE
    secret = module._secrets[watch]
    assert str(secret.level) not in repr(secret)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Redacted):
            attempt(watch)
    assert not hasattr(watch, "__dict__")
    assert not any("secret" in name or "level" in name for name in watch.__slots__)
