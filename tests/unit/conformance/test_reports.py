"""What a kit says of what it found, whatever was found."""

from __future__ import annotations

import pytest
from attrs import frozen
from attrs.exceptions import FrozenInstanceError

from dpsdk.domain import Boolean, Categorical, Domain
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.mechanisms import Laplace, Mechanism, NumericSparse
from dpsdk.queries import Count
from dpsdk.testing import Report, Result, check_mechanism
from dpsdk.testing.conformance import mechanisms
from dpsdk.testing.conformance.report import Check, Tally, carried_out, to_waived

pytestmark = pytest.mark.thorough


def works(_bench, tally):
    tally.ran(3)


def fails(_bench, tally):
    tally.ran()
    tally.fail("It was wrong", "Mend it")


def raises(_bench, _tally):
    raise ZeroDivisionError("by nothing")


def idles(_bench, _tally):
    """Runs nothing."""


def skips(_bench, tally):
    tally.skip("there is none of it")


def result(work, *, privacy=True, spared=False, waived=None):
    check = Check("a-check", privacy, work, "all was well", spared=spared)
    return carried_out(check, None, waived or {})


def of(*results: Result) -> Report:
    return Report("it", results)


def test_a_check_passes_fails_or_does_not_apply_and_says_how_often_it_ran():
    assert result(works) == Result("a-check", "passed", 3, "all was well", privacy=True)
    failed = result(fails)
    assert (failed.outcome, failed.runs, failed.why) == ("failed", 1, "It was wrong. Mend it.")
    raised = result(raises)
    assert raised.outcome == "failed"
    where = f"in {__name__}.raises, line {raises.__code__.co_firstlineno + 1}"
    assert raised.why == f"ZeroDivisionError was raised {where}: by nothing"
    assert result(skips).outcome == "not applicable"
    assert result(skips).why == "there is none of it"


def test_nothing_run_is_a_failure():
    nothing = result(idles)
    assert (nothing.outcome, nothing.runs) == ("failed", 0)
    assert nothing.why == "nothing was run of it: all was well"
    assert not of(nothing).conforms
    assert not of().conforms


def test_privacy_checks_cannot_be_waived_into_conforms():
    waived = {"a-check": "we know"}
    private, other = result(fails, waived=waived), result(fails, privacy=False, waived=waived)
    for one in (private, other):
        assert one.outcome == "waived"
        assert one.why == "we know (it failed: It was wrong. Mend it.)"
    assert not of(private).conforms
    assert of(other).conforms
    assert of(other, private).failed == ()
    assert not of(other, private).conforms


def test_a_waiver_changes_nothing_where_a_check_passes():
    assert result(works, waived={"a-check": "in case"}) == result(works)


def test_privacy_checks_have_to_apply_unless_not_every_plugin_has_what_they_look_at():
    assert not of(result(skips)).conforms
    assert of(result(skips, spared=True)).conforms
    assert of(result(skips, privacy=False)).conforms
    assert not of(result(works), result(fails, privacy=False)).conforms


def test_an_interrupt_of_the_caller_ends_the_kit():
    def interrupted(_bench, _tally):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result(interrupted)


def test_a_text_has_failures_first_and_all_of_them():
    text = str(of(result(works), result(skips), result(fails)))
    first, *lines = text.splitlines()
    assert first == "it DOES NOT CONFORM: 1 passed, 1 failed, 1 not applicable."
    assert [line.split()[0] for line in lines] == ["FAILED", "n/a", "passed"]
    assert lines[0] == "FAILED  a-check (1 run): It was wrong. Mend it."
    assert lines[2] == "passed  a-check (3 runs): all was well"
    assert "no privacy check" in str(result(works, privacy=False))


def test_reports_and_results_are_frozen_values():
    report = of(result(works))
    assert report == of(result(works))
    assert hash(report) == hash(of(result(works)))
    for one, name in ((report, "results"), (report.results[0], "outcome")):
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, ())


def test_a_result_is_found_by_its_name():
    report = of(result(works))
    assert report["a-check"].runs == 3
    with pytest.raises(InvalidArgument, match="one of a-check"):
        report["another"]


@pytest.mark.parametrize(
    ("waived", "message"),
    [
        ({"quote-cover": "typo"}, "names of checks"),
        ({"audit": ""}, "with a reason for audit"),
        ({"audit": "  "}, "with a reason for audit"),
        ({"audit": None}, "with a reason for audit"),
        (["audit"], "a mapping"),
    ],
)
def test_waivers_name_checks_and_give_reasons(waived, message):
    with pytest.raises(InvalidArgument, match=message):
        to_waived(waived, mechanisms.CHECKS)


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        ((5,), {}, "a mechanism"),
        ((Laplace,), {}, "a mechanism"),
        ((Laplace(1), Laplace(1)), {}, "queries"),
        ((Laplace(1),), {"domain": "member"}, "a Domain"),
        ((Laplace(1),), {"thorough": 1}, "True or False"),
        ((Laplace(1),), {"catalogue": {}}, "a Catalogue"),
    ],
)
def test_arguments_are_checked_first(arguments, given, message):
    with pytest.raises(InvalidArgument, match=message):
        check_mechanism(*arguments, **given)


def test_a_tally_says_each_note_once():
    tally = Tally()
    tally.note("so")
    tally.note("so")
    assert list(tally.notes) == ["so"]


def only(monkeypatch, *names):
    """Have the kit carry out a few of its checks."""
    kept = tuple(check for check in mechanisms.CHECKS if check.name in names)
    monkeypatch.setattr(mechanisms, "CHECKS", kept)


@frozen
class Fussy(Mechanism):
    """Takes nothing at all."""

    def quote(self, form, terms, /):
        raise QueryError("", "not today")

    def open(self, kernel, /):
        return self


def test_what_takes_nothing_has_failed_everything():
    report = check_mechanism(Fussy())
    assert not report.conforms
    names = {check.name for check in mechanisms.CHECKS}
    # What it is, and what it refuses, can be looked at all the same.
    alone = {"frozen", "typed-refusals", "written-form", "audit"}
    assert names - alone <= set(report.failed)
    assert "not today" in report.nothing
    _, first, *lines = str(report).splitlines()
    assert "not today" in first
    assert not any("not today" in line for line in lines)


def test_a_domain_and_queries_of_ones_own_are_used(monkeypatch):
    only(monkeypatch, "quote-covers")
    domain = Domain(Categorical("town", ["a", "b", "c"]), Boolean("rich"))
    report = check_mechanism(Laplace(1), Count({"town": "b"}, normalized=False), domain=domain)
    assert report.conforms, str(report)
    foreign = check_mechanism(Laplace(1), Count({"town": "b"}, normalized=False))
    assert foreign.failed == ("quote-covers",)
    assert "UnknownAttribute" in foreign.nothing


def test_a_relation_that_is_refused_does_not_apply(monkeypatch):
    only(monkeypatch, "quote-covers", "refused-whole")
    shares = check_mechanism(Laplace(1), Count({"member": True}))  # which need a public number
    assert shares.conforms, str(shares)
    whole = check_mechanism(Laplace(1), Count({"member": True}, normalized=False))
    assert 0 < shares["quote-covers"].runs < whole["quote-covers"].runs


def test_reports_of_one_mechanism_are_equal(monkeypatch):
    only(monkeypatch, "hands-out", "metadata")
    first, second = (check_mechanism(NumericSparse(1, tops=1)) for _ in range(2))
    assert first == second
    assert first.conforms, str(first)
