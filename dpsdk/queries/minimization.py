"""Convex minimisation: the model of least average loss, as a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import cast

from dpsdk._checks import described, shown, to_name
from dpsdk._records import field, frozen
from dpsdk.codec import FLAG, NAME, ListOf, Member, Nested, written
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Ball, Box, ConvexForm, ConvexSet, Facts, Simplex
from dpsdk.forms.convex import COORDINATE_LIMIT
from dpsdk.forms.design import check_cells
from dpsdk.hypothesis import Distribution
from dpsdk.losses import Loss
from dpsdk.queries.base import Query, to_flag
from dpsdk.queries.features import FEATURE, Feature, names_of, show_feature, to_feature
from dpsdk.queries.model import Inputs, Model, Target
from dpsdk.typing import Floats

__all__ = ["ConvexMinimization"]


def _to_loss(value: Loss) -> Loss:
    if not isinstance(value, Loss):
        raise InvalidArgument("loss", "a loss of dpsdk.losses", shown(value))
    return value


def _to_features(values: Iterable[str | Feature]) -> tuple[str | Feature, ...]:
    expected = "features or names of attributes, at least one, as in [OneHot('sex'), 'age']"
    # A set has no order, in which coefficients could stand.
    odd = isinstance(values, str | Feature | AbstractSet | Mapping)
    if odd or not isinstance(values, Iterable):
        raise InvalidArgument("features", expected, shown(cast("object", values)))
    kept = tuple([to_feature("features", value) for value in values])
    if not kept:
        raise InvalidArgument("features", expected, "none")
    if len(kept) > COORDINATE_LIMIT:
        advice = "put several numbers into one feature"
        raise TooLarge("a model", len(kept), COORDINATE_LIMIT, "features", advice)
    return kept


def _to_label(value: str) -> str:
    return to_name("label", value)


def _to_set(value: ConvexSet | None) -> ConvexSet | None:
    if value is not None and not isinstance(value, Ball | Box | Simplex):
        expected = "a bounded set of coefficients, such as Ball(8), Box(-1, 1) or Simplex()"
        raise InvalidArgument("over", expected, shown(value))
    return value


def _to_intercept(value: bool) -> bool:  # noqa: FBT001 - a reader of an argument
    return to_flag("intercept", value)


@written(
    "query.convex-minimization",
    {
        "loss": Nested[Loss]("a loss", Loss),
        "features": ListOf(FEATURE, least=1),
        "label": NAME,
        "over": Member(Nested[ConvexSet]("a set of coefficients", ConvexSet), None, quiet=True),
        "intercept": Member(FLAG, True),
    },
)
@frozen(repr=False)
class ConvexMinimization(Query[Model, ConvexForm]):
    """The linear model whose average loss over the rows is least; a `Model`.

    A convex minimisation query (Ullman 2015). A row inside the domain pays φ(⟨θ, x⟩, y), with x its
    feature vector and y its label; one outside pays nothing, nor does one of which any of these
    values is missing or no label. Feature vectors, one for the intercept
    included, are scaled by one number, so that the longest of the universe has length 1; that is
    done once and from public facts.

    `PrivateMinimizer` finds one model, and says how far off it is expected or proven to be. Any
    channel with a distribution answers any number of them from that, free: MWEM, OfflinePMW,
    OnlinePMW, SmallDB and NoisyHistogram. So does `fit` from a distribution that was kept. How
    close such a model is to the best one of the table is as good as the distribution is, and
    nothing is proven of it.

    Parameters
    ----------
    loss
        A value of dpsdk.losses, such as LogisticLoss(), or of a class of your own.
    features
        What the model reads of a row: `OneHot`, `Scaled`, `Cross`, or a `Feature` of your own. The
        name of an attribute stands for its natural feature: `Scaled` of an `Integer` or `Binned`
        attribute, `OneHot` of any other.
    label
        The attribute to predict, on which no feature depends. For a loss of two classes, one of two
        labels: the first is -1, the second 1. For other losses a numeric attribute, whose bounds
        become -1 and 1, or 0 and 1 where the loss takes no negative numbers; a bin stands for its
        middle; two labels that are no numbers count 0 and 1 before that.
    over
        The set of θ: `Ball`, `Box` or `Simplex`. If left out, a `Ball` in which the whole range of
        every feature, from its one bound to the other or from label to label, may add 12 to the
        margin, odds of e^12, at the same time; or twice the label's range, where the loss predicts
        a number. With F features, an intercept counted as one, whose vectors before that are at
        most R long, its radius is 6·R·√F, or 2·R·√F. Best models of common tables lie inside.
    intercept
        Whether the model has one, as the last of its coefficients.

    Raises
    ------
    UnknownAttribute, QueryError, TooLarge
        When it is asked, before anything is paid: if the domain lacks an attribute; if two features
        are the same, or one has no finite numbers; if the label does not go with the loss; if the
        loss is not convex, gives NaN, or is not what it declares to be; or if one feature depends
        on too many cells. Where features and label depend on more than 10^6 cells together,
        `PrivateMinimizer` still finds a model, and so do distributions that are records, `Records`
        and `SyntheticData`; others do not.

    >>> from dpsdk.losses import LogisticLoss
    >>> from dpsdk.queries import Ball, ConvexMinimization, Cross
    >>> ConvexMinimization(
    ...     LogisticLoss(), features=["age", Cross("sex", "race")], label="income", over=Ball(8)
    ... )
    ConvexMinimization(LogisticLoss(), features=['age', Cross('sex', 'race')], label='income', \
over=Ball(radius=8.0))
    """

    loss: Loss = field(converter=_to_loss)
    features: tuple[str | Feature, ...] = field(converter=_to_features, kw_only=True)
    label: str = field(converter=_to_label, kw_only=True)
    over: ConvexSet | None = field(default=None, converter=_to_set, kw_only=True)
    intercept: bool = field(default=True, converter=_to_intercept, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for feature in self.features:
            if self.label in names_of(feature):
                expected = "an attribute that no feature depends on"
                raise InvalidArgument("label", expected, shown(self.label))

    def lower(self, domain: Domain, /) -> ConvexForm:
        return self._form(domain, *self._read(domain))

    def lift(self, raw: Floats, facts: Facts, /) -> Model:
        """The model of raw numbers: its coefficients, and the gap last."""
        return Model(raw[:-1], float(raw[-1]), *self._read(facts.domain), self.loss)

    def fit(self, distribution: Distribution, /) -> Model:
        """The model of least average loss over a distribution, such as that of a channel. Free.

        A number of a feature that never varies there has coefficient 0, if the set has such a
        model; `Model.extrapolates` says of which rows it then knows nothing.
        """
        if not isinstance(distribution, Distribution):
            raise InvalidArgument("distribution", "a distribution", shown(distribution))
        domain = distribution.domain
        inputs, target = self._read(domain)
        theta, gap = self._form(domain, inputs, target).fit(distribution)
        return Model(theta, gap, inputs, target, self.loss)

    def _read(self, domain: Domain) -> tuple[Inputs, Target]:
        check_cells([self.label], domain)
        inputs = Inputs.of(self.features, domain, intercept=self.intercept)
        return inputs, Target.of(domain[self.label], self.loss)

    def _form(self, domain: Domain, inputs: Inputs, target: Target) -> ConvexForm:
        over = Ball(inputs.radius(self.loss)) if self.over is None else self.over
        return ConvexForm(domain, inputs.vector, self.label, target.numbers, self.loss, over)

    def __repr__(self) -> str:
        parts = [described(self.loss), f"features=[{', '.join(map(show_feature, self.features))}]"]
        parts.append(f"label={shown(self.label)}")
        parts += [f"over={described(self.over)}"] * (self.over is not None)
        parts += ["intercept=False"] * (not self.intercept)
        return f"ConvexMinimization({', '.join(parts)})"
