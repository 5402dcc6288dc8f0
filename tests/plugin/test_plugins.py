"""Plugins are found by entry points, loaded by name alone, and harm nobody when they are broken."""

import importlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import get_overloads

import numpy as np
import pytest

import dpsdk
from dpsdk import Budget, Domain, Integer, PrivateData, Session, plugins, wire
from dpsdk.cli import main
from dpsdk.errors import DpsdkError, InvalidArgument, PluginError, UnknownName, WireError
from dpsdk.forms import Ball
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import Laplace, Matrix, OneShot
from dpsdk.plugins import Plugin
from dpsdk.plugins.names import fault
from dpsdk.queries import Marginal, Query, Threshold, Workload
from dpsdk.testing import seeded
from installing import PLUGIN, acme, written

sys.path.insert(0, str(PLUGIN))

from acme_dp.median import Median, MedianAnswer
from acme_dp.records import NoisyRecords
from acme_dp.repeated import Repeated

pytestmark = pytest.mark.thorough

MECHANISMS, QUERIES, KINDS = "dpsdk.mechanisms", "dpsdk.queries", "dpsdk.kinds"
DOMAIN = Domain(Integer("age", 17, 90))
AGES = np.random.default_rng(1).integers(17, 91, size=5000)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path; what was imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    importlib.invalidate_caches()


def test_what_is_listed_is_what_the_project_says_and_is_not_imported(site):
    acme(site)
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text("utf-8"))["project"]
    said = {
        Plugin("acme-dp", project["version"], group, f"acme-dp:{name}", place.replace(":", "."))
        for group, offers in project["entry-points"].items()
        for name, place in offers.items()
    }
    assert set(plugins.listed()) == said
    program = (
        "import sys, json\nfrom dpsdk.cli import main\nassert main(['plugins']) == 0\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path += {[str(site), str(PLUGIN)]!r}\n{program}"],
        check=True, capture_output=True, text=True, cwd=PLUGIN.parents[1],
    )  # fmt: skip
    assert "acme_dp.repeated.Repeated" in done.stdout
    assert not [n for n in json.loads(done.stdout.splitlines()[-1]) if n.startswith("acme")]


def test_a_plugin_is_made_by_name_and_answers(site):
    acme(site)
    using = dpsdk.mechanism("acme-dp:repeated", epsilon="0.3")
    assert using == Repeated(Fraction(3, 10))
    assert isinstance(using, OneShot)
    query = dpsdk.query("acme-dp:middle", attribute="age")
    assert query == Median("age")
    data = PrivateData.from_columns({"age": AGES}, DOMAIN)
    session = Session(data, Budget(epsilon=1), noise=seeded(1))
    answer = session.answer(query, using=using)
    assert isinstance(answer, MedianAnswer)
    assert session.spent.epsilon == Fraction(3, 10)
    channel = session.open(dpsdk.mechanism("acme-dp:noisy-records", epsilon="0.5"))
    assert isinstance(channel.answer(Threshold("age", 40)), float)


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("laplace", {"epsilon": "0.1"}, Laplace(epsilon="0.1")),
        (
            "matrix",
            {"workload": Workload([Marginal("age")]), "epsilon": 1},
            Matrix(Workload([Marginal("age")]), epsilon=1),
        ),
        ("threshold", {"attribute": "age", "threshold": 40}, Threshold("age", 40)),
        ("marginal", {"attributes": ["a", "b"]}, Marginal("a", "b")),
        ("marginal", {"attributes": "age", "normalized": False}, Marginal("age", normalized=False)),
        (
            "marginal",
            {"attributes": ["a"], "where": {"b": "x"}},
            Marginal("a", where={"b": "x"}),
        ),
        ("workload", {"queries": [Threshold("age", 40)]}, Workload([Threshold("age", 40)])),
    ],
)
def test_what_is_built_in_is_made_by_its_name_in_written_forms(name, given, made):
    call = dpsdk.query if isinstance(made, Query) else dpsdk.mechanism
    assert call(name, **given) == made
    other = dpsdk.mechanism if isinstance(made, Query) else dpsdk.query
    with pytest.raises(UnknownName):
        other(name, **given)


def test_every_built_in_name_is_known_and_says_what_it_misses():
    for kind in wire.Catalogue.shipped().only("mechanism", "query").kinds:
        what, _, name = kind.partition(".")
        call = dpsdk.mechanism if what == "mechanism" else dpsdk.query
        with pytest.raises(InvalidArgument) as caught:
            call(name, colour="red")
        assert caught.value.parameter == "colour"
        with pytest.raises(InvalidArgument) as caught:
            call(name, _beta=0.5)
        assert caught.value.parameter == "_beta"
        if name not in ("count", "count-persons", "private-minimizer", "unmatched"):
            with pytest.raises(InvalidArgument):
                call(name)


def test_names_that_nothing_has_are_typed_errors_that_list_near_ones(site):
    acme(site)
    cases = [
        (dpsdk.mechanism, "laplce", "laplace"),
        (dpsdk.mechanism, "Laplace", "laplace"),
        (dpsdk.mechanism, "noisy_histogram", "noisy-histogram"),
        (dpsdk.mechanism, "acme_dp:repeated", "acme-dp:repeated"),
        (dpsdk.mechanism, "repeated", "acme-dp:repeated"),
        (dpsdk.mechanism, "acme-dp:repeatd", "acme-dp:repeated"),
        (dpsdk.query, "acme-dp:Middle", "acme-dp:middle"),
        (dpsdk.query, "treshold", "threshold"),
        (plugins.catalogue, "acme-d", "acme-dp"),
    ]
    for call, name, near in cases:
        with pytest.raises(UnknownName) as caught:
            call(name)
        assert near in caught.value.near, name
        assert near in str(caught.value)
    for name in ("acme-dp:middle", "acme-dp", "acme-dp:", ":repeated", "", "a\nb", "x" * 9999):
        with pytest.raises(UnknownName) as caught:
            dpsdk.mechanism(name)
        assert len(str(caught.value)) < 400
        assert "\n" not in str(caught.value)
    for name in (None, 3, b"laplace", Laplace):
        with pytest.raises(InvalidArgument, match="name must be"):
            dpsdk.mechanism(name)


def test_arguments_are_refused_by_the_name_of_the_parameter(site):
    acme(site)
    for given, parameter in [
        ({}, "epsilon"),
        ({"epsilon": 1, "time": 3}, "time"),
        ({"epsilon": 1, "times": 2}, "times"),
        ({"epsilon": "much"}, "epsilon"),
        ({"epsilon": 1, "_noise": 3}, "_noise"),
        ({"epsilon": 1, "a\nb": 3}, "'a\\nb'"),
    ]:
        with pytest.raises(InvalidArgument) as caught:
            dpsdk.mechanism("acme-dp:repeated", **given)
        assert caught.value.parameter == parameter
    for given, parameter in [
        ({"attribute": "age"}, "threshold"),
        ({"attribute": 3, "threshold": 40}, "attribute"),
        ({"attribute": "age", "threshold": 40, "were": {}}, "were"),
    ]:
        with pytest.raises(InvalidArgument) as caught:
            dpsdk.query("threshold", **given)
        assert caught.value.parameter == parameter


GOOD = """
from dpsdk.mechanisms import OneShot
class Good(OneShot):
    def quote(self, form, terms, /): raise NotImplementedError
    def open(self, kernel, /): raise NotImplementedError
"""

BROKEN = {
    "raises": "raise RuntimeError('no\\nsuch thing')",
    "raises what cannot be told": "class Mute(Exception):\n    def __str__(self): raise OSError\n"
    "raise Mute",
    "ends the program": "import sys\nsys.exit(0)",
    "raises what is no Exception": "class Odd(BaseException): pass\nraise Odd",
    "raises an error of ours": "from dpsdk.errors import NoBound\nraise NoBound('a')",
    "raises that of another plugin": "from dpsdk.errors import PluginError\n"
    "raise PluginError('other', 'other:x', 'y')",
    "warns": "import warnings\nwarnings.warn('old', DeprecationWarning)",
    "recurses": "def f(): f()\nf()",
    "imports what is not there": "import acme_that_nobody_has",
    "is no Python": "class (",
    "has a null byte": "x = '\\0'\0",
    "has nothing of the name": "",
    "imports itself by name": "import dpsdk\ndpsdk.mechanism('acme:broken')",
    "answers every name by an error": "def __getattr__(name): raise OSError(name)",
    "a function": "def Broken(**given): return None",
    "a number": "Broken = 3",
    "a module": "import os as Broken",
    "an instance": f"{GOOD}\nBroken = Good()",
    "another class": "class Broken: pass",
    "a query": "from dpsdk.queries import Median\nclass Broken(Median): pass",
    "registered as one": "from dpsdk.mechanisms import OneShot\n@OneShot.register\n"
    "class Broken:\n    def quote(self, form, terms, /): ...\n    def open(self, kernel, /): ...",
    "the base itself": "from dpsdk.mechanisms import Mechanism as Broken",
    "a built-in class": "from dpsdk.mechanisms import Laplace as Broken",
    "abstract": "from dpsdk.mechanisms import OneShot\nclass Broken(OneShot): pass",
    "a class without a signature": f"{GOOD}\nclass Broken(Good):\n    __signature__ = 3",
    "a class that cannot be made": f"{GOOD}\nclass Broken(Good):\n"
    "    def __init__(self): raise ZeroDivisionError('of what it was handed')",
    "a class that ends the program": f"{GOOD}\nclass Broken(Good):\n"
    "    def __init__(self): raise SystemExit",
    "a class that makes something else": f"{GOOD}\nclass Broken(Good):\n"
    "    def __new__(cls): return 3",
}  # fmt: skip


REASONS = {
    "raises": "cannot be imported: it raised a RuntimeError: no\\nsuch thing",
    "has nothing of the name": "it raised an AttributeError: module 'acme_broken' has no attribute",
    "answers every name by an error": "cannot be imported: it raised an OSError: Broken",
    "raises what cannot be told": "cannot be imported: it raised a Mute",
    "ends the program": "cannot be imported: it raised a SystemExit",
    "a function": "is no class",
    "registered as one": "is no class that extends Mechanism",
    "the base itself": "is no class that extends Mechanism",
    "a built-in class": "is a class of dpsdk itself",
    "abstract": "lacks methods of a Mechanism",
    "a class that cannot be made": "cannot be made: it raised a ZeroDivisionError",
    "a class that makes something else": "makes something else than a mechanism",
}

PICKY = """
class Broken(Good):
    def __init__(self, *, name, **more):
        raise InvalidArgument('name', 'x', repr(more))
"""


def broken_and_good(site: Path, source: str) -> None:
    places = {"broken": "acme_broken:Broken", "sound": "acme_good:Good"}
    written(site, "acme", {MECHANISMS: places}, acme_broken=source, acme_good=GOOD)
    written(site, "other", {MECHANISMS: {"sound": "acme_good:Good"}})


@pytest.mark.parametrize("how", BROKEN)
def test_what_a_broken_plugin_does_is_a_typed_error_that_names_it_and_harms_no_other(site, how):
    broken_and_good(site, BROKEN[how])
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            dpsdk.mechanism("acme:broken")
        assert caught.value.distribution == "acme"
        assert caught.value.name == "acme:broken"
        assert str(caught.value).startswith("acme:broken, of the distribution acme, ")
        assert REASONS.get(how, "") in caught.value.reason
        assert "handed" not in str(caught.value)
    assert len([one for one in plugins.listed() if not one.refused]) == 3
    for name in ("acme:sound", "other:sound"):
        assert type(dpsdk.mechanism(name)).__name__ == "Good"
    assert dpsdk.mechanism("laplace", epsilon=1) == Laplace(epsilon=1)


def test_an_interrupt_while_a_plugin_is_imported_is_an_interrupt(site):
    broken_and_good(site, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        dpsdk.mechanism("acme:broken")


def test_what_a_constructor_says_by_errors_of_dpsdk_reaches_the_caller(site):
    source = f"{GOOD}\nfrom dpsdk.errors import InvalidArgument\n{PICKY}"
    broken_and_good(site, source)
    with pytest.raises(InvalidArgument, match=r"name must be x; got \{'any': 1\}"):
        dpsdk.mechanism("acme:broken", name=3, any=1)
    with pytest.raises(InvalidArgument, match="_any must be a parameter of acme:broken"):
        dpsdk.mechanism("acme:broken", name=3, _any=1)
    with pytest.raises(InvalidArgument, match="name must be given to acme:broken; got nothing"):
        dpsdk.mechanism("acme:broken", any=1)


def test_a_plugin_of_the_other_group_is_not_taken_for_one(site):
    acme(site)
    with pytest.raises(UnknownName):
        dpsdk.query("acme-dp:repeated", epsilon=1)
    with pytest.raises(UnknownName):
        dpsdk.mechanism("acme-dp:middle", attribute="age")


@pytest.mark.parametrize(
    ("entries", "metadata"),
    [
        ("[dpsdk.mechanisms]\nno equals sign\n", None),
        (b"[dpsdk.mechanisms]\nmine = acme_a:A\n\xff\xfe", None),
        ("[dpsdk.mechanisms]\nmine = acme_a:A\n", ""),
        ("[dpsdk.mechanisms]\nmine = acme_a:A\n", "Name\n\nName: acme\n"),
        ("[dpsdk.mechanisms]\nmine = acme_a:A\n", b"Name: \xff\xfe\n"),
        ("[dpsdk.mechanisms]\nmine = acme_a:A\n", None),
        ("[dpsdk.mechanisms\nmine = acme_a:A\n", None),
        ("mine = acme_a:A\n", None),
        ("[dpsdk.mechanisms]\n= acme_a:A\nmine =\n", None),
    ],
)
def test_damaged_metadata_harm_no_other_distribution(site, entries, metadata):
    acme(site)
    info = written(site, "acme", "", acme_a="raise AssertionError")
    for name, text in (("entry_points.txt", entries), ("METADATA", metadata)):
        if text is not None:
            data = text if isinstance(text, bytes) else text.encode()
            (info / name).write_bytes(data)
    sound = [one for one in plugins.listed() if not one.refused]
    assert len([one for one in sound if one.distribution == "acme-dp"]) == 6
    assert dpsdk.mechanism("acme-dp:repeated", epsilon=1) == Repeated(Fraction(1))
    with pytest.raises(DpsdkError):
        dpsdk.mechanism("acme:mine")
    assert main(["plugins"]) == 0


def test_a_damaged_distribution_hides_the_sound_one_of_its_name_and_is_told(site):
    for version in ("1.0", "2.0"):
        at = site / version
        sys.path.append(str(at))
        info = written(at, "acme", {MECHANISMS: {"mine": "acme_a:A"}}, version=version)
        if version == "1.0":
            (info / "METADATA").write_bytes(b"Name: acme\nSummary: \xff\n")
            (info / "entry_points.txt").write_text("[dpsdk.mechanisms]\nno equals sign\n")
    reasons = [one.refused for one in plugins.listed() if one.group == MECHANISMS]
    assert len(reasons) == 2
    assert all(reasons)
    assert "cannot be read" in reasons[0] or "no valid one" in reasons[0]


def test_metadata_that_are_gone_are_no_plugin(site):
    info = written(site, "acme", {MECHANISMS: {"mine": "acme_a:A"}})
    (info / "METADATA").unlink()
    assert all(one.refused for one in plugins.listed())
    with pytest.raises(UnknownName):
        dpsdk.mechanism("acme:mine")


class Faulty:
    """A finder of distributions that finds none."""

    def find_spec(self, name, path=None, target=None):
        return None

    def find_distributions(self, context=None):
        raise OSError("the network")


def test_a_faulty_finder_of_distributions_leaves_built_in_names_and_typed_errors(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Faulty(), *sys.meta_path])
    assert dpsdk.mechanism("laplace", epsilon=1) == Laplace(epsilon=1)
    for name in ("laplce", "acme:mine"):
        with pytest.raises(UnknownName):
            dpsdk.mechanism(name)
    with pytest.raises(UnknownName):
        plugins.catalogue("acme")


ACME = ("acme-dp:middle", "acme-dp:noisy-records", "acme-dp:repeated")


def test_kinds_are_read_where_their_distribution_was_named(site):
    acme(site)
    assert plugins.catalogue().kinds == wire.Catalogue.shipped().kinds
    for spelling in ("acme-dp", "Acme_DP", "acme.dp"):
        allowed = plugins.catalogue(spelling, "acme-dp")
        assert sorted(set(allowed.kinds) - set(wire.Catalogue.shipped().kinds)) == sorted(ACME)
    for value in (Repeated(Fraction(1, 3), 5), NoisyRecords(Fraction(1)), Median("age")):
        text = wire.dumps(value, allow=allowed)
        assert json.loads(text)["kind"] in ACME
        assert wire.loads(type(value), text, allow=allowed) == value
        with pytest.raises(WireError):
            wire.loads(type(value), text)
    assert dpsdk.mechanism("acme-dp:repeated", epsilon=1, times=3) == wire.loads(
        "mechanism",
        '{"format": "dpsdk.wire", "version": 1, "kind": "acme-dp:repeated", "epsilon": "1"}',
        allow=allowed,
    )


def test_no_text_has_a_plugin_imported(site):
    written(site, "acme", {KINDS: {"mine": "acme_a:K"}}, acme_a="raise AssertionError")
    acme(site)
    for kind in ("acme:mine", "acme_a:K", "acme_a.K", "mine"):
        for allowed in (wire.Catalogue.shipped(), plugins.catalogue("acme-dp")):
            text = json.dumps({"format": "dpsdk.wire", "version": 1, "kind": kind})
            with pytest.raises(WireError, match="kind of the catalogue"):
                wire.loads("mechanism", text, allow=allowed)
    assert "acme_a" not in sys.modules
    with pytest.raises(PluginError, match="acme:mine"):
        plugins.catalogue("acme-dp", "acme")


MADE = f"{GOOD}\nfrom dpsdk.wire import Kind\n"

REFUSED = {
    "another distribution's": "K = Kind(Good, 'other:mine', {})",
    "another name": "K = Kind(Good, 'acme:other', {})",
    "another spelling": "K = Kind(Good, 'Acme:mine', {})",
    "no kind": "K = Good",
    "a class below Kind": "class Below(Kind): pass\nK = Below(Good, 'acme:mine', {})",
    "a class of dpsdk with a kind": "from dpsdk.mechanisms import Laplace\n"
    "K = Kind(Laplace, 'acme:mine', {})",
    "a class of dpsdk without one": "from dpsdk.release import Cost\n"
    "K = Kind(Cost, 'acme:mine', {})",
    "a name of ours": "from dpsdk.release import Cost\nK = Kind(Cost, 'mechanism.mine', {})",
    "another class than the mechanism": "class Other(Good): pass\nK = Kind(Other, 'acme:mine', {})",
    "raises": "raise OSError",
    "a text that is another": "class Text(str):\n    def __eq__(self, other): return True\n"
    "    def __ne__(self, other): return False\n"
    "    __hash__ = str.__hash__\nK = Kind(Good, Text('other:mine'), {})",
}  # fmt: skip


@pytest.mark.parametrize("how", REFUSED)
def test_kinds_that_are_refused_are_typed_errors(site, how):
    entries = {KINDS: {"mine": "acme_k:K"}}
    if "mechanism" in how:
        entries[MECHANISMS] = {"mine": "acme_k:Good"}
    written(site, "acme", entries, acme_k=MADE + REFUSED[how])
    acme(site)
    with pytest.raises(PluginError) as caught:
        plugins.catalogue("acme")
    assert caught.value.distribution == "acme"
    assert plugins.catalogue("acme-dp").kinds


def test_one_class_has_one_kind(site):
    entries = {KINDS: {"mine": "acme_k:K", "more": "acme_k:M"}}
    source = f"{MADE}K = Kind(Good, 'acme:mine', {{}})\nM = Kind(Good, 'acme:more', {{}})"
    written(site, "acme", entries, acme_k=source)
    with pytest.raises(PluginError, match=r"acme:more.* has another kind"):
        plugins.catalogue("acme")


@pytest.mark.parametrize("name", ["dpsdk", "DPSDK", "nobody", "", "acme-dp:repeated", "numpy"])
def test_a_distribution_without_kinds_is_a_typed_error(site, name):
    acme(site)
    with pytest.raises(UnknownName, match="no distribution with kinds is called"):
        plugins.catalogue(name)
    with pytest.raises(InvalidArgument):
        plugins.catalogue(["acme-dp"])


def test_the_command_lists_what_there_is_and_what_is_refused(site, capsys):
    assert main(["plugins"]) == 0
    assert capsys.readouterr().out.startswith("No installed distribution offers anything")
    acme(site)
    written(
        site, "evil", {MECHANISMS: [("laplace", "evil:A"), ("a\x1b[2Jb", "evil:B\x07")]},
        version="2\x1b[31m", evil="raise AssertionError",
    )  # fmt: skip
    assert main(["plugins"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        "acme-dp 1.0",
        "  dpsdk.kinds       acme-dp:middle         acme_dp.kinds.MIDDLE",
        "  dpsdk.kinds       acme-dp:noisy-records  acme_dp.kinds.NOISY_RECORDS",
        "  dpsdk.kinds       acme-dp:repeated       acme_dp.kinds.REPEATED",
        "  dpsdk.mechanisms  acme-dp:noisy-records  acme_dp.records.NoisyRecords",
        "  dpsdk.mechanisms  acme-dp:repeated       acme_dp.repeated.Repeated",
        "  dpsdk.queries     acme-dp:middle         acme_dp.median.Median",
        "",
        "evil 2\\x1b[31m",
        "  dpsdk.mechanisms  evil:a\\x1b[2Jb  evil:B\\x07",
        f"    refused: it {fault('A')}",
        "  dpsdk.mechanisms  evil:laplace    evil.A",
        "    refused: it has the name of a built-in mechanism or query",
        "",
        "8 in all, 2 refused; nothing was imported",
    ]
    assert "evil" not in sys.modules


@pytest.mark.parametrize("call", [plugins.mechanism, plugins.query])
def test_type_checkers_know_the_class_of_every_built_in_name(call):
    shipped = wire.Catalogue.shipped().only(call.__name__)
    kinds = [shipped.kind_named(name, "$") for name in shipped.kinds]
    told = {}
    for overload in get_overloads(call):
        name = overload.__annotations__["name"].removeprefix("Literal['").removesuffix("']")
        told[name] = overload.__annotations__["return"].partition("[")[0]
    assert told.pop("str") == call.__name__.title()
    assert told == {kind.name.partition(".")[2]: kind.made.__name__ for kind in kinds}


ODD = [
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**400, "", "x", "0.1", b"x", 1j, int,
    [], [1], [[1]], [None], (), {}, {"a": 1}, {1: 2}, object(), np.zeros(3), np.array([1, 2]),
    Threshold("a", 1), [Threshold("a", 1)],
]  # fmt: skip
SOUND = {
    "epsilon": 1, "attribute": "a", "workload": Workload([Threshold("a", 1)]), "tops": 1,
    "updates": 3, "query": Threshold("a", 1), "level": 0.5, "conditions": {"a": 1},
    "loss": LogisticLoss(), "features": ["a"], "label": "b", "over": Ball(1), "low": 0, "high": 1,
    "weights": [0.5], "attributes": ["a"], "q": 0.5, "lower": [[0]], "upper": [[1]],
    "threshold": 1, "queries": [Threshold("a", 1)],
}  # fmt: skip


def test_no_argument_of_a_file_makes_a_built_in_constructor_stray():
    """Each parameter of each class is given what it cannot be, and the others what they are."""
    shipped = wire.Catalogue.shipped().only("mechanism", "query")
    made = refused = 0
    for kind in map(shipped.kind_named, shipped.kinds, shipped.kinds):
        what, _, name = kind.name.partition(".")
        call = dpsdk.mechanism if what == "mechanism" else dpsdk.query
        known = signature(kind.take or kind.made).parameters
        needed = [key for key, one in known.items() if one.default is one.empty]
        given = {key: SOUND[key] for key in needed if key in SOUND}
        for key in known:
            for odd in ODD:
                try:
                    call(name, **{**given, key: odd})
                    made += 1
                except DpsdkError:
                    refused += 1
    assert made > 100
    assert refused > 1000
