"""`python -m dpsdk domain` makes the file of a domain, and says what is wrong with one."""

import gzip
from datetime import date, datetime
from pathlib import Path

import pytest

from dpsdk import Binned, Boolean, Categorical, Date, Domain, Integer, Number
from dpsdk.__main__ import main

pytestmark = pytest.mark.thorough

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

DECLARED = [
    *("--categorical", "sex", "Female", "Male", "not told", "--other", "not told"),
    *("--integer", "age", "-5", "90", "--binned", "weight", "0", "1.5", "1e3"),
    *("--boolean", "member", "--categorical", "code", "1", "2"),
    *("--date", "born", "1930-02-05", "2010-12-31", "month", "--date", "day", *["2024-02-29"] * 2),
    *("--number", "paid", "-0.5", "1e2", "0.25"),
    *("--date", "at", "2024-03-30T00:00", "2024-03-31T23:00", "hour", "Europe/Berlin"),
]
DOMAIN = Domain(
    Categorical("sex", ["Female", "Male", "not told"], other="not told"),
    Integer("age", -5, 90),
    Binned("weight", [0, 1.5, 1000]),
    Boolean("member"),
    Categorical("code", ["1", "2"]),
    Date("born", date(1930, 2, 1), date(2010, 12, 31), unit="month"),
    Date("day", date(2024, 2, 29), date(2024, 2, 29)),
    Number("paid", "-0.5", 100, step="0.25"),
    Date("at", datetime(2024, 3, 30), datetime(2024, 3, 31, 23), unit="hour", zone="Europe/Berlin"),
)


def domain(*arguments):
    return main(["domain", *map(str, arguments)])


def test_a_domain_is_made_of_what_is_declared_in_its_order(tmp_path, capsys):
    assert domain(*DECLARED) == 0
    assert Domain.from_json(capsys.readouterr().out) == DOMAIN
    assert domain(*DECLARED, "--out", tmp_path / "domain.json") == 0
    printed = capsys.readouterr().out
    assert Domain.load(tmp_path / "domain.json") == DOMAIN
    for words in (
        *(
            "9 attributes",
            "'not told'",
            "-0.5 to 100 in steps of 0.25",
            "-5 to 90",
            "0 to 1000 in 2 bins",
        ),
        *("1930-02-01 to 2010-12-31 in 971 months", "2024-02-29 to 2024-02-29 in 1 day"),
        "2024-03-30T00:00 to 2024-03-31T23:00 in 48 hours in Europe/Berlin",
    ):
        assert words in printed
    assert [path.name for path in tmp_path.iterdir()] == ["domain.json"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ([], "nothing"),
        (["--integer", "age", "9", "1"], "high of 'age' must be at least low"),
        (["--integer", "age", "1_0", "20"], "bounds of 'age' must be whole numbers"),
        (["--integer", "age", "1", "9" * 5000], "bounds of 'age' must be whole numbers"),
        (["--integer", "age", "1", "9" * 400], "low and high of 'age' must be"),
        (["--binned", "w", "1"], "edges of 'w' must be"),
        (["--binned", "w", "1", "nan"], "edges of 'w' must be numbers"),
        (["--binned", "w", "1", "1e1999"], "edges"),
        (["--date", "d", "2024-01-01"], "dates of 'd' must be the first and the last"),
        (["--date", "d", *["2024-01-01"] * 5], "dates of 'd' must be the first and the last"),
        (["--date", "d", "2024-02-30", "2024-03-01"], "low of 'd' must be a date such as 2024-01"),
        (["--date", "d", "2024-01-01", "1.2.2024"], "high of 'd' must be a date such as 2024-01"),
        (["--date", "d", *["2024-01-01"] * 2, "hour"], "low of 'd' must be a datetime without"),
        (["--date", "d", *["2024-01-01T00:00"] * 2], "low of 'd' must be a date, and no datetime"),
        (["--date", "d", *["2024-01-01"] * 2, "days"], "unit of 'd' must be"),
        (["--date", "d", *["2024-01-01"] * 2, "day", "Mars"], "zone of 'd' must be"),
        (["--date", "d", "2024-01-02", "2024-01-01"], "high of 'd' must be at least low"),
        (["--number", "n", "1"], "numbers of 'n' must be the lowest and the highest"),
        (["--number", "n", "0", "1", "x"], "numbers of 'n' must be numbers; got 'x'"),
        (["--number", "n", "0", "1", "0.3"], "high of 'n' must be a multiple of the step"),
        (["--boolean", "b", "--missing-texts", "1"], "--missing-texts must be texts that are no"),
        (["--open", "--check", "x.json"], "--check must be given alone"),
        (["--boolean", "b", "--leave-out", "b"], "must be given with --from"),
        (["--categorical", "sex"], "labels of 'sex' must be"),
        (["--categorical", "sex", "a", "a"], "labels of 'sex' must be"),
        (["--other", "a"], "--other must be given right after a --categorical"),
        (["--boolean", "b", "--other", "a"], "--other must be given right after a --categorical"),
        (["--categorical", "sex", "a", "--other", "b"], "other must be one of the labels"),
        (["--boolean", "b", "--boolean", "b"], "must be of distinct names; got 'b' twice"),
        (["--boolean", " "], "name must be a non-empty text"),
        (["--boolean", "\udcff"], "name must be a text that UTF-8 can hold"),
        (["--boolean", "b", "--check", "x.json"], "--check must be given alone"),
    ],
    ids=lambda value: ascii(value)[:30] if isinstance(value, list) else "",
)
def test_a_bad_declaration_is_one_line_and_writes_nothing(tmp_path, capsys, declared, words):
    assert domain(*declared, "--out", tmp_path / "domain.json") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.startswith("dpsdk: ")
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


VISITS = EXAMPLES / "visits-csvw.json"


def test_a_domain_is_read_from_metadata_and_opened(capsys):
    declared = ["--integer", "age", 0, 110, "--step", "paid", "0.01", "--leave-out", "remark"]
    assert domain("--from", VISITS, *declared, "--missing-texts", "?", "NA", "--open") == 0
    closed = Domain(
        Categorical("sex", ["f", "m"]), Number("paid", 0, 500, step="0.01"), Integer("age", 0, 110)
    )
    expected = Domain(*closed, missing_texts=["?", "NA"]).open()
    assert Domain.from_json(capsys.readouterr().out) == expected
    assert domain("--from", VISITS, "--leave-out") == 0
    assert Domain.from_json(capsys.readouterr().out) == closed.project(["sex"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "'paid' lacks a step (--step), 'age' lacks two bounds, 'remark' lacks a list"),
        ([], "by options such as --integer, or name them in --leave-out"),
        (["visits.csv", "x"], "--from must be a file, and a table's name"),
        (["x"], "the table of --from must be the name of one of its tables, 'visits.csv'; got 'x'"),
        (["--boolean", "x"], "a declaration must be names of columns"),
        (["--step", "paid_", "1"], "--step must be names of columns"),
        (["--step", "paid", "0"], "--step['paid'] must be a positive"),
    ],
)
def test_what_metadata_do_not_say_is_told_by_the_options(capsys, options, words):
    assert domain("--from", VISITS, *options) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_exists_is_not_written_over(tmp_path, capsys):
    (tmp_path / "domain.json").write_text("kept")
    assert domain(*DECLARED, "--out", tmp_path / "domain.json") == 2
    assert "domain.json: File exists" in capsys.readouterr().err
    assert (tmp_path / "domain.json").read_text() == "kept"
    assert domain(*DECLARED, "--out", tmp_path / "absent" / "domain.json") == 2
    assert "No such file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["domain.json"]


def test_a_given_file_is_described_or_its_mistake_is_told(tmp_path, capsys):
    path = EXAMPLES / "adult-domain.json"
    assert domain("--check", path, "--table", EXAMPLES / "adult.csv.gz") == 0
    printed = capsys.readouterr().out
    assert "8 attributes, 147,692,160 cells" in printed
    assert "adult.csv.gz has these columns\n" in printed
    for wrong, words in (
        (path.read_text().replace('"low": 17', '"low": "17"'), "low must be an integer"),
        (path.read_text().replace('"kind": "integer"', '"kind": "numbers"'), "one of boolean"),
        (path.read_text().replace('"high": 90', '"height": 90'), "also 'height'"),
        ("[", "must be JSON"),
    ):
        (tmp_path / "wrong.json").write_text(wrong)
        assert domain("--check", tmp_path / "wrong.json") == 2
        error = capsys.readouterr().err
        assert "wrong.json: " in error
        assert words in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("encoding", "delimiter"),
    [("utf-8", ","), ("utf-8-sig", ";"), ("cp1252", "tab"), ("utf-16", "|"), ("utf-16-le", ",")],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_names_of_a_table_are_read(tmp_path, capsys, zipped, encoding, delimiter, end):
    header = {"tab": "\t"}.get(delimiter, delimiter).join(["\u00e5r", '"a, ""b"""', "more"])
    # What follows the first line is neither text nor a table.
    content = f"{header}{end}".encode(encoding) + b"\x81\x8d\xff" + b'"' * 10**5
    path = tmp_path / ("table.csv.gz" if zipped else "table.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    options = ["--table", path, "--delimiter", delimiter]
    options += ["--encoding", encoding.removesuffix("-sig")]
    given = ["--integer", 'a, "b"', 0, 1, *options, "--out", tmp_path / "domain.json"]
    assert domain("--boolean", "\u00e5r", *given) == 0
    assert "has these columns; not declared: 'more'" in capsys.readouterr().out
    assert domain("--boolean", "ar", *options) == 2
    assert "no column 'ar'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b,a\n1,2,3\n", "more than one column 'a'"),
        (b"b\n", "no column 'a'"),
        (b"", "no column 'a'"),
        (b"\n1\n", "no column 'a'"),
        (b"b;c\n", "perhaps the delimiter or the encoding"),
        (b'"a\n1\n', "a quote that does not close"),
        (b"\xff\xfe\n", "perhaps the delimiter or the encoding"),
        (b"a," * 2**20, "not text in this encoding"),
        (b"a\r1\r2", "a carriage return and no line feed"),
        (b" a,b\n", "no column 'a'"),
    ],
)
def test_a_first_line_that_does_not_serve_is_refused(tmp_path, capsys, content, words):
    (tmp_path / "table.csv").write_bytes(content)
    assert domain("--boolean", "a", "--table", tmp_path / "table.csv") == 2
    error = capsys.readouterr().err
    assert "table.csv: " in error
    assert words in error
    assert error.count("\n") == 1


def test_a_table_that_is_no_gzip_file_is_refused(tmp_path, capsys):
    (tmp_path / "table.csv.gz").write_bytes(b"a,b\n")
    assert domain("--boolean", "a", "--table", tmp_path / "table.csv.gz") == 2
    assert "not a whole gzip file" in capsys.readouterr().err
    assert domain("--boolean", "a", "--table", tmp_path / "absent.csv") == 2
    assert "No such file" in capsys.readouterr().err


def test_names_are_read_as_a_release_reads_them(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(' a , "b"\n')
    given = ["--boolean", "a", "--boolean", "b", "--table", path, "--out", tmp_path / "domain.json"]
    assert domain(*given) == 2
    assert "no column 'a', 'b' in the first line" in capsys.readouterr().err
    assert domain(*given, "--strip") == 0
    assert "has these columns" in capsys.readouterr().out


def test_no_row_is_told_where_lines_end_otherwise(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_bytes(b"a,b\rmine,secret\r")
    assert domain("--boolean", "a", "--table", path) == 2
    told = "".join(capsys.readouterr())
    assert "secret" not in told


def test_labels_that_begin_with_a_dash_stand_in_quotes(capsys):
    assert main(["domain", "--categorical", "flag", '"--x"', '"-y"', '"', "--boolean", '"-b"']) == 0
    made = Domain.from_json(capsys.readouterr().out)
    assert made["flag"].labels == ("--x", "-y", '"')
    assert made.names == ("flag", "-b")
