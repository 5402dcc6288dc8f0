"""How Sphinx builds these pages: `sphinx-build -n -W -b html docs build`, without a network."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from docutils.nodes import paragraph
from sphinx.util.docstrings import prepare_docstring

import dpsdk

sys.path.append(str(Path(__file__).parent))

from guides import guides

if TYPE_CHECKING:
    from docutils.nodes import Element, TextElement, document
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "dpsdk"
author = "The dpsdk authors"
copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["examples/README.md", "build"]
html_theme = "furo"
html_title = "dpsdk"
html_static_path = ["_static"]
html_css_files = ["dpsdk.css"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
autosummary_generate = False
napoleon_google_docstring = False
napoleon_attr_annotations = False  # the signature has them already
maximum_signature_line_length = 110
toc_object_entries_show_parents = "hide"
default_role = "code"

nitpicky = True
nitpick_ignore_regex = [
    # Without a network there is no inventory of Python, numpy or attrs to link to.
    (r"py:.*", r"(?!dpsdk\.).*"),
    # Aliases and type variables are no objects of their own in the index.
    (
        r"py:.*",
        r"dpsdk\.[\w.]*\.(A|F|A_co|F_co|F_contra|Acc_co|R_co|Group|Weigh|Noise|Floats|Ints|Source)",
    ),
    # Signatures may name what a package keeps to itself.
    (r"py:.*", r"dpsdk(\.\w+){3,}|dpsdk\._\w+\.\w+|dpsdk\.\w+\._\w+|dpsdk\.release\.Lifting"),
]

PACKAGES = (
    "dpsdk",
    "dpsdk.accounting",
    "dpsdk.errors",
    "dpsdk.forms",
    "dpsdk.hypothesis",
    "dpsdk.kernel",
    "dpsdk.learning",
    "dpsdk.mechanisms",
    "dpsdk.noise",
    "dpsdk.observe",
    "dpsdk.plots",
    "dpsdk.publication",
    "dpsdk.queries",
    "dpsdk.release",
    "dpsdk.sklearn",
    "dpsdk.testing",
    "dpsdk.typing",
)


def _public_names() -> dict[str, str]:
    """From where an object is defined, and from its bare name, to the name it is documented by."""
    known: dict[str, str] = {}
    for package in PACKAGES:
        module: ModuleType = dpsdk if package == "dpsdk" else import_module(package)
        for name in module.__all__:
            home = getattr(getattr(module, name), "__module__", package)
            for key in (f"{home}.{name}", f"{package}.{name}", name):
                known.setdefault(key, f"{package}.{name}")
    return known


PUBLIC = _public_names()
GUIDES = guides()


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: TextElement
) -> Element | None:
    """Link to the public name of what is defined in a module further down."""
    target = PUBLIC.get(node.get("reftarget", ""))
    if target is None or node.get("refdomain") != "py":
        return None
    python = env.get_domain("py")
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)


def _escape(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep |x| what it means in mathematics, and *.csv what it means to a shell.

    reStructuredText takes the first for a substitution, and between two of the second for emphasis.
    """
    del app, what, name, obj, options
    for number, line in enumerate(lines):
        if not line.lstrip().startswith(">>>"):
            bars = re.sub(r"\|([^|`]+)\|", r"\\|\1\\|", line)
            lines[number] = re.sub(r"(?<![\\*\w])\*(?=\.\w)", r"\\*", bars)


def _told(name: str) -> str:
    """What the source says below the line that defines an alias; the alias itself cannot know."""
    bare = name.rpartition(".")[2]
    defined = re.compile(rf"^{bare}(: [^=\n]+)? = ", re.MULTILINE)
    package = Path(dpsdk.__file__).parent
    inner = package.joinpath(*name.split(".")[1:-1])
    places = (inner, inner.with_suffix(".py"), package)
    for path in (p for place in places for p in (place, *sorted(place.rglob("*.py")))):
        if path.is_file() and defined.search(text := path.read_text("utf-8")):
            for one, other in pairwise(ast.parse(text).body):
                match one, other:
                    case (
                        ast.AnnAssign(target=ast.Name(id=found))
                        | ast.Assign(targets=[ast.Name(id=found)]),
                        ast.Expr(value=ast.Constant(value=str(told))),
                    ) if found == bare:
                        return told
    return ""


def _document_alias(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Have an alias say what is written about it, and not what its type says of itself."""
    del app, obj, options
    if what == "data":
        lines[:] = [*prepare_docstring(_told(name))]


def _open_line(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Have the first line about a property or an attribute read as a sentence.

    Napoleon takes what stands before the first colon there for a type, and drops that colon. So
    give it one to drop, with nothing in front.
    """
    del app, name, obj, options
    if what in {"attribute", "data", "property"} and lines and lines[0].strip():
        lines[0] = f": {lines[0]}"


def _guide(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Link from an entry to the guides that show it at work."""
    del app, what, obj, options
    if pages := GUIDES.get(name):
        links = ", ".join(f":doc:`/how-to/{page}`" for page in pages)
        lines += ["", ".. rst-class:: guides", "", f"   How to: {links}.", ""]


ALIASES = {
    "int | float | str | ~decimal.Decimal | ~fractions.Fraction": "~dpsdk.typing.Real",
    "str | int | float | bool | tuple[float, float] | ~datetime.date | ~dpsdk.typing.Extra": (
        "~dpsdk.typing.Label"
    ),
    "~collections.abc.Mapping[str, ~dpsdk.typing.Label]": "~dpsdk.typing.Record",
}
"""What Python has written out of the aliases of dpsdk.typing, in the order to put them back."""


def _alias(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Have a signature name the aliases that its source names, and defaults as a reader would.

    A default that is printed as `<function f>` is no Python, and Sphinx would give up on all of it.
    """
    del app, what, name, obj, options
    if signature:
        signature = re.sub(r"<(?:built-in )?function ([a-z]\w*)>", r"\1", signature)
        signature = re.sub(r"<(?:function [\w.<>]+|[\w. ]*object(?: at \w+)?)>", "...", signature)
    for written, alias in ALIASES.items():
        signature = signature and signature.replace(written, alias)
        returns = returns and returns.replace(written, alias)
    return signature, returns


ENTRY = re.compile(r"^\.\. auto(class|function|data):: (dpsdk[\w.]*)", re.MULTILINE)


def _contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Begin a page of the reference with one line about each of its entries, by section."""
    del app
    text = source[0]
    if not docname.startswith("reference/") or len(ENTRY.findall(text)) < FEW:
        return
    lines: list[str] = []
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        if found := [name for _, name in ENTRY.findall(section)]:
            title = re.match(r"## (.*)", section)
            if title:
                lines += [".. rst-class:: part-of-page", "", f"   {title[1]}", ""]
            lines += [".. autosummary::", "   :nosignatures:", ""]
            lines += [*(f"   ~{name}" for name in found), ""]
    block = "\n".join(["```{eval-rst}", *lines, "```", "", ""])
    first = re.search(r"^(## |```)", text, re.MULTILINE)
    if first:
        source[0] = text[: first.start()] + block + text[first.start() :]


FEW = 4
"""A page of fewer entries is its own summary."""


def _keep_bases(app: Sphinx, name: str, obj: object, options: object, bases: list[type]) -> None:
    """Name the bases that a reader can look up, and exceptions; the others say how, not what."""
    del app, name, obj, options
    kept: list[type] = []
    for base in bases:
        kind = getattr(base, "__origin__", base)
        known = f"{kind.__module__}.{kind.__qualname__}" in PUBLIC
        if known or (isinstance(kind, type) and issubclass(kind, BaseException)):
            kept.append(base)
    bases[:] = kept


def _drop_empty_bases(app: Sphinx, doctree: document) -> None:
    """Leave out the line on bases where none was kept."""
    del app
    for node in list(doctree.findall(paragraph)):
        if node.astext().strip() == "Bases:":
            node.parent.remove(node)


FIRST, LAST = 100, 900
"""Before napoleon, which has 500, and after it."""


def setup(app: Sphinx) -> None:
    """Register the hooks above, and the look of the pages."""
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-docstring", _document_alias, priority=FIRST)
    app.connect("autodoc-process-docstring", _open_line, priority=FIRST + 1)
    app.connect("autodoc-process-docstring", _escape)
    app.connect("autodoc-process-docstring", _guide, priority=LAST)
    app.connect("autodoc-process-signature", _alias)
    app.connect("source-read", _contents)
    app.connect("autodoc-process-bases", _keep_bases)
    app.connect("doctree-read", _drop_empty_bases)
