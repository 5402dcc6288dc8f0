"""Extras that live in one environment, and a distribution of strangers that pip installs."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from installing import PLUGIN

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def wanted():
    """The distributions that the extras name for this Python."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    named = [Requirement(text) for extra in extras for text in extra]
    return {one.name for one in named if not one.marker or one.marker.evaluate()} - {"dpsdk"}


@pytest.mark.skipif(
    "DPSDK_PLATFORMS" not in os.environ, reason="needs all extras, as DPSDK_PLATFORMS=1 says"
)
def test_all_extras_live_in_one_environment():
    modules = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if wanted() & set(owners) and module.isidentifier() and not module.startswith(("_", "adbc"))
    }
    assert {"narwhals", "pyarrow", "psycopg", "matplotlib", "tqdm", "opendp"} <= modules
    code = f"import {', '.join(sorted(modules))}"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert all(map(importlib.metadata.version, wanted()))


PROGRAM = """
import sys
import dpsdk
from dpsdk import Budget, Domain, Integer, PrivateData, Session, plugins, wire

assert not [name for name in sys.modules if name.startswith("acme")]
using = dpsdk.mechanism("acme-dp:repeated", epsilon="0.3")
domain = Domain(Integer("age", 17, 90))
session = Session(PrivateData.from_columns({"age": [20, 30, 40]}, domain), Budget(epsilon=1))
answer = session.answer(dpsdk.query("acme-dp:middle", attribute="age"), using=using)
assert type(answer).__name__ == "MedianAnswer"
assert str(session.spent.epsilon) == "3/10"
allowed = plugins.catalogue("acme-dp")
assert wire.loads("one-shot", wire.dumps(using, allow=allowed), allow=allowed) == using
print(sys.modules["acme_dp"].__file__)
"""


@pytest.fixture(scope="module")
def site(hatchling, tmp_path_factory):
    """A folder into which pip has installed it, without a network."""
    del hatchling
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    shutil.copytree(PLUGIN / "acme_dp", source / "acme_dp")
    shutil.copy(PLUGIN / "pyproject.toml", source)
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), "."],
        check=True, cwd=source,
    )  # fmt: skip
    return folder / "site"


def run(site, *arguments):
    root = str(PLUGIN.parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), root])}
    done = subprocess.run(
        [sys.executable, *arguments],
        check=True, capture_output=True, text=True, env=environment, cwd=site,
    )  # fmt: skip
    return done.stdout


def test_it_is_listed_with_all_that_it_offers(site):
    printed = run(site, "-m", "dpsdk", "plugins")
    assert printed.startswith("acme-dp 1.0\n")
    assert "6 in all, 0 refused" in printed


def test_it_answers_in_a_program(site):
    assert run(site, "-c", PROGRAM).strip() == str(site / "acme_dp" / "__init__.py")


def test_it_says_that_it_is_typed_and_brings_nothing_of_the_tests(site):
    assert (site / "acme_dp" / "py.typed").exists()
    assert {one.name for one in site.iterdir()} == {"acme_dp", "acme_dp-1.0.dist-info"}
