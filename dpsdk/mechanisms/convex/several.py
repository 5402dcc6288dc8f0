"""Several models at once: their answers, quotes and bounds as one of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers import truncated
from dpsdk.accuracy import Accuracy, NoAccuracy, ScalarAccuracy, Standing
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import ConvexForm
from dpsdk.kernel import GaussianNoise, Terms
from dpsdk.mechanisms.convex.oracle import Oracle, Total
from dpsdk.release import Cost, Measurement, Quote, Source
from dpsdk.typing import Floats

__all__ = ["ExcessOfEach", "join_measurements", "join_quotes", "share_total"]

_DIGITS = 15
_FARTHER: tuple[Source, ...] = ("measured", "fitted", "hypothesis")


@frozen(eq=False)
class ExcessOfEach(ScalarAccuracy):
    """The excesses of several models, each with a bound or a prediction of its own.

    `error` is the largest of all, where beta is shared by what is proven of single models; what is
    promised of all answers of a channel together holds for them at once. Where one model has no
    bound, all of them together have none.
    """

    parts: tuple[Accuracy, ...]
    standing: Standing = field(init=False)
    kind: str = field(init=False)
    span: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        told = {part.standing for part in self.parts}
        ordered: tuple[Standing, ...] = ("none", "predicted", "assumed", "promised", "proven")
        weakest = next(one for one in ordered if one in told)
        kinds = dict.fromkeys([part.kind for part in self.parts if part.standing == weakest])
        spans = [getattr(part, "span", math.inf) for part in self.parts]
        object.__setattr__(self, "standing", weakest)
        object.__setattr__(self, "kind", "; ".join(kinds))
        object.__setattr__(self, "span", max(spans))

    def error(self, beta: float) -> float:
        """The largest of all, at once."""
        alone = [part for part in self.parts if part.standing != "promised"]
        events = len(alone) + (len(alone) < len(self.parts))
        return max([_error(part, beta / events) for part in self.parts])

    def each(self, beta: float) -> Floats:
        """The bound of each model by itself; infinite where there is none."""
        proven = [part.standing in ("proven", "promised") for part in self.parts]
        errors = [_error(part, beta) for part in self.parts]
        return np.where(proven, errors, math.inf)


def _error(part: Accuracy, beta: float) -> float:
    return part.error(beta) if isinstance(part, ScalarAccuracy) else math.inf


def join_measurements(parts: Sequence[Measurement]) -> Measurement:
    """The numbers of several models in turn; "measured" only where each of them was."""
    values = np.concatenate([part.values for part in parts])
    sources: list[Source] = [part.source for part in parts]
    accuracy = _join([part.accuracy for part in parts])
    return Measurement(values, accuracy, max(sources, key=_FARTHER.index))


def join_quotes(quotes: Sequence[Quote]) -> Quote:
    """The price of several models, of which none pays anything to open."""
    runs = [run for quote in quotes for run in quote.at_most.runs]
    return Quote(Cost(), Cost(runs), _join([quote.accuracy for quote in quotes]))


def _join(parts: Sequence[Accuracy]) -> Accuracy:
    alike = parts[0]
    if isinstance(alike, NoAccuracy) and all(part == alike for part in parts):
        return alike
    return ExcessOfEach(tuple(parts))


def share_total(
    models: Sequence[tuple[ConvexForm, Oracle]], terms: Terms, total: Budget
) -> tuple[Total, Quote]:
    """What each of several models may cost of a total, the same for each, and their quote.

    It is a ρ where all runs of all oracles, at that share of the largest ρ, were seen to fit the
    total by the composition of the session; else a part of ε and δ each, which add up.
    """

    def quoted(each: Total) -> Quote:
        return join_quotes([oracle.quote(form, terms, each) for form, oracle in models])

    count = len(models)
    if total.delta:
        with suppress(UnsupportedGuarantee, InvalidArgument):

            def runs(scale: Fraction) -> list[Guarantee]:
                return [GaussianNoise.covered(truncated(scale / count, _DIGITS)).cover] * count

            each = truncated(terms.calibrate(runs, total) / count, _DIGITS)
            if each:
                quote, composition = quoted(each), terms.composition
                if composition.charge_all(composition.begin(total), quote.at_most.runs) is not None:
                    return each, quote
    part = Budget(total.epsilon / count, total.delta / count)
    return part, quoted(part)
