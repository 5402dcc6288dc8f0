"""Plans for one question, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Generic, Self, TypeVar, overload

from dpsdk._frames import Column, ColumnKind, Framed
from dpsdk._html import lined_up, page, table
from dpsdk._records import field, frozen
from dpsdk.accounting.numbers import as_bound
from dpsdk.codec import TEXT, ListOf, written
from dpsdk.errors import Declined, NoMechanism
from dpsdk.forms import Form
from dpsdk.planner.curve import Curve
from dpsdk.planner.plan import PLAN, Plan
from dpsdk.release.release import Reason

__all__ = ["Plans"]

F = TypeVar("F", bound=Form)
F_contra = TypeVar("F_contra", bound=Form, contravariant=True)

_SHOWN = 12


_COLUMNS: dict[str, tuple[ColumnKind, Callable[[Plan[Any]], object]]] = {
    "mechanism": ("text", lambda plan: str(plan.mechanism)),
    "cost": ("text", lambda plan: str(plan.cost)),
    "share": ("number", lambda plan: _as_float(plan.share_of_remaining)),
    "promised": ("number", lambda plan: plan.promised and plan.promised.error),
    "assumed": ("number", lambda plan: plan.assumed and plan.assumed.error),
    "expected": ("number", lambda plan: plan.expected and plan.expected.median),
    "low": ("number", lambda plan: plan.expected and plan.expected.low),
    "high": ("number", lambda plan: plan.expected and plan.expected.high),
    "basis": ("text", lambda plan: plan.expected and plan.expected.basis),
    "seconds": ("number", lambda plan: plan.seconds),
    "bytes": ("integer", lambda plan: plan.bytes),
    "feasible": ("truth", lambda plan: plan.feasible),
    "attainable": ("number", lambda plan: plan.attainable),
    "because": (
        "text",
        lambda plan: "; ".join([f"{one.code}: {one.text}" for one in plan.because]),
    ),
}
"""What a frame of plans has of each, None where a plan says nothing of it."""


def _coded(why: Reason) -> str:
    return f"{why.code}: {why.text}"


def _as_float(share: Fraction | None) -> float | None:
    return None if share is None else float(share)


def _to_plans(plans: Iterable[Plan[F]]) -> tuple[Plan[F], ...]:
    return tuple(plans)


def _no_points() -> Curve:
    return Curve(())


@written("plans", {"plans": ListOf(PLAN), "question": TEXT})
@frozen(repr=False)
class Plans(Framed, Sequence[Plan[F_contra]], Generic[F_contra]):
    """Ways to answer a question, the best first; those that cannot be taken are last, with why.

    Where an error was asked for, those that promise it come first, the cheapest of them at the
    top; then those that are only expected to keep it. Where a budget was given, the order is that
    of what is expected of the error; where the cost of something was given, that of what is
    promised.
    """

    plans: tuple[Plan[F_contra], ...] = field(converter=_to_plans)
    question: str = "this question"
    _curve: Callable[[], Curve] = field(default=_no_points, eq=False)

    @property
    def best(self) -> Plan[F_contra]:
        """The first one that may be taken.

        Raises
        ------
        NoMechanism
            If there is none: it says why of each.
        """
        for plan in self.plans:
            if plan.feasible:
                return plan
        declined = [
            Declined(str(plan.mechanism), one.code, one.text)
            for plan in self.plans
            for one in plan.because
        ]
        raise NoMechanism(self.question, tuple(declined))

    def curve(self) -> Curve:
        """The cost of errors at the moment of planning: a few amounts of each of the best families.

        Spends nothing and reads nothing. Plans that were pickled or read from a text have no
        points, nor have those of several goals.
        """
        return self._curve()

    def to_columns(self) -> dict[str, list[object]]:
        """One column for each thing that a plan says, with None where it says nothing of it.

        Errors are in the unit of the answer; `promised` and `assumed` are bounds, `expected` is the
        median of what is expected, and `low` and `high` are where nine in ten are expected between.
        """
        return {name: list(map(of, self.plans)) for name, (_, of) in _COLUMNS.items()}

    def _columns(self) -> dict[str, Column]:
        return {name: Column(told, _COLUMNS[name][0]) for name, told in self.to_columns().items()}

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # What the curve is worked out from belongs to the session.
        return type(self), (self.plans, self.question)

    @overload
    def __getitem__(self, index: int) -> Plan[F_contra]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Plan[F_contra], ...]: ...
    def __getitem__(self, index: int | slice) -> Plan[F_contra] | tuple[Plan[F_contra], ...]:
        return self.plans[index]

    def __len__(self) -> int:
        return len(self.plans)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        told = zip(self.plans, _rows(self.plans), strict=True)
        rows = ([*row[:1], str(plan.cost), *row[1:]] for plan, row in told)
        header = ["mechanism", "cost", "share", "promised", "expected", "because"]
        return page(f"Plans for {self.question}", table(header, rows, len(self.plans)))

    def __repr__(self) -> str:
        rows = _rows(self.plans[:_SHOWN])
        table = [["mechanism", "share", "promised", "expected", "because"], *rows]
        more = len(self.plans) - len(rows)
        rest = [f"... {more:,} more"] if more else []
        return "\n".join([f"Plans for {self.question}", *lined_up(table), *rest])


def _rows(plans: Sequence[Plan[F]]) -> list[list[str]]:
    """The rows of a table: a reason that several have is told in full in the first of them."""
    rows = [_row(plan) for plan in plans]
    told = set[str]()
    for plan, row in zip(plans, rows, strict=True):
        if row[-1] in told:
            mark = "" if plan.feasible else "no: "
            row[-1] = f"{mark}{plan.because[0].code}, as above"
        elif plan.because:
            told.add(row[-1])
    return rows


def _row(plan: Plan[F]) -> list[str]:
    share = "-" if plan.share_of_remaining is None else f"{float(plan.share_of_remaining):.3%}"
    promised = "-" if plan.promised is None else f"± {as_bound(plan.promised.error)}"
    if plan.promised is not None and plan.promised.vacuous:
        promised += " (vacuous)"
    if plan.assumed is not None:
        promised += f" (± {as_bound(plan.assumed.error)} if so)"
    expected = "-" if plan.expected is None else f"{plan.expected.median:.4g}"
    why = _coded(plan.because[0]) if plan.because else ""
    mark = "" if plan.feasible else "no: "
    return [str(plan.mechanism), share, promised, expected, mark + why]
