"""The bench that queries are tried on: raw numbers to lift, and what answers them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import Budget
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.domain import Domain
from dpsdk.forms import ConvexForm, Facts, Form, GapForm, LinearForm, Neighbors, TallyForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Laplace, Mechanism, NumericSparse, PrivateMinimizer, Strategy
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import Query
from dpsdk.queries.base import settled
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.testing.conformance.bench import NOTHING, AnyQuery, Bench, Scene, Table
from dpsdk.testing.conformance.prints import deep
from dpsdk.testing.conformance.report import caught, name_error
from dpsdk.typing import Floats
from dpsdk.wire import Catalogue

__all__ = ["Given", "QueryBench", "content_of"]

_EXACT = Laplace(epsilon=10**9)
"""Noise so small that all of it is zero."""

_PLENTY = Budget(epsilon=10**12, delta="0.1")


def content_of(form: Form) -> Hashable:
    """Return the content of a form, to compare it with another."""
    return form.identity if type(form) is LinearForm else deep(form)


@frozen(eq=False)
class Given(Mechanism[Form]):
    """Answers the same numbers on any table, so that only what a query makes of them varies."""

    raw: Floats
    bounded: bool
    """True if the numbers have error bounds, each by itself."""

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


class QueryBench(Bench):
    """A query, and what answers it: a built-in mechanism for forms of its kind if left out."""

    def __init__(
        self,
        query: AnyQuery,
        using: Mechanism[Form] | None = None,
        domain: Domain | None = None,
        catalogue: Catalogue | None = None,
        *,
        thorough: bool = False,
        trust: Mapping[str, str] = NOTHING,
    ) -> None:
        self.query = query
        self._using = using
        self._raw: dict[Table, Floats] = {}
        super().__init__(query, domain, catalogue, thorough=thorough, trust=trust)

    def scene(self, domain: Domain, neighbors: Neighbors, unit_rows: int) -> Scene | None:
        scene = Scene(domain, neighbors, unit_rows, (self.query,))
        facts = scene.table.made().facts
        error = caught(self.query.check, facts) or caught(self.query.lower, facts.domain)
        if error is None:
            return scene
        self.refusals[f"{neighbors.value}, unit_rows={unit_rows}"] = name_error(error)
        return None

    def tables(self, scene: Scene) -> tuple[Table, ...]:
        """Return tables that are near to each other, and as far apart as can be."""
        return (*scene.far, scene.neighbor)

    def mechanism(self, form: Form) -> Mechanism[Form]:
        """Return the mechanism that answers such forms; LookupError if nothing does."""
        found: object = self._using
        if found is None and isinstance(form, LinearForm | TallyForm):
            found = _EXACT
        elif found is None and isinstance(form, GapForm):
            found = NumericSparse(epsilon=10**6, tops=99)
        elif found is None and isinstance(form, ConvexForm):
            found = PrivateMinimizer(epsilon=10**3)
        if found is None:
            raise LookupError(type(form).__name__)
        return cast("Mechanism[Form]", found)

    def raw(self, scene: Scene, table: Table) -> Floats:
        """Return the numbers that a mechanism gets for a table; of a linear form the true ones."""
        if table not in self._raw:
            session = self.session(table, budget=_PLENTY, seed=len(scene.far))
            with session.open(self.mechanism(self.query.lower(session.domain))) as channel:
                self._raw[table] = channel.release(Unlifted(self.query)).raw
        return self._raw[table].copy()

    def raws(self, scene: Scene) -> list[Floats]:
        """Return raw numbers of several tables, and of a linear form ones that noise could make."""
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
        """Return the numbers that a session would lift, of some that have error bounds."""
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
