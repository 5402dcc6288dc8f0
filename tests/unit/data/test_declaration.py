"""What is declared of a table: unknown choices are refused, and nothing is kept by reference."""

import numpy as np
import polars as pl
import pytest
from tables_loaded import cells

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.data.vault import public_facts
from dpsdk.domain import Attribute
from dpsdk.errors import InvalidArgument


def people():
    return Domain(
        Integer("age", 17, 20),
        Categorical("sex", ["F", "M"]),
        Binned("hours", [0, 10]),
        Boolean("b"),
    )


ROWS = {"age": [17, 99], "sex": ["F", "M"], "hours": [5, 5], "b": [True, False]}


def test_a_policy_is_known_by_its_text():
    cell = PrivateData.from_columns(ROWS, people(), outside="cell")
    assert cell.facts.outside
    assert cells(cell)[1] == 1
    assert cells(PrivateData.from_columns(ROWS, people(), outside="clip"))[1] == 0


def test_an_attribute_of_another_class_never_sees_a_value():
    class Curious(Integer):
        def index(self, label):
            raise AssertionError(label)

        @property
        def size(self):
            return 1

    class New(Attribute):
        kind, ordered, name, size = "new", False, "age", 4

        def index(self, label):
            raise AssertionError(label)

        def label(self, index):
            return index

        def to_json(self):
            return {}

    for attribute in (Curious("age", 17, 20), New()):
        with pytest.raises(
            InvalidArgument, match="made of Boolean, Categorical, Integer, Binned, Number and Date"
        ):
            PrivateData.from_columns(ROWS, Domain(attribute))


def test_a_limit_is_a_plain_integer():
    data = PrivateData.from_columns(
        ROWS, people(), neighbors=Neighbors.ADD_REMOVE, max_rows=np.int64(9)
    )
    assert data.facts.row_limit == 9
    assert type(data.facts.row_limit) is int


def doors(folder, **given):
    """The same two rows through every constructor."""
    (folder / "t.csv").write_text("b\ntrue\nfalse\n")
    bit = Domain(Boolean("b"))
    return [
        lambda: PrivateData.from_columns({"b": [True, False]}, bit, **given),
        lambda: PrivateData.from_csv(folder / "t.csv", bit, **given),
        lambda: PrivateData.from_frame(pl.DataFrame({"b": [True, False]}), bit, **given),
        lambda: PrivateData.from_counts([1, 1], bit, **given),
    ]


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_rows_of_a_person_are_declared_through_every_door(neighbors, tmp_path):
    for door in doors(tmp_path, neighbors=neighbors):
        assert door().facts.unit_rows == public_facts(door()).unit_rows == 1
        assert "a person" not in repr(door())
    for door in doors(tmp_path, neighbors=neighbors, unit_rows=np.int64(2), max_rows=9):
        data = door()
        assert type(data.facts.unit_rows) is int
        assert data.facts.unit_rows == public_facts(data).unit_rows == 2
        assert f"{neighbors.value}, up to 2 rows a person, " in repr(data)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_nobody_has_more_rows_than_there_may_be(neighbors, tmp_path):
    most = 2 if neighbors is Neighbors.REPLACE_ONE else 9
    words = "the number of rows, 2" if neighbors is Neighbors.REPLACE_ONE else "max_rows, 9"
    for door in doors(tmp_path, neighbors=neighbors, unit_rows=most, max_rows=9):
        assert door().facts.unit_rows == most
    for door in doors(tmp_path, neighbors=neighbors, unit_rows=most + 1, max_rows=9):
        with pytest.raises(InvalidArgument, match=f"unit_rows must be at most {words}") as caught:
            door()
        assert caught.value.got == str(most + 1)


def test_more_rows_a_person_than_a_table_may_have_are_refused_before_it_is_read(tmp_path):
    missing, bit = tmp_path / "missing.csv", Domain(Boolean("b"))
    for given in ({"max_rows": 9}, {"neighbors": Neighbors.ADD_REMOVE, "max_rows": 9}):
        with pytest.raises(InvalidArgument, match="unit_rows"):
            PrivateData.from_csv(missing, bit, unit_rows=10, **given)
    with pytest.raises(InvalidArgument, match="unit_rows must be at most max_rows, 16,777,216"):
        PrivateData.from_csv(missing, bit, unit_rows=2**24 + 1, neighbors=Neighbors.ADD_REMOVE)
