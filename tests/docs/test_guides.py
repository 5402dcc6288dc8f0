"""The reference links to how-to guides, and what is written about a property is what is read."""

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dpsdk
from dpsdk.accounting import Composition, Ledger
from dpsdk.mechanisms import Mechanism
from dpsdk.queries import Query
from tests.docs.test_reference import described

pytestmark = pytest.mark.thorough

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def conf():
    """What `docs/conf.py` defines; it is read as Sphinx reads it."""
    pytest.importorskip("sphinx")
    before = list(sys.path)
    namespace = {"__file__": str(DOCS / "conf.py"), "__name__": "conf"}
    exec(compile((DOCS / "conf.py").read_text("utf-8"), "conf.py", "exec"), namespace)  # noqa: S102
    sys.path[:] = before
    return namespace


@pytest.fixture(scope="module")
def guides():
    """The guides of each entry; this needs no Sphinx."""
    namespace = {"__name__": "guides"}
    exec((DOCS / "guides.py").read_text("utf-8"), namespace)  # noqa: S102
    return namespace["guides"]()


def of_kind(package, kind):
    """The public classes of a package that are of a kind, by full name."""
    module = import_module(package)
    found = {name: getattr(module, name) for name in module.__all__}
    return {f"{package}.{n}" for n, o in found.items() if inspect.isclass(o) and kind in o.__mro__}


def test_what_most_programs_need_has_a_guide(guides):
    needed = {"dpsdk.Session", "dpsdk.PrivateData", "dpsdk.Domain", "dpsdk.Release", "dpsdk.Budget"}
    needed |= {f"dpsdk.{name}" for name in dpsdk.__all__ if name.endswith("Channel")}
    needed |= of_kind("dpsdk.queries", Query) | of_kind("dpsdk.mechanisms", Mechanism)
    needed |= {f"dpsdk.accounting.{n}" for n in ("MemoryLedger", "SQLiteLedger", "PostgresLedger")}
    needed |= of_kind("dpsdk.accounting", Composition) | of_kind("dpsdk.accounting", Ledger)
    assert len(needed) > 50
    assert needed - set(guides) == set()


def test_a_guide_is_a_page_and_an_entry_is_one_of_the_reference(guides):
    pages = {page for found in guides.values() for page in found}
    assert [page for page in pages if not (DOCS / "how-to" / f"{page}.md").exists()] == []
    assert set(guides) - described() == set()


def rendered(conf, lines, what="property"):
    """What Sphinx would read, after the hooks and napoleon."""
    napoleon = import_module("sphinx.ext.napoleon")
    found = list(lines)
    conf["_open_line"](None, what, "name", None, None, found)
    return napoleon.NumpyDocstring(found, napoleon.Config(), what=what, name="name").lines()


@pytest.mark.parametrize("what", ["property", "attribute", "data"])
def test_a_first_line_with_a_colon_is_read_as_it_stands(conf, what):
    for line in ("One of two: the first, or none.", "Exact: yes", "`a: b` and c: d", "No colon."):
        read = rendered(conf, [line, "", "More: of it.", ""], what)
        assert read[:3] == [line, "", "More: of it."]
        assert not any(":type:" in text for text in read)


def properties():
    """Every property that the reference shows, with what is written about it."""
    for name in sorted(described()):
        module, _, last = name.rpartition(".")
        owner = getattr(import_module(module), last, None) if module else None
        for key, value in inspect.getmembers_static(owner) if inspect.isclass(owner) else ():
            text = inspect.getdoc(value)
            if not key.startswith("_") and inspect.isdatadescriptor(value) and text:
                yield f"{name}.{key}", text.splitlines()


def test_every_property_is_read_as_it_is_written(conf):
    found = dict(properties())
    assert len(found) > 100
    read = {name: rendered(conf, text) for name, text in found.items()}
    assert [name for name, text in found.items() if read[name][0] != text[0]] == []
    assert [name for name in found if any(":type:" in line for line in read[name])] == []


def test_the_hooks_run_where_they_must(conf):
    order = {}

    class App:
        def connect(self, event, hook, priority=500):
            order[hook.__name__] = (event, priority)

    conf["setup"](App())
    event = "autodoc-process-docstring"
    assert order["_document_alias"] == (event, 100)  # napoleon has 500
    assert order["_open_line"] == (event, 101)
    assert order["_guide"][0] == event
    assert order["_guide"][1] > 500


def test_a_guide_is_linked_from_its_entry(conf):
    lines = ["What it is."]
    conf["_guide"](None, "class", "dpsdk.mechanisms.Tree", None, None, lines)
    assert re.findall(r":doc:`/how-to/([\w-]+)`", lines[-2])[:1] == ["choose-a-mechanism"]
    before = list(lines)
    conf["_guide"](None, "class", "dpsdk.nothing", None, None, lines)
    assert lines == before


def aliases():
    """Every alias that the reference shows."""
    for page in sorted((DOCS / "reference").glob("*.md")):
        yield from re.findall(r"^\.\. autodata:: (\S+)", page.read_text("utf-8"), re.MULTILINE)


def test_an_alias_says_what_is_written_about_it(conf):
    found = list(aliases())
    assert len(found) > 8
    for name in found:
        lines = ["str(object='') -> str"]
        conf["_document_alias"](None, "data", name, None, None, lines)
        assert lines, f"nothing is written about {name}"
        assert lines[0][0].isupper()
        assert "str(object" not in lines[0]


def test_a_signature_names_the_aliases_of_its_source(conf):
    written = "(epsilon: int | float | str | ~decimal.Decimal | ~fractions.Fraction | None = None)"
    told, returns = conf["_alias"](None, "class", "name", None, None, written, None)
    assert told == "(epsilon: ~dpsdk.typing.Real | None = None)"
    assert returns is None


def test_a_default_in_a_signature_is_python(conf):
    for written, told in {
        "(clock=<function system_clock>)": "(clock=system_clock)",
        "(clock: int = <built-in function repr>, x=1)": "(clock: int = repr, x=1)",
        "(curve=<function _no_points>)": "(curve=...)",
        "(curve=<function make.<locals>.inner>)": "(curve=...)",
        "(default: object = <object object>, of='')": "(default: object = ..., of='')",
        "(noise=<dpsdk.noise.SystemNoise object at 0x7f00>)": "(noise=...)",
    }.items():
        assert conf["_alias"](None, "class", "name", None, None, written, None) == (told, None)


def test_the_aliases_are_written_as_python_writes_them(conf):
    from sphinx.util.typing import stringify_annotation

    from dpsdk.typing import Label, Real

    written = {stringify_annotation(kind, "smart") for kind in (Real, Label)}
    assert written <= set(conf["ALIASES"])


def test_a_page_begins_with_a_line_about_each_entry(conf):
    source = [(DOCS / "reference" / "queries.md").read_text("utf-8")]
    entries = conf["ENTRY"].findall(source[0])
    conf["_contents"](None, "reference/queries", source)
    shown = re.findall(r"^   ~(dpsdk\S+)", source[0], re.MULTILINE)
    assert shown == [name for _, name in entries]
    assert source[0].index("autosummary") < source[0].index("autoclass")
    other = ["a page\n"]
    conf["_contents"](None, "how-to/plan", other)
    assert other == ["a page\n"]


def test_bases_are_named_that_a_reader_can_look_up(conf):
    from typing import Generic, Protocol, TypeVar

    from dpsdk.errors import BudgetExceeded, DpsdkError
    from dpsdk.forms import LinearForm
    from dpsdk.mechanisms import OneShot

    bases = [object, Generic[TypeVar("T")], Protocol, OneShot[LinearForm], DpsdkError, ValueError]
    conf["_keep_bases"](None, "name", BudgetExceeded, None, bases)
    assert bases == [OneShot[LinearForm], DpsdkError, ValueError]


def test_bars_and_patterns_are_read_as_they_stand(conf):
    lines = ['Of |x|, all *.csv, or "2024/*.csv".', ">>> glob('*.csv')", "See *this*."]
    conf["_escape"](None, "method", "name", None, None, lines)
    assert lines[0] == r'Of \|x\|, all \*.csv, or "2024/\*.csv".'
    assert lines[1:] == [">>> glob('*.csv')", "See *this*."]
