"""What modules may import and use, read off their source; and what an import loads."""

import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import dpsdk

PACKAGE = Path(dpsdk.__file__).parent
ROOT = PACKAGE.parent
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = sorted(
    module.name
    for module in pkgutil.walk_packages([str(PACKAGE)], "dpsdk.")
    if not module.name.endswith("__main__")
)


def dotted(node):
    """The dotted name that an expression spells, if it spells one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def used(source, package=""):
    """All names that a module imports or spells, with aliases of imports resolved."""
    tree = ast.parse(source)
    alias, names, nodes = {}, set(), list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            for item in node.names:
                names.add(item.name)
                alias[item.asname or item.name.split(".")[0]] = (
                    item.name if item.asname else item.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], base]).strip(".")
            for item in node.names:
                names.update({base, f"{base}.{item.name}"})
                alias[item.asname or item.name] = f"{base}.{item.name}"
    for node in nodes:
        name = dotted(node)
        if name is not None:
            first, _, rest = name.partition(".")
            names.add(f"{alias.get(first, first)}{'.' + rest if rest else ''}")
    return names


def touches(names, forbidden):
    return sorted(
        name for name in names if any(name == f or name.startswith(f + ".") for f in forbidden)
    )


@cache
def scan(path):
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return used(path.read_text(encoding="utf-8"), package)


PRIVATE = [
    "dpsdk.data.vault", "dpsdk.data.counts", "dpsdk.data.histogram", "dpsdk.data.engine",
]  # fmt: skip
RANDOM = ["random", "numpy.random", "np.random", "secrets", "os.urandom", "os.getrandom", "uuid"]
CODE = ["pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "yaml", "numpy.load",
        "eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec", "ctypes",
        "importlib.import_module"]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "forbidden"),
    [
        ("import dpsdk.data.vault", PRIVATE),
        ("from dpsdk.data import vault", PRIVATE),
        ("from dpsdk.data.vault import open_histogram as x", PRIVATE),
        ("from .data.histogram import Histogram", PRIVATE),
        ("from dpsdk.data.counts import Counts", PRIVATE),
        ("import dpsdk.data\nx = dpsdk.data.vault.open_histogram", PRIVATE),
        ("import numpy as np\nx = np.random.default_rng(3)", RANDOM),
        ("from numpy import random as r", RANDOM),
        ("def f():\n    import random", RANDOM),
        ("import os as o\no.urandom(3)", RANDOM),
        ("from os import urandom", RANDOM),
        ("import secrets", RANDOM),
        ("import pickle", CODE),
        ("x = eval('3')", CODE),
        ("from pickle import loads", CODE),
        ("import numpy as np\nnp.load('x')", CODE),
    ],
)
def test_the_scan_sees_what_it_looks_for(source, forbidden):
    assert touches(used(source, "dpsdk"), forbidden)
    assert not touches(used("from dpsdk.data import PrivateData\nimport numpy as np"), forbidden)


def within(path, *folders):
    return any(path.is_relative_to(PACKAGE / folder) for folder in folders)


def touching(forbidden, *but):
    """The modules that touch what is forbidden outside of some folders, and what they touch."""
    found = {
        str(path.relative_to(PACKAGE)): touches(scan(path), forbidden)
        for path in MODULES
        if not within(path, *but)
    }
    return {path: names for path, names in found.items() if names}


@pytest.mark.thorough
def test_only_the_noise_package_and_the_tools_for_tests_touch_randomness():
    # Made-up tables of a domain need no private noise, but the same rows for the same seed.
    assert touching(RANDOM, "noise", "testing", "_tokens.py", "examples.py") == {}
    # By which a ledger knows its own entries again; nothing else has a use for it.
    assert touching(["dpsdk._tokens"], "accounting/ledger") == {}


@pytest.mark.thorough
def test_nothing_is_unpickled_or_run_from_text():
    # A package's own modules, or a library that may be missing, by a name that stands there; and
    # what a program or its configuration names, if a distribution offers it: no text of a wire.
    imported = ["importlib.import_module"]
    read = touching(CODE)
    # Events of YAML, of which no object is built but plain values.
    assert {name for name in read.pop("domain/foreign/yaml.py", []) if "load" in name} == set()
    named = ("_lazy.py", "plugins/loading.py", "sklearn.py")
    assert read == dict.fromkeys(named, imported)
    assert touching(["dpsdk.plugins"], "plugins", "cli/program.py", "__init__.py") == {}


def test_strangers_use_public_names_only():
    strangers = sorted((ROOT / "tests" / "plugin" / "acme_dp").glob("*.py"))
    assert len(strangers) > 5
    for path in strangers:
        names = used(path.read_text(encoding="utf-8"))
        assert touches(names, PRIVATE) == []
        private = [n for n in names if n.startswith("dpsdk") and "._" in n]
        assert private == []


def loaded(code):
    """The modules that a fresh interpreter has after running some code."""
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"scipy", "narwhals", "pandas", "polars", "pyarrow", "matplotlib", "hypothesis", "pytest"}


def test_importing_the_package_loads_no_heavy_library_and_few_modules():
    base = loaded("import numpy, attrs, json, decimal, fractions, csv, gzip")
    modules = loaded("import dpsdk")
    assert not {name.split(".")[0] for name in modules} & HEAVY
    own = {name for name in modules if name.split(".")[0] == "dpsdk"}
    assert len(own) <= len(MODULES)
    assert len(modules - base - own) <= 60
    assert not any(
        name.startswith(("dpsdk.testing", "dpsdk.plugins", "dpsdk.wire")) for name in own
    )
    assert "importlib.metadata" not in modules - base


@pytest.mark.thorough
def test_answering_simple_questions_loads_no_frame_library():
    modules = loaded(
        "from dpsdk import *\nfrom dpsdk.queries import *\nfrom dpsdk.mechanisms import *\n"
        "data = PrivateData.from_columns({'a': [0, 1]}, Domain(Integer('a', 0, 1)))\n"
        "session = Session(data, Budget(1))\n"
        "session.release(Marginal('a'), using=Laplace(0.1)).error()"
    )
    assert not {name.split(".")[0] for name in modules} & (HEAVY - {"scipy"})


def test_every_public_name_exists_and_is_documented():
    for name in ["dpsdk", *NAMES]:
        module = importlib.import_module(name)
        assert module.__doc__, name
        public = getattr(module, "__all__", ())
        assert len(set(public)) == len(public), name
        for item in public:
            value = getattr(module, item)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__doc__, f"{name}.{item} has no docstring"
                if inspect.isclass(value) and value.__module__.startswith("dpsdk"):
                    # A class without a text of its own shows that of its base, which says nothing.
                    assert vars(value).get("__doc__"), f"{name}.{item}"


@pytest.mark.thorough
def test_every_module_with_public_names_lists_them():
    silent = {"__init__", "__main__"}
    for path in MODULES:
        if path.stem in silent:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        assert "__all__" in assigned, path


PUBLIC_SAMPLES = {
    "random",  # of dpsdk.examples
    "Distribution.sample",
    "DistributionChannel.sample",
    "Mixture.synthesize",
    "Sketch.sketched",
    "TextbookConvexPMW.sketched",
}
"""What draws from public laws and distributions, so that whoever knows the seed learns nothing."""


def signed(value):
    """A public function or class and its methods, each with its parameters."""
    methods = vars(value).items() if inspect.isclass(value) else ()
    named = [(value.__qualname__, value)] if hasattr(value, "__qualname__") else []
    for name, method in [*named, *((f"{value.__name__}.{n}", m) for n, m in methods)]:
        try:
            yield name, inspect.signature(getattr(method, "__func__", method)).parameters
        except (TypeError, ValueError):
            continue


@pytest.mark.thorough
def test_no_public_signature_takes_a_seed_but_those_that_sample_what_is_public():
    seeded = set()
    for name in ["dpsdk", *NAMES]:
        if name.startswith("dpsdk.testing"):
            continue  # which have nothing to do with private tables
        module = importlib.import_module(name)
        for item in getattr(module, "__all__", ()):
            for where, parameters in signed(getattr(module, item)):
                if {"seed", "random_state", "rng", "generator"} & set(parameters):
                    seeded.add(where)
    assert seeded == PUBLIC_SAMPLES
