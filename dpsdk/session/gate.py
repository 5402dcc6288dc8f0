"""Checks of everything that a mechanism returns for a form, before anything is done with it."""

from __future__ import annotations

from typing import NoReturn, get_args

import numpy as np

from dpsdk._checks import described
from dpsdk.accounting.guarantee import check_guarantee
from dpsdk.accuracy import HalfWidths, NoAccuracy, ScalarAccuracy
from dpsdk.errors import InvalidArgument, MeasurementRefused
from dpsdk.forms import Form, LinearForm
from dpsdk.release import Cost, Measurement, Quote, Source

__all__ = ["fitting", "quoting"]

_SOURCES: frozenset[object] = frozenset(get_args(Source))
_FLOAT = np.dtype(np.float64)


_ACCURACIES = (HalfWidths, ScalarAccuracy, NoAccuracy)


def fitting(given: object, form: Form, mechanism: str) -> Measurement:
    """A measurement that can be lifted and bounded: of the right class, type and length.

    What its numbers are is the strategy's own affair: they may be infinite, or NaN where they tell
    nothing.

    Raises
    ------
    MeasurementRefused
        If it is none. What was charged stays charged.
    """
    # Of a class below it, what is looked at here need not be what is lifted.
    if type(given) is not Measurement:
        _refuse(mechanism, f"gave a {_called(given)}, and no Measurement")
    values: object = getattr(given, "values", None)
    accuracy: object = getattr(given, "accuracy", None)
    source: object = getattr(given, "source", None)
    if type(values) is not np.ndarray or values.dtype != _FLOAT or values.ndim != 1:
        _refuse(mechanism, "gave values that are not a row of float64")
    if isinstance(form, LinearForm) and len(values) != form.rows:
        _refuse(mechanism, f"gave {len(values)} numbers for a form of {form.rows}")
    if not isinstance(accuracy, _ACCURACIES):
        _refuse(mechanism, f"gave a {_called(accuracy)}, which is no accuracy of dpsdk.release")
    if type(source) is not str or source not in _SOURCES:
        _refuse(mechanism, "gave no source such as 'measured'")
    return given


def quoting(given: object, mechanism: object) -> Quote:
    """Check the quote of a mechanism: costs and an accuracy.

    Raises
    ------
    InvalidArgument
        If it is none.
    """
    if type(given) is not Quote:
        got = f"{described(mechanism)}, which gave a {_called(given)}"
        raise InvalidArgument("using", "a mechanism that quotes by a Quote", got)
    costs: list[object] = [getattr(given, name, None) for name in ("at_open", "at_most")]
    known = isinstance(getattr(given, "accuracy", None), _ACCURACIES)
    if not known or any(type(cost) is not Cost for cost in costs):
        expected = "a mechanism whose quote has two costs and an accuracy of dpsdk.release"
        raise InvalidArgument("using", expected, f"{described(mechanism)}, whose quote has others")
    for cost in (given.at_open, given.at_most):
        for run, _ in cost.runs:
            check_guarantee(run)
    return given


def _refuse(mechanism: str, reason: str) -> NoReturn:
    raise MeasurementRefused(mechanism, reason)


def _called(value: object) -> str:
    return described(type(value).__name__[:80])
