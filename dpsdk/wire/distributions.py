"""Distributions are named by a digest of their content, and never written into other values."""

from __future__ import annotations

from hashlib import sha256
from typing import cast

import numpy as np

from dpsdk._checks import shown
from dpsdk.codec import JSON, Codebook, Plain, canonical
from dpsdk.domain import Domain
from dpsdk.errors import WireError
from dpsdk.hypothesis import Distribution

__all__ = ["DIGEST", "DISTRIBUTION", "digest_of", "domain_json"]


def domain_json(domain: Domain) -> list[Plain]:
    """The attributes of a domain as plain values."""
    return cast("list[Plain]", [attribute.to_json() for attribute in domain.attributes])


def digest_of(distribution: Distribution, path: str) -> str:
    """A digest of what a file keeps of a distribution: its kind, its domain, and its numbers.

    Raises
    ------
    WireError
        If its class is not kept in files.
    """
    if not distribution.kind:
        expected = "a distribution of a class that is kept in files"
        raise WireError(path, expected, shown(type(distribution).__name__))
    flags, arrays = distribution.parts()
    head: JSON = {
        "distribution": str.__str__(distribution.kind),
        "flags": cast("JSON", dict(flags)),
        "domain": domain_json(distribution.domain),
        "arrays": {name: [str(array.dtype), len(array)] for name, array in arrays.items()},
    }
    digest = sha256(canonical(head))
    for name in sorted(arrays):
        array = arrays[name]
        # Nought has two signs, which count as equal.
        plain = array + 0.0 if array.dtype.kind == "f" else array
        digest.update(np.ascontiguousarray(plain, dtype=array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


class _Digest:
    """A digest of SHA-256 in hexadecimal digits."""

    def write(self, value: str, path: str, codebook: Codebook, /) -> Plain:
        return self.read(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> str:
        del codebook
        if type(plain) is not str or len(plain) != 64 or set(plain) - set("0123456789abcdef"):
            got = shown(plain) if isinstance(plain, str) else type(plain).__name__
            raise WireError(path, "a digest of 64 hexadecimal digits", got)
        return plain

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        return {"type": "string", "pattern": r"^[0-9a-f]{64}(?![\s\S])"}


DIGEST = _Digest()
"""A digest, as `dpsdk.wire.digest` gives it."""


class _Distribution:
    """A distribution that the reader was handed, by its digest."""

    def write(self, value: Distribution, path: str, codebook: Codebook, /) -> Plain:
        del codebook
        return digest_of(value, path)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Distribution:
        digest = DIGEST.read(plain, path, codebook)
        return cast("Distribution", codebook.catalogue.named(digest, path))

    def schema(self, codebook: Codebook, /) -> JSON:
        return DIGEST.schema(codebook)


DISTRIBUTION = _Distribution()
