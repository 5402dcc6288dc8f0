"""The benches that plugins are tried on: tables and their neighbours, questions, and runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.accounting import Budget, Guarantee
from dpsdk.data import PrivateData
from dpsdk.domain import Boolean, Domain, Integer
from dpsdk.errors import (
    DomainError,
    DpsdkError,
    ExactSamplingInfeasible,
    InvalidArgument,
    QueryError,
    TooLarge,
    UnsupportedGuarantee,
    Untrusted,
)
from dpsdk.forms import Form, Neighbors
from dpsdk.kernel import Kernel, Request
from dpsdk.kernel.trust import Trust
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import Mechanism, ModelsMechanism
from dpsdk.noise import NoiseSource
from dpsdk.observe import Observer
from dpsdk.queries import (
    Above,
    Ball,
    Conjunction,
    ConvexMinimization,
    Count,
    Marginal,
    Median,
    NumericAbove,
    Quantile,
    Query,
)
from dpsdk.release import Cost, Quote
from dpsdk.session import Session
from dpsdk.session.channel import Channel
from dpsdk.session.opening import Stopped
from dpsdk.session.query_interface import QueryInterface
from dpsdk.testing.audit.programs import AMPLE, ANY, Program, WatchingNoise
from dpsdk.testing.conformance.costs import charges, odometer
from dpsdk.testing.conformance.prints import mutable, printed
from dpsdk.testing.conformance.report import Tally, called, caught, name_error
from dpsdk.testing.noise import seeded
from dpsdk.wire import Catalogue

__all__ = [
    "AnyQuery",
    "Asked",
    "Bench",
    "MechanismBench",
    "NOTHING",
    "REFUSALS",
    "Scene",
    "TINY_DOMAINS",
    "Table",
    "WORK",
    "questions",
    "runnable",
]

AnyQuery: TypeAlias = Query[object, Form]

NOTHING: Mapping[str, str] = MappingProxyType({})
"""No trust, or no waivers."""

WORK = Domain(Integer("level", 0, 2), Boolean("member"))
"""The universe where none is given."""

TINY_DOMAINS = (Domain(Boolean("member")), Domain(Integer("level", 0, 1)), WORK)
"""The universes to enumerate over where none is given."""

REFUSALS = (
    DomainError,
    ExactSamplingInfeasible,
    InvalidArgument,
    QueryError,
    TooLarge,
    UnsupportedGuarantee,
    Untrusted,
)
"""The errors by which a mechanism says that it does not take something."""

_EACH = 2
"""How many questions of a kind are asked in a quick run."""

_CELLS = 2**16
"""Tables are made over all cells of a universe, of so many at the most."""


@frozen
class Table:
    """A table that is nobody's, as a recipe: each run makes it anew, and nothing is shared."""

    domain: Domain
    counts: tuple[int, ...]
    """Of each cell, the one outside the domain last."""
    neighbors: Neighbors
    unit_rows: int

    def made(self) -> PrivateData:
        return PrivateData.from_counts(
            np.array(self.counts[:-1], dtype=np.int64),
            self.domain,
            outside_rows=self.counts[-1],
            neighbors=self.neighbors,
            unit_rows=self.unit_rows,
        )

    def __str__(self) -> str:
        people = f"{self.neighbors.value}, {self.unit_rows} rows a person"
        return f"rows {list(self.counts)} by cell ({people})"


@frozen(eq=False)
class Scene:
    """One setting in which something can be asked: over which tables, and what."""

    domain: Domain
    neighbors: Neighbors
    unit_rows: int
    queries: tuple[AnyQuery, ...]

    @cached_property
    def table(self) -> Table:
        """A table with some rows in every cell, and two outside."""
        cells = self.domain.size
        counts = [3 + (7 * cell) % 5 for cell in range(min(cells, 64))]
        return self._of([*counts, *[0] * (cells - len(counts)), 2])

    @property
    def neighbor(self) -> Table:
        """A neighbour of it, where all rows of a person moved away or were taken out."""
        return self.neighbours[0][1]

    @cached_property
    def neighbours(self) -> tuple[tuple[Table, Table], ...]:
        """Pairs of neighbours in both orders, where a person moves, is outside or not there."""
        last = len(self.table.counts) - 2
        if self.neighbors is Neighbors.REPLACE_ONE:
            moves = ({0: -1, last: 1}, {last: -1, last + 1: 1})
        else:
            moves = ({0: -1}, {last: 1})
        pairs: list[tuple[Table, Table]] = []
        for move in moves:
            counts = list(self.table.counts)
            for cell, sign in move.items():
                counts[cell] += sign * self.unit_rows
            if min(counts) >= 0:
                pairs.append((self.table, self._of(counts)))
        return (*pairs, *((two, one) for one, two in pairs))

    @cached_property
    def far(self) -> tuple[Table, ...]:
        """Tables that differ as far as they can, such as those with all rows in one cell."""
        rows, cells = sum(self.table.counts), len(self.table.counts)
        others = [[rows, *[0] * (cells - 1)], [*[0] * (cells - 1), rows]]
        if self.neighbors is Neighbors.ADD_REMOVE:
            others.append([0] * cells)
        return self.table, *map(self._of, others)

    def alike(self, tables: Sequence[Table]) -> list[Table]:
        """Those of some tables that nothing public tells from the table of the scene."""
        facts = self.table.made().facts
        return [table for table in dict.fromkeys(tables) if table.made().facts == facts]

    def _of(self, counts: Sequence[int]) -> Table:
        return Table(self.domain, tuple(counts), self.neighbors, self.unit_rows)

    def __str__(self) -> str:
        rows = "1 row" if self.unit_rows == 1 else f"{self.unit_rows} rows"
        asked = ", ".join(map(called, self.queries))
        return f"under {self.neighbors.value} with {rows} a person, asked {asked}"


class Bench(ABC):
    """A plugin, tables in several settings, and sessions on them; what is drawn is seeded."""

    def __init__(
        self,
        plugin: object,
        domain: Domain | None,
        catalogue: Catalogue | None,
        *,
        thorough: bool,
        trust: Mapping[str, str],
    ) -> None:
        if domain is not None and not isinstance(domain, Domain):
            raise InvalidArgument("domain", "a Domain", shown(domain))
        if domain is not None and domain.size > _CELLS:
            found = f"one of {domain.size:,}"
            raise InvalidArgument("domain", f"of at most {_CELLS:,} cells", found)
        if type(thorough) is not bool:
            raise InvalidArgument("thorough", "True or False", shown(thorough))
        if catalogue is not None and not isinstance(catalogue, Catalogue):
            raise InvalidArgument("catalogue", "a Catalogue", shown(catalogue))
        if not isinstance(trust, Mapping):
            raise InvalidArgument("trust", "a mapping of dotted names to proofs", shown(trust))
        self.domain: Domain = WORK if domain is None else domain
        # Looked at first, since copies of a query of attrs share its arrays, and seal them.
        self.held: tuple[tuple[str, object], ...] = tuple(mutable(plugin))
        self.tiny: tuple[Domain, ...] = TINY_DOMAINS if domain is None else (domain,)
        self.catalogue: Catalogue = Catalogue.shipped() if catalogue is None else catalogue
        self.thorough = thorough
        self.trust: dict[str, str] = {one.name: one.proof for one in Trust.of(trust, Request).names}
        self.key: int = int.from_bytes(sha256(called(plugin).encode()).digest()[:6], "big")
        self.refusals: dict[str, str] = {}
        """Why a setting or a question was not taken, by what was asked."""
        self.strange: dict[str, str] = {}
        """Refusals that were not typed."""
        self.scenes: tuple[Scene, ...] = tuple(
            scene
            for neighbors in Neighbors
            for unit_rows in self.people()
            if (scene := self.scene(self.domain, neighbors, unit_rows)) is not None
        )

    @abstractmethod
    def scene(self, domain: Domain, neighbors: Neighbors, unit_rows: int) -> Scene | None:
        """Return the setting with the questions that fit into it, if any do."""

    def people(self) -> tuple[int, ...]:
        """Return how many rows a person may have in the settings."""
        return (1, 2) if self.thorough else (1,)

    def seed(self, number: int) -> int:
        """Return a seed that a plugin cannot guess from its being small."""
        return self.key * 1000 + number

    def session(
        self,
        data: Table | PrivateData,
        *,
        seed: int = 0,
        budget: Budget = AMPLE,
        noise: NoiseSource | None = None,
        observer: Observer | None = None,
    ) -> Session:
        """Return a new session on a table."""
        return Session(
            data.made() if isinstance(data, Table) else data,
            budget,
            composition=ANY,
            noise=seeded(self.seed(seed)) if noise is None else noise,
            observer=observer,
            trust=self.trust,
        )

    def advise(self) -> str:
        """Say why nothing was taken, and what to do about it; empty where something was."""
        if self.scenes:
            return ""
        # Each reason once, with a question that it was given for.
        reasons = {why: asked for asked, why in reversed((self.refusals or self.strange).items())}
        told = "; ".join(f"{asked}: {why}" for why, asked in [*reasons.items()][-2:])
        return f"it took no question ({told}). Give a domain and queries that it takes."


@frozen(eq=False)
class Asked:
    """All that came of one opening and the questions after it."""

    opened: Cost
    """The charges for opening the channel."""
    costs: tuple[Cost, ...]
    """The charges of each question."""
    answers: tuple[Hashable, ...]
    """All that is public of each answer, as `printed` tells it."""
    charged: tuple[Guarantee, ...]
    """All runs that the session was charged for, in their order."""


class MechanismBench(Bench):
    """A mechanism, and the questions that it is asked; made to fit it where none are given."""

    def __init__(
        self,
        mechanism: Mechanism[Form],
        queries: tuple[AnyQuery, ...] = (),
        domain: Domain | None = None,
        catalogue: Catalogue | None = None,
        *,
        thorough: bool = False,
        trust: Mapping[str, str] = NOTHING,
    ) -> None:
        self.mechanism = mechanism
        self.given = queries
        super().__init__(mechanism, domain, catalogue, thorough=thorough, trust=trust)

    def people(self) -> tuple[int, ...]:
        return (1, 2)

    def scene(self, domain: Domain, neighbors: Neighbors, unit_rows: int) -> Scene | None:
        session = self.session(Scene(domain, neighbors, unit_rows, ()).table)
        for kind in (self.given,) if self.given else self._fitting(domain):
            taken: list[AnyQuery] = []
            for query in kind:
                asked = f"{called(query)} under {neighbors.value}, unit_rows={unit_rows}"
                error = caught(session.quote, query, using=self.mechanism)
                if error is not None:
                    typed = isinstance(error, DpsdkError)
                    (self.refusals if typed else self.strange)[asked] = name_error(error)
                    if typed or not self.given:
                        continue
                taken.append(query)
                if len(taken) == _EACH and not self.given and not self.thorough:
                    break
            found = Scene(domain, neighbors, unit_rows, tuple(taken))
            if taken and self._taken(found):
                return found
        return None

    def _fitting(self, domain: Domain) -> tuple[tuple[AnyQuery, ...], ...]:
        """Questions of each kind; models and a count together for what watches over models."""
        kinds = questions(domain)
        if isinstance(self.mechanism, ModelsMechanism):
            return (*kinds[-1], kinds[0][0]), kinds[0]
        return kinds

    def _taken(self, scene: Scene) -> bool:
        """True if its questions are answered, or fail in a way that a check has to look at."""
        error = caught(self.asked, scene, self.session(scene.table))
        if isinstance(error, REFUSALS):
            self.refusals[str(scene)] = name_error(error)
            return False
        return True

    def kernel(self, table: Table, number: int) -> Kernel:
        """Return a kernel on a new table, for what sessions keep to themselves."""
        noise = seeded(self.seed(number))
        return Kernel(table.made(), odometer(), noise, "kit", trust=self.trust)

    def quotes(self, scene: Scene, table: Table) -> list[Quote]:
        """Return the quoted cost of each question of a scene."""
        session = self.session(table)
        return [session.quote(query, using=self.mechanism) for query in scene.queries]

    def asked(self, scene: Scene, session: Session) -> Asked:
        """Open the mechanism and put all questions of a scene, in order."""
        with self.opened(session) as channel:
            opened = charges(session)
            costs: list[Cost] = []
            answers: list[Hashable] = []
            refused: list[DpsdkError] = []
            for query in scene.queries:
                before = len(charges(session))
                try:
                    said = printed(channel.release(query))
                except DpsdkError as error:  # some end after so many answers
                    refused.append(error)
                    said = ("refused", type(error).__name__, str(error))
                costs.append(Cost(charges(session)[before:]))
                answers.append(said)
        if len(refused) == len(answers):
            raise refused[0]
        return Asked(Cost(opened), tuple(costs), tuple(answers), charges(session))

    def opened(self, session: QueryInterface) -> Channel[Form]:
        """Return a channel to the mechanism; one that was stopped early if it was."""
        try:
            return session.open(self.mechanism)
        except Stopped as early:
            return early.channel  # type: ignore[return-value]  # it takes more forms than these

    def program(self, scene: Scene) -> Program:
        """Return the run of a scene, as audits take it: its outcome is all that becomes public."""

        def run(data: PrivateData, noise: NoiseSource) -> Hashable:
            observer = noise.observe if isinstance(noise, WatchingNoise) else None
            asked = self.asked(scene, self.session(data, noise=noise, observer=observer))
            return asked.answers, tuple(map(str, asked.charged))

        return run


def questions(domain: Domain) -> tuple[tuple[AnyQuery, ...], ...]:
    """Return questions of each kind, the most telling ones first."""
    first, last = domain.names[0], domain.names[-1]
    label = domain[first].label(0)
    part = Conjunction({first: label}, normalized=False)
    linear: list[object] = [
        Marginal(first, normalized=False),
        part,
        Count(normalized=False),
        Marginal(last, normalized=False),
    ]
    gaps: list[object] = [Above(part, 2), NumericAbove(part, 2), Above(Count(normalized=False), 9)]
    places: list[object] = [Median(first), Quantile(last, "0.9")]
    models: list[object] = []
    with suppress(DpsdkError):
        models.append(
            ConvexMinimization(
                SquaredLoss(), features=[last], label=first, over=Ball(2), intercept=False
            )
        )
    kinds = linear, gaps, places, models
    return tuple(cast("tuple[AnyQuery, ...]", tuple(kind)) for kind in kinds)


def runnable(bench: Bench, tally: Tally) -> tuple[Scene, ...]:
    """Return the settings in which something is taken; a failure if there are none."""
    if not bench.scenes:
        tally.fail("Nothing could be run", "See above for why")
    return bench.scenes
