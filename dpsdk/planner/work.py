"""The work of planning, counted before anything is tried, so that plans are equal everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from attrs import evolve

from dpsdk.errors import TooLarge
from dpsdk.forms import LinearForm
from dpsdk.planner.family import Family
from dpsdk.planner.reasons import reason
from dpsdk.planner.shape import Shape

if TYPE_CHECKING:
    from dpsdk.kernel import Limits

__all__ = ["affordable", "check_work"]

_STEPS: Final = 2**29
"""Planning takes so many steps where `limits=` does not say more: about two seconds."""

_SECOND: Final = 2**28
_BYTES: Final = 2**28
_BYTES_A_NUMBER: Final = 128

_AMOUNTS: Final = 12
_FEW_AMOUNTS: Final = 7
"""How many amounts of a family are tried, and of a slow one."""

_TOLD_APART: Final = 400
"""Steps to tell one number of a goal from all others."""


class _Counts(NamedTuple):
    """Steps of one trial: for each number, block, part of a table, cell, and pair of attributes."""

    number: int = 4
    block: int = 1500
    part: int = 0
    cell: int = 0
    pair: int = 0


_PLAIN: Final = _Counts()
_COUNTS: Final = {
    "projection": _Counts(40, 5000),
    "tree": _Counts(500, 1500, 0, 50),
    "square-root": _Counts(500, 1500, 0, 50),
    "noisy-histogram": _Counts(10, 25_000),
    "residual-planner": _Counts(10, 1500, 3000),
    "local-marginals": _Counts(4, 5000),
    "mwem": _Counts(4, 60_000),
    "mwem+records": _Counts(4, 60_000, pair=10_000),
    "online-pmw": _Counts(22, 12_000),
    "online-pmw+records": _Counts(22, 12_000, pair=10_000),
}
"""By the code of the family, or that up to a plus sign; measured, and rounded up."""


def _steps(counts: _Counts, shape: Shape) -> int:
    form = shape.form
    steps = counts.number * form.rows + counts.block * len(form.blocks)
    if counts.part:
        steps += counts.part * sum([2 ** len(block.names) for block in form.blocks])
    steps += counts.pair * math.comb(len(shape.sizes), 2)
    return steps + counts.cell * shape.cells if counts.cell else steps


def _allowed(limits: Limits | None) -> tuple[int, int]:
    if limits is None:
        return _STEPS, _BYTES
    return max(_STEPS, math.floor(limits.seconds * _SECOND)), max(_BYTES, limits.bytes)


def check_work(what: str, forms: Sequence[object], limits: Limits | None) -> None:
    """Refuse to plan what is more than plain noise could be tried for."""
    # One that is never written out is answered by a choice, which takes no planning.
    linear = [form for form in forms if type(form) is LinearForm]
    most, size = _allowed(limits)
    advice = "ask for fewer at once, name a mechanism with using=, or raise limits="
    numbers, blocks = sum([form.rows for form in linear]), sum([len(one.blocks) for one in linear])
    if _BYTES_A_NUMBER * numbers > size:
        limit = size // _BYTES_A_NUMBER
        raise TooLarge(f"planning {what}", numbers, limit, "numbers", advice)
    steps = 2 * _FEW_AMOUNTS * (_PLAIN.number * numbers + _PLAIN.block * blocks)
    steps += _TOLD_APART * numbers if len(forms) > 1 else 0
    if steps > most:
        raise TooLarge(f"planning {what}", steps, most, "steps", advice)


def affordable(
    families: Iterator[Family], shape: Shape, limits: Limits | None, parts: int
) -> Iterator[Family]:
    """Return the families, plain noise first, barred from where the work would be too much.

    One that cannot be tried with all amounts is tried with a few. The work is divided into so many
    equal `parts`, of which this is one.
    """
    left = most = _allowed(limits)[0] // parts
    for family in families:
        alike = _COUNTS.get(family.code.partition("+")[0], _PLAIN)
        steps = _steps(_COUNTS.get(family.code, alike), shape)
        needed = steps * (_FEW_AMOUNTS if family.slow else _AMOUNTS)
        if family.barred is None and needed > left:
            needed = steps * _FEW_AMOUNTS
            barred = needed > left
            why = reason("too-much-planning", steps=f"{needed:,}", limit=f"{most:,}")
            family = evolve(family, slow=True, barred=why if barred else None)  # noqa: PLW2901
        if family.barred is None:
            left -= needed
        yield family
