"""Runs the command line: `python -m dpsdk`."""

from __future__ import annotations

import signal
import sys

from dpsdk.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    # Being ended is cleaned up after like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
