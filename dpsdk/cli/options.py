"""The options that the command line takes, as a parser of argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override

from dpsdk import Neighbors
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
    for words, what in _DECLARATIONS.items():
        count = (
            "+" if words.startswith(("--binned", "--number", "--date", "--categorical")) else None
        )
        _add(domain.add_argument, words, what, action=_Declare, dest="declared", nargs=count)
    _add_all(domain.add_argument, _DOMAIN | _TEXT)
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
    _add_all(release.add_argument, _RELEASE, required=("--domain", "--out"))
    for title, options in _GROUPS.items():
        _add_all(release.add_argument_group(title).add_argument, options)
    look = command(
        "describe",
        "find what the columns of a table hold, for a part of its budget",
        "Look at all columns of a private file that nobody has described: numbers and their "
        "bounds, dates, frequent labels, missing values. What is shown is paid for, and goes into "
        "the file of a domain. Whom the table protects must be said: --each-row, or --unit COLUMN.",
    )
    _add_all(look.add_argument, _DESCRIBE)
    who = look.add_mutually_exclusive_group(required=True)
    _add_all(who.add_argument, _WHO)
    for title in ("how the table is read", "what is remembered"):
        group = {
            words: what
            for words, what in _GROUPS[title].items()
            if words.split()[0] not in _NOT_DESCRIBED
        }
        _add_all(look.add_argument_group(title).add_argument, group)
    ledger = command(
        "ledger",
        "show what a ledger holds, or verify it",
        "Show budgets, scopes and charges of all tables of a ledger (show), or read "
        "all of it and say whether it is as it was written (verify). Nothing is charged.",
    )
    ledger.add_argument("action", choices=["show", "verify"], help="what to do")
    ledger.add_argument("file", metavar="FILE", help=f"{_PLACE} of the ledger")
    _add_all(ledger.add_argument, _LEDGER)
    command(
        "plugins",
        "list what other distributions offer",
        "List the mechanisms, queries and kinds of written forms that installed "
        "distributions offer by entry points, and why some are refused. None of them is imported.",
    )
    return made


def _add_all(
    add: Callable[..., object], options: Mapping[str, str], required: Sequence[str] = ()
) -> None:
    for words, what in options.items():
        name = words.partition(" ")[0]
        more = {"required": True} if name in required else {}
        _add(add, words, what, **more, **_MORE.get(name, {}))


def _add(add: Callable[..., object], words: str, what: str, **more: Any) -> None:
    """Add an option by its name and metavars; without these and choices it is a switch."""
    name, *metavars = words.split()
    if metavars:
        more["metavar"] = metavars[0] if len(metavars) == 1 else tuple(metavars)
        if more.get("dest") == "declared":
            more["nargs"] = more["nargs"] or len(metavars)
    elif "choices" not in more:
        more["action"] = "store_true"
    add(name, help=what.replace("PROGRAM", called()), **more)


_PATHS = (
    *("table", "--out", "--domain", "--check", "--table", "--about", "--key", "--anchor"),
    "--write",
)

_MORE: dict[str, dict[str, Any]] = {
    **{name: {"type": _path} for name in _PATHS},
    **{name: {"nargs": "+"} for name in ("--attributes", "--tables", "--missing-texts", "--only")},
    "--from": {"nargs": "+", "dest": "source"},
    "--step": {"nargs": 2, "action": "append"},
    "--bins": {"nargs": "+", "action": "append"},
    "--leave-out": {"nargs": "*"},
    "--delta": {"default": "0"},
    "--beta": {"default": "0.05"},
    "--unit-rows": {"default": "1"},
    "--decimal": {"default": "."},
    "--method": {"choices": ["auto", "local", "independent"], "default": "auto"},
    "--neighbors": {"choices": [relation.value for relation in Neighbors]},
    "--outside": {"choices": ["cell", "clip", "apart"], "default": "cell"},
    "--format": {"choices": ["csv", "parquet"], "default": "csv"},
    "--digits": {"choices": ["noise", "full"], "default": "noise"},
}
"""What argparse should know beside the words of an option."""

_LEDGER = {
    "--key KEY": "a file that holds the ledger's key, and no more",
    "--anchor ANCHOR": "the file of the ledger's anchor",
    "--allow-network": "take a ledger on a network file system, whose locks cannot be relied on",
    "--schema SCHEMA": "where a ledger on a server is (default dpsdk)",
}  # fmt: skip

_TEXT = {
    "--encoding ENCODING": "how the table's text is encoded (default utf-8)",
    "--delimiter DELIMITER": "the character between two columns; tab and space by name (default a "
    "comma)",
    "--strip": "drop white space around names and values",
}  # fmt: skip

_DECLARATIONS = {
    "--boolean NAME": "an attribute that is true or false",
    "--integer NAME LOW HIGH": "whole numbers, both ends included",
    "--binned NAME EDGE": "reals, cut into bins at these edges",
    "--number NAME LOW": "numbers between these bounds: LOW, HIGH, and a step if it is not 1",
    "--date NAME WORD": "ends as 2024-01-31, of hours as 2024-01-31T23:00; then a unit and a "
    "zone, if wanted",
    "--categorical NAME LABEL": "one of these labels; one that begins with a dash in double "
    "quotes, as '\"-x\"'",
    "--other LABEL": "what all other values of the categorical before it become",
}  # fmt: skip

_DOMAIN = {
    "--from FILE": "metadata that others declared: CSV on the Web, CSVW-EO, a data package, "
    "SmartNoise or Lomas; then the name of a table, where there are several. What is declared here "
    "takes the place of its columns of the same names",
    "--step NAME STEP": "with --from: the step of a number",
    "--leave-out NAME": "with --from: columns that are left out; without a name, all of which the "
    "metadata say too little",
    "--missing-texts TEXT": "texts that stand for a missing value, such as ? and NA",
    "--open": "give all attributes cells for missing and for other values",
    "--out DOMAIN.json": "a new file to write",
    "--check DOMAIN.json": "a file to check",
    "--table TABLE.csv": "a table whose column names to check",
}  # fmt: skip

# All numbers are read as text, so that each is the decimal that was typed.
_RELEASE = {
    "table TABLE": "the private table: a text file, unpacked if its name ends with .gz; or "
    "Parquet, if its name ends with .parquet or it is a directory of such files",
    "--domain DOMAIN.json": "the file of its domain, as PROGRAM domain makes it",
    "--out DIR": "a new or empty directory",
    "--force": "write into DIR although it holds files",
    "--dry-run": "say what would be released, at which price and how far off; read no row, charge "
    "nothing and write nothing",
    "--rows N": "with --dry-run: how many rows the table has",
}  # fmt: skip

_WHO = {
    "--each-row": "protect whoever has a row, where nobody has two",
    "--unit COLUMN": "protect persons, whose identifiers are in this column, whatever rows they "
    "have",
}  # fmt: skip

_DESCRIBE = {
    "table TABLE": "the private table, as for release",
    "--epsilon EPSILON": "the budget's epsilon, all of which is spent",
    "--delta DELTA": "the budget's delta, above 0",
    "--neighbors": "which tables must look alike (default replace-one: the number of rows is "
    "public; with --unit add-remove)",
    "--max-rows N": "the table has no more rows, or persons, than this",
    "--only NAME": "look at these columns alone, which shows more of them",
    "--step NAME STEP": "a column of numbers, and how fine they are kept",
    "--missing-texts TEXT": "texts that stand for a missing value (default ?, NA, N/A, null, NULL "
    "and None)",
    "--write DOMAIN.json": "a new file for the domain",
    "--dry-run": "say who is protected, and what would be spent and shown; read no row",
}  # fmt: skip

_NOT_DESCRIBED = ("--outside", "--dates")

_GROUPS: dict[str, dict[str, str]] = {
    "which tables": {
        "--marginals K": "attributes per table (default 2, or 1 where there is only one)",
        "--attributes NAME": "tables of these attributes only (default all of the domain)",
        "--tables NAME,NAME": "these tables and no others, each by its attributes between commas; "
        "a name that has a comma in double quotes",
        "--bins NAME EDGE": "the edges of bins that a number is shown in; may be given for several "
        "(default ten of one width for a number of more than 100 labels)",
        "--counts": "counts of rows, not shares of them",
    },
    "error and price": {
        "--error E": "spend no more than it takes to have no entry off by more than this, such as "
        "0.01 of the rows, or with --counts 100 rows; an epsilon above 10 has to be allowed by "
        "--epsilon",
        "--epsilon EPSILON": "the budget's epsilon; with --error what it may be at the most",
        "--delta DELTA": "the budget's delta (default 0)",
        "--beta BETA": "the error bound may fail with this probability (default 0.05)",
        "--method": "fit tables one by one with a certificate (local), or add independent noise "
        "to each (independent); auto, the default, fits them where their attributes have more "
        "than 2,097,152 cells together and delta is above 0, unless --error is given",
    },
    "whom the table protects": {
        "--neighbors": "which tables must look alike (default replace-one: the number of rows is "
        "public; with --unit add-remove)",
        "--unit-rows K": "no person has more rows (default 1)",
        "--max-rows N": "the table has no more rows than this",
        "--unit COLUMN": "protect persons, whose identifiers are in this column",
        "--max-rows-per-person M": "with --unit: keep at most M rows of a person",
        "--distinct": "with --unit: rows of a person that are alike count once",
        "--periods NAME[=N]": "the budget is one of each period of N units of this date or whole "
        "number, such as 7 days (default 1)",
        "--between FIRST..LAST": "with --periods: the time that is released, and pays; an end that "
        "is left out is that of the domain",
    },
    "how the table is read": {
        "--outside": "missing values, and those outside the domain: their rows count nowhere "
        "(cell, the default); numbers and dates move to the nearest bound (clip); each attribute "
        "has cells of its own for them, and all rows count (apart)",
        **_TEXT,
        "--no-header": "the first line is a row; the columns are the attributes of the domain, in "
        "order, or what --columns says",
        "--columns NAME,NAME": "with --no-header: the names of all columns",
        "--dates FORM": "how dates are written, as %%d.%%m.%%Y (default ISO 8601)",
        "--decimal DECIMAL": "what stands before decimals, . or , (default .)",
        "--thousands CHARACTER": "what may stand between groups of three digits, as in 1,000 "
        "(default nothing)",
    },
    "how tables are written": {
        "--format": "how tables are written (default csv; parquet needs pyarrow)",
        "--digits": "numbers in tables are rounded to what the noise leaves of them (noise, the "
        "default), or have all their digits (full); release.json always has all",
        "--about FILE.toml": "what only you know of the tables, such as who publishes them and "
        "under which licence, for the files that describe them",
    },
    "what is remembered": {
        "--name NAME": "what to call the table (default: its file name)",
        "--ledger FILE": f"{_PLACE} that remembers the budget of the table called --name: this run "
        "spends what earlier ones left of it, or what --cap says",
        "--cap EPSILON": "the budget that the ledger has for the table in all; this run then "
        "spends --epsilon and --delta of it, or is refused",
        "--cap-delta DELTA": "the delta of --cap (default that of --delta)",
        **_LEDGER,
    },
}  # fmt: skip
