"""Tables for the benchmark of models: codes, what a model reads of them, and what it is held to.

Files are those of the UCI repository: `adult` the coded table of bench_mwem.py, in the order of its
source, whose last 16,281 rows are the customary test table; `winequality-white.csv` and
`ionosphere.csv` without headers. Groups and bounds are fixed here, and were not read off a table.
"""

import csv
import math

import numpy as np
from attrs import field, frozen
from measuring import coded, example

from dpsdk import Boolean, Domain, Integer, PrivateData, Session
from dpsdk.domain import Attribute
from dpsdk.losses import HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.queries import Ball, ConvexMinimization, Feature, Scaled
from dpsdk.testing import seeded
from dpsdk.typing import Array, Ints

ADULT_TEST = 16_281
NINE = ("age", "work", "education", "married", "job", "race", "sex", "hours", "income")
NINE_SIZES = (5, 4, 5, 3, 5, 2, 2, 4, 2)

CLASSES = (SquaredLoss(), LogisticLoss(), SVMLoss(0.5))
NUMBERS = (
    SquaredLoss(),
    HuberLoss(0.3),
    QuantileLoss("0.5", 0.1),
    QuantileLoss("0.9", 0.1),
)


@frozen
class Dropped(Feature):
    """One number for each label but the first, as statisticians write factors."""

    attribute: str

    @property
    def names(self):
        return (self.attribute,)

    def labels(self, domain, /):
        return [f"{self.attribute}={code}" for code in range(1, domain[self.attribute].size)]

    def values(self, domain, /):
        return np.eye(domain[self.attribute].size)[1:]


@frozen(eq=False)
class Table:
    """The shares of the rows in the cells of a coded table, counted by this program itself."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    counts: Ints
    """One axis for each name."""

    @classmethod
    def of(cls, names, sizes, codes):
        cells = np.ravel_multi_index(tuple(codes.T), sizes)
        counts = np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)
        return cls(tuple(names), tuple(sizes), counts)

    def table(self, names):
        axes = [self.names.index(name) for name in names]
        others = tuple([axis for axis in range(len(self.names)) if axis not in axes])
        summed = self.counts.sum(axis=others)
        # What is left has its axes in the order of the table.
        left = sorted(axes)
        return summed.transpose([left.index(axis) for axis in axes]) / self.counts.sum()


@frozen(eq=False)
class Case:
    """A coded table with a model to find: the label is the last attribute."""

    name: str
    held: str
    """Which rows are held out."""
    attributes: tuple[Attribute, ...]
    codes: Ints = field(repr=False)
    test: Array = field(repr=False)
    features: tuple[Feature, ...]
    radius: float
    losses: tuple[Loss, ...]

    @property
    def names(self):
        return tuple([attribute.name for attribute in self.attributes])

    @property
    def sizes(self):
        return tuple([attribute.size for attribute in self.attributes])

    @property
    def domain(self):
        return Domain(*self.attributes)

    @property
    def classes(self):
        return self.sizes[-1] == 2

    def query(self, loss):
        return ConvexMinimization(
            loss, features=self.features, label=self.names[-1], over=Ball(self.radius)
        )

    def vectors(self, codes):
        """Feature vectors of rows, that of an intercept last, as long as 1 at the most."""
        blocks, longest = [], 1.0
        for place, feature in enumerate(self.features):
            size = self.sizes[place]
            if isinstance(feature, Dropped):
                numbers = np.eye(size)[:, 1:]
            else:
                numbers = np.linspace(-1.0, 1.0, size)[:, None]
            blocks.append(numbers[codes[:, place]])
            longest += float(np.square(numbers).sum(axis=1).max())
        rows = np.hstack([*blocks, np.ones((len(codes), 1))])
        return rows / math.sqrt(longest)

    def targets(self, codes):
        return np.linspace(-1.0, 1.0, self.sizes[-1])[codes[:, -1]]


def opened(attributes, codes, budget, seed):
    """A session on a coded table whose number of rows is public; its noise repeats."""
    columns = {
        one.name: codes[:, place].astype(bool if isinstance(one, Boolean) else np.int64)
        for place, one in enumerate(attributes)
    }
    data = PrivateData.from_columns(columns, Domain(*attributes))
    return Session(data, budget, noise=seeded(seed))


def grouped(codes, last):
    """The group of each code: 0 up to the first of `last`, itself included, and so on."""
    return np.searchsorted(last, codes).astype(np.int64)


def evenly(numbers, low, high, bins):
    """Bins of equal width between two bounds; what lies beyond these is moved to the nearest."""
    place = np.floor((numbers - low) / (high - low) * bins)
    return np.clip(place, 0, bins - 1).astype(np.int64)


def _named(names, sizes):
    numbers = [
        Integer(name, 0, size - 1) for name, size in zip(names[:-1], sizes[:-1], strict=True)
    ]
    if sizes[-1] == 2:
        return (*numbers, Boolean(names[-1]))
    return (*numbers, Integer(names[-1], 0, sizes[-1] - 1))


def _last(rows, count):
    return np.arange(rows) >= rows - count


def adult_five(path):
    """Income from five attributes as numbers: 6 coefficients, 5,120 cells."""
    column = coded(path)
    codes = np.stack(
        [
            grouped(column["age"], [9, 14, 19, 24, 29, 39, 49]),
            column["education-num"],
            (column["marital-status"] == 0).astype(np.int64),
            column["sex"],
            grouped(column["hours-per-week"], [19, 34, 40, 50]),
            column["income>50K"],
        ],
        axis=1,
    )
    names = ("age", "education", "married", "sex", "hours", "income")
    return Case(
        "adult-5",
        "adult.test",
        _named(names, (8, 16, 2, 2, 5, 2)),
        codes,
        _last(len(codes), ADULT_TEST),
        tuple([Scaled(name) for name in names[:-1]]),
        20.0,
        CLASSES,
    )


def adult_nine(path):
    """Adult in nine grouped attributes: 96,000 cells."""
    column = coded(path)
    work = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3])[column["workclass"]]
    married = np.array([0, 1, 2, 1, 1, 1, 0])[column["marital-status"]]
    return np.stack(
        [
            grouped(column["age"], [9, 19, 29, 44]),
            work,
            grouped(column["education-num"], [8, 9, 12, 13]),
            married,
            column["occupation"] % 5,
            (column["race"] != 0).astype(np.int64),
            column["sex"],
            grouped(column["hours-per-week"], [34, 40, 50]),
            column["income>50K"],
        ],
        axis=1,
    )


EIGHT = ("age", "work", "education", "married", "race", "sex", "hours", "income")
EIGHT_SIZES = (5, 4, 5, 3, 2, 2, 4, 2)
_SCHOOL = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad",
    "Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
_WORK = {"?": 0, "Never-worked": 0, "Without-pay": 0, "Private": 1}
_SELF = {"Self-emp-not-inc", "Self-emp-inc"}
_MARRIED = {"Married-civ-spouse": 0, "Married-AF-spouse": 0, "Never-married": 1}


def adult_example():
    """Adult as it comes with the package, in eight grouped attributes: 19,200 cells."""
    column = {name: np.array(values) for name, values in example().items()}
    work = [_WORK.get(one, 2 if one in _SELF else 3) for one in column["workclass"]]
    school = np.array([_SCHOOL.index(one) for one in column["education"]])
    return np.stack(
        [
            grouped(column["age"].astype(np.int64), [25, 35, 45, 60]),
            np.array(work),
            grouped(school, [7, 8, 11, 12]),
            np.array([_MARRIED.get(one, 2) for one in column["marital-status"]]),
            column["race"] != "White",
            column["sex"] == "Male",
            grouped(column["hours"].astype(np.int64), [34, 40, 50]),
            column["income"] == ">50K",
        ],
        axis=1,
    ).astype(np.int64)


def adult_eight(path):
    """Income from eight attributes as factors: 23 coefficients, 96,000 cells."""
    codes = adult_nine(path)
    return Case(
        "adult-8hot",
        "adult.test",
        _named(NINE, NINE_SIZES),
        codes,
        _last(len(codes), ADULT_TEST),
        tuple([Dropped(name) for name in NINE[:-1]]),
        40.0,
        CLASSES,
    )


def wine(path):
    """The quality of white wines, 3 to 9, from five numbers: 6 coefficients, 30,625 cells."""
    numbers = np.loadtxt(path, delimiter=",")
    read = (
        ("alcohol", 10, 8.0, 14.0, 7),
        ("acid", 1, 0.1, 0.9, 5),
        ("sugar", 3, 0.0, 20.0, 5),
        ("density", 7, 0.987, 1.003, 5),
        ("sulfur", 5, 0.0, 90.0, 5),
    )
    columns = [evenly(numbers[:, place], low, high, bins) for _, place, low, high, bins in read]
    columns.append(np.clip(numbers[:, 11].astype(np.int64), 3, 9) - 3)
    names = (*[one[0] for one in read], "quality")
    sizes = (*[one[4] for one in read], 7)
    return Case(
        "wine-5",
        "every fifth wine",
        _named(names, sizes),
        np.stack(columns, axis=1),
        np.arange(len(numbers)) % 5 == 4,
        tuple([Scaled(name) for name in names[:-1]]),
        4.0,
        NUMBERS,
    )


def ionosphere(path):
    """Good or bad radar returns from six readings: 7 coefficients, 8,192 cells, 351 rows."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    readings = [np.array([float(row[place]) for row in rows]) for place in (2, 4, 6, 7, 26, 13)]
    columns = [evenly(numbers, -1.0, 1.0, 4) for numbers in readings]
    columns.append(np.array([row[-1] == "g" for row in rows], dtype=np.int64))
    names = (*[f"reading{place}" for place in range(6)], "good")
    return Case(
        "ionosphere-6",
        "the last 151 rows, as is customary",
        _named(names, (4, 4, 4, 4, 4, 4, 2)),
        np.stack(columns, axis=1),
        _last(len(rows), 151),
        tuple([Scaled(name) for name in names[:-1]]),
        20.0,
        (SquaredLoss(), LogisticLoss()),
    )
