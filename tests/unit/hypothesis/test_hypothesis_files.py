import io
import json
import math
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from reference import GRID, one, seen

from dpsdk import Domain, Integer, SyntheticData
from dpsdk.errors import DataError, InvalidArgument, TooLarge
from dpsdk.forms import Range
from dpsdk.hypothesis import (
    DenseHypothesis,
    Distribution,
    Hypothesis,
    Mixture,
    PiecewiseHypothesis,
    Records,
)

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("x", 0, 2**40))
WIDE = Domain(*(Integer(f"a{i}", 0, 2**40) for i in range(4)))


def examples():
    dense = DenseHypothesis.from_weights(GRID, np.random.default_rng(1).random(GRID.size), 0.2)
    logs = dense.copy()
    logs.shift(one(GRID, a=Range(5, 0, 2)), -3000.0)
    bare = DenseHypothesis.uniform(GRID)
    piecewise = PiecewiseHypothesis.uniform(LINE, outside=True)
    piecewise.shift(one(LINE, x=Range(LINE.size, 7, 10**9)), 2.5)
    return {"dense": dense, "logs": logs, "bare": bare, "piecewise": piecewise}


def all_kinds():
    synthetic = SyntheticData(GRID, [[0, 1, 0, 3], [4, 2, 0, 6]], [3, 1], outside_count=7)
    tables = {name: np.ones((2, GRID[name].size)) for name in GRID.names}
    mixture = Mixture(GRID, [1, 2], tables, outside_mass=0.2, rows=10)
    still = {
        "synthetic": synthetic, "mixture": mixture,
        "outside alone": SyntheticData(GRID, [], outside_count=2),
        "records": Records(GRID, [[0, 1, 0, 3], [4, 2, 0, 6]], [3, 1], outside_mass=0.5, least=2),
        "wide": SyntheticData(WIDE, [[1, 2, 3, 2**40]]),
    }  # fmt: skip
    return examples() | still


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


def plain(path):
    """The members of a saved hypothesis, as bytes by name."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(path, members, compression=zipfile.ZIP_STORED):
    """An archive of members in their order; a name may come twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in members:
                archive.writestr(name, content)


def row(described):
    text = described.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 32


FOREIGN_ROWS = {
    "an expression": "{'descr': '<f8', 'fortran_order': False, 'shape': (2+2,), }",
    "a call": "__import__('os').abort()",
    "deep brackets": "(" * 4000,
    "deep signs": "-" * 4000 + "1",
    "a long shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 4000 + ",), }",
    "a shape below zero": "{'descr': '<f8', 'fortran_order': False, 'shape': (-4,), }",
    "two dimensions": "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }",
    "no dimension": "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (4,), }",
    "records": "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }",
    "the other end first": "{'descr': '>f8', 'fortran_order': False, 'shape': (4,), }",
    "Fortran": "{'descr': '<f8', 'fortran_order': True, 'shape': (4,), }",
}


def header_with(text):
    return ('{"format":"dpsdk.hypothesis","version":1,"kind":"dense",' + text + "}").encode()


HEADERS = {
    "deep lists": header_with('"logarithms":' + "[" * 10**6 + "]" * 10**6),
    "deep objects": header_with('"logarithms":' + '{"a":' * 10**5 + "1" + "}" * 10**5),
    "a deep domain": header_with('"domain":' + "[" * 10**5 + "]" * 10**5),
    "long numbers": header_with('"logarithms":' + "9" * 10**6),
    "no number": header_with('"logarithms":NaN'),
    "a key twice": header_with('"logarithms":true,"logarithms":false'),
    "the format twice": header_with('"format":"dpsdk.hypothesis"'),
    "another encoding": header_with('"logarithms":"é"').replace(b"\xc3\xa9", b"\xe9"),
    "half a pair": header_with('"logarithms":"\\ud800"'),
    "a list": b"[1]",
    "nothing": b"",
    "a huge domain": header_with(
        '"logarithms":false,"domain":{"format":"dpsdk.domain","version":1,"attributes":'
        '[{"kind":"integer","name":"x","low":0,"high":' + "9" * 300 + "}]}"
    ),
    "labels without end": header_with('"logarithms":"' + "x" * 2**24 + '"'),
}


MEMBERS = {name: ("outside.npy", row(described)) for name, described in FOREIGN_ROWS.items()} | {
    name: ("header.json", header) for name, header in HEADERS.items()
}


@pytest.mark.parametrize("what", MEMBERS)
def test_a_foreign_member_is_matched_and_never_evaluated(tmp_path, what):
    examples()["dense"].save(tmp_path / "kept")
    packed(tmp_path / "bad", (plain(tmp_path / "kept") | dict([MEMBERS[what]])).items())
    with pytest.raises(DataError, match="the hypothesis file 'bad'"):
        Hypothesis.load(tmp_path / "bad")


def test_a_header_is_never_unpacked(tmp_path):
    examples()["dense"].save(tmp_path / "kept")
    members = plain(tmp_path / "kept")
    members["header.json"] = header_with('"logarithms":[' + "[]," * 2**22 + "[]]")
    packed(tmp_path / "bad", members.items(), zipfile.ZIP_DEFLATED)
    assert (tmp_path / "bad").stat().st_size < 2**16
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="packed"):
            Hypothesis.load(tmp_path / "bad")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_members_are_few_different_and_no_longer_than_the_file(tmp_path):
    examples()["dense"].save(tmp_path / "kept")
    kept, bad = plain(tmp_path / "kept"), tmp_path / "bad"
    for more in (
        [("weights.npy", kept["weights.npy"])],
        [("header.json", kept["header.json"])],
        [(f"{number}.npy", kept["weights.npy"]) for number in range(10**4)],
        [("weights", kept["weights.npy"])],
        [("../" * 5 + "etc/passwd", b"x")],
        [("x" * 10**4, b"x")],
    ):
        packed(bad, [*kept.items(), *more])
        with pytest.raises(DataError) as caught:
            Hypothesis.load(bad)
        assert len(str(caught.value)) < 300
    for leave in kept:
        packed(bad, [(name, content) for name, content in kept.items() if name != leave])
        with pytest.raises(DataError):
            Hypothesis.load(bad)
    # Many entries of the directory may name one part of the file: together they are longer than it.
    packed(bad, kept.items())
    whole = bytearray(bad.read_bytes())
    with zipfile.ZipFile(bad) as archive:
        weights = archive.getinfo("weights.npy").file_size
    for place in range(whole.index(b"PK\x01\x02"), len(whole) - 4):
        if whole[place : place + 4] == weights.to_bytes(4, "little"):
            whole[place : place + 4] = (2**31 - 1).to_bytes(4, "little")
    bad.write_bytes(bytes(whole))
    with pytest.raises(DataError):
        Hypothesis.load(bad)


def test_an_encrypted_member_is_refused(tmp_path):
    examples()["dense"].save(tmp_path / "kept")
    whole = bytearray((tmp_path / "kept").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = whole.index(mark)
        whole[start + place] |= 1
    (tmp_path / "bad").write_bytes(bytes(whole))
    with pytest.raises(DataError, match="encrypted"):
        Hypothesis.load(tmp_path / "bad")


@pytest.mark.parametrize("name", all_kinds())
def test_no_change_of_bytes_gives_an_untyped_error(tmp_path, name):
    all_kinds()[name].save(tmp_path / "kept")
    whole = (tmp_path / "kept").read_bytes()
    rng, path = np.random.default_rng(7), tmp_path / "bad"
    for _ in range(400):
        flipped = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            flipped[place] = rng.integers(0, 256)
        kept = bytes(flipped[: len(whole) if rng.random() < 0.8 else place])
        cut, more = (int(number) for number in rng.integers(0, 9, 2))
        start = int(rng.integers(0, len(kept) + 1))
        if rng.random() < 0.5:  # something is left out, or comes between
            kept = kept[:start] + rng.bytes(more) + kept[start + cut :]
        path.write_bytes(kept)
        try:
            loaded = Distribution.load(path)
        except DataError:
            continue
        assert 0 <= loaded.outside_mass <= 1
        assert 0 <= loaded.answer(one(loaded.domain)) <= 1 + 1e-9
        assert not isinstance(loaded, Hypothesis) or loaded.kl_cap() >= 0


@pytest.mark.parametrize("name", examples())
def test_extreme_numbers_load_as_a_distribution_or_not_at_all(tmp_path, name):
    examples()[name].save(tmp_path / "kept")
    rng, path = np.random.default_rng(8), tmp_path / "bad"
    floats = [0.0, 5e-324, 1.0, 1.7e308, -1.7e308, -0.0, math.inf, -math.inf, math.nan]
    ints = [0, 1, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**63) + 2, -1]
    for _ in range(120):
        header, arrays = parts(tmp_path / "kept")
        for array in arrays.values():
            extremes = floats if array.dtype.kind == "f" else ints
            for place in range(len(array)):
                if rng.random() < 0.4:
                    array[place] = extremes[rng.integers(len(extremes))]
        made(path, header, arrays)
        try:
            loaded = Hypothesis.load(path)
        except DataError:
            continue
        assert 0 <= loaded.outside_mass <= 1
        assert loaded.kl_cap() >= 0
        inside = float(loaded.table(()))
        assert inside + loaded.outside_mass == pytest.approx(1, rel=1e-9)


LEVELS = [0.0, 1e5, -1e5, 1e9, 1e12, 1e17, -1e17, 1.7e308, -1.7e308]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("outside", [False, True])
def test_pieces_on_any_level_load_as_a_distribution(level, outside):
    line = Domain(Integer("x", 0, 9))
    arrays = {
        "starts": np.array([0, 4]),
        "logarithms": np.array([level, level]),
        "outside": np.array([level] if outside else []),
    }
    loaded = PiecewiseHypothesis.from_parts(line, {}, arrays)
    cells = line.size + outside
    assert loaded.table(("x",)) == pytest.approx(np.full(10, 1 / cells), rel=1e-9)
    assert loaded.outside_mass == pytest.approx(outside / cells, rel=1e-9)


@pytest.mark.parametrize(
    ("weights", "outside"), [([1e308] * 6, []), ([0.0] * 5 + [1e308], [1e308])]
)
def test_weights_that_no_float_can_sum_are_refused(weights, outside):
    domain = Domain(Integer("x", 0, 5))
    arrays = {"weights": np.array(weights), "outside": np.array(outside)}
    with pytest.raises(InvalidArgument, match="sum"):
        DenseHypothesis.from_parts(domain, {"logarithms": False}, arrays)


def test_a_domain_too_long_for_a_reader_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("dpsdk.hypothesis.files._HEADER_LIMIT", 200)
    with pytest.raises(TooLarge, match="header"):
        examples()["dense"].save(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
