"""Values of other packages have written forms under the name of their distribution."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Budget, Domain, Integer, PrivateData, Session, wire
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Above, Threshold, Workload
from dpsdk.testing import seeded
from dpsdk.wire import Catalogue, Kind, Member

sys.path.insert(0, str(Path(__file__).parent))

from acme_dp.median import Median
from acme_dp.repeated import Repeated

MEDIAN = Kind(Median, "acme:median", {"attribute": wire.NAME})
REPEATED = Kind(Repeated, "acme:repeated", {"epsilon": wire.AMOUNT})
CATALOGUE = Catalogue.shipped().plus(MEDIAN, REPEATED)


def test_a_strangers_query_is_written_and_read_where_its_kind_was_handed_in():
    data = wire.to_json(Median("age"), allow=CATALOGUE)
    envelope = {"format": "dpsdk.wire", "version": 1}
    assert data == {**envelope, "kind": "acme:median", "attribute": "age"}
    assert wire.from_json("query", data, allow=CATALOGUE) == Median("age")
    assert wire.loads(Median, wire.dumps(Median("age"), allow=CATALOGUE), allow=CATALOGUE)
    several = Workload([Median("age"), Threshold("age", 40)])
    assert wire.loads("query", wire.dumps(several, allow=CATALOGUE), allow=CATALOGUE) == several
    with pytest.raises(WireError, match=r"\$.kind must be the name of a kind of the catalogue"):
        wire.from_json("query", data)
    with pytest.raises(WireError, match="of class Median"):
        wire.to_json(Median("age"))
    written = wire.to_json(Above(Threshold("age", 40), 0.5))
    with pytest.raises(WireError, match="kind of a query of one number"):
        wire.from_json("query", written | {"query": {"kind": "acme:median"}}, allow=CATALOGUE)


def test_a_strangers_mechanism_is_one():
    mechanism = Repeated(Fraction(3, 10))
    text = wire.dumps(mechanism, allow=CATALOGUE)
    assert wire.loads("mechanism", text, allow=CATALOGUE) == mechanism
    assert wire.digest(mechanism, allow=CATALOGUE) == wire.digest(
        Repeated(Fraction("0.3")), allow=CATALOGUE
    )


def released(query, using):
    """A release of six rows, each of another label."""
    data = PrivateData.from_columns({"age": np.arange(6)}, Domain(Integer("age", 0, 5)))
    return Session(data, Budget(10), noise=seeded(1)).release(query, using=using)


def test_a_record_has_the_question_and_the_mechanism_of_the_catalogue_it_is_written_with():
    release = released(Median("age"), Repeated(Fraction(3, 10)))
    data = wire.to_json(release, allow=CATALOGUE)
    assert data["question"] == {"kind": "acme:median", "attribute": "age"}
    assert data["by"]["kind"] == "acme:repeated"
    assert data["query_digest"] == wire.digest(Median("age"), allow=CATALOGUE)
    assert data["by_digest"] == wire.digest(Repeated(Fraction(3, 10)), allow=CATALOGUE)
    assert wire.to_json(wire.from_json("release", data, allow=CATALOGUE), allow=CATALOGUE) == data
    alone = wire.to_json(release)
    assert [alone[name] for name in ("question", "query_digest", "by", "by_digest")] == [None] * 4


def test_numbers_of_an_answer_of_an_own_type_are_in_its_unit_as_its_errors_are():
    query = Median("age")
    release = released(query, Laplace(1))
    shares = query.numbers(release.raw, release.facts)
    record = wire.ReleaseRecord.of(release)
    assert record.answer.stands_for == "other"
    assert np.array_equal(record.answer.numbers, shares)
    assert shares == pytest.approx(release.raw / 6)
    assert record.joint.error == release.error()
    (table,) = release.metadata().tables
    spelled = [line.split(",")[1] for line in table.to_csv().splitlines()[1:]]
    assert [float(text) for text in spelled] == shares.tolist()
    assert "low" not in table.to_csv()
    several = released(Workload([query, Threshold("age", 2)]), Laplace(1))
    first, second = wire.ReleaseRecord.of(several).answer.parts
    assert first.numbers == pytest.approx(several.raw[:6] / 6)
    assert second.numbers.tolist() == [several.value[1]]


def test_a_kind_says_what_a_reader_takes_and_nothing_of_it_is_imported():
    schema = wire.schema(Median, allow=CATALOGUE)
    (choice,) = schema["oneOf"]
    assert choice["properties"]["kind"] == {"const": "acme:median"}
    assert choice["required"] == ["format", "version", "kind", "attribute"]
    for name in ("os.system", "acme.median", "acme_median:Median", "builtins:eval"):
        data = {"format": "dpsdk.wire", "version": 1, "kind": name, "attribute": "age"}
        with pytest.raises(WireError, match="kind of the catalogue"):
            wire.from_json("query", data, allow=CATALOGUE)


@frozen
class Fussy:
    """Raises what it likes."""

    text: str

    def __attrs_post_init__(self):
        if self.text == "stop":
            raise KeyError(self.text)


class Backwards:
    """A field of another author."""

    def write(self, value, path, codebook, /):
        return value[::-1]

    def read(self, plain, path, codebook, /):
        return plain[::-1]

    def schema(self, codebook, /):
        return {"type": "string"}


def test_what_a_strangers_class_raises_is_a_wire_error():
    catalogue = Catalogue([Kind(Fussy, "acme:fussy", {"text": Member(Backwards(), "none")})])
    assert wire.to_json(Fussy("ab"), allow=catalogue)["text"] == "ba"
    envelope = {"format": "dpsdk.wire", "version": 1, "kind": "acme:fussy"}
    assert wire.from_json(Fussy, envelope, allow=catalogue) == Fussy("none")
    with pytest.raises(WireError, match="a KeyError"):
        wire.from_json(Fussy, envelope | {"text": "pots"}, allow=catalogue)
    with pytest.raises(WireError, match=r"\$.text .* a TypeError"):
        wire.from_json(Fussy, envelope | {"text": 3}, allow=catalogue)
    lost = Catalogue([Kind(Fussy, "acme:fussy", {"other": wire.TEXT})])
    with pytest.raises(WireError, match="attribute 'other'"):
        wire.to_json(Fussy("ab"), allow=lost)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Kind(Fussy, "fussy", {}),
        lambda: Kind(Fussy, "mechanism.laplace", {}),
        lambda: Kind(Fussy, "acme:", {}),
        lambda: Kind(Fussy, "acme:a/b", {}),
        lambda: Kind(Fussy, 3, {}),
        lambda: Kind(Fussy("a"), "acme:fussy", {}),
        lambda: Kind(Fussy, "acme:fussy", {"kind": wire.TEXT}),
        lambda: Kind(Fussy, "acme:fussy", {"text": "text"}),
        lambda: Kind(Fussy, "acme:fussy", ["text"]),
        lambda: Kind(Fussy, "acme:fussy", {}, take=3),
        lambda: Kind(Fussy, "acme:fussy", {}, settle=3),
        lambda: CATALOGUE.plus(Kind(Fussy, "acme:median", {})),
        lambda: CATALOGUE.plus(Kind(Median, "acme:other", {})),
        lambda: CATALOGUE.plus(Median),
    ],
)
def test_kinds_that_are_refused(make):
    with pytest.raises(InvalidArgument):
        make()
