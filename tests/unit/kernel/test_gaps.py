"""A second kind of gap, to show that `watch` takes kind and sensitivity from what it is asked."""

import attrs
import numpy as np
import pytest

import dpsdk.kernel.gaps as module
from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Gap, GapForm, Identity, Kronecker, LinearForm
from dpsdk.kernel import Kernel, Watching
from dpsdk.kernel.lattice import exact, on_given_lattice, prepare_form
from dpsdk.noise import Geometric
from dpsdk.testing import seeded
from dpsdk.testing.audit.programs import WatchingNoise

LINE = Domain(Integer("x", 0, 2))
CELLS = LinearForm(LINE, [Kronecker(("x",), (Identity(3),))])
COUNTS = [5, 11, 2]
TIMES = 3.0


@attrs.frozen(eq=False)
class Tripled(Gap):
    """Three times what is counted, minus what is known of it."""

    form: LinearForm
    known: np.ndarray
    numeric: bool = False

    @property
    def domain(self):
        return self.form.domain

    @property
    def rows(self):
        return self.form.rows

    @property
    def sensitivity(self):
        return TIMES


@attrs.frozen(eq=False)
class OnLattice:
    source: LinearForm
    known: np.ndarray
    numeric: bool
    steps: float

    @property
    def rows(self):
        return len(self.known)

    def height(self, threshold):
        return round(threshold * self.steps)

    def read(self, histogram):
        return exact(self.source.evaluate(histogram))

    def scores(self, numbers):
        return numbers - self.known


def tripled(gap, facts, bits):
    lattice, _ = on_given_lattice(prepare_form(gap.form, facts), bits, "gap")
    steps = 2.0**bits / TIMES
    known = np.floor(gap.known * steps + 0.5).astype(np.int64)
    return OnLattice(lattice, known, bool(gap.numeric), steps)


@pytest.fixture
def known(monkeypatch):
    def prepare(gap, *given):
        return (tripled if type(gap) is Tripled else module.prepare_gaps)(gap, *given)

    monkeypatch.setattr("dpsdk.kernel.watch.prepare_gaps", prepare)


def kernel(counts=COUNTS, noise=None, neighbors=Neighbors.REPLACE_ONE):
    data = PrivateData.from_counts(counts, LINE, neighbors=neighbors, max_rows=100)
    odometer = Odometer(Budget(10**6), BasicComposition())
    return Kernel(data, odometer, noise or seeded(2), "test"), odometer


class Sub(GapForm):
    pass


@pytest.mark.parametrize("gap", [Tripled(CELLS, np.zeros(3)), Sub(CELLS, np.zeros(3), np.zeros(3))])
def test_a_kind_that_the_kernel_does_not_know_is_refused_and_costs_nothing(gap):
    asked, odometer = kernel()
    wanted = f"a ProximalGapForm, of that very class; got {type(gap).__name__}"
    with pytest.raises(InvalidArgument, match=wanted):
        asked.watch(Watching(1, 1)).first_above(gap, 0.0)
    assert odometer.spent.charges == 0


@pytest.mark.usefixtures("known")
def test_another_kind_is_compared_in_its_own_unit():
    gap = Tripled(CELLS, np.array([0.0, 3.0, 0.0]), numeric=True)
    for threshold, place in [(14.9, 0), (15.1, 1), (29.9, 1), (30.1, None)]:
        asked, _ = kernel()
        watch = asked.watch(Watching(10**4, 10**4))
        top = watch.first_above(gap, threshold)
        assert (None if top is None else top.place) == place
        if top is not None:
            assert top.excess == pytest.approx([15, 30][place] - threshold, abs=0.01)


class Diary(WatchingNoise):
    """Keeps which laws were drawn, and what fresh noise had to reach."""

    def __init__(self):
        self.source, self.laws, self.needed = seeded(5), [], []

    @property
    def private(self):
        return False

    def observe(self, event, /):
        pass

    def _bits(self, count):
        return self.source._bits(count)

    def draw(self, law, size):
        self.laws.append(law)
        return np.zeros(size, dtype=np.int64)

    def reaches(self, law, levels):
        self.laws.append(law)
        self.needed.append(np.array(levels))
        return np.zeros(len(levels), dtype=bool)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(
    "make",
    [
        lambda: GapForm(CELLS, np.zeros(3), np.zeros(3), absolute=False),
        lambda: Tripled(CELLS, np.zeros(3)),
    ],
)
def test_one_row_moves_every_kind_by_what_the_noise_allows_for(make, neighbors):
    watching, diaries = Watching("0.5", 2), []
    other = [4, 12, 2] if neighbors is Neighbors.REPLACE_ONE else [4, 11, 2]
    for counts in (COUNTS, other):
        diary = Diary()
        asked, odometer = kernel(counts, diary, neighbors)
        watch = asked.watch(watching)
        assert watch.first_above(make(), 7.0) is None
        assert odometer.spent.epsilon == watching.guarantee.epsilon
        diaries.append(diary)
    row = 2 ** watching.lattice_bits(asked.facts)
    for diary in diaries:
        assert diary.laws == [
            Geometric(row / watching.threshold_epsilon),
            Geometric(2 * row / watching.query_epsilon),
        ]
    moved = np.abs(diaries[0].needed[0] - diaries[1].needed[0])
    assert moved.max() == row


@pytest.mark.usefixtures("known")
def test_kinds_that_count_the_same_are_read_apart_or_once():
    asked, _ = kernel()
    watch = asked.watch(Watching(10**4, 10**4))
    linear = GapForm(CELLS, np.zeros(3), np.zeros(3), absolute=False)
    for _ in range(2):
        assert watch.first_above(linear, 10.5).place == 1
        assert watch.first_above(Tripled(CELLS, np.zeros(3)), 32.5).place == 1
        assert watch.first_above(Tripled(CELLS, np.zeros(3)), 33.5) is None
