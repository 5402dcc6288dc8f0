"""Peers beside a benchmark of this package: each in an environment of its own, in the same run."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).with_name("peer_marginals.py")


def run(command, codes, sizes, sets, **total):
    """What a command prints of all marginals of some sets of columns, or why it ended.

    It is given a folder as its last argument, with the codes and with what is asked for.
    """
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "codes.npy", codes)
        asked = {"sizes": sizes, "sets": sets} | total
        (Path(folder) / "world.json").write_text(json.dumps(asked))
        ended = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(ended.stdout.strip().splitlines()[-1])
