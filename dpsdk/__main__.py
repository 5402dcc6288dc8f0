"""Runs the command line: `dpsdk`, or `python -m dpsdk`."""

from __future__ import annotations

import signal
import sys

from dpsdk.cli import main

__all__ = ["main", "run"]


def run() -> int:
    """Run the command of this process, which ends with the returned exit code."""
    # Being ended is cleaned up after like Ctrl-C, and so is a terminal that is closed.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    return main()


if __name__ == "__main__":
    sys.exit(run())
