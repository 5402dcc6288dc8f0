"""The schemas of written forms agree with the readers."""

import os
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import damaged
from dpsdk import wire
from dpsdk.errors import WireError
from worlds import repeatable
from written import CATALOGUE, VALUES

if os.environ.get("DPSDK_PLATFORMS") == "1":
    import jsonschema
else:
    jsonschema = pytest.importorskip("jsonschema")

GROUPS = (
    *("query", "mechanism", "one-shot", "loss", "domain", "guarantee", "composition", "budget"),
    *("release", "goal", "plan", "plans"),
)


def is_integer(checker, value):
    # To most validators 1.0 is an integer, and to the readers it is not.
    return type(value) is int


STRICT = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer),
)


@cache
def validator(kind):
    return STRICT(wire.schema(kind, allow=CATALOGUE))


def compare(data, kind):
    """Whether a reader refuses data; what the schema refuses it must refuse as well."""
    holds = validator(kind).is_valid(data)
    try:
        wire.from_json(kind, data, allow=CATALOGUE)
    except WireError as error:
        # What only makers of values and limits refuse, a schema does not say.
        return error, holds
    assert holds, list(validator(kind).iter_errors(data))[:1]
    return None, holds


def beyond_a_schema(error):
    """Whether a refusal is of what goes from member to member, or a limit of all data."""
    words = (
        *("the digest of a distribution", "rows of one length", "the shape of", "labels that all"),
        *(
            "the float next to",
            "remainder by",
            "bits together",
            "an integer below 2^1023",
            "surrogate",
            "a finite number",
        ),
        *("integers below 2^63", "at most two negations", "a fraction of fewer digits"),
    )
    return error.__cause__ is not None or any(word in error.expected for word in words)


@pytest.mark.parametrize("kind", GROUPS)
def test_a_schema_is_one(kind):
    jsonschema.Draft202012Validator.check_schema(wire.schema(kind))


def first_of_each_kind():
    seen = {}
    for value in VALUES:
        seen.setdefault(type(value), value)
    return list(seen.values())


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_written_is_as_the_schema_says(value):
    error, holds = compare(wire.to_json(value, allow=CATALOGUE), type(value))
    assert error is None
    assert holds


def agree(value, some):
    """How many of the data with one thing wrong both refuse."""
    refused = 0
    for place, wrong in enumerate(damaged(wire.to_json(value, allow=CATALOGUE))):
        if some(place):
            error, holds = compare(wrong, type(value))
            if error is not None and not beyond_a_schema(error):
                assert not holds, (error, wrong)
                refused += 1
    return refused


@pytest.mark.parametrize("value", first_of_each_kind(), ids=lambda value: type(value).__name__)
def test_the_reader_and_the_schema_refuse_the_same(value):
    assert agree(value, lambda place: place < 40 or place % 37 == 5) > 3


@pytest.mark.audit
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_reader_and_the_schema_refuse_the_same_of_all(value):
    assert agree(value, lambda place: True) > 3


leaves = st.none() | st.booleans() | st.integers(-5, 99) | st.floats(allow_nan=False) | st.text()
members = {name for kind in CATALOGUE.kinds for name in CATALOGUE.kind_named(kind, "$").members}
anything = st.recursive(
    leaves | st.sampled_from(["1/3", *CATALOGUE.kinds]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", *sorted(members)]), inside, max_size=4)
    ),
    max_leaves=8,
)


@settings(repeatable, max_examples=60)
@given(st.sampled_from(CATALOGUE.kinds), st.data())
def test_the_reader_and_the_schema_agree_on_arbitrary_data(kind, data):
    own = CATALOGUE.kind_named(kind, "$").members
    given = {name: data.draw(anything) for name in own}
    whole = {"format": "dpsdk.wire", "version": 1, "kind": kind, **given}
    error, holds = compare(whole, CATALOGUE.kind_named(kind, "$").made)
    if error is not None and not beyond_a_schema(error):
        assert not holds, error
