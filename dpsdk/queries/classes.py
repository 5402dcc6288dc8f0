"""Models of several classes: one for each label against all others, or a softmax of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from dpsdk._arrays import ByNumbers, Lasting
from dpsdk._checks import described, require, shown
from dpsdk._frames import Column, Rows, rows_of
from dpsdk._records import field, frozen, shows_half_made
from dpsdk.codec import Nested, written
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Ball, ConvexForm, Facts, SoftmaxForm
from dpsdk.forms.convex import CLASS_LIMIT
from dpsdk.forms.design import check_cells
from dpsdk.forms.factors import to_weights
from dpsdk.hypothesis import Distribution
from dpsdk.losses import LogisticLoss, Loss
from dpsdk.queries.base import Query
from dpsdk.queries.minimization import ConvexMinimization
from dpsdk.queries.model import Inputs, Model, Target
from dpsdk.typing import Array, Floats, Label

__all__ = ["Classifier", "OneVsRest", "Softmax"]


@frozen(repr=False)
class Classifier(Lasting):
    """Linear models of several classes: public, and made of what was released.

    Parameters
    ----------
    theta
        The coefficients of each class, a row each, as `Model.theta` has them.
    excess
        As that of a `Model`, of all classes together.
    """

    theta: Floats = field(converter=to_weights, eq=ByNumbers)
    excess: float
    _inputs: Inputs
    _attribute: Attribute
    _loss: Loss
    _joint: bool = False

    def __attrs_post_init__(self) -> None:
        expected = self._attribute.known, len(self._inputs.labels) + self._inputs.intercept
        if self.theta.shape != expected:
            raise InvalidArgument("theta", f"of shape {expected}", f"shape {self.theta.shape}")

    @property
    def label(self) -> str:
        """The attribute that it predicts."""
        return self._attribute.name

    @property
    def classes(self) -> tuple[Label, ...]:
        """Its labels, in the order of the attribute."""
        return tuple(map(self._attribute.label, range(len(self.theta))))

    @property
    def models(self) -> dict[Label, Model]:
        """By class the model that tells it from all others, its label -1 for these.

        Raises `QueryError` for a `Softmax`, whose classes are told by all margins at once.
        """
        if self._joint:
            reason = "its classes are told by all margins at once; ask coefficients, or predict"
            raise QueryError("a softmax", reason)
        return dict(self._models)

    @cached_property
    def _models(self) -> dict[Label, Model]:
        sides = _sides(len(self.theta))
        return {
            one: Model(
                theta,
                self.excess,
                self._inputs,
                Target(self._attribute, side, 0.0, 1.0),
                self._loss,
            )
            for one, theta, side in zip(self.classes, self.theta, sides, strict=True)
        }

    @property
    def coefficients(self) -> dict[Label, dict[str, float]]:
        """By class, how much a unit of each number of a feature adds to its margin, by name.

        In the units of the data, as `Model.coefficients`. Of an own `intervals` nothing is known:
        that of a class in `models` says why.
        """
        return {one: model.coefficients for one, model in self._models.items()}

    @property
    def intercepts(self) -> dict[Label, float]:
        """By class, its margin where all numbers are 0 in the units of the data."""
        return {one: model.intercept for one, model in self._models.items()}

    def margins(self, columns: Mapping[str, Array | Sequence[object]] | object) -> Floats:
        """Of each row, the margin of each class: an array (rows, classes). Free.

        NaN as in `Model.predict`, whose `columns` these are.
        """
        inside, kept = self._inputs.read(columns)
        result = np.full((len(inside), len(self.theta)), np.nan)
        if inside.any():
            own = [self._inputs.margins(theta, kept) for theta in self.theta]
            result[inside] = np.stack(own, axis=1)
        return result

    def predict(
        self, columns: Mapping[str, Array | Sequence[object]] | object
    ) -> list[Label | None]:
        """The class of the largest margin for each row; None where a value is missing. Free."""
        margins, classes = self.margins(columns), self.classes
        missing = np.isnan(margins).any(axis=1)
        best: list[int] = np.where(missing, -1, np.nan_to_num(margins).argmax(axis=1)).tolist()
        return [None if one < 0 else classes[one] for one in best]

    def predict_proba(self, columns: Mapping[str, Array | Sequence[object]] | object) -> Floats:
        """Of each row, the probability of each class: an array (rows, classes). Free.

        Of a `Softmax` that of its model; else what each model says of its class, divided by the sum
        of them. NaN as in `margins`. Raises `QueryError` for a loss whose models say no
        probability.
        """
        if self._joint:
            return np.asarray(softmax(self.margins(columns), axis=1))
        if self._loss.predicts != "probability":
            reason = "its models predict margins and no probabilities; LogisticLoss() has them"
            raise QueryError(described(self._loss), reason)
        alone = self._loss.predict(self.margins(columns))
        whole = alone.sum(axis=1, keepdims=True)
        plain = np.full_like(alone, 1.0 / len(self.theta))
        return np.where(whole == 0.0, plain, alone / np.where(whole == 0.0, 1.0, whole))

    def __repr__(self) -> str:
        count, classes = len(self._inputs.labels), len(self.theta)
        return (
            f"Classifier of {self.label!r} ({classes:,} classes, {count:,} "
            f"coefficient{'s' if count > 1 else ''} each, excess={self.excess:.2g})"
        )


@rows_of.register
def _rows_of_classifier(classifier: Classifier, /) -> Rows:
    classes: list[object] = []
    names: list[object] = []
    values: list[object] = []
    for one, coefficients in classifier.coefficients.items():
        names += [*coefficients, "intercept"]
        values += [*coefficients.values(), classifier.intercepts[one]]
        classes += [str(one)] * (len(names) - len(classes))
    return Rows(values, {"class": Column(classes, "text"), "coefficient": Column(names, "text")})


def _sides(classes: int) -> Floats:
    """For each class, 1 for its own label and -1 for all others."""
    return 2.0 * np.eye(classes) - 1.0


def _model(_: object, __: object, value: ConvexMinimization) -> None:
    expected = "a ConvexMinimization"
    require(isinstance(value, ConvexMinimization), "minimization", expected, value)
    if not value.loss.signed:
        expected += " with a loss of two classes, such as LogisticLoss() or SVMLoss()"
        raise InvalidArgument("minimization", expected, shown(value.loss))


@shows_half_made
class _SeveralClasses(Query[Classifier, ConvexForm]):
    """Linear models of all labels of an attribute, over the same features."""

    __slots__ = ()
    minimization: ConvexMinimization
    _kind: ClassVar[type[ConvexForm]] = ConvexForm

    def lower(self, domain: Domain, /) -> ConvexForm:
        return self._form(domain, *self._read(domain))

    def lift(self, raw: Floats, facts: Facts, /) -> Classifier:
        """The models of raw numbers: the coefficients of each class, and the gap last."""
        inputs, attribute = self._read(facts.domain)
        theta = raw[:-1].reshape(attribute.known, -1)
        return Classifier(
            theta, float(raw[-1]), inputs, attribute, self.minimization.loss, self._joint
        )

    def fit(self, distribution: Distribution, /) -> Classifier:
        """The models of least average loss over a distribution, as `ConvexMinimization.fit`."""
        if not isinstance(distribution, Distribution):
            raise InvalidArgument("distribution", "a distribution", shown(distribution))
        inputs, attribute = self._read(distribution.domain)
        theta, gap = self._form(distribution.domain, inputs, attribute).fit(distribution)
        numbers = theta.reshape(attribute.known, -1)
        return Classifier(numbers, gap, inputs, attribute, self.minimization.loss, self._joint)

    def _read(self, domain: Domain) -> tuple[Inputs, Attribute]:
        one = self.minimization
        check_cells([one.label], domain)
        attribute = domain[one.label]
        if attribute.known < 3:
            reason = f"it has {attribute.known:,} labels; ask the ConvexMinimization itself"
            raise QueryError(f"label {one.label!r}", reason)
        if attribute.known > CLASS_LIMIT:
            advice = "put labels into groups"
            raise TooLarge("a model", attribute.known, CLASS_LIMIT, "classes", advice)
        return Inputs.of(one.features, domain, intercept=one.intercept), attribute

    def _form(self, domain: Domain, inputs: Inputs, attribute: Attribute) -> ConvexForm:
        one, sides = self.minimization, _sides(attribute.known)
        over = Ball(inputs.radius(one.loss)) if one.over is None else one.over
        return self._kind(domain, inputs.vector, one.label, sides, one.loss, over)

    @property
    def _joint(self) -> bool:
        return self._kind is SoftmaxForm

    def __repr__(self) -> str:
        return f"{type(self).__name__}({described(self.minimization)})"


_WRITTEN = {"minimization": Nested[ConvexMinimization]("a ConvexMinimization", ConvexMinimization)}


@written("query.one-vs-rest", _WRITTEN)
@frozen(repr=False)
class OneVsRest(_SeveralClasses):
    """A linear model for each of several classes against all others together; a `Classifier`.

    All models read the same features, and are found at once: `PrivateMinimizer` measures the
    gradients of all classes in one batch, whose noise follows from what one row moves in all of
    them (docs/explanation/proofs/slopes.md). Channels with a distribution answer it from that, as
    they do a `ConvexMinimization`. Theta of each class lies in the set `over`, and what is least is
    the sum of the losses of all classes.

    Parameters
    ----------
    minimization
        What each model is: with a loss of two classes, such as LogisticLoss() or SVMLoss(), and
        the attribute of the classes for its label, one of 3 to 64 labels.

    Raises
    ------
    UnknownAttribute, QueryError, TooLarge
        As a `ConvexMinimization`; and if the label has other than 3 to 64 labels.

    >>> from dpsdk.losses import LogisticLoss
    >>> from dpsdk.queries import ConvexMinimization, OneVsRest
    >>> OneVsRest(ConvexMinimization(LogisticLoss(), features=["age"], label="class"))
    OneVsRest(ConvexMinimization(LogisticLoss(), features=['age'], label='class'))
    """

    minimization: ConvexMinimization = field(validator=_model)


def _logistic(_: object, __: object, value: ConvexMinimization) -> None:
    expected = "a ConvexMinimization"
    require(isinstance(value, ConvexMinimization), "minimization", expected, value)
    if value.loss != LogisticLoss():
        raise InvalidArgument("minimization", f"{expected} with LogisticLoss()", shown(value.loss))


@written("query.softmax", _WRITTEN)
@frozen(repr=False)
class Softmax(_SeveralClasses):
    """Logistic regression of several classes at once (multinomial); a `Classifier`.

    A record of class y costs log Σ_k exp⟨θ_k, x⟩ - ⟨θ_y, x⟩, and θ of each class lies in the set
    `over`. `PrivateMinimizer` measures the gradients of all classes in one batch, of which one row
    moves less than of one class against the rest, the more so the more classes there are
    (docs/explanation/proofs/slopes.md). Channels with a distribution answer it from that, as they
    do a `ConvexMinimization`.

    Parameters
    ----------
    minimization
        With LogisticLoss(), and the attribute of the classes for its label, one of 3 to 64 labels.

    Raises
    ------
    UnknownAttribute, QueryError, TooLarge
        As `OneVsRest`.

    >>> from dpsdk.losses import LogisticLoss
    >>> from dpsdk.queries import ConvexMinimization, Softmax
    >>> Softmax(ConvexMinimization(LogisticLoss(), features=["age"], label="class"))
    Softmax(ConvexMinimization(LogisticLoss(), features=['age'], label='class'))
    """

    minimization: ConvexMinimization = field(validator=_logistic)
    _kind: ClassVar[type[ConvexForm]] = SoftmaxForm
