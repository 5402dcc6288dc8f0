"""On what terms a kernel answers: what is public of the table, how costs add up, who is trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from dpsdk._checks import shown, to_positive
from dpsdk._records import field, frozen
from dpsdk.accounting import Budget, Composition, Guarantee, Trusted, default_composition
from dpsdk.accounting.declared.calibration import calibrate_within
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.kernel.trust import to_trust
from dpsdk.typing import Real

__all__ = ["Terms", "facts_of"]

_DEFAULT = default_composition()


def _facts(value: Facts) -> Facts:
    if not isinstance(value, Facts):
        raise InvalidArgument("facts", "the Facts of a table", shown(value))
    return value


def _composition(value: Composition) -> Composition:
    if not isinstance(value, Composition):
        raise InvalidArgument("composition", "a composition", shown(value))
    return value


@frozen(repr=False)
class Terms:
    """All that a mechanism may know before it is paid: what it quotes, and plans, from.

    Parameters
    ----------
    facts
        What is public about the table.
    composition
        How costs add up in the session; its default composition if left out.
    trust
        The classes of requests that may run though they are not of this package: their dotted
        names, or the classes, each with its proof. Kept as `Trusted` values, in the order of names.
    """

    facts: Facts = field(converter=_facts)
    composition: Composition = field(default=_DEFAULT, converter=_composition)
    trust: tuple[Trusted, ...] = field(default=(), converter=to_trust)

    def calibrate(
        self,
        runs: Callable[[Fraction], Iterable[Guarantee]],
        total: Budget | None = None,
        /,
        *,
        rho: Real | None = None,
    ) -> Fraction:
        """Find the largest scale at which runs together cost no more than a total.

        Charges nothing: take an `allowance` of the runs at this scale to be sure of all of them.

        Parameters
        ----------
        runs
            The guarantees of the runs at a positive scale, in their order; each must cost more at a
            larger scale, as with ``lambda x: [PureGuarantee(x / 10)] * 10``.
        total, rho
            One of both: what they may cost by the composition, taken by themselves; or what the sum
            of their ρ of zCDP may be, where none of them leaks.

        Returns
        -------
        Fraction
            A scale at which the runs were seen to fit, to nine digits; 0 where none was found.

        Raises
        ------
        InvalidArgument, UnsupportedGuarantee
            If a total is out of range, or no theorem prices one of the runs.
        """
        if (total is None) == (rho is None):
            raise InvalidArgument("total", "given as a budget, or as rho", "both or neither")
        whole = to_positive("rho", 0 if rho is None else rho) if total is None else total
        if not isinstance(whole, Budget | Fraction):
            raise InvalidArgument("total", "a Budget", shown(total))
        return calibrate_within(self.composition, whole, runs)

    def __repr__(self) -> str:
        trust = f", trust={self.trust!r}" if self.trust else ""
        return f"Terms({self.facts!r}, {self.composition!r}{trust})"


def facts_of(terms: Terms) -> Facts:
    """The facts in terms."""
    if not isinstance(terms, Terms):
        raise InvalidArgument("terms", "Terms, as in Terms(facts)", shown(terms))
    return terms.facts
