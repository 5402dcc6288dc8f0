"""The command line: `python -m dpsdk` with demo, domain, release and ledger."""

from dpsdk.cli.program import main

__all__ = ["main"]
