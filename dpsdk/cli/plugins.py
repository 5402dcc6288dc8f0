"""What the command `plugins` prints: what other distributions offer, and what of it is refused."""

from __future__ import annotations

from itertools import groupby

from dpsdk.plugins import Plugin, listed

__all__ = ["plugins"]


def plugins() -> str:
    """A text of all plugins that are installed. None of them is imported."""
    found = listed()
    if not found:
        return "No installed distribution offers anything in a group of entry points of dpsdk."
    parts = [
        _part(distribution, version, list(offers))
        for (distribution, version), offers in groupby(
            found, key=lambda one: (one.distribution, one.version)
        )
    ]
    refused = sum(bool(one.refused) for one in found)
    return "\n\n".join([*parts, f"{len(found)} in all, {refused} refused; nothing was imported"])


def _part(distribution: str, version: str, offers: list[Plugin]) -> str:
    header = f"{distribution or 'a distribution without a name'} {version}".rstrip()
    columns = [[one.group for one in offers], [one.name for one in offers]]
    groups, names = (max(map(len, column)) for column in columns)
    lines = [header]
    for one in offers:
        lines.append(f"  {one.group:<{groups}}  {one.name:<{names}}  {one.where}".rstrip())
        if one.refused:
            lines.append(f"    refused: it {one.refused}")
    return "\n".join(lines)
