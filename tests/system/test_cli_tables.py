"""What tables the command line releases, for which error, how it writes them, and dry runs."""

import csv
import io
import json
import math
import re
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsdk import Binned, Boolean, Budget, Categorical, Date, Domain, Integer, Session
from dpsdk.__main__ import main
from dpsdk.accounting import Odometer, SQLiteLedger
from dpsdk.cli.tables import header_of, step_of, write_csv
from dpsdk.data import PrivateData
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.publication import guarded
from dpsdk.queries import Marginal, MarginalTable, Workload
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

ROWS = 300
DOMAIN = Domain(
    Integer("age", 0, 9),
    Categorical("a,b", ["=1+1", "large"]),
    Boolean("member"),
    Binned("weight", [0, 1, 2.5]),
)
DESCRIBED = ["csv-metadata.json", "datapackage.json", "metadata.json"]


@pytest.fixture
def folder(quick_disk):
    rows = [
        [row % 10, ["=1+1", "large"][row % 2], row % 3 == 0, row % 7 / 3] for row in range(ROWS)
    ]
    with (quick_disk / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([DOMAIN.names, *rows])
    DOMAIN.save(quick_disk / "domain.json")
    return quick_disk


def release(folder, *options, table="table.csv", private=False):
    given = ["--domain", str(folder / "domain.json"), "--out", str(folder / "out")]
    noise = None if private else seeded(7)
    return main(["release", str(folder / table), *given, *options], noise=noise)


def summary(folder):
    return json.loads((folder / "out" / "release.json").read_text(encoding="utf-8"))


def lines(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def everything(folder):
    paths = sorted(folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize(
    ("options", "tables"),
    [
        (["--attributes", "age", "member", "a,b"],
         [["age", "member"], ["age", "a,b"], ["member", "a,b"]]),
        (["--attributes", "member", "age", "--marginals", "1"], [["member"], ["age"]]),
        (["--attributes", "age"], [["age"]]),
        (["--tables", "weight,age", "member", '"a,b",age,member'],
         [["weight", "age"], ["member"], ["a,b", "age", "member"]]),
    ],
)  # fmt: skip
def test_the_tables_that_were_asked_for_are_released(folder, options, tables):
    assert release(folder, "--epsilon", "1", *options) == 0
    written = summary(folder)["tables"]
    assert [table["attributes"] for table in written] == tables
    assert [table["shape"] for table in written] == [
        [DOMAIN[name].size for name in names] for names in tables
    ]
    files = [table["file"] for table in written]
    others = [*DESCRIBED, "release.json", "report.txt"]
    assert {path.name for path in (folder / "out").iterdir()} == {*files, *others}
    # Fewer tables are nearer to the truth for the same price.
    bound = summary(folder)["error"]["bound"]
    assert release(folder, "--epsilon", "1", "--force") == 0
    assert summary(folder)["error"]["bound"] > bound or len(tables) == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--attributes", "size"], "no attribute 'size'"),
        (["--attributes", "age", "age"], "--attributes must be of attributes named once"),
        (["--attributes", "age", "--marginals", "2"], "--marginals must be from 1 to 1"),
        (["--tables", "age,size"], "no attribute 'size'"),
        (["--tables", "age,age"], "--tables must be of attributes named once"),
        (["--tables", "age,member", "member,age"], "--tables must be different tables"),
        (["--tables", "age,"], "no attribute ''"),
        (["--tables", ""], "--tables must be names of attributes between commas"),
        (["--tables", '"age'], "--tables must be names between commas, in quotes that close"),
        (["--tables", "age\nmember"], "--tables must be names of attributes between commas"),
        (["--tables", "age", "--marginals", "1"], "--marginals must be left out with --tables"),
        (["--tables", "age", "--attributes", "age"], "--attributes must be left out with --tables"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_tables_that_make_no_sense_are_refused(folder, capsys, options, words, dry):
    before = everything(folder)
    assert release(folder, "--epsilon", "1", *options, *["--dry-run"] * dry) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err
    assert everything(folder) == before


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("digits", ["noise", "full"])
def test_an_error_costs_no_more_than_it_must(folder, capsys, delta, digits):
    given = ["--delta", delta, "--attributes", "age", "member", "--digits", digits]
    assert release(folder, "--error", "0.05", *given) == 0
    written = summary(folder)
    bound = written["error"]["bound"]
    stated = max(table["written"]["error"] for table in written["tables"])
    assert bound <= stated <= 0.05
    assert (bound == stated) == (digits == "full")
    assert written["error"]["wanted"]["exact"] == "1/20"
    epsilon = Fraction(written["budget"]["epsilon"]["exact"])
    assert "the least budget, to six digits, for an error of 0.05" in capsys.readouterr().out
    # A little less would not do: neither for the error nor, with a delta, for the noise.
    session = Session(PrivateData.from_csv(folder / "table.csv", DOMAIN), Budget(9, delta))
    workload = Workload([Marginal("age", "member")])
    less = Fraction(99998, 100000)
    (price,) = [Fraction(one["exact"]) for one in written["cost"].values() if type(one) is dict]
    using = (Gaussian(rho=price), Gaussian(rho=price * less))
    if delta == "0":
        assert price == epsilon
        using = (Laplace(epsilon=price), Laplace(epsilon=price * less))
    row = Fraction(1, ROWS)
    errors = [session.quote(workload, using=one).error() for one in using]
    found = [step_of(error, digits, row).stated for error in errors]
    assert found[0] == stated
    assert found[1] > 0.05
    runs = session.quote(workload, using=using[0]).at_most.runs
    assert Odometer(Budget(epsilon, delta)).affords_all(runs) == 1
    assert Odometer(Budget(epsilon * less, delta)).affords_all(runs) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--error", "0"], "--error must be above 0 and below 1"),
        (["--error", "1"], "--error must be above 0 and below 1"),
        (["--error", "much"], "--error must be a decimal number"),
        (["--error", "-5", "--counts"], "--error must be above 0"),
        (["--error", "300", "--counts"], "--error must be below 300"),
        (["--error", "0.1", "--delta", "2"], "--delta must be"),
        (["--error", "0.1", "--delta", "1e-6", "--method", "local"], "--error must be left out"),
        (["--error", "0.1", "--cap", "1"], "--cap must be given with --ledger"),
        (["--error", "0.1", "--ledger", "l.db", "--name", "n"], "--cap must be given with --error"),
        (["--error", "0.001", "--ledger", "l.db", "--name", "n", "--cap", "1"],
         "--error must be one within --cap, 1-DP"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dry", [False, True])
def test_an_error_that_nothing_gives_is_refused(folder, capsys, monkeypatch, options, words, dry):
    monkeypatch.chdir(folder)
    before = everything(folder)
    more = ["--dry-run", "--rows", str(ROWS)] * dry
    assert release(folder, *options, *more) == 2
    assert words in capsys.readouterr().err
    assert everything(folder) == before


def test_an_error_is_paid_from_what_the_ledger_has(folder, capsys):
    given = ["--ledger", str(folder / "l.db"), "--cap", "20", "--name", "n", "--error", "30"]
    given += ["--counts", "--tables", "age"]
    assert release(folder, *given, private=True) == 0
    written = summary(folder)
    (charge,) = SQLiteLedger(folder / "l.db").dataset("n").charges()
    price = Fraction(written["cost"]["epsilon"]["exact"])
    assert charge.guarantee.epsilon == price < 1
    assert written["budget"]["epsilon"]["exact"] == "20"
    # Twelve of twenty fit once.
    costly = [*given, "--force", "--error", "0.5", "--epsilon", "15"]
    capsys.readouterr()
    assert release(folder, *costly, private=True) == 0
    assert release(folder, *costly, private=True) == 2
    assert "of 20-DP is left" in capsys.readouterr().err


def test_an_error_takes_no_more_than_is_allowed(folder, capsys):
    before = everything(folder)
    assert release(folder) == 2
    assert "--epsilon must be given, or --error in its place" in capsys.readouterr().err
    for delta in ("0", "1e-6"):
        assert release(folder, "--error", "0.004", "--delta", delta) == 2
        words = "within an epsilon of 10, unless --epsilon allows more; got 0.004, which takes "
        assert words in capsys.readouterr().err
        assert release(folder, "--error", "0.1", "--epsilon", "0.5", "--delta", delta) == 2
        assert "within an epsilon of 0.5; got 0.1, which takes" in capsys.readouterr().err
    given = ["--ledger", str(folder / "l.db"), "--name", "n", "--cap", "1", "--error", "0.1"]
    assert release(folder, *given, "--epsilon", "2") == 2
    assert "--epsilon must be at most --cap" in capsys.readouterr().err
    assert everything(folder) == before
    assert release(folder, "--error", "0.004", "--epsilon", "100") == 0
    assert 10 < summary(folder)["budget"]["epsilon"]["value"] < 100


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "1"],
        ["--epsilon", "1", "--delta", "1e-6", "--marginals", "3"],
        ["--epsilon", "1", "--counts", "--tables", "age,member"],
        ["--error", "0.05", "--delta", "1e-6", "--format", "parquet", "--digits", "full"],
        ["--error", "40", "--counts", "--neighbors", "add-remove", "--max-rows", "1000"],
    ],
)
def test_a_dry_run_says_what_the_run_then_does(folder, capsys, options):
    hidden = "add-remove" in options
    known = [] if hidden else ["--rows", str(ROWS)]
    # Rows that nothing could be read from do not matter.
    text = (folder / "table.csv").read_bytes()
    (folder / "table.csv").write_bytes(text[: text.index(b"\n") + 1] + b"\xff\x00,1,1\n")
    before = everything(folder)
    assert release(folder, *options, "--dry-run", *known) == 0
    assert everything(folder) == before
    said = capsys.readouterr().out
    assert said.startswith("Dry run: no row was read, nothing was charged, and nothing is written.")
    (folder / "table.csv").write_bytes(text)
    assert release(folder, *options) == 0
    report = capsys.readouterr().out
    files = {path.name for path in (folder / "out").iterdir()}
    listed = said[said.index(":\n") : said.index("With prob")].replace(",", " ").split()[1:]
    assert set(listed) == files
    bound = next(line for line in report.splitlines() if line.startswith("With probability"))
    assert bound.replace(" is ", " would be ") in said
    cost = next(line for line in report.splitlines() if line.startswith("cost: "))
    assert cost in said
    for line in report.splitlines():
        if "least budget" in line or "As they are written" in line:
            assert line.replace("none is", "none would be") in said


def test_a_dry_run_tells_shares_of_rows_that_nobody_counted_as_counts(folder, capsys):
    assert release(folder, "--epsilon", "1", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "rows.\n" in said
    assert "As a share, that is over the number of rows, which --rows tells." in said
    # Shares are written on a grid of their own.
    assert "As they are written" not in said
    assert release(folder, "--error", "0.1", "--dry-run") == 2
    assert "--rows must be given with --error and --dry-run" in capsys.readouterr().err
    given = ["--epsilon", "1", "--dry-run", "--neighbors", "add-remove", "--counts", "--rows", "9"]
    assert release(folder, *given) == 2
    assert "--rows must be left out where it is private" in capsys.readouterr().err
    assert release(folder, "--epsilon", "1", "--rows", "9") == 2
    assert "--rows must be given with --dry-run" in capsys.readouterr().err
    assert release(folder, "--epsilon", "1", "--dry-run", "--rows", "9", "--max-rows", "8") == 2
    assert "--rows must be at most --max-rows, 8" in capsys.readouterr().err


def test_a_dry_run_finds_out_what_is_wrong(folder, capsys):
    (folder / "table.csv").write_text("age,member\n1,true\n")
    assert release(folder, "--epsilon", "1", "--dry-run") == 2
    assert "no column" in capsys.readouterr().err
    Domain(Integer("age", 0, 9)).save(folder / "domain.json")
    given = ["--epsilon", "1", "--dry-run", "--counts", "--max-rows-per-person", "2", "--unit"]
    assert release(folder, *given, "who") == 2
    assert "no column 'who' in the first line" in capsys.readouterr().err
    assert release(folder, *given, "member") == 0
    (folder / "table.csv").unlink()
    assert release(folder, "--epsilon", "1", "--dry-run") == 2
    assert "No such file" in capsys.readouterr().err


def test_a_dry_run_leaves_a_ledger_as_it_is(folder, capsys):
    given = ["--ledger", str(folder / "l.db"), "--name", "n", "--cap", "1", "--epsilon", "0.6"]
    dry = [*given, "--dry-run", "--rows", str(ROWS)]
    assert release(folder, *dry) == 0
    assert "l.db would be made, with 1-DP for the table 'n'." in capsys.readouterr().out
    assert not (folder / "l.db").exists()
    assert release(folder, *given, private=True) == 0
    capsys.readouterr()
    ledger = SQLiteLedger(folder / "l.db")
    books = ledger.dataset("n").read()
    assert release(folder, *dry, "--force", "--epsilon", "0.4") == 0
    assert "60% of 1-DP is spent of the table 'n'" in capsys.readouterr().out
    # What would be refused is refused.
    assert release(folder, *dry, "--force") == 2
    assert "40% of 1-DP is left" in capsys.readouterr().err
    assert release(folder, *dry, "--force", "--cap", "2") == 2
    assert "bound to the budget" in capsys.readouterr().err
    assert ledger.dataset("n").read() == books
    assert release(folder, *dry, "--force", "--name", "other") == 0
    assert ledger.datasets == ("n",)


def test_fitted_tables_have_a_price_beforehand_and_no_error(folder, capsys):
    given = ["--epsilon", "1", "--delta", "1e-6", "--method", "local", "--rows", "300"]
    assert release(folder, *given, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "How far off entries are is known once the tables are made." in said
    assert "by LocalMarginals(" in said


@pytest.mark.parametrize("counts", [False, True])
def test_numbers_are_written_to_what_the_noise_leaves(folder, counts):
    given = ["--epsilon", "0.5", "--delta", "1e-6", *["--counts"] * counts]
    assert release(folder, *given) == 0
    for table in summary(folder)["tables"]:
        _, *rows = lines(folder / "out" / table["file"])
        values = [Fraction(row[-2]) for row in rows]
        bound, step = summary(folder)["error"]["bound"], Fraction(str(table["written"]["step"]))
        assert bound / 100 < step <= Fraction(bound) / 10
        assert all(value % step == 0 for value in values)
        exact = [Fraction(value) for value in table["values"]]
        moved = [abs(one - other) for one, other in zip(values, exact, strict=True)]
        assert max(moved) <= step / 2
        assert counts or max(moved) > 0
        (stated,) = {Fraction(row[-1]) for row in rows}
        # Whole counts stay what they are where the step is no more than one row.
        assert stated == Fraction(bound) if counts and step <= 1 else stated > Fraction(bound)
        assert stated < Fraction(1.06) * Fraction(bound)
        assert stated == Fraction(str(table["written"]["error"]))
    report = (folder / "out" / "report.txt").read_text()
    assert f"As they are written, rounded to {float(step):g}, none is off" in report
    assert release(folder, *given, "--digits", "full", "--force") == 0
    for table in summary(folder)["tables"]:
        _, *rows = lines(folder / "out" / table["file"])
        assert [float(row[-2]) for row in rows] == table["values"]
        assert {float(row[-1]) for row in rows} == {summary(folder)["error"]["bound"]}
    assert "rounded" not in (folder / "out" / "report.txt").read_text()


@pytest.mark.parametrize(
    ("options", "whole"),
    [
        (["--counts", "--error", "20"], True),
        (["--counts", "--error", "200", "--neighbors", "add-remove"], True),
        (["--counts", "--error", "20", "--delta", "1e-6", "--format", "parquet"], False),
        (["--counts", "--error", "20", "--digits", "full"], False),
        (["--counts", "--error", "8"], False),
        (["--epsilon", "1"], False),
        (["--counts", "--epsilon", "1e-15"], False),
    ],
)
def test_numbers_of_a_row_are_written_alike(folder, options, whole):
    """A whole count has a whole error beside it, and what has a point stands by its like."""
    assert release(folder, *options, "--tables", "age") == 0
    (table,) = summary(folder)["tables"]
    path = folder / "out" / table["file"]
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        assert {str(pq.read_schema(path).field(name).type) for name in ("value", "error")} == {
            "double"
        }
    else:
        numbers = [number for line in lines(path)[1:] for number in line[-2:]]
        assert {number.lstrip("-").isdecimal() for number in numbers} == {whole}
    package = json.loads((folder / "out" / "datapackage.json").read_text())
    kinds = [one["type"] for one in package["resources"][0]["schema"]["fields"]]
    assert kinds == ["integer", "number", "number"]


@pytest.mark.parametrize("digits", ["noise", "full"])
@pytest.mark.parametrize("error", [0.31, 25.0, 1e-13])
def test_a_table_is_written_as_a_writer_of_csv_writes_it(tmp_path, digits, error):
    numbers = np.random.default_rng(3).normal(size=(2, 10, 2)) * 9
    numbers.flat[:5] = 0.0, -0.0, math.nan, 2.0**60, -1e-9
    table = MarginalTable((DOMAIN["a,b"], DOMAIN["age"], DOMAIN["weight"]), numbers)
    step = step_of(error, digits)
    write_csv(tmp_path / "table.csv", table, step)
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(header_of(table, guards=True))
    for (first, *rest), value in zip(table.to_dict(), table.values.flat, strict=True):
        labels = [guarded(first), str(rest[0]), DOMAIN["weight"].text(int(rest[1][0] > 0))]
        writer.writerow([*labels, step.written(float(value)), step.written_error])
    assert (tmp_path / "table.csv").read_bytes() == written.getvalue().encode()


def test_tables_of_parquet_have_labels_and_say_what_they_are(folder):
    import pyarrow.parquet as pq

    given = ["--error", "0.05", "--format", "parquet", "--marginals", "3"]
    assert release(folder, *given) == 0
    for table in summary(folder)["tables"]:
        assert table["file"].endswith(".parquet")
        read = pq.read_table(folder / "out" / table["file"])
        assert read.column_names == [*table["attributes"], "value", "error"]
        cells = list(np.ndindex(*table["shape"]))
        for axis, name in enumerate(table["attributes"]):
            attribute = DOMAIN[name]
            plain = isinstance(attribute, Boolean | Integer)
            labels = [
                attribute.labels[cell[axis]] if plain else attribute.text(cell[axis])
                for cell in cells
            ]
            assert read[name].to_pylist() == labels
        step = table["written"]["step"]
        assert np.abs(np.array(read["value"]) - table["values"]).max() <= step / 2 * 1.0001
        assert set(read["error"].to_pylist()) == {table["written"]["error"]}
        about = json.loads(read.schema.metadata[b"dpsdk"])
        assert about["mechanism"].startswith("Laplace(epsilon=")
        assert about["cost"] == summary(folder)["cost"]["text"]
        assert (about["private"], about["beta"]) == (False, 0.05)
        assert about["unit"] == "share of the rows"
    assert not (folder / "out" / "csv-metadata.json").exists()
    package = json.loads((folder / "out" / "datapackage.json").read_text())
    assert [one["format"] for one in package["resources"]] == ["parquet"] * 4


def test_labels_in_parquet_are_of_the_kinds_that_their_description_has(folder):
    import pyarrow.parquet as pq

    domain = Domain(
        Date("day", date(2024, 1, 30), date(2024, 2, 1)),
        Categorical("code", [7, 3]),
        Integer("beyond", 2**70, 2**70),
    )
    domain.save(folder / "domain.json")
    (folder / "table.csv").write_text("day,code,beyond\n" + f"2024-01-31,7,{2**70}\n" * 90)
    assert release(folder, "--epsilon", "9", "--format", "parquet", "--marginals", "3") == 0
    (table,) = summary(folder)["tables"]
    read = pq.read_table(folder / "out" / table["file"])
    days = [date(2024, 1, 30), date(2024, 1, 31), date(2024, 2, 1)]
    assert read["day"].to_pylist() == [day for day in days for _ in range(2)]
    assert read["code"].to_pylist() == [7, 3] * 3
    assert read["beyond"].to_pylist() == [str(2**70)] * 6
    package = json.loads((folder / "out" / "datapackage.json").read_text())
    fields = package["resources"][0]["schema"]["fields"]
    assert [one["type"] for one in fields] == ["date", "integer", "string", "number", "number"]


def test_parquet_without_pyarrow_is_refused_before_anything_is_paid(folder, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    before = everything(folder)
    assert release(folder, "--epsilon", "1", "--format", "parquet") == 2
    assert "pyarrow is not installed" in capsys.readouterr().err
    assert everything(folder) == before


def test_tables_of_parquet_are_read(folder, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {
        "age": pa.array([row % 10 for row in range(ROWS)]),
        "a,b": pa.array([["=1+1", "large"][row % 2] for row in range(ROWS)]),
        "member": pa.array([row % 3 == 0 for row in range(ROWS)]),
        "weight": pa.array([row % 7 / 3 for row in range(ROWS)]),
    }
    (folder / "parts").mkdir()
    pq.write_table(pa.table(rows), folder / "table.parquet")
    pq.write_table(pa.table(rows), folder / "parts" / "one.parquet")
    assert release(folder, "--epsilon", "5", "--counts") == 0
    expected = summary(folder)["tables"]
    for table in ("table.parquet", "parts", "parts/*.parquet"):
        assert release(folder, "--epsilon", "5", "--counts", "--force", table=table) == 0
        assert summary(folder)["tables"] == expected
        assert summary(folder)["data"]["name"] == Path(table).name
        dry = ["--epsilon", "5", "--counts", "--force", "--dry-run"]
        assert release(folder, *dry, table=table) == 0
    capsys.readouterr()
    for option, value in (("--encoding", "utf-8"), ("--delimiter", ";")):
        given = ["--epsilon", "5", option, value, "--force"]
        assert release(folder, *given, table="table.parquet") == 2
        assert f"{option} must be left out for Parquet files" in capsys.readouterr().err
    assert release(folder, "--epsilon", "5", "--force", "--dry-run", table="no.parquet") == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--digits", "full"], ["--counts", "--tables", "a,b"]])
def test_descriptions_lie_beside_the_tables_and_fit_them(folder, options):
    options = [one if one != "a,b" else '"a,b"' for one in options]
    assert release(folder, "--epsilon", "1", "--name", "people", *options) == 0
    out, written = folder / "out", summary(folder)
    package = json.loads((out / "datapackage.json").read_text("utf-8"))
    assert [one["path"] for one in package["resources"]] == [
        table["file"] for table in written["tables"]
    ]
    csvw = json.loads((out / "csv-metadata.json").read_text("utf-8"))
    groups = csvw.get("tables", [csvw])
    for resource, group, table in zip(package["resources"], groups, written["tables"], strict=True):
        header, *_ = lines(out / table["file"])
        assert [field["name"] for field in resource["schema"]["fields"]] == header
        assert [column["titles"] for column in group["tableSchema"]["columns"]] == header
        assert group["url"] == table["file"]
    rounded = "Values are rounded" in json.dumps(csvw)
    assert rounded == ("Values are rounded" in package["description"]) == ("full" not in options)
    assert package["privacy"]["private"] is False
    record = json.loads((out / "metadata.json").read_text("utf-8"))
    assert "Laplace" in json.dumps(record)
    afterwards = record["deployment"]["accounting"]["post_processing"]
    assert ("Values are rounded" in afterwards) == rounded
    assert set(written["left_out"]) == set(DESCRIBED)
    assert "Fields left for you to fill in" in (out / "report.txt").read_text()


def test_columns_are_called_differently_whatever_attributes_are_called(folder):
    names = ["value", "value of the table"]
    Domain(*(Boolean(name) for name in names)).save(folder / "domain.json")
    (folder / "table.csv").write_text(",".join(names) + "\n" + "true,false\n" * 50)
    assert release(folder, "--epsilon", "1") == 0
    (table,) = summary(folder)["tables"]
    header, *_ = lines(folder / "out" / table["file"])
    twice = " of the table of the table"
    assert header == [*names, f"value{twice}", f"error{twice}"]


@pytest.mark.parametrize("table", ["none.parquet", "no*.PARQUET", "empty"])
def test_a_dry_run_knows_whether_there_are_files_of_parquet(folder, capsys, table):
    (folder / "empty").mkdir()
    for dry in ([], ["--dry-run", "--rows", "9"]):
        assert release(folder, "--epsilon", "1", *dry, table=table) == 2
        assert "no such file, and no Parquet files there" in capsys.readouterr().err


def test_a_dry_run_knows_what_reads_parquet_and_how_a_ledger_is_made(folder, capsys, monkeypatch):
    (folder / "rows.parquet").touch()
    dry = ["--epsilon", "1", "--dry-run", "--rows", "9"]
    assert release(folder, *dry, table="rows.parquet") == 0
    for options in (
        ["--ledger", str(folder / "nowhere" / "l.db")],
        ["--ledger", str(folder / "l.db"), "--key", str(folder / "nowhere")],
    ):
        assert release(folder, *dry, "--name", "n", *options) == 2
        assert "nowhere: No such file" in capsys.readouterr().err
    options = ["--ledger", str(folder / "l.db"), "--schema", "s"]
    assert release(folder, *dry, "--name", "n", *options) == 2
    assert "--schema must be given with the address" in capsys.readouterr().err
    monkeypatch.setattr("dpsdk.cli.dryrun.find_spec", lambda _: None)
    assert release(folder, *dry, table="rows.parquet") == 2
    assert "install dpsdk[frames]" in capsys.readouterr().err


def test_no_claim_is_rounded_in_its_own_favour(folder, capsys):
    options = ["--epsilon", "0.333333333333", "--counts", "--tables", "age"]
    assert release(folder, *options, "--beta", "1e-12", private=True) == 0
    report = capsys.readouterr().out
    assert "With probability 0.9999999, no entry" in report
    assert "The whole of 0.33334-DP is spent." in report
    package = json.loads((folder / "out" / "datapackage.json").read_text())
    assert "keep 0.33334-DP together" in package["description"]
    assert package["privacy"]["budget"]["epsilon"] == "0.33334"
    for column in package["resources"][0]["schema"]["fields"]:
        assert "100%" not in column["description"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_booleans_are_described_as_they_are_written(folder, kind):
    assert release(folder, "--epsilon", "1", "--tables", "member", "--format", kind) == 0
    package = json.loads((folder / "out" / "datapackage.json").read_text())
    (label, *_) = package["resources"][0]["schema"]["fields"]
    assert label["type"] == "boolean"
    assert (label["trueValues"], label["falseValues"]) == (["True"], ["False"])
    assert "enum" not in label.get("constraints", {})
    if kind == "csv":
        assert [line[0] for line in lines(folder / "out" / "1_member.csv")][1:] == ["False", "True"]
        web = json.loads((folder / "out" / "csv-metadata.json").read_text())
        column = web["tableSchema"]["columns"][0]
        assert column["datatype"] == {"base": "boolean", "format": "True|False"}


def told(folder, capsys):
    """All that a release tells, but for its values and the digest of them."""
    out, written = folder / "out", summary(folder)
    for table in written["tables"]:
        del table["values"]
    tables = [[line[:-2] + line[-1:] for line in lines(path)] for path in out.glob("*.csv")]
    others = {path: path.read_text() for path in out.iterdir() if path.suffix == ".txt"}
    for path in map(out.joinpath, DESCRIBED):
        text = path.read_text()
        for digest in set(re.findall(r"[0-9a-f]{64}", text)):
            text = text.replace(digest, "a digest")
        others[path] = text
    return [written, tables, others, capsys.readouterr()]


@pytest.mark.parametrize(
    "options",
    [
        ["--epsilon", "1", "--neighbors", "add-remove"],
        ["--error", "40", "--delta", "1e-6", "--neighbors", "add-remove"],
        ["--error", "40", "--unit", "age", "--max-rows-per-person", "2"],
    ],
)
def test_nothing_beside_the_values_tells_of_rows(folder, capsys, options):
    names, *rows = (folder / "table.csv").read_text().splitlines()
    worlds = []
    for kept in (rows, rows[1:], [], [*rows, '99,"=1+1",maybe,x'], rows * 9):
        (folder / "table.csv").write_text("\n".join([names, *kept]) + "\n")
        assert release(folder, *options, "--counts", "--tables", "age,member", "--force") == 0
        worlds.append(told(folder, capsys))
    assert all(world == worlds[0] for world in worlds)


def test_a_table_without_a_header_is_released(folder, capsys):
    assert release(folder, "--epsilon", "5", "--counts") == 0
    expected = summary(folder)["tables"]
    rows = (folder / "table.csv").read_text().partition("\n")[2]
    (folder / "rows.csv").write_text(rows)
    wide = "".join(f"x,{line}\n" for line in rows.splitlines())
    (folder / "wide.csv").write_text(wide)
    given = ["--epsilon", "5", "--counts", "--force", "--name", "table.csv", "--no-header"]
    for more in (["--dry-run"], []):
        assert release(folder, *given, *more, table="rows.csv") == 0
        named = ["--columns", 'x,age,"a,b",member,weight']
        assert release(folder, *given, *named, *more, table="wide.csv") == 0
    assert summary(folder)["tables"] == expected
    capsys.readouterr()
    assert release(folder, *given, "--columns", "age", "--dry-run", table="rows.csv") == 2
    assert "no column 'a,b' in --columns" in capsys.readouterr().err
    assert release(folder, "--epsilon", "5", "--columns", "age") == 2
    assert "--columns must be given with --no-header" in capsys.readouterr().err


@pytest.mark.parametrize("stripped", [True, False])
def test_a_report_says_that_most_rows_are_missing(folder, capsys, stripped):
    text = (folder / "table.csv").read_text()
    (folder / "table.csv").write_text(text.replace("True", " True "))
    options = ["--epsilon", "50", "--marginals", "1", *(["--strip"] if stripped else [])]
    assert release(folder, *options) == 0
    report = capsys.readouterr().out
    # Bins of a table, and not of a mean, hide nothing; a third of the rows has a space.
    known = "note: only rows with declared values of all 4 attributes count; --outside apart keeps"
    assert known in report
    assert ("note: what counts adds up to 0.6" in report) is not stripped
    assert len(summary(folder)["notes"]) == (1 if stripped else 2)
