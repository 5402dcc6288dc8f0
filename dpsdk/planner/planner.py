"""Quotes and plans where there are facts and no table, and what a session plans by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from dpsdk import kernel
from dpsdk._checks import described, shown, to_beta
from dpsdk._records import shows_half_made
from dpsdk.accounting import Budget, Composition, Odometer, Remaining
from dpsdk.accounting.balance import Balance
from dpsdk.data import Outside, PrivacyUnit
from dpsdk.data.declaration import Declaration
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, Form, Neighbors
from dpsdk.forms.assumptions import Assumptions
from dpsdk.kernel import Terms
from dpsdk.mechanisms import Mechanism
from dpsdk.mechanisms.base import notes_of
from dpsdk.planner.joint import for_goals
from dpsdk.planner.plan import Plan
from dpsdk.planner.planning import plans_for_budget, plans_for_error
from dpsdk.planner.plans import Plans
from dpsdk.planner.task import Goal, Task
from dpsdk.queries import Query
from dpsdk.queries.base import lifting
from dpsdk.release import Cost, Quote
from dpsdk.release.quote import check_quote

if TYPE_CHECKING:
    from dpsdk.kernel import Limits

__all__ = ["Planner", "plans_for"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)


def plans_for(
    query: Query[A, F] | Iterable[Goal[A, F]],
    form_of: Callable[[Query[Any, Any]], Any],
    terms: Terms,
    balance: Balance,
    *,
    error: float | None,
    budget: Budget | Cost | None,
    beta: float,
    assume: Mapping[str, object] | Assumptions | None,
    limits: Limits | None,
) -> Plans[F]:
    """Return ways to answer a query, or to reach goals; `form_of` lowers and checks a query."""
    beta, believed = to_beta(beta), Assumptions.of(assume)
    if limits is not None and not isinstance(limits, kernel.Limits):
        raise InvalidArgument("limits", "a Limits", shown(limits))
    believed.check(terms.facts)

    def task_of(query: Query[Any, Any], beta: float, /) -> Task[Any, Any]:
        return Task(query, form_of(query), terms, balance, beta, believed, limits)

    amounts = {"error": error, "budget": budget}
    given = [name for name, amount in amounts.items() if amount is not None]
    if not isinstance(query, Query):
        if given:
            raise InvalidArgument(given[0], "left out, since goals carry their own", "a value")
        return for_goals(query, task_of, beta)
    task: Task[A, F] = task_of(query, beta)
    if len(given) != 1:
        got = " and ".join(given) or "neither"
        raise InvalidArgument("error", "given, or budget, and not both", got)
    if error is not None:
        return plans_for_error(task, error)
    if not isinstance(budget, Budget | Cost):
        raise InvalidArgument("budget", "a Budget or a Cost", shown(budget))
    return plans_for_budget(task, budget)


@shows_half_made
@final
class Planner:
    """Quotes and plans for a table that is not loaded yet: from its domain and declared facts.

    Its prices, bounds and plans are those of a new session over a table of these facts. Nothing is
    read or charged, and a host that asks which questions would fit loads no row.

    Parameters
    ----------
    domain
        The universe of the table's records.
    budget
        What may be spent in all.
    rows
        The number of rows under replace-one neighbours, where it is public; left out under
        add-remove neighbours, where it is private.
    neighbors, outside, max_rows, unit_rows, unit
        As `PrivateData.from_frame` takes them.
    composition
        How costs add up; the default of a session if left out.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be.

    >>> from dpsdk import Budget, Domain, Integer, Planner
    >>> from dpsdk.mechanisms import Laplace
    >>> from dpsdk.queries import Threshold
    >>> planner = Planner(Domain(Integer("age", 17, 90)), Budget(1), rows=48_842)
    >>> planner.quote(Threshold("age", 40), using=Laplace(epsilon="0.1")).at_most.epsilon
    Fraction(1, 10)
    """

    __slots__ = ("_facts", "_odometer")

    def __init__(
        self,
        domain: Domain,
        budget: Budget,
        *,
        rows: int | None = None,
        neighbors: Neighbors | None = None,
        outside: Outside = "cell",
        max_rows: int | None = None,
        unit_rows: int = 1,
        unit: PrivacyUnit | None = None,
        composition: Composition | None = None,
    ) -> None:
        declared = Declaration(domain, "data", neighbors, outside, max_rows, unit_rows, unit)
        if declared.has_public_rows != (rows is not None):
            expected = "given, as it is public" if rows is None else "left out, as it is private"
            got = "none" if rows is None else shown(rows)
            raise InvalidArgument("rows", f"{expected} under these neighbours", got)
        self._facts = declared.facts(0 if rows is None else rows)
        self._odometer = Odometer(budget, composition)

    @classmethod
    def of(cls, facts: Facts, odometer: Odometer) -> Planner:
        """Return the planner of an account that may have spent some of its budget."""
        planner = object.__new__(cls)
        planner._facts, planner._odometer = facts, odometer
        return planner

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self._facts

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._odometer.budget

    @property
    def remaining(self) -> Remaining:
        """The remaining budget."""
        return self._odometer.remaining

    def quote(
        self,
        query: Query[Any, F],
        *,
        using: Mechanism[F] | Plan[F],
        assume: Mapping[str, object] | Assumptions | None = None,
    ) -> Quote:
        """Return what an answer would cost and how far off it would be, as `Session.quote` does.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to such a table.
        InvalidArgument
            If another argument is not what it should be.
        """
        mechanism = using.mechanism if isinstance(using, Plan) else using
        if not isinstance(mechanism, Mechanism):
            raise InvalidArgument("using", "a mechanism or a plan", shown(using))
        assumptions = Assumptions.of(assume)
        assumptions.check(self._facts)
        try:
            given: object = mechanism.quote(self._form(query), self._terms)
        except QueryError as error:
            raise error if error.query else error.about(described(query)) from None
        quote, notes = check_quote(given, mechanism), notes_of(mechanism, self._facts)
        return quote.for_query(lifting(query), self._facts, assumptions, notes)

    @overload
    def plan(
        self,
        query: Query[Any, F],
        *,
        error: float,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    @overload
    def plan(
        self,
        query: Query[Any, F],
        *,
        budget: Budget | Cost,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    @overload
    def plan(
        self,
        query: Iterable[Goal[Any, F]],
        *,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]: ...
    def plan(
        self,
        query: Query[Any, F] | Iterable[Goal[Any, F]],
        *,
        error: float | None = None,
        budget: Budget | Cost | None = None,
        beta: float = 0.05,
        assume: Mapping[str, object] | Assumptions | None = None,
        limits: Limits | None = None,
    ) -> Plans[F]:
        """Return ways to answer a query, the best first, as `Session.plan` does.

        Raises
        ------
        TooLarge
            If planning it would take more, by counted work, than `limits` and some two seconds.
        DomainError, QueryError
            If the query cannot be put to such a table.
        InvalidArgument
            If another argument is not what it should be.
        """
        return plans_for(
            query, self._form, self._terms, self._odometer.balance,
            error=error, budget=budget, beta=beta, assume=assume, limits=limits,
        )  # fmt: skip

    def affords(self, query: Query[Any, F], *, using: Mechanism[F] | Plan[F]) -> int | None:
        """Return how many such queries fit, one after the other; None where they are free."""
        return self._odometer.affords_all(self.quote(query, using=using).at_most.runs)

    @property
    def _terms(self) -> Terms:
        return Terms(self._facts, self._odometer.composition)

    def _form(self, query: Query[Any, F]) -> F:
        if not isinstance(query, Query):
            raise InvalidArgument("query", "a query", shown(query))
        query.check(self._facts)
        return query.lower(self._facts.domain)

    def __repr__(self) -> str:
        return f"Planner({self._facts!r}, {self._odometer.budget})"
