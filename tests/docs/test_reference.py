"""The reference is complete, and every page can be reached from the first one."""

import re
import types
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = DOCS / "reference"
NOT_PAGES = {DOCS / "examples" / "README.md"}

PAGES = {
    "dpsdk": "dpsdk.md",
    "dpsdk.accounting": "accounting.md",
    "dpsdk.accuracy": "release.md",
    "dpsdk.notes": "release.md",
    "dpsdk.session.channel": "session.md",
    "dpsdk.cli": "cli.md",
    "dpsdk.data": "dpsdk.md",
    "dpsdk.session.context": "session.md",
    "dpsdk.session.query_interface": "session.md",
    "dpsdk.domain": "dpsdk.md",
    "dpsdk.errors": "errors.md",
    "dpsdk.examples": "examples.md",
    "dpsdk.forms": "forms.md",
    "dpsdk.session.history": "session.md",
    "dpsdk.session.memo": "session.md",
    "dpsdk.hypothesis": "hypothesis.md",
    "dpsdk.kernel": "kernel.md",
    "dpsdk.learning": "learning.md",
    "dpsdk.losses": "losses.md",
    "dpsdk.mechanisms": "mechanisms.md",
    "dpsdk.noise": "noise.md",
    "dpsdk.observe": "release.md",
    "dpsdk.plugins": "plugins.md",
    "dpsdk.planner": "planner.md",
    "dpsdk.publication": "publication.md",
    "dpsdk.progress": "release.md",
    "dpsdk.plots": "plots.md",
    "dpsdk.queries": "queries.md",
    "dpsdk.release": "release.md",
    "dpsdk.session.scopes": "session.md",
    "dpsdk.session": "dpsdk.md",
    "dpsdk.sklearn": "sklearn.md",
    "dpsdk.testing": "testing.md",
    "dpsdk.testing.audit": "testing.md",
    "dpsdk.typing": "typing.md",
    "dpsdk.wire": "wire.md",
}
"""Where each public module is described; those below the packages are their inner rooms."""

DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (dpsdk[\w.]*)", re.MULTILINE)


def described():
    """The full names that the reference has an entry for, whole modules resolved."""
    names = set()
    for page in REFERENCE.glob("*.md"):
        for kind, target in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            names.add(target)
            if kind == "module" and ":members:" in page.read_text(encoding="utf-8"):
                names.update(f"{target}.{name}" for name in import_module(target).__all__)
    return names


def value_of(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def public_names():
    return [(m, name) for m in PAGES for name in import_module(m).__all__]


def test_a_public_name_has_an_entry():
    known = described()
    for module, name in public_names():
        full, page = f"{module}.{name}", REFERENCE / PAGES[module]
        if full in known:
            continue
        # The same object under another public name will do, if this module's page names it.
        value = value_of(full)
        others = [n for n in known if n.rpartition(".")[2] == name and value_of(n) is value]
        assert others, f"{full} is missing from {page.name}"
        assert re.search(rf"\b{name}\b", page.read_text(encoding="utf-8")), full


def test_an_entry_is_of_something_that_exists():
    for name in described():
        module = name.rpartition(".")[0]
        assert module == "" or hasattr(import_module(module), name.rpartition(".")[2]), name


def test_every_public_module_has_a_page():
    package = import_module("dpsdk")
    root = Path(package.__file__).parent
    own = {p.stem for p in root.glob("*.py") if not p.stem.startswith("_")}
    own |= {p.parent.name for p in root.glob("*/__init__.py")}
    # The names of the codec that others need are those of `dpsdk.wire`.
    missing = {f"dpsdk.{name}" for name in own - {"codec"}} - set(PAGES)
    assert not missing
    assert all(isinstance(import_module(name), types.ModuleType) for name in PAGES)


def linked(page):
    """The pages that a page's tables of contents lead to."""
    found = set()
    for body in re.findall(
        r"^```{toctree}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        for line in body.splitlines():
            entry = line.strip()
            if not entry or entry.startswith(":"):
                continue
            target = entry.rpartition("<")[2].rstrip(">")
            base = DOCS if target.startswith("/") else page.parent
            found.update(base.glob(f"{target.lstrip('/')}.md"))
    return found - {page}


def test_every_page_can_be_reached():
    seen, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            waiting.extend(linked(page))
    assert set(DOCS.rglob("*.md")) - NOT_PAGES - seen == set()


def test_links_between_pages_lead_somewhere():
    for page in set(DOCS.rglob("*.md")) - NOT_PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(DOCS)}: {target}"


MODULES = sorted(Path(import_module("dpsdk").__file__).parent.rglob("*.py"))

PAGES_OF_ALL = sorted({*DOCS.rglob("*.md"), *MODULES, DOCS.parent / "README.md"})


def test_papers_are_cited_by_author_and_year():
    # Nobody but us could tell what a numbered document is.
    for page in PAGES_OF_ALL:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\bseeds?[ /]0\d\d\b", text, re.IGNORECASE), page
