"""The command line: `python -m dpsdk` with demo, domain, release, ledger and calibrate."""

from dpsdk.cli.program import main

__all__ = ["main"]
