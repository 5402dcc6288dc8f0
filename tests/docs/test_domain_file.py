"""The page and the schema of a domain's file say what the reader does."""

import json
import re
from copy import deepcopy
from datetime import date, datetime
from pathlib import Path

import pytest

from dpsdk import Binned, Boolean, Categorical, Date, Domain, Integer, Number
from dpsdk.errors import DomainError

pytestmark = pytest.mark.thorough

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "reference" / "domain.schema.json").read_text("utf-8"))
PAGE = (DOCS / "reference" / "domain-file.md").read_text("utf-8")
EXAMPLE, LATER = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
KEYWORDS = {
    *("$ref", "const", "type", "required", "properties", "additionalProperties", "items"),
    *("minItems", "minLength", "maxLength", "pattern", "uniqueItems", "oneOf", "$schema", "title"),
    *("maxItems", "$defs"),
}


def holds(schema, value):
    """Whether a value is as the schema says, for the keywords that ours uses."""
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    if "$ref" in schema:
        return holds(SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], value)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(
        isinstance(value, TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")
        for kind in kinds
    ):
        return False
    if "const" in schema and (type(value), value) != (type(schema["const"]), schema["const"]):
        return False
    if "oneOf" in schema and sum(holds(choice, value) for choice in schema["oneOf"]) != 1:
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if not set(schema.get("required", ())) <= set(value):
            return False
        if schema.get("additionalProperties", True) is False and not set(value) <= set(properties):
            return False
        return all(holds(properties[key], value[key]) for key in value if key in properties)
    if isinstance(value, list):
        distinct = {json.dumps(item) for item in value}
        return (
            schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            and not (schema.get("uniqueItems") and len(distinct) < len(value))
            and all(holds(schema.get("items", {}), item) for item in value)
        )
    if isinstance(value, str):
        least, most = schema.get("minLength", 0), schema.get("maxLength", len(value))
        return least <= len(value) <= most and bool(re.search(schema.get("pattern", ""), value))
    return True


DOMAIN = Domain(
    Integer("age", -5, 2**60),
    Binned("income", [0, 1.5, 1e9]),
    Date("visited", date(2024, 1, 1), date(2024, 12, 31), unit="week"),
    Date("arrived", datetime(2024, 1, 1), datetime(2024, 1, 2), unit="hour", zone="UTC"),
    Categorical("region", ["north", "else\u00e9where"], other="north"),
    Categorical("grade", [1, 2, 3]),
    Boolean("member"),
    Boolean("smoker", true=["Y", "Y"], false=[]),
)


def test_what_is_written_is_as_the_schema_says():
    wide = Domain(*DOMAIN, Number("paid", "-0.5", 10**9, step="0.25", outside="other"))
    wide = Domain(*wide, Number("children", 0, 20, exact=True))
    for domain in (DOMAIN, wide, wide.open(), Domain(*DOMAIN, missing_texts=["?"])):
        assert holds(SCHEMA, json.loads(domain.to_json()))
    for path in DOCS.rglob("*-domain.json"):
        assert holds(SCHEMA, json.loads(path.read_text("utf-8")))


def test_the_example_of_the_page_is_a_domain():
    domain = Domain.from_json(EXAMPLE)
    assert holds(SCHEMA, json.loads(EXAMPLE))
    assert [attribute.kind for attribute in domain.attributes] == [
        "integer", "binned", "date", "date", "categorical", "categorical", "boolean",
    ]  # fmt: skip


def test_the_later_example_of_the_page_is_a_domain():
    domain = Domain.from_json(LATER)
    assert holds(SCHEMA, json.loads(LATER))
    assert [len(one.extras) for one in domain] == [2, 1, 0, 1]
    assert json.loads(domain.to_json()) == json.loads(LATER)
    with pytest.raises(DomainError):
        Domain.from_json(LATER.replace('"version": 2', '"version": 1'))
    with pytest.raises(DomainError):
        Domain.from_json(EXAMPLE.replace('"version": 1', '"version": 2'))


def mistakes_of_version_2():
    """The later example with one thing wrong."""
    whole = json.loads(LATER)
    for texts in ("?", [""], ["?", "?"], [3], [str(one) for one in range(1001)], None):
        yield whole | {"missing_texts": texts}
    for place, key, values in (
        (0, "missing", (None, 1, "true")),
        (1, "low", (0, "01", "--1", ".5", "1/0", "1 ")),
        (1, "step", (1, "1e9999")),
        (2, "outside", ("apart", True)),
        (3, "other", (False, None, 1.5)),
    ):
        for value in values:
            wrong = deepcopy(whole)
            wrong["attributes"][place][key] = value
            yield wrong


def mistakes():
    """The example with one thing wrong."""
    yield from mistakes_of_version_2()
    whole = json.loads(EXAMPLE)
    for key in whole:
        yield {name: value for name, value in whole.items() if name != key}
    for key, value in (("format", "dpsdk"), ("version", 3), ("version", True), ("attributes", [])):
        yield whole | {key: value}
    yield whole | {"attributes": {}}
    yield whole | {"attributes": [3]}
    yield whole | {"more": 1}
    for place, attribute in enumerate(whole["attributes"]):
        for key in set(attribute) - {"other", "zone"}:
            wrong = deepcopy(whole)
            del wrong["attributes"][place][key]
            yield wrong
            for value in (None, [], {}, [[]], "", 1.5, [1.5], [True], ["a", "a"], "x" * 2000):
                if key != "edges" or value != ["a", "a"]:
                    wrong = deepcopy(whole)
                    wrong["attributes"][place][key] = value
                    yield wrong
        if attribute["kind"] == "date":
            for key, value in (
                ("unit", "year"),
                ("unit", "hour" if attribute["unit"] != "hour" else "day"),
                ("zone", None),
                ("zone", "../UTC"),
                ("low", "20240101"),
                ("high", "2024-12-31 23:00"),
            ):
                wrong = deepcopy(whole)
                wrong["attributes"][place][key] = value
                yield wrong


@pytest.mark.parametrize("wrong", list(mistakes()))
def test_the_reader_and_the_schema_refuse_the_same(wrong):
    assert not holds(SCHEMA, wrong)
    with pytest.raises(DomainError):
        Domain.from_json(json.dumps(wrong))
