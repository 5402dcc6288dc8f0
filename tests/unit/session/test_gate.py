"""What a strategy gives is looked at before anything is made of it, stored, or given again."""

from fractions import Fraction

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Boolean, Budget, Domain, Integer, Planner, PrivateData, Session
from dpsdk.errors import AnswerLost, InvalidArgument, MeasurementRefused
from dpsdk.kernel import LaplaceNoise, Measure
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import DistributionMechanism, Laplace, Mechanism, OneShot
from dpsdk.planner import Plan
from dpsdk.queries import Ball, ConvexMinimization, Count, Marginal
from dpsdk.release import Cost, Measurement, NoAccuracy, Quote
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("level", 0, 2), Boolean("member"))
ASKED = Marginal("level", normalized=False)


@frozen
class Odd(OneShot):
    """Pays as it should, and hands out what a function makes of its measurement."""

    made: object

    def quote(self, form, terms, /):
        pricing = Measure(form, LaplaceNoise(1)).price(terms)
        return Quote(Cost(), Cost((pricing.guarantee,)), pricing.accuracy)

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        return self.made(kernel.run(Measure(form, LaplaceNoise(1))))


def values(make):
    return lambda measured: Measurement(make(measured.values), measured.accuracy)


class Masked(np.ndarray):
    """An array of another author's class."""


def unfinished(_measured):
    return Measurement.__new__(Measurement)


ODD = {
    "nothing": (lambda _: None, "a NoneType, and no Measurement"),
    "numbers alone": (lambda measured: measured.values, "a ndarray, and no Measurement"),
    "one that was never made": (unfinished, "a row of float64"),
    "a list": (values(lambda found: found.tolist()), "a row of float64"),
    "integers": (values(lambda found: found.astype(np.int64)), "a row of float64"),
    "short floats": (values(lambda found: found.astype(np.float32)), "a row of float64"),
    "objects": (values(lambda found: found.astype(object)), "a row of float64"),
    "swapped bytes": (values(lambda found: found.astype(">f8")), "a row of float64"),
    "a column": (values(lambda found: found[:, None]), "a row of float64"),
    "one number": (values(lambda found: found[0]), "a row of float64"),
    "no dimension": (values(lambda found: np.array(found[0])), "a row of float64"),
    "a class of its own": (values(lambda found: found.view(Masked)), "a row of float64"),
    "too few": (values(lambda found: found[:2]), "2 numbers for a form of 3"),
    "too many": (values(lambda found: np.append(found, 0.0)), "4 numbers for a form of 3"),
    "none": (values(lambda _: np.zeros(0)), "0 numbers for a form of 3"),
    "no accuracy": (lambda found: Measurement(found.values, None), "no accuracy"),
    "a number for accuracy": (lambda found: Measurement(found.values, 5.0), "no accuracy"),
    "a class for accuracy": (lambda found: Measurement(found.values, NoAccuracy), "no accuracy"),
    "no source": (lambda found: Measurement(found.values, found.accuracy, None), "no source"),
    "a list for source": (lambda found: Measurement(found.values, found.accuracy, []), "no source"),
    "another source": (
        lambda found: Measurement(found.values, found.accuracy, "guessed"), "no source",
    ),
}  # fmt: skip


def session(**given):
    data = PrivateData.from_columns({"level": [0, 1, 1, 2], "member": [0, 1, 0, 1]}, DOMAIN)
    return Session(data, Budget(epsilon=10), noise=seeded(1), **given)


@pytest.mark.parametrize(("made", "said"), ODD.values(), ids=ODD)
def test_what_is_no_measurement_for_the_form_is_refused_by_name(made, said):
    asked = session()
    mechanism = Odd(made)
    with pytest.raises(MeasurementRefused) as caught:
        asked.release(ASKED, using=mechanism)
    assert said in str(caught.value)
    assert caught.value.mechanism == mechanism.name
    [note] = caught.value.__notes__
    assert "still charged" in note
    assert asked.spent.epsilon == Fraction(1)
    assert len(asked.history) == 1
    assert asked.answer(ASKED, using=Laplace(1)).values.shape == (3,)


def test_it_says_nothing_of_the_numbers():
    asked = session()
    with pytest.raises(MeasurementRefused) as caught:
        asked.answer(ASKED, using=Odd(values(lambda found: found.tolist())))
    assert caught.value.reason == "gave values that are not a row of float64"


def test_it_is_neither_stored_nor_given_again():
    asked = session(reuse=True)
    mechanism = Odd(values(lambda found: found[:1]))
    for charges in (1, 2):
        with pytest.raises(MeasurementRefused):
            asked.answer(ASKED, using=mechanism)
        assert asked.spent.charges == charges
    with pytest.raises(MeasurementRefused):
        asked.answer(ASKED, using=mechanism, request_id="once")
    with pytest.raises(AnswerLost):
        asked.answer(ASKED, using=mechanism, request_id="once")
    assert asked.spent.charges == 3


def test_channels_scopes_and_parts_have_the_same_gate():
    asked = session()
    mechanism = Odd(values(lambda found: found[:1]))
    with asked.open(mechanism) as channel:
        for _ in range(2):
            with pytest.raises(MeasurementRefused):
                channel.release(ASKED)
    with asked.scope("small", epsilon=2) as scope, pytest.raises(MeasurementRefused):
        scope.answer(ASKED, using=mechanism)
    # Of a number each, nothing is wrong with it.
    assert isinstance(asked.answer(Count(normalized=False), using=mechanism), float)


def test_what_tells_nothing_of_a_number_is_fine():
    blank = Odd(lambda found: Measurement(np.full(3, np.nan), NoAccuracy("it tells nothing")))
    assert np.isnan(session().answer(ASKED, using=blank).values).all()


class Given:
    """Quotes whatever it is made with."""

    def __init__(self, given):
        self.given = given

    def quote(self, form, terms, /):
        return self.given

    def open(self, kernel, /):
        raise NotImplementedError


class Boasting(Given, OneShot):
    def __str__(self):
        return "Boasting"


NONE = NoAccuracy("none")
UNSAID = (
    None,
    7,
    Cost(),
    Quote.__new__(Quote),
    Quote(7, Cost(), NONE),
    Quote(Cost(), None, NONE),
    Quote(Cost(), Cost(), 0.1),
    type("Dearer", (Quote,), {})(Cost(), Cost(), NONE),
)


@pytest.mark.parametrize("given", UNSAID, ids=range(len(UNSAID)))
def test_what_is_no_quote_is_refused_by_name(given):
    session = Session(PrivateData.from_columns({"level": [0], "member": [True]}, DOMAIN), Budget(1))
    planner = Planner(DOMAIN, Budget(1), rows=9)
    for ask in (session.quote, session.affords, planner.quote, planner.affords):
        with pytest.raises(InvalidArgument, match=r"quote.*Boasting"):
            ask(Count(), using=Boasting(given))
    assert session.quote(Count(), using=Boasting(Quote(Cost(), Cost(), NONE))).at_most.nothing


class Opened(Given, Mechanism):
    name = "Opened"


class OpenedToModels(Opened, DistributionMechanism):
    """One that models are read off."""


MODEL = ConvexMinimization(LogisticLoss(), features=["level"], label="member", over=Ball(1))


@pytest.mark.parametrize("given", UNSAID, ids=range(len(UNSAID)))
def test_a_plan_whose_mechanism_quotes_none_is_refused_by_name(given):
    session = Session(PrivateData.from_columns({"level": [0], "member": [True]}, DOMAIN), Budget(1))
    asked = (
        (Count(), Opened(given)),
        (Count(), OpenedToModels(given)),
        (MODEL, OpenedToModels(given)),
    )
    for query, mechanism in asked:
        plan = Plan(
            mechanism, Cost(), None, None, None, None, None, None, feasible=True, because=()
        )
        with pytest.raises(InvalidArgument, match=r"quote.*Opened"):
            session.answer(query, using=plan)
    assert not session.history
