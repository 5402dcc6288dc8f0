"""Domains from what others declared; what they do not say is never made up."""

import json
from datetime import date

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
    Number,
    PrivateData,
    Session,
)
from dpsdk.domain.foreign.yaml import from_yaml
from dpsdk.errors import DomainError, InvalidArgument, MissingExtra, WireError
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Marginal
from dpsdk.testing import seeded

PUBLISHED = Domain(
    Boolean("truth"),
    Integer("number", -1, 1),
    Categorical("texts", ["a|b", "c^(d)", "e\\f", "é, g/h-i", "x y"]),
    Binned("bin", [0, 1, 2.5, 1e6]),
)
SEX = {"name": "sex", "datatype": "string", "keyValues": ["f", "m"], "exhaustiveKeys": True}


def csvw(*columns, **members):
    return {"tableSchema": {"columns": list(columns)}, **members}


def fields(*given, **members):
    return {"fields": list(given), **members}


def lomas(**columns):
    return {"columns": columns}


@pytest.mark.parametrize("form", ["to_csvw", "to_datapackage"])
@pytest.mark.parametrize("name", PUBLISHED.names)
def test_descriptions_of_releases_are_read_back(name, form):
    for domain in (PUBLISHED, PUBLISHED.open()):
        rows = {one.name: [one.label(0)] for one in domain}
        data = PrivateData.from_columns(rows, domain, neighbors=Neighbors.ADD_REMOVE)
        session = Session(data, Budget(1), noise=seeded(1))
        release = session.release(Marginal(name, normalized=False), using=Laplace(1))
        description = getattr(release.metadata(), form)()
        assert Domain.from_metadata(description.content) == domain.project([name])


@pytest.mark.parametrize(
    "labels",
    [["0", str(10**18), "(other)"], ["[" + ", " * 30_000, "(other)"], ["1e2000", "(other)"]],
)
def test_labels_that_claim_to_be_published_take_no_time(labels):
    schema = fields({"name": "a", "constraints": {"enum": labels, "required": True}})
    ours = {"resources": [{"schema": schema}], "privacy": {"domain_digest": "0"}}
    (attribute,) = Domain.from_metadata(ours)
    assert attribute == Categorical("a", labels[:-1], other=True)


@pytest.mark.parametrize(
    ("pattern", "labels"),
    [
        ("^(?:a|b)$", ["a", "b"]),
        ("a\\\\|\\||c", ["a\\", "|", "c"]),
        ("a|", ["a", ""]),
        ("a.c|b", None),
        ("a\\d", None),
        ("(a)|b", None),
    ],
)
def test_a_pattern_that_lists_texts_lists_labels(pattern, labels):
    column = {"name": "a", "datatype": {"base": "string", "format": pattern}, "null": []}
    if labels is None:
        with pytest.raises(DomainError, match="'a' lacks a list of labels"):
            Domain.from_metadata(csvw(column))
    else:
        assert Domain.from_metadata(csvw(column)) == Domain(Categorical("a", labels))


CASES = {
    "a column called as an open end": (
        lomas(exclusive={"type": "int", "lower": 0, "upper": 2, "nullable": False}),
        Integer("exclusive", 0, 2),
    ),
    "integer": (
        csvw({"name": "a", "datatype": {"base": "int", "minimum": "1", "maxExclusive": 9}}),
        Integer("a", 1, 8, missing=True),
    ),
    "required by the table": (
        csvw({"titles": ["a"], "datatype": "byte", "minimum": 0, "maximum": 1}, required=True),
        Integer("a", 0, 1),
    ),
    "step of a format": (
        csvw(
            {
                "name": "a%20b",
                "datatype": {"base": "decimal", "format": "#,##0.00", "minimum": 0, "maximum": 9.5},
                "required": True,
            }
        ),
        Number("a b", 0, "9.5", step="0.01"),
    ),
    "title of the name": (csvw({**SEX, "titles": {"en": ["Sex", "sex"]}}), "sex"),
    "words": (
        csvw({"name": "a", "datatype": {"base": "boolean", "format": "Y|N"}, "null": []}),
        Boolean("a", true=["Y"], false=["N"]),
    ),
    "days": (
        csvw({"name": "a", "datatype": "date", "minimum": "2024-01-01", "maximum": "2024-02-01"}),
        Date("a", date(2024, 1, 1), date(2024, 2, 1), missing=True),
    ),
    "keys that are not all": (
        csvw({"name": "a", "keyValues": ["x", 1, None], "required": True}),
        Categorical("a", ["x", 1], other=True, missing=True),
    ),
    "partitions": (
        csvw(
            {
                "name": "a",
                "partitions": [{"predicate": {"partitionValue": one}} for one in "xy"],
                "exhaustivePartitions": True,
                "nullableProportion": 0.0,
            }
        ),
        Categorical("a", ["x", "y"]),
    ),
    "package": (
        fields({"name": "a", "type": "integer", "constraints": {"enum": ["1", "3"]}}),
        Categorical("a", [1, 3], missing=True),
    ),
    "categories": (
        fields(
            {"name": "a", "categories": [{"value": "x", "label": "X"}, {"value": "y"}]},
            missingValues=[],
        ),
        Categorical("a", ["x", "y"]),
    ),
    "usual words": (
        fields(
            {"name": "a", "type": "boolean", "trueValues": ["true", "1"], "falseValues": ["0"]},
            missingValues=[],
        ),
        Boolean("a"),
    ),
    "nested": (
        {"": {"s": {"t": {"rows": 9, "a": {"type": "int", "lower": 0, "upper": 2.5}}}}},
        Integer("a", 0, 2, missing=True),
    ),
    "replaced": (
        lomas(a={"type": "boolean", "nullable": False, "missing_value": True}),
        Boolean("a", missing=True),
    ),
    "categories of integers": (
        lomas(a={"type": "int", "categories": [1, 2], "nullable_proportion": 0.0}),
        Categorical("a", [1, 2]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_metadata_say_what_an_attribute_is(name):
    content, expected = CASES[name]
    (attribute,) = Domain.from_metadata(content)
    assert expected in (attribute, attribute.name)


def test_texts_for_null_are_missing_texts_where_a_column_may_be_empty():
    never = {"name": "b", "datatype": "boolean", "null": "none", "required": True}
    domain = Domain.from_metadata(csvw({**SEX, "null": ["", "NaN", "?"]}, never))
    assert (domain.missing_texts, domain["sex"].extras) == (("?",), domain["sex"].open().extras[1:])


def test_a_column_that_identifies_persons_is_left_out_unless_it_is_declared():
    metadata = csvw({"name": "id", "datatype": "string", "privacyId": True}, SEX)
    assert Domain.from_metadata(metadata).names == ("sex",)
    assert Domain.from_metadata(metadata, attributes=[Boolean("id")]).names == ("id", "sex")


def test_what_metadata_do_not_say_is_asked_for_by_name():
    metadata = lomas(
        age={"type": "int", "lower": 0},
        note={"type": "string", "cardinality": 3},
        paid={"type": "float", "lower": -0.5, "upper": 9.7},
        when={"type": "datetime"},
        odd={"type": "struct"},
        ok={"type": "boolean"},
    )
    told = (
        "'age' lacks two bounds, 'note' lacks a list of labels, 'paid' lacks a step (step=), "
        "'when' lacks a first and a last day, 'odd' lacks a type that attributes have;"
    )
    with pytest.raises(DomainError) as caught:
        Domain.from_metadata(metadata)
    assert told in str(caught.value)
    assert Domain.from_metadata(metadata, leave_out=True).names == ("ok",)
    domain = Domain.from_metadata(
        metadata,
        attributes=[Integer("age", 0, 99)],
        step={"paid": "0.2"},
        leave_out=["note", "when", "odd"],
    )
    assert domain["paid"] == Number("paid", "-0.6", "9.8", step="0.2", missing=True)
    assert domain.names == ("age", "paid", "ok")


@pytest.mark.parametrize(
    "given",
    [
        {"attributes": [Boolean("b")]},
        {"attributes": [Boolean("sex"), Boolean("sex")]},
        {"attributes": ["sex"]},
        {"step": {"x": 1}},
        {"step": {"sex": 0}},
        {"step": "sex"},
        {"leave_out": "sex"},
        {"leave_out": ["x"]},
        {"attributes": [Boolean("sex")], "leave_out": ["sex"]},
        {"table": "x"},
    ],
)
def test_names_of_no_column_are_refused(given):
    with pytest.raises(InvalidArgument) as caught:
        Domain.from_metadata(csvw(SEX), **given)
    assert caught.value.parameter.partition("[")[0] in given


def test_one_of_several_tables_is_named():
    group = {"tables": [csvw(SEX, url="a.csv"), csvw({**SEX, "name": "x"}, url="b.csv")]}
    package = {
        "resources": [
            {"name": "x"},
            {"name": "a.csv", "schema": fields({"name": "y", "type": "boolean"})},
        ]
    }
    assert Domain.from_metadata(group, table="b.csv").names == ("x",)
    assert Domain.from_metadata(package).names == ("y",)
    with pytest.raises(InvalidArgument, match="step must be given for a number"):
        Domain.from_metadata(csvw({"name": "i", "privacyId": True}, SEX), step={"i": 1})
    with pytest.raises(InvalidArgument, match=r"'a.csv', 'b.csv'; got None"):
        Domain.from_metadata(group)


MALFORMED = {
    "nothing": ({}, "none of its tables"),
    "no columns": (csvw(), "at least one attribute"),
    "a file of ours": (json.loads(Domain(Boolean("a")).to_json()), "Domain.load"),
    "a schema elsewhere": (
        {"tableSchema": "x.json"},
        "$.tableSchema must be an object; got 'x.json'",
    ),
    "columns of no list": (
        {"tableSchema": {"columns": {}}},
        "$.tableSchema.columns must be a list",
    ),
    "a name twice": (csvw(SEX, SEX), "twice"),
    "names that look alike": (csvw(SEX, {**SEX, "name": " sex"}), "look different"),
    "no name": (fields({"type": "boolean"}), "$.fields[0] must be an object with a member name"),
    "labels that look alike": (csvw({"name": "a", "keyValues": ["x", "x "]}), "column 'a': labels"),
    "a label that is no label": (
        lomas(a={"type": "string", "categories": ["SE", False]}),
        "$.columns.a.categories[1] must be a text or an integer",
    ),
    "bounds the wrong way": (lomas(a={"type": "int", "lower": 3, "upper": 2}), "column 'a': high"),
    "a bound of words": (
        fields({"name": "a", "type": "number", "constraints": {"minimum": "NaN"}}),
        "$.fields[0].constraints.minimum must be a finite number; got 'NaN'",
    ),
    "no day": (
        csvw({"name": "a", "datatype": {"base": "date", "minimum": "2024/01/01"}}),
        "$.tableSchema.columns[0].datatype.minimum must be a day such as 2024-01-31",
    ),
    "not a number": (lomas(a={"type": "int", "lower": float("nan")}), "finite number"),
    "no text": (lomas(a={"type": "int", "lower": {1}}), "plain JSON"),
    "null that is a label": (csvw({**SEX, "null": "f"}), "missing_texts"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_metadata_are_refused_by_the_place(name):
    content, told = MALFORMED[name]
    with pytest.raises(DomainError) as caught:
        Domain.from_metadata(content)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"\x80",
        b'{"fields": [], "fields": []}',
        b"{" + b'"a":[' * 200,
        b"{" + b" " * (1 << 24),
        b'{"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": NaN}}]}',
    ],
)
def test_files_of_strangers_are_refused(tmp_path, content):
    path = tmp_path / "metadata.json"
    path.write_bytes(content)
    with pytest.raises(DomainError):
        Domain.from_metadata(path)


YAML = """
columns:
  sex: {type: string, categories: [f, m], nullable: no}
  when: {type: datetime, lower: 2022-08-01, upper: '2022-08-02'}
  big: {type: int, lower: 0, upper: 50_047}
rows: 50_048
"""


def test_yaml_is_read_as_plain_values(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "metadata.yaml"
    path.write_text(YAML, encoding="utf-8")
    assert Domain.from_metadata(path) == Domain(
        Categorical("sex", ["f", "m"]),
        Date("when", date(2022, 8, 1), date(2022, 8, 2), missing=True),
        Integer("big", 0, 50_047, missing=True),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "\x00",
        "a: &x [1]\nb: *x",
        "a: 1\na: 2",
        "1: 2",
        "? [a]\n: 1",
        "<<: {a: 1}",
        "--- a\n--- b",
        "a: .nan",
        "a: 2024-99-99",
        "a: !!python/object/apply:os.system [ls]",
        "a: !!binary aGk=",
        "a: !!set {b}",
        "a: !!int x",
        f"a: {'1:' * 600}1",
        "[" * 50,
        "a: 1 #" + "x" * (1 << 20),
    ],
)
def test_yaml_of_strangers_is_refused(text):
    pytest.importorskip("yaml")
    with pytest.raises(WireError):
        from_yaml(text)


def test_yaml_needs_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    path = tmp_path / "metadata.yaml"
    path.write_text(YAML, encoding="utf-8")
    with pytest.raises(MissingExtra, match=r"dpsdk\[yaml\]"):
        Domain.from_metadata(path)


def frames():
    """A column of categories that were declared, and one of those that rows may have made."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    words = pa.chunked_array([pa.array([one]).dictionary_encode() for one in ("x", "y")])
    arrow = pa.table({"a": words, "b": [True, True], "n": [1, 2]})
    native = pl.DataFrame({"a": ["x"]}, schema={"a": pl.Enum(["x", "y"])})
    pandas = pd.DataFrame({"a": pd.Categorical(["x", "y"]), "b": [True, False], "n": [1, 2]})
    return {"arrow": arrow, "pandas": pandas}, native


def test_an_enum_is_declared_and_other_categories_only_where_that_is_said():
    inferred, native = frames()
    labels = Categorical("a", ["x", "y"], missing=True)
    for frame in (native, native.lazy(), native.schema):
        assert Domain.from_schema(frame) == Domain(labels)
    for frame in inferred.values():
        assert Domain.from_schema(frame, declared=["a"], leave_out=["b", "n"]) == Domain(labels)
        rest = {"attributes": [Integer("n", 0, 9)]}
        assert Domain.from_schema(frame, declared=True, **rest).names == ("a", "b", "n")
        with pytest.raises(DomainError) as caught:
            Domain.from_schema(frame)
        # Which kind a library inferred is private, too.
        assert {f"'{name}' lacks labels or bounds that" in str(caught.value) for name in "abn"} == {
            True
        }
    types = inferred["pandas"].dtypes.to_dict()
    assert Domain.from_schema(types, declared=["a"], leave_out=True) == Domain(labels)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"schema": 3}, "schema"),
        ({"schema": {}, "declared": ["x"]}, "declared"),
        ({"schema": {"x": int}, "declared": "x"}, "declared"),
        ({"schema": {}, "table": "t"}, "table"),
    ],
)
def test_schemas_that_are_none_are_refused(given, parameter):
    with pytest.raises(InvalidArgument) as caught:
        Domain.from_schema(**given)
    assert caught.value.parameter == parameter
