"""A platform's day, run as ``python docs/how-to/platform_day.py FOLDER``.

A table of visits in Parquet has several rows of each person, and the budget is one of each day that
was visited. Three analysts ask about yesterday through two worker processes, each within a scope of
its own and each request under an id. One worker is killed in the middle of a request, and another
takes its place. In the evening the ledger says who spent what of which days.
"""

from __future__ import annotations

import json
import logging
import secrets
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from random import Random
from subprocess import PIPE, Popen
from typing import Any

from dpsdk import Budget, Date, Domain, Periods, PrivacyUnit, PrivateData, Session
from dpsdk.accounting import SQLiteLedger
from dpsdk.errors import AnswerLost, BudgetExceeded
from dpsdk.mechanisms import Laplace
from dpsdk.observe import LoggingObserver
from dpsdk.queries import Count, Marginal, Query, Threshold
from dpsdk.session.query_interface import QueryInterface

EXAMPLES = Path(__file__).parents[1] / "examples"
BUDGET = Budget(epsilon=1)
SHARE = "0.33"
ANALYSTS = ("ana", "ben", "cleo")
WEEK = [date(2026, 5, 4) + timedelta(days=number) for number in range(7)]
YESTERDAY = WEEK[-1]
USING = Laplace(epsilon="0.05")
QUESTIONS: dict[str, Query[Any]] = {
    "women": Count({"sex": "Female"}, normalized=False),
    "young": Threshold("age", 30, normalized=False),
    "long hours": Threshold("hours", 60, normalized=False),
    "schools": Marginal("education", normalized=False),
    "jobs": Marginal("workclass", normalized=False),
    "races": Marginal("race", normalized=False),
    **{f"up to {age}": Threshold("age", age, normalized=False) for age in range(40, 45)},
}


def make_table(path: Path) -> None:
    """A table of visits: each row of the example, given to a person and a day at random."""
    import polars as pl  # noqa: PLC0415  # as whoever writes such tables has it

    rows = pl.read_csv(EXAMPLES / "adult.csv.gz")
    draw = Random(7)  # noqa: S311  # an example is the same each time
    people = [f"p{draw.randrange(len(rows) // 2)}" for _ in range(len(rows))]
    days = [draw.choice(WEEK) for _ in range(len(rows))]
    rows.with_columns(pl.Series("person", people), pl.Series("visited", days)).write_parquet(path)


def load(folder: Path) -> PrivateData:
    """The table: what is protected is a person's day, of which at most three rows are kept."""
    adult = Domain.load(EXAMPLES / "adult-domain.json")
    return PrivateData.from_parquet(
        folder / "visits.parquet",
        Domain(Date("visited", WEEK[0], WEEK[-1]), *adult.attributes),
        name="visits",
        periods=Periods("visited", days=1),
        unit=PrivacyUnit("person", max_rows=3),
        max_rows=200_000,
    )


def ledger_in(folder: Path) -> SQLiteLedger:
    """The ledger that all workers share."""
    return SQLiteLedger(folder / "spent.db", key=(folder / "key").read_bytes())


def work(folder: Path) -> None:
    """A worker: one request a line comes in, one reply a line goes out."""
    logging.basicConfig(filename=folder / "events.log", level=logging.INFO)
    session = Session(load(folder), BUDGET, ledger=ledger_in(folder), observer=LoggingObserver())
    # Scopes of one name are one, in whichever process: a third of each day's budget an analyst.
    scopes = {name: session.scope(name, SHARE).between(YESTERDAY, YESTERDAY) for name in ANALYSTS}
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        reply = serve(scopes[request["analyst"]], request["question"], request["id"])
        print(json.dumps({"id": request["id"], **reply}), flush=True)


def serve(scope: QueryInterface, question: str, request_id: str) -> dict[str, object]:
    """The reply to one request."""
    try:
        release = scope.release(QUESTIONS[question], using=USING, request_id=request_id)
    except BudgetExceeded as refused:
        return {"refused": str(refused)}
    except AnswerLost:
        # It was paid for, and its noise may have been seen: it is another request, or none.
        return serve(scope, question, f"{request_id}, again")
    return {"answer": str(release.value), "off by": release.error(0.05)}


class Worker:
    """A worker process, and the requests that it has not replied to."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, __file__, str(folder), "work"]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE, text=True)
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def send(self, analyst: str, question: str, request_id: str) -> None:
        """Have it work on a request."""
        assert self._process.stdin is not None
        request = {"analyst": analyst, "question": question, "id": request_id}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def ask(self, analyst: str, question: str, request_id: str) -> dict[str, Any]:
        """Its reply to a request."""
        self.send(analyst, question, request_id)
        return json.loads(self._line())

    def kill(self) -> None:
        """End it at whatever it is doing, by a signal that no process can catch."""
        self._process.kill()
        self.wait()

    def wait(self) -> None:
        """Let it end, as it does when nobody asks any more."""
        self._process.communicate()


def day(folder: Path) -> dict[str, dict[str, Any]]:
    """All replies of a day, by request."""
    (folder / "key").write_bytes(secrets.token_bytes(32))
    make_table(folder / "visits.parquet")
    replies: dict[str, dict[str, Any]] = {}

    def ask(worker: Worker, analyst: str, *questions: str) -> None:
        for question in questions:
            request_id = f"{analyst} {question}"
            replies[request_id] = worker.ask(analyst, question, request_id)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(Worker, [folder, folder])
        morning = [
            pool.submit(ask, first, "ana", "women", "young", "schools"),
            pool.submit(ask, second, "cleo", "long hours", "jobs"),
        ]
        for one in morning:
            one.result()
        # The second worker is killed at work. Nobody knows whether it had paid yet.
        second.send("cleo", "races", "cleo races")
        second.kill()
        second = Worker(folder)
        before = replies["cleo long hours"]
        ask(second, "cleo", "long hours", "races")  # what was answered is answered the same
        assert replies["cleo long hours"]["answer"] == before["answer"]
        # What is beyond a share is refused. Of the days before, nothing was spent.
        ask(first, "ben", "women", "jobs")
        ask(first, "ana", *(f"up to {age}" for age in range(40, 45)))
        for worker in (first, second):
            worker.wait()
    return replies


def evening(folder: Path) -> str:
    """What the ledger says of the day."""
    ledger = ledger_in(folder)
    ledger.verify()
    charges = ledger.dataset("visits").charges()
    spent: Counter[str] = Counter()
    for charge in charges:
        spent[charge.scope] += 1
    lines = [f"{name}: {count} charges of epsilon 0.05" for name, count in sorted(spent.items())]
    for charge in charges:
        at = "" if charge.at is None else f"{charge.at:%H:%M:%S}"
        lines.append(f"{charge.number:>3}  {at}  {charge.scope:<5} {charge.request_id}")
    session = Session(load(folder), BUDGET, ledger=ledger)
    lines += [
        f"{some.first} to {some.last}: {some.remaining.fraction:.0%} left of each day"
        for some in session.periods()
    ]
    return "\n".join(lines)


def main() -> None:
    """A day, or one of its workers."""
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ["work"]:
        work(folder)
        return
    for request_id, reply in day(folder).items():
        shown = reply.get("refused") or f"off by at most {reply['off by']:.0f}"
        print(f"{request_id}: {shown}")
    print(evening(folder))


if __name__ == "__main__":
    main()
