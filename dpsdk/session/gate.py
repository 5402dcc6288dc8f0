"""Checks of what a strategy returns for a form, before anything is done with it."""

from __future__ import annotations

from typing import NoReturn, get_args

import numpy as np

from dpsdk import forms
from dpsdk._checks import described
from dpsdk.errors import MeasurementRefused
from dpsdk.forms import Form, LinearForm
from dpsdk.release import Measurement, Source
from dpsdk.release.quote import ACCURACIES

__all__ = ["fitting"]

_SOURCES: frozenset[object] = frozenset(get_args(Source))
_FLOAT = np.dtype(np.float64)


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
    if isinstance(form, LinearForm) and not form.fits(len(values)):
        _refuse(mechanism, f"gave {len(values)} numbers for a form of {form.rows}")
    if isinstance(form, forms.ConvexForms) and len(values) != form.rows:
        _refuse(mechanism, f"gave {len(values)} numbers for models of {form.rows}")
    if not isinstance(accuracy, ACCURACIES):
        _refuse(mechanism, f"gave a {_called(accuracy)}, which is no accuracy of dpsdk.release")
    if type(source) is not str or source not in _SOURCES:
        _refuse(mechanism, "gave no source such as 'measured'")
    return given


def _refuse(mechanism: str, reason: str) -> NoReturn:
    raise MeasurementRefused(mechanism, reason)


def _called(value: object) -> str:
    return described(type(value).__name__[:80])
