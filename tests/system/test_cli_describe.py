"""`python -m dpsdk describe` on files as people have them: what it tells, charges and refuses."""

import errno
import gzip
import json

import numpy as np
import pytest

from dpsdk import Domain
from dpsdk.__main__ import main
from dpsdk.kernel.discover import DiscoverPricing
from dpsdk.testing import seeded

ROWS = 3000
RNG = np.random.default_rng(11)
COLUMNS = {
    "visit": [f"V{place:05}" for place in range(ROWS)],
    "clinic": RNG.choice(["East", "North"], ROWS).tolist(),
    "age": np.where(RNG.random(ROWS) < 0.1, "", RNG.integers(0, 100, ROWS).astype(str)).tolist(),
    "paid": [f"{value:.2f}" for value in RNG.lognormal(3, 1, ROWS)],
    "who": [f"p{place % 1500}" for place in range(ROWS)],
}
PRICE = ("--epsilon", "1", "--delta", "1e-6")


def text_of(columns):
    rows = [",".join(row) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(columns), *rows, ""])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "visits.csv").write_text(text_of(COLUMNS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def describe(*options, table="visits.csv", who=("--each-row",)):
    return main(["describe", str(table), *who, *options], noise=seeded(3))


def refused(capsys, code, *words, expected=2):
    printed = capsys.readouterr()
    assert code == expected
    assert printed.out == ""
    assert printed.err.startswith("dpsdk: ")
    assert printed.err.count("\n") == 1
    assert "unforeseen" not in printed.err.replace("not foreseen", "unforeseen")
    for word in words:
        assert word in printed.err
    return printed.err


def test_a_table_is_described_and_then_released_on_the_same_ledger(folder, capsys, caplog):
    caplog.set_level(0)
    ledger = ("--name", "visits", "--ledger", "spend.db", "--cap", "3")
    # A ledger that lasts takes no seeded noise.
    given = ["describe", "visits.csv", "--each-row", *PRICE, *ledger, "--write", "domain.json"]
    assert main(given) == 0
    printed = capsys.readouterr().out
    for words in (
        "5 columns", "protects  whoever has a row", "by replace-one", "within (1, 1e-6)-DP",
        "left      ", "domain    domain.json", "unknown", "East, North", "whole numbers from 0",
        "3 of 5 columns known, about 3,000 rows",
    ):  # fmt: skip
        assert words in printed
    assert max(map(len, printed.splitlines())) <= 100
    written = b"".join(one.read_bytes() for one in folder.iterdir() if one.name != "visits.csv")
    assert b"East" in written
    for place in COLUMNS["visit"][::100]:
        assert place not in printed + caplog.text
        assert place.encode() not in written
    domain = Domain.load(folder / "domain.json")
    assert domain.names == ("clinic", "age", "paid")
    assert domain["age"].exact
    more = [*ledger, "--cap-delta", "1e-6", "--outside", "apart", "--domain", "domain.json"]
    wanted = ["--epsilon", "1", "--delta", "1e-7", "--attributes", "clinic", "--out", "tables"]
    assert main(["release", "visits.csv", *more, *wanted]) == 0
    assert "3 charges" in capsys.readouterr().out
    # The rest does not pay for another of the same kind as the cap.
    assert main([*given[:3], "--epsilon", "3", "--delta", "1e-6", *ledger]) == 2
    assert "left" in capsys.readouterr().err


def test_a_dry_run_reads_no_row_and_leaves_nothing(folder, capsys, monkeypatch):
    monkeypatch.setattr("dpsdk.cli.describe.Undeclared", None)
    (folder / "head.csv").write_text("a,b\n")
    before = sorted(folder.iterdir())
    ledger = ("--name", "v", "--ledger", "spend.db", "--write", "domain.json")
    for table, columns in (("visits.csv", 5), ("head.csv", 2)):
        assert describe(*PRICE, *ledger, "--dry-run", table=table) == 0
        printed = capsys.readouterr().out
        assert f"{columns} columns" in printed
        assert "no row was read" in printed
        assert "labels from about " in printed
    assert sorted(folder.iterdir()) == before


def test_persons_are_protected_where_they_are_named(folder, capsys):
    assert describe(*PRICE, who=("--unit", "who"), table=folder / "visits.csv") == 0
    printed = capsys.readouterr().out
    assert "4 columns" in printed
    assert "persons by 'who', whatever rows they have, by add-remove" in printed
    assert "p12" not in printed


REFUSALS = [
    (["--delta", "1e-6"], "--epsilon"),
    (["--epsilon", "x", "--delta", "1e-6"], "--epsilon"),
    (["--epsilon", "0", "--delta", "1e-6"], "--epsilon"),
    (["--epsilon", "1"], "--delta"),
    (["--epsilon", "1", "--delta", "2"], "--delta"),
    ([*PRICE, "--only", "nobody"], "--only"),
    ([*PRICE, "--only", "age", "age"], "--only"),
    ([*PRICE, "--step", "nobody", "1"], "--step"),
    ([*PRICE, "--step", "age", "0"], "--step"),
    ([*PRICE, "--step", "age", "x"], "--step"),
    ([*PRICE, "--max-rows", "x"], "--max-rows"),
    ([*PRICE, "--max-rows", "0"], "--max-rows"),
    ([*PRICE, "--delimiter", "ab"], "--delimiter"),
    ([*PRICE, "--encoding", "klingon"], "--encoding"),
    ([*PRICE, "--decimal", ";"], "--decimal"),
    ([*PRICE, "--columns", "a,b"], "--columns"),
    ([*PRICE, "--no-header"], "--columns"),
    ([*PRICE, "--cap", "3"], "--cap"),
    ([*PRICE, "--ledger", "l.db"], "--name"),
    ([*PRICE, "--key", "k"], "--key"),
    ([*PRICE, "--write", "visits.csv"], "--write"),
    ([*PRICE, "--write", "no/domain.json"], "--write"),
    ([*PRICE, "--neighbors", "other"], "--neighbors"),
]


@pytest.mark.parametrize(("options", "option"), REFUSALS, ids=lambda one: " ".join(one)[:40])
def test_each_refusal_names_its_option_and_costs_nothing(folder, capsys, options, option):
    before = sorted(folder.iterdir())
    try:
        code = describe(*options)
    except SystemExit as ended:  # by the parser itself
        code = ended.code
    refused(capsys, code, option)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("head", "words"),
    [("age;sex", "--delimiter must be"), ("age\tsex", "perhaps '\\t'"), ("a,a ", "--only must be")],
)
def test_a_header_that_is_read_in_the_wrong_way_is_refused(folder, capsys, head, words):
    body = "".join(f"{head}\n" for _ in range(1000))
    (folder / "odd.csv").write_text(body)
    for options in ((), ("--dry-run",)):
        refused(capsys, describe(*PRICE, *options, table="odd.csv"), words)
    assert describe(*PRICE, "--delimiter", ";", "--strip", "--only", "a", table="odd.csv") == 2
    capsys.readouterr()


def test_a_name_that_cannot_be_read_is_left_out(folder, capsys):
    body = "".join(f"{place % 3};x\n" for place in range(1000))
    (folder / "odd.csv").write_bytes(b"age;Gek\xfcndigt\n" + body.encode())
    assert describe(*PRICE, "--delimiter", ";", table="odd.csv") == 0
    printed = capsys.readouterr().out
    assert "1 column; 1 without a name that can be read\n" in printed
    assert "3 labels: 0, 1, 2" in printed


def test_a_missing_text_within_the_bounds_loses_nothing_that_was_paid_for(folder, capsys):
    given = ("--missing-texts", "42", "--write", "domain.json")
    assert describe(*PRICE, *given) == 0
    printed = capsys.readouterr().out
    assert "not written: missing_texts must" in printed
    assert "whole numbers from 0" in printed


def test_who_is_protected_has_no_default(folder, capsys):
    for who, words in (
        ((), ("--each-row", "--unit")),
        (("--each-row", "--unit", "who"), ("--unit", "--each-row")),
    ):
        with pytest.raises(SystemExit) as ended:
            describe(*PRICE, who=who)
        refused(capsys, ended.value.code, *words)
    refused(capsys, describe(*PRICE, who=("--unit", "nobody")), "--unit")
    replaced = describe(*PRICE, "--neighbors", "replace-one", "--dry-run", who=("--unit", "who"))
    refused(capsys, replaced, "--neighbors")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "columns.csv"), (b"a,b\n", "no rows"), (b"a,a\n1,2\n", "2 columns 'a'"),
        (b"\x00\xff\xfe\x01" * 50, ""), (None, "columns.csv"),
    ],
    ids=["empty", "a header only", "a name twice", "junk", "no file"],
)  # fmt: skip
def test_bad_files_are_refused_before_anything_is_charged(folder, capsys, content, words):
    if content is not None:
        (folder / "columns.csv").write_bytes(content)
    before = sorted(folder.iterdir())
    code = describe(*PRICE, "--name", "x", "--ledger", "l.db", table="columns.csv")
    refused(capsys, code, words)
    assert sorted(folder.iterdir()) == before


def test_the_same_noisy_numbers_are_told_alike_whatever_the_table(folder, capsys, monkeypatch):
    held = DiscoverPricing.run
    first = []

    def run(pricing, noise, opened):
        found = held(pricing, noise, opened)
        first.append(found)
        return first[0]

    monkeypatch.setattr(DiscoverPricing, "run", run)
    others = [
        {name: ["xy"[place % 2] for place in range(ROWS)] for name in COLUMNS},
        {name: [f"2020-01-0{place}" for place in range(1, 9)] for name in COLUMNS},
    ]
    for relation, other in zip(("replace-one", "add-remove"), others, strict=True):
        first.clear()
        told = []
        for columns in (COLUMNS, other):
            (folder / "visits.csv").write_text(text_of(columns))
            place = folder / f"{relation}-{len(told)}.json"
            assert describe(*PRICE, "--neighbors", relation, "--write", str(place)) == 0
            printed = capsys.readouterr().out.replace(str(place), "domain.json")
            told.append((printed, place.read_text()))
        assert "East, North" in told[0][0]
        assert told[0] == told[1]


@pytest.mark.parametrize("rows", [8000, pytest.param(100_000, marks=pytest.mark.thorough)])
def test_odd_columns_are_described_in_plain_words(folder, capsys, rows):
    columns = {
        "keys": [f"{place * 7919 % 100_003}-x" for place in range(rows)],
        "gone": ["", "NA", "?", "NaN"] * (rows // 4),
        "same": ["on"] * rows,
        "long": ["y" * 300] * rows,
        "steers": ["\x1b[31mred\u202e"] * rows,
    }
    (folder / "odd.csv").write_text(text_of(columns))
    (folder / "odd.csv.gz").write_bytes(gzip.compress((folder / "odd.csv").read_bytes()))
    told = []
    for table in ("odd.csv", "odd.csv.gz"):
        assert describe(*PRICE, "--write", f"{table}.json", table=table) == 0
        told.append(capsys.readouterr().out)
    lines = {line.split()[0]: line for line in told[0].splitlines() if line}
    assert "unknown; " in lines["keys"]
    assert rows < 10**5 or "no label has 1% of the rows" in lines["keys"]
    assert float(lines["gone"].split()[-3].rstrip("%")) > 97
    assert "1 label: on" in lines["same"]
    assert "unknown" in lines["long"]
    assert "1 label: [31mred" in lines["steers"]
    assert "-x" not in told[0]
    assert "yyy" not in told[0]
    tables = [text.replace("odd.csv.gz", "odd.csv").replace(" ", "") for text in told]
    assert tables[0] == tables[1]
    assert (folder / "odd.csv.json").read_text() == (folder / "odd.csv.gz.json").read_text()


def test_a_parquet_file_is_described_as_its_text_would_be(folder, capsys):
    polars = pytest.importorskip("polars")
    polars.read_csv(folder / "visits.csv").write_parquet(folder / "visits.parquet")
    tables = []
    for table in ("visits.csv", "visits.parquet"):
        assert describe(*PRICE, table=table) == 0
        tables.append(capsys.readouterr().out.partition("\n\n")[2])
    assert tables[0] == tables[1]
    (folder / "junk.parquet").write_bytes(b"PAR1 but no more")
    refused(capsys, describe(*PRICE, table="junk.parquet"), "junk.parquet")


def test_a_file_without_a_header_has_the_names_that_are_given(folder, capsys):
    body = text_of(COLUMNS).partition("\n")[2].replace(",,", ",-,")
    (folder / "raw.csv").write_text(body)
    given = ("--no-header", "--columns", ",".join(COLUMNS), "--missing-texts", "-")
    assert describe(*PRICE, *given, "--write", "d.json", table="raw.csv") == 0
    assert "whole numbers from 0 to" in capsys.readouterr().out
    assert Domain.load(folder / "d.json").missing_texts == ("-",)


LEDGER = ("--name", "visits", "--ledger", "spend.db", "--write", "domain.json")


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_what_was_paid_for_is_told_though_it_cannot_be_written(
    folder, capsys, monkeypatch, failure
):
    def fail(*_):
        raise failure

    monkeypatch.setattr("dpsdk.cli.describe.write_new", fail)
    code = main(["describe", "visits.csv", "--each-row", *PRICE, *LEDGER])
    printed = capsys.readouterr()
    assert "East, North" in printed.out
    start = printed.out.index("{")
    domain, _ = json.JSONDecoder().raw_decode(printed.out[start:])
    assert [one["name"] for one in domain["attributes"]] == ["clinic", "age", "paid"]
    if isinstance(failure, OSError):
        assert code == 0
        assert "not written: No space left" in printed.out
    else:
        assert code == 130
        assert "spend.db was charged stays charged" in printed.err


def test_an_interrupt_after_the_charge_says_that_it_was_charged(folder, capsys, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsdk.session.discovery.described", fail)
    code = main(["describe", "visits.csv", "--each-row", *PRICE, *LEDGER])
    refused(capsys, code, "spend.db was charged stays charged", expected=130)
    assert not (folder / "domain.json").exists()


def test_a_report_that_cannot_be_printed_says_where_the_domain_is(folder, capsys, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr("dpsdk.cli.program.say", fail)
    code = main(["describe", "visits.csv", "--each-row", *PRICE, *LEDGER])
    refused(capsys, code, "but the domain is in domain.json")
