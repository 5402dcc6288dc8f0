"""Kits report on whatever a plugin does and says, and leave the process as it was."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from attrs import frozen

from dpsdk.data import PrivateData
from dpsdk.domain import Domain, Integer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel import LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import Laplace, OneShot
from dpsdk.queries import Count, LinearQuery, Marginal
from dpsdk.release import Cost, Quote
from dpsdk.testing import Report, Result, check_mechanism, check_query
from dpsdk.testing.conformance import mechanisms, queries
from dpsdk.testing.conformance.children import in_child
from dpsdk.testing.conformance.report import Check

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

LINES = "it conforms: 22 passed.\npassed  audit (9 runs): \x1b[2J\u202eall\x07 \ud800"


def only(monkeypatch, *names):
    for module, kit in ((mechanisms, "CHECKS"), (queries, "QUERY_CHECKS")):
        kept = tuple(check for check in getattr(module, kit) if check.name in names)
        monkeypatch.setattr(module, kit, kept)


@frozen
class Plain(OneShot):
    """Honest, to be spoilt."""

    def quote(self, form, terms, /):
        pricing = Measure(form, LaplaceNoise(1)).price(terms)
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        return kernel.run(Measure(form, LaplaceNoise(1)))


class Mute(Exception):
    """Cannot be shown."""

    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


class Screaming(Plain):
    """Writes a report of its own where it is asked for its name."""

    def __repr__(self):
        return LINES

    __str__ = __repr__


class Long(Plain):
    """Has no end."""

    def __repr__(self):
        return "x" * 10**6


class Nameless(Plain):
    """Ends the program where it is asked for its name."""

    def __repr__(self):
        raise SystemExit(3)

    __str__ = __repr__


class Leaving(Plain):
    """Ends the program where it is asked for a quote."""

    def quote(self, form, terms, /):
        raise SystemExit(3)


class Silent(Plain):
    """Raises what cannot be shown, for a quote."""

    def quote(self, form, terms, /):
        raise Mute


class Shouting(Plain):
    """Raises what clears the screen, for an answer."""

    def answer(self, form, kernel, /):
        raise ValueError(LINES)


class Quitting(Plain):
    """Ends the program where it is asked for an answer."""

    def answer(self, form, kernel, /):
        raise SystemExit(3)


class Empty(Plain):
    """Gives nothing at all."""

    def quote(self, form, terms, /):
        return None

    def answer(self, form, kernel, /):
        return None


class Nobody(Plain):
    """Opens nothing."""

    def open(self, kernel, /):
        return None


class Odd(Plain):
    """Equals nothing, and says so loudly."""

    def __eq__(self, other):
        raise SystemExit(3)

    def __hash__(self):
        raise Mute


class Numbered(Plain):
    """Is called by a number."""

    @property
    def name(self):
        return 7


SPOILT = (Screaming, Long, Nameless, Leaving, Silent, Shouting, Quitting, Empty, Nobody, Odd,
          Numbered)  # fmt: skip


@pytest.mark.parametrize("kind", SPOILT)
def test_whatever_a_mechanism_does_there_is_a_report_in_lines_that_print(kind, monkeypatch):
    only(monkeypatch, "quotes-alike", "quote-covers", "refusal-changes-nothing", "frozen",
         "written-form", "metadata", "typed-refusals", "types-and-shapes")  # fmt: skip
    report = check_mechanism(kind())
    assert not report.conforms
    said(report)


def said(report):
    lines = str(report).splitlines()
    assert all(line.isprintable() and len(line) < 6_000 for line in lines)
    assert len(lines) <= len(report.results) + 2
    assert not lines[0].startswith("it conforms: 22 passed.\n")
    assert "DOES NOT CONFORM" in lines[0]
    repr(report).encode()


@frozen
class Spoilt(LinearQuery):
    """A query that says and raises what it likes."""

    where: str

    def lower(self, domain, /):
        if self.where == "lower":
            raise SystemExit(3)
        if self.where == "mute":
            raise Mute
        form = Count(normalized=False).lower(domain)
        return LinearForm(domain, form.blocks)

    def lift(self, raw, facts, /):
        if self.where == "lift":
            raise SystemExit(LINES)
        return float(raw[0])

    def __repr__(self):
        if self.where == "repr":
            raise SystemExit(3)
        return LINES

    __str__ = __repr__


@pytest.mark.parametrize("where", ["lower", "mute", "lift", "repr", "text"])
def test_whatever_a_query_does_there_is_a_report_in_lines_that_print(where):
    report = check_query(Spoilt(where))
    assert not report.conforms
    said(report)


def test_reports_and_results_that_are_made_by_hand_print_as_well():
    result = Result("a-check", "failed", 1, LINES, privacy=True)
    said(Report(LINES, (result,)))
    assert "\n" not in str(result)


@pytest.mark.parametrize(
    "given",
    [None, 5, "laplace", b"", [], {}, object(), Laplace, LinearQuery, lambda: None, np.zeros(3),
     Count(normalized=False)],
    ids=lambda given: type(given).__name__,
)  # fmt: skip
def test_garbage_is_refused_by_name(given):
    with pytest.raises(InvalidArgument, match="mechanism"):
        check_mechanism(given)
    if not isinstance(given, Count):
        with pytest.raises(InvalidArgument, match="query"):
            check_query(given)


def test_a_universe_that_no_table_can_be_made_over_is_refused_first():
    large = Domain(Integer("n", 0, 10**12))
    with pytest.raises(InvalidArgument, match="cells"):
        check_mechanism(Laplace(1), domain=large)
    with pytest.raises(InvalidArgument, match="cells"):
        check_query(Count(normalized=False), domain=large)


class Reason(str):
    """A text that cannot be written into another."""

    __slots__ = ()

    def __format__(self, spec):
        raise Mute

    __str__ = __repr__ = lambda self: "\x1b[2J"


def test_a_reason_of_another_authors_class_is_read_as_the_text_that_it_is(monkeypatch):
    only(monkeypatch, "frozen")
    report = check_mechanism(Odd(), waived={"frozen": Reason("we\nknow")})
    assert report["frozen"].outcome == "waived"
    assert report["frozen"].why.startswith(r"we\nknow (it failed: ")


# What is left behind.


def standing():
    """All of a process that a kit may touch."""
    return {
        "random": [getattr(np.random, name) for name in sorted(vars(np.random))],
        "generators": (random.getstate(), repr(np.random.get_state())),
        "profiles": (sys.getprofile(), threading.getprofile(), sys.gettrace()),
        "streams": (sys.stdout, sys.stderr),
        "logging": (logging.getLogger().level, list(logging.getLogger().handlers)),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "environment": (dict(os.environ), Path.cwd(), sys.getrecursionlimit()),
        "threads": set(threading.enumerate()),
        "numpy": np.geterr(),
        "measure": vars(Measure).get("price"),
    }


def stay(before):
    for what, now in standing().items():
        if what == "random":
            assert all(a is b for a, b in zip(now, before[what], strict=True))
        else:
            assert now == before[what], what


def interrupting(monkeypatch, place):
    """Interrupt a kit when it asks for an answer for the so-manieth time."""
    seen = iter(range(10**6))

    class Interrupted(Plain):
        """Meets an interrupt from the keyboard."""

        def answer(self, form, kernel, /):
            if threading.current_thread() is threading.main_thread() and next(seen) == place:
                raise KeyboardInterrupt
            return super().answer(form, kernel)

    return Interrupted()


@pytest.mark.parametrize(
    "name",
    [
        "pays-first",
        "randomness",
        "public-walls",
        *[pytest.param(one, marks=pytest.mark.audit) for one in ("replays", "forks", "hands-out")],
    ],
)
def test_an_interrupted_kit_leaves_nothing_behind(name, monkeypatch):
    only(monkeypatch, name)
    before = standing()
    for place in (0, 5):
        with pytest.raises(KeyboardInterrupt):
            check_mechanism(interrupting(monkeypatch, place))
        stay(before)


class Patching(Plain):
    """Puts a method into a class of the package that has none of that name, and is interrupted."""

    def quote(self, form, terms, /):
        honest = Measure(form, LaplaceNoise(1)).price(terms)
        type(honest).proven_by = lambda self: "nobody"
        Laplace.answer = Plain.answer
        return Quote(Cost(), Cost((honest.guarantee,)), honest.accuracy)


def test_what_a_plugin_added_to_the_package_is_taken_out_again(monkeypatch):
    only(monkeypatch, "public-walls", "quotes-alike")
    report = check_mechanism(Patching())
    assert "public-walls" in report.failed
    data = PrivateData.from_columns({"n": [0, 1]}, Domain(Integer("n", 0, 1)))
    priced = Measure(Count(normalized=False).lower(data.domain), LaplaceNoise(1)).price(
        Terms(data.facts)
    )
    assert "proven_by" not in vars(type(priced))
    assert "answer" not in vars(Laplace)


def test_two_kits_at_once_find_what_each_finds_alone(monkeypatch):
    only(monkeypatch, "randomness", "threads", "keeps-no-kernel")
    alone = check_mechanism(Plain())
    assert alone.conforms, str(alone)
    before = standing()
    found = []

    def work():
        found.append(check_mechanism(Plain()))

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [alone] * 2, "\n".join(map(str, found))
    stay(before)


def test_a_kit_within_a_kit_is_carried_out(monkeypatch):
    def nested(_bench, tally):
        tally.ran()
        assert check_query(Marginal("level", normalized=False)).conforms

    check = Check("nested", False, nested, "it was")
    monkeypatch.setattr(mechanisms, "CHECKS", (check,))
    assert check_mechanism(Plain()).conforms is True


def test_a_profile_of_the_caller_stays(monkeypatch):
    only(monkeypatch, "randomness")

    def profile(*_):
        return None

    threading.setprofile(profile)
    try:
        check_mechanism(Plain())
        assert threading.getprofile() is profile
    finally:
        threading.setprofile(None)


QUOTE = Laplace.quote


def bribed(self, form, terms, /):
    return QUOTE(self, form, terms)


@frozen
class Bribing(LinearQuery):
    """Has a mechanism quote what it likes, once it was asked."""

    def lower(self, domain, /):
        Laplace.quote = bribed
        return Count(normalized=False).lower(domain)

    def lift(self, raw, facts, /):
        return float(raw[0])


def test_a_query_that_patches_the_package_reads_what_it_should_not():
    before = vars(Laplace).get("quote")
    report = check_query(Bribing())
    assert "reads-nothing" in report.failed
    assert "Laplace" in report["reads-nothing"].why
    assert vars(Laplace).get("quote") is before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_outlive_whoever_waits_for_it(monkeypatch):
    fork, children = os.fork, []

    def noted():
        children.append(fork())
        return children[-1]

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fork", noted)
    known = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            in_child(lambda: time.sleep(600) or "")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, known)
    (child,) = children
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)
