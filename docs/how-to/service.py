"""A service over HTTP: analysts ask one private table, each within an account of their own.

Started as ``DPSDK_SERVICE=service.toml uvicorn --factory service:application --workers 2``, in the
folder of this file. The page service.md says what is in the configuration, and what is answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import sqlite3
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from attrs import Factory, evolve, field, frozen
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dpsdk import Budget, Domain, PrivateData, Session, wire
from dpsdk.accounting import SQLiteLedger, leak
from dpsdk.errors import (
    AnswerLost,
    BudgetExceeded,
    Closed,
    DomainError,
    DpsdkError,
    ExactSamplingInfeasible,
    InvalidArgument,
    LedgerUnavailable,
    NoMechanism,
    QueryError,
    TooLarge,
    UnknownAttribute,
    UnknownLabel,
    UnsupportedGuarantee,
    WireError,
)
from dpsdk.forms import Form, LinearForm
from dpsdk.mechanisms import Gaussian, Laplace, OneShot
from dpsdk.observe import Answered, Event, LoggingObserver, Observer, Observers, Progress
from dpsdk.planner import Plan, Plans
from dpsdk.queries import Query
from dpsdk.session.query_interface import QueryInterface
from dpsdk.testing import seeded

log = logging.getLogger("service")

# What is read of a stranger's text: add what you want to answer, and nothing else is looked at.
MECHANISMS = (Laplace, Gaussian)
SHIPPED = wire.Catalogue.shipped()
MOST_BYTES = 1 << 16
MOST_NUMBERS = 1 << 16
MOST_SECONDS = 30.0
MOST_WORK = 60.0
MADE_UP = 1000
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
KEY = re.compile(r"[!-~]{1,200}")
DIGEST = re.compile(r"[0-9a-f]{64}")


@frozen
class Ask:
    """What a client sends: a question, and the mechanism or plan that should answer it."""

    query: Query[object, Form]
    using: OneShot[Form] | Plan[Form]


ASK = wire.Kind(
    Ask,
    "service:ask",
    {"query": wire.QUERY, "using": wire.Nested[object]("a mechanism or a plan", OneShot, Plan)},
)
TAKEN = SHIPPED.only(
    "query", "goal", "plan", "cost", "guarantee", "bound", "reason", "forecast", *MECHANISMS
).plus(ASK)


# The configuration


@frozen
class Analyst:
    """Who may ask: by which key, of which only the digest is known here, and up to which share."""

    name: str
    share: str
    digest: str


@frozen
class Settings:
    """What the service was told in its file."""

    table: Path
    domain: Path
    name: str
    epsilon: str
    folder: Path
    analysts: tuple[Analyst, ...]
    delta: str = "0"
    patience: float = 5.0
    threads: int = 4

    @classmethod
    def load(cls, path: str | Path) -> Settings:
        """Read a file in TOML; paths in it are relative to its folder."""
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        analysts: list[Analyst] = []
        for name, one in given.pop("analysts").items():
            digest = one["key_sha256"].lower()
            if not NAME.fullmatch(name):
                raise ValueError(f"an analyst's name is like ana-1, and not {name!r}")
            if not DIGEST.fullmatch(digest) or digest in {other.digest for other in analysts}:
                raise ValueError(f"{name} needs the SHA-256 of a key that nobody else has")
            analysts.append(Analyst(name, one["share"], digest))
        for place in ("table", "domain", "folder"):
            given[place] = Path(path).parent / given[place]
        return cls(analysts=tuple(analysts), **given)

    def whose(self, key: str) -> str | None:
        """The name of the analyst with a key."""
        digest = sha256(key.encode()).hexdigest()
        found = [one.name for one in self.analysts if compare_digest(one.digest, digest)]
        return found[0] if found else None


# What goes wrong, as RFC 9457 has it

PROBLEMS: dict[str, tuple[int, str]] = {
    "key-missing": (400, "A key is missing"),
    "unknown-analyst": (401, "The key of an analyst is missing or unknown"),
    "over-budget": (403, "The budget does not allow it"),
    "not-found": (404, "Not found"),
    "not-allowed": (405, "This method is not allowed here"),
    "incomplete": (408, "The body is incomplete"),
    "unanswered": (409, "Charged, and not answered yet"),
    "lost": (409, "Charged, and lost"),
    "too-long": (413, "The body is too large"),
    "unanswerable": (422, "The question cannot be answered"),
    "too-much": (422, "The answer would be too large"),
    "key-reused": (422, "The key was used before"),
    "failed": (500, "The service failed"),
    "busy": (503, "The service or its ledger is busy"),
    "ending": (503, "The service is ending"),
}
"""Each type of problem, which is `/problems/` and its name, with its status and title."""


class Problem(Exception):
    """A reply that is no answer, of a type in `PROBLEMS`."""

    def __init__(self, name: str, detail: str, **more: object) -> None:
        super().__init__(detail)
        self.status, title = PROBLEMS[name]
        self.wait: int | None = cast("int | None", more.pop("wait", None))
        self.body: dict[str, object] = {
            "type": f"/problems/{name}",
            "title": title,
            "status": self.status,
            "detail": detail,
            "retryable": self.wait is not None,
            **more,
        }

    def reply(self) -> Response:
        """Return the same as a response."""
        headers = {} if self.wait is None else {"Retry-After": str(self.wait)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        kind, text = "application/problem+json", json.dumps(self.body)
        return Response(text, self.status, headers, media_type=kind)


def busy() -> Problem:
    """Return the problem of a file that others hold, or that cannot be written for now."""
    return Problem("busy", "nothing is answered for the moment", wait=1)


def over_budget(error: BudgetExceeded, account: str) -> Problem:
    """Return a refusal, with numbers of the limit that the request came nearest to keeping.

    `asked` is null where the composition has no price for so large a request.
    """
    numbers: dict[str, object] = {}
    if error.shortages:
        nearest = min(
            error.shortages,
            key=lambda one: math.inf if one.asked is None else one.asked / one.cap,
        )
        numbers = {
            "limit": nearest.limit,
            "within": nearest.within,
            "asked": None if nearest.asked is None else float(nearest.asked),
            "spent": float(nearest.cap - nearest.left),
            "left": float(nearest.left),
        }
    fits = {"epsilon": str(error.epsilon), "rho": str(error.rho)}
    return Problem("over-budget", str(error), account=account, **numbers, fits=fits)


def problem_of(error: DpsdkError, account: str) -> Problem:
    """Return an error of dpsdk as a problem.

    Its text is public, but the path of a ledger is for the log, and not for analysts.
    """
    said = str(error)
    if isinstance(error, BudgetExceeded):
        return over_budget(error, account)
    if isinstance(error, LedgerUnavailable):
        log.warning("%s", said)
        return busy()
    if isinstance(error, Closed):
        return Problem("ending", said, wait=5)
    place = ""
    if isinstance(error, WireError):
        place = error.path
    elif isinstance(error, InvalidArgument):
        place = error.parameter
    elif isinstance(error, UnknownAttribute | UnknownLabel):
        place = error.attribute
    if place == "request_id":
        place = "Idempotency-Key"
    wrong = (WireError, InvalidArgument, DomainError, QueryError, TooLarge, NoMechanism)
    if isinstance(error, UnsupportedGuarantee):
        place = "$.using"
    if isinstance(error, (*wrong, ExactSamplingInfeasible, UnsupportedGuarantee)):
        return Problem("unanswerable", said, field=place or None)
    log.error("%s: %s", type(error).__name__, said)
    return Problem("failed", "the log of the service has the reason")


# Metrics


class Metrics:
    """Counts events by mechanism, outcome and account, and nothing that has no end.

    An account that is not listed, and a mechanism that is not answered with, are "other".
    """

    def __init__(self, accounts: tuple[str, ...]) -> None:
        from prometheus_client import CollectorRegistry, Counter  # noqa: PLC0415  # if it is there

        self.registry = CollectorRegistry()
        labels = ("mechanism", "outcome", "account")
        self._events: Any = Counter("dpsdk_events", "Events", labels, registry=self.registry)
        self._accounts = frozenset(accounts)
        self._mechanisms = frozenset(one.__name__ for one in MECHANISMS)

    def __call__(self, event: Event, /) -> None:
        """Count an event."""
        if isinstance(event, Progress):
            return
        outcome = type(event).__name__.lower()
        if isinstance(event, Answered) and event.reused:
            outcome = "reused"
        mechanism = event.mechanism.partition("(")[0]
        mechanism = mechanism if mechanism in self._mechanisms else "other"
        account = event.scope if event.scope in self._accounts else "other"
        self._events.labels(mechanism, outcome, account).inc()

    def text(self) -> bytes:
        """All counts, as Prometheus reads them."""
        from prometheus_client import (  # noqa: PLC0415  # as above
            CollectorRegistry,
            generate_latest,
            multiprocess,
        )

        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # where all workers write what they count
            registry = CollectorRegistry()
            collect: Any = multiprocess.MultiProcessCollector
            collect(registry)
        return bytes(generate_latest(registry))


def metrics_for(accounts: tuple[str, ...]) -> Metrics | None:
    """Metrics, where prometheus-client is installed."""
    try:
        return Metrics(accounts)
    except ImportError:
        return None


# Releases that were handed out


class Kept(NamedTuple):
    """A reply that was sent, and the digest of what it was a reply to."""

    asked: str
    text: str


class Releases:
    """Releases by table, account and key: what was sent once is sent again to the letter.

    What was spent for them is in the ledger, and not here: without this file requests are still
    answered again, and charged once. So whoever meets it busy may ask again too.
    """

    def __init__(self, path: Path, table: str, patience: float) -> None:
        self._path, self._table, self._patience = path, table, patience
        with self._connected() as file:
            file.execute(
                "CREATE TABLE IF NOT EXISTS release (dataset TEXT, account TEXT, id TEXT, "
                "asked TEXT, text TEXT, PRIMARY KEY (dataset, account, id))"
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=self._patience)) as file, file:
                yield file
        except sqlite3.OperationalError as error:
            log.warning("%s: %s", self._path, error)
            raise busy() from None

    def find(self, account: str, name: str) -> Kept | None:
        """What an account was sent, if it was."""
        wanted = "SELECT asked, text FROM release WHERE dataset = ? AND account = ? AND id = ?"
        with self._connected() as file:
            row = file.execute(wanted, (self._table, account, name)).fetchone()
        return None if row is None else Kept(*row)

    def keep(self, account: str, name: str, kept: Kept) -> Kept:
        """Keep what will be sent; what was kept before, if another worker was first."""
        with self._connected() as file:
            row = self._table, account, name, *kept
            file.execute("INSERT OR IGNORE INTO release VALUES (?, ?, ?, ?, ?)", row)
        return self.find(account, name) or kept


# The work


def made_up(domain: Domain) -> PrivateData:
    """A table about nobody, drawn evenly from the domain, so that it tells no more than that.

    Whoever knows its noise, as everybody does, knows the table: it must never be a private one.
    """
    draw = Random(0)  # noqa: S311  # which repeats, and has nothing to hide
    columns = dict[str, list[Any]]()
    for one in domain.attributes:
        labels = [one.label(draw.randrange(one.size)) for _ in range(MADE_UP)]
        # A bin is given by its ends, and any number in it stands for it.
        columns[one.name] = [sum(to) / 2 if isinstance(to, tuple) else to for to in labels]
    return PrivateData.from_columns(columns, domain, name="made-up")


class Service:
    """One worker's session, opened after the fork, and the accounts in it."""

    def __init__(self, settings: Settings) -> None:
        names = tuple(one.name for one in settings.analysts)
        domain = Domain.load(settings.domain)
        budget = Budget(settings.epsilon, settings.delta)
        settings.folder.mkdir(exist_ok=True, parents=True)
        ledger = SQLiteLedger(settings.folder / "spent.db", patience=settings.patience)
        data = PrivateData.from_csv(settings.table, domain, name=settings.name)
        self.settings = settings
        self._ledger = ledger.dataset(settings.name)
        self.metrics = metrics_for(names)
        observer: Observer = LoggingObserver(log)
        if self.metrics is not None:
            observer = Observers(self.metrics, observer)
        self._session = Session(data, budget, ledger=ledger, observer=observer)
        self._scopes: dict[str, QueryInterface] = {
            one.name: self._session.scope(one.name, one.share) for one in settings.analysts
        }
        self._made_up = made_up(domain)
        self._releases = Releases(settings.folder / "releases.db", settings.name, settings.patience)

    def _read(self, text: bytes) -> Ask:
        """What is asked, if there is an end to the answer: a short text may ask for much.

        Of a plan its mechanism is taken. What else it says is a stranger's word, and would stand in
        a release as the service's.
        """
        ask = wire.loads(Ask, text, allow=TAKEN)
        form = ask.query.lower(self._made_up.domain)
        if isinstance(form, LinearForm) and form.rows > MOST_NUMBERS:
            said = f"at most {MOST_NUMBERS:,} numbers are answered at once, and not {form.rows:,}"
            raise Problem("too-much", said, field="$.query")
        if isinstance(ask.using, Plan):
            return evolve(ask, using=cast("OneShot[Form]", ask.using.mechanism))
        return ask

    def quote(self, account: str, text: bytes) -> str:
        """What an answer would cost, whether that is left, and how far off it would be."""
        ask, scope = self._read(text), self._scopes[account]
        using = cast("OneShot[Form]", ask.using)
        quote = scope.quote(ask.query, using=using)
        cost = quote.at_most
        leaks = sum((count * leak(run) for run, count in cost.runs), Fraction(0))
        told = {
            "cost": wire.to_json(cost),
            # As spent of GET /budget has it: a Gaussian has no epsilon of its own.
            "spends": {
                "epsilon": None if cost.epsilon is None else str(cost.epsilon),
                "rho": str(cost.rho),
                "delta": str(leaks),
            },
            "bound": wire.to_json(quote.bound()),
            "fits": scope.affords(ask.query, using=using),
        }
        return json.dumps(told)

    def plan(self, account: str, text: bytes) -> str:
        """Ways to answer within an error, the cheapest first, of those that are answered here."""
        goal = wire.loads("goal", text, allow=TAKEN)
        plans = self._scopes[account].plan(goal.query, error=goal.alpha)
        served = [plan for plan in plans if isinstance(plan.mechanism, MECHANISMS)]
        return wire.dumps(Plans(served, plans.question))

    def answers(self, account: str, key: str, text: bytes) -> tuple[str, str]:
        """The release for a key, and its name: charged and drawn once, however often it is sent."""
        ask = self._read(text)
        asked, name = wire.digest(ask, allow=TAKEN), sha256(key.encode()).hexdigest()[:32]
        kept = self._releases.find(account, name)
        if kept is None:
            # No name of an account has a slash, so that nobody asks under another's keys.
            request = f"{account}/{key}"
            try:
                scope = self._scopes[account]
                release = scope.release(ask.query, using=ask.using, request_id=request)
            except AnswerLost as error:
                raise self._unanswered(error) from None
            kept = self._releases.keep(account, name, Kept(asked, wire.dumps(release)))
        if kept.asked != asked:
            said = "the key was sent before, with another body"
            raise Problem("key-reused", said, field="Idempotency-Key")
        return name, kept.text

    def _unanswered(self, error: AnswerLost) -> Problem:
        """What is said of a key that was charged: whoever was first is at work, or was killed."""
        charges = self._ledger.charges(error.charges[0] - 1)
        at, limit = charges[0].at, timedelta(seconds=MOST_WORK + 2 * self.settings.patience)
        # By a clock, as nothing else is here: it says what is worth trying, and decides nothing.
        if at is not None and datetime.now(UTC) - at > limit:
            said = f"{error}: its worker ended at work, so send the question under another key"
            return Problem("lost", said)
        return Problem("unanswered", str(error), wait=1)

    def dummy(self, text: bytes) -> str:
        """An answer of the same shape, from a made-up table: to try a client, at no cost."""
        ask = self._read(text)
        seed = int(wire.digest(ask, allow=TAKEN)[:8], 16)
        trial = Session(self._made_up, self._session.budget, noise=seeded(seed))
        release = trial.release(ask.query, using=ask.using)
        notice = "NOT PRIVATE: seeded noise on a made-up table, and no answer about the real one"
        return json.dumps({"notice": notice, "release": wire.to_json(release)})

    def budget(self, account: str) -> str:
        """What an account has spent, and what is left of it."""
        scope = self._scopes[account]
        left = scope.remaining
        told = {
            "account": account,
            "spent": wire.to_json(scope.spent),
            "remaining": {
                "fraction": left.fraction, "epsilon": str(left.epsilon), "rho": str(left.rho),
            },
        }  # fmt: skip
        return json.dumps(told)

    def domain(self, account: str) -> str:
        """What may be asked about."""
        return wire.dumps(self._scopes[account].domain)

    def release(self, name: str, account: str) -> str:
        """What this account was sent before. What others were sent is not there for it."""
        kept = self._releases.find(account, name)
        if kept is None:
            raise Problem("not-found", "this account has no such release")
        return kept.text

    def close(self) -> None:
        """Answer nothing more. Accounts stay open, for other workers and for tomorrow."""
        self._session.close()


# The service over HTTP


@frozen
class Front:
    """Takes requests on the loop, and has them worked on in threads."""

    settings: Settings
    _pool: ThreadPoolExecutor = field(
        default=Factory(lambda self: ThreadPoolExecutor(self.settings.threads), takes_self=True)
    )
    _service: list[Service] = field(factory=list[Service])
    _waiting: dict[object, str] = field(factory=dict[object, str])

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Open the session in the worker that asks, never before a fork; close it at the end."""
        self._service.append(await self._work("", lambda: Service(self.settings)))
        yield
        self._service.pop().close()
        self._pool.shutdown()

    async def _work(self, account: str, work: Callable[[], Any]) -> Any:
        room = 16 * self.settings.threads
        # Half of it is for one analyst, so that nobody keeps all others out.
        if len(self._waiting) >= room or 2 * list(self._waiting.values()).count(account) >= room:
            raise Problem("busy", "too many requests wait", wait=1)
        token = object()
        self._waiting[token] = account
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            del self._waiting[token]

    def _account(self, request: Request) -> str:
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        name = self.settings.whose(key) if scheme.lower() == "bearer" else None
        if name is None:
            raise Problem("unknown-analyst", "the Authorization header must have a known key")
        request.state.account = name
        return name

    async def _body(self, request: Request) -> bytes:
        text = bytearray()
        try:
            async with asyncio.timeout(MOST_SECONDS):
                async for part in request.stream():
                    text += part
                    if len(text) > MOST_BYTES:
                        raise Problem("too-long", f"at most {MOST_BYTES:,} bytes")
        except (TimeoutError, ClientDisconnect):
            said = f"the body did not come to its end within {MOST_SECONDS:g} seconds"
            raise Problem("incomplete", said, wait=1) from None
        return bytes(text)

    async def quote(self, request: Request) -> Response:
        """POST /quote."""
        account, text = self._account(request), await self._body(request)
        return _json(await self._work(account, lambda: self._service[0].quote(account, text)))

    async def plan(self, request: Request) -> Response:
        """POST /plan."""
        account, text = self._account(request), await self._body(request)
        return _json(await self._work(account, lambda: self._service[0].plan(account, text)))

    async def answers(self, request: Request) -> Response:
        """POST /answers."""
        account = self._account(request)
        key = request.headers.get("Idempotency-Key", "")
        if not KEY.fullmatch(key):
            said = "give an Idempotency-Key of 1 to 200 visible characters in ASCII"
            raise Problem("key-missing", said, field="Idempotency-Key")
        text = await self._body(request)
        work = partial(self._service[0].answers, account, key, text)
        name, release = await self._work(account, work)
        return _json(release, {"Location": f"/releases/{name}"})

    async def dummy(self, request: Request) -> Response:
        """POST /dummy/answers."""
        account, text = self._account(request), await self._body(request)
        return _json(await self._work(account, lambda: self._service[0].dummy(text)))

    async def budget(self, request: Request) -> Response:
        """GET /budget."""
        account = self._account(request)
        return _json(await self._work(account, lambda: self._service[0].budget(account)))

    async def domain(self, request: Request) -> Response:
        """GET /domain."""
        account = self._account(request)
        return _json(await self._work(account, lambda: self._service[0].domain(account)))

    async def release(self, request: Request) -> Response:
        """GET /releases/{id}."""
        name, account = request.path_params["name"], self._account(request)
        return _json(await self._work(account, lambda: self._service[0].release(name, account)))

    async def problem(self, request: Request) -> Response:
        """GET /problems/{name}: what the type of a problem means, for everybody."""
        name = request.path_params["name"]
        if name not in PROBLEMS:
            raise Problem("not-found", "there is no such type of problem")
        status, title = PROBLEMS[name]
        return _json(json.dumps({"type": f"/problems/{name}", "title": title, "status": status}))

    async def metrics(self, _: Request) -> Response:
        """GET /metrics: of this worker, and for whoever watches it; keep it from the outside."""
        metrics = self._service[0].metrics
        if metrics is None:
            raise Problem("not-found", "prometheus-client is not installed")
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


def _json(text: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, headers=dict(headers or {}), media_type="application/json")


async def _told(request: Request, error: Exception) -> Response:
    """Any error as a problem. Of one that was not foreseen nothing is told."""
    if isinstance(error, Problem):
        return error.reply()
    if isinstance(error, DpsdkError):
        return problem_of(error, getattr(request.state, "account", "")).reply()
    if isinstance(error, HTTPException):
        name = "not-found" if error.status_code == 404 else "not-allowed"
        return Problem(name, f"{request.method} is not here").reply()
    log.error("%s was not foreseen", type(error).__name__)
    return Problem("failed", "the error was not foreseen, and its text is not shown").reply()


def _answering(answer: Callable[[Request], Awaitable[Response]]) -> Callable[..., Any]:
    async def answered(request: Request) -> Response:
        # Here, since what the framework is left with gets into its log, with what the error says.
        try:
            return await answer(request)
        except Exception as error:  # noqa: BLE001  # see above
            return await _told(request, error)

    return answered


def application(path: str | None = None) -> FastAPI:
    """The service; its configuration is where DPSDK_SERVICE says."""
    front = Front(Settings.load(path or os.environ["DPSDK_SERVICE"]))
    app = FastAPI(lifespan=front.lifespan, openapi_url=None, redirect_slashes=False)
    app.add_exception_handler(HTTPException, _told)
    posts: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/quote": front.quote,
        "/plan": front.plan,
        "/answers": front.answers,
        "/dummy/answers": front.dummy,
    }
    gets: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/budget": front.budget,
        "/domain": front.domain,
        "/releases/{name}": front.release,
        "/problems/{name}": front.problem,
        "/metrics": front.metrics,
    }
    for where, answer in posts.items():
        app.add_api_route(where, _answering(answer), methods=["POST"])
    for where, answer in gets.items():
        app.add_api_route(where, _answering(answer), methods=["GET"])
    return app
