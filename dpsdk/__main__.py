"""Runs the command line: `dpsdk`, or `python -m dpsdk`."""

from __future__ import annotations

import signal
import sys

from dpsdk.cli import main

__all__ = ["main", "run"]


def run() -> int:
    """Run the command of this process, which ends with the returned exit code."""
    # Being ended is cleaned up after like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return main()


if __name__ == "__main__":
    sys.exit(run())
