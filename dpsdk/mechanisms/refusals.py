"""Refusals in the words of those who made a mechanism, and who gave it neither a law nor a form."""

from __future__ import annotations

from fractions import Fraction

from dpsdk import forms
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import LinearForm

__all__ = ["check_convex", "check_gap", "check_linear", "check_shares", "in_words"]

_NOISE = frozenset({"scale", "variance", "threshold_epsilon", "query_epsilon", "threshold", "rho"})
"""The kernel's names of the parameters that follow from those of a mechanism."""


def in_words(error: InvalidArgument, **given: Fraction | None) -> InvalidArgument:
    """The error of the kernel, in terms of the parameters that the mechanism was given.

    Noise that is too wide for its lattice comes from an amount that is too small.
    """
    if error.parameter not in _NOISE:
        return error
    known = {name: value for name, value in given.items() if value}
    expected = "larger, since noise for so little privacy loss does not fit 64-bit integers"
    return InvalidArgument(
        " and ".join(known), expected, ", ".join(f"{float(value):g}" for value in known.values())
    )


def check_linear(form: object, mechanism: str) -> None:
    """Refuse what is no linear query, before anything is paid."""
    if isinstance(form, LinearForm):
        return
    if isinstance(form, forms.GapForm):
        reason = f"asks whether something is above a level; open NumericSparse for it, {mechanism} "
        raise QueryError("", f"{reason}answers counts, shares, sums and tables")
    if isinstance(form, forms.ConvexForm):
        reason = "asks for a model, which PrivateMinimizer answers, and channels with a"
        distribution = "distribution, as those of MWEM and SmallDB"
        raise QueryError("", f"{reason} {distribution}; {mechanism} itself answers linear queries")
    raise QueryError("", f"{mechanism} answers linear queries only")


def check_gap(form: object, mechanism: str) -> None:
    """Refuse what does not ask for a level. Raises as `check_linear` does."""
    if not isinstance(form, forms.GapForm):
        reason = f"{mechanism} answers Above and NumericAbove, as in Above(query, level)"
        raise QueryError("", reason)


def check_convex(form: object, mechanism: str) -> None:
    """Refuse what does not ask for a model. Raises as `check_linear` does."""
    if not isinstance(form, forms.ConvexForm):
        raise QueryError(
            "", f"{mechanism} answers ConvexMinimization alone, which asks for a model"
        )


def check_shares(form: LinearForm, mechanism: str) -> None:
    """Refuse weights other than from 0 to 1. Raises as `check_linear` does."""
    check_linear(form, mechanism)
    low, high = form.limits
    if low < 0 or high > 1:
        reason = (
            f"{mechanism} answers queries that count rows, or weigh them from 0 to 1, such as "
            "Count, Threshold, Interval, Conjunction, Marginal and Linear; this one weighs them "
            f"from {low:g} to {high:g}, so ask it of Laplace or Gaussian"
        )
        raise QueryError("", reason)
