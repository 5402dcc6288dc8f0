"""What was charged, in exact amounts and in the floats next to them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsdk._checks import shown
from dpsdk.accounting import Guarantee
from dpsdk.errors import WireError
from dpsdk.wire.answers import MEASURED
from dpsdk.wire.costs import GUARANTEE
from dpsdk.wire.fields import AMOUNT, POSITIVE, refused
from dpsdk.wire.text import JSON, Plain

if TYPE_CHECKING:
    from dpsdk.wire.catalogue import Codebook

__all__ = ["EXACTLY", "RUNS"]


class _Exactly:
    """An amount, exact and as the float next to it: {"exact": "1/3", "float": 0.333}."""

    def write(self, value: Fraction, path: str, codebook: Codebook, /) -> Plain:
        near = MEASURED.write(_near(value), path, codebook)
        return {"exact": AMOUNT.write(value, path, codebook), "float": near}

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Fraction:
        if type(plain) is not dict or plain.keys() != {"exact", "float"}:
            raise refused(path, 'an object of "exact" and "float"', plain)
        exact = AMOUNT.read(plain["exact"], f"{path}.exact", codebook)
        near = MEASURED.read(plain["float"], f"{path}.float", codebook)
        if near != _near(exact):
            raise WireError(f"{path}.float", "the float next to the exact amount", shown(near))
        return exact

    def schema(self, codebook: Codebook, /) -> JSON:
        return {
            "type": "object",
            "properties": {"exact": AMOUNT.schema(codebook), "float": MEASURED.schema(codebook)},
            "required": ["exact", "float"],
            "additionalProperties": False,
        }


def _near(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


EXACTLY = _Exactly()
"""An exact amount beside a float."""


class _Runs:
    """Guarantees, each with how often it was charged."""

    def write(
        self, value: tuple[tuple[Guarantee, int], ...], path: str, codebook: Codebook, /
    ) -> Plain:
        return [
            {"guarantee": GUARANTEE.write(run, path, codebook), "count": count}
            for run, count in value
        ]

    def read(
        self, plain: Plain, path: str, codebook: Codebook, /
    ) -> tuple[tuple[Guarantee, int], ...]:
        if type(plain) is not list:
            raise refused(path, "a list of runs", plain)
        found: list[tuple[Guarantee, int]] = []
        for place, one in enumerate(plain):
            where = f"{path}[{place}]"
            if type(one) is not dict or one.keys() != {"guarantee", "count"}:
                raise refused(where, 'an object of "guarantee" and "count"', one)
            count = POSITIVE.read(one["count"], f"{where}.count", codebook)
            found.append((GUARANTEE.read(one["guarantee"], f"{where}.guarantee", codebook), count))
        return tuple(found)

    def schema(self, codebook: Codebook, /) -> JSON:
        count = POSITIVE.schema(codebook)
        return {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"guarantee": GUARANTEE.schema(codebook), "count": count},
                "required": ["guarantee", "count"],
                "additionalProperties": False,
            },
        }


RUNS = _Runs()
"""What was charged, run by run."""
