"""Findings of a kit: one result a check, and whether all of them together let a plugin conform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, Literal, NoReturn, TypeAlias, TypeVar

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.testing.conformance.texts import called, plain

__all__ = [
    "Check",
    "Failed",
    "NotApplicable",
    "Outcome",
    "Report",
    "Result",
    "Tally",
    "carried_out",
]

B = TypeVar("B")

Outcome: TypeAlias = Literal["passed", "failed", "waived", "not applicable"]
"""How a check came out."""

_MARKS: Mapping[Outcome, str] = MappingProxyType(
    {
        "passed": "passed",
        "failed": "FAILED",
        "waived": "waived",
        "not applicable": "n/a",
    }
)


class Failed(Exception):  # what a check says, and no error of the package
    """Raised by a check: what was done, what came out, and what to change."""


class NotApplicable(Exception):  # the same
    """Raised by a check that has nothing to look at, with the reason."""


@frozen
class Result:
    """How one check came out.

    Parameters
    ----------
    check
        Its name.
    outcome
        "passed"; "failed"; "waived", if it failed and the caller gave a reason to put up with that;
        or "not applicable", if there is nothing of the kind that it looks at.
    runs
        How often something was tried.
    why
        What was done and found, for the author of the plugin.
    privacy
        Whether privacy rests on it.
    """

    check: str
    outcome: Outcome
    runs: int
    why: str = field(converter=plain)
    privacy: bool
    _spared: bool = field(default=False, repr=False, alias="spared")

    @property
    def holds(self) -> bool:
        """True if a plugin may conform in spite of this result.

        A privacy check has to pass. The few that look at what not every plugin has, as several runs
        for one answer, may find nothing of the kind.
        """
        if not self.privacy:
            return self.outcome != "failed"
        return self.outcome == "passed" or (self.outcome == "not applicable" and self._spared)

    def __str__(self) -> str:
        often = f"{self.runs:,} run{'' if self.runs == 1 else 's'}"
        kind = "" if self.privacy else ", no privacy check"
        return f"{_MARKS[self.outcome]:<7} {self.check} ({often}{kind}): {self.why}"


@frozen
class Report:
    """The findings of a kit about one plugin; its text is the whole of it, failures first.

    All of it is in lines that print, whatever the plugin says of itself.

    Parameters
    ----------
    subject
        What was checked.
    results
        One for each check of the kit, in its order.
    nothing
        Why nothing at all could be run; empty where something was.
    """

    subject: str = field(converter=plain)
    results: tuple[Result, ...]
    nothing: str = field(default="", converter=plain)

    @property
    def conforms(self) -> bool:
        """True if every privacy check passed, and nothing else failed that was not waived.

        Privacy checks cannot be waived: with one of them waived, a plugin does not conform.
        """
        return bool(self.results) and all(result.holds for result in self.results)

    def __getitem__(self, check: str) -> Result:
        """The result of the check of that name.

        Raises
        ------
        InvalidArgument
            If there is no such check.
        """
        for result in self.results:
            if result.check == check:
                return result
        names = ", ".join(result.check for result in self.results)
        raise InvalidArgument("check", f"one of {names}", shown(check))

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed, waived ones aside."""
        return tuple(result.check for result in self.results if result.outcome == "failed")

    def __str__(self) -> str:
        word = "conforms" if self.conforms else "DOES NOT CONFORM"
        counts = ", ".join(
            f"{count} {outcome}" for outcome in _MARKS if (count := self._count(outcome))
        )
        order: Sequence[Outcome] = ("failed", "waived", "not applicable", "passed")
        lines = [
            str(result) for outcome in order for result in self.results if result.outcome == outcome
        ]
        first = [f"{self.subject} {word}: {counts}."]
        if self.nothing:
            first.append(f"Nothing could be run: {self.nothing}")
        return "\n".join([*first, *lines])

    def _count(self, outcome: Outcome) -> int:
        return sum(result.outcome == outcome for result in self.results)


class Tally:
    """Counts what a check tries, and lets it end early."""

    def __init__(self) -> None:
        self.runs: int = 0
        self.notes: list[str] = []
        """Further remarks on the result."""

    def ran(self, times: int = 1) -> None:
        """So many things were tried."""
        self.runs += times

    def note(self, text: str) -> None:
        """Say something in the result of a check that passes, once."""
        if text not in self.notes:
            self.notes.append(text)

    def fail(self, found: str, change: str) -> NoReturn:
        """End the check: this was found, and that is to be changed.

        Raises
        ------
        Failed
            Always.
        """
        raise Failed(f"{found}. {change}.")

    def skip(self, why: str) -> NoReturn:
        """End the check, which does not apply.

        Raises
        ------
        NotApplicable
            Always.
        """
        raise NotApplicable(why)


@frozen(eq=False)
class Check(Generic[B]):
    """One check of a kit.

    Parameters
    ----------
    name
        What results and waivers call it.
    privacy
        Whether privacy rests on it, so that it cannot be waived into "conforms".
    work
        Does it, on a bench.
    does
        What came out where it passed, in a sentence.
    spared
        Whether a plugin may have nothing of what it looks at, though privacy rests on it.
    """

    name: str
    privacy: bool
    work: Callable[[B, Tally], None]
    does: str
    spared: bool = False


def to_waived(waived: Mapping[str, str], checks: Sequence[Check[B]]) -> dict[str, str]:
    """Waivers: a reason for each, and none for a check that does not exist.

    Raises
    ------
    InvalidArgument
        Says which is wrong.
    """
    if not isinstance(waived, Mapping):
        raise InvalidArgument(
            "waived", "a mapping of the names of checks to reasons", shown(waived)
        )
    names = [check.name for check in checks]
    taken: dict[str, str] = {}
    for name, reason in waived.items():
        if name not in names:
            raise InvalidArgument("waived", f"names of checks ({', '.join(names)})", shown(name))
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidArgument("waived", f"with a reason for {name}", shown(reason))
        # Of another author's class, a text may write itself otherwise later.
        taken[str.__str__(name)] = str.__str__(reason)
    return taken


def carried_out(check: Check[B], bench: B, waived: Mapping[str, str]) -> Result:
    """The result of one check. Whatever the plugin raises out of it is a failure."""
    tally = Tally()
    outcome: Outcome
    try:
        check.work(bench, tally)
        outcome, why = "passed", check.does
        if not tally.runs:
            outcome, why = "failed", f"nothing was run of it: {check.does}"
    except NotApplicable as told:
        outcome, why = "not applicable", str(told)
    except Failed as told:
        outcome, why = "failed", str(told)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a plugin may raise what it likes
        outcome, why = "failed", f"{type(error).__name__} was raised: {called(error)}"
    if outcome == "passed" and tally.notes:
        why = f"{why} ({'; '.join(tally.notes)})"
    if outcome == "failed" and check.name in waived:
        outcome, why = "waived", f"{waived[check.name]} (it failed: {why})"
    return Result(check.name, outcome, tally.runs, why, check.privacy, check.spared)
