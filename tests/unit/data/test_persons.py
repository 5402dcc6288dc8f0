"""A table that says whose its rows are: so many rows of each person, by whichever door it comes."""

import gc
import uuid
import weakref
from decimal import Decimal

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tables_loaded import cells, from_bytes

from dpsdk import (
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivacyUnit,
    PrivateData,
    Session,
)
from dpsdk.accounting import MemoryLedger
from dpsdk.data.persons import WHITE_SPACE
from dpsdk.data.vault import open_histogram, public_facts
from dpsdk.errors import DataError, InvalidArgument, LedgerConflict, PublicSizeRequired
from dpsdk.forms import sensitivity
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Conjunction, CountPersons, Marginal
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 9), Categorical("sex", ["F", "M"]))
AGES = Domain(Integer("age", 0, 9))


def unit(most=1, column="who", *, distinct=False):
    return PrivacyUnit(column, max_rows=most, distinct=distinct)


def ages(who, age, most=1, **given):
    data = PrivateData.from_columns({"who": who, "age": age}, AGES, unit=unit(most), **given)
    inside, out = cells(data)
    return [value for value, count in enumerate(inside) for _ in range(count)], out


def kept(who, **given):
    """How many persons a column of identifiers tells apart: each keeps one row."""
    held, out = ages(who, [3] * len(who), **given)
    assert not out
    return len(held)


def visits(rows=400, people=60):
    noise = np.random.default_rng(5)
    return {
        "who": noise.integers(-9, people, rows),
        "age": noise.integers(-1, 12, rows),
        "sex": np.array(["F", "M", "X"])[noise.integers(0, 3, rows)],
    }


@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(
    "written", [int, str, "user{}@example.org".format], ids=["number", "digits", "address"]
)
def test_every_door_keeps_the_same_rows(tmp_path, most, distinct, written):
    table = visits()
    table["who"] = [written(one) for one in table["who"].tolist()]
    shuffled = np.random.default_rng(6).permutation(400)
    other = {name: [column[place] for place in shuffled] for name, column in table.items()}
    frame = pl.DataFrame(table, strict=False)
    given = {"unit": unit(most, distinct=distinct)}
    content = frame.write_csv().encode()
    loaded = [
        PrivateData.from_columns(table, DOMAIN, **given),
        PrivateData.from_columns(other, DOMAIN, **given),
        PrivateData.from_columns(frame.to_dict(), DOMAIN, **given),
        from_bytes(tmp_path, content, DOMAIN, **given),
        PrivateData.from_frame(frame, DOMAIN, **given),
        PrivateData.from_frame(frame.lazy(), DOMAIN, **given),
        PrivateData.from_frame(frame.to_arrow(), DOMAIN, **given),
        PrivateData.from_frame(pd.DataFrame(other), DOMAIN, **given),
        *(
            PrivateData.from_frame(one, DOMAIN, collect="marginals", **given)
            for one in (frame.lazy(), frame.to_arrow(), pd.DataFrame(other))
            if written is str
        ),
    ]
    held = cells(loaded[0])
    assert all(cells(data) == held for data in loaded)
    # Those without an identifier, which are none here, would be nobody.
    assert {open_histogram(data).persons for data in loaded} == {len(set(table["who"]))}
    assert 0 < sum(held[0]) + held[1] <= most * len(set(table["who"]))


def test_nobody_keeps_more_and_who_has_no_more_keeps_all():
    assert ages(["a"] * 5 + ["b"], [1, 1, 1, 1, 1, 2], most=3) == ([1, 1, 1, 2], 0)
    assert ages(["a"] * 3 + ["b"] * 2, [1, 2, 3, 1, 2], most=3) == ([1, 1, 2, 2, 3], 0)


def test_rows_outside_are_rows_of_one_cell():
    assert ages(["a"] * 4, [99, None, "x", -1], most=3) == ([], 3)
    columns = {"who": ["a"] * 3, "age": [99, None, 4], "sex": ["F", "M", "none"]}
    data = PrivateData.from_columns(columns, DOMAIN, unit=unit(3, distinct=True))
    assert open_histogram(data).rows == 1


def test_with_distinct_each_cell_counts_once():
    who, age = ["a"] * 6 + ["b"] * 2, [1, 1, 1, 2, 2, 3, 1, 1]
    for most, rows in ((1, 2), (2, 3), (3, 4), (9, 4)):
        data = PrivateData.from_columns(
            {"who": who, "age": age}, AGES, unit=unit(most, distinct=True)
        )
        inside, out = cells(data)
        assert (sum(inside), out) == (rows, 0)
        assert max(inside) <= 2


def test_a_clipped_value_is_of_the_cell_that_it_is_moved_to():
    columns = {"who": ["a"] * 3, "age": [12, 15, 9]}
    data = PrivateData.from_columns(columns, AGES, unit=unit(3, distinct=True), outside="clip")
    assert cells(data) == ([0] * 9 + [1], 0)


@pytest.mark.parametrize("nobody", [None, "", "nan", "NaN", float("nan"), np.nan, True, 0.5, b"a"])
def test_rows_of_nobody_are_left_out(nobody):
    assert ages([nobody, "a", nobody], [1, 2, 3], most=2) == ([2], 0)
    assert ages([nobody, nobody], [1, 2], most=9) == ([], 0)


def test_rows_that_say_nobody_are_left_out_of_files_and_frames(tmp_path):
    content = b'age,who\n1,a\n2,\n3\n4,"a\n5,nan\n6,a\n7,b,c\n'
    data = from_bytes(tmp_path, content, AGES, unit=unit(5))
    assert cells(data) == ([0, 1, 0, 0, 0, 0, 1, 0, 0, 0], 0)
    people = pd.array([1, None, 1], dtype="Int64")
    for frame in (
        pd.DataFrame({"who": people, "age": [1, 2, 3]}),
        pl.DataFrame({"who": [1, None, 1], "age": [1, 2, 3]}),
        pa.table({"who": [1, None, 1], "age": [1, 2, 3]}),
        pl.DataFrame({"who": ["x", "", "nan"], "age": [1, 2, 3]}),
    ):
        inside, out = cells(PrivateData.from_frame(frame, AGES, unit=unit(5)))
        assert inside[2] == out == 0
    masked = np.ma.masked_array([7, 7, 7], mask=[False, True, False])
    assert ages(masked, [1, 2, 3], most=5) == ([1, 3], 0)


ODD = ["a", "a\0", "a\0b", "\0", " a", "x" * 70, "x" * 71, "\u00e9", "e\u0301"]
ODDER = ["\ud800", "'\\ud800'", "\ud800a"]
FORMS = {
    "polars": lambda ids: pl.Series(ids),
    "polars categories": lambda ids: pl.Series(ids, dtype=pl.Categorical),
    "pandas": lambda ids: pd.Series(ids, dtype=object),
    "pandas texts": lambda ids: pd.Series(ids, dtype="string[python]"),
    "pandas categories": lambda ids: pd.Series(pd.Categorical.from_codes(range(len(ids)), ids)),
    "pandas of arrow": lambda ids: pd.Series(ids, dtype="string[pyarrow]"),
    "pyarrow": lambda ids: pa.array(ids),
    "pyarrow dictionary": lambda ids: pa.array(ids).dictionary_encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_identifiers_are_compared_by_all_their_characters(form, tmp_path):
    ids = FORMS[form](ODD)
    columns = {"who": ids, "age": [3] * len(ODD)}
    arrow = isinstance(ids, pa.Array)
    frame = (pl if isinstance(ids, pl.Series) else pd).DataFrame if not arrow else pa.table
    made = [PrivateData.from_columns(columns, AGES, unit=unit())]
    made += [
        PrivateData.from_frame(frame(columns), AGES, unit=unit(), collect=collect)
        for collect in ("histogram", "marginals")
    ]
    assert [cells(data)[0][3] for data in made] == [len(ODD)] * 3


def test_texts_that_are_no_unicode_are_told_apart():
    held = pd.DataFrame({"who": pd.Series(ODDER, dtype=object), "age": [3] * 3})
    assert cells(PrivateData.from_frame(held, AGES, unit=unit()))[0][3] == kept(ODDER) == 3
    # The printed form of one that is not is a label; it itself is none.
    labels = Domain(Categorical("who", [*ODDER[1:2], "b"]))
    assert cells(PrivateData.from_frame(held, labels)) == ([1, 0], 2)


def test_identifiers_are_compared_as_they_are():
    assert kept(["a", "A", " a", "é", "e\u0301", "01", "1", "1.0"]) == 8
    assert kept([1, "1", np.int8(1), 1.0, Decimal("1.00"), True]) == 1
    assert kept([2**70, str(2**70), 10**5000, 10**5000 + 1, -(10**5000)]) == 4
    large = 10**50
    same = [10**4000, "1" + "0" * 4000, 2**131_072]
    assert kept([large, str(large), *same, hex(large), -large]) == 5
    assert kept(np.ma.array([2**64 - 1, 0, 2**64 - 1], dtype=np.uint64)) == 2
    one = uuid.UUID(int=5)
    assert kept([one, str(one), uuid.UUID(int=6)]) == 2
    assert kept(["a", " a", "a\u3000", "\tnan"], strip=True) == 1


def test_white_space_is_what_is_dropped():
    assert f"{WHITE_SPACE}a{WHITE_SPACE}".strip() == "a"
    frame = pl.DataFrame({"who": [f"{WHITE_SPACE}a", "a", "a\u3000", "\x1f"], "age": [1] * 4})
    data = PrivateData.from_frame(frame, AGES, unit=unit(2), strip=True)
    assert cells(data)[0][1] == 2


@pytest.mark.parametrize(
    "column",
    [
        np.array([True, False]),
        np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
        np.array([b"a", b"b"]),
        pl.Series([Decimal("1.5"), Decimal("2.5")]),
        pa.array([[1], [2]]),
        pa.array([b"a", b"b"]),
    ],
    ids=lambda column: str(column.dtype if hasattr(column, "dtype") else column.type),
)
def test_a_column_that_tells_nobody_apart_is_refused(column):
    with pytest.raises(DataError, match=r"'who' holds .* tell nobody apart; give .*integers or"):
        PrivateData.from_columns({"who": column, "age": [1, 2]}, AGES, unit=unit())
    frame = pa.table(
        {"who": column.to_arrow() if isinstance(column, pl.Series) else column, "age": [1, 2]}
    )
    for table in (frame, frame.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(frame)):
        with pytest.raises(DataError, match="tell nobody apart"):
            PrivateData.from_frame(table, AGES, unit=unit())


def test_a_column_that_is_not_there_or_twice_is_refused(tmp_path):
    for load, match in (
        (lambda: PrivateData.from_columns({"age": [1]}, AGES, unit=unit()), "no column 'who'"),
        (lambda: ages(["a"], [1, 2]), "not as long"),
        (lambda: from_bytes(tmp_path, b"age\n1\n", AGES, unit=unit()), "no column 'who'"),
        (lambda: from_bytes(tmp_path, b"age,who,who\n", AGES, unit=unit()), "2 columns 'who'"),
        (
            lambda: PrivateData.from_frame(pl.DataFrame({"age": [1]}), AGES, unit=unit()),
            "no column 'who'",
        ),
        (
            lambda: PrivateData.from_frame(
                pd.DataFrame([[1, 2, 3]], columns=["who", "age", "who"]), AGES, unit=unit()
            ),
            "2 columns 'who'",
        ),
    ):
        with pytest.raises(DataError, match=match):
            load()


def test_the_column_may_be_an_attribute(tmp_path):
    domain = Domain(Integer("who", 0, 3))
    table = {"who": [0, 0, 1, 2, 9, 9]}
    expected = ([1, 1, 1, 0], 1)
    for data in (
        PrivateData.from_columns(table, domain, unit=unit()),
        PrivateData.from_frame(pd.DataFrame(table), domain, unit=unit()),
        PrivateData.from_frame(pl.DataFrame(table).lazy(), domain, unit=unit()),
        from_bytes(tmp_path, b"who\n0\n0\n1\n2\n9\n9\n", domain, unit=unit()),
    ):
        assert cells(data) == expected


def test_a_table_of_nobody_is_empty():
    for frame in (
        pl.DataFrame({"who": [None], "age": [1]}, schema_overrides={"who": pl.String}),
        pl.DataFrame({"who": [], "age": []}, schema={"who": pl.Int64, "age": pl.Int64}),
        pd.DataFrame({"who": [None], "age": [1]}),
        pd.DataFrame({"who": [], "age": []}, dtype="object"),
        pa.table({"who": pa.array([], pa.string()), "age": pa.array([], pa.int64())}),
    ):
        for outside in ("cell", "raise"):
            for collect in ("histogram", "marginals"):
                given = {"unit": unit(), "outside": outside, "collect": collect}
                assert open_histogram(PrivateData.from_frame(frame, AGES, **given)).rows == 0
    assert ages([], []) == ([], 0)


def test_no_cell_is_kept_more_often_than_another():
    # Over 4,000 persons, five standard deviations of a fair choice are 158 of one in two.
    two = Domain(Boolean("b"))
    for names in (
        range(4_000),
        [f"user{one}@example.org" for one in range(4_000)],
        [f"{one * 2654435761 % 2**32:08x}-{one:04x}" for one in range(4_000)],
    ):
        for repeats, share in ((1, 1 / 2), (4, 1 / 5)):
            who = [name for name in names for _ in range(repeats + 1)]
            b = [True] + [False] * repeats
            data = PrivateData.from_columns({"who": who, "b": b * 4_000}, two, unit=unit())
            found, spread = cells(data)[0][1], (4_000 * share * (1 - share)) ** 0.5
            assert abs(found - 4_000 * share) < 5 * spread


def test_cells_of_huge_universes_are_told_apart():
    big = Domain(*(Integer(name, 0, 2**61) for name in "xyz"))
    x = [2**61, 2**61, 0, 5]
    columns = {"who": ["a"] * 4, "x": x, "y": x, "z": x}
    data = PrivateData.from_columns(columns, big, unit=unit(9, distinct=True))
    assert open_histogram(data).rows == 3


def test_the_relation_is_add_remove_of_persons():
    data = PrivateData.from_columns(visits(), DOMAIN, unit=unit(2))
    facts = data.facts
    assert (facts.neighbors, facts.rows, facts.unit_rows) == (Neighbors.ADD_REMOVE, None, 2)
    assert (facts.person, facts.unit) == ("who", "a person by 'who', of whom up to 2 rows are kept")
    assert repr(data) == (
        "PrivateData('data', add-remove, up to 2 rows a person by 'who', "
        "private people and rows, 2 attributes)"
    )
    given = {"unit": unit(1), "neighbors": Neighbors.ADD_REMOVE}
    one = PrivateData.from_columns(visits(), DOMAIN, **given)
    assert "up to 1 row a person by 'who'" in repr(one)
    assert one.facts.unit == "a person by 'who', of whom one row is kept"
    plain = PrivateData.from_columns(visits(), DOMAIN)
    assert (plain.facts.neighbors, plain.facts.person) == (Neighbors.REPLACE_ONE, None)
    assert plain.facts.unit == "a person, who has one row"
    several = PrivateData.from_columns(visits(), DOMAIN, unit_rows=3)
    assert several.facts.unit == "a person, who has up to 3 rows"


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"neighbors": Neighbors.REPLACE_ONE}, r"neighbors.*ADD_REMOVE or left out"),
        ({"unit_rows": 2}, r"unit_rows.*left out with unit="),
        ({"unit": "who"}, r"unit.*a PrivacyUnit or None"),
        ({"unit": unit(11), "max_rows": 10}, r"unit.*at most max_rows, 10.*max_rows=11"),
    ],
)
def test_what_contradicts_a_unit_is_refused(given, match):
    with pytest.raises(InvalidArgument, match=match):
        PrivateData.from_columns(visits(), DOMAIN, **{"unit": unit(), **given})


@pytest.mark.parametrize(
    ("column", "given", "match"),
    [
        ("", {"max_rows": 1}, "column"),
        (3, {"max_rows": 1}, "column"),
        ("who", {"max_rows": 0}, "max_rows"),
        ("who", {"max_rows": 1.5}, "max_rows"),
        ("who", {"max_rows": True}, "max_rows"),
        ("who", {"max_rows": 1, "distinct": 1}, "distinct"),
    ],
)
def test_a_unit_is_checked(column, given, match):
    with pytest.raises(InvalidArgument, match=match):
        PrivacyUnit(column, **given)


def test_only_rows_that_are_kept_count_against_the_limit(tmp_path):
    content = b"who,age\n" + b"a,1\n" * 50 + b"b,1\n"
    for load in (
        lambda most: from_bytes(tmp_path, content, AGES, unit=unit(), max_rows=most),
        lambda most: PrivateData.from_columns(
            {"who": ["a"] * 50 + ["b"], "age": [1] * 51}, AGES, unit=unit(), max_rows=most
        ),
    ):
        assert open_histogram(load(2)).rows == 2
        with pytest.raises(DataError, match="more than max_rows=1 rows"):
            load(1)


def test_any_row_outside_raises_where_none_may_be(tmp_path):
    for rows in (b"a,1\nb,99\n", b"a,1\n,99\n"):
        with pytest.raises(DataError, match="'age' is outside"):
            from_bytes(tmp_path, b"who,age\n" + rows, AGES, unit=unit(), outside="raise")
    table = {"who": ["a", None], "age": [1, 99]}
    for frame in (pl.DataFrame(table), pd.DataFrame(table)):
        for collect in ("histogram", "marginals"):
            given = {"unit": unit(), "outside": "raise", "collect": collect}
            with pytest.raises(DataError, match="'age' is outside"):
                PrivateData.from_frame(frame, AGES, **given)
            assert not PrivateData.from_frame(frame[:1], AGES, **given).facts.outside
    assert from_bytes(tmp_path, b"who,age\n,1\n", AGES, unit=unit(), outside="raise")


def test_a_share_is_refused_where_people_are_counted():
    session = Session(PrivateData.from_columns(visits(), DOMAIN, unit=unit()), Budget(1))
    with pytest.raises(PublicSizeRequired, match="normalized=False"):
        session.answer(Conjunction({"sex": "F"}), using=Laplace("0.1"))
    assert not session.spent.epsilon


def test_noise_grows_with_the_rows_of_a_person():
    def error(most):
        data = PrivateData.from_columns(visits(), DOMAIN, unit=unit(most))
        session = Session(data, Budget(1), noise=seeded(1))
        query = Conjunction({"sex": "F"}, normalized=False)
        return session.quote(query, using=Laplace("0.5")).error(0.05)

    assert error(4) == pytest.approx(4 * error(1), rel=0.05)


def test_no_sensitivity_is_attained_by_rows_that_would_have_to_be_alike():
    pair = Marginal("age", normalized=False).lower(AGES)
    told = []
    for distinct in (False, True):
        given = {"unit": unit(2, distinct=distinct)}
        data = PrivateData.from_columns({"who": ["a"], "age": [1]}, AGES, **given)
        assert public_facts(data).distinct is data.facts.distinct is distinct
        told.append((sensitivity(pair, data.facts), "in different cells" in data.facts.unit))
    (one, said), (other, says) = told
    assert (one.exact, other.exact) == (True, False)
    assert (said, says) == (False, True)
    assert (one.l1, one.l2_squared, one.maximum) == (other.l1, other.l2_squared, other.maximum)


def test_a_table_is_divided_only_where_everybody_has_one_row():
    budget = Budget(1)
    with pytest.raises(InvalidArgument, match=r"unit.*max_rows=1.*up to 2 rows|2 rows a person by"):
        Session(PrivateData.from_columns(visits(), DOMAIN, unit=unit(2)), budget).partition("sex")
    session = Session(PrivateData.from_columns(visits(), DOMAIN, unit=unit(1)), budget)
    with session.partition("sex") as parts:
        table = parts["F"].answer(Marginal("sex", normalized=False), using=Laplace("0.1"))
        assert parts["F"].answer(CountPersons(), using=Laplace("0.1")) != table.total()


@pytest.mark.parametrize(
    "other",
    [
        {"unit": PrivacyUnit("sex", max_rows=2)},
        {"unit": unit(2), "strip": True},
        {"neighbors": Neighbors.ADD_REMOVE, "unit_rows": 2},
    ],
    ids=str,
)
def test_a_ledger_of_one_unit_is_not_gone_on_with_by_another(other):
    ledger = MemoryLedger()
    Session(
        PrivateData.from_columns(visits(), DOMAIN, unit=unit(2), name="t"), Budget(1), ledger=ledger
    )
    with pytest.raises(LedgerConflict, match=r"person|identifiers"):
        Session(
            PrivateData.from_columns(visits(), DOMAIN, name="t", **other), Budget(1), ledger=ledger
        )
    again = PrivateData.from_columns(visits(), DOMAIN, unit=unit(3), name="t")
    assert Session(again, Budget(1), ledger=ledger)


def test_counts_have_no_people():
    with pytest.raises(TypeError, match="unit"):
        PrivateData.from_counts([1] * 10, AGES, unit=unit())


def test_no_identifier_outlives_loading():
    class Mark(str):  # noqa: SLOT000  # slots would leave no room for a reference
        """A text whose end can be seen."""

    name = Mark("somebody of this name")
    seen = weakref.ref(name)
    columns = {"who": [name, "b"], "age": [99, 1]}
    data = PrivateData.from_columns(columns, AGES, unit=unit())
    with pytest.raises(DataError) as caught:
        PrivateData.from_columns(columns, AGES, unit=unit(), outside="raise")
    assert "somebody" not in f"{caught.value}{data!r}"
    del columns, name
    gc.collect()
    assert seen() is None


def test_a_unit_is_a_value():
    assert unit(2) == PrivacyUnit("who", max_rows=2)
    assert hash(unit(2)) == hash(unit(2))
    assert unit(2) != unit(2, distinct=True)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        unit().max_rows = 3
