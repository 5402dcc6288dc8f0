"""Calibrating: from public tables alone, the same for the same noise, and in the program."""

import gzip
from itertools import count

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.calibration import PublicTable, calibrate
from dpsdk.calibration.questions import questions
from dpsdk.calibration.running import observed
from dpsdk.cli import main
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.hypothesis import SyntheticData
from dpsdk.planner.calibration import Calibration
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 12), Integer("sex", 0, 1), Integer("rich", 0, 1))


def table(seed, rows=200):
    rng = np.random.default_rng(seed)
    return PublicTable(SyntheticData(DOMAIN, rng.integers(0, (13, 2, 2), (rows, 3))), f"t{seed}")


LINE = Domain(Integer("age", 0, 19))


def line(seed, rows=150):
    rng = np.random.default_rng(seed)
    return PublicTable(SyntheticData(LINE, rng.integers(0, 20, (rows, 1))), f"line{seed}")


def made(tables, settings=2):
    seeds, ticks = count(1), count()
    return calibrate(
        tables,
        made="a test",
        settings=settings,
        noise=lambda: seeded(next(seeds)),
        clock=lambda: next(ticks) / 64,
    )


def test_a_small_calibration_from_end_to_end_repeats():
    found = made([line(1), line(2)])
    assert Calibration.from_json(found.to_json()) == found
    assert found.errors["noisy-histogram"].base == "bound"
    for model in found.errors.values():
        assert model.low <= 0 <= model.high
        assert model.runs >= 12
    # Laws of noise are known, so that nothing is measured of them but a ratio, as of a mean.
    assert "gaussian" not in found.errors
    assert [one.error for one in seen(3)] == [one.error for one in seen(3)]


def seen(seed):
    seeds = count(seed)
    return list(observed([line(3)], settings=1, noise=lambda: seeded(next(seeds))))


def test_private_data_and_sessions_are_refused_wherever_they_are_given():
    data = PrivateData.from_counts(np.ones(DOMAIN.shape, dtype=int), DOMAIN)
    session = Session(data, Budget(1))
    for private in (data, session):
        for give in (
            lambda p: PublicTable(p),
            lambda p: PublicTable.from_columns(p, DOMAIN),
            lambda p: PublicTable.from_counts(p, DOMAIN),
            lambda p: calibrate([p], made=""),
            lambda p: calibrate(p, made=""),
            lambda p: list(observed([table(1), p])),
        ):
            with pytest.raises(InvalidArgument) as caught:
                give(private)
            assert caught.value.parameter in {"table", "tables", "counts"}
    assert session.spent == Session(data, Budget(1)).spent


def test_what_only_looks_public_is_refused_too():
    class Sub(SyntheticData):
        pass

    for given in (None, 7, "adult.csv", Sub.from_counts(DOMAIN, np.ones(DOMAIN.shape, dtype=int))):
        with pytest.raises(InvalidArgument):
            PublicTable(given)
    for given in ([], None, "adult.csv", table(1), [7]):
        with pytest.raises(InvalidArgument):
            list(observed(given))


def test_questions_are_the_same_for_a_variant_and_fit_the_table():
    first, second = list(questions(table(1), 5)), list(questions(table(1), 5))
    assert [one.name for one in first] == [one.name for one in second]
    assert [str(one.query) for one in first] == [str(one.query) for one in second]
    for one in first:
        one.query.lower(DOMAIN)


def test_columns_counts_and_files_give_the_same_table(tmp_path):
    rows = [(5, 0, 1), (5, 0, 1), (12, 1, 0)]
    columns = dict(zip(DOMAIN.names, map(list, zip(*rows, strict=True)), strict=True))
    counts = np.zeros(DOMAIN.shape, dtype=int)
    np.add.at(counts, tuple(np.array(rows).T), 1)
    text = "age,other,sex,rich\n" + "".join(f"{a},x,{b},{c}\n" for a, b, c in rows) + "99,x,0,0\n"
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    known = PublicTable.from_counts(counts, DOMAIN, name="t")
    for one in (
        PublicTable.from_columns(columns, DOMAIN, name="t"),
        PublicTable.from_csv(tmp_path / "t.csv", DOMAIN),
        PublicTable.from_csv(str(tmp_path / "t.csv.gz"), DOMAIN),
    ):
        assert one == known
    assert known.projected("sex").records.counts("sex").tolist() == [2, 1]
    for text in ("", "age,sex\n1,1\n", "age,sex,rich\n99,0,0\n"):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(DataError):
            PublicTable.from_csv(tmp_path / "bad.csv", DOMAIN)
    with pytest.raises(DataError, match="No such file"):
        PublicTable.from_csv(tmp_path / "none.csv", DOMAIN)
    (tmp_path / "marked.csv").write_text("\ufeffage,sex,rich\n5,0,1\n5,0,1\n12,1,0\n", "utf-8")
    assert PublicTable.from_csv(tmp_path / "marked.csv", DOMAIN).records == known.records


@pytest.mark.parametrize("cut", [slice(-5), slice(0, 20), slice(3, None)])
def test_a_file_that_was_cut_is_no_table(tmp_path, cut):
    packed = gzip.compress(b"age,sex,rich\n" + b"5,0,1\n12,1,0\n" * 40)
    for content in (packed[cut], packed[:15] + bytes(9) + packed[24:]):
        (tmp_path / "t.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match="not a whole gzip file"):
            PublicTable.from_csv(tmp_path / "t.csv.gz", DOMAIN)


@pytest.mark.parametrize("parameter", ["delimiter", "encoding"])
@pytest.mark.parametrize("value", ["", "xx", "\n", None, 3])
def test_a_file_is_read_as_it_is_said_to_be_written_or_refused(tmp_path, parameter, value):
    (tmp_path / "t.csv").write_text("age,sex,rich\n5,0,1\n")
    with pytest.raises(InvalidArgument, match=f"^{parameter} must be"):
        PublicTable.from_csv(tmp_path / "t.csv", DOMAIN, **{parameter: value})


def test_the_program_writes_a_new_file_that_can_be_read(tmp_path, capsys):
    rng = np.random.default_rng(3)
    domain = Domain(Integer("age", 0, 3))
    domain.save(tmp_path / "d.json")
    lines = [str(age) for age in rng.integers(0, 4, 60).tolist()]
    (tmp_path / "t.csv").write_text("\n".join(["age", *lines]) + "\n")
    out = tmp_path / "c.json"
    given = ["calibrate", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json")]
    given += ["--out", str(out), "--settings", "1"]
    assert main(given, noise=seeded(1)) == 0
    assert "t (60 rows)" in capsys.readouterr().out
    found = Calibration.load(out)
    assert "t (60 rows)" in found.made
    assert main(given, noise=seeded(1)) == 2
    assert "--out must be a new file" in capsys.readouterr().err
    out.unlink()
    assert main([*given, "--domain", str(tmp_path / "d.json")], noise=seeded(1)) == 2
    assert "--domain must be given once" in capsys.readouterr().err
    assert main([*given[:-1], "0"], noise=seeded(1)) == 2
    assert not out.exists()
