"""The wheel of 0.1.0 and the package as it stands do the same in ten thousand random programmes.

What is meant to differ is listed in `MEANT`, by name and with the reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent
WHEEL = HERE / "dpsdk-0.1.0-py3-none-any.whl"
COUNT = 10_000


class Meant(NamedTuple):
    """A difference that is meant: in lines of such a kind of programme whose key is such."""

    name: str
    reason: str
    kind: str
    key: str
    old: str = ""
    new: str = ""

    def covers(self, kind: str, key: str, old: str, new: str) -> bool:
        return (
            re.fullmatch(self.kind, kind) is not None
            and re.fullmatch(self.key, key) is not None
            and re.search(self.old, old) is not None
            and re.search(self.new, new) is not None
        )


MEANT: list[Meant] = [
    Meant(
        name="what is left",
        reason="one figure, which is everywhere the same: asking for a tenth takes a tenth",
        kind="charge|session|channel|refusal",
        key=".*, share",
    ),
    Meant(
        name="plans",
        reason="ranked by bounds and by errors that follow from the noise, not by guesses",
        kind="plan",
        key="plan of .*",
    ),
    Meant(
        name="what bins hide",
        reason="an error of an answer made of values includes how far these may be from their bins",
        kind="session|channel",
        key=".*, (bound|error|errors|interval), bins",
    ),
    Meant(
        name="what a refusal says",
        reason="what was asked and what would fit are told in the units of the request",
        kind="charge|session|channel|refusal",
        key=".*! words",
    ),
]


class Run(NamedTuple):
    """A child that runs all programmes with one of the two packages."""

    process: subprocess.Popen[str]

    @classmethod
    def begin(cls, folder: Path | None) -> Run:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if folder is not None:
            environment["PYTHONPATH"] = str(folder)
        command = [sys.executable, str(HERE / "programmes.py"), "0", str(COUNT)]
        return cls(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))

    def lines(self) -> tuple[str, list[tuple[int, str, dict[str, list[str]]]]]:
        """Wait; return where the package was found, and of each programme all that it noted."""
        out, _ = self.process.communicate()
        assert self.process.returncode == 0
        where, *records = map(json.loads, out.splitlines())
        found = []
        for number, kind, lines in records:
            noted: dict[str, list[str]] = defaultdict(list)
            for key, words in lines:
                noted[key].append(words)
            found.append((number, kind, noted))
        return where, found


def test_old_and_new_do_the_same(tmp_path: Path) -> None:
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(tmp_path)
    runs = Run.begin(tmp_path), Run.begin(None)
    (there, old), (here, new) = (run.lines() for run in runs)
    assert there.startswith(str(tmp_path))
    assert not here.startswith(str(tmp_path))
    assert len(old) == len(new) == COUNT

    used = set()
    differ: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (number, kind, before), (_, _, after) in zip(old, new, strict=True):
        for key in {**before, **after}:
            one, other = "; ".join(before.get(key, ())), "; ".join(after.get(key, ()))
            if one == other:
                continue
            meant = next((m for m in MEANT if m.covers(kind, key, one, other)), None)
            if meant is None:
                differ[kind, key].append(f"programme {number}: {one}\n    now {other}")
            else:
                used.add(meant.name)
    report = [
        f"{kind}, {key}, {len(found)} times; {found[0]}" for (kind, key), found in differ.items()
    ]
    assert not report, "\n".join(report)
    assert used == {meant.name for meant in MEANT}, "a difference that is listed was not seen"
