"""The service that docs/how-to/service.md tells of: what it answers, and what it survives."""

import asyncio
import importlib.util
import json
import os
import re
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest

from dpsdk import Binned, Boolean, Budget, Categorical, Date, Domain, Integer, Session, wire
from dpsdk.accounting import SQLiteLedger
from dpsdk.errors import LedgerDamaged, LedgerUnavailable, ReleaseFailed
from dpsdk.mechanisms import Gaussian, Laplace, Projection
from dpsdk.queries import Conjunction, Count, Marginal, Threshold
from dpsdk.testing import seeded
from platforms.conftest import engine

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = DOCS / "how-to" / "service.py"
KEYS = {name: secrets.token_urlsafe() for name in ("ana", "ben")}
ENVELOPE = {"format": "dpsdk.wire", "version": 1}


@pytest.fixture(scope="module")
def service():
    for name in ("fastapi", "httpx"):
        engine(name)
    spec = importlib.util.spec_from_file_location("service", SCRIPT)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["service"] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    return module


def configured(folder, *, patience=30.0, share="0.5", **more):
    """A configuration of a table with 400 rows, whose budget is an epsilon of 1."""
    rows = ["age,sex", *(f"{17 + k % 60},{'Female' if k % 3 else 'Male'}" for k in range(400))]
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    Domain(Integer("age", 17, 90), Categorical("sex", ["Female", "Male"])).save(
        folder / "domain.json"
    )
    lines = [
        'table = "table.csv"',
        'domain = "domain.json"',
        'name = "adult"',
        'epsilon = "1"',
        'folder = "kept"',
        f"patience = {patience}",
        *(f"{name} = {value}" for name, value in more.items()),
    ]
    for name, key in KEYS.items():
        digest = sha256(key.encode()).hexdigest()
        lines += [f"[analysts.{name}]", f'share = "{share}"', f'key_sha256 = "{digest}"']
    path = folder / "service.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def body(query, using=None):
    """What is sent: one envelope, and the question and mechanism without theirs."""
    chosen = Laplace("0.1") if using is None else using
    parts = {"query": wire.to_json(query), "using": wire.to_json(chosen)}
    inner = {
        name: {key: value for key, value in part.items() if key not in ENVELOPE}
        for name, part in parts.items()
    }
    return {**ENVELOPE, "kind": "service:ask", **inner}


def by(name, key=None):
    named = {} if key is None else {"Idempotency-Key": key}
    return {"Authorization": f"Bearer {KEYS[name]}", **named}


def served(service, config, *, raised=False):
    """A client of the service in this process."""
    with warnings.catch_warnings():
        # New versions would rather have another library than httpx, and take it as well.
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient
    return TestClient(service.application(config), raise_server_exceptions=raised)


@pytest.fixture
def client(service, tmp_path):
    with served(service, configured(tmp_path)) as client:
        yield client


def problem(reply, status):
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    told = reply.json()
    assert told["status"] == status
    assert told["type"].startswith("/problems/")
    assert told["title"]
    assert told["detail"]
    if status != 409:
        assert told["retryable"] is (status in {408, 503})
    assert ("retry-after" in reply.headers) is told["retryable"]
    return told


def spent_of(client, name):
    reply = client.get("/budget", headers=by(name))
    assert reply.status_code == 200
    told = reply.json()
    assert told["account"] == name
    return float(told["spent"]["charges"])


# What is answered


def test_a_question_is_quoted_planned_answered_and_found_again(client, service):
    assert wire.loads("domain", client.get("/domain", headers=by("ana")).text).names == (
        "age",
        "sex",
    )
    quoted = client.post("/quote", headers=by("ana"), json=body(Threshold("age", 40))).json()
    assert quoted["fits"] == 5
    assert 0 < quoted["bound"]["error"] < 1
    assert quoted["cost"]["kind"] == "cost"
    goal = wire.to_json(service.wire.loads("goal", json.dumps({
        **ENVELOPE, "kind": "goal", "query": body(Marginal("sex"))["query"], "alpha": 0.2,
    })))  # fmt: skip
    planned = client.post("/plan", headers=by("ana"), json=goal)
    plan = wire.loads("plans", planned.text).best
    assert type(plan.mechanism) in service.MECHANISMS
    assert spent_of(client, "ana") == 0
    sent = body(Marginal("sex"), plan)
    reply = client.post("/answers", headers=by("ana", "monday-7"), json=sent)
    assert reply.status_code == 200, reply.text
    record = wire.loads("release", reply.text)
    assert record.private
    assert record.account == "ana"
    assert record.mechanism == str(plan.mechanism)
    assert spent_of(client, "ana") == 1
    assert client.get(reply.headers["location"], headers=by("ana")).text == reply.text
    problem(client.get(reply.headers["location"], headers=by("ben")), 404)
    problem(client.get("/releases/none", headers=by("ana")), 404)


@pytest.mark.parametrize(
    ("using", "epsilon", "rho"),
    [(Laplace("0.1"), "1/10", 0.0049958), (Gaussian(rho="0.01"), None, 0.01)],
    ids=["laplace", "gaussian"],
)
def test_a_quote_says_what_is_spent_in_the_words_of_the_budget(
    service, tmp_path, using, epsilon, rho
):
    with served(service, configured(tmp_path, delta='"1e-6"')) as client:
        sent = body(Threshold("age", 40), using)
        spends = client.post("/quote", headers=by("ana"), json=sent).json()["spends"]
        assert (spends["epsilon"], spends["delta"]) == (epsilon, "0")
        assert float(Fraction(spends["rho"])) == pytest.approx(rho, rel=1e-4)
        assert client.post("/answers", headers=by("ana", "k"), json=sent).is_success
        spent = client.get("/budget", headers=by("ana")).json()["spent"]
        assert set(spends) <= set(spent)
        assert (spent["epsilon"], spent["delta"]) == (spends["epsilon"], spends["delta"])
        # What is spent is kept on a grid, and rounded up to it.
        assert 0 <= Fraction(spent["rho"]) - Fraction(spends["rho"]) < Fraction(1, 10**9)


def test_a_release_tells_of_the_session_and_the_budget_of_the_account(client):
    """As the page says; whoever wants it otherwise has to leave it out of the reply."""
    for name in ("ana", "ben"):
        reply = client.post("/answers", headers=by(name, "k"), json=body(Threshold("age", 40)))
        record = wire.loads("release", reply.text)
    assert (record.before.epsilon, record.after.epsilon) == (Fraction(1, 10), Fraction(1, 5))
    assert client.get("/budget", headers=by("ben")).json()["spent"]["epsilon"] == "1/10"


def test_another_table_in_the_same_folder_has_releases_of_its_own(service, tmp_path):
    config, replies = configured(tmp_path), []
    for name in ("adult", "adult-2", "adult"):
        config.write_text(re.sub('name = "adult.*"', f'name = "{name}"', config.read_text()))
        with served(service, config) as client:
            replies.append(client.post("/answers", headers=by("ana", "k"), json=body(Count())))
    tables = [wire.loads("release", one.text).table for one in replies]
    assert tables == ["adult", "adult-2", "adult"]
    assert replies[0].text == replies[2].text


def test_a_key_is_charged_once_and_answered_to_the_letter(client):
    first = client.post("/answers", headers=by("ana", "k"), json=body(Count()))
    again = client.post("/answers", headers=by("ana", "k"), json=body(Count()))
    assert first.text == again.text
    assert first.headers["location"] == again.headers["location"]
    assert spent_of(client, "ana") == 1
    # To the other analyst the same key is another one.
    other = client.post("/answers", headers=by("ben", "k"), json=body(Threshold("age", 30)))
    assert other.status_code == 200
    assert wire.loads("release", other.text).account == "ben"
    assert spent_of(client, "ana") == spent_of(client, "ben") == 1


@pytest.mark.parametrize(
    "other",
    [
        body(Threshold("age", 30)),
        body(Count(), Laplace("0.2")),
        body(Count(), Gaussian(rho="0.01")),
    ],
)
def test_a_key_with_another_body_is_refused(client, tmp_path, other):
    assert client.post("/answers", headers=by("ana", "k"), json=body(Count())).status_code == 200
    for _ in range(2):
        told = problem(client.post("/answers", headers=by("ana", "k"), json=other), 422)
        assert told["field"] == "Idempotency-Key"
        # So it is where only the ledger remembers.
        with sqlite3.connect(tmp_path / "kept" / "releases.db") as file:
            file.execute("DELETE FROM release")
        file.close()
    assert spent_of(client, "ana") == 1
    again = client.post("/answers", headers=by("ana", "k"), json=body(Count()))
    assert again.status_code == 200
    assert spent_of(client, "ana") == 1


def test_a_spent_account_is_forbidden_and_named(client):
    for number in range(5):
        sent = body(Threshold("age", 30 + number))
        assert client.post("/answers", headers=by("ana", f"k{number}"), json=sent).is_success
    refused = client.post("/answers", headers=by("ana", "last"), json=body(Count()))
    told = problem(refused, 403)
    assert told["account"] == "ana"
    assert told["retryable"] is False
    assert told["fits"]["epsilon"] == "0"
    assert told["type"] == "/problems/over-budget"
    # Each spent 0.1 of the half of the budget: the numbers are those of the account.
    numbers = {name: told[name] for name in ("limit", "asked", "spent", "left")}
    assert numbers == {"limit": "epsilon", "asked": 0.1, "spent": 0.5, "left": 0}
    # Another's account has room, and so a smaller question of the same key may be sent.
    assert client.post("/answers", headers=by("ben", "last"), json=body(Count())).is_success
    assert client.get("/budget", headers=by("ana")).json()["remaining"]["fraction"] == 0


def test_a_dummy_answer_says_that_it_is_not_private_and_costs_nothing(client):
    sent = body(Marginal("age", "sex"))
    replies = [client.post("/dummy/answers", headers=by("ana"), json=sent) for _ in range(2)]
    told = replies[0].json()
    assert told["notice"].startswith("NOT PRIVATE")
    record = wire.from_json("release", told["release"])
    assert not record.private
    assert record.table == "made-up"
    assert replies[0].text == replies[1].text
    dear = body(Count(), Laplace(9))
    problem(client.post("/dummy/answers", headers=by("ana"), json=dear), 403)
    assert spent_of(client, "ana") == spent_of(client, "ben") == 0


def test_a_dummy_answer_is_about_nobody(service, tmp_path):
    """Its noise is known to all, so it must be the same whatever the private table is."""
    told = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        config = configured(tmp_path / name)
        if told:
            rows = (tmp_path / name / "table.csv").read_text()
            (tmp_path / name / "table.csv").write_text(rows.replace("Female", "Male"))
        with served(service, config) as client:
            sent = body(Marginal("sex"))
            told.append(client.post("/dummy/answers", headers=by("ana"), json=sent).text)
    assert told[0] == told[1]
    settings = service.Settings.__attrs_attrs__
    assert [one.name for one in settings if one.type == "Path"] == ["table", "domain", "folder"]


@pytest.mark.parametrize(
    "attribute",
    [
        Integer("a", -(2**61), 2**61 - 1),
        Boolean("a"),
        Date("a", date(2020, 2, 28), date(2020, 3, 1)),
        Date("a", date(2020, 2, 27), date(2020, 3, 1), unit="month"),
        Binned("a", [-1e300, 0.0, 5e-324, 0.1, 1e300]),
        Categorical("a", ["x"]),
        Categorical("a", [3, 1]),
    ],
)
def test_a_table_is_made_up_over_any_domain(service, attribute):
    table = service.made_up(Domain(attribute))
    session = Session(table, Budget(1), noise=seeded(1))
    inside = session.answer(Count(), using=Laplace("0.5"))
    assert inside == pytest.approx(1, abs=0.1)
    assert session.answer(Conjunction({"a": attribute.label(0)}), using=Laplace("0.1")) >= -1


def test_what_a_plan_says_of_itself_is_not_in_a_release(client):
    """It is a client's text, which might say anything in the name of the service."""
    sent = body(Marginal("sex"))
    goal = {**ENVELOPE, "kind": "goal", "query": sent["query"], "alpha": 0.2}
    plan = client.post("/plan", headers=by("ana"), json=goal).json()["plans"][0]
    said = {"kind": "reason", "code": "cheapest", "text": "it has no error at all"}
    forged = {**plan, "because": [said], "promised": {**plan["promised"], "error": 0.0}}
    for key, using in (("k", forged), ("k", plan)):
        reply = client.post("/answers", headers=by("ana", key), json={**sent, "using": using})
        assert reply.is_success, reply.text
        assert "no error at all" not in reply.text
        assert wire.loads("release", reply.text).joint.error > 0
    assert spent_of(client, "ana") == 1


# What is refused


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (b"", "$"),
        (b"{", "$"),
        (b"[]", "$"),
        (b"\xff", "$"),
        (b'{"format": "dpsdk.wire", "version": 1, "kind": "x", "kind": "x"}', "$"),
        (b"[" * 60_000, "$"),
        (json.dumps({**body(Count()), "version": 2}), "$.version"),
        (json.dumps({**body(Count()), "more": 1}), "$"),
        (json.dumps({**body(Count()), "kind": "query.count"}), "$.kind"),
        (json.dumps(body(Count(), Laplace("0.1"))).replace('"1/10"', "0.1"), "$.using.epsilon"),
        (json.dumps(body(Count(), Laplace("0.1"))).replace('"1/10"', '"-1"'), "$.using.epsilon"),
        (json.dumps(body(Count(), Projection(epsilon="0.1"))), "$.using.kind"),
        (json.dumps(body(Count(), Gaussian(rho="0.01"))), "$.using"),
        (json.dumps(body(Threshold("size", 3))), "size"),
        (json.dumps(body(Count({"sex": "Neither"}))), "sex"),
        (json.dumps({**ENVELOPE, "kind": "service:ask", "query": {}, "using": {}}), "$.query.kind"),
    ],
)  # fmt: skip
def test_a_question_that_is_none_is_refused_with_its_place(client, sent, field):
    for where in ("/quote", "/answers", "/dummy/answers"):
        told = problem(client.post(where, headers=by("ana", "k"), content=sent), 422)
        assert told["field"] == field
    assert spent_of(client, "ana") == 0


def test_who_is_not_known_is_told_nothing(client):
    key = KEYS["ana"]
    wrong = (
        "",
        "Bearer ",
        "Bearer wrong",
        key,
        f"Basic {key}",
        f"Bearer {key[:-1]}",
        b"Bearer \xff",
    )
    for headers in ({}, *({"Authorization": one} for one in wrong)):
        for post in ("/quote", "/plan", "/answers", "/dummy/answers"):
            told = problem(client.post(post, headers=headers, content=b"{"), 401)
            assert "account" not in told
        for get in ("/budget", "/domain", "/releases/x"):
            reply = client.get(get, headers=headers)
            problem(reply, 401)
            assert reply.headers["www-authenticate"] == "Bearer"


def test_a_body_that_is_too_large_is_not_read_to_its_end(client, service):
    read = []

    def endless():
        for number in range(1000):
            read.append(number)
            yield b" " * (1 << 14)

    for where in ("/quote", "/plan", "/answers", "/dummy/answers"):
        problem(client.post(where, headers=by("ana", "k"), content=endless()), 413)
    fits = json.dumps(body(Count())).ljust(service.MOST_BYTES)
    assert client.post("/quote", headers=by("ana"), content=fits).is_success
    problem(client.post("/quote", headers=by("ana"), content=fits + " "), 413)


def test_an_answer_that_would_be_too_large_is_refused_before_it_is_charged(
    client, service, monkeypatch
):
    sent = body(Marginal("age"))
    monkeypatch.setattr(service, "MOST_NUMBERS", 73)
    for where in ("/quote", "/answers", "/dummy/answers"):
        told = problem(client.post(where, headers=by("ana", "k"), json=sent), 422)
        assert told["field"] == "$.query"
    assert spent_of(client, "ana") == 0
    monkeypatch.setattr(service, "MOST_NUMBERS", 74)
    assert client.post("/answers", headers=by("ana", "k"), json=sent).is_success


@pytest.mark.parametrize("key", [None, "", " ", "a b", "x" * 201, "ä".encode()])
def test_a_request_needs_a_key_that_can_be_kept(client, key):
    headers = by("ana") | ({} if key is None else {"Idempotency-Key": key})
    told = problem(client.post("/answers", headers=headers, json=body(Count())), 400)
    assert told["field"] == "Idempotency-Key"
    assert spent_of(client, "ana") == 0


def test_what_is_not_there_is_a_problem_as_well(client):
    for path in ("/nowhere", "/budget/", "/docs", "/redoc", "/openapi.json"):
        problem(client.get(path, headers=by("ana"), follow_redirects=False), 404)
    assert problem(client.get("/answers"), 405)["type"] == "/problems/not-allowed"


def test_a_type_of_problem_can_be_looked_up(client, service):
    for name, (status, title) in service.PROBLEMS.items():
        told = client.get(f"/problems/{name}").json()
        assert told == {"type": f"/problems/{name}", "title": title, "status": status}
    problem(client.get("/problems/none"), 404)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ReleaseFailed(54321), 500),
        (LedgerDamaged("/var/54321.db", "its pages are torn"), 500),
        (LedgerUnavailable("/var/54321.db", "disk full"), 503),
        (RuntimeError("Female 54321"), 500),
    ],
)
def test_what_was_not_foreseen_tells_nothing(service, tmp_path, monkeypatch, error, status):
    def failing(*_):
        raise error

    monkeypatch.setattr(service.Service, "quote", failing)
    # Here what gets past the service, to whatever logs it whole, is raised.
    with served(service, configured(tmp_path), raised=True) as client:
        reply = client.post("/quote", headers=by("ana"), json=body(Count()))
    problem(reply, status)
    assert "54321" not in reply.text


def test_a_key_without_an_answer_is_tried_again_until_nobody_can_be_at_work(
    service, client, monkeypatch
):
    def full(*_):
        raise LedgerUnavailable("/var/54321.db", "the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(SQLiteLedger, "store", full)
        problem(client.post("/answers", headers=by("ana", "k"), json=body(Count())), 503)
    sent = {"headers": by("ana", "k"), "json": body(Count())}
    assert problem(client.post("/answers", **sent), 409)["retryable"]
    monkeypatch.setattr(service, "MOST_WORK", -2 * 30.0)  # as if that had passed
    told = problem(client.post("/answers", **sent), 409)
    assert not told["retryable"]
    assert "another key" in told["detail"]
    assert spent_of(client, "ana") == 1
    assert client.post("/answers", headers=by("ana", "other"), json=body(Count())).is_success


def test_what_keeps_releases_may_be_busy_as_well(service, tmp_path):
    with served(service, configured(tmp_path, patience=0.05)) as client:
        path = tmp_path / "kept" / "releases.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            problem(client.post("/answers", headers=by("ana", "k"), json=body(Count())), 503)
            other.execute("ROLLBACK")
            other.execute("BEGIN IMMEDIATE")  # it is read, answered, charged, and not kept
            problem(client.post("/answers", headers=by("ana", "k"), json=body(Count())), 503)
        assert spent_of(client, "ana") == 1
        replies = [
            client.post("/answers", headers=by("ana", "k"), json=body(Count())) for _ in range(2)
        ]
        assert replies[0].is_success
        assert replies[0].text == replies[1].text
        assert spent_of(client, "ana") == 1


def test_a_body_that_does_not_come_to_its_end_is_not_answered(service, client, monkeypatch):
    """Neither that of who is slow nor that of who has gone."""
    from starlette.requests import ClientDisconnect, Request

    whole = json.dumps(body(Count())).encode()

    def broken(end):
        async def stream(_):
            yield whole
            await end()
            yield b""

        return stream

    async def gone():
        raise ClientDisconnect

    monkeypatch.setattr(service, "MOST_SECONDS", 0.01)
    for end in (gone, asyncio.Event().wait):
        monkeypatch.setattr(Request, "stream", broken(end))
        problem(client.post("/answers", headers=by("ana", "k"), content=whole), 408)
    assert spent_of(client, "ana") == 0


def test_a_ledger_that_others_keep_is_busy_for_now(service, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with served(service, configured(tmp_path, patience=0.05)) as client:
        with (tmp_path / "kept" / "spent.db-turn").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            sent = body(Count())
            problem(client.post("/answers", headers=by("ana", "k"), json=sent), 503)
        assert client.post("/answers", headers=by("ana", "k"), json=sent).is_success
        assert spent_of(client, "ana") == 1


def test_more_than_can_wait_are_sent_away_and_nobody_keeps_others_out(service, client, monkeypatch):
    end = threading.Event()

    def slow(*_):
        assert end.wait(60)
        return "{}"

    def sent(pool, name, past):
        waiting = [pool.submit(client.get, "/budget", headers=by(name)) for _ in range(32 + past)]
        while sum(one.done() for one in waiting) < past:
            time.sleep(0.01)
        return waiting

    monkeypatch.setattr(service.Service, "budget", slow)
    with ThreadPoolExecutor(80) as pool:
        waiting = [*sent(pool, "ana", 3), *sent(pool, "ben", 3)]
        problem(client.get("/domain", headers=by("ben")), 503)
        end.set()
        codes = Counter(one.result().status_code for one in waiting)
    assert codes == {200: 64, 503: 6}


@pytest.mark.parametrize(
    ("goal", "field"),
    [
        ({"kind": "goal", "query": {"kind": "query.count"}, "alpha": "0.1"}, "$.alpha"),
        ({"kind": "goal", "query": {"kind": "query.count"}, "alpha": -1}, "$"),
        ({"kind": "goal", "alpha": 0.1}, "$"),
        ({"kind": "query.count"}, "$.kind"),
    ],
)
def test_a_goal_that_is_none_is_refused_with_its_place(client, goal, field):
    told = problem(client.post("/plan", headers=by("ana"), json={**ENVELOPE, **goal}), 422)
    assert told["field"] == field


# What the page says


def test_the_page_is_right(service, tmp_path):
    """Its configuration is taken as it stands, each body is sent, and each reply is like that."""
    page = (DOCS / "how-to" / "service.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(toml|json|http)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    config = tmp_path / "service.toml"
    [toml] = [text for kind, text in blocks if kind == "toml"]
    config.write_text(toml)
    (tmp_path / "docs").symlink_to(DOCS)
    (tmp_path / "var").mkdir()
    ana = {"Authorization": "Bearer ana's secret", "Idempotency-Key": "monday-7"}
    ask, goal = [text for kind, text in blocks if kind == "json"]
    told = {re.split(r"[ ?]", text)[1]: text for kind, text in blocks if kind == "http"}
    with served(service, config) as client:
        quoted = client.post("/quote", headers=ana, content=ask).json()
        assert quoted["fits"] == 5
        said = json.dumps(quoted["spends"]).replace(json.dumps(quoted["spends"]["rho"]), "...")
        assert f'"spends": {said}, ..., "fits": 5' in page
        assert client.post("/plan", headers=ana, content=goal).is_success
        assert client.post("/dummy/answers", headers=ana, content=ask).is_success
        release = client.post("/answers", headers=ana, content=ask)
        assert wire.loads("release", release.text).account == "ana"
        dear = ask.replace('"0.1"', '"0.9"')
        refused = client.post("/answers", headers=ana | {"Idempotency-Key": "k"}, content=dear)
        assert problem(refused, 403) == json.loads(told["403"].partition("\n\n")[2])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[analysts.ana]", '[analysts."ana/../ben"]'),
        ("[analysts.ana]", "[analysts.Ana]"),
        (sha256(KEYS["ana"].encode()).hexdigest(), sha256(KEYS["ben"].encode()).hexdigest()),
        (sha256(KEYS["ana"].encode()).hexdigest(), KEYS["ana"]),
    ],
    ids=["a path", "a capital", "a key twice", "a key and no digest"],  # keys are new each time
)
def test_a_configuration_that_mixes_analysts_up_is_refused(service, tmp_path, old, new):
    config = configured(tmp_path)
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises(ValueError, match=r"name|key"):
        service.application(config)


# What is counted


def test_metrics_have_listed_accounts_and_mechanisms_alone(client):
    engine("prometheus_client")
    client.post("/answers", headers=by("ana", "secret-key"), json=body(Count({"sex": "Female"})))
    client.post("/answers", headers=by("ben", "k"), json=body(Count(), Laplace(3)))
    text = client.get("/metrics").text
    assert 'dpsdk_events_total{account="ana",mechanism="Laplace",outcome="charged"} 1.0' in text
    assert 'dpsdk_events_total{account="ben",mechanism="Laplace",outcome="refused"} 1.0' in text
    assert "Female" not in text
    assert "secret-key" not in text


def test_the_series_of_metrics_have_an_end(service):
    engine("prometheus_client")
    from dpsdk.observe import Answered, Opened, Progress

    metrics = service.Metrics(("ana",))
    for number in range(500):
        metrics(Opened(f"Mine{number}(1)", scope=f"scope {number}"))
        metrics(Answered("q", f"Laplace({number})", scope="ana", request_id=str(number)))
        metrics(Answered("q", "Laplace(1)", reused=True, scope=str(number)))
        metrics(Progress("q", "Laplace(1)", number, None, "steps"))
    text = metrics.text().decode()
    samples = [line for line in text.splitlines() if line.startswith("dpsdk_events_total")]
    assert len(samples) == 3
    assert 'account="other",mechanism="other",outcome="opened"} 500.0' in text
    assert 'account="ana",mechanism="Laplace",outcome="answered"} 500.0' in text


def test_without_a_library_of_metrics_there_are_none(service, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with served(service, configured(tmp_path)) as client:
        assert client.post("/answers", headers=by("ana", "k"), json=body(Count())).is_success
        problem(client.get("/metrics"), 404)


# Workers that share a ledger


class Worker:
    """A process of uvicorn, as an operator starts it."""

    def __init__(self, config):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [
            sys.executable, "-m", "uvicorn", "--factory", "service:application",
            "--port", str(self.port), "--log-level", "warning",
        ]  # fmt: skip
        path = os.pathsep.join([str(SCRIPT.parent), str(DOCS.parent)])
        own = {**os.environ, "DPSDK_SERVICE": str(config), "PYTHONPATH": path}
        counts = config.parent / "counts"
        counts.mkdir(exist_ok=True)
        own["PROMETHEUS_MULTIPROC_DIR"] = str(counts)
        self.process = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{self.port}"

    def ready(self):
        import httpx

        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                if httpx.get(f"{self.address}/metrics").is_success:
                    return self
            except httpx.TransportError:
                assert self.process.poll() is None
                time.sleep(0.05)
        raise TimeoutError

    def ask(self, name, key, query, epsilon):
        import httpx

        sent = body(query, Laplace(epsilon))
        return httpx.post(f"{self.address}/answers", headers=by(name, key), json=sent, timeout=120)

    def get(self, path):
        import httpx

        return httpx.get(f"{self.address}{path}", headers=by("ana"), timeout=120).text

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) in {0, -signal.SIGTERM}


@pytest.fixture
def workers(service, tmp_path):
    for name in ("uvicorn", "prometheus_client"):
        engine(name)
    config, made = configured(tmp_path), []

    def start():
        made.append(Worker(config))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.kill()


def charges_in(folder):
    ledger = SQLiteLedger(folder / "kept" / "spent.db")
    ledger.verify()
    return list(ledger.dataset("adult").charges())


def test_two_workers_under_load_charge_exactly_what_fits(workers, tmp_path):
    """Each key is sent to both at once: each is charged once, and 10 of 16 fit each account."""
    both = [workers(), workers()]
    for one in both:
        one.ready()
    wanted = [(name, number) for number in range(16) for name in KEYS]

    end = time.monotonic() + 120

    def send(worker, name, number):
        while True:
            reply = worker.ask(name, f"k{number}", Threshold("age", 20 + number), "0.05")
            if reply.status_code not in {409, 503} or time.monotonic() > end:
                return reply

    with ThreadPoolExecutor(8) as pool:
        sent = {
            (name, number): [pool.submit(send, one, name, number) for one in both]
            for name, number in wanted
        }
        replies = {key: [one.result() for one in pair] for key, pair in sent.items()}
    answered = Counter[str]()
    for (name, _), (first, second) in replies.items():
        assert {first.status_code, second.status_code} <= {200, 403}
        if first.is_success and second.is_success:
            assert first.text == second.text
        answered[name] += first.is_success or second.is_success
    assert answered == {"ana": 10, "ben": 10}
    charges = charges_in(tmp_path)
    assert len(charges) == 20
    assert set(Counter(one.request_id for one in charges).values()) == {1}
    assert Counter(one.scope for one in charges) == {"ana": 10, "ben": 10}
    for one in both:
        counted = one.get("/metrics")
        for name in KEYS:
            series = f'account="{name}",mechanism="Laplace",outcome="charged"}} 10.0'
            assert series in counted
        one.end()


def test_a_worker_that_is_killed_loses_nothing_that_was_sent(workers, tmp_path):
    import httpx

    first, second = workers(), workers()
    first.ready()
    before = first.ask("ana", "k0", Count(), "0.02")
    assert before.is_success

    def send(number):
        try:
            return first.ask("ana", f"k{number}", Threshold("age", 20 + number), "0.02")
        except httpx.TransportError:
            return None

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(send, number) for number in range(1, 13)]
        asked[2].result()
        first.kill()
        replies = [one.result() for one in asked]
    assert None in replies
    second.ready()
    third = workers().ready()
    assert third.ask("ana", "k0", Count(), "0.02").text == before.text
    lost = 0
    for number, reply in enumerate(replies, 1):
        answers = [
            one.ask("ana", f"k{number}", Threshold("age", 20 + number), "0.02")
            for one in (second, third)
        ]
        assert answers[0].status_code == answers[1].status_code
        if reply is not None:
            assert {reply.text} == {one.text for one in answers}
        elif answers[0].status_code == 409:  # charged, and killed before it was stored
            lost += 1
        else:
            assert answers[0].is_success
            assert answers[0].text == answers[1].text
    assert lost <= 4
    charges = charges_in(tmp_path)
    assert Counter(one.request_id for one in charges) == {f"ana/k{n}": 1 for n in range(13)}
    for one in (second, third):
        one.end()
