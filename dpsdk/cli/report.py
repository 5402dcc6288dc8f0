"""A report of a release for people, a summary for programs, and descriptions for hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version

from dpsdk import Session
from dpsdk.accounting.numbers import as_bound, certainty
from dpsdk.cli.prices import Made
from dpsdk.cli.request import Request, Wanted
from dpsdk.cli.tables import Step, TableFormat, step_of
from dpsdk.cli.words import printable
from dpsdk.forms import Facts
from dpsdk.publication import About, Described, TableFile
from dpsdk.release import Bound, Note

__all__ = [
    "SUMMARY",
    "about_table",
    "bounded",
    "description_names",
    "descriptions_of",
    "installed_version",
    "noted",
    "report_of",
    "summary_of",
]

FORMAT = "dpsdk.tables"
VERSION = 1

SUMMARY = "release.json"
"""The file that says that all others are complete."""

REGISTRY, CSVW, PACKAGE = "metadata.json", "csv-metadata.json", "datapackage.json"

_COVERS = "all entries of all tables at once"

_ROUNDED = (
    "Values are rounded to a power of ten that is a tenth of their error at the most; the errors "
    "in the files include that."
)


def installed_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("dpsdk")
    except PackageNotFoundError:
        return "of a source tree"


def description_names(kind: TableFormat) -> tuple[str, ...]:
    """Return what the files are called that describe tables of a format."""
    return (REGISTRY, CSVW, PACKAGE) if kind == "csv" else (REGISTRY, PACKAGE)


def descriptions_of(
    request: Request, made: Made, names: Sequence[str], steps: Sequence[Step], about: About
) -> dict[str, Described]:
    """Return descriptions for the registry and of the tables, by the names of their files.

    `names` and `steps` are the file of each table, and the grid on which its numbers are written.
    """
    metadata = made.release.metadata(float(request.beta))
    guards = request.kind == "csv"
    files = [TableFile(name, ("value", "error"), guards=guards) for name in names]
    notes = () if all(step.places is None for step in steps) else (_ROUNDED,)
    # What a release says of its tables it says by itself.
    unit = f"Values and errors are {'numbers of rows' if request.counts else 'shares of the rows'}."
    described = {
        REGISTRY: metadata.to_registry(about, notes=(unit, *notes)),
        PACKAGE: metadata.to_datapackage(*files, about=about, notes=notes),
    }
    if request.kind == "csv":
        described[CSVW] = metadata.to_csvw(*files, about=about, notes=notes)
    return described


def summary_of(
    request: Request,
    session: Session,
    made: Made,
    names: Sequence[str],
    steps: Sequence[Step],
    described: Mapping[str, Described],
) -> dict[str, object]:
    """Return all that was released, with values as they are, as plain data."""
    facts, bound, release = session.facts, made.bound, made.release
    wanted = request.budget if isinstance(request.budget, Wanted) else None
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"dpsdk {installed_version()}",
        "private": release.private,
        "data": {
            "name": request.label,
            "neighbors": facts.neighbors.value,
            "rows": facts.rows,
            "unit_rows": facts.unit_rows,
            "protects": facts.unit,
            **_time_of(facts),
            "outside": request.outside,
            "domain": json.loads(facts.domain.to_json()),
        },
        "budget": {
            "epsilon": _exact(session.budget.epsilon),
            "delta": _exact(session.budget.delta),
            "share_spent": session.spent.fraction,
        },
        "mechanism": made.mechanism,
        "cost": {made.kind: _exact(made.price), "text": str(made.cost)},
        "unit": _unit(request),
        "error": {
            "bound": bound.error,
            "beta": bound.beta,
            "covers": _COVERS,
            "kind": bound.kind,
            "proven": bound.proven,
            "vacuous": bound.vacuous,
            **({} if wanted is None else {"wanted": _exact(wanted.error)}),
        },
        "tables": [
            {
                "attributes": list(table.names),
                "file": name,
                "shape": list(table.values.shape),
                "values": table.values.ravel().tolist(),
                "written": {"step": float(step.size), "error": step.stated},
                **_rested(made, place),
            }
            for place, (name, table, step) in enumerate(
                zip(names, release.value, steps, strict=True)
            )
        ],
        "notes": [str(note) for note in release.notes],
        "left_out": {name: list(one.missing) for name, one in described.items()},
    }


def _time_of(facts: Facts) -> dict[str, str]:
    """Return the rule of periods in words, and the time that was released."""
    if facts.periods is None:
        return {}
    when = facts.domain[facts.periods.attribute]
    return {
        "periods": facts.period_rule,
        "between": f"{when.text(0)}..{when.text(when.known - 1)}",
    }


def _exact(number: Fraction) -> dict[str, float | str]:
    return {"value": float(number), "exact": str(number)}


def _unit(request: Request) -> str:
    return "rows" if request.counts else "share of the rows"


def _rested(made: Made, place: int) -> dict[str, object]:
    """Return what one table rests on, where each has bounds of its own."""
    if made.listed is None:
        return {}
    one = made.listed[place]
    return {
        "source": one.source,
        "error": made.errors[place],
        "total_variation": one.total_variation,
    }


def about_table(request: Request, made: Made, step: Step) -> dict[str, str]:
    """Return what a file of one table says of it, by name."""
    about = {
        "made_by": f"dpsdk {installed_version()}",
        "private": made.release.private,
        "data": request.label,
        "unit": _unit(request),
        "mechanism": made.release.mechanism,
        "cost": str(made.cost),
        "beta": made.bound.beta,
        "covers": _COVERS,
        "step": float(step.size),
    }
    return {"dpsdk": json.dumps(about, ensure_ascii=False)}


def bounded(request: Request, bound: Bound, step: Step, *, verb: str = "is", more: str = "") -> str:
    """Tell how far off entries are, and how far as they are written on the grid of a step."""
    unit = " rows" if request.counts else ", as a share of the rows"
    vacuous = "\n  (vacuous: no more than is known without data)" if bound.vacuous else ""
    text = (
        f"With probability {certainty(bound.beta)}, no entry {verb} off by more than "
        f"{as_bound(bound.error)}{unit}.{vacuous}"
    )
    if step.places is None:
        return text
    return (
        f"{text}\nAs they are written, rounded to {float(step.size):g}{more}, none {verb} off by "
        f"more than {step.stated:g}."
    )


def report_of(
    request: Request, session: Session, made: Made, described: Mapping[str, Described]
) -> str:
    """Tell people what was released, how far off it is and what it cost."""
    release, bound = made.release, made.bound
    tables = len(release.value)
    entries = sum(table.values.size for table in release.value)
    step = step_of(bound.error, request.digits, made.unit)
    more = "" if made.listed is None else " or less"
    seeded = "" if release.private else "\nNOT PRIVATE: made with seeded noise."
    remembered = (
        "Nothing is remembered between runs: what another run on this table spends comes on top."
        if request.ledger is None
        else f"{request.ledger.label} remembers that, for the table {request.label!r}."
    )
    # What whoever publishes the tables may say of them, since the release does not know.
    missing = [f"{len(one.missing)} of {name}" for name, one in described.items() if one.missing]
    left = f"Fields left for you to fill in, as by --about: {', '.join(missing)}; {SUMMARY} lists"
    return (
        f"{tables:,} table{'s' if tables > 1 else ''} with {entries:,} entries in "
        f"{printable(request.out)}\n"
        f"{bounded(request, bound, step, more=more)}\n"
        f"{_variation(made)}"
        f"{noted(release.notes)}"
        f"cost: {made.cost}, by {release.mechanism}\n"
        f"{_spent(request, session, made)}\n"
        f"{session!r}{seeded}\n"
        f"{remembered}\n" + (f"{left} them.\n" if missing else "")
    )


def noted(notes: Sequence[Note]) -> str:
    """Tell what the numbers are of; about the option as it is called on the command line."""
    texts = [str(note).replace('outside="apart"', "--outside apart") for note in notes]
    return "".join([f"note: {printable(text)}\n" for text in texts])


def _variation(made: Made) -> str:
    if made.listed is None:
        return ""
    looser = (
        "Tables were fitted, and are nearer in sum than with independent noise; but the bound of "
        "one\nentry follows from that of its whole table, and may be ten times looser: --method "
        "independent\nbounds each entry by its own noise.\n"
    )
    known = [one.total_variation for one in made.listed if one.total_variation is not None]
    if not known:
        return looser
    mean = sum(known) / len(known)
    return (
        f"Together with that, the total variation of each table is bounded, by {as_bound(mean)} in "
        f"the mean\nand {as_bound(max(known))} at the most; {SUMMARY} has both bounds of each "
        f"table.\n"
        f"{looser}"
    )


def _spent(request: Request, session: Session, made: Made) -> str:
    share = session.spent.fraction
    of = "" if session.facts.periods is None else ", of the most spent period"
    if request.cap is not None:
        return f"{100 * share:.7g}% of {session.budget} is spent, by all runs on the ledger{of}."
    if isinstance(request.budget, Wanted):
        error = request.budget.words
        return f"{session.budget} is the least budget, to six digits, for an error of {error}."
    if share >= 1:
        return f"The whole of {session.budget} is spent."
    rest = "" if made.listed is not None else "; no run with less Gaussian noise fits"
    return f"{100 * share:.7g}% of {session.budget} is spent{of}{rest}."
