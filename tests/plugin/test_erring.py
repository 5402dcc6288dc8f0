"""Every plugin that errs fails the check that is named for it, and its sound twin conforms."""

import gc
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import erring_values
from erring import CATALOGUE, MECHANISMS, QUERIES, TWINS, Mistake, table

from dpsdk import Boolean, Budget, Domain, Integer, PrivateData, Session
from dpsdk.errors import Closed, DpsdkError
from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Marginal
from dpsdk.testing import SeededNoise, check_mechanism, check_query
from dpsdk.testing.conformance import mechanisms, queries

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "erring-plugins.md"

HEAVY = {
    "audit", "bounds-cover", "interrupts", "keeps-no-kernel", "replays",
    "refusal-changes-nothing",
}  # fmt: skip
"""Checks that an sound mechanism passes only after a while."""


def only(monkeypatch, *names):
    """Have the kits carry out a few of their checks."""
    for module, kit in ((mechanisms, "CHECKS"), (queries, "QUERY_CHECKS")):
        kept = tuple(check for check in getattr(module, kit) if check.name in names)
        monkeypatch.setattr(module, kit, kept)


def report(plugin):
    check = check_mechanism if isinstance(plugin, Mechanism) else check_query
    return check(plugin, catalogue=CATALOGUE)


def cases(mistakes):
    """A quick run takes one mistake for each check, and a slow one the rest."""
    found, quick = [], set()
    for mistake in mistakes:
        slow = mistake.slow or mistake.check in quick
        if not slow:
            quick.add(mistake.check)
        marks = [pytest.mark.audit] if slow else []
        found.append(pytest.param(mistake, id=mistake.called, marks=marks))
    return found


@pytest.mark.parametrize("mistake", [*cases(MECHANISMS), *cases(QUERIES)])
def test_a_mistake_fails_the_check_that_is_named_for_it(mistake: Mistake, monkeypatch):
    only(monkeypatch, mistake.check)
    found = report(mistake.make())
    assert found.failed == (mistake.check,), str(found)
    assert not found.conforms


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_the_sound_twin_passes_the_same_checks(twin, monkeypatch):
    kind = type(twin())
    named = {one.check for one in (*MECHANISMS, *QUERIES) if type(one.twin()) is kind}
    only(monkeypatch, *(named - HEAVY))
    found = report(twin())
    assert not found.failed, str(found)


@pytest.mark.audit
# An interrupt may meet a finaliser.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mistake", [*MECHANISMS, *QUERIES], ids=lambda mistake: mistake.called)
def test_a_mistake_does_not_conform(mistake: Mistake, monkeypatch):
    found = report(mistake.make())
    assert mistake.check in found.failed, str(found)
    assert not found.conforms


@pytest.mark.audit
@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_the_sound_twin_conforms(twin):
    found = report(twin())
    assert found.conforms, str(found)


# What a session does with them.

DOMAIN = Domain(Integer("level", 0, 2), Boolean("member"))
ASKED = Marginal("level", normalized=False)
COUNTS = [7, 4, 9]


class Drawn(SeededNoise):
    """Counts the draws."""

    __slots__ = ("draws",)

    def draw(self, law, size):
        self.draws = getattr(self, "draws", 0) + 1
        return super().draw(law, size)


def session(noise=None):
    levels = np.repeat([0, 1, 2], COUNTS)
    data = PrivateData.from_columns({"level": levels, "member": levels > 0}, DOMAIN)
    return Session(data, Budget(epsilon=10**9), noise=noise or Drawn(3))


def charged(asked):
    return [run for receipt in asked.history for run in receipt.cost.guarantees]


def taken(mechanism, asked):
    """What a mechanism answers to three questions; the errors too."""
    found = []
    with asked.open(mechanism) as channel:
        for _ in range(3):
            try:
                found.append(channel.release(ASKED).raw)
            except (DpsdkError, AttributeError, TypeError, ValueError) as error:
                found.append(error)
    return found


@pytest.mark.parametrize(
    "mistake", [one for one in MECHANISMS if one.walls], ids=lambda one: one.called
)
def test_what_a_mistake_reads_was_charged_and_is_in_the_history(mistake: Mistake):
    noise = Drawn(3)
    asked = session(noise)
    taken(mistake.make(), asked)
    gc.collect()  # whoever does something when it is thrown away does it now
    assert getattr(noise, "draws", 0) == len(charged(asked)) == asked.spent.charges


@pytest.mark.parametrize("make", [erring_values.Stashing])
def test_a_kernel_whose_question_is_over_is_closed(make):
    found = taken(make(), session())
    assert isinstance(found[-1], Closed)


# The page that shows them.


@pytest.mark.parametrize("mistakes", [MECHANISMS, QUERIES], ids=["mechanisms", "queries"])
def test_the_page_shows_every_mistake_and_the_check_that_finds_it(mistakes):
    assert table(mistakes) in PAGE.read_text("utf-8"), table(mistakes)


def test_each_check_has_a_mistake():
    without = {"written-form"} - {one.check for one in QUERIES}
    for kit, mistakes in ((mechanisms.CHECKS, MECHANISMS), (queries.QUERY_CHECKS, QUERIES)):
        assert {check.name for check in kit} - without == {mistake.check for mistake in mistakes}
