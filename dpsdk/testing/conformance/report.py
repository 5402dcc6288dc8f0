"""Findings of a kit: one result a check, and whether all of them together let a plugin conform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from traceback import walk_tb
from types import MappingProxyType
from typing import Generic, Literal, NoReturn, ParamSpec, TypeAlias, TypeVar

from dpsdk._checks import described, shown
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument

__all__ = [
    "Check",
    "Outcome",
    "Report",
    "Result",
    "Tally",
    "called",
    "carried_out",
    "caught",
    "name_error",
    "origin",
    "plain",
    "to_waived",
]

B = TypeVar("B")
P = ParamSpec("P")

Outcome: TypeAlias = Literal["passed", "failed", "waived", "not applicable"]

_MARKS: Mapping[Outcome, str] = MappingProxyType(
    {"passed": "passed", "failed": "FAILED", "waived": "waived", "not applicable": "n/a"}
)

_LONGEST = 4_000


class Failed(Exception):  # what a check says, and no error of the package
    """Raised by a check: what was done, what came out, and what to change."""


class NotApplicable(Exception):  # the same
    """Raised by a check that has nothing to look at, with the reason."""


def plain(text: str) -> str:
    """Return a text as one line of characters that print, no longer than anybody reads."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def caught(work: Callable[P, object], *args: P.args, **more: P.kwargs) -> BaseException | None:
    """Return what some code of a plugin raises, which may be anything; interrupts pass."""
    try:
        work(*args, **more)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a plugin may raise what it likes
        return error
    return None


def called(value: object) -> str:
    """Return the name of a part of a plugin by itself; its class, where that raises instead."""
    names: list[str] = []
    if caught(lambda: names.append(plain(described(value)))) is not None:
        return plain(f"a value of class {type(value).__name__[:80]}")
    return names[0]


def name_error(error: BaseException) -> str:
    """Return the class and the text of an error."""
    return f"{type(error).__name__}: {called(error)}"


def origin(error: BaseException) -> str:
    """Return the innermost frame of an error, and that it is the kit's own where it is."""
    frame, line = [*walk_tb(error.__traceback__)][-1]
    module = str(frame.f_globals.get("__name__", "?"))
    own = "the kit's own " if module.startswith("dpsdk.testing.conformance.") else ""
    return plain(f"{own}{module}.{frame.f_code.co_name}, line {line}")


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
        self.notes: dict[str, None] = {}
        """Further remarks on a result, each once."""

    def ran(self, times: int = 1) -> None:
        self.runs += times

    def note(self, text: str) -> None:
        """Say something in the result of a check that passes."""
        self.notes[text] = None

    def fail(self, found: str, change: str) -> NoReturn:
        """End the check: this was found, and that is to be changed."""
        raise Failed(f"{found}. {change}.")

    def skip(self, why: str) -> NoReturn:
        """End the check, which does not apply."""
        raise NotApplicable(why)


@frozen(eq=False)
class Check(Generic[B]):
    """One check of a kit, and a sentence that says what came out where it passed.

    Of a `privacy` check no failure can be waived; a `spared` one may find nothing to look at.
    """

    name: str
    privacy: bool
    work: Callable[[B, Tally], None]
    does: str
    spared: bool = False


def to_waived(waived: Mapping[str, str], checks: Sequence[Check[B]]) -> dict[str, str]:
    """Return waivers: a reason for each, and none for a check that does not exist."""
    if not isinstance(waived, Mapping):
        wanted = "a mapping of the names of checks to reasons"
        raise InvalidArgument("waived", wanted, shown(waived))
    names = [check.name for check in checks]
    for name, reason in waived.items():
        if name not in names:
            raise InvalidArgument("waived", f"names of checks ({', '.join(names)})", shown(name))
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidArgument("waived", f"with a reason for {name}", shown(reason))
    return dict(waived)


def carried_out(check: Check[B], bench: B, waived: Mapping[str, str]) -> Result:
    """Return the result of one check. Whatever the plugin raises out of it is a failure."""
    tally = Tally()
    outcome: Outcome = "failed"
    error = caught(check.work, bench, tally)
    if isinstance(error, NotApplicable):
        outcome, why = "not applicable", str(error)
    elif isinstance(error, Failed):
        why = str(error)
    elif error is not None:
        why = f"{type(error).__name__} was raised in {origin(error)}: {called(error)}"
    elif not tally.runs:
        why = f"nothing was run of it: {check.does}"
    else:
        outcome = "passed"
        why = f"{check.does} ({'; '.join(tally.notes)})" if tally.notes else check.does
    if outcome == "failed" and check.name in waived:
        outcome, why = "waived", f"{waived[check.name]} (it failed: {why})"
    return Result(check.name, outcome, tally.runs, why, check.privacy, check.spared)
