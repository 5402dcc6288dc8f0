"""A partition of a table in a durable ledger, and who may open another one meanwhile."""

import gc
import os
import signal

import pytest

from dpsdk import Budget, Categorical, Domain, PrivateData, Session
from dpsdk.accounting import SQLiteLedger
from dpsdk.errors import InvalidArgument, LedgerConflict
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from parallel import needs_fork

pytest.importorskip("fcntl", reason="locks as Unix has them")

ROWS, TENTH = Count(normalized=False), Laplace("0.1")
DOMAIN = Domain(Categorical("sex", ["f", "m"]), Categorical("town", ["x", "y"]))
DATA = PrivateData.from_columns({"sex": ["f", "m"], "town": ["x", "y"]}, DOMAIN, name="people")
OTHERS = PrivateData.from_columns({"sex": ["f"], "town": ["x"]}, DOMAIN, name="others")


@pytest.fixture
def path(quick_disk):
    return quick_disk / "spent.db"


def opened(path, data=DATA):
    return Session(data, Budget(1), ledger=SQLiteLedger(path))


def test_a_partition_that_a_live_session_has_open_is_not_ended_by_another(path):
    first, second, apart = opened(path), opened(path), opened(path, OTHERS)
    with first.partition("sex") as parts:
        parts["f"].answer(ROWS, using=TENTH)
        for attribute in ("sex", "town"):
            with pytest.raises(LedgerConflict, match="session 1, which has it open"):
                second.partition(attribute)
        with pytest.raises(InvalidArgument, match="partition open"):
            first.partition("town")
        parts["m"].answer(ROWS, using=TENTH)
        with apart.partition("sex"):
            pass
    with second.partition("town") as parts:
        parts["x"].answer(ROWS, using=TENTH)
        with pytest.raises(LedgerConflict, match="session 2"):
            first.partition("sex")


def test_a_partition_that_nobody_holds_any_more_is_taken_over(path):
    first, second = opened(path), opened(path)
    parts = first.partition("sex")
    parts["f"].answer(ROWS, using=TENTH)
    del parts
    gc.collect()
    with second.partition("town") as parts:
        parts["x"].answer(ROWS, using=TENTH)
    assert first.spent.charges == 2


@needs_fork
def test_a_partition_of_a_process_that_was_killed_is_taken_over(path):
    second = opened(path)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = opened(path).partition("sex")
            kept["f"].answer(ROWS, using=TENTH)
            os.write(tell, b"!")
            signal.pause()
        finally:
            os._exit(1)
    assert os.read(told, 1) == b"!"
    with pytest.raises(LedgerConflict, match="session 2"):
        second.partition("sex")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with second.partition("sex") as parts:
        parts["m"].answer(ROWS, using=TENTH)
    assert second.spent.charges == 2


@needs_fork
def test_a_forked_child_neither_holds_nor_ends_a_partition_of_its_parent(path):
    first, second = opened(path), opened(path)
    parts = first.partition("sex")
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    with pytest.raises(LedgerConflict, match="session 1"):
        second.partition("sex")
    parts.close()
    second.partition("sex").close()
    os.close(go)
    os.waitpid(child, 0)
