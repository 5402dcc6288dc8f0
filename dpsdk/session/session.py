"""The session: one private table, one budget, many typed questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from dpsdk._checks import shown, to_name
from dpsdk._html import html_of
from dpsdk._lifetime import Closable, Lifetime
from dpsdk._records import shows_half_made
from dpsdk.accounting import (
    Anytime,
    Budget,
    Composition,
    Ledger,
    Odometer,
    Readings,
    ScopeStatement,
    Trusted,
)
from dpsdk.accounting.ledger.base import to_ledger
from dpsdk.accounting.nested import ScopeOdometer
from dpsdk.data import PrivateData
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Request
from dpsdk.kernel.access import dataset_of
from dpsdk.kernel.trust import Trust
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.notes import ByPeriod
from dpsdk.observe import Observer
from dpsdk.progress import Bars
from dpsdk.session.context import Context
from dpsdk.session.history import History, Receipts
from dpsdk.session.notebook import session_page
from dpsdk.session.periods import Periodic
from dpsdk.session.reuse import Reuse
from dpsdk.session.scopes import Partition, Scope
from dpsdk.typing import Real

__all__ = ["Session", "check_terms"]

_UNNAMED = "data"
"""The name of a table without a name."""


@shows_half_made
@final
class Session(Periodic, Closable):
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
    ledger
        What remembers the budget, by default in memory and for this session alone. It is bound to
        the table's name and neighbours, the budget, the composition and `anytime`. A session on a
        ledger that was used before goes on with what is left; then a composition or bound that is
        left out is the ledger's. On a durable ledger, noise must be private and the table named.
    reuse
        Whether the same question to the same one-shot mechanism gets the same answer again, for
        free: `release.reused` says so. Questions are the same if they ask for the same numbers, of
        the whole table or of the same part, whatever they are called, and whichever scope asks; so
        a scope may learn that another has asked. Sessions on a durable ledger reuse each other's
        answers. Answers of mechanisms and losses of other authors, and of open channels, are not
        reused. The newest 4,096 answers of 64 MiB together are kept; a durable ledger keeps all of
        at most 65,536 numbers.
    trust
        Classes of requests of other authors that mechanisms may ask for, by dotted name, each with
        its proof: an address, a path, or the argument itself, as in ``{"acme.Peek":
        "https://acme.example/peek"}``. Each is looked up now, in modules that were imported, and
        that very class is trusted with the table as long as it is not changed. Whoever names one
        vouches for its guarantee, and for what its runs tell. Its name is on every charge, and the
        proof on every release that rests on it.
    progress
        Whether a bar on standard error tells of what takes longer than a second: answers, openings,
        quotes and plans. It shows what is public, and no more than an observer is told. Needs the
        extra `progress`.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be, or may not be used with a durable ledger.
    MissingExtra
        If `progress` is asked for, and tqdm is not installed.
    LedgerConflict
        If the ledger is bound to something else.

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
        ledger: Ledger | None = None,
        reuse: bool = False,
        trust: Mapping[str, str] | None = None,
        progress: bool = False,
    ) -> None:
        if not isinstance(data, PrivateData):
            raise InvalidArgument("data", "a PrivateData", type(data).__name__)
        check_terms(data.name, budget, composition, noise, anytime, ledger)
        if type(reuse) is not bool:
            raise InvalidArgument("reuse", "True or False", shown(reuse))
        trusted = Trust.of({} if trust is None else trust, Request)
        bars = Bars.of(progress)
        if reuse and data.facts.periods is not None and ledger is not None and _lasts(ledger):
            expected = (
                "False for periods in a durable ledger, as a period may get rows after its answer "
                "was stored"
            )
            raise InvalidArgument("reuse", expected, "True")
        odometer = Odometer(
            budget, composition, anytime,
            ledger=ledger, dataset=dataset_of(data), periods=data.facts.period_range,
        )  # fmt: skip
        source = SystemNoise() if noise is None else noise
        history, lifetime = History(odometer, observer, bars), Lifetime("the session")
        kept = Reuse() if reuse else None
        super().__init__(Context(data, odometer, source, history, lifetime, kept, trust=trusted))

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return self._context.payer.budget

    @property
    def trusted(self) -> tuple[Trusted, ...]:
        """The classes of other authors that may run, and where each is proven."""
        return self._context.trust.names

    @property
    def history(self) -> Receipts:
        """The questions, their mechanisms and their cost, in the order of asking.

        Every charge is in here: costs are what the odometer charged. A session that goes on with a
        ledger shows first what earlier sessions on it were charged. It may be read after closing,
        and in a forked process: there a ledger in memory is as it was when that was forked.
        """
        return self._context.history.receipts

    @property
    def scopes(self) -> tuple[ScopeStatement, ...]:
        """The spending of each scope, also of those that other sessions have opened.

        It may be read after closing, as `history` may. `remaining` of a scope that is open then is
        what fits through it in another session on the ledger.
        """
        return ScopeOdometer.within(self._context.payer)

    def readings(self, delta: Real) -> Readings:
        """The cost of the answers so far, read in several ways, each with its condition.

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
            What refusals, charges and events call it; public. Scopes of one name are one, for all
            sessions on a ledger: one that is open is gone on with, where its cap is the same.
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
        LedgerConflict
            If there is an open scope of this name with another cap or reserve.
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
        lifetime = Lifetime(f"the scope {shown(name)}", context.lifetime)
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
        if self._context.facts.periods is not None:
            expected = "asked of a table without periods; ask session.between(first, last)"
            raise InvalidArgument("partition", expected, "one of a table with periods")
        lifetime = Lifetime(f"the partition by {shown(attribute)}", self._context.lifetime)
        return Partition(self._context.until(lifetime), attribute)

    def close(self) -> None:
        """Answer nothing more, nor through any channel, scope or part of the session."""
        self._context.lifetime.end()

    def _promised(self) -> list[tuple[str, str]]:
        """Whom a budget of each period protects, where there are periods."""
        periods = self._context.facts.periods
        if periods is None:
            return []
        return [("protects", str(ByPeriod(periods.attribute, self.budget)))]

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Charges nothing."""
        trusted = ", ".join(one.name for one in self.trusted)
        return session_page(
            "Session",
            self._context,
            lambda: (("budget", self.budget), ("spent", self.spent), ("remaining", self.remaining)),
            told=[*self._promised(), *([("trusting", trusted)] if trusted else [])],
            below=lambda: html_of(self.history),
        )

    def __repr__(self) -> str:
        count = self._context.payer.count
        charges = f"{count:,} charge{'' if count == 1 else 's'}"
        state = "closed" if self._context.lifetime.over else charges
        names = ", ".join(one.name for one in self.trusted)
        trust = f"\n  trusting   {names}" if names else ""
        trust += "".join(f"\n  {name:9}  {text}" for name, text in self._promised())
        mark = "" if self._context.noise.private else "\n  NOT PRIVATE: seeded noise"
        return (
            f"Session({self._context.data!r}, {state})\n"
            f"  spent      {self.spent}\n"
            f"  remaining  {self.remaining}{trust}{mark}"
        )


def check_terms(
    name: str,
    budget: object,
    composition: object,
    noise: object,
    anytime: object,
    ledger: Ledger | None,
) -> None:
    """Refuse what is no budget, composition, source or bound, or does not go with the ledger.

    A durable one is not for noise that is not meant to last, nor for a table without a name.
    """
    if not isinstance(budget, Budget):
        raise InvalidArgument("budget", "a Budget", shown(budget))
    if composition is not None and not isinstance(composition, Composition):
        raise InvalidArgument("composition", "a composition", shown(composition))
    if noise is not None and not isinstance(noise, NoiseSource):
        raise InvalidArgument("noise", "a noise source", shown(noise))
    if anytime is not None and not isinstance(anytime, Anytime):
        raise InvalidArgument("anytime", "an Anytime bound", shown(anytime))
    if ledger is None or not _lasts(ledger):
        return
    if noise is not None and not noise.private:
        raise InvalidArgument("noise", "private, since the ledger is durable", shown(noise))
    if name == _UNNAMED:
        expected = "given to a table whose ledger is durable: it is what the ledger knows it by"
        raise InvalidArgument("name", expected, f"the default, {_UNNAMED!r}")


def _lasts(ledger: Ledger) -> bool:
    return to_ledger(ledger).durable
