"""No plugin can take a built-in name, or that of another distribution, in any spelling."""

from __future__ import annotations

import importlib
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsdk import plugins
from dpsdk.errors import PluginError, UnknownName
from dpsdk.mechanisms import Laplace, NoisyHistogram
from dpsdk.plugins.names import fault, line, near, normalised, ours, skeleton
from dpsdk.wire import Catalogue
from installing import written

pytestmark = pytest.mark.thorough

CLASS = "acme_spelling:Mine"
MECHANISMS, QUERIES, KINDS = "dpsdk.mechanisms", "dpsdk.queries", "dpsdk.kinds"
BUILT_IN = sorted(
    name.partition(".")[2]
    for name in Catalogue.shipped().kinds
    if name.startswith(("mechanism.", "query."))
)


SOUND = """
from dpsdk.mechanisms import OneShot
from dpsdk.wire import Kind
class Mine(OneShot):
    def quote(self, form, terms, /): raise NotImplementedError
    def open(self, kernel, /): raise NotImplementedError
A = B = Mine
K = Kind(Mine, "acme:mine", {})
"""
"""A module that has all that a plugin needs, so that nothing but its refusal keeps it out."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, at its end, as those of installed distributions are."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    modules = ("acme_spelling", "acme_first", "acme_second", "acme_a", "acme_b")
    for module in modules:
        (tmp_path / f"{module}.py").write_text(SOUND)
    importlib.invalidate_caches()
    yield tmp_path
    for module in modules:
        sys.modules.pop(module, None)
    importlib.invalidate_caches()


def test_what_is_refused_below_would_work_under_a_sound_name(site):
    entries = {MECHANISMS: {"mine": CLASS}, KINDS: {"mine": "acme_spelling:K"}}
    written(site, "acme", entries)
    assert type(plugins.mechanism("acme:mine")).__name__ == "Mine"
    assert "acme:mine" in plugins.catalogue("acme").kinds
    assert "acme_spelling" in sys.modules


def wide(name: str) -> str:
    """The same in letters of full width, which compatibility makes the narrow ones."""
    return "".join(chr(ord(one) + 0xFEE0) if one.isalnum() else one for one in name)


DISGUISES = {
    "as it is": lambda name: name,
    "upper case": str.upper,
    "title case": str.title,
    "one capital": lambda name: name[:-1] + name[-1].upper(),
    "underscores": lambda name: name.replace("-", "_"),
    "dots": lambda name: name.replace("-", "."),
    "no dashes": lambda name: name.replace("-", ""),
    "two dashes": lambda name: name.replace("-", "--"),
    "a dash more": lambda name: f"{name[:2]}-{name[2:]}",
    "a dash at the end": lambda name: f"{name}-",
    "a dot at the end": lambda name: f"{name}.",
    "full width": wide,
    "a space inside": lambda name: f"{name[:2]} {name[2:]}",
    "a space of no width": lambda name: f"{name[:2]}\u200b{name[2:]}",
    "a soft hyphen": lambda name: f"{name[:2]}\u00ad{name[2:]}",
    "a space that does not break": lambda name: f"{name}\u00a0",
    "an accent": lambda name: unicodedata.normalize("NFC", f"{name[:2]}\u0301{name[2:]}"),
    "a mark of direction": lambda name: f"\u202e{name}",
    "one for l": lambda name: name.replace("l", "1"),
    "capital i for l": lambda name: name.replace("l", "I"),
    "l for i": lambda name: name.replace("i", "l"),
    "nought for o": lambda name: name.replace("o", "0"),
    "long s": lambda name: name.replace("s", "\u017f"),
    "as a kind of mechanism": lambda name: f"mechanism.{name}",
    "as a kind of query": lambda name: f"query.{name}",
    "the class": lambda name: "".join(map(str.title, name.split("-"))),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_of_a_built_in_name_is_a_name(disguise):
    for name in BUILT_IN:
        what = "mechanism" if f"mechanism.{name}" in Catalogue.shipped().kinds else "query"
        if disguise.startswith("as a kind") and not disguise.endswith(what):
            continue
        assert "built-in" in fault(DISGUISES[disguise](name)), name


@pytest.mark.parametrize(
    "name",
    [
        "l\u0430place",  # a Cyrillic letter
        "\u217caplace",  # a Roman numeral
        "dpsdk:laplace",
        "acme:laplace",
        "other:mine",
        "other\uff1amine",
        "mi ne",
        "mine\u200b",
        "mine\n",
        "",
        "-mine",
        "mine-",
        "mi--ne",
        "9mine",
        "mine_",
        "Mine",
        "mine.",
        "m" * 101,
        "\N{CYRILLIC SMALL LETTER EM}ine",
    ],
)
def test_a_name_that_is_not_made_well_is_none(name):
    assert fault(name)


def test_a_name_that_claims_a_distribution_is_told_so():
    assert "names a distribution" in fault("other:mine")
    assert "built-in" in fault("mechanism:laplace")


@pytest.mark.parametrize("name", ["mine", "m", "mine-2", "laplaces", "my-laplace", "m" * 100])
def test_other_names_are(name):
    assert fault(name) == ""


def test_built_in_names_differ_by_more_than_a_disguise():
    assert len({skeleton(name) for name in BUILT_IN}) == len(BUILT_IN)


@pytest.mark.parametrize("group", [MECHANISMS, QUERIES, KINDS])
def test_an_entry_point_with_a_built_in_name_is_refused_and_never_found(site, group):
    spellings = [
        *(disguise("laplace") for disguise in DISGUISES.values()),
        "noisy_histogram", "noisyhistogram", "Noisy-Histogram", "dpsdk:laplace", "l\u0430place",
    ]  # fmt: skip
    written(site, "acme", {group: [(one, CLASS) for one in spellings]})
    found = [one for one in plugins.listed() if one.distribution == "acme"]
    assert len(found) == len(spellings)
    assert all(one.refused for one in found)
    assert "acme_spelling" not in sys.modules
    for spelling in spellings if group == MECHANISMS else ():
        for name in (spelling, f"acme:{spelling}", f"dpsdk:{spelling}"):
            if name != "laplace":
                with pytest.raises((UnknownName, PluginError)):
                    plugins.mechanism(name, epsilon=1)
    assert plugins.mechanism("laplace", epsilon=1) == Laplace(epsilon=1)
    assert type(plugins.mechanism("noisy-histogram", epsilon=1)) is NoisyHistogram
    assert "acme_spelling" not in sys.modules


@pytest.mark.parametrize(
    "called",
    [
        "dpsdk", "DPSDK", "Dpsdk", "dp-sdk", "dp_sdk", "d.p.s.d.k", "dpsdk-", "-dpsdk", "dpsdk_",
        "dpsd\u212a", "\uff44psdk", "dp\u200bsdk", "dpsdk ",
    ],
)  # fmt: skip
def test_no_distribution_is_this_package(site, called):
    assert ours(called)
    for number, folder in enumerate(["dpsdk", called.strip(), "other"]):
        at = site / str(number)
        sys.path.append(str(at))
        written(at, called, {MECHANISMS: {"mine": CLASS}}, version="9", folder=folder)
    found = [one for one in plugins.listed() if one.where.startswith("acme_spelling")]
    assert len(found) == 3
    assert all("like dpsdk itself" in one.refused for one in found)
    for prefix in ("dpsdk", called, normalised(called), "other"):
        with pytest.raises((UnknownName, PluginError)):
            plugins.mechanism(f"{prefix}:mine")
        with pytest.raises((UnknownName, PluginError)):
            plugins.catalogue(prefix)
    assert "acme_spelling" not in sys.modules


@pytest.mark.parametrize(
    "called",
    ["", " ", "acme:mine", "a b", "\u0430cme", "acme\N{COMBINING ACUTE ACCENT}", "a" * 101, "a/b",
     "..", "acme\u212a", "acme\x1b[2J", "\N{FULLWIDTH LATIN SMALL LETTER A}cme"],
)  # fmt: skip
def test_a_distribution_without_a_valid_name_offers_nothing(site, called):
    written(site, called, {MECHANISMS: {"mine": CLASS}}, folder="odd")
    [found] = [one for one in plugins.listed() if one.where == "acme_spelling.Mine"]
    assert found.refused
    assert f"{found}".isprintable()
    written(site / "more", called, {MECHANISMS: {"mine": CLASS}}, folder=normalised(called)[:50])
    sys.path.append(str(site / "more"))
    for name in (f"{called}:mine", f"{normalised(called)}:mine", "odd:mine", ":mine", "acme:mine"):
        with pytest.raises((UnknownName, PluginError)):
            plugins.mechanism(name)
    assert "acme_spelling" not in sys.modules


def test_a_distribution_that_its_folder_calls_otherwise_is_neither(site):
    written(site, "victim", {MECHANISMS: {"mine": CLASS}}, folder="acme")
    [found] = [one for one in plugins.listed() if one.where == "acme_spelling.Mine"]
    assert "two names" in found.refused
    for name in ("victim:mine", "acme:mine"):
        with pytest.raises(UnknownName):
            plugins.mechanism(name)
        with pytest.raises(UnknownName):
            plugins.catalogue(name.partition(":")[0])


def test_of_two_distributions_of_one_name_the_first_is_the_one(site):
    first, second = site / "a", site / "b"
    sys.path += [str(first), str(second)]
    written(first, "acme", {MECHANISMS: {"mine": "acme_first:Mine"}}, version="1.0")
    written(second, "ACME", {MECHANISMS: {"mine": "acme_second:Mine"}}, version="2.0")
    judged = {one.version: one.refused for one in plugins.listed() if one.name == "acme:mine"}
    assert judged["1.0"] == ""
    assert "not the first of its name" in judged["2.0"]
    assert type(plugins.mechanism("acme:mine")).__module__ == "acme_first"
    assert "acme_second" not in sys.modules


def test_a_second_copy_of_a_distribution_is_not_the_one(site):
    for name in ("a", "b"):
        sys.path.append(str(site / name))
        written(site / name, "acme", {MECHANISMS: {"mine": CLASS}})
    refused = [one.refused for one in plugins.listed() if one.name == "acme:mine"]
    assert sorted(map(bool, refused)) == [False, True]


def test_a_folder_that_is_on_the_path_twice_is_read_once(site):
    (site / "link").symlink_to(site)
    sys.path += [str(site / "link"), f"{site}/."]
    written(site, "acme", {MECHANISMS: {"mine": CLASS}})
    [found] = [one for one in plugins.listed() if one.distribution == "acme"]
    assert found.refused == ""


def test_a_distribution_without_plugins_hides_a_later_one_of_its_name(site):
    first, second = site / "a", site / "b"
    sys.path += [str(first), str(second)]
    written(first, "acme", {"console_scripts": {"acme": "acme:main"}})
    written(second, "acme", {MECHANISMS: {"mine": CLASS}}, version="2.0")
    [found] = [one for one in plugins.listed() if one.name == "acme:mine"]
    assert "not the first of its name" in found.refused
    with pytest.raises(UnknownName):
        plugins.mechanism("acme:mine")


@pytest.mark.parametrize(
    "entries",
    [
        {MECHANISMS: [("mine", "acme_a:A"), ("mine", "acme_a:B")]},
        {MECHANISMS: [("mine", "acme_a:A"), ("mine", "acme_a:A")]},
        {MECHANISMS: [("min-e", "acme_a:A"), ("mine", "acme_a:B")]},
        {MECHANISMS: [("m1ne", "acme_a:A"), ("mine", "acme_a:B")]},
        {MECHANISMS: {"mine": "acme_a:A"}, QUERIES: {"mine": "acme_a:B"}},
        {KINDS: [("mine", "acme_a:A"), ("mine", "acme_a:B")]},
    ],
)
def test_a_name_that_is_given_twice_is_nobodys(site, entries):
    written(site, "acme", {**entries, "dpsdk.more": {}})
    found = [one for one in plugins.listed() if one.distribution == "acme"]
    assert [one.refused for one in found] == ["has a name that its distribution gives twice"] * 2
    for call in (plugins.mechanism, plugins.query):
        with pytest.raises((PluginError, UnknownName)):
            call("acme:mine")
    with pytest.raises((PluginError, UnknownName)):
        plugins.catalogue("acme")


def test_a_kind_and_a_class_have_one_name_and_distributions_share_names(site):
    for name in ("acme", "other"):
        entries = {MECHANISMS: {"mine": f"{name}_a:A"}, KINDS: {"mine": f"{name}_a:K"}}
        written(site, name, entries)
    assert {(one.name, one.refused) for one in plugins.listed() if "mine" in one.name} == {
        ("acme:mine", ""),
        ("other:mine", ""),
    }


@pytest.mark.parametrize(
    "value",
    ["acme_a", "acme_a:", ":A", "acme_a:A.B", "acme_a:A [fast]", "acme_a:A()", "acme a:A",
     "acme-a:A", "../acme_a:A", ".acme_a:A", "acme_a..b:A", "acme_a:A:B", "\u0430cme:A",
     "acme_a:" + "A" * 300, "dpsdk:Session", "dpsdk.mechanisms:Laplace", "dpsdk.plugins:query"],
)  # fmt: skip
def test_a_place_that_is_none_is_refused(site, value):
    written(site, "acme", {MECHANISMS: {"mine": value}})
    [found] = [one for one in plugins.listed() if one.distribution == "acme"]
    assert found.refused
    with pytest.raises(PluginError, match=r"acme:mine, of the distribution acme, "):
        plugins.mechanism("acme:mine")


@pytest.mark.parametrize("group", ["dpsdk.mechanism", "dpsdk.Mechanisms", "dpsdk", "dpsdk.losses"])
def test_a_group_that_is_none_is_told(site, group):
    written(site, "acme", {group: {"mine": CLASS}})
    [found] = [one for one in plugins.listed() if one.distribution == "acme"]
    assert "is in a group that is none of" in found.refused


def test_what_is_near_is_other_spellings_first():
    known = ["laplace", "gaussian", "acme:noise", "noisy-histogram", "acme:laplaces"]
    assert near("Laplace", known)[0] == "laplace"
    assert near("noisy_histogram", known) == ("noisy-histogram",)
    assert near("noise", known)[0] == "acme:noise"
    assert near("gausian", known) == ("gaussian",)
    assert near("x" * 100_000, known) == ()
    assert near("", known) == ()


def test_what_is_shown_is_one_short_line():
    assert line("a\x1b[2J\nb\u202e") == "a\\x1b[2J\\nb\\u202e"
    assert len(line("x" * 10_000)) < 300
    assert line("\ud800").isprintable()
