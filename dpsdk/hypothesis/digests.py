"""Distributions in written forms: named by a digest of their content, never written out."""

from __future__ import annotations

from hashlib import sha256
from typing import cast

import numpy as np

from dpsdk._checks import shown
from dpsdk.codec import JSON, Codebook, Pattern, Plain, canonical
from dpsdk.errors import WireError
from dpsdk.hypothesis.distribution import Distribution

__all__ = ["DIGEST", "DISTRIBUTION", "digest_of"]

DIGEST = Pattern("[0-9a-f]{64}", "a digest of 64 hexadecimal digits")
"""A digest of SHA-256, as `dpsdk.wire.digest` gives it."""


def digest_of(distribution: Distribution, path: str) -> str:
    """A digest of what a file keeps of a distribution: its kind, its domain, and its numbers."""
    if not distribution.kind:
        expected = "a distribution of a class that is kept in files"
        raise WireError(path, expected, shown(type(distribution).__name__))
    flags, arrays = distribution.parts()
    domain = [attribute.to_json() for attribute in distribution.domain.attributes]
    head: JSON = {
        "distribution": str.__str__(distribution.kind),
        "flags": cast("JSON", dict(flags)),
        "domain": cast("list[Plain]", domain),
        "arrays": {name: [str(array.dtype), len(array)] for name, array in arrays.items()},
    }
    digest = sha256(canonical(head))
    for name in sorted(arrays):
        array = arrays[name]
        # Nought has two signs, which count as equal.
        plain = array + 0.0 if array.dtype.kind == "f" else array
        digest.update(np.ascontiguousarray(plain, dtype=array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


class _Distribution:
    def write(self, value: Distribution, path: str, _: Codebook, /) -> Plain:
        return digest_of(value, path)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Distribution:
        digest = DIGEST.read(plain, path, codebook)
        return cast("Distribution", codebook.catalogue.named(digest, path))

    def schema(self, codebook: Codebook, /) -> JSON:
        return DIGEST.schema(codebook)


DISTRIBUTION = _Distribution()
"""A distribution that the reader was handed, by its digest."""
