import copy
import json
import os
import pickle
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsdk import Binned, Boolean, Categorical, Domain, Integer
from dpsdk.errors import (
    DomainError,
    InvalidArgument,
    TooLarge,
    UnknownAttribute,
    UnknownLabel,
)
from worlds import PEOPLE, repeatable

names = st.text("abcdef", min_size=1, max_size=4)


@st.composite
def attributes(draw, name):
    kind = draw(st.sampled_from(["boolean", "categorical", "integer", "binned"]))
    if kind == "boolean":
        return Boolean(name)
    if kind == "integer":
        low = draw(st.integers(-(10**20), 10**20))
        return Integer(name, low, low + draw(st.integers(0, 10**6)))
    if kind == "binned":
        edges = draw(st.sets(st.integers(-50, 50), min_size=2, max_size=6))
        return Binned(name, sorted(edge / 4 for edge in edges))
    labels = draw(
        st.lists(
            st.text("aé日 ", max_size=3) | st.integers(),
            min_size=1,
            max_size=5,
            unique_by=lambda label: " ".join(str(label).split()),
        )
    )
    return Categorical(name, labels, other=draw(st.sampled_from([None, *labels])))


@st.composite
def domains(draw):
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    return Domain(*(draw(attributes(name)) for name in chosen))


@pytest.mark.thorough
@repeatable
@given(domains(), st.data())
def test_every_cell_has_a_record_that_leads_back_to_it(domain, data):
    cell = data.draw(st.integers(0, domain.size - 1))
    record = domain.record(cell)
    assert tuple(record) == domain.names
    assert domain.index(record) == cell


@repeatable
@given(domains())
def test_json_gives_back_the_same_domain(domain):
    back = Domain.from_json(domain.to_json())
    assert back == domain
    assert (back.names, back.shape, back.size) == (domain.names, domain.shape, domain.size)
    assert hash(back) == hash(domain)
    assert [type(a) for a in back.attributes] == [type(a) for a in domain.attributes]


@repeatable
@given(domains(), st.data())
def test_a_projection_numbers_its_cells_in_the_order_asked(domain, data):
    chosen = data.draw(st.permutations(domain.names))[: data.draw(st.integers(1, 5))]
    part = domain.project(chosen)
    assert part.names == tuple(chosen)
    record = domain.record(data.draw(st.integers(0, domain.size - 1)))
    cell = part.index({name: record[name] for name in chosen})
    expected = 0
    for name in chosen:
        expected = expected * domain[name].size + domain[name].index(record[name])
    assert cell == expected


def test_the_last_attribute_varies_fastest():
    domain = Domain(Integer("a", 0, 1), Integer("b", 0, 2))
    assert [tuple(r.values()) for r in domain.records()] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)
    ]  # fmt: skip


def test_a_universe_of_10_to_the_20_cells_is_counted_and_numbered_exactly():
    domain = Domain(*(Integer(f"a{i}", 0, 99) for i in range(10)))
    assert domain.size == 10**20
    assert isinstance(domain.size, int)
    last = domain.record(10**20 - 1)
    assert last == {f"a{i}": 99 for i in range(10)}
    assert domain.index(last) == 10**20 - 1
    assert domain.index({**last, "a9": 98}) == 10**20 - 2


def test_a_file_gives_back_the_same_domain(tmp_path):
    domain = Domain(Categorical("naïve", ["é", "ß"]), Integer("n", -3, 4))
    domain.save(tmp_path / "domain.json")
    assert Domain.load(tmp_path / "domain.json") == domain
    assert json.loads((tmp_path / "domain.json").read_text("utf-8"))["version"] == 1


def test_a_domain_can_be_copied_and_pickled_since_it_is_public():
    for clone in (copy.copy(PEOPLE), copy.deepcopy(PEOPLE), pickle.loads(pickle.dumps(PEOPLE))):  # noqa: S301
        assert clone == PEOPLE
        assert clone.index(PEOPLE.record(17)) == 17


def written(**changes):
    content = {
        "format": "dpsdk.domain",
        "version": 1,
        "attributes": [{"kind": "boolean", "name": "a"}],
    }
    return json.dumps(content | changes)


def test_the_written_example_is_read():
    assert Domain.from_json(written()) == Domain(Boolean("a"))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "1", "null", "[" * 100_000,
        written(format="other"), written(format=None), written(version=2), written(version="1"),
        written(version=True), written(version=None), written(attributes=None),
        written(attributes=[]), written(attributes={}), written(attributes=[1]),
        written(attributes=[{"kind": "boolean"}]), written(attributes=[{"name": "a"}]),
        written(attributes=[{"kind": "os.system", "name": "a"}]),
        written(attributes=[{"kind": ["boolean"], "name": "a"}]),
        written(attributes=[{"kind": "boolean", "name": " "}]),
        written(attributes=[{"kind": "boolean", "name": "a"}] * 2),
        written(attributes=[{"kind": "integer", "name": "a", "low": 0}]),
        written(attributes=[{"kind": "integer", "name": "a", "low": 0, "high": 1.0}]),
        written(attributes=[{"kind": "integer", "name": "a", "low": 3, "high": 1}]),
        written(attributes=[{"kind": "binned", "name": "a", "edges": [0]}]),
        written(attributes=[{"kind": "binned", "name": "a", "edges": [0, float("nan")]}]),
        written(attributes=[{"kind": "binned", "name": "a", "edges": 7}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": []}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": "abc"}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": 3}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": [[1]]}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": [1], "other": True}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": ["x"], "other": []}]),
        written(attributes=[{"kind": "boolean", "name": "a", "labels": ["x"]}]),
        written(attributes=[{"kind": "boolean", "name": "a", "true": "Y"}]),
        written(attributes=[{"kind": "boolean", "name": "a", "true": [True]}]),
        written(attributes=[{"kind": "boolean", "name": "a", "true": ["0"]}]),
        written(attributes=[{"kind": "integer", "name": "a", "low": 0, "high": 1, "step": 1}]),
        written(attributes=[{"kind": "binned", "name": "a", "edges": [0, 2**53 + 1]}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": ["x"], "othr": "x"}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": ["\ud800"]}]),
        written(attributes=[{"kind": "boolean", "name": "a"}, {"kind": "boolean", "name": "a "}]),
        written().replace('"name": "a"', '"name": "b", "name": "a"'),
        '{"format": "dpsdk.domain", "version": 1, "attributes": '
        '[{"kind": "integer", "name": "a", "low": 0, "high": ' + "9" * 5000 + "}]}",
        written(more=1), written(version=1.0),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": {"x": 1}}]),
        written(attributes=[{"kind": "boolean", "name": "a", "true": {"x": 1}}]),
        written(attributes=[{"kind": "categorical", "name": "a", "labels": ["x"], "other": None}]),
        written().replace('"version": 1', '"version": 1, "version": 1'),
        written(attributes=[{"kind": "integer", "name": "a", "low": 0, "high": 10**399 * 10}]),
    ],
)  # fmt: skip
def test_a_file_that_is_no_domain_of_this_version_is_refused(text):
    with pytest.raises(DomainError):
        Domain.from_json(text)


@pytest.mark.parametrize(
    "declare",
    [
        Domain,
        lambda: Domain("age"),
        lambda: Domain(Boolean("a"), Integer("a", 0, 1)),
        lambda: Boolean(""),
        lambda: Boolean(3),
        lambda: Integer("a", 2, 1),
        lambda: Integer("a", 0.0, 1),
        lambda: Integer("a", False, 1),
        lambda: Integer("a", "0", 1),
        lambda: Categorical("a", []),
        lambda: Categorical("a", "abc"),
        lambda: Categorical("a", 5),
        lambda: Categorical("a", ["x", "x"]),
        lambda: Categorical("a", [1, np.int64(1)]),
        lambda: Categorical("a", [1.5]),
        lambda: Categorical("a", [True]),
        lambda: Categorical("a", [None]),
        lambda: Categorical("a", ["x"], other="y"),
        lambda: Categorical("a", [0, 1], other=2),
        lambda: Integer("a", 0, 1, missing=1),
        lambda: Categorical("a", [0, 1], other=1.0),
        lambda: Categorical("a", [0, 1], other=[1]),
        lambda: Categorical("a", ["\ud800"]),
        lambda: Categorical("a", ["x"], other="\ud800"),
        lambda: Boolean("\ud800"),
        lambda: Boolean("a", true="Y"),
        lambda: Boolean("a", true=[1]),
        lambda: Boolean("a", true=[""]),
        lambda: Boolean("a", true=None),
        lambda: Boolean("a", false=["\udfff"]),
        lambda: Boolean("a", true=["0"]),
        lambda: Boolean("a", true=["false"]),
        lambda: Boolean("a", false=["TRUE"]),
        lambda: Boolean("a", true=["Y"], false=["Y"]),
        lambda: Boolean("a", true=["no "], false=["no"]),
        lambda: Binned("a", [0, 2**53 + 1]),
        lambda: Binned("a", [0.1, np.float32(0.1)]),
        lambda: Binned("a", []),
        lambda: Binned("a", [1]),
        lambda: Binned("a", [1, 1]),
        lambda: Binned("a", [2, 1]),
        lambda: Binned("a", [0, float("inf")]),
        lambda: Binned("a", [0, float("nan")]),
        lambda: Binned("a", [0, 10**400]),
        lambda: Binned("a", [0, True]),
        lambda: Binned("a", ["0", "1"]),
        lambda: Binned("a", "01"),
        lambda: Binned("a", 5),
    ],
)
def test_a_bad_declaration_names_its_parameter(declare):
    with pytest.raises(InvalidArgument) as caught:
        declare()
    assert caught.value.parameter
    assert caught.value.expected in str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "label"),
    [
        (Boolean("a"), 1), (Boolean("a"), 0), (Boolean("a"), "True"), (Boolean("a"), None),
        (Integer("a", 0, 3), True), (Integer("a", 0, 3), 1.0), (Integer("a", 0, 3), "1"),
        (Integer("a", 0, 3), 4), (Integer("a", 0, 3), -1), (Integer("a", 0, 3), np.int64(4)),
        (Categorical("a", [0, 1]), True), (Categorical("a", [0, 1]), "1"),
        (Categorical("a", [0, 1]), 1.0), (Categorical("a", ["x"]), "y"),
        (Categorical("a", ["x"]), ["x"]), (Categorical("a", ["x"]), None),
        (Categorical("a", ["x"], other="x"), "y"),
        (Binned("a", [0, 1, 2]), 0.5), (Binned("a", [0, 1, 2]), (0, 2)),
        (Binned("a", [0, 1, 2]), (0, 1, 2)), (Binned("a", [0, 1, 2]), (2, 3)),
        (Binned("a", [0, 1, 2]), ("0", "1")), (Binned("a", [0, 1, 2]), (float("nan"), 1)),
        (Binned("a", [0, 1, 2]), [0, 1]), (Binned("a", [0, 1, 2]), (None, 1)),
    ],
)  # fmt: skip
def test_an_unknown_label_is_refused_by_the_attributes_name(attribute, label):
    with pytest.raises(UnknownLabel) as caught:
        attribute.index(label)
    assert caught.value.attribute == "a"
    assert isinstance(caught.value, KeyError | ValueError)


def test_labels_of_huge_attributes_are_not_listed():
    assert len(Integer("x", 1, 2**10).labels) == 2**10
    with pytest.raises(TooLarge, match="check `size` before you list `labels`"):
        _ = Integer("x", 0, 2**24).labels


def test_numpy_scalars_are_labels():
    assert Integer("a", 5, 9).index(np.uint8(7)) == 2
    assert Categorical("a", [3, 1]).index(np.int64(1)) == 1
    assert Categorical("a", ["x", "y"]).index(np.str_("y")) == 1
    assert Boolean("a").index(np.True_) == 1
    assert Binned("a", [0, 1, 2]).index((np.float64(1), np.int64(2))) == 1


def test_numpy_scalars_are_declared_as_plain_values():
    domain = Domain(
        Integer("a", np.int64(0), np.uint8(3)),
        Categorical("b", np.array([1, 2]), other=np.int64(2)),
        Binned("c", np.linspace(0, 1, 3)),
    )
    assert Domain.from_json(domain.to_json()) == domain
    assert type(domain["b"].other) is int
    assert type(domain.record(0)["a"]) is int
    assert domain.index(domain.record(np.int64(5))) == 5


def test_unknown_attributes_are_refused_with_the_known_ones():
    for ask in (
        lambda: PEOPLE["ages"],
        lambda: PEOPLE.position(None),
        lambda: PEOPLE.position(["age"]),
        lambda: PEOPLE.project(["age", "ages"]),
        lambda: PEOPLE.index({**PEOPLE.record(0), "ages": 3}),
    ):
        with pytest.raises(UnknownAttribute) as caught:
            ask()
        assert caught.value.known == PEOPLE.names
    assert "age" in PEOPLE
    assert "ages" not in PEOPLE


def test_a_record_must_name_every_attribute():
    with pytest.raises(DomainError, match="'member'"):
        PEOPLE.index({"age": 17, "sex": "Male", "hours": (0, 10)})


@pytest.mark.parametrize("index", [-1, PEOPLE.size, 0.0, True, "1", None])
def test_a_record_is_asked_by_a_cell_number(index):
    with pytest.raises(InvalidArgument, match="index"):
        PEOPLE.record(index)


def test_bins_say_which_edge_they_include():
    bins = Binned("a", [0, 0.5, 2])
    assert [bins.text(i) for i in range(bins.size)] == ["[0, 0.5)", "[0.5, 2]"]
    assert bins.labels == ((0.0, 0.5), (0.5, 2.0))
    assert bins.bounds == (0.0, 2.0)


ALIKE = [
    ("é", unicodedata.normalize("NFD", "é")),
    ("a b", "a  b"),
    ("a b", "a\u00a0b"),
    ("a b", "a\u2003b"),
    ("ab", "a\u200bb"),
    ("ab", "ab\ufeff"),
    ("ab", "a\u00adb"),
    ("a", " a"),
    ("a", "a\t"),
    ("a", "a\x00"),
    ("", " "),
    ("1", 1),
    ("-3", -3),
    ("\u00c5", "\u212b"),
    ("가", unicodedata.normalize("NFD", "가")),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_labels_that_look_alike_are_refused(one, other):
    for labels in ([one, other], ["x", other, "y", one]):
        with pytest.raises(InvalidArgument, match="look different") as caught:
            Categorical("a", labels)
        assert caught.value.got.isascii()
        assert caught.value.parameter == "labels"
    with pytest.raises(DomainError, match="look different"):
        Domain.from_json(
            written(attributes=[{"kind": "categorical", "name": "a", "labels": [one, other]}])
        )
    if one.strip() and isinstance(other, str):
        with pytest.raises(InvalidArgument, match="look different"):
            Domain(Boolean(one), Boolean(other))


def test_labels_that_look_different_are_accepted():
    words = "a A á à ﬁ fi 2 ² a-b 🏳️‍🌈 🏳️🌈 می‌خواهم میخواهم 01"
    labels = [*words.split(" "), "a b", 1]
    assert Categorical("a", labels).size == len(labels)


def test_a_label_is_found_in_either_normal_form():
    for declared in ("é", unicodedata.normalize("NFD", "é")):
        attribute = Categorical("a", ["x", declared], other=declared)
        for asked in ("é", unicodedata.normalize("NFD", "é")):
            assert attribute.index(asked) == 1
        assert attribute.label(1) == declared
        assert Domain.from_json(Domain(attribute).to_json()) == Domain(attribute)


class Text(str):
    __slots__ = ()


class OddFloat(float):
    def __float__(self):
        return 7.0


def test_what_is_declared_is_kept_as_plain_values():
    attribute = Categorical(Text("a"), [Text("x"), np.str_("y")], other=np.str_("y"))
    assert [type(label) for label in (*attribute.values, attribute.other)] == [str] * 3
    assert attribute.index("x") == 0
    assert type(Boolean("a", true=[Text("Y")]).true[0]) is str
    bins = Binned("a", [OddFloat(1), np.float64(2), np.float32(2.7), np.int8(3)])
    assert bins.edges == (1.0, 2.0, 2.7, 3.0)
    assert {type(edge) for edge in bins.edges} == {float}


def test_a_boolean_lists_what_it_reads():
    assert Boolean("a").readings == {
        "False": False, "false": False, "FALSE": False, "0": False,
        "True": True, "true": True, "TRUE": True, "1": True,
    }  # fmt: skip
    told = Boolean("a", true=["Y", "yes"], false=["N"])
    assert {"Y": True, "yes": True, "N": False}.items() <= told.readings.items()
    assert not {"0", "1", "y"} & set(told.readings)
    swapped = Boolean("a", true=["0"], false=["1"])
    assert swapped.readings["0"] is True
    assert told != Boolean("a")
    for attribute in (told, swapped, Boolean("a"), Boolean("a", true=[], false=[])):
        domain = Domain(attribute)
        assert Domain.from_json(domain.to_json()) == domain
        assert eval(repr(attribute)) == attribute  # noqa: S307


MARKED = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-8"]


@pytest.mark.parametrize("encoding", MARKED)
def test_a_domain_file_may_begin_with_a_byte_order_mark(encoding, tmp_path):
    domain = Domain(Categorical("naïve", ["é", "ß"]))
    mark = "\ufeff" if encoding.endswith("e") else ""
    (tmp_path / "d.json").write_bytes((mark + domain.to_json()).encode(encoding))
    assert Domain.load(tmp_path / "d.json") == domain
    assert Domain.from_json("\ufeff" + domain.to_json()) == domain


@pytest.mark.parametrize("content", [b"\xff", b"\xff\xfe{", b"{\xe9}", b"", b"\xef\xbb\xbf"])
def test_a_domain_file_that_is_no_text_is_refused(content, tmp_path):
    (tmp_path / "d.json").write_bytes(content)
    with pytest.raises(DomainError):
        Domain.load(tmp_path / "d.json")


def test_only_numeric_attributes_have_bounds():
    assert Integer("a", -2, 3).bounds == (-2.0, 3.0)
    for attribute in (Boolean("a"), Categorical("a", [1, 2])):
        with pytest.raises(DomainError, match="not numeric"):
            attribute.bounds  # noqa: B018


def test_domains_are_equal_by_their_attributes_in_order():
    assert Domain(Boolean("a"), Boolean("b")) != Domain(Boolean("b"), Boolean("a"))
    assert Domain(Integer("a", 0, 1)) != Domain(Boolean("a"))
    assert eval(repr(PEOPLE)) == PEOPLE  # noqa: S307


def test_a_save_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "domain.json"
    PEOPLE.save(path)
    before = path.read_bytes()

    def full(number):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "fdopen"):
        with monkeypatch.context() as broken:
            broken.setattr("os." + name, lambda number, *_: full(number))
            with pytest.raises(OSError, match="No space"):
                Domain(Boolean("a")).save(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["domain.json"]
    with pytest.raises(OSError, match="No such file"):
        PEOPLE.save(tmp_path / "nowhere" / "domain.json")


def test_a_save_keeps_links_and_permissions(tmp_path):
    path, link = tmp_path / "domain.json", tmp_path / "link.json"
    PEOPLE.save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    (tmp_path / f".dpsdk-{os.getpid()}-0.part").write_text("another's")
    Domain(Boolean("a")).save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert Domain.load(path) == Domain(Boolean("a"))
    assert (tmp_path / f".dpsdk-{os.getpid()}-0.part").read_text() == "another's"


def test_what_is_no_plain_file_is_written_to():
    Domain(Boolean("a")).save(os.devnull)


def test_a_domain_iterates_over_its_attributes_and_has_as_many():
    domain = Domain(Integer("age", 0, 3), Categorical("sex", ["F", "M"]))
    assert len(domain) == 2
    assert list(domain) == list(domain.attributes)
    assert Domain(*domain) == domain
    assert all(attribute in domain and attribute.name in domain for attribute in domain)
    assert all(domain[attribute.name] is attribute for attribute in domain)
    assert Integer("age", 0, 4) not in domain
    assert "income" not in domain


def test_no_two_bins_have_the_same_text():
    bins = Binned("a", [0, 0.1, 1234567, 1234568.5, 1e7, 123456789012])
    assert [bins.text(place) for place in range(bins.size)] == [
        "[0, 0.1)",
        "[0.1, 1234567)",
        "[1234567, 1234568.5)",
        "[1234568.5, 1e+07)",
        "[1e+07, 123456789012]",
    ]
