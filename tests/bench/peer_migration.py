"""Both sides of a page on migration: what the peer prints, and what the page's own blocks print.

    python tests/bench/peer_migration.py PAGE PEER_PYTHON [PEER_PYTHON ...]

PAGE is `opendp`, `tumult`, `diffprivlib`, `smartnoise` or `mbi`. Each PEER_PYTHON is that of an
environment of its own, with what the script of the same place says that it needs:

- opendp: `opendp[polars,mbi]` and pandas
- tumult: `tmlt.analytics` and Java
- diffprivlib: `diffprivlib "scikit-learn<1.6" pandas`
- smartnoise: `smartnoise-sql` in one, `smartnoise-synth` in another
- mbi: `mbi pandas`

It prints a table in Markdown. Run it from the root.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.docs.test_examples import DOCS, run

SCRIPTS = {
    "opendp": ("from_opendp.py",),
    "tumult": ("from_tumult.py",),
    "diffprivlib": ("from_diffprivlib.py",),
    "smartnoise": ("from_smartnoise_sql.py", "from_smartnoise_synth.py"),
    "mbi": ("from_mbi.py",),
}
TRUTH = {
    "count": "20,211",
    "mean": "40.42",
    "quantile": "37",
    "histogram": "1,187",
    "table": "1,769",
    "synthetic": "0.24",
}
"""Of the table of docs/examples: the questions that all pages ask."""


def tidy(told: str) -> str:
    """Numbers with at most two decimals, as a reader wants them."""
    words = [word.strip("[]") for word in told.split()]
    return " ".join(f"{float(w):,.2f}".removesuffix(".00") if w != "±" else w for w in words)


def figures(text: str) -> dict[str, str]:
    """The lines that name a figure."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if " " in line]
    return {name: tidy(told) for name, told in lines if name in {*TRUTH, "regression"}}


def main() -> None:
    """Run the peer's scripts and the page, and print both."""
    page, *pythons = sys.argv[1:]
    theirs: dict[str, str] = {}
    for python, script in zip(pythons, SCRIPTS[page], strict=True):
        done = subprocess.run(
            [python, "-W", "ignore", str(DOCS / "how-to" / "migrate" / script)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        theirs |= figures(done.stdout.replace("\r", "\n"))
    with contextlib.redirect_stdout(io.StringIO()):
        printed = run(DOCS / "how-to" / f"migrate-{page}.md")
    ours = figures("".join(text for text, _ in printed))
    print(f"| | the table itself | {page} | dpsdk |\n|---|---|---|---|")
    for name in ours:
        print(f"| {name} | {TRUTH.get(name, '')} | {theirs.get(name, '')} | {ours[name]} |")


if __name__ == "__main__":
    main()
