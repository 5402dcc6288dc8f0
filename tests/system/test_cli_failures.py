"""The command line ends in one line for whatever goes wrong, and leaves nothing half made."""

import csv
import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpsdk import Binned, Boolean, Categorical, Domain, Integer
from dpsdk.__main__ import main
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    lines = ["age,sex", *(f"{row % 10},{'FM'[row % 2]}" for row in range(200))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    Domain(Integer("age", 0, 9), Categorical("sex", ["F", "M"])).save(tmp_path / "domain.json")
    return tmp_path


def release(folder, *options, out="out", table="table.csv"):
    given = ["--domain", str(folder / "domain.json"), "--out", str(folder / out)]
    return main(["release", str(folder / table), *given, *options], noise=seeded(7))


def everything(folder):
    """All files and directories, with what they hold."""
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def one_line(capsys, code, expected=2):
    printed = capsys.readouterr()
    assert code == expected
    assert printed.out == ""
    assert printed.err.startswith("dpsdk: ")
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 400
    assert "Traceback" not in printed.err
    printed.err.encode("utf-8")
    return printed.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "1e400"], "--epsilon must be a positive finite number"),
        (["--epsilon", "1_0"], "--epsilon must be"),
        (["--epsilon", "\u0663"], "--epsilon must be"),
        (["--epsilon", " 1"], "--epsilon must be"),
        (["--epsilon", "nan"], "--epsilon must be"),
        (["--epsilon", "0." + "1" * 10**6], "--epsilon must be"),
        (["--epsilon", "\udcff"], "--epsilon must be"),
        (["--epsilon", "1", "--delta", "1e-400"], "--delta must be"),
        (["--epsilon", "1", "--delta", "1e-2_0"], "--delta must be"),
        (["--epsilon", "1", "--max-rows", "9" * 400], "--max-rows must be an integer"),
        (["--epsilon", "1", "--max-rows", "9" * 10**5], "--max-rows must be a whole number"),
        (["--epsilon", "1", "--max-rows", "1_000"], "--max-rows must be a whole number"),
        (["--epsilon", "1", "--max-rows", "0"], "--max-rows must be an integer of at least 1"),
        (["--epsilon", "1", "--unit-rows", "0"], "--unit-rows must be an integer of at least 1"),
        (["--epsilon", "1", "--unit-rows", "1.5"], "--unit-rows must be a whole number"),
        (["--epsilon", "1", "--unit-rows", "1000000"], "--unit-rows must be at most the number"),
        (["--epsilon", "1", "--max-rows", "200.5"], "--max-rows must be a whole number"),
        (["--epsilon", "1", "--marginals", "9" * 400], "--marginals must be"),
        (["--epsilon", "1", "--marginals", "two"], "--marginals must be a whole number"),
        (["--epsilon", "1", "--beta", "nan"], "--beta must be a decimal number"),
        (["--epsilon", "1", "--beta", "1e-1_0"], "--beta must be"),
        (["--epsilon", "1", "--beta", "1e-400"], "beta must be"),
        (["--epsilon", "1", "--name", "\ud800"], "--name must be a text that UTF-8 can hold"),
        (["--epsilon", "1", "--name", "x" * 2000], "--name must be a text of at most"),
        (["--epsilon", "1", "--encoding", "no such"], "--encoding must be an encoding of text"),
        (["--epsilon", "1", "--encoding", "base64"], "--encoding must be an encoding of text"),
        (["--epsilon", "1", "--encoding", "\udcff"], "--encoding must be an encoding of text"),
        (["--epsilon", "1", "--delimiter", "ab"], "--delimiter must be one character"),
        (["--epsilon", "1", "--encoding", "utf-32"], "--encoding must be an encoding of text"),
        (["--epsilon", "1", "--delimiter", ";"], "perhaps the delimiter or the encoding"),
        (["--epsilon", "1", "--encoding", "utf-16"], "perhaps the delimiter or the encoding"),
        (["--epsilon", "1", "--decimal", ";"], "--decimal must be"),
        (["--error", "1e400"], "--error must be above 0 and below 1; got 1e+400"),
        (["--error", "1e400", "--counts"], "--error must be above 0 and finite; got 1e+400"),
        (["--error", "1e-400"], "--error must be above 0 and below 1; got 1e-400"),
        (["--error", "0." + "9" * 30], "--error must be above 0 and below 1; got 1"),
        (["--epsilon", "1", "--thousands", "x"], "--thousands must be"),
        (["--epsilon", "1", "--thousands", "."], "--thousands must be another character"),
    ],
    ids=lambda value: ascii(value)[-20:] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("dry", [[], ["--dry-run", "--rows", "200"]], ids=["", "dry"])
def test_a_bad_option_is_one_line_and_leaves_nothing(folder, capsys, options, words, dry):
    before = everything(folder)
    if dry and "utf-16" in options:
        words = "its first line is not text in this encoding"  # which is all that is read
    assert words in one_line(capsys, release(folder, *options, *dry, out="new/parents/out"))
    assert everything(folder) == before


@pytest.mark.parametrize(
    "label", ['"a\\ud800"', '"\\udfff"', '["nested"]', "1e999", "true", "9" * 5000]
)
def test_a_domain_with_a_label_that_no_file_can_hold_is_refused(folder, capsys, label):
    text = (folder / "domain.json").read_text().replace('"M"', label)
    (folder / "domain.json").write_text(text)
    before = everything(folder)
    assert "domain.json: " in one_line(capsys, release(folder, "--epsilon", "1"))
    assert everything(folder) == before


@pytest.mark.parametrize("deep", ["[" * 10**5, '{"a":' * 10**5])
def test_a_deep_domain_is_refused(folder, capsys, deep):
    (folder / "domain.json").write_text(deep)
    assert "domain.json: " in one_line(capsys, release(folder, "--epsilon", "1"))


@pytest.mark.skipif(sys.platform != "linux", reason="file names are texts elsewhere")
def test_file_names_that_are_no_text_are_told_with_escapes(folder, capsys):
    table = os.fsdecode(b"table\xff.csv")
    (folder / "table.csv").rename(folder / table)
    out = os.fsdecode(b"out\xfe")
    assert release(folder, "--epsilon", "1", table=table, out=out) == 0
    assert "out\\udcfe" in capsys.readouterr().out
    written = json.loads((folder / out / "release.json").read_text("utf-8"))
    assert written["data"]["name"] == "table\\udcff.csv"
    assert "out\\udcfe" in (folder / out / "report.txt").read_text("utf-8")
    (folder / table).unlink()
    assert "table\\udcff.csv" in one_line(capsys, release(folder, "--epsilon", "1", table=table))


FAILURES = [
    OSError(errno.ENOSPC, "No space left on device"),
    RuntimeError("a row said 617"),
    MemoryError(),
    RecursionError(),
    UnicodeEncodeError("utf-8", "617", 0, 1, "a row"),
    KeyboardInterrupt(),
]

PLACES = [
    "dpsdk.cli.release.write_csv",
    "dpsdk.cli.release.summary_of",
    "dpsdk.cli.release.report_of",
    "dpsdk.cli.release.descriptions_of",
    "dpsdk.cli.release.mechanism_for",
    "dpsdk.session.Session.release",
    "dpsdk.cli.release.json.dumps",
]


THERE = ["nothing", "empty", "a release"]


@pytest.mark.parametrize(
    ("failure", "place", "there"),
    [
        (failure, place, THERE[(number + other) % 3])
        for number, failure in enumerate(FAILURES)
        for other, place in enumerate(PLACES)
    ],
)
def test_whatever_fails_all_is_as_before(folder, capsys, monkeypatch, failure, place, there):
    if there == "empty":
        (folder / "out").mkdir()
    if there == "a release":
        assert release(folder, "--epsilon", "2") == 0
        capsys.readouterr()
    before = everything(folder)

    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(place, fail)
    code = release(folder, "--epsilon", "1", "--force")
    text = one_line(capsys, code, 130 if isinstance(failure, KeyboardInterrupt) else 2)
    assert "617" not in text
    assert everything(folder) == before


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "I/O error"), KeyboardInterrupt()])
@pytest.mark.parametrize("late", [False, True], ids=["before the move", "after the move"])
@pytest.mark.parametrize("there", ["nothing", "empty", "a release"])
def test_a_move_that_fails_is_undone(folder, capsys, monkeypatch, failure, there, late):
    if there == "empty":
        (folder / "out").mkdir()
    if there == "a release":
        assert release(folder, "--epsilon", "2", "--marginals", "1") == 0
        (folder / "out" / "mine.txt").write_text("kept")
        capsys.readouterr()
    before, rename, failed = everything(folder), Path.rename, 0
    for moment in range(16):
        moves = 0

        def fail(source, target, moment=moment):
            nonlocal moves, failed
            moves += 1
            if moves == moment + 1 and not late:
                failed += 1
                raise failure
            result = rename(source, target)
            if moves == moment + 1:
                failed += 1
                raise failure
            return result

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", fail)
            code = release(folder, "--epsilon", "1", "--marginals", "1", "--force")
        if failed == moment:
            break
        capsys.readouterr()
        if there == "nothing" and late:
            # The one rename was done, so all is there.
            assert (folder / "out" / "release.json").exists()
            return
        assert code != 0
        assert everything(folder) == before
    assert code == 0
    assert failed == {"nothing": 1, "empty": 7, "a release": 14}[there]
    assert there != "a release" or (folder / "out" / "mine.txt").read_text() == "kept"


def test_a_new_release_takes_the_place_of_an_old_one_and_leaves_other_files(folder):
    assert release(folder, "--epsilon", "1") == 0
    (folder / "out" / "mine.txt").write_text("kept")
    old = (folder / "out" / "release.json").read_text()
    assert release(folder, "--epsilon", "3", "--force") == 0
    assert (folder / "out" / "release.json").read_text() != old
    names = {path.name for path in (folder / "out").iterdir()}
    described = {"metadata.json", "csv-metadata.json", "datapackage.json"}
    assert names == {"mine.txt", "1_age_sex.csv", "release.json", "report.txt", *described}


def test_a_directory_where_a_file_should_be_is_refused(folder, capsys):
    (folder / "out" / "1_age_sex.csv").mkdir(parents=True)
    (folder / "out" / "1_age_sex.csv" / "mine.txt").write_text("kept")
    before = everything(folder)
    assert "1_age_sex.csv" in one_line(capsys, release(folder, "--epsilon", "1", "--force"))
    assert everything(folder) == before


def test_a_file_where_the_directory_should_be_is_refused(folder, capsys):
    (folder / "out").write_text("kept")
    before = everything(folder)
    assert "--out must be a directory" in one_line(
        capsys, release(folder, "--epsilon", "1", "--force")
    )
    assert everything(folder) == before


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files mean less there")
def test_what_is_made_has_the_modes_of_other_files(folder):
    assert release(folder, "--epsilon", "1", out="a/b/out") == 0
    (folder / "usual").mkdir()
    (folder / "usual" / "file").touch()
    for made, usual in (("a/b/out", "usual"), ("a/b/out/release.json", "usual/file")):
        assert (folder / made).stat().st_mode == (folder / usual).stat().st_mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_is_one_line_and_leaves_nothing(folder, sent):
    os.mkfifo(folder / "pipe.csv")
    before = sorted(folder.rglob("*"))
    files = ["--domain", folder / "domain.json", "--out", folder / "out", "--epsilon", "1"]
    # A test run in the background may have been told to ignore interrupts, and would pass that on.
    told = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before_test = {number: signal.signal(number, handler) for number, handler in told.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsdk", "release", folder / "pipe.csv", *files],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    for number, handler in before_test.items():
        signal.signal(number, handler)
    with process:
        # Opens once the other side does: then the table is being read.
        with (folder / "pipe.csv").open("w") as pipe:
            pipe.write("age,sex\n")
            pipe.flush()
            process.send_signal(getattr(signal, sent))
        # The pipe ends after the signal was sent: an interrupt that came just before the process
        # waits for more would otherwise be noticed by nobody.
        out, err = process.communicate()
        assert process.returncode == 130
    assert (out, err) == (b"", b"dpsdk: interrupted\n")
    assert sorted(folder.rglob("*")) == before


LABELS = {
    "=1+1": "'=1+1",
    "+A1": "'+A1",
    "-A1": "'-A1",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t=1",
    "\r=2": "'\r=2",
    "\n=3": "'\n=3",
    "\uff1d1": "'\uff1d1",
    "'quoted": "''quoted",
    "-": "'-",
    "a;=1": "a;=1",
    "-5": "-5",
    "+1.5": "+1.5",
    "a=1": "a=1",
    "<=50K": "<=50K",
}


def test_labels_that_a_spreadsheet_would_run_are_quoted(folder):
    domain = Domain(Categorical("=name", list(LABELS)), Categorical("sex", ["F", "M"]))
    domain.save(folder / "domain.json")
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["=name", "sex"], *([label, "F"] for label in LABELS)])
    assert release(folder, "--epsilon", "1", "--marginals", "1") == 0
    with (folder / "out" / "1_name.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[0] == "'=name"
    assert [row[0] for row in rows] == list(LABELS.values())
    # Who drops one leading apostrophe has the label again.
    assert [re.sub("^'", "", row[0]) for row in rows] == list(LABELS)
    written = json.loads((folder / "out" / "release.json").read_text("utf-8"))
    assert Domain.from_json(json.dumps(written["data"]["domain"])) == domain
    assert "tab" in (ROOT / "docs/how-to/command-line.md").read_text("utf-8")


def test_tables_of_other_encodings_and_delimiters_are_read(folder):
    Domain(Integer("\u00e5r", 0, 9), Categorical("k\u00f6n", ["f", "m\u00e4n"])).save(
        folder / "domain.json"
    )
    labels = ("f", "m\u00e4n")
    rows = [f"{row % 10}{{}}{labels[row % 2]}" for row in range(200)]
    text = "\r\n".join(["\u00e5r{}k\u00f6n", *rows]) + "\r\n"
    for number, (encoding, delimiter, option) in enumerate(
        [
            ("cp1252", ";", ";"),
            ("utf-8", "\t", "tab"),
            ("utf-8-sig", "|", "|"),
            ("utf-16", ",", ","),
        ]
    ):
        (folder / "table.csv").write_bytes(text.replace("{}", delimiter).encode(encoding))
        options = ["--epsilon", "1", "--encoding", encoding, "--delimiter", option]
        assert release(folder, *options, out=f"out{number}") == 0
        written = json.loads((folder / f"out{number}" / "release.json").read_text("utf-8"))
        assert sum(written["tables"][0]["values"]) == pytest.approx(1, abs=0.5)


def test_texts_are_read_as_the_options_say(folder):
    Domain(Binned("paid", [0, 1000, 2000]), Boolean("member")).save(folder / "domain.json")
    given = ["--epsilon", "1000", "--marginals", "1", "--delimiter", ";"]
    for number, (line, options) in enumerate(
        [
            ("1.200,50;true", ["--decimal", ",", "--thousands", "."]),
            ("1 200,50;true", ["--decimal", ",", "--thousands", "space"]),
            ("1,200.50;true", ["--thousands", ","]),
            (" 1200.50 ; true", ["--strip"]),
        ]
    ):
        (folder / "table.csv").write_text("paid;member\n" + f"{line}\n" * 200, "utf-8")
        for told, expected in ((options, 1), ([], 0)):
            out = f"out{number}{expected}"
            assert release(folder, *given, *told, out=out) == 0
            tables = json.loads((folder / out / "release.json").read_text("utf-8"))["tables"]
            assert tables[0]["values"][1] == pytest.approx(expected, abs=0.1)
    (folder / "table.csv").write_text("paid ; member\n1;true\n", "utf-8")
    assert release(folder, *given, out="out") == 2
    assert release(folder, *given, "--strip", out="out") == 0


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_nothing_that_is_read_is_written_over(folder, capsys, force):
    for name, kept in (("metadata.json", "domain.json"), ("2_sex.csv", "table.csv")):
        (folder / "out").mkdir(exist_ok=True)
        (folder / kept).rename(folder / "out" / name)
        (folder / kept).symlink_to(folder / "out" / name)
        before = everything(folder)
        text = one_line(capsys, release(folder, "--epsilon", "1", "--marginals", "1", *force))
        assert ("which is read" if force else "come with --force") in text
        assert everything(folder) == before
        (folder / "out" / name).rename(folder / kept)


@pytest.mark.parametrize("out", [".", "inner", "../rows/inner"])
def test_no_tables_are_written_among_the_files_that_are_the_table(folder, capsys, out):
    (folder / "rows").mkdir()
    options = ["--epsilon", "1", "--force", "--format", "parquet", "--dry-run", "--rows", "9"]
    text = one_line(capsys, release(folder, *options, out=f"rows/{out}", table="rows"))
    assert "--out must be outside of the directory of the table" in text


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space"), KeyboardInterrupt()])
def test_who_fails_after_the_ledger_was_charged_says_so(folder, capsys, monkeypatch, failure):
    def fail(*_, **__):
        raise failure

    given = ["--epsilon", "1", "--name", "n", "--ledger", str(folder / "l.db")]
    arguments = ["--domain", str(folder / "domain.json"), "--out", str(folder / "out"), *given]
    words = "l.db was charged stays charged"
    for place, told in (("Session.release", False), ("summary_of", True)):
        with monkeypatch.context() as patched:
            patched.setattr(f"dpsdk.cli.release.{place}", fail)
            code = main(["release", str(folder / "table.csv"), *arguments])
        text = one_line(capsys, code, 130 if isinstance(failure, KeyboardInterrupt) else 2)
        assert (words in text) is told
        assert not (folder / "out").exists()


@pytest.mark.parametrize("option", ["--key", "--anchor", "--schema"])
def test_options_of_a_ledger_are_not_ignored_where_there_is_none(folder, capsys, option):
    text = one_line(capsys, release(folder, "--epsilon", "1", option, "x"))
    assert f"{option} must be given with --ledger" in text
    assert "--allow-network must be" in one_line(
        capsys, release(folder, "--epsilon", "1", "--allow-network")
    )


@pytest.mark.parametrize("there", ["nothing", "empty", "a release"])
@pytest.mark.parametrize("option", ["--ledger", "--anchor", "--about"])
def test_a_ledger_is_not_made_where_a_file_will_be_written(folder, capsys, option, there):
    if there == "empty":
        (folder / "out").mkdir()
    if there == "a release":
        assert release(folder, "--epsilon", "1") == 0
        capsys.readouterr()
    before = everything(folder)
    (folder / "link").symlink_to(folder / "out")
    for name in ("release.json", "report.txt", "1_age_sex.csv", "datapackage.json"):
        given = {"--ledger": str(folder / "l.db"), option: str(folder / "link" / name)}
        arguments = [word for pair in given.items() for word in pair]
        paths = ["--domain", str(folder / "domain.json"), "--out", str(folder / "out")]
        more = ["--epsilon", "1", "--name", "n", "--force"]
        code = main(["release", str(folder / "table.csv"), *paths, *more, *arguments])
        assert f"its {name!r}, which is read, would be written over" in one_line(capsys, code)
    (folder / "link").unlink()
    assert everything(folder) == before


@pytest.mark.parametrize("out", ["file", "file/new", "file/new/out", "nowhere", "loop"])
@pytest.mark.parametrize("dry", [[], ["--dry-run", "--rows", "9"]], ids=["", "dry"])
def test_a_place_that_can_be_no_directory_is_refused_before_anything_is_paid(
    folder, capsys, out, dry
):
    (folder / "file").write_text("kept")
    (folder / "nowhere").symlink_to(folder / "none")
    (folder / "loop").symlink_to(folder / "loop")
    text = one_line(capsys, release(folder, "--epsilon", "1", "--force", *dry, out=out))
    assert "--out must be a directory, or the name of a new one in a directory" in text
    assert (folder / "file").read_text() == "kept"
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--beta", "1e400"], "--beta must be a number strictly between 0 and 1; got 1e400"),
        (["--beta", "1e-400"], "--beta must be a number strictly between 0 and 1; got 1e-400"),
        (["--beta", "0.99999999999999999999"], "--beta must be a number strictly between 0 and 1"),
        (["--unit", "", "--max-rows-per-person", "2"], "--unit must be a non-empty text"),
        (["--ledger", "l", "--name", "n", "--cap", "0.5"], "at most --cap, 0.5; got 1"),
        (
            ["--ledger", "l", "--name", "n", "--cap", "1", "--cap-delta", "0", "--delta", "1e-9"],
            "--delta must be at most --cap-delta, 0; got 1e-9",
        ),
    ],
)
def test_numbers_are_named_as_they_were_given(folder, capsys, options, words):
    assert words in one_line(capsys, release(folder, "--epsilon", "1", "--counts", *options))


def test_a_file_that_cannot_be_made_is_named_as_it_was_given(folder, capsys):
    before = everything(folder)
    for out in ("none/new", "table.csv/new", "domain.json"):
        path = str(folder / out)
        text = one_line(capsys, main(["domain", "--boolean", "member", "--out", path]))
        assert ".part" not in text
        assert path in text or "one that exists" in text
    assert everything(folder) == before
