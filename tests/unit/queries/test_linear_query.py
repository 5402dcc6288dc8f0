import numpy as np
import pytest

from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.queries import Linear, Workload
from worlds import PEOPLE, QUIET, people, quiet, table

DATA = table(people(30, 3))
CELLS = 8


def refused(weights, attributes=("age",)):
    session = quiet(DATA)
    for query in (Linear(weights, attributes), Workload([Linear(weights, attributes)])):
        with pytest.raises(QueryError) as caught:
            session.answer(query, using=QUIET)
        assert session.spent.charges == 0
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), 2, -1, 1 + 1e-9, -1e-300, float("inf"), 10**400, "0.5", None, 1j, [0.5],
        np.array([0.5]), np.float64("nan"), object(),
    ],
)  # fmt: skip
def test_a_weight_that_is_no_number_from_0_to_1_is_refused_before_any_charge(value):
    assert "expected a number from 0 to 1" in refused(lambda record: value)
    assert "'age': 20" in refused(lambda record: value if record["age"] == 20 else 0.5)


@pytest.mark.parametrize("value", [0, 1, True, np.True_, np.float32(0.5), np.int8(1), 0.5])
def test_every_kind_of_number_from_0_to_1_is_a_weight(value):
    query = Linear(lambda record: value, ["age"], normalized=False)
    inside = sum(1 for row in people(30, 3) if row["age"] != 99 and row["hours"] is not None)
    expected = float(value) * inside
    assert quiet(DATA).answer(query, using=QUIET) == pytest.approx(expected, abs=1e-6)


def test_a_function_that_raises_is_refused_with_its_reason():
    def rule(record):
        if record["age"] == 19:
            raise ValueError("nineteen")
        return 0.0

    assert "raised ValueError at {'age': 19}" in refused(rule)


def test_a_function_that_flips_at_the_second_look_is_found_out():
    looks = dict.fromkeys(range(17, 25), 0)

    def flipping(record):
        looks[record["age"]] += 1
        return float(looks[record["age"]] % 2 and record["age"] == 21)

    assert "two values at {'age': 21}" in refused(flipping)


def test_a_function_sees_each_cell_twice_and_never_a_row():
    seen = []

    def rule(record):
        seen.append(record["age"])
        return 0.5

    session = quiet(DATA)
    query = Linear(rule, ["age"])
    first = session.answer(query, using=QUIET)
    assert sorted(seen) == sorted(2 * list(range(17, 25)))
    assert session.answer(query, using=QUIET) == pytest.approx(first, abs=1e-6)
    assert len(seen) == 2 * CELLS


def test_a_function_may_spoil_its_argument_without_effect():
    def rule(record):
        age = record.pop("age")
        record.clear()
        record["age"] = "spoiled"
        return (age - 17) / 7

    spoiled = Linear(rule, ["age"]).lower(PEOPLE)
    clean = Linear(lambda r: (r["age"] - 17) / 7, ["age"]).lower(PEOPLE)
    np.testing.assert_array_equal(spoiled.blocks[0].columns([np.arange(8)]),
                                  clean.blocks[0].columns([np.arange(8)]))  # fmt: skip


def test_a_function_that_spoils_its_argument_does_not_spoil_the_message():
    def rule(record):
        record.clear()
        record["age"] = "spoiled"
        return 7

    text = refused(rule)
    assert "'age': 17" in text
    assert "spoiled" not in text


def test_interrupting_a_function_is_passed_on():
    def rule(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Linear(rule, ["age"]).lower(PEOPLE)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((7,), ["age"]), ((8, 1), ["age"]), ((2, 8), ["age", "sex"]), ((8,), None),
        ((8, 2, 3), None), ((1, 16), ["age", "sex"]), ((), ["age"]),
    ],
)  # fmt: skip
def test_weights_of_a_wrong_shape_are_refused(shape, attributes):
    refused(np.full(shape, 0.5), attributes)


def test_weights_of_the_whole_universe_go_flat_or_shaped():
    flat = np.linspace(0, 1, PEOPLE.size)
    answers = [
        quiet(DATA).answer(Linear(given, normalized=False), using=QUIET)
        for given in (flat, flat.reshape(PEOPLE.shape), flat.tolist())
    ]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("given", [[1, "x"], [[1], [1, 0]], [None], "abc", np.array([1, np.inf])])
def test_weights_that_are_no_numbers_are_refused_when_the_query_is_made(given):
    with pytest.raises(InvalidArgument):
        Linear(given)


def test_a_query_names_its_rule():
    def tall(record):
        return 1.0

    assert repr(Linear(tall, ["age"])) == "Linear(tall, attributes=('age',))"
    text = repr(Linear(np.full(8, 0.5), "age", where={"sex": "Male"}, normalized=False))
    assert text == (
        "Linear(array of shape (8,), attributes=('age',), where=Conjunction({'sex': 'Male'}), "
        "normalized=False)"
    )
