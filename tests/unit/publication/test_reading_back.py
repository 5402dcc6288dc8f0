"""Tables in files, read by what their descriptions declare, are the frames of their releases."""

import csv
import io
from datetime import date, datetime

import pytest

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import Gaussian, Laplace, NumericSparse, OneShot, PrivateMinimizer, Tree
from dpsdk.queries import (
    Above,
    Ball,
    ConvexMinimization,
    Count,
    DateQuantile,
    Marginal,
    Mean,
    NumericAbove,
    Quantile,
    Rectangles,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(
    Boolean("truth"),
    Integer("number", -1, 1),
    Integer("beyond", 2**70, 2**70 + 1),
    Categorical("codes", [3, -7, 20]),
    Categorical("beyond codes", [2**64, 1]),
    Categorical("texts of numbers", ["1", "02", "-3"]),
    Categorical("=texts", ["", "a", "'b", "=c", 'd"e;f', "nan", "NA", "True", "g\rh"]),
    Categorical("mixed", ["a", 1]),
    Categorical("single", ["only"]),
    Binned("bin", [0, 1, 2.5]),
    Date("day", date(2024, 1, 1), date(2024, 1, 2)),
    Date("week", date(2024, 1, 1), date(2024, 1, 10), unit="week"),
    Date("month", date(2024, 1, 1), date(2024, 2, 2), unit="month"),
    Date("hour", datetime(2024, 1, 1, 22), datetime(2024, 1, 1, 23), unit="hour"),
)
ROWS = {one.name: [one.label(0), one.label(one.size - 1)] * 100 for one in DOMAIN}
SPARSE = NumericSparse(epsilon=9, tops=1)
MODEL = ConvexMinimization(LogisticLoss(), features=["number"], label="truth", over=Ball(8))
QUANTILES = [DateQuantile("day", "0.5"), DateQuantile("hour", "0.5")]


def released(query, using, *, rows=ROWS, private=False):
    neighbors = Neighbors.REPLACE_ONE if rows is ROWS else Neighbors.ADD_REMOVE
    data = PrivateData.from_columns(rows, DOMAIN, neighbors=neighbors)
    session = Session(data, Budget(1000, "1e-6"), noise=None if private else seeded(1))
    if not isinstance(using, OneShot):
        using = session.open(using)
    return session.release(query, using=using)


def nowhere(query):
    """The release of a question to a table of no rows, of which no median is known."""
    return released(query, Laplace(1), rows={name: [] for name in DOMAIN.names})


CASES = {
    **{name: lambda name=name: released(Marginal(name), Laplace(1)) for name in DOMAIN.names},
    "several attributes": lambda: released(
        Marginal("codes", "=texts", "hour", "truth"), Gaussian(rho=1)
    ),
    "moved": lambda: released(Marginal("number"), Laplace("0.01")).nonnegative(),
    "private": lambda: released(Count(), Laplace(1), private=True),
    "vacuous": lambda: released(Marginal("number"), Laplace("1e-6")),
    "mean": lambda: released(Mean("number"), Laplace(1)),
    "no mean": lambda: released(Mean("number", where={"number": 0}), Laplace("0.001")),
    "sum": lambda: released(Sum("number"), Laplace(1)),
    "quantile": lambda: released(Quantile("number", "0.5"), Laplace(5)),
    "numbers": lambda: released(Workload([Count(), Sum("number")]), Laplace(5)),
    "array": lambda: released(Rectangles("number", lower=[0, 1], upper=[1, 2]), Laplace(5)),
    "measured before": lambda: released(Threshold("number", 0), Tree("number", epsilon=5)),
    "truth": lambda: released(Above(Threshold("number", 0), 0.5), SPARSE),
    "no number": lambda: released(NumericAbove(Threshold("number", 0), 1), SPARSE),
    "day": lambda: released(QUANTILES[0], Laplace(50)),
    "hour": lambda: released(QUANTILES[1], Laplace(50)),
    "no day": lambda: nowhere(QUANTILES[0]),
    "no hour": lambda: nowhere(QUANTILES[1]),
    "several kinds": lambda: released(Workload([Count(), *QUANTILES]), Laplace(50)),
    "several kinds, some without": lambda: nowhere(Workload([Count(normalized=False), *QUANTILES])),
    "model": lambda: released(MODEL, PrivateMinimizer(epsilon=1, delta="1e-9")),
}


def read(cell, field):
    """The value of a cell, as the descriptor of a package declares its field."""
    kind = field["type"]
    if cell == "" and not (kind == "string" and "" in labels_of(field)):
        return None
    if kind == "boolean":
        truths = dict.fromkeys(field.get("trueValues", ["true"]), True)
        return (truths | dict.fromkeys(field.get("falseValues", ["false"]), False))[cell]
    readers = {
        "string": lambda text: text.removeprefix("'"),
        "integer": int,
        "number": lambda text: float(text.replace("INF", "inf")),
        "date": date.fromisoformat,
        "datetime": lambda text: datetime.strptime(text, field["format"]),
    }
    return readers[kind](cell)


def labels_of(field):
    """The empty label too, which a list of what a cell may be leaves out."""
    required = field.get("constraints", {}).get("required", False)
    return [] if required or "enum" not in field.get("constraints", {}) else [""]


def columns_of(table, resource):
    fields = resource["schema"]["fields"]
    header, *rows = csv.reader(io.StringIO(table.to_csv(), newline=""))
    assert header == [field["name"] for field in fields]
    columns = zip(*rows, strict=True)
    return {
        field["name"]: [read(cell, field) for cell in column]
        for field, column in zip(fields, columns, strict=True)
    }


def same(one, other):
    """Whether entries are equal, what there is none of too."""
    return one == other or (one is None and other != other) or (other is None and one != one)


@pytest.mark.parametrize("name", CASES)
def test_a_file_read_as_it_is_described_is_the_frame(name):
    pl = pytest.importorskip("polars")
    release = CASES[name]()
    (table,) = release.metadata().tables
    (resource,) = release.metadata().to_datapackage().content["resources"]
    frame = release.to_frame("polars")
    columns = columns_of(table, resource)
    unguarded = [column.removeprefix("'") for column in columns]
    assert unguarded == frame.columns
    types = {
        "string": pl.String,
        "integer": pl.Int64,
        "number": pl.Float64,
        "boolean": pl.Boolean,
        "date": pl.Date,
        "datetime": pl.Datetime("us"),
    }
    for field, own, column in zip(
        resource["schema"]["fields"], columns.values(), frame.columns, strict=True
    ):
        assert frame.schema[column] == types[field["type"]], column
        assert all(map(same, own, frame[column].to_list())), column
        assert frame[column].len() == len(own)
        listed = field.get("constraints", {}).get("enum")
        assert listed is None or set(frame[column]) - {""} <= {
            one.removeprefix("'") if isinstance(one, str) else one for one in listed
        }


@pytest.mark.parametrize("name", CASES)
def test_pandas_reads_a_file_as_it_is_described(name):
    pd = pytest.importorskip("pandas")
    release = CASES[name]()
    (table,) = release.metadata().tables
    (resource,) = release.metadata().to_datapackage().content["resources"]
    fields = {one["name"]: one for one in resource["schema"]["fields"]}
    types = {"string": str, "integer": "int64", "number": "float64", "boolean": "boolean"}
    taken = {n: types[one["type"]] for n, one in fields.items() if one["type"] in types}
    dates = [n for n, one in fields.items() if one["type"] not in types]
    truths = {word for one in fields.values() for word in one.get("trueValues", ["true"])}
    lies = {word for one in fields.values() for word in one.get("falseValues", ["false"])}
    # A label may be any text, an empty one too; numbers and dates have gaps.
    gaps = {n: [] if one["type"] == "string" else [""] for n, one in fields.items()}
    # Left to itself an older one takes the double beside it, and a newer one wants to be.
    exact = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}
    found = pd.read_csv(
        io.StringIO(table.to_csv(), newline=""),
        dtype=taken,
        parse_dates=dates,
        true_values=sorted(truths),
        false_values=sorted(lies),
        na_values=gaps,
        keep_default_na=False,
        **exact,
    )
    frame = release.to_frame("polars")
    assert len(found) == len(frame)
    for own, column in zip(found.columns, frame.columns, strict=True):
        for one, other in zip(found[own].tolist(), frame[column].to_list(), strict=True):
            if isinstance(other, str):
                assert one.removeprefix("'") == other
            elif other is None:
                assert pd.isna(one) or one == ""
            elif isinstance(other, date):
                assert pd.Timestamp(one) == pd.Timestamp(other)
            else:
                assert one == other or (one != one and other != other)


def test_a_median_that_is_nowhere_is_known_to_be_somewhere():
    release = nowhere(Workload(QUANTILES[:1]))
    assert list(release.value) == [None]
    (table,) = release.metadata().tables
    assert table.to_csv().splitlines()[1].endswith(",,2024-01-01,2024-01-02,0.05,true")
    assert [column.kind for column in table.columns[1:4]] == ["day"] * 3
    frame = release.to_frame("polars", joint=False)
    assert frame["low"].to_list() == [date(2024, 1, 1)]


def test_an_interval_of_nothing_is_left_out():
    release = CASES["no number"]()
    assert release.value is None
    assert release.to_frame("polars").columns == ["query", "value"]


def test_tables_among_answers_have_the_columns_of_their_frames():
    names = [name for name in DOMAIN.names if name != "single"]
    release = released(Workload([Count(), *map(Marginal, names)]), Laplace(50))
    metadata = release.metadata()
    resources = metadata.to_datapackage().content["resources"]
    for table, resource, answer in zip(metadata.tables, resources, release.value, strict=True):
        if not isinstance(answer, float):
            columns = list(columns_of(table, resource).values())
            frame = answer.to_frame("polars")
            assert columns[:2] == [frame[name].to_list() for name in frame.columns]
