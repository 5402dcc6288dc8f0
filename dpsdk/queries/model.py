"""A model: the coefficients that a convex minimisation found, and what they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._arrays import Lasting
from dpsdk._frames import Column, Rows, rows_of
from dpsdk.data.readers import read_codes
from dpsdk.errors import InvalidArgument
from dpsdk.forms.factors import to_weights
from dpsdk.losses import Loss
from dpsdk.queries.inputs import Inputs, Target
from dpsdk.typing import Array, Floats

__all__ = ["Model"]


@frozen(repr=False)
class Model(Lasting):
    """A linear model that was fitted: public, and made of what was released.

    Parameters
    ----------
    theta
        Its coefficients, in the order of the features and with that of an intercept last, for
        feature vectors that were scaled so that the longest of the universe has length 1.
    excess
        By how much its average loss may exceed the least one over the set that it was sought in,
        over the distribution that it was fitted on, with what corrected that: a certificate of the
        solver, in the unit of the loss; infinite where no solver ran, as in a descent. It says
        nothing of how far those are from a table, as `release.bound` does where something is known.
    """

    theta: Floats = field(converter=to_weights, eq=cmp_using(eq=np.array_equal), hash=False)
    excess: float
    _inputs: Inputs
    _target: Target
    _loss: Loss

    def __attrs_post_init__(self) -> None:
        expected = len(self._inputs.labels) + self._inputs.intercept
        if self.theta.shape != (expected,):
            raise InvalidArgument("theta", f"{expected} numbers", f"shape {self.theta.shape}")

    @property
    def coefficients(self) -> dict[str, float]:
        """By how much the margin grows with each number of a feature, by the name of that."""
        inputs = self._inputs
        numbers = (self.theta[: len(inputs.labels)] * inputs.scale).tolist()
        return dict(zip(inputs.labels, numbers, strict=True))

    @property
    def intercept(self) -> float:
        """The margin where all features are zero; 0 for a model without an intercept."""
        return float(self.theta[-1]) * self._inputs.scale if self._inputs.intercept else 0.0

    @property
    def label(self) -> str:
        """The attribute that it predicts."""
        return self._target.attribute.name

    def predict(self, columns: Mapping[str, Array | Sequence[object]] | object) -> Floats:
        """What the label of each row should be. Free, for any rows that are yours to read.

        Parameters
        ----------
        columns
            A mapping from names of attributes to arrays or lists, or a pandas, Polars or pyarrow
            table; columns that no feature depends on are not read.

        Returns
        -------
        Floats
            For each row, by the loss: the mean or quantile of the label in its own unit, where two
            labels that are no numbers count 0 and 1; the probability of the second of two labels;
            or the margin, which is positive for the second. NaN for a row with a value outside the
            domain.

        Raises
        ------
        DataError
            If a column is missing, of a type that nothing can be read from, or of another length.
        MissingExtra
            For a table of a library, if narwhals is not installed.
        """
        codes = read_codes(columns, self._inputs.attributes)
        inside = np.logical_and.reduce([code >= 0 for code in codes.values()])
        kept = {name: code[inside] for name, code in codes.items()}
        predicted = self._loss.predict(self._inputs.margins(self.theta, kept))
        if self._loss.predicts in ("mean", "quantile"):
            predicted = self._target.unscaled(predicted)
        result = np.full(len(inside), np.nan)
        result[inside] = predicted
        return result

    def __repr__(self) -> str:
        count = len(self._inputs.labels)
        constant = f", intercept={self.intercept:.4g}" if self._inputs.intercept else ""
        return (
            f"Model of {self.label!r} ({count:,} coefficient{'s' if count > 1 else ''}{constant}, "
            f"excess={self.excess:.2g})"
        )


@rows_of.register
def _rows_of_model(model: Model, /) -> Rows:
    names = [*model.coefficients, "intercept"]
    values = [*model.coefficients.values(), model.intercept]
    return Rows(values, {"coefficient": Column(names, "text")})
