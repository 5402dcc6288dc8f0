"""Descriptions of the tables of a release: CSV on the Web, and data packages.

W3C, "Metadata Vocabulary for Tabular Data", Recommendation of 17 December 2015; and the Data
Package standard, https://datapackage.org, in the words that its versions 1 and 2 share.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from dpsdk._frames import ColumnKind
from dpsdk.errors import InvalidArgument
from dpsdk.publication.about import About
from dpsdk.publication.described import Described, described
from dpsdk.publication.files import TableFile
from dpsdk.publication.statement import Statement
from dpsdk.publication.tables import Column, PublishedTable
from dpsdk.wire import JSON, Plain

__all__ = ["csvw_of", "datapackage_of"]

_CSVW_TYPES: dict[ColumnKind, str] = {
    "text": "string",
    "integer": "integer",
    "number": "double",
    "truth": "boolean",
    "day": "date",
    "time": "dateTime",
}

_CSVW_LABELS: dict[ColumnKind, str] = {"truth": "True|False", "time": "yyyy-MM-ddTHH:mm"}
"""How labels are spelled where values are not."""

_PACKAGE_TYPES = _CSVW_TYPES | {"number": "number", "time": "datetime"}

_MOST_LABELS = 1000
"""Columns of more labels are described without a list of them."""


def csvw_of(
    statement: Statement,
    tables: tuple[PublishedTable, ...],
    files: tuple[TableFile, ...],
    about: About,
    notes: tuple[str, ...],
) -> Described:
    """Describe a table, or a group of them, in the words of CSV on the Web."""
    for file in files:
        if file.parquet:
            raise InvalidArgument("files", "files of CSV, as CSV on the Web describes", file.path)
    head: dict[str, Plain] = {"@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}]}
    said: dict[str, Plain] = {
        "dc:description": f"{about.description or statement.answer} {statement.guarantee}"
    }
    day = None if about.published is None else about.published.isoformat()
    terms = about.license
    given: dict[str, Plain] = {
        "dc:title": about.name,
        "dc:publisher": ", ".join(about.curators) or None,
        "dc:creator": ", ".join(about.authors) or None,
        "dc:license": {"@id": terms} if _is_address(terms) else terms,
        "dc:issued": None if day is None else {"@value": day, "@type": "xsd:date"},
    }
    missing = _add_known(said, given)
    remarks: list[Plain] = [{"note": text} for text in notes]
    said["notes"] = [{"privacy": statement.to_json()}, *remarks]
    parts = [_csvw_table(table, file) for table, file in zip(tables, files, strict=True)]
    if len(parts) == 1:
        part = parts[0]
        content: JSON = head | {"url": part["url"], "dc:title": part["dc:title"]} | said
        content |= {name: value for name, value in part.items() if name not in content}
    else:
        content = {**head, **said, "tables": list[Plain](parts)}
    return described("CSV on the Web", content, missing)


def datapackage_of(
    statement: Statement,
    tables: tuple[PublishedTable, ...],
    files: tuple[TableFile, ...],
    about: About,
    notes: tuple[str, ...],
) -> Described:
    """Describe a data package with a resource for each table."""
    content: dict[str, Plain] = {
        "profile": "data-package",
        "name": _slug(about.name or statement.record.table or "release"),
    }
    publishers: list[Plain] = [{"title": one, "role": "publisher"} for one in about.curators]
    authors: list[Plain] = [{"title": one, "role": "author"} for one in about.authors]
    terms = about.license or ""
    short: dict[str, Plain] = {"name": re.sub(r"[^-A-Za-z0-9._]+", "-", terms), "title": terms}
    address: dict[str, Plain] = {"path": terms}
    licenses: list[Plain] = [address if _is_address(terms) else short]
    given: dict[str, Plain] = {
        "title": about.name,
        "created": None if about.published is None else f"{about.published.isoformat()}T00:00:00Z",
        "licenses": licenses if terms else None,
        "contributors": publishers + authors or None,
    }
    missing = _add_known(content, given)
    answer = about.description or statement.answer
    content["description"] = " ".join([answer, statement.guarantee, *notes])
    content["privacy"] = statement.to_json()
    taken: set[str] = set()
    content["resources"] = [
        _resource(table, file, taken) for table, file in zip(tables, files, strict=True)
    ]
    return described("data package", content, missing)


def _add_known(content: dict[str, Plain], given: dict[str, Plain]) -> list[str]:
    """Add what is known to a description, and return the names of the rest."""
    content |= {name: value for name, value in given.items() if value is not None}
    return [name for name, value in given.items() if value is None]


def _is_address(terms: str | None) -> bool:
    return terms is not None and terms.startswith(("http://", "https://"))


def _listed(column: Column) -> list[str]:
    """Return all labels that a column may hold, none where they are too many or not texts."""
    labels = list(dict.fromkeys(column.labels or ()))
    return labels if len(labels) <= _MOST_LABELS else []


def _csvw_table(table: PublishedTable, file: TableFile) -> dict[str, Plain]:
    columns = table.described(file)
    schema: dict[str, Plain] = {"columns": [_csvw_column(column) for column in columns]}
    if table.keyed:
        schema["primaryKey"] = [_csvw_name(one.name) for one in columns if one.holds == "label"]
    return {
        "url": quote(file.path),
        "dc:title": table.title,
        "dialect": {
            "encoding": "utf-8",
            **_dialect(file),
            "header": True,
            "lineTerminators": ["\n"],
        },
        "tableSchema": schema,
    }


def _dialect(file: TableFile) -> dict[str, Plain]:
    return {"delimiter": file.delimiter, "quoteChar": '"', "doubleQuote": True}


def _csvw_name(header: str) -> str:
    """Return a name that a template of addresses can hold, different for different headers."""
    plain = quote(header, safe="", errors="surrogatepass")
    plain = plain.replace("-", "%2D").replace("~", "%7E").replace(".", "%2E")
    return f"%5F{plain[1:]}" if plain.startswith("_") else plain


def _csvw_column(column: Column) -> JSON:
    kind, label = _CSVW_TYPES[column.kind], column.holds == "label"
    listed = _listed(column)
    least, most = column.least, column.most
    if listed and column.kind == "integer":
        # A list of numbers has no words in this vocabulary, but its ends have.
        least, most = min(map(int, listed)), max(map(int, listed))
    datatype: Plain = kind
    if least is not None and most is not None:
        datatype = {"base": kind, "minimum": least, "maximum": most}
    elif label and column.kind in _CSVW_LABELS:
        datatype = {"base": kind, "format": _CSVW_LABELS[column.kind]}
    elif listed:
        # A regular expression of ECMAScript, in which these characters mean something.
        escaped = [re.sub(r"[\^$\\.*+?()[\]{}|/]", r"\\\g<0>", one) for one in listed]
        datatype = {"base": kind, "format": f"^(?:{'|'.join(escaped)})$"}
    result: dict[str, Plain] = {
        "name": _csvw_name(column.name),
        "titles": column.name,
        "dc:description": column.says,
        "datatype": datatype,
        "required": not column.empty,
    }
    if label and column.empty:
        # An empty label is a label, and no value that is missing.
        result["null"] = []
    return result


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9._]+", "-", plain).strip("-._") or "release"


def _resource(table: PublishedTable, file: TableFile, taken: set[str]) -> JSON:
    columns = table.described(file)
    name = stem = _slug(file.path.rpartition("/")[2].rpartition(".")[0] or file.path)
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    resource: dict[str, Plain] = {
        "name": name,
        "path": file.path,
        "profile": "tabular-data-resource",
        "title": table.title,
    }
    if file.parquet:
        resource |= {"format": "parquet", "mediatype": "application/vnd.apache.parquet"}
        resource["profile"] = "data-resource"
    else:
        resource |= {
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
            "dialect": {**_dialect(file), "lineTerminator": "\n", "header": True},
        }
    schema: dict[str, Plain] = {"fields": [_field(column) for column in columns]}
    schema["missingValues"] = [""]
    if table.keyed:
        schema["primaryKey"] = [one.name for one in columns if one.holds == "label"]
    resource["schema"] = schema
    return resource


def _field(column: Column) -> JSON:
    result: dict[str, Plain] = {
        "name": column.name,
        "type": _PACKAGE_TYPES[column.kind],
        "description": column.says,
    }
    if column.kind == "time":
        result["format"] = f"%Y-%m-%dT%H:%M{'' if column.holds == 'label' else ':%S'}"
    if column.kind == "truth" and column.holds == "label":
        result |= {"trueValues": ["True"], "falseValues": ["False"]}
    constraints: dict[str, Plain] = {}
    if not column.empty:
        constraints["required"] = True
    if column.least is not None and column.most is not None:
        constraints |= {"minimum": column.least, "maximum": column.most}
    if column.labels is not None and len(column.labels) <= _MOST_LABELS:
        listed = [one for one in _listed(column) if one]
        constraints["enum"] = list[Plain](map(int, listed) if column.kind == "integer" else listed)
    if constraints:
        result["constraints"] = constraints
    return result
