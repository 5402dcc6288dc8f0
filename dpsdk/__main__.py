"""The command line: `python -m dpsdk demo` and `python -m dpsdk release`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpsdk import Budget, Neighbors
from dpsdk._demo import demo
from dpsdk._tables import Request, installed_version, problem, release_tables
from dpsdk.errors import DpsdkError
from dpsdk.noise import NoiseSource

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, noise: NoiseSource | None = None) -> int:
    """Run one command and return its exit code: 0, or 2 where something was refused.

    Parameters
    ----------
    argv
        The arguments, by default those of the process.
    noise
        Where randomness comes from, by default the operating system; another source is for tests.
    """
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "demo":
            demo(noise)
        else:
            print(release_tables(_request(arguments), noise), end="")
    except (DpsdkError, OSError) as error:
        print(f"dpsdk: {problem(error)}", file=sys.stderr)
        return 2
    return 0


def _request(arguments: argparse.Namespace) -> Request:
    return Request(
        table=arguments.table,
        domain=arguments.domain,
        out=arguments.out,
        marginals=arguments.marginals,
        budget=Budget(epsilon=arguments.epsilon, delta=arguments.delta),
        neighbors=Neighbors(arguments.neighbors),
        outside=arguments.outside,
        max_rows=arguments.max_rows,
        counts=arguments.counts,
        beta=arguments.beta,
        name=arguments.name,
        force=arguments.force,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dpsdk",
        description="Privacy-accounted queries: one private table, one budget, many typed answers.",
    )
    parser.add_argument("--version", action="version", version=f"dpsdk {installed_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="a short tour on census data, with real noise",
        description="Ask a few questions of an example table, and show the code that asks them.",
    )
    release = commands.add_parser(
        "release",
        help="write all k-way tables of a file, for one budget",
        description="Release all tables of K attributes of a private file as one workload, for "
        "the whole budget: with Gaussian noise, or Laplace noise where delta is 0. Writes one CSV "
        "file a table, release.json and report.txt. Nothing is remembered between runs: each run "
        "spends a budget of its own.",
    )
    _add_release_arguments(release)
    return parser


def _add_release_arguments(release: argparse.ArgumentParser) -> None:
    add = release.add_argument
    add("table", type=Path, metavar="TABLE.csv", help="the private table, .csv or .csv.gz")
    add("--domain", type=Path, required=True, metavar="DOMAIN.json", help="see Domain.save")
    add("--out", type=Path, required=True, metavar="DIR", help="a new or empty directory")
    add("--marginals", type=int, default=2, metavar="K", help="attributes a table (default 2)")
    # Read as text, so that a budget is the decimal that was typed.
    add("--epsilon", required=True, help="the budget's epsilon")
    add("--delta", default="0", help="the budget's delta (default 0)")
    add(
        "--neighbors",
        choices=[relation.value for relation in Neighbors],
        default=Neighbors.REPLACE_ONE.value,
        help="which tables must look alike (default replace-one: the number of rows is public)",
    )
    add("--counts", action="store_true", help="counts of rows, not shares of them")
    add(
        "--beta",
        type=float,
        default=0.05,
        help="the error bound may fail with this probability (default 0.05)",
    )
    add(
        "--outside",
        choices=["cell", "clip"],
        default="cell",
        help="values outside the domain: count nowhere (cell, the default), or move to the "
        "nearest bound (clip)",
    )
    add("--max-rows", type=int, metavar="N", help="the table has no more rows than this")
    add("--name", help="what to call the table (default: its file name)")
    add("--force", action="store_true", help="write into DIR although it holds files")


if __name__ == "__main__":
    sys.exit(main())
