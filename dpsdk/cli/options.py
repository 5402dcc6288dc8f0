"""The options that the command line takes, as a parser of argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override

from dpsdk import Neighbors
from dpsdk._records import frozen
from dpsdk.cli.declare import Declared
from dpsdk.cli.report import installed_version
from dpsdk.cli.words import called, complain

__all__ = ["parser"]


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
    _add(domain.add_argument, [*_DECLARATIONS, *_DOMAIN, *_TEXT])
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
    _add(release.add_argument, _RELEASE)
    for title, options in _GROUPS.items():
        _add(release.add_argument_group(title).add_argument, options)
    ledger = command(
        "ledger",
        "show what a ledger holds, or verify it",
        "Show budgets, scopes and charges of all tables of a ledger (show), or read "
        "all of it and say whether it is as it was written (verify). Nothing is charged.",
    )
    ledger.add_argument("action", choices=["show", "verify"], help="what to do")
    ledger.add_argument("file", metavar="FILE", help=f"{_PLACE} of the ledger")
    _add(ledger.add_argument, _LEDGER)
    command(
        "plugins",
        "list what other distributions offer",
        "List the mechanisms, queries and kinds of written forms that installed "
        "distributions offer by entry points, and why some are refused. None of them is imported.",
    )
    return made


@frozen
class _Option:
    """An option, or an argument, and what argparse should know of it."""

    name: str
    what: str
    more: dict[str, Any]


def _option(words: str, what: str, **more: Any) -> _Option:
    """Describe an option by its name and metavars; without these and choices it is a switch."""
    name, *metavars = words.split()
    if metavars:
        more["metavar"] = metavars[0] if len(metavars) == 1 else tuple(metavars)
    elif "choices" not in more:
        more["action"] = "store_true"
    return _Option(name, what, more)


def _declaration(words: str, what: str, nargs: int | str) -> _Option:
    return _option(words, what, action=_Declare, dest="declared", nargs=nargs)


def _add(add: Callable[..., object], options: Iterable[_Option]) -> None:
    for option in options:
        what = option.what.replace("PROGRAM", called())
        add(option.name, help=what, **option.more)


_LEDGER = [
    _option("--key KEY", "a file that holds the ledger's key, and no more", type=_path),
    _option("--anchor ANCHOR", "the file of the ledger's anchor", type=_path),
    _option(
        "--allow-network", "take a ledger on a network file system, whose locks cannot be relied on"
    ),
    _option("--schema SCHEMA", "where a ledger on a server is (default dpsdk)"),
]

_TEXT = [
    _option("--encoding ENCODING", "how the table's text is encoded (default utf-8)"),
    _option(
        "--delimiter DELIMITER",
        "the character between two columns; tab and space by name (default a comma)",
    ),
    _option("--strip", "drop white space around names and values"),
]

_DECLARATIONS = [
    _declaration("--boolean NAME", "an attribute that is true or false", 1),
    _declaration("--integer NAME LOW HIGH", "whole numbers, both ends included", 3),
    _declaration("--binned NAME EDGE", "reals, cut into bins at these edges", "+"),
    _declaration(
        "--date NAME WORD",
        "ends as 2024-01-31, of hours as 2024-01-31T23:00; then a unit and a zone, if wanted",
        "+",
    ),
    _declaration(
        "--categorical NAME LABEL",
        "one of these labels; one that begins with a dash in double quotes, as '\"-x\"'",
        "+",
    ),
    _declaration("--other LABEL", "what all other values of the categorical before it become", 1),
]

_DOMAIN = [
    _option("--out DOMAIN.json", "a new file to write", type=_path),
    _option("--check DOMAIN.json", "a file to check", type=_path),
    _option("--table TABLE.csv", "a table whose column names to check", type=_path),
]

# All numbers are read as text, so that each is the decimal that was typed.
_RELEASE = [
    _option(
        "table TABLE",
        "the private table: a text file, unpacked if its name ends with .gz; or Parquet, if "
        "its name ends with .parquet or it is a directory of such files",
        type=_path,
    ),
    _option(
        "--domain DOMAIN.json",
        "the file of its domain, as PROGRAM domain makes it",
        type=_path,
        required=True,
    ),
    _option("--out DIR", "a new or empty directory", type=_path, required=True),
    _option("--force", "write into DIR although it holds files"),
    _option(
        "--dry-run",
        "say what would be released, at which price and how far off; read no row, charge "
        "nothing and write nothing",
    ),
    _option("--rows N", "with --dry-run: how many rows the table has"),
]

_GROUPS = {
    "which tables": [
        _option("--marginals K", "attributes per table (default 2, or 1 where there is only one)"),
        _option(
            "--attributes NAME",
            "tables of these attributes only (default all of the domain)",
            nargs="+",
        ),
        _option(
            "--tables NAME,NAME",
            "these tables and no others, each by its attributes between commas; a name that has "
            "a comma in double quotes",
            nargs="+",
        ),
        _option("--counts", "counts of rows, not shares of them"),
    ],
    "error and price": [
        _option(
            "--error E",
            "spend no more than it takes to have no entry off by more than this, such as 0.01 of "
            "the rows, or with --counts 100 rows; an epsilon above 10 has to be allowed by "
            "--epsilon",
        ),
        _option(
            "--epsilon EPSILON", "the budget's epsilon; with --error what it may be at the most"
        ),
        _option("--delta DELTA", "the budget's delta (default 0)", default="0"),
        _option(
            "--beta BETA",
            "the error bound may fail with this probability (default 0.05)",
            default="0.05",
        ),
        _option(
            "--method",
            "fit tables one by one with a certificate (local), or add independent noise to each "
            "(independent); auto, the default, fits them where their attributes have more than "
            "2,097,152 cells together and delta is above 0, unless --error is given",
            choices=["auto", "local", "independent"],
            default="auto",
        ),
    ],
    "whom the table protects": [
        _option(
            "--neighbors",
            "which tables must look alike (default replace-one: the number of rows is public; "
            "with --unit add-remove)",
            choices=[relation.value for relation in Neighbors],
        ),
        _option("--unit-rows K", "no person has more rows (default 1)", default="1"),
        _option("--max-rows N", "the table has no more rows than this"),
        _option("--unit COLUMN", "protect persons, whose identifiers are in this column"),
        _option("--max-rows-per-person M", "with --unit: keep at most M rows of a person"),
        _option("--distinct", "with --unit: rows of a person that are alike count once"),
    ],
    "how the table is read": [
        _option(
            "--outside",
            "values outside the domain: count nowhere (cell, the default), or move to the "
            "nearest bound (clip)",
            choices=["cell", "clip"],
            default="cell",
        ),
        *_TEXT,
        _option(
            "--no-header",
            "the first line is a row; the columns are the attributes of the domain, in order, or "
            "what --columns says",
        ),
        _option("--columns NAME,NAME", "with --no-header: the names of all columns"),
        _option("--dates FORM", "how dates are written, as %%d.%%m.%%Y (default ISO 8601)"),
        _option(
            "--decimal DECIMAL", "what stands before decimals, . or , (default .)", default="."
        ),
        _option(
            "--thousands CHARACTER",
            "what may stand between groups of three digits, as in 1,000 (default nothing)",
        ),
    ],
    "how tables are written": [
        _option(
            "--format",
            "how tables are written (default csv; parquet needs pyarrow)",
            choices=["csv", "parquet"],
            default="csv",
        ),
        _option(
            "--digits",
            "numbers in tables are rounded to what the noise leaves of them (noise, the default), "
            "or have all their digits (full); release.json always has all",
            choices=["noise", "full"],
            default="noise",
        ),
        _option(
            "--about FILE.toml",
            "what only you know of the tables, such as who publishes them and under which "
            "licence, for the files that describe them",
            type=_path,
        ),
    ],
    "what is remembered": [
        _option("--name NAME", "what to call the table (default: its file name)"),
        _option(
            "--ledger FILE",
            f"{_PLACE} that remembers the budget of the table called --name: this run spends what "
            "earlier ones left of it, or what --cap says",
        ),
        _option(
            "--cap EPSILON",
            "the budget that the ledger has for the table in all; this run then spends --epsilon "
            "and --delta of it, or is refused",
        ),
        _option("--cap-delta DELTA", "the delta of --cap (default that of --delta)"),
        *_LEDGER,
    ],
}
