"""The options that the command line takes, as a parser of argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from typing_extensions import override

from dpsdk import Neighbors
from dpsdk.cli.declare import Declared
from dpsdk.cli.report import installed_version
from dpsdk.cli.words import called, complain

__all__ = ["parser"]

_Add: TypeAlias = Callable[..., argparse.Action]
"""Adds an argument to a parser, or to a group of its arguments."""

_NUMBER = re.compile(r"-(?:\.?\d|inf|nan)", re.IGNORECASE)
"""How what begins with a dash and is meant as a number begins; no option does."""

_DASHED = re.compile(r'"(-.*)"', re.DOTALL)
"""A word between quotes that would be an option without them."""

_PLACE = "the file, or the address of the server as postgresql://user@host/database,"


class _Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, as all refusals are; --help says how a command is used."""

    @override
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Else -1e3 is an option that nobody knows, and the one before it lacks its number.
        self._negative_number_matcher = _NUMBER

    @override
    def error(self, message: str) -> NoReturn:
        complain(f"dpsdk: {' '.join(message.split())}; {self.prog} --help tells more")
        self.exit(2)


class _Declare(argparse.Action):
    """An action that keeps declarations in the order in which they were given."""

    @override
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        given = (values,) if isinstance(values, str) else tuple(map(str, values or ()))
        words = tuple(_DASHED.sub(r"\1", word) for word in given)
        kept: list[Declared] = getattr(namespace, self.dest) or []
        kind = (option_string or "").lstrip("-")
        setattr(namespace, self.dest, [*kept, Declared(kind, words)])


def _path(text: str) -> Path:
    """Read a path. An empty text, as of a variable that is not set, is no directory."""
    if not text:
        raise argparse.ArgumentTypeError("must be a path; got ''")
    return Path(text)


def parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    made = _Parser(
        prog=called(),
        description="Privacy-accounted queries: one private table, one budget, many typed answers.",
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"dpsdk {installed_version()}")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, brief: str, description: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=brief, description=description, allow_abbrev=False)

    command(
        "demo",
        "a short tour on census data, with real noise",
        "Ask a few questions of an example table, and show the code that asks them.",
    )
    domain = command(
        "domain",
        "make the file of a domain, or say what is wrong with one",
        "Make the JSON file of a domain from declared columns, or check a file. Bounds "
        "and labels are declared, from public knowledge; of a table only the first line is read, "
        "which names its columns.",
    )
    _add_domain_arguments(domain.add_argument)
    release = command(
        "release",
        "write tables of a file, for one budget or for one error",
        "Release all tables of K attributes of a private file as one workload, for as "
        "much of the budget as one run can spend: with Laplace noise all of it, where delta is 0; "
        "else with Gaussian noise nearly all, and report.txt says how much. Or, with --error, for "
        "as little as gives that error. Writes one file per table, release.json and report.txt, "
        "all of them or none. Without --ledger nothing is remembered between runs: each run spends "
        "a budget of its own.",
    )
    _add_release_arguments(release)
    ledger = command(
        "ledger",
        "show what a ledger holds, or verify it",
        "Show budgets, scopes and charges of all tables of a ledger (show), or read "
        "all of it and say whether it is as it was written (verify). Nothing is charged.",
    )
    ledger.add_argument("action", choices=["show", "verify"], help="what to do")
    ledger.add_argument("file", metavar="FILE", help=f"{_PLACE} of the ledger")
    _add_ledger_arguments(ledger.add_argument)
    command(
        "plugins",
        "list what other distributions offer",
        "List the mechanisms, queries and kinds of written forms that installed "
        "distributions offer by entry points, and why some are refused. None of them is imported.",
    )
    return made


def _add_ledger_arguments(add: _Add) -> None:
    add("--key", type=_path, metavar="KEY", help="a file that holds the ledger's key, and no more")
    add("--anchor", type=_path, metavar="ANCHOR", help="the file of the ledger's anchor")
    add(
        "--allow-network",
        action="store_true",
        help="take a ledger on a network file system, whose locks cannot be relied on",
    )
    add("--schema", metavar="SCHEMA", help="where a ledger on a server is (default dpsdk)")


def _add_domain_arguments(add: _Add) -> None:
    def declare(option: str, metavar: str, what: str, *, words: str | int | None = None) -> None:
        names = tuple(metavar.split())
        add(
            option,
            action=_Declare,
            dest="declared",
            nargs=len(names) if words is None else words,
            metavar=names,
            help=what,
        )

    declare("--boolean", "NAME", "an attribute that is true or false")
    declare("--integer", "NAME LOW HIGH", "whole numbers, both ends included")
    declare("--binned", "NAME EDGE", "reals, cut into bins at these edges", words="+")
    declare(
        "--date",
        "NAME WORD",
        "ends as 2024-01-31, of hours as 2024-01-31T23:00; then a unit and a zone, if wanted",
        words="+",
    )
    declare(
        "--categorical",
        "NAME LABEL",
        "one of these labels; one that begins with a dash in double quotes, as '\"-x\"'",
        words="+",
    )
    declare("--other", "LABEL", "what all other values of the categorical before it become")
    add("--out", type=_path, metavar="DOMAIN.json", help="a new file to write")
    add("--check", type=_path, metavar="DOMAIN.json", help="a file to check")
    add("--table", type=_path, metavar="TABLE.csv", help="a table whose column names to check")
    _add_text_arguments(add)


def _add_text_arguments(add: _Add) -> None:
    add("--encoding", help="how the table's text is encoded (default utf-8)")
    add(
        "--delimiter",
        help="the character between two columns; tab and space by name (default a comma)",
    )
    add("--strip", action="store_true", help="drop white space around names and values")


def _add_release_arguments(release: argparse.ArgumentParser) -> None:
    # All numbers are read as text, so that each is the decimal that was typed.
    add = release.add_argument
    add(
        "table",
        type=_path,
        metavar="TABLE",
        help="the private table: a text file, unpacked if its name ends with .gz; or Parquet, if "
        "its name ends with .parquet or it is a directory of such files",
    )
    add(
        "--domain",
        type=_path,
        required=True,
        metavar="DOMAIN.json",
        help=f"the file of its domain, as {called()} domain makes it",
    )
    add("--out", type=_path, required=True, metavar="DIR", help="a new or empty directory")
    add("--force", action="store_true", help="write into DIR although it holds files")
    add(
        "--dry-run",
        action="store_true",
        help="say what would be released, at which price and how far off; read no row, charge "
        "nothing and write nothing",
    )
    add("--rows", metavar="N", help="with --dry-run: how many rows the table has")
    add = release.add_argument_group("which tables").add_argument
    add(
        "--marginals",
        metavar="K",
        help="attributes per table (default 2, or 1 where there is only one)",
    )
    add(
        "--attributes",
        nargs="+",
        metavar="NAME",
        help="tables of these attributes only (default all of the domain)",
    )
    add(
        "--tables",
        nargs="+",
        metavar="NAME,NAME",
        help="these tables and no others, each by its attributes between commas; a name that has "
        "a comma in double quotes",
    )
    add("--counts", action="store_true", help="counts of rows, not shares of them")
    add = release.add_argument_group("error and price").add_argument
    add(
        "--error",
        metavar="E",
        help="spend no more than it takes to have no entry off by more than this, such as 0.01 of "
        "the rows, or with --counts 100 rows; an epsilon above 10 has to be allowed by --epsilon",
    )
    add("--epsilon", help="the budget's epsilon; with --error what it may be at the most")
    add("--delta", default="0", help="the budget's delta (default 0)")
    add(
        "--beta",
        default="0.05",
        help="the error bound may fail with this probability (default 0.05)",
    )
    add(
        "--method",
        choices=["auto", "local", "independent"],
        default="auto",
        help="fit tables one by one with a certificate (local), or add independent noise to each "
        "(independent); auto, the default, fits them where their attributes have more than "
        "2,097,152 cells together and delta is above 0, unless --error is given",
    )
    add = release.add_argument_group("whom the table protects").add_argument
    add(
        "--neighbors",
        choices=[relation.value for relation in Neighbors],
        help="which tables must look alike (default replace-one: the number of rows is public; "
        "with --unit add-remove)",
    )
    add("--unit-rows", metavar="K", default="1", help="no person has more rows (default 1)")
    add("--max-rows", metavar="N", help="the table has no more rows than this")
    add("--unit", metavar="COLUMN", help="protect persons, whose identifiers are in this column")
    add("--max-rows-per-person", metavar="M", help="with --unit: keep at most M rows of a person")
    add(
        "--distinct",
        action="store_true",
        help="with --unit: rows of a person that are alike count once",
    )
    add = release.add_argument_group("how the table is read").add_argument
    add(
        "--outside",
        choices=["cell", "clip"],
        default="cell",
        help="values outside the domain: count nowhere (cell, the default), or move to the "
        "nearest bound (clip)",
    )
    _add_text_arguments(add)
    add(
        "--no-header",
        action="store_true",
        help="the first line is a row; the columns are the attributes of the domain, in order, or "
        "what --columns says",
    )
    add("--columns", metavar="NAME,NAME", help="with --no-header: the names of all columns")
    add("--dates", metavar="FORM", help="how dates are written, as %%d.%%m.%%Y (default ISO 8601)")
    add("--decimal", default=".", help="what stands before decimals, . or , (default .)")
    add(
        "--thousands",
        metavar="CHARACTER",
        help="what may stand between groups of three digits, as in 1,000 (default nothing)",
    )
    add = release.add_argument_group("how tables are written").add_argument
    add(
        "--format",
        choices=["csv", "parquet"],
        default="csv",
        help="how tables are written (default csv; parquet needs pyarrow)",
    )
    add(
        "--digits",
        choices=["noise", "full"],
        default="noise",
        help="numbers in tables are rounded to what the noise leaves of them (noise, the default), "
        "or have all their digits (full); release.json always has all",
    )
    add(
        "--about",
        type=_path,
        metavar="FILE.toml",
        help="what only you know of the tables, such as who publishes them and under which "
        "licence, for the files that describe them",
    )
    add = release.add_argument_group("what is remembered").add_argument
    add("--name", help="what to call the table (default: its file name)")
    add(
        "--ledger",
        metavar="FILE",
        help=f"{_PLACE} that remembers the budget of the table called --name: this run spends what "
        "earlier ones left of it, or what --cap says",
    )
    add(
        "--cap",
        metavar="EPSILON",
        help="the budget that the ledger has for the table in all; this run then spends --epsilon "
        "and --delta of it, or is refused",
    )
    add("--cap-delta", metavar="DELTA", help="the delta of --cap (default that of --delta)")
    _add_ledger_arguments(add)
