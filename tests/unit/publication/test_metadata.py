"""The metadata of a release: all that its written form has, in words and in formats of others."""

import csv
import io
import json
import math
import re
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from attrs import fields

from dpsdk import (
    Binned,
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Release,
    Session,
    wire,
)
from dpsdk.accounting import BasicComposition, PureGuarantee, Trusted
from dpsdk.accounting.numbers import as_bound
from dpsdk.accounting.spent import Payment
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    Mechanism,
    NumericSparse,
    OneShot,
    Parts,
    PrivateMinimizer,
    Projection,
    Tree,
)
from dpsdk.publication import About, Metadata, TableFile, spelled
from dpsdk.queries import (
    Above,
    Ball,
    ConvexMinimization,
    Count,
    DateQuantile,
    Marginal,
    Mean,
    NumericAbove,
    OneHot,
    Query,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.release import Cost, Measurement, NoAccuracy
from dpsdk.testing import seeded
from dpsdk.wire import ReleaseRecord
from written import VALUES

DOMAIN = Domain(
    Integer("age", 17, 24),
    Categorical("=sum", ["=1+1", "'a\rb", "a,b", 'c"d', "-3", "\N{SNOWMAN}"]),
    Categorical("value", ["one", "two"]),
    Binned("income", [0, 1_000_000, 1_000_000.5, 2_000_000]),
    Date("day", date(2024, 1, 1), date(2024, 1, 3)),
)
COLUMNS = {
    "age": [17, 18, 20, 24] * 50,
    "=sum": ["=1+1", "a,b"] * 100,
    "value": ["one"] * 200,
    "income": [1.0, 1_500_000.0] * 100,
    "day": [date(2024, 1, 2)] * 200,
}
SEVERAL = Workload([
    Threshold("age", 20), Workload([Count(), Marginal("value", "day")]), DateQuantile("day", "0.5"),
])  # fmt: skip
TABLES = Workload([Marginal("age"), Marginal("=sum", "value")])
MODEL = ConvexMinimization(
    LogisticLoss(), features=["age", OneHot("=sum")], label="value", over=Ball(8)
)
PARTS = Parts([(Threshold("age", 20), Laplace(1)), (Count(), Laplace(1))])
REGISTRY = json.loads(Path(__file__).with_name("deployments-registry.json").read_text("utf-8"))
ABOUT = About(
    name="Ages: who? # \N{SNOWMAN}",
    description="Shares of \N{GRINNING FACE}",
    curators=["Bureau"],
    authors=["A. Author"],
    intended_use="planning\n- and more",
    region="Ruritania",
    sector="Government",
    published=date(2026, 7, 1),
    license="CC BY 4.0",
)


TEN = Budget(10, "1e-6")


def opened(*, private=False, budget=TEN, **options):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, name="people", **options)
    return Session(data, budget, noise=None if private else seeded(1))


def asked(query, using, **options):
    session = opened(**options)
    if not isinstance(using, OneShot):
        using = session.open(using)
    return session.release(query, using=using)


CASES = {
    "number": (Threshold("age", 20), Laplace(0.1), {}),
    "private": (Threshold("age", 20), Laplace(0.1), {"private": True}),
    "count": (Count(normalized=False), Laplace("0.1"), {"neighbors": Neighbors.ADD_REMOVE}),
    "people": (Count(normalized=False), Laplace("0.1"), {"unit_rows": 3}),
    "no number": (Mean("age", where={"age": 23}), Laplace("0.001"), {}),
    "table": (Marginal("=sum", "value"), Gaussian(rho="0.1"), {"private": True}),
    "labels that look alike": (Marginal("income", "age"), Laplace(1), {}),
    "days": (Marginal("day"), Laplace(1), {}),
    "day": (DateQuantile("day", "0.5"), Laplace(5), {}),
    "several": (SEVERAL, Gaussian(rho=1), {}),
    "tables": (TABLES, Laplace(1), {}),
    "array": (Rectangles("age", lower=[0, 2], upper=[1, 5]), Laplace(1), {}),
    "truth": (Above(Threshold("age", 20), 0.5), NumericSparse(epsilon=1, tops=1), {}),
    "none": (NumericAbove(Threshold("age", 20), 1), NumericSparse(epsilon=9, tops=1), {}),
    "fitted": (TABLES, MWEM(TABLES, epsilon=1, rounds=2), {"private": True}),
    "measured before": (Threshold("age", 20), Tree("age", epsilon=1), {"private": True}),
    "moved": (Marginal("age"), Projection(epsilon=1, delta="1e-6"), {}),
    "parts": (Workload([Threshold("age", 20), Count()]), PARTS, {"private": True}),
    "model": (MODEL, PrivateMinimizer(epsilon=1, delta="1e-9"), {}),
}


@pytest.fixture(scope="module")
def releases():
    return {name: asked(query, using, **more) for name, (query, using, more) in CASES.items()}


NOTHING = Cost()


def made_by_hand(
    query=None, mechanism=None, *, value=0.5, private=True, payment=None, cost=NOTHING
):
    words = "a question" if query is None else repr(query)
    raw = np.asarray(value, dtype=float).reshape(-1)
    facts = Facts(DOMAIN, Neighbors.REPLACE_ONE, 200, True, 200)
    measured = Measurement(raw, NoAccuracy(raw.size))
    told = value, words, repr(mechanism), cost, "measured", private
    return Release(*told, measured, None, facts, query, payment)


def paid_for(by, **more):
    return Payment("people", "", by, BasicComposition(), Budget(Fraction(1, 3), "1e-9"), **more)


def problems(value, schema, path="$"):
    """What of a record is not as the schema has it."""
    kinds = {"string": str, "object": dict, "array": list, "integer": int, "number": (int, float)}
    listed = schema.get("type", [])
    types = tuple(kinds[one] for one in ([listed] if isinstance(listed, str) else listed))
    if types and not isinstance(value, types):
        return [f"{path}: {value!r} is no {listed}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is none of {schema['enum']}")
    if schema.get("format") == "date" and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        found.append(f"{path}: {value!r} is no date")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [
            f"{path}.{name} is missing" for name in schema.get("required", []) if name not in value
        ]
        for name, inner in value.items():
            if name in known:
                found += problems(inner, known[name], f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{path}.{name} is not known")
    if isinstance(value, list):
        found += [f"{path} is too short"] * (len(value) < schema.get("minItems", 0))
        for place, inner in enumerate(value):
            found += problems(inner, schema.get("items", {}), f"{path}[{place}]")
    return found


@pytest.mark.thorough
def test_metadata_has_every_field_of_the_written_form_and_no_other(releases):
    record = {one.name for one in fields(ReleaseRecord)}
    assert {one.name for one in fields(Metadata) if not one.name.startswith("_")} == record
    for release in releases.values():
        metadata, written = release.metadata(), ReleaseRecord.of(release)
        assert all(
            getattr(metadata, name) == getattr(written, name) for name in record - {"answer"}
        )
        assert metadata.record == written
        assert metadata.facts is release.facts
        assert wire.loads("release", metadata.to_json()) == wire.loads(
            "release", wire.dumps(release)
        )


def test_metadata_is_equal_for_equal_releases_and_cannot_be_changed(releases):
    metadata = releases["number"].metadata()
    assert metadata == releases["number"].metadata()
    assert metadata != releases["private"].metadata()
    with pytest.raises(AttributeError):
        metadata.private = True
    described = metadata.to_registry(ABOUT)
    described.content["tier"] = 3
    assert described.content["tier"] == 1
    assert described == metadata.to_registry(ABOUT)


def test_metadata_states_errors_at_the_probability_that_is_asked_for(releases):
    release = releases["number"]
    metadata = release.metadata(0.2)
    assert metadata.joint == release.bound(0.2)
    assert metadata.tables[0].to_csv().splitlines()[1].endswith(",0.2,true")
    with pytest.raises(InvalidArgument, match="beta"):
        release.metadata(0)
    with pytest.raises(InvalidArgument, match="release"):
        Metadata.of("a release")


@pytest.mark.parametrize("name", CASES)
def test_a_record_of_the_registry_is_as_its_schema_has_it(releases, name):
    metadata = releases[name].metadata()
    record = metadata.to_registry(ABOUT)
    assert record.complete
    assert problems(record.content, REGISTRY) == []
    bare = metadata.to_registry()
    paths = {found.split(" ")[0].replace("$.", "") for found in problems(bare.content, REGISTRY)}
    assert paths == set(bare.required)
    assert set(bare.required) <= set(bare.missing)
    # What is missing is what is not there.
    for path in bare.missing:
        inner, *names = [bare.content, *path.split(".")]
        while names and inner is not None:
            inner = inner.get(names.pop(0))
        assert inner is None, path
    listed = {
        f"deployment.{room}.{short}"
        for room, one in REGISTRY["properties"]["deployment"]["properties"].items()
        for short in one["properties"]
    }
    there = {f"deployment.{r}.{s}" for r, one in bare.content["deployment"].items() for s in one}
    assert there | {one for one in bare.missing if one != "url_slug"} == listed
    assert not there & set(bare.missing)


def test_a_guarantee_is_told_of_where_there_is_one_alone(releases):
    private = releases["private"].metadata().to_registry(ABOUT).content["deployment"]
    assert private["dp_variant"]["variant_name"] == "Approximate DP"
    assert private["privacy_loss"]["privacy_parameters"] == {"epsilon": 10.0, "delta": 1e-6}
    pure = asked(Count(), Laplace("0.1"), private=True, budget=Budget("0.1"))
    content = pure.metadata().to_registry().content["deployment"]
    assert content["dp_variant"]["variant_name"] == "Pure DP"
    assert content["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.1}
    for claims in (
        releases["number"],
        made_by_hand(Count(), Laplace(1), private=False, payment=paid_for(Laplace(1))),
        made_by_hand(Count(), Laplace(1)),
    ):
        metadata = claims.metadata()
        record = metadata.to_registry(ABOUT)
        assert "privacy_parameters" not in record.content["deployment"]["privacy_loss"]
        assert "variant_name" not in record.content["deployment"]["dp_variant"]
        assert "deployment.privacy_loss.privacy_parameters" in record.missing
        told = record.content["deployment"]["basic"]["description"]
        assert told.startswith("NOT PRIVATE") is not claims.private
        assert told.endswith(ABOUT.description)
        for text in (
            metadata.to_csvw().to_json(),
            metadata.to_datapackage().to_json(),
            repr(metadata),
        ):
            mark = "no guarantee is claimed" if claims.private else "NOT PRIVATE"
            assert mark in text
            assert " keep " not in text


def test_privacy_parameters_are_never_rounded_down():
    third = made_by_hand(Count(), Laplace(1), payment=paid_for(Laplace(1)))
    parameters = third.metadata().to_registry().content["deployment"]["privacy_loss"]
    epsilon = parameters["privacy_parameters"]["epsilon"]
    assert Fraction(repr(epsilon)) > Fraction(1, 3) > Fraction(math.nextafter(epsilon, 0))
    assert parameters["privacy_parameters"]["delta"] == 1e-9


def test_an_answer_that_was_free_is_not_said_to_have_cost_no_privacy(releases):
    fitted = releases["fitted"]
    assert fitted.cost.nothing
    content = fitted.metadata().to_registry().content["deployment"]
    assert content["privacy_loss"]["privacy_parameters"]["epsilon"] == 10.0
    assert "It was free by itself" in content["privacy_loss"]["privacy_parameters_details"]
    session = Session(PrivateData.from_columns(COLUMNS, DOMAIN), TEN, reuse=True)
    first, again = (session.release(Count(), using=Laplace(1)).metadata() for _ in range(2))
    assert (first.reused, again.reused) == (False, True)
    details = again.to_registry().content["deployment"]["privacy_loss"]
    assert details["privacy_parameters"]["epsilon"] == 10.0
    assert "given before" in details["privacy_parameters_details"]
    assert "given before" not in first.to_registry().to_json()
    assert "reused" in repr(again)


def test_scopes_parts_and_trust_are_told_of():
    session = opened(private=True, neighbors=Neighbors.ADD_REMOVE)
    scope = session.scope("analyst", epsilon=1)
    metadata = scope.release(Count(normalized=False), using=Laplace("0.1")).metadata()
    assert metadata.account == "analyst"
    assert "(10, 1e-6)-DP" in repr(metadata)
    with session.partition("value") as parts:
        part = parts["one"].release(Count(normalized=False), using=Laplace("0.1")).metadata()
    assert "people, value one" in part.to_registry().content["deployment"]["basic"]["description"]
    assert part.budget == session.budget
    trusting = made_by_hand(
        Count(),
        Laplace(1),
        payment=paid_for(Laplace(1), trusted=(Trusted("acme.Peek", "acme.example"),)),
    )
    text = repr(trusting.metadata())
    assert "rests on the word of whoever vouches for acme.Peek" in text
    assert "acme.example" in trusting.metadata().to_datapackage().to_json()


@pytest.mark.thorough
def test_every_query_and_mechanism_that_has_a_written_form_is_described():
    queries = [one for one in VALUES if isinstance(one, Query)]
    mechanisms = [one for one in VALUES if isinstance(one, Mechanism)]
    assert len(queries) > 40
    assert len(mechanisms) > 30
    for query in queries:
        metadata = made_by_hand(query, Laplace(1), payment=paid_for(Laplace(1))).metadata()
        assert problems(metadata.to_registry(ABOUT).content, REGISTRY) == []
        assert metadata.to_csvw().content["tableSchema"]["columns"]
        assert metadata.question == query
        assert repr(query)[:200] in metadata.tables[0].to_csv().replace('""', '"')
    for mechanism in mechanisms:
        metadata = made_by_hand(Count(), mechanism, payment=paid_for(mechanism)).metadata()
        record = metadata.to_registry(ABOUT)
        assert problems(record.content, REGISTRY) == []
        assert repr(mechanism) in record.content["deployment"]["implementation"]["mechanisms"]


TYPES = {
    "string": lambda text: True,
    "integer": lambda text: re.fullmatch(r"-?\d+", text),
    "number": lambda text: re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?|-?INF", text),
    "boolean": lambda text: text in ("true", "false"),
    "date": lambda text: re.fullmatch(r"\d{4}-\d{2}-\d{2}", text),
    "datetime": lambda text: re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}", text),
}
NAMES = {"double": "number", "dateTime": "datetime"}


@pytest.mark.parametrize("name", CASES)
def test_files_are_as_both_descriptions_have_them(releases, name):
    metadata = releases[name].metadata()
    files, tables = metadata.files, metadata.tables
    package = metadata.to_datapackage(about=ABOUT).content
    web = metadata.to_csvw(about=ABOUT).content
    parts = web.get("tables", [web])
    assert [one["path"] for one in package["resources"]] == [file.path for file in files]
    assert [one["url"] for one in parts] == [file.path for file in files]
    assert len(parts) == len(tables)
    for table, resource, part in zip(tables, package["resources"], parts, strict=True):
        header, *rows = csv.reader(io.StringIO(table.to_csv()))
        described, columns = resource["schema"]["fields"], part["tableSchema"]["columns"]
        assert header == [one["name"] for one in described] == [one["titles"] for one in columns]
        assert len(set(header)) == len(header)
        assert all(
            re.fullmatch(r"([A-Za-z0-9]|%[0-9A-F]{2})(\w|%[0-9A-F]{2})*", one["name"])
            for one in columns
        )
        assert len(rows) == len(table) >= 1
        for row in rows:
            assert any(row)
            for cell, one, column in zip(row, described, columns, strict=True):
                kind = column["datatype"]
                kind = kind if isinstance(kind, str) else kind["base"]
                assert NAMES.get(kind, kind) == one["type"]
                rules = one.get("constraints", {})
                assert column["required"] == rules.get("required", False)
                if cell == "":
                    assert not column["required"]
                    continue
                assert TYPES[one["type"]](cell), (cell, one)
                assert cell in rules.get("enum", [cell])
                if "minimum" in rules:
                    assert rules["minimum"] <= int(cell) <= rules["maximum"]
        if "primaryKey" in resource["schema"]:
            keys = [header.index(one) for one in resource["schema"]["primaryKey"]]
            assert len({tuple(row[key] for key in keys) for row in rows}) == len(rows)


def test_a_table_has_what_the_release_says(releases):
    release = releases["table"]
    low, high = release.interval(0.05)
    (table,) = release.metadata().tables
    rows = list(csv.reader(io.StringIO(table.to_csv())))
    assert rows[0] == [
        "'=sum", "value",
        *(f"{name} of the table" for name in ("value", "low", "high", "beta", "joint")),
    ]  # fmt: skip
    assert rows[1][0] == "'=1+1"
    assert [float(row[2]) for row in rows[1:]] == release.value.values.ravel().tolist()
    assert [float(row[3]) for row in rows[1:]] == low.values.ravel().tolist()
    assert [float(row[4]) for row in rows[1:]] == high.values.ravel().tolist()


def test_answers_of_several_kinds_are_in_a_table_of_their_own(releases):
    plain, marginal = releases["several"].metadata().tables
    header, *rows = csv.reader(io.StringIO(plain.to_csv()))
    assert header[:2] == ["query", "value"]
    assert [row[0] for row in rows] == [
        "Threshold('age', 20)",
        "Count()",
        "DateQuantile('day', 0.5)",
    ]
    assert rows[2][1] == "2024-01-02"
    assert [column.name for column in marginal.columns][:2] == ["value", "day"]
    twice = asked(Workload([Count(), Count()]), Laplace(1)).metadata().tables[0]
    assert twice.to_csv().splitlines()[2].startswith('2,"Count()",')


def test_files_of_others_are_described_as_they_are(releases):
    metadata = releases["table"].metadata()
    file = TableFile(
        "out/1.csv",
        numbers=["value", "error"],
        header=["a", "b", "n", "e"],
        delimiter=";",
        guards=False,
    )
    part = metadata.to_csvw(file, about=ABOUT, notes=["Rounded."]).content
    assert [one["titles"] for one in part["tableSchema"]["columns"]] == ["a", "b", "n", "e"]
    assert part["dialect"]["delimiter"] == ";"
    assert {"note": "Rounded."} in part["notes"]
    afterwards = metadata.to_registry(notes=["Rounded."]).content["deployment"]["accounting"]
    assert afterwards["post_processing"] == "Rounded."
    package = metadata.to_datapackage("tables/sex.parquet", notes=["Rounded."]).content
    assert package["resources"][0]["format"] == "parquet"
    assert "dialect" not in package["resources"][0]
    assert package["description"].endswith("Rounded.")
    unguarded = metadata.to_datapackage(TableFile("a.csv", guards=False)).content
    assert unguarded["resources"][0]["schema"]["fields"][0]["constraints"]["enum"][0] == "=1+1"


def test_a_release_that_was_moved_says_so_everywhere(releases):
    moved = releases["labels that look alike"].nonnegative()
    assert moved.moved > 0
    metadata = moved.metadata()
    assert metadata.moved == moved.moved
    header, first, *_ = csv.reader(io.StringIO(metadata.tables[0].to_csv()))
    assert (header[-1], float(first[-1])) == ("moved", moved.moved)
    assert (
        metadata.to_datapackage().content["resources"][0]["schema"]["fields"][-1]["name"] == "moved"
    )
    words = f"by up to {as_bound(moved.moved)}"
    record = metadata.to_registry().content["deployment"]
    assert words in record["accounting"]["post_processing"]
    assert words in repr(metadata)
    assert metadata.to_datapackage().content["privacy"]["moved"] == moved.moved
    assert metadata.to_csvw().content["notes"][0]["privacy"]["moved"] == moved.moved
    assert "moved" not in releases["table"].metadata().to_csvw().content["notes"][0]["privacy"]


WRONG_ABOUT = {
    "name": " ", "curators": "Bureau", "published": "2026-07-01", "details": [1],
    "description": "\ud800",
}  # fmt: skip
WRONG_FILES = {
    "numbers": [{"numbers": ["values"]}, {"numbers": [["value"]]}],
    "guards": [{"guards": "no"}],
    "joint": [{"joint": "no"}],
    "delimiter": [{"delimiter": '"'}],
}
PARAMETERS = "privacy_loss.privacy_parameters"


@pytest.mark.thorough(quick=16)
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda m: m.to_csvw("a.csv", "b.csv"), "files"),
        (lambda m: m.to_csvw("a.parquet"), "files"),
        (lambda m: m.to_csvw(TableFile("a.csv", header=["one"])), "header"),
        (lambda m: m.to_csvw("../a.csv"), "path"),
        (lambda m: m.to_datapackage("/a.csv"), "path"),
        (lambda m: m.to_datapackage("http://a.example/a.csv"), "path"),
        *(
            (lambda m, given=given: m.to_datapackage(TableFile("a.csv", **given)), match)
            for match, all_given in WRONG_FILES.items()
            for given in all_given
        ),
        (lambda m: m.to_datapackage(notes="one"), "notes"),
        (lambda m: m.to_datapackage(notes=[1]), "notes"),
        (lambda m: m.to_datapackage(about="me"), "about"),
        (lambda m: m.to_registry(About(sector="Farming")), "sector"),
        (lambda m: m.to_registry(About(details={"basic.name": "x"})), "details"),
        (lambda m: m.to_registry(About(details={PARAMETERS: "x"})), "details"),
        (
            lambda m: m.to_registry(About(details={"deployment_model.access_type": "x"})),
            "access_type",
        ),
        *((lambda m, one=one: About(**{one[0]: one[1]}), one[0]) for one in WRONG_ABOUT.items()),
    ],
)
def test_what_is_not_as_it_should_be_is_refused(releases, wrong, match):
    metadata = releases["table"].metadata()
    with pytest.raises(InvalidArgument, match=match):
        wrong(metadata)


def test_a_cell_is_told_from_what_is_around_it():
    names = ["a;b", "c\rd", "e\nf", 'g"h', "i,j", " k "]
    data = PrivateData.from_columns({"n": ["a;b"]}, Domain(Categorical("n", names)))
    release = Session(data, TEN).release(Marginal("n"), using=Laplace(1))
    (table,) = release.metadata().tables
    assert [row[0] for row in csv.reader(io.StringIO(table.to_csv(), newline=""))] == ["n", *names]


def test_whoever_knows_more_says_so(releases):
    rest = {
        "deployment_model.actors": "The bureau.",
        "deployment_model.release_type": "One release",
        "deployment_model.data_source_type": "Static",
        "deployment_model.access_type": "Non-interactive",
        "implementation.preprocessing_and_hyperparameter_tuning": "None.",
        "implementation.justification": "Enough.",
        "privacy_loss.privacy_unit": "A resident.",
    }
    about = About(name="Ages", details=rest)
    record = releases["private"].metadata().to_registry(about)
    assert record.content["tier"] == 3
    assert record.content["deployment"]["privacy_loss"]["privacy_unit"] == "A resident."
    assert releases["private"].metadata().to_registry(ABOUT).content["tier"] == 1


def test_yaml_holds_what_json_holds(releases):
    yaml = pytest.importorskip("yaml")
    about = About(
        name="1e5", description="a\x85b\u2028c\t\x07 \N{GRINNING FACE}: - # '\"\\", curators=["yes"]
    )
    for release in releases.values():
        record = release.metadata().to_registry(about)
        assert yaml.safe_load(record.to_yaml()) == record.content
        assert json.loads(record.to_json()) == record.content


def test_numbers_without_a_decimal_spelling_have_one():
    values = [None, float("nan"), float("inf"), -float("inf"), False, 1e-9, date(2024, 2, 29)]
    spellings = ["", "", "INF", "-INF", "false", "1e-09", "2024-02-29"]
    assert [spelled(one) for one in values] == spellings


def test_a_record_in_yaml_is_spelled_for_all_readers():
    details = {"deployment_model.actors": 'a "b"\n\\ \x85'}
    about = About(name="yes", curators=["1e5", "B\N{SNOWMAN}"], details=details)
    release = made_by_hand(Count(), Laplace(1), payment=paid_for(Laplace(1)))
    lines = release.metadata().to_registry(about).to_yaml().splitlines()
    assert lines[:3] == ["url_slug: yes-1e5-b-", "status: Draft", "tier: 1"]
    for line in (
        '    name: "yes"', '      - "1e5"', '      - "B\N{SNOWMAN}"', "      delta: 1.0e-09",
        '    actors: "a \\"b\\"\\n\\\\ \\u0085"',
    ):  # fmt: skip
        assert line in lines


@pytest.mark.parametrize(
    ("name", "curators", "slug"),
    [
        ("Births & deaths", ["Amt f\u00fcr X"], "births-deaths-amt-f\u00fcr-x-2024"),
        ("Israel's 'Registry'", ["Ministry"], "israel-s-registry--ministry-2024"),
        ("Notifications", ["Google", "Apple and U.S."], "notifications-google-apple-and-u-s--2024"),
        ("2020_01 (two)", ["&"], "2020-01-two----2024"),
        ("&", ["-"], "----2024"),
    ],
)
def test_a_short_name_is_by_the_rule_of_the_registry_and_without_quotes(name, curators, slug):
    about = About(name=name, curators=curators, published=date(2024, 2, 1))
    record = made_by_hand(Count(), Laplace(1)).metadata().to_registry(about)
    assert record.content["url_slug"] == slug
    assert record.to_yaml().startswith(f"url_slug: {slug}\n")


def test_a_label_that_there_is_not_is_refused_by_what_describes_the_tables():
    codes = Categorical("codes", [3, -7, 20])
    domain = Domain(Categorical("sex", ["Female", "a.*|b", "(c]", "=d", ""]), codes)
    data = PrivateData.from_columns({"sex": ["(c]"], "codes": [3]}, domain)
    release = Session(data, Budget(9), noise=seeded(1)).release(
        Marginal("sex", "codes"), using=Laplace(1)
    )
    (table,) = release.metadata().tables
    labels = [row[0] for row in csv.reader(io.StringIO(table.to_csv()))][1:]
    column, codes, *_ = release.metadata().to_csvw().content["tableSchema"]["columns"]
    assert column["datatype"]["base"] == "string"
    assert set(labels) == {"Female", "a.*|b", "(c]", "'=d", ""}
    assert all(re.search(column["datatype"]["format"], label) for label in labels)
    for wrong in ("Femal", "Females", "a", "aab", "(c", "=d", "Female|a.*"):
        assert not re.search(column["datatype"]["format"], wrong)
    assert codes["datatype"] == {"base": "integer", "minimum": -7, "maximum": 20}


def test_a_price_that_no_budget_is_known_for_is_told_in_words_alone():
    release = made_by_hand(Count(), Laplace(1), cost=Cost([PureGuarantee(1)]))
    privacy = release.metadata().to_datapackage().content["privacy"]
    assert privacy["charged"] == "1-DP"
    assert "budget" not in privacy


def test_an_hour_is_declared_in_the_format_of_its_labels():
    domain = Domain(
        Date("hour", datetime(2024, 1, 1, 22), datetime(2024, 1, 1, 23), unit="hour"),
        Date("day", date(2024, 1, 1), date(2024, 1, 2)),
    )
    data = PrivateData.from_columns({"hour": [], "day": []}, domain, neighbors=Neighbors.ADD_REMOVE)
    table = Marginal("hour", "day", normalized=False)
    metadata = Session(data, Budget(1), noise=seeded(1)).release(table, using=Laplace(1)).metadata()
    hour, day = metadata.to_datapackage().content["resources"][0]["schema"]["fields"][:2]
    assert (hour["format"], "format" in day) == ("%Y-%m-%dT%H:%M", False)
    columns = metadata.to_csvw().content["tableSchema"]["columns"]
    assert columns[0]["datatype"] == {"base": "dateTime", "format": "yyyy-MM-ddTHH:mm"}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (Marginal("sex"), "Values and bounds are shares of the rows."),
        (Marginal("sex", normalized=False), "Values and bounds are numbers of rows."),
        (Workload([Count(), Workload([Threshold("age", 40)])]), "shares of the rows."),
        (Workload([Count(), Count(normalized=False)]), ""),
        (Workload([Count(), Mean("age")]), ""),
        (Mean("age"), ""),
    ],
)
def test_tables_say_whether_they_are_shares_or_counts(query, told):
    domain = Domain(Integer("age", 17, 90), Categorical("sex", ["F", "M"]))
    data = PrivateData.from_columns({"age": [17, 40], "sex": ["F", "M"]}, domain, name="people")
    metadata = Session(data, Budget(1)).release(query, using=Laplace("0.1")).metadata()
    web = [one["note"] for one in metadata.to_csvw(notes=["Mine."]).content["notes"][1:]]
    text = metadata.to_datapackage(notes=["Mine."]).content["description"]
    assert web[-1] == "Mine."
    assert len(web) == 1 + bool(told)
    assert web[0].endswith(told)
    assert text.endswith(" ".join(web))
    assert ("rows." in text.split("Values")[-1]) == bool(told)


def test_errors_of_a_file_are_in_the_same_unit():
    domain = Domain(Categorical("sex", ["F", "M"]))
    data = PrivateData.from_columns({"sex": ["F", "M"]}, domain, name="people")
    release = Session(data, Budget(1)).release(Marginal("sex"), using=Laplace("0.1"))
    described = release.metadata().to_csvw(TableFile("sex.csv", ("value", "error")))
    assert {"note": "Values and errors are shares of the rows."} in described.content["notes"]
