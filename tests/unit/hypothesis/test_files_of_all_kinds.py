"""Files of every kind of distribution: kept to the last bit, of one kind, refused if damaged."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
from reference import GRID
from test_hypothesis_files import all_kinds, made, parts

from dpsdk import SyntheticData
from dpsdk.errors import DataError
from dpsdk.hypothesis import DenseHypothesis, Distribution, Hypothesis, Mixture, PiecewiseHypothesis

STILL = ("synthetic", "wide", "outside alone", "mixture")


@pytest.mark.parametrize("name", STILL)
def test_what_does_not_move_is_loaded_and_copied_to_the_last_bit(tmp_path, name):
    still = all_kinds()[name]
    still.save(tmp_path / "kept")
    found = [kind.load(tmp_path / "kept") for kind in (type(still), Distribution)]
    found += [copy.copy(still), copy.deepcopy(still), pickle.loads(pickle.dumps(still))]  # noqa: S301
    for again in found:
        assert type(again) is type(still)
        assert again == still
        assert (hash(again), again.rows) == (hash(still), still.rows)
        array = again.weights if name == "mixture" else again.multiplicities
        assert not array.flags.writeable


@pytest.mark.parametrize("name", ["piecewise", "dense", *STILL])
def test_a_file_is_of_one_kind(tmp_path, name):
    all_kinds()[name].save(tmp_path / "kept")
    kinds = (DenseHypothesis, PiecewiseHypothesis, SyntheticData, Mixture)
    others = {one for one in kinds if not isinstance(all_kinds()[name], one)}
    for kind in others | ({Hypothesis} if name in STILL else set()):
        with pytest.raises(DataError, match=kind.__name__):
            kind.load(tmp_path / "kept")


def claims(length):
    buffer = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue() + b"\0" * 16


DAMAGE = {
    "another format": lambda h, a: h.update(format="dpsdk.domain"),
    "a future version": lambda h, a: h.update(version=2),
    "a true version": lambda h, a: h.update(version=True),
    "an unknown kind": lambda h, a: h.update(kind="os.system"),
    "no kind": lambda h, a: h.pop("kind"),
    "no domain": lambda h, a: h.pop("domain"),
    "a bad domain": lambda h, a: h["domain"].update(attributes=[]),
    "a text for a flag": lambda h, a: h.update(logarithms="no"),
    "a missing array": lambda h, a: a.pop("outside"),
    "an extra array": lambda h, a: a.update(more=np.ones(3)),
    "too few cells": lambda h, a: a.update(weights=np.ones(3)),
    "two outsides": lambda h, a: a.update(outside=np.ones(2)),
    "a negative weight": lambda h, a: a["weights"].__setitem__(0, -1.0),
    "no number": lambda h, a: a["weights"].__setitem__(0, math.nan),
    "an infinite weight": lambda h, a: a["weights"].__setitem__(0, math.inf),
    "zeros only": lambda h, a: a["weights"].fill(0.0),
    "integers": lambda h, a: a.update(weights=np.ones(GRID.size, dtype=np.int64)),
    "floats of 4 bytes": lambda h, a: a.update(weights=np.ones(GRID.size, dtype=np.float32)),
    "a pickle": lambda h, a: a.update(weights=np.array([object()] * 3)),
    "a shape of its own": lambda h, a: a.update(weights=np.ones(GRID.shape)),
    "a length that it has not": lambda h, a: a.update(weights=claims(2**50)),
    "noise": lambda h, a: a.update(weights=b"nothing of the kind"),
}


DAMAGED_RECORDS = {
    "a future version": lambda h, a: h.update(version=2),
    "a flag": lambda h, a: h.update(more=True),
    "a missing array": lambda h, a: a.pop("outside"),
    "an extra array": lambda h, a: a.update(more=np.ones(3)),
    "too few codes": lambda h, a: a.update(codes=a["codes"][1:]),
    "too few counts": lambda h, a: a.update(counts=a["counts"][1:]),
    "two outsides": lambda h, a: a.update(outside=np.ones(2, dtype=np.int64)),
    "less than none outside": lambda h, a: a.update(outside=np.array([-1])),
    "a negative count": lambda h, a: a["counts"].__setitem__(0, -1),
    "a huge count": lambda h, a: a["counts"].fill(2**62),
    "a code below zero": lambda h, a: a["codes"].__setitem__(0, -1),
    "a code too large": lambda h, a: a["codes"].__setitem__(0, 99),
    "nothing": lambda h, a: [a["counts"].fill(0), a["outside"].fill(0)],
    "floats": lambda h, a: a.update(counts=a["counts"].astype(float)),
    "float codes": lambda h, a: a.update(codes=a["codes"].astype(float)),
    "an empty float": lambda h, a: a.update(outside=np.zeros(0)),
}


DAMAGED_MIXTURES = {
    "a flag": lambda h, a: h.update(logarithms=True),
    "a missing array": lambda h, a: a.pop("rows"),
    "an extra array": lambda h, a: a.update(more=np.ones(3)),
    "no component": lambda h, a: a.update(weights=np.ones(0), tables=np.ones(0)),
    "too few shares": lambda h, a: a.update(tables=a["tables"][1:]),
    "integers": lambda h, a: a.update(weights=np.array([1, 0, 0])),
    "a negative weight": lambda h, a: a.update(weights=np.array([2.0, -0.5, -0.5])),
    "weights of another sum": lambda h, a: a.update(weights=a["weights"] * 1.01),
    "shares of another sum": lambda h, a: a["tables"].__setitem__(4, a["tables"][4] + 0.01),
    "no number": lambda h, a: a["tables"].__setitem__(4, math.nan),
    "two masses": lambda h, a: a.update(outside=np.array([0.1, 0.1])),
    "all outside": lambda h, a: a.update(outside=np.array([1.0])),
    "no rows": lambda h, a: a.update(rows=np.array([0.0])),
    "endless rows": lambda h, a: a.update(rows=np.array([math.inf])),
}


DAMAGED = [
    (name, damage)
    for name, damages in (
        ("dense", DAMAGE), ("synthetic", DAMAGED_RECORDS), ("mixture", DAMAGED_MIXTURES),
    )
    for damage in damages.items()
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage"), DAMAGED, ids=lambda one: str(one)[:30])
def test_a_damaged_file_is_refused_by_a_typed_error(tmp_path, name, damage):
    all_kinds()[name].save(tmp_path / "kept")
    header, arrays = parts(tmp_path / "kept")
    damage[1](header, arrays)
    made(tmp_path / "bad", header, arrays)
    with pytest.raises(DataError, match="the hypothesis file 'bad'"):
        Distribution.load(tmp_path / "bad")
