"""Features: what is public about a question that says how far off its answer may be."""

from __future__ import annotations

import math
from typing import TypeAlias

from dpsdk.forms import ConvexForm, Form, LinearForm
from dpsdk.forms.facts import Facts, replaces

__all__ = ["FEATURES", "Features", "features_of"]

FEATURES = (
    "strength", "spread", "cells", "universe", "numbers", "blocks", "ways", "replace", "pure",
)  # fmt: skip
"""All features, each a number that a file may give a weight.

`strength` is the decimal logarithm of n·sqrt(2ρ), which of one pure run is that of n·ε; `spread` of
how many rows off noise on each number would be where sqrt(2ρ) is 1, at its median; `cells` of
the number of cells that the attributes asked about have together, `universe` of that of the whole
domain, `numbers` of how many numbers are asked, or coefficients sought, `blocks` of the number of
parts that they come in;
`ways` is how many attributes a part has at the most, `replace` 1 where a row may be exchanged and 0
where it may come or go, `pure` 1 where δ is 0.
"""

Features: TypeAlias = dict[str, float]

_LEAST = 1e-30


def features_of(
    form: Form, facts: Facts, *, rows: int | None, rho: float, spread: float, pure: bool
) -> Features:
    """The features of a form.

    Parameters
    ----------
    rows
        How many rows there are; of a private number, about how many.
    rho
        The ρ of zCDP that all runs take together.
    spread
        How far off noise on each number would be where sqrt(2ρ) is 1, in rows.
    pure
        Whether δ is 0.
    """
    names = form.names if isinstance(form, LinearForm | ConvexForm) else ()
    numbers, blocks, ways = 1, 1, len(names)
    if isinstance(form, ConvexForm):
        numbers = form.dimension
    elif isinstance(form, LinearForm):
        numbers, blocks = form.rows, len(form.blocks)
        ways = max(len(block.names) for block in form.blocks)
    strength = max(rows or 1, 1) * max(math.sqrt(2 * rho), _LEAST)
    return {
        "strength": math.log10(strength),
        "spread": math.log10(max(spread, _LEAST)),
        "cells": sum(math.log10(facts.domain[name].size) for name in names),
        "universe": sum(math.log10(size) for size in facts.domain.shape),
        "numbers": math.log10(numbers),
        "blocks": math.log10(blocks),
        "ways": float(ways),
        "replace": float(replaces(facts.neighbors)),
        "pure": float(pure),
    }
