"""The pages on other libraries: what they name exists, and the other side runs where it can."""

import importlib.util
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.test_reference import PAGES

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PEERS = sorted(HOW_TO.glob("migrate-*.md"))
SCRIPTS = {
    "from_opendp.py": ("opendp", "polars", "mbi", "pandas"),
    "from_tumult.py": ("tmlt", "pyspark"),
    "from_diffprivlib.py": ("diffprivlib", "pandas"),
    "from_smartnoise_sql.py": ("snsql", "pandas"),
    "from_smartnoise_synth.py": ("snsynth", "pandas"),
    "from_mbi.py": ("mbi", "jax", "pandas"),
    "mbi_fits.py": ("mbi", "jax"),
}
"""What must be there for each script."""

NAMES = {name for module in PAGES for name in import_module(module).__all__}


@pytest.mark.parametrize("page", PEERS, ids=lambda page: page.stem)
def test_what_one_writes_here_exists(page):
    rows = re.findall(r"^\| `?[^|]+\| (.+) \|$", page.read_text("utf-8"), re.MULTILINE)
    told = {n for row in rows for n in re.findall(r"(?<![\w.\"'])([A-Z]\w+)(?=\(|`)", row)}
    assert len(told) > 4
    assert told - NAMES == set()


def test_every_script_is_shown_on_a_page():
    shown = {
        name
        for page in PEERS
        for name in re.findall(r"\{literalinclude\} migrate/(\w+\.py)", page.read_text("utf-8"))
    }
    assert shown == set(SCRIPTS) == {path.name for path in (HOW_TO / "migrate").glob("*.py")}


@pytest.mark.audit
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_other_side_runs_where_it_is_installed(script):
    if missing := [name for name in SCRIPTS[script] if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    command = [sys.executable, "-W", "ignore", str(HOW_TO / "migrate" / script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert re.search(r"^(\x1b.*|.*\r)?\s*(table|synthetic|count) ", done.stdout, re.MULTILINE)
