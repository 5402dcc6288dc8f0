"""Packages whose names are loaded when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

__all__ = ["lazy_names", "load_all"]


def lazy_names(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        Its full name.
    names
        For each module below it, or by its full name, the names that are found there, with spaces
        between; its own name stands for the module.
    """
    modules = {name: module for module, found in names.items() for name in found.split()}

    def load(name: str) -> object:
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        place = modules[name]
        elsewhere = place.startswith("dpsdk.")
        module = import_module(place if elsewhere else f"{package}.{place}")
        value: object = module if name == place else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return load, listed


def load_all(packages: Iterable[str]) -> None:
    """Load every public name of these packages of dpsdk, so that all classes are registered."""
    for place in packages:
        package = import_module(f"dpsdk.{place}")
        for name in package.__all__:
            getattr(package, name)
