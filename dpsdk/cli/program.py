"""The entry of the command line: from options to arguments of the library, and errors to a line."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from dpsdk import Budget, Domain, Neighbors, Periods, PrivacyUnit
from dpsdk._checks import read_decimal, read_fraction, read_whole, shown, to_count
from dpsdk._records import fields
from dpsdk.cli.declare import declare, described, domain_of, foreign_domain, load
from dpsdk.cli.demo import demo
from dpsdk.cli.describe import Look, describe_table
from dpsdk.cli.files import write_new
from dpsdk.cli.ledgers import LedgerOptions, show, verify
from dpsdk.cli.options import parser
from dpsdk.cli.release import release_tables
from dpsdk.cli.request import USUAL, Request, Wanted
from dpsdk.cli.words import Remark, complain, printable, problem, say
from dpsdk.data.delimited import FileFormat
from dpsdk.data.undeclared import MISSING_TEXTS
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource
from dpsdk.plugins import listed

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, noise: NoiseSource | None = None) -> int:
    """Run one command and return its exit code: 0, 2 if something was refused, 130 if interrupted.

    Parameters
    ----------
    argv
        The arguments, by default those of the process.
    noise
        Where randomness comes from, by default the operating system; another source is for tests.
    """
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "demo":
            demo(noise)
        elif arguments.command == "domain":
            _domain(arguments)
        elif arguments.command == "plugins":
            say(_plugins())
        elif arguments.command == "describe":
            _describe(_look(arguments), noise)
        elif arguments.command == "ledger":
            run = show if arguments.action == "show" else verify
            say(run(_ledger_at(arguments.file, arguments)))
        else:
            _release(_request(arguments), noise)
    except KeyboardInterrupt as error:
        complain(f"dpsdk: {problem(error)}")
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001  # a traceback could quote what a row holds
        complain(f"dpsdk: {problem(_of_options(error, arguments))}")
        return 2
    return 0


def _of_options(error: Exception, arguments: argparse.Namespace) -> Exception:
    """Return the same error, with a parameter that is an option here called as it was given."""
    if not isinstance(error, InvalidArgument):
        return error
    given = vars(arguments)
    for name in (error.parameter, _OTHER_NAMES.get(error.parameter)):
        if name in given:
            return InvalidArgument(_option(name), error.expected, error.got)
    return error


_OTHER_NAMES = {"column": "only", "steps": "step", "budget": "epsilon"}
"""Options that are called otherwise than the parameters of the library are."""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _domain(arguments: argparse.Namespace) -> None:
    source, texts = arguments.source, arguments.missing_texts
    if arguments.check is not None and (arguments.declared or source or texts or arguments.open):
        raise InvalidArgument("--check", "given alone, or not at all", "declarations beside it")
    if source is None and (arguments.step or arguments.leave_out is not None):
        raise InvalidArgument("--step and --leave-out", "given with --from", "no --from")
    attributes = declare(arguments.declared or [])
    if arguments.check is not None:
        domain = load(arguments.check, "--check")
    elif source is not None:
        domain = foreign_domain(source, attributes, arguments.step, arguments.leave_out)
    else:
        domain = domain_of(attributes)
    if texts:
        domain = Domain(*domain, missing_texts=dict.fromkeys([*domain.missing_texts, *texts]))
    if arguments.open:
        domain = domain.open()
    delimiter = _character("--delimiter", arguments.delimiter or ",")
    wanted = FileFormat(delimiter, arguments.encoding or "utf-8", strip=arguments.strip)
    text = described(domain, arguments.table, wanted)
    if arguments.out is not None:
        write_new(arguments.out, f"{domain.to_json()}\n")
    say(text if arguments.check is not None or arguments.out is not None else domain.to_json())


def _plugins() -> str:
    """Tell of all plugins that are installed. None of them is imported."""
    found = listed()
    if not found:
        return "No installed distribution offers anything in a group of entry points of dpsdk."
    parts: list[str] = []
    for (distribution, version), offers in groupby(
        found, key=lambda one: (one.distribution, one.version)
    ):
        plugins = list(offers)
        groups = max(len(one.group) for one in plugins)
        names = max(len(one.name) for one in plugins)
        lines = [f"{distribution or 'a distribution without a name'} {version}".rstrip()]
        for one in plugins:
            lines.append(f"  {one.group:<{groups}}  {one.name:<{names}}  {one.where}".rstrip())
            if one.refused:
                lines.append(f"    refused: it {one.refused}")
        parts.append("\n".join(lines))
    refused = sum(bool(one.refused) for one in found)
    return "\n\n".join([*parts, f"{len(found)} in all, {refused} refused; nothing was imported"])


def _release(request: Request, noise: NoiseSource | None) -> None:
    report = release_tables(request, noise)
    try:
        say(report.removesuffix("\n"))
    except BaseException as error:
        # It was paid for, and is there.
        if not request.dry:
            error.add_note(Remark(f"but all files are in {printable(request.out)}"))
        raise


def _describe(look: Look, noise: NoiseSource | None) -> None:
    report = describe_table(look, noise)
    try:
        say(report)
    except BaseException as error:
        # It was paid for, and is there.
        if look.write is not None and look.write.exists():
            error.add_note(Remark(f"but the domain is in {printable(look.write)}"))
        raise


def _request(arguments: argparse.Namespace) -> Request:
    given = vars(arguments)
    plain: dict[str, Any] = {
        one.name: given[one.name] for one in fields(Request) if one.name in given
    }
    read: dict[str, Any] = {
        name: None if given[name] is None else reader(_option(name), given[name])
        for name, reader in _READERS.items()
    }
    made: dict[str, Any] = {
        "kind": arguments.format,
        "dry": arguments.dry_run,
        "attributes": tuple(arguments.attributes or ()),
        "tables": tuple([_names("--tables", text) for text in arguments.tables or ()]),
        "bins": _bins(arguments),
        "budget": _budget(arguments),
        "unit": _unit(arguments),
        "periods": _periods(arguments.periods),
        "between": _between(arguments.between),
        "header": _header(arguments),
        "ledger": _ledger(arguments),
        "cap": _cap(arguments),
    }
    return Request(**plain | read | made)


def _look(arguments: argparse.Namespace) -> Look:
    if arguments.epsilon is None:
        raise InvalidArgument("--epsilon", "given: all of it is spent", "none")
    given = vars(arguments)
    plain: dict[str, Any] = {
        name: given[name]
        for name in ("table", "unit", "name", "encoding", "strip", "decimal", "write")
    }
    marks: dict[str, Any] = {
        name: None if given[name] is None else _character("", given[name])
        for name in ("delimiter", "thousands")
    }
    most, texts = arguments.max_rows, arguments.missing_texts
    return Look(
        **plain | marks,
        budget=Budget(epsilon=arguments.epsilon, delta=arguments.delta),
        neighbors=None if arguments.neighbors is None else Neighbors(arguments.neighbors),
        max_rows=None if most is None else _whole("--max-rows", most),
        columns=None if arguments.only is None else tuple(arguments.only),
        missing_texts=MISSING_TEXTS if texts is None else tuple(texts),
        steps=dict(arguments.step or ()),
        header=_header(arguments),
        ledger=_ledger(arguments),
        cap=_cap(arguments),
        dry=arguments.dry_run,
    )


def _bins(arguments: argparse.Namespace) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for name, *words in arguments.bins or ():
        edges = [read_decimal(word) for word in words]
        if name in found or not all(edge is not None for edge in edges):
            raise InvalidArgument("--bins", "a name, once, and then numbers", shown([name, *words]))
        found[name] = tuple([float(edge) for edge in edges if edge is not None])
    return found


def _budget(arguments: argparse.Namespace) -> Budget | Wanted:
    given = arguments.epsilon
    if arguments.error is None:
        if given is None:
            raise InvalidArgument("--epsilon", "given, or --error in its place", "neither")
        return Budget(epsilon=given, delta=arguments.delta)
    most = Budget(epsilon=USUAL if given is None else given, delta=arguments.delta)
    return Wanted(_decimal("--error", arguments.error), most, stated=given is not None)


def _header(arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the names of columns that the first line does not hold; none for the domain's."""
    if arguments.columns is None:
        return () if arguments.no_header else None
    if not arguments.no_header:
        raise InvalidArgument("--columns", "given with --no-header", shown(arguments.columns))
    return _names("--columns", arguments.columns)


def _names(option: str, text: str) -> tuple[str, ...]:
    """Read names between commas as in a line of a CSV file."""
    if not text or any(character in text for character in "\r\n"):
        raise InvalidArgument(option, "names of attributes between commas", shown(text))
    try:
        (names,) = csv.reader([text], strict=True)
    except csv.Error:
        expected = "names between commas, in quotes that close"
        raise InvalidArgument(option, expected, shown(text)) from None
    return tuple(names)


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
    try:
        return PrivacyUnit(arguments.unit, max_rows=rows, distinct=arguments.distinct)
    except InvalidArgument as error:
        if error.parameter != "column":
            raise
        raise InvalidArgument("--unit", error.expected, error.got) from None


def _periods(text: str | None) -> Periods | None:
    if text is None:
        return None
    name, equals, width = text.rpartition("=")
    if not equals:
        return Periods(text)
    return Periods(name, width=_whole("--periods", width))


def _between(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not dots:
        expected = "a first and a last time, as in 2026-05-01..2026-05-07"
        raise InvalidArgument("--between", expected, shown(text))
    return first, last


def _ledger(arguments: argparse.Namespace) -> LedgerOptions | None:
    if arguments.ledger is not None:
        return _ledger_at(arguments.ledger, arguments)
    for name in ("key", "anchor", "schema", "allow_network"):
        if getattr(arguments, name):
            raise InvalidArgument(_option(name), "given with --ledger", "no --ledger")
    return None


def _ledger_at(place: str, arguments: argparse.Namespace) -> LedgerOptions:
    given = vars(arguments)
    more = {one.name: given[one.name] for one in fields(LedgerOptions) if one.name != "place"}
    return LedgerOptions(place=place, **more)


def _whole(option: str, text: str) -> int:
    number = read_whole(text)
    if number is None:
        raise InvalidArgument(option, "a whole number", shown(text))
    return to_count(option, number)


def _decimal(option: str, text: str) -> Fraction:
    number = read_fraction(text)
    if number is None:
        raise InvalidArgument(option, "a decimal number, or a fraction as 1/3", shown(text))
    return number


def _beta(option: str, text: str) -> Fraction:
    beta = _decimal(option, text)
    # As the double that it becomes.
    if not 0 < beta < 1 or float(beta) in (0, 1):
        raise InvalidArgument(option, "a number strictly between 0 and 1", text)
    return beta


def _character(_: str, text: str) -> str:
    """Read a character that is given as itself, or by its name if shells make it hard to type."""
    return {"tab": "\t", "\\t": "\t", "space": " "}.get(text, text)


def _neighbors(_: str, text: str) -> Neighbors:
    return Neighbors(text)


_READERS: dict[str, Callable[[str, str], object]] = {
    **dict.fromkeys(("marginals", "max_rows", "unit_rows", "rows"), _whole),
    **dict.fromkeys(("delimiter", "thousands"), _character),
    "beta": _beta,
    "neighbors": _neighbors,
}
"""How options are read that are no texts, paths or switches."""
