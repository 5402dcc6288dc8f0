"""The context of a question: what a session, its scopes and parts, and their channels share."""

from __future__ import annotations

from typing import Self

from dpsdk._lifetime import Lifetime
from dpsdk._records import Factory, evolve, field, frozen
from dpsdk.accounting import Odometer, Remaining
from dpsdk.accounting.spent import without_runs
from dpsdk.data import PrivateData
from dpsdk.forms import Facts
from dpsdk.kernel import Terms
from dpsdk.kernel.access import Access
from dpsdk.kernel.trust import NOBODY, Trust
from dpsdk.noise import NoiseSource
from dpsdk.session.history import History
from dpsdk.session.identity import Place
from dpsdk.session.memo import FormMemo
from dpsdk.session.reuse import Reuse

__all__ = ["Context"]


def _forms_of(context: Context) -> FormMemo:
    return FormMemo(context.data.facts)


def _place_of(context: Context) -> Place:
    return Place(context.data.name, context.data.facts)


@frozen(eq=False)
class Context:
    """The table, the payer and the lifetime of questions.

    A session has one; each scope, part and channel has the same with some of it exchanged.

    Parameters
    ----------
    data
        The table, or the part of it, that is asked.
    payer
        The odometer that is charged.
    noise
        Where randomness comes from.
    history
        Of the session, whoever asks.
    lifetime
        Over when the session, scope, partition or channel is.
    reuse
        The answers that are given again for free; None where none are.
    place
        Tells the table, or the part of it, from others.
    by
        The mechanism that a channel is open to.
    forms
        The forms of the queries asked last of this table.
    trust
        The classes of requests of other authors that may run.
    """

    data: PrivateData
    payer: Odometer
    noise: NoiseSource
    history: History
    lifetime: Lifetime
    reuse: Reuse | None = None
    place: Place = field(default=Factory(_place_of, takes_self=True))
    by: object = None
    forms: FormMemo = field(default=Factory(_forms_of, takes_self=True))
    trust: Trust = NOBODY

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self.data.facts

    @property
    def terms(self) -> Terms:
        """The public facts a mechanism may know before it is paid."""
        return Terms(self.data.facts, self.payer.composition, self.trust.names)

    @property
    def remaining(self) -> Remaining:
        """The remaining budget of the payer: no run once this is over."""
        found = self.payer.remaining
        return without_runs(found) if self.lifetime.over else found

    def paid_by(self, payer: Odometer, lifetime: Lifetime) -> Self:
        """The same table, with another payer."""
        return evolve(self, payer=payer, lifetime=lifetime)

    def part(self, data: PrivateData, payer: Odometer, attribute: str, cell: int) -> Context:
        """A part of the table, the rows of one cell, with a payer of its own."""
        own = self.place.part(attribute, cell)
        return Context(
            data, payer, self.noise, self.history, self.lifetime, self.reuse, own, trust=self.trust
        )

    def until(self, lifetime: Lifetime) -> Self:
        """The same, for as long as something within it lasts."""
        return evolve(self, lifetime=lifetime)

    def asking(self, mechanism: object, lifetime: Lifetime) -> Self:
        """The same, for a channel to a mechanism."""
        return evolve(self, lifetime=lifetime, by=mechanism)

    def access(self, mechanism: str) -> Access:
        """The access that the primitives of one channel's kernels share."""
        return Access(self.data, self.payer, self.noise, mechanism, None, self.trust)
