"""All extras in one environment: what each installs is imported beside all the others."""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
