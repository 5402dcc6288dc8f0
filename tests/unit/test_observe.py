"""Observers of the package: several as one, and one that writes to `logging`."""

import logging
import sys

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, PureGuarantee
from dpsdk.errors import BudgetExceeded, InvalidArgument, MissingExtra
from dpsdk.mechanisms import Laplace
from dpsdk.observe import (
    Answered,
    Charged,
    LoggingObserver,
    Observers,
    Opened,
    OpenTelemetryObserver,
    Progress,
    Refused,
)
from dpsdk.queries import Count
from dpsdk.testing import seeded

TENTH = PureGuarantee("0.1")
EVENTS = [
    Opened("Laplace(epsilon=0.1)", scope="weekly"),
    Charged(7, "Count()", "Laplace(epsilon=0.1)", TENTH, scope="weekly", request_id="a 7"),
    Refused("Count()", "Laplace(epsilon=0.1)", TENTH),
    Answered("Count({'sex': 'a\nb'})", "m", reused=True),
    Progress("q", "m", 3, None, "rounds"),
]


@pytest.fixture
def logger():
    made = logging.Logger("test", logging.DEBUG)  # noqa: LOG001  # of this test alone
    made.records = []
    handler = logging.Handler()
    handler.emit = made.records.append
    made.addHandler(handler)
    return made


def test_each_event_is_a_record_with_its_fields(logger):
    observer = LoggingObserver(logger)
    for event in EVENTS:
        observer(event)
    levels = [record.levelname for record in logger.records]
    assert levels == ["INFO", "INFO", "WARNING", "INFO", "DEBUG"]
    charged = logger.records[1]
    found = {name: one for name, one in vars(charged).items() if name.startswith("dpsdk_")}
    assert found == {
        "dpsdk_event": "charged",
        "dpsdk_number": 7,
        "dpsdk_query": "Count()",
        "dpsdk_mechanism": "Laplace(epsilon=0.1)",
        "dpsdk_guarantee": "0.1-DP",
        "dpsdk_scope": "weekly",
        "dpsdk_request_id": "a 7",
    }
    assert "number=7" in charged.getMessage()
    assert "request_id='a 7'" in charged.getMessage()
    assert not any("\n" in record.getMessage() for record in logger.records)
    assert logger.records[3].dpsdk_reused is True


def test_what_a_log_cannot_hold_is_written_all_the_same(logger, tmp_path):
    handler = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s %(dpsdk_mechanism)s"))
    logger.addHandler(handler)
    LoggingObserver(logger)(Opened("half \ud800 of a pair", scope="naïve"))
    handler.close()
    text = (tmp_path / "log").read_text("utf-8")
    assert "half" in text
    assert logger.records[0].dpsdk_scope == "naïve"


def test_a_session_logs_costs_and_no_answer(logger):
    domain = Domain(Integer("age", 0, 9))
    data = PrivateData.from_columns({"age": [1, 2, 3] * 1234}, domain)
    session = Session(
        data, Budget(1), composition=BasicComposition(), noise=seeded(3),
        observer=LoggingObserver(logger),
    )  # fmt: skip
    answer = session.answer(Count(normalized=False), using=Laplace("0.1"), request_id="a7")
    with pytest.raises(BudgetExceeded):
        session.answer(Count(normalized=False), using=Laplace(5))
    text = "\n".join(str(vars(record)) for record in logger.records)
    kinds = [record.getMessage().split()[0] for record in logger.records]
    assert kinds == ["opened", "charged", "answered", "opened", "refused"]
    assert str(round(answer)) not in text
    assert all(hasattr(record, "dpsdk_at") for record in logger.records)


def test_a_logger_that_fails_keeps_nothing_from_anybody(logger):
    def broken(record):
        raise OSError

    logger.addFilter(broken)
    for event in EVENTS:
        LoggingObserver(logger)(event)
    quiet = logging.Logger("quiet", logging.ERROR)  # noqa: LOG001  # the same
    LoggingObserver(quiet)(EVENTS[0])
    for wrong in ("dpsdk", logging, 3, print, logging.LoggerAdapter(quiet, {})):
        with pytest.raises(InvalidArgument, match="logger"):
            LoggingObserver(wrong)  # type: ignore[arg-type]  # what is refused
    assert "dpsdk" in repr(LoggingObserver())


def test_several_observers_are_told_in_order_whatever_one_of_them_does():
    told = []

    def angry(event):
        told.append(("angry", event))
        raise ValueError("first")

    def angrier(event):
        told.append(("angrier", event))
        raise TypeError("second")

    both = Observers(angry, lambda event: told.append(("calm", event)), angrier)
    with pytest.raises(ValueError, match="first"):
        both(EVENTS[0])
    assert told == [(name, EVENTS[0]) for name in ("angry", "calm", "angrier")]
    Observers()(EVENTS[0])
    assert repr(Observers()) == "Observers()"
    with pytest.raises(InvalidArgument, match="observers"):
        Observers(print, 3)  # type: ignore[arg-type]  # what is refused

    def interrupted(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Observers(angry, interrupted)(EVENTS[0])


def test_events_are_equal_whenever_they_were():
    from datetime import UTC, datetime

    from attrs import evolve

    for event in EVENTS:
        later = evolve(event, at=datetime(2026, 1, 1, tzinfo=UTC))
        assert later == event
        assert hash(later) == hash(event)
        assert repr(later) == repr(event)
        assert evolve(event, scope="other") != event


def test_telemetry_is_an_extra(monkeypatch):
    for name in ("opentelemetry", "opentelemetry.metrics", "opentelemetry.trace"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="otel"):
        OpenTelemetryObserver()
