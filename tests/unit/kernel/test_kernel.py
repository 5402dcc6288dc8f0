import copy
import pickle

import numpy as np
import pytest
from diary import Diary, World

import dpsdk.kernel.access as module
from dpsdk import Budget, Neighbors, PrivateData
from dpsdk.accounting import Odometer, default_composition
from dpsdk.errors import BudgetExceeded, Redacted, ReleaseFailed
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Pricing
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.observe import Charged, Refused
from dpsdk.queries import Count, Marginal
from dpsdk.testing.noise import seeded
from worlds import PEOPLE, people, table, told

ROWS = people(40, 5)
OTHER = [{**ROWS[0], "age": 23, "sex": "Female", "hours": 39.0}, *ROWS[1:]]
FORM = Marginal("age", "sex").lower(PEOPLE)


def world_of(monkeypatch, rows=ROWS, epsilon=1, observer=None):
    return World(monkeypatch, table(rows), epsilon, observer)


def test_the_charge_comes_first_then_the_noise_then_the_table(monkeypatch):
    world = world_of(monkeypatch)
    world.kernel.measure(FORM, LaplaceNoise("0.1"))
    assert world.happened[1][2] == FORM.rows
    assert world.did() == ["charge", "draw", "open"]


def test_a_refusal_reads_nothing_draws_nothing_and_changes_nothing(monkeypatch):
    world = world_of(monkeypatch)
    world.kernel.measure(FORM, LaplaceNoise("0.9"))
    before = world.books
    world.happened.clear()
    with pytest.raises(BudgetExceeded):
        world.kernel.measure(FORM, LaplaceNoise("0.2"))
    assert world.did() == []
    assert world.books == before
    world.kernel.measure(FORM, LaplaceNoise("0.1"))
    assert world.odometer.remaining.epsilon == 0


def test_a_measurement_adds_the_drawn_noise_to_the_counts(monkeypatch):
    world = world_of(monkeypatch, epsilon=10**6)
    noisy = world.kernel.measure(FORM, LaplaceNoise(2))
    (draw,) = [step for step in world.happened if step[0] == "draw"]
    noise = seeded(4).draw(draw[1], draw[2])
    true = np.zeros((8, 2))
    for row in ROWS:
        if row["age"] != 99:
            true[row["age"] - 17, int(row["sex"] == "Male")] += row["hours"] is not None
    np.testing.assert_array_equal(noisy.values, true.ravel() + noise)
    assert noisy.source == "measured"


def explode(*_, **__):
    raise ValueError("the secret of row 7 is 271828")


def broken_draw(monkeypatch):
    monkeypatch.setattr(Diary, "draw", explode)


def broken_read(monkeypatch):
    monkeypatch.setattr(module, "open_histogram", explode)


def broken_table(monkeypatch):
    monkeypatch.setattr("dpsdk.data.histogram.Histogram.table", explode)


def broken_settle(monkeypatch):
    monkeypatch.setattr(Pricing, "_settle", explode)


def broken_memory(monkeypatch):
    def short(*_):
        raise MemoryError("271828")

    monkeypatch.setattr("dpsdk.data.histogram.tally", short)


FAULTS = [broken_draw, broken_read, broken_table, broken_settle, broken_memory]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_after_the_charge_tells_the_same_on_neighbouring_tables(fault):
    seen = []
    for rows in (ROWS, OTHER):
        with pytest.MonkeyPatch.context() as patch:
            events = []
            world = world_of(patch, rows, observer=events.append)
            fault(patch)
            error, text = told(lambda world=world: world.kernel.measure(FORM, LaplaceNoise("0.1")))
            assert type(error) is ReleaseFailed
            assert error.__context__ is None
            assert error.__cause__ is None
            assert world.odometer.spent.charges == error.charge == 1
            assert world.odometer.spent.epsilon == Budget("0.1").epsilon
            assert "271828" not in text
            assert "secret" not in text
            frame = error.__traceback__
            while frame is not None:
                private = {"noise", "answers", "noisy", "histogram", "counts", "codes"}
                names = set(frame.tb_frame.f_locals)
                if frame.tb_frame.f_code.co_filename == module.__file__:
                    assert "self" in names
                    assert not (names - {"noise"}) & private
                    assert all(
                        not isinstance(v, np.ndarray) for v in frame.tb_frame.f_locals.values()
                    )
                frame = frame.tb_next
            seen.append((str(error), repr(error), error.args, world.did(), repr(events)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("place", ["draw", "read"])
def test_an_interrupt_passes_without_what_it_met(stop, place, monkeypatch):
    def interrupting(*_, **__):
        raise stop("271828")

    world = world_of(monkeypatch)
    if place == "draw":
        monkeypatch.setattr(Diary, "draw", interrupting)
    else:
        monkeypatch.setattr(module, "open_histogram", interrupting)
    error, text = told(lambda: world.kernel.measure(FORM, LaplaceNoise("0.1")))
    assert type(error) is stop
    assert "271828" not in text
    assert error.__context__ is None
    assert world.odometer.spent.charges == 1


def test_an_observer_hears_of_charges_before_the_read_and_of_refusals(monkeypatch):
    events = []
    world = world_of(
        monkeypatch, observer=lambda event: events.append((event, len(world.happened)))
    )
    world.kernel.measure(FORM, LaplaceNoise("0.9"))
    with pytest.raises(BudgetExceeded):
        world.kernel.measure(FORM, LaplaceNoise("0.9"))
    (charged, when), (refused, _) = events
    assert isinstance(charged, Charged)
    assert charged.number == 1
    assert charged.mechanism == "test"
    assert when == 1  # charged, neither drawn nor read
    assert isinstance(refused, Refused)


def test_an_observer_that_raises_does_not_lose_what_was_paid_for(monkeypatch):
    def angry(event):
        raise ValueError("angry")

    world = world_of(monkeypatch, observer=angry)
    assert len(world.kernel.measure(FORM, LaplaceNoise("0.9")).values) == FORM.rows
    with pytest.raises(ValueError, match="angry"):
        world.kernel.measure(FORM, LaplaceNoise("0.9"))


@pytest.mark.parametrize("noise", [LaplaceNoise("0.1"), GaussianNoise("0.01")])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_what_is_drawn_and_paid_is_the_same_on_neighbouring_tables(noise, neighbors):
    other = OTHER if neighbors is Neighbors.REPLACE_ONE else ROWS[1:]
    runs = []
    for rows in (ROWS, other):
        happened = []
        odometer = Odometer(Budget(1, 1e-6), default_composition(), clock=lambda: None)
        data = PrivateData.from_columns(
            {name: [row[name] for row in rows] for name in PEOPLE.names},
            PEOPLE,
            neighbors=neighbors,
            max_rows=100,
        )
        kernel = Kernel(data, odometer, Diary(happened), "test")
        got = kernel.measure(FORM, noise)
        kernel.measure(Count().lower(PEOPLE), noise)
        runs.append((happened, odometer.charges, got.accuracy, got.values))
    assert runs[0][:3] == runs[1][:3]
    kind = DiscreteLaplace if isinstance(noise, LaplaceNoise) else DiscreteGaussian
    assert all(isinstance(step[1], kind) for step in runs[0][0])
    # The same noise on neighbours moves the answers by the sensitivity at the most.
    moved = np.abs(runs[0][3] - runs[1][3])
    assert moved.sum() <= (2 if neighbors is Neighbors.REPLACE_ONE else 1)


@pytest.mark.parametrize("look", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_kernel_is_not_copied(look, monkeypatch):
    world = world_of(monkeypatch)
    with pytest.raises(Redacted):
        look(world.kernel)
    assert repr(world.kernel) == f"Kernel({world.data!r})"
    assert world.kernel.facts == world.data.facts
