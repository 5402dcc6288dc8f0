"""What 0.1.0 wrote is read with the same meaning. `generate.py` made the files with that version.

Its ledgers without stored answers are read by tests/unit/accounting/ledger/test_upgrade.py.
"""

from __future__ import annotations

import csv
import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import generate
import pytest

from dpsdk import Domain, wire
from dpsdk.accounting import SQLiteLedger
from dpsdk.errors import BudgetExceeded
from dpsdk.hypothesis import Distribution, Hypothesis
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.testing import seeded
from written import CATALOGUE, VALUES

HERE = Path(__file__).parent


def unpacked(name: str) -> Any:
    return json.loads(gzip.decompress((HERE / name).read_bytes()))


WIRE = unpacked("wire.json.gz")
RELEASES = unpacked("releases.json.gz")


@pytest.mark.parametrize("number", range(len(WIRE)))
def test_a_written_value_is_the_value_that_it_was(number):
    found = wire.loads(object, WIRE[number], allow=CATALOGUE)
    assert found in [value for value in VALUES if type(value) is type(found)]


@pytest.mark.parametrize("name", RELEASES)
def test_a_written_release_says_what_it_said(name):
    told = RELEASES[name]
    record = wire.loads("release", told["wire"])
    assert record.source == told["source"]
    assert record.epsilon == (told["epsilon"] and Fraction(told["epsilon"]))
    assert record.rho == Fraction(told["rho"])
    assert json.loads(wire.dumps(record)).keys() == json.loads(told["wire"]).keys()


NOTE = 'only rows with declared values of all 3 attributes count; outside="apart" keeps the others'
"""What is told of all these releases now, and was told of none by 0.1.0, which had no notes."""

PREDICTED = {"model": (0.5, 0.5), "corrected": (0, 1)}
"""The middle and the half of what a model predicts: a label from 0 to 1, and a margin.

Coefficients are in the units of the data now, and were of numbers from -1 to 1.
"""


def without_the_note(kind: str, described: Any) -> Any:
    """Take the note out of its one place in a description."""
    if kind == "registry":
        held = described["deployment"]["administrative"]
        assert held["notes"].endswith(f" Note: {NOTE}.")
        held["notes"] = held["notes"].removesuffix(f" Note: {NOTE}.")
    else:
        of = described["notes"][0] if kind == "csvw" else described
        assert of["privacy"].pop("notes") == [NOTE]
    return described


def figures(plain: Any) -> Any:
    """Leave out sentences, which may be put better, and the digest of all that a release says."""
    if isinstance(plain, dict):
        if "base" in plain:  # in 0.1.0 what described a table had no list of its labels
            return plain["base"]
        kept = plain.keys() - {"release_digest"}
        return {name: figures(plain[name]) for name in kept}
    if isinstance(plain, list):
        return [figures(value) for value in plain]
    return "words" if isinstance(plain, str) and " " in plain else plain


def coefficients(table: str) -> dict[str, float]:
    head, *rows = csv.reader(table.splitlines())
    assert head == ["coefficient", "value"]
    return {name: float(value) for name, value in rows}


def in_units(told: dict[str, float], middle: float, half: float) -> dict[str, float]:
    """Coefficients of 0.1.0 in the units of the data: ages go from 0 to 9."""
    intercept = told["intercept"] - told["age"]
    units = {**told, "age": told["age"] / 4.5, "intercept": intercept}
    moved = {name: half * value for name, value in units.items()}
    return {**moved, "intercept": middle + moved["intercept"]}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RELEASES)
def test_the_same_release_is_made_and_described_alike(name):
    told = RELEASES[name]
    query, using = {**generate.ONE_SHOT, **generate.OPENED}[name]
    session = generate.session(noise=seeded(7))
    how = using if name in generate.ONE_SHOT else session.open(using)
    release = session.release(query, using=how)
    metadata = release.metadata(0.1)
    assert generate.facts(release) == {key: told[key] for key in generate.facts(release)}
    tables = [table.to_csv() for table in metadata.tables]
    if name in PREDICTED:
        (now,), (before,) = map(coefficients, tables), map(coefficients, told["csv"])
        assert list(now) == list(before)
        assert now == pytest.approx(in_units(before, *PREDICTED[name]), rel=1e-12)
    else:
        assert tables == told["csv"]
    for kind in ("registry", "csvw", "datapackage"):
        described = json.loads(getattr(metadata, f"to_{kind}")().to_json())
        assert figures(without_the_note(kind, described)) == figures(json.loads(told[kind]))


def test_stored_answers_are_given_again_and_the_ledger_goes_on(quick_disk):
    told = json.loads((HERE / "reused.json").read_text())
    path = quick_disk / "reused.db"
    path.write_bytes(gzip.decompress((HERE / "reused.db.gz").read_bytes()))
    session = generate.session(ledger=SQLiteLedger(path, key=generate.KEY), reuse=True)
    spent = session.spent
    assert (spent.charges, spent.rho) == (told["spent"]["charges"], Fraction(told["spent"]["rho"]))
    for name, (query, using) in generate.ONE_SHOT.items():
        release = session.release(query, using=using, request_id=name)
        assert generate.facts(release)["value"] == told[name]["value"]
        # Of some bounds 0.1.0 keeps no more than that there was one.
        assert generate.facts(release)["error"] in (told[name]["error"], "inf")
    assert session.spent.charges == spent.charges
    assert session.release(Count({"sex": "M"}), using=Laplace("0.1")).reused
    assert session.spent.charges == spent.charges
    session.release(Count(), using=Laplace("0.01"))
    assert session.spent.charges == spent.charges + 1
    with pytest.raises(BudgetExceeded):
        session.release(Count(), using=Laplace(10_000))
    SQLiteLedger(path, key=generate.KEY).verify()


@pytest.mark.parametrize(("number", "domain"), list(enumerate(generate.domains())))
def test_a_domain_is_the_domain_that_it_was(number, domain):
    assert Domain.load(HERE / f"domain-{number}.json") == domain


@pytest.mark.parametrize("name", json.loads((HERE / "distributions.json").read_text()))
def test_a_distribution_answers_as_it_did(name):
    told = json.loads((HERE / "distributions.json").read_text())[name]
    distribution = Distribution.load(HERE / f"{name}.distribution")
    answers = distribution.answers(generate.asked_of(distribution).lower(distribution.domain))
    assert answers == pytest.approx([float(one) for one in told], rel=1e-12, abs=1e-15)
    assert isinstance(distribution, Hypothesis) == (name not in ("synthetic", "small"))
