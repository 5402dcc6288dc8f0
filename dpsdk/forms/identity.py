"""Digests that tell linear functions apart, however they were written.

A linear function of a record is a weight on each cell of a universe. Its weights are taken as the
exact numbers that floats are, and those of a product as exact products, never rounded. It is then
written in one way only:

- Attributes that its weights do not depend on are left out.
- Where the rest is a product of one line of weights an attribute, each line is divided by the
  number that leaves integers without a common divisor, of which the first that is not zero is
  positive. Such lines are unique, and so is the number that stands before them.
- Where it is no product, all weights on these attributes are divided together.

An interval of ones is written by its ends; other weights by the places where they change, in order,
little-endian, and the integers from there on. What is written has lengths in front of whatever
could be of several lengths, so that no two functions are written alike. The identity of a function
is the SHA-256 of this and of the names and sizes of the universe's attributes; that of a form is
the SHA-256 of those of its functions, in order. What labels the cells have plays no part: it is for
the domain to say. The heads carry a version, and the meaning of a version never changes.

An interval takes about a microsecond, however large its attribute; other lines take as long as
their weights, and functions that were written out as many steps as they have cells. Factors and
blocks give the texts of their functions, from dpsdk.forms.canonical.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from dpsdk.domain import Domain
from dpsdk.forms.blocks import Block

__all__ = ["of_form", "of_functions"]

_FUNCTIONS = b"dpsdk linear function 1\0"
_FORM = b"dpsdk linear form 1\0"


def of_form(domain: Domain, blocks: Iterable[Block]) -> bytes:
    """The identity of functions in their order, 32 bytes. Raises as `of_functions` does."""
    digest = sha256(_FORM)
    for one in of_functions(domain, blocks):
        digest.update(one)
    return digest.digest()


def of_functions(domain: Domain, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The identity of each function of some blocks that fit the domain, 32 bytes each.

    Raises
    ------
    InvalidArgument
        If a block has a scale that is not finite.
    """
    universe = _universe(domain)
    for block in blocks:
        for text in block.texts([domain.position(name) for name in block.names]):
            yield sha256(universe + text).digest()


def _universe(domain: Domain) -> bytes:
    digest = sha256(_FUNCTIONS)
    for name, size in zip(domain.names, domain.shape, strict=True):
        plain = name.encode("utf-8", "surrogatepass")
        digest.update(b"%x:%b%x;" % (len(plain), plain, size))
    return digest.digest()
