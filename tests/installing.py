"""Distributions for tests: the metadata that an installer writes, beside a package or alone."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

PLUGIN = Path(__file__).parent / "plugin"
"""The folder of the distribution acme-dp."""

Entries = Mapping[str, Mapping[str, str] | Iterable[tuple[str, str]]]


def written(
    site: Path,
    name: str,
    entries: Entries | str,
    *,
    version: str = "1.0",
    folder: str | None = None,
    metadata: str | None = None,
    **modules: str,
) -> Path:
    """Write a distribution into a folder on the path, with modules, as if it were installed."""
    called = name.replace("-", "_") if folder is None else folder
    info = site / f"{called}-{version}.dist-info"
    info.mkdir(parents=True)
    told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(told if metadata is None else metadata, "utf-8")
    text = entries if isinstance(entries, str) else _sections(entries)
    (info / "entry_points.txt").write_text(text, "utf-8")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, "utf-8")
    importlib.invalidate_caches()
    return info


def _sections(entries: Entries) -> str:
    lines: list[str] = []
    for group, found in entries.items():
        pairs = found.items() if isinstance(found, Mapping) else found
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in pairs)]
    return "\n".join([*lines, ""])


def acme(site: Path) -> Path:
    """Write the metadata of acme-dp, as its pyproject.toml has them."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text("utf-8"))["project"]
    return written(site, project["name"], project["entry-points"], version=project["version"])
