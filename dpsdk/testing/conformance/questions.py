"""The bench that queries are tried on: tables and their neighbours, and raw numbers to lift."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeAlias, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import Budget
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.domain import Domain
from dpsdk.forms import ConvexForm, Facts, Form, GapForm, LinearForm, Neighbors
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Laplace, Mechanism, NumericSparse, PrivateMinimizer, Strategy
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import Query
from dpsdk.queries.base import settled
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.session import Session
from dpsdk.testing.conformance.bench import ANY, WORK, Scene, Table
from dpsdk.testing.conformance.prints import deep
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.conformance.settings import NOBODY
from dpsdk.testing.conformance.texts import called
from dpsdk.testing.noise import seeded
from dpsdk.typing import Floats
from dpsdk.wire import Catalogue

__all__ = ["AnyQuery", "Given", "Question", "advise", "askable", "content_of"]

AnyQuery: TypeAlias = Query[object, Form]

_EXACT = Laplace(epsilon=10**9)
"""Noise so small that all of it is zero."""

_PLENTY = Budget(epsilon=10**12, delta="0.1")


def content_of(form: Form) -> Hashable:
    """The content of a form, to compare it with another."""
    return form.identity if type(form) is LinearForm else deep(form)


@frozen(eq=False)
class Given(Mechanism[Form]):
    """Answers the same numbers whatever the table: what a query makes of them is all that varies.

    Parameters
    ----------
    raw
        The numbers.
    bounded
        Whether they have error bounds, each by itself.
    """

    raw: Floats
    bounded: bool

    @property
    def accuracy(self) -> NoiseAccuracy | NoAccuracy:
        """As of noise of a scale of two rows."""
        if not self.bounded:
            return NoAccuracy("it was given")
        return NoiseAccuracy(DiscreteLaplace(2), len(self.raw), 1.0, 0.0)

    @property
    def name(self) -> str:
        return "given numbers"

    def quote(self, form: Form, terms: Terms, /) -> Quote:
        del form, terms
        return Quote(Cost(), Cost(), self.accuracy)

    def open(self, kernel: Kernel, /) -> Strategy[Form]:
        del kernel
        return self

    def answer(self, form: Form, kernel: Kernel, /) -> Measurement:
        """The numbers, in an array of their own."""
        del form, kernel
        return Measurement(self.raw.copy(), self.accuracy)


class Question:
    """A query, and all that a kit tries with it. Deterministic: what is drawn is seeded.

    Parameters
    ----------
    query
        What is checked.
    domain
        The universe of the tables; one of two attributes if left out.
    using
        What answers it; a built-in mechanism for forms of its kind if left out.
    catalogue
        The kinds of written forms; those of the package if left out.
    thorough
        Whether to try more of everything.
    trust
        Classes of requests that its sessions trust, each with its proof.
    """

    def __init__(
        self,
        query: AnyQuery,
        domain: Domain | None,
        using: Mechanism[Form] | None,
        catalogue: Catalogue | None,
        *,
        thorough: bool,
        trust: Mapping[str, str] = NOBODY,
    ) -> None:
        self.query = query
        self.domain: Domain = WORK if domain is None else domain
        self.catalogue: Catalogue = Catalogue.shipped() if catalogue is None else catalogue
        self.thorough = thorough
        self.trust = trust
        self._using = using
        self.refusals: dict[str, str] = {}
        """Why the query could not be put to a table, by what that was like."""
        self.scenes: tuple[Scene, ...] = tuple(self._scenes())
        self._raw: dict[Table, Floats] = {}

    def _scenes(self) -> Iterator[Scene]:
        for neighbors in Neighbors:
            for unit_rows in (1, 2) if self.thorough else (1,):
                scene = Scene(self.domain, neighbors, unit_rows, (self.query,))
                facts = scene.table.made().facts
                try:
                    self.query.check(facts)
                    self.query.lower(facts.domain)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001  # a plugin may raise what it likes
                    text = f"{type(error).__name__}: {called(error)}"
                    self.refusals[f"{neighbors.value}, unit_rows={unit_rows}"] = text
                else:
                    yield scene

    def tables(self, scene: Scene) -> tuple[Table, ...]:
        """Tables that are near to each other, and as far apart as can be."""
        return (*scene.far, scene.neighbor)

    def mechanism(self, form: Form) -> Mechanism[Form]:
        """The mechanism that answers such forms.

        Raises
        ------
        LookupError
            If nothing does.
        """
        found: object = self._using
        if found is None and isinstance(form, LinearForm):
            found = _EXACT
        elif found is None and isinstance(form, GapForm):
            found = NumericSparse(epsilon=10**6, tops=99)
        elif found is None and isinstance(form, ConvexForm):
            found = PrivateMinimizer(epsilon=10**3)
        if found is None:
            raise LookupError(type(form).__name__)
        return cast("Mechanism[Form]", found)

    def raw(self, scene: Scene, table: Table) -> Floats:
        """The numbers that a mechanism gets for a table; for a linear form the true ones.

        Raises
        ------
        LookupError
            If nothing answers such forms.
        """
        if table not in self._raw:
            data = table.made()
            form = self.query.lower(data.domain)
            noise = seeded(len(scene.far))
            session = Session(data, _PLENTY, composition=ANY, noise=noise, trust=self.trust)
            with session.open(self.mechanism(form)) as channel:
                self._raw[table] = channel.release(Unlifted(self.query)).raw
        return self._raw[table].copy()

    def raws(self, scene: Scene) -> list[Floats]:
        """Raw numbers of several tables, and for a linear form ones that noise could make."""
        linear = isinstance(self.query.lower(scene.domain), LinearForm)
        # To solve for a model takes its time.
        tables = self.tables(scene)[: None if linear or self.thorough else 2]
        found = [self.raw(scene, table) for table in tables]
        if linear:
            first = found[0]
            steps = np.random.default_rng(7).integers(-9, 10, (3, len(first)))
            found += [first + step for step in steps]
            found += [np.zeros(len(first)), first - 1e6, first + 1e12, first + 0.25]
        return found

    def settled(self, raw: Floats, facts: Facts, radius: int = 2) -> Floats:
        """The numbers that a session would lift, of some that have error bounds."""
        accuracy = NoiseAccuracy(DiscreteLaplace(radius), len(raw), 1.0, 0.0)
        return settled(self.query, Measurement(raw, accuracy), facts).values


@frozen
class Unlifted(Query[None, Form]):
    """A query of which the raw numbers are wanted, and nothing that is made of them."""

    query: AnyQuery

    def check(self, facts: Facts, /) -> None:
        self.query.check(facts)

    def lower(self, domain: Domain, /) -> Form:
        return self.query.lower(domain)

    def lift(self, raw: Floats, facts: Facts, /) -> None:
        del raw, facts


def askable(bench: Question, tally: Tally) -> tuple[Scene, ...]:
    """The settings in which the query can be asked; a failure if there are none."""
    if not bench.scenes:
        tally.fail("Nothing could be run", "See above for why")
    return bench.scenes


def advise(bench: Question) -> str:
    """Why a query could be put to no table, and what to do; empty where it could."""
    if bench.scenes:
        return ""
    reasons = "; ".join(f"{asked}: {why}" for asked, why in bench.refusals.items())
    return f"it could be put to no table ({reasons}). Give a domain that it fits."
