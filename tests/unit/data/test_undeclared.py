"""Tables that nobody has described: a key is a function of its value alone, by every door."""

import gzip
import sqlite3
import uuid
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest

from dpsdk import Budget, Categorical, Domain, Neighbors, PrivateData, Session, Undeclared
from dpsdk.data.cells import NumberCells
from dpsdk.data.keyed import KeyReader
from dpsdk.data.texts import TextFormat
from dpsdk.data.vault import open_histogram, open_rows
from dpsdk.errors import DataError, InvalidArgument, Redacted

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")


def keys_of(undeclared, name="v"):
    """The key of each row, or the code of what has none."""
    column = open_rows(undeclared).columns[name]
    return [column.keys[code] if code >= 0 else int(code) for code in column.codes]


def read(values, **options):
    return keys_of(Undeclared.from_columns({"v": values}, unit=None, **options))


OTHER, MISSING = -1, -2

SPELLINGS = [
    (39, "39"),
    (39.0, "39"),
    (Decimal("39.00"), "39"),
    (Decimal("3.9E1"), "39"),
    (np.float32(0.1), "0.1"),
    (np.int8(-7), "-7"),
    (-0.0, "0"),
    (1e-7, "0.0000001"),
    (1e300, OTHER),
    (float("inf"), OTHER),
    (2**53, OTHER),
    (2**53 - 1, "9007199254740991"),
    (True, "True"),
    ("True", "True"),
    ("e\u0301", "\u00e9"),
    (" a", " a"),
    (None, MISSING),
    (float("nan"), MISSING),
    (Decimal("NaN"), MISSING),
    (pandas.NA, MISSING),
    (pandas.NaT, MISSING),
    (np.datetime64("NaT", "s"), MISSING),
    ("", MISSING),
    ("NaN", MISSING),
    ("NA", MISSING),
    ("?", MISSING),
    (date(2024, 3, 31), "2024-03-31"),
    (datetime(2024, 3, 31), "2024-03-31"),
    (datetime(2024, 3, 31, 23, 59), "2024-03-31T23:59:00"),
    (uuid.UUID(int=5), str(uuid.UUID(int=5))),
    (b"bytes", OTHER),
    ([1, 2], OTHER),
    ({}, OTHER),
    (object(), OTHER),
    (1j, OTHER),
    ("x" * 256, "x" * 256),
    ("x" * 257, OTHER),
    ("x" * 3000, OTHER),
    ("\ud800", OTHER),
    ("\0", "\0"),
]


def test_each_value_has_its_key_beside_all_others():
    values, expected = zip(*SPELLINGS, strict=True)
    assert read(list(values)) == list(expected)
    for value, key in SPELLINGS:
        assert read([value]) == [key]


def test_texts_are_stripped_where_asked_and_missing_after():
    texts = [" a", "a", " ? ", "\u00a0b"]
    assert read(texts) == [" a", "a", " ? ", "\u00a0b"]
    assert read(texts, strip=True) == ["a", "a", MISSING, "b"]
    assert read(["NA", "-9"], missing_texts=["-9"]) == ["NA", MISSING]


ODD = {"a null": None, "a text": "x", "a fraction": 0.5, "a list": [1], "a large one": 2.0**70}


FRAMES = {
    "list": lambda values: values,
    "pandas": lambda values: pandas.Series(values),
    "polars": lambda values: polars.Series(values, strict=False),
    "numpy": lambda values: np.array(values, dtype=None if _plain(values) else object),
}


def _plain(values):
    return all(isinstance(value, int | float) for value in values)


def changed_by(odd, make, values):
    """The rows whose keys another row changes, as far as the library left them their values."""
    before = read(make(list(values)))
    after = read(make([*values, odd]))
    return [(one, other) for one, other in zip(before, after, strict=False) if one != other]


VALUES = ([1, 2, 3], [2**53 + 1, 2**53 + 3, 5], [0.5, 2.0], ["a", "7"], [date(2024, 1, 1)])


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", FRAMES)
def test_no_row_changes_the_key_of_another(name, odd):
    for values in VALUES:
        if name == "polars" and (isinstance(odd, list) or isinstance(values[0], date)):
            continue  # which takes no such column, or makes nulls of it itself
        if name == "polars" and isinstance(odd, str) != isinstance(values[0], str):
            continue  # the library makes texts or nulls of all
        assert changed_by(odd, FRAMES[name], values) == []


def test_kinds_that_count_are_caught(monkeypatch):
    """The mutant: a reader that goes by the type that the rows gave a column."""

    def by_kind(self, values):
        return np.array([self._codes[str(one)] for one in values])

    monkeypatch.setattr(KeyReader, "floats", by_kind)
    assert changed_by(None, pandas.Series, [1, 2, 3])


@pytest.mark.parametrize("unit", [None, "who"])
def test_the_same_rows_by_every_door(tmp_path, unit):
    columns = {"who": ["p", "q ", "p"], "v": ["a", None, "b"], "w": [1, 2, 3]}
    frame = pandas.DataFrame(columns)
    (tmp_path / "t.csv").write_text("who,v,w\np,a,1\nq ,,2\np,b,3\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    polars.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    tables = [
        Undeclared.from_columns(columns, unit=unit),
        Undeclared.from_csv(tmp_path / "t.csv", unit=unit),
        Undeclared.from_csv(tmp_path / "t.csv.gz", unit=unit),
        Undeclared.from_frame(frame, unit=unit),
        Undeclared.from_frame(polars.DataFrame(columns), unit=unit),
        Undeclared.from_frame(polars.LazyFrame(columns), unit=unit),
        Undeclared.from_frame(pyarrow.table(columns), unit=unit),
        Undeclared.from_parquet(tmp_path / "t.parquet", unit=unit),
    ]
    expected = ("who", "v", "w") if unit is None else ("v", "w")
    for table in tables:
        assert table.facts.columns == expected
        assert keys_of(table, "v") == ["a", MISSING, "b"]
        assert keys_of(table, "w") == ["1", "2", "3"]
        assert table.facts.rows == (3 if unit is None else None)
        persons = open_rows(table).persons
        assert (persons is None) == (unit is None)
        if persons is not None:
            assert persons.numbers[0] == persons.numbers[2] != persons.numbers[1]


@pytest.mark.parametrize("unit", [None, "who"])
def test_the_same_rows_of_a_database(unit):
    pytest.importorskip("ibis")
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (who TEXT COLLATE NOCASE, v TEXT, w INTEGER)")
    rows = [("p", "a", 1), ("P", "A", "x"), ("p", None, 2**60)]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    table = Undeclared.from_sql(connection, "SELECT * FROM t", unit=unit)
    connection.close()
    assert keys_of(table, "v") == ["a", "A", MISSING]
    assert keys_of(table, "w") == ["1", "x", OTHER]
    if unit:
        persons = open_rows(table).persons.numbers
        assert persons[0] == persons[2] != persons[1]


def test_a_file_of_junk_is_read(tmp_path):
    path = tmp_path / "junk.csv"
    path.write_bytes(
        b'who,v\np,\xff\xfe\nq,"open\nr,a,b,c\n\ns\nt,' + b"x" * (2**20 + 9) + b"\nu,a\n"
    )
    table = Undeclared.from_csv(path, unit="who")
    assert keys_of(table)[0] == OTHER
    assert keys_of(table)[-1] == "a"
    assert all(isinstance(key, int) for key in keys_of(table)[:-1])
    # What hides its identifier is nobody's.
    assert (open_rows(table).persons.numbers >= 0).tolist() == [
        True,
        False,
        False,
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "unit", "rows"),
    [
        ("v\n", "v", "no column with a name"),
        ("v\n", None, "no rows"),
        ("", None, "no column with a name"),
        ("v,v\n1,2\n", None, "2 columns"),
    ],
)
def test_a_header_only_is_refused_where_nothing_can_be_asked(tmp_path, text, unit, rows):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=rows):
        Undeclared.from_csv(path, unit=unit)


def test_an_empty_table_of_persons_is_a_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,v\n")
    assert Undeclared.from_csv(path, unit="who").facts.rows is None
    assert Undeclared.from_columns({"v": []}, unit=None, neighbors=Neighbors.ADD_REMOVE).facts


def test_identifiers_that_tell_nobody_apart_are_nobodys_and_fail_nothing():
    for who in ([True, False], [1.5, 2.5], [None, None], np.array(["2024-01-01"] * 2, "M8[D]")):
        table = Undeclared.from_columns({"who": who, "v": ["a", "b"]}, unit="who")
        assert (open_rows(table).persons.numbers == -1).all()


def test_a_table_shows_nothing_and_opens_no_session():
    table = Undeclared.from_columns({"v": ["secret"]}, unit=None, name="t")
    assert "secret" not in repr(table)
    assert repr(table) == "Undeclared('t', replace-one, 1 row, 1 column)"
    for look in (len, iter, np.asarray, lambda one: one[0]):
        with pytest.raises(Redacted):
            look(table)
    with pytest.raises(InvalidArgument, match="data must be a PrivateData; got Undeclared"):
        Session(table, Budget(1))
    with pytest.raises(TypeError, match="unit"):
        Undeclared.from_columns({"v": [1]})
    with pytest.raises(TypeError, match="argument 'max_row'"):
        Undeclared.from_columns({"v": [1]}, unit=None, max_row=2)


@pytest.mark.parametrize(
    "options",
    [
        {"unit": 3},
        {"unit": "who", "neighbors": Neighbors.REPLACE_ONE},
        {"unit": None, "neighbors": "add-remove"},
        {"unit": None, "max_rows": 0},
        {"unit": None, "missing_texts": "NA"},
        {"unit": None, "missing_texts": [None]},
        {"unit": None, "name": ""},
        {"unit": None, "decimal": ";"},
    ],
    ids=str,
)
def test_arguments_are_checked_before_anything_is_read(options):
    with pytest.raises(InvalidArgument):
        Undeclared.from_columns({"who": [1], "v": [1]}, **options)


def test_a_column_without_a_name_is_not_read(tmp_path):
    path = tmp_path / "t.csv"
    pandas.DataFrame({"v": ["a", "b"]}).assign(**{" ": [1, 2]}).to_csv(path)
    assert path.read_text().startswith(",v, ")
    assert Undeclared.from_csv(path, unit=None).facts.columns == ("v",)
    with pytest.raises(InvalidArgument, match="columns"):
        Undeclared.from_csv(path, unit=None, columns=[""])
    with pytest.raises(DataError, match="no column with a name"):
        Undeclared.from_columns({"": [1]}, unit=None)


def test_limits_and_lengths():
    with pytest.raises(DataError, match="max_rows=2 rows"):
        Undeclared.from_columns({"v": [1, 2, 3]}, unit=None, max_rows=2)
    rows = {"who": ["p"] * 3, "v": [1, 2, 3]}
    assert Undeclared.from_columns(rows, unit="who", max_rows=1).facts.row_limit == 1
    with pytest.raises(DataError, match="max_rows=1 persons"):
        Undeclared.from_columns({**rows, "who": ["p", "q", "q"]}, unit="who", max_rows=1)
    with pytest.raises(DataError, match="as long"):
        Undeclared.from_columns({"v": [1], "w": [1, 2]}, unit=None)
    with pytest.raises(DataError, match="no column 'w'"):
        Undeclared.from_frame(pandas.DataFrame({"v": [1]}), unit="w")
    with pytest.raises(DataError, match="no texts"):
        Undeclared.from_frame(pandas.DataFrame({0: [1]}), unit=None)


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "a", "e\u0301", None, "", "NA"],
        np.array([1, 2, 2, -3]),
        np.array([0.5, np.nan, 2.0, 0.5]),
        np.array([0.1, 0.25], dtype=np.float32),
        [True, False, True, None],
        [1, "1", 1.0, Decimal("1.0"), "x", True],
        pandas.Categorical(["u", "v", None, "u"]),
    ],
    ids=lambda one: f"{type(one).__name__} {one[0]}",
)
def test_found_keys_are_labels_that_find_the_same_rows(values):
    """A domain of the keys loads every row into the cell of its key."""
    raw = Undeclared.from_columns({"v": values}, unit=None)
    column = open_rows(raw).columns["v"]
    attribute = Categorical("v", column.keys, other=True, missing=True)
    domain = Domain(attribute, missing_texts=raw.facts.missing_texts)
    data = PrivateData.from_columns({"v": values}, domain)
    size = len(column.keys)
    places = np.where(column.codes >= 0, column.codes, size - 1 - column.codes)
    counted = open_histogram(data).counted(("v",)).reshape(-1)
    # Of those without a key, others come first.
    assert counted.tolist() == np.bincount(places, minlength=size + 2).tolist()


@pytest.mark.parametrize("kind", ["int64", "uint64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("absent", [(), ("3", "True")])
def test_arrays_have_the_keys_of_their_values_one_by_one(kind, absent):
    limits = (0, 1) if kind == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
    near = np.arange(limits[0] == 0, 9) if kind == "bool" else np.arange(1, 9)
    for values in ([*limits, *limits], np.tile(near, 3).tolist()):
        array = np.array(values, kind)
        one_by_one = read(array.tolist(), missing_texts=absent)
        assert read(array, missing_texts=absent) == one_by_one
        assert not absent or len(values) == 4 or MISSING in one_by_one


def test_cells_of_whole_numbers_are_those_of_each_alone():
    edges = [0, 1, 2, 5, 10, 4999, 5000, 10**13 - 1, 10**13, 2**62]
    numbers = [str(sign * edge + more) for edge in edges for sign in (1, -1) for more in (-1, 0, 1)]
    cells, texts = NumberCells(1), TextFormat()
    for keys in (numbers, [*numbers, str(-(2**63))], [*numbers, str(2**63)]):
        # A number that is no whole one beside it takes the long way.
        alone = [cells.of([key, "0.5"], texts)[0] for key in keys]
        assert cells.of(keys, texts).tolist() == alone
    assert max(alone) == cells.size - 1


@pytest.mark.parametrize("step", [1, 60, 86_400, 2**40])
def test_near_and_even_numbers_are_numbered_as_others_are(step):
    values = np.random.default_rng(step).integers(-40, 40, 200) * step + 3
    assert read(values) == read(values.tolist()) == [str(value) for value in values]
    floats = np.array([*values / 4, np.nan, np.inf, -0.0])
    assert read(floats) == read(floats.tolist())
