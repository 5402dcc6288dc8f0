"""What single checks see and what they let pass, beside the plugins that err."""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from attrs import frozen

from dpsdk.accounting import (
    ApproximateGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    PureGuarantee,
)
from dpsdk.domain import Domain, Integer
from dpsdk.forms import Kronecker, LinearForm, Neighbors, Weights
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count, CountingQuery, LinearQuery, Marginal
from dpsdk.release import Cost
from dpsdk.testing import interrupts
from dpsdk.testing.conformance import bench, mechanisms, queries, repeating
from dpsdk.testing.conformance.bench import MechanismBench, Scene
from dpsdk.testing.conformance.costs import combined, fits, least, within
from dpsdk.testing.conformance.meanings import _unlikely
from dpsdk.testing.conformance.prints import deep
from dpsdk.testing.conformance.questions import QueryBench
from dpsdk.testing.conformance.report import Tally, carried_out, origin
from dpsdk.testing.interrupts import moments, outcome_of
from dpsdk.testing.logs import overheard

CHECKS = {check.name: check for check in mechanisms.CHECKS}
QUERY_CHECKS = {check.name: check for check in queries.QUERY_CHECKS}
ONE, TWO = PureGuarantee(1), PureGuarantee(2)
GAUSSIAN = DiscreteGaussianGuarantee(5, 1, 1)
LEAKY = ApproximateGuarantee(1, "1e-6")


@pytest.mark.parametrize(
    ("charged", "quoted", "word"),
    [
        ([ONE, ONE], [TWO], ""),
        ([TWO], [ONE, ONE], "ρ"),
        ([ONE], [], "ρ"),
        ([ONE], [GAUSSIAN, ONE], ""),
        ([GAUSSIAN], [TWO], "which has no ε"),
        ([LEAKY], [ONE], "δ"),
        ([ONE], [LEAKY], ""),
        ([], [], ""),
    ],
)
def test_what_of_a_charge_is_above_a_quote(charged, quoted, word):
    excess = within(Cost(charged), Cost(quoted))
    assert bool(excess) == bool(word)
    assert word in excess


def test_guarantees_are_combined_by_a_theorem_or_not_at_all():
    assert combined([ONE, TWO]) == PureGuarantee(3)
    assert combined([ONE, LEAKY]) == ApproximateGuarantee(2, "1e-6")
    assert combined([GAUSSIAN, GAUSSIAN]).rho == 2 * GAUSSIAN.rho
    assert combined([GAUSSIAN, LEAKY]) is None
    assert combined([]).free


def test_the_least_budget_fits_and_a_little_less_does_not():
    budget = least([ONE, TWO])
    assert fits([ONE, TWO], budget)
    assert not fits([ONE, TWO], Budget(Fraction(budget.epsilon) * Fraction("0.999"), "0.01"))
    assert least([PureGuarantee(0)]) is None


@pytest.mark.parametrize("neighbors", list(Neighbors))
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_neighbours_of_a_scene_differ_in_the_rows_of_one_person(neighbors, unit_rows):
    scene = Scene(bench.WORK, neighbors, unit_rows, ())
    pairs = scene.neighbours
    assert {(other, one) for one, other in pairs} == set(pairs)
    for one, other in pairs:
        moved = np.array(one.counts) - np.array(other.counts)
        gone, come = -moved[moved < 0].sum(), moved[moved > 0].sum()
        if neighbors is Neighbors.REPLACE_ONE:
            assert gone == come == unit_rows
        else:
            assert {gone, come} == {0, unit_rows}
        assert one.made().facts == other.made().facts


def test_misses_are_unlikely_only_far_above_what_a_bound_allows():
    assert not _unlikely(8, 150, 0.05)
    assert not _unlikely(20, 150, 0.05)
    assert _unlikely(40, 150, 0.05)
    assert not _unlikely(150, 150, 1.0)


def test_a_print_tells_apart_what_equality_does_not():
    alike = [(1, True), (0.0, -0.0), ((1,), [1]), (np.ones(2), np.ones((2, 1))), (1, 1.0)]
    for one, other in alike:
        assert deep(one) != deep(other)
    assert deep(np.arange(3)) == deep(np.arange(3))
    around: list[object] = []
    around.append(around)
    assert deep(around) == deep(around)


def test_interrupts_that_are_swallowed_are_told_from_those_that_come_out():
    def deaf() -> None:
        for _ in range(3):
            try:
                Count()
            except KeyboardInterrupt:
                continue

    lines = moments(Count)
    assert lines > 0
    assert outcome_of(Count, 1) == ("out", 1)
    assert outcome_of(Count, lines + 1)[0] == "no"
    assert outcome_of(deaf, 1)[0] == "swallowed"
    assert outcome_of(deaf, 1, frozenset())[0] == "no"


def test_what_is_said_meanwhile_is_heard():
    import logging
    import warnings

    told: list[object] = []
    with overheard(told.append):
        sys.stdout.write("seven\n")
        logging.getLogger("acme").debug("eight")
        warnings.warn("nine", stacklevel=1)
    assert told == [("log", "acme", 10, "eight"), ("printed", "seven\n"), ("warned", "nine")]


def test_a_universe_of_one_attribute_has_no_models_to_refuse():
    domain = Domain(Integer("x", 0, 1))
    bench = MechanismBench(Laplace("1/2"), (Count({"x": 1}, normalized=False),), domain)
    found = carried_out(CHECKS["typed-refusals"], bench, {})
    assert found.outcome == "passed", found


def test_an_error_of_the_kit_itself_says_so():
    with pytest.raises(AttributeError) as raised:
        CHECKS["typed-refusals"].work(None, Tally())
    own = "the kit's own dpsdk.testing.conformance.meanings.typed_refusals, line "
    assert origin(raised.value).startswith(own)


@frozen
class Listed(CountingQuery[float]):
    """Lists all labels, however many there are."""

    normalized: bool = False

    def lower(self, domain, /):
        ones = np.array([[1.0 for _ in domain["level"].labels]])
        return LinearForm(domain, [Kronecker.of(domain, {"level": Weights(ones)})])

    def lift(self, raw, facts, /):
        return float(raw[0])


@frozen
class Ratio(LinearQuery[float]):
    """Is not linear in the raw numbers, and says nothing of that."""

    def lower(self, domain, /):
        return Marginal("member", normalized=False).lower(domain)

    def lift(self, raw, facts, /):
        return float(raw[0] / raw.sum())


def test_a_query_that_lists_the_labels_of_a_huge_attribute_is_told_to_ask_for_their_number():
    found = carried_out(QUERY_CHECKS["typed-refusals"], QueryBench(Listed()), {})
    assert found.outcome == "passed", found
    assert "of 2,305,843,009,213,693,953 cells check `size` before you list `labels`" in found.why


def test_one_number_over_one_bit_is_audited_where_no_more_can_be(monkeypatch):
    monkeypatch.setattr(repeating, "_PATHS", 1)
    bench = MechanismBench(Laplace(2))
    found = carried_out(CHECKS["audit"], bench, {})
    assert found.outcome == "passed", found
    assert "of one number over one bit alone; sampled answers did not refute it" in found.why
    monkeypatch.setattr(repeating, "combined", lambda _runs: ONE)
    refuted = carried_out(CHECKS["audit"], bench, {})
    assert refuted.outcome == "failed"
    assert "where 1-DP was charged" in refuted.why


def test_an_audit_that_was_not_run_says_so(monkeypatch):
    monkeypatch.setattr(repeating, "_PATHS", 1)
    monkeypatch.setattr(repeating, "_DRAWS", 0)
    found = carried_out(CHECKS["audit"], MechanismBench(Laplace(2)), {})
    assert found.outcome == "not applicable"
    assert found.why.startswith("privacy audit not run (Marginal('member', normalized=False): more")
    assert found.why.endswith("sampled answers did not refute it")


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ({}, "2 of `numbers`, 2 of `spread`, 2 of `ends`, 1 of the answer, of 2 raw numbers"),
        ({"numbers": lambda _self, raw, _facts: raw[:1]}, "1 of `numbers`, 2 of `spread`"),
    ],
)
def test_lengths_are_held_together_before_anything_else_is_said_of_errors(part, word):
    query = type("Odd", (Ratio,), {"__slots__": (), **part})()
    found = carried_out(QUERY_CHECKS["spreads"], QueryBench(query), {})
    assert found.outcome == "failed"
    assert word in found.why


def test_a_bench_makes_seeds_of_the_mechanism():
    one, other = (MechanismBench(Laplace(e)) for e in (1, 2))
    assert one.seed(1) != other.seed(1) > 10**6


def test_no_interrupt_is_tried_where_a_lock_of_python_is_given_back():
    """There a trace function can raise, and no interrupt: the lock would stay taken for ever."""
    texts = {path: path.read_text("utf-8") for path in Path(interrupts.PACKAGE).rglob("*.py")}
    holding = {path for path, text in texts.items() if re.search(r"with \S*lock:", text)}
    assert {"_locks.py", "forks.py"} <= {path.name for path in holding}
    assert not [path for path in holding if not str(path).endswith(interrupts.LOCKED)]
