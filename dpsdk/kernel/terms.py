"""On what terms a kernel answers: what is public of the table, how costs add up, who is trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Self

from attrs import field, frozen

from dpsdk._checks import shown, to_positive
from dpsdk.accounting import Budget, Composition, Guarantee, Trusted, default_composition
from dpsdk.accounting.declared.calibration import calibrate_within
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.kernel.trust import to_trust
from dpsdk.typing import Real

__all__ = ["Terms", "facts_of"]


def _facts(value: Facts) -> Facts:
    if not isinstance(value, Facts):
        raise InvalidArgument("facts", "the Facts of a table", shown(value))
    return value


class _Composing:
    """How costs add up, copied only when somebody asks: most quotes need the facts alone."""

    __slots__ = ("_known", "_make")

    def __init__(
        self, known: Composition | None, make: Callable[[], Composition] = default_composition
    ) -> None:
        self._known = known
        self._make = make

    def __call__(self) -> Composition:
        if self._known is None:
            self._known = self._make()
        return self._known

    def __reduce__(self) -> tuple[object, ...]:
        return _Composing, (self(),)


def _composing(value: Composition) -> _Composing:
    given: object = value
    if isinstance(given, _Composing):  # from other terms, as `evolve` does
        return given
    if not isinstance(given, Composition):
        raise InvalidArgument("composition", "a composition", shown(given))
    return _Composing(given)


def _called(composing: _Composing) -> Composition:
    return composing()


def _default() -> _Composing:
    return _Composing(None)


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
        names, each with its proof. Kept as `Trusted` values, in the order of names.
    """

    facts: Facts = field(converter=_facts)
    _composition: _Composing = field(factory=_default, converter=_composing, eq=_called)
    trust: tuple[Trusted, ...] = field(default=(), converter=to_trust)

    @property
    def composition(self) -> Composition:
        """How costs add up."""
        return self._composition()

    @classmethod
    def asking(
        cls, facts: Facts, composition: Callable[[], Composition], trust: tuple[Trusted, ...]
    ) -> Self:
        """The terms of a kernel or a session, which knows all of them to be as they should."""
        terms = object.__new__(cls)
        state = {"facts": facts, "_composition": _Composing(None, composition), "trust": trust}
        terms.__setstate__(state)  # type: ignore[attr-defined]  # attrs makes it
        return terms

    def calibrate(
        self,
        runs: Callable[[Fraction], Iterable[Guarantee]],
        total: Budget | None = None,
        /,
        *,
        rho: Real | None = None,
    ) -> Fraction:
        """The largest scale at which runs together cost no more than a total.

        Charges nothing: take an `allowance` of the runs at this scale to be sure of all of them.

        Parameters
        ----------
        runs
            The guarantees of the runs at a positive scale, in their order; each must cost more at a
            larger scale, as with ``lambda x: [PureGuarantee(x / 10)] * 10``.
        total
            What they may cost by the composition, taken by themselves.
        rho
            Instead: what the sum of their ρ of zCDP may be, where none of them leaks.

        Returns
        -------
        Fraction
            A scale at which the runs were seen to fit, to nine digits; 0 where none was found.

        Raises
        ------
        InvalidArgument
            If not one of `total` and `rho` is given, or it is out of range.
        UnsupportedGuarantee
            If no theorem prices one of the runs.
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
    """The facts in terms.

    Raises
    ------
    InvalidArgument
        If they are no terms, as facts alone are not.
    """
    if not isinstance(terms, Terms):
        raise InvalidArgument("terms", "Terms, as in Terms(facts)", shown(terms))
    return terms.facts
