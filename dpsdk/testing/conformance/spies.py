"""What a plugin's own code runs and calls: generators, forks, and what looks behind the walls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MappingProxyType, ModuleType

import numpy as np
from attrs import Factory, define

from dpsdk.testing.interrupts import PACKAGE

__all__ = ["Seen", "files_of", "spied"]

_EVERY: tuple[str, ...] = ()

_WATCHED: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "random": {
        "random": _EVERY,
        "secrets": _EVERY,
        "uuid": ("uuid1", "uuid4"),
        "os": ("urandom", "getrandom"),
        "posix": ("urandom", "getrandom"),
    },
    "fork": {
        "os": ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen"),
        "posix": ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"),
        "subprocess": _EVERY,
        "multiprocessing": _EVERY,
    },
    "behind": {
        "gc": ("get_objects", "get_referrers", "get_referents"),
        "inspect": (
            "currentframe", "stack", "getmembers", "getmembers_static", "getattr_static",
            "getclosurevars", "trace", "getouterframes", "getinnerframes",
        ),
        "ctypes": _EVERY,
        "sys": ("_getframe", "_current_frames", "settrace", "setprofile"),
        "threading": ("settrace", "setprofile"),
    },
})  # fmt: skip
"""By kind and module which functions are told of: every one where none is named."""


@define
class Seen:
    """What was seen of a plugin's code while it ran."""

    codes: set[CodeType] = Factory(set[CodeType])
    """All of its functions that were called."""
    calls: list[tuple[str, str]] = Factory(list[tuple[str, str]])
    """The kind of what was called, "random", "fork" or "behind", and what and where in words."""

    def of(self, kind: str) -> str:
        """The first call of a kind, empty where there was none."""
        return next((text for one, text in self.calls if one == kind), "")


def files_of(value: object) -> frozenset[str]:
    """The files of whoever wrote the class of a value: of its package, as far as it is loaded.

    Those of the mechanisms of this package for its own.
    """
    roots = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    roots -= {"dpsdk", "builtins", "abc", "typing", "typing_extensions"}
    found: set[str] = set()
    others: set[str] = set()
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(module, ModuleType) or not isinstance(path, str):
            continue
        own = name.partition(".")[0] in roots
        if own or (not roots and path.startswith(f"{PACKAGE}/mechanisms")):
            found.add(path)
        else:
            others.add(path)
    # Of a class that was made in no module, as in a notebook; some of what attrs gives a class says
    # that it is of that class, and is written elsewhere.
    for cls in type(value).__mro__:
        if cls.__module__.partition(".")[0] in roots:
            found |= {
                made.__code__.co_filename
                for made in vars(cls).values()
                if isinstance(made, FunctionType)
                and made.__module__ == cls.__module__
                and not made.__code__.co_filename.startswith("<")
            }
    return frozenset(found - others)


def _watched(module: object, name: str) -> str:
    """The kind of a function by its module and name, empty where nobody asks for it."""
    for kind, modules in _WATCHED.items():
        named = modules.get(str(module))
        if named is not None and (not named or name in named):
            return kind
    return ""


def _profile_again(before: object) -> None:
    """Go on with what profiled before; one in C, as cProfile's, is no function that can be set."""
    sys.setprofile(before if callable(before) else None)
    if before is not None and not callable(before):
        enable = getattr(before, "enable", None)
        if callable(enable):
            enable()


@contextmanager
def spied(files: frozenset[str]) -> Generator[Seen]:
    """What the code in some files runs and calls meanwhile, in any thread that begins now."""
    seen = Seen()

    def note(kind: str, name: str, frame: FrameType) -> None:
        where = f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
        seen.calls.append((kind, f"{name} ({where})"))

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            code = frame.f_code
            if code.co_filename in files:
                seen.codes.add(code)
            elif (
                frame.f_back is not None
                and frame.f_back.f_code.co_filename in files
                and (kind := _watched(frame.f_globals.get("__name__"), code.co_name))
            ):
                note(kind, f"{frame.f_globals.get('__name__')}.{code.co_name}", frame.f_back)
        elif event == "c_call" and frame.f_code.co_filename in files:
            owner: object = getattr(argument, "__self__", None)
            module = getattr(argument, "__module__", None) or type(owner).__module__
            name = str(getattr(argument, "__name__", ""))
            if kind := _watched(module, name):
                note(kind, f"{module}.{name}", frame)

    def told(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            caller: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented
            if caller is not None and caller.f_code.co_filename in files:
                note("random", f"numpy.random.{name}", caller)
            return call(*args, **kwargs)

        return wrapped

    # Written in Cython, of which a profile is told nothing.
    compiled = {
        name: call
        for name, call in vars(np.random).items()
        if callable(call) and not isinstance(call, type) and not name.startswith("_")
    }
    before, others = sys.getprofile(), threading.getprofile()
    try:
        for name, call in compiled.items():
            setattr(np.random, name, told(name, call))
        threading.setprofile(profile)
        sys.setprofile(profile)
        yield seen
    finally:
        _profile_again(before)
        threading.setprofile(others)
        for name, call in compiled.items():
            setattr(np.random, name, call)
