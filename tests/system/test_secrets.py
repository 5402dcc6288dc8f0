"""Plant words and numbers in a table, drive everything public over it, and look for them."""

import logging
import warnings

import numpy as np
import polars as pl
import pytest

import dpsdk.kernel.access as access
from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.errors import BudgetExceeded, DpsdkError, ReleaseFailed
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import (
    Conjunction,
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Not,
    Sum,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.testing.noise import seeded
from worlds import QUIET, crossed, told

pytestmark = pytest.mark.thorough

WORD, NUMBER, COUNT = "marzipan-zebra", 271828182, 5309
SECRETS = [
    WORD, WORD.encode().hex(), WORD[::-1], str(NUMBER), f"{NUMBER:,}", hex(NUMBER),
    str(COUNT), f"{COUNT:,}",
]  # fmt: skip

DOMAIN = Domain(
    Integer("age", 17, 90),
    Categorical("sex", ["Female", "Male"]),
    Binned("hours", [0, 20, 40]),
    Boolean("member"),
)


def secret_table(neighbors=Neighbors.REPLACE_ONE):
    """5309 rows of one cell among others; a word and a number in rows outside."""
    rows = 9000
    rng = np.random.default_rng(1)
    age = np.where(np.arange(rows) < COUNT, 33, rng.integers(40, 60, rows)).astype(object)
    age[-3:] = NUMBER
    sex = np.array(["Male"] * rows, dtype=object)
    sex[-5:-3] = WORD
    frame = pl.DataFrame(
        {"age": [int(a) for a in age], "sex": sex.tolist(), "hours": [10.0] * rows,
         "member": [True] * rows}
    )  # fmt: skip
    return PrivateData.from_frame(
        frame, DOMAIN, name="secrets", neighbors=neighbors, max_rows=20_000
    )


DATA = {neighbors: secret_table(neighbors) for neighbors in Neighbors}

QUERIES = [
    Count({"age": 33}, normalized=False),
    Threshold("age", 33, normalized=False),
    Interval("age", 33, 33, normalized=False),
    Sum("age", where={"age": 33}, normalized=False),
    Mean("age", where={"age": Not(33)}),
    Marginal("age", "sex", normalized=False),
    Conjunction({"age": {33, 40}}, normalized=False),
    Linear(lambda record: record["age"] / 90, ["age"], normalized=False),
    Workload([Count(normalized=False), Marginal("member", normalized=False)]),
    marginals(DOMAIN, 2, normalized=False),
]
BAD = [
    Count({"age": 1000}),
    Count({"ages": 3}),
    Threshold("sex", 3),
    Linear(lambda record: 7, ["age"]),
    Linear(lambda record: 1 / 0, ["age"]),
    Linear(np.ones(3), ["age"]),
    Marginal("nothing"),
    Sum("sex"),
    Workload([Marginal(*DOMAIN.names)] * 200),
]


def hits(text):
    return [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_secrets_are_in_the_table_and_the_search_finds_them(neighbors):
    session = Session(DATA[neighbors], Budget(10**12), noise=seeded(1))
    assert hits(repr(session.answer(QUERIES[0], using=QUIET)))
    assert hits(f"x{WORD}") == [WORD]


@pytest.mark.parametrize(
    ("mechanism", "neighbors"),
    crossed([Laplace("0.01"), Gaussian(rho="0.0001")], Neighbors, 2),
    ids=str,
)
def test_no_failure_and_no_text_tells_a_secret(neighbors, mechanism, caplog, recwarn):
    caplog.set_level(logging.DEBUG)
    warnings.simplefilter("always")
    data = DATA[neighbors]
    events, texts = [], []
    session = Session(data, Budget("0.05", "1e-9"), noise=seeded(2), observer=events.append)
    channel = session.open(mechanism)
    texts += [repr(data), repr(session), repr(channel), repr(session.facts)]
    refused = 0
    for query in QUERIES * 2 + BAD:
        for ask in (
            lambda query=query: session.quote(query, using=mechanism),
            lambda query=query: session.affords(query, using=mechanism),
            lambda query=query: session.release(query, using=mechanism).cost,
            lambda query=query: channel.release(query).bound().kind,
        ):
            try:
                texts.append(repr(ask()))
            except DpsdkError:
                error, text = told(ask)
                assert isinstance(error, DpsdkError)
                refused += isinstance(error, BudgetExceeded)
                texts.append(text)
    assert refused > 10
    with pytest.raises(DpsdkError):
        PrivateData.from_counts([COUNT, NUMBER], DOMAIN)
    texts += [repr(session), repr(session.history), repr(session.spent), repr(session.remaining)]
    texts += [repr(events), caplog.text, repr([str(w.message) for w in recwarn])]
    everything = "\n".join(texts)
    # A release may print a noisy count; what must not appear is anything exact.
    assert hits(everything) == []
    assert not recwarn.list
    assert not caplog.records


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_a_failure_inside_tells_nothing_of_the_table(query, monkeypatch):
    real = access.open_histogram

    class Broken:
        """Fails with the table in its text, as a bug in a library might."""

        def __init__(self, owner):
            self.histogram = real(owner)

        def table(self, names):
            table = self.histogram.table(names)
            raise ValueError(f"cannot use {table.tolist()} {WORD} {COUNT}")

        def records(self, names):
            return self.table(names)

    monkeypatch.setattr(access, "open_histogram", Broken)
    for data in DATA.values():
        session = Session(data, Budget(10), noise=seeded(2))
        error, text = told(lambda session=session: session.answer(query, using=Laplace("0.1")))
        assert type(error) is ReleaseFailed
        assert hits(text) == []
        assert error.__context__ is None
        assert not session.history[0].answered
