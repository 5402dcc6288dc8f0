"""The command line: `python -m dpsdk` with demo, domain, release, ledger and plugins."""

from dpsdk.cli.program import main

__all__ = ["main"]
