"""The bench that mechanisms are tried on: tables and their neighbours, questions, and runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import (
    Budget,
    Composition,
    Guarantee,
)
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
from dpsdk.kernel import Kernel
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
    NumericAbove,
    Query,
)
from dpsdk.release import Cost, Quote, Release
from dpsdk.session import Session
from dpsdk.session.channel import Channel
from dpsdk.session.opening import Stopped
from dpsdk.session.query_interface import QueryInterface
from dpsdk.testing.audit.programs import Program, WatchingNoise
from dpsdk.testing.conformance.costs import (
    AMPLE,
    ANY,
    TINY,
    charges,
    combined,
    fits,
    least,
    odometer,
    within,
)
from dpsdk.testing.conformance.listening import Heard
from dpsdk.testing.conformance.prints import printed, printed_briefly
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.conformance.settings import NOBODY
from dpsdk.testing.conformance.texts import called
from dpsdk.testing.noise import seeded
from dpsdk.wire import Catalogue

__all__ = [
    "AMPLE",
    "ANY",
    "REFUSALS",
    "TINY_DOMAINS",
    "TINY",
    "Asked",
    "Bench",
    "Scene",
    "Table",
    "charges",
    "combined",
    "fits",
    "least",
    "odometer",
    "questions",
    "runnable",
    "typed",
    "within",
]

AnyQuery: TypeAlias = Query[object, Form]
AnyMechanism: TypeAlias = Mechanism[Form]

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
"""By which a mechanism says that it does not take something."""

_EACH = 2
"""How many questions of a kind are asked in a quick run."""


@frozen
class Table:
    """A table that is nobody's, as a recipe: each run makes it anew, and nothing is shared."""

    domain: Domain
    counts: tuple[int, ...]
    """Of each cell, the one outside the domain last."""
    neighbors: Neighbors
    unit_rows: int

    def made(self) -> PrivateData:
        """The table itself."""
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
    """One setting in which a mechanism can be asked: over which tables, and what."""

    domain: Domain
    neighbors: Neighbors
    unit_rows: int
    queries: tuple[AnyQuery, ...]
    audited: bool = False
    """True if it is small enough to be enumerated."""

    @cached_property
    def table(self) -> Table:
        """A table with some rows in every cell, and one outside."""
        cells = self.domain.size
        counts = [3 + (7 * cell) % 5 for cell in range(min(cells, 64))]
        counts += [0] * (cells - len(counts))
        return self._of([*counts, 2])

    @cached_property
    def neighbor(self) -> Table:
        """A neighbour of it, where all rows of a person moved away or were taken out."""
        return self.neighbours[0][1]

    @cached_property
    def neighbours(self) -> tuple[tuple[Table, Table], ...]:
        """Pairs of neighbours in both orders, where a person moves, is outside or not there."""
        counts, many = self.table.counts, self.unit_rows
        last = len(counts) - 2
        if self.neighbors is Neighbors.REPLACE_ONE:
            others = [_moved(counts, 0, last, many), _moved(counts, last, len(counts) - 1, many)]
        else:
            gone = [list(counts) for _ in range(2)]
            gone[0][0] -= many
            gone[1][last] += many
            others = gone
        pairs = [(self.table, self._of(other)) for other in others if min(other) >= 0]
        return (*pairs, *((two, one) for one, two in pairs))

    @cached_property
    def far(self) -> tuple[Table, ...]:
        """Tables that differ as far as they can, such as those with all rows in one cell."""
        rows = sum(self.table.counts)
        cells = len(self.table.counts)
        first, outside = [0] * cells, [0] * cells
        first[0], outside[-1] = rows, rows
        found = [self.table, self._of(first), self._of(outside)]
        if self.neighbors is Neighbors.ADD_REMOVE:
            found.append(self._of([0] * cells))
        return tuple(found)

    def _of(self, counts: Sequence[int]) -> Table:
        return Table(self.domain, tuple(counts), self.neighbors, self.unit_rows)

    def __str__(self) -> str:
        rows = "1 row" if self.unit_rows == 1 else f"{self.unit_rows} rows"
        asked = ", ".join(map(called, self.queries))
        return f"under {self.neighbors.value} with {rows} a person, asked {asked}"


def _moved(counts: Sequence[int], gone: int, come: int, many: int) -> list[int]:
    other = list(counts)
    other[gone] -= many
    other[come] += many
    return other


@frozen(eq=False)
class Asked:
    """All that came of one opening and the questions after it."""

    session: Session
    opened: Cost
    """The charges for opening the channel."""
    costs: tuple[Cost, ...]
    """The charges of each question."""
    answers: tuple[Hashable, ...]
    """All that is public of each answer, as `printed` tells it."""
    charged: tuple[Guarantee, ...]
    """All runs that the session was charged for, in their order."""


class Bench:
    """A mechanism, and all that a kit tries with it. Deterministic: what is drawn is seeded.

    Parameters
    ----------
    mechanism
        What is checked.
    queries
        What it is asked; made to fit it where there are none.
    domain
        The universe; one of two attributes if left out.
    thorough
        Whether to try more of everything.
    catalogue
        The kinds of written forms; those of the package if left out.
    trust
        Classes of requests that its sessions and kernels trust, each with its proof.
    """

    def __init__(
        self,
        mechanism: AnyMechanism,
        queries: tuple[AnyQuery, ...],
        domain: Domain | None,
        *,
        thorough: bool,
        catalogue: Catalogue | None = None,
        trust: Mapping[str, str] = NOBODY,
    ) -> None:
        self.mechanism = mechanism
        self.given = queries
        self.domain = domain
        self.thorough = thorough
        self.catalogue = catalogue
        self.trust = trust
        self.key: int = int.from_bytes(sha256(called(mechanism).encode()).digest()[:6], "big")
        self.refusals: dict[str, str] = {}
        """Why the mechanism would not take a setting or a question, by what was asked."""
        self.strange: dict[str, str] = {}
        """Refusals that were not typed."""
        self.scenes: tuple[Scene, ...] = tuple(self._scenes(domain or WORK))

    def seed(self, number: int) -> int:
        """Seeds that a plugin cannot guess from their being small."""
        return self.key * 1000 + number

    def heard(self, number: int, tell: Callable[[str], None]) -> Heard:
        """Noise of a seed that calls somebody before each draw."""
        return Heard(self.seed(number), tell)

    def _scenes(self, domain: Domain) -> Iterator[Scene]:
        for neighbors in Neighbors:
            for unit_rows in (1, 2):
                scene = self.scene(domain, neighbors, unit_rows)
                if scene is not None:
                    yield scene

    def scene(self, domain: Domain, neighbors: Neighbors, unit_rows: int) -> Scene | None:
        """The setting with the questions that the mechanism takes in it, if it takes any."""
        bare = Scene(domain, neighbors, unit_rows, ())
        session = self.session_on(bare.table.made(), seeded(0))
        for kind in (self.given,) if self.given else self._fitting(domain):
            taken: list[AnyQuery] = []
            for query in kind:
                asked = f"{called(query)} under {neighbors.value}, unit_rows={unit_rows}"
                try:
                    session.quote(query, using=self.mechanism)
                except DpsdkError as error:
                    self.refusals[asked] = f"{type(error).__name__}: {called(error)}"
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001  # a plugin may raise what it likes
                    self.strange[asked] = f"{type(error).__name__}: {called(error)}"
                    if self.given:
                        taken.append(query)
                else:
                    taken.append(query)
                if len(taken) == _EACH and not self.given and not self.thorough:
                    break
            if taken:
                found = Scene(domain, neighbors, unit_rows, tuple(taken))
                if self._taken(found):
                    return found
        return None

    def _fitting(self, domain: Domain) -> tuple[tuple[AnyQuery, ...], ...]:
        """Questions of each kind; models and a count together for what watches over models."""
        linear, gaps, models = questions(domain)
        if isinstance(self.mechanism, ModelsMechanism):
            return (*models, linear[0]), linear
        return linear, gaps, models

    def _taken(self, scene: Scene) -> bool:
        """True if its questions are answered, or fail in a way that a check has to look at."""
        try:
            self.asked(scene, self.session(scene.table))
        except REFUSALS as error:
            self.refusals[str(scene)] = f"{type(error).__name__}: {called(error)}"
            return False
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  # a plugin may raise what it likes
            return True
        return True

    def session(
        self,
        table: Table,
        *,
        seed: int = 0,
        budget: Budget = AMPLE,
        composition: Composition = ANY,
        noise: NoiseSource | None = None,
        observer: Observer | None = None,
    ) -> Session:
        """A new session on a new table."""
        source = seeded(self.seed(seed)) if noise is None else noise
        return Session(
            table.made(),
            budget,
            composition=composition,
            noise=source,
            observer=observer,
            trust=self.trust,
        )

    def session_on(
        self, data: PrivateData, noise: NoiseSource, observer: Observer | None = None
    ) -> Session:
        """A new session on a table that somebody else made, with room for whatever is asked."""
        return Session(
            data, AMPLE, composition=ANY, noise=noise, observer=observer, trust=self.trust
        )

    def kernel(self, table: Table, number: int) -> Kernel:
        """A kernel on a new table, for what sessions keep to themselves."""
        noise = self.heard(number, lambda _: None)
        return Kernel(table.made(), odometer(), noise, "kit", trust=self.trust)

    def quotes(self, scene: Scene, table: Table) -> list[Quote]:
        """The quoted cost of each question of a scene."""
        session = self.session(table)
        return [session.quote(query, using=self.mechanism) for query in scene.queries]

    def asked(
        self,
        scene: Scene,
        session: Session,
        told: Callable[[Release[object]], Hashable] = printed,
    ) -> Asked:
        """Open the mechanism and put all questions of a scene, in order."""
        with self.opened(session) as channel:
            opened = charges(session)
            costs: list[Cost] = []
            answers: list[Hashable] = []
            refused: list[DpsdkError] = []
            for query in scene.queries:
                before = len(charges(session))
                try:
                    said = told(channel.release(query))
                except DpsdkError as error:  # some end after so many answers
                    refused.append(error)
                    said = ("refused", type(error).__name__, str(error))
                costs.append(Cost(charges(session)[before:]))
                answers.append(said)
        if len(refused) == len(answers):
            raise refused[0]
        return Asked(session, Cost(opened), tuple(costs), tuple(answers), charges(session))

    def asked_of(self, scene: Scene, data: PrivateData, noise: NoiseSource) -> Asked:
        """The same of a table, with some noise, and told briefly."""
        return self.asked(scene, self.session_on(data, noise), printed_briefly)

    def opened(self, session: QueryInterface) -> Channel[Form]:
        """A channel to the mechanism; one that was stopped early if it was."""
        try:
            return session.open(self.mechanism)
        except Stopped as early:
            return early.channel  # type: ignore[return-value]  # it takes more forms than these

    def program(self, scene: Scene) -> Program:
        """The run of a scene, as audits take it: all that becomes public is its outcome."""

        def run(data: PrivateData, noise: NoiseSource) -> Hashable:
            observer = noise.observe if isinstance(noise, WatchingNoise) else None
            asked = self.asked(scene, self.session_on(data, noise, observer))
            return asked.answers, tuple(map(str, asked.charged))

        return run


def questions(domain: Domain) -> tuple[tuple[AnyQuery, ...], ...]:
    """Questions of each kind, the most telling ones first."""
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
    models: list[object] = []
    with suppress(DpsdkError):
        models.append(
            ConvexMinimization(
                SquaredLoss(), features=[last], label=first, over=Ball(2), intercept=False
            )
        )
    return tuple(cast("tuple[AnyQuery, ...]", tuple(kind)) for kind in (linear, gaps, models))


def typed(error: BaseException) -> bool:
    """True if an error is one of the package's, whose texts are public."""
    return isinstance(error, DpsdkError)


def advise(bench: Bench) -> str:
    """Why a mechanism took nothing, and what to do about it; empty where it took something."""
    if bench.scenes:
        return ""
    # Each reason once, with a question that it was given for.
    reasons = {why: asked for asked, why in reversed(bench.refusals.items())}
    told = "; ".join(f"{asked}: {why}" for why, asked in [*reasons.items()][-2:])
    told = told or "; ".join(f"{asked}: {why}" for asked, why in [*bench.strange.items()][:2])
    return f"it took no question ({told}). Give a domain and queries that it takes."


def runnable(bench: Bench, tally: Tally) -> tuple[Scene, ...]:
    """The settings that the mechanism takes; a failure if there are none."""
    if not bench.scenes:
        tally.fail("Nothing could be run", "See above for why")
    return bench.scenes
