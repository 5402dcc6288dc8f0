"""The command line's options, and the one place where its errors end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from typing_extensions import override

from dpsdk import Budget, Neighbors, PrivacyUnit
from dpsdk._checks import read_decimal, read_whole, shown, to_count
from dpsdk.cli.calibrate import Calibrating, write_calibration
from dpsdk.cli.declare import Declared, Header, declare, described, load
from dpsdk.cli.demo import demo
from dpsdk.cli.ledgers import LedgerOptions, show, verify
from dpsdk.cli.plugins import plugins
from dpsdk.cli.release import Request, installed_version, release_tables
from dpsdk.cli.staged import write_new
from dpsdk.cli.words import called, problem, say
from dpsdk.data.delimited import FileFormat
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource

__all__ = ["main"]

_PLACE = "the file, or the address of the server as postgresql://user@host/database,"


def main(argv: Sequence[str] | None = None, *, noise: NoiseSource | None = None) -> int:
    """Run one command and return its exit code: 0, 2 if something was refused, 130 if interrupted.

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
        elif arguments.command == "domain":
            _domain(arguments)
        elif arguments.command == "plugins":
            say(plugins())
        elif arguments.command == "calibrate":
            say(write_calibration(_calibrating(arguments), noise))
        elif arguments.command == "ledger":
            say(
                (show if arguments.action == "show" else verify)(
                    _options(arguments.file, arguments)
                )
            )
        else:
            say(release_tables(_request(arguments), noise).removesuffix("\n"))
    except KeyboardInterrupt as error:
        say(f"dpsdk: {problem(error)}", sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001  # a traceback could quote what a row holds
        say(f"dpsdk: {problem(_of_options(error, arguments))}", sys.stderr)
        return 2
    return 0


def _of_options(error: Exception, arguments: argparse.Namespace) -> Exception:
    """The same error, with a parameter that is an option here called as it was given."""
    if not isinstance(error, InvalidArgument) or error.parameter not in vars(arguments):
        return error
    option = f"--{error.parameter.replace('_', '-')}"
    return InvalidArgument(option, error.expected, error.got)


def _domain(arguments: argparse.Namespace) -> None:
    declared: list[Declared] = arguments.declared or []
    if arguments.check is not None and declared:
        raise InvalidArgument("--check", "given alone, or not at all", "declarations beside it")
    domain = declare(declared) if arguments.check is None else load(arguments.check)
    header = None
    if arguments.table is not None:
        wanted = FileFormat(
            delimiter=_character(arguments.delimiter),
            encoding=arguments.encoding,
            strip=arguments.strip,
            limit=None,
            complete=False,
        )
        header = Header(arguments.table, wanted)
    text = described(domain, header)
    if arguments.out is not None:
        write_new(arguments.out, f"{domain.to_json()}\n")
    say(text if arguments.check is not None or arguments.out is not None else domain.to_json())


def _request(arguments: argparse.Namespace) -> Request:
    return Request(
        table=arguments.table,
        domain=arguments.domain,
        out=arguments.out,
        marginals=_whole("--marginals", arguments.marginals),
        budget=Budget(epsilon=arguments.epsilon, delta=arguments.delta),
        neighbors=None if arguments.neighbors is None else Neighbors(arguments.neighbors),
        outside=arguments.outside,
        max_rows=None if arguments.max_rows is None else _whole("--max-rows", arguments.max_rows),
        unit_rows=_whole("--unit-rows", arguments.unit_rows),
        unit=_unit(arguments),
        encoding=arguments.encoding,
        delimiter=_character(arguments.delimiter),
        strip=arguments.strip,
        decimal=arguments.decimal,
        thousands=None if arguments.thousands is None else _character(arguments.thousands),
        counts=arguments.counts,
        beta=_decimal("--beta", arguments.beta),
        name=arguments.name,
        force=arguments.force,
        method=arguments.method,
        ledger=None if arguments.ledger is None else _options(arguments.ledger, arguments),
        cap=_cap(arguments),
    )


def _calibrating(arguments: argparse.Namespace) -> Calibrating:
    return Calibrating(
        tables=arguments.tables,
        domains=arguments.domains,
        out=arguments.out,
        settings=_whole("--settings", arguments.settings),
        delimiter=_character(arguments.delimiter),
        encoding=arguments.encoding,
    )


def _cap(arguments: argparse.Namespace) -> Budget | None:
    if arguments.cap is None:
        if arguments.cap_delta is not None:
            raise InvalidArgument("--cap-delta", "given with --cap", "no --cap")
        return None
    delta = arguments.delta if arguments.cap_delta is None else arguments.cap_delta
    try:
        return Budget(epsilon=arguments.cap, delta=delta)
    except InvalidArgument as error:
        option = "--cap" if error.parameter == "epsilon" else "--cap-delta"
        raise InvalidArgument(option, error.expected, error.got) from None


def _unit(arguments: argparse.Namespace) -> PrivacyUnit | None:
    most = arguments.max_rows_per_person
    if arguments.unit is None:
        for option, given in (
            ("--max-rows-per-person", most is not None),
            ("--distinct", arguments.distinct),
        ):
            if given:
                raise InvalidArgument(option, "given with --unit COLUMN", "no --unit")
        return None
    if most is None:
        expected = "given with --unit: so many rows of each person are kept at the most"
        raise InvalidArgument("--max-rows-per-person", expected, "none")
    rows = _whole("--max-rows-per-person", most)
    return PrivacyUnit(arguments.unit, max_rows=rows, distinct=arguments.distinct)


def _options(place: str, arguments: argparse.Namespace) -> LedgerOptions:
    return LedgerOptions(
        place=place,
        key=arguments.key,
        anchor=arguments.anchor,
        allow_network=arguments.allow_network,
        schema=arguments.schema,
    )


def _whole(option: str, text: str) -> int:
    number = read_whole(text)
    if number is None:
        raise InvalidArgument(option, "a whole number", shown(text))
    return to_count(option, number)


def _decimal(option: str, text: str) -> Fraction:
    number = read_decimal(text)
    if number is None:
        raise InvalidArgument(option, "a decimal number", shown(text))
    return Fraction(number)


def _character(text: str) -> str:
    """A character that is given as itself, or by its name if shells make it hard to type."""
    return {"tab": "\t", "\\t": "\t", "space": " "}.get(text, text)


class _Declare(argparse.Action):
    """Keeps declarations in the order in which they were given."""

    @override
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        words = (values,) if isinstance(values, str) else tuple(map(str, values or ()))
        kept: list[Declared] = getattr(namespace, self.dest) or []
        kind = (option_string or "").lstrip("-")
        setattr(namespace, self.dest, [*kept, Declared(kind, words)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=called(),
        description="Privacy-accounted queries: one private table, one budget, many typed answers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dpsdk {installed_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="a short tour on census data, with real noise",
        description="Ask a few questions of an example table, and show the code that asks them.",
        allow_abbrev=False,
    )
    domain = commands.add_parser(
        "domain",
        help="make the file of a domain, or say what is wrong with one",
        description="Make the JSON file of a domain from declared columns, or check a file. Bounds "
        "and labels are declared, from public knowledge; of a table only the first line is read, "
        "which names its columns.",
        allow_abbrev=False,
    )
    _add_domain_arguments(domain)
    release = commands.add_parser(
        "release",
        help="write all k-way tables of a file, for one budget",
        description="Release all tables of K attributes of a private file as one workload, for as "
        "much of the budget as one run can spend: with Laplace noise all of it, where delta is 0; "
        "else with Gaussian noise nearly all, and report.txt says how much. Writes one CSV file "
        "per table, release.json and report.txt, all of them or none. Without --ledger nothing is "
        "remembered between runs: each run spends a budget of its own.",
        allow_abbrev=False,
    )
    _add_release_arguments(release)
    ledger = commands.add_parser(
        "ledger",
        help="show what a ledger holds, or verify it",
        description="Show budgets, scopes and charges of all tables of a ledger (show), or read "
        "all of it and say whether it is as it was written (verify). Nothing is charged.",
        allow_abbrev=False,
    )
    ledger.add_argument("action", choices=["show", "verify"], help="what to do")
    ledger.add_argument("file", metavar="FILE", help=f"{_PLACE} of the ledger")
    _add_ledger_arguments(ledger)
    commands.add_parser(
        "plugins",
        help="list what other distributions offer",
        description="List the mechanisms, queries and kinds of written forms that installed "
        "distributions offer by entry points, and why some are refused. None of them is imported.",
        allow_abbrev=False,
    )
    calibrate = commands.add_parser(
        "calibrate",
        help="measure on public tables what plans may expect",
        description="Have every mechanism answer questions of tables that everybody may know, and "
        "write down how far off they were and how long they took. Nothing is protected: never give "
        "it a private table. Give it several, since what a plan expects of others comes from how "
        "they differ.",
        allow_abbrev=False,
    )
    _add_calibrate_arguments(calibrate)
    return parser


def _add_calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("tables", type=Path, nargs="+", metavar="TABLE.csv", help="public tables, .csv or .csv.gz")
    add(
        "--domain",
        type=Path,
        action="append",
        required=True,
        dest="domains",
        metavar="DOMAIN.json",
        help="the file of their domain; once for all tables, or once for each",
    )
    add("--out", type=Path, required=True, metavar="FILE", help="a new file to write")
    add(
        "--settings",
        default="3",
        metavar="K",
        help="at how many budgets each question is asked (default 3)",
    )
    add("--encoding", default="utf-8", help="how the tables' text is encoded (default utf-8)")
    add(
        "--delimiter",
        default=",",
        help="the character between two columns; tab and space by name (default a comma)",
    )


def _add_ledger_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key", type=Path, metavar="KEY", help="a file that holds the ledger's key, and no more"
    )
    parser.add_argument(
        "--anchor", type=Path, metavar="ANCHOR", help="the file of the ledger's anchor"
    )
    parser.add_argument(
        "--allow-network",
        action="store_true",
        help="take a ledger on a network file system, whose locks cannot be relied on",
    )
    parser.add_argument(
        "--schema", metavar="SCHEMA", help="where a ledger on a server is (default dpsdk)"
    )


def _add_domain_arguments(domain: argparse.ArgumentParser) -> None:
    for option, names, words, what in (
        ("--boolean", ("NAME",), 1, "an attribute that is true or false"),
        ("--integer", ("NAME", "LOW", "HIGH"), 3, "whole numbers, both ends included"),
        ("--binned", ("NAME", "EDGE"), "+", "reals, cut into bins at these edges"),
        (
            "--date",
            ("NAME", "WORD"),
            "+",
            "ends as 2024-01-31, of hours as 2024-01-31T23:00; then a unit and a zone, if wanted",
        ),
        ("--categorical", ("NAME", "LABEL"), "+", "one of these labels"),
        ("--other", ("LABEL",), 1, "what all other values of the categorical before it become"),
    ):
        domain.add_argument(
            option, action=_Declare, dest="declared", nargs=words, metavar=names, help=what
        )
    domain.add_argument("--out", type=Path, metavar="DOMAIN.json", help="a new file to write")
    domain.add_argument("--check", type=Path, metavar="DOMAIN.json", help="a file to check")
    domain.add_argument(
        "--table", type=Path, metavar="TABLE.csv", help="a table whose column names to check"
    )
    _add_text_arguments(domain)


def _add_text_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--encoding", default="utf-8", help="how the table's text is encoded (default utf-8)"
    )
    parser.add_argument(
        "--delimiter",
        default=",",
        help="the character between two columns; tab and space by name (default a comma)",
    )
    parser.add_argument(
        "--strip", action="store_true", help="drop white space around names and values"
    )


def _add_release_arguments(release: argparse.ArgumentParser) -> None:
    add = release.add_argument
    add("table", type=Path, metavar="TABLE.csv", help="the private table, .csv or .csv.gz")
    add(
        "--domain",
        type=Path,
        required=True,
        metavar="DOMAIN.json",
        help=f"the file of its domain, as {called()} domain makes it",
    )
    add("--out", type=Path, required=True, metavar="DIR", help="a new or empty directory")
    # All numbers are read as text, so that each is the decimal that was typed.
    add("--marginals", default="2", metavar="K", help="attributes per table (default 2)")
    add("--epsilon", required=True, help="the budget's epsilon")
    add("--delta", default="0", help="the budget's delta (default 0)")
    add(
        "--neighbors",
        choices=[relation.value for relation in Neighbors],
        help="which tables must look alike (default replace-one: the number of rows is public; "
        "with --unit add-remove)",
    )
    add("--counts", action="store_true", help="counts of rows, not shares of them")
    add(
        "--beta",
        default="0.05",
        help="the error bound may fail with this probability (default 0.05)",
    )
    add(
        "--outside",
        choices=["cell", "clip"],
        default="cell",
        help="values outside the domain: count nowhere (cell, the default), or move to the "
        "nearest bound (clip)",
    )
    add("--max-rows", metavar="N", help="the table has no more rows than this")
    add("--unit-rows", metavar="K", default="1", help="no person has more rows (default 1)")
    add("--unit", metavar="COLUMN", help="protect persons, whose identifiers are in this column")
    add("--max-rows-per-person", metavar="M", help="with --unit: keep at most M rows of a person")
    add(
        "--distinct",
        action="store_true",
        help="with --unit: rows of a person that are alike count once",
    )
    _add_text_arguments(release)
    add("--decimal", default=".", help="what stands before decimals, . or , (default .)")
    add(
        "--thousands",
        metavar="CHARACTER",
        help="what may stand between groups of three digits, as in 1,000 (default nothing)",
    )
    add(
        "--method",
        choices=["auto", "local", "independent"],
        default="auto",
        help="fit tables one by one with a certificate (local), or add independent noise to each "
        "(independent); auto, the default, fits them for universes of more than 2,097,152 cells "
        "if delta is above 0",
    )
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
    _add_ledger_arguments(release)
    add("--force", action="store_true", help="write into DIR although it holds files")
