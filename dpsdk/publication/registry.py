"""Records for the public registry of deployments of differential privacy.

The registry, its fields and its tiers: OpenDP, "Differential Privacy Deployments Registry",
https://github.com/opendp/deployments-registry-data, after Nanayakkara, Ghazi and Vadhan (2025).
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal, TypeAlias

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import InvalidArgument
from dpsdk.publication.about import About
from dpsdk.publication.described import Described, described
from dpsdk.publication.statement import Statement, at_least
from dpsdk.wire import Plain

__all__ = ["check_about", "registry_of"]

Tier: TypeAlias = Literal[1, 2, 3]


@frozen
class _Field:
    """A field of the registry: its tier, and the only texts that it takes, if they are listed."""

    tier: Tier
    choices: tuple[str, ...] = ()
    required: bool = False


_FIELDS: dict[str, _Field] = {
    "basic.name": _Field(1, required=True),
    "basic.data_curators": _Field(1, required=True),
    "basic.intended_use": _Field(1, required=True),
    "basic.data_product_type": _Field(
        1,
        (
            *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
            *("Interactive API", "SQL queries"),
        ),
        required=True,
    ),
    "basic.data_product_region": _Field(1, required=True),
    "basic.description": _Field(1, required=True),
    "basic.publication_date": _Field(1, required=True),
    "basic.data_product_sector": _Field(
        1, ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
    ),
    "dp_variant.variant_name": _Field(
        2, ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")
    ),
    "dp_variant.data_domain": _Field(3),
    "dp_variant.unprotected_quantities": _Field(3),
    "privacy_loss.privacy_unit": _Field(2),
    "privacy_loss.privacy_unit_details": _Field(3),
    "privacy_loss.privacy_parameters": _Field(2),
    "privacy_loss.privacy_parameters_details": _Field(3),
    "deployment_model.model_name": _Field(
        2, ("Local", "Central", "Shuffle", "Federated", "Varies")
    ),
    "deployment_model.model_name_details": _Field(3),
    "deployment_model.actors": _Field(3),
    "deployment_model.release_type": _Field(2, ("One release", "Many releases")),
    "deployment_model.release_type_details": _Field(3),
    "deployment_model.data_source_type": _Field(2, ("Static", "Dynamic")),
    "deployment_model.data_source_type_details": _Field(3),
    "deployment_model.access_type": _Field(2, ("Interactive", "Non-interactive")),
    "deployment_model.access_type_details": _Field(3),
    "accounting.post_processing": _Field(3),
    "accounting.composition": _Field(3),
    "implementation.preprocessing_and_hyperparameter_tuning": _Field(3),
    "implementation.mechanisms": _Field(3),
    "implementation.justification": _Field(3),
    "administrative.sources": _Field(1),
    "administrative.notes": _Field(1),
    "administrative.registry_authors": _Field(1, required=True),
}
"""All fields of a deployment, in the registry's order."""

_ELSEWHERE = {
    "basic.name": "name",
    "basic.description": "description",
    "basic.data_curators": "curators",
    "basic.intended_use": "intended_use",
    "basic.data_product_region": "region",
    "basic.data_product_sector": "sector",
    "basic.publication_date": "published",
    "administrative.registry_authors": "authors",
}
"""Fields that `About` has parameters for."""

_COMPUTED = "privacy_loss.privacy_parameters"

_REQUIRED = frozenset(
    {"url_slug", *(f"deployment.{name}" for name, one in _FIELDS.items() if one.required)}
)


def registry_of(statement: Statement, about: About, notes: tuple[str, ...]) -> Described:
    """Describe a release by a record for the registry, as a draft."""
    check_about(about)
    known = _of_release(statement, notes) | _of_about(about) | dict[str, Plain](about.details)
    if not statement.record.private:  # whatever anybody says of it
        known["basic.description"] = f"{statement.guarantee} {known['basic.description']}"
    deployment: dict[str, dict[str, Plain]] = {}
    missing: list[str] = []
    slug = _slug(about)
    if slug is None:
        missing.append("url_slug")
    for name in _FIELDS:
        room, _, short = name.partition(".")
        if name in known:
            deployment.setdefault(room, {})[short] = known[name]
        else:
            missing.append(f"deployment.{name}")
    content: dict[str, Plain] = {} if slug is None else {"url_slug": slug}
    content |= {"status": "Draft", "tier": _tier(known), "deployment": dict[str, Plain](deployment)}
    return described("deployments registry", content, missing, _REQUIRED)


def check_about(about: About) -> None:
    """Refuse a sector or a detail that the registry does not have."""
    sectors = _FIELDS["basic.data_product_sector"].choices
    if about.sector is not None and about.sector not in sectors:
        raise InvalidArgument("sector", f"one of {', '.join(sectors)}", shown(about.sector))
    for name, text in about.details.items():
        if name in _ELSEWHERE:
            expected = f"fields without a parameter of their own: give {_ELSEWHERE[name]}"
            raise InvalidArgument("details", expected, shown(name))
        if name == _COMPUTED or name not in _FIELDS:
            listed = [one for one in _FIELDS if one not in _ELSEWHERE and one != _COMPUTED]
            expected = f"texts for fields of the registry: {', '.join(listed)}"
            raise InvalidArgument("details", expected, shown(name))
        choices = _FIELDS[name].choices
        if choices and text not in choices:
            raise InvalidArgument(f"details[{name!r}]", f"one of {', '.join(choices)}", shown(text))


def _of_about(about: About) -> dict[str, Plain]:
    known: dict[str, Plain] = {}
    for name, parameter in _ELSEWHERE.items():
        value: str | date | tuple[str, ...] | None = getattr(about, parameter)
        if isinstance(value, date):
            known[name] = value.isoformat()
        elif value:
            known[name] = list(value) if isinstance(value, tuple) else value
    return known


def _of_release(statement: Statement, notes: tuple[str, ...]) -> dict[str, Plain]:
    """Return what the release itself knows of the registry's fields."""
    record = statement.record
    model = record.answer.stands_for in ("model", "equation")
    table = "" if record.table is None else f" The table: {record.table!r}."
    known: dict[str, Plain] = {
        "basic.description": f"{statement.answer}{table}",
        "basic.data_product_type": "Machine learning model" if model else "Summary statistics",
        "dp_variant.data_domain": _universe(statement.facts.domain, outside=record.outside),
        "dp_variant.unprotected_quantities": _unprotected(statement),
        "privacy_loss.privacy_unit": record.unit,
        "privacy_loss.privacy_unit_details": statement.neighbors,
        "privacy_loss.privacy_parameters_details": _parameters(statement),
        "deployment_model.model_name": "Central",
        "accounting.post_processing": _afterwards(statement, notes),
        "implementation.mechanisms": f"{statement.made} {statement.accuracy}",
        "administrative.notes": _notes(statement),
    }
    if record.composition is not None:
        known["accounting.composition"] = (
            f"All releases on one budget, in the order in which they were asked for, by "
            f"{statement.composition}."
        )
    if record.because:
        reasons = "; ".join(one.text for one in record.because)
        known["implementation.justification"] = f"The mechanism was chosen by a plan: {reasons}."
    budget = record.budget
    if statement.protects and budget is not None:
        known["dp_variant.variant_name"] = "Approximate DP" if budget.delta else "Pure DP"
        parameters: dict[str, Plain] = {"epsilon": at_least(budget.epsilon)}
        if budget.delta:
            parameters["delta"] = at_least(budget.delta)
        known[_COMPUTED] = parameters
    return known


def _parameters(statement: Statement) -> str:
    record = statement.record
    spent = "" if record.after is None else f" After it, {record.after} were spent."
    words = f"This release was charged {record.cost}."
    if record.reused:
        words = "It was given before, and cost nothing this time."
    elif record.cost.free:
        words = "It was free by itself, as what it rests on was paid for before or is public."
    return f"{statement.guarantee} {words}{spent}"


def _afterwards(statement: Statement, notes: tuple[str, ...]) -> str:
    record = statement.record
    said = statement.moved
    if not said and record.source == "measured":
        # Metadata with more cells is of changed values.
        said = "" if notes else "Values are as the mechanism gave them, negative ones too."
    elif not said:
        said = f"Values were {_FROM[record.source]}."
    return " ".join([said, *notes]).strip()


_FROM = {
    "fitted": "fitted to noisy measurements of this and other questions",
    "hypothesis": "read off a public distribution that follows noisy measurements",
}


def _unprotected(statement: Statement) -> str:
    rows = statement.record.rows
    count = "" if rows is None else f"The number of rows, {rows:,}, is public. "
    return f"{count}The attributes and their labels were declared, and are public."


def _notes(statement: Statement) -> str:
    record = statement.record
    digests = f"Digest of the domain: {record.domain}."
    if statement.digest is not None:
        digests = f"Digest of the release's written form: {statement.digest}. {digests}"
    noted = [f"Note: {note}." for note in record.notes]
    return " ".join([f"{digests} Written by {record.made_by}.", *noted])


_MOST_NAMED = 40


def _universe(domain: Domain, *, outside: bool) -> str:
    named = [_spoken(attribute) for attribute in domain.attributes[:_MOST_NAMED]]
    more = len(domain.attributes) - len(named)
    rest = f"; and {more:,} attributes more" if more else ""
    beyond = "; rows outside of that are in a cell of their own" if outside else ""
    return f"Tables of rows with {'; '.join(named)}{rest}{beyond}."


def _spoken(attribute: Attribute) -> str:
    rest = "".join([f" or {extra.value}" for extra in attribute.extras])
    if attribute.ordered:
        ends = f"{attribute.text(0)} to {attribute.text(attribute.known - 1)}"
        return f"{attribute.name} from {ends}{rest}"
    return f"{attribute.name}, one of {attribute.known:,} labels{rest}"


def _tier(known: dict[str, Plain]) -> Tier:
    """Return the highest tier whose fields, and those of the tiers below, are all there."""
    needed = {
        name: one.tier
        for name, one in _FIELDS.items()
        if not name.startswith("administrative") and not name.endswith("_details")
    }
    needed["privacy_loss.privacy_unit_details"] = 3
    lacking = [tier for name, tier in needed.items() if name not in known and tier > 1]
    if 2 in lacking:
        return 1
    return 2 if 3 in lacking else 3


def _slug(about: About) -> str | None:
    """Return the short name for an address by the registry's rule: of name, curators and year."""
    if about.name is None:
        return None
    year = "" if about.published is None else str(about.published.year)
    words = [about.name, "-".join(about.curators), year]
    return "-".join([re.sub(r"\W+", "_", one.lower()) for one in words if one]).replace("_", "-")
