"""CSV on the Web: what the W3C's vocabulary says of the tables of a release.

W3C, "Metadata Vocabulary for Tabular Data", Recommendation of 17 December 2015.
"""

from __future__ import annotations

from urllib.parse import quote

from dpsdk._frames import ColumnKind
from dpsdk.errors import InvalidArgument
from dpsdk.publication.about import About
from dpsdk.publication.described import Described, described
from dpsdk.publication.files import TableFile
from dpsdk.publication.statement import Statement
from dpsdk.publication.tables import Column, PublishedTable
from dpsdk.wire import JSON, Plain

__all__ = ["csvw_of"]

_TYPES: dict[ColumnKind, str] = {
    "text": "string",
    "integer": "integer",
    "number": "double",
    "truth": "boolean",
    "day": "date",
    "time": "dateTime",
}

_LABELS: dict[ColumnKind, str] = {"truth": "True|False", "time": "yyyy-MM-ddTHH:mm"}
"""How labels are spelled where values are not."""


def csvw_of(
    statement: Statement,
    tables: tuple[PublishedTable, ...],
    files: tuple[TableFile, ...],
    about: About,
    notes: tuple[str, ...],
) -> Described:
    """The description of a table, or of a group of them."""
    for file in files:
        if file.parquet:
            raise InvalidArgument("files", "files of CSV, as CSV on the Web describes", file.path)
    missing: list[str] = []
    head: dict[str, Plain] = {"@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}]}
    said: dict[str, Plain] = {}
    described_as = about.description or statement.answer
    said["dc:description"] = f"{described_as} {statement.guarantee}"
    given: dict[str, Plain] = {
        "dc:title": about.name,
        "dc:publisher": ", ".join(about.curators) or None,
        "dc:creator": ", ".join(about.authors) or None,
        "dc:license": _license(about.license),
        "dc:issued": None
        if about.published is None
        else {"@value": about.published.isoformat(), "@type": "xsd:date"},
    }
    for name, value in given.items():
        if value is None:
            missing.append(name)
        else:
            said[name] = value
    remarks: list[Plain] = [{"privacy": statement.to_json()}]
    more: list[Plain] = [{"note": text} for text in notes]
    remarks += more
    said["notes"] = remarks
    parts = [_table(table, file) for table, file in zip(tables, files, strict=True)]
    if len(parts) == 1:
        part = parts[0]
        content: JSON = head | {"url": part["url"], "dc:title": part["dc:title"]} | said
        content |= {name: value for name, value in part.items() if name not in content}
    else:
        content = {**head, **said, "tables": list[Plain](parts)}
    return described("CSV on the Web", content, missing)


def _license(value: str | None) -> Plain:
    if value is not None and value.startswith(("http://", "https://")):
        return {"@id": value}
    return value


def _table(table: PublishedTable, file: TableFile) -> dict[str, Plain]:
    columns = table.described(file)
    schema: dict[str, Plain] = {"columns": [_column(column) for column in columns]}
    if table.keyed:
        schema["primaryKey"] = [_name(one.name) for one in columns if one.holds == "label"]
    return {
        "url": quote(file.path),
        "dc:title": table.title,
        "dialect": {
            "encoding": "utf-8",
            "delimiter": file.delimiter,
            "quoteChar": '"',
            "doubleQuote": True,
            "header": True,
            "lineTerminators": ["\n"],
        },
        "tableSchema": schema,
    }


def _name(header: str) -> str:
    """A name that a template of addresses can hold, different for different headers."""
    plain = quote(header, safe="", errors="surrogatepass")
    plain = plain.replace("-", "%2D").replace("~", "%7E").replace(".", "%2E")
    return f"%5F{plain[1:]}" if plain.startswith("_") else plain


def _column(column: Column) -> JSON:
    kind = _TYPES[column.kind]
    datatype: Plain = kind
    if column.least is not None and column.most is not None:
        datatype = {"base": kind, "minimum": column.least, "maximum": column.most}
    if column.holds == "label" and column.kind in _LABELS:
        datatype = {"base": kind, "format": _LABELS[column.kind]}
    result: dict[str, Plain] = {
        "name": _name(column.name),
        "titles": column.name,
        "dc:description": column.says,
        "datatype": datatype,
        "required": not column.empty,
    }
    if column.holds == "label" and column.empty:
        # An empty label is a label, and no value that is missing.
        result["null"] = []
    return result
