"""The tour that `python -m dpsdk demo` gives: each step shows its code, then what it printed."""

from __future__ import annotations

import inspect
import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

from dpsdk import Budget, Session, examples
from dpsdk.cli.words import say
from dpsdk.errors import BudgetExceeded
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.noise import NoiseSource
from dpsdk.queries import Count, Marginal, Mean, Threshold, Workload

__all__ = ["demo"]

_INTRODUCTION = """
The table holds 48,842 people of the census of 1994 (UCI Adult). Noise is fresh, so
numbers differ from run to run; the truth is within ± of them in 95% of all runs. Prices
are an epsilon, or a rho where noise is Gaussian; the session adds them up.
"""


def demo(noise: NoiseSource | None = None) -> None:
    """Put a few questions to the example table, and print each with its answer."""
    session = Session(examples.adult(), Budget(epsilon=1, delta=1e-6), noise=noise)
    say(_strong("dpsdk: one private table, one budget, many typed answers"))
    say(_INTRODUCTION)
    say(_code("session = Session(examples.adult(), Budget(epsilon=1, delta=1e-6))"))
    for number, (title, step) in enumerate(_STEPS.items(), start=1):
        say(f"\n{_strong(f'{number}. {title}')}")
        say(_code(textwrap.dedent("".join(inspect.getsourcelines(step)[0][1:]))))
        printed = StringIO()
        with redirect_stdout(printed):
            step(session)
        say(_output(printed.getvalue()))


def _thresholds(session: Session) -> None:
    ages = Workload(Threshold("age", t) for t in (25, 40, 65))
    release = session.release(ages, using=Gaussian(rho=0.002))
    for query, share in zip(ages.queries, release.value, strict=True):
        print(f"{query}  {share:.4f} ± {release.error(beta=0.05):.4f}")
    print(f"cost: {release.cost}")


def _table(session: Session) -> None:
    table = session.release(Marginal("sex", "income"), using=Gaussian(rho=0.002))
    print(table.value)
    print(f"every entry ± {table.error(beta=0.05):.4f};", end=" ")
    print(f"women above 50K: {table.value['Female', '>50K']:.4f}")


def _mean(session: Session) -> None:
    hours = Mean("hours", where={"sex": "Female", "age": range(25, 35)})
    release = session.release(hours, using=Gaussian(rho=0.002))
    low, high = release.interval(beta=0.05)
    print(f"{release.value:.2f} hours a week, from {low:.2f} to {high:.2f} with 95% confidence")


def _quote(session: Session) -> None:
    question = Marginal("education", "race")
    for rho in (0.0005, 0.002, 0.008):
        quote = session.quote(question, using=Gaussian(rho=rho))
        more = session.affords(question, using=Gaussian(rho=rho))
        print(f"rho {rho:<6}  ± {quote.error(beta=0.05):.4f}  fits {more} more times")


def _refusal(session: Session) -> None:
    before = session.spent
    try:
        session.answer(Count(where={"hours": range(60, 100)}), using=Laplace(epsilon=2))
    except BudgetExceeded as refusal:
        print(f"BudgetExceeded: {refusal}")
    print(f"spent as before: {session.spent == before}")


def _smaller(session: Session) -> None:
    share = session.answer(Count(where={"hours": range(60, 100)}), using=Laplace(epsilon=0.1))
    print(f"{share:.4f} of all people work 60 hours or more")


def _account(session: Session) -> None:
    print(session)
    for entry in session.history:
        print(f"{entry.mechanism:<21} {entry.query}")


_STEPS: dict[str, Callable[[Session], None]] = {
    "Three questions at once: a workload pays once": _thresholds,
    "A table of shares, with a bound for all entries": _table,
    "A mean over some of the rows": _mean,
    "What would it cost? Asking that is free": _quote,
    "What does not fit is refused, and costs nothing": _refusal,
    "A smaller request still passes": _smaller,
    "Where the budget went": _account,
}


def _output(text: str) -> str:
    wrapper = textwrap.TextWrapper(100, initial_indent="  ", subsequent_indent="      ")
    lines = (f"  {line}" for line in text.splitlines())
    return "\n".join(line if len(line) <= 100 else wrapper.fill(line[2:]) for line in lines)


def _styled(text: str, style: str) -> str:
    plain = sys.stdout is None or not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\033[{style}m{text}\033[0m"


def _strong(text: str) -> str:
    return _styled(text, "1")


def _code(text: str) -> str:
    return "\n".join(_styled(f"  > {line}", "36") for line in text.splitlines())
