"""Peers beside a benchmark of this package: each in an environment of its own, in the same run."""

import json
import subprocess
from pathlib import Path
from typing import TypedDict, cast

__all__ = ["Found", "run"]

PROGRAM = Path(__file__).with_name("peer_marginals.py")


class Found(TypedDict):
    """What one peer did: errors as shares of the rows, CPU seconds, MB at the most."""

    method: str
    max: float
    mean: float
    mean_tv: float
    max_tv: float
    cpu_s: float
    peak_mb: float


def run(peer, table, columns, ways, epsilon, delta, seed):
    """What `METHOD=PYTHON` does with all marginals of so many columns, or why it ended.

    The sizes are read from a file beside the table, `adult-domain.json` beside `adult.csv`.
    """
    method, _, python = peer.partition("=")
    sizes = table.with_name(table.name.removesuffix(".csv") + "-domain.json")
    command = [
        python, str(PROGRAM), method, "--table", str(table), "--sizes", str(sizes),
        "--columns", *columns, "--ways", *map(str, ways),
        "--epsilon", epsilon, "--delta", delta, "--seed", str(seed),
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or ["no message"])[-1]
    return cast("Found", json.loads(ended.stdout.splitlines()[-1]))
