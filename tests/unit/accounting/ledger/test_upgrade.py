"""Ledgers that dpsdk 0.1.0 wrote: found as they were, upgraded in one transaction, and continued.

tests/golden/ledgers has the files, and beside each what that version read from it.
"""

import gzip
import json
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from dpsdk import Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import Budget, Dataset, FileAnchor, Odometer, PureGuarantee, SQLiteLedger
from dpsdk.accounting.ledger import file as files
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.codec import renewed
from dpsdk.errors import AlreadyCharged, Closed, LedgerDamaged, LedgerUnavailable
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Count, Marginal

GOLDEN = Path(__file__).parents[3] / "golden" / "ledgers"
KEY = b"a key of thirty-two random bytes"
KEYS = {"sessions": KEY, "partitions": None, "long": KEY}
HUNDREDTH = PureGuarantee("0.01")


def facts(name):
    return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))


@pytest.fixture
def restore(quick_disk):
    def made(name):
        path = quick_disk / f"{name}.db"
        path.write_bytes(gzip.decompress((GOLDEN / f"{name}.db.gz").read_bytes()))
        return path

    return made


def version_of(path):
    connection = sqlite3.connect(path)
    ((version,),) = connection.execute("PRAGMA user_version")
    connection.close()
    return version


@pytest.mark.parametrize("name", KEYS)
def test_what_an_older_version_wrote_is_found_as_it_was(restore, name):
    path, known = restore(name), facts(name)
    ledger = SQLiteLedger(path, key=KEYS[name])
    assert version_of(path) == 3
    assert list(ledger.datasets) == sorted(known["tables"])
    for table, expected in known["tables"].items():
        own = ledger.dataset(table)
        assert own.read().to_record() == renewed(expected["books"])
        assert [charge.to_record() for charge in own.charges()] == list(
            map(renewed, expected["charges"])
        )
        for request, answer in expected["answers"].items():
            stored = own.stored(request)
            assert (None if stored is None else stored.decode("latin-1")) == answer
    entries = known["entries"] + len(known["tables"])
    assert ledger.verify() == SQLiteLedger(path, key=KEYS[name]).verify() == entries


def test_sessions_go_on_with_their_requests_scopes_and_anchor(restore):
    path = restore("sessions")
    put = Path(shutil.copy(GOLDEN / "sessions.anchor", path.with_name("anchor")))
    ledger = SQLiteLedger(path, key=KEY, anchor=FileAnchor(put))
    domain = Domain(Integer("age", 17, 90), Categorical("sex", ["Female", "Male"]))
    columns = {"age": [39, 50, 38, 20], "sex": ["Male", "Male", "Female", "Female"]}
    data = PrivateData.from_columns(columns, domain, name="adults")
    session = Session(data, Budget(1, "1e-6"), ledger=ledger)
    before = session.spent
    lap, gau = Laplace(epsilon="0.05"), Gaussian(rho="0.001")
    first = session.release(Count(normalized=False), using=lap, request_id="count")
    again = session.release(Count(normalized=False), using=lap, request_id="count")
    assert first.value == again.value
    session.release(Marginal("sex"), using=gau, request_id="sexes")
    assert session.spent == before
    weekly = session.scope("weekly", "0.2", reserve=True)
    assert weekly.spent.charges == 1
    weekly.release(Count(), using=lap, request_id="weekly count")
    assert session.spent == before
    weekly.release(Count(), using=lap, request_id="another")
    assert session.spent.charges == before.charges + 1
    other = PrivateData.from_columns(
        {"age": [20, 21]},
        Domain(Integer("age", 17, 90)),
        name="ötherś",
        neighbors=Neighbors.ADD_REMOVE,
    )
    assert Session(other, Budget(2), ledger=ledger).spent.epsilon == Fraction(1, 20)
    found = FileAnchor(put).get()
    assert found[0] == ledger.verify()
    put.write_text("dpsdk.anchor.1 999 " + "0" * 64 + "\n")
    with pytest.raises(LedgerDamaged, match="anchor"):
        SQLiteLedger(path, key=KEY, anchor=FileAnchor(put))


@pytest.mark.parametrize("moves", [True, False])
def test_a_partition_that_was_open_is_over_for_its_parts_and_keeps_what_they_spent(restore, moves):
    ledger = SQLiteLedger(restore("partitions"))
    dataset = Dataset("moving" if moves else "apart")
    odometer = Odometer(Budget(1, "1e-6"), ledger=ledger, dataset=dataset)
    spent = odometer.spent
    assert ScopeOdometer(odometer, "kept", "0.25", reserve=True).spent.charges == 0
    generation = odometer.generation()
    odometer.divide(generation, 5, moves=moves)
    part = PartOdometer(odometer, "part 1", generation, 1)
    part.charge(HUNDREDTH, "x")
    assert odometer.spent.charges == spent.charges + 1
    odometer.merge(generation)
    with pytest.raises(Closed):
        part.charge(HUNDREDTH, "late")
    assert odometer.spent.rho > spent.rho
    merged = Odometer(Budget(1, "1e-6"), ledger=ledger, dataset=Dataset("merged"))
    with pytest.raises(AlreadyCharged):
        merged.charge(HUNDREDTH, "x", request_id="two")
    ledger.verify()


def test_a_long_one_goes_on_from_its_checkpoint_to_the_next(restore):
    path = restore("long")
    odometer = Odometer(Budget(1), ledger=SQLiteLedger(path, key=KEY), dataset=Dataset("long"))
    for _ in range(240):
        odometer.charge(PureGuarantee("0.001"), "y")
    assert odometer.spent.epsilon == Fraction(52, 100)
    ledger = SQLiteLedger(path, key=KEY)
    assert ledger.verify() == 282 + 1 + 1 + 240 + 1
    assert [one.number for one in ledger.charges()] == list(range(1, 521))


def test_who_does_not_know_the_key_upgrades_nothing(restore):
    path = restore("sessions")
    before = path.read_bytes()
    for key in (None, KEY[::-1]):
        with pytest.raises(LedgerDamaged):
            SQLiteLedger(path, key=key)
    assert path.read_bytes() == before


EDITS = {
    "books": 'UPDATE books SET record = replace(record, \'"runs":"5"\', \'"runs":"4"\')',
    "no books": "DELETE FROM books WHERE dataset = 'apart'",
    "more books": "INSERT INTO books VALUES ('six', '{}')",
    "more tables": "CREATE TABLE mine (x)",
    "both": "CREATE TABLE state (dataset TEXT)",
}


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_what_was_edited_is_not_upgraded(restore, statement):
    path = restore("partitions")
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerDamaged):
        SQLiteLedger(path)
    assert version_of(path) == 2


@pytest.mark.parametrize("step", ["convert", "_append", "_commit"])
def test_an_upgrade_that_fails_leaves_the_older_ledger(restore, monkeypatch, step):
    path = restore("partitions")

    def fail(*_):
        raise LedgerUnavailable("x", "it broke")

    with monkeypatch.context() as patch:
        patch.setattr(files.FileWork, step, fail)
        with pytest.raises(LedgerUnavailable):
            SQLiteLedger(path)
    assert version_of(path) == 2
    assert SQLiteLedger(path).verify() == facts("partitions")["entries"] + 3


def test_a_file_that_becomes_an_older_one_while_it_is_open_is_no_ledger(restore, quick_disk):
    path = quick_disk / "spent.db"
    odometer = Odometer(Budget(1), ledger=SQLiteLedger(path), dataset=Dataset("t"))
    restore("partitions").replace(path)
    with pytest.raises(LedgerDamaged):
        odometer.charge(HUNDREDTH, "x")
