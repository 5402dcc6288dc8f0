"""The command line: `python -m dpsdk` with a command, such as demo, release or plugins."""

from dpsdk.cli.program import main

__all__ = ["main"]
