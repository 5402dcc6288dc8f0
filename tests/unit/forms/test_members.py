"""Whether functions are among those of a form, against all their weights written out."""

import numpy as np
import pytest

from dpsdk import Domain, Integer
from dpsdk.forms import (
    Dense,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Members,
    Prefix,
    Range,
    Ranges,
    Weights,
)
from dpsdk.forms import members as members_module
from worlds import crossed, weights

PLANE = Domain(Integer("x", 0, 3), Integer("y", 0, 2))


def form(*blocks):
    return LinearForm(PLANE, list(blocks))


def block(**factors):
    return Kronecker.of(PLANE, factors)


BLOCKS = {
    "prefixes": block(x=Prefix(4)),
    "cells": block(x=Identity(4)),
    "table": block(x=Identity(4), y=Identity(3)),
    "prefixes of cells": block(x=Prefix(4), y=Identity(3)),
    "pairs": block(x=Groups(4, 2)),
    "ranges": block(x=Ranges(4, [1, 0, 1], [3, 4, 4])),
    "range": block(x=Range(4, 1, 3)),
    "range and cells": block(x=Range(4, 0, 2), y=Identity(3)),
    "everything": block(),
    "nothing": block(x=Range(4, 2, 2)),
    "written out": block(x=Weights([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]])),
    "weights": block(x=Weights([[0.5, 0.5, 0, 0], [2, 2, 0, 0]])),
    "halves": Kronecker(("x",), (Prefix(4),), 0.5),
    "dense": Dense(("x", "y"), (4, 3), np.array([np.eye(12)[3], np.repeat([1.0, 1, 0, 0], 3)])),
}


def by_weights(workload, asked):
    rows = {tuple(row) for row in weights(workload)}
    return [tuple(row) in rows for row in weights(asked)]


@pytest.mark.parametrize(("one", "other"), crossed(BLOCKS, BLOCKS, 3))
def test_functions_are_told_by_what_they_weigh(one, other):
    workload, asked = form(BLOCKS[one]), form(BLOCKS[other])
    assert Members.of(workload).covers(asked).tolist() == by_weights(workload, asked)


@pytest.mark.parametrize(("one", "other"), crossed(BLOCKS, BLOCKS, 3))
def test_blocks_that_are_not_listed_never_have_too_much(one, other, monkeypatch):
    monkeypatch.setattr(members_module, "_LISTED", 0)
    workload, asked = form(BLOCKS[one]), form(BLOCKS[other])
    found, right = Members.of(workload).covers(asked), by_weights(workload, asked)
    assert not (found & ~np.array(right)).any()
    ranges = set(BLOCKS) - {"everything", "nothing", "written out", "weights", "halves", "dense"}
    if {one, other} <= ranges:
        assert found.tolist() == right


def test_very_long_blocks_are_looked_for_as_a_whole(monkeypatch):
    monkeypatch.setattr(members_module, "_ASKED", 3)
    members = Members.of(form(BLOCKS["prefixes"]))
    assert members.covers(form(BLOCKS["prefixes"])).all()
    assert not members.covers(form(BLOCKS["table"])).any()
    assert members.covers(form(block(x=Range(4, 0, 2)))).all()


def test_several_blocks_are_one_set():
    members = Members.of(form(BLOCKS["prefixes"], BLOCKS["range"]))
    asked = form(BLOCKS["range"], BLOCKS["cells"], BLOCKS["everything"])
    assert members.covers(asked).tolist() == [True, True, False, False, False, True]


def test_functions_over_another_universe_are_no_members():
    other = Domain(Integer("x", 0, 3), Integer("y", 0, 1))
    asked = LinearForm(other, [Kronecker.of(other, {"x": Prefix(4)})])
    assert not Members.of(form(BLOCKS["prefixes"])).covers(asked).any()
