"""Who spent it, for what request, and when: written with each charge, and decided by in nothing."""

import json
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest

from dpsdk.accounting import Budget, Charge, MemoryLedger, Odometer, PureGuarantee
from dpsdk.accounting.ledger.base import ledger_of
from dpsdk.accounting.ledger.charge import charge_of, written
from dpsdk.accounting.ledger.sqlite import SQLiteLedger
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.accounting.spent import Asked
from dpsdk.codec import renewed
from dpsdk.errors import RecordError

TENTH = PureGuarantee("0.1")
NOON = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, quick_disk):
    if request.param == "memory":
        return MemoryLedger()
    return SQLiteLedger(quick_disk / "spent.db")


def charges(ledger):
    return tuple(ledger_of(ledger, "").charges())


def opened(ledger, *says):
    def saying():
        yield from says
        while True:
            yield says[-1]

    said = saying()

    def clock():
        now = next(said)
        if isinstance(now, Exception):
            raise now
        return now

    return Odometer(Budget(1), ledger=ledger, clock=clock)


def test_a_charge_says_which_scope_paid_for_which_request_and_when(ledger):
    odometer = opened(ledger, NOON)
    scope = ScopeOdometer(odometer, "weekly", "0.5")
    odometer.charge(TENTH, "a")
    scope.charge(TENTH, Asked("b", "m", 1, "another's word", "a7"))
    scope.charge_all((TENTH, TENTH), "c", request_id="a8")
    told = [(one.scope, one.request_id, one.at) for one in charges(ledger)]
    assert told == [
        ("", "", NOON),
        ("weekly", "a7", NOON),
        ("weekly", "a8", NOON),
        ("weekly", "a8", NOON),
    ]
    assert (odometer.scope, scope.scope) == ("", "weekly")


def test_a_clock_that_jumps_changes_nothing_but_what_is_written(ledger):
    back, far = NOON - timedelta(days=4000), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    odometer = opened(ledger, NOON, back, far, NOON)
    numbers = [odometer.charge(TENTH, "a") for _ in range(4)]
    assert numbers == [1, 2, 3, 4]
    assert [one.at for one in charges(ledger)] == [NOON, back, far, NOON]
    assert odometer.spent.epsilon == PureGuarantee("0.4").epsilon


def test_a_clock_that_fails_leaves_a_charge_without_a_date(ledger):
    naive = datetime(2026, 3, 1, 12)  # of which nobody knows the zone
    edge = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
    odometer = opened(ledger, OSError("no clock"), OverflowError(), naive, edge, None, NOON)
    for _ in range(6):
        odometer.charge(TENTH, "a")
    assert [one.at for one in charges(ledger)] == [None] * 5 + [NOON]


def test_moments_are_kept_in_utc(ledger):
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    opened(ledger, there).charge(TENTH, "a")
    (charge,) = charges(ledger)
    assert charge.at == NOON
    assert charge.at is not None
    assert charge.at.utcoffset() == timedelta(0)


def test_by_default_the_time_is_that_of_the_system(ledger):
    before = datetime.now(UTC)
    Odometer(Budget(1), ledger=ledger).charge(TENTH, "a")
    (charge,) = charges(ledger)
    assert charge.at is not None
    # The clock of the machine may be set while tests run; not by years.
    assert abs(charge.at - before) < timedelta(days=365)


# Never edit this: what was written once keeps its meaning.
FIRST = {
    "tag": "charge.1",
    "number": "1",
    "label": "Count()",
    "guarantee": {"tag": "guarantee.pure.1", "epsilon": "1/10"},
    "mechanism": "Laplace(epsilon=0.1)",
    "question": "1",
    "session": "1",
    "payer": {"tag": "payer.1", "accounts": [], "generation": "0", "part": []},
    "request_id": "a7",
}


def test_charges_of_ledgers_that_did_not_say_are_still_read():
    charge = Charge.from_record(FIRST)
    assert charge == Charge(1, "Count()", TENTH, "Laplace(epsilon=0.1)", 1, request_id="a7")
    again = charge.to_record()
    assert again == {**renewed(FIRST), "scope": "", "at": None}
    assert Charge.from_record(again) == charge
    for wrong in ({**FIRST, "scope": ""}, {**again, "tag": "charge.1"}):
        with pytest.raises(RecordError):
            Charge.from_record(wrong)


def test_a_file_that_did_not_say_goes_on(quick_disk, monkeypatch):
    path = quick_disk / "spent.db"

    def first_form(charge):
        return {**FIRST, "number": str(charge.number), "request_id": charge.request_id}

    with monkeypatch.context() as patch:
        patch.setattr("dpsdk.accounting.ledger.charge._plain", first_form)
        Odometer(Budget(1), ledger=SQLiteLedger(path)).charge(TENTH, "a", request_id="a7")
    ledger = SQLiteLedger(path)
    opened(ledger, NOON).charge(TENTH, "b")
    assert [(one.scope, one.at) for one in charges(ledger)] == [("", None), ("", NOON)]
    assert ledger.verify() == 4


@pytest.mark.parametrize(
    "moment",
    [
        *("", "2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000250+00:00"),
        *("2026-02-30T12:00:00.000250Z", "2026-03-01T12:00:60.000250Z", "noon"),
        *("2026-03-01T12:00:00.000250z", "٢٠٢٦-03-01T12:00:00.000250Z"),
        *("0000-03-01T12:00:00.000250Z", " 2026-03-01T12:00:00.000250Z"),
        *("2026-03-01T12:00:00.000250Z\n", "2026-03-01T12:00:00,000250Z"),
    ],
)
def test_a_moment_has_one_spelling(moment):
    record = Charge(1, "a", TENTH, at=NOON).to_record()
    assert record["at"] == "2026-03-01T12:00:00.000250Z"
    with pytest.raises(RecordError):
        Charge.from_record({**record, "at": moment})


def test_early_and_late_moments_are_read_back():
    for year in (1, 9999):
        charge = Charge(1, "a", TENTH, at=NOON.replace(year=year))
        assert Charge.from_record(charge.to_record()) == charge
    with pytest.raises(RecordError, match="time zone"):
        Charge(1, "a", TENTH, at=NOON.replace(tzinfo=None)).to_record()


class Nowhere(tzinfo):
    """A time zone that does not say which one it is."""

    def utcoffset(self, dt):
        return None


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=14))),
        datetime(2026, 1, 1),  # without a zone
        datetime(2026, 1, 1, tzinfo=Nowhere()),
        "2026-01-01T00:00:00.000000Z",
    ],
)
def test_what_is_no_moment_in_utc_is_not_written_and_no_clock_says_it(moment):
    charge = Charge(1, "x", PureGuarantee(1), at=moment)
    with pytest.raises(RecordError, match="at"):
        charge.to_record()
    odometer = Odometer(Budget(1), clock=lambda: moment)
    odometer.charge(PureGuarantee("0.1"), "x")
    assert odometer.charges[0].at is None


@pytest.mark.parametrize("wrong", [True, 1.0, -1, "1", None, [1]])
@pytest.mark.parametrize("member", ["number", "question", "session", "label", "scope", "at"])
def test_a_charge_is_read_as_strictly_where_it_is_read_sooner(member, wrong):
    record = json.loads(written([Charge(1, "a", TENTH, "m", 1, at=NOON)]))[0]
    assert charge_of(record) == Charge.from_record(record)
    changed = {**record, member: wrong}
    try:
        expected = Charge.from_record(changed)
    except RecordError:
        with pytest.raises(RecordError):
            charge_of(changed)
    else:
        assert charge_of(changed) == expected
        assert type(getattr(charge_of(changed), member)) is type(getattr(expected, member))
