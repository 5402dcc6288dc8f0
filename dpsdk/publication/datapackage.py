"""Data packages: a descriptor of the tables of a release.

The Data Package standard, https://datapackage.org, in the words that its versions 1 and 2 share.
"""

from __future__ import annotations

import re
import unicodedata

from dpsdk._frames import ColumnKind
from dpsdk.publication.about import About
from dpsdk.publication.described import Described, described
from dpsdk.publication.files import TableFile
from dpsdk.publication.statement import Statement
from dpsdk.publication.tables import Column, PublishedTable
from dpsdk.wire import JSON, Plain

__all__ = ["datapackage_of"]

_TYPES: dict[ColumnKind, str] = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "truth": "boolean",
    "day": "date",
    "time": "datetime",
}

_MOST_LABELS = 1000
"""Columns of more labels are described without a list of them."""


def datapackage_of(
    statement: Statement,
    tables: tuple[PublishedTable, ...],
    files: tuple[TableFile, ...],
    about: About,
    notes: tuple[str, ...],
) -> Described:
    """The descriptor of a package with a resource for each table."""
    missing: list[str] = []
    described_as = about.description or statement.answer
    content: dict[str, Plain] = {
        "profile": "data-package",
        "name": _slug(about.name or statement.record.table or "release"),
    }
    given: dict[str, Plain] = {
        "title": about.name,
        "created": None if about.published is None else f"{about.published.isoformat()}T00:00:00Z",
        "licenses": None if about.license is None else [_license(about.license)],
        "contributors": _contributors(about),
    }
    for name, value in given.items():
        if value is None:
            missing.append(name)
        else:
            content[name] = value
    content["description"] = " ".join([described_as, statement.guarantee, *notes])
    content["privacy"] = statement.to_json()
    taken: set[str] = set()
    resources: list[Plain] = []
    for table, file in zip(tables, files, strict=True):
        resources.append(_resource(table, file, taken))
    content["resources"] = resources
    return described("data package", content, missing)


def _contributors(about: About) -> Plain:
    publishers: list[Plain] = [{"title": name, "role": "publisher"} for name in about.curators]
    authors: list[Plain] = [{"title": name, "role": "author"} for name in about.authors]
    return publishers + authors or None


def _license(value: str) -> Plain:
    if value.startswith(("http://", "https://")):
        return {"path": value}
    return {"name": re.sub(r"[^-A-Za-z0-9._]+", "-", value), "title": value}


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
            "dialect": {
                "delimiter": file.delimiter,
                "quoteChar": '"',
                "doubleQuote": True,
                "lineTerminator": "\n",
                "header": True,
            },
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
        "type": _TYPES[column.kind],
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
        listed = [one for one in dict.fromkeys(column.labels) if one]
        whole = column.kind == "integer"
        constraints["enum"] = list[Plain](map(int, listed) if whole else listed)
    if constraints:
        result["constraints"] = constraints
    return result
