"""Private linear models with the interface of scikit-learn, which the extra `sklearn` installs.

An estimator is fitted on a session, not on arrays: labels, and the bounds of numbers, are those of
its domain, and nothing is read off the rows but what the session pays for. All else is as in
scikit-learn: parameters, `clone`, fitted attributes, predictions of public frames, and a place at
the end of a pipeline. Each is a `ConvexMinimization`, or for several classes a `Softmax` or
`OneVsRest` of it, that `PrivateMinimizer` answers, and no more.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np

from dpsdk._checks import described, shown
from dpsdk._records import shows_half_made
from dpsdk.data.readers import read_codes
from dpsdk.domain import Attribute
from dpsdk.errors import DataError, InvalidArgument, MissingExtra, QueryError
from dpsdk.forms import ConvexForm, ConvexSet
from dpsdk.losses import LogisticLoss, Loss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import Corrected, Oracle, PrivateMinimizer
from dpsdk.queries import Classifier, ConvexMinimization, Feature, Model, OneVsRest, Query, Softmax
from dpsdk.queries.features import names_of
from dpsdk.release import Cost, Release
from dpsdk.session.query_interface import QueryInterface
from dpsdk.typing import Array, Floats, Ints, Real

__all__ = ["PrivateLinearRegression", "PrivateLinearSVC", "PrivateLogisticRegression"]

Table: TypeAlias = Mapping[str, Array | Sequence[object]] | object


M = TypeVar("M")


@shows_half_made
class _Linear(ABC, Generic[M]):
    """What the estimators have in common."""

    _estimator_type: ClassVar[str] = "regressor"
    """As scikit-learn before 1.6 asks; later versions ask for tags."""

    coef_: Floats
    feature_names_in_: Array
    n_features_in_: int
    coefficient_names_: list[str]
    model_: M
    release_: Release[M]
    cost_: Cost
    _target: Attribute

    def __init__(
        self,
        epsilon: Real,
        delta: Real = 0,
        *,
        over: ConvexSet | None = None,
        oracle: Oracle | None = None,
        fit_intercept: bool = True,
    ) -> None:
        # As they are: `clone` compares them by identity, and `fit` checks them.
        self.epsilon = epsilon
        self.delta = delta
        self.over = over
        self.oracle = oracle
        self.fit_intercept = fit_intercept

    @property
    @abstractmethod
    def _loss(self) -> Loss:
        """What a model pays."""

    @abstractmethod
    def _ask(self, query: ConvexMinimization, label: Attribute) -> Query[M, ConvexForm]:
        """What is asked of the session."""

    @abstractmethod
    def _learn(self, model: M) -> None:
        """Set what depends on the kind of the label."""

    def fit(
        self,
        session: QueryInterface,
        y: None = None,
        *,
        label: str | None = None,
        features: Sequence[str | Feature] | None = None,
    ) -> Self:
        """Find a model of the session's table, and pay for it.

        Parameters
        ----------
        session
            A `Session`, or a scope of one.
        y
            None: pipelines hand it on.
        label
            The attribute to predict.
        features
            As in `ConvexMinimization`; all other attributes of the domain if left out.

        Raises
        ------
        InvalidArgument
            If it is given arrays, or another argument is not as it should be.
        QueryError, TooLarge, BudgetExceeded
            As `session.release` does.
        """
        if not isinstance(session, QueryInterface) or y is not None:
            expected = "a Session: labels and bounds come from its domain, never from rows"
            odd = "X" if not isinstance(session, QueryInterface) else "y"
            raise InvalidArgument(odd, expected, type(session if odd == "X" else y).__name__)
        if label is None:
            raise InvalidArgument("label", "the name of the attribute to predict", "none")
        domain = session.domain
        used = [name for name in domain.names if name != label] if features is None else features
        query = ConvexMinimization(
            self._loss, features=used, label=label, over=self.over, intercept=self.fit_intercept
        )
        oracle = Corrected() if self.oracle is None else self.oracle
        using = PrivateMinimizer(epsilon=self.epsilon, delta=self.delta, oracle=oracle)
        target = domain[label]
        release = session.release(self._ask(query, target), using=using)
        names = dict.fromkeys(name for one in query.features for name in names_of(one))
        self.release_, self.model_, self.cost_ = release, release.value, release.cost
        self.feature_names_in_ = np.array(list(names), dtype=object)
        self.n_features_in_ = len(names)
        self._target = target
        self._learn(release.value)
        return self

    def get_params(self, deep: bool = True) -> dict[str, object]:  # noqa: FBT001, FBT002
        """The parameters by name; none has parameters of its own, so that `deep` adds none."""
        del deep
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: object) -> Self:
        """Set parameters by name, and return the estimator."""
        for name, value in parameters.items():
            if name not in self._parameters():
                expected = f"one of {', '.join(self._parameters())}"
                raise InvalidArgument("parameter", expected, shown(name))
            setattr(self, name, value)
        return self

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> object:
        try:
            utils = import_module("sklearn.utils")
        except ImportError:
            raise MissingExtra("scikit-learn", "sklearn") from None
        classes = self._estimator_type == "classifier"
        return utils.Tags(
            estimator_type=self._estimator_type,
            target_tags=utils.TargetTags(required=False),
            classifier_tags=utils.ClassifierTags(multi_class=True) if classes else None,
            regressor_tags=None if classes else utils.RegressorTags(),
            no_validation=True,
            non_deterministic=True,
        )

    @property
    def _fitted(self) -> M:
        if not hasattr(self, "model_"):
            raise QueryError(type(self).__name__, "it was not fitted; call fit(session, label=...)")
        return self.model_

    def __repr__(self) -> str:
        known = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={described(value)}"
            for name, value in self.get_params().items()
            if value is not known[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


class _Classifier(_Linear[Model | Classifier]):
    _estimator_type: ClassVar[str] = "classifier"

    classes_: Array
    intercept_: Floats

    def _ask(
        self, query: ConvexMinimization, label: Attribute
    ) -> Query[Model | Classifier, ConvexForm]:
        if label.known <= 2:
            return query
        return Softmax(query) if self._loss == LogisticLoss() else OneVsRest(query)

    def _learn(self, model: Model | Classifier) -> None:
        labels = [self._target.label(code) for code in range(self._target.known)]
        self.classes_ = np.empty(len(labels), dtype=object)
        self.classes_[:] = labels
        if len({type(label) for label in labels}) == 1 and not isinstance(labels[0], tuple):
            self.classes_ = np.array(labels)
        if isinstance(model, Classifier):
            rows, starts = [*model.coefficients.values()], [*model.intercepts.values()]
        else:
            rows, starts = [model.coefficients], [model.intercept]
        self.coefficient_names_: list[str] = list(rows[0])
        self.coef_: Floats = np.array([list(one.values()) for one in rows])
        self.intercept_ = np.array(starts)

    def decision_function(self, X: Table) -> Floats:  # noqa: N803 - as scikit-learn calls it
        """The margin of each row, positive for the second class; NaN where a value is missing.

        Of more than two classes an array (rows, classes), with the margin of each.
        """
        return self._fitted.margins(X)

    def predict(self, X: Table) -> Array:  # noqa: N803
        """The class of each row. Raises `DataError` if a row lacks a value, or matches no label."""
        codes = self._codes(X)
        return self.classes_[codes]

    def _codes(self, table: Table) -> Ints:
        margins = self.decision_function(table)
        if np.isnan(margins).any():
            reason = "a row has a value that is missing or no label, so that it has no class"
            raise DataError("X", reason)
        codes = margins > 0.0 if margins.ndim == 1 else margins.argmax(axis=1)
        return codes.astype(np.int64)

    def score(self, X: Table, y: Sequence[object] | Array) -> float:  # noqa: N803
        """The share of public rows whose class is right. Raises as `predict` does."""
        codes = self._codes(X)
        true = read_codes({self._target.name: np.asarray(y)}, [self._target])[self._target.name]
        if len(true) != len(codes) or not len(true):
            raise InvalidArgument("y", f"{len(codes):,} labels, one a row", f"{len(true):,}")
        return float((codes == true).mean())


class PrivateLogisticRegression(_Classifier):
    """Logistic regression of two to 64 classes, with the interface of `sklearn.linear_model`.

    More than two are told apart by one `Softmax` of all. After `fit`: `coef_`
    (1 or classes, coefficients) and `intercept_` (1 or classes,) in the units of the data,
    `coefficient_names_`, `feature_names_in_` (the attributes that it reads), `classes_`, `model_`,
    `release_`, and `cost_`.

    Parameters
    ----------
    epsilon, delta
        What a fit may cost. Models of many attributes need a delta above 0.
    over, oracle, fit_intercept
        As `over` and `intercept` of `ConvexMinimization`, and `oracle` of `PrivateMinimizer`.

    >>> from dpsdk import Boolean, Budget, Domain, Integer, PrivateData, Session
    >>> from dpsdk.sklearn import PrivateLogisticRegression
    >>> from dpsdk.testing import seeded
    >>> domain = Domain(Integer("age", 0, 9), Boolean("rich"))
    >>> columns = {"age": [2, 7] * 5000, "rich": [False, True] * 5000}
    >>> data = PrivateData.from_columns(columns, domain)
    >>> session = Session(data, Budget(1, "1e-9"), noise=seeded(1))
    >>> model = PrivateLogisticRegression(epsilon=1, delta=1e-9).fit(session, label="rich")
    >>> model.predict({"age": [1, 8]}).tolist(), model.coef_.shape
    ([False, True], (1, 1))
    """

    @property
    def _loss(self) -> Loss:
        return LogisticLoss()

    def predict_proba(self, X: Table) -> Floats:  # noqa: N803
        """The probability of each class, a row for each row; NaN where a value is missing."""
        if isinstance(self._fitted, Classifier):
            return self._fitted.predict_proba(X)
        second = self._fitted.predict(X)
        return np.stack([1.0 - second, second], axis=1)


class PrivateLinearSVC(_Classifier):
    """A linear support vector machine of two to 64 classes, as `sklearn.linear_model` has them.

    Its loss is the hinge, rounded over half a margin. Parameters and attributes are those of
    `PrivateLogisticRegression`.
    """

    @property
    def _loss(self) -> Loss:
        return SVMLoss(0.5)


class PrivateLinearRegression(_Linear[Model]):
    """Least squares, with the interface of `sklearn.linear_model`.

    Parameters are those of `PrivateLogisticRegression`; `coef_` (coefficients,) and `intercept_`
    are in the unit of the label.
    """

    intercept_: float

    @property
    def _loss(self) -> Loss:
        return SquaredLoss()

    def _ask(self, query: ConvexMinimization, label: Attribute) -> Query[Model, ConvexForm]:
        del label
        return query

    def _learn(self, model: Model) -> None:
        self.coefficient_names_: list[str] = list(model.coefficients)
        self.coef_: Floats = np.array(list(model.coefficients.values()))
        self.intercept_ = model.intercept

    def predict(self, X: Table) -> Floats:  # noqa: N803
        """The label of each row in its own unit; NaN where a value is missing."""
        return self._fitted.predict(X)

    def score(self, X: Table, y: Sequence[float] | Array) -> float:  # noqa: N803
        """R² on public rows: 1 for a perfect model, 0 for one no better than the mean of `y`."""
        predicted = self.predict(X)
        true = np.asarray(y, dtype=np.float64)
        if true.shape != predicted.shape or not len(true):
            raise InvalidArgument("y", f"{len(predicted):,} numbers, one a row", f"{len(true):,}")
        if np.isnan(predicted).any():
            raise DataError("X", "a row has a value that is missing or no label")
        spread = float(np.square(true - true.mean()).sum())
        missed = float(np.square(true - predicted).sum())
        return 1.0 - missed / spread if spread else float(missed == 0.0)
