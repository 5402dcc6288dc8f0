"""The session: one private table, one budget, many typed questions."""

from __future__ import annotations

from typing import final

from dpsdk._checks import shown, to_name
from dpsdk._lifetime import Closable, Lifetime
from dpsdk.accounting import (
    Anytime,
    Budget,
    Composition,
    Odometer,
    Readings,
    default_composition,
)
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.data import PrivateData
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.observe import Observer
from dpsdk.session.context import Context
from dpsdk.session.desk import Desk
from dpsdk.session.history import Entry, History
from dpsdk.session.scopes import Partition, Scope
from dpsdk.typing import Real

__all__ = ["Session"]


@final
class Session(Desk, Closable):
    """Typed questions to one private table, under one budget.

    Whatever is asked, adaptively and from however many threads, the answers together are
    (ε, δ)-differentially private for the budget's ε and δ, under the table's neighbour relation.
    A request that does not fit is refused: it costs nothing, changes nothing, and a smaller one
    may still pass.

    Parameters
    ----------
    data
        The table.
    budget
        What may be spent in all.
    composition
        How costs add up, a value of dpsdk.accounting. By default whichever of basic and
        envelope composition still has room.
    noise
        Where randomness comes from; by default the operating system. `dpsdk.testing.seeded`
        serves tests: its releases repeat, protect nobody, and say so.
    observer
        Called with the events of dpsdk.observe.
    anytime
        A bound for `readings` to report, a value of dpsdk.accounting. It enforces nothing, and must
        be fixed now, before the first answer.

    >>> from dpsdk import Budget, Domain, Integer, PrivateData, Session
    >>> from dpsdk.mechanisms import Laplace
    >>> from dpsdk.queries import Threshold
    >>> domain = Domain(Integer("age", 17, 90))
    >>> session = Session(PrivateData.from_columns({"age": [39, 50]}, domain), Budget(epsilon=1))
    >>> share = session.answer(Threshold("age", 40), using=Laplace(epsilon=0.1))
    >>> session.spent.epsilon
    Fraction(1, 10)
    """

    __slots__ = ()

    def __init__(
        self,
        data: PrivateData,
        budget: Budget,
        *,
        composition: Composition | None = None,
        noise: NoiseSource | None = None,
        observer: Observer | None = None,
        anytime: Anytime | None = None,
    ) -> None:
        if not isinstance(data, PrivateData):
            raise InvalidArgument("data", "a PrivateData", type(data).__name__)
        if not isinstance(budget, Budget):
            raise InvalidArgument("budget", "a Budget", shown(budget))
        if composition is not None and not isinstance(composition, Composition):
            raise InvalidArgument("composition", "a composition", shown(composition))
        if noise is not None and not isinstance(noise, NoiseSource):
            raise InvalidArgument("noise", "a noise source", shown(noise))
        if anytime is not None and not isinstance(anytime, Anytime):
            raise InvalidArgument("anytime", "an Anytime bound", shown(anytime))
        decides = default_composition() if composition is None else composition
        odometer = Odometer(budget, decides, anytime)
        source = SystemNoise() if noise is None else noise
        history, lifetime = History(odometer, observer), Lifetime("the session")
        super().__init__(Context(data, odometer, source, history, lifetime))

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""
        return self._context.payer.budget

    @property
    def history(self) -> tuple[Entry, ...]:
        """What was asked, of which mechanism and at what cost, in the order of asking.

        Every charge is in here: costs are what the odometer charged.
        """
        return self._context.history.entries

    def readings(self, delta: Real) -> Readings:
        """What the answers so far cost, read in several ways, each with its condition.

        Parameters
        ----------
        delta
            Strictly between 0 and 1: the δ of the figures that do not hold at every moment.

        Raises
        ------
        InvalidArgument
            If `delta` is out of range.
        """
        return self._context.payer.readings(delta)

    def scope(
        self,
        name: str,
        share: Real | None = None,
        *,
        epsilon: Real | None = None,
        delta: Real = 0,
        reserve: bool = False,
    ) -> Scope:
        """A scope: it answers like the session, and never spends more than its cap.

        Parameters
        ----------
        name
            What refusals call it; public.
        share
            The cap as a share of the session's budget, above 0 and at most 1. Shares add up.
        epsilon, delta
            Instead of a share: the cap as a budget, which the session's composition turns into
            its own unit.
        reserve
            Whether to set the cap aside, so that nobody else spends it until the scope closes, or
            until nobody holds it any more. Where a composition keeps several counts, as the default
            does, others pass only while one count is left in which all reserves can be spent: what
            fits each count of the reserve is kept, and `remaining.kept_epsilon` shows how much.

        Raises
        ------
        InvalidArgument
            If the cap is not given in one of the two ways, or out of range.
        BudgetExceeded
            If less is left than should be reserved.
        """
        self._context.lifetime.check()
        if share is not None and epsilon is None and not delta:
            cap: Real | Budget = share
        elif share is None and epsilon is not None:
            cap = Budget(epsilon, delta)
        else:
            expected = "given as a share alone, or as epsilon and delta"
            given = {"share": share, "epsilon": epsilon, "delta": delta or None}
            got = ", ".join(key for key, value in given.items() if value is not None)
            raise InvalidArgument("scope", expected, got or "nothing")
        context = self._context
        payer = ScopeOdometer(context.payer, to_name("name", name), cap, reserve=reserve)
        lifetime = Lifetime(f"the scope {name!r}", context.lifetime)
        return Scope(context.paid_by(payer, lifetime), payer)

    def partition(self, attribute: str) -> Partition:
        """Split the table by the labels of an attribute, and answer for each part by itself.

        A row is in one part only. So where neighbours differ by one row more, all parts together
        cost what the dearest costs by itself; where one row is replaced, it may move from one part
        to another, and they cost what the two dearest cost together. Ask within a ``with`` block:
        one partition can be open at a time. Of any number of labels, 1,024 can be asked where rows
        move, and 65,536 where they do not.

        Raises
        ------
        UnknownAttribute
            If the domain does not have it.
        TooLarge
            If it has too many labels.
        InvalidArgument
            If a partition is open already, or if a person may have several rows (`unit_rows`),
            since these may lie in several parts: ask the whole table, by marginals or `where=`.
        """
        self._context.lifetime.check()
        lifetime = Lifetime(f"the partition by {attribute}", self._context.lifetime)
        return Partition(self._context.until(lifetime), attribute)

    def close(self) -> None:
        """Answer nothing more, nor through any channel, scope or part of the session."""
        self._context.lifetime.end()

    def __repr__(self) -> str:
        count = len(self.history)
        entries = f"{count:,} entr{'y' if count == 1 else 'ies'}"
        state = "closed" if self._context.lifetime.over else entries
        mark = "" if self._context.noise.private else "\n  NOT PRIVATE: seeded noise"
        return (
            f"Session({self._context.data!r}, {state})\n"
            f"  spent      {self.spent}\n"
            f"  remaining  {self.remaining}{mark}"
        )
