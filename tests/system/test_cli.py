import csv
import gzip
import json
import tomllib
from fractions import Fraction
from importlib.metadata import EntryPoint
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Number,
    PrivateData,
    Session,
)
from dpsdk.__main__ import main
from dpsdk.cli import prices
from dpsdk.mechanisms import Gaussian
from dpsdk.queries import marginals
from dpsdk.testing import seeded

ROOT = Path(__file__).parents[2]
ROWS = 400


@pytest.fixture
def domain():
    return Domain(
        Integer("age", 0, 9),
        Categorical("size/../shape", ["small, round", "large"]),
        Boolean("value"),
        Binned("weight", [0, 1, 2.5]),
    )


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    return {
        "age": rng.integers(0, 10, ROWS).tolist(),
        "size/../shape": rng.choice(["small, round", "large"], ROWS).tolist(),
        "value": rng.choice(["true", "false"], ROWS).tolist(),
        "weight": (rng.random(ROWS) * 2.5).tolist(),
    }


@pytest.fixture
def folder(tmp_path, domain, columns):
    with (tmp_path / "table.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    domain.save(tmp_path / "domain.json")
    return tmp_path


def release(folder, *options):
    given = ["--domain", str(folder / "domain.json"), "--out", str(folder / "out")]
    return main(["release", str(folder / "table.csv"), *given, *options], noise=seeded(7))


def summary(folder):
    return json.loads((folder / "out" / "release.json").read_text(encoding="utf-8"))


def truth(domain, columns, names):
    """Counts made here by hand, with none of the package's own encoding."""
    counts = np.zeros([domain[name].size for name in names])
    places = {
        "age": lambda v: v,
        "size/../shape": ["small, round", "large"].index,
        "value": ["false", "true"].index,
        "weight": lambda v: int(v >= 1),
    }
    for row in range(ROWS):
        counts[tuple(places[name](columns[name][row]) for name in names)] += 1
    return counts


def test_a_release_writes_every_table_within_its_bound(folder, domain, columns, capsys):
    assert release(folder, "--epsilon", "1", "--delta", "1e-6") == 0
    written = summary(folder)
    assert (written["format"], written["version"]) == ("dpsdk.tables", 1)
    assert [t["attributes"] for t in written["tables"]] == [
        list(pair) for pair in combinations(domain.names, 2)
    ]
    bound = written["error"]["bound"]
    assert 0 < bound < 0.5
    for table in written["tables"]:
        values = np.array(table["values"]).reshape(table["shape"])
        exact = truth(domain, columns, table["attributes"]) / ROWS
        assert np.abs(values - exact).max() <= bound
        assert (values != exact).any()
        assert values.sum() == pytest.approx(1, abs=bound * values.size)
    assert "NOT PRIVATE" in capsys.readouterr().out
    assert written["private"] is False


def test_the_csv_files_say_what_the_summary_says(folder, domain):
    given = ["--epsilon", "2", "--delta", "1e-5", "--marginals", "3", "--digits", "full"]
    assert release(folder, *given) == 0
    written = summary(folder)
    for table in written["tables"]:
        with (folder / "out" / table["file"]).open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        assert header[:3] == table["attributes"]
        suffix = " of the table" if "value" in table["attributes"] else ""
        assert header[3:] == [f"value{suffix}", f"error{suffix}"]
        assert [float(line[3]) for line in lines] == table["values"]
        assert {float(line[4]) for line in lines} == {written["error"]["bound"]}
        attributes = [domain[name] for name in table["attributes"]]
        for place, attribute in enumerate(attributes):
            texts = {attribute.text(index) for index in range(attribute.size)}
            assert {line[place] for line in lines} == texts


def test_file_names_hold_no_path_and_do_not_collide(folder):
    assert release(folder, "--epsilon", "1", "--marginals", "1") == 0
    names = [table["file"] for table in summary(folder)["tables"]]
    assert names == ["1_age.csv", "2_size-shape.csv", "3_value.csv", "4_weight.csv"]
    everything = {path.name for path in (folder / "out").iterdir()}
    described = {"metadata.json", "csv-metadata.json", "datapackage.json"}
    assert everything == {*names, "release.json", "report.txt", *described}


def test_tables_of_dates_have_their_labels(tmp_path):
    attributes = ["--date", "d", "2024-01-01", "2024-03-31", "month"]
    hours = ["--date", "at", "2024-01-01T00:00", "2024-01-01T02:00", "hour", "Asia/Kathmandu"]
    path = tmp_path / "domain.json"
    assert main(["domain", *attributes, *hours, "--out", str(path)]) == 0
    rows = ["2024-02-29,2023-12-31T18:20Z", "2024-02-01 10:00,2024-01-01 02:59", "2025-01-01,"] * 99
    (tmp_path / "table.csv").write_text("\n".join(["d,at", *rows, ""]))
    assert release(tmp_path, "--epsilon", "1000", "--counts") == 0
    (table,) = summary(tmp_path)["tables"]
    counts = np.reshape(table["values"], table["shape"]).round()
    assert counts.tolist() == [[0, 0, 0], [99, 0, 99], [0, 0, 0]]
    with (tmp_path / "out" / table["file"]).open(newline="") as file:
        cells = [row[:2] for row in csv.reader(file)][1:]
    assert cells == [
        [f"2024-0{month}-01", f"2024-01-01T0{hour}:00"] for month in (1, 2, 3) for hour in range(3)
    ]


def test_gaussian_noise_takes_all_of_the_budget_that_one_run_can(folder, domain):
    assert release(folder, "--epsilon", "1", "--delta", "1e-6") == 0
    written = summary(folder)
    rho = Fraction(written["cost"]["rho"]["exact"])
    assert written["mechanism"] == "Gaussian"
    data = PrivateData.from_csv(folder / "table.csv", domain)
    session = Session(data, Budget(epsilon=1, delta="1e-6"), noise=seeded(1))
    pairs = marginals(domain, 2)
    assert session.affords(pairs, using=Gaussian(rho=rho)) == 1
    assert session.affords(pairs, using=Gaussian(rho=rho * Fraction("1.00000001"))) == 0
    session.answer(pairs, using=Gaussian(rho=rho))
    # The default composition keeps a little that one single run cannot take; how much is said.
    share = written["budget"]["share_spent"]
    assert share == session.spent.fraction
    assert 0.97 < share <= 1
    assert written["budget"]["delta"]["exact"] == "1/1000000"
    report = (folder / "out" / "report.txt").read_text()
    assert f"{100 * share:.7g}% of (1, 1e-6)-DP is spent" in report


@pytest.mark.parametrize("counts", [False, True])
def test_fitted_tables_come_with_a_bound_each(folder, domain, columns, counts):
    given = ["--epsilon", "2", "--delta", "1e-6", "--method", "local", "--beta", "0.02"]
    assert release(folder, *given, *["--counts"] * counts) == 0
    written = summary(folder)
    assert written["mechanism"] == "LocalMarginals"
    assert written["error"]["beta"] == 0.02
    assert written["error"]["bound"] == max(table["error"] for table in written["tables"])
    for table in written["tables"]:
        values = np.array(table["values"]).reshape(table["shape"])
        exact = truth(domain, columns, table["attributes"])
        assert values.min() >= 0
        assert np.abs(values - exact / (1 if counts else ROWS)).max() <= table["error"]
        apart = np.abs(values / values.sum() - exact / exact.sum()).sum() / 2
        assert apart <= table["total_variation"] <= 1
        assert table["source"] == "measured"
        with (folder / "out" / table["file"]).open(newline="", encoding="utf-8") as file:
            _, *lines = csv.reader(file)
        assert {float(line[-1]) for line in lines} == {table["written"]["error"]}
        assert table["error"] < table["written"]["error"] < 1.06 * table["error"]
    report = (folder / "out" / "report.txt").read_text()
    assert "total variation" in report
    assert "ten times looser: --method independent" in report.replace("\n", " ")
    assert 0.9 < written["budget"]["share_spent"] <= 1


def test_tables_of_next_to_no_budget_have_the_bounds_that_all_have(folder):
    given = ["--epsilon", "1e-4", "--delta", "1e-9", "--method", "local"]
    assert release(folder, *given) == 0
    written = summary(folder)
    assert written["error"]["vacuous"]
    assert {table["error"] for table in written["tables"]} == {1.0}


@pytest.mark.thorough
def test_large_universes_are_fitted_unless_noise_is_to_be_independent(folder, monkeypatch):
    given = ["--epsilon", "1", "--force", "--delta"]
    assert release(folder, *given, "1e-6") == 0
    assert summary(folder)["mechanism"] == "Gaussian"
    monkeypatch.setattr(prices, "DENSE_LIMIT", 4)
    for options, mechanism in (
        (["1e-6"], "LocalMarginals"),
        (["1e-6", "--method", "independent"], "Gaussian"),
        (["0"], "Laplace"),
    ):
        assert release(folder, *given, *options) == 0
        assert summary(folder)["mechanism"] == mechanism
        assert ("source" in summary(folder)["tables"][0]) == (mechanism == "LocalMarginals")


def test_fitted_tables_need_a_delta(folder, capsys):
    assert release(folder, "--epsilon", "1", "--method", "local") == 2
    assert "--delta" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_without_delta_laplace_noise_takes_all_of_epsilon(folder):
    assert release(folder, "--epsilon", "0.3", "--marginals", "1") == 0
    written = summary(folder)
    assert written["mechanism"] == "Laplace"
    assert written["cost"]["epsilon"]["exact"] == "3/10"
    assert written["budget"]["share_spent"] == 1
    assert "The whole of 0.3-DP is spent." in (folder / "out" / "report.txt").read_text()


def test_counts_under_add_remove_keep_the_number_of_rows_private(folder, domain, columns):
    options = ["--neighbors", "add-remove", "--counts", "--max-rows", "1000", "--name", "people"]
    assert release(folder, "--epsilon", "5", "--beta", "0.01", *options) == 0
    written = summary(folder)
    assert written["unit"] == "rows"
    assert written["data"]["rows"] is None
    assert written["data"]["name"] == "people"
    assert written["data"]["neighbors"] == "add-remove"
    assert Domain.from_json(json.dumps(written["data"]["domain"])) == domain
    assert written["error"]["beta"] == 0.01
    for table in written["tables"]:
        values = np.array(table["values"]).reshape(table["shape"])
        assert (values == np.rint(values)).all()
        exact = truth(domain, columns, table["attributes"])
        assert np.abs(values - exact).max() <= written["error"]["bound"]


def test_tables_of_people_with_several_rows_are_as_much_further_off(folder):
    bounds = {}
    for unit_rows in ("1", "4"):
        given = ["--epsilon", "9", "--marginals", "1", "--counts", "--unit-rows", unit_rows]
        assert release(folder, *given, "--force") == 0
        written = summary(folder)
        assert written["data"]["unit_rows"] == int(unit_rows)
        bounds[unit_rows] = written["error"]["bound"]
    assert bounds["4"] == pytest.approx(4 * bounds["1"], rel=0.2)
    assert "up to 4 rows a person" in (folder / "out" / "report.txt").read_text()


def test_people_are_protected_and_not_rows(folder, domain, capsys):
    table = folder / "table.csv"
    first, *rows = table.read_text().splitlines()
    people = [f"{line},{place % 20}" for place, line in enumerate(rows)]
    table.write_text("\n".join([f"{first},who", *people]) + "\n")
    given = ["--epsilon", "9", "--marginals", "1", "--counts", "--unit", "who", "--force"]
    assert release(folder, *given, "--max-rows-per-person", "3") == 0
    data = summary(folder)["data"]
    assert (data["neighbors"], data["rows"], data["unit_rows"]) == ("add-remove", None, 3)
    assert data["protects"] == "a person by 'who', of whom up to 3 rows are kept"
    report = (folder / "out" / "report.txt").read_text()
    assert "up to 3 rows a person by 'who', private people and rows" in report
    # Noise is small against the 60 rows that are left of all.
    total = sum(summary(folder)["tables"][0]["values"])
    assert abs(total - 60) < 20
    assert release(folder, *given, "--max-rows-per-person", "1", "--distinct") == 0
    capsys.readouterr()
    for wrong, message in (
        ([*given], "--max-rows-per-person must be given with --unit"),
        ([*given, "--max-rows-per-person", "0"], "--max-rows-per-person must be"),
        (
            [*given, "--max-rows-per-person", "2", "--unit-rows", "2"],
            "--unit-rows must be left out",
        ),
        (
            [*given, "--max-rows-per-person", "2", "--neighbors", "replace-one"],
            "--neighbors must be Neighbors.ADD_REMOVE or left out",
        ),
        (
            [*(one for one in given if one != "--counts"), "--max-rows-per-person", "2"],
            "--unit must be given with --counts",
        ),
        (
            ["--epsilon", "9", "--marginals", "1", "--distinct"],
            "--distinct must be given with --unit",
        ),
        (
            ["--epsilon", "9", "--marginals", "1", "--max-rows-per-person", "2"],
            "--max-rows-per-person must be given with --unit",
        ),
    ):
        assert release(folder, *wrong) == 2
        assert message in capsys.readouterr().err


def test_outside_values_count_nowhere_or_at_the_nearest_bound(folder, domain):
    table = folder / "table.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *["99,large,true,2"] * ROWS]) + "\n")
    held = {}
    for outside in ("cell", "clip"):
        given = ["--epsilon", "9", "--marginals", "1", "--counts", "--outside", outside, "--force"]
        assert release(folder, *given) == 0
        held[outside] = np.array(summary(folder)["tables"][0]["values"])
    assert held["cell"].sum() == pytest.approx(0, abs=20)
    assert held["clip"][9] == pytest.approx(ROWS, abs=20)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_missing_and_other_values_have_cells_of_their_own_apart(
    folder, domain, columns, kind, capsys
):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    lines = (folder / "table.csv").read_text().splitlines(keepends=True)
    gone = [line.partition(",") for line in lines[1 : ROWS // 2 + 1]]
    gaps = [f",{rest}" if place % 2 else f"x,{rest}" for place, (_, _, rest) in enumerate(gone)]
    (folder / "table.csv").write_text("".join([lines[0], *gaps, *lines[ROWS // 2 + 1 :]]))
    given = ["--epsilon", "90", "--marginals", "1", "--counts", "--format", kind, "--force"]
    assert release(folder, *given, "--dry-run", "--rows", str(ROWS)) == 0
    note = "note: only rows with declared values of all 4 attributes count; --outside apart keeps"
    assert note in capsys.readouterr().out
    assert release(folder, *given) == 0
    assert note in capsys.readouterr().out
    given += ["--outside", "apart"]
    assert release(folder, *given, "--dry-run", "--rows", str(ROWS)) == 0
    assert release(folder, *given) == 0
    assert "note: only rows" not in capsys.readouterr().out
    held = {one["attributes"][0]: np.array(one["values"]) for one in summary(folder)["tables"]}
    assert held["age"][10:] == pytest.approx([ROWS // 4, ROWS // 4], abs=3)
    assert held["value"].tolist() == pytest.approx(
        [*truth(domain, columns, ["value"]), 0, 0], abs=3
    )
    described = json.loads((folder / "out" / "datapackage.json").read_text(encoding="utf-8"))
    fields = {
        one["fields"][0]["name"]: one["fields"][0]
        for one in (resource["schema"] for resource in described["resources"])
    }
    assert fields["age"]["constraints"]["enum"][-2:] == ["(other)", "(missing)"]


def test_numbers_are_shown_in_bins(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("paid,sex\n" + "99.99,f\n,m\n100,f\n900,m\n" * 100)
    Domain(Number("paid", 0, 500, step="0.01"), Categorical("sex", ["f", "m"])).save(
        tmp_path / "domain.json"
    )
    given = ["--epsilon", "90", "--marginals", "2", "--counts", "--force", "--outside", "apart"]
    assert release(tmp_path, *given) == 0
    (even,) = summary(tmp_path)["tables"]
    assert (even["shape"], sum(even["values"])) == ([12, 4], pytest.approx(400, abs=20))
    given += ["--bins", "paid", "0", "100", "500"]
    assert release(tmp_path, *given, "--dry-run") == 0
    assert "1 table with 16 entries" in capsys.readouterr().out
    assert release(tmp_path, *given) == 0
    counts = np.array(summary(tmp_path)["tables"][0]["values"]).reshape(4, 4).sum(1)
    assert counts == pytest.approx([100, 200, 0, 100], abs=9)
    described = (tmp_path / "out" / "datapackage.json").read_text(encoding="utf-8")
    assert '"[0, 100)"' in described
    for wrong, words in (
        (["--bins", "sex", "0", "1"], "--bins must be bins of a number of the domain; got 'sex'"),
        (["--bins", "x", "0", "1"], "'x'"),
        (["--bins", "paid", "0", "x"], "--bins must be a name, once, and then numbers"),
        (["--bins", "paid", "1"], "edges"),
        (["--bins", "paid", "0", "400"], "the bins of 'paid' go from 0 to 400"),
        (["--delta", "1e-6", "--method", "local"], "--method must be independent where numbers"),
        (
            ["--bins", "paid", "0", "500", "--bins", "paid", "0", "500"],
            "--bins must be a name, once",
        ),
    ):
        assert release(tmp_path, *given[:-5], *wrong) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "-1"], "--epsilon must be a positive finite number"),
        (["--epsilon", "1", "--delta", "1"], "--delta must be a number in [0, 1)"),
        (["--epsilon", "1", "--marginals", "5"], "--marginals must be from 1 to 4"),
        (["--epsilon", "1", "--beta", "0"], "beta must be a number strictly between 0 and 1"),
        (
            ["--epsilon", "1", "--neighbors", "add-remove"],
            "--neighbors add-remove must be given with --counts",
        ),
        (["--epsilon", "1", "--max-rows", "10"], "max_rows=10"),
        (["--epsilon", "1", "--name", " "], "--name must be a non-empty text"),
    ],
)
def test_a_bad_request_is_one_line_and_writes_nothing(folder, capsys, options, words):
    assert release(folder, *options) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.startswith("dpsdk: ")
    assert printed.err.count("\n") == 1
    assert not (folder / "out").exists()


@pytest.mark.parametrize("missing", ["table.csv", "domain.json"])
def test_a_missing_file_is_named(folder, capsys, missing):
    (folder / missing).unlink()
    assert release(folder, "--epsilon", "1") == 2
    error = capsys.readouterr().err
    assert missing in error
    assert "No such file" in error


@pytest.mark.parametrize("content", [b"{}", b"\xff\xfe", b"[1, 2", b"null"])
def test_a_broken_domain_is_refused_by_the_name_of_its_file(folder, capsys, content):
    (folder / "domain.json").write_bytes(content)
    assert release(folder, "--epsilon", "1") == 2
    assert "domain.json: " in capsys.readouterr().err


def test_tables_beyond_memory_are_refused_before_anything_is_read(folder, capsys):
    Domain(*(Integer(f"a{i}", 1, 100) for i in range(30))).save(folder / "domain.json")
    (folder / "table.csv").unlink()
    assert release(folder, "--epsilon", "1", "--marginals", "15") == 2
    assert "more than the limit" in capsys.readouterr().err


def test_a_directory_that_holds_files_is_refused_without_force(folder, capsys):
    (folder / "out").mkdir()
    (folder / "out" / "mine.txt").write_text("kept")
    assert release(folder, "--epsilon", "1") == 2
    assert "--force" in capsys.readouterr().err
    assert [path.name for path in (folder / "out").iterdir()] == ["mine.txt"]
    assert release(folder, "--epsilon", "1", "--force") == 0
    assert (folder / "out" / "mine.txt").read_text() == "kept"
    assert summary(folder)["tables"]


def test_a_gzipped_table_gives_the_same_release(folder):
    assert release(folder, "--epsilon", "1") == 0
    plain = summary(folder)["tables"]
    zipped = folder / "table.csv.gz"
    zipped.write_bytes(gzip.compress((folder / "table.csv").read_bytes()))
    options = ["--domain", str(folder / "domain.json"), "--out", str(folder / "zipped")]
    assert main(["release", str(zipped), *options, "--epsilon", "1"], noise=seeded(7)) == 0
    assert json.loads((folder / "zipped" / "release.json").read_text())["tables"] == plain


@pytest.mark.parametrize("content", [b"age,value\n1,true\n", b"", "short"])
def test_what_is_not_a_whole_gzip_file_is_refused(folder, capsys, content):
    whole = gzip.compress((folder / "table.csv").read_bytes())
    (folder / "table.csv.gz").write_bytes(whole[:-20] if content == "short" else content)
    options = ["--domain", str(folder / "domain.json"), "--out", str(folder / "out")]
    assert main(["release", str(folder / "table.csv.gz"), *options, "--epsilon", "1"]) == 2
    assert "table.csv.gz: " in capsys.readouterr().err


def test_the_demo_shows_its_code_its_answers_and_what_was_spent(capsys):
    assert main(["demo"], noise=seeded(3)) == 0
    printed = capsys.readouterr().out
    for words in (
        '> share = session.answer(Count(where={"hours": range(60, 100)}), using=Laplace(',
        "BudgetExceeded: asked for epsilon 2",
        "spent as before: True",
        "% of (1, 1e-6)-DP in 4 charges",
        "Laplace(epsilon=0.1)  Count(where=Conjunction",
        "NOT PRIVATE",
    ):
        assert words in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_the_demo_has_fresh_private_noise(capsys):
    printed = []
    for _ in range(2):
        assert main(["demo"]) == 0
        printed.append(capsys.readouterr().out)
        assert "NOT PRIVATE" not in printed[-1]
    assert printed[0] != printed[1]


def test_help_and_version_are_told(capsys):
    for option, words in [("--help", "release"), ("--version", "dpsdk ")]:
        with pytest.raises(SystemExit) as leaving:
            main([option])
        assert leaving.value.code == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/dpsdk", "dpsdk"),
        ("C:/Scripts/dpsdk.exe", "dpsdk"),
        ("/site-packages/dpsdk/__main__.py", "python -m dpsdk"),
    ],
)
def test_help_calls_the_program_as_it_was_called(monkeypatch, capsys, path, name):
    monkeypatch.setattr("sys.argv", [path])
    for command in ([], ["release"]):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        assert f"usage: {' '.join([name, *command])} [-h]" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["release", "--help"])
    assert f"as {name} domain makes it" in " ".join(capsys.readouterr().out.split())


def test_the_installed_command_runs_the_program(capsys, monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    program = EntryPoint("dpsdk", project["scripts"]["dpsdk"], "console_scripts").load()
    monkeypatch.setattr("sys.argv", ["dpsdk", "--version"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit):
        program()
    assert capsys.readouterr().out.startswith("dpsdk ")


def test_no_command_at_all_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as leaving:
        main([])
    assert leaving.value.code == 2
    assert "--help tells more" in capsys.readouterr().err
