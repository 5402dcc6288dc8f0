"""Synthetic records with missing and other values, in frames and in descriptions of tables."""

from datetime import date

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Boolean,
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Number,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Marginal
from dpsdk.testing import seeded
from worlds import QUIET

WORLD = Domain(
    Integer("age", 1, 2, missing=True),
    Boolean("member", missing=True),
    Date("seen", date(2024, 1, 1), date(2024, 1, 2), missing=True),
    Categorical("sex", ["F", "M"], missing=True, other=True),
    Integer("hours", 1, 2, other=True),
    Binned("income", [0, 1], missing=True),
    Number("share", 0, 1, "0.5", missing=True),
    Boolean("plain"),
)
RNG = np.random.default_rng(1)
CODES = np.stack([RNG.integers(0, one.size, 40) for one in WORLD], axis=1)
PEOPLE = SyntheticData(WORLD, CODES)


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_a_frame_has_nulls_for_missing_values_and_a_text_for_others(library):
    frame = PEOPLE.to_frame(library)
    for attribute in WORLD:
        column = frame[attribute.name]
        values = column.to_pylist() if library == "pyarrow" else column.to_list()
        labels = PEOPLE.to_columns()[attribute.name]
        assert len(values) == len(labels)
        for value, label in zip(values, labels, strict=True):
            if label is MISSING:
                assert value is None or value != value  # NaN, NaT
            elif attribute.name in ("sex", "hours", "income"):
                assert value == attribute.text(attribute.index(label))
            else:
                assert (value.date() if hasattr(value, "date") else value) == label


def test_a_frame_of_known_values_has_plain_columns():
    frame = PEOPLE.to_frame("polars")
    kinds = {name: str(kind) for name, kind in frame.schema.items()}
    assert kinds == {
        "age": "Int64", "member": "Boolean", "seen": "Date", "sex": "String", "hours": "String",
        "income": "String", "share": "Float64", "plain": "Boolean",
    }  # fmt: skip


def test_a_table_of_extras_is_described_with_them():
    data = PrivateData.from_counts(np.arange(12).reshape(3, 4), WORLD.project(["age", "sex"]))
    session = Session(data, Budget(epsilon=10), noise=seeded(1))
    release = session.release(Marginal("age", "sex"), using=Laplace(epsilon=1))
    assert release.value[2, OTHER] == release.value.to_dict()[2, OTHER]
    (table,) = release.metadata().tables
    age, sex = table.columns[:2]
    assert (age.kind, age.labels) == ("text", ("1", "2", "(missing)"))
    assert sex.labels == ("F", "M", "(other)", "(missing)")
    assert '"(missing)","(other)"' in table.to_csv()
    assert table.keyed
    enum = release.metadata().to_datapackage().content["resources"][0]["schema"]["fields"][0]
    assert enum["constraints"]["enum"] == ["1", "2", "(missing)"]
    assert "(missing)" in release.metadata().to_csvw().to_json()
    assert "(missing)" in data.facts.domain._repr_html_()


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow", None])
def test_records_are_read_as_what_they_are(library):
    # Bins are written as they are shown, and no table has them.
    domain = WORLD.project([one.name for one in WORLD if one.kind != "binned"])
    codes = np.stack([CODES[:, WORLD.position(name)] for name in domain.names], axis=1)
    people = SyntheticData(domain, codes)
    if library is None:
        data = PrivateData.from_columns(people.to_columns(), domain, name="again")
    else:
        data = PrivateData.from_frame(people.to_frame(library), domain, name="again")
    session = Session(data, Budget(epsilon=10**12), noise=seeded(1))
    pairs = [("age", "sex"), ("member", "hours"), ("seen", "share"), ("plain", "age")]
    for names in pairs:
        found = session.answer(Marginal(*names, normalized=False), using=QUIET).values
        assert found.tolist() == people.counts(*names).tolist(), names
