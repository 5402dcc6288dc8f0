"""What whoever publishes tables says of them in a file, for the files that describe them."""

import json
from datetime import date
from pathlib import Path

import pytest
from attrs import fields

from dpsdk import Boolean, Domain, Integer
from dpsdk.__main__ import main
from dpsdk.cli.about import about_of
from dpsdk.publication import About
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

ABOUT = """
name = "Members by age"
description = "Who is a member, of those who were asked."
curators = ["Bureau of Examples", "Office of Others"]
authors = ["A. Author"]
intended_use = "Planning of clubs."
region = "Ruritania"
sector = "Government"
published = 2026-07-01
license = "https://creativecommons.org/licenses/by/4.0/"

[details]
"deployment_model.release_type" = "One release"
deployment_model.actors = "The bureau has the table."
"""

SAID = {
    "name": "Members by age",
    "description": "Who is a member, of those who were asked.",
    "curators": "Office of Others",
    "authors": "A. Author",
    "intended_use": "Planning of clubs.",
    "region": "Ruritania",
    "sector": "Government",
    "published": "2026-07-01",
    "license": "https://creativecommons.org/licenses/by/4.0/",
    "details": "The bureau has the table.",
}

ELSEWHERE = {"intended_use", "region", "sector", "details"}
"""Fields that only the registry has a place for; it has none for a licence."""


@pytest.fixture
def folder(quick_disk):
    (quick_disk / "table.csv").write_text("age,member\n" + "1,true\n2,false\n" * 90)
    Domain(Integer("age", 0, 9), Boolean("member")).save(quick_disk / "domain.json")
    return quick_disk


def release(folder, *options, private=False):
    given = ["--domain", str(folder / "domain.json"), "--out", str(folder / "out")]
    arguments = ["release", str(folder / "table.csv"), *given, "--epsilon", "1", *options]
    return main(arguments, noise=None if private else seeded(7))


def written(folder, text):
    path = folder / "about.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def everything(folder):
    paths = sorted(folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_field_reaches_every_description_that_has_a_place_for_it(folder, capsys, kind):
    assert {field.name for field in fields(About)} == set(SAID)
    assert release(folder, "--about", written(folder, ABOUT), "--format", kind) == 0
    out = folder / "out"
    expected = {
        "metadata.json": set(SAID) - {"license"},
        "datapackage.json": set(SAID) - ELSEWHERE,
        "csv-metadata.json": set(SAID) - ELSEWHERE,
    }
    if kind == "parquet":
        del expected["csv-metadata.json"]
    for name, told in expected.items():
        text = (out / name).read_text("utf-8")
        assert {field for field, words in SAID.items() if words in text} == told, name
    left = json.loads((out / "release.json").read_text())["left_out"]
    assert left.pop("metadata.json")
    assert not any(left.values())
    report = capsys.readouterr().out
    assert "Fields left for you to fill in, as by --about: " in report
    assert "csv-metadata.json" not in report.partition("Fields left")[2]


@pytest.mark.parametrize(
    ("given", "unit"), [([], "shares of the rows"), (["--counts"], "numbers of rows")]
)
def test_every_description_of_the_tables_says_what_their_numbers_are(folder, given, unit):
    assert release(folder, *given) == 0
    for name in ("metadata.json", "datapackage.json", "csv-metadata.json"):
        assert f"Values and errors are {unit}." in (folder / "out" / name).read_text("utf-8")


def test_a_dry_run_says_what_is_said_and_what_is_not(folder, capsys):
    given = ["--dry-run", "--rows", "180", "--about"]
    assert release(folder, *given, written(folder, ABOUT)) == 0
    said = capsys.readouterr().out
    assert f"about.toml says {', '.join(SAID)}.\n" in said
    assert release(folder, *given, written(folder, 'license = "CC0"\n')) == 0
    said = capsys.readouterr().out
    assert "about.toml says license; it leaves out name, description, curators," in said
    assert release(folder, *given, written(folder, "")) == 0
    assert "about.toml says nothing; it leaves out name" in capsys.readouterr().out


def test_the_name_of_a_table_is_what_it_is_called_unless_the_file_has_one(folder):
    path = Path(written(folder, "\ufeffregion = 'X'\r\n"))
    assert about_of(path, "people") == About(name="people", region="X")
    assert about_of(None, "people") == About(name="people")
    assert about_of(None, None) == About()
    path = Path(written(folder, ABOUT))
    found = about_of(path, "people")
    assert found.name == "Members by age"
    assert found.published == date(2026, 7, 1)
    assert found.details == {
        "deployment_model.release_type": "One release",
        "deployment_model.actors": "The bureau has the table.",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 3", "name in {file} must be a non-empty text; got 3"),
        ("description = ''", "description in {file} must be a non-empty text"),
        ("curators = 'Bureau'", "curators in {file} must be a sequence of texts; got 'Bureau'"),
        ("authors = ['A', 2]", "authors in {file} must be a non-empty text; got 2"),
        ("intended_use = true", "intended_use in {file} must be"),
        ("region = ['X']", "region in {file} must be"),
        ("sector = 'Farming'", "sector in {file} must be one of Technology, Healthcare"),
        ("published = '2026-07-01'", "published in {file} must be a date without quotes"),
        ("published = 2026-07-01T12:00:00", "published in {file} must be a date, without a time"),
        ("published = 2026", "published in {file} must be a date"),
        ("license = []", "license in {file} must be"),
        ("details = 'x'", "details in {file} must be a mapping"),
        ("[details]\nx = 'y'", "details in {file} must be texts for fields of the registry"),
        ("[details]\n'basic.name' = 'y'", "details in {file} must be fields without a parameter"),
        ("[details]\n'administrative.notes' = 2", "in {file} must be a non-empty text; got 2"),
        ("[details]\ndeployment_model.access_type = 'x'", "must be one of Interactive"),
        (
            "[details]\n'administrative.notes' = 'x'\nadministrative.notes = 'y'",
            "details in {file} must be given once each; got 'administrative.notes' twice",
        ),
        ("licence = 'CC0'", "each field in {file} must be one of name, description, "),
        ("[about]\nname = 'x'", "each field in {file} must be one of name"),
        ("name", "--about must be a file of TOML; got {file}: "),
        ('{"name": "x"}', "--about must be a file of TOML; got {file}: "),
        ("name = 'x'\nname = 'y'", "--about must be a file of TOML; got {file}: "),
        ("name = " + "[" * 10**4, "--about must be a file of TOML"),
        (b"name = '\xff'", "--about must be a text in utf-8; got {file}"),
        ("name = 'x'".encode("utf-16"), "--about must be a text in utf-8; got {file}"),
        (b"#" * (2**16 + 1), "--about must be a file of at most 65,536 bytes; got {file}"),
        ("region = " + "9" * 5000, "without numbers of thousands of digits; got {file}"),
        ("[details]\n" + ".".join("a" * 500) + " = 'x'", "must be tables at most 8 deep; got "),
        (f"[{'a' * 9000}]\n[{'a' * 9000}]", "TOML; got {file}: Cannot declare ('aaaa"),
        ("published = 2026-07-01T12:00:00Z", "day; got 2026-07-01T12:00:00+00:00\n"),
        ("published = 12:30:00", "published in {file} must be a date, without a time of the day"),
        ("name = 2026-07-01", "name in {file} must be a text, in quotes; got 2026-07-01\n"),
        ("authors = [12:30:00]", "authors in {file} must be a text, in quotes; got 12:30:00\n"),
        (
            "details.administrative.notes = 2026-07-01",
            "details['administrative.notes'] in {file} must be a text, in quotes; got 2026-07-01\n",
        ),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run", "--rows", "180"]], ids=["", "dry"])
def test_a_file_that_is_wrong_is_refused_before_anything_is_paid(folder, capsys, text, words, dry):
    path = written(folder, text)
    before = everything(folder)
    ledger = ["--ledger", str(folder / "l.db"), "--name", "n"]
    assert release(folder, "--about", path, *dry, *ledger, private=True) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words.replace("{file}", path) in printed.err
    assert len(printed.err) < 1200
    assert everything(folder) == before


def test_a_file_that_is_not_there_or_would_be_written_over_is_refused(folder, capsys):
    assert release(folder, "--about", str(folder / "none.toml")) == 2
    assert "none.toml: No such file" in capsys.readouterr().err
    assert release(folder, "--about", str(folder)) == 2
    (folder / "out").mkdir()
    path = folder / "out" / "metadata.json"
    path.write_text("name = 'x'")
    assert release(folder, "--about", str(path), "--force") == 2
    assert "'metadata.json', which is read, would be written over" in capsys.readouterr().err
    assert path.read_text() == "name = 'x'"
