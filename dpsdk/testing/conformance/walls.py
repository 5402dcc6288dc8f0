"""Checks that a plugin reaches nothing but public names, and changes nothing of the package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from dpsdk.testing.conformance.bench import Bench, runnable
from dpsdk.testing.conformance.patched import owners
from dpsdk.testing.conformance.report import Tally
from dpsdk.testing.conformance.spies import spied

__all__ = ["dotted", "imported_names", "public_walls"]

_PUBLIC = (
    "accounting", "accuracy", "data", "domain", "errors", "forms", "hypothesis", "kernel",
    "learning", "losses", "mechanisms", "noise", "observe", "queries", "release", "session",
    "testing", "typing", "wire",
)  # fmt: skip
_MODULES = frozenset({"dpsdk", "dpsdk.testing.audit", *(f"dpsdk.{name}" for name in _PUBLIC)})

_INNER = frozenset(
    {
        "__globals__",
        "__closure__",
        "__code__",
        "__subclasses__",
        "__builtins__",
        "cell_contents",
    }
)
"""By which functions and classes show what was closed over."""

_PLAIN = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""What tuples with names have."""

_READS = frozenset(
    {
        "getattr",
        "setattr",
        "delattr",
        "hasattr",
        "attrgetter",
        "__getattribute__",
        "__setattr__",
    }
)

_CHANGE = "Use the names in `__all__` of the documented modules, and what is handed to it, alone"


def _foreign(files: frozenset[str]) -> str:
    """A function of a plugin that stands in a module or class of the package."""
    for name, owner in owners():
        for key, value in list(vars(owner).items()):
            inner: object = getattr(value, "__func__", value)
            inner = getattr(inner, "fget", inner)
            if isinstance(inner, FunctionType) and inner.__code__.co_filename in files:
                return f"{name}.{key}"
    return ""


def public_walls(bench: Bench, tally: Tally) -> None:
    """No private module or name is reached, nothing of dpsdk is patched, nothing looked for."""
    own = type(bench.mechanism).__module__.partition(".")[0] == "dpsdk"
    patched = "" if own else _foreign(bench.files)
    if patched:
        tally.fail(f"{patched} is a function of the plugin", "Patch nothing of dpsdk")
    codes: set[CodeType] = set()
    for scene in runnable(bench, tally):
        for number, table in enumerate((scene.table, scene.neighbor)):
            changed: list[str] = []

            def look(_: str, changed: list[str] = changed) -> None:
                if not changed and (found := bench.walls.changed()):
                    changed.append(found)

            with spied(bench.files) as seen:
                session = bench.session(table, noise=bench.heard(number, look))
                bench.quotes(scene, table)
                bench.asked(scene, session)
            tally.ran()
            look("at the end")
            codes |= seen.codes
            if changed:
                tally.fail(f"{scene}: {changed[0]} was not what it is", "Patch nothing of dpsdk")
            if seen.of("behind"):
                tally.fail(f"{scene}: it called {seen.of('behind')}", _CHANGE)
    if own:
        return
    if not bench.files or any(_parsed(name) is None for name in bench.files):
        tally.note("of its source not all could be read")
    names = _PLAIN.union(*map(_own_names, bench.files))
    for code in sorted(codes, key=lambda code: (code.co_filename, code.co_firstlineno)):
        tally.ran()
        found = _reached(code, names)
        if found:
            tally.fail(found, _CHANGE)


@cache
def _parsed(path: str) -> ast.Module | None:
    try:
        return ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


@cache
def _own_names(path: str) -> frozenset[str]:
    """The private names that a file defines: of functions, classes, fields and attributes."""
    tree = _parsed(path)
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in {"self", "cls"}
        ):
            names.add(node.attr)
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets
        ):
            names |= {
                str(one.value) for one in ast.walk(node.value) if isinstance(one, ast.Constant)
            }
    return frozenset(names)


def dotted(node: ast.expr) -> str:
    """The dotted name that an expression spells, empty where it spells none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def imported_names(tree: ast.AST) -> dict[str, str]:
    """What names that were imported stand for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                first = item.name.partition(".")[0]
                names[item.asname or first] = item.name if item.asname else first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for item in node.names:
                names[item.asname or item.name] = f"{node.module}.{item.name}"
    return names


def _node_of(tree: ast.Module, code: CodeType) -> ast.AST | None:
    """The function that a code was compiled from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            lines = [node.lineno, *(one.lineno for one in node.decorator_list)]
            if code.co_firstlineno in lines:
                return node
    return None


def _reached(code: CodeType, own: frozenset[str]) -> str:
    """What a function reaches that is not public, in words; empty where it is nothing."""
    tree = _parsed(code.co_filename)
    node = None if tree is None else _node_of(tree, code)
    if tree is None or node is None:
        return ""
    imported = imported_names(tree)
    for part in ast.walk(node):
        found = _behind(part, imported, own)
        if found:
            line = getattr(part, "lineno", code.co_firstlineno)
            return f"{Path(code.co_filename).name}, line {line}: {code.co_name} reaches {found}"
    return ""


def _behind(part: ast.AST, imported: Mapping[str, str], own: frozenset[str]) -> str:
    if isinstance(part, ast.ImportFrom) and not part.level:
        for item in part.names:
            name = f"{part.module}.{item.name}"
            if not _public(name):
                return name
    if isinstance(part, ast.Import):
        return next((item.name for item in part.names if not _public(item.name)), "")
    if isinstance(part, ast.Attribute):
        if part.attr in _INNER:
            return part.attr
        if part.attr.startswith("_") and not part.attr.endswith("__") and part.attr not in own:
            return f"{dotted(part) or part.attr}"
    if isinstance(part, ast.Name | ast.Attribute):
        first, _, rest = dotted(part).partition(".")
        if first in imported:
            name = f"{imported[first]}.{rest}" if rest else imported[first]
            if not _public(name):
                return name
    if isinstance(part, ast.Call) and dotted(part.func).rpartition(".")[2] in _READS:
        for argument in part.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                text = argument.value
                hidden = text.startswith("_") and not text.endswith("__") and text not in own
                if hidden or text in _INNER:
                    return text
    return ""


def _public(name: str) -> bool:
    """Whether a dotted name is public; those of other packages all are."""
    if name.partition(".")[0] != "dpsdk":
        return True
    parts = name.split(".")
    if any(part.startswith("_") and not part.endswith("__") for part in parts):
        return False
    length = max(
        cut for cut in range(1, len(parts) + 1) if ".".join(parts[:cut]) in _MODULES or cut == 1
    )
    module = sys.modules.get(".".join(parts[:length]))
    rest = parts[length:]
    return not rest or rest[0] in getattr(module, "__all__", ())
