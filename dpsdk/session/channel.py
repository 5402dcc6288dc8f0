"""Channels: an open mechanism that answers queries, each with its exact type."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar, final

from dpsdk._checks import described
from dpsdk._lifetime import Closable, Lifetime
from dpsdk.errors import QueryError, Redacted
from dpsdk.forms import Form, LinearForm
from dpsdk.hypothesis import Distribution, Hypothesis
from dpsdk.hypothesis.streams import Seed
from dpsdk.kernel import Kernel
from dpsdk.kernel.access import Access, Question
from dpsdk.mechanisms.base import DistributionStrategy, HypothesisStrategy, Strategy
from dpsdk.observe import Answered, Event
from dpsdk.queries.base import Query, lifting, settled
from dpsdk.queries.linear import to_names
from dpsdk.queries.marginal import MarginalTable
from dpsdk.release import Measurement, Release
from dpsdk.session.history import History
from dpsdk.session.memo import Lowered
from dpsdk.typing import Label

__all__ = ["Channel", "DistributionChannel", "HypothesisChannel"]

A = TypeVar("A")
F_contra = TypeVar("F_contra", bound=Form, contravariant=True)


class Channel(Closable, Generic[F_contra]):
    """An open mechanism. Made by `session.open(mechanism)`; close it, or use it in a `with`.

    Its answers are charged to its session. Channels of one session may be used in turns and from
    several threads.
    """

    __slots__ = ("_access", "_ending", "_history", "_lowered", "_name", "_private", "_strategy")

    def __init__(
        self,
        strategy: Strategy[F_contra],
        name: str,
        access: Access,
        lowered: Lowered,
        history: History,
        ending: Lifetime,
        *,
        private: bool,
    ) -> None:
        self._strategy = strategy
        self._name = name
        self._access = access
        self._lowered = lowered
        self._history = history
        self._ending = ending
        self._private = private

    def answer(self, query: Query[A, F_contra]) -> A:
        """The answer to a query, of the type that the query promises.

        Raises
        ------
        DomainError, QueryError
            If the query cannot be put to this table. Nothing was charged.
        BudgetExceeded
            If its cost does not fit what is left. Nothing was charged, unless the mechanism pays in
            several steps: then `charges` of the error names what was, and stays charged.
        ReleaseFailed
            If something failed after the charge.
        Closed
            If the channel or its session is closed.
        """
        return self._put(query, described(query))[0]

    def release(self, query: Query[A, F_contra]) -> Release[A]:
        """The answer to a query with its cost and its error bounds. Raises as `answer` does."""
        label = described(query)
        value, measurement, question = self._put(query, label)
        return Release(
            value,
            label,
            self._name,
            self._history.cost(question),
            measurement.source,
            self._private,
            measurement,
            lifting(query),
            self._lowered.facts,
        )

    def _put(self, query: Query[A, F_contra], label: str) -> tuple[A, Measurement, Question]:
        """Ask, as a question of its own: the answer, what it was made of, and the question."""
        self._ending.check()
        form = self._lowered.form(query)
        facts = self._lowered.facts
        question = self._history.ask(label, self._name, self._ending)
        done: Event | None = None
        try:
            kernel = Kernel.over(self._access.on(question))
            measurement = settled(query, self._strategy.answer(form, kernel), facts)
            value = query.lift(measurement.values, facts)
            question.answered = True
            done = Answered(label, self._name)
        except QueryError as error:
            # A mechanism knows forms alone, so it leaves the query to be named here.
            told = error if error.query else error.about(label)
            self._history.note(question, told)
            raise told from None
        except BaseException as error:
            self._history.note(question, error)
            raise
        finally:
            self._history.over(question, done)
        return value, measurement, question

    def belongs_to(self, lowered: Lowered) -> bool:
        """Whether the channel is of the session that keeps these forms."""
        return self._lowered is lowered

    def close(self) -> None:
        """Answer nothing more. What was not charged stays with the session."""
        self._ending.end()

    @property
    def closed(self) -> bool:
        """Whether the channel was closed."""
        return self._ending.ended

    def __repr__(self) -> str:
        return f"Channel({self._name}{', closed' if self.closed else ''})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying a channel")


class DistributionChannel(Channel[LinearForm]):
    """A channel to a mechanism with a public distribution over the universe.

    It answers linear queries. The distribution was made of paid releases only, so it is public, and
    reading it is free.
    """

    __slots__ = ("_source",)

    def __init__(
        self,
        strategy: DistributionStrategy,
        name: str,
        access: Access,
        lowered: Lowered,
        history: History,
        ending: Lifetime,
        *,
        private: bool,
    ) -> None:
        super().__init__(strategy, name, access, lowered, history, ending, private=private)
        self._source = strategy

    @property
    def distribution(self) -> Distribution:
        """The distribution as it stands, to sample, tabulate, save or start another from.

        Later answers do not change the object that this returned.
        """
        return self._source.distribution

    def marginal(self, *names: str) -> MarginalTable:
        """The marginal table of the distribution, in shares of the rows. Free.

        Raises
        ------
        UnknownAttribute, InvalidArgument
            If the names are not distinct attributes of the domain.
        """
        domain = self._lowered.facts.domain
        wanted = to_names(names)
        ordered = tuple(sorted(wanted, key=domain.position))
        table = self.distribution.table(ordered)
        table = table.transpose([ordered.index(name) for name in wanted])
        return MarginalTable(tuple(domain[name] for name in wanted), table)

    def sample(self, size: int, seed: Seed | None = None) -> dict[str, list[Label]]:
        """Independent random records of the distribution, inside the domain. Free.

        Parameters
        ----------
        size, seed
            As for `Distribution.sample`.

        Raises
        ------
        InvalidArgument, TooLarge
            As there.
        """
        return self.distribution.sample(size, seed)


@final
class HypothesisChannel(DistributionChannel):
    """A channel to a mechanism whose public distribution moves as it learns."""

    __slots__ = ("_learner",)

    def __init__(
        self,
        strategy: HypothesisStrategy,
        name: str,
        access: Access,
        lowered: Lowered,
        history: History,
        ending: Lifetime,
        *,
        private: bool,
    ) -> None:
        super().__init__(strategy, name, access, lowered, history, ending, private=private)
        self._learner = strategy

    @property
    def hypothesis(self) -> Hypothesis:
        """The distribution as it stands. Later answers do not change what this returned."""
        return self._learner.hypothesis
