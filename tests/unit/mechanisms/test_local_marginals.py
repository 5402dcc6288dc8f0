"""LocalMarginals: its cost, how near its tables are, what they rest on, and how it ends early."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session, Stopped, TablesChannel
from dpsdk.accounting import Odometer, ZCDPComposition
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound, QueryError, TooLarge
from dpsdk.hypothesis import Distribution
from dpsdk.kernel import Kernel, Look, MeasureResiduals
from dpsdk.mechanisms import LocalMarginals
from dpsdk.mechanisms.local_marginals import mechanism as learning
from dpsdk.mechanisms.local_marginals import sets as learning_sets
from dpsdk.mechanisms.local_marginals import tables
from dpsdk.mechanisms.local_marginals.sets import Lattice
from dpsdk.queries import Above, Conjunction, Count, Marginal, Threshold, Workload, marginals
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

SIZES = (3, 2, 5, 4, 6)
DOMAIN = Domain(*(Integer(name, 0, size - 1) for name, size in zip("abcde", SIZES, strict=True)))
ROWS = 4000
RELATIONS = list(itertools.product(Neighbors, ("cell", "raise")))


def codes(rows=ROWS, seed=3):
    """Attributes that hang together through one hidden number."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    columns = [
        np.clip(np.rint(size / 2 + size / 4 * (hidden + rng.normal(size=rows))), 0, size - 1)
        for size in SIZES
    ]
    return np.stack(columns, axis=1).astype(np.int64)


CODES = codes()


def true(names, records=CODES):
    places = [DOMAIN.names.index(name) for name in names]
    table = np.zeros([SIZES[place] for place in places])
    np.add.at(table, tuple(records[:, place] for place in places), 1)
    return table


def private(records=CODES, neighbors=Neighbors.ADD_REMOVE, outside="cell", **given):
    columns = {name: records[:, place].tolist() for place, name in enumerate(DOMAIN.names)}
    if neighbors is Neighbors.ADD_REMOVE:
        given.setdefault("max_rows", 10**6)
    return PrivateData.from_columns(columns, DOMAIN, neighbors=neighbors, outside=outside, **given)


def session(data=None, seed=9, budget=None, **given):
    budget = budget or Budget(10**9, "1e-6")
    return Session(data or private(), budget, noise=seeded(seed), **given)


def asked(ways=2):
    return Workload([marginals(DOMAIN, k, normalized=False) for k in range(1, ways + 1)])


def counted(*names):
    return Marginal(*names, normalized=False)


def variation(table, names, records=CODES):
    return float(np.abs(table - true(names, records)).sum()) / 2 / len(records)


def sets(ways):
    return [c for k in range(1, ways + 1) for c in itertools.combinations(DOMAIN.names, k)]


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_next_to_no_noise_gives_the_true_tables(neighbors, outside):
    opened = session(private(neighbors=neighbors, outside=outside))
    with opened.open(LocalMarginals(asked(3), rho=10**7)) as channel:
        for names in sets(3):
            release = channel.release(counted(*names))
            assert variation(release.value.values, names) < 1e-3, names
            assert release.source == "measured"
        assert channel.answer(Count(normalized=False)) == pytest.approx(ROWS, abs=1)
        backwards = channel.answer(counted("e", "a")).values
        assert np.abs(backwards - true("ae").T).sum() < 20


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_rows_outside_the_domain_are_in_no_table(neighbors, outside, unit_rows):
    if outside == "raise":
        return
    records = CODES.copy()
    records[: ROWS // 4, 0] = 99
    data = private(records, neighbors, outside, unit_rows=unit_rows)
    opened = session(data)
    with opened.open(LocalMarginals(asked(), rho=10**6)) as channel:
        inside = records[ROWS // 4 :]
        assert np.abs(channel.answer(counted("a", "e")).values - true("ae", inside)).sum() < 20
        public = neighbors is Neighbors.REPLACE_ONE
        expected = 0.25 if public else 0.0
        assert channel.distribution.outside_mass == pytest.approx(expected, abs=1e-3)
        # Four attributes are answered from the distribution, in rows all the same.
        four = channel.answer(counted("a", "b", "c", "d")).values
        assert four.sum() == pytest.approx(len(inside), rel=1e-3)


def test_tables_are_nearer_than_noise_and_than_independence():
    rho = 0.002
    errors = np.zeros(3)
    for seed in range(3):
        with session(seed=seed).open(LocalMarginals(asked(), rho=rho)) as channel:
            wanted = sets(2)
            rng = np.random.default_rng(seed)
            deviation = np.sqrt(len(wanted) / (2 * rho))
            for names in itertools.combinations(DOMAIN.names, 2):
                mine = channel.answer(counted(*names)).values
                one, other = (true(name).reshape(-1) for name in names)
                noisy = np.maximum(true(names) + rng.normal(0, deviation, mine.shape), 0)
                noisy *= ROWS / noisy.sum()
                independent = np.outer(one, other) / ROWS
                errors += [variation(table, names) for table in (mine, noisy, independent)]
    assert errors[0] < 0.7 * min(errors[1:])


def test_narrower_tables_are_the_margins_of_wider_ones():
    with session().open(LocalMarginals(asked(3), rho="0.01")) as channel:
        for names in itertools.combinations(DOMAIN.names, 3):
            table = channel.answer(counted(*names)).values
            assert table.min() >= 0
            for axis in range(3):
                rest = names[:axis] + names[axis + 1 :]
                margin = channel.answer(counted(*rest)).values
                assert np.abs(table.sum(axis=axis) - margin).sum() < 0.01 * ROWS
        for name in DOMAIN.names:
            assert channel.answer(counted(name)).values.sum() == pytest.approx(
                channel.answer(Count(normalized=False))
            )


def test_all_of_the_total_is_spent_and_no_more():
    for rho in ("0.01", "3.7", "1e-6"):
        opened = session(composition=ZCDPComposition("1e-9"))
        mechanism = LocalMarginals(asked(3), rho=rho, certify="0.1")
        quote = opened.quote(asked(2), using=mechanism)
        opened.open(mechanism)
        paid = opened.history[-1].cost
        assert Fraction(rho) * Fraction(999, 1000) <= paid.rho <= Fraction(rho)
        assert quote.at_open.rho >= paid.rho
        assert len(paid.guarantees) == 4


@pytest.mark.parametrize("neighbors", Neighbors)
def test_an_epsilon_and_a_delta_fit_the_session(neighbors):
    opened = session(private(neighbors=neighbors), budget=Budget(1, "1e-9"))
    opened.open(LocalMarginals(asked(), epsilon=1, delta="1e-9"))
    assert not opened.affords(asked(), using=LocalMarginals(asked(), epsilon="0.5", delta="1e-10"))
    with pytest.raises(BudgetExceeded):
        opened.open(LocalMarginals(asked(), epsilon=1, delta="1e-9"))


def test_the_same_noise_gives_the_same_tables_in_whatever_order():
    wanted = [counted(*names) for names in sets(3)]
    results = []
    for order in (wanted, wanted[::-1]):
        with session().open(LocalMarginals(asked(3), rho="0.01")) as channel:
            found = {query: channel.answer(query).values for query in order}
            results.append([found[query] for query in wanted])
            again = [channel.answer(query).values for query in wanted]
            assert all(map(np.array_equal, results[-1], again))
    assert all(map(np.array_equal, *results))


def test_what_each_table_rests_on_is_listed(monkeypatch):
    with session().open(LocalMarginals(asked(), rho="0.001")) as channel:
        assert isinstance(channel, TablesChannel)
        listed = {one.names: one for one in channel.tables}
        assert list(listed) == sets(2)
        for names, one in listed.items():
            assert one.requested
            assert one.total_variation is None
            assert (one.source == "measured") == (one.deviation is not None)
            assert channel.release(counted(*names)).source == one.source
        assert all(listed[(name,)].source == "measured" for name in DOMAIN.names)
    wide = Workload([counted("c", "a", "d")])
    monkeypatch.setattr(learning_sets, "_MEASURED_WIDE", 30)
    with session().open(LocalMarginals(wide, rho="0.01")) as channel:
        listed = {one.names: one for one in channel.tables}
        assert [names for names, one in listed.items() if one.requested] == [("a", "c", "d")]
        assert set(listed) == {n for n in sets(3) if set(n) <= set("acd")}
        unmeasured = [names for names, one in listed.items() if one.deviation is None]
        assert unmeasured == [("a", "c", "d")]
        assert channel.release(counted(*unmeasured[0])).source == "fitted"


def test_other_questions_are_answered_from_the_tables_where_there_are_any():
    with session().open(LocalMarginals(asked(), rho="0.01")) as channel:
        table = channel.answer(counted("c", "e")).values
        where = Conjunction({"c": {1, 2}, "e": range(2, 5)})
        count = Count(where={"c": {1, 2}, "e": range(2, 5)}, normalized=False)
        assert channel.answer(count) == pytest.approx(table[1:3, 2:5].sum())
        below = channel.release(Threshold("e", 3, normalized=False))
        assert below.value == pytest.approx(table.sum(axis=0)[:4].sum(), abs=ROWS / 100)
        assert below.source == "measured"
        # All margins of three attributes are known, of four they are not.
        three = channel.release(counted("a", "c", "e"))
        assert three.source == "fitted"
        assert np.abs(three.value.values.sum(axis=0) - table).sum() < ROWS / 100
        four = channel.release(counted("a", "c", "d", "e"))
        assert four.source == "hypothesis"
        mixed = channel.distribution.table(("a", "c", "d", "e")) * table.sum()
        np.testing.assert_allclose(four.value.values, mixed, rtol=1e-6)
        both = channel.release(Workload([counted("a"), counted("a", "c", "d", "e")]))
        assert both.source == "hypothesis"
        del where


def test_a_channel_gives_its_own_tables_and_a_distribution_near_to_them():
    data = private(neighbors=Neighbors.REPLACE_ONE, outside="raise")
    with session(data).open(LocalMarginals(asked(), rho="0.1")) as channel:
        own = channel.marginal("e", "c")
        np.testing.assert_allclose(own.values * ROWS, channel.answer(counted("e", "c")).values)
        mixed = channel.distribution.table(("c", "e"))
        assert 0 < np.abs(mixed.T - own.values).sum() < 0.3
        assert channel.sample(5, seed=1)["a"]
        apart = channel.marginal("a", "b", "c", "d")
        assert apart.values.sum() == pytest.approx(1)


def test_the_distribution_is_kept_in_a_file(tmp_path):
    with session().open(LocalMarginals(asked(), rho="0.1")) as channel:
        channel.distribution.save(tmp_path / "mixture")
        people = channel.distribution.synthesize(7, seed=3)
        assert people.rows == 7 + (people.outside_count or 0)
        again = Distribution.load(tmp_path / "mixture")
        assert again == channel.distribution


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_certificate_bounds_every_table_and_every_sum(neighbors):
    opened = session(private(neighbors=neighbors))
    mechanism = LocalMarginals(asked(3), rho="0.05", certify="0.2", beta=0.02)
    with opened.open(mechanism) as channel:
        listed = {one.names: one for one in channel.tables}
        for names, one in listed.items():
            release = channel.release(counted(*names))
            table = release.value.values
            # Of the tables as they are given out, each divided by its own sum.
            actual = np.abs(table / table.sum() - true(names) / ROWS).sum() / 2
            assert actual <= one.total_variation
            error = release.error(0.02)
            assert np.abs(table - true(names)).max() <= error
            assert error == pytest.approx(one.total_variation * table.sum(), rel=1e-6)
            assert f"{one.total_variation:.3g}" in release.bound(0.02).kind
            assert release.bound(0.02).standing == "promised"
            with pytest.raises(NoBound, match=r"0\.02"):
                release.error(0.01)
            assert (table * 2**12 == np.rint(table * 2**12)).all()
        half = Count(where={"c": {0, 1}, "e": {1, 2}}, normalized=False)
        release = channel.release(half)
        assert abs(release.value - true("ce")[:2, 1:3].sum()) <= release.error(0.02)
        other = channel.release(counted("a", "b", "c", "d"))
        with pytest.raises(NoBound, match="others"):
            other.error()
        both = channel.release(Workload([counted("a"), counted("a", "b", "c", "d")]))
        assert np.isfinite(both.errors(0.05)).tolist() == [True] * 3 + [False] * 120


def test_a_certificate_holds_whatever_the_fit_did(monkeypatch):
    def spoilt(residuals, deviations, priors, margins, cap=None):
        del deviations, margins, cap
        return np.abs(priors[:, ::-1] * 1.7 + np.abs(residuals))

    monkeypatch.setattr(tables, "shrink", spoilt)
    mechanism = LocalMarginals(asked(3), rho="0.05", certify="0.2")
    with session().open(mechanism) as channel:
        for one in channel.tables:
            table = channel.answer(counted(*one.names)).values
            actual = np.abs(table / table.sum() - true(one.names) / ROWS).sum() / 2
            assert actual <= one.total_variation


def _violations(seeds, rho, beta):
    records = CODES[:300]
    found = 0
    for seed in range(seeds):
        opened = session(private(records), seed=seed)
        with opened.open(LocalMarginals(asked(), rho=rho, certify="0.5", beta=beta)) as channel:
            for one in channel.tables:
                table = channel.answer(counted(*one.names)).values
                shares = true(one.names, records) / len(records)
                actual = np.abs(table / table.sum() - shares).sum() / 2
                if actual > one.total_variation:
                    found += 1
                    break
    return found


@pytest.mark.audit
def test_certificates_fail_no_more_often_than_promised():
    # At 200 seeds and beta 0.3 more than 88 failures have probability below 1e-5.
    assert _violations(200, "0.5", 0.3) <= 88


def test_the_slack_of_a_certificate_is_that_of_its_formula():
    data = private(neighbors=Neighbors.REPLACE_ONE, outside="raise")
    rho = Fraction(1, 10)
    opened = session(data, seed=2)
    with opened.open(LocalMarginals(asked(), rho=rho, certify="0.5", beta=0.1)) as channel:
        wanted = sets(2)
        deviation = 2 * np.sqrt(len(wanted) / float(2 * rho * Fraction(1, 2)))
        slack = deviation * np.sqrt(2 * np.log(len(wanted) / 0.1)) / (2 * ROWS)
        for one in channel.tables:
            actual = variation(channel.answer(counted(*one.names)).values, one.names)
            assert actual - slack <= one.total_variation <= actual + 2.5 * slack


def test_without_a_certificate_nothing_is_proven():
    with session().open(LocalMarginals(asked(), rho="0.01")) as channel:
        release = channel.release(counted("a", "b"))
        with pytest.raises(NoBound, match="certify"):
            release.error()
        assert release.bound().standing == "none"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": "1e-9", "rho": 1},
        {"rho": 1, "delta": "1e-9"},
        {"rho": 1, "first": "0.5", "look": "0.3", "certify": "0.2"},
        {"rho": 1, "first": 0},
        {"rho": 1, "look": 1},
        {"rho": 1, "certify": -1},
        {"rho": 1, "beta": 0},
        {"rho": 1, "components": 0},
        {"rho": 1, "components": 2.5},
        {"rho": -1},
    ],
)
def test_what_no_total_or_share_is_is_refused(given):
    with pytest.raises(InvalidArgument) as caught:
        LocalMarginals(asked(), **given)
    assert caught.value.parameter


def test_only_linear_questions_are_asked():
    with pytest.raises(InvalidArgument):
        LocalMarginals("a", rho=1)
    above = Above(Threshold("c", 1), 0.5)
    with pytest.raises(InvalidArgument):
        session().open(LocalMarginals(above, rho=1))
    with pytest.raises(QueryError):
        session().quote(above, using=LocalMarginals(asked(), rho=1))


def test_workloads_may_have_more_numbers_than_one_form():
    wide = Domain(*(Integer(f"x{k}", 0, 63) for k in range(2)))
    rows = {name: [1, 2, 63] * 50 for name in wide.names}
    data = PrivateData.from_columns(rows, wide, neighbors=Neighbors.ADD_REMOVE)
    # The same table over and over is one table.
    huge = Workload([Workload([counted("x0", "x1")] * 4097), counted("x1", "x0")])
    with pytest.raises(TooLarge):
        huge.lower(wide)
    with session(data).open(LocalMarginals(huge, rho=10**5)) as channel:
        table = channel.answer(counted("x0", "x1")).values
        assert table[1, 1] == pytest.approx(50, abs=1)
    larger = Domain(*(Integer(f"x{k}", 0, 256) for k in range(3)))
    assert Lattice.of(larger.shape, [(0, 1)]).closed == ((0,), (1,), (0, 1))
    with pytest.raises(TooLarge, match="cells"):
        Lattice.of(larger.shape, [(0, 1, 2)])


def test_what_no_integers_hold_is_not_bought():
    lattice = Lattice.of((2**10, 2**10, 4), [(0, 1), (0, 2)], 2**35)
    assert lattice.measurable == {(0, 2)}
    domain = Domain(Integer("x", 0, 7), Integer("y", 0, 7))
    rows = {"x": [1, 2, 7] * 20, "y": [1, 2, 7] * 20}
    data = PrivateData.from_columns(rows, domain, neighbors=Neighbors.ADD_REMOVE, max_rows=2**47)
    with session(data).open(LocalMarginals(counted("x", "y"), rho=10**4)) as channel:
        assert channel.release(counted("x", "y")).source == "fitted"
        assert channel.answer(counted("x")).values[2] == pytest.approx(20, abs=1)


def test_too_many_sets_are_refused():
    with pytest.raises(TooLarge, match="sets"):
        Lattice.of((2,) * 100, itertools.combinations(range(100), 3))
    with pytest.raises(TooLarge, match="sets"):
        Lattice.of((2,) * 20, [tuple(range(17))])


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("rho", ["1e-9", "0.01", "1000"])
def test_tables_of_next_to_nobody_are_finite(neighbors, rows, rho):
    if not rows and neighbors is Neighbors.REPLACE_ONE:
        return  # there is no such table
    opened = session(private(CODES[:rows], neighbors), seed=rows)
    mechanism = LocalMarginals(asked(3), rho=rho, certify="0.1")
    with opened.open(mechanism) as channel:
        for names in sets(3):
            table = channel.answer(counted(*names)).values
            assert np.isfinite(table).all()
            assert table.min() >= 0
        assert np.isfinite(channel.answer(counted("a", "b", "c", "d")).values).all()


def test_attributes_of_one_value_and_questions_about_nothing():
    domain = Domain(Integer("one", 0, 0), Integer("a", 0, 2), Integer("other", 5, 5))
    data = PrivateData.from_columns(
        {"one": [0] * 90, "a": [0] * 60 + [2] * 30, "other": [5] * 90},
        domain,
        neighbors=Neighbors.ADD_REMOVE,
    )
    workload = Workload(
        [counted("one", "a"), counted("one", "other"), counted("one", "a", "other")]
    )
    with session(data).open(LocalMarginals(workload, rho=10**5, certify="0.1")) as channel:
        found = channel.answer(counted("one", "a", "other")).values
        np.testing.assert_allclose(found.reshape(-1), [60, 0, 30], atol=0.5)
        assert channel.answer(counted("one", "other")).values == pytest.approx(90, abs=0.5)
        assert channel.release(counted("one", "other")).source == "fitted"
    for asking, count in ((Count(normalized=False), 1), (counted("one"), 1), (counted("a"), 2)):
        opened = session(data)
        with opened.open(LocalMarginals(asking, rho=10**5)) as channel:
            assert channel.answer(Count(normalized=False)) == pytest.approx(90, abs=0.5)
            assert opened.spent.charges == count
    public = PrivateData.from_columns(
        {"one": [0] * 90, "a": [0] * 90, "other": [5] * 90}, domain, outside="raise"
    )
    opened = session(public)
    with opened.open(LocalMarginals(Count(), rho=1)) as channel:
        assert channel.answer(Count()) == 1
        assert opened.spent.charges == 0


def test_a_domain_that_nobody_could_write_down():
    wide = Domain(*(Integer(f"x{k}", 0, 4) for k in range(40)))
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 5, 2000)
    columns = {
        name: np.where(rng.random(2000) < 0.5, hidden, rng.integers(0, 5, 2000)).tolist()
        for name in wide.names
    }
    data = PrivateData.from_columns(columns, wide, neighbors=Neighbors.ADD_REMOVE, max_rows=5000)
    pairs = marginals(wide, 2, normalized=False)
    with session(data).open(LocalMarginals(pairs, rho="0.5", components=4)) as channel:
        mean = np.mean(
            [variation_of(channel, pair, columns) for pair in [("x0", "x1"), ("x3", "x39")]]
        )
        assert mean < 0.06
        assert channel.distribution.domain == wide


def variation_of(channel, names, columns):
    counts = np.zeros((5, 5))
    np.add.at(counts, tuple(np.array(columns[name]) for name in names), 1)
    return np.abs(channel.answer(counted(*names)).values - counts).sum() / 2 / counts.sum()


def test_progress_is_told_and_a_stop_keeps_what_was_learnt():
    seen = []
    opened = session()
    opened.open(LocalMarginals(asked(), rho=1, certify="0.1"), stop=lambda p: seen.append(p))
    assert [(p.done, p.total, p.unit) for p in seen] == [(k, 5, "steps") for k in range(6)]
    for last in range(1, 5):
        opened = session()
        with pytest.raises(Stopped) as caught:
            opened.open(
                LocalMarginals(asked(3), rho=10**6, certify="0.1"),
                stop=lambda progress, last=last: progress.done == last,
            )
        stopped = caught.value
        assert stopped.why == "stop"
        assert isinstance(stopped.channel, TablesChannel)
        assert opened.spent.charges == min(last, 3)
        for names in (("a",), ("a", "e"), ("a", "c", "e")):
            release = stopped.channel.release(counted(*names))
            near = len(names) == 1 or last >= 3
            assert variation(release.value.values, names) < (0.01 if near else 0.5)
            with pytest.raises(NoBound):
                release.error()
        assert stopped.channel.distribution.table(("a",)).sum() == pytest.approx(1)
        assert len(stopped.channel.tables) == len(sets(3))


def test_a_stop_before_anything_was_paid_costs_nothing():
    opened = session()
    with pytest.raises(Stopped):
        opened.open(LocalMarginals(asked(), rho=1), stop=lambda progress: True)
    assert opened.spent.charges == 0


def test_a_budget_without_room_keeps_what_was_learnt():
    opened = session(budget=Budget(1, "1e-6"), composition=ZCDPComposition("1e-6"))
    opened.open(LocalMarginals(Count(normalized=False), rho="0.006"))
    with pytest.raises(Stopped) as caught:
        opened.open(LocalMarginals(asked(), rho="0.02"))
    assert caught.value.why == "budget"
    assert caught.value.channel.answer(counted("a")).values.sum() > 0
    with pytest.raises(BudgetExceeded):
        opened.open(LocalMarginals(asked(), rho="10"))


def test_an_interrupt_while_tables_are_fitted_keeps_what_was_paid(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(tables.Tables, "fitted", interrupted)
    opened = session()
    with pytest.raises(Stopped) as caught:
        opened.open(LocalMarginals(asked(), rho=10**6))
    monkeypatch.undo()
    assert caught.value.why == "interrupt"
    assert variation(caught.value.channel.answer(counted("a", "e")).values, "ae") < 0.01


def test_a_look_in_several_requests_costs_what_one_does(monkeypatch):
    answers = []
    for piece in (learning._PIECE, 20):
        monkeypatch.setattr(learning, "_PIECE", piece)
        opened = session(composition=ZCDPComposition("1e-9"))
        channel = opened.open(LocalMarginals(asked(), rho="0.5", certify="0.2"))
        assert opened.history[-1].cost.rho <= Fraction(1, 2)
        assert opened.history[-1].cost.rho >= Fraction(1, 2) * Fraction(999, 1000)
        answers.append(channel.tables)
    assert [one.names for one in answers[0]] == [one.names for one in answers[1]]


class Recorded:
    """A kernel that keeps what was asked of it, and what came out."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.terms = kernel.terms
        self.asked = []
        self.released = []

    def run(self, request):
        self.asked.append(request)
        self.released.append(self.kernel.run(request))
        return self.released[-1]

    def look(self, references, noise, *, bits):
        return self.run(Look(references, noise, bits))

    def progress(self, done, total=None, unit="steps"):
        return False


class Replayed(Recorded):
    """The same releases once more, without any table behind them."""

    def __init__(self, terms, released):
        self.terms = terms
        self.asked = []
        self.left = list(released)

    def run(self, request):
        self.asked.append(request)
        return self.left.pop(0)


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_a_run_is_a_composition_of_priced_releases_and_of_nothing_else(neighbors, outside):
    data = private(neighbors=neighbors, outside=outside, unit_rows=2)
    odometer = Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1"))
    kernel = Recorded(Kernel(data, odometer, seeded(3), "local"))
    mechanism = LocalMarginals(asked(3), rho="0.4", certify="0.1")
    honest = mechanism.open(kernel)
    again = Replayed(kernel.terms, kernel.released)
    same = mechanism.open(again)
    assert not again.left
    prices = []
    for one, other in zip(kernel.asked, again.asked, strict=True):
        assert type(one) in (MeasureResiduals, Look)
        assert type(one) is type(other)
        if type(one) is Look:
            assert one.references == other.references
        else:
            assert (one.sets, one.scales) == (other.sets, other.scales)
        prices.append(one.price(kernel.terms).guarantee.rho)
        assert prices[-1] == other.price(kernel.terms).guarantee.rho
    assert Fraction(4, 10) * Fraction(999, 1000) <= sum(prices) <= Fraction(4, 10)
    assert odometer.spent.rho == pytest.approx(float(sum(prices)))
    for names in sets(3):
        form = counted(*names).lower(DOMAIN)
        one, other = (found.answer(form, None) for found in (honest, same))
        np.testing.assert_array_equal(one.values, other.values)
        assert one.accuracy == other.accuracy
    assert honest.listing == same.listing
    assert honest.distribution == same.distribution


def test_what_is_handed_out_is_no_table_of_the_channel():
    odometer = Odometer(Budget(10**6, "0.1"), ZCDPComposition("0.1"))
    kernel = Kernel(private(), odometer, seeded(3), "local")
    opened = LocalMarginals(asked(3), rho="0.4").open(kernel)
    for names in (("a",), ("a", "e"), ("a", "c", "e"), ()):
        form = (counted(*names) if names else Count(normalized=False)).lower(DOMAIN)
        first = opened.answer(form, kernel).values
        kept = first.copy()
        with pytest.raises(ValueError, match="read-only"):
            first[:] = -1
        np.testing.assert_array_equal(opened.answer(form, kernel).values, kept)
    shares = opened.shares(("a", "e"))
    kept = shares.copy()
    shares[:] = -1
    np.testing.assert_array_equal(opened.shares(("a", "e")), kept)


def test_a_quote_costs_nothing_and_promises_nothing():
    quote = session().quote(asked(), using=LocalMarginals(asked(), rho="0.5"))
    assert not quote.bound().proven
    assert float(quote.at_open.rho) == pytest.approx(0.5, rel=0.06)
    with pytest.raises(InvalidArgument):
        LocalMarginals(asked(), rho="0.5").quote(asked().lower(DOMAIN), facts(DOMAIN))
    with pytest.raises(InvalidArgument, match="rho"):
        session().open(LocalMarginals(asked(), rho="1e-25"))


@pytest.mark.parametrize(
    ("max_rows", "rho"),
    [
        (2**47 + 1, 1),
        (2**49, 1),
        (2**52, "1e-3"),
        (2**40, "1e-25"),
        (2**20, "1e-28"),
        (2**46, 1e12),
    ],
)
def test_what_does_not_fit_64_bits_is_refused_before_anything_is_paid(max_rows, rho):
    opened = session(private(CODES[:9], max_rows=max_rows), budget=Budget(10**18, "1e-6"))
    mechanism = LocalMarginals(asked(), rho=rho, certify="0.1", components=1)
    for asking in (opened.open, lambda one: opened.quote(asked(), using=one)):
        with pytest.raises((InvalidArgument, TooLarge)) as caught:
            asking(mechanism)
        assert getattr(caught.value, "parameter", "rho") == "rho"
        assert opened.spent.charges == 0


@pytest.mark.parametrize(
    ("max_rows", "rho"), [(2**47, "1e-2"), (2**40, "1e-20"), (2**20, "1e-22"), (2**40, 10**6)]
)
def test_whatever_is_not_refused_beforehand_comes_to_its_end(max_rows, rho):
    opened = session(private(CODES[:9], max_rows=max_rows), budget=Budget(10**18, "1e-6"))
    channel = opened.open(LocalMarginals(asked(), rho=rho, certify="0.1", components=1))
    assert opened.spent.charges >= 3
    assert np.isfinite(channel.answer(counted("a", "e")).values).all()


def test_an_attribute_with_more_cells_than_so_many_rows_allow_is_refused_beforehand():
    domain = Domain(Integer("x", 0, 2**16 - 1))
    data = PrivateData.from_columns(
        {"x": [1, 2]}, domain, neighbors=Neighbors.ADD_REMOVE, max_rows=2**40
    )
    for asking in (session(data).open, lambda m: session(data).quote(counted("x"), using=m)):
        with pytest.raises(TooLarge, match="rows"):
            asking(LocalMarginals(counted("x"), rho=1))
