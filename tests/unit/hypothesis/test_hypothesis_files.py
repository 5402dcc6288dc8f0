import io
import json
import math
import zipfile

import numpy as np
import pytest
from reference import GRID, one, seen

from dpsdk import Domain, Integer
from dpsdk.errors import DataError
from dpsdk.forms import Range
from dpsdk.hypothesis import DenseHypothesis, Hypothesis, PiecewiseHypothesis

LINE = Domain(Integer("x", 0, 2**40))


def examples():
    dense = DenseHypothesis.from_weights(GRID, np.random.default_rng(1).random(GRID.size), 0.2)
    logs = dense.copy()
    logs.shift(one(GRID, a=Range(5, 0, 2)), -3000.0)
    bare = DenseHypothesis.uniform(GRID)
    piecewise = PiecewiseHypothesis.uniform(LINE, outside=True)
    piecewise.shift(one(LINE, x=Range(LINE.size, 7, 10**9)), 2.5)
    return {"dense": dense, "logs": logs, "bare": bare, "piecewise": piecewise}


@pytest.mark.parametrize("name", examples())
def test_what_was_saved_is_loaded(tmp_path, name):
    hypothesis, path = examples()[name], tmp_path / "kept"
    hypothesis.save(path)
    assert path.exists()
    for kind in (Hypothesis, type(hypothesis)):
        loaded = kind.load(path)
        assert type(loaded) is type(hypothesis)
        assert loaded.domain == hypothesis.domain
        assert loaded.outside == hypothesis.outside
        assert loaded.outside_mass == pytest.approx(hypothesis.outside_mass, rel=1e-14)
        assert loaded.kl_cap() == pytest.approx(hypothesis.kl_cap(), rel=1e-14)
        if name != "piecewise":
            assert seen(loaded) == pytest.approx(seen(hypothesis), rel=1e-14, abs=0)
        else:
            form = one(LINE, x=Range(LINE.size, 5, 10**8))
            assert loaded.answer(form) == pytest.approx(hypothesis.answer(form), rel=1e-14)


def test_a_file_is_of_one_kind(tmp_path):
    examples()["dense"].save(tmp_path / "kept")
    with pytest.raises(DataError, match="PiecewiseHypothesis"):
        PiecewiseHypothesis.load(tmp_path / "kept")


def test_the_format_of_version_one_stays_readable(tmp_path):
    header = {
        "format": "dpsdk.hypothesis",
        "version": 1,
        "kind": "dense",
        "logarithms": False,
        "domain": {
            "format": "dpsdk.domain",
            "version": 1,
            "attributes": [{"kind": "integer", "name": "x", "low": 0, "high": 2}],
        },
    }
    arrays = {"weights": np.array([1.0, 2.0, 1.0]), "outside": np.array([4.0])}
    made(tmp_path / "old", header, arrays)
    loaded = Hypothesis.load(tmp_path / "old")
    assert seen(loaded) == pytest.approx([0.125, 0.25, 0.125, 0.5])


def made(path, header, arrays, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, array in arrays.items():
            if isinstance(array, bytes):
                content = array
            else:
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
                content = buffer.getvalue()
            archive.writestr(f"{name}.npy", content)


def parts(path):
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        arrays = {
            name[:-4]: np.lib.format.read_array(io.BytesIO(archive.read(name)))
            for name in archive.namelist()
            if name != "header.json"
        }
    return header, arrays


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


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_refused_by_a_typed_error(tmp_path, how):
    examples()["dense"].save(tmp_path / "kept")
    header, arrays = parts(tmp_path / "kept")
    DAMAGE[how](header, arrays)
    made(tmp_path / "bad", header, arrays)
    with pytest.raises(DataError, match="the hypothesis file 'bad'"):
        Hypothesis.load(tmp_path / "bad")


def test_damaged_pieces_are_refused(tmp_path):
    examples()["piecewise"].save(tmp_path / "kept")
    for name, values in (
        ("starts", np.array([0, 9, 5])),
        ("starts", np.array([0.0, 1.0, 2.0])),
        ("logarithms", np.array([0.0, math.nan, 0.0])),
        ("logarithms", np.full(3, -math.inf)),
        ("logarithms", np.zeros(2)),
        ("outside", np.zeros(2)),
    ):
        header, arrays = parts(tmp_path / "kept")
        arrays[name] = values
        made(tmp_path / "bad", header, arrays)
        with pytest.raises(DataError):
            Hypothesis.load(tmp_path / "bad")


def test_files_that_are_no_such_archive_are_refused(tmp_path):
    path = tmp_path / "bad"
    examples()["dense"].save(tmp_path / "kept")
    header, arrays = parts(tmp_path / "kept")
    whole = (tmp_path / "kept").read_bytes()
    for content in (b"", b"PK\x03\x04", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError):
            Hypothesis.load(path)
    made(path, header, arrays, zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match="packed"):
        Hypothesis.load(path)
    flipped = bytearray(whole)
    flipped[whole.index(b"NUMPY") + 200] ^= 1
    path.write_bytes(bytes(flipped))
    with pytest.raises(DataError):
        Hypothesis.load(path)
    with pytest.raises(FileNotFoundError):
        Hypothesis.load(tmp_path / "absent")
