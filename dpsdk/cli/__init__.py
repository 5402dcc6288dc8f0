"""The command line: `python -m dpsdk` with demo, domain and release."""

from dpsdk.cli.program import main

__all__ = ["main"]
