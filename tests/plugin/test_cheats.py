"""Every plugin that cheats fails the check that is named for it, and its honest twin conforms."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cheats import CATALOGUE, MECHANISMS, QUERIES, Cheat

from dpsdk.mechanisms import Mechanism
from dpsdk.testing import check_mechanism, check_query
from dpsdk.testing.conformance import mechanisms, queries


def only(monkeypatch, *names):
    """Have the kits carry out a few of their checks."""
    for module, kit in ((mechanisms, "CHECKS"), (queries, "QUERY_CHECKS")):
        kept = tuple(check for check in getattr(module, kit) if check.name in names)
        monkeypatch.setattr(module, kit, kept)


def report(plugin):
    if isinstance(plugin, Mechanism):
        return check_mechanism(plugin, catalogue=CATALOGUE)
    return check_query(plugin, catalogue=CATALOGUE)


def cases(cheats):
    return [pytest.param(cheat, id=cheat.called) for cheat in cheats]


@pytest.mark.parametrize("cheat", cases([*MECHANISMS, *QUERIES]))
def test_a_cheat_fails_the_check_that_is_named_for_it(cheat: Cheat, monkeypatch):
    only(monkeypatch, cheat.check)
    found = report(cheat.make())
    assert found.failed == (cheat.check,), str(found)
    assert not found.conforms


@pytest.mark.slow
@pytest.mark.parametrize("cheat", cases([*MECHANISMS, *QUERIES]))
def test_a_cheat_does_not_conform(cheat: Cheat):
    found = report(cheat.make())
    assert cheat.check in found.failed, str(found)
    assert not found.conforms
