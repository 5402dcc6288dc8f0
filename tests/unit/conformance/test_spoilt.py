"""Kits report on whatever a plugin does and says, and leave the process as it was."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import frozen

from dpsdk.domain import Domain, Integer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.kernel import LaplaceNoise, Measure
from dpsdk.mechanisms import Laplace, OneShot
from dpsdk.queries import Count, LinearQuery
from dpsdk.release import Cost, Quote
from dpsdk.testing import Report, Result, check_mechanism, check_query
from dpsdk.testing.conformance import mechanisms, queries

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
