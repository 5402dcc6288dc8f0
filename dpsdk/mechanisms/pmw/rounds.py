"""How a stream begins and what its rounds cost, for all mechanisms that run one."""

from __future__ import annotations

from fractions import Fraction

from attrs import frozen

from dpsdk.accounting import Guarantee
from dpsdk.accounting.prices.covering import cover_of
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Kronecker, LinearForm
from dpsdk.hypothesis import Hypothesis, Start
from dpsdk.hypothesis.start import opened, share_of
from dpsdk.kernel import Allowance, Kernel, Measure, Terms
from dpsdk.mechanisms.pmw.schedule import Schedule
from dpsdk.mechanisms.refusals import in_words
from dpsdk.release import Cost

__all__ = ["Rounds"]

_PREPAID_LIMIT = 10_000
"""Each prepaid round is charged by itself, and each charge is remembered."""


@frozen
class Rounds:
    """The start of a stream, and after it watches that each end with a measurement."""

    schedule: Schedule
    start: Start

    def check(self, terms: Terms, epsilon: Fraction, delta: Fraction) -> None:
        """Refuse noise that does not fit the lattices of a kernel, in words of ε and δ."""
        schedule, domain = self.schedule, terms.facts.domain
        try:
            schedule.watching.price(terms)
            Measure(LinearForm(domain, (Kronecker((), ()),)), schedule.noise).price(terms)
            self.opening(terms)
        except InvalidArgument as error:
            raise in_words(error, epsilon=epsilon, delta=delta) from None

    def opening(self, terms: Terms) -> tuple[Guarantee, ...]:
        """What finding the first hypothesis costs."""
        noise = self.schedule.start
        return () if noise is None else self.start.price(noise, terms)

    def prepaid(self, terms: Terms) -> Cost:
        """What pays for the whole stream beforehand, whatever will be measured."""
        opening = tuple(map(cover_of, self.opening(terms)))
        return self.whole(opening, self.schedule.noise.cover)

    def whole(self, opening: tuple[Guarantee, ...], measured: Guarantee) -> Cost:
        """The runs of a whole stream: its start, its watches, and what each top measures."""
        schedule = self.schedule
        watches = 1 if schedule.watching.tops is not None else schedule.updates
        rounds = (schedule.watching.guarantee, watches), (measured, schedule.updates)
        return Cost((*opening, *rounds))

    def begin(
        self, kernel: Kernel, *, prepaid: bool, name: str
    ) -> tuple[Hypothesis, Allowance | None]:
        """The first hypothesis, and what pays for the rounds if all are paid now."""
        start, schedule = self.start, self.schedule
        # All that can be refused comes first, so that a refusal costs nothing.
        start.check(kernel.facts)
        hypothesis = None if share_of(start) else opened(start, kernel)
        allowance: Allowance | None = None
        if prepaid:
            if schedule.updates > _PREPAID_LIMIT:
                advice = "leave prepaid out, or ask for fewer updates"
                raise TooLarge(name, schedule.updates, _PREPAID_LIMIT, "prepaid rounds", advice)
            allowance = kernel.allowance(self.prepaid(kernel.terms).guarantees)
        if hypothesis is None:
            hypothesis = opened(start, kernel, schedule.start, allowance)
        return hypothesis, allowance
