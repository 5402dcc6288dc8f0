"""What is declared of a table: unknown choices are refused, and nothing is kept by reference."""

import attrs
import numpy as np
import polars as pl
import pytest
from tables_loaded import cells

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.data.declaration import has_public_rows, own_neighbors
from dpsdk.data.vault import keep, open_histogram, setting_of
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


def relation(value):
    """An object of the class of relations that is none of its members."""
    made = object.__new__(Neighbors)
    made._value_, made._name_ = value, "MADE"
    return made


class Turning(str):
    """A text that is equal to whatever it was not compared with before."""

    __slots__ = ("asked",)
    __hash__ = str.__hash__

    def __eq__(self, other):
        asked = getattr(self, "asked", 0)
        self.asked = asked + 1
        return asked % 2 == 0


@pytest.mark.parametrize("value", ["", "replace", "REPLACE-ONE", None, 0, Turning("add-remove")])
def test_a_relation_that_is_not_known_is_refused(value):
    for test in (own_neighbors, has_public_rows):
        with pytest.raises(InvalidArgument, match="neighbors"):
            test(relation(value))
    with pytest.raises(InvalidArgument, match="neighbors"):
        PrivateData.from_columns(ROWS, people(), neighbors=relation(value))
    data = PrivateData.from_columns(ROWS, people())
    part = PrivateData.__new__(PrivateData)
    with pytest.raises(InvalidArgument, match="neighbors"):
        keep(part, open_histogram(data), attrs.evolve(data.facts, neighbors=relation(value)))


def test_a_relation_is_known_by_its_value():
    for known in Neighbors:
        made = relation(known.value)
        assert made is not known
        assert own_neighbors(made) is known
        data = PrivateData.from_columns(ROWS, people(), neighbors=made, max_rows=9)
        assert data.facts.neighbors is known
        assert data.facts.rows == (2 if known is Neighbors.REPLACE_ONE else None)
        assert has_public_rows(made) is (known is Neighbors.REPLACE_ONE)


@pytest.mark.parametrize("value", [Turning("drop"), Turning(""), "RAISE", None, 1, ["raise"]])
def test_a_policy_that_is_not_known_is_refused(value):
    with pytest.raises(InvalidArgument, match="outside"):
        PrivateData.from_columns(ROWS, people(), outside=value)


def test_a_policy_is_known_by_its_text():
    cell = PrivateData.from_columns(ROWS, people(), outside=Turning("cell"))
    assert cell.facts.outside
    assert cells(cell)[1] == 1
    assert cells(PrivateData.from_columns(ROWS, people(), outside=Turning("clip")))[1] == 0


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
            InvalidArgument, match="made of Boolean, Categorical, Integer, Binned and Date"
        ):
            PrivateData.from_columns(ROWS, Domain(attribute))


def test_what_was_declared_cannot_be_changed_afterwards():
    domain = people()
    data = PrivateData.from_columns(ROWS, domain, name=Turning("t"))
    facts = repr(data.facts)
    domain["age"].__init__("age", 0, 10**6)
    domain["sex"].__init__("sex", ["x"])
    domain.__init__(Integer("age", 0, 10**9))
    assert repr(data.facts) == facts
    assert data.domain == people()
    assert type(data.name) is str


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
        assert door().facts.unit_rows == setting_of(door()).unit_rows == 1
        assert "a person" not in repr(door())
    for door in doors(tmp_path, neighbors=neighbors, unit_rows=np.int64(2), max_rows=9):
        data = door()
        assert type(data.facts.unit_rows) is int
        assert data.facts.unit_rows == setting_of(data).unit_rows == 2
        assert f"{neighbors.value}, up to 2 rows a person, " in repr(data)
        data.facts.__init__(data.domain, neighbors, None, False, 1)
        assert setting_of(data).unit_rows == 2


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
