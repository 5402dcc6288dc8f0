"""The publisher's knowledge of a release, which the release itself does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import cast

from dpsdk._checks import shown, to_name
from dpsdk._records import Attribute, field, frozen
from dpsdk.errors import InvalidArgument

__all__ = ["About"]


def _to_long(name: str, value: object) -> str:
    if type(value) is not str or not value or value.isspace():
        raise InvalidArgument(name, "a non-empty text", shown(value))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(name, "a text that UTF-8 can hold", shown(value)) from None
    return value


def _to_texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgument(name, "a sequence of texts", shown(value))
    return tuple([to_name(name, cast("str", one)) for one in cast("Iterable[object]", value)])


def _is_text(_: object, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None:
        _to_long(attribute.name, value)


def _to_curators(value: Iterable[str]) -> tuple[str, ...]:
    return _to_texts("curators", value)


def _to_authors(value: Iterable[str]) -> tuple[str, ...]:
    return _to_texts("authors", value)


def _to_day(value: date | None) -> date | None:
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    raise InvalidArgument("published", "a date, without a time of the day", shown(value))


def _to_details(value: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidArgument("details", "a mapping of names to texts", shown(value))
    named = ((to_name("details", name), text) for name, text in value.items())
    return MappingProxyType({name: _to_long(f"details[{shown(name)}]", t) for name, t in named})


@frozen(kw_only=True)
class About:
    """The publisher's knowledge of a release. All of it may be left out.

    Parameters
    ----------
    name
        What the published data are called.
    description
        What they are, for readers. Where it is left out, the release says in words what was asked.
    curators
        Who publishes them: agencies, companies.
    authors
        Who wrote the description of the release.
    intended_use
        What they are meant for.
    region
        What region they describe, or whose law applies to them.
    sector
        "Technology", "Healthcare", "Education", "Government", "Energy" or "Finance", the sectors
        that the public registry has.
    published
        The day on which they are first published.
    license
        Under what they may be used: the address of a licence, or its short name, as "CC-BY-4.0".
    details
        Texts for all other fields of the registry, by their names there, as
        {"deployment_model.actors": "..."}; each takes the place of what the release would say.

    Raises
    ------
    InvalidArgument
        Names the parameter that is not what it should be.
    """

    name: str | None = field(default=None, validator=_is_text)
    description: str | None = field(default=None, validator=_is_text)
    curators: tuple[str, ...] = field(default=(), converter=_to_curators)
    authors: tuple[str, ...] = field(default=(), converter=_to_authors)
    intended_use: str | None = field(default=None, validator=_is_text)
    region: str | None = field(default=None, validator=_is_text)
    sector: str | None = field(default=None, validator=_is_text)
    published: date | None = field(default=None, converter=_to_day)
    license: str | None = field(default=None, validator=_is_text)
    details: Mapping[str, str] = field(factory=dict[str, str], converter=_to_details, hash=False)
