"""Written forms: everything public as JSON, and back, strictly.

A service takes queries and mechanisms as data, and hands out releases as data; `dumps` and `loads`
are the two ends of that. Written forms are plain objects of JSON with a format, a version and a
kind. A kind never comes to mean anything else, equal values are written alike, and readers refuse
everything that is not written to the letter, by `WireError`, before anything is looked up or
charged. Kinds are looked up in a `Catalogue` that the program builds: nothing is imported, called
or evaluated by a name in a text.
"""

from dpsdk.codec import (
    AMOUNT,
    ENDLESS,
    FLAG,
    FLOAT,
    INTEGER,
    JSON,
    NAME,
    NATURAL,
    NUMBER,
    NUMBERS,
    POSITIVE,
    TEXT,
    Choice,
    Codebook,
    Field,
    Kind,
    ListOf,
    Member,
    Nested,
    OrNone,
    Plain,
)
from dpsdk.errors import WireError
from dpsdk.queries.base import QUERY
from dpsdk.wire.answers import ReleasedAnswer
from dpsdk.wire.catalogue import Catalogue
from dpsdk.wire.codec import digest, dumps, from_json, loads, schema, to_json
from dpsdk.wire.releases import ReleasedNoise, ReleasedSensitivity, ReleaseRecord

__all__ = [
    "AMOUNT",
    "ENDLESS",
    "FLAG",
    "FLOAT",
    "INTEGER",
    "JSON",
    "NAME",
    "NATURAL",
    "NUMBER",
    "NUMBERS",
    "POSITIVE",
    "QUERY",
    "TEXT",
    "Catalogue",
    "Choice",
    "Codebook",
    "Field",
    "Kind",
    "ListOf",
    "Member",
    "Nested",
    "OrNone",
    "Plain",
    "ReleaseRecord",
    "ReleasedAnswer",
    "ReleasedNoise",
    "ReleasedSensitivity",
    "WireError",
    "digest",
    "dumps",
    "from_json",
    "loads",
    "schema",
    "to_json",
]
